"""The posterior of epsilon given an attack's counts (P3, section 3.2), by one integral.

With x = FNR and y = FPR independent Beta variables, the distribution function at epsilon is

    F(epsilon) = E[ I(upper(x)) - I(lower(x)) ],

I being the distribution function of y and lower and upper the bounds of the privacy region.  The
expectation is an integral over x alone.  It is computed by Gauss-Legendre quadrature on pieces
whose ends are quantiles of x, and the points where a bound passes a quantile of y, in variables in
which the integrand is smooth: x = sin^2(theta), and theta = theta_0 - s^2 towards the end theta_0
of the region outside, where I behaves like a square root.
"""

import functools
import itertools
import math

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.audit.counts import AttackCounts
from lib.check import as_unit, check_delta

_NODES = 10
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(_NODES)
# Probabilities whose quantiles end the pieces.
_TAILS = np.array([1e-18, 1e-10, 1e-5, 3e-3, 0.1, 0.5])
# Multiples of the angle at which 1 - y stops falling like a square that end pieces too.
_BENDS = 3.0 ** np.arange(5)
# Standard deviations from the mean of x at which the bound of a tiny mass steps.
_DOWN = np.arange(-12.0, 0.5, 0.5)


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

    Examples
    --------
    >>> posterior = epsilon_posterior(counts, delta=0.05)
    >>> round(float(posterior.sf(0.5)), 3), round(float(posterior.ppf(0.5)), 3)
    (0.982, 0.872)
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
        x = (counts.fn + 0.5, counts.tp + 0.5)
        y = (counts.fp + 0.5, counts.tn + 0.5)
        # Attacks better than chance leave the region below it, attacks worse than chance above:
        # the latter is the former for one minus the rates.  The likely side comes first.
        corners = _Corner(*x, *y, self.delta), _Corner(*x[::-1], *y[::-1], self.delta)
        better = counts.fnr + counts.fpr <= 1
        self._corners = corners if better else corners[::-1]

    def sf(self, eps: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Posterior probability that epsilon is larger: the mass outside the privacy region."""
        return self._map(lambda e: self._outside(e)[0], eps, 1.0, 0.0)

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
        inverse = np.vectorize(lambda p: self._quantile(1 - p, p), otypes=[float])
        return inverse(as_unit("q", q))[()]

    def isf(self, q: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Smallest epsilon beyond which at most the probability `q` lies; precise for small `q`."""
        inverse = np.vectorize(lambda p: self._quantile(p, 1 - p), otypes=[float])
        return inverse(as_unit("q", q))[()]

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
        """Mass beyond epsilon, and its density there."""
        first, second = self._corners
        mass, density = first.mass(eps)
        if second.negligible(eps, mass):
            return mass, density
        other = second.mass(eps, mass)
        return mass + other[0], density + other[1]

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
        low, high = 0.0, math.inf
        guess, last = self._normal_guess(head), None
        # Newton on the normal quantile of the mass, nearly linear in epsilon; from the second
        # evaluation on with the cubic through both.
        goal = float(special.ndtri(tail) if tail < 0.5 else -special.ndtri(head))
        for _ in range(200):
            mass, density = self._outside(guess)
            if mass == tail:
                return guess
            if mass > tail:
                low = guess
            else:
                high = guess
            step = -1.0  # none
            if 0 < mass < 1 and density > 0:
                z = float(special.ndtri(mass))
                slope = -math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / density
                off, error = goal - z, abs(goal - z)
                step = guess + off * slope
                if last is not None and last[0] != z:
                    h, secant = z - last[0], (guess - last[1]) / (z - last[0])
                    bend = (slope - secant) + (slope + last[2] - 2 * secant) * (off + h) / h
                    step += off * off / h * bend
                    error *= abs(off + h)
                last = z, guess, slope
                # The error that the step leaves is some multiple of the square of this, but in the
                # far tail, where the slope is less exact.
                if (error if tail > 1e-13 else 10 * abs(off)) <= 1e-7 and math.isfinite(step):
                    return step if low <= step <= high else guess
            step = min(step, 2 * guess + 4)  # a flat density would send it far out
            if not low < step < high:
                if low == 0 and self._mass_beyond_zero <= tail:
                    return 0.0
                step = 2 * guess + 1 if high == math.inf else (low + high) / 2
            if high - low <= 4e-15 * (1 + low):
                return low
            guess = step
        return guess

    @functools.cached_property
    def _mass_beyond_zero(self) -> float:
        return self._outside(0.0)[0]

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
        self.x, self.y = (ax, bx), (ay, by)
        self.end = 1 - delta
        self.theta_end = math.asin(math.sqrt(self.end))

    def negligible(self, eps: float, mass: float) -> bool:
        """Whether this corner adds nothing to `mass`, by bounds that are cheap."""
        limit = 1e-17 * mass
        if self._most <= limit:
            return True
        return self._most < 1e-4 and bool(self._most_at(eps) <= limit)

    @functools.cached_property
    def _most(self) -> float:
        """At least the mass at any epsilon."""
        return float(self._most_at(0.0))

    def _most_at(self, eps: float) -> npt.NDArray[np.float64]:
        return most_below(*self.x, *self.y, self.end, eps, _DOWN)

    @functools.cached_property
    def _grid(self) -> tuple[npt.NDArray, npt.NDArray, float, float]:
        """What does not depend on epsilon: quantiles of x (as angles) and y; normalizations."""
        theta_x = _theta_quantiles(*self.x)
        y = np.sin(_theta_quantiles(*self.y)) ** 2
        return theta_x, y, special.betaln(*self.x), special.betaln(*self.y)

    def mass(self, eps: float, other: float = 0.0) -> tuple[float, float]:
        """The probability, to be added to `other`, and minus its derivative in epsilon."""
        theta_x, y, _, _ = self._grid
        shrink = max(math.exp(-eps), 1e-300)
        # The bound is (1 - delta - x) e^-eps from the crossing to x = 1 - delta, and below it
        # 1 - delta - e^eps x.  It is its own inverse: at `marks` it passes the quantiles of y.
        marks = np.maximum((self.end - y) * shrink, self.end - y / shrink)
        marks = np.arcsin(np.sqrt(np.minimum(np.maximum(marks, 0.0), self.end)))
        # Below the last mark y is below the bound, all but surely.
        low, high = max(marks[-1], theta_x[0]), min(self.theta_end, theta_x[-1])
        total = float(special.betainc(*self.x, math.sin(marks[-1]) ** 2))
        if low >= high:
            return total, 0.0
        # Beyond the first y is above it, as surely: that part is left out unless the rest is small.
        far = min(max(marks[0], low), high)
        cross = math.asin(math.sqrt(self.end * shrink / (1 + shrink)))
        # 1 - y = delta + e^eps sin^2(theta) below the crossing: its root bends at sqrt(delta).
        bends = math.sqrt((1 - self.end) * shrink) * _BENDS
        ends = np.concatenate((theta_x, marks, bends, (cross,)))
        ends.sort()
        mass, density = self._integrate(ends, low, far, cross, shrink)
        total += mass
        if total + other < 1e-6 and far < high:
            mass, slope = self._integrate(ends, far, high, cross, shrink)
            total, density = total + mass, density + slope
        return total, density

    def _integrate(
        self, marks: npt.NDArray, low: float, high: float, cross: float, shrink: float
    ) -> tuple[float, float]:
        """Mass and density from angle to angle, by pieces that end at the marks between them."""
        if low >= high:
            return 0.0, 0.0
        first, last = marks.searchsorted(low, "right"), marks.searchsorted(high)
        ends = np.concatenate(((low,), marks[first:last], (high,)))
        steep = min(int(ends.searchsorted(cross)), len(ends) - 1)  # pieces below the crossing
        # theta = zero - s^2, where zero is the angle at which this part of the bound reaches 0.
        zero = np.full((len(ends) - 1, 1), self.theta_end)
        zero[:steep] = math.asin(math.sqrt(self.end * shrink))
        upper, lower = np.sqrt(np.maximum(zero[:, 0] - (ends[:-1], ends[1:]), 0.0))
        half = (upper - lower)[:, None] / 2
        s = (upper + lower)[:, None] / 2 + half * _POINTS
        weight = half * _WEIGHTS * s
        s *= s
        theta = np.maximum(zero - s, 1e-300)
        sine = np.sin(theta)
        # 1 - delta - x, or 1 - delta - e^eps x, without cancellation: a difference of two squares.
        y = np.sin(s) * np.sin(zero + theta)
        y[:steep] /= shrink
        y[steep:] *= shrink
        np.clip(y, 1e-300, 1 - 2**-53, out=y)  # where the density of y is finite
        slope = y.copy()
        slope[:steep] = sine[:steep] ** 2 / shrink
        (ax, bx), (ay, by) = self.x, self.y
        _, _, log_x, log_y = self._grid
        log = special.xlogy(2 * ax - 1, sine) + special.xlogy(2 * bx - 1, np.cos(theta)) - log_x
        weight *= 4 * np.exp(log)
        inside = special.betainc(ay, by, y)
        slope *= np.exp(special.xlogy(ay - 1, y) + special.xlog1py(by - 1, -y) - log_y)
        return float(np.vdot(weight, inside)), float(np.vdot(weight, slope))


def most_below(ax, bx, ay, by, end, eps: float, steps: npt.NDArray) -> npt.NDArray[np.float64]:
    """An upper bound of the mass below the privacy region, for arrays of parameters.

    The bound of the region falls with x: between two values of x it is at most that at the first.
    """
    ax, bx, ay, by = (np.asarray(v, dtype=float)[..., None] for v in (ax, bx, ay, by))
    mean = ax / (ax + bx)
    x = mean + np.sqrt(mean * (1 - mean) / (ax + bx + 1)) * steps
    x = np.minimum(np.maximum(x, 0.0), end)
    below = special.betainc(ax, bx, x)
    shrink = max(math.exp(-eps), 1e-300)
    under = special.betainc(ay, by, np.maximum((end - x) * shrink, end - x / shrink))
    first = below[..., 0] * special.betainc(ay, by, end)[..., 0]
    inner = (np.diff(below) * under[..., :-1]).sum(-1)
    return first + inner + (special.betainc(ax, bx, end)[..., 0] - below[..., -1]) * under[..., -1]


def _theta_quantiles(a: float, b: float) -> npt.NDArray[np.float64]:
    """Quantiles as angles, x = sin^2(theta), from both tails and the median."""
    low = np.sqrt(special.betaincinv(a, b, _TAILS))
    high = np.sqrt(special.betaincinv(b, a, _TAILS[-2::-1]))  # of 1 - x
    return np.concatenate((np.arcsin(low), np.arccos(high)))
