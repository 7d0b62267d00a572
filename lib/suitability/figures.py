"""Figures of the suitability chapter."""

import pandas as pd
from matplotlib.figure import Figure

from lib.book.style import COLOURS, MARKERS, new_figure

__all__ = ["plot_per_fold", "plot_share_suitable"]


def plot_share_suitable(steps: pd.DataFrame, margin: float = 0.0, reach: float = 0.15) -> Figure:
    """Draw the share of SUITABLE decisions by accuracy difference, with the ideal step.

    Parameters
    ----------
    steps : pandas.DataFrame
        As :func:`~lib.suitability.share_suitable` returns it.
    margin : float
        m: the ideal step is at -m.
    reach : float
        Largest absolute accuracy difference that is shown.

    References
    ----------
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
    """Draw each user fold as a point: its accuracy difference and its SUITABLE decisions.

    Parameters
    ----------
    per_fold : pandas.DataFrame
        As :func:`~lib.suitability.summarise_folds` returns it.
    margin : float
        m: the line is at -m.
    """
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
