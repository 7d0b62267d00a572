"""How sure are these areas?  Standard errors, bootstrap intervals, and how many points it takes.

The evaluation points are taken as independent draws; the model is fixed.  Two methods evaluated on
the same points are compared by paired differences.  What another training would give is a second
source of variation, which only more training runs can show.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit
from scipy import stats

from lib.bounds import few_vary, mean_interval
from lib.check import (
    as_array,
    as_generator,
    as_integer,
    as_names,
    as_number,
    as_predictions,
    as_scored,
    require_finite,
    same_rows,
)
from lib.selective.curves import warn_of_copies
from lib.selective.influences import Parts, area_of, difference_of, group_ends, influences

_SMALL = 30  # points: of fewer, those that rank worst may well not have been drawn


@dataclass(frozen=True)
class Estimate:
    """A number with its sampling uncertainty.

    Attributes
    ----------
    value : float
        On the points at hand.
    standard_error : float
        Of the value, over draws of the evaluation points.
    low, high : float
        Confidence limits.
    level : float
        Confidence level.
    """

    value: float
    standard_error: float
    low: float
    high: float
    level: float


def estimate(
    correct: npt.ArrayLike,
    score: npt.ArrayLike,
    metric: str = "normalized_score",
    level: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
) -> Estimate:
    """An area with its standard error and confidence interval, without resampling.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`; at least two points, which are independent
        draws, or come in independent clusters.
    metric : {"normalized_score", "selective_auc", "aurc", "augrc"}
        Which area.
    level : float
        Confidence level, in (0, 1).
    clusters : array_like, shape (n,), optional
        Integers or strings: whom or what each point is of, such as a patient with several images.
        Points of one cluster may depend on one another in any way, clusters are independent; at
        least two.

    Returns
    -------
    Estimate

    Warns
    -----
    UserWarning
        If no clusters are given and points look like copies: at least half of them share their
        score with another, but no right point does so with a wrong one.

    Notes
    -----
    The interval is :func:`lib.bounds.mean_interval` of the :func:`influence` values (with clusters:
    of their sums by cluster), in the range of the metric.  Where enough points vary it is as wide
    as the normal one, and moved against the skewness.  Where few predictions are wrong, or few
    right, it is one of bounds that count with a wrong point of the largest influence which was not
    drawn: wide, and not without width if all are right.  Coverage of the nominal 95% was counted
    for 20 to 2,000 points, accuracies of 0.5 to 0.999, and scores that are perfect, informative,
    random, in reverse, of three levels, or now and then highest at a wrong point; of 756 such
    cells with 100 draws each the least was 0.88, at 2,000 points, as chance has it.
    Independence matters: of ten copies of each point, intervals without clusters hold in about one
    half of the cases.

    Standard errors are those of large samples: at an accuracy of 0.8, with and without ties, they
    were 1 to 6% too small for 100 points (AUGRC's -2 to 3%), up to 5% for 200, and 3% at most from
    600 on, with a simulation error of 2%.

    Examples
    --------
    >>> found = estimate(correct, score, metric="aurc")
    >>> round(found.value, 3), round(found.standard_error, 3)
    (0.061, 0.01)
    >>> sure = estimate([True] * 50, np.arange(50.0), metric="augrc")
    >>> sure.value, round(sure.high, 3)
    (0.0, 0.071)
    """
    same_rows(correct=correct, score=score, clusters=clusters)
    correct, score = as_scored(correct, score)
    if clusters is None:
        warn_of_copies(correct, score)
    parts = influences(correct, score, metric)
    return _interval(area_of(metric)(correct, score), parts, metric, level, clusters=clusters)


def compare(
    correct: npt.ArrayLike,
    score: npt.ArrayLike,
    other_correct: npt.ArrayLike,
    other_score: npt.ArrayLike,
    metric: str = "normalized_score",
    level: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
) -> Estimate:
    """The difference of an area between two methods on the same points.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        Of the first method.
    other_correct, other_score : array_like, shape (n,)
        Of the second, for the same points, which are independent (or in clusters that are).
    metric : {"normalized_score", "selective_auc", "aurc", "augrc"}
        Which area.
    level : float
        Confidence level, in (0, 1).

    clusters : array_like, shape (n,), optional
        As for :func:`estimate`.

    Returns
    -------
    Estimate
        First minus second, with the interval of :func:`estimate` for the differences of the
        influences.

    Examples
    --------
    >>> found = compare(correct, score, correct, other)
    >>> found.high < 0
    True
    """
    same_rows(
        correct=correct,
        score=score,
        other_correct=other_correct,
        other_score=other_score,
        clusters=clusters,
    )
    first, second = as_scored(correct, score), as_scored(other_correct, other_score, "other_")
    _check_paired(first[0], second[0])
    if clusters is None:
        warn_of_copies(*first)
    area = area_of(metric)
    parts = difference_of(influences(*first, metric), influences(*second, metric))
    value = area(*first) - area(*second)
    return _interval(value, parts, metric, level, paired=True, clusters=clusters)


@dataclass(frozen=True)
class Mean:
    """A mean over training runs, with the uncertainty from training runs and evaluation points.

    Attributes
    ----------
    value : float
        The mean.
    standard_error : float
        Of the value.
    degrees : float
        Of freedom of Student's t, by Welch and Satterthwaite; infinite where nothing varies.
    few : tuple or None
        Where too few points vary for a variance (:func:`lib.bounds.few_vary`): their influences on
        the mean, the least and the largest possible one, and standard error and degrees of the
        training runs.
    """

    value: float
    standard_error: float
    degrees: float
    few: tuple[npt.NDArray[np.float64], float, float, float, float] | None = field(
        default=None, repr=False, compare=False
    )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval; NaN where nothing varies, which tells nothing of what might."""
        as_number("level", level, 0, 1)
        if self.few is not None:
            values, lowest, highest, error, degrees = self.few
            found = mean_interval(self.value, values, lowest, highest, level, least=_SMALL)
            half = float(stats.t.isf((1 - level) / 2, degrees)) * error if error else 0.0
            return found.low - half, found.high + half
        if self.standard_error == 0:
            return math.nan, math.nan
        half = float(stats.t.isf((1 - level) / 2, self.degrees)) * self.standard_error
        return self.value - half, self.value + half


def mean_over_seeds(values: npt.ArrayLike, point_variance: float = 0.0, n_points: int = 0) -> Mean:
    """The mean over independent training runs, with its uncertainty.

    Parameters
    ----------
    values : array_like of float, shape (seeds,)
        One per training, on the same evaluation points; at least two.
    point_variance : float
        Variance of the mean due to the draw of the points, which all training runs share.
    n_points : int
        Number of points, where their variance is given.

    Returns
    -------
    Mean
        Its variance is the sum of both parts.  Where both matter, a 95% interval of normal values
        holds the mean in at least 0.87 of the cases with 2 training runs, 0.92 with 3, 0.94 with 5.

    Examples
    --------
    >>> found = mean_over_seeds([0.91, 0.93, 0.92])
    >>> round(found.value, 3), round(found.standard_error, 4), found.degrees
    (0.92, 0.0058, 2.0)
    """
    values = as_predictions("values", values, ("seeds",)).astype(float)
    if len(values) < 2:
        raise ValueError(f"values must have at least 2 entries, got {len(values)}")
    require_finite("point_variance", point_variance, at_least=0)
    return _mean(values, point_variance, max(1, as_integer("n_points", n_points, 0) - 1))


def _mean(values: npt.NDArray[np.float64], point_variance: float, degrees: float) -> Mean:
    """Of one or more training runs; `degrees` are those of the variance due to the points."""
    value, seeds = float(values.mean()), 0.0
    if len(values) > 1:
        seeds = float(values.var(ddof=1)) / len(values)
    total = seeds + point_variance
    if total == 0:
        return Mean(value, 0.0, math.inf)
    # Fractions of the variance: squares of tiny variances would vanish.
    parts = (seeds / total) ** 2 / max(1, len(values) - 1) + (point_variance / total) ** 2 / degrees
    return Mean(value, math.sqrt(total), 1 / parts)


def compare_over_seeds(
    correct: npt.ArrayLike,
    score: npt.ArrayLike,
    other_correct: npt.ArrayLike,
    other_score: npt.ArrayLike,
    metric: str = "normalized_score",
) -> Mean:
    """The mean difference of an area between two methods, over training runs and points.

    Parameters
    ----------
    correct, score : array_like, shape (seeds, n)
        Of the first method: one row per training, one column per evaluation point.  With one row
        the points alone vary.
    other_correct, other_score : array_like, shape (seeds, n)
        Of the second.  Rows may stem from the same training runs or from others.
    metric : {"normalized_score", "selective_auc", "aurc", "augrc"}
        Which area.

    Returns
    -------
    Mean
        First minus second.

    Notes
    -----
    What chance does to a training at a point enters both parts of the variance, so that the
    standard error is too large, by a factor of the square root of two at most.  Where too few
    points vary for a variance, the interval is one of bounds (:func:`estimate`), widened by
    Student's for the training runs.  The level rests on independent training runs and points; for
    points in clusters, compare one training of each with :func:`compare`, which takes them.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> scores = score + 0.01 * rng.normal(size=(3, 400))
    >>> worse = rng.normal(size=(3, 400))
    >>> found = compare_over_seeds([correct] * 3, scores, [correct] * 3, worse)
    >>> found.interval()[1] < 0
    True
    """
    names = ("correct", "score", "other_correct", "other_score")
    given = dict(zip(names, (correct, score, other_correct, other_score), strict=True))
    same_rows(**given)
    same_rows(**{k: _one_row(v) for k, v in given.items()})
    stacks = [as_array(name, values) for name, values in given.items()]
    if any(a.shape != stacks[0].shape or a.ndim != 2 or not len(a) for a in stacks):
        raise ValueError(
            "correct, score, other_correct and other_score must share one shape (seeds, n), got "
            + ", ".join(str(a.shape) for a in stacks)
        )
    area = area_of(metric)
    rows = [
        (*as_scored(a, b), *as_scored(c, d, "other_")) for a, b, c, d in zip(*stacks, strict=True)
    ]
    differences = np.array([area(a, b) - area(c, d) for a, b, c, d in rows])
    parts = [
        difference_of(influences(a, b, metric), influences(c, d, metric)) for a, b, c, d in rows
    ]
    mean, lowest, highest = (np.mean(each, axis=0) for each in zip(*parts, strict=True))
    n = _enough(mean)
    few, _, effective = few_vary(mean, _SMALL)
    variance = float(np.mean(mean**2)) / n
    found = _mean(differences, variance, max(1.0, effective - 1))
    if not few:
        return found
    seeds = _mean(differences, 0.0, 1.0)
    rest = float(lowest), float(highest), seeds.standard_error, seeds.degrees
    return replace(found, few=(mean, *rest))


def _one_row(values: npt.ArrayLike) -> pd.Series | pd.DataFrame | None:
    """What has the names of points, of a table or list with one row per training."""
    if isinstance(values, pd.DataFrame):
        return values.T
    listed = values if isinstance(values, list | tuple) else ()
    return next((row for row in listed if isinstance(row, pd.Series)), None)


def points_needed(
    correct: npt.ArrayLike,
    score: npt.ArrayLike,
    other_correct: npt.ArrayLike,
    other_score: npt.ArrayLike,
    metric: str = "normalized_score",
    *,
    difference: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """How many evaluation points tell two methods apart.

    Parameters
    ----------
    correct, score, other_correct, other_score : array_like, shape (n,)
        Two methods on the same points: a pilot study.
    metric : {"normalized_score", "selective_auc", "aurc", "augrc"}
        Which area.
    difference : float, optional
        The true difference to detect; the observed one by default.
    alpha : float
        Level of the two-sided test, in (0, 1).
    power : float
        Probability of finding the difference, in (alpha, 1).

    Returns
    -------
    float
        (z_{1 - alpha/2} + z_power)^2 times the variance of the paired influence, over the squared
        difference; infinite if there is none.  At least 1.

    Raises
    ------
    ValueError
        If the pilot's influences do not vary, as where both methods are right everywhere: it then
        says nothing of the variance, and no number follows.

    Notes
    -----
    Level and power rest on points that are independent, in the pilot and in the study; points in
    clusters take more.

    Examples
    --------
    >>> margins = margin(probabilities)
    >>> points_needed(correct, score, correct, other) < len(correct)
    True
    >>> points_needed(correct, score, correct, margins) > len(correct)
    True
    """
    as_number("alpha", alpha, 0, 1)
    as_number("power", power, alpha, 1)
    delta = None if difference is None else as_number("difference", difference, -math.inf, math.inf)
    found = compare(correct, score, other_correct, other_score, metric)
    delta = found.value if delta is None else delta
    if delta == 0:
        return math.inf
    if found.standard_error == 0:
        raise ValueError(
            "correct and other_correct must have errors that the scores rank apart, got a pilot in"
            " which nothing varies, from which no number of points follows; use more points"
        )
    variance = found.standard_error**2 * len(as_array("correct", correct))
    z = stats.norm.isf(alpha / 2) + stats.norm.ppf(power)
    return max(1.0, float(z**2 * variance / delta**2))


def bootstrap(
    correct: npt.ArrayLike,
    score: npt.ArrayLike,
    other_correct: npt.ArrayLike | None = None,
    other_score: npt.ArrayLike | None = None,
    *,
    metric: str = "normalized_score",
    repetitions: int = 2000,
    level: float = 0.95,
    seed: int | np.random.Generator,
) -> Estimate:
    """Bootstrap an area, or its difference between two methods on the same points.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`.
    other_correct, other_score : array_like, shape (n,), optional
        A second method on the same points: the difference, first minus second, is then
        bootstrapped with the same resampled points for both.
    metric : {"normalized_score", "selective_auc", "aurc", "augrc"}
        Which area.
    repetitions : int
        Bootstrap samples, at least 100.
    level : float
        Confidence level, in (0, 1).
    seed : int or Generator
        Of the resampling.

    Returns
    -------
    Estimate
        With the percentile interval; where too few points vary for it to hold, with that of
        :func:`estimate` or :func:`compare`, which then are bounds.

    Notes
    -----
    A sample is a vector of how often each point was drawn; points are sorted once.  A group of m
    tied points with h correct ones after i0 points with k0 correct ones adds
    h + (k0 - i0 h / m) (H(i0 + m) - H(i0)) to the sum of the curve, H being harmonic numbers: a
    sample costs O(n), exactly.  Copies of one point are ties, too.

    The level rests on independent points, which are drawn one by one; for clusters there are
    :func:`estimate` and :func:`compare`.

    Examples
    --------
    >>> found = bootstrap(correct, score, repetitions=200, seed=1)
    >>> found.low < normalized_score(correct, score) < found.high
    True
    """
    same_rows(correct=correct, score=score, other_correct=other_correct, other_score=other_score)
    correct, score = as_scored(correct, score)
    area = area_of(metric)
    as_integer("repetitions", repetitions, 100)
    as_number("level", level, 0, 1)
    if (other_correct is None) != (other_score is None):
        raise ValueError("other_correct and other_score must be given both or not at all")
    methods = [(correct, score)]
    if other_correct is not None:
        methods.append(as_scored(other_correct, other_score, "other_"))
        _check_paired(correct, methods[1][0])
    rng = as_generator(seed)
    n = _enough(correct)
    harmonic = np.r_[0.0, np.cumsum(1.0 / np.arange(1, n + 1))]
    prepared = []
    for y, s in methods:
        order = np.argsort(-s, kind="stable")
        prepared.append((order, group_ends(s[order]), y[order]))
    samples = np.empty(repetitions)
    for b in range(repetitions):
        counts = np.bincount(rng.integers(0, n, n), minlength=n)
        areas = [
            _resampled(counts[order], ends, y, harmonic, metric == "augrc")
            for order, ends, y in prepared
        ]
        values = [_from_sums(*each, n, metric) for each in areas]
        samples[b] = values[0] - (values[1] if len(values) == 2 else 0.0)
    value = area(*methods[0]) - (area(*methods[1]) if len(methods) == 2 else 0.0)
    error = float(samples.std(ddof=1))
    parts = influences(*methods[0], metric)
    if len(methods) == 2:
        parts = difference_of(parts, influences(*methods[1], metric))
    if few_vary(parts[0], _SMALL)[0]:
        found = _interval(value, parts, metric, level, paired=len(methods) == 2)
        return replace(found, standard_error=error)
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, error, float(low), float(high), level)


def _from_sums(curve: float, right: int, n: int, metric: str) -> float:
    """The metric from the sum of the curve (of accepted wrong points for AUGRC)."""
    if metric == "augrc":
        return (curve - (n - right) / 2) / n**2
    area = curve / n
    if metric == "selective_auc":
        return area
    if metric == "aurc":
        return 1 - area
    if right in (0, n):
        return 0.0
    # mean over i of min(1, right / i)
    return (right + right * (_harmonic(n) - _harmonic(right))) / n - area


def _harmonic(n: int) -> float:
    if n < 32:
        return sum(1 / i for i in range(1, n + 1))
    return math.log(n) + 0.57721566490153286 + 1 / (2 * n) - 1 / (12 * n**2) + 1 / (120 * n**4)


def _interval(
    value: float,
    parts: Parts,
    metric: str,
    level: float,
    *,
    paired: bool = False,
    clusters: npt.ArrayLike | None = None,
) -> Estimate:
    """The interval of influences, or of their sums by cluster, within the metric's range."""
    as_number("level", level, 0, 1)
    values, lowest, highest = parts
    n = count = _enough(values)
    error = float(np.sqrt(np.mean(values**2) / n))
    if clusters is not None:
        names = as_names("clusters", clusters, n)
        sums, size = _by_cluster(values, names)
        count = len(sums)
        values = sums * count / n
        error = float(np.sqrt(np.mean(values**2) / (count - 1)))
        # A cluster in which every point has the most extreme influence.
        lowest, highest = lowest * size * count / n, highest * size * count / n
    # The normalized score of an order in reverse is largest at an accuracy of 1/2, where values
    # cancel: its curvature, and that of the bound, times the square of what accuracies miss.
    bend = stats.norm.isf((1 - level) / 2) ** 2 / (2 * count) if metric == "normalized_score" else 0
    least = _SMALL if clusters is None else 0
    found = mean_interval(float(value), values, lowest, highest, level, remainder=bend, least=least)
    most = 0.5 if metric == "augrc" else 1.0
    low, high = max(found.low, -most if paired else 0.0), min(found.high, most)
    return Estimate(float(value), error, low, high, level)


