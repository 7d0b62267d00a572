"""What ``--map`` says is used as it says, or refused: nothing of it is passed over in silence."""

from typing import Any

import numpy as np
import numpy.typing as npt

from lib.data.untrusted import short
from lib.report.naming import MAPPED
from lib.report.predictions import MOST_GROUPS
from lib.report.tables import Column, ReadingError, Table

_CHOICES = ("first", "positive")  # these name no column
_MUST = {
    "part": "it must hold names of parts, such as val and test",
    "group": f"it must have 2 to {MOST_GROUPS} different values, and in test rows no empty cell",
    "cluster": "it must have fewer different values than rows, at least 2, and no empty cell",
    "correct": "it must be 1 or 0, true or false, yes or no",
}


def check_roles(table: Table, mapped: dict[str, str]) -> None:
    """Raise a ReadingError for a role that there is not, or a column in two of them."""
    for role in mapped:
        if role not in MAPPED:
            allowed = ", ".join(MAPPED)
            raise ReadingError(
                table.source, f"--map must name one of {allowed}, got {short(repr(role))}"
            )
    if mapped.get("first", "0") not in ("-1", "0", "1"):
        raise ReadingError(
            table.source,
            f"--map first={mapped['first']}: the first class must be number 0 or 1, or -1 of three",
        )
    seen: dict[str, str] = {}
    for role, name in mapped.items():
        if role in _CHOICES or name not in table.columns:
            continue
        if name in seen:
            raise ReadingError(
                table.source,
                f"--map names {name!r} for {seen[name]} and for {role}: it can be one of them",
            )
        seen[name] = role


def check_numbers(
    table: Table, columns: list[Column], rows: npt.NDArray[Any], probability: bool = False
) -> None:
    """Raise an error where a column that is named for numbers, or for a probability, has none."""
    for column in columns:
        bad, allowed = np.isnan(column.numbers), "a number in every row"
        if not (bad & rows).any() and probability:
            bad = (column.numbers < 0) | (column.numbers > 100)
            allowed = "a probability, from 0 to 1, or a percentage"
        if (bad & rows).any():
            raise table.cell_error(column.name, allowed, int((bad & rows).argmax()))


def refuse(mapper: Any, role: str, column: Column) -> None:
    """Raise a ReadingError for a column that has no use in a role, if it was named for it."""
    if role in mapper.mapped:
        why = _MUST.get(role, "beside the other columns it has no use")
        raise ReadingError(
            mapper.table.source,
            f"--map {role}={mapper.mapped[role]}: {column.name!r} is not used: {why}",
        )


def check_used(mapper: Any, label: Column | None, classes: tuple[str, ...]) -> None:
    """Raise a ReadingError for what was named and is not used."""
    source, mapped = mapper.table.source, mapper.mapped
    for role, pattern in mapped.items():
        names = mapper.given(role) if role != "part" or pattern in mapper.table.columns else []
        if names and not mapper.used & {*names}:
            refuse(mapper, role, mapper.table.columns[names[0]])
    positive = mapped.get("positive")
    allowed = [*dict.fromkeys([*classes, *(label.values()[1] if label is not None else ())])]
    alone = label is not None and len(label.values()[1]) == 1  # the other class has no name
    if positive is not None and label is not None and positive not in allowed and not alone:
        raise ReadingError(
            source, f"--map positive={positive}: must be one of {short(repr(allowed)[1:-1])}"
        )
