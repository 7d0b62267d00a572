"""What labels alone say: an exact test of two accuracies, its power, and how many labels it takes.

Welch's test of zeros and ones does not keep its level with few labels or accuracies near 1, and
nor does Farrington and Manning's score test there (up to 0.20 where it should be 0.05). Here the
score only orders the outcomes, and the p-value is the largest exact probability.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from lib.check import as_flags, as_integer, as_number, require_choice

#: With what user data are compared: see :mod:`lib.suitability.guarantees`.
REFERENCES = ("distribution", "sample")
# Berger and Boos: the nuisance parameter is sought in a confidence interval that misses it with
# this probability, which is added to the p-value.
_MISSED = 1e-4
_BESIDE = 2e-5  # the part of it that stays for what that search may miss
_POINTS = 32  # of Chebyshev at which it is known: steps of at most about one standard error
_BETWEEN = 16  # and into how many each is parted, by the polynomial through all of them
_SMOOTH = 2500  # variance of a count from which its distribution function is smooth
_DENSE, _STRIDE = 256, 32  # counts of which every so many are sought first
_TIE = 1e-9  # scores that differ by less are equal
_REACH = 6.5  # standard deviations of a count beyond which less than 1e-9 lies
_MOST = 10**6
_NODES = 24  # of lines between critical numbers, with more labels than
_FEW = 150
_INEXACT = 0.004  # what such lines may err by
_STEPS = 40
_NEAR = 8  # and how far the count may be off at most
_ROUNDS = 3  # until a count is known to less than 1, if it is large
_UNLIKELY = 1e-8

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelsTest:
    """What labeled test and user data say of the drop in accuracy.

    Attributes
    ----------
    suitable_p : float
        p-value of H0: the drop is larger than the margin. Small: SUITABLE.
    unsuitable_p : float
        p-value of H0: the drop is at most the margin. Small: UNSUITABLE.
    test_accuracy, user_accuracy : float
        Fractions of correct predictions.
    n_test, n_user : int
        Numbers of labels.
    margin : float
        m, the largest acceptable drop.
    """

    suitable_p: float
    unsuitable_p: float
    test_accuracy: float
    user_accuracy: float
    n_test: int
    n_user: int
    margin: float


def labels_test(
    test_correct: Any, user_correct: Any, margin: float = 0.0, *, reference: str = "distribution"
) -> LabelsTest:
    """Test by labels alone whether user data are less accurate by more than a margin, or not.

    Parameters
    ----------
    test_correct, user_correct : array_like of bool, shape (n_test,) and (n_user,)
        Whether predictions on test and user data were correct, at least two each, of rows that are
        drawn at random and independent of each other.
    margin : float
        m in (-1, 1), the largest acceptable drop in accuracy.
    reference : {"distribution", "sample"}
        Whether the user data are compared with the accuracy of the test data's distribution, or
        with that of the test data themselves, a known number.

    Returns
    -------
    LabelsTest
        Both p-values hold their level for any numbers of labels and any accuracies.

    Notes
    -----
    Outcomes are ordered by Farrington and Manning's score. The p-value is the largest probability,
    over pairs of accuracies that differ by the margin, of an outcome at least as extreme, by
    enumeration of both binomials (Chan); the test data's accuracy is sought in its Clopper-Pearson
    interval of level 0.99992, and 0.0001 is added for that (Berger and Boos) and for what the
    search may miss. Against a known number it is the exact binomial test.

    References
    ----------
    Farrington and Manning, Statistics in Medicine 1990. Chan, Statistics in Medicine 1998. Berger
    and Boos, JASA 1994.

    Examples
    --------
    >>> right = np.arange(1000) % 5 > 0  # 80% of the test data
    >>> bool(labels_test(right, [True] * 3, 0.05).unsuitable_p > 0.5)  # three right labels
    True
    >>> labels_test(right, np.arange(100) % 2 == 0, 0.05).unsuitable_p < 0.01  # 50 of 100
    True
    """
    margin = as_number("margin", margin, -1, 1)
    given = as_right("test_correct", test_correct), as_right("user_correct", user_correct)
    counts = [count for right in given for count in (int(right.sum()), len(right))]
    sample = require_choice("reference", reference, REFERENCES) == "sample"
    return _labels_test(*counts, margin, sample)


@lru_cache(maxsize=4096)
def _labels_test(x_t: int, n_t: int, x_u: int, n_u: int, margin: float, sample: bool) -> LabelsTest:
    if sample:
        least = min(max(x_t / n_t - margin, 0.0), 1.0)
        suitable = float(stats.binom.sf(x_u - 1, n_u, least))
        unsuitable = float(stats.binom.cdf(x_u, n_u, least))
    else:
        suitable = two_samples(x_t, n_t, x_u, n_u, margin)
        unsuitable = two_samples(x_u, n_u, x_t, n_t, -margin)
    return LabelsTest(suitable, unsuitable, x_t / n_t, x_u / n_u, n_t, n_u, margin)


def two_samples(
    x_1: int, n_1: int, x_2: int, n_2: int, margin: float, enough: float = 1.0
) -> float:
    """P-value of H0: p_1 - p_2 > margin, from x of n correct in two samples; at least 0.0001.

    One above `enough` may be given as something smaller that is above it, too.
    """
    # The more precise sample tells most about the one unknown parameter.
    x, n, shift = (x_1, n_1, 0.0) if n_1 >= n_2 else (x_2, n_2, margin)
    ends = [end + shift for end in clopper_pearson(x, n, (_MISSED - _BESIDE) / 2)]
    low, high = max(ends[0], margin, 0.0), min(ends[1], 1 + margin, 1.0)
    if low > high:
        # For a negative margin, the null hypothesis beyond has p_2 = 1, where it is least refuted
        # at its end; for a positive one there is none.
        if ends[0] <= 1 + margin:
            return _MISSED
        low = high = min(1.0, 1 + margin)
    p_1 = low + (high - low) * _places(_POINTS)[_order()]
    p_2 = np.clip(p_1 - margin, 0.0, 1.0)
    seen, weight, below = _at_accuracies(n_1, tuple(p_1.tolist()), n_2, tuple(p_2.tolist()))
    score = _score(np.array(float(x_1)), n_1, np.array(float(x_2)), n_2, margin)
    most = _most_extreme(score, n_1, seen, n_2, margin)
    chance = np.zeros(_POINTS)
    for rows in (slice(_POINTS // 4), slice(_POINTS // 4, None)):
        extreme = weight[rows] * np.where(most < 0, 0.0, below(np.maximum(most, 0), rows))
        chance[rows] = extreme.sum(axis=1)
        if chance.max() + _MISSED > enough:
            return min(1.0, float(chance.max()) + _MISSED)
    return min(1.0, float(max(chance.max(), (_finer() @ chance).max())) + _MISSED)


def _places(n: int) -> Floats:
    """Chebyshev's points of the second kind in [0, 1]."""
    return np.sin(np.linspace(0, math.pi / 2, n)) ** 2


