"""Figures of the chapter on a reader's own model, drawn from the tables of its report."""

import math

import numpy as np
import pandas as pd

from lib.plot import COLOURS, MARKERS, new_figure
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head_rows, percent, words_above
from lib.studies.suitability.from_records import tipping_figure

_BESIDE = {"textcoords": "offset points", "va": "center", "fontsize": 9}


def reliability_headline(bins: pd.DataFrame) -> str:
    """How sure the model is on average and how often it is right, in words."""
    share = bins["rows"] / bins["rows"].sum()
    sure, right = (float((share * bins[column]).sum()) for column in ("confidence", "accuracy"))
    apart = right - sure
    word = "about as sure as right"
    if abs(apart) >= 0.02:
        word = "too modest" if apart > 0 else "too sure"
    return f"On average {percent(sure)} sure\nand {percent(right)} right: {word}"


@draws("your_model", "quality_reliability")
def draw_reliability(run: Run) -> Drawn:
    """Draw accuracy by confidence with intervals, and where confidence is true."""
    bins = run.tables["quality_bins"]
    confidence, accuracy = 100 * bins["confidence"], 100 * bins["accuracy"]
    figure, ax = new_figure(height=3.2)
    first = max(0.0, confidence.min() - 5)
    ax.plot([first, 100], [first, 100], color="0.45", ls="--", lw=1, marker="")
    line = {"textcoords": "offset points", "ha": "left", "va": "top", "fontsize": 9}
    middle = (first + 100) / 2
    ax.annotate("as right as sure", (middle, middle), (6, -4), color="0.45", **line)
    ax.vlines(confidence, 100 * bins["low"], 100 * bins["high"], COLOURS[0], lw=1)
    sizes = 15 + 105 * bins["rows"] / bins["rows"].max()
    # Points at an accuracy of 1 are whole: clipped, they would look smaller than they are.
    ax.scatter(confidence, accuracy, sizes, color=COLOURS[0], clip_on=False, zorder=3)
    ax.set(xlabel="how sure the model is (%)", ylabel="how often it is right (%)")
    ax.set(xlim=(first, 102), ylim=(-2, 102))
    headline = reliability_headline(bins)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"Accuracy by confidence in bins, with intervals. {headline}.",
        "Accuracy by confidence in bins, with intervals that hold together at 95%. Larger points "
        "have more rows. Above the dashed line the model is right more often than it is sure.",
    )


def coverage_headline(table: pd.DataFrame, target: float) -> str:
    """What is answered if the target is promised, and if it is only reached on these rows."""
    promised, reached = table["guaranteed coverage"].max(), table["coverage at target"].max()
    if not promised > 0:
        return f"No threshold promises\nan accuracy of {target:.4g}"
    said = f"{100 * target:.4g}% right is promised for {percent(promised)} of the rows,"
    return f"{said}\nreached on these rows for {percent(reached)}"


@draws("your_model", "coverage")
def draw_coverage(run: Run) -> Drawn:
    """Draw what is answered at the target, promised and on these rows, a row a score."""
    table, target = run.tables["selective_scores"], run.parameters["target"]
    figure, ax = new_figure(height=0.9 + 0.28 * len(table))
    places = np.arange(len(table))[::-1]
    promised, reached = 100 * table["guaranteed coverage"], 100 * table["coverage at target"]
    ax.hlines(places, promised, reached, "0.75", lw=1.2)
    ax.plot(promised, places, MARKERS[0], color=COLOURS[0])
    ax.plot(reached, places, MARKERS[3], color=COLOURS[1], fillstyle="none")
    for place, value in zip(places, promised, strict=True):
        if math.isfinite(value):
            beside = {"xytext": (-7, 0), "ha": "right", "color": COLOURS[0]}
            ax.annotate(f"{value:.0f}%", (value, place), **beside, **_BESIDE)
    ax.set_yticks(places, table["score"])
    ax.set(xlabel="rows that are answered (%)", xlim=(-2, 102), ylim=(-0.6, len(table) - 0.4))
    ax.grid(visible=False, axis="y")
    words_above(ax, {"promised": COLOURS[0], "on these rows": COLOURS[1]})
    headline = coverage_headline(table, target)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"Two coverages a score, a row a score. {headline}.",
        f"How much is answered, by the score that decides what is. Promised: with an accuracy of "
        f"{target:g} at the report's level. The other reaches it on these rows alone.",
    )


@draws("your_model", "suitability_tipping")
def draw_tipping(run: Run) -> Drawn:
    """Draw the tipping point of the suitability decision by the estimates."""
    return tipping_figure(run.tables["suitability"])


