"""A trial of two services as CSV: scores and abstentions of both, and features."""

import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.data.arrays import number_in, require_memory
from lib.data.untrusted import short
from lib.report.predictions import FEWER_FEATURES, MOST_FEATURES

Array = npt.NDArray[Any]

#: Columns that say a file without parts is such a trial.
TRIAL = ("score_a", "abstained_a", "score_b", "abstained_b")
_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_MISSING = {"", "nan", "-nan", "+nan", "na", "n/a", "null"}
_MOST_CATEGORIES = 30
_OFTEN = 1000  # rows after which the memory that a file takes is looked at


def read_trial(path: Path, header: list[str], records: Iterator) -> dict[str, Any]:
    """Read a trial of two services: scores, abstentions, propensities where told; else features."""
    header = [" ".join(name.split()) for name in header]
    for name in TRIAL:
        if name not in header:
            found = short(", ".join(map(repr, header)))
            raise ValueError(f"{path}: column {name!r} must be there, got {found}")
    if "" in header:
        raise ValueError(
            f"{path}: every column must have a name, got none for column {header.index('') + 1} of "
            f"{len(header)} (an index that pandas wrote? index=False leaves it out)"
        )
    told = [letter for letter in "ab" if f"propensity_{letter}" in header]
    kept = {name: array("d") for name in (*TRIAL, *(f"propensity_{each}" for each in told))}
    _few_features(path, len(header) - len(kept))
    features = {name: _Feature(path, name) for name in header if name not in kept}
    count = 0
    for count, (line, cells) in enumerate(records, 1):
        _same_cells(path, header, line, cells)
        if count % _OFTEN == 0:
            require_memory(path, 8 * count * len(header))
        row = dict(zip(header, (" ".join(cell.split()) for cell in cells), strict=True))
        for letter in "ab":
            _read_answer(path, letter, letter in told, row, line, kept)
        for name, feature in features.items():
            feature.add(row[name], line)
    if not count:
        raise ValueError(f"{path}: must have rows, got a header only")
    arrays: dict[str, Any] = {}
    for who, letter in (("test", "a"), ("other", "b")):
        arrays[f"{who}_abstained"] = np.array(kept.pop(f"abstained_{letter}")) == 1
        arrays[f"{who}_scores"] = np.frombuffer(kept.pop(f"score_{letter}"))
        if letter in told:
            arrays[f"{who}_propensities"] = np.frombuffer(kept.pop(f"propensity_{letter}"))
    if features:
        names = [name for feature in features.values() for name in feature.names()]
        _few_features(path, len(names))
        require_memory(path, 8 * count * (len(names) + len(TRIAL) + len(told)))
        table, place = np.empty((count, len(names))), 0
        for feature in features.values():
            place = feature.fill(table, place)
        arrays |= {"feature_names": tuple(names), "test_features": table}
    return arrays


def _read_answer(path: Path, letter: str, told: bool, row: dict, line: int, kept: dict) -> None:
    """What one service did in a row: flag, score, and the propensity where it is told."""
    flag = _flag(path, f"abstained_{letter}", row[f"abstained_{letter}"], line)
    kept[f"abstained_{letter}"].append(flag)
    cell = row[f"score_{letter}"]
    score = number_in(cell)
    if not flag and not math.isfinite(score):
        allowed = f"a finite number where abstained_{letter} is no"
        raise _cell_error(path, f"score_{letter}", allowed, cell, line)
    kept[f"score_{letter}"].append(score)
    if told:
        cell = row[f"propensity_{letter}"]
        p = number_in(cell)
        if not (0 < p <= 1 if flag else 0 <= p < 1):
            allowed = f"a number in [0, 1], below 1 where abstained_{letter} is no, else above 0"
            raise _cell_error(path, f"propensity_{letter}", allowed, cell, line)
        kept[f"propensity_{letter}"].append(p)


class _Feature:
    """A column of numbers, or one of 0 and 1 for each category; its cells are not kept."""

    def __init__(self, path: Path, name: str):
        self._path, self._name = path, name
        self._numbers, self._codes = array("d"), array("b")
        self._categories: dict[str, int] | None = {}  # None once there are too many
        self._word = self._infinite = None  # the first cell that is none, and its line

    def add(self, cell: str, line: int) -> None:
        """Take the next row's cell."""
        if cell.lower() in _MISSING:
            raise _cell_error(
                self._path, self._name, "a number or text, and not missing", cell, line
            )
        number = number_in(cell)
        self._numbers.append(number)
        if math.isnan(number):
            self._word = self._word or (cell, line)
        elif math.isinf(number):
            self._infinite = self._infinite or (cell, line)
        if self._categories is not None:
            code = self._categories.setdefault(cell, len(self._categories))
            self._codes.append(code)
            if code >= _MOST_CATEGORIES:
                self._categories, self._codes = None, array("b")
        if self._categories is None and self._word is not None:
            raise ValueError(
                f"{self._path}: column {self._name!r} must hold numbers only, or text of at most "
                f"{_MOST_CATEGORIES} categories, got more different cells, among them "
                f"{short(repr(self._word[0]))} in row {self._word[1]}"
            )

    def names(self) -> list[str]:
        """Of the columns that it becomes."""
        if self._word is not None:
            return [f"{self._name}={category}" for category in sorted(self._categories)]
        if self._infinite is not None:
            raise _cell_error(self._path, self._name, "finite", *self._infinite)
        return [self._name]

    def fill(self, table: Array, place: int) -> int:
        """Write these columns from a place on; the place after them."""
        if self._word is None:
            table[:, place] = self._numbers
            return place + 1
        codes = np.frombuffer(self._codes, np.int8)
        for category in sorted(self._categories):
            table[:, place] = codes == self._categories[category]
            place += 1
        return place


def _few_features(path: Path, count: int) -> None:
    if count > MOST_FEATURES:
        raise ValueError(f"{path}: features must have {FEWER_FEATURES}, got {count:,}")


def _flag(path: Path, column: str, cell: str, line: int) -> float:
    value = _WORDS.get(cell.lower(), number_in(cell))
    if value not in (0.0, 1.0):
        raise _cell_error(path, column, "true or false, yes or no, or 1 or 0", cell, line)
    return value


def _same_cells(path: Path, header: list[str], line: int, cells: list[str]) -> None:
    if len(cells) != len(header):
        raise ValueError(
            f"{path}: row {line} must have {len(header)} cells, as the header has, got {len(cells)}"
        )


def _cell_error(path: Path, column: str, allowed: str, cell: str, line: int) -> ValueError:
    return ValueError(
        f"{path}: column {column!r} must be {allowed}, got {short(repr(cell))} in row {line}"
    )
