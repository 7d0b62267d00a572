"""Figures of the chapter on counterfactual evaluation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.counterfactual.result import Estimate
from lib.counterfactual.sequences import ConfidenceSequence
from lib.plot import COLOURS, MARKERS, new_figure, panels
from lib.studies.counterfactual.classifiers import FLIP, Simulated
from lib.studies.counterfactual.simulation import share_interval
from lib.studies.counterfactual.tables import ESTIMATOR_TITLES, LEARNER_TITLES
from lib.studies.default_problem import title as data_title
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, head_rows, percent, words_above

_NAMES = ("A", "B")
_POINTS = 600  # that are drawn
_ALPHA = 1 - 0.95  # of intervals and tests


def plot_classifiers(drawn: Simulated) -> Figure:
    """Two abstaining classifiers: decision boundaries, right and wrong answers, abstentions."""
    figure, axes = panels(2, 3.2, sharey=True)
    x = drawn.X[:_POINTS]
    grid = np.linspace(0, 1, 200)
    boundaries = (1 - grid, np.sqrt(np.clip(0.8 - grid**2, 0, None)))
    words = {}
    for k, ax in enumerate(axes):
        hidden = drawn.abstained[k][:_POINTS]
        right = drawn.scores[k][:_POINTS] == 1
        for mask, marker, colour, size, word in (
            (~hidden & right, "o", COLOURS[0], 11, "● right"),
            (~hidden & ~right, "^", COLOURS[1], 16, "▲ wrong"),
            (hidden, "x", "0.6", 12, "× abstains"),
        ):
            ax.scatter(x[mask, 0], x[mask, 1], marker=marker, s=size, c=colour, lw=0.8)
            words[word] = "0.4" if word[0] == "×" else colour
        seen = (boundaries[k] >= 0) & (boundaries[k] <= 1) & ((k == 0) | (grid**2 <= 0.8))
        ax.plot(grid[seen], boundaries[k][seen], color="black", lw=2, marker="")
        ax.set_title(_NAMES[k], loc="right")
        ax.set(ylabel="second feature", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.grid(visible=False, axis="both")
    axes[-1].set_xlabel("first feature")
    words_above(axes[0], words)
    head_rows(figure, classifiers_headline(drawn))
    return figure


def classifiers_headline(drawn: Simulated) -> str:
    """How often each classifier errs where it answers and where it withholds, in words."""
    likely, said = drawn.X.sum(axis=1) >= 1, []
    for predicted, withheld in zip(drawn.probabilities, drawn.propensities, strict=True):
        errs = np.where((predicted > 0.5) == likely, FLIP, 1 - FLIP)
        rates = [np.average(errs, weights=w) for w in (1 - withheld, withheld)]
        said.append(" and ".join(f"{rate:.0%}" for rate in rates))
    a, b = said
    return f"Wrong in what is answered and withheld:\nA in {a}, B in {b}"


@draws("counterfactual", "miscoverage")
def draw_miscoverage(run: Run) -> Drawn:
    """Draw A's lead over B: mean estimates and intervals, and how often these miss the truth."""
    table, truth = run.tables["experiment_1"], run.values["trial_truth"]
    trial = run.tables["trial"].set_index("quantity").iloc[:, -1]  # A's less B's
    figure, ax = new_figure(height=3.8)
    ax.axvline(truth, color="black", lw=1.2)
    beside = {"textcoords": "offset points", "va": "center", "fontsize": 9}
    right = {"xycoords": ax.get_yaxis_transform(), "xytext": (4, 0)} | beside | {"fontsize": 8}
    ax.annotate("truth", (truth, 0), (4, 0), **beside)
    ax.annotate("miss (%)", (1, 0), **right)
    names = [_bold("one trial"), "scores seen", ESTIMATOR_TITLES["dr"]]
    looks = (("selective", COLOURS[1], "s"), ("counterfactual", COLOURS[0], "o"))
    for y, (kind, color, marker) in zip((-1, -2), looks, strict=True):
        ends = trial[f"{kind} low"], trial[f"{kind} high"]
        _interval(ax, y, trial[f"{kind} score"], ends, color, marker)
    for learner, rows in reversed(list(table.groupby("learner", sort=False))):
        y, names = y - 1, [*names, _bold(learner)]
        for estimator, row in rows.set_index("estimator").iterrows():
            y, names = (
                y - 1,
                [*names, f"weighting ({estimator})" if estimator == "IPW" else estimator],
            )
            best = estimator == ESTIMATOR_TITLES["dr"]
            value, half = truth + row["bias"], row["width"] / 2
            color = COLOURS[0] if best else "0.45"
            _interval(ax, y, value, (value - half, value + half), color, "o" if best else "D")
            count = round(row["misses population"] * row["repetitions"])
            low, high = (100 * end for end in share_interval(count, row["repetitions"]))
            said = f"{100 * row['misses population']:.0f} [{low:.0f}, {high:.0f}]"
            ax.annotate(said, (1, y), color=color, **right)
    ax.set_yticks(-np.arange(len(names)), names, fontsize=9)
    ax.set_ylim(y - 0.7, 0.7)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("score of A minus B's")
    flexible = table[table["learner"] != LEARNER_TITLES["linear"]]
    missed = flexible.loc[flexible["estimator"] == ESTIMATOR_TITLES["dr"], "misses population"]
    head_rows(
        figure, lead_headline(*(trial[f"{kind} score"] for kind, *_ in looks), truth, list(missed))
    )
    counts = " to ".join(dict.fromkeys(f"{n:,}" for n in _ends(table["repetitions"])))
    return Drawn(
        figure,
        "A's lead over B by the scores seen, far below the truth, and by each estimator and "
        "learner: linear ones are off; doubly robust ones with flexible learners are near it.",
        "How far A leads, by one trial, and by three learners: mean estimates and mean 95% "
        f"intervals of {counts} trials. At the right, the percentage of these intervals that "
        "misses the truth, with its exact 95% interval; 5 is allowed.",
    )


