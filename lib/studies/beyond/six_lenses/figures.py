"""Figures of the chapter."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from lib import selective
from lib.plot import COLOURS, MARKERS, new_figure, panels
from lib.studies.beyond.six_lenses.inside import STATEMENTS
from lib.studies.beyond.six_lenses.lens_audits import HEADLINE
from lib.studies.beyond.six_lenses.views import DROP
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, head_rows, percent, words_above


@draws("six_lenses", "abstention")
def draw_abstention(run: Run) -> Drawn:
    """Draw accuracy and coverage of the private model, all answers and above its threshold."""
    values = run.values
    figure, ax = new_figure(height=3.0)
    color, other = COLOURS[0], COLOURS[1]
    cover = np.linspace(0.01, 1, 200)
    best = selective.accuracy_bound(values["accuracy"], cover)
    ax.plot(100 * cover, 100 * best, ":", color=color, lw=1.2, marker="")
    ax.axhline(100 * values["target"], color="0.5", linewidth=1, linestyle="--")
    names = ["accuracy", "accuracy_low", "accuracy_high", "coverage", "kept", "coverage_low"]
    names += ["coverage_high", "kept_low", "kept_high", "plain_accuracy"]
    of = {name: 100 * values[name] for name in names}
    ax.vlines(100, of["accuracy_low"], of["accuracy_high"], color, lw=1.2)
    ax.plot(100, of["accuracy"], MARKERS[0], color=color, zorder=3)
    ax.plot(100, of["plain_accuracy"], MARKERS[1], color=other, zorder=3)
    beside = {"textcoords": "offset points", "fontsize": 9, "ha": "right", "va": "center"}
    ax.annotate("answers all", (100, of["accuracy"]), (4, -13), color=color, **beside)
    if of["coverage"]:
        ax.vlines(of["coverage"], of["kept_low"], of["kept_high"], color, lw=1.2)
        ax.hlines(of["kept"], of["coverage_low"], of["coverage_high"], color, lw=1.2)
        ax.plot(of["coverage"], of["kept"], MARKERS[0], color=color, zorder=3)
        place = of["coverage"], of["kept"]
        ax.annotate("above its threshold", place, (-8, -9), color=color, **beside)
    ax.set(xlabel="answered (%)", ylabel="right, of the answers (%)", xlim=(0, 104))
    ax.set_ylim(min(of["accuracy_low"], of["plain_accuracy"]) - 5, 101)
    threshold = values["threshold"] if of["coverage"] else np.inf
    said = abstention_headline(values["target"], threshold, values["coverage"])
    words = {"private": color, ". . . its best order": color, "competitor": other}
    head(ax, said, words | {"- - target": "0.4"})
    return Drawn(
        figure,
        "The private model answers all, or only above its threshold; beside it the competitor. "
        f"{said}.",
        "Accuracy of the answers and how many there are, with 95% intervals. Dotted: what the best "
        "order of the private model's answers would reach. Dashed: the target.",
    )


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
