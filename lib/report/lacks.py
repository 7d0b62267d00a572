"""What a table lacks for a report, with all reasons at once."""

from typing import Any

import numpy as np

from lib.data.untrusted import short
from lib.report import outputs
from lib.report.naming import families, role_of
from lib.report.tables import Column, ReadingError, Table
from lib.suitability.signals import SIGNAL_NAMES

EXAMPLE = (
    "label,p_cat,p_dog / cat,0.9,0.1 / dog,0.3,0.7 (a header, then a row for each prediction: the "
    "label, and the probability of each class)"
)
NO_REPORT = "of numbers there is no report"


def nothing(mapper: Any, label: Column | None) -> None:
    """Say all that is missing."""
    free = [n for n in mapper.table.columns if n not in mapper.used]
    few = [n for n in free if not mapper.table.columns[n].text]
    lines = of_papers(mapper.table)
    lines += [
        f"{text.removesuffix('.')}." for text in dict.fromkeys([*mapper.table.notes, *mapper.why])
    ]
    lines += _odd_columns(mapper.table)
    lines += [] if label is None else _unlike(mapper, label)
    if any(NO_REPORT in line for line in lines):  # nothing else would do
        raise ReadingError(mapper.table.source, *lines)
    if label is None:
        lines.append(
            "no column is known to be the label (such as label, y_true, target): name it with "
            "--map label=COLUMN."
        )
    lines.append(
        "no columns are known to be what the model says (such as p_cat and p_dog, prob_0 and "
        "prob_1, logit_0 and logit_1, probability, or prediction and confidence): name them "
        "with --map probabilities=PATTERN, logits=PATTERN, probability=COLUMN (of the second "
        "class), prediction=COLUMN or correct=COLUMN (whether it was right)."
    )
    names = short(", ".join(map(repr, few or free))) or "no others"
    lines.append(f"Its columns that are not yet known: {names}.")
    lines.append(f"The smallest file that would do: {EXAMPLE}.")
    raise ReadingError(mapper.table.source, *lines)


def of_papers(table: Table) -> list[str]:
    """What would do with the files of the book's papers: signals, confidences in canaries."""
    names = set(table.columns)
    if len(names & set(SIGNAL_NAMES)) >= len(SIGNAL_NAMES) // 2:
        return [
            "These are signals of a suitability filter: lib.suitability.SuitabilityFilter "
            "takes them as they are; a report on it needs logits."
        ]
    words = {name.rstrip("0123456789").rstrip("_") for name in names}
    if words & {"confs", "confidences"} and words & {"pos", "positions", "canary"}:
        return [
            "If these are confidences in canaries, lib.audit.canary_epsilon says what they "
            "show of privacy; a report needs membership_score, in rows of the parts member "
            "and nonmember."
        ]
    return []


def _unlike(mapper: Any, label: Column) -> list[str]:
    """What columns of answers or of classes lack beside the label."""
    lines, names = [], label.values()[1]
    known = {outputs.same(name): name for name in names}
    for name, column in mapper.table.columns.items():
        own = column.values()[1] if role_of(name) == "prediction" else ()
        if own and not {*map(outputs.same, own)} & {*known}:
            lines.append(
                f"{name!r} has no cell of {label.name!r}: {short(repr(own[:3])[1:-1])} beside "
                f"{short(repr(names[:3])[1:-1])}: both must name classes alike."
            )
    for family in families(n for n in mapper.table.columns if n not in mapper.used):
        keys = {*map(outputs.same, family.columns)}
        if len(keys & {*known}) > 1 and (lack := [known[k] for k in known if k not in keys]):
            lines.append(f"{family.shown} lack {short(', '.join(map(repr, lack)))}, a label.")
            break
    return lines


def _odd_columns(table: Table) -> list[str]:
    """What keeps columns from being what their names say."""
    lines = []
    for name, column in table.columns.items():
        role = role_of(name).rstrip("?")
        there = ~np.isnan(column.numbers)
        broken = there & (column.numbers % 1 > 0)
        if role == "prediction" and column.numeric and broken.any():
            lines.append(
                f"{name!r} holds numbers such as {column.numbers[broken.argmax()]:.6g}, which "
                f"are no classes: {NO_REPORT}."
            )
        worded = ~there & ~column.empty
        if not column.text and worded.any() and 2 * there.sum() > len(there):
            row = int(worded.argmax())
            lines.append(
                f"{name!r} holds numbers, but {short(repr(column.cell(row)))} in "
                f"{table.place(row)}: leave such cells empty, or such rows out."
            )
    return lines[:3]
