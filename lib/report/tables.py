"""A table as people have it: named columns of numbers, words or both, of bounded size.

Cells are kept as numbers and as places in a list of different words: as text they would take ten
times the memory.
"""

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.data.arrays import MOST_CHARACTERS, Lines, number_in, require_memory
from lib.data.untrusted import printable, short
from lib.report.blocks import plain_blocks
from lib.report.nested import unlisted

Array = npt.NDArray[Any]

#: Columns that a table may have: more than the classes of ImageNet-21k, with their labels.
MOST_COLUMNS = 25_000
#: Different words of one column beyond which it is text, which is not kept.
MOST_WORDS = 10_000
_MISSING = {"", "nan", "-nan", "+nan", "na", "n/a", "<na>", "null"}
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(\.\d*)?")  # 1,234 may have a decimal comma
_CLASSES = 1 << 16  # numbers of classes up to which they are counted
_PER_WORD = 100  # bytes that a word takes beside its characters


class ReadingError(ValueError):
    """A file that cannot be read, or in two ways; `lines` say all there is to say."""

    def __init__(self, source: str, *lines: str):
        self.lines = tuple(printable(line) for line in lines)
        super().__init__(printable(f"{source}: {' '.join(lines)}"))


@dataclass(frozen=True, eq=False)
class Column:
    """One column.

    Attributes
    ----------
    name : str
        As the file has it.
    numbers : ndarray of float64, shape (rows,)
        NaN where the cell is empty or a word.
    codes : ndarray of int32, shape (rows,), or None
        Where the cell is a word its place in `words`, else -1; None if no cell is.
    words : tuple of str
        The different words, in order of appearance.
    text : bool
        Whether there are too many, or too long, words: then `codes` is all -1.
    percent : bool
        Whether cells had a percent sign: `numbers` are then fractions.
    """

    name: str
    numbers: Array = field(repr=False)
    codes: Array | None = field(default=None, repr=False)
    words: tuple[str, ...] = ()
    text: bool = False
    percent: bool = False

    @property
    def numeric(self) -> bool:
        """Whether no cell is a word."""
        return self.codes is None and not self.text

    @property
    def empty(self) -> Array:
        """Cells without anything."""
        blank = np.isnan(self.numbers)
        return blank if self.codes is None else blank & (self.codes < 0)

    def cell(self, row: int) -> str:
        """What stands in a row, for people."""
        if self.codes is not None and self.codes[row] >= 0:
            return self.words[self.codes[row]]
        return "" if np.isnan(self.numbers[row]) else f"{self.numbers[row]:.12g}"

    def values(self) -> tuple[Array, tuple[str, ...]]:
        """Places of the rows in a list of different cells, -1 where empty, and that list, sorted.

        Numbers come before words; whole ones are written without a point.
        """
        found = np.full(len(self.numbers), -1, dtype=np.int64)
        there = ~np.isnan(self.numbers)
        numbers, found[there] = _different(self.numbers[there])
        names = [f"{number:.12g}" for number in numbers]
        if self.codes is not None:
            order = np.argsort(np.array(self.words)) if self.words else np.zeros(0, dtype=int)
            rank = np.empty(len(order), dtype=np.int64)
            rank[order] = np.arange(len(order))
            worded = self.codes >= 0
            found[worded] = len(names) + rank[self.codes[worded]]
            names += [self.words[j] for j in order]
        return found, tuple(names)