def lead_headline(seen: float, robust: float, truth: float, missed: Sequence[float]) -> str:
    """What one trial says of A's lead, and how often intervals of flexible learners miss it.

    `seen` is what the scores seen say, `robust` the doubly robust estimate; `missed` are fractions
    of doubly robust intervals, one a learner.
    """
    range_ = " to ".join(dict.fromkeys(percent(share) for share in _ends(missed)))
    said = f"A leads by {truth:.3f}. One trial: seen {seen:.3f}, robust {robust:.3f}"
    return f"{said}\nOf flexible, robust intervals {range_} miss the lead"


def _bold(words: str) -> str:
    return rf"$\bf{{{words}}}$".replace(" ", r"\ ")


def _ends(numbers: Sequence[Any] | pd.Series) -> tuple[Any, Any]:
    return min(numbers), max(numbers)


def _interval(
    ax: Axes, y: float, value: float, ends: tuple[float, float], color: str, marker: str
) -> None:
    """A value and a thin interval in a row of a plot."""
    ax.plot(ends, [y, y], color=color, lw=1.4, marker="")
    ax.plot(value, y, marker, color=color)


def _limits(counts: pd.Series, repetitions: pd.Series) -> np.ndarray:
    """Exact 95% limits of rates, lower ones and upper ones."""
    pairs = zip(counts, repetitions, strict=True)
    return np.transpose([share_interval(*pair) for pair in pairs])


