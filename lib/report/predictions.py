"""One file for everything: what a model said, as NPZ or CSV, and which analyses that allows.

=======================  ==================  =======================================================
array (NPZ)              columns (CSV)       what it holds
=======================  ==================  =======================================================
``holdout_logits``       ``logit_0`` ...     (n, k) outputs before the softmax on labelled data that
                                             the model was not trained on; k is at least 2
``holdout_labels``       ``label``           (n,) classes, 0 to k - 1
``test_logits``          ``logit_0`` ...     (m, k) on other data from the same source; a row of NaN
                                             (empty cells) where the model abstained and said
                                             nothing
``test_labels``          ``label``           (m,) classes, -1 or NaN (empty) where unknown
``user_logits``          ``logit_0`` ...     (u, k) on the data that the model might be used on
``user_labels``          ``label``           (u,) as of the test data
``test_features``        ``feature_0`` ...   (m, d) what abstaining and being right depend on
``test_abstained``       ``abstained``       (m,) whether the model abstained: true or false, 1 or 0
``test_propensities``    ``propensity``      (m,) the probability of abstaining, where it is known
``other_logits``         ``other_logit_0``   (m, k) a competitor's, on the test data
``other_abstained``      ``other_abstained`` (m,) whether the competitor abstained
``other_propensities``   ``other_propensity`` (m,) its probability of abstaining
``member_scores``        ``membership_score`` (a,) a membership attack's scores of points that the
                                             model was trained on: larger says "member"
``nonmember_scores``     ``membership_score`` (b,) of points that it was not trained on, drawn as
                                             members were: by coins, or a random division
``epsilon``, ``delta``   ``epsilon``,        the privacy that is claimed for the training; in a CSV
                         ``delta``           file in at least one row of members, the same in all
=======================  ==================  =======================================================

Everything is optional: each analysis runs if what it needs is there.  A CSV file has one row per
example; its column ``part`` says holdout, test, user, member or nonmember, and cells that a part
has no use for are empty.
"""

import math
import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lib
from lib.data.arrays import (
    MOST_BYTES,
    as_path,
    csv_records,
    number_in,
    read_npz,
    short,
    table_file,
    too_large,
)

__all__ = ["FORMAT", "ModelPredictions", "find_file", "read_predictions"]

Array = npt.NDArray[Any]

LARGEST = 1e150  # beyond this the suitability signals' squares overflow

#: (array, columns, shape, meaning): the table above, for people.
FORMAT = (
    ("holdout_logits", "logit_0, ...", "(n, k)", "outputs before the softmax, held-out data"),
    ("holdout_labels", "label", "(n,)", "classes, 0 to k - 1"),
    ("test_logits", "logit_0, ...", "(m, k)", "on other data from the same source"),
    ("test_labels", "label", "(m,)", "classes; -1, NaN or empty where unknown"),
    ("user_logits", "logit_0, ...", "(u, k)", "on the data that it might be used on"),
    ("user_labels", "label", "(u,)", "classes; -1, NaN or empty where unknown"),
    ("test_features", "feature_0, ...", "(m, d)", "what abstaining and being right depend on"),
    ("test_abstained", "abstained", "(m,)", "whether it abstained: true or false, 1 or 0"),
    ("test_propensities", "propensity", "(m,)", "probability of abstaining, if known"),
    ("other_logits", "other_logit_0, ...", "(m, k)", "of a competitor, on the test data"),
    ("other_abstained", "other_abstained", "(m,)", "whether the competitor abstained"),
    ("other_propensities", "other_propensity", "(m,)", "its probability of abstaining, if known"),
    ("member_scores", "membership_score", "(a,)", "attack on points trained on; large: member"),
    ("nonmember_scores", "membership_score", "(b,)", "of points not trained on; a coin decided"),
    ("epsilon", "epsilon", "()", "claimed privacy of the training"),
    ("delta", "delta", "()", "at which it is claimed"),
)
NAMES = tuple(name for name, *_ in FORMAT)

