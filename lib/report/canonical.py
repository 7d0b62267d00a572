"""A table in the report's own format: :data:`lib.report.FORMAT` says which columns there are."""

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.data.arrays import MOST_CHARACTERS
from lib.data.untrusted import short
from lib.report.naming import counted, part_of
from lib.report.predictions import FEWER_FEATURES, FORMAT, MOST_FEATURES, MOST_GROUPS
from lib.report.tables import Table

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


#: Parts, what may stand in their rows, and the arrays that become of it.
COLUMNS = _columns()
_MANY = ("logit", "feature", "other_logit")
_SINGLE = tuple({k: None for kinds in COLUMNS.values() for k in kinds if k not in _MANY})
# Rows without it are allowed.
_MAY_LACK = ("score", "other_score", "label", "logit", "other_logit", "epsilon", "delta")
_ANYWHERE = ("group", "cluster")  # may be filled in where a part has no use for it
_FLAGS = ("abstained", "other_abstained")
_ABSTAINED = {"part", "group", "cluster", "abstained"}  # who is refused an answer, and no more
_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
#: Columns of which one says that a table is in this format.
SIGNS = re.compile(
    "membership_score|(feature|other_logit)_0|other_abstained|(other_)?propensity|other_score|epsilon"
)


def is_canonical(names: Any) -> bool:
    """Whether columns are those of the report's own format."""
    names = set(names)
    own = "abstained" in names and (bool(names & {"logit_0", "score"}) or names <= _ABSTAINED)
    return own or any(SIGNS.fullmatch(name) for name in names)


def read_canonical(table: Table) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arrays of a table in the report's own format, and what is to be said of it."""
    says = list(table.notes)
    kinds = _kinds(table)
    unknown = [name for name in table.columns if name != "part" and name not in kinds]
    if unknown:
        says.append(f"not used: {short(', '.join(map(repr, unknown)))}")
    parts = _parts(table, says)
    arrays: dict[str, Any] = {}
    for part in COLUMNS:
        rows = np.flatnonzero(parts == part)
        if len(rows):
            _add_part(table, part, kinds, rows, arrays)
    return arrays, tuple(says)


def _kinds(table: Table) -> dict[str, str]:
    """The kind of each column that the format knows."""
    kinds = {}
    for name in table.columns:
        found = re.fullmatch("(logit|feature|other_logit)_(0|[1-9][0-9]{0,8})", name)
        if name in _SINGLE or found:
            kinds[name] = found[1] if found else name
        elif re.fullmatch("(logit|feature|other_logit)_?[0-9]+", name):
            raise ValueError(
                f"{table.source}: columns must be logit_0, logit_1, ..., feature_0, ..., "
                f"other_logit_0, ..., got {short(repr(name))}"
            )
    counts = {kind: [*kinds.values()].count(kind) for kind in _MANY}
    if counts["feature"] > MOST_FEATURES:
        raise ValueError(
            f"{table.source}: features must have {FEWER_FEATURES}, got {counts['feature']:,}"
        )
    for kind, count in counts.items():
        for j in range(count):
            if f"{kind}_{j}" not in kinds:
                raise ValueError(
                    f"{table.source}: column '{kind}_{j}' must be there, as there are {count} "
                    f"such columns, got {short(', '.join(map(repr, table.columns)))}"
                )
    return kinds


def _parts(table: Table, says: list[str]) -> Array:
    """The part of each row."""
    if "part" not in table.columns:
        if "membership_score" in table.columns:
            raise ValueError(
                f"{table.source}: column 'part' must be there, and say of membership scores "
                "whether they are of a member or a nonmember; got "
                f"{short(', '.join(map(repr, table.columns)))}"
            )
        says.append(f"{counted(table.rows, 'row')}; no column says the part: taken as test data")
        return np.full(table.rows, "test", dtype=object)
    places, names = table.columns["part"].values()
    known = [part_of(name) for name in names]
    bad = np.array([*(part is None for part in known), True])[places]
    if bad.any():
        allowed = f"one of {', '.join(COLUMNS)}"
        raise table.cell_error("part", allowed, int(bad.argmax()))
    found = np.array(known, dtype=object)[places]
    if count := int((found == "train").sum()):
        told = f"{counted(count, 'training row')} {'is' if count == 1 else 'are'} left out"
        says.append(f"{told}: the model has seen them")
    return found


