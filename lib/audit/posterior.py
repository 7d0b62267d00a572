"""The posterior of epsilon given an attack's counts (P3, section 3.2), by one integral.

With x = FNR and y = FPR independent Beta variables, the distribution function at epsilon is

    F(epsilon) = E[ I(upper(x)) - I(lower(x)) ],

I being the distribution function of y and lower and upper the bounds of the privacy region.  The
expectation is an integral over x alone.  It is computed by Gauss-Legendre quadrature on pieces
whose ends are quantiles of x, and the points where a bound passes a quantile of y, in variables in
which the integrand is smooth: x = sin^2(theta), and theta = theta_0 - s^2 towards the end theta_0
of the region outside, where I behaves like a square root.
"""

import itertools
import math

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.audit.counts import AttackCounts, check_delta

__all__ = ["EpsilonPosterior", "epsilon_posterior"]

_NODES = 10
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(_NODES)
# Probabilities whose quantiles end the pieces.
_TAILS = np.array([1e-18, 1e-13, 1e-9, 1e-6, 1e-4, 3e-3, 0.04, 0.2])


def epsilon_posterior(counts: AttackCounts, delta: float) -> "EpsilonPosterior":
    """The posterior of epsilon under Jeffreys priors for both error rates.

    Parameters
    ----------
    counts : AttackCounts
        What the attack got right and wrong.
    delta : float
        In [0, 1).

    Returns
    -------
    EpsilonPosterior

    References
    ----------
    P3, Definition 3.1, Eq. 2, 3 and 6.
    """
    return EpsilonPosterior(counts, delta)


