"""Scores of probabilistic answers, and mechanisms by which a classifier abstains.

Of every scoring rule here the larger value is the better one.
"""

import numpy as np
import numpy.typing as npt

from lib.check import (
    as_classes,
    as_generator,
    as_number,
    as_probabilities,
    require_choice,
    require_number,
    same_rows,
)
from lib.ties import at_least

#: Rules that score a probabilistic prediction.
SCORING_RULES = ("zero-one", "brier", "log")
#: Measures of confidence by which a classifier may abstain.
CONFIDENCE_MEASURES = ("softmax-response", "gini")

Array = npt.NDArray[np.float64]


def score(
    rule: str, probabilities: npt.ArrayLike, labels: npt.ArrayLike, *, floor: float | None = None
) -> Array:
    """Score probabilistic predictions; larger is better, whatever the rule.

    Parameters
    ----------
    rule : {"zero-one", "brier", "log"}
        ``"zero-one"``: 1 if the most probable class is the label, else 0; of classes that tie the
        smallest counts, so in the form for two classes the answer is 1 if the probability is above
        0.5.  ``"brier"``: 1 - ||p - e_y||^2 / 2, in [0, 1].  ``"log"``: log p_y, at most 0.
    probabilities : array_like, shape (n, C) or (n,)
        Of the classes: not negative, each row with a sum of 1 up to 0.001 (or what half precision
        makes of it).  Or, for two classes, the probability of class 1.
    labels : array_like of int, shape (n,)
        From 0 to C - 1; booleans are 0 and 1, floats are taken if all are whole.
    floor : float, optional
        In (0, 1), read by ``"log"`` only: smaller p_y count as that.  The score is then bounded,
        and no longer strictly proper; without it a p_y of 0 is refused.

    Returns
    -------
    ndarray, shape (n,)

    Notes
    -----
    The usual Brier score b = ||p - e_y||^2, summed over classes, is in [0, 2], smaller is better;
    here it is 1 - b / 2.  For two classes that is 1 - (p - y)^2.  It is the form in the package of
    P4's authors (comparecast), hence that of its CIFAR-100 table: accuracy 0.70, score 0.787.

    References
    ----------
    Gneiting and Raftery, Strictly proper scoring rules, prediction, and estimation, 2007.

    Examples
    --------
    >>> score("brier", [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], [0, 2])
    array([0.75, 1.  ])
    """
    require_choice("rule", rule, SCORING_RULES)
    same_rows(probabilities=probabilities, labels=labels)
    p = _of_classes(probabilities)
    y = as_classes("labels", labels, *p.shape)
    if floor is not None:
        floor = as_number("floor", floor, 0, 1)
    if rule == "zero-one":
        return (p.argmax(axis=1) == y).astype(float)
    of_label = p[np.arange(len(p)), y]
    if rule == "brier":
        # The sum of a row may be off by the tolerance; the range of the score shall not.
        return np.clip(0.5 + of_label - 0.5 * np.einsum("ij,ij->i", p, p), 0.0, 1.0)
    if floor is not None:
        of_label = np.maximum(of_label, floor)
    elif (zero := of_label == 0).any():
        raise ValueError(
            "probabilities must be above 0 at the label for the log score, which is minus infinity "
            f"otherwise, got 0 in row {int(np.argmax(zero))} ({int(zero.sum())} such rows); give "
            "floor to bound it"
        )
    return np.log(np.minimum(of_label, 1.0))


def confidence(probabilities: npt.ArrayLike, measure: str = "softmax-response") -> Array:
    """How sure a classifier is of its prediction.

    Parameters
    ----------
    probabilities : array_like, shape (n, C) or (n,)
        As for :func:`score`.
    measure : {"softmax-response", "gini"}
        Largest probability, or sum of the squared ones (1 minus the Gini impurity).

    Returns
    -------
    ndarray, shape (n,)
        In [1 / C, 1].

    References
    ----------
    P4, details for the CIFAR-100 experiment.

    Examples
    --------
    >>> confidence([[0.6, 0.4]], measure="gini").round(2).tolist()
    [0.52]
    """
    require_choice("measure", measure, CONFIDENCE_MEASURES)
    p = _of_classes(probabilities)
    values = p.max(axis=1) if measure == "softmax-response" else np.einsum("ij,ij->i", p, p)
    return np.minimum(values, 1.0)


def abstain(
    probabilities: npt.ArrayLike,
    measure: str = "softmax-response",
    *,
    threshold: float | None = None,
    bounds: tuple[float, float] = (0.2, 0.8),
    rng: np.random.Generator | int | None = None,
) -> tuple[npt.NDArray[np.bool_], Array]:
    """Decide where to abstain by confidence, at a threshold or at random.

    Parameters
    ----------
    probabilities : array_like, shape (n, C) or (n,)
        As for :func:`score`.
    measure : {"softmax-response", "gini"}
        Of :func:`confidence`.
    threshold : float, optional
        In [0, 1].  If given, the classifier abstains where its confidence is below it by more than
        rounding (:func:`lib.ties.at_least`); positivity then fails wherever it does.
    bounds : tuple of float
        Low and high, 0 <= low <= high <= 1.  Without a threshold it abstains with probability
        1 - clip(confidence, low, high), independently at each point.
    rng : numpy.random.Generator or int
        Needed without a threshold, not read with one.

    Returns
    -------
    abstained : ndarray of bool, shape (n,)
        R.
    propensity : ndarray, shape (n,)
        Probability of R = 1 given the point: 0 or 1 with a threshold.

    References
    ----------
    P4, details for the CIFAR-100 experiment.  The authors' code clips the confidence before a
    threshold too, which is no different for thresholds within the bounds.

    Examples
    --------
    >>> abstained, propensity = abstain([[0.6, 0.4], [0.9, 0.1]], threshold=0.7)
    >>> abstained.tolist(), propensity.tolist()
    ([True, False], [1.0, 0.0])
    """
    sure = confidence(probabilities, measure)
    if threshold is not None:
        require_number("threshold", threshold, at_least=0, at_most=1)
        abstained = ~at_least(sure, threshold)
        return abstained, abstained.astype(float)
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be a pair of numbers, got {bounds!r}") from None
    for i, end in enumerate((low, high)):
        require_number(f"bounds[{i}]", end, at_least=0, at_most=1)
    if low > high:
        raise ValueError(f"bounds must be in ascending order, got {bounds!r}")
    rng = as_generator(rng, "rng")
    propensity = 1.0 - np.clip(sure, low, high)
    return rng.random(len(sure)) < propensity, propensity


def _of_classes(probabilities: npt.ArrayLike) -> Array:
    """Of shape (n, C), C at least 2, in double precision."""
    return as_probabilities("probabilities", probabilities, binary=True).astype(float, copy=False)