def _order() -> Counts:
    """Every fourth point first: where one of them is enough, the others are not needed."""
    points = np.arange(_POINTS)
    return np.concatenate([points[::4], np.delete(points, slice(None, None, 4))])


@lru_cache(maxsize=1)
def _finer() -> Floats:
    """From values at the points, in that order, those of their polynomial at and between them.

    Barycentric (Berrut and Trefethen). The probability is a polynomial in the accuracy, and so
    smooth that this one errs by less than 1e-5; what lies between finer points is a parabola of
    less than that.
    """
    known, places = _places(_POINTS), _places((_POINTS - 1) * _BETWEEN + 1)
    weight = (-1.0) ** np.arange(_POINTS)
    weight[[0, -1]] /= 2
    away = places[:, None] - known
    same = np.abs(away) < 1e-12
    terms = np.where(same.any(axis=1, keepdims=True), same, weight / np.where(same, 1.0, away))
    return (terms / terms.sum(axis=1, keepdims=True))[:, _order()]


@lru_cache(maxsize=4)
def _at_accuracies(
    n_1: int, p_1: tuple[float, ...], n_2: int, p_2: tuple[float, ...]
) -> tuple[Counts, Floats, Callable[[Counts, slice], Floats]]:
    """Likely counts of sample 2, their probabilities, and the distribution function of sample 1.

    Both for all pairs of accuracies, one a row.
    """
    first, last = _window(n_2, p_2)
    seen, of_1, of_2 = np.arange(first, last + 1), np.array(p_1)[:, None], np.array(p_2)[:, None]
    if n_1 * min(p_1) * (1 - max(p_1)) < _SMOOTH:
        pmf = stats.binom.pmf(seen, n_2, of_2)
        return seen, pmf, lambda x, rows: special.bdtr(x, n_1, of_1[rows])
    return seen, _pmf(seen, n_2, of_2), _smooth_cdf(n_1, of_1)


