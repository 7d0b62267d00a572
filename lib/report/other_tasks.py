"""Files of other tasks than one class a row: several labels at once, and numbers."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from lib.data.untrusted import short
from lib.report.lacks import NO_REPORT
from lib.report.naming import plain, role_of
from lib.report.tables import Column, ReadingError, Table

_APART = re.compile(r"\s*[,;|]\s*")
_LITTLE = 4  # columns of a table of counts: label, answer, count, and a fraction
_COUNTS = {"count", "counts", "n", "freq", "frequency", "num", "number"}
#: What the last row is called that sums up the others.
_TOTALS = {"total", "totals", "grand_total", "sum", "mean", "average", "avg", "overall", "accuracy"}
_FEW = 30  # different numbers up to which they may be classes
_TOGETHER = 0.5  # correlation of answers with labels that they hardly ever equal
_RARE, _SPIKE = 0.1, 3  # fraction of classes that are right, at least, and times those next to them


def refuse_totals(table: Table) -> None:
    """Raise a ValueError if the last row sums the others up: no row is a prediction then."""
    for place, (name, column) in enumerate(table.columns.items()):
        role = role_of(name).rstrip("?")
        if column.codes is None or not (place == 0 or role in ("label", "prediction")):
            continue
        last = column.codes[-1]
        alone = last >= 0 and (column.codes == last).sum() == 1 < table.rows
        if alone and plain(column.words[last]) in _TOTALS:
            raise table.cell_error(
                name, "of a prediction in every row; leave sums of others out", table.rows - 1
            )


def refuse_confusion(source: str, label: Column | None, matrix: np.ndarray) -> None:
    """Raise a ReadingError if a row counts all predictions of a class, and not one."""
    if label is None or not len(matrix) == matrix.shape[1] == len(label.values()[1]):
        return
    if (matrix % 1 == 0).all() and matrix.min() >= 0 and (matrix > 1).any():
        raise ReadingError(
            source,
            f"it seems to be a confusion matrix: {len(matrix)} rows of counts, one a class of "
            f"{label.name!r}. A report needs a row for each prediction.",
        )


def refuse_other_tasks(table: Table, label: Column, answers: Sequence[Column]) -> None:
    """Raise a ReadingError where a label holds several at once, or numbers that are no classes.

    Or where rows count predictions.
    """
    source = table.source
    if words := several(label.values()[1]):
        raise ReadingError(
            source,
            f"{label.name!r} holds several labels at once, such as {short(repr(words))}: these are "
            "not read. A file for one of them would do: 1 or 0, and its probability.",
        )
    for answer in answers:
        if answer is not label and (name := counting(table, label, answer)):
            raise ReadingError(
                source,
                f"{name!r} seems to count predictions, of which a report needs a row each; with "
                f"pandas: frame.loc[frame.index.repeat(frame[{name!r}])]",
            )
        if off := shifted(label, answer):
            raise ReadingError(
                source,
                f"{label.name!r} and {answer.name!r} seem to count classes from different numbers: "
                f"they agree in {off[0]:.1%} of the rows, and in {off[1]:.1%} if the answers "
                f"are counted from {off[2]:.0f}. Number them alike.",
            )
        if numbers(label, answer):
            raise ReadingError(
                source,
                f"{label.name!r} and {answer.name!r} are numbers that go together and are rarely "
                f"equal: {NO_REPORT}, only of classes.",
            )


def counting(table: Table, label: Column, answer: Column) -> str:
    """The column that counts how often labels were answered, in a table of little else."""
    counts = [name for name in table.columns if plain(name) in _COUNTS]
    pairs = np.column_stack([label.values()[0], answer.values()[0]])
    if not counts or len(table.columns) > _LITTLE or len(np.unique(pairs, axis=0)) < len(pairs):
        return ""
    return counts[0] if (table.columns[counts[0]].numbers > 1).any() and len(pairs) > 1 else ""


def several(names: Sequence[str]) -> str:
    """A name that is made of others, if all that are made of parts share these; else empty."""
    parts = {name: [*filter(None, _APART.split(name.strip("[](){} ")))] for name in names}
    made = [name for name, each in parts.items() if len(each) > 1]
    counts = Counter(part for each in parts.values() for part in {*each})
    shared = all(counts[part] > 1 for name in made for part in parts[name])
    return made[0] if len(made) > 1 and shared else ""


def numbers(label: Column, answer: Column) -> bool:
    """Whether answers follow the label as numbers do, not as classes.

    Errors of numbers are mostly small: they are as often off by one as right.
    """
    if (pair := _pair(label, answer)) is None:
        return False
    true, said = pair
    if len(np.unique(true)) <= _FEW or len(np.unique(said)) < 2:
        return False
    right, off_by_1 = (true == said).mean(), (abs(true - said) == 1).mean()
    if right >= max(_RARE, _SPIKE * off_by_1 / 2):
        return False
    return bool(right < _TOGETHER < np.corrcoef(true, said)[0, 1])


def shifted(label: Column, answer: Column) -> tuple[float, float, float] | None:
    """Agreement as it is and one number further, and where this begins, if it is that clearly.

    Of few classes both ranges have to fit better, too: a model may answer one too many.
    """
    if (pair := _pair(label, answer)) is None or len(pair[0]) < _FEW:
        return None
    true, said = pair
    found, most = np.unique(true, return_counts=True)
    plain, most = (true == said).mean(), most.max() / len(true)
    for step in (1, -1):
        moved = (true == said + step).mean()
        spans = [np.ptp(np.r_[true.min(), true.max(), said + by]) for by in (0, step)]
        clear = moved > most and (most > plain or moved > _SPIKE * plain)
        if clear and (len(found) > _FEW or spans[1] < spans[0]):
            return plain, moved, min(true.min(), (said + step).min())
    return None


def _pair(label: Column, answer: Column) -> tuple[np.ndarray, np.ndarray] | None:
    """Numbers of both where both are known."""
    if not (label.numeric and answer.numeric):
        return None
    known = ~np.isnan(label.numbers) & ~np.isnan(answer.numbers)
    return label.numbers[known], answer.numbers[known]
