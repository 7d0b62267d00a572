"""Blocks of plain lines of numbers, read by NumPy's parser in C; all else is left to the other.

A block is plain if no line has a quote, all have as many cells as the header, and every cell of a
column that has held nothing but numbers so far is a number as NumPy and Python both write it (they
share the conversion, so that values are the same to the last bit).  At the first block that is not,
its lines are given back, and the careful reader goes on from there.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.data.arrays import Lines

Array = npt.NDArray[Any]

_CELLS = 20_000  # of a block
_FEW = 8  # columns of words that are cut out line by line
_LONGEST = 100_000  # characters of a line


def plain_blocks(
    lines: Lines, separator: str, width: int, words: Sequence[int]
) -> Iterator[tuple[Array, list[list[str]]]]:
    """Numbers of all columns but `words`, shape (rows, columns), and the cells of those."""
    numeric = [j for j in range(width) if j not in set(words)]
    if not numeric or len(words) > _FEW:
        return
    size = max(1, _CELLS // width)
    while taken := lines.take(size, _LONGEST):
        found = _plain(taken, separator, width, numeric, words)
        if found is None:
            lines.give_back(taken)
            return
        yield found


def _plain(
    taken: list[str], separator: str, width: int, numeric: list[int], words: Sequence[int]
) -> tuple[Array, list[list[str]]] | None:
    """A block, or None where anything is odd."""
    if any('"' in line or line.count(separator) != width - 1 for line in taken):
        return None
    rows = [line.rstrip("\r\n") for line in taken]
    options = {"delimiter": separator, "comments": None, "ndmin": 2, "usecols": numeric}
    try:
        numbers = np.loadtxt(rows, **options)
    except (ValueError, OverflowError):
        return None
    if len(numbers) != len(rows):
        return None
    cells = []
    for j in words:
        if 2 * j < width:
            cells.append([row.split(separator, j + 1)[j].strip() for row in rows])
        else:
            cells.append([row.rsplit(separator, width - j)[j - width].strip() for row in rows])
    return numbers, cells
