"""Intervals for means of independent values that hold where few of them vary, or none.

An interval from a variance takes the values at hand for all that there are.  Where few of them
differ from the others (200 right answers and one wrong one) those that were not drawn count most,
and such intervals hold too seldom; where none differs they have no width.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

__all__ = [
    "FEW",
    "MeanInterval",
    "few_vary",
    "gaffke_limit",
    "gaffke_tail",
    "mean_bounds",
    "mean_interval",
]

#: Skewness of a mean above which few values vary: standardized third moment over the root of n.
FEW = 0.2
_FEWEST = 10.0  # n over the standardized fourth moment

Array = npt.NDArray[np.float64]


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
    few = n < least or abs(skewness) > FEW or effective < _FEWEST
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
    # Johnson's shift in Hall's form: a skewed mean errs more to one side, so the interval moves
    # there.
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
    the quantile needs the probability that a sum of them is negative; that is Barndorff-Nielsen's
    approximation, which is within 0.5% of Clopper and Pearson's limits (1.5% for two values, 5% for
    one).

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
    x, size, alpha = (values - lowest) / (highest - lowest), highest - lowest, (1 - level) / 2
    low, high = gaffke_limit(x, 0.0, 1.0, alpha), 1 - gaffke_limit(1 - x, 0.0, 1.0, alpha)
    return lowest + size * low, lowest + size * high


def _saddle(values: Array, unseen: float, weight: float):
    """Mean and logarithm of the tail as functions of tau, by which 1 - t y is 1 + tau u, scaled.

    The quantile is the m with P(sum_i E_i (x_i - m) + E_0 (a - m) <= 0) = alpha, E exponential
    (gamma).  Its cumulant function is K(t) = -sum_i log(1 - t (x_i - m)), whose saddlepoint makes
    1 / (1 - t (x_i - m)) the weights of empirical likelihood, and the tail follows by
    Barndorff-Nielsen's formula.
    """
    low = min(float(values.min()), unseen)
    high = max(float(values.max()), unseen)
    scale = high - low
    if scale <= 1e-13 * max(abs(low), abs(high)):
        return None
    u, rest = (values - low) / scale, (unseen - low) / scale
    count, total = len(u) + weight, np.add.reduce

    @functools.cache  # whoever looks for a root asks again for its bracket
    def at(log_tau: float) -> tuple[float, float]:
        tau = math.exp(log_tau)
        # The weights of empirical likelihood, up to a factor, of the values and of the unseen one.
        q, p = 1 / (1 + tau * u), 1 / (1 + tau * rest)
        mean = float((total(q * u) + weight * p * rest) / (total(q) + weight * p))
        one = 1 + tau * mean
        k = count * math.log(one) + float(total(np.log(q))) + weight * math.log(p)
        square = float(total(((u - mean) * q) ** 2)) + weight * ((rest - mean) * p) ** 2
        r, v = -math.sqrt(max(-2 * k, 0.0)), -tau * math.sqrt(square)
        if r > -1e-3:  # so near to the mean that the formula is a ratio of zeros
            return mean, float(special.log_ndtr(r))
        return mean, float(special.log_ndtr(r + math.log(v / r) / r))

    return low, scale, at


def gaffke_limit(values: Array, unseen: float, weight: float, alpha: float) -> float:
    """A lower confidence limit for the mean of independent values, whatever their distribution.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
        At least one.
    unseen : float
        The least that a value may be.
    weight : float
        How many unseen values there are; Gaffke's bound has 1.
    alpha : float
        Probability that the limit is above the mean, in (0, 1).

    Returns
    -------
    float
        The `alpha` quantile of the mean with weights from Dirichlet(1, ..., 1, `weight`).
    """
    found = _saddle(values, unseen, weight)
    if found is None:
        return min(float(values.min()), unseen)
    low, scale, at = found
    # Near what a normal mean would have.
    spread = float(values.std()) / scale
    far = max(-float(special.ndtri(alpha)), 0.01) / math.sqrt(len(values))
    left = math.log(far / max(spread, far)) - 0.5
    goal, right = math.log(alpha), left + 2.0
    # A bracket around the root, in steps of a factor e^2 in tau.
    while right < 300 and at(right)[1] > goal:
        left, right = right, right + 2.0
    while left > -300 and at(left)[1] < goal:
        left, right = left - 2.0, left
    if at(right)[1] > goal:  # beyond what floats tell
        return low
    root = optimize.brentq(lambda x: at(x)[1] - goal, left, right, xtol=1e-9, rtol=1e-12)
    return low + scale * at(root)[0]


def gaffke_tail(values: Array, unseen: float, weight: float, mean: float) -> float:
    """The `alpha` at which :func:`gaffke_limit` is `mean`, at most one half.

    Parameters
    ----------
    values : ndarray of float, shape (n,)
        At least one.
    unseen, weight : float
        As for :func:`gaffke_limit`.
    mean : float
        A p-value of the hypothesis that the mean is at most this; of no use above the mean seen.

    Returns
    -------
    float
    """
    found = _saddle(values, unseen, weight)
    if found is None:
        return 0.0 if mean < min(float(values.min()), unseen) else 0.5
    low, scale, at = found
    goal = (mean - low) / scale
    if goal <= 0:
        return 0.0
    if goal >= at(-30.0)[0]:
        return 0.5
    right = 0.0
    while right < 300 and at(right)[0] > goal:
        right += 5.0
    if at(right)[0] > goal:
        return 0.0
    root = optimize.brentq(lambda x: at(x)[0] - goal, -30.0, right, xtol=1e-12)
    return math.exp(at(root)[1])
