"""Intervals for a mean of bounded values that hold where errors are few, or none.

A variance says nothing of what was not seen: of 200 right answers the normal interval has no width.
Here the lower limit is the alpha-quantile of sum_i D_i x_i + D_0 a, where D is Dirichlet with
weight 1 for each value and c for one that was not seen, at the worst that a value might be
(Gaffke).  Of zeros and ones, with c = 1, that is Clopper and Pearson's limit; of many values it is
as near to the mean as the normal one.  The upper one mirrors it.

Fitted models spread what one error says over many points, so that few errors look like more.  Where
few are seen, an end is no nearer than Clopper and Pearson's for as many as the weighted ones are
worth, which no model touches.

References: Gaffke, Three test statistics for a nonparametric one-sided hypothesis on the mean of a
nonnegative variable, 2005.  Learned-Miller and Thomas, A new confidence interval for the mean of a
bounded random variable, 2020.  Korn and Graubard, Confidence intervals for proportions with small
expected number of positive counts estimated from survey data, 1998.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from lib.bounds import gaffke_limit, gaffke_tail
from lib.check import as_names

Array = npt.NDArray[np.float64]
#: An unseen value is at the mean of the worst that _UNSEEN answers might be: with none of so many
#: seen, e to the minus _UNSEEN is the probability that nothing shows.
_UNSEEN = 3.0
#: The weight of the unseen value falls from 1 where _SEEN errors are seen; a limit that rests on
#: what was counted, and on no model, is in force up to _SCARCE of these, and gone at twice that.
_SEEN, _SCARCE = 20.0, 15.0


@dataclass(frozen=True, eq=False)
class Reach:
    """What each influence value might have been, had the score been another.

    Attributes
    ----------
    low, high : ndarray, shape (n,)
        Least and largest influence value of the point, were it answered.
    answers : ndarray, shape (n,)
        Probability that it is.
    worse, better : ndarray, shape (k, n)
        Of k classifiers: what of the estimate was lost to errors, and gained by successes, that
        were seen.  The lower limit must fear more of the former, the upper one more of the latter.
    limits : tuple of float
        Of what is estimated.
    counted : bool
        Whether scores are 0 or 1, so that errors can be counted.
    scores : tuple of float
        Least and largest score.
    """

    low: Array
    high: Array
    answers: Array
    worse: Array
    better: Array
    limits: tuple[float, float]
    counted: bool
    scores: tuple[float, float]

    def take(self, rows: npt.NDArray[Any]) -> Self:
        """The same of some points."""
        arrays = {f.name: getattr(self, f.name)[..., rows] for f in fields(self)[:5]}
        return replace(self, **arrays)

    def mirrored(self) -> Self:
        """Of minus the influence values."""
        limits = -self.limits[1], -self.limits[0]
        ends = {"low": -self.high, "high": -self.low, "worse": self.better, "better": self.worse}
        return replace(self, limits=limits, **ends)


@dataclass(frozen=True, eq=False)
class Units:
    """Independent values with a mean: points, or clusters of them.

    The values of clusters are those of a ratio estimator: `mean` plus the sum of what its points
    differ from it, over the mean size of a cluster.
    """

    mean: float
    values: Array
    sizes: Array

    @classmethod
    def of(cls, influence: Array, clusters: npt.NDArray[np.int64] | None) -> "Units":
        """Collapse clusters, numbered from 0."""
        mean = float(influence.mean())
        if clusters is None:
            return cls(mean, influence, np.ones(len(influence)))
        sizes = np.bincount(clusters).astype(float)
        apart = np.bincount(clusters, influence - mean) / sizes.mean()
        return cls(mean, mean + apart, sizes)

    @property
    def stderr(self) -> float:
        """Of the mean: divisor n for points, n - 1 for clusters."""
        n = len(self.values)
        spread = float(((self.values - self.mean) ** 2).mean())
        clustered = self.sizes.max() > 1 and n > 1
        return math.sqrt(spread / (n - 1 if clustered else n))

    @property
    def degrees(self) -> float:
        """Satterthwaite's: 2 over the squared coefficient of variation of the variance."""
        n, away = len(self.values), self.values - self.mean
        squares = (
            away / (np.abs(away).max() or 1.0)
        ) ** 2  # fourth powers of tiny ones would vanish
        spread, mean = float(squares.var()), float(squares.mean())
        if spread <= 1e-24 * mean**2:  # equal squares: no more than the values allow
            return float(max(n - 1, 1))
        return min(2 * n * mean**2 / spread, float(max(n - 1, 1)))

    def quantile(self, level: float) -> float:
        """Half the width of Student's interval, in standard errors with divisor n."""
        n = len(self.values)
        inflated = math.sqrt(n / (n - 1)) if self.sizes.max() == 1 and n > 1 else 1.0
        return inflated * -float(special.stdtrit(self.degrees, (1 - level) / 2))