# CSV: parts, what may stand in their rows, and the arrays that become of it.
_ARRAYS = {
    "holdout": {"logit": "holdout_logits", "label": "holdout_labels"},
    "test": {
        "logit": "test_logits",
        "label": "test_labels",
        "feature": "test_features",
        "abstained": "test_abstained",
        "propensity": "test_propensities",
        "other_logit": "other_logits",
        "other_abstained": "other_abstained",
        "other_propensity": "other_propensities",
    },
    "user": {"logit": "user_logits", "label": "user_labels"},
    "member": {"membership_score": "member_scores", "epsilon": "epsilon", "delta": "delta"},
    "nonmember": {"membership_score": "nonmember_scores", "epsilon": "epsilon", "delta": "delta"},
}
_MANY = ("logit", "feature", "other_logit")
_SINGLE = tuple({k: None for kinds in _ARRAYS.values() for k in kinds if k not in _MANY})
_MAY_LACK = ("label", "logit", "other_logit", "epsilon", "delta")  # rows without it are allowed
_WORDS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class ModelPredictions:
    """What a model said, as far as it is known; all arrays are read-only copies.

    The table at the top of :mod:`lib.report.predictions` says what the attributes hold; each may
    be None.

    Attributes
    ----------
    holdout_logits, test_logits, user_logits, other_logits : ndarray, shape (rows, k), or None
        At most 1e150 in size.  Rows may be NaN only where the model, or the competitor, abstained.
    holdout_labels, test_labels, user_labels : ndarray of int64, shape (rows,), or None
        -1 where unknown; None if no label is known.
    test_features : ndarray of float64, shape (m, d), or None
    test_abstained, other_abstained : ndarray of bool, shape (m,), or None
    test_propensities, other_propensities : ndarray of float64, shape (m,), or None
        In [0, 1], and below 1 where an answer was given.
    member_scores, nonmember_scores : ndarray of float64, shape (a,) and (b,), or None
        May be infinite.
    epsilon, delta : float or None
        At least 0, and in [0, 1).
    source : str
        Where all this comes from, for people.

    Raises
    ------
    ValueError
        On input that is not as above; the message names the array, the value and the row, from 0.
    """

    holdout_logits: Array | None = field(default=None, repr=False)
    holdout_labels: Array | None = field(default=None, repr=False)
    test_logits: Array | None = field(default=None, repr=False)
    test_labels: Array | None = field(default=None, repr=False)
    user_logits: Array | None = field(default=None, repr=False)
    user_labels: Array | None = field(default=None, repr=False)
    test_features: Array | None = field(default=None, repr=False)
    test_abstained: Array | None = field(default=None, repr=False)
    test_propensities: Array | None = field(default=None, repr=False)
    other_logits: Array | None = field(default=None, repr=False)
    other_abstained: Array | None = field(default=None, repr=False)
    other_propensities: Array | None = field(default=None, repr=False)
    member_scores: Array | None = field(default=None, repr=False)
    nonmember_scores: Array | None = field(default=None, repr=False)
    epsilon: float | None = None
    delta: float | None = None
    source: str = ""

    def __post_init__(self):
        if not any(self.has(name) for name in NAMES if name not in ("epsilon", "delta")):
            raise ValueError(f"there must be at least one array of {', '.join(NAMES)}, got none")
        for name in ("test_abstained", "other_abstained"):
            self._set(name, _flags)
        for name in ("test_propensities", "other_propensities"):
            self._set(name, _propensities)
        self._set("test_features", _matrix)
        for name in ("member_scores", "nonmember_scores"):
            self._set(name, _scores)
        silent = {"test_logits": self.test_abstained, "other_logits": self.other_abstained}
        first = None
        for name in ("holdout_logits", "test_logits", "user_logits", "other_logits"):
            self._set(name, _logits, silent.get(name), first)
            if self.has(name) and first is None:
                first = (name, getattr(self, name).shape[1])
        for part in ("holdout", "test", "user"):
            name, logits = f"{part}_labels", getattr(self, f"{part}_logits")
            self._set(name, _labels, None if logits is None else logits.shape[1])
            if self.has(name) and logits is not None:
                _same_length(name, getattr(self, name), f"{part}_logits", logits)
            if self.has(name) and not (getattr(self, name) >= 0).any():
                object.__setattr__(self, name, None)
        on_test = [n for n in NAMES if n.startswith(("test_", "other_")) and self.has(n)]
        for name in on_test[1:]:
            _same_length(name, getattr(self, name), on_test[0], getattr(self, on_test[0]))
        for who in ("test", "other"):
            abstained, known = (getattr(self, f"{who}_{x}") for x in ("abstained", "propensities"))
            if abstained is not None and known is not None:
                _possible(f"{who}_propensities", known, abstained)
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", _claim("epsilon", self.epsilon, math.inf))
        if self.delta is not None:
            object.__setattr__(self, "delta", _claim("delta", self.delta, 1.0))

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return getattr(self, name) is not None

    @property
    def given(self) -> dict[str, Any]:
        """What is given, by name."""
        return {name: getattr(self, name) for name in NAMES if self.has(name)}

    def _set(self, name: str, check: Any, *more: Any) -> None:
        value = getattr(self, name)
        if value is not None:
            found = check(name, value, *more)
            found.flags.writeable = False
            object.__setattr__(self, name, found)


