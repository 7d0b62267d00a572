"""A user's file, NPZ or CSV, as :data:`lib.report.FORMAT` describes it."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lib
from lib.data.arrays import (
    MOST_BYTES,
    MOST_CHARACTERS,
    as_path,
    csv_records,
    number_in,
    read_npz,
    require_memory,
    table_file,
    too_large,
)
from lib.data.untrusted import printable, printable_errors, short
from lib.report.predictions import (
    FEWER_FEATURES,
    FORMAT,
    MOST_FEATURES,
    MOST_GROUPS,
    NAMES,
    ModelPredictions,
)

Array = npt.NDArray[Any]


def _columns() -> dict[str, dict[str, str]]:
    """By part of the file and kind of column, without its number: the array of the format."""
    columns: dict[str, dict[str, str]] = {}
    for name, kinds, *_ in FORMAT:
        parts = ("member", "nonmember") if "_" not in name else (name.partition("_")[0],)
        for part in parts:
            of_part = columns.setdefault("test" if part == "other" else part, {})
            of_part[kinds.removesuffix("_0, ...")] = name
    return columns


#: CSV: parts, what may stand in their rows, and the arrays that become of it.
COLUMNS = _columns()
_MANY = ("logit", "feature", "other_logit")
_SINGLE = tuple({k: None for kinds in COLUMNS.values() for k in kinds if k not in _MANY})
# Rows without it are allowed.
_MAY_LACK = ("score", "other_score", "label", "logit", "other_logit", "epsilon", "delta")
_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_TRIAL = ("score_a", "abstained_a", "score_b", "abstained_b")  # columns of a file without parts
_MISSING = {"", "nan", "-nan", "+nan", "na", "n/a", "null"}
_MOST_CATEGORIES = 30
_OFTEN = 1000  # rows after which the memory that a file takes is looked at


def find_file(path: Any) -> Path:
    """Find a user's file, wherever the kernel happens to run.

    Parameters
    ----------
    path : path-like
        Absolute; or relative to the working directory or, failing that, to the repository's root.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    FileNotFoundError
        If it is in neither place; the message names both.
    """
    path = as_path("predictions", path)
    places = [path] if path.is_absolute() else [Path.cwd() / path, _root() / path]
    for place in places:
        if place.exists():
            return place
    tried = " and no ".join(str(place) for place in dict.fromkeys(places))
    raise FileNotFoundError(
        printable(f"predictions must be a file, got {path}: there is no {tried}")
    )


def read_predictions(path: Any) -> ModelPredictions:
    """Read what a model said from an NPZ or a CSV file, see :data:`lib.report.FORMAT`.

    Parameters
    ----------
    path : path-like
        The file, which ends in ``.npz`` or ``.csv`` and has at most 2 GB, uncompressed.  Nothing
        is unpickled.  CSV is in UTF-8 with commas; rows without any cell are skipped.  Reading
        takes at most 4 times the memory of the arrays, and no more than ``COMPANION_FILE_MEMORY``
        allows (bytes; by default 4 GB or half of what is free): what a file declares is held
        against that before it is read.

    Returns
    -------
    ModelPredictions
        Its source is the path.  In names, characters that would not be seen or would steer a
        terminal are written as escapes.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError, TypeError
        On a file that is not as the format says.  The message names the file, the array or column,
        and the row where that applies: of an array from 0, of a CSV file its line, from 1.
    """
    with printable_errors():
        path = table_file("path", path)
        if path.suffix.lower() == ".npz":
            arrays = read_npz(path, NAMES, (), MOST_BYTES, ["test_groups"], 8)
        else:
            arrays = _read_csv(path)
        try:
            return ModelPredictions(**arrays, source=printable(path))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _root() -> Path:
    return Path(lib.__file__).parents[1]


# --- CSV ------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> dict[str, Any]:
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{path}: {too_large('it', size, MOST_BYTES)}")
    # Numbers, not text, are kept: a cell of text takes ten times as much memory.
    cells_of = {part: array("d") for part in COLUMNS}
    lines_of = {part: array("q") for part in COLUMNS}
    words: dict[str, int] = {}  # groups, which are kept as numbers until all are read
    with path.open(encoding="utf-8-sig", newline="") as stream:  # spreadsheets write a mark first
        records = csv_records(path, stream)
        _, header = next(records, (0, None))
        if header is None:
            raise ValueError(f"{path}: must have a header and rows, got an empty file")
        if "part" not in header and set(_TRIAL) & set(header):
            return _read_trial(path, header, records)
        kinds = _check_header(path, header)
        part_at = header.index("part")
        for row, (line, cells) in enumerate(records, 1):
            _same_cells(path, header, line, cells)
            if row % _OFTEN == 0:
                require_memory(path, 8 * row * len(header))
            part = cells[part_at]
            if part not in COLUMNS:
                raise _cell_error(path, "part", f"one of {', '.join(COLUMNS)}", part, line)
            for name, kind, cell in zip(header, kinds, cells, strict=True):
                if kind == "group" and part == "test" and cell.strip().lower() not in _MISSING:
                    cells_of[part].append(words.setdefault(cell, len(words)))
                    if len(cell) > MOST_CHARACTERS or len(words) > MOST_GROUPS:
                        allowed = f"of at most {MOST_GROUPS} different words, of at most "
                        allowed += f"{MOST_CHARACTERS} characters"
                        raise _cell_error(path, "group", allowed, cell, line)
                elif kind != "part":
                    cells_of[part].append(_value(path, part, name, kind, cell, line))
            lines_of[part].append(line)
    columns = {name: place for place, name in enumerate(n for n in header if n != "part")}
    if not any(lines_of.values()):
        raise ValueError(f"{path}: must have rows, got a header only")
    arrays: dict[str, Any] = {}
    for part, lines in lines_of.items():
        if lines:
            table = np.frombuffer(cells_of.pop(part)).reshape(len(lines), len(columns))
            _add_part(path, part, columns, table, np.array(lines), arrays)
    if "test_groups" in arrays:
        held = sum(each.nbytes for each in arrays.values() if isinstance(each, np.ndarray))
        names = np.array([*words])
        require_memory(path, held + names.itemsize * len(arrays["test_groups"]))
        arrays["test_groups"] = names[arrays["test_groups"].astype(int)]
    return arrays


def _add_part(path, part, columns, table, lines, arrays) -> None:
    """Turn a part's cells into arrays; a kind without any cell is not there."""
    for kind, target in COLUMNS[part].items():
        names = sorted((c for c in columns if _kind(c) == kind), key=_index)
        values = table[:, [columns[name] for name in names]]
        empty = np.isnan(values)
        if empty.all():  # also of no column
            continue
        if kind in _MANY and (empty.any(axis=1) & ~empty.all(axis=1)).any():
            row, column = np.argwhere(empty & ~empty.all(axis=1, keepdims=True))[0]
            raise _cell_error(
                path, names[column], "a finite number, as in the row's other columns of the kind",
                "", lines[row],
            )  # fmt: skip
        if kind not in _MAY_LACK and empty.any():
            row, column = np.argwhere(empty)[0]
            raise _cell_error(
                path, names[column], f"given in all rows of the part {part!r} or in none", "",
                lines[row],
            )  # fmt: skip
        if kind in ("epsilon", "delta"):
            stated = values[~empty]
            if target in arrays:
                stated = np.r_[arrays[target], stated]
            if (stated != stated[0]).any():
                raise ValueError(
                    f"{path}: column {kind!r} must be the same in all rows, got {stated.min():g} "
                    f"and {stated.max():g}"
                )
            arrays[target] = float(stated[0])
        elif kind in ("abstained", "other_abstained"):
            arrays[target] = values[:, 0] == 1
        else:
            arrays[target] = values if kind in _MANY else values[:, 0]


