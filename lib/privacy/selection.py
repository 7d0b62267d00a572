"""The best of a random number of private training runs, and what choosing it costs.

A search over learning rates reads the training data once for every trial.  Released are only the
best model and its score.  If the number of trials is fixed, that may cost nearly as much as all of
them; if it is random, the cost grows with the logarithm of its mean (Liu and Talwar 2019; Papernot
and Steinke 2022).  Every trial draws its settings at random from a list that does not depend on the
data, and is scored on public points, or by a mechanism that the ledger counts.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import optimize

from lib.check import as_generator, require_finite, require_int
from lib.privacy.accounting import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.privacy.renyi import ORDERS, renyi_divergence

_PRECISION = 1e-3  # of a noise multiplier that is searched, relative


def _check_trials(mean_trials: float, shape: float) -> None:
    require_finite("mean_trials", mean_trials, at_least=1.001, at_most=1e6)
    if shape != 0:  # below, nearly all draws would be none, which are drawn again
        require_finite("shape", shape, at_least=0.01, at_most=100)


def selection_epsilon(
    ledger: PrivacyLedger, delta: float, mean_trials: float, shape: float = 0.0
) -> float:
    """Epsilon, at delta, of releasing the best of a random number of trials.

    Parameters
    ----------
    ledger : PrivacyLedger
        What one trial spends, whatever its settings.
    delta : float
        In (0, 1).
    mean_trials : float
        Expected number of trials, at least 1.001 and at most 10^6.
    shape : float
        Of the distribution of their number, 0 or in [0.01, 100]: 0 is logarithmic, which is the
        cheapest for many trials and makes few of them most of the time; 1 geometric, others
        negative binomial without 0.

    Returns
    -------
    float
        By RDP; infinity where a trial is not private.

    References
    ----------
    Papernot and Steinke, Hyperparameter tuning with Renyi differential privacy, ICLR 2022,
    Theorem 2.

    Examples
    --------
    >>> ledger = PrivacyLedger((SampledGaussian(0.01, 1.0, 1000),))
    >>> round(ledger.epsilon(1e-5), 2), round(selection_epsilon(ledger, 1e-5, 10), 2)
    (2.1, 3.52)
    """
    require_finite("delta", delta, above=0, below=1)
    _check_trials(mean_trials, shape)
    entries = tuple(entry for entry in ledger.entries if entry.steps)
    if any(entry.noise_multiplier == 0 for entry in entries):
        return math.inf
    return _epsilon(entries, float(delta), float(mean_trials), float(shape)) if entries else 0.0


@lru_cache(maxsize=4096)
def _epsilon(entries, delta: float, mean_trials: float, shape: float) -> float:
    orders = np.array([order for order in map(float, ORDERS) if order >= 1.5])
    trial = sum(
        each.steps
        * np.array([renyi_divergence(each.sample_rate, each.noise_multiplier, a) for a in orders])
        for each in entries
    )
    stopping = _stopping_probability(mean_trials, shape)
    more = (1 + shape) * np.min((1 - 1 / orders) * trial - math.log(stopping) / orders)
    search = trial + more + math.log(mean_trials) / (orders - 1)
    found = search - (math.log(delta) + np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
    return max(0.0, float(found.min()))


def _stopping_probability(mean_trials: float, shape: float) -> float:
    """Gamma of the truncated negative binomial distribution (Definition 1 there)."""
    if shape == 1:
        return 1 / mean_trials

    def surplus(log_gamma: float) -> float:  # of the logarithm of the mean, which falls in gamma
        odds = math.expm1(-log_gamma)
        several = -log_gamma if shape == 0 else -math.expm1(shape * log_gamma) / shape
        return math.log(odds / several) - math.log(mean_trials)

    return math.exp(optimize.brentq(surplus, -60.0, -1e-9))


def selection_noise_multiplier(
    epsilon: float,
    delta: float,
    sample_rate: float,
    steps: int,
    mean_trials: float,
    shape: float = 0.0,
) -> float:
    """The smallest noise multiplier with which a whole search keeps a budget.

    Parameters
    ----------
    epsilon : float
        The budget, positive; infinity gives 0.
    delta, sample_rate, steps
        Of one trial, as for :func:`find_noise_multiplier`.
    mean_trials, shape
        As for :func:`selection_epsilon`.

    Returns
    -------
    float
        Larger than the smallest such noise multiplier by at most 1 / 1,000 of it.

    Raises
    ------
    ValueError
        If no noise keeps the budget.

    Examples
    --------
    >>> round(find_noise_multiplier(3.0, 1e-5, sample_rate=0.01, steps=1000), 2)
    0.86
    >>> round(selection_noise_multiplier(3.0, 1e-5, 0.01, 1000, mean_trials=10), 2)
    1.08
    """
    _check_trials(mean_trials, shape)
    low = find_noise_multiplier(epsilon, delta, sample_rate, steps)
    if math.isinf(epsilon):
        return 0.0

    def spent(sigma: float) -> float:
        ledger = PrivacyLedger((SampledGaussian(sample_rate, sigma, steps),))
        return selection_epsilon(ledger, delta, mean_trials, shape)

    high = 1.5 * low
    while spent(high) > epsilon:
        low, high = high, 1.5 * high
        if high > 1e4:
            raise ValueError(
                f"epsilon = {epsilon!r} cannot be reached by {mean_trials!r} trials in the mean: "
                f"a noise multiplier of {low:.3g} spends {spent(low):.3g}"
            )
    while high / low > 1 + _PRECISION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) > epsilon else (low, middle)
    return high


def draw_trials(
    mean_trials: float, shape: float = 0.0, *, size: int = 1, rng: np.random.Generator | int
) -> npt.NDArray[np.int64]:
    """Numbers of trials, drawn from the distribution that the proof asks for.

    Parameters
    ----------
    mean_trials, shape
        As for :func:`selection_epsilon`.
    size : int
        How many searches.
    rng : numpy.random.Generator or int
        Source of randomness.  Who knows the number of trials may learn more than is proven.

    Returns
    -------
    ndarray of int, shape (size,)

    Examples
    --------
    >>> draw_trials(8, size=5, rng=0)
    array([ 1,  2,  5,  6, 14])
    """
    _check_trials(mean_trials, shape)
    require_int("size", size, at_least=1)
    rng = as_generator(rng, "rng")
    gamma = _stopping_probability(mean_trials, shape)
    if shape == 0:
        return rng.logseries(1 - gamma, size)
    found = rng.negative_binomial(shape, gamma, size)
    while (none := found == 0).any():
        found[none] = rng.negative_binomial(shape, gamma, none.sum())
    return found
