"""How little a difference of counterfactual scores can vary, and what the answers of both add.

Nothing that is estimated without further assumptions varies less than the efficiency bound.  Rows
where both classifiers answered show the difference itself: *mixed estimation* uses them, under an
assumption that the bound does without.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.check import (
    as_generator,
    as_matrix,
    as_number,
    as_range,
    as_vector,
    require_number,
    same_rows,
)
from lib.counterfactual.bounds import Units, cluster_numbers, reach_of
from lib.counterfactual.estimate import (
    Estimate,
    Nuisances,
    as_classifiers,
    cluster_folds,
    copies,
    default_clip,
    fit_all,
    influence_values,
    match_rows,
)


def efficiency_bound(
    propensities: Sequence[npt.ArrayLike],
    outcomes: Sequence[npt.ArrayLike],
    variances: Sequence[npt.ArrayLike],
    covariance: npt.ArrayLike | None = None,
) -> float:
    """Least variance of a counterfactual score or a difference of two, times the points.

    Parameters
    ----------
    propensities : sequence of one or two array_like, shape (n,)
        True pi(x) in [0, 1) of the classifier, or of A and B, at points drawn from the inputs or on
        a grid.
    outcomes : sequence of as many array_like, shape (n,)
        True mu0(x).
    variances : sequence of as many array_like, shape (n,)
        True variances of the scores given X.
    covariance : array_like, shape (n,), optional
        Of the two scores given X; zero if not given.  A and B abstain independently given X.

    Returns
    -------
    float
        Variance of the efficient influence function.  Divided by the number of points it bounds the
        variance of every regular estimator.

    Notes
    -----
    Each classifier's scores are missing at random, and no more is assumed.  If scores and
    abstentions of both are also *jointly* independent given X, less can be reached.

    References
    ----------
    P4, theorem on estimating the score; Hahn, On the role of the propensity score in efficient
    semiparametric estimation of average treatment effects, 1998.

    Examples
    --------
    >>> efficiency_bound([np.full(4, 0.5)], [np.full(4, 0.8)], [np.full(4, 0.16)])
    0.32
    """
    lists = {"propensities": propensities, "outcomes": outcomes, "variances": variances}
    same_rows(
        **{f"{name}[{i}]": v for name, vs in lists.items() for i, v in enumerate(vs)},
        covariance=covariance,
    )
    count = len(propensities)
    if count not in (1, 2):
        raise ValueError(f"propensities must be those of one classifier or of two, got {count}")
    n = len(as_vector("propensities", propensities[0]))
    parts = {}
    for name, values in lists.items():
        if len(values) != count:
            raise ValueError(f"{name} must be of as many classifiers, {count}, got {len(values)}")
        parts[name] = np.array([as_vector(name, one, n) for one in values])
    pi, mu, variance = parts.values()
    if ((pi < 0) | (pi >= 1)).any():
        raise ValueError(f"propensities must be in [0, 1), got {pi[(pi < 0) | (pi >= 1)][0]:g}")
    if (variance < 0).any():
        raise ValueError(f"variances must be at least 0, got {variance.min():g}")
    shared = as_vector("covariance", np.zeros(n) if covariance is None else covariance, n)
    noise = (variance / (1 - pi)).sum(axis=0) - (2 * shared if count == 2 else 0.0)
    return float((mu[0] - mu[1] if count == 2 else mu[0]).var() + noise.mean())


def mixed_difference(
    X: npt.ArrayLike,
    scores_a: npt.ArrayLike,
    abstained_a: npt.ArrayLike,
    scores_b: npt.ArrayLike,
    abstained_b: npt.ArrayLike,
    *,
    weight: float | None = None,
    learner: Any = "super",
    folds: int = 2,
    clip: float | None = None,
    level: float = 0.95,
    score_range: tuple[float, float] | None = None,
    clusters: npt.ArrayLike | None = None,
    rng: np.random.Generator | int,
) -> Estimate:
    """Difference of two counterfactual scores that uses observed differences where both answered.

    Parameters
    ----------
    X, scores_a, abstained_a, scores_b, abstained_b, learner, folds, clip, level, score_range,
    clusters, rng
        As for :func:`lib.counterfactual.counterfactual_difference`.
    weight : float, optional
        In [0, 1]: of the doubly robust mean of the differences, the rest being that of
        :func:`counterfactual_difference`.  The one of least variance on these data if not given.

    Returns
    -------
    Estimate
        Its `estimator` is ``"mixed"``; its nuisances are those of A and B.

    Raises
    ------
    ValueError
        If there are no points that both answered.

    Notes
    -----
    It needs more than each classifier's scores missing at random: their *differences* must be
    independent, given X, of whether both answered.  Propensities of an abstention of either are
    clipped at 1 - clip**2, as A and B may abstain independently.

    References
    ----------
    The authors' public code of P4 (``mixed_estimation``), which weighs by half or by the inverse
    variances on a tenth of the points.

    Examples
    --------
    >>> mixed = mixed_difference(X, a, r, b, s, rng=1, **fit)
    >>> mixed.stderr < counterfactual_difference(X, a, r, b, s, rng=1, **fit).stderr
    True
    """
    classifiers = [
        ("scores_a", scores_a, "abstained_a", abstained_a),
        ("scores_b", scores_b, "abstained_b", abstained_b),
    ]
    match_rows(X, classifiers, clusters)
    x, rng = as_matrix("X", X), as_generator(rng, "rng")
    n = len(x)
    level = as_number("level", level, 0, 1)
    clip = default_clip(n) if clip is None else as_number("clip", clip, 0, 1)
    if weight is not None:
        require_number("weight", weight, at_least=0, at_most=1)
    score_range = None if score_range is None else as_range("score_range", score_range)
    codes = None if clusters is None else cluster_numbers(clusters, n)
    fold = cluster_folds(n, folds, codes, rng)
    given = as_classifiers(classifiers, n)
    (a, r, _), (b, s, _) = given
    if (r | s).all():
        raise ValueError("abstained_b must be False somewhere where abstained_a is, got none")
    given.append((a - b, r | s, ("scores_a and scores_b", "abstained_a and abstained_b")))
    *pair, both = fit_all(x, given, fold, learner, rng)
    found = mix(
        pair, both, weight=weight, clip=clip, level=level, score_range=score_range, clusters=codes
    )
    return replace(found, remarks=copies(x, given[:2], codes))


def mix(
    pair: Sequence[Nuisances],
    both: Nuisances,
    *,
    weight: float | None = None,
    clip: float,
    level: float = 0.95,
    score_range: tuple[float, float] | None = None,
    clusters: npt.NDArray[np.int64] | None = None,
) -> Estimate:
    """The same from nuisance functions of A, of B, and of the difference where both answered."""
    apart = influence_values(pair[0], clip=clip) - influence_values(pair[1], clip=clip)
    joint = influence_values(both, clip=clip**2)
    if weight is None:
        gap = apart - joint
        spread = gap.var()
        weight = np.clip(np.mean((apart - apart.mean()) * gap) / spread, 0, 1) if spread else 0.0
    influence = (1 - weight) * apart + weight * joint
    units, reach = Units.of(influence, clusters), reach_of(pair, "dr", clip, score_range)
    if reach is not None:
        low, high = reach.limits  # of a difference
        answers = 1 - np.clip(both.propensity, 0.0, 1 - clip**2)
        least, most = (both.outcome + (end - both.outcome) / answers for end in (low, high))
        reach = replace(
            reach,
            low=(1 - weight) * reach.low + weight * least,
            high=(1 - weight) * reach.high + weight * most,
        )
    return Estimate(
        units.mean, units.stderr, influence, level, "mixed", clip, tuple(pair), reach, clusters
    )
