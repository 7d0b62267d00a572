"""Figures of the chapter on counterfactual evaluation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.counterfactual.diagnostics import Diagnostics
from lib.counterfactual.result import Estimate
from lib.counterfactual.sequences import ConfidenceSequence
from lib.plot import COLOURS, MARKERS, new_figure, panels
from lib.studies.counterfactual.classifiers import Simulated
from lib.studies.counterfactual.simulation import share_interval
from lib.studies.counterfactual.tables import ESTIMATOR_TITLES, LEARNER_TITLES
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head_rows, percent, words_above

_NAMES = ("A", "B")
_POINTS = 600  # that are drawn
_ALPHA = 1 - 0.95  # of intervals and tests


def plot_classifiers(drawn: Simulated) -> Figure:
    """Two abstaining classifiers: decision boundaries, right and wrong answers, abstentions."""
    figure, axes = panels(2, 3.4, sharey=True)
    x = drawn.X[:_POINTS]
    grid = np.linspace(0, 1, 200)
    boundaries = (1 - grid, np.sqrt(np.clip(0.8 - grid**2, 0, None)))
    for k, ax in enumerate(axes):
        hidden = drawn.abstained[k][:_POINTS]
        right = drawn.scores[k][:_POINTS] == 1
        for mask, marker, colour, size, label in (
            (hidden, "x", "0.6", 12, "abstains"),
            (~hidden & right, "o", COLOURS[0], 11, "right"),
            (~hidden & ~right, "^", COLOURS[1], 16, "wrong"),
        ):
            ax.scatter(x[mask, 0], x[mask, 1], marker=marker, s=size, c=colour, lw=0.8, label=label)
        seen = (boundaries[k] >= 0) & (boundaries[k] <= 1) & ((k == 0) | (grid**2 <= 0.8))
        ax.plot(grid[seen], boundaries[k][seen], color="black", lw=2, marker="")
        ax.set_ylabel(f"{_NAMES[k]}:  $x_1$")
        ax.grid(visible=False, axis="both")
        ax.set_aspect("equal")
    axes[-1].set_xlabel("$x_0$")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def plot_propensities(diagnostics: Sequence[Diagnostics]) -> Figure:
    """Histograms of the propensity to abstain, among answered and abstained points."""
    figure, axes = panels(len(diagnostics), 2.1)
    for k, (ax, one) in enumerate(zip(axes, diagnostics, strict=True)):
        for counts, colour, label in (
            (one.propensity_answered, COLOURS[0], "answered"),
            (one.propensity_abstained, COLOURS[1], "abstained"),
        ):
            ax.stairs(counts, one.propensity_edges, color=colour, fill=True, alpha=0.25)
            ax.stairs(counts, one.propensity_edges, color=colour, lw=1.8, label=label)
        ax.set_ylabel(f"{_NAMES[k]}: points")
    axes[-1].set_xlabel(r"estimated propensity to abstain $\hat\pi(x)$")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


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


def plot_positivity(results: pd.DataFrame) -> Figure:
    """Miscoverage and width of each estimator's intervals by positivity level."""
    figure, axes = panels(2, 2.4)
    for k, (estimator, label) in enumerate(ESTIMATOR_TITLES.items()):
        rows = results[results["estimator"] == estimator].sort_values("epsilon")
        for ax, column in zip(axes, ("miscoverage", "width"), strict=True):
            ax.plot(rows["epsilon"], rows[column], color=COLOURS[k], marker=MARKERS[k], label=label)
    axes[0].axhline(_ALPHA, color="black", ls="--", lw=1)
    axes[0].set_ylabel("miscoverage")
    axes[1].set_ylabel("mean width")
    axes[1].set_ylim(bottom=0)
    axes[1].set_xlabel(r"positivity level $\epsilon$")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def plot_overlap(levels: Mapping[float, tuple[Estimate, Estimate]], truth: float) -> Figure:
    """Propensities of A at three levels of positivity, and both estimators' intervals at all."""
    options = {"height_ratios": (1, 1, 1, 2)}
    figure, (*above, below) = new_figure(4, 1, 1.7, gridspec_kw=options)
    shown = [min(levels, key=lambda level: abs(level - near)) for near in (0.02, 0.1, 0.3)]
    for ax, level in zip(above, shown, strict=True):
        one = levels[level][0].diagnostics[0]
        sides = (one.propensity_answered, one.propensity_abstained)
        for k, label in enumerate(("answered", "abstained")):
            ax.stairs(sides[k], one.propensity_edges, color=COLOURS[k], fill=True, alpha=0.25)
            ax.stairs(sides[k], one.propensity_edges, color=COLOURS[k], lw=1.8, label=label)
        ax.set_title(rf"$\epsilon$ = {level:g}", loc="left")
        ax.set_ylabel("points")
        ax.sharex(above[-1])
    above[-1].set_xlabel("A's estimated propensity to abstain")
    above[0].legend(loc="upper center", fontsize=9)
    places = np.arange(len(levels))
    for k, label in enumerate(("doubly robust", "IPW")):
        value, low, high = np.transpose([(e[k].value, *e[k].interval) for e in levels.values()])
        below.errorbar(
            places + 0.3 * k - 0.15, value, [value - low, high - value], color=COLOURS[k],
            marker=MARKERS[k], markersize=4, ls="", lw=1.4, label=label,
        )  # fmt: skip
    below.axhline(truth, color="black", ls="--", lw=1.2, label="truth")
    below.set_xticks(places, [f"{level:g}" for level in levels])
    below.set_xlabel(r"least probability of an answer, $\epsilon$")
    below.set_ylabel("score of A minus B's")
    below.legend(fontsize=9)
    return figure


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