def _check_header(path: Path, header: list[str]) -> list[str]:
    """The kind of each column."""
    if "part" not in header:
        semicolons = len(header) == 1 and ";" in header[0]
        raise ValueError(
            f"{path}: column 'part' must be there, or {', '.join(_TRIAL)}; got "
            f"{short(', '.join(map(repr, header)))}"
            + ("; separate cells by commas, not semicolons" if semicolons else "")
        )
    _once(path, header)
    kinds = []
    for name in header:
        kind = "part" if name == "part" else _kind(name)
        if kind is None:
            allowed = ", ".join(
                ["part", *(f"{k}_0" if k in _MANY else k for k in (*_MANY, *_SINGLE))]
            )
            index = " (an index that pandas wrote? index=False leaves it out)" if not name else ""
            raise ValueError(f"{path}: columns must be {allowed}, got {short(repr(name))}{index}")
        kinds.append(kind)
    _few_features(path, kinds.count("feature"))
    there = set(header)
    for kind in _MANY:
        count = kinds.count(kind)
        for j in range(count):
            if f"{kind}_{j}" not in there:
                raise ValueError(
                    f"{path}: column '{kind}_{j}' must be there, as there are {count} such "
                    f"columns, got {short(', '.join(map(repr, header)))}"
                )
    return kinds