def _smooth_cdf(n: int, p: Floats) -> Callable[[Counts, slice], Floats]:
    """The binomial distribution function of many trials at ascending counts, to about 1e-9.

    Its normal quantile is all but a straight line in the count: a polynomial of degree 7 through
    eight exact values is it.
    """
    mean, sd = n * p, np.sqrt(n * p * (1 - p))
    nodes = _REACH * 1.2 * np.cos(math.pi * (np.arange(8) + 0.5) / 8)
    counts = np.clip(np.round(mean + nodes * sd), 0, n)
    lower, upper = special.bdtr(counts, n, p), special.bdtrc(counts, n, p)
    z = np.where(lower < 0.5, special.ndtri(lower), -special.ndtri(upper))
    at = (counts - mean) / sd
    terms = np.linalg.solve(at[:, :, None] ** np.arange(8), z[:, :, None])

    window = _window(n, p)

    def cdf(x: Counts, rows: slice) -> Floats:
        first, last = np.searchsorted(x, window)
        u = np.clip((x[first:last] - mean[rows]) / sd[rows], nodes[-1], nodes[0])
        value = np.full_like(u, terms[rows, -1])
        for k in range(6, -1, -1):
            value *= u
            value += terms[rows, k]
        out = np.zeros((len(u), len(x)))
        special.ndtr(value, out=out[:, first:last])
        out[:, last:] = 1.0
        return out

    return cdf


def _pmf(x: Counts, n: int, p: Floats) -> Floats:
    """Binomial probabilities by logarithms, to about 1e-9."""
    ways = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    p = np.clip(p, 1e-300, 1 - 1e-16)
    log = np.log(p / (1 - p)) * x
    log += n * np.log1p(-p) + ways
    return np.exp(log, out=log)


def clopper_pearson(x: int, n: int, tail: float) -> tuple[float, float]:
    """Limits of a fraction, each of which it misses with a probability of at most `tail`."""
    low = 0.0 if x == 0 else float(special.betaincinv(x, n - x + 1, tail))
    high = 1.0 if x == n else float(special.betaincinv(x + 1, n - x, 1 - tail))
    return low, high


def _window(n: int, p: Any) -> tuple[int, int]:
    """Counts outside of which there is next to nothing for any of the probabilities."""
    low, high = float(np.min(p)), float(np.max(p))
    reach = [_REACH * math.sqrt(n * q * (1 - q)) + _REACH**2 / 2 for q in (low, high)]
    return max(0, math.floor(n * low - reach[0])), min(n, math.ceil(n * high + reach[1]))


def _score(x_1: Floats, n_1: int, x_2: Floats, n_2: int, margin: float) -> Floats:
    """Farrington and Manning's statistic: very negative speaks for less than the margin."""
    excess = x_1 / n_1 - x_2 / n_2 - margin
    excess = np.where(np.abs(excess) <= 1e-12, 0.0, excess)
    return excess / _error(x_1, n_1, x_2, n_2, margin)


def _error(x_1: Floats, n_1: int, x_2: Floats, n_2: int, margin: float) -> Floats:
    """Its standard error, at the likelihood's maximum where the difference equals the margin.

    That is the root of a cubic (the appendix of their paper).
    """
    p_1, p_2, ratio, m = x_1 / n_1, x_2 / n_2, n_2 / n_1, margin
    a, b = 1 + ratio, -(1 + ratio + p_1 + ratio * p_2 + m * (ratio + 2))
    c, d = m * m + m * (2 * p_1 + ratio + 1) + p_1 + ratio * p_2, -p_1 * m * (1 + m)
    third = b / (3 * a)
    v = third**3 - b * c / (6 * a * a) + d / (2 * a)
    u = np.copysign(np.sqrt(np.maximum(third**2 - c / (3 * a), 0.0)), v)
    cosine = np.where(np.abs(u) > 1e-9, v / np.where(np.abs(u) > 1e-9, u**3, 1.0), 0.0)
    root = 2 * u * np.cos((math.pi + np.arccos(np.clip(cosine, -1, 1))) / 3) - third
    q_1 = np.clip(root, max(m, 0.0), min(1.0, 1 + m))
    q_2 = np.clip(q_1 - m, 0.0, 1.0)
    variance = q_1 * (1 - q_1) / n_1 + q_2 * (1 - q_2) / n_2
    # Without any variance the sign of the difference is all there is.
    return np.sqrt(np.maximum(variance, 1e-12))


