"""Other metrics of an abstaining classifier: what is observed, and what takes an oracle.

With the score S, larger is better, and abstention R:

=======================  =============================================  =======================
selective score          E[S | R = 0]                                   observed
coverage                 P(R = 0)                                       observed
Chow's score             E[S 1(R = 0)] + reward P(R = 1)                observed
classification quality   theta = E[S 1(R = 0)] + E[(1 - S) 1(R = 1)]    oracle, or estimated
counterfactual score     psi = E[S]                                     oracle, or estimated
=======================  =============================================  =======================

The last two need scores that are missing, but theta + psi = 2 E[S 1(R = 0)] + P(R = 1) is observed,
so that who estimates one estimates the other.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lib.check import as_answers, as_flags, as_number, as_unit, as_vector, same_rows
from lib.counterfactual.bounds import Reach, Units, bounded_interval
from lib.counterfactual.result import Estimate
from lib.ties import ROUNDING

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Metric:
    """A mean with its standard error.

    Attributes
    ----------
    value : float
        The mean.
    stderr : float
        Standard deviation (divisor n) over sqrt(n); NaN for a single value, of which the spread is
        unknown.
    interval : tuple of float
        For independent points.  Of zeros and ones (in Chow's score with the reward among them) a
        bound that holds for any number of errors, Clopper and Pearson's or Gaffke's; of other
        values Student's, with the degrees of freedom that their kurtosis gives, and NaN where they
        are all equal and their range is not known.
    """

    value: float
    stderr: float
    interval: tuple[float, float]


def selective_score(
    scores: npt.ArrayLike, abstained: npt.ArrayLike, *, level: float = 0.95
) -> Metric:
    """Mean score of the answers, E[S | R = 0]: observed.

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        Score of each answer, larger is better; ignored where the classifier abstained, where it may
        be NaN.
    abstained : array_like of bool, shape (n,)
        Where it abstained.
    level : float
        Of the confidence interval, in (0, 1).

    Returns
    -------
    Metric
        Its n is the number of answers, of which there must be one.

    References
    ----------
    P4, comparison with existing evaluation metrics.

    Examples
    --------
    >>> metric = selective_score([1.0, 0.0, np.nan, 1.0], [False, False, True, False])
    >>> round(metric.value, 3)
    0.667
    """
    s, r = _read(scores, abstained)
    if r.all():
        raise ValueError("abstained must be False somewhere: without an answer there is no mean")
    return _mean(s[~r], level)


def coverage(abstained: npt.ArrayLike, *, level: float = 0.95) -> Metric:
    """Fraction of the points that are answered, P(R = 0): observed.

    Parameters
    ----------
    abstained : array_like of bool, shape (n,)
        Where the classifier abstained.
    level : float
        Of the confidence interval, in (0, 1).

    Returns
    -------
    Metric

    Examples
    --------
    >>> coverage([False, False, True, False]).value
    0.75
    """
    return _mean((~as_flags("abstained", abstained)).astype(float), level)


def chow_score(
    scores: npt.ArrayLike, abstained: npt.ArrayLike, reward: float, *, level: float = 0.95
) -> Metric:
    """Mean of S where the classifier answered and of `reward` where it abstained: observed.

    Parameters
    ----------
    scores, abstained, level
        As for :func:`selective_score`.
    reward : float
        What an abstention earns, on the scale of the scores.

    Returns
    -------
    Metric

    Notes
    -----
    Chow's cost c of an abstention, an error costing 1, is a reward of 1 - c with the zero-one
    score: the result is then 1 minus the expected cost.  The code of P4's authors is documented to
    sum S + gamma over the *answers*; divided by n that is this score with a reward of -gamma, plus
    gamma.  So a positive gamma makes abstaining costly, and the order of classifiers is the same.

    References
    ----------
    Chow, On optimum recognition error and reject tradeoff, 1970.

    Examples
    --------
    >>> chow_score([1.0, 0.0, 0.0, 1.0], [False, False, True, False], reward=0.5).value
    0.625
    """
    reward = as_number("reward", reward, -math.inf, math.inf)
    s, r = _read(scores, abstained)
    few = (0.0, 1.0) if r.all() else (0.0, reward, 1.0)
    return _mean(np.where(r, reward, s), level, few=few)


def classification_quality(
    scores: npt.ArrayLike, abstained: npt.ArrayLike, *, level: float = 0.95
) -> Metric:
    """How often a classifier answers where it is good and abstains where it is bad: an oracle's.

    theta = E[S | R = 0] P(R = 0) + E[1 - S | R = 1] P(R = 1).

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        Score in [0, 1] of *every* point, so also of the answers that were withheld.
    abstained, level
        As for :func:`selective_score`.

    Returns
    -------
    Metric

    References
    ----------
    Condessa, Bioucas-Dias and Kovacevic, Performance measures for classification systems with
    rejection, 2017.  P4, comparison with existing evaluation metrics.

    Examples
    --------
    >>> classification_quality([1.0, 0.0, 0.2, 1.0], [False, False, True, False]).value
    0.7
    """
    same_rows(scores=scores, abstained=abstained)
    r = as_flags("abstained", abstained)
    s = as_unit("scores", as_vector("scores", scores, len(r)))
    return _mean(np.where(r, 1.0 - s, s), level, limits=(0.0, 1.0))


def classification_quality_estimate(estimate: Estimate) -> Estimate:
    """Estimate the classification quality without an oracle, from an estimate of psi.

    theta = 2 E[S 1(R = 0)] + P(R = 1) - psi, of which the first two are observed.

    Parameters
    ----------
    estimate : Estimate
        Of a counterfactual score (:func:`lib.counterfactual.counterfactual_score`), or of the
        difference of two, from scores in [0, 1].

    Returns
    -------
    Estimate
        Of theta, or of theta_A - theta_B: its influence values are those of the observed part,
        2 S 1(R = 0) + R, minus those of `estimate`.  Level, clusters, nuisance functions
        and diagnostics are those of `estimate`, and the p-value is for theta = 0.

    Notes
    -----
    The observed part does not depend on the folds, so what the spread over repeated splits added to
    the variance of psi is added to that of theta.

    The standard error may be well below that of :func:`classification_quality`, which sees more:
    that mean does not use that S and R are independent given X, as this estimate does.

    References
    ----------
    P4: "it can also be estimated given our tools, as theta + psi is an observable quantity".

    Examples
    --------
    >>> quality = classification_quality_estimate(estimate)
    >>> 0 < quality.value < 1
    True
    """
    if not isinstance(estimate, Estimate):
        raise TypeError(f"estimate must be an Estimate, got {type(estimate).__name__}")
    influence = -estimate.influence
    for sign, nuisances in zip((1, -1), estimate.nuisances, strict=False):
        r, s = nuisances.abstained, nuisances.scores
        as_unit("scores of estimate", s[~r])
        influence = influence + sign * np.where(r, 1.0, 2.0 * s)
    units = Units.of(influence, estimate.clusters)
    one = Units.of(estimate.influence, estimate.clusters)
    of_splits = max(0.0, estimate.stderr**2 - one.stderr**2)
    return replace(
        estimate,
        value=units.mean,
        stderr=math.sqrt(units.stderr**2 + of_splits),
        influence=influence,
        reach=_reach_of_quality(estimate),
    )


def _reach_of_quality(estimate: Estimate) -> Reach | None:
    """Of the observed part less the influence value, at a score of 0 and of 1."""
    reach = estimate.reach
    if reach is None or not np.isin(np.abs(reach.limits), (0, 1)).all():
        return None
    # Two scores at most: with A wrong and B right, and the other way round.
    single = len(estimate.nuisances) == 1
    ends = -reach.low - (0.0 if single else 2.0), 2.0 - reach.high
    seen = np.concatenate([reach.worse, reach.better])
    return replace(reach, low=np.minimum(*ends), high=np.maximum(*ends), worse=seen, better=seen)


def _read(scores: npt.ArrayLike, abstained: npt.ArrayLike) -> tuple[Array, Flags]:
    same_rows(scores=scores, abstained=abstained)
    r = as_flags("abstained", abstained)
    return as_answers("scores", scores, r), r


def _mean(
    values: Array, level: float, limits: tuple[float, float] | None = None, few: tuple = (0.0, 1.0)
) -> Metric:
    """`few` are values of which all consist where errors can be counted; `limits` bound others."""
    level = as_number("level", level, 0, 1)
    value, n = float(values.mean()), len(values)
    stderr = float(values.std() / math.sqrt(n)) if n > 1 else math.nan
    if np.isin(values, few).all():
        return Metric(value, stderr, bounded_interval(values, (min(few), max(few)), level))
    if n > 1 and np.ptp(values) > ROUNDING * np.abs(values).max():
        half = stderr * Units.of(values, None).quantile(level)
        low, high = (-math.inf, math.inf) if limits is None else limits
        return Metric(value, stderr, (max(value - half, low), min(value + half, high)))
    found = (math.nan, math.nan) if limits is None else bounded_interval(values, limits, level)
    return Metric(value, stderr, found)