class EpsilonPosterior:
    """Distribution of epsilon given an attack's counts.

    Made by :func:`epsilon_posterior`.

    Attributes
    ----------
    counts : AttackCounts
        The counts.
    delta : float
        At which epsilon is meant.
    """

    def __init__(self, counts: AttackCounts, delta: float):
        if not isinstance(counts, AttackCounts):
            raise TypeError(f"counts must be AttackCounts, got {type(counts).__name__}")
        self.counts, self.delta = counts, check_delta(delta)
        self._outside_zero: float | None = None
        x = (counts.fn + 0.5, counts.tp + 0.5)
        y = (counts.fp + 0.5, counts.tn + 0.5)
        # Attacks better than chance leave the region below it, attacks worse than chance above:
        # the latter is the former for one minus the rates.
        self._below = _Corner(*x, *y, self.delta)
        self._above = _Corner(*x[::-1], *y[::-1], self.delta)

    def sf(self, eps: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Posterior probability that epsilon is larger: the mass outside the privacy region."""
        return self._map(lambda e: self._below.mass(e)[0] + self._above.mass(e)[0], eps, 1.0, 0.0)

    def cdf(self, eps: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Posterior probability that epsilon is at most `eps` (P3, Eq. 3); 0 below 0."""
        return self._map(lambda e: max(0.0, 1.0 - self._outside(e)[0]), eps, 0.0, 1.0)

    def pdf(self, eps: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Density of the continuous part, for epsilon > 0 (P3, Eq. 7 to 12); 0 below 0.

        It integrates to 1 - :attr:`mass_at_zero`.
        """
        return self._map(lambda e: self._outside(e)[1], eps, 0.0, 0.0)

    @property
    def mass_at_zero(self) -> float:
        """Posterior probability of epsilon = 0 (P3, Eq. 13): rates no better than delta allows."""
        return float(self.cdf(0.0))

    def ppf(self, q: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Smallest epsilon whose distribution function reaches `q`.

        Parameters
        ----------
        q : array_like of float
            Probabilities, in [0, 1].

        Returns
        -------
        ndarray of float64
            0 up to :attr:`mass_at_zero`; infinite for 1.
        """
        array = np.asarray(q, dtype=float)
        if not ((array >= 0) & (array <= 1)).all():
            raise ValueError(f"q must be in [0, 1], got {q!r}")
        return np.vectorize(lambda p: self._quantile(1 - p, p), otypes=[float])(array)[()]

    def isf(self, q: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Smallest epsilon beyond which at most the probability `q` lies; precise for small `q`."""
        array = np.asarray(q, dtype=float)
        if not ((array >= 0) & (array <= 1)).all():
            raise ValueError(f"q must be in [0, 1], got {q!r}")
        return np.vectorize(lambda p: self._quantile(p, 1 - p), otypes=[float])(array)[()]

    def mean(self) -> float:
        """Posterior mean: the integral of :meth:`sf` from 0 on."""
        # sf decays at least like exp(-epsilon / 2): beyond the last quantile nothing is left.
        ends = [0.0, *(self.isf(t) for t in (0.9, 0.5, 0.1, 1e-2, 1e-4, 1e-7, 1e-11))]
        ends = np.unique([e for e in ends if math.isfinite(e)])
        total = 0.0
        for low, high in itertools.pairwise(ends):
            nodes = low + (high - low) * (_POINTS + 1) / 2
            total += (high - low) / 2 * float(_WEIGHTS @ self.sf(nodes))
        return total + 2 * float(self.sf(ends[-1]))

    def _outside(self, eps: float) -> tuple[float, float]:
        a, b = self._below.mass(eps), self._above.mass(eps)
        return a[0] + b[0], a[1] + b[1]

    @staticmethod
    def _map(function, eps: npt.ArrayLike, below: float, beyond: float) -> npt.NDArray[np.float64]:
        array = np.asarray(eps, dtype=float)
        if np.isnan(array).any():
            raise ValueError("eps must not be NaN")

        def one(e: float) -> float:
            if e < 0:
                return below
            return function(e) if e < math.inf else beyond

        return np.vectorize(one, otypes=[float])(array)[()]

    def _quantile(self, tail: float, head: float) -> float:
        """Where the mass outside falls to `tail` = 1 - `head`, whichever is given precisely."""
        if head <= 0:
            return 0.0
        if tail <= 0:
            return math.inf
        if self._outside_zero is None:
            self._outside_zero = self._outside(0.0)[0]
        if self._outside_zero <= tail:
            return 0.0
        low, high = 0.0, math.inf
        guess = self._normal_guess(head)
        # Newton on log(tail), whose slope the density gives, kept within a bracket.
        goal = math.log(tail)
        for _ in range(200):
            mass, density = self._outside(guess)
            if mass > tail:
                low = guess
            else:
                high = guess
            if mass == tail:
                return guess
            step = math.nan
            if mass > 0 and density > 0:
                if tail < 0.5:
                    step = guess + (math.log(mass) - goal) * mass / density
                else:
                    step = guess + (mass - tail) / density
            # Newton squares the error, up to a factor of some tens.
            if math.isfinite(step) and abs(step - guess) <= 1e-8 * (1 + guess):
                return step if low <= step <= high else guess
            step = min(step, 2 * guess + 4)  # a flat density would send it far out
            if not low < step < high:
                step = 2 * guess + 1 if high == math.inf else (low + high) / 2
            if high - low <= 4e-15 * (1 + low):
                return low
            guess = step
        return guess

    def _normal_guess(self, head: float) -> float:
        """About where the quantile lies: the larger logarithm of Eq. 1 as a normal variable."""
        c = self.counts
        x, y = (c.fn + 0.5) / (c.positives + 1), (c.fp + 0.5) / (c.negatives + 1)
        if x + y > 1:
            x, y = 1 - x, 1 - y
        var_x, var_y = x * (1 - x) / (c.positives + 2), y * (1 - y) / (c.negatives + 2)
        best = 0.05
        for a, b, var_a, var_b in ((x, y, var_x, var_y), (y, x, var_y, var_x)):
            top = 1 - self.delta - b
            if top > 0:
                spread = math.sqrt(var_a / a**2 + var_b / top**2)
                z = min(6.0, max(-6.0, float(special.ndtri(head))))
                best = max(best, math.log(top / a) + min(8.0, z * spread))
        return best


class _Corner:
    """The mass of (x, y) below the privacy region, near the origin."""

    def __init__(self, ax: float, bx: float, ay: float, by: float, delta: float):
        self.x, self.y, self.delta = (ax, bx), (ay, by), delta
        self.log_x, self.log_y = special.betaln(ax, bx), special.betaln(ay, by)
        self.theta_x = _theta_quantiles(ax, bx)
        self.quantiles_y = np.sin(_theta_quantiles(ay, by)) ** 2
        self.end = 1 - delta
        self.theta_end = math.asin(math.sqrt(self.end))

    def mass(self, eps: float) -> tuple[float, float]:
        """The probability, and minus its derivative in epsilon."""
        shrink = max(math.exp(-eps), 1e-300)
        # The bound is (1 - delta - x) e^-eps from the crossing to x = 1 - delta, and below it
        # 1 - delta - e^eps x.
        cross = self.end * shrink / (1 + shrink)
        theta_cross = math.asin(math.sqrt(cross))
        a = self._shallow(shrink, theta_cross)
        b = self._steep(eps, shrink, cross, theta_cross)
        return a[0] + b[0], a[1] + b[1]

    def _shallow(self, shrink: float, start: float) -> tuple[float, float]:
        low, high = max(start, self.theta_x[0]), min(self.theta_end, self.theta_x[-1])
        if low >= high:
            return 0.0, 0.0
        marks = self.end - self.quantiles_y / shrink  # where the bound passes quantiles of y
        marks = np.arcsin(np.sqrt(marks[(marks > 0) & (marks < 1)]))
        # theta = theta_end - s^2
        ends = np.r_[low, high, self.theta_x, marks]
        ends = np.unique(ends[(ends >= low) & (ends <= high)])
        s_ends = np.sqrt(np.maximum(self.theta_end - ends, 0))[::-1]
        s, weight = _nodes(s_ends)
        theta = self.theta_end - s * s
        # (1 - delta - x) without cancellation: a difference of squared sines.
        gap = np.sin(self.theta_end - theta) * np.sin(self.theta_end + theta)
        y = gap * shrink
        density = self._density_x(theta) * 2 * s * weight
        inside = special.betainc(*self.y, y)
        return float(density @ inside), float(density @ (y * self._density_y(y)))

    def _steep(self, eps: float, shrink: float, cross: float, stop: float) -> tuple[float, float]:
        low, high = self.theta_x[0], min(stop, self.theta_x[-1])
        if low >= high:
            return 0.0, 0.0
        marks = (self.end - self.quantiles_y) * shrink
        marks = np.arcsin(np.sqrt(marks[(marks > 0) & (marks < 1)]))
        ends = np.r_[low, high, self.theta_x, marks]
        theta, weight = _nodes(np.unique(ends[(ends >= low) & (ends <= high)]))
        x = np.sin(theta) ** 2
        grown = x / shrink
        y = np.clip(self.end - grown, 0, 1)
        density = self._density_x(theta) * weight
        inside = special.betainc(*self.y, y)
        return float(density @ inside), float(density @ (grown * self._density_y(y)))

    def _density_x(self, theta: npt.NDArray) -> npt.NDArray[np.float64]:
        """Of theta, where x = sin^2(theta)."""
        a, b = self.x
        sine, cosine = np.sin(theta), np.cos(theta)
        with np.errstate(divide="ignore"):
            log = special.xlogy(2 * a - 1, sine) + special.xlogy(2 * b - 1, cosine)
        return 2 * np.exp(log - self.log_x)

    def _density_y(self, y: npt.NDArray) -> npt.NDArray[np.float64]:
        a, b = self.y
        with np.errstate(divide="ignore"):
            log = special.xlogy(a - 1, y) + special.xlog1py(b - 1, -y)
        return np.where((y > 0) & (y < 1), np.exp(log - self.log_y), 0.0)


def _theta_quantiles(a: float, b: float) -> npt.NDArray[np.float64]:
    """Quantiles as angles, x = sin^2(theta), from both tails and the median."""
    low = special.betaincinv(a, b, _TAILS)
    high = special.betaincinv(b, a, _TAILS)  # of 1 - x
    middle = special.betaincinv(a, b, 0.5)
    return np.r_[
        np.arcsin(np.sqrt(low)), math.asin(math.sqrt(middle)), np.arccos(np.sqrt(high))[::-1]
    ]


def _nodes(ends: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
    """Nodes and weights on successive pieces."""
    half = np.diff(ends)[:, None] / 2
    middle = (ends[:-1] + ends[1:])[:, None] / 2
    return (middle + half * _POINTS).ravel(), (half * _WEIGHTS).ravel()