def _kind(name: str) -> str | None:
    if name in _SINGLE:
        return name
    found = re.fullmatch("(logit|feature|other_logit)_(0|[1-9][0-9]{0,8})", name)
    return found[1] if found else None


def _index(name: str) -> int:
    return int(name.rsplit("_", 1)[1]) if _kind(name) in _MANY else 0


def _value(path: Path, part: str, name: str, kind: str, cell: str, line: int) -> float:
    """What a cell says, NaN if it is empty."""
    if not cell or cell.lower() == "nan":
        return math.nan
    if kind not in COLUMNS[part]:
        raise _cell_error(path, name, f"empty in rows of the part {part!r}", cell, line)
    if kind in ("abstained", "other_abstained"):
        return _flag(path, name, cell, line)
    value = number_in(cell)
    if kind == "label":
        good, allowed = value.is_integer() and -1 <= value < 1 << 31, "a class, or empty if unknown"
    elif kind in ("membership_score", "epsilon"):
        good, allowed = not math.isnan(value), "a number"
    else:
        good, allowed = math.isfinite(value), "a finite number"
    if not good:
        raise _cell_error(path, name, allowed, cell, line)
    return math.nan if kind == "label" and value == -1 else value


def _few_features(path: Path, count: int) -> None:
    if count > MOST_FEATURES:
        raise ValueError(f"{path}: features must have {FEWER_FEATURES}, got {count:,}")


def _once(path: Path, header: list[str]) -> None:
    for name, count in Counter(header).items():
        if count > 1 and name:
            raise ValueError(f"{path}: column {name!r} must be there once, got it {count} times")


def _read_trial(path: Path, header: list[str], records: Iterator) -> dict[str, Any]:
    """A trial of two services: scores, abstentions, propensities where told; else features."""
    header = [" ".join(name.split()) for name in header]
    for name in _TRIAL:
        if name not in header:
            found = short(", ".join(map(repr, header)))
            raise ValueError(f"{path}: column {name!r} must be there, got {found}")
    if "" in header:
        raise ValueError(
            f"{path}: every column must have a name, got none for column {header.index('') + 1} of "
            f"{len(header)} (an index that pandas wrote? index=False leaves it out)"
        )
    _once(path, header)
    told = [letter for letter in "ab" if f"propensity_{letter}" in header]
    kept = {name: array("d") for name in (*_TRIAL, *(f"propensity_{each}" for each in told))}
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
        require_memory(path, 8 * count * (len(names) + len(_TRIAL) + len(told)))
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