def _by_cluster(
    values: npt.NDArray[np.float64], names: npt.NDArray
) -> tuple[npt.NDArray[np.float64], int]:
    """Sums by cluster, and the size of the largest one."""
    _, place, sizes = np.unique(names, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise ValueError(f"clusters must be at least 2, got {len(sizes)}: one gives no interval")
    return np.bincount(place, weights=values), int(sizes.max())


def _enough(points: npt.NDArray) -> int:
    if len(points) < 2:
        raise ValueError(
            f"correct must have at least 2 entries, got {len(points)}: one point gives no interval"
        )
    return len(points)


def _check_paired(first: npt.NDArray, second: npt.NDArray) -> None:
    if len(first) != len(second):
        raise ValueError(
            f"other_correct must be about the same points as correct ({len(first)}), got"
            f" {len(second)}"
        )


@njit(cache=True)
def _resampled(counts, ends, y, harmonic, generalized):
    """Sum over ranks of the curve, and the number of correct points, of a resampled data set."""
    rank, hits, total, start = 0, 0, 0.0, 0
    for end in ends:
        m, h = 0, 0
        for i in range(start, end):
            m += counts[i]
            if y[i]:
                h += counts[i]
        start = end
        if m:
            if generalized:  # accepted wrong points, linear within a group
                total += m * (rank - hits) + (m - h) * (m + 1) / 2
            else:
                slope = hits - rank * h / m
                total += h + slope * (harmonic[rank + m] - harmonic[rank])
            rank += m
            hits += h
    return total, hits
