"""One-sided test for non-inferiority of mean estimated correctness: Welch's, or exact."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from lib.bounds import FEW, few_vary, gaffke_limit, gaffke_tail
from lib.check import as_array, as_number

# Relative; sums over many rows may err by that much.
_ROUNDING = 1e-12
_SKEWED = 2.0  # standardized third moment: that of an event of 0.15, of another distribution's tail


@dataclass(frozen=True)
class NonInferiority:
    """Result of a non-inferiority test.

    Attributes
    ----------
    statistic : float
        Welch's t, the paper's T with the other sign; very negative speaks for non-inferiority.
    p_value : float
        Probability of a statistic at most this large when the drop equals the margin; of few
        values that vary that of :func:`non_inferiority_test`'s notes.
    dof : float
        Welch and Satterthwaite's degrees of freedom.
    """

    statistic: float
    p_value: float
    dof: float


def welch_non_inferiority(
    mean_test: Any,
    variance_test: Any,
    n_test: Any,
    mean_user: Any,
    variance_user: Any,
    n_user: Any,
    margin: Any = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test H0: mu_test - mu_user > m against H1: mu_test - mu_user <= m, from moments.

    Parameters
    ----------
    mean_test, mean_user : array_like
        Sample means.
    variance_test, variance_user : array_like
        Sample variances, with divisor n - 1; at least 0.
    n_test, n_user : array_like
        Sample sizes, at least 2.
    margin : array_like
        m, the largest acceptable drop.

    Returns
    -------
    statistic, p_value, dof : ndarrays
        Of the arguments' common broadcast shape. Where both variances are zero, but for
        rounding, nothing is left to chance: the statistic is infinite with p-value 0 or
        1 by the sign of ``mean_test - mean_user - margin``, or 0 with p-value 0.5 where
        that is zero; the degrees of freedom are then NaN.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Eq. 6-7 and appendix A.1.1. Welch 1947.

    Examples
    --------
    >>> statistic, p_value, dof = welch_non_inferiority(0.8, 0.02, 500, 0.79, 0.02, 400, 0.05)
    >>> round(float(statistic), 3), bool(p_value < 0.001)
    (-4.216, True)
    """
    given = {
        "mean_test": mean_test,
        "variance_test": variance_test,
        "n_test": n_test,
        "mean_user": mean_user,
        "variance_user": variance_user,
        "n_user": n_user,
        "margin": margin,
    }
    low = {"variance_test": 0, "n_test": 2, "variance_user": 0, "n_user": 2}
    mean_test, variance_test, n_test, mean_user, variance_user, n_user, margin = as_reals(
        given, low
    )
    a = _above_rounding(variance_test, mean_test) / n_test
    b = _above_rounding(variance_user, mean_user) / n_user
    drop = mean_test - (mean_user + margin)
    rounding = _ROUNDING * (np.abs(mean_test) + np.abs(mean_user) + np.abs(margin))
    drop = np.where((a + b == 0) & (np.abs(drop) <= rounding), 0.0, drop)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where((a + b == 0) & (drop == 0), 0.0, drop / np.sqrt(a + b))
        # In fractions of the variance, so that tiny variances do not underflow when squared.
        share = a / (a + b)
        dof = 1.0 / (share**2 / (n_test - 1) + (1 - share) ** 2 / (n_user - 1))
        certain = np.where(drop < 0, 0.0, np.where(drop > 0, 1.0, 0.5))
        p_value = np.where(a + b == 0, certain, special.stdtr(dof, statistic))
    statistic, p_value, dof = np.broadcast_arrays(statistic, p_value, dof)
    return statistic, p_value, dof


