"""Files of other tasks than one class a row: several labels at once, and numbers."""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from lib.data.untrusted import short
from lib.report.lacks import NO_REPORT
from lib.report.tables import Column, ReadingError

_APART = re.compile(r"\s*[,;|]\s*")
_FEW = 30  # different numbers up to which they may be classes
_TOGETHER = 0.5  # correlation of answers with labels that they hardly ever equal
_RARE, _SPIKE = 0.1, 3  # fraction of classes that are right, at least, and times those next to them


def refuse_other_tasks(source: str, label: Column, answers: Sequence[Column]) -> None:
    """Raise a ReadingError where a label holds several at once, or numbers that are no classes."""
    if words := several(label.values()[1]):
        raise ReadingError(
            source,
            f"{label.name!r} holds several labels at once, such as {short(repr(words))}: these are "
            "not read. A file for one of them would do: 1 or 0, and its probability.",
        )
    for answer in answers:
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