def plot_leak(results: pd.DataFrame) -> Figure:
    """Bias and misses of intervals by the fraction of the evaluation data that leaked."""
    figure, axes = panels(2, 2.1)
    leaked, bias, half = (results[name] for name in ("leaked", "bias", "width"))
    band = {"color": COLOURS[0], "alpha": 0.2, "lw": 0, "label": "mean 95% interval"}
    axes[0].fill_between(leaked, bias - half / 2, bias + half / 2, **band)
    axes[0].plot(leaked, bias, color=COLOURS[0], marker=MARKERS[0], label="mean estimate")
    axes[0].axhline(0, color="black", lw=1.2)
    axes[0].set_ylabel("estimate less truth")
    limits = _limits((results["missed"] * results["repetitions"]).round(), results["repetitions"])
    axes[1].fill_between(leaked, *limits, color=COLOURS[1], alpha=0.15, lw=0)
    axes[1].plot(leaked, results["missed"], color=COLOURS[1], marker=MARKERS[1], label="misses")
    axes[1].axhline(_ALPHA, color="black", ls="--", lw=1)
    axes[1].set_ylabel("fraction that misses")
    axes[1].set_xlabel("fraction of the evaluation data that leaked")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


@draws("counterfactual_limits", "scenarios")
def draw_scenarios(run: Run) -> Drawn:
    """Draw intervals of real-data scenarios, by the strongest learner that was run."""
    table = run.tables["scenarios"]
    rows = table[table["learner"] == table["learner"].iloc[-1]]
    return Drawn(
        plot_scenarios(rows),
        "For each scenario a 95% interval, the true difference and that of the selective scores.",
        "One draw of each scenario: 95% interval, truth and difference of selective scores.",
    )


def plot_scenarios(table: pd.DataFrame, score: str = "Brier scores") -> Figure:
    """Intervals of real-data scenarios with the true difference and that of selective scores."""
    figure, ax = new_figure(height=1.3 + 0.32 * len(table))
    for y, (_, row) in enumerate(table[::-1].iterrows()):
        interval = {"color": COLOURS[0], "lw": 5, "alpha": 0.5, "marker": ""}
        ax.plot([row["low"], row["high"]], [y, y], **interval)
        ax.plot(row["true difference"], y, "k|", ms=16, mew=2.4)
        selective = {"color": COLOURS[1], "ms": 7, "mew": 2}
        ax.plot(row["selective difference"], y, "x", **selective)
    names = [
        row.get("group") or f"{row['data']}: {row['scenario']}" for _, row in table[::-1].iterrows()
    ]
    ax.set_yticks(range(len(table)), names)
    ax.axvline(0, color="0.6", lw=1)
    ax.grid(visible=False)
    ax.locator_params(axis="x", nbins=5)  # a last label at the edge would reach beyond the figure
    ax.set_xlabel(f"difference A - B of {score}")
    words_above(ax, {"━ 95% interval": COLOURS[0], "| truth": "black", "× seen scores": COLOURS[1]})
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
    band = {"color": COLOURS[0], "alpha": 0.2, "lw": 0, "label": "valid at all times"}
    ax.fill_between(sequence.n, sequence.lower, sequence.upper, **band)
    ax.plot(sequence.n, sequence.centre, color=COLOURS[0], marker="", label="estimate")
    for label, end in zip(("valid at one time", None), fixed, strict=True):
        ax.plot(sequence.n, end, "--", color=COLOURS[1], lw=1.3, marker="", label=label)
    ax.axhline(truth, color="black", lw=1.2, label="truth")
    ax.axhline(0, color="0.6", lw=1)
    as_points_arrive(ax, sequence.n)
    ax.set_ylabel("difference A - B")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def as_points_arrive(ax: Axes, n: pd.Series | np.ndarray) -> None:
    """Count points on a logarithmic axis."""
    ax.set_xscale("log")
    ticks = [t for t in (10, 30, 100, 300, 1000, 3000, 10_000, 100_000) if min(n) <= t <= max(n)]
    ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
    ax.minorticks_off()
    ax.set_xlim(min(n), max(n))
    ax.set_xlabel("points so far")