def reach_of(pair: Sequence[Any], estimator: str, clip: float, score_range: Any) -> Reach | None:
    """What influence values might have been with other scores; None if their range is not known."""
    counted = all(np.isin(p.scores[~p.abstained], (0, 1)).all() for p in pair)
    if estimator == "plug-in" and any(p.abstained.any() for p in pair):
        return None  # a mean of predictions: no score bears on it but through the model
    if score_range is None and not counted:
        return None
    low, high = (0.0, 1.0) if score_range is None else score_range
    for one in pair:
        require_within(one.scores, one.abstained, low, high)
    one = _reach(pair[0], estimator, clip, low, high)
    if len(pair) == 1:
        return replace(one, counted=counted and (low, high) == (0, 1))
    other = _reach(pair[1], estimator, clip, low, high).mirrored()
    return Reach(
        low=one.low + other.low,
        high=one.high + other.high,
        answers=np.minimum(one.answers, other.answers),
        worse=np.concatenate([one.worse, other.worse]),
        better=np.concatenate([one.better, other.better]),
        limits=(low - high, high - low),
        counted=counted and (low, high) == (0, 1),
        scores=(low, high),
    )


def _reach(one: Any, estimator: str, clip: float, low: float, high: float) -> Reach:
    r, s = one.abstained, one.scores
    answers = 1 - np.clip(one.propensity, 0.0, 1 - clip) if r.any() else np.ones(len(r))
    weight = 1 / np.maximum(answers, 1e-300)
    centre = one.outcome if estimator == "dr" and r.any() else np.zeros(len(r))
    return Reach(
        low=centre + weight * (low - centre),
        high=centre + weight * (high - centre),
        answers=answers,
        worse=np.where(r, 0.0, weight * (high - s))[None],
        better=np.where(r, 0.0, weight * (s - low))[None],
        limits=(low, high),
        counted=False,
        scores=(low, high),
    )


def require_within(scores: Array, abstained: npt.NDArray[np.bool_], low: float, high: float):
    """Refuse scores outside of the range that was said to hold them."""
    outside = ~abstained & ((scores < low) | (scores > high))
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"score_range must hold all observed scores, got ({low:g}, {high:g}) and a score "
            f"of {scores[row]:g} in row {row} ({int(outside.sum())} such scores)"
        )


def cluster_numbers(clusters: Any, n: int) -> npt.NDArray[np.int64]:
    """Clusters, numbered from 0; there must be two."""
    codes = np.unique(as_names("clusters", clusters, n), return_inverse=True)[1].astype(np.int64)
    if codes.max() == 0:
        raise ValueError("clusters must be two at least, got one: it shows no spread")
    return codes


def lower_end(units: Units, reach: Reach, clusters: Any, alpha: float) -> float:
    """A limit below the mean, not cut off at the limits of what is estimated."""
    unseen, weight, lone, fading = _side(units, reach, clusters)
    plain = gaffke_limit(units.values, unseen, weight, alpha)
    if fading == 0:
        return plain
    low, high = reach.limits
    counts = _counts(lone, high - low)
    # scipy's inverse is NaN at levels far out, where the limit is next to nothing.
    share = float(np.nan_to_num(special.betaincinv(*counts, alpha))) if counts[0] else 0.0
    other = low + (high - low) * share
    return plain - fading * max(plain - other, 0.0)


