"""Figures of the suitability chapter."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lib.check import as_generator, as_number, check_columns
from lib.plot import COLOURS, MARKERS, new_figure
from lib.suitability.estimators import as_table
from lib.suitability.importance import _HEIGHT, _POINTS, _density

_STYLES = ("-", "--", ":", "-.")


def plot_share_suitable(steps: pd.DataFrame, margin: float = 0.0, reach: float = 0.15) -> Figure:
    """Draw the share of SUITABLE decisions by accuracy difference, with the ideal step.

    Pouget et al., Suitability Filter, ICML 2025, Figure 4.
    """
    shown = steps[(steps["low"] >= -reach - 1e-9) & (steps["high"] <= reach + 1e-9)]
    figure, ax = new_figure()
    width = 100 * (shown["high"] - shown["low"])
    ax.bar(
        100 * shown["low"],
        100 * shown["share"],
        width=0.9 * width,
        align="edge",
        color=COLOURS[0],
        label="filter",
    )
    ends, step = 100 * reach, -100 * margin
    ax.plot(
        [-ends, step, step, ends],
        [0, 0, 100, 100],
        color=COLOURS[1],
        marker="",
        linestyle="--",
        label="ideal",
    )
    if len(shown):
        ax.set_xlim(100 * shown["low"].min() - 0.5, 100 * shown["high"].max() + 0.5)
    ax.set_xlabel("user minus test accuracy (points)")
    ax.set_ylabel("SUITABLE decisions (%)")
    ax.legend(loc="upper left")
    return figure


def plot_per_fold(per_fold: pd.DataFrame, margin: float = 0.0) -> Figure:
    """Draw each user fold as a point: its accuracy difference and its SUITABLE decisions."""
    figure, ax = new_figure()
    for number, (seed, group) in enumerate(per_fold.groupby("seed")):
        ax.plot(
            100 * group["difference"],
            100 * group["share"],
            linestyle="",
            alpha=0.75,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            label=f"model {seed}",
        )
    ax.axvline(-100 * margin, color="0.4", linewidth=1)
    ax.set_xlabel("user minus test accuracy, mean (points)")
    ax.set_ylabel("SUITABLE decisions (%)")
    ax.legend(loc="upper left")
    return figure


def plot_shares(steps: Mapping[str, pd.DataFrame], reach: float = 0.1) -> Figure:
    """Draw the share of SUITABLE decisions for several margins or significance levels."""
    lines = {}
    for label, table in steps.items():
        shown = table[(table["low"] >= -reach - 1e-9) & (table["high"] <= reach + 1e-9)]
        lines[label] = (50 * (shown["low"] + shown["high"]), 100 * shown["share"])
    return plot_lines(lines, "user minus test accuracy (points)", "SUITABLE decisions (%)")


def plot_estimated_and_true(points: pd.DataFrame) -> Figure:
    """Draw estimated against true accuracy of user folds, with and without target labels.

    Pouget et al., Suitability Filter, ICML 2025, Figure 5.
    """
    figure, ax = new_figure(height=3.6)
    ends = 100 * np.array(
        [
            points[["accuracy", "estimated"]].to_numpy().min() - 0.01,
            points[["accuracy", "estimated"]].to_numpy().max() + 0.01,
        ]
    )
    ax.plot(ends, ends, color="0.4", linewidth=1, marker="", linestyle="-", label="no error")
    for number, (column, label) in enumerate(
        (("estimated", "calibrated on the source"), ("calibrated", "on the target's labels too"))
    ):
        ax.plot(
            100 * points["accuracy"],
            100 * points[column],
            linestyle="",
            marker=MARKERS[number],
            color=COLOURS[number],
            markerfacecolor="none" if number else COLOURS[0],
            label=label,
        )
    ax.set_xlabel("true accuracy of the user fold (%)")
    ax.set_ylabel("estimated accuracy (%)")
    ax.legend(loc="upper left")
    return figure


def plot_estimation_error(results: pd.DataFrame, width: float = 0.01) -> Figure:
    """Draw how accuracy estimation errors are distributed on test and on user data.

    Pouget et al., Suitability Filter, ICML 2025, Figure 6.
    """
    as_number("width", width, 0, 1)
    both = ("test", "user")
    numbers = [f"{part}{which}_accuracy" for part in ("estimated_", "") for which in both]
    check_columns("results", results, numbers)
    figure, ax = new_figure()
    errors = [
        100 * (results[f"estimated_{which}_accuracy"] - results[f"{which}_accuracy"])
        for which in both
    ]
    low, high = (f(f(e) for e in errors) for f in (min, max))
    bins = np.arange(np.floor(low), np.ceil(high) + 1e-9, 100 * width)
    for number, (error, label) in enumerate(zip(errors, ("test data", "user data"), strict=True)):
        ax.hist(
            error,
            bins,
            weights=np.full(len(error), 100 / len(error)),
            histtype="step",
            linewidth=1.8,
            linestyle=_STYLES[number],
            color=COLOURS[number],
            label=label,
        )
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set_xlabel("estimated minus true accuracy (points)")
    ax.set_ylabel("experiments (%)")
    ax.legend(loc="upper right")
    return figure


def plot_error_against_drop(results: pd.DataFrame) -> Figure:
    """Draw the estimation error on user data against the drop in accuracy, a point per user fold.

    Pouget et al., Suitability Filter, ICML 2025, Figure 7.
    """
    numbers = ["seed", "test_accuracy", "user_accuracy", "estimated_user_accuracy"]
    check_columns("results", results, numbers, ["user_fold"])
    means = (
        100
        * pd.DataFrame(
            {
                "seed": results["seed"] / 100,
                "fold": results["user_fold"].astype("category").cat.codes / 100,
                "drop": results["test_accuracy"] - results["user_accuracy"],
                "error": results["estimated_user_accuracy"] - results["user_accuracy"],
            }
        )
        .groupby(["seed", "fold"])
        .mean()
    )
    figure, ax = new_figure()
    for number, (seed, group) in enumerate(means.groupby(level="seed")):
        ax.plot(
            group["drop"],
            group["error"],
            linestyle="",
            alpha=0.75,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            label=f"model {round(100 * seed)}",
        )
    ends = np.array([min(means["drop"].min(), 0.0), means["drop"].max()])
    ax.plot(ends, ends, color="0.4", linewidth=1, marker="", label="drop not seen at all")
    ax.axhline(0, color="0.4", linewidth=1)
    ax.set_xlabel("test minus user accuracy (points)")
    ax.set_ylabel("estimated minus true\nuser accuracy (points)")
    ax.legend(loc="upper left")
    return figure


def plot_lines(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_label: str,
    y_label: str,
    level: float | None = None,
    log_x: bool = False,
) -> Figure:
    """Draw labelled curves, such as power against sample size."""
    figure, ax = new_figure()
    for number, (label, (x, y)) in enumerate(lines.items()):
        ax.plot(
            x,
            y,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle=_STYLES[number % len(_STYLES)],
            markersize=4,
            label=label,
        )
    if level is not None:
        ax.axhline(level, color="0.4", linewidth=1)
    if log_x:
        ax.set_xscale("log")
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.legend(loc="best")
    return figure


def plot_boundaries(critical: Mapping[str, Sequence[float]]) -> Figure:
    """Draw the critical values of sequential designs, look by look."""
    figure = plot_lines(
        {name: (range(1, len(z) + 1), z) for name, z in critical.items()},
        "look",
        "critical z",
    )
    figure.axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def plot_monitor(table: pd.DataFrame, accuracy: Sequence[float], reference: float) -> Figure:
    """Draw what a monitor says over time, above the accuracies that it cannot see."""
    figure, (top, bottom) = new_figure(2, 1, height=1.9, sharex=True)
    time = table["time"].to_numpy()
    suitable = table["suitable"].to_numpy(dtype=bool)
    top.plot(time, 100 * np.asarray(accuracy), color=COLOURS[0], marker="", label="true")
    for which, marker, label in ((suitable, "o", "SUITABLE"), (~suitable, "X", "INCONCLUSIVE")):
        top.plot(
            time[which],
            100 * np.asarray(accuracy)[which],
            linestyle="",
            marker=marker,
            color=COLOURS[2] if marker == "o" else COLOURS[1],
            label=label,
        )
    top.axhline(100 * reference, color="0.4", linewidth=1)
    top.set_ylabel("accuracy (%)")
    figure.legend(*top.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    bottom.semilogy(
        time, table["p_value"].clip(lower=1e-12), color=COLOURS[0], marker="", label="p-value"
    )
    bottom.semilogy(
        time, table["threshold"], color="0.4", linestyle="--", marker="", label="threshold"
    )
    bottom.legend(loc="best")
    bottom.set_ylabel("p-value")
    bottom.set_xlabel("batch")
    return figure


def plot_shap(values: pd.DataFrame, signals: Any, *, rng: np.random.Generator) -> Figure:
    """Draw SHAP values: a row per signal, a point per sample, coloured by the signal.

    Signals are in the order of their mean absolute value. A (+) beside a name says that larger
    values of the signal speak for a correct prediction, a (-) against. At most 600 samples are
    drawn, those outside the middle 99% of all SHAP values at its ends.

    Pouget et al., Suitability Filter, ICML 2025, Figure 8.
    """
    rng = as_generator(rng, "rng")
    values = as_table("values", values)
    signals = as_table("signals", signals, list(values.columns))
    if len(signals) != len(values):
        raise ValueError(f"signals must have {len(values)} rows, as values, got {len(signals)}")
    order = values.abs().mean().sort_values(kind="stable").index
    chosen = rng.permutation(len(values))[:_POINTS]
    low, high = np.quantile(values.to_numpy()[chosen], [0.005, 0.995])
    figure, ax = new_figure(height=0.8 + 0.36 * len(order))
    labels = []
    for row, name in enumerate(order):
        x = values[name].to_numpy()[chosen]
        z = signals[name].to_numpy()
        first, last = np.quantile(z, [0.05, 0.95])
        z = z[chosen]
        colour = np.clip((z - first) / (last - first), 0, 1) if last > first else 0.5 + 0 * z
        direction = np.sign(((x - x.mean()) * (z - z.mean())).sum())
        labels.append(name + {1: " (+)", -1: " (−)"}.get(direction, ""))
        x = np.clip(x, low, high)
        points = ax.scatter(
            x,
            row + _HEIGHT * _density(x, low, high) * rng.uniform(-1, 1, len(x)),
            c=colour,
            cmap="viridis",
            vmin=0,
            vmax=1,
            s=5,
            linewidths=0,
            rasterized=True,  # thousands of points would make a file of megabytes
        )
    ax.axvline(0, color="0.4", linewidth=1, zorder=0)
    ax.grid(visible=False, axis="y")
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(-0.6, len(labels) - 0.4)
    ax.set_xlabel("SHAP value (log-odds)")
    bar = figure.colorbar(points, ax=ax, location="top", aspect=30, pad=0.02)
    bar.set_ticks([0, 1], labels=["low", "high"])
    bar.set_label("value of the signal")
    bar.outline.set_visible(False)
    return figure
