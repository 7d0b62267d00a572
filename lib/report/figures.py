"""Figures of a report on a user's own model.

Each imports Matplotlib when it is drawn: that takes time, which a report in words saves.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn import metrics

from lib.audit import privacy_region
from lib.report.verdicts import INKS, SIGNS, Verdict
from lib.selective import AccuracyCoverage, accuracy_bound
from lib.suitability.tipping import FMOW_ERRORS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import Container
    from matplotlib.figure import Figure

_LINES = ("-", "--", ":", "-.")
_MOST = 400  # points of a curve: more than a screen resolves


def plot_curves(curves: Mapping[str, AccuracyCoverage], target: float) -> Figure:
    """Draw selective accuracy against coverage, with the bound that the accuracy allows."""
    from lib.plot import COLOURS, new_figure

    figure, ax = new_figure(height=3.2)
    lowest = target
    for i, (name, curve) in enumerate(curves.items()):
        shown = curve.coverage >= 0.02  # the first few points are noise
        coverage, accuracy = _thinned(curve.coverage[shown], curve.accuracy[shown])
        ax.plot(
            coverage, accuracy, color=COLOURS[i % 7], linestyle=_LINES[i % 4], marker="", label=name
        )
        lowest = min(lowest, accuracy.min())
    grid = np.linspace(0.02, 1, 200)
    bound = accuracy_bound(next(iter(curves.values())).full_accuracy, grid)
    ax.plot(grid, bound, color="black", linestyle="-", linewidth=1, marker="", label="bound")
    ax.axhline(target, color="0.5", linestyle=":", marker="", linewidth=1, label="target")
    ax.set_xlabel("coverage")
    ax.set_ylabel("selective accuracy")
    ax.set_ylim(max(0, lowest - 0.02), 1.01)
    _words(ax)
    return figure


def plot_reliability(bins: pd.DataFrame) -> Figure:
    """Draw accuracy by confidence, and the diagonal on which confidence is true.

    A row of the table is a bin: mean ``confidence``, ``accuracy``, the ends ``low`` and ``high`` of
    its interval, and the number of ``rows``.
    """
    from lib.plot import COLOURS, new_figure

    confidence, accuracy = bins["confidence"], bins["accuracy"]
    figure, ax = new_figure(height=3.2)
    ax.plot([0, 1], [0, 1], color="0.5", linestyle=":", marker="", label="confidence is true")
    ends = np.maximum([accuracy - bins["low"], bins["high"] - accuracy], 0)
    ax.errorbar(confidence, accuracy, ends, color=COLOURS[0], linestyle="", marker="", capsize=2)
    sizes = 15 + 105 * bins["rows"] / bins["rows"].max()
    # Points at an accuracy of 1 are whole: clipped, they would look smaller than they are.
    ax.scatter(
        confidence, accuracy, sizes, color=COLOURS[0], label="model", clip_on=False, zorder=3
    )
    ax.set_xlim(max(0, confidence.min() - 0.05), 1.02)
    ax.set_ylim(max(0, min(bins["low"].min(), confidence.min()) - 0.05), 1.02)
    ax.set_xlabel("confidence")
    ax.set_ylabel("accuracy")
    _words(ax)
    return figure


def plot_ranking(second: npt.NDArray[np.bool_], score: npt.NDArray[np.float64]) -> Figure:
    """Draw an ROC curve, and precision against recall, of the second of two classes."""
    from lib.plot import COLOURS, new_figure

    fpr, tpr, _ = metrics.roc_curve(second, score)
    precision, recall, _ = metrics.precision_recall_curve(second, score)
    figure, (left, right) = new_figure(1, 2, height=2.5)
    chance = {"color": "0.5", "linestyle": ":", "marker": ""}
    left.plot([0, 1], [0, 1], **chance)
    left.plot(*_thinned(fpr, tpr), color=COLOURS[0], marker="")
    left.set(xlabel="false positive rate", ylabel="true positive rate")
    right.axhline(second.mean(), **chance)
    right.plot(*_thinned(recall, precision), color=COLOURS[0], marker="")
    right.set(xlabel="recall", ylabel="precision", ylim=(0, 1.02))
    return figure


def plot_moved(moved: pd.DataFrame) -> Figure:
    """Draw how far each suitability signal's mean has moved from test to user data."""
    from lib.plot import COLOURS, new_figure

    rows = moved[np.isfinite(moved["difference"])].iloc[::-1]
    figure, ax = new_figure(height=3.6)
    colours = [COLOURS[1] if found else "0.75" for found in rows["moved"]]
    ax.barh(np.arange(len(rows)), rows["difference"], color=colours)
    ax.set_yticks(np.arange(len(rows)), [name.replace("_", " ") for name in rows["signal"]])
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_xlabel("user minus test, in standard deviations", loc="right")
    ax.grid(visible=False)
    return figure


