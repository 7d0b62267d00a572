"""Figures of the two chapters on P1."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from lib.plot import COLOURS, MARKERS, new_figure
from lib.selective.curves import accuracy_bound, accuracy_coverage
from lib.studies.interplay.outlier import OutlierStudy
from lib.studies.interplay.panel import Imbalance, Panel
from lib.studies.interplay.tables import acceptance_position, mean_curve, selective_net_curve

_LINES = ("-", "--", "-.", ":")
_METHODS = {
    "SR": (COLOURS[0], "-"),
    "SAT": (COLOURS[5], "--"),
    "MCDO": (COLOURS[2], "-."),
    "DE": (COLOURS[4], "--"),
    "SCTD": (COLOURS[1], "-"),
    "SCTD, ties by SR": (COLOURS[1], ":"),
    "SN": (COLOURS[6], ""),
}


def epsilon_word(epsilon: float) -> str:
    """The budget as figures write it."""
    return r"$\epsilon = \infty$" if math.isinf(epsilon) else rf"$\epsilon = {epsilon:g}$"


def plot_boundaries(study: OutlierStudy) -> Figure:
    """Draw the training points of the first seed and every model's decision boundary.

    P1, Figure 1.
    """
    figure, ax = new_figure()
    ax.scatter(*_some(study.points[:-1], 300).T, s=6, color="0.75", label="majority")
    ax.scatter(*study.points[-1], s=60, color=COLOURS[1], marker="X", zorder=3, label="outlier")
    low, high = -5.0, 5.0
    y = np.array([low, high])
    for i, (epsilon, (w1, w2, b)) in enumerate(zip(study.epsilons, study.weights, strict=True)):
        if abs(w1) < 1e-9:
            continue
        ax.plot(
            -(w2 * y + b) / w1,
            y,
            color=COLOURS[(0, 2, 3, 6)[i % 4]],
            linestyle=_LINES[i % 4],
            marker="",
            label=epsilon_word(epsilon),
        )
    ax.set_xlim(-5, 15)
    ax.set_ylim(low, high)
    ax.set_xlabel("$x_1$")
    ax.set_ylabel("$x_2$")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9)
    return figure


def plot_wrong_confidence(study: OutlierStudy) -> Figure:
    """Draw the distribution over seeds of the confidence in the wrong class, by budget."""
    figure, ax = new_figure()
    n = study.wrong_confidence.shape[1]
    jitter = np.linspace(-0.28, 0.28, n)
    for i, values in enumerate(study.wrong_confidence):
        ax.plot(
            *_thinned(i + jitter, np.sort(values), 100),
            color=COLOURS[i],
            marker=MARKERS[i],
            linestyle="",
            markersize=2.5,
            alpha=0.6,
        )
        ax.plot([i - 0.33, i + 0.33], 2 * [values.mean()], color="black", marker="")
    ax.axhline(0.5, color="0.5", linestyle=":", marker="")
    ax.set_xticks(range(len(study.epsilons)), [epsilon_word(e) for e in study.epsilons])
    ax.set_ylabel("confidence in wrong class")
    ax.set_ylim(-0.03, 1.03)
    return figure


def plot_panel(panel: Panel) -> Figure:
    """Draw selective accuracy against coverage for P1's methods, a panel a budget.

    P1, Figure 2.
    """
    epsilons = panel.settings.epsilons
    figure, axes = new_figure(rows=len(epsilons), height=2.6, sharex=True)
    for ax, epsilon in zip(np.atleast_1d(axes), epsilons, strict=True):
        lowest = 1.0
        for method, (colour, line) in _METHODS.items():
            if method == "SN":
                if epsilon in panel.selective:
                    found = panel.selective[epsilon]
                    coverages = panel.settings.coverages
                    points = np.mean(
                        [
                            selective_net_curve(c, s, coverages)
                            for c, s in zip(found.correct, found.score, strict=True)
                        ],
                        axis=0,
                    )
                    ax.plot(coverages, points, color=colour, linestyle="", marker="D", label="SN")
                    lowest = min(lowest, points.min())
                continue
            if (method, epsilon) not in panel.predictions:
                continue
            coverage, accuracy = mean_curve(panel, method, epsilon)
            shown = coverage >= 0.02  # the first few points are noise
            ax.plot(
                *_thinned(coverage[shown], accuracy[shown]),
                color=colour,
                linestyle=line,
                marker="",
                label=method,
            )
            lowest = min(lowest, accuracy[shown].min())
        ax.set_title(epsilon_word(epsilon))
        ax.set_ylabel("selective accuracy")
        ax.set_ylim(max(0, lowest - 0.02), 1.005)
    last = np.atleast_1d(axes)[-1]
    last.set_xlabel("coverage")
    last.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=3, fontsize=9)
    return figure


def plot_scores(table: pd.DataFrame) -> Figure:
    """Draw mean normalized scores by budget, a line a method, with standard deviations."""
    figure, ax = new_figure(height=3.4)
    epsilons = list(dict.fromkeys(table["epsilon"]))
    for i, (method, rows) in enumerate(table.groupby("method", sort=False)):
        colour, line = _METHODS.get(method, (COLOURS[i % 7], "-"))
        ax.errorbar(
            np.arange(len(rows)) + 0.04 * (i - 3),
            rows["score"],
            yerr=rows["score sd"],
            color=colour,
            linestyle=line or "-",
            marker=MARKERS[i % 7],
            capsize=2,
            label=method,
        )
    positive = table["score"][table["score"] > 0]
    if len(positive):  # a standard deviation may reach below 0, where no logarithm is
        ax.set_yscale("log")
        ax.set_ylim(0.5 * positive.min(), 1.3 * (table["score"] + table["score sd"]).max())
    ax.set_xticks(range(len(epsilons)), [epsilon_word(e) for e in epsilons])
    ax.set_ylabel("normalized score")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=9)
    return figure


def plot_to_bound(panel: Panel, method: str = "SCTD") -> Figure:
    """Draw a method's curves with their bounds, and shade the area between.

    P1, Figure 3.
    """
    figure, ax = new_figure(height=3.2)
    for i, epsilon in enumerate(panel.settings.epsilons):
        coverage, accuracy = mean_curve(panel, method, epsilon)
        found = panel.predictions[method, epsilon].correct.mean(1)
        bound = np.mean([accuracy_bound(a, coverage) for a in found], axis=0)
        c, low = _thinned(coverage, accuracy)
        _, high = _thinned(coverage, bound)
        ax.plot(c, low, color=COLOURS[i], marker="", label=epsilon_word(epsilon))
        ax.plot(c, high, color=COLOURS[i], marker="", linestyle="--", linewidth=1)
        ax.fill_between(c, low, high, color=COLOURS[i], alpha=0.15)
    ax.set_xlabel("coverage")
    ax.set_ylabel("selective accuracy")
    ax.legend(loc="lower left")
    return figure


def plot_imbalance(study: Imbalance) -> Figure:
    """Draw accuracy against coverage for all points and for the rare class, a panel a p0.

    P1, Figures 4 and 5.
    """
    figure, axes = new_figure(rows=len(study.keep), height=2.4, sharex=True)
    rare = study.labels == 0
    for ax, p0 in zip(np.atleast_1d(axes), study.keep, strict=True):
        for i, epsilon in enumerate(study.epsilons):
            found = study.predictions[p0, epsilon]
            for rows, line in ((slice(None), "--"), (rare, "-")):
                curves = [
                    accuracy_coverage(c[rows], s[rows])
                    for c, s in zip(found.correct, found.score, strict=True)
                ]
                mean = np.mean([curve.accuracy for curve in curves], axis=0)
                ax.plot(
                    *_thinned(curves[0].coverage, mean),
                    color=COLOURS[i],
                    linestyle=line,
                    marker="",
                    label=epsilon_word(epsilon) if line == "-" else None,
                )
        ax.set_title(f"$p_0 = {p0:g}$")
        ax.set_ylabel("accuracy")
        ax.set_ylim(-0.03, 1.03)
    last = np.atleast_1d(axes)[-1]
    last.set_xlabel("coverage (of all points, or of the class)")
    last.legend(loc="upper center", bbox_to_anchor=(0.5, -0.35), ncols=4, fontsize=9)
    return figure


def plot_positions(study: Imbalance, epsilons: Sequence[float] | None = None) -> Figure:
    """Draw at which coverage points of the rare class are accepted, right and wrong ones.

    P1, Figures 4 and 5. At most sixty points, evenly spaced in the test set.
    """
    epsilons = study.epsilons if epsilons is None else epsilons
    figure, axes = new_figure(rows=len(study.keep), height=1.5, sharex=True)
    rare = _some(np.flatnonzero(study.labels == 0), 60)
    for ax, p0 in zip(np.atleast_1d(axes), study.keep, strict=True):
        for i, epsilon in enumerate(epsilons):
            found = study.predictions[p0, epsilon]
            position = acceptance_position(found.score[0])[rare]
            correct = found.correct[0][rare]
            for right, colour, shift in ((True, COLOURS[0], 0.18), (False, COLOURS[4], -0.18)):
                ax.plot(
                    position[correct == right],
                    np.full((correct == right).sum(), -i + shift),
                    color=colour,
                    linestyle="",
                    marker="|",
                    markersize=5,
                    label={True: "right", False: "wrong"}[right] if i == 0 else None,
                )
        ax.set_yticks([-i for i in range(len(epsilons))], [epsilon_word(e) for e in epsilons])
        ax.set_ylim(-len(epsilons) + 0.5, 0.5)
        ax.set_title(f"$p_0 = {p0:g}$")
        ax.grid(visible=False)
    last = np.atleast_1d(axes)[-1]
    last.set_xlabel("coverage at which the point is accepted")
    last.legend(loc="upper center", bbox_to_anchor=(0.5, -0.5), ncols=2)
    return figure


def plot_bound_reached(curves: Mapping[float, npt.NDArray]) -> Figure:
    """Draw perfect orders and the bound, which coincide.

    P1, Figure 6.
    """
    figure, ax = new_figure()
    for i, (a, accuracy) in enumerate(curves.items()):
        coverage = np.arange(1, len(accuracy) + 1) / len(accuracy)
        colour = COLOURS[i % 7]
        ax.plot(
            coverage, accuracy_bound(a, coverage), color=colour, marker="", linewidth=4, alpha=0.3
        )
        ax.plot(
            *_thinned(coverage, accuracy), color=colour, marker="", linestyle="--", label=f"{a:g}"
        )
    ax.set_xlabel("coverage")
    ax.set_ylabel("selective accuracy")
    ax.legend(title="full accuracy", loc="lower left")
    return figure


def plot_early_stopping(table: pd.DataFrame) -> Figure:
    """Draw the privacy that accuracy-aligned models have spent, beside what they were made for."""
    figure, ax = new_figure()
    x = np.arange(len(table))
    ax.bar(x - 0.2, table["epsilon"], width=0.38, color="0.75", label="aimed at")
    ax.bar(x + 0.2, table["spent"], width=0.38, color=COLOURS[0], label="spent when aligned")
    ax.set_xticks(x, [epsilon_word(e) for e in table["epsilon"]])
    ax.set_ylabel(r"$\epsilon$")
    ax.legend()
    return figure


def plot_needed_points(table: pd.DataFrame, at_hand: int) -> Figure:
    """Draw how many evaluation points tell each method from SR, by budget."""
    figure, ax = new_figure(height=3.2)
    for i, (method, rows) in enumerate(table.groupby("method", sort=False)):
        colour, _ = _METHODS.get(method, (COLOURS[i % 7], "-"))
        ax.plot(
            np.arange(len(rows)), rows["points"], color=colour, marker=MARKERS[i % 7], label=method
        )
    ax.axhline(at_hand, color="0.4", linestyle=":", marker="", label="points at hand")
    ax.set_yscale("log")
    epsilons = list(dict.fromkeys(table["epsilon"]))
    ax.set_xticks(range(len(epsilons)), [epsilon_word(e) for e in epsilons])
    ax.set_ylabel("evaluation points needed")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=9)
    return figure


def _some(rows: npt.NDArray, most: int) -> npt.NDArray:
    """At most so many rows, evenly spaced."""
    return rows[:: -(-len(rows) // most) or 1]


def _thinned(x: npt.NDArray, y: npt.NDArray, most: int = 400) -> tuple[npt.NDArray, npt.NDArray]:
    """At most so many points of a curve, for a small file: more than a screen resolves."""
    if len(x) <= most:
        return x, y
    keep = np.unique(np.round(np.linspace(0, len(x) - 1, most)).astype(int))
    return x[keep], y[keep]