@draws("counterfactual", "power")
def draw_power(run: Run) -> Drawn:
    """Draw experiment 2 by shift: rejections and misses, one line a number of points."""
    figure, axes = panels(2, 2.2)
    repetitions, words = run.parameters["power_repetitions"], {}
    for ax, name in zip(axes, ("power", "power_misses"), strict=True):
        table = run.tables[name].set_index("shift")
        for k, (n, rates) in enumerate(table.items()):
            color = COLOURS[k % len(COLOURS)]
            low, high = _limits((rates * repetitions).round(), rates * 0 + repetitions)
            ax.fill_between(table.index, 100 * low, 100 * high, color=color, alpha=0.15, lw=0)
            ax.plot(table.index, 100 * rates, color=color, marker=MARKERS[k % len(MARKERS)], ms=4)
            words[f"{int(n):,}"] = color
        ax.axhline(100 * _ALPHA, color="black", ls="--", lw=1)
        ax.set_ylim(bottom=0)
    axes[0].set_ylabel("rejections (%)")
    axes[1].set_ylabel("misses (%)")
    axes[1].set_xlabel("shift of B's boundary")
    words_above(axes[0], {"points:": "black"} | words)
    head_rows(figure, power_headline(run.tables["power"], run.tables["power_misses"]))
    return Drawn(
        figure,
        "Rejections rise with the shift, faster with more points; misses are most at one shift.",
        "Tests that reject and intervals that miss the population's difference, by shift and "
        f"number of points: {repetitions:,} repetitions, with exact 95% intervals; dashed: 5%.",
    )


def power_headline(power: pd.DataFrame, misses: pd.DataFrame) -> str:
    """How often the least shift is found, and at which shift intervals miss most."""
    found, missed = (table.set_index("shift") for table in (power, misses))
    least = min((shift for shift in found.index if shift > 0), default=0.0)
    worst = missed.max(axis=1).idxmax()
    range_ = " to ".join(dict.fromkeys(percent(share) for share in _ends(found.loc[least])))
    return (
        f"Of the tests {range_} find a shift of {least:g};\n"
        f"at one of {worst:g} up to {percent(missed.loc[worst].max())} of the intervals miss"
    )


def plot_overlap(levels: Mapping[float, tuple[Estimate, Estimate]], truth: float) -> Figure:
    """Propensities of A at three levels of positivity, and both estimators' intervals at all."""
    options = {"height_ratios": (1, 1.4)}
    figure, axes = new_figure(2, 3, 2.1, sharey="row", gridspec_kw=options)
    shown = [min(levels, key=lambda level: abs(level - near)) for near in (0.02, 0.1, 0.3)]
    for ax, level in zip(axes[0], shown, strict=True):
        one = levels[level][0].diagnostics[0]
        sides = (one.propensity_answered, one.propensity_abstained)
        for colour, counts in zip(COLOURS, sides, strict=False):
            ax.stairs(counts, one.propensity_edges, color=colour, fill=True, alpha=0.25)
            ax.stairs(counts, one.propensity_edges, color=colour, lw=1.4)
        ax.set_title(rf"$\epsilon$ = {level:g}", fontsize=9)
        ax.set_xticks((0, 0.5, 1), ("0", "0.5", "1"))
    axes[0, 0].set_ylabel("points")
    axes[0, 1].set_xlabel("A's estimated propensity to abstain", fontsize=10)
    for k, word in enumerate(("answered", "abstained")):
        inside = {"transform": axes[0, 0].transAxes, "ha": "right", "va": "top", "fontsize": 9}
        axes[0, 0].text(0.97, 0.98 - 0.2 * k, word, color=COLOURS[k], **inside)
    below, *spare = axes[1]
    below.set_subplotspec(below.get_gridspec()[1, :])
    for ax in spare:
        ax.remove()
    places, looks = np.arange(len(levels)), (("o", COLOURS[0]), ("s", COLOURS[1]))
    for k, (marker, colour) in enumerate(looks):
        for place, found in zip(places + 0.3 * k - 0.15, levels.values(), strict=True):
            below.plot([place] * 2, found[k].interval, color=colour, lw=1.4, marker="")
            below.plot(place, found[k].value, marker, color=colour, markersize=4)
    below.axhline(truth, color="black", lw=1.2)
    below.set_xticks(places, [f"{level:g}" for level in levels])
    below.set_xlabel(r"least probability of an answer, $\epsilon$")
    below.set_ylabel("score of A\nminus B's")
    words = {"● doubly robust": COLOURS[0], "■ weighting": COLOURS[1], "— truth": "black"}
    words_above(below, words)
    head_rows(figure, overlap_headline(levels))
    return figure


