"""Power and sample size of the non-inferiority test: how much user data a decision needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.check import as_integer, as_number, require_finite
from lib.suitability.noninferiority import as_reals

# Beyond so many standard deviations the power is 0 or 1, and scipy's noncentral t may be NaN.
_FAR = 20.0
# Sizes at which a search looks first: every small one, then in steps of 2 per cent.
_SIZES = np.concatenate([np.arange(2, 1025), np.floor(1024 * 1.02 ** np.arange(1, 1400))])
_SIZES = _SIZES[_SIZES <= 1e15]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SampleSize:
    """Sizes with which the test reaches a power.

    Attributes
    ----------
    n_user, n_test : int
        Numbers of user and test samples.
    power : float
        That the test has with them; at least what was asked for.
    """

    n_user: int
    n_test: int
    power: float


def non_inferiority_power(
    n_test: Any,
    n_user: Any,
    drop: Any,
    sd_test: Any,
    sd_user: Any,
    margin: Any = 0.0,
    alpha: Any = 0.05,
) -> Array:
    """Probability of SUITABLE, as a function of the true drop in mean estimated correctness.

    Welch's statistic is taken to follow a noncentral t distribution with noncentrality
    (drop - m) / sqrt(sd_test^2 / n_test + sd_user^2 / n_user) and the degrees of freedom of
    Welch and Satterthwaite at the true standard deviations. That is the usual approximation: the
    test itself estimates the degrees of freedom, and estimates of correctness are not normal.
    Samples are independent; in clusters their power is less.

    Parameters
    ----------
    n_test, n_user : array_like
        Sample sizes, at least 2; infinite for the limit of ever more data.
    drop : array_like
        mu_test - mu_user: how much lower the user data's true mean is.
    sd_test, sd_user : array_like
        True standard deviations of the estimated correctness, at least 0.
    margin : array_like
        m, the largest acceptable drop.
    alpha : array_like
        Significance level in (0, 1).

    Returns
    -------
    ndarray
        Of the arguments' common broadcast shape. Without any variance, 1 or 0 by the sign of
        m - drop; where that is zero too the p-value is 0.5.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Eq. 6-7 and appendix A.1.1. Julious, Sample
    Sizes for Clinical Trials with Normal Data, Statistics in Medicine 2004.

    Examples
    --------
    >>> power = non_inferiority_power(500, [50, 500], 0.0, 0.15, 0.15, margin=0.05)
    >>> power.round(2).tolist()
    [0.72, 1.0]
    """
    given = {"n_test": n_test, "n_user": n_user, "drop": drop, "sd_test": sd_test}
    given |= {"sd_user": sd_user, "margin": margin, "alpha": alpha}
    low = {"n_test": 2, "n_user": 2, "sd_test": 0, "sd_user": 0}
    n_test, n_user, drop, sd_test, sd_user, margin, alpha = as_reals(
        given, low, ("n_test", "n_user")
    )
    if not (inside := (alpha > 0) & (alpha < 1)).all():
        raise ValueError(f"alpha must be in (0, 1), got {alpha[~inside].flat[0]}")
    return rejection_probability(
        margin - drop, [sd_test**2 / n_test, sd_user**2 / n_user], [n_test - 1, n_user - 1], alpha
    )


def required_sample_size(
    sd_test: float,
    sd_user: float,
    *,
    margin: float,
    drop: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    n_test: int | None = None,
    ratio: float = 1.0,
) -> SampleSize:
    """Smallest number of user samples with which suitable data are found so, at a given power.

    Parameters
    ----------
    sd_test, sd_user : float
        Standard deviations of the estimated correctness, at least 0.
    margin : float
        m in (-1, 1), the largest acceptable drop.
    drop : float
        The true drop at which the power is wanted, below the margin.
    alpha, power : float
        Significance level and probability of SUITABLE, both in (0, 1).
    n_test : int, optional
        Test samples at hand.
    ratio : float
        Without ``n_test``: test samples for each user sample, rounded up.

    Returns
    -------
    SampleSize
        One user sample fewer has less than the power asked for (unless ``n_user`` is 2), by
        :func:`non_inferiority_power`: of independent samples.

    Raises
    ------
    ValueError
        If no number of user samples is enough: the message says which power is the most that can
        be had, and how many test samples would do.

    Examples
    --------
    >>> required_sample_size(0.15, 0.15, margin=0.05, n_test=500).n_user
    64
    """
    for name, value in (("sd_test", sd_test), ("sd_user", sd_user)):
        require_finite(name, value, at_least=0)
    margin, drop = as_number("margin", margin, -1, 1), as_number("drop", drop, -1, 1)
    alpha, power = as_number("alpha", alpha, 0, 1), as_number("power", power, 0, 1)
    as_number("ratio", ratio, 0, np.inf)
    if n_test is not None:
        as_integer("n_test", n_test, 2)
    if drop >= margin:
        raise ValueError(
            f"drop must be below the margin, {margin:g}, for data to be found suitable with a "
            f"power that grows with their number, got {drop:g}"
        )

    def tests(n_user: Array) -> Array:
        if n_test is not None:
            return np.full(np.shape(n_user), float(n_test))
        # 1.1 * 10 is 11.000000000000002, which is no reason for a twelfth.
        return np.maximum(np.ceil(ratio * n_user * (1 - 1e-12)), 2.0)

    def reached(n_user: Array) -> Array:
        return non_inferiority_power(tests(n_user), n_user, drop, sd_test, sd_user, margin, alpha)

    n_user = smallest_size(reached, power)
    if n_user is None:
        if n_test is None:
            raise ValueError(
                f"margin must exceed drop by enough for {_SIZES[-1]:.0e} user samples to reach a "
                f"power of {power:g}, got margin {margin} and drop {drop}"
            )
        most = float(reached(np.append(_SIZES, np.inf)).max())
        enough = smallest_size(
            lambda n: non_inferiority_power(n, np.inf, drop, sd_test, sd_user, margin, alpha), power
        )
        raise ValueError(
            f"n_test must be larger for a power of {power:g}: with {n_test} test samples at most "
            f"{most:.4g} can be had, however many user samples there are; {enough} would do, got "
            f"{n_test}"
        )
    size = np.array(float(n_user))
    return SampleSize(n_user, int(tests(size)), float(reached(size)))


def satterthwaite(variances: list[Any], dofs: list[Any]) -> tuple[Array, Array]:
    """Variance of a sum of independent means, and its degrees of freedom; NaN without variance.

    Satterthwaite, An Approximate Distribution of Estimates of Variance Components, 1946.
    """
    total = sum(np.asarray(v, float) for v in variances)
    with np.errstate(invalid="ignore"):
        inverse = sum((v / total) ** 2 / d for v, d in zip(variances, dofs, strict=True))
        return np.asarray(total), np.asarray(1.0 / inverse)


def rejection_probability(effect: Any, variances: list[Any], dofs: list[Any], alpha: Any) -> Array:
    """Power of a one-sided t-test whose statistic is ``effect`` over a Satterthwaite error.

    The effect is the distance from the null hypothesis, positive in the alternative.
    """
    total, dof = satterthwaite(variances, dofs)
    critical = special.stdtrit(dof, alpha)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shift = effect / np.sqrt(total)
        # Johnson and Welch's normal approximation to the noncentral t distribution.
        z = (critical * (1 - 0.25 / dof) + shift) / np.sqrt(1 + critical**2 / (2 * dof))
    near = np.abs(z) < _FAR
    power = special.nctdtr(dof, np.where(near, -shift, 0.0), critical)
    # A statistic beyond zero, and so one beyond a critical value there, has the sign of a normal
    # variable: a bound where the approximation is poor, with few samples.
    sign, far = special.ndtr(shift), special.ndtr(z)
    far = np.where(critical < 0, np.minimum(far, sign), np.maximum(far, sign))
    power = np.where(near & np.isfinite(power), power, far)
    # As welch_non_inferiority decides without any variance.
    certain = np.where(effect == 0, np.asarray(alpha) >= 0.5, np.asarray(effect) > 0)
    return np.where(total == 0, certain, power)


def smallest_size(reached: Callable[[Array], Array], power: float) -> int | None:
    """Smallest integer size >= 2 whose power is at least ``power``; None if none to 1e15 is.

    Power need not grow with every further sample: few test samples have their degrees of freedom
    shared with many user samples.  So the first crossing is looked for on a grid, then bisected.
    """
    enough = reached(_SIZES) >= power
    if not enough.any():
        return None
    first = int(np.argmax(enough))
    if first == 0:
        return int(_SIZES[0])
    low, high = math.floor(_SIZES[first - 1]), math.floor(_SIZES[first])
    while high - low > 1:
        middle = (low + high) // 2
        if reached(np.array(float(middle))) >= power:
            high = middle
        else:
            low = middle
    return high