def lower_tail(units: Units, reach: Reach, clusters: Any, mean: float) -> float:
    """The alpha at which :func:`lower_end` is `mean`."""
    unseen, weight, lone, fading = _side(units, reach, clusters)
    plain = gaffke_tail(units.values, unseen, weight, mean)
    if fading == 0:
        return plain
    low, high = reach.limits
    counts, share = _counts(lone, high - low), (mean - low) / (high - low)
    other = float(special.betainc(*counts, np.clip(share, 0, 1))) if counts[0] else 1.0
    if other <= plain:
        return plain
    if fading == 1:
        return other

    def gap(log_alpha: float) -> float:
        return lower_end(units, reach, clusters, math.exp(log_alpha)) - mean

    ends = math.log(max(plain, 1e-300)), math.log(min(other, 0.5))
    if ends[0] >= ends[1] or gap(ends[0]) >= 0 or gap(ends[1]) <= 0:
        return min(other, 0.5) if ends[0] < ends[1] and gap(ends[1]) <= 0 else plain
    return math.exp(optimize.brentq(gap, *ends, xtol=1e-9))


def _side(units: Units, reach: Reach, clusters: Any):
    """Of the lower limit: the unseen value, its weight, and the successes that were seen.

    The latter are their total over the points, how many they are worth, and how far the limit that
    rests on them alone counts.
    """
    size = float((units.sizes**2).sum() / units.sizes.sum())
    low = _worst(reach.low, reach.answers, _UNSEEN * size)
    span = -_worst(-reach.high, reach.answers, _UNSEEN * size) - low
    weight, grow = 0.0, size / units.sizes.mean()
    for seen in reach.worse:
        count, typical = _worth(seen, clusters)
        least = 0.5 * typical / (span * size) if span > 0 and count else 1.0
        weight = max(weight, min(1.0, max(_SEEN / max(count, 1.0), least)))
    if not reach.counted:
        weight = 1.0
    lone, fading = (0.0, 0.0), 0.0
    if len(reach.better) == 1 and reach.counted:
        count = _worth(reach.better[0], clusters)[0]
        lone = float(reach.better[0].mean()), count
        fading = float(np.clip(2 - count / _SCARCE, 0, 1))
    return units.mean + (low - units.mean) * grow, weight, lone, fading


def _worst(values: Array, answers: Array, amount: float) -> float:
    """Mean of the least values, as many as `amount` answers are expected of."""
    order = np.argsort(values, kind="stable")
    part = answers[order]
    part = np.clip(amount - (np.cumsum(part) - part), 0.0, part)
    return float((part * values[order]).sum() / part.sum())


def _worth(seen: Array, clusters: Any) -> tuple[float, float]:
    """Kish's number of equal ones that vary as much, and the size of each."""
    seen = seen if clusters is None else np.bincount(clusters, seen)
    total, squares = float(seen.sum()), float((seen**2).sum())
    return (total**2 / squares, squares / total) if squares > 0 else (0.0, 0.0)


def _counts(seen: tuple[float, float], span: float) -> tuple[float, float]:
    """Parameters of Clopper and Pearson's lower limit for as many successes as these are worth."""
    total, count = seen
    return count, max(count * span / total - count, 0.0) + 1 if total > 0 else 1.0


def bounded_interval(
    values: Array, limits: tuple[float, float], level: float
) -> tuple[float, float]:
    """For the mean of independent values within limits, whatever their distribution."""
    low, high = limits
    counted = bool(np.isin(values, limits).all())
    reach = Reach(
        low=np.full(len(values), low),
        high=np.full(len(values), high),
        answers=np.ones(len(values)),
        worse=(high - values)[None],
        better=(values - low)[None],
        limits=limits,
        counted=counted,
        scores=limits,
    )
    return interval(Units.of(values, None), reach, None, level)


def interval(units: Units, reach: Reach, clusters: Any, level: float) -> tuple[float, float]:
    """Both ends, cut off at the limits of what is estimated; NaN if they leave nothing of it."""
    alpha = (1 - level) / 2
    low = lower_end(units, reach, clusters, alpha)
    high = -lower_end(*mirror(units, reach), clusters, alpha)
    if low > reach.limits[1] or high < reach.limits[0]:
        return math.nan, math.nan
    return float(max(low, reach.limits[0])), float(min(high, reach.limits[1]))


def mirror(units: Units, reach: Reach) -> tuple[Units, Reach]:
    """Of minus the values."""
    return replace(units, mean=-units.mean, values=-units.values), reach.mirrored()


def p_value(units: Units, reach: Reach, clusters: Any, mean: float) -> float:
    """Two-sided: twice the smaller tail, by the bound that the interval rests on."""
    below = lower_tail(units, reach, clusters, mean)
    above = lower_tail(*mirror(units, reach), clusters, -mean)
    return min(1.0, 2 * min(below, above))
