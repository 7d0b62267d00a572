"""Calibration: whether the model is as often right as it is sure."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.report.findings import Outcome
from lib.report.types import share
from lib.ties import bin_index

Array = npt.NDArray[Any]

#: Of a reliability diagram: twenty rows a bin with 200.
BINS = 10
#: Of a second look where errors of both signs may cancel within bins.
FINER = 40
#: How far confidence may be off, on average, for whoever reads it as a probability.
CLOSE = 0.05


def by_confidence(
    confidence: Array,
    correct: Array,
    alpha: float,
    clusters: Array | None = None,
    count: int = BINS,
) -> pd.DataFrame:
    """Accuracy in bins of equal width, with intervals that hold together at the level 1 - alpha.

    With k bins each has the level 1 - alpha / k (Bonferroni).  Clopper and Pearson's interval holds
    though the rows of a bin have different chances to be right: their number of right answers
    varies less than a binomial one of the same mean (Hoeffding 1956).
    """
    place = bin_index(confidence, count)
    used = np.unique(place)
    rows = []
    for b in used:
        inside = place == b
        cluster = None if clusters is None else clusters[inside]
        found = share(correct[inside], 1 - alpha / len(used), cluster)
        rows.append((float(confidence[inside].mean()), *found, int(inside.sum())))
    return pd.DataFrame(rows, columns=["confidence", "accuracy", "low", "high", "rows"])


def error_limits(bins: pd.DataFrame) -> tuple[float, float]:
    """Least and most that the expected calibration error of these bins can be.

    Both hold at once with the level of the bins' intervals: the error is a weighted mean of the
    distances from accuracy to confidence, and each of these lies between its ends.
    """
    weight = bins["rows"] / bins["rows"].sum()
    below, above = bins["low"] - bins["confidence"], bins["high"] - bins["confidence"]
    least = np.maximum(0, np.maximum(below, -above))
    most = np.maximum(-below, above)
    return float(weight @ least), float(weight @ most)


def averages(bins: pd.DataFrame) -> tuple[float, float]:
    """Mean confidence and accuracy of all rows."""
    weight = bins["rows"] / bins["rows"].sum()
    return float(weight @ bins["confidence"]), float(weight @ bins["accuracy"])


def judged(bins: pd.DataFrame, finer: pd.DataFrame | None = None) -> Outcome:
    """What is shown of confidence.

    Close is an error of at most :data:`CLOSE` on average, unless finer bins show a larger one,
    whose signs cancel within the others: then those are judged.  Else a bin is off if its accuracy
    is shown to be below, or above, its confidence: too sure, or too modest, is a model that is off
    on that side only, and on average on that side too.  Other models are off in places, and too
    sure if too sure in some.
    """
    if error_limits(bins)[1] <= CLOSE:
        if finer is None or error_limits(finer)[0] <= CLOSE:
            return Outcome.CLOSE
        bins = finer
    sure = bool((bins["high"] < bins["confidence"]).any())
    modest = bool((bins["low"] > bins["confidence"]).any())
    if not sure and not modest:
        return Outcome.NOT_SHOWN_TRUE
    confidence, accuracy = averages(bins)
    if sure and not modest and confidence > accuracy:
        return Outcome.TOO_SURE
    if modest and not sure and confidence < accuracy:
        return Outcome.TOO_MODEST
    return Outcome.TOO_SURE_IN_PLACES if sure else Outcome.TOO_MODEST_IN_PLACES
