"""Figures of the chapter on suitability over time, drawn from what its runs record."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.plot import COLOURS, MARKERS, new_figure, side_by_side
from lib.studies.beyond.watch import drop_in_words
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, head_rows, percent, words_above

_BESIDE = {"textcoords": "offset points", "va": "center", "fontsize": 9}
_OURS = ("chosen labels", "random labels")  # the monitor that the page is about


@draws("suitability_time", "watch")
def draw_watch(run: Run) -> Drawn:
    """Draw accuracy over time with yearly intervals, alarm and decision, by random labels."""
    table, given = run.tables["draw"], run.parameters
    methods = run.tables["methods"].set_index("method")
    figure, ax = new_figure(height=3.0)
    ax.plot(table["month"], 100 * table["accuracy"], color="0.6", marker=".", ls="")
    line = {"color": COLOURS[0], "linewidth": 1.2}
    for _, year in table.groupby((table["month"] - 1) // given["months"]):
        first, last = year["month"].iloc[0] - 0.5, year["month"].iloc[-1] + 0.5
        value, *ends = 100 * year[["estimated", "low", "high"]].iloc[0]
        ax.hlines(value, first, last, **line)
        ax.vlines((first + last) / 2, *ends, **line)
    ax.axhline(100 * table["least"].iloc[0], color="0.3", linestyle="--", linewidth=1, marker="")
    for column, color in (("alarm", COLOURS[1]), ("unsuitable", COLOURS[3])):
        for month in table.loc[table[column], "month"]:
            ax.axvline(month, color=color, linewidth=1.4, marker="")
    good, months = table["suitable"].to_numpy(), len(table)
    ax.set_xlim(0, months + 1)
    change = int(np.max(np.flatnonzero(good), initial=-1)) + 1
    if change < months:
        ax.axvspan(change + 0.5, months + 0.5, color="0.93", linewidth=0, zorder=0)
        place = {"xycoords": ("data", "axes fraction"), "va": "top", "fontsize": 8}
        ax.annotate("no longer\nsuitable", (change + 1, 0.98), color="0.3", **place)
    words = {"true, unseen": "0.45", "estimated": COLOURS[0]}
    words |= {"alarm": COLOURS[1], "UNSUITABLE": COLOURS[3]}
    median = methods.loc[_OURS[1], "delay"]
    head(ax, drop_in_words(good, table["alarm"].to_numpy(), median), words)
    ax.set(xlabel="month of use", ylabel="accuracy (%)")
    return Drawn(
        figure,
        "Accuracy by month, yearly estimates with intervals, alarm and verdict. Months in which "
        "the model is no longer suitable are shaded.",
        f"One draw. Each year is estimated from {given['rate']:.0%} of its labels, "
        f"{given['lag']} months late; dashed: the least accuracy that is suitable.",
    )


def alarms_headline(table: pd.DataFrame) -> str:
    """How late and how often wrong the page's monitor is, and the fastest method, in words."""
    methods = table.set_index("method")
    ours, fastest = methods.loc[_OURS[1]], methods.loc[methods["delay"].idxmin()]
    months = f"take {ours['delay']:.0f} months" if ours["delay"] < math.inf else "hardly tell"
    said = f"Random labels {months}, and err in {percent(ours['streams with one'])} of"
    quick = f"{fastest.name} takes {fastest['delay']:.0f}"
    return f"{said}\nthe streams; {quick}, and errs in {percent(fastest['streams with one'])}"


@draws("suitability_time", "methods")
def draw_methods(run: Run) -> Drawn:
    """Draw how many streams have a false alarm, and when the drop is noticed, a row a method."""
    table = run.tables["methods"]
    figure, axes = new_figure(2, 1, height=0.7 + 0.22 * len(table))
    side_by_side(figure, axes, 2)
    places = np.arange(len(table))[::-1]
    colors = [COLOURS[0] if name in _OURS else "0.45" for name in table["method"]]
    for place, color, row in zip(places, colors, table.to_dict("records"), strict=True):
        _beside(axes[0], 100 * row["streams with one"], place, color, 70, "%")
        if row["delay"] < math.inf:
            _beside(axes[1], row["delay"], place, color, 14)
        else:
            axes[1].annotate("most never", (0, place), (2, 0), color=color, **_BESIDE)
    for ax in axes:
        ax.set_yticks(places, table["method"])
        ax.set_ylim(-0.6, len(table) - 0.4)
        ax.grid(visible=False, axis="y")
    axes[0].set(xlabel="streams with a false alarm (%)", xlim=(-4, 104))
    axes[1].set_xlabel("months until the drop is noticed")
    axes[1].set_xlim(left=-0.8)
    headline = alarms_headline(table)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"False alarms and delays, a row a method. {headline}.",
        "How many streams have an alarm while the model is suitable, and the median months from "
        "the drop to an alarm. Blue: this page's monitor.",
    )


def looks_headline(table: pd.DataFrame, level: float = 0.05) -> str:
    """How often five uncorrected looks err, and how many planned ways keep the level."""
    rows = table.set_index("procedure")
    planned = rows.drop(index=["one look", "uncorrected"])
    kept, wrong = int((planned["low"] <= level).sum()), percent(rows.loc["uncorrected", "rate"])
    said = f"Looking five times at {percent(level)} errs in {wrong};"
    return f"{said}\n{kept} of {len(planned)} ways to correct it keep the level"


@draws("suitability_time", "looks")
def draw_looks(run: Run) -> Drawn:
    """Draw error rate and power of each way to look more than once."""
    table, level = run.tables["sequential"], 0.05  # that of the simulation
    figure, axes = new_figure(2, 1, height=0.7 + 0.22 * len(table))
    side_by_side(figure, axes, 2)
    places = np.arange(len(table))[::-1]
    for place, row in zip(places, table.to_dict("records"), strict=True):
        color = COLOURS[1] if row["low"] > level else COLOURS[0]
        axes[0].hlines(place, 100 * row["low"], 100 * row["high"], color, lw=1)
        axes[0].plot(100 * row["rate"], place, MARKERS[0], color=color)
        _beside(axes[1], 100 * row["power"], place, color, 50, "%")
    for ax in axes:
        ax.set_yticks(places, table["procedure"])
        ax.set_ylim(-0.6, len(table) - 0.4)
        ax.grid(visible=False, axis="y")
    axes[0].axvline(100 * level, color="0.4", ls="--", lw=1, zorder=0)
    axes[0].set(xlabel="called SUITABLE wrongly (%)")
    axes[0].set_xlim(left=-0.4)
    axes[1].set(xlabel="called SUITABLE rightly (%)", xlim=(-4, 104))
    headline = looks_headline(table)
    head_rows(figure, headline)
    words_above(axes[0], {"- - level": "0.4"})
    return Drawn(
        figure,
        f"Error rate and power, a row a procedure. {headline}.",
        "Up to five batches: error rate at a drop of the margin with 95% intervals, and power at a "
        "smaller drop.",
    )


def _beside(ax: Axes, x: float, place: int, color: str, far: float, unit: str = "") -> None:
    """A point with its number beside it, at its left if it is far to the right."""
    ax.plot(x, place, MARKERS[0], color=color)
    side = {"xytext": (-7, 0), "ha": "right"} if x > far else {"xytext": (7, 0)}
    ax.annotate(f"{x:.0f}{unit}", (x, place), color=color, **side, **_BESIDE)
