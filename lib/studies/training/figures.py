"""Figures of the page "How the models are trained"."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib.plot import COLOURS, MARKERS, new_figure
from lib.privacy.accounting import ACCOUNTANTS


def plot_spending(table: pd.DataFrame) -> Figure:
    """Draw epsilon over the steps of a training, by both accountants."""
    figure, ax = new_figure()
    for name, colour, marker in zip(ACCOUNTANTS, COLOURS, MARKERS, strict=False):
        ax.plot(table["steps"], table[name], color=colour, marker=marker, label=name.upper())
    ax.set_xlabel("steps")
    ax.set_ylabel("epsilon spent")
    ax.set_ylim(bottom=0)
    ax.legend(loc="lower right")
    return figure


def plot_speed(speeds: pd.DataFrame) -> Figure:
    """Draw steps per second of the engines on a logarithmic axis."""
    figure, ax = new_figure()
    ways = ["many at once", "Opacus, two processes", "Opacus"]
    frame = speeds[ways].set_axis(speeds["model"].str.replace("_", " "))
    width = 0.26
    for k, (name, column) in enumerate(frame.items()):
        left = np.arange(len(frame)) + (k - 1) * width
        ax.bar(left, column, width=width, color=COLOURS[k], label=name)
    ax.set_xticks(np.arange(len(frame)), frame.index)
    ax.set_yscale("log")
    ax.set_ylabel("training steps / s")
    ax.set_ylim(top=60 * frame.to_numpy().max())  # room for the legend above the bars
    ax.legend(loc="upper right")
    return figure