def _different(numbers: Array) -> tuple[Array, Array]:
    """The different numbers, sorted, and each one's place; classes by counting: sorting copies."""
    if len(numbers) and (least := numbers.min()) >= 0 and numbers.max() - least < _CLASSES:
        counted = (numbers - least).astype(np.int32)
        if (counted == numbers - least).all():
            there = np.bincount(counted) > 0
            place = (np.cumsum(there) - 1).astype(np.int32)
            return np.flatnonzero(there) + least, place[counted]
    return np.unique(numbers, return_inverse=True)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length by name, and what is to be said of how they were read."""

    source: str
    columns: dict[str, Column] = field(repr=False)
    rows: int
    lines: Array | None = field(default=None, repr=False)  # of a text file, from 1
    notes: tuple[str, ...] = ()

    def place(self, row: int) -> str:
        """Where a row stands, for people."""
        return f"row {row if self.lines is None else int(self.lines[row])}"

    def cell_error(self, name: str, allowed: str, row: int) -> ValueError:
        """An error that names the column, what is allowed, the cell and its row."""
        cell = short(repr(self.columns[name].cell(row)))
        return ValueError(
            f"{self.source}: column {name!r} must be {allowed}, got {cell} in {self.place(row)}"
        )


class Builder:
    """A column that grows block by block.

    With `thousands`, a comma in a cell such as 1,234 is of thousands, unless another cell of the
    column has one that can only be of decimals, such as 0,5.
    """

    def __init__(self, name: str, most_words: int = MOST_WORDS, thousands: bool = False):
        self.name, self._most = name, most_words
        self._either = array("q") if thousands else None  # rows such as 1,234; None: 1.234
        self.numbers = array("d")
        self._codes: array | None = None
        self._words: dict[str, int] = {}
        self._text = self._percent = self._odd = False
        self.held = 0  # bytes that words take

    def add(self, cells: Sequence[str]) -> None:
        """Take cells of text."""
        try:
            if "_" in "".join(cells):  # 1_000 is a number to Python, not to others
                raise ValueError
            found = array("d", map(float, cells))
        except ValueError:
            self._odd = True
            codes = [] if self._text else [self._words.get(cell, -1) for cell in cells]
            if codes and min(codes) >= 0:  # words that were met before, as of a column of groups
                self._codes.extend(codes)
                self.numbers.extend([np.nan] * len(codes))
                return
            for cell in cells:
                self.add_cell(cell)
            return
        self.numbers.extend(found)
        if self._codes is not None:
            self._codes.extend([-1] * len(found))

    @property
    def careful(self) -> bool:
        """Whether a cell was no plain number so far."""
        return self._codes is not None or self._odd

    def add_cell(self, cell: str) -> None:
        """Take one cell of text."""
        cell = cell.strip()
        if cell.lower() in _MISSING:
            self._put(np.nan, None)
            return
        value = number_in(cell)
        if value != value and cell.endswith("%"):
            value = number_in(cell[:-1].strip().replace(",", ".")) / 100
            self._percent |= value == value
        if value != value and (found := _THOUSANDS.fullmatch(cell)):
            if found[1] is None and cell.count(",") == 1:
                if self._either is not None:
                    self._either.append(len(self.numbers))
            else:
                value = number_in(cell.replace(",", ""))
        if value != value and _COMMA.fullmatch(cell):
            value = number_in(cell.replace(",", "."))
            if not found:
                self._either = None
        self._put(value, None if value == value else cell)

    def _put(self, number: float, word: str | None) -> None:
        self.numbers.append(number)
        if word is not None and self._codes is None:
            self._codes = array("i", [-1]) * (len(self.numbers) - 1)
        if self._codes is None:
            return
        code = -1
        if word is not None and not self._text:
            code = self._words.setdefault(word, len(self._words))
            if code == len(self._words) - 1:
                self.held += _PER_WORD + 4 * len(word)
            if len(word) > MOST_CHARACTERS or len(self._words) > self._most:
                self._text, code = True, -1
                self._words = {printable(word)[:MOST_CHARACTERS]: 0}
                self.held = 0
        self._codes.append(code)

    def skip(self, rows: int) -> None:
        """Leave cells empty until there are so many rows."""
        while len(self.numbers) < rows:
            self._put(np.nan, None)

    def column(self) -> Column:
        """What was taken."""
        numbers = np.frombuffer(self.numbers) if self.numbers else np.zeros(0)
        if self._either:
            numbers[self._either] = np.round(1000 * numbers[self._either])
        codes = None
        if self._codes is not None:
            codes = np.frombuffer(self._codes, dtype=np.int32)
            if self._text:
                codes = np.full(len(numbers), -1, dtype=np.int32)
        return Column(self.name, numbers, codes, tuple(self._words), self._text, self._percent)


def from_arrays(
    source: str, arrays: dict[str, Any], notes: Sequence[str] = (), lines: Array | None = None
) -> Table:
    """A table of arrays, of which those with two dimensions become a column each.

    Raises
    ------
    ValueError
        If they differ in length, or have other than one or two dimensions.
    """
    columns: dict[str, Column] = {}
    rows, first = None, ""
    for name, values in arrays.items():
        name = str(name)
        found = np.asarray(values)
        if found.ndim not in (1, 2):
            raise ValueError(
                f"{source}: {name!r} must have one or two dimensions, got shape {found.shape}"
            )
        if rows is not None and len(found) != rows:
            raise ValueError(
                f"{source}: {name!r} must have {rows} rows, as {first!r}, got {len(found)}"
            )
        rows, first = len(found), first or name
        wide = found if found.ndim == 2 else found[:, None]
        names = [name] if found.ndim == 1 else [f"{name}_{j}" for j in range(wide.shape[1])]
        if len(columns) + len(names) > MOST_COLUMNS:
            raise ValueError(f"{source}: must have at most {MOST_COLUMNS:,} columns, got more")
        for each, column in zip(names, wide.T, strict=True):
            columns[each] = _of_array(each, column)
    return Table(source, columns, rows or 0, lines, tuple(notes))


def _of_array(name: str, values: Array) -> Column:
    if values.dtype.kind in "biuf":
        return Column(name, values.astype(float, copy=False))
    builder = Builder(name, len(values))
    for value in values.tolist():
        if value is None or value != value:
            builder.add_cell("")
        elif isinstance(value, bool | int | float):
            builder.add_cell(repr(float(value)))
        else:
            builder.add_cell(str(value))
    return builder.column()


def from_rows(
    source: Path,
    header: list[str],
    records: Iterable[tuple[int, list[str]]],
    notes: Sequence[str] = (),
    keep_words: Iterable[str] = (),
    plain: tuple[Lines, str] | None = None,
) -> Table:
    """A table of rows of text; `keep_words` are columns that may have any number of words.

    `plain` are the lines and the separator that the records come from: where blocks of them are
    plain, they are read at once (:mod:`lib.report.blocks`).

    Raises
    ------
    ValueError
        If a row has not as many cells as the header, or memory would not suffice.
    """
    header, records = unlisted(header, records)
    if len(header) > MOST_COLUMNS:
        raise ValueError(
            f"{source}: must have at most {MOST_COLUMNS:,} columns, got {len(header):,}"
        )
    kept = set(keep_words)
    commas = plain is not None and plain[1] == ","  # then those in cells may be of thousands
    builders = [Builder(n, 1 << 31 if n in kept else MOST_WORDS, commas) for n in header]
    size, lines, block = max(1, 4_000 // len(header)), array("q"), []

    def flush() -> None:
        for builder, cells in zip(builders, zip(*block, strict=True), strict=True):
            builder.add(cells)
        block.clear()
        hold()

    def hold() -> None:
        held = 8 * len(lines) * len(header) + sum(each.held for each in builders)
        require_memory(source, held)

    for line, cells in records:
        if len(cells) != len(header):
            more = ""
            if not lines and not block and len(cells) == len(header) + 1:
                more = (
                    ": if the first is the row's name, the header needs a name for it, such as id"
                )
                more = ": rows end in a separator, the header does not" if not cells[-1] else more
            raise ValueError(
                f"{source}: row {line} must have {len(header)} cell{'s' * (len(header) != 1)}, as "
                f"the header has, got {len(cells)}{more}"
            )
        block.append(cells)
        lines.append(line)
        if len(block) == size:
            flush()
            if plain is not None:
                words = [j for j, each in enumerate(builders) if each.careful]
                for numbers, cells in plain_blocks(*plain, len(header), words):
                    _take_plain(builders, words, numbers, cells)
                    lines.extend(range(line + 1, line + 1 + len(numbers)))
                    line += len(numbers)
                    hold()
                plain = None
    if block:
        flush()
    if not lines:
        raise ValueError(f"{source}: must have rows, got a header only")
    columns = {b.name: b.column() for b in builders}
    numbers = np.frombuffer(lines, dtype=np.int64)
    return Table(str(source), columns, len(lines), numbers, tuple(notes))


def _take_plain(
    builders: list[Builder], words: list[int], numbers: Array, cells: list[list[str]]
) -> None:
    """Add a block of :func:`lib.report.blocks.plain_blocks` to its columns."""
    for j, column in zip(words, cells, strict=True):
        builders[j].add(column)
    rest = [each for j, each in enumerate(builders) if j not in words]
    for builder, column in zip(rest, np.ascontiguousarray(numbers.T), strict=True):
        builder.numbers.frombytes(column.tobytes())
