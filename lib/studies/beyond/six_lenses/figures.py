"""Figures of the chapter."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lib import selective
from lib.plot import COLOURS, MARKERS, new_figure, panels
from lib.studies.beyond.six_lenses.inside import STATEMENTS
from lib.studies.beyond.six_lenses.lens_audits import HEADLINE
from lib.studies.beyond.six_lenses.views import DROP, Abstention
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, head_rows, percent, words_above


def plot_abstention(found: Abstention) -> Figure:
    """Selective accuracy against coverage of both models, and the best possible."""
    figure, ax = new_figure()
    words = dict(zip(found.curves, COLOURS, strict=False))
    for name, curve in found.curves.items():
        line = {"color": words[name], "marker": ""}
        ax.plot(curve.coverage, curve.accuracy, **line)
        bound = selective.accuracy_bound(curve.full_accuracy, curve.coverage)
        ax.plot(curve.coverage, bound, linewidth=1, linestyle=":", **line)
    ax.axhline(found.target, color="0.5", linewidth=1, linestyle="--")
    least = min(curve.accuracy[len(curve.accuracy) // 5 :].min() for curve in found.curves.values())
    ax.set(xlabel="coverage", ylabel="selective accuracy", ylim=(least - 0.01, 1.003))
    said = abstention_headline(found.target, found.threshold, found.coverage[0])
    head(ax, said, words | {". . . best order": "0.4", "- - target": "0.4"})
    return figure


def abstention_headline(target: float, threshold: float, coverage: float) -> str:
    """How much a model answers that asks for an accuracy, in words."""
    if np.isinf(threshold):
        return f"No threshold promises the private model\nto be right {target:.1%} of the time"
    return f"To be right {target:.1%} of the time\nthe private model answers {percent(coverage)}"


def populations_headline(table: pd.DataFrame) -> str:
    """How many populations the filter accepts, of those whose drop is clear."""
    accepted, parts = table["decision"] == "SUITABLE", []
    for truth in ("suitable", "unsuitable"):
        of = (table["truth"] == truth).to_numpy()
        parts.append(f"{(accepted & of).sum()} of {of.sum()} clearly {truth}")
    return f"The filter accepts {parts[0]}\npopulations, {parts[1]} ones"


@draws("six_lenses", "populations")
def draw_populations(run: Run) -> Drawn:
    """Draw the drop on the images of each population, and what the filter said."""
    table, margin = run.tables["populations"], run.parameters["margin"]
    figure, ax = new_figure(height=0.9 + 0.25 * len(table))
    places, colors = np.arange(len(table))[::-1], dict(zip(_SAID, COLOURS, strict=False))
    for k, (word, color) in enumerate(colors.items()):
        rows = (table["decision"] == word).to_numpy()
        drop = table.loc[rows, DROP]
        error = np.stack([drop - table.loc[rows, "low"], table.loc[rows, "high"] - drop])
        look = {"fmt": MARKERS[k], "color": color, "elinewidth": 1}
        ax.errorbar(drop, places[rows], xerr=error, **look)
    ax.scatter(table["estimated drop"], places, color="0.3", marker="|", s=80)
    ax.axvline(margin, color="0.5", linewidth=1, linestyle="--")
    ax.annotate(" margin", (margin, places[0]), color="0.4", fontsize=9, va="center")
    names = [
        f"{row.shift} {row.severity:g}".replace("gaussian_", "") if row.severity else "as they are"
        for row in table.itertuples()
    ]
    ax.set_yticks(places, names)
    ax.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.4g}")
    ax.set_xlabel("drop in accuracy (points)")
    words_above(ax, colors | {"| estimated drop": "0.3"})
    headline = populations_headline(table)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"A row per population: its drop in accuracy, and the estimated one. {headline}.",
        "Drop in accuracy on these images, with 95% intervals; color and marker: what the filter "
        "said. Clearly: by all of the interval.",
    )


_SAID = ("SUITABLE", "INCONCLUSIVE")


#: What readers call the attacks from inside one run, by what their statements rest on.
_RUNGS = dict(
    zip(
        STATEMENTS.values(),
        ("inside, no hypothesis", "inside, if Gaussian", "and independent", "inside, known form"),
        strict=True,
    )
)


def ladder(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What attacks on a record show, could show and what is proven: training, and control.

    Index: the attack.  Columns ``shown``, ``most`` and ``proven``.
    """
    outside = run.tables["audit"].set_index("attack").loc[HEADLINE, ["at least", "claimed"]]
    inside, both = run.tables["inside"], []
    for claimed in (True, False):
        rows = inside[(inside["noise"] == "as claimed") == claimed]
        rungs = rows.set_index("rests on")[["known", "could show", "proven"]].rename(index=_RUNGS)
        record = outside["at least"], run.values["ceiling"], outside["claimed"]
        if not claimed:  # no such training was attacked from outside
            record = (np.nan,) * 3
        above = pd.DataFrame({"from outside": record}, index=rungs.columns).T.astype(float)
        both.append(pd.concat([above, rungs]).set_axis(["shown", "most", "proven"], axis=1))
    return both[0], both[1]


