"""Two forecasters of the same outcomes, compared while these arrive.

Forecasts are probabilities of an event, given before it is known, such as two models' confidences
that they are right.  Nothing is assumed of outcomes and forecasts but their order in time.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.check import as_flags, as_integer, as_vector, require_choice, require_finite, same_rows

Array = npt.NDArray[np.float64]
BASES = ("brier", "logarithmic")

__all__ = ["lagged_p_values", "one_sided_e_process", "winkler_score"]

_TUNED_LEVEL = 0.05  # of the e-process, at the tuned time


def winkler_score(
    p: npt.ArrayLike, q: npt.ArrayLike, outcomes: npt.ArrayLike, base: str = "brier"
) -> Array:
    """Winkler's skill score of forecasts p against forecasts q, event by event.

    The difference of their scores, as a fraction of what it is if the event turns out as p says
    more than q does: 1 then, negative otherwise, and 0 where both say the same. With the base score
    S, larger is better,

        w = (S(p, y) - S(q, y)) / (S(p, z) - S(q, z)),  z = 1 where p > q, else 0.

    Parameters
    ----------
    p, q : array_like, shape (n,)
        Probabilities of the event by the two forecasters: in [0, 1], those of `q` in (0, 1); by the
        logarithmic score both in (0, 1).
    outcomes : array_like of bool, shape (n,)
        Whether it happened.
    base : {"brier", "logarithmic"}
        The score S: -(p - y)^2, or the logarithm of the probability given to what happened.

    Returns
    -------
    ndarray, shape (n,)
        At most 1, and not bounded below.

    Raises
    ------
    ValueError
        On probabilities outside of these ranges, an unknown base, or other lengths.

    References
    ----------
    Winkler, Evaluating probabilities: asymmetric scoring rules, Management Science, 1994. Choe and
    Ramdas, Comparing sequential forecasters, Operations Research, 2024 (arXiv 2110.00115), which
    P4's talk names.

    Examples
    --------
    >>> winkler_score([0.8, 0.8], [0.6, 0.6], [True, False]).round(3).tolist()
    [1.0, -2.333]
    """
    require_choice("base", base, BASES)
    same_rows(p=p, q=q, outcomes=outcomes)
    p = as_vector("p", p)
    q, y = as_vector("q", q, len(p)), as_flags("outcomes", outcomes, len(p))
    for name, values, inside in (("p", p, base == "logarithmic"), ("q", q, True)):
        bad = (values <= 0) | (values >= 1) if inside else (values < 0) | (values > 1)
        if bad.any():
            where = int(np.argmax(bad))
            allowed = "above 0 and below 1" if inside else "from 0 to 1"
            raise ValueError(
                f"{name} must be probabilities {allowed}, got {values[where]:g} at row {where}"
            )
    said = p > q

    def gain(event: npt.NDArray[np.bool_]) -> Array:
        if base == "brier":
            return (q - event) ** 2 - (p - event) ** 2
        return np.log(np.where(event, p, 1 - p)) - np.log(np.where(event, q, 1 - q))

    most = gain(said)
    return np.divide(gain(y), most, out=np.zeros(len(p)), where=most != 0)


def one_sided_e_process(
    values: npt.ArrayLike, lowest: float, *, scale: float | None = None, tuned: float = 10.0
) -> Array:
    """Evidence that values are above 0 on average, at every time.

    An e-process for the hypothesis that the conditional means of the first t values, each given
    what came before it, are at most 0 on average, at every t. Under it the process exceeds
    1 / alpha at any time with probability alpha at most: one may look, and stop, at any time.

    Parameters
    ----------
    values : array_like, shape (n,)
        *In order of arrival*; at least `lowest`.
    lowest : float
        Negative: what no value can be below, by what is known beforehand.
    scale : float, optional
        At least -`lowest`: how far a value can be below its prediction, which is the mean of those
        before it, and at most `lowest` + `scale`. Twice -`lowest` if not given.
    tuned : float
        Positive: sum of squared deviations at which the process is the most sensitive.

    Returns
    -------
    ndarray, shape (n,)
        Of the process after each value; it begins at 1.

    Raises
    ------
    ValueError
        On a value below `lowest`, or arguments out of range.

    Notes
    -----
    With predictions g and the sum V of (x - g)^2, exp(lambda S - psi(lambda) V), where
    psi(lambda) = (-log(1 - c lambda) - c lambda) / c^2 and S the sum of the values, is bounded by a
    supermartingale for each lambda in [0, 1 / c), c the scale; here is its mixture over a
    gamma-exponential density of lambda. *The level* is exact: it rests on `lowest` alone, not on
    independence. In simulations with values of mean 0, skewed as Winkler's scores are, and with a
    mean that swings, it exceeds 20 in at most 5% of the runs (``tests/counterfactual``).

    References
    ----------
    Choe and Ramdas, 2023, Theorem 3 and Proposition 1. Howard, Ramdas, McAuliffe and Sekhon,
    Time-uniform Chernoff bounds via nonnegative supermartingales, Probability Surveys, 2020, and
    Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics, 2021,
    Proposition 9.

    Examples
    --------
    >>> one_sided_e_process([1.0, 1.0, 1.0, 1.0], -1).round(2).tolist()
    [0.97, 1.39, 2.03, 3.0]
    """
    x = as_vector("values", values)
    require_finite("lowest", lowest, below=0)
    lowest = float(lowest)
    if (x < lowest).any():
        where = int(np.argmax(x < lowest))
        raise ValueError(
            f"values must be at least lowest = {lowest:g}, got {x[where]:g} at {where}"
        )
    c = -2 * lowest
    if scale is not None:
        require_finite("scale", scale, at_least=-lowest)
        c = float(scale)
    require_finite("tuned", tuned, above=0)
    times = np.arange(1, len(x) + 1)
    predicted = np.r_[0.0, (np.cumsum(x) / times)[:-1]]
    v = np.cumsum((x - np.minimum(predicted, lowest + c)) ** 2)
    wanted = 2 * math.log(1 / (2 * _TUNED_LEVEL))
    rho = tuned / (wanted + math.log(1 + wanted))
    shape, rate = (v + rho) / c**2, (c * np.cumsum(x) + v + rho) / c**2
    first = np.array([rho / c**2])
    log = (rate - first) + _log_incomplete(shape, rate) - _log_incomplete(first, first)
    return np.exp(np.minimum(log, 700.0))  # near the largest number that there is


def _log_incomplete(shape: Array, rate: Array) -> Array:
    """Logarithm of the integral of a^(shape - 1) exp(-a rate) over a from 0 to 1."""
    large = rate >= shape
    safe = np.where(large, rate, 1.0)
    below = np.where(large, special.gammainc(shape, safe), 1.0)
    by_gamma = special.gammaln(shape) + np.log(below) - shape * np.log(safe)
    by_kummer = np.log(special.hyp1f1(1.0, shape + 1, np.where(large, 0.0, rate)))
    return np.where(large, by_gamma, by_kummer - rate - np.log(shape))


def lagged_p_values(
    values: npt.ArrayLike, lowest: float, lag: int = 1, *, scale: float | None = None
) -> Array:
    """P-values, valid at every time, where outcomes are known `lag` steps after their forecasts.

    Forecasts for step t are made when outcomes up to t - lag are known. The values of every lag-th
    step are compared by an e-process each, and the least convincing of these decides.

    Parameters
    ----------
    values, lowest, scale
        As for :func:`one_sided_e_process`; of forecasts by the step of their outcome.
    lag : int
        From 1 to n.

    Returns
    -------
    ndarray, shape (n,)
        Never increasing. Under the hypothesis that one at least of the `lag` sequences has values
        that are at most 0 on average at every time, the p-value falls to alpha or below at any time
        with probability alpha at most.

    Notes
    -----
    The maximum of p-values needs no assumption on how the sequences depend on each other. It asks
    that each of them show the difference alone, and so takes about `lag` times the values.

    References
    ----------
    Choe and Ramdas, 2023, section 4.4; Arnold, Henzi and Ziegel, Sequentially valid tests for
    forecast calibration, Annals of Applied Statistics, 2023.

    Examples
    --------
    >>> lagged_p_values([1.0] * 60, -1, lag=3)[[0, 29, 59]].round(4).tolist()
    [1.0, 0.0262, 0.0003]
    """
    x = as_vector("values", values)
    steps = as_integer("lag", lag, 1)
    if steps > len(x):
        raise ValueError(f"lag must be at most the {len(x)} values, got {steps}")
    worst = np.ones((steps, len(x)))
    for k in range(steps):
        evidence = one_sided_e_process(x[k::steps], lowest, scale=scale)
        known = np.arange(len(x)) // steps + (np.arange(len(x)) % steps >= k)  # values so far
        running = np.r_[1.0, np.maximum.accumulate(np.maximum(evidence, 1.0))]
        worst[k] = 1 / running[known]
    return worst.max(axis=0)
