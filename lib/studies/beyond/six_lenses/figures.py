"""Figures of the chapter."""

from collections.abc import Sequence

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


def plot_ladder(record: RecordAudit, broken: RecordAudit, labels: LabelEvidence) -> Figure:
    """What attacks show, what they could show at most, and what is proven, on one axis."""
    rows: Sequence[tuple[str, float, float, float]] = (
        ("record", record.lower(), record.ceiling, record.result.proven),
        ("record, broken", broken.lower(), broken.ceiling, broken.result.proven),
        ("label", labels.lower(), labels.ceiling, labels.private.claimed),
        ("label, no privacy", labels.lower("plain"), labels.ceiling, np.nan),
    )
    figure, ax = new_figure(height=2.8)
    places = np.arange(len(rows))[::-1]
    for k, name in enumerate(("shown", "shown at most", "proven"), start=1):
        values = np.array([row[k] for row in rows])
        ax.plot(values, places, color=COLOURS[k - 1], marker=MARKERS[k - 1], ls="", label=name)
    ax.set_yticks(places, [row[0] for row in rows])
    ax.set(xlabel="epsilon", xlim=(-0.5, None), ylim=(-0.5, len(rows) - 0.5))
    ax.legend(loc="upper center", bbox_to_anchor=(0.3, -0.25), ncols=3, columnspacing=1)
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
