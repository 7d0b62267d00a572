"""What subsampled Gaussian steps cost in closed form: Renyi divergences, and bounds without them.

Everything here is a right value for noise multipliers from the smallest number to the largest.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

from lib.privacy.noise import gaussian_epsilon

#: Rates, noise multipliers and numbers of steps, like ones together.
History = tuple[tuple[float, float, int], ...]

# Opacus' default orders end at 63, which costs tightness for small epsilon.
ORDERS = (
    [1 + x / 10 for x in range(1, 100)]
    + list(range(11, 64))
    + [72, 84, 100, 128, 160, 200, 256, 320, 400, 512, 700, 1024]
)
_UP = 1 + 1e-12  # a root is found to rounding: no bound is below the exact value
_FAR = 40.0  # e^-40 of a sum is lost to rounding


@lru_cache(maxsize=2**18)
def renyi_divergence(rate: float, sigma: float, order: float) -> float:
    """Divergence, at an order, of one step of the Poisson-subsampled Gaussian mechanism.

    That of (1 - q) N(0, sigma^2) + q N(1, sigma^2) from N(0, sigma^2), which is the larger one of
    the two directions (Mironov, Talwar and Zhang 2019): log(A) / (order - 1) with A = E[(1 + u)^a],
    u = q (exp((2 x - 1) / (2 sigma^2)) - 1) of mean 0 under N(0, sigma^2).  What is computed is
    A - 1, a sum of positive terms, so that nothing cancels where it is small.
    """
    precision = (1 / sigma) * (1 / sigma)
    if rate == 1 or sigma > 1e100:  # an upper bound, of next to nothing
        return order * precision / 2
    peak = (order - 1) * precision / 2
    if peak + math.log(rate) > _FAR:  # by Minkowski's inequality all but the noise is negligible
        return order / (order - 1) * (math.log(rate) + peak)
    log_excess = _whole(rate, precision, int(order)) if order == int(order) else None
    if log_excess is None:
        log_excess = _fractional(rate, sigma, precision, order)
    return float(np.logaddexp(0.0, log_excess)) / (order - 1)


def _whole(rate: float, precision: float, order: int) -> float:
    """Log of A - 1: over how many of `order` draws of the mixture are from the shifted part."""
    k = np.arange(2, order + 1)
    moved = k * (k - 1) * precision / 2
    with np.errstate(divide="ignore"):  # the logarithm of what underflows
        log_terms = (
            special.gammaln(order + 1)
            - special.gammaln(k + 1)
            - special.gammaln(order - k + 1)
            + k * math.log(rate)
            + (order - k) * math.log1p(-rate)
            + moved
            + np.log(-np.expm1(-moved))
        )
        return float(special.logsumexp(log_terms))


def _fractional(rate: float, sigma: float, precision: float, order: float) -> float:
    """Log of A - 1 by the trapezoidal rule.

    The integrand is analytic in a strip as wide as pi sigma^2, and falls like a Gaussian centered
    between 0 and the order: a rule of these steps leaves less than rounding does.
    """
    step = min(sigma / 20, sigma * sigma / 2)
    x = np.arange(-12 * sigma, order + 12 * sigma, step)
    t = (x / sigma) / sigma - precision / 2  # the square of a large sigma is infinite
    log_u = math.log(rate) + t  # to rounding, where t is large
    u = np.where(t > 30, np.exp(np.minimum(log_u, 300.0)), rate * np.expm1(np.minimum(t, 30.0)))
    power = order * np.where(log_u > 30, log_u, np.log1p(u))
    with np.errstate(divide="ignore", under="ignore"):  # where u is 0, or underflows
        small = np.log(order * (order - 1) / 2 * _series(np.clip(u, -0.01, 0.01), order))
        small += 2 * np.log(np.abs(u))
        middle = np.log(np.maximum(0.0, np.expm1(np.minimum(power, 30.0)) - order * u))
        large = power + np.log1p(-(1 + order * u) * np.exp(-np.maximum(power, 30.0)))
    log_terms = np.where(np.abs(u) < 0.01, small, np.where(power > 30, large, middle))
    log_terms -= (x / sigma) ** 2 / 2
    scale = math.log(step / sigma / math.sqrt(2 * math.pi))
    return float(special.logsumexp(log_terms)) + scale


def _series(u: np.ndarray, order: float) -> np.ndarray:
    """((1 + u)^a - 1 - a u) / (a (a - 1) u^2 / 2) for small u, by the binomial series."""
    total = np.ones_like(u)
    for k in range(12, 2, -1):
        total = 1 + (order - k + 1) / k * u * total
    return total


@lru_cache(maxsize=4096)
def epsilon_by_orders(history: History, delta: float) -> float:
    """Epsilon of composed steps by their Renyi divergences, at the best of ``ORDERS``."""

    def bound(place: int) -> float:  # Balle et al. 2020, Theorem 21
        order = float(ORDERS[place])
        renyi = sum(steps * renyi_divergence(q, sigma, order) for q, sigma, steps in history)
        return renyi - (math.log(delta) + math.log(order)) / (order - 1) + math.log1p(-1 / order)

    # Times (order - 1) it is convex in the order: it falls to its minimum, and then it rises.
    low, high = 0, len(ORDERS) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= bound(middle + 1) else (middle + 1, high)
    return max(0.0, float(bound(low)))


@lru_cache(maxsize=4096)
def gaussian_bound(history: History, delta: float, shift: int = 1) -> float:
    """Epsilon of composed steps from the exact one of the Gaussian mechanism.

    Without sampling it is exact: steps of one example are one Gaussian mechanism with mu^2 = sum of
    steps / sigma^2.  With it, an example takes part in more than k steps of T with chance c, a tail
    of the binomial distribution; given at most k, its mechanism is a mixture of such with mu^2 <= k
    / sigma^2, and the hockey-stick divergence, jointly convex, is at most c more than theirs.  Both
    directions, and the replacement of an example (`shift` 2), alike.  Tails by Chernoff's bound.
    """
    if all(q == 1 for q, *_ in history):
        return _UP * gaussian_epsilon(_mu(history, [steps for *_, steps in history], shift), delta)
    taken = -sum(steps * math.log1p(-q) if q < 1 else -math.inf for q, _, steps in history)
    if -math.expm1(-taken) <= delta:  # the chance that it takes part at all
        return 0.0
    found = math.inf
    for share in (1e-3, 0.5):  # of delta, that the tails may have
        level = math.log(delta) + math.log(share / len(history))
        most = [steps if q == 1 else _most_taken(q, steps, level) for q, _, steps in history]
        left = (1 - share) * delta
        if left > 0:
            found = min(found, _UP * gaussian_epsilon(_mu(history, most, shift), left))
    return found


def _mu(history: History, taken: list[int], shift: int) -> float:
    return shift * math.hypot(
        *(math.sqrt(k) / sigma for k, (_, sigma, _) in zip(taken, history, strict=True))
    )


def _most_taken(rate: float, steps: int, log_level: float) -> int:
    """The least k for which Chernoff's bound of P[Bin(steps, rate) > k] is at most the level."""

    def fits(k: int) -> bool:
        if k >= steps:
            return True
        a = (k + 1) / steps
        if a <= rate:
            return False
        return -steps * (special.kl_div(a, rate) + special.kl_div(1 - a, 1 - rate)) <= log_level

    low, high = -1, steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
