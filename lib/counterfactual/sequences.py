"""Asymptotic confidence sequences: an interval at every sample size, to be watched as data come.

A confidence interval holds at one sample size that was fixed beforehand.  Whoever looks at it after
each new point and stops when it excludes 0 will get there sooner or later, even if 0 is the truth.
A confidence sequence holds at all sample sizes at once, so one may stop whenever one likes.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.check import as_integer, as_number, as_range, as_vector

Array = npt.NDArray[np.float64]
_START = 50  # of sequences whose start is not given
_ROUNDING = 1e-12  # relative


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """Intervals for a mean, one for each sample size from the start on.

    Attributes
    ----------
    n : ndarray of int64, shape (m,)
        Sample sizes, in steps of 1.
    centre : ndarray, shape (m,)
        Mean of the first n values.
    lower, upper : ndarray, shape (m,)
        Ends of the intervals.
    rho : float
        Tuning: where the sequence is tight.
    level : float
        Of the whole sequence.
    """

    n: npt.NDArray[np.int64] = field(repr=False)
    centre: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    rho: float
    level: float


def confidence_sequence(
    influence: npt.ArrayLike,
    level: float = 0.95,
    rho: float | None = None,
    start: int | None = None,
    score_range: tuple[float, float] | None = None,
) -> ConfidenceSequence:
    """Two-sided asymptotic confidence sequence for the mean of influence values.

    At each n it is the mean of the first n values plus or minus

        sqrt(Var_n) sqrt( 2 (n rho^2 + 1) / (n^2 rho^2) log( sqrt(n rho^2 + 1) / alpha ) )

    with alpha = 1 - level and their variance Var_n (divisor n), in which the least and the largest
    value so far count once more: where most values are equal, it would be too small without.

    Parameters
    ----------
    influence : array_like, shape (N,)
        Influence values, not centered (:class:`lib.counterfactual.Estimate`), *in order of
        arrival*.
    level : float
        In (0, 1): probability with which all intervals from `start` on hold together.
    rho : float, optional
        Positive; :func:`optimal_rho` of N if not given, which makes the last interval the narrowest
        possible.  To be chosen without a look at the data: if N itself came about by stopping
        early, give the rho of the size that was planned.
    start : int, optional
        Smallest n with an interval, from 2 to N; 50 if not given, which takes 50 values.
    score_range : tuple of float, optional
        Least and largest value that is possible.  If given, one of each is counted in, at every n:
        the sequence is wider while there are few values, and keeps its level whatever they are.

    Returns
    -------
    ConfidenceSequence
        Of sample sizes from `start` to N.  While all values so far are equal, and no `score_range`
        is given, nothing is known of their error: the intervals are infinite.

    Notes
    -----
    *What is guaranteed.*  The sequence is asymptotic in time: its ends approach those of a sequence
    with exact level, faster than its width shrinks, so the probability that any interval from
    `start` on fails tends to at most alpha as `start` grows, with rho tuned to sizes of its order
    or larger.  From a fixed start it is no theorem.  Simulated, with independent zero-one values of
    mean 0.5 to 0.999 and alpha = 0.05, some interval up to n = 2000 misses in 5% of all sequences
    at most, from the default start as from n = 10, with the default rho; with rho tuned to n = 200
    in 6.5% at most.  Without the extremes in the variance it was 11%, and while all values are
    equal there is no finite interval.  With `score_range` (0, 1) it is 4% at most (5.4% with rho
    tuned to n = 200, from n = 50 on).
    The values must be independent, of one distribution with more than two finite moments.

    *Nuisance functions.*  All is well if they are known, or were fitted to other data: what is
    followed is then the mean of the influence values, which is psi if one of the two is right.
    Refitted while data come, each value may only use models of points before it, or of other folds,
    and the product of their errors must be o(sqrt(log log n / n)).  Cross-fitted on a finished
    sample (:func:`lib.counterfactual.counterfactual_score`) they know later points of other folds:
    in order of arrival the sequence is then a look back, how monitoring would have gone with the
    final models, and not a record of what could have been decided at n.  In any order that depends
    on the data, or by fold, the values are not a sequence at all.

    *The formula in P4.*  Under the second root the slide of the talk has
    n^-2 (2 n sigma_n^2 + 1) log(sqrt(n sigma_n^2 + 1) / alpha), where sigma_n^2 is "the variance
    estimate of psi_n", and there is no rho.  It seems to join two layouts that are both right: with
    the variance inside, 2 (n rho^2 sigma_n^2 + 1) / (n rho)^2 log(sqrt(n rho^2 sigma_n^2 + 1) /
    alpha) without the factor sqrt(Var_n) before it; or with that factor and rho^2 in place of
    rho^2 sigma_n^2, which is the formula above.  As printed, the width is not in proportion to the
    scale of the scores, and too small for scores in [0, 1].

    References
    ----------
    P4, appendix B.5.  Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit
    theory and asymptotic confidence sequences, Annals of Statistics, 2024 (arXiv 2103.06476).

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(0.3, 1.0, 500)
    >>> sequence = confidence_sequence(values)
    >>> int(sequence.n[sequence.lower > 0][0])  # zero is excluded from there on
    75
    """
    x = as_vector("influence", influence)
    if len(x) < 2:
        raise ValueError(f"influence must hold at least 2 values, got {len(x)}")
    level = as_number("level", level, 0, 1)
    if start is None and len(x) < _START:
        raise ValueError(
            f"influence must hold at least {_START} values, where sequences start, or give a "
            f"smaller start, got {len(x)}"
        )
    start = _START if start is None else as_integer("start", start, 2, len(x))
    rho = optimal_rho(len(x), level) if rho is None else as_number("rho", rho, 0, math.inf)
    given = x if score_range is None else _with_ends(x, score_range)
    n, mean, variance = running_moments(given)
    if score_range is None:
        low, high = np.minimum.accumulate(x), np.maximum.accumulate(x)
        # Two values more, the least and the largest so far: a beginning in which all values are
        # equal would else have no width.
        variance += ((low - mean) ** 2 + (high - mean) ** 2) / n
    else:
        # The two ends came first: after n + 2 values the sequence has seen n points.
        n, mean, variance = n[:-2], mean[2:], variance[2:]
    n, mean, variance = (values[start - 1 :] for values in (n, mean, variance))
    # Equal numbers, whatever they are rounded to, have no variance, and then there is no width.
    known = variance > (_ROUNDING * np.abs(given).max()) ** 2
    half = np.where(known, np.sqrt(variance) * _boundary(n, rho, 1 - level), np.inf)
    return ConfidenceSequence(n, mean, mean - half, mean + half, rho, level)


def _with_ends(x: Array, score_range: Any) -> Array:
    """The values with the least and the largest possible one before them."""
    low, high = as_range("score_range", score_range)
    if x.min() < low or x.max() > high:
        raise ValueError(
            f"score_range must hold all of influence, {x.min():g} to {x.max():g}, got "
            f"{score_range!r}"
        )
    return np.concatenate([[low, high], x])


def running_moments(x: Array) -> tuple[npt.NDArray[np.int64], Array, Array]:
    """Number, mean and variance (divisor n) of the first n values, for each n."""
    n = np.arange(1, len(x) + 1)
    # Against cancellation: sums of differences from the first value, and Welford's increments of
    # the sum of squares, which are never negative.
    shifted = x - x[0]
    mean = np.cumsum(shifted) / n
    increments = np.zeros(len(x))
    increments[1:] = (shifted[1:] - mean[:-1]) ** 2 * (n[:-1] / n[1:])
    return n, x[0] + mean, np.cumsum(increments) / n


def optimal_rho(n: int, level: float = 0.95) -> float:
    """The rho that makes a confidence sequence as narrow as it can be at one sample size.

    Parameters
    ----------
    n : int
        The sample size, at least 1.
    level : float
        In (0, 1).

    Returns
    -------
    float
        sqrt( (-W(-alpha^2 / e) - 1) / n ) with the lower branch W of Lambert's function and
        alpha = 1 - level.  At n the half-width is then sqrt(Var_n (1 + n rho^2) / n).

    Notes
    -----
    With u = n rho^2 the squared half-width is in proportion to (1 + 1/u) log((u + 1) / alpha^2),
    the derivative of which is zero where log((u + 1) / alpha^2) = u.

    References
    ----------
    Waudby-Smith et al., 2024 (see :func:`confidence_sequence`).

    Examples
    --------
    >>> round(optimal_rho(1000), 4)
    0.0906
    """
    n = as_integer("n", n, 1)
    alpha = 1 - as_number("level", level, 0, 1)
    u = -special.lambertw(-(alpha**2) / math.e, -1).real - 1
    if not u > 0:
        raise ValueError(f"level must not be so close to 0, got {level!r}")
    return math.sqrt(u / n)


def _boundary(n: npt.NDArray[np.int64], rho: float, alpha: float) -> Array:
    """Half-width at unit variance."""
    u = n * rho**2
    return np.sqrt(2 * (u + 1) / (n * u) * (0.5 * np.log1p(u) - math.log(alpha)))
