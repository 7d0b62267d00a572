"""A figure's title, which says what is found, and colored words in place of a legend."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def head(
    ax: Axes, said: str, words: Mapping[str, str] | Sequence[tuple[str, str]] = (), lines: int = 1
) -> None:
    """Write the finding at the left above a plot, and under it words in their colors.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The plot.
    said : str
        The finding: at most two lines of about 50 letters, since a figure does not break them.
    words : mapping, or pairs, of words to colors
        In the order in which they stand; none for a plot whose marks are named beside them.
    lines : int
        Lines that they take.
    """
    ax.set_title(said, loc="left", fontsize=10, pad=8 + _LINE * lines * bool(words))
    pairs, each = list(dict(words).items()), -(-len(words) // lines)
    for line in range(lines):
        words_above(ax, dict(pairs[line * each :][:each]), up=_LINE * (lines - 1 - line))


_LINE = 12  # points


def head_rows(figure: Figure, said: str) -> None:
    """Write the finding above a figure, from its left edge on.

    On a phone there is more room than above the plot, beside whose left the names of rows stand.
    """
    figure.suptitle(said, x=0.01, ha="left", fontsize=10)


def words_above(ax: Axes, words: Mapping[str, str], shift: float = 0.0, up: float = 0.0) -> None:
    """Write words in their colors beside each other above a plot, `shift` points from its left."""
    place = {"xy": (0, 1.03), "xycoords": "axes fraction", "xytext": (shift, up)}
    for word, color in words.items():
        options = {"textcoords": "offset points", "va": "bottom", "fontsize": 9, "color": color}
        place = {"xy": (1, 0), "xycoords": ax.annotate(word, **place, **options), "xytext": (8, 0)}


def percent(share: float) -> str:
    """A share in words that do not round some to none, or all but some to all."""
    if 0 < share < 0.01:
        return "under 1%"
    if 0.99 < share < 1:
        return "over 99%"
    return f"{share:.0%}"
