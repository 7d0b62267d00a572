"""One plotting style for the whole book.

Examples
--------
Those of this package begin so:

>>> from lib.plot import *
>>> from matplotlib import pyplot as plt
"""

import io
import os
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import LogLocator, NullLocator

__all__ = ["COLOURS", "MARKERS", "new_figure", "style"]

#: Okabe and Ito's palette, told apart by all common kinds of color vision; the yellow
#: is left out, being too pale for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

#: Markers in the same order, so that color is never the only difference.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# A phone shows the 4 inches of a figure in a little over 3: 11 pt stay readable there.  The column
# of a page has 7 to 8 inches on a screen, where the same figure is laid out anew: see `svg_pair`.
_WIDTH, _WIDE = 4.0, 7.0
_STACKED: WeakKeyDictionary[Figure, tuple[Sequence[Axes], int]] = WeakKeyDictionary()
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
        Plots. On a phone plots below each other read better than side by side.
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
    """As :func:`new_figure`: plots below each other, an array of them also if there is one.

    Where a page is wide they stand side by side: nothing may depend on which is above which.
    """
    figure, axes = new_figure(rows, 1, height, sharex=True, squeeze=False, **options)
    if rows > 1:
        side_by_side(figure, axes[:, 0], {2: 2, 4: 2}.get(rows, 3))
    return figure, axes[:, 0]


def side_by_side(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """Have plots stand in so many columns, row by row, where a page is wide."""
    _STACKED[figure] = list(axes), columns


def _grid(ax: Axes) -> None:
    ax.grid(visible=True, axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def plain_log(axis: Axis, digits: Sequence[int] = (1, 2, 3, 5)) -> None:
    """Write plain numbers on a logarithmic axis of few decades: 2, 3 and 5 beside powers of ten."""
    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def svg_bytes(figure: Figure, salt: str, title: str = "") -> bytes:
    """SVG of a figure, which is closed; without date, with a fixed salt: always the same file."""
    from matplotlib import pyplot as plt

    try:
        return _svg(figure, salt, title)
    finally:
        plt.close(figure)


def svg_pair(figure: Figure, salt: str) -> tuple[bytes, bytes]:
    """Two SVGs of a figure, which is closed: for a phone, and for the whole column of a page.

    The second is as wide as the text on a screen; what :func:`panels` stacked stands side by side
    there, with what the plots have in common said once.  Plots with legends of their own, which
    need room, stay stacked.
    """
    from matplotlib import pyplot as plt

    try:
        narrow = _svg(figure, salt, "")
        with style():
            _spread(figure)
        return narrow, _svg(figure, f"{salt}, wide", "")
    finally:
        plt.close(figure)


def _svg(figure: Figure, salt: str, title: str) -> bytes:
    stream = io.BytesIO()
    metadata = {"Date": None} | ({"Title": title} if title else {})
    drawn: list[Any] = []
    heard = figure.canvas.mpl_connect("draw_event", lambda event: drawn.append(event.renderer))
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(stream, format="svg", metadata=metadata)
    figure.canvas.mpl_disconnect(heard)
    if os.environ.get(CHECK_FIGURES) and (fault := _fault(figure, drawn[-1])):
        raise ValueError(f"figure {salt} {fault}")
    return stream.getvalue()


def _spread(figure: Figure) -> None:
    """Lay a figure that was drawn for a phone out for a page."""
    height = figure.get_size_inches()[1]
    axes, columns = _STACKED.get(figure, ([], 1))
    if len(axes) < 2 or sum(ax.get_legend() is not None for ax in axes) > 1:
        figure.set_size_inches(_WIDE, height)
        return
    rows = -(-len(axes) // columns)
    before = axes[0].get_subplotspec().get_gridspec().nrows
    figure.set_size_inches(_WIDE, rows * max(height / before, 2.2) + 0.5)
    grid = figure.add_gridspec(rows, columns)
    for i, ax in enumerate(axes):
        ax.set_subplotspec(grid[divmod(i, columns)])
        ax.tick_params(labelbottom=i + columns >= len(axes))
        for text in ax.texts if ax.get_title(loc="left") else ():
            # Under such a title words above a plot have room, and may reach over the one beside it.
            text.set_in_layout(text.get_window_extent().y0 < ax.bbox.y1)
        if "$" not in ax.get_title():  # which has no place to break a line
            ax.title.set_text(textwrap.fill(ax.get_title(), round(60 / columns)))
    _say_once(figure, axes, columns)


def _say_once(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """Of plots side by side: one legend, one label below them, one at the left of a row."""
    below = {ax.get_xlabel() for ax in axes} - {""}
    if len(below) == 1:
        for ax in axes:
            ax.set_xlabel("")
        figure.supxlabel(below.pop(), fontsize="medium")
    same = len({ax.get_ylabel() for ax in axes}) == 1
    named = [tuple(label.get_text() for label in ax.get_yticklabels()) for ax in axes]
    one_axis = all(ax.get_ylim() == axes[0].get_ylim() for ax in axes) and len(set(named)) == 1
    for i, ax in enumerate(axes):
        if i % columns and same:
            ax.set_ylabel("")
        if i % columns and one_axis:
            ax.tick_params(labelleft=False)
    for legend in (ax.get_legend() for ax in axes if ax.get_legend()):  # one at most
        texts, title = [text.get_text() for text in legend.get_texts()], legend.get_title()
        handles = legend.legend_handles
        legend.remove()
        # Where words are long, fewer of them stand in a line.
        line = max(1, min(len(texts), int(80 / (6 + max(map(len, texts))))))
        options = {"ncols": line, "title": title.get_text() or None, "fontsize": 10}
        figure.legend(handles, texts, loc="outside upper center", **options)


def _fault(figure: Figure, renderer: Any) -> str:
    """What of a figure that was drawn is cut off or squeezed; empty if nothing is.

    By what drew it as SVG, which has measured all words.
    """
    (width, height), dpi = figure.get_size_inches(), figure.dpi
    figure.dpi = 72
    box = figure.get_tightbbox(renderer)
    figure.dpi = dpi
    sides = {"left": -box.x0, "right": box.x1 - width, "bottom": -box.y0, "top": box.y1 - height}
    side = max(sides, key=sides.__getitem__)
    if (over := sides[side]) > _SLACK:
        return f"goes {over:.2f} inches beyond its {width:g} x {height:g} at the {side}"
    for ax in figure.axes:
        size = ax.get_position().bounds[2:] * figure.get_size_inches()
        if min(size) < _LEAST and not hasattr(ax, "_colorbar"):
            return f"has axes of {size[0]:.2f} x {size[1]:.2f} inches"
    return ""