def _with_score(score: Any, n_1: int, x_2: Floats, n_2: int, margin: float) -> Floats:
    """About the x_1, a real number, of a score at each x_2: the error hardly changes with it."""
    x_1 = np.clip(n_1 * (x_2 / n_2 + margin), 0.0, n_1)
    for _ in range(_ROUNDS):
        error = _error(x_1, n_1, x_2, n_2, margin)
        x_1 = np.clip(n_1 * (x_2 / n_2 + margin + score * error), 0.0, n_1)
    return x_1


def _most_extreme(score: Any, n_1: int, x_2: Counts, n_2: int, margin: float) -> Counts:
    """For each x_2 the largest x_1 whose score is at most the given one, -1 where none is."""

    def extreme(x_1: Counts, at: Any) -> Any:
        return _score(x_1, n_1, x_2[at], n_2, margin) <= score + _TIE

    low, high = np.full(len(x_2), -1), np.full(len(x_2), n_1)
    if len(x_2) > _DENSE:
        # Between counts that are near each other it is all but a straight line.
        knots = np.unique(np.append(np.arange(0, len(x_2), _STRIDE), len(x_2) - 1))
        line = np.interp(x_2, x_2[knots], _with_score(score, n_1, x_2[knots], n_2, margin))
        below, above = (np.floor(line + off).astype(int) for off in (-0.25, 1.25))
        inside = (below >= 0) & extreme(np.maximum(below, 0), slice(None))
        outside = (above <= n_1) & ~extreme(np.minimum(above, n_1), slice(None))
        low, high = np.where(inside, below, low), np.where(outside, above - 1, high)
    left = np.flatnonzero(low < high)
    while len(left):
        middle = (low[left] + high[left] + 1) // 2
        yes = extreme(middle, left)
        low[left[yes]], high[left[~yes]] = middle[yes], middle[~yes] - 1
        left = left[low[left] < high[left]]
    # The sets of extreme outcomes must grow with x_2, for the null's boundary to be the worst.
    return np.maximum.accumulate(low)


# --- power ----------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def _critical(x_t: int, n_t: int, n_u: int, margin: float, alpha: float) -> int:
    """The fewest right user labels that show SUITABLE, n_u + 1 if none do."""

    def shown(x: int) -> bool:
        return two_samples(x_t, n_t, x, n_u, margin, alpha) <= alpha

    # From the normal theory's answer, which is close; exchanged samples have scores exchanged.
    bound = special.ndtri(alpha)
    x = math.ceil(_with_score(-bound, n_u, np.array(float(x_t)), n_t, -margin))
    near = np.arange(max(0, x - _NEAR), min(n_u, x + _NEAR) + 1)
    x = int(near[0] + np.count_nonzero(_score(float(x_t), n_t, near, n_u, margin) > bound))
    while x <= n_u and not shown(x):
        x += 1
    while 0 < x <= n_u and shown(x - 1):
        x -= 1
    return x


def critical_counts(
    x_t: Counts, n_t: int, n_u: int, margin: float, alpha: float, nodes: int = 0
) -> Counts:
    """Fewest right user labels with which :func:`labels_test` shows SUITABLE; n_u + 1: none.

    With ``nodes`` a straight line between so many exact numbers, which is quick.
    """
    wanted, where = np.unique(x_t, return_inverse=True)
    found = np.full(len(wanted), -1)

    def at(i: int) -> int:
        if found[i] < 0:
            found[i] = _critical(int(wanted[i]), n_t, n_u, margin, alpha)
        return int(found[i])

    if 0 < nodes < len(wanted):
        known = np.unique(np.linspace(0, len(wanted) - 1, nodes).round().astype(int))
        line = np.interp(wanted, wanted[known], [at(i) for i in known])
        return np.ceil(line - 0.5).astype(int)[where.reshape(np.shape(x_t))]
    # They rise with x_t: what lies between equals is equal.
    parts = [(0, len(wanted) - 1)]
    while parts:
        first, last = parts.pop()
        if at(first) == at(last):
            found[first : last + 1] = found[first]
        elif last - first > 1:
            middle = (first + last) // 2
            parts += [(first, middle), (middle, last)]
    return found[where.reshape(np.shape(x_t))]


