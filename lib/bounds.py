"""Intervals for means of independent values that hold where few of them vary, or none.

An interval from a variance takes the values at hand for all that there are.  Where few of them
differ from the others (200 right answers and one wrong one) those that were not drawn count most,
and such intervals hold too seldom; where none differs they have no width.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import stats

__all__ = ["MeanInterval", "few_vary", "mean_bounds", "mean_interval"]

_SKEWED = 0.2  # standardized third moment over the square root of n
_FEWEST = 10.0  # n over the standardized fourth moment
_APART, _TOGETHER = 400, 200  # values that enter one by one, and groups of the others


@dataclass(frozen=True)
class MeanInterval:
    """Limits for a mean, and where they are from.

    Attributes
    ----------
    low, high : float
        Confidence limits.
    bounds : bool
        Whether they are those of :func:`mean_bounds`: too few values vary for a variance.
    """

    low: float
    high: float
    bounds: bool


def few_vary(centred: npt.NDArray[np.float64], least: int = 0) -> tuple[bool, float, float]:
    """Whether too few values vary for a variance to tell how far their mean is from the truth.

    Parameters
    ----------
    centred : ndarray of float, shape (n,)
        Values minus their mean.
    least : int
        Fewer values than that are too few in any case.

    Returns
    -------
    few : bool
        Whether the skewness of the mean is above 0.2 (that of 25 rare events of equal size) or
        fewer than 10 values carry the variance.
    skewness : float
        Of the mean: the third standardized moment over the square root of n; NaN if none varies.
    effective : float
        Values that carry the variance: n over the fourth standardized moment; 0 if none varies.
    """
    n, largest = len(centred), float(np.abs(centred).max(initial=0.0))
    if largest == 0:
        return True, math.nan, 0.0
    x = centred / largest  # squares of tiny values would vanish
    squares = x * x
    second = float(squares.mean())
    skewness = float((squares * x).mean()) / second**1.5 / math.sqrt(n)
    effective = n * second**2 / float((squares * squares).mean())
    few = n < least or abs(skewness) > _SKEWED or effective < _FEWEST
    return few, skewness, effective


def mean_interval(
    value: float,
    centred: npt.NDArray[np.float64],
    lowest: float,
    highest: float,
    level: float,
    *,
    remainder: float = 0.0,
    least: int = 0,
) -> MeanInterval:
    """A confidence interval for the mean of independent values, such as influences.

    Parameters
    ----------
    value : float
        The mean, or what the values are influences on.
    centred : ndarray of float, shape (n,)
        The values minus their mean, n at least 2.
    lowest, highest : float
        Between which new values may lie, minus the mean as well.
    level : float
        In (0, 1).
    remainder : float
        Size of what the values leave out, in terms of 1 / n: its square adds to that of half the
        width, which matters where the influences cancel.
    least : int
        As for :func:`few_vary`.

    Returns
    -------
    MeanInterval

    Notes
    -----
    Where enough values vary: Student's interval, with as many degrees of freedom as values carry
    the variance, less one, moved by (2 z^2 + 1) / 6 times skewness and standard error.  That is
    Johnson's correction as Hall has it: each side then errs by half of 1 - `level` up to terms in
    1 / n, and the interval is as wide as without.  Else :func:`mean_bounds`.

    References
    ----------
    Hall, On the removal of skewness by transformation, 1992.  Johnson, Modified t tests and
    confidence intervals for asymmetrical populations, 1978.
    """
    few, skewness, effective = few_vary(centred, least)
    if few:
        ends = mean_bounds(value + centred, value + lowest, value + highest, level)
        below, above = (math.hypot(end - value, remainder) for end in ends)
        return MeanInterval(value - below, value + above, True)
    n, z = len(centred), float(stats.norm.isf((1 - level) / 2))
    scale = float(np.abs(centred).max())
    error = scale * math.sqrt(float(np.mean((centred / scale) ** 2)) / (n - 1))
    middle = value + skewness * (2 * z * z + 1) / 6 * error
    half = math.hypot(float(stats.t.isf((1 - level) / 2, effective - 1)) * error, remainder)
    return MeanInterval(middle - half, middle + half, False)


def mean_bounds(
    values: npt.NDArray[np.float64], lowest: float, highest: float, level: float
) -> tuple[float, float]:
    """Bounds for the mean of independent values in a known range, also where none varies.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
        At least one.
    lowest, highest : float
        Between which the values lie.
    level : float
        In (0, 1).

    Returns
    -------
    low, high : float

    Notes
    -----
    Gaffke's bounds: the quantile (1 + `level`) / 2 of the mean with weights from Dirichlet(1, ...,
    1) of the values and of one more at `highest`; and likewise the other one.  Of zeros and ones
    they are Clopper and Pearson's.  They hold in general as far as is known: there is a proof for
    some families, and no counterexample.  The weights are ratios of exponential variables, so that
    the quantile needs the probability that a sum of them is negative; that is Lugannani and Rice's
    approximation, which is within 0.4% of Clopper and Pearson's limits (5% for one value).  Of more
    than 800 values the 400 that are farthest from the middle enter one by one and the others in 200
    groups.

    References
    ----------
    Gaffke, Three test statistics for a nonparametric one-sided hypothesis on the mean of a
    nonnegative variable, 2005.  Learned-Miller and Thomas, A new confidence interval for the mean
    of a bounded random variable, 2019.

    Examples
    --------
    >>> from scipy import stats
    >>> low, high = mean_bounds(np.ones(50), 0.0, 1.0, 0.95)
    >>> round(low, 3), round(float(stats.beta.ppf(0.025, 50, 1)), 3), high
    (0.929, 0.929, 1.0)
    """
    lowest = min(lowest, float(values.min()))
    highest = max(highest, float(values.max()))
    if not highest > lowest:
        return lowest, highest
    x, weights = _grouped((values - lowest) / (highest - lowest))
    below = (1 - level) / 2
    low = 1 - _quantile(np.append(1 - x, 1.0), np.append(weights, 1.0), 1 - below)
    high = _quantile(np.append(x, 1.0), np.append(weights, 1.0), 1 - below)
    size = highest - lowest
    return lowest + size * low, lowest + size * high


def _grouped(x: npt.NDArray[np.float64]) -> tuple[npt.NDArray, npt.NDArray]:
    """The values far from the middle, means of groups of the others, and how many each stands for.

    A sum of k exponential variables with about the same factor is a gamma variable.
    """
    if len(x) <= _APART + 2 * _TOGETHER:
        return x, np.ones(len(x))
    order = np.argsort(np.abs(x - x.mean()), kind="stable")
    near, far = np.sort(x[order[:-_APART]]), x[order[-_APART:]]
    starts = np.linspace(0, len(near), _TOGETHER, endpoint=False).astype(int)
    sizes = np.diff(np.append(starts, len(near)))
    means = np.add.reduceat(near, starts) / sizes
    return np.append(far, means), np.append(np.ones(_APART), sizes)


@njit(cache=True)
def _quantile(x, weights, p):
    """The p-quantile of sum G x / sum G, G gamma with shapes `weights`, by bisection."""
    low, high = x.min(), x.max()
    for _ in range(60):
        middle = (low + high) / 2
        if _below(x, weights, middle) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@njit(cache=True)
def _below(x, weights, t):
    """P(sum G (x - t) <= 0) by Lugannani and Rice."""
    largest, smallest = x.max() - t, x.min() - t
    if largest <= 0:
        return 1.0
    if smallest >= 0:
        return 0.0
    low, high, s = 1 / smallest, 1 / largest, 0.0
    for _ in range(100):  # Newton's steps to the saddlepoint, within the bracket
        first = second = 0.0
        for i in range(len(x)):
            q = (x[i] - t) / (1 - s * (x[i] - t))
            first += weights[i] * q
            second += weights[i] * q * q
        if first > 0:
            high = s
        else:
            low = s
        step = s - first / second
        if not low < step < high:
            step = (low + high) / 2
        if abs(step - s) <= 1e-12 * abs(step):
            break
        s = step
    total = curvature = 0.0
    for i in range(len(x)):
        a = x[i] - t
        total -= weights[i] * math.log(1 - s * a)
        curvature += weights[i] * (a / (1 - s * a)) ** 2
    r = math.copysign(math.sqrt(max(0.0, -2 * total)), s)
    normal = 0.5 * math.erfc(-r / math.sqrt(2))
    if abs(r) < 1e-4:  # both terms of the difference grow beyond all bounds
        return normal
    u = s * math.sqrt(curvature)
    return normal + math.exp(-r * r / 2) / math.sqrt(2 * math.pi) * (1 / r - 1 / u)
