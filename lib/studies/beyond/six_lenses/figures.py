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


#: What readers call the attacks from inside one run, by what their statements rest on.
_RUNGS = dict(
    zip(
        STATEMENTS.values(),
        ("inside, no hypothesis", "inside, if Gaussian", "and independent", "inside, known form"),
        strict=True,
    )
)


def ladder(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What attacks show, could show and what is proven: of the training, and of the controls.

    Index: the attack.  Columns ``shown``, ``most`` and ``proven``.
    """
    outside = run.tables["audit"].set_index("attack").loc[HEADLINE, ["at least", "claimed"]]
    labels, inside = run.tables["labels"].set_index("training"), run.tables["inside"]
    both = []
    for noise, training in (("as claimed", "private"), ("broken", "plain")):
        rows = inside[(inside["noise"] == "as claimed") == (noise == "as claimed")]
        rungs = rows.set_index("rests on")[["known", "could show", "proven"]].rename(index=_RUNGS)
        label = labels.loc[training, ["at least", "ceiling", "claimed"]].replace(np.inf, np.nan)
        record = outside["at least"], run.values["ceiling"], outside["claimed"]
        if noise == "broken":  # no such training was attacked from outside
            record = (np.nan,) * 3
        attacks = {"from outside": record, "on labels": label.to_numpy()}
        above = pd.DataFrame(attacks, index=rungs.columns).T.astype(float)
        table = pd.concat([above[:1], rungs, above[1:]])
        both.append(table.set_axis(["shown", "most", "proven"], axis=1))
    return both[0], both[1]


def ladder_headline(outside: float, inside: float, proven: float) -> str:
    """How much of the proven epsilon attacks show from outside, and from inside one run."""
    if (most := max(outside, inside)) > proven:
        beyond = f"more than the {proven:.1f} proven: a fault, or chance"
        return f"An attack shows an epsilon of {most:.1f},\n{beyond}"
    more = "" if inside > outside else "no more, "
    return (
        f"Of epsilon {proven:.1f}, attacks from outside show {outside:.1f},\n"
        f"one run from inside {more}{inside:.1f}"
    )


@draws("six_lenses", "ladder")
def draw_ladder(run: Run) -> Drawn:
    """Draw what attacks show, what they could show and what is proven; beside it, the controls."""
    tables, factor = ladder(run), run.parameters["noise_factor"]
    rows = len(tables[0])
    figure, axes = panels(2, 0.9 + 0.23 * rows)
    most = 1.15 * tables[0]["proven"].max()
    titles = "as trained", f"controls: {100 * factor:g}% of the noise"
    for ax, table, title in zip(axes, tables, titles, strict=True):
        for place, row in enumerate(table[::-1].itertuples()):
            _rung(ax, place, row, most)
        ax.set_yticks(range(rows), table.index[::-1])
        ax.set(xlim=(-0.03 * most, most), ylim=(-0.5, rows + 0.5), xlabel="epsilon")
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        ax.set_title(title, fontsize=10)
        ax.grid(visible=False, axis="y")
    first = tables[0].iloc[0]
    for word, color in zip(("shown", "most", "proven"), _SHADES, strict=True):
        where = {"ha": "left"} if word == "shown" else {"ha": "center"}
        text = "at most" if word == "most" else word
        at = min(first[word], 0.9 * most), rows - 0.2
        axes[0].annotate(text, at, color=color, fontsize=9, **where)
    held = tables[0].loc["and independent", "shown"]
    headline = ladder_headline(first["shown"], held, first["proven"])
    figure.suptitle(headline, x=0.01, ha="left", fontsize=10)
    return Drawn(
        figure,
        f"What each attack shows of epsilon, could show, and what is proven. {headline}.",
        "Lower bounds on epsilon: those that attacks show (dots), those that they would show with "
        "no wrong guess (end of the line), and what is proven (bars). Triangles are beyond the "
        "axis. Each step from inside assumes more. The controls lack noise; the one for labels is "
        "without privacy.",
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