def rejection_rate(
    test_accuracy: float,
    n_test: int,
    user_accuracy: float,
    n_user: int,
    margin: float,
    alpha: float,
    nodes: int = 0,
) -> float:
    """Probability that :func:`labels_test` shows SUITABLE, by enumeration.

    At a drop of the margin the rate of errors. The opposite test's is that of the accuracies
    exchanged, with the margin's sign changed.
    """
    first, last = _window(n_test, test_accuracy)
    seen = np.arange(first, last + 1)
    weight = stats.binom.pmf(seen, n_test, test_accuracy)
    likely = weight > _UNLIKELY  # the others together are no power to speak of
    least = critical_counts(seen[likely], n_test, n_user, margin, alpha, nodes)
    return float(weight[likely] @ stats.binom.sf(least - 1, n_user, user_accuracy))


def labels_for_power(
    *,
    test_accuracy: float,
    n_test: int,
    margin: float,
    drop: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int:
    """Count the labeled user samples with which :func:`labels_test` shows SUITABLE.

    Parameters
    ----------
    test_accuracy : float
        In (0, 1).
    n_test : int
        Labeled test samples, at least 2.
    margin, drop : float
        m in (-1, 1) and the true drop in accuracy, which leaves the user's in [0, 1].
    alpha, power : float
        Significance level and probability of SUITABLE, in (0, 1); alpha above 0.0001.

    Returns
    -------
    int
        A number n >= 2 that has this power, by enumeration of both binomials (with more
        than 150 labels, what the test demands is found for 24 numbers of right test labels and
        lies on lines between them; what they may err by, 0.004, is taken off). The power rises in a
        zigzag: somewhat smaller numbers may have it too.

    Raises
    ------
    ValueError
        If no number up to a million is enough: the message says which power is the most that can
        be had.

    Notes
    -----
    Level and power rest on independent samples, test and user alike; those in clusters take more.

    Examples
    --------
    >>> labels_for_power(test_accuracy=0.9, n_test=1000, margin=0.1)
    85
    """
    accuracy = as_number("test_accuracy", test_accuracy, 0, 1)
    n_test = as_integer("n_test", n_test, 2)
    margin = as_number("margin", margin, -1, 1)
    drop = as_number("drop", drop, accuracy - 1 - 1e-12, accuracy + 1e-12)
    alpha, power = as_number("alpha", alpha, _MISSED, 1), as_number("power", power, 0, 1)
    user = min(max(accuracy - drop, 0.0), 1.0)
    # Without an end to the labels, the test data's accuracy alone is in doubt.
    error = math.sqrt(accuracy * (1 - accuracy) / n_test)
    most = float(special.ndtr((margin - drop) / error + special.ndtri(alpha)))
    quantiles = special.ndtri(power) - special.ndtri(alpha)
    room = ((margin - drop) / quantiles) ** 2 - error**2 if quantiles > 0 else math.inf
    if drop >= margin or room <= 0 or user * (1 - user) / room > _MOST:
        raise ValueError(
            f"power must be at most about {most:.4g} with {n_test} test samples, however many "
            f"labels there are, got {power:g}"
        )

    def reached(n: int) -> float:
        if n <= _FEW:
            return rejection_rate(accuracy, n_test, user, n, margin, alpha)
        return rejection_rate(accuracy, n_test, user, n, margin, alpha, _NODES) - _INEXACT

    low, n = 1, max(2, math.ceil(user * (1 - user) / room))
    for _ in range(_STEPS):
        found = reached(n)
        if found >= power:
            break
        # As far as normal theory says, and at least one step.
        shift = special.ndtri(max(found, 1e-9)) - special.ndtri(alpha)
        more = quantiles / max(shift, 0.2 * quantiles)
        low, n = n, max(n + 1, math.ceil(min(more, 2) ** 2 * n))
    while low > 1 and n - low > max(1, n // 20):
        middle = (low + n) // 2
        low, n = (low, middle) if reached(middle) >= power else (middle, n)
    return n


def as_right(name: str, correct: Any) -> npt.NDArray[np.bool_]:
    """Return correctness of at least two predictions."""
    right = as_flags(name, correct)
    if len(right) < 2:
        raise ValueError(f"{name} must have shape (n,), n at least 2, got {right.shape}")
    return right
