"""Figures of the page "How the models are trained"."""

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
