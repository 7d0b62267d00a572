"""Figures of the chapter on two services that refuse, drawn from what its runs record."""

import numpy as np
import pandas as pd

from lib.plot import COLOURS, MARKERS, new_figure, side_by_side
from lib.studies.counterfactual.figures import as_points_arrive
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, head_rows, percent, words_above

_WAYS = {"fixed time": COLOURS[1], "asymptotic": COLOURS[2], "exact": COLOURS[0]}
_KINDS = ["points", "start", "floor"]  # what streams differ in
_POINTS = 250  # of a stream that are shown
_PROMISED = 5  # percent of the streams that intervals may miss


def stream_table(watched: pd.DataFrame) -> pd.DataFrame:
    """Some of the points at which two services were watched, and where the band leaves zero."""
    columns = ["n", "lower", "upper", "center", "fixed time", "truth", "answered"]
    some = np.unique(np.geomspace(1, len(watched), _POINTS).astype(int)) - 1
    first = np.flatnonzero(_apart(watched))[:1]
    shown = watched.rename(columns={"centre": "center"})
    return shown[columns].iloc[np.union1d(some, first)]


def when_to_stop(watched: pd.DataFrame) -> str:
    """When a band first excludes zero, for whom, and what the answers' scores say, in words."""
    apart = watched[_apart(watched)]
    if not len(apart):
        return "It is not safe to stop: the band never excludes zero"
    first, ahead = apart.iloc[0], "A" if apart["lower"].iloc[0] > 0 else "B"
    lead = watched["answered"].iloc[-1] * (1 if ahead == "A" else -1)
    answers = "better" if lead > 0 else "worse" if lead < 0 else "no better"
    but = "and" if lead > 0 else "but"
    return (
        f"{ahead} is better: safe to say after {first['n']:,.0f} points,\n"
        f"{but} what it answered scores {answers}"
    )


def _apart(watched: pd.DataFrame) -> pd.Series:
    return (watched["lower"] > 0) | (watched["upper"] < 0)


@draws("refusals", "stream")
def draw_stream(run: Run) -> Drawn:
    """Draw two services as points arrive: the band, one-time intervals, truth and answers."""
    rows = run.tables["stream"]
    fixed = rows["fixed time"], 2 * rows["center"] - rows["fixed time"]
    figure, ax = new_figure(height=3.0)
    ends = rows[["lower", "upper"]].clip(-1, 1)
    ax.fill_between(rows["n"], ends["lower"], ends["upper"], color=COLOURS[0], alpha=0.2, lw=0)
    for end in fixed:
        ax.plot(rows["n"], end, "--", color=COLOURS[1], lw=1, marker="")
    word = {"textcoords": "offset points", "fontsize": 9}
    for column, color, name, up in (
        ("answered", COLOURS[2], "by what they answered", -14),
        ("truth", "black", "had both always answered", 22),
    ):
        ax.plot(rows["n"], rows[column], color=color, lw=1.4, marker="")
        last = rows["n"].iloc[-1], rows[column].iloc[-1]
        ax.annotate(name, last, (-2, up), color=color, ha="right", **word)
    ax.axhline(0, color="0.6", lw=1)
    for n in rows["n"][_apart(rows)][:1]:
        ax.axvline(n, 0.35, 0.65, color="0.2", lw=1.4, ls=":")
    as_points_arrive(ax, rows["n"])
    reach = 1.2 * np.abs([*fixed, rows["truth"], rows["answered"]]).max()
    ax.set_ylim(-reach, reach)
    ax.set_ylabel("score of A minus B's")
    words = {"valid at every time": COLOURS[0], "- - at one time only": COLOURS[1]}
    head(ax, when_to_stop(rows), words)
    return Drawn(
        figure,
        "A band narrows around the difference had both always answered; a dotted line shows where "
        "it leaves zero. Intervals for one time are narrower. What was answered lies elsewhere.",
        "In order of arrival. The band is the exact 95% sequence, dashed are 95% intervals for a "
        "fixed time.",
    )


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
