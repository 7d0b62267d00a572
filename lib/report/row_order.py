"""Test rows in an order of their own: what an estimate sees of them, and how it sorts them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.report.predictions import ModelPredictions
from lib.report.types import SCORES, acceptance_scores, silent
from lib.ties import precision

Array = npt.NDArray[Any]

_EQUAL = 64 * np.finfo(float).eps  # what rounding leaves between equal probabilities


def scores_of(logits: Array, labels: Array, abstained: Array) -> Array:
    """Whether answers are right, 0 or 1; NaN where there was none: that is not read."""
    out = np.full(len(labels), math.nan)
    answered = ~abstained
    out[answered] = logits[answered].argmax(axis=1) == labels[answered]
    return out


def own_scores(logits: Array) -> dict[str, Array] | None:
    """Acceptance scores that vary; None where abstained rows have no logits."""
    if silent(logits).any():
        return None
    # Probabilities and entropies are exact to rounding of 1.  The energy is as exact as the logits:
    # that of log probabilities is 0 but for their rounding.
    rounding = dict.fromkeys(SCORES, _EQUAL)
    rounding["energy"] = precision(logits) * max(1.0, float(np.abs(logits).max()))
    return {
        f"its {name}": values
        for name, values in acceptance_scores(logits).items()
        if np.ptp(values) > rounding[name]
    }


def own_order(columns: list[Array]) -> npt.NDArray[np.int64]:
    """Rows in an order of what is in them, and not of where they stand; last bits decide nothing.

    Rows that are the same in all columns, up to rounding, stay as they are.
    """
    rounded = []
    for column in columns:
        column = np.asarray(column, dtype=float)
        size = np.abs(column[np.isfinite(column)]).max(initial=0.0)
        rounded.append(np.round(column / (size or 1.0), 9))
    return np.lexsort(rounded[::-1])


def in_own_order(given: ModelPredictions) -> ModelPredictions:
    """The same test rows, sorted, so that the order of a file decides about no fold.

    Sorted by what an estimate sees of a row; of logits that is what does not depend on how two
    classes are coded.
    """
    columns = []
    for who in ("test", "other"):
        told, scores, logits, abstained = (
            getattr(given, f"{who}_{what}")
            for what in ("propensities", "scores", "logits", "abstained")
        )
        columns += [one for one in (abstained, told) if one is not None]
        if scores is not None:
            columns.append(np.where(abstained, math.nan, scores))  # those are not read
        if logits is not None and given.test_labels is not None:
            columns.append(scores_of(logits, given.test_labels, abstained))
            columns += (own_scores(logits) or {}).values()
    order = own_order([*columns, *given.features.values()])
    names = [name for name in given.given if name.startswith(("test_", "other_"))]
    rivals = {name: answers[order] for name, answers in given.rivals.items()}
    rows = {name: getattr(given, name)[order] for name in names}
    return replace(given, rivals=rivals, **rows)