def _above_rounding(variance: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Variance, or zero where it comes from the rounding of the mean of equal numbers."""
    return np.where(variance <= (_ROUNDING * mean) ** 2, 0.0, variance)


def non_inferiority_test(test: Any, user: Any, margin: float = 0.0) -> NonInferiority:
    """Test whether user data are, on average, no worse than test data by more than a margin.

    Parameters
    ----------
    test, user : array_like, shape (n,)
        Estimated correctness of each sample: at least two finite numbers each, not all equal (all
        zeros and ones may be), of rows that are independent of each other.
    margin : float
        m in (-1, 1), the largest acceptable drop in the mean.

    Returns
    -------
    NonInferiority
        Equal to ``scipy.stats.ttest_ind(test, user + margin, equal_var=False,
        alternative="less")``, but for the p-value of zeros and ones, and of few that vary.

    Notes
    -----
    The level is that of a t-test. It holds for independent rows, and for many of them or for
    estimates that are not very skewed.

    Where few of the values of a sample vary, by much (:func:`lib.bounds.few_vary` with as many rows
    as the smaller sample has, and a skewness above 2), and all are in [0, 1], it would not: with
    1,000 test and 50 user rows, one in a hundred at 0.01 and the others at 0.99, Welch's test at
    0.05 errs in 0.14 of cases. The p-value is then that of zeros and ones, below, with Gaffke's
    limits in place of Clopper and Pearson's; the halves of these beyond their middles count as the
    middles, or as what is worst, which makes it a little larger. Simulated at 0.05 in seven designs
    (20 to 1,000 user and 200 to 5,000 test rows), it errs in at most 0.05.

    Of correctness itself, zeros and ones in both samples, it would not where errors are few: with
    2,000 test and 20 or 100 user rows Welch's test at 0.05 errs in up to 0.13 of cases. Their
    p-value is therefore the probability of U - L >= m, U and L independently drawn from the upper
    limits for the test accuracy and the lower ones for the user accuracy of Clopper and Pearson
    at all levels. With m = 0 that is Fisher's exact test. Enumerated at 0.05, margins of 0 and
    0.05, 20 to 2,000 rows and accuracies from 0.85 to 0.999, the level was at most 0.05. Such
    samples need not vary. The statistic is Welch's all the same.

    References
    ----------
    Fay, Proschan and Brittain, Combining one-sample confidence procedures for inference in the
    two-sample case, Biometrics 2015.

    Examples
    --------
    >>> found = non_inferiority_test(test, user, margin=0.05)
    >>> found.p_value < 0.05, round(found.dof) > 800
    (True, True)
    """
    samples = as_samples(test, user)
    moments = [f(s) for s in samples for f in (np.mean, lambda s: np.var(s, ddof=1), len)]
    margin = as_number("margin", margin, -1, 1)
    result = welch_non_inferiority(*moments, margin)
    statistic, p_value, dof = (float(part) for part in result)
    if (of_margin := melded(*samples)) is not None:
        p_value = of_margin(margin)
    return NonInferiority(statistic, p_value, dof)


def as_samples(test: Any, user: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two samples that vary, or of zeros and ones, which need not."""
    samples = as_sample("test", test), as_sample("user", user)
    if not all(map(zeros_and_ones, samples)):
        samples = as_varied("test", test), as_varied("user", user)
    return samples


def zeros_and_ones(sample: np.ndarray) -> bool:
    """Whether there is nothing else."""
    return bool(((sample == 0) | (sample == 1)).all())


def melded(test: np.ndarray, user: np.ndarray) -> Callable[[float], float] | None:
    """The p-value as a function of the margin, where Welch's would not hold; else None."""
    samples = test, user
    if all(map(zeros_and_ones, samples)):
        return partial(melded_p_value, test, user)
    inside = all(((sample >= 0) & (sample <= 1)).all() for sample in samples)
    if not inside or not _is_rare(*samples):
        return None
    z = np.linspace(0, 5, 21)  # of the limits above the middle; those below count as the middle
    weights = np.exp(-z * z / 2)
    weights[0] /= 2
    weights /= 2 * weights.sum()
    weights[0] += 0.5
    most = [1 - gaffke_limit(1 - test, 0.0, 1.0, float(special.ndtr(-each))) for each in z]

    def chance(least: float) -> float:
        return 1.0 if least >= user.mean() else gaffke_tail(user, 0.0, 1.0, least)

    return lambda margin: float(weights @ [chance(each - margin) for each in most])


def _is_rare(*samples: np.ndarray) -> bool:
    """Whether values differ from their mean in few rows and in these by much: skewness above 2.

    A sample without a rare value does not show that there are any: the other one tells, as if it
    had as few rows.
    """
    least = min(map(len, samples))
    for sample in samples:
        few, skewness, _ = few_vary(sample - sample.mean())
        skewed = abs(skewness) * math.sqrt(len(sample))
        if skewed > _SKEWED and (few or skewed > FEW * math.sqrt(least)):
            return True
    return False


def melded_p_value(test: np.ndarray, user: np.ndarray, margin: float) -> float:
    """P(U - L >= margin), see the notes of :func:`non_inferiority_test`, of zeros and ones."""
    (k, n), (j, m) = ((int(sample.sum()), len(sample)) for sample in (test, user))
    z = np.linspace(-8.5, 8.5, 681)
    weights = np.exp(-z * z / 2)

    def drawn(a: int, b: int) -> np.ndarray:
        if 0 in (a, b):  # the limit of all right, or of all wrong, is certain
            return np.full(len(z), float(b == 0))
        low, high = (special.ndtr(sign * z) for sign in (1, -1))
        return np.where(z < 0, special.betaincinv(a, b, low), special.betainccinv(a, b, high))

    # Drawn is the one that varies less: the chance of the other is then smooth in it.
    if n >= m:
        most = drawn(k + 1, n - k) - margin
        chance = special.betainc(j, m - j + 1, np.clip(most, 0, 1)) if j else most >= 0
    else:
        least = drawn(j, m - j + 1) + margin
        chance = special.betaincc(k + 1, n - k, np.clip(least, 0, 1)) if k < n else least <= 1
    return float(weights @ chance / weights.sum())


def as_varied(name: str, values: Any) -> np.ndarray:
    """A sample of at least two numbers that are not all equal."""
    sample = as_sample(name, values)
    if _above_rounding(sample.var(ddof=1), sample.mean()) == 0:
        raise ValueError(
            f"{name} must vary, got {len(sample)} times {sample[0]:g}, which says nothing of how "
            "far their mean may be from that of others"
        )
    return sample


def as_reals(
    given: dict[str, Any], low: dict[str, float], infinite: Sequence[str] = ()
) -> list[np.ndarray]:
    """Arrays of floats that broadcast, at least `low`, all finite but those that may be not."""
    arrays = []
    for name, value in given.items():
        array = as_array(name, value)
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{name} must be real numbers, got {array.dtype} values")
        array = array.astype(float)
        if name in low and not (fits := array >= low[name]).all():
            raise ValueError(f"{name} must be at least {low[name]}, got {array[~fits].flat[0]:g}")
        if name not in infinite and not (fits := np.isfinite(array)).all():
            raise ValueError(f"{name} must be finite, got {array[~fits].flat[0]}")
        arrays.append(array)
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = ", ".join(f"{n} {a.shape}" for n, a in zip(given, arrays, strict=True))
        raise ValueError(f"arguments must have shapes that broadcast, got {shapes}") from None
    return arrays


def as_sample(
    name: str, values: Any, low: float = -np.inf, high: float = np.inf, least: int = 2
) -> np.ndarray:
    """Return ``values`` as finite floats from ``low`` to ``high``, at least so many.

    Booleans are 0 and 1.
    """
    array = as_array(name, values)
    if array.ndim != 1 or len(array) < least or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be real numbers of shape (n,), n at least {least}, got {array.dtype} of "
            f"shape {array.shape}"
        )
    array = array.astype(float)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    outside = (array < low) | (array > high)
    if outside.any():
        raise ValueError(f"{name} must be in [{low:g}, {high:g}], got {array[outside][0]}")
    return array
