"""Figures of the chapter on two services that refuse, drawn from what its runs record."""

import numpy as np
import pandas as pd

from lib.plot import COLOURS, MARKERS, new_figure, side_by_side
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head_rows, percent, words_above

_WAYS = {"fixed time": COLOURS[1], "asymptotic": COLOURS[2], "exact": COLOURS[0]}
_KINDS = ["points", "start", "floor"]  # what streams differ in
_PROMISED = 5  # percent of the streams that intervals may miss


def errors_headline(table: pd.DataFrame) -> str:
    """How often intervals for one time and the exact sequence miss at most, in words."""
    of = table.assign(way=table["way"].str.split(",").str[0]).groupby("way")["missed"].max()
    first = f"Intervals for one time miss in up to {percent(of['fixed time'])}"
    return f"{first}\nof the streams, the exact sequence in {percent(of['exact'])}"


@draws("refusals", "errors")
def draw_errors(run: Run) -> Drawn:
    """Draw how many streams each interval missed at some time, and its width at the end."""
    table = run.tables["errors"]
    figure, axes = new_figure(2, 1, height=3.3)
    side_by_side(figure, axes, 2)
    places, names, place = [], [], 0.0
    for (points, _, floor), rows in table.groupby(_KINDS, sort=False):
        rare = f"{points:,} points,\nanswers from {100 * floor:g}%"
        places.append(place - 1)
        names.append(rare)
        by_way = rows.set_index("way")
        for k, (way, color) in enumerate(_WAYS.items()):
            for name, fill in ((way, "full"), (f"{way}, fitted", "none")):
                if name in by_way.index:
                    one = by_way.loc[name]
                    look = {"marker": MARKERS[k], "color": color, "fillstyle": fill, "ms": 6}
                    axes[0].plot(100 * one["missed"], place, ls="", **look)
                    axes[1].plot(one["width"], place, ls="", **look)
            place -= 1
        place -= 0.8
    for ax in axes:
        ax.set_yticks(places, names, fontsize=9)
        ax.grid(visible=False, axis="y")
        ax.set_xlim(left=-0.02 * max(ax.dataLim.x1, 1e-9))
    axes[0].axvline(_PROMISED, color="0.4", ls="--", lw=1, zorder=0)
    axes[0].set_xlabel("streams missed at some time (%)")
    axes[1].set_xlabel("width at the end")
    headline = errors_headline(table)
    head_rows(figure, headline)
    words_above(axes[0], _WAYS | {"- - promised": "0.4"}, -90)
    streams = table["streams"].max()
    return Drawn(
        figure,
        f"How often each interval missed, and its width, for three kinds of streams. {headline}.",
        f"Up to {streams:,} simulated streams of each kind, looked at after every point. Hollow: "
        "with fitted propensities.",
    )


def groups_headline(table: pd.DataFrame) -> str:
    """Whom the answers put ahead and by how much, and by how much it would be, in words."""
    seen, truth = (100 * table[f"{of} difference"].iloc[0] for of in ("selective", "true"))
    seen, truth = (f"{'leads' if x > 0 else 'trails'} by {abs(x):.1f}" for x in (seen, truth))
    return f"By what they answered A {seen} points;\nhad both always answered, it {truth}"


@draws("refusals", "groups")
def draw_groups(run: Run) -> Drawn:
    """Draw the interval of each group with the truth and the difference of what was answered."""
    table = run.tables["groups"]
    places = np.arange(len(table))[::-1]
    figure, ax = new_figure(height=1.1 + 0.27 * len(table))
    low, high = (100 * table[end].clip(-1, 1) for end in ("low", "high"))
    ax.hlines(places, low, high, COLOURS[0], lw=1.2)
    ax.plot(100 * table["estimate"], places, MARKERS[0], color=COLOURS[0])
    ax.plot(100 * table["true difference"], places, "|", color="black", ms=14, mew=2)
    ax.plot(100 * table["selective difference"], places, "x", color=COLOURS[1], ms=6, mew=2)
    ax.axvline(0, color="0.6", lw=1, zorder=0)
    ax.set_yticks(places, table["group"])
    ax.set(xlabel="accuracy of A minus B's (points)", ylim=(-0.6, len(table) - 0.4))
    ax.locator_params(axis="x", nbins=5)  # a last label at the edge would reach beyond the figure
    ax.grid(visible=False, axis="y")
    words_above(ax, {"estimate": COLOURS[0], "| truth": "black", "× what was answered": COLOURS[1]})
    headline = groups_headline(table)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"Intervals for all points and each group, truth and answers. {headline}.",
        "A less B: 95% interval for all, and 95% intervals for all groups together.",
    )