def plot_roc(
    counts: npt.NDArray[np.int64], point: tuple[float, float], claim: tuple[float, float] | None
) -> Figure:
    """Draw an attack's ROC curve, the threshold that was chosen, and what a claim allows."""
    from lib.plot import COLOURS, new_figure

    tp, fp, tn, fn = counts.T
    figure, ax = new_figure(height=3.4)
    if claim is not None:
        fpr = np.linspace(0, 1, 201)
        most = 1 - privacy_region(*claim).lower(fpr)  # the region is symmetric in both rates
        ax.plot(
            fpr,
            most,
            color=COLOURS[1],
            linestyle="--",
            marker="",
            label=rf"most at $\epsilon = {claim[0]:g}$",
        )
    ax.plot([0, 1], [0, 1], color="0.6", linestyle=":", marker="", label="chance")
    ax.plot(*_thinned(fp / (fp + tn), tp / (tp + fn)), color=COLOURS[0], marker="", label="attack")
    ax.plot(*point, color="black", marker="D", linestyle="", label="chosen threshold")
    ax.set_xlabel("false positive rate")
    ax.set_ylabel("true positive rate")
    _words(ax)
    return figure


def plot_propensities(answered: npt.NDArray, abstained: npt.NDArray) -> Figure:
    """Draw the probabilities of abstaining among rows that were answered and abstained on."""
    from lib.plot import COLOURS, new_figure

    figure, ax = new_figure(height=2.8)
    edges = np.linspace(0, 1, 21)
    ax.hist(answered, edges, color=COLOURS[0], alpha=0.6, label="answered")
    ax.hist(abstained, edges, color=COLOURS[1], histtype="step", linewidth=1.8, label="abstained")
    ax.set_xlabel("probability of abstaining")
    ax.set_ylabel("rows")
    ax.set_xlim(0, 1)
    _words(ax)
    return figure


def _words(ax: Axes) -> None:
    """Name what is drawn above the plot, in its own color, in place of a legend."""
    lines: list[list[tuple[str, str]]] = [[]]
    for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
        if sum(len(word) + 3 for word, _ in lines[-1]) + len(label) > _LETTERS:
            lines.append([])
        lines[-1].append((label, _ink(handle)))
    for up, line in enumerate(reversed(lines)):
        place = {"xy": (0, 1.03), "xycoords": "axes fraction", "xytext": (0, 12 * up)}
        for word, color in line:
            options = {"textcoords": "offset points", "va": "bottom", "fontsize": 9, "color": color}
            beside = ax.annotate(word, **place, **options)
            place = {"xy": (1, 0), "xycoords": beside, "xytext": (8, 0)}


_LETTERS = 50  # of a line of words above a plot, as many as a phone shows


def _ink(handle: Artist | Container) -> str:
    """The color of what is drawn, dark enough for letters."""
    from matplotlib.collections import Collection
    from matplotlib.colors import to_hex, to_rgb
    from matplotlib.container import Container
    from matplotlib.patches import Patch

    (one, *_) = handle.get_children() if isinstance(handle, Container) else (handle,)
    if isinstance(one, Patch):
        color = to_rgb(one.get_facecolor() if one.get_fill() else one.get_edgecolor())
    else:
        color = to_rgb(one.get_facecolor()[0] if isinstance(one, Collection) else one.get_color())
    is_gray = max(color) - min(color) < 0.01
    return to_hex([min(part, 0.45) for part in color] if is_gray else color)