def _add_part(
    table: Table, part: str, kinds: dict[str, str], rows: Array, arrays: dict[str, Any]
) -> None:
    """Turn a part's cells into arrays; a kind without any cell is not there."""
    for name, kind in kinds.items():
        if kind not in COLUMNS[part] and kind not in _ANYWHERE:
            filled = ~table.columns[name].empty[rows]
            if filled.any():
                row = int(rows[filled.argmax()])
                raise table.cell_error(name, f"empty in rows of the part {part!r}", row)
    for kind, target in COLUMNS[part].items():
        names = sorted((c for c, k in kinds.items() if k == kind), key=_index)
        if not names:
            continue
        if kind in _ANYWHERE:
            if (words := _names(table, kind, rows)) is not None:
                arrays[target] = words
            continue
        values = np.column_stack([_numbers(table, n, kind, rows) for n in names])
        empty = np.isnan(values)
        if empty.all():
            continue
        _check_filled(table, part, kind, names, empty, rows)
        if kind in ("epsilon", "delta"):
            _add_claim(table, kind, values[~empty], arrays)
        elif kind in _FLAGS:
            arrays[target] = values[:, 0] == 1
        else:
            arrays[target] = values if kind in _MANY else values[:, 0]


def _check_filled(
    table: Table, part: str, kind: str, names: list[str], empty: Array, rows: Array
) -> None:
    """Raise an error where a cell is empty that must not be."""
    partly = empty & ~empty.all(axis=1, keepdims=True)
    if kind in _MANY and partly.any():
        row, column = np.argwhere(partly)[0]
        allowed = "a finite number, as in the row's other columns of the kind"
        raise table.cell_error(names[column], allowed, int(rows[row]))
    if kind not in _MAY_LACK and empty.any():
        row, column = np.argwhere(empty)[0]
        allowed = f"given in all rows of the part {part!r} or in none"
        raise table.cell_error(names[column], allowed, int(rows[row]))


def _numbers(table: Table, name: str, kind: str, rows: Array) -> Array:
    """A column's numbers in some rows, NaN where a cell is empty."""
    column = table.columns[name]
    values = column.numbers[rows]
    worded = np.isnan(values) & ~column.empty[rows]
    if kind in _FLAGS and column.codes is not None and not column.text:
        table_of = np.array([_WORDS.get(w.lower(), math.nan) for w in column.words] or [math.nan])
        values = np.where(worded, table_of[column.codes[rows]], values)
        worded = np.isnan(values) & ~column.empty[rows]
    there = ~column.empty[rows]
    if kind in _FLAGS:
        good, allowed = np.isin(values, (0.0, 1.0)), "true or false, yes or no, or 1 or 0"
    elif kind == "label":
        with np.errstate(invalid="ignore"):
            good = (values == np.floor(values)) & (values >= -1) & (values < 1 << 31)
        allowed = "the number of a class, from 0, or empty if unknown"
    elif kind in ("membership_score", "epsilon"):
        good, allowed = ~np.isnan(values), "a number"
    else:
        good, allowed = np.isfinite(values), "a finite number"
        if kind in ("logit", "other_logit"):
            good, allowed = good | np.isneginf(values), "a finite number"
    if (bad := there & (worded | ~good)).any():
        raise table.cell_error(name, allowed, int(rows[bad.argmax()]))
    return np.where(values == -1, math.nan, values) if kind == "label" else values


def _names(table: Table, kind: str, rows: Array) -> Array | None:
    """Groups or clusters of some rows; None if there are none."""
    column = table.columns[kind]
    places, names = column.values()
    places = places[rows]
    if (places < 0).all() and not column.text:
        return None
    used = np.unique(places[places >= 0])
    if kind == "group" and (column.text or len(used) > MOST_GROUPS):
        raise ValueError(
            f"{table.source}: column 'group' must be of at most {MOST_GROUPS} different words, of "
            f"at most {MOST_CHARACTERS} characters, got more"
        )
    if (places < 0).any():
        allowed = "given in all rows of the part or in none"
        raise table.cell_error(kind, allowed, int(rows[(places < 0).argmax()]))
    if kind == "cluster":
        return places
    return np.array([names[j] for j in used])[np.searchsorted(used, places)]


def _add_claim(table: Table, kind: str, stated: Array, arrays: dict[str, Any]) -> None:
    if kind in arrays:
        stated = np.r_[arrays[kind], stated]
    if (stated != stated[0]).any():
        raise ValueError(
            f"{table.source}: column {kind!r} must be the same in all rows, got {stated.min():g} "
            f"and {stated.max():g}"
        )
    arrays[kind] = float(stated[0])


def _index(name: str) -> int:
    last = name.rsplit("_", 1)[-1]
    return int(last) if last.isdecimal() else 0
