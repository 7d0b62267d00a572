"""Figures of the chapter."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib import selective
from lib.plot import COLOURS, MARKERS, new_figure
from lib.studies.beyond.six_lenses.lens_audits import LabelEvidence, RecordAudit
from lib.studies.beyond.six_lenses.views import DROP, Abstention


def plot_abstention(found: Abstention) -> Figure:
    """Selective accuracy against coverage of both models, and the best possible."""
    figure, ax = new_figure()
    for colour, (name, curve) in zip(COLOURS, found.curves.items(), strict=False):
        ax.plot(curve.coverage, curve.accuracy, color=colour, marker="", label=name)
        bound = selective.accuracy_bound(curve.full_accuracy, curve.coverage)
        ax.plot(curve.coverage, bound, color=colour, marker="", linewidth=1, linestyle=":")
    ax.axhline(found.target, color="0.5", linewidth=1, linestyle="--")
    least = min(curve.accuracy[len(curve.accuracy) // 5 :].min() for curve in found.curves.values())
    ax.set(xlabel="coverage", ylabel="selective accuracy", ylim=(least - 0.01, 1.003))
    ax.legend(loc="lower left")
    return figure


def plot_populations(table: pd.DataFrame, margin: float) -> Figure:
    """Drop in accuracy on the images at hand of each population, and what the filter said."""
    figure, ax = new_figure(height=0.5 + 0.34 * len(table))
    places = np.arange(len(table))[::-1]
    for k, word in enumerate(("SUITABLE", "INCONCLUSIVE")):
        rows = (table["decision"] == word).to_numpy()
        drop = table.loc[rows, DROP]
        error = np.stack([drop - table.loc[rows, "low"], table.loc[rows, "high"] - drop])
        ax.errorbar(
            drop, places[rows], xerr=error, color=COLOURS[k], marker=MARKERS[k], ls="", label=word
        )
    ax.scatter(
        table["estimated drop"], places, color="0.3", marker="|", s=80, label="estimated drop"
    )
    ax.axvline(margin, color="0.5", linewidth=1, linestyle="--")
    names = [
        f"{row.shift} {row.severity:g}".replace("gaussian_", "") if row.severity else "as they are"
        for row in table.itertuples()
    ]
    ax.set_yticks(places, names)
    ax.set_xlabel("drop in accuracy")
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.24 * 8 / (len(table) + 1)), ncols=1)
    return figure


def plot_ladder(
    record: RecordAudit, inside: pd.DataFrame, broken: pd.DataFrame, labels: LabelEvidence
) -> Figure:
    """What attacks show, what they could show at most, and what is proven, on one axis."""
    rows: list[tuple[str, float, float, float]] = [
        ("record, from outside", record.lower(), record.ceiling, record.result.proven)
    ]
    for table, words in ((inside, "one run"), (broken, "broken")):
        by_name = table.set_index("statement")[["known", "could show", "proven"]]
        for statement, rests_on in (
            ("one_run", "no hypothesis"),
            ("gaussian", "Gaussian"),
            ("steps", "form"),
        ):
            rows.append((f"{words}, {rests_on}", *map(float, by_name.loc[statement])))
    rows += [
        ("label", labels.lower(), labels.ceiling, labels.private.claimed),
        ("label, no privacy", labels.lower("plain"), labels.ceiling, np.nan),
    ]
    figure, ax = new_figure(height=0.9 + 0.27 * len(rows))
    places, most = np.arange(len(rows))[::-1], 1.3 * max(row[3] for row in rows[:-1])
    for k, name in enumerate(("shown", "shown at most", "proven"), start=1):
        look = {"color": COLOURS[k - 1], "ls": "", "zorder": 6 - k}  # what is shown is on top
        values = np.array([row[k] for row in rows])
        on, beyond = values <= most, np.isfinite(values) & (values > most)
        ax.plot(values[on], places[on], marker=MARKERS[k - 1], label=name, **look)
        edge = np.full(beyond.sum(), most * (1 - 0.03 * (k - 1)))
        ax.plot(edge, places[beyond], marker=">", **look)
    ax.set_yticks(places, [row[0] for row in rows])
    ax.set(xlabel="epsilon", xlim=(-0.03 * most, 1.03 * most), ylim=(-0.5, len(rows) - 0.5))
    figure.legend(loc="outside lower center", ncols=3, columnspacing=1)
    return figure


def plot_differences(table: pd.DataFrame) -> Figure:
    """Intervals for the difference of two models over draws of their abstentions."""
    figure, ax = new_figure(height=3.0)
    order = np.arange(len(table))
    for k, (prefix, name) in enumerate((("known_", "propensities told"), ("", "fitted"))):
        x, look = order + 0.3 * k, {"color": COLOURS[k], "linewidth": 1.2}
        ax.vlines(x, table[f"{prefix}low"], table[f"{prefix}high"], **look)
        # A value may be outside what is possible, and so beside its interval.
        ax.plot(x, table[f"{prefix}value"], marker=MARKERS[k], ls="", label=name, ms=4, **look)
    ax.plot(order, table["selective"], color=COLOURS[2], marker=MARKERS[2], ls="", label="as seen")
    ax.axhline(table["oracle"].iloc[0], color="0.3", linewidth=1, linestyle="--")
    ax.set(xlabel="draw of the abstentions", ylabel="private minus plain")
    ax.set_xticks(order[:: max(1, len(order) // 5)])
    figure.legend(loc="outside lower center", ncols=3, columnspacing=1, handletextpad=0.4)
    return figure