def ladder_headline(outside: float, inside: float, proven: float) -> str:
    """How much of the proven epsilon attacks show from outside, and from inside one run."""
    if (most := max(outside, inside)) > proven:
        beyond = f"more than the {proven:.1f} proven: a fault, or chance"
        return f"An attack shows an epsilon of {most:.1f},\n{beyond}"
    more = "" if inside > outside else "no more, "
    return (
        f"Of epsilon {proven:.1f}, attacks from outside show {outside:.1f},\n"
        f"one from inside that knows the mechanism {more}{inside:.1f}"
    )


@draws("six_lenses", "ladder")
def draw_ladder(run: Run) -> Drawn:
    """Draw what attacks show, what they could show and what is proven; beside it, the control."""
    tables, factor = ladder(run), run.parameters["noise_factor"]
    rows = len(tables[0])
    figure, axes = panels(2, 0.9 + 0.23 * rows)
    most = 1.5 * tables[0]["proven"].max()
    titles = "as trained", f"control: {100 * factor:g}% of the noise"
    for ax, table, title in zip(axes, tables, titles, strict=True):
        for place, row in enumerate(table[::-1].itertuples()):
            _rung(ax, place, row, most)
        ax.set_yticks(range(rows), table.index[::-1])
        ax.set(xlim=(-0.03 * most, most), ylim=(-0.5, rows + 0.5), xlabel="epsilon")
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        ax.set_title(title, fontsize=10)
        ax.grid(visible=False, axis="y")
    shown, reach, proven = _SHADES
    first = tables[0].iloc[0]
    axes[0].annotate("shown", (0, rows - 0.2), color=shown, fontsize=9)
    axes[0].annotate("proven", (first["proven"], rows - 0.2), ha="center", color=proven, fontsize=9)
    if first["most"] < 0.6 * first["proven"]:  # where there is room beside the end of the line
        where = (first["most"], rows - 1), (5, 0)
        options = {"textcoords": "offset points", "va": "center", "color": reach, "fontsize": 9}
        axes[0].annotate("at most", *where, **options)
    known = tables[0]["shown"].iloc[-1]  # on the claimed form of the mechanism, the most assumed
    headline = ladder_headline(first["shown"], known, first["proven"])
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"What each attack shows of epsilon, could show, and what is proven. {headline}.",
        "Epsilon: what attacks show at least (dots), what they would show with no wrong guess (end "
        "of the line), and what is proven (bars). Triangles are beyond the axis. Each step from "
        f"inside assumes more. The control adds {100 * factor:g}% of the noise that it "
        "claims: beyond the bar an audit has noticed.",
    )


_SHADES = COLOURS[0], "0.45", COLOURS[1]  # shown, could show, proven


def _rung(ax: Axes, place: int, row: Any, most: float) -> None:
    """Draw an attack's row: a line as far as it could come, what it showed, and what is proven."""
    shown, reach, proven = _SHADES
    if not row.shown >= 0:  # no such attack
        ax.annotate("not run", (0, place), va="center", color=reach, fontsize=9)
        return
    ax.hlines(place, 0, min(row.most, most), reach, lw=1.2)
    if row.most < most:
        ax.plot(row.most, place, "|", color=reach, ms=8)
    ax.vlines(row.proven, place - 0.5, place + 0.5, proven, lw=2)
    beyond = row.shown > most
    where = 0.98 * most if beyond else row.shown
    ax.plot(where, place, ">" if beyond else MARKERS[0], color=shown, zorder=3)
    left = beyond or 0 < row.proven - row.shown < 0.2 * most
    beside = {"xytext": (-7, 4), "ha": "right"} if left else {"xytext": (6, 4)}
    number = f"{row.shown:,.0f}" if beyond else f"{row.shown:.1f}"
    options = {"textcoords": "offset points", "color": shown, "fontsize": 9}
    ax.annotate(number, (where, place), **beside, **options)


def plot_differences(table: pd.DataFrame) -> Figure:
    """Intervals for the difference of two models over draws of their abstentions."""
    figure, ax = new_figure(height=3.0)
    order, names = np.arange(len(table)), ("known propensities", "fitted", "as seen")
    for k, prefix in enumerate(("known_", "")):
        x, look = order + 0.3 * k, {"color": COLOURS[k], "linewidth": 1.2}
        ax.vlines(x, table[f"{prefix}low"], table[f"{prefix}high"], **look)
        # A value may be outside what is possible, and so beside its interval.
        ax.plot(x, table[f"{prefix}value"], marker=MARKERS[k], ls="", ms=4, **look)
    ax.plot(order, table["selective"], color=COLOURS[2], marker=MARKERS[2], ls="")
    ax.axhline(table["oracle"].iloc[0], color="0.3", linewidth=1, linestyle="--")
    ax.set(xlabel="draw of the abstentions", ylabel="private minus plain")
    ax.set_xticks(order[:: max(1, len(order) // 5)])
    words = dict(zip(names, COLOURS, strict=False)) | {"- - truth": "0.3"}
    held = int(table["known_covers"].sum()), int(table["covers"].sum())
    head(ax, differences_headline(*held, len(table)), words)
    return figure


def differences_headline(known: int, fitted: int, draws: int) -> str:
    """In how many draws intervals hold the truth, in words."""
    first = f"The truth is in {known} of {draws} intervals"
    if known == fitted:
        return f"{first},\nwith propensities known or fitted"
    return f"{first} with known\npropensities, in {fitted} with fitted ones"