def find_file(path: Any, name: str = "predictions") -> Path:
    """Find a user's file, wherever the kernel happens to run.

    Parameters
    ----------
    path : path-like
        Absolute; or relative to the working directory or, failing that, to the repository's root.
    name : str
        What messages call the argument.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    FileNotFoundError
        If it is in neither place; the message names both.
    """
    path = as_path(name, path)
    places = [path] if path.is_absolute() else [Path.cwd() / path, _root() / path]
    for place in places:
        if place.exists():
            return place
    tried = " and no ".join(str(place) for place in dict.fromkeys(places))
    raise FileNotFoundError(f"{name} must be a file, got {path}: there is no {tried}")


def read_predictions(path: Any) -> ModelPredictions:
    """Read what a model said from an NPZ or a CSV file, see :mod:`lib.report.predictions`.

    Parameters
    ----------
    path : path-like
        The file, which ends in ``.npz`` or ``.csv`` and has at most 2 GB, uncompressed.  Nothing
        is unpickled.  CSV is in UTF-8 with commas; rows without any cell are skipped.

    Returns
    -------
    ModelPredictions
        Its source is the path.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError, TypeError
        On a file that is not as the format says.  The message names the file, the array or column,
        and the row where that applies: of an array from 0, of a CSV file its line, from 1.
    """
    path = table_file("path", path)
    if path.suffix.lower() == ".npz":
        arrays = read_npz(path, NAMES, (), MOST_BYTES)
    else:
        arrays = _read_csv(path)
    try:
        return ModelPredictions(**arrays, source=str(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _root() -> Path:
    return Path(lib.__file__).parents[1]


# --- CSV ------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> dict[str, Any]:
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{path}: {too_large('it', size, MOST_BYTES)}")
    # Numbers, not text, are kept: a cell of text takes ten times as much memory.
    cells_of = {part: array("d") for part in _ARRAYS}
    lines_of = {part: array("q") for part in _ARRAYS}
    with path.open(encoding="utf-8-sig", newline="") as stream:  # spreadsheets write a mark first
        records = csv_records(path, stream)
        _, header = next(records, (0, None))
        if header is None:
            raise ValueError(f"{path}: must have a header and rows, got an empty file")
        kinds = _check_header(path, header)
        part_at = header.index("part")
        for line, cells in records:
            if len(cells) != len(header):
                raise ValueError(
                    f"{path}: row {line} must have {len(header)} cells, as the header has, got "
                    f"{len(cells)}"
                )
            part = cells[part_at]
            if part not in _ARRAYS:
                raise _cell_error(path, "part", f"one of {', '.join(_ARRAYS)}", part, line)
            for name, kind, cell in zip(header, kinds, cells, strict=True):
                if kind != "part":
                    cells_of[part].append(_value(path, part, name, kind, cell, line))
            lines_of[part].append(line)
    columns = [name for name in header if name != "part"]
    if not any(lines_of.values()):
        raise ValueError(f"{path}: must have rows, got a header only")
    arrays: dict[str, Any] = {}
    for part, lines in lines_of.items():
        if lines:
            table = np.array(cells_of[part]).reshape(len(lines), len(columns))
            _add_part(path, part, columns, table, np.array(lines), arrays)
    return arrays


def _add_part(path, part, columns, table, lines, arrays) -> None:
    """Turn a part's cells into arrays; a kind without any cell is not there."""
    for kind, target in _ARRAYS[part].items():
        names = sorted((c for c in columns if _kind(c) == kind), key=_index)
        values = table[:, [columns.index(name) for name in names]]
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
            f"{path}: column 'part' must be there, got {short(', '.join(map(repr, header)))}"
            + ("; separate cells by commas, not semicolons" if semicolons else "")
        )
    kinds = []
    for name, count in Counter(header).items():
        kind = "part" if name == "part" else _kind(name)
        if kind is None:
            allowed = ", ".join(["part", *(f"{k}_0" if k in _MANY else k for k in _kinds())])
            index = " (an index that pandas wrote? index=False leaves it out)" if not name else ""
            raise ValueError(f"{path}: columns must be {allowed}, got {short(repr(name))}{index}")
        if count > 1:
            raise ValueError(f"{path}: column {name!r} must be there once, got it {count} times")
        kinds.append(kind)
    for kind in _MANY:
        count = kinds.count(kind)
        for j in range(count):
            if f"{kind}_{j}" not in header:
                raise ValueError(
                    f"{path}: column '{kind}_{j}' must be there, as there are {count} such "
                    f"columns, got {short(', '.join(map(repr, header)))}"
                )
    return kinds


def _kinds() -> tuple[str, ...]:
    return (*_MANY, *_SINGLE)


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
    if kind not in _ARRAYS[part]:
        raise _cell_error(path, name, f"empty in rows of the part {part!r}", cell, line)
    value = number_in(cell)
    flag = kind in ("abstained", "other_abstained")
    if flag:
        value = _WORDS.get(cell.lower(), value)
    checks = {
        "label": (value.is_integer() and -1 <= value < 1 << 31, "a class, or empty if unknown"),
        "membership_score": (not math.isnan(value), "a number"),
        "epsilon": (not math.isnan(value), "a number"),
    }
    good, allowed = checks.get(kind, (math.isfinite(value), "a finite number"))
    if flag:
        good, allowed = value in (0.0, 1.0), "true or false, or 1 or 0"
    if not good:
        raise _cell_error(path, name, allowed, cell, line)
    return math.nan if kind == "label" and value == -1 else value


def _cell_error(path: Path, column: str, allowed: str, cell: str, line: int) -> ValueError:
    return ValueError(
        f"{path}: column {column!r} must be {allowed}, got {short(repr(cell))} in row {line}"
    )


# --- checks ---------------------------------------------------------------------------------------


def _as_array(name: str, values: Any, dimensions: int, kinds: str = "iuf") -> Array:
    try:
        found = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be an array of numbers, got {error}") from None
    if found.dtype.kind not in kinds or found.ndim != dimensions or 0 in found.shape:
        shape = {1: "(rows,)", 2: "(rows, columns)"}[dimensions]
        what = "booleans" if kinds == "biuf" else "real numbers"
        raise ValueError(
            f"{name} must be {what} of shape {shape}, none of them 0, got {found.dtype} of shape "
            f"{found.shape}"
        )
    return found


def _refuse(name: str, allowed: str, values: Array, bad: Array) -> None:
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        raise ValueError(
            f"{name} must be {allowed}, got {values[place]} in {where} ({int(bad.sum())} such "
            "values)"
        )


def _logits(name: str, values: Any, silent: Array | None, first: tuple[str, int] | None) -> Array:
    found = _as_array(name, values, 2)
    if found.shape[1] < 2:
        raise ValueError(
            f"{name} must have at least 2 columns, one per class, got {found.shape[1]}"
        )
    if first is not None and first[1] != found.shape[1]:
        raise ValueError(
            f"{name} must have {first[1]} columns, as {first[0]}, got {found.shape[1]}"
        )
    blank = np.isnan(found.astype(float)).all(axis=1)
    allowed = "finite"
    if silent is not None:
        _same_length(name, found, name.replace("logits", "abstained"), silent)
        blank &= silent
        allowed += ", except where it abstained"
    else:
        blank[:] = False
    _refuse(name, allowed, found, ~np.isfinite(found.astype(float)) & ~blank[:, None])
    size = np.abs(np.where(blank[:, None], 0, found).astype(float))
    _refuse(name, f"at most {LARGEST:g} in size", found, size > LARGEST)
    # Narrow floats stay as they are: the suitability signals tell rounding by their precision.
    narrow = found.dtype.kind == "f" and found.itemsize < 8
    return np.array(found, dtype=found.dtype.newbyteorder("=") if narrow else float, order="C")


def _labels(name: str, values: Any, k: int | None) -> Array:
    found = _as_array(name, values, 1).astype(float)
    holdout = name == "holdout_labels"
    allowed = f"classes from 0 to {'k - 1' if k is None else k - 1}"
    allowed += "" if holdout else ", or -1 or NaN where unknown"
    unknown = np.isnan(found) | (found == -1)
    known = (found >= 0) & (found == np.floor(found)) & (found < (1 << 31 if k is None else k))
    _refuse(name, allowed, found, ~known & (holdout | ~unknown))
    return np.where(unknown, -1, found).astype(np.int64)


def _flags(name: str, values: Any) -> Array:
    found = _as_array(name, values, 1, "biuf")
    _refuse(name, "true or false, or 1 or 0", found, ~np.isin(found, (0, 1)))
    return found.astype(bool)


def _propensities(name: str, values: Any) -> Array:
    found = _as_array(name, values, 1).astype(float)
    _refuse(name, "in [0, 1]", found, ~((found >= 0) & (found <= 1)))
    return found


def _possible(name: str, known: Array, abstained: Array) -> None:
    _refuse(name, "below 1 where an answer was given", known, (known >= 1) & ~abstained)
    _refuse(name, "above 0 where there was an abstention", known, (known <= 0) & abstained)


def _matrix(name: str, values: Any) -> Array:
    found = _as_array(name, values, 2).astype(float)
    _refuse(name, "finite", found, ~np.isfinite(found))
    return found


def _scores(name: str, values: Any) -> Array:
    found = _as_array(name, values, 1).astype(float)
    _refuse(name, "numbers, not NaN", found, np.isnan(found))
    return found


def _same_length(name: str, values: Array, other: str, others: Array) -> None:
    if len(values) != len(others):
        raise ValueError(
            f"{name} must have {len(others)} rows, as many as {other}, got {len(values)}"
        )


def _claim(name: str, value: Any, end: float) -> float:
    found = np.asarray(value)
    limit = "at least 0" if end == math.inf else f"in [0, {end:g})"
    if found.size != 1 or found.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} must be one number, {limit}, got {found.dtype} of shape {found.shape}"
        )
    number = float(found.reshape(()))
    if not (0 <= number < end or (end == math.inf and number == end)):
        raise ValueError(f"{name} must be {limit}, got {number:g}")
    return number
