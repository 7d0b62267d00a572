"""Figures of the chapter on counterfactual evaluation."""

from collections.abc import Mapping, Sequence

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
from lib.studies.counterfactual.tables import ESTIMATOR_TITLES
from lib.studies.headed import head

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


def plot_miscoverage(results: pd.DataFrame, reported: Mapping[tuple[str, str], float]) -> Figure:
    """Miscoverage of each estimator with each learner, beside the values that P4 prints."""
    learners = list(dict.fromkeys(results["learner"]))
    figure, axes = panels(len(learners), 1.45)
    for ax, learner in zip(axes, learners, strict=True):
        rows = results[results["learner"] == learner].set_index("estimator")
        for y, estimator in enumerate(reversed(ESTIMATOR_TITLES)):
            row = rows.loc[estimator]
            low, high = share_interval(row["miscovered"], row["repetitions"])
            ax.plot([low, high], [y, y], color=COLOURS[0], lw=4, alpha=0.4, marker="")
            ax.plot(row["miscoverage"], y, "o", color=COLOURS[0], label="here" * (y == 0))
            diamond = {"mfc": "none", "mec": COLOURS[1], "ms": 8, "mew": 1.6}
            ax.plot(reported[learner, estimator], y, "D", label="P4" * (y == 0), **diamond)
        ax.axvline(_ALPHA, color="black", ls="--", lw=1)
        ax.set_yticks(range(3), [ESTIMATOR_TITLES[e] for e in reversed(ESTIMATOR_TITLES)])
        ax.set_ylim(-0.5, 2.5)
        ax.set_title({"super": "super learner"}.get(learner, learner), loc="left")
    axes[-1].set_xlabel("fraction of intervals that miss the truth")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


def _limits(counts: pd.Series, repetitions: pd.Series) -> np.ndarray:
    """Exact 95% limits of rates, lower ones and upper ones."""
    pairs = zip(counts, repetitions, strict=True)
    return np.transpose([share_interval(*pair) for pair in pairs])


def plot_power(results: pd.DataFrame) -> Figure:
    """Rejection rates of experiment 2 by shift, one line a sample size."""
    figure, ax = new_figure(height=3.2)
    for k, (n, rows) in enumerate(results.groupby("n")):
        rows = rows.sort_values("shift")
        colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
        low, high = _limits(rows["rejected"], rows["repetitions"])
        ax.fill_between(rows["shift"], low, high, color=colour, alpha=0.15, lw=0)
        ax.plot(rows["shift"], rows["power"], color=colour, marker=marker, label=f"{n:,}")
    ax.axhline(_ALPHA, color="black", ls="--", lw=1)
    ax.set_xlabel(r"shift $\mu$ of B's boundary")
    ax.set_ylabel("fraction of rejections")
    figure.legend(loc="outside upper center", ncols=3, title="points")
    return figure


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


def plot_scenarios(table: pd.DataFrame, score: str = "Brier scores") -> Figure:
    """Intervals of real-data scenarios with the true difference and that of selective scores."""
    figure, ax = new_figure(height=1.1 + 0.32 * len(table))
    for y, (_, row) in enumerate(table[::-1].iterrows()):
        words = ("95% interval", "truth", "selective scores")
        words = words if y == len(table) - 1 else (None, None, None)
        interval = {"color": COLOURS[0], "lw": 5, "alpha": 0.5, "marker": ""}
        ax.plot([row["low"], row["high"]], [y, y], label=words[0], **interval)
        ax.plot(row["true difference"], y, "k|", ms=16, mew=2.4, label=words[1])
        selective = {"color": COLOURS[1], "ms": 7, "mew": 2}
        ax.plot(row["selective difference"], y, "x", label=words[2], **selective)
    names = [
        row.get("group") or f"{row['data']}: {row['scenario']}" for _, row in table[::-1].iterrows()
    ]
    ax.set_yticks(range(len(table)), names)
    ax.axvline(0, color="0.6", lw=1)
    ax.grid(visible=False)
    ax.locator_params(axis="x", nbins=5)  # a last label at the edge would reach beyond the figure
    ax.set_xlabel(f"difference A - B of {score}")
    figure.legend(loc="outside upper center", ncols=3, columnspacing=1, handletextpad=0.4)
    return figure


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
    _as_points_arrive(ax, sequence.n)
    ax.set_ylabel("difference A - B")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def plot_stream(watched: pd.DataFrame) -> Figure:
    """Two services as points arrive: the exact sequence, one-time intervals, truth and answers."""
    times = np.unique(np.geomspace(1, len(watched), _POINTS).astype(int)) - 1
    rows = watched.iloc[times]
    fixed = rows["fixed time"], 2 * rows["centre"] - rows["fixed time"]
    figure, ax = new_figure(height=3.0)
    ends = rows[["lower", "upper"]].clip(-1, 1)
    ax.fill_between(rows["n"], ends["lower"], ends["upper"], color=COLOURS[0], alpha=0.2, lw=0)
    for end in fixed:
        ax.plot(rows["n"], end, "--", color=COLOURS[1], lw=1, marker="")
    word = {"textcoords": "offset points", "fontsize": 9}
    for column, colour, name, up in (
        ("answered", COLOURS[2], "by what they answered", -14),
        ("truth", "black", "had both always answered", 22),
    ):
        ax.plot(rows["n"], rows[column], color=colour, lw=1.4, marker="")
        last = rows["n"].iloc[-1], rows[column].iloc[-1]
        ax.annotate(name, last, (-2, up), color=colour, ha="right", **word)
    ax.axhline(0, color="0.6", lw=1)
    for n in _apart(watched)["n"][:1]:
        ax.axvline(n, 0.35, 0.65, color="0.2", lw=1.4, ls=":")
    _as_points_arrive(ax, rows["n"])
    reach = 1.2 * np.abs([*fixed, rows["truth"], rows["answered"]]).max()
    ax.set_ylim(-reach, reach)
    ax.set_ylabel("score of A minus B's")
    words = {"valid at every time": COLOURS[0], "- - at one time only": COLOURS[1]}
    head(ax, when_to_stop(watched), words)
    return figure


def when_to_stop(watched: pd.DataFrame) -> str:
    """When a band first excludes zero, for whom, and what the answers' scores say, in words."""
    apart = _apart(watched)
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


def _apart(watched: pd.DataFrame) -> pd.DataFrame:
    return watched[(watched["lower"] > 0) | (watched["upper"] < 0)]


def _as_points_arrive(ax: Axes, n: pd.Series | np.ndarray) -> None:
    ax.set_xscale("log")
    ticks = [t for t in (10, 30, 100, 300, 1000, 3000, 10_000, 100_000) if min(n) <= t <= max(n)]
    ax.set_xticks(ticks, [f"{t:,}" for t in ticks])
    ax.minorticks_off()
    ax.set_xlim(min(n), max(n))
    ax.set_xlabel("points so far")
