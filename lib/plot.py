"""One plotting style for the whole book.

Examples
--------
Those of this package begin so:

>>> from lib.plot import *
>>> from matplotlib import pyplot as plt
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import LogLocator, NullLocator

__all__ = ["COLOURS", "MARKERS", "new_figure", "style"]

#: Okabe and Ito's palette, told apart by all common kinds of colour vision; the yellow
#: is left out, being too pale for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

#: Markers in the same order, so that colour is never the only difference.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# A phone shows the 4 inches of a figure in a little over 3: 11 pt stay readable there.
_WIDTH = 4.0
#: An environment variable with which what is cut off or squeezed is an error, as in the tests.
CHECK_FIGURES = "COMPANION_CHECK_FIGURES"
_SLACK, _LEAST = 0.05, 0.5  # inches
_RC = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.bbox": "tight",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLOURS, marker=MARKERS),
    "lines.markersize": 5.5,
    "lines.linewidth": 1.8,
    "svg.fonttype": "path",
}


@contextmanager
def style() -> Iterator[None]:
    """Apply the book's style within a ``with`` block; nothing global is changed.

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> with style():
    ...     print(plt.rcParams["font.size"])
    11.0
    """
    import seaborn as sns  # here: it takes half a second, which a command without a figure saves

    with sns.axes_style("ticks"), matplotlib.rc_context(_RC):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, height: float = 3.0, **options: Any
) -> tuple[Figure, Any]:
    """Make a figure as wide as the text of a page, in the book's style.

    Parameters
    ----------
    rows, columns : int
        Panels. On a phone panels below each other read better than side by side.
    height : float
        Height of one row, in inches.
    **options
        For ``matplotlib.pyplot.subplots``, such as ``sharex``.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes or array of them

    Examples
    --------
    >>> from matplotlib import pyplot as plt
    >>> figure, axes = new_figure(rows=2, height=2.0)
    >>> figure.get_size_inches().tolist(), len(axes)
    ([4.0, 4.0], 2)
    >>> plt.close(figure)
    """
    from matplotlib import pyplot as plt  # here: it takes time, which a text report saves

    with style():
        figure, axes = plt.subplots(
            rows, columns, figsize=(_WIDTH, height * rows), layout="constrained", **options
        )
    for ax in figure.axes:
        _grid(ax)
    return figure, axes


def panels(rows: int, height: float, **options: Any) -> tuple[Figure, Any]:
    """As :func:`new_figure`: panels below each other, an array of them also if there is one."""
    figure, axes = new_figure(rows, 1, height, sharex=True, squeeze=False, **options)
    return figure, axes[:, 0]


def _grid(ax: Axes) -> None:
    ax.grid(visible=True, axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def plain_log(axis: Axis) -> None:
    """Write plain numbers on a logarithmic axis of few decades: 2, 3 and 5 beside powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def svg_bytes(figure: Figure, salt: str, title: str = "") -> bytes:
    """SVG of a figure, which is closed; without date, with a fixed salt: always the same file."""
    from matplotlib import pyplot as plt

    stream = io.BytesIO()
    metadata = {"Date": None} | ({"Title": title} if title else {})
    try:
        with matplotlib.rc_context({"svg.hashsalt": salt}):
            figure.savefig(stream, format="svg", metadata=metadata)
        if os.environ.get(CHECK_FIGURES) and (fault := _fault(figure)):
            raise ValueError(f"figure {salt} {fault}")
    finally:
        plt.close(figure)
    return stream.getvalue()


def _fault(figure: Figure) -> str:
    """What of a figure that was drawn is cut off or squeezed; empty if nothing is."""
    (width, height), box = figure.get_size_inches(), figure.get_tightbbox()
    if (over := max(-box.x0, box.x1 - width, -box.y0, box.y1 - height)) > _SLACK:
        return f"goes {over:.2f} inches beyond its {width:g} x {height:g}"
    for ax in figure.axes:
        size = ax.get_position().bounds[2:] * figure.get_size_inches()
        if min(size) < _LEAST and not hasattr(ax, "_colorbar"):
            return f"has axes of {size[0]:.2f} x {size[1]:.2f} inches"
    return ""