def overlap_headline(levels: Mapping[float, tuple[Estimate, Estimate]]) -> str:
    """How wide doubly robust intervals are with the most and the least overlap, in words."""
    most, least = max(levels), min(levels)
    narrow, wide = (np.ptp(levels[level][0].interval) for level in (most, least))
    return (
        f"With answers in at least {most:.0%} of the cases everywhere,\n"
        f"the interval is {narrow:.2f} wide; with {least:.0%}, {wide:.2f}"
    )


@draws("counterfactual_limits", "misses")
def draw_misses(run: Run) -> Drawn:
    """Draw how often 95% intervals miss the truth, by what is wrong, worst first."""
    rows = _ways_to_miss(run)
    figure, ax = new_figure(height=3.4)
    ax.axvline(100 * _ALPHA, color="black", ls="--", lw=1)
    beside = {"textcoords": "offset points", "va": "center", "fontsize": 9}
    beside["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # over the dashes
    for y, (_, missed, with_known) in enumerate(rows):
        share, ends = 100 * missed[0] / missed[1], 100 * np.array(share_interval(*missed))
        _interval(ax, -y, share, tuple(ends), COLOURS[1], "o")
        at, place = (ends[1], (5, 0)) if share < 90 else (ends[0], (-6, 0))
        place = {"xytext": place, "ha": "left" if share < 90 else "right"} | beside
        ax.annotate(f"{share:.0f}", (at, -y), color=COLOURS[1], **place)
        if with_known:
            share, ends = (
                100 * with_known[0] / with_known[1],
                100 * np.array(share_interval(*with_known)),
            )
            _interval(ax, -y, share, tuple(ends), COLOURS[2], "D")
            place = {"xytext": (-6, 0), "ha": "right"} | beside
            ax.annotate(f"{share:.0f}", (ends[0], -y), color=COLOURS[2], **place)
    ax.set_yticks(-np.arange(len(rows)), [name for name, _, _ in rows], fontsize=9)
    ax.set_ylim(0.6 - len(rows), 0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(-9, 103)
    ax.set_xlabel("intervals that miss the truth (%)")
    words = {"as usual": COLOURS[1], "propensities known": COLOURS[2]}
    words_above(ax, words)
    ((leaked, after),) = ((name, missed) for name, missed, _ in rows if "data leaked" in name)
    (two,) = (row[1:] for row in rows if row[0] == _TWO)
    head_rows(figure, misses_headline(leaked, after, *two))
    return Drawn(
        figure,
        "Percentages of intervals that miss the truth: all with leaked test data or a threshold, "
        "many in other ways, few with known propensities.",
        "Percentage of 95% intervals that miss the truth (dashed: 5), with exact 95% intervals "
        "over repetitions. Diamonds: the same with known propensities. Looking: as points arrive, "
        "at intervals for one time, and at a confidence sequence.",
    )


_TWO = "digits, two models"
_Counted = tuple[int, int]  # misses, of how many


def _ways_to_miss(run: Run) -> list[tuple[str, _Counted, _Counted | None]]:
    """What goes wrong, misses of intervals, and those with known propensities; worst first."""
    table, edges = run.tables["draws"], run.tables["edges"]
    which = (table["data"] == "digits") & (table["learner"] == "linear")
    digits = table[which].set_index("scenario")
    met = edges[edges["half-width"] == 0.2].iloc[-1]  # where edges meet, with the most points

    def share(rate: float, count: int) -> _Counted:
        return round(rate * count), int(count)

    def drawn(scenario: str, column: str = "missed") -> _Counted:
        return int(digits.loc[scenario, column]), int(digits.loc[scenario, "draws"])

    leaks, streams = run.parameters["leak_repetitions"], run.parameters["streams"]
    known = [share(met[name], met["repetitions"]) for name in ("missed", "missed, known")]
    looks = [share(run.values[f"{name}_missed"], streams) for name in ("pointwise", "sequence")]
    part = run.parameters["leaks"][-1]
    leaked = f"{'all' if part == 1 else f'{part:.0%} of'} test data leaked"
    rows: list[tuple[str, _Counted, _Counted | None]] = [
        (leaked, share(run.values["leak_missed"], leaks), None),
        ("digits, a threshold", drawn("I"), None),
        ("looking at all times", looks[0], None),
        (_TWO, drawn("III"), drawn("III", "missed, known")),
        ("edges that meet", *known),
        ("looking, by a sequence", looks[1], None),
        ("digits, two rules", drawn("II"), drawn("II", "missed, known")),
        ("nothing leaked", share(run.values["leak_none"], leaks), None),
    ]
    return sorted(rows, key=lambda row: -row[1][0] / row[1][1])


def misses_headline(leaked: str, after: _Counted, fitted: _Counted, known: _Counted) -> str:
    """How often intervals miss after a leak, and on digits with fitted and known propensities."""
    missed, usual, told = (percent(count / of) for count, of in (after, fitted, known))
    return (
        f"{leaked[0].upper()}{leaked[1:]}: {missed} of intervals miss.\n"
        f"Two models: {usual}, or {told} with known propensities"
    )


@draws("counterfactual_limits", "rules")
def draw_rules(run: Run) -> Drawn:
    """Draw the interval, the bounds and the truth where classifiers abstain below a threshold."""
    table = run.tables["rules"]
    figure, ax = new_figure(height=1.2 + 0.24 * len(table))
    for y, row in enumerate(table.to_dict("records")):
        _interval(ax, -y - 0.17, np.nan, (row["bound low"], row["bound high"]), COLOURS[2], "")
        _interval(ax, -y + 0.17, np.nan, (row["low"], row["high"]), COLOURS[1], "")
        ax.plot(2 * [row["truth"]], [-y - 0.34, -y + 0.34], color="black", lw=1.8, marker="")
    names = table["data"].str.replace("_", " ") + table["abstained"].map(", {:.0%}".format)
    ax.set_yticks(-np.arange(len(table)), names, fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False)
    ax.set_xlim(right=1.01)
    ax.set_xlabel("accuracy, had it always answered")
    words_above(ax, {"doubly robust": COLOURS[1], "bounds": COLOURS[2], "| truth": "black"})
    head_rows(figure, rules_headline(table))
    return Drawn(
        figure,
        "For each data set and threshold a short doubly robust interval, a long one for the "
        "bounds, and the truth: always within the bounds, on digits beside the short ones.",
        "Abstention below a threshold of the confidence: 95% intervals by the doubly robust "
        "estimate and for the bounds, and the truth. Beside each data set: what is withheld.",
    )


def rules_headline(table: pd.DataFrame) -> str:
    """In how many runs interval and bounds miss the truth, in words."""
    missed, beyond = (
        int((~table["truth"].between(table[low], table[high])).sum())
        for low, high in (("low", "high"), ("bound low", "bound high"))
    )
    said = f"The doubly robust interval misses in {missed} of {len(table)} runs,\n"
    return said + f"the bounds in {beyond or 'none'}"


@draws("counterfactual_limits", "scenarios")
def draw_scenarios(run: Run) -> Drawn:
    """Draw intervals of real-data scenarios, by the strongest learner that was run."""
    table = run.tables["scenarios"]
    rows = table[table["learner"] == table["learner"].iloc[-1]]
    kinds = rows["scenario"].str.split(", ").str
    pair = kinds[1].eq("pair").map({True: " pair", False: ""})
    names = {name: "digits" if name == "digits" else data_title(name) for name in rows["data"]}
    named = rows["data"].map(names) + pair + ", " + kinds[0].map(_SCENARIOS)
    return Drawn(
        plot_scenarios(rows.assign(group=named), shift=-90),
        "For each scenario a 95% interval, the true difference and that of the selective scores.",
        "One draw of each scenario, from I (two thresholds) to IV (few labels): 95% interval, "
        "truth and difference of selective scores. A pair is of two classes alone.",
    )


_SCENARIOS = {"I": "two thresholds", "II": "two rules", "III": "two models", "IV": "few labels"}


def plot_scenarios(table: pd.DataFrame, score: str = "Brier scores", shift: float = 0.0) -> Figure:
    """Intervals of real-data scenarios with the true difference and that of selective scores."""
    figure, ax = new_figure(height=1.3 + 0.32 * len(table))
    for y, (_, row) in enumerate(table[::-1].iterrows()):
        interval = {"color": COLOURS[0], "lw": 1.6, "marker": "|", "ms": 7}
        ax.plot([row["low"], row["high"]], [y, y], **interval)
        ax.plot(row["true difference"], y, "k|", ms=14, mew=2)
        selective = {"color": COLOURS[1], "ms": 6, "mew": 1.6}
        ax.plot(row["selective difference"], y, "x", **selective)
    names = list(table["group"][::-1])
    ax.set_yticks(range(len(table)), names, fontsize=8 if shift else 10)
    ax.axvline(0, color="0.6", lw=1)
    ax.grid(visible=False)
    ax.locator_params(axis="x", nbins=5)  # a last label at the edge would reach beyond the figure
    ax.set_xlabel(f"A minus B, {score}")
    words = {"|—| 95% interval": COLOURS[0], "| truth": "black", "× seen scores": COLOURS[1]}
    words_above(ax, words, shift)
    head_rows(figure, scenarios_headline(table))
    return figure


def scenarios_headline(table: pd.DataFrame) -> str:
    """How many intervals hold the truth, in words."""
    inside = table["true difference"].between(table["low"], table["high"]).sum()
    return f"The truth is inside {inside} of {len(table)} intervals"


def plot_sequence(
    sequence: ConfidenceSequence, fixed: tuple[np.ndarray, np.ndarray], truth: float
) -> Figure:
    """A confidence sequence and the pointwise intervals, as points arrive."""
    figure, ax = new_figure(height=3.0)
    band = {"color": COLOURS[0], "alpha": 0.2, "lw": 0}
    ax.fill_between(sequence.n, sequence.lower, sequence.upper, **band)
    ax.plot(sequence.n, sequence.centre, color=COLOURS[0], marker="", lw=1.4)
    for end in fixed:
        ax.plot(sequence.n, end, "--", color=COLOURS[1], lw=1.3, marker="")
    ax.axhline(truth, color="black", lw=1.2)
    ax.axhline(0, color="0.6", lw=1)
    as_points_arrive(ax, sequence.n)
    ax.set_ylabel("score of A minus B's")
    wider = (sequence.upper[-1] - sequence.lower[-1]) / (fixed[1][-1] - fixed[0][-1])
    said = f"After {sequence.n[-1]:,} points, what is valid at all times\n"
    words = {"valid at all times": COLOURS[0], "- - at one time": COLOURS[1], "— truth": "black"}
    head(ax, f"{said}is {wider:.1f} times as wide as what is valid at one", words)
    return figure


def as_points_arrive(ax: Axes, n: pd.Series | np.ndarray) -> None:
    """Count points on a logarithmic axis."""
    ax.set_xscale("log")
    ticks = [t for t in (10, 30, 100, 300, 1000, 3000, 10_000, 100_000) if min(n) <= t <= max(n)]
    ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
    ax.minorticks_off()
    ax.set_xlim(min(n), max(n))
    ax.set_xlabel("points so far")