def _thinned(x: npt.NDArray, y: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
    if len(x) <= _MOST:
        return x, y
    keep = np.unique(np.round(np.linspace(0, len(x) - 1, _MOST)).astype(int))
    return x[keep], y[keep]


def plot_tipping_point(point: float) -> Figure:
    """Draw a tipping point beside the errors that the estimator made on FMoW.

    Were it as wrong here as it was there, SUITABLE would be shown at the point's left alone.
    """
    from lib.plot import COLOURS, new_figure

    errors: npt.NDArray[np.float64] = np.array(FMOW_ERRORS)
    figure, ax = new_figure(height=2.8)
    edges = np.arange(-0.06, 0.2, 0.01)
    parts, colours = [errors[errors <= point], errors[errors > point]], [COLOURS[0], COLOURS[1]]
    said = ["SUITABLE", "not SUITABLE"]
    ax.hist(parts, edges, stacked=True, color=colours, label=said)
    ax.axvline(point, color="black", linewidth=1.2, label="| tipping point")
    ax.set_xlabel("accuracy on user data overstated by")
    ax.set_ylabel("folds and models")
    _words(ax)
    return figure


def plot_contamination(
    table: pd.DataFrame,
    truth: float | None = None,
    *,
    label: str = "difference A - B",
    level: float = 0.95,
) -> Figure:
    """Bounds on the estimate by the fraction of points on which missing-at-random fails."""
    from lib.plot import COLOURS, new_figure

    figure, ax = new_figure(height=2.8)
    ax.fill_between(
        table["share"], table["ci_low"], table["ci_high"], color=COLOURS[0], alpha=0.15, lw=0,
        label=f"shaded: {100 * level:.10g}% interval of the bounds",
    )  # fmt: skip
    for k, end in enumerate(("low", "high")):
        ax.plot(
            table["share"], table[end], color=COLOURS[0], marker="",
            label="bounds" if k == 0 else None,
        )  # fmt: skip
    if truth is not None:
        ax.axhline(truth, color="black", lw=1.2, label="truth")
    if table["ci_low"].min() < 0:
        ax.axhline(0, color="0.6", lw=1)
    ax.set_xlabel("fraction of contaminated points")
    ax.set_ylabel(label)
    _words(ax)
    return figure


def plot_verdicts(found: Sequence[Verdict]) -> Figure:
    """Draw a report's first screen: each question, its answer in a word, and in a line.

    On a phone in one column, where a page is wide in two.
    """
    from matplotlib.patches import Rectangle

    from lib.plot import panels

    texts = [textwrap.wrap(one.text, 48) for one in found]  # half a page, or a phone
    lines = [2.9 + 1.05 * len(text) for text in texts]  # of 0.15 inches
    middle = (len(found) + 1) // 2
    columns = [part for part in (slice(middle), slice(middle, None)) if found[part]]
    most = max(sum(lines[part]) for part in columns)
    figure, axes = panels(len(columns), 0.15 * most)
    for ax, part in zip(axes, columns, strict=True):
        ax.set(xlim=(0, 1), ylim=(most, 0))
        ax.set_axis_off()
        top = 0.0
        for one, text, height in zip(found[part], texts[part], lines[part], strict=True):
            ink = INKS[one.light]
            ax.add_patch(Rectangle((0, top), 0.012, height - 0.6, color=ink))
            at = {"x": 0.035, "va": "top", "fontsize": 9}
            said = f"{SIGNS[one.light]} {one.word}"
            ax.text(y=top, s=one.question, weight="bold", **at)
            ax.text(y=top + 1.05, s=said, weight="bold", color=ink, **at)
            ax.text(y=top + 2.15, s="\n".join(text), **at | {"fontsize": 8.5})
            top += height
    return figure
