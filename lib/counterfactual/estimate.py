"""The counterfactual score of an abstaining classifier, and the difference of two.

A classifier abstains (R = 1) on some inputs X, and its score S is seen only where it does not.  The
*counterfactual score* is psi = E[S]: how good it would be if it had to answer always.  It is
identified if S and R are independent given X (missing at random) and no input is always abstained
on (positivity), and then equals E[mu0(X)] with mu0(x) = E[S | R = 0, X = x].  With the propensity
pi(x) = P(R = 1 | X = x) its efficient influence function is

    mu0(X) + (1 - R) / (1 - pi(X)) (S - mu0(X)) - psi.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import is_classifier

from lib.check import (
    as_answers,
    as_flags,
    as_generator,
    as_integer,
    as_matrix,
    as_number,
    as_range,
    as_real,
    as_vector,
    require_choice,
    same_rows,
)
from lib.counterfactual.bounds import Units, cluster_numbers, reach_of
from lib.counterfactual.diagnostics import PositivityWarning
from lib.counterfactual.learners import learner_pair, predict_mean
from lib.counterfactual.result import Estimate

#: Doubly robust, inverse propensity weighting, and regression alone.
ESTIMATORS = ("dr", "ipw", "plug-in")

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Nuisances:
    """What is known of one classifier, point by point, each from folds that the point is not in.

    Whatever holds them is read into arrays once, here; propensities outside [0, 1] are refused.

    Attributes
    ----------
    abstained : ndarray of bool, shape (n,)
        R.
    scores : ndarray, shape (n,)
        S, zero where the classifier abstained.
    propensity : ndarray, shape (n,)
        Estimate of pi(X), not clipped.
    outcome : ndarray, shape (n,)
        Estimate of mu0(X).
    """

    abstained: npt.NDArray[np.bool_]
    scores: Array
    propensity: Array
    outcome: Array

    def __post_init__(self) -> None:
        same_rows(**vars(self))
        r = as_flags("abstained", self.abstained)
        kept: dict[str, Any] = {"abstained": r, "scores": as_answers("scores", self.scores, r)}
        for name in ("propensity", "outcome"):  # NaN: not known, and refused where it is read
            values = as_real(name, getattr(self, name)).astype(float)
            if values.shape != r.shape:
                raise ValueError(f"{name} must be of shape ({len(r)},), got shape {values.shape}")
            kept[name] = values
        outside = (kept["propensity"] < 0) | (kept["propensity"] > 1)
        if outside.any():
            raise ValueError(
                f"propensity must be probabilities of an abstention, in [0, 1], got "
                f"{kept['propensity'][outside][0]:g} ({int(outside.sum())} such values)"
            )
        for name, values in kept.items():
            object.__setattr__(self, name, values)


def counterfactual_score(
    X: npt.ArrayLike,
    scores: npt.ArrayLike,
    abstained: npt.ArrayLike,
    *,
    estimator: str = "dr",
    learner: Any = "super",
    folds: int = 2,
    repeats: int = 1,
    clip: float | None = None,
    level: float = 0.95,
    score_range: tuple[float, float] | None = None,
    clusters: npt.ArrayLike | None = None,
    rng: np.random.Generator | int,
) -> Estimate:
    """Estimate how well an abstaining classifier would do if it had to answer always.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs, or features of them that abstention and score depend on.
    scores : array_like of float, shape (n,)
        Score of each answer, larger is better; ignored where the classifier abstained, where it
        may be NaN.
    abstained : array_like of bool, shape (n,)
        Where it abstained.
    estimator : {"dr", "ipw", "plug-in"}
        Doubly robust, inverse propensity weighting, or mean of the outcome model.  Intervals of the
        latter two rely on a model being right; they are there for comparison.
    learner : {"super", "forest", "linear"} or pair of estimators
        Of propensity and outcome: see :func:`lib.counterfactual.learner_pair`.
    folds : int
        Of cross-fitting: models predict only points that they were not fitted to.
    repeats : int
        Odd number of random splits into folds, of which the median estimate counts.
    clip : float, optional
        epsilon in (0, 1): propensities above 1 - epsilon count as that.
        :func:`default_clip` if not given.
    level : float
        Of the confidence interval, in (0, 1).
    score_range : tuple of float, optional
        Least and largest possible score.  If given, or if all scores are 0 or 1, the interval is a
        bound that holds for few answers and few errors too; else Student's (:class:`Estimate`).
    clusters : array_like of int or str, shape (n,), optional
        Which rows belong together, such as the pictures of one patient: clusters must be
        independent, rows within need not be.  If not given, *rows must be independent*.
    rng : numpy.random.Generator or int
        Of folds, which split no cluster, and learners.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        If the classifier answered in none of the points that a model is to be fitted to.

    Warns
    -----
    PositivityWarning
        If abstention looks deterministic.

    Notes
    -----
    If the classifier never abstained the estimate is the mean score with its plain interval,
    whatever the estimator, and the diagnostics say so.

    References
    ----------
    P4, estimation.  Chernozhukov et al., Double/debiased machine learning, 2018, Definition 3.3,
    for the median over splits.

    Examples
    --------
    >>> estimate = counterfactual_score(X, a, r, learner="linear", clip=0.2, rng=1)
    >>> estimate.estimator, estimate.interval[0] < estimate.value < estimate.interval[1]
    ('dr', True)
    """
    given = [("scores", scores, "abstained", abstained)]
    options = _options(estimator, clip, level, score_range)
    return _estimate(X, given, learner, (folds, repeats), options, clusters, rng)


def counterfactual_difference(
    X: npt.ArrayLike,
    scores_a: npt.ArrayLike,
    abstained_a: npt.ArrayLike,
    scores_b: npt.ArrayLike,
    abstained_b: npt.ArrayLike,
    *,
    estimator: str = "dr",
    learner: Any = "super",
    folds: int = 2,
    repeats: int = 1,
    clip: float | None = None,
    level: float = 0.95,
    score_range: tuple[float, float] | None = None,
    clusters: npt.ArrayLike | None = None,
    rng: np.random.Generator | int,
) -> Estimate:
    """Estimate how much better A would be than B if both had to answer always.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs, the same for both.
    scores_a, scores_b : array_like of float, shape (n,)
        Scores, larger is better; ignored where the classifier abstained.
    abstained_a, abstained_b : array_like of bool, shape (n,)
        Where each abstained.
    estimator, learner, folds, repeats, clip, level, score_range, clusters, rng
        As for :func:`counterfactual_score`.

    Returns
    -------
    Estimate
        Of Delta = psi_A - psi_B.

    References
    ----------
    P4, theorem on the difference: its influence values are differences of influence values.

    Examples
    --------
    >>> found = counterfactual_difference(X, a, r, b, s, rng=1, **fit)
    >>> round(found.value, 1), len(found.nuisances)
    (0.0, 2)
    """
    given = [
        ("scores_a", scores_a, "abstained_a", abstained_a),
        ("scores_b", scores_b, "abstained_b", abstained_b),
    ]
    options = _options(estimator, clip, level, score_range)
    return _estimate(X, given, learner, (folds, repeats), options, clusters, rng)


def default_clip(n: int) -> float:
    """The level of clipping used if none is given: 5 / (sqrt(n) log n), at most 0.2.

    Parameters
    ----------
    n : int
        Points.

    References
    ----------
    Gruber, Phillips, Lee and van der Laan, Data-adaptive selection of the propensity score
    truncation level, American Journal of Epidemiology, 2022.

    Examples
    --------
    >>> round(default_clip(10_000), 4)
    0.0054
    """
    n = as_integer("n", n, 1)
    return min(0.2, 5.0 / (math.sqrt(n) * math.log(n))) if n > 1 else 0.2


def fold_numbers(n: int, folds: int, rng: np.random.Generator | int) -> npt.NDArray[np.int64]:
    """Random folds of equal size, up to one point: the number of each point's fold, from 0.

    Examples
    --------
    >>> np.bincount(fold_numbers(7, 2, rng=0)).tolist()
    [4, 3]
    """
    n, folds, rng = as_integer("n", n, 1), as_integer("folds", folds, 2), as_generator(rng, "rng")
    if folds > n:
        raise ValueError(f"folds must be at most the number of points, {n}, got {folds}")
    return rng.permutation(np.arange(n) % folds)


def fit_nuisances(
    X: npt.ArrayLike,
    scores: npt.ArrayLike,
    abstained: npt.ArrayLike,
    fold: npt.ArrayLike,
    learner: Any = "super",
    *,
    rng: np.random.Generator | int,
    only: int | None = None,
    names: tuple[str, str] = ("scores", "abstained"),
) -> Nuisances:
    """Cross-fit propensity and outcome model of one classifier.

    Parameters
    ----------
    X, scores, abstained, learner, rng
        As for :func:`counterfactual_score`.
    fold : array_like of int, shape (n,)
        The fold of each point (:func:`fold_numbers`).
    only : int, optional
        Predict the points of this fold alone; the others' values are NaN.
    names : tuple of str
        What messages call `scores` and `abstained`.

    Returns
    -------
    Nuisances

    Notes
    -----
    Where fewer than two points outside a fold are abstained on, or answered, the propensity there
    is the fraction of abstentions.  Where only one point outside a fold is answered, or where a
    classifier is to learn scores that are all the same, the outcome is their mean.

    Examples
    --------
    >>> fold = fold_numbers(600, 2, rng=0)
    >>> nuisances = fit_nuisances(X, a, r, fold, "linear", rng=0)
    >>> nuisances.propensity.shape, bool((nuisances.propensity > 0).all())
    ((600,), True)
    """
    same_rows(**{"X": X, names[0]: scores, names[1]: abstained, "fold": fold})
    x, rng = as_matrix("X", X), as_generator(rng, "rng")
    r = as_flags(names[1], abstained, len(x))
    s = as_answers(names[0], scores, r)
    fold = as_vector("fold", fold, len(x))
    if (fold != np.round(fold)).any():
        raise ValueError(f"fold must be whole numbers, got {fold[fold != np.round(fold)][0]:g}")
    if only is not None and only not in fold:
        raise ValueError(f"only must be a number in fold, got {only!r}")
    if r.all():
        raise ValueError(
            f"{names[1]} must be False somewhere: of a classifier that never answers nothing is "
            "known"
        )
    propensity, outcome = np.full(len(x), np.nan), np.full(len(x), np.nan)
    for number in np.unique(fold) if only is None else [only]:
        inside, outside = fold == number, fold != number
        seen = outside & ~r
        if not seen.any():
            raise ValueError(
                f"{names[1]} must be False outside every fold: all {int(outside.sum())} points "
                "outside one of them are abstained on, so there is no score to learn from; use "
                "fewer folds or more data"
            )
        first, second = learner_pair(learner, rng)
        share = r[outside].mean()
        if min(r[outside].sum(), seen.sum()) < 2:
            propensity[inside] = share
        else:
            first.fit(x[outside], r[outside])
            # Of the two columns of probabilities, that of abstaining.
            column = list(first.classes_).index(True)
            propensity[inside] = first.predict_proba(x[inside])[:, column]
        if seen.sum() < 2 or (is_classifier(second) and np.ptp(s[seen]) == 0):
            outcome[inside] = s[seen].mean()
        else:
            second.fit(x[seen], s[seen])
            outcome[inside] = predict_mean(second, x[inside])
    return Nuisances(r, s, propensity, outcome)


def influence_values(nuisances: Nuisances, estimator: str = "dr", clip: float = 0.0) -> Array:
    """Influence values of an estimator, not centered: their mean is the estimate.

    Parameters
    ----------
    nuisances : Nuisances
        Of one classifier.
    estimator : {"dr", "ipw", "plug-in"}
        Which one.
    clip : float
        epsilon in [0, 1).

    Returns
    -------
    ndarray, shape (n,)

    Raises
    ------
    ValueError
        If a weight would be infinite.

    References
    ----------
    P4, estimation: the doubly robust approach.

    Examples
    --------
    >>> values = influence_values(estimate.nuisances[0], clip=0.2)
    >>> values.shape, bool(abs(values.mean() - estimate.value) < 1e-12)
    ((600,), True)
    """
    require_choice("estimator", estimator, ESTIMATORS)
    if clip != 0:
        as_number("clip", clip, 0, 1)
    r, s = nuisances.abstained, nuisances.scores
    propensity = as_vector("propensity", nuisances.propensity)
    outcome = as_vector("outcome", nuisances.outcome)
    if not r.any():
        return s.copy()
    if estimator == "plug-in":
        return outcome.copy()
    # P4, problem setup: pi(x) is the probability to abstain, kept below 1 - epsilon, so that no
    # weight exceeds 1 / epsilon.
    answers = 1.0 - np.minimum(propensity, 1.0 - clip)
    if (answers[~r] <= 0).any():
        raise ValueError(
            "clip must be above 0: the propensity to abstain is 1 at points that were answered, "
            f"{int((answers[~r] <= 0).sum())} of them"
        )
    # (1 - R) / (1 - pi): a row that abstained has no score to weigh.
    weight = np.where(r, 0.0, 1.0 / np.where(r, 1.0, answers))
    if estimator == "ipw":
        return weight * s
    # The outcome model, corrected by what it misses where answers are seen: right if either of the
    # two models is (double robustness).
    return outcome + weight * (s - outcome)


def estimate_from_nuisances(
    nuisances: Nuisances | Sequence[Nuisances],
    *,
    estimator: str = "dr",
    clip: float | None = None,
    level: float = 0.95,
    score_range: tuple[float, float] | None = None,
    clusters: npt.ArrayLike | None = None,
) -> Estimate:
    """Estimate from nuisance functions that are known, or were fitted elsewhere.

    Parameters
    ----------
    nuisances : Nuisances or sequence of one or two
        Of the classifier, or of A and B for their difference, on the same points.  Propensities are
        in [0, 1]; an outcome may be beyond the scores, as the prediction of a line is.
    estimator, clip, level, score_range, clusters
        As for :func:`counterfactual_score`.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> known = Nuisances(
    ...     abstained=np.array([False, False, True, False]),
    ...     scores=np.array([1.0, 0.0, 0.0, 1.0]),
    ...     propensity=np.full(4, 0.25),
    ...     outcome=np.full(4, 0.6),
    ... )
    >>> round(estimate_from_nuisances(known, clip=0.1).value, 3)
    0.667
    """
    pair = as_pair(nuisances)
    n = len(pair[0].scores)
    options = _options(estimator, clip, level, score_range)
    codes = None if clusters is None else cluster_numbers(clusters, n)
    return _from(pair, options, codes)


@dataclass(frozen=True)
class _Options:
    """How to estimate, checked."""

    estimator: str
    clip: float | None
    level: float
    score_range: tuple[float, float] | None


def _options(estimator: Any, clip: Any, level: Any, score_range: Any) -> _Options:
    return _Options(
        require_choice("estimator", estimator, ESTIMATORS),
        None if clip is None else as_number("clip", clip, 0, 1),
        as_number("level", level, 0, 1),
        None if score_range is None else as_range("score_range", score_range),
    )


def _from(pair: tuple[Nuisances, ...], options: _Options, codes: Any) -> Estimate:
    estimator, clip = options.estimator, options.clip
    if clip is None:
        clip = default_clip(len(pair[0].scores))
    influence = influence_values(pair[0], estimator, clip)
    if len(pair) == 2:
        # Point by point: what two classifiers have in common cancels before the variance is taken.
        influence = influence - influence_values(pair[1], estimator, clip)
    reach = reach_of(pair, estimator, clip, options.score_range)
    units = Units.of(influence, codes)
    return Estimate(
        units.mean, units.stderr, influence, options.level, estimator, clip, pair, reach, codes
    )


def as_pair(nuisances: Any) -> tuple[Nuisances, ...]:
    """Nuisances of one classifier or of two, of the same points."""
    pair = (nuisances,) if isinstance(nuisances, Nuisances) else tuple(nuisances)
    if not 1 <= len(pair) <= 2 or not all(isinstance(item, Nuisances) for item in pair):
        raise ValueError("nuisances must be those of one classifier or of two")
    sizes = [len(item.scores) for item in pair]
    if len(set(sizes)) > 1:
        raise ValueError(f"nuisances must be of the same points, got {sizes}")
    return pair


def match_rows(X: Any, classifiers, clusters: Any = None) -> None:
    """Refuse pandas objects of other rows among inputs, scores and abstentions of each."""
    same_rows(
        X=X, clusters=clusters, **{n: v for a, s, b, r in classifiers for n, v in ((a, s), (b, r))}
    )


def as_classifiers(classifiers, n: int) -> list[tuple[Array, npt.NDArray[np.bool_], Any]]:
    """Scores and abstentions of each, given as names and values, and these names."""
    found = []
    for scores_name, scores, abstained_name, abstained in classifiers:
        r = as_flags(abstained_name, abstained, n)
        found.append((as_answers(scores_name, scores, r), r, (scores_name, abstained_name)))
    return found


def fit_all(x: Array, classifiers, fold, learner: Any, rng) -> tuple[Nuisances, ...]:
    """Cross-fit each; one that never abstained needs no model."""
    return tuple(
        fit_nuisances(x, s, r, fold, learner, rng=rng, names=names)
        if r.any()
        else Nuisances(r, s, np.zeros(len(x)), s)
        for s, r, names in classifiers
    )


def _estimate(X, classifiers, learner, splits, options: _Options, clusters, rng) -> Estimate:
    """Of classifiers given as names and values of their scores and abstentions."""
    folds, repeats = splits
    match_rows(X, classifiers, clusters)
    x, rng = as_matrix("X", X), as_generator(rng, "rng")
    n = len(x)
    if as_integer("repeats", repeats, 1) % 2 == 0:
        raise ValueError(f"repeats must be odd, so that one split is the median, got {repeats}")
    learner_pair(learner, np.random.default_rng(0))  # complains before any work
    given = as_classifiers(classifiers, n)
    codes = None if clusters is None else cluster_numbers(clusters, n)
    estimates = []
    for _ in range(repeats):
        fold = cluster_folds(n, folds, codes, rng)
        estimates.append(_from(fit_all(x, given, fold, learner, rng), options, codes))
    # Of an odd number of splits: the estimate in the middle is one of them, with its own
    # influences.
    middle = sorted(estimates, key=lambda e: e.value)[repeats // 2]
    if repeats > 1:
        # Chernozhukov et al. (2018): the median over splits, with what the splits differ by in its
        # variance.
        spread = [e.stderr**2 + (e.value - middle.value) ** 2 for e in estimates]
        middle = replace(middle, stderr=float(math.sqrt(np.median(spread))))
    middle = replace(middle, remarks=copies(x, given, codes))
    for diagnostics, (_, _, names) in zip(middle.diagnostics, given, strict=True):
        for text in diagnostics.positivity:
            warnings.warn(f"{names[1]}: {text}", PositivityWarning, stacklevel=3)
    return middle


def cluster_folds(n: int, folds: int, codes: Any, rng: np.random.Generator):
    """Folds of points, or of clusters as wholes."""
    if codes is None:
        return fold_numbers(n, folds, rng)
    count = int(codes.max()) + 1
    if as_integer("folds", folds, 2) > count:
        raise ValueError(f"folds must be at most the number of clusters, {count}, got {folds}")
    return fold_numbers(count, folds, rng)[codes]


def copies(x: Array, given: Sequence, codes: Any) -> tuple[str, ...]:
    """Say so if most rows repeat another, which independent ones seldom do."""
    columns = [part for s, r, _ in given for part in (s, r)]
    table = pd.DataFrame(np.column_stack([x, *columns]))
    same = int(table.duplicated().sum())
    if codes is not None or 2 * same < len(x):
        return ()
    return (
        f"{same} of {len(x)} rows repeat the features, score and abstention of another: if they "
        "are copies, the interval is too narrow; leave them out, or give clusters",
    )
