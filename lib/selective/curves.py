"""Accuracy as a function of coverage, and the bound on it.

Throughout the book a *score* is an acceptance score: the larger, the earlier a point is accepted.
With n points the coverage takes the values i / n, i = 1..n.  Points of equal score (up to rounding,
as :func:`lib.ties.group_starts` decides) are accepted in random order, and what is reported is the
expected value over these orders, exactly.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.check import as_scored, as_unit, require_choice, same_rows
from lib.ties import group_starts

_DISTINCT = 20  # values of a score from which on it is no scale of few levels


@dataclass(frozen=True, eq=False)
class AccuracyCoverage:
    """The accuracy-coverage trade-off of a selective classifier.

    Attributes
    ----------
    coverage : ndarray of float64, shape (n,)
        i / n, ascending.
    accuracy : ndarray of float64, shape (n,)
        Selective accuracy at that coverage: the expected fraction of correct predictions among the
        first i accepted points.
    """

    coverage: npt.NDArray[np.float64]
    accuracy: npt.NDArray[np.float64]

    @property
    def full_accuracy(self) -> float:
        """Accuracy at full coverage."""
        return float(self.accuracy[-1])


def accuracy_coverage(correct: npt.ArrayLike, score: npt.ArrayLike) -> AccuracyCoverage:
    """Compute selective accuracy at every coverage.

    Parameters
    ----------
    correct : array_like of bool, shape (n,)
        Whether the prediction for each point is right.
    score : array_like of float, shape (n,)
        Acceptance score: larger is accepted earlier.  May be infinite, not NaN.

    Returns
    -------
    AccuracyCoverage

    Notes
    -----
    Let a group of m points with h correct ones share a score, after i0 accepted points of which k0
    are correct.  Over random orders within the group the expected number of correct points among
    the first i0 + j is k0 + h j / m.  One point, no correct or no wrong prediction need no special
    case: the accuracy is then constant.  Time O(n log n) for the sort.

    References
    ----------
    P1 (Rabanser et al. 2023), Eq. 3 and 4.

    Examples
    --------
    >>> curve = accuracy_coverage([True, False, True], [0.9, 0.5, 0.7])
    >>> curve.accuracy.round(3).tolist()
    [1.0, 1.0, 0.667]
    >>> accuracy_coverage([True, False], [0.5, 0.5]).accuracy.tolist()
    [0.5, 0.5]
    """
    correct, score = as_scored(correct, score)
    n = len(correct)
    return AccuracyCoverage(np.arange(1, n + 1) / n, _accuracy(correct, score))


def accuracy_bound(full_accuracy: npt.ArrayLike, coverage: npt.ArrayLike) -> npt.NDArray:
    """The largest selective accuracy that a given accuracy at full coverage allows.

    Parameters
    ----------
    full_accuracy : array_like of float
        Accuracy at full coverage, in [0, 1].
    coverage : array_like of float
        In (0, 1].

    Returns
    -------
    ndarray of float64
        1 where coverage <= full_accuracy, full_accuracy / coverage beyond; of the broadcast shape.

    References
    ----------
    P1, Definition 3.1, Eq. 5.

    Examples
    --------
    >>> accuracy_bound(0.6, [0.5, 0.6, 0.8, 1.0]).round(2).tolist()
    [1.0, 1.0, 0.75, 0.6]
    """
    same_rows(full_accuracy=full_accuracy, coverage=coverage)
    full = as_unit("full_accuracy", full_accuracy)
    return np.minimum(1.0, full / as_unit("coverage", coverage, open_left=True))


def coverage_at_accuracy(
    correct: npt.ArrayLike, score: npt.ArrayLike, target: float, *, randomized: bool = False
) -> float:
    """The largest coverage at which the selective accuracy *seen* is at least a target.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`accuracy_coverage`.
    target : float
        Accuracy to reach, in [0, 1].
    randomized : bool
        Whether a part of a group of equal scores may be answered, drawn at random, for the expected
        accuracy; if not, groups are answered whole or not at all, as a threshold on the score does.

    Returns
    -------
    float
        One of 1/n, ..., 1; 0 if no coverage reaches the target.

    Notes
    -----
    Rounding is forgiven: accuracies within 1e-12 of the target reach it.  P1's Table 1 is this with
    the non-private model's accuracy at full coverage as target.  Chosen on the points that it is
    computed on, the coverage promises nothing: that is
    :func:`lib.selective.guaranteed_threshold`.

    Examples
    --------
    >>> coverage_at_accuracy([True, True, False, True], [4, 3, 2, 1], 0.75)
    1.0
    >>> coverage_at_accuracy([True, True, False, True], [4, 3, 2, 1], 0.9)
    0.5
    >>> tied = [True, True, True, False], [2, 1, 1, 1]
    >>> coverage_at_accuracy(*tied, 0.8), coverage_at_accuracy(*tied, 0.8, randomized=True)
    (0.25, 0.5)
    """
    target = float(as_unit("target", target))
    require_choice("randomized", randomized, (False, True))
    curve = accuracy_coverage(correct, score)
    offered = np.ones(len(curve.accuracy), dtype=bool)
    if not randomized:
        starts = group_starts(np.sort(as_scored(correct, score)[1]))
        offered[:] = False
        offered[len(offered) - 1 - starts] = True  # the last ranks of groups, from the largest down
    reached = np.flatnonzero(offered & (curve.accuracy >= target - 1e-12))
    return float(curve.coverage[reached[-1]]) if len(reached) else 0.0


def _accuracy(
    correct: npt.NDArray[np.bool_], score: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    # Sorting values is several times as fast as finding the order, and two sorted lists are all
    # that the curve needs.
    ordered, wrong = np.sort(score), np.sort(score[~correct])
    out = np.empty(len(correct))
    _expected_accuracy(ordered, group_starts(ordered), wrong, out)
    return out


@njit(cache=True)
def _expected_accuracy(ordered, starts, wrong, out):
    """From the largest score down, averaging over groups of equal scores."""
    # Both lists ascend and are read from their ends:
    #
    #     ordered   .1 .3 .3 .5 .7 .7 .7 .9      all scores; `starts`: where groups begin
    #     wrong     .1 .3       .7               those of wrong answers
    #                           <- a group of m = 3 with h = 2 right ones
    #
    # `rank` points are accepted already, `hits` of them right.
    left, end, rank, hits = len(wrong), len(ordered), 0, 0
    for group in range(len(starts) - 1, -1, -1):
        start = starts[group]
        h = m = end - start
        # The group's wrong ones are those left that are not below its smallest score.
        while left and wrong[left - 1] >= ordered[start]:
            left -= 1
            h -= 1
        for k in range(1, m + 1):
            # In random order k of the m bring h k / m right ones, on average.
            out[rank + k - 1] = (hits + h * k / m) / (rank + k)
        rank += m
        hits += h
        end = start


def warn_of_copies(
    correct: npt.NDArray[np.bool_], score: npt.NDArray[np.floating], stacklevel: int = 3
) -> None:
    """Warn if points look like copies: most share their score, never a right and a wrong one.

    Scores of few values, or rounded ones, are shared by right and wrong points as well.
    """
    shared, values = 0, []
    for part in (np.sort(score[correct]), np.sort(score[~correct])):
        new = np.append(True, part[1:] != part[:-1])[: len(part)]
        starts = np.flatnonzero(new)
        if 2 * len(starts) > len(part):
            return
        sizes = np.diff(starts, append=len(part))
        shared += int(sizes[sizes > 1].sum())
        values.append(part[starts])
    if min(map(len, values)) < 5 or sum(map(len, values)) < _DISTINCT:
        return
    if not np.isin(*values).any():
        warnings.warn(
            f"points look repeated: {shared} of {len(score)} share their score with another, and "
            f"no right one with a wrong one; levels suppose independent points: leave copies out, "
            "or give clusters",
            UserWarning,
            stacklevel=stacklevel,
        )
