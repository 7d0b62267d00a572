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
    """Whether answers follow the label as numbers do, not as classes."""
    if not (label.numeric and answer.numeric):
        return False
    known = ~np.isnan(label.numbers) & ~np.isnan(answer.numbers)
    true, said = label.numbers[known], answer.numbers[known]
    if len(np.unique(true)) <= _FEW or len(np.unique(said)) < 2:
        return False
    return bool((true == said).mean() < _TOGETHER < np.corrcoef(true, said)[0, 1])


def shifted(label: Column, answer: Column) -> tuple[float, float, float] | None:
    """Agreement as it is and one number further, and where this begins, if it is that clearly."""
    if not (label.numeric and answer.numeric):
        return None
    known = ~np.isnan(label.numbers) & ~np.isnan(answer.numbers)
    true, said = label.numbers[known], answer.numbers[known]
    if len(true) < _FEW or np.ptp(true) != np.ptp(said) or np.ptp(true) < 1:
        return None
    step = true.min() - said.min()
    plain, moved = (true == said).mean(), (true == said + step).mean()
    most = np.unique(true, return_counts=True)[1].max() / len(true)
    return (plain, moved, true.min()) if abs(step) == 1 and moved > most > plain else None
