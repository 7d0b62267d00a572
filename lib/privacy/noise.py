"""Epsilon and delta of one release with Laplace or Gaussian noise."""

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, lambertw, log_ndtr

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def laplace_gain(delta: float) -> float:
    """The h >= 0 with (1 + h/4) exp(-h/2) = 1 - delta: by how much delta lowers epsilon."""
    if delta < 1e-8:  # 1 - delta would round; the next term is of the third order
        return 4 * delta
    # With v = 1 + h/4 >= 1 the equation reads -2v exp(-2v) = -2 (1 - delta) exp(-2).
    v = -float(lambertw(-2 * (1 - delta) * math.exp(-2), -1).real) / 2
    return max(0.0, 4 * (v - 1))


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """Logarithm of Balle and Wang's delta, without cancellation between its two terms.

    With a, b = (epsilon/mu -+ mu/2) / sqrt(2) we have b^2 - a^2 = epsilon, so delta is
    Phi(-sqrt(2) a) (1 - erfcx(b) / erfcx(a)), erfcx(x) being exp(x^2) erfc(x).
    """
    a = (epsilon / mu - mu / 2) / math.sqrt(2)
    b = (epsilon / mu + mu / 2) / math.sqrt(2)
    log_mass = float(log_ndtr(-math.sqrt(2) * a))
    if mu > 0.01:
        return log_mass + math.log(max(1 - float(erfcx(b) / erfcx(a)), 1e-300))
    # The difference of almost equal numbers: integrate -erfcx' from a to b.
    x = a + (b - a) * (1 + _NODES) / 2
    slope = float(_WEIGHTS @ (2 / math.sqrt(math.pi) - 2 * x * erfcx(x))) / 2
    # Far out, where rounding leaves nothing, delta is below any that is asked for.
    return log_mass + math.log(mu / math.sqrt(2)) + math.log(max(slope / float(erfcx(a)), 1e-300))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of a Gaussian mechanism at `delta`, by Balle and Wang 2018, Theorem 8."""
    if mu < 1e-307:  # at epsilon = 0, delta is 0.4 mu, and no delta is so small
        return 0.0
    log_delta = math.log(delta)

    def excess(epsilon: float) -> float:
        return gaussian_log_delta(epsilon, mu) - log_delta

    if excess(0.0) <= 0:
        return 0.0
    # Here Phi(mu/2 - epsilon/mu), the larger of the two terms of delta, is below delta already.
    largest = mu * mu / 2 + mu * math.sqrt(-2 * log_delta)
    if math.isinf(largest) or excess(largest) >= 0:  # so little noise that rounding decides
        return largest
    xtol = max(1e-15 * largest, 1e-300)
    return float(brentq(excess, 0.0, largest, xtol=xtol, rtol=1e-15, maxiter=1000))


def renyi_epsilon(mu: float, delta: float) -> float:
    """The same from its Renyi divergences, at the best real order."""
    if math.isinf(mu * mu):
        return math.inf
    mu = max(mu, 1e-150)  # of which the square is still above 0

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        order = 1 + excess
        renyi = order * mu * mu / 2
        return renyi - math.log1p(1 / excess) - math.log(delta * order) / excess

    # Without its logarithms the bound is least at the center; a grid around it finds the basin.
    centre = math.log(math.sqrt(-2 * math.log(delta)) / mu)
    grid = np.clip(centre + np.linspace(-12, 12, 241), -700, 700)
    best = grid[int(np.argmin([bound(x) for x in grid]))]
    found = minimize_scalar(
        bound, bounds=(best - 0.1, best + 0.1), method="bounded", options={"xatol": 1e-10}
    )
    return max(0.0, float(min(found.fun, bound(best))))
