"""How far an estimate could be off: other clipping levels, and scores not missing at random.

Contamination.  A fraction of at most gamma of the points is contaminated (U = 1): there, what the
classifier would have scored where it abstained may have any mean m(X) in [low, high], whatever it
scored where it answered.  On the others scores are missing at random.  Who is contaminated is not
known, but given X it does not depend on abstention, nor on the scores that are seen, so that pi and
mu0 are the same functions for both kinds.  With c(x) = P(U = 1 | X = x)

    psi = E[mu0(X)] + E[c(X) pi(X) (m(X) - mu0(X))],

which is least for m = low and c the points with the largest g = pi (mu0 - low), the optimum of a
fractional knapsack: E[mu0] - T(gamma) with

    T(gamma) = max {E[c g] : 0 <= c <= 1, E[c] <= gamma} = min {q gamma + E[(g - q)+] : q >= 0}.

The upper bound is E[mu0] + T(gamma) with g = pi (high - mu0).  For A - B the adversary spoils both
scores of a contaminated point: g = pi_A (mu0_A - low) + pi_B (high - mu0_B) for the lower bound, A
and B exchanged for the upper one.  Nothing is spoilt for gamma = 0; for gamma = 1 the bounds are
those of the worst case, E[S 1(R = 0)] + P(R = 1) low and the same with high (Manski).

Inference.  At the best q, a quantile of g, neither q nor c moves T to first order, so its influence
function is that of q gamma + E[c (g - q)] with both fixed,

    c phi - q (c - gamma) - T(gamma),    phi = R (mu0 - low) + (1 - R) pi / (1 - pi) (S - mu0)

(for the upper bound phi = R (high - mu0) - (1 - R) pi / (1 - pi) (S - mu0); for A - B, sums).  With
wrong nuisances pi', mu', and c fixed, the mean of phi is off by (mu' - mu0) (pi' - pi) / (1 - pi')
within c: a product, as for psi itself.  In the sample c takes exactly the mass gamma, by a fraction
of the points that tie at the quantile, so the estimate of T is the mean of c phi.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.check import as_number, as_range, as_unit, as_vector, require_choice
from lib.counterfactual.bounds import require_within
from lib.counterfactual.estimate import Nuisances, estimate_from_nuisances
from lib.counterfactual.result import Estimate

Array = npt.NDArray[np.float64]
_SAME = 1e-12  # within which shares are equal, and, times the range of scores, values of g


def clipping_sensitivity(estimate: Estimate, clips: npt.ArrayLike) -> pd.DataFrame:
    """Recompute an estimate at other clipping levels, from the nuisance functions that it has.

    Parameters
    ----------
    estimate : Estimate
        Of a score or of a difference, by any estimator.
    clips : array_like of float, shape (m,)
        Values of epsilon, in (0, 1).

    Returns
    -------
    pandas.DataFrame
        One row per level, in the order given, with the columns ``clip``; ``value``, ``low``,
        ``high``, ``stderr``: the estimate, its interval at the level of `estimate`, its standard
        error; ``clipped``: fraction of the points whose propensity is clipped, and
        ``effective_sample_size``: see :class:`lib.counterfactual.Diagnostics`; of two classifiers,
        the largest fraction and the smallest size.

    Notes
    -----
    All rows are of one split into folds: if `estimate` is a median over ``repeats``, their standard
    errors lack the spread over splits that its own contains.

    Examples
    --------
    >>> table = clipping_sensitivity(estimate, [0.05, 0.2])
    >>> table["clip"].tolist(), bool((table["low"] < table["high"]).all())
    ([0.05, 0.2], True)
    """
    if not isinstance(estimate, Estimate):
        raise TypeError(f"estimate must be an Estimate, got {type(estimate).__name__}")
    levels = as_vector("clips", clips)
    bad = (levels <= 0) | (levels >= 1)
    if bad.any():
        raise ValueError(f"clips must be in (0, 1), got {levels[np.argmax(bad)]:g}")
    rows = []
    for clip in levels.tolist():
        again = estimate_from_nuisances(
            estimate.nuisances,
            estimator=estimate.estimator,
            clip=clip,
            level=estimate.level,
            score_range=estimate.score_range,
            clusters=estimate.clusters,
        )
        rows.append(
            {
                "clip": clip,
                "value": again.value,
                "low": again.interval[0],
                "high": again.interval[1],
                "stderr": again.stderr,
                "clipped": max(d.clipped for d in again.diagnostics),
                "effective_sample_size": min(d.effective_sample_size for d in again.diagnostics),
            }
        )
    return pd.DataFrame(rows)


def contamination_bounds(
    estimate: Estimate, shares: npt.ArrayLike, score_range: tuple[float, float] = (0.0, 1.0)
) -> pd.DataFrame:
    """Bounds on a score, or a difference, if a fraction of the points is not missing at random.

    On at most that fraction of the points the scores of abstentions may have any mean in
    `score_range`, whatever is seen; on the others they are missing at random.  See the module for
    model, bounds and influence functions.

    Parameters
    ----------
    estimate : Estimate
        By the estimator ``"dr"``; its propensities are clipped as it did.
    shares : array_like of float, shape (m,)
        Values of gamma, in [0, 1]: of all points, answered or not.
    score_range : tuple of float
        Least and largest possible score, of either classifier; all observed ones lie within.

    Returns
    -------
    pandas.DataFrame
        One row per share, in the order given, with the columns ``share``; ``low``, ``high``: the
        bounds; ``ci_low``, ``ci_high``: these minus and plus as many standard errors as in a normal
        (Student's) interval at the level of `estimate`, and by as much more as the ends of
        `estimate` are further out than that (few errors), so that [``ci_low``, ``ci_high``] covers
        both bounds, and all between, with at least that probability for large samples, at each
        share for itself.  Points, or the clusters of `estimate`, are independent.  NaN where the
        interval of `estimate` is, for its reasons (:class:`Estimate`): seen scores that are all
        equal say nothing of those that might be.

    Notes
    -----
    - Influence values need not be positive, so the plain estimates need not be monotone in the
      share, while the bounds are, and the worst case needs no model: a bound is the outermost of
      the plain estimates up to its share, but not beyond the plain one at share 1, which is
      E[S 1(R = 0)] + P(R = 1) low in the sample (unless the estimate itself is beyond: then all
      are the estimate).
    - The standard error includes the spread over splits that the one of `estimate` includes.
    - Intervals suppose that the contaminated set is no matter of choice.  If different inputs have
      exactly the same g at its quantile, the estimate need not be normal; if g jumps there, two
      multipliers q are right, and the larger of the two standard errors is used.
    - Fitted nuisances misplace points near the quantile, which makes bounds a little too narrow, by
      an error of second order.
    - Bounds on a difference are sharp as long as the two missing scores of a point have nothing to
      do with each other.  The difference of a classifier with itself is zero, but its bounds are
      not.
    - Contamination that depends on abstention given X (model XA of the reference), such as a
      fraction of the points that are all abstentions, is not covered: it does more harm then.
    - Bounds are not truncated to what is possible, as the estimate is not.

    References
    ----------
    Bonvini and Kennedy, Sensitivity analysis via the proportion of unmeasured confounding, Journal
    of the American Statistical Association, 2022: model X, with a score missing in place of two
    potential outcomes.  Manski, Nonparametric bounds on treatment effects, 1990.

    Examples
    --------
    >>> table = contamination_bounds(estimate, [0.0, 0.1])
    >>> widths = table["high"] - table["low"]
    >>> bool(widths[0] < 1e-12), bool(widths[1] > 0)
    (True, True)
    """
    low, high = _check(estimate, score_range)
    gamma = as_unit("shares", as_vector("shares", shares))
    down, down_error = _Loss(estimate, low, high, sign=-1).at(gamma)
    up, up_error = _Loss(estimate, low, high, sign=1).at(gamma)
    lower, upper = estimate.value - down, estimate.value + up
    return pd.DataFrame(
        {
            "share": gamma,
            "low": lower,
            "high": upper,
            "ci_low": lower - down_error,
            "ci_high": upper + up_error,
        }
    )


def breakdown_share(
    estimate: Estimate,
    value: float = 0.0,
    score_range: tuple[float, float] = (0.0, 1.0),
    interval: bool = True,
) -> float:
    """Smallest fraction of contaminated points at which a value can no longer be excluded.

    Parameters
    ----------
    estimate : Estimate
        By the estimator ``"dr"``.
    value : float
        What is to be excluded, such as no difference; one that is an end, up to rounding, is not.
    score_range : tuple of float
        As for :func:`contamination_bounds`.
    interval : bool
        Whether `value` must be outside [``ci_low``, ``ci_high``] to be excluded, or only outside
        [``low``, ``high``].

    Returns
    -------
    float
        In [0, 1]; 0 if it is not excluded without contamination; infinite if it is excluded even
        with all points contaminated; NaN if `interval` and that of `estimate` is NaN.

    Notes
    -----
    Exact up to rounding, by bisection between two of the shares where a set of tied points is
    complete: between these the distance of an end from the estimate is convex in the share, so it
    cannot reach `value` there and return.

    References
    ----------
    Bonvini and Kennedy, 2022: their one-number summary, except that they estimate it and give it an
    interval of its own.

    Examples
    --------
    >>> 0 < breakdown_share(estimate, value=0.5) <= 1
    True
    """
    low, high = _check(estimate, score_range)
    value = as_number("value", value, -math.inf, math.inf)
    require_choice("interval", interval, (False, True))
    # A value that is the bound itself, up to rounding, is reached.
    gap = max(0.0, abs(value - estimate.value) - _SAME * (high - low))
    loss = _Loss(estimate, low, high, sign=-1 if value < estimate.value else 1)
    if interval and math.isnan(loss.more):
        return math.nan

    def reach(shares: Array) -> Array:
        distance, error = loss.at(shares)
        return distance + (error if interval else 0.0)

    knots = loss.knots()
    reached = reach(knots) >= gap
    if not reached.any():
        return math.inf
    first = int(np.argmax(reached))
    if first == 0:
        return 0.0
    outside, inside = knots[first - 1], knots[first]
    while inside - outside > _SAME:
        middle = (outside + inside) / 2
        if reach(np.array([middle]))[0] >= gap:
            inside = middle
        else:
            outside = middle
    return float(inside)


class _Loss:
    """T(gamma), estimated: what contamination takes off (`sign` -1) or adds to (1) an estimate.

    Points are sorted by g, largest first, in groups of equal g; everything is in terms of sums over
    the first groups, so that each share takes the same time, however many points there are.
    """

    def __init__(self, estimate: Estimate, low: float, high: float, sign: int):
        g, phi = _harm(estimate.nuisances[0], estimate.clip, low, high, sign)
        if len(estimate.nuisances) == 2:
            more = _harm(estimate.nuisances[1], estimate.clip, low, high, -sign)
            g, phi = g + more[0], phi + more[1]
        n = len(g)
        psi = -sign * (estimate.influence - estimate.influence.mean())
        order = np.argsort(-g, kind="stable")
        g, phi, psi = g[order], phi[order], psi[order]
        cuts = np.flatnonzero(-np.diff(g) > _SAME * (high - low)) + 1
        edges = np.concatenate([[0], cuts, [n]])
        self.quantile = g[edges[:-1]]
        self.share = edges / n
        terms = np.stack([np.ones(n), phi, phi**2, psi, psi * phi])
        sums = np.concatenate([np.zeros((5, 1)), np.cumsum(terms, axis=1)], axis=1)
        self.means = sums[:, edges] / n
        self.plain = self.means[1]  # of T, at self.share
        self.cap = max(float(self.plain[-1]), 0.0)
        self.largest = np.maximum.accumulate(self.plain)
        self.variance = float(np.mean(psi**2))
        # What the standard error of the estimate contains beyond one split of single rows: repeats
        # and clusters, which so widen a bound as they widen the estimate.
        self.splits = max(0.0, estimate.stderr**2 - self.variance / n)
        self.n = n
        # Where errors are few an end is as much further out as that of the estimate is, which is a
        # bound there.
        plain = math.sqrt(self.variance / n + self.splits)
        normal = float(stats.norm.isf((1 - estimate.level) / 2))
        self.z = estimate.quantile if estimate.reach is None else normal
        half = abs(estimate.interval[0 if sign < 0 else 1] - estimate.value)
        self.more = half if math.isnan(half) else max(0.0, half - self.z * plain)

    def at(self, gamma: Array) -> tuple[Array, Array]:
        """T, and how far the end of the interval is beyond the bound, at some shares."""
        last = len(self.quantile) - 1
        # The group that ends at a share or beyond, and the one that begins there or before: they
        # differ where a group is complete, and q may be either's g.
        ending = np.clip(np.searchsorted(self.share, gamma - _SAME) - 1, 0, last)
        beginning = np.clip(np.searchsorted(self.share, gamma + _SAME, side="right") - 1, 0, last)
        plain, error = self._plain(gamma, ending)
        other = self._plain(gamma, beginning)[1]
        value = np.minimum(np.maximum(plain, self.largest[ending]), self.cap)
        return value, self.z * np.maximum(error, other) + self.more

    def knots(self) -> Array:
        """Shares between which T is a straight line, or the larger of one and a constant."""
        above = self.plain > self.cap
        if not above.any():
            return self.share
        k = int(np.argmax(above))  # at least 1, the cap being at least 0
        part = (self.cap - self.plain[k - 1]) / (self.plain[k] - self.plain[k - 1])
        crossing = self.share[k - 1] + part * (self.share[k] - self.share[k - 1])
        return np.sort(np.append(self.share, crossing))

    def _plain(self, gamma: Array, group: npt.NDArray[np.int64]) -> tuple[Array, Array]:
        """Mean of c phi, and standard error, with a fraction of a group in c and those before."""
        before, width = self.means[:, group], np.diff(self.means, axis=1)[:, group]
        part = np.clip((gamma - before[0]) / width[0], 0.0, 1.0)
        mass, phi, _, psi, _ = before + part * width
        q = self.quantile[group]
        # Influence values are psi - c (phi - q), psi centered, up to a constant and for upper
        # bounds up to the sign.  In the square of the second term, the fraction is squared.
        squared = before + part**2 * width
        square = squared[2] - 2 * q * squared[1] + q**2 * squared[0]
        cross = before[4] + part * width[4] - q * psi
        variance = self.variance - 2 * cross + square - (phi - q * mass) ** 2
        return phi, np.sqrt(np.maximum(variance, 0.0) / self.n + self.splits)


def _harm(
    nuisances: Nuisances, clip: float, low: float, high: float, sign: int
) -> tuple[Array, Array]:
    """The function g of one score, and phi: how much lower (`sign` -1) or higher it may be."""
    r, s = nuisances.abstained, nuisances.scores
    if not r.any():  # the estimate does not use the nuisance functions either
        return np.zeros(len(s)), np.zeros(len(s))
    pi = np.clip(nuisances.propensity, 0.0, 1.0 - clip)
    worst = low if sign < 0 else high
    # Predictions may leave the range, true means do not; but phi takes them as the estimate does,
    # so that they cancel at share 1.
    g = pi * np.abs(np.clip(nuisances.outcome, low, high) - worst)
    seen = np.where(r, 0.0, pi / (1.0 - pi) * (s - nuisances.outcome))
    return g, sign * (np.where(r, worst - nuisances.outcome, 0.0) - seen)


def _check(estimate: Any, score_range: Any) -> tuple[float, float]:
    """Check what bounds are computed from; the range of scores, as floats."""
    if not isinstance(estimate, Estimate):
        raise TypeError(f"estimate must be an Estimate, got {type(estimate).__name__}")
    if estimate.estimator != "dr":
        raise ValueError(
            f"estimate must be by the estimator 'dr', got {estimate.estimator!r}: the bounds are "
            "doubly robust"
        )
    low, high = as_range("score_range", score_range)
    for nuisances in estimate.nuisances:
        require_within(nuisances.scores, nuisances.abstained, low, high)
    return low, high
