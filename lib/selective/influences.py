"""The influence of every point on an area: what standard errors and intervals follow from."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.check import as_scored, require_choice
from lib.selective.areas import augrc, aurc, normalized_score, selective_auc
from lib.ties import group_starts

#: The metrics of this module and the functions that compute them.
METRICS: dict[str, Callable[[npt.ArrayLike, npt.ArrayLike], float]] = {
    "normalized_score": normalized_score,
    "selective_auc": selective_auc,
    "aurc": aurc,
    "augrc": augrc,
}

#: Influences, the least possible one, and the largest.
Parts = tuple[npt.NDArray[np.float64], float, float]
_DUST = 1e-13  # of the range of influences: rounding


def influence(
    correct: npt.ArrayLike, score: npt.ArrayLike, metric: str = "normalized_score"
) -> npt.NDArray[np.float64]:
    """Influence of every point on an area, from which standard errors follow.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.
    metric : {"normalized_score", "selective_auc", "aurc", "augrc"}
        Which area.

    Returns
    -------
    ndarray of float64, shape (n,)
        Values of mean about 0; the area's variance is their mean square over n.

    Notes
    -----
    Let u be the coverage at which a point is accepted, y its correctness and r(c) the selective
    accuracy.  The area S = E[r(u)] under the curve (Eq. 4) has, by differentiating r = K / F in the
    law of (score, correct), the influence function

        r(u) - S + int_u^1 (y - r(c)) / c dc.

    The bound's area a - a ln a has -ln(a) (y - a), and the normalized score the difference.  AUGRC,
    the mean over c of the accepted wrong mass W(c), has W(u) + (1 - y)(1 - u) - 2 AUGRC.
    Tied points are averaged over their orders.  If all predictions are right or all are wrong, the
    normalized score does not vary, and the influence is 0.

    Examples
    --------
    >>> values = influence(correct, score)
    >>> values.shape, bool(abs(values.mean()) < 0.01)
    ((400,), True)
    """
    return influences(*as_scored(correct, score), metric)[0]


def influences(
    correct: npt.NDArray[np.bool_], score: npt.NDArray[np.floating], metric: str
) -> Parts:
    """Influences, and the least and the largest that a right or wrong point might have anywhere."""
    area_of(metric)
    order = np.argsort(-score, kind="stable")
    n, ends = len(order), group_ends(score[order])
    y = correct[order].astype(float)
    if_wrong, if_right = np.empty((2, len(ends)))
    (_augrc_influence if metric == "augrc" else _auc_influence)(y, ends, if_wrong, if_right)
    if metric in ("aurc", "normalized_score"):
        if_wrong, if_right = -if_wrong, -if_right
    if metric == "normalized_score":
        # At an accuracy of 0 the bound is infinitely steep: that of less than half a right point.
        if_right -= math.log(max(float(y.mean()), 0.5 / n))
    sizes = np.diff(ends, prepend=0)
    out = np.where(y > 0, np.repeat(if_right, sizes), np.repeat(if_wrong, sizes))
    mean = out.mean()
    back = np.empty(n)
    back[order] = out - mean
    both = np.array([if_wrong, if_right]) - mean
    return _cleared(back, float(both.min()), float(both.max()))


def _cleared(values: npt.NDArray[np.float64], lowest: float, highest: float) -> Parts:
    """Influences without what is rounding alone, which would pass for variation."""
    return np.where(np.abs(values) > _DUST * (highest - lowest), values, 0.0), lowest, highest


def area_of(metric: str) -> Callable[[npt.ArrayLike, npt.ArrayLike], float]:
    """The function of a metric's name."""
    return METRICS[require_choice("metric", metric, tuple(METRICS))]


def difference_of(first: Parts, second: Parts) -> Parts:
    """Of a difference: the least is the least of the first minus the largest of the second."""
    return _cleared(first[0] - second[0], first[1] - second[2], first[2] - second[1])


def group_ends(ordered: npt.NDArray) -> npt.NDArray[np.int64]:
    """Index after the last member of each group of equal scores."""
    return np.append(group_starts(ordered)[1:], len(ordered))


@njit(cache=True)
def _auc_influence(y, ends, if_wrong, if_right):
    """r(u) + int_u^1 (y - r(c)) / c dc on the grid, averaged within groups, for y = 0 and 1."""
    right = 0.0
    for i in range(len(y)):
        right += y[i]
    # From the last group to the first, carrying int r / c and int 1 / c.
    after_r, after_1 = 0.0, 0.0
    end = len(y)
    for g in range(len(ends) - 1, -1, -1):
        start = ends[g - 1] if g else 0
        h = 0.0
        for i in range(start, end):
            h += y[i]
        hits = right - h
        m = end - start
        mean_r, mean_1 = 0.0, 0.0
        for j in range(m, 0, -1):
            i = start + j
            r = (hits + h * j / m) / i
            # The point at rank i counts from its own rank on.
            after_r += r / i
            after_1 += 1.0 / i
            mean_r += r - after_r
            mean_1 += after_1
        if_wrong[g] = mean_r / m
        if_right[g] = mean_r / m + mean_1 / m
        right = hits
        end = start


@njit(cache=True)
def _augrc_influence(y, ends, if_wrong, if_right):
    """W(u) + (1 - y)(1 - u), averaged within groups, for y = 0 and 1."""
    n = len(y)
    start, wrong = 0, 0.0
    for g in range(len(ends)):
        m = ends[g] - start
        w = 0.0
        for i in range(start, ends[g]):
            w += 1.0 - y[i]
        if_right[g] = (wrong + w / 2) / n
        if_wrong[g] = if_right[g] + 1 - (start + m / 2) / n
        wrong += w
        start = ends[g]