_BOUND = {"one run": "one run", "clopper-pearson": "Clopper-Pearson", "jeffreys": "Jeffreys"}


def bounds_headline(table: pd.DataFrame, design: str, lower: float) -> str:
    """What holds in the declared design, and what the best of all thresholds says."""
    biased = table.loc[table["threshold"].str.contains("biased"), "lower bound"].max()
    first = {"one run": "With one run", "independent": "With independent runs"}[design]
    said = f"{first} an epsilon of at least {lower:.2f} holds;"
    return f"{said}\nthe best of all thresholds, {biased:.2f}, does not"


@draws("your_model", "bounds")
def draw_bounds(run: Run) -> Drawn:
    """Draw the lower bounds on epsilon, those that hold under a condition and those of no worth."""
    table, claim = run.tables["audit_bounds"], run.values.get("audit_claimed")
    figure, ax = new_figure(height=1.0 + 0.28 * len(table))
    places, names = np.arange(len(table))[::-1], []
    for place, row in zip(places, table.itertuples(index=False), strict=True):
        biased = row.holds == "no"
        value, color = row[table.columns.get_loc("lower bound")], "0.5" if biased else COLOURS[0]
        ax.hlines(place, 0, value, color, lw=1.2)
        ax.plot(value, place, MARKERS[3 if biased else 0], color=color)
        beside = {"xytext": (7, 0), "color": color}
        ax.annotate(f"{value:.2f}", (value, place), **beside, **_BESIDE)
        method = _BOUND.get(row.method, row.method.capitalize())
        one = row.method == "one run"
        names.append(("one run" if one else f"best, {method}") if biased else
                     ("one run" if one else "independent runs"))  # fmt: skip
    ax.set_yticks(places, names)
    ax.set(xlabel="lower bound on epsilon", ylim=(-0.6, len(table) - 0.4))
    ax.set_xlim(0, 1.2 * max(table["lower bound"].max(), claim or 0.0, 0.1))
    ax.grid(visible=False, axis="y")
    words = {"holds on its condition": COLOURS[0], "does not hold": "0.5"}
    if claim is not None:
        ax.axvline(claim, color=COLOURS[1], lw=1.2, zorder=0)
        words["| claimed"] = COLOURS[1]
    words_above(ax, words, -60)
    design, lower = run.parameters["audit_design"], run.values["audit_lower"]
    headline = bounds_headline(table, design, lower)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"Lower bounds on epsilon, a row a way to get one. {headline}.",
        "What the attack shows of epsilon at least, by how thresholds are chosen. One run: guesses "
        "of the surest points. Best: the largest bound of all thresholds, without a price for the "
        "choice. The line is the claimed epsilon, which a valid bound beyond it would refute.",
    )


def contamination_headline(table: pd.DataFrame) -> str:
    """Between which accuracies the truth is if a tenth of the rows break the assumption."""
    row = table.iloc[(table["share"] - 0.1).abs().argmin()]
    ends = f"{percent(row['ci_low'])} and {percent(row['ci_high'])}"
    said = f"If abstention depends on more in {percent(row['share'])} of the rows,"
    return f"{said}\nthe accuracy is between {ends}"


@draws("your_model", "counterfactual_contamination")
def draw_contamination(run: Run) -> Drawn:
    """Draw the bounds on the accuracy by the part of the rows that break the assumption."""
    table, values = run.tables["counterfactual_contamination"], run.values
    figure, ax = new_figure(height=2.8)
    share = 100 * table["share"]
    look = {"color": COLOURS[0], "marker": ""}
    ax.fill_between(share, 100 * table["ci_low"], 100 * table["ci_high"], color=COLOURS[0],
                    alpha=0.15, lw=0)  # fmt: skip
    for end in ("low", "high"):
        ax.plot(share, 100 * table[end], lw=1.4, **look)
    words = {"bounds, with their interval": COLOURS[0]}
    if (truth := values.get("truth")) is not None:
        ax.axhline(100 * truth, color="black", lw=1, ls="--")
        words["- - by the labels"] = "black"
    ax.set(xlabel="rows that break the assumption (%)", ylabel="accuracy if it\nalways answers (%)")
    ax.set_xlim(0, 100)
    words_above(ax, words)
    headline = contamination_headline(table)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"Bounds on the accuracy that widen with the rows that break the assumption. {headline}.",
        "Accuracy if the model always had to answer, by the fraction of rows in which abstention "
        "depends on more than features and scores.",
    )
