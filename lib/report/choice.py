"""Which of several ways to read a file is the one that is meant, or a question."""

import shlex
from typing import Any

import numpy.typing as npt

from lib.report.outputs import Candidate
from lib.report.tables import ReadingError

Array = npt.NDArray[Any]

_NAME_THEM = (
    "Name the columns by their classes, such as p_cat and p_dog, to be sure of their order."
)


def choose(source: str, candidates: list[Candidate], rows: Array) -> Candidate:
    """The reading that is sure, or an error that shows all with their accuracy.

    A reading is supported if its accuracy is above that of the commonest class or, with two
    classes, if it ranks the second one's rows above the others'.
    """
    scores = [one.scored(rows) for one in candidates]
    if len(candidates) == 1 and not (candidates[0].guess and scores[0] is not None):
        return candidates[0]
    supported = [
        one
        for one, score in zip(candidates, scores, strict=True)
        if score is None or score[0] > score[1] or (one.ranks(rows) or 0.0) > 0.5
    ]
    above = [
        one
        for one, score in zip(candidates, scores, strict=True)
        if score is not None and score[0] > score[1]
    ]
    if any(one.contrary for one in candidates):
        above, supported = [], []
    if len(supported) == 1 or (len(above) == 1 and len(supported) == 2 and above[0] in supported):
        one = (above or supported)[0]
        if one.ordered and (found := one.better_order(rows)):
            raise ReadingError(
                source,
                f"the columns may be in another order than the classes: {'; '.join(one.says)}. So "
                f"read, its accuracy is {found[0]:.3f}; in the order that fits best it would be "
                f"{found[1]:.3f}.",
                _NAME_THEM,
            )
        return one
    if len(candidates) > 1 and all(score is None for score in scores):
        sure = [one for one in candidates if not one.guess]
        if len(sure) == 1:
            return sure[0]
    lines = [
        "it can be read in more than one way, and none is sure:"
        if len(candidates) > 1
        else "as it would be read, the model is no better than a constant:"
    ]
    for place, (one, score) in enumerate(zip(candidates, scores, strict=True), 1):
        told = "no labels to tell"
        if score is not None:
            told = f"accuracy {score[0]:.3f}, always the commonest class {score[1]:.3f}"
        choice = (
            f"; --map {shlex.quote(one.option)}"
            if not one.ordered or "first=" in one.option
            else ""
        )
        lines.append(f"({place}) {'; '.join(one.says)}: {told}{choice}.")
    if any(one.ordered for one in candidates):
        lines.append(_NAME_THEM)
    if any(not one.ordered or "first=" in one.option for one in candidates):
        lines.append("Say which by its --map.")
    raise ReadingError(source, *lines)
