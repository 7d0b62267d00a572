"""Acceptance scores: from predictions to a number that is larger for points to accept earlier.

Under differential privacy they fall into two classes (P1, section 3.2).  *Post-processing*: all
that is used comes from one private training run, and the score costs nothing more.  *Composition*:
several models were trained on the same data, and share the budget.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from lib.check import (
    as_labels,
    as_number,
    as_predictions,
    as_probabilities,
    as_scores,
    require_choice,
    require_finite,
    same_rows,
)
from lib.ties import dense_ranks


def softmax_response(probabilities: npt.ArrayLike) -> npt.NDArray:
    """Largest class probability (SR; MSP in P1's tables).

    Parameters
    ----------
    probabilities : array_like, shape (n, classes)
        Softmax of the model.

    Returns
    -------
    ndarray, shape (n,)
        In [1 / classes, 1].  What is within 1e-16 of 1 is 1: :func:`log_odds` ranks alike without
        such ties.

    References
    ----------
    P1, Eq. 7; Hendrycks and Gimpel (2017).

    Examples
    --------
    >>> softmax_response([[0.7, 0.2, 0.1], [0.4, 0.3, 0.3]]).tolist()
    [0.7, 0.4]
    """
    return as_probabilities("probabilities", probabilities).max(axis=1)


def entropy(probabilities: npt.ArrayLike) -> npt.NDArray:
    """Minus the entropy of the prediction, in nats.

    Parameters
    ----------
    probabilities : array_like, shape (n, classes)
        Softmax of the model.

    Returns
    -------
    ndarray, shape (n,)
        In [-ln classes, 0]; equal where the probabilities are, in whatever order.

    Examples
    --------
    >>> entropy([[0.5, 0.5], [1.0, 0.0]]).round(3).tolist()
    [-0.693, -0.0]
    """
    p = as_probabilities("probabilities", probabilities)
    return _by_rows(_minus_entropy, p)


def _minus_entropy(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    p.sort(axis=1)
    p[:, -1] = np.minimum(p[:, -1], 1.0)
    rest = p[:, :-1].sum(axis=1)
    # Near 1 the largest probability has fewer digits than 1 minus the others.
    sure = (rest < 0.5) & (p[:, -1] > 0.5)
    log = np.log1p(-rest, where=sure, out=np.zeros(len(p)))
    largest = np.where(sure, (rest - 1) * log, entr(p[:, -1]))
    return -(entr(p[:, :-1]).sum(axis=1) + largest)


def margin(probabilities: npt.ArrayLike) -> npt.NDArray:
    """Largest minus second largest class probability.

    Parameters
    ----------
    probabilities : array_like, shape (n, classes)
        Softmax of the model, with at least two classes.

    Returns
    -------
    ndarray, shape (n,)
        In [0, 1].  What is within 1e-16 of 1 is 1: see :func:`log_odds`.

    Examples
    --------
    >>> margin([[0.7, 0.2, 0.1]]).round(2).tolist()
    [0.5]
    """
    p = as_probabilities("probabilities", probabilities)
    if p.shape[1] < 2:
        raise ValueError(f"probabilities must have at least two classes, got shape {p.shape}")
    top = np.partition(p, -2, axis=1)[:, -2:].astype(float)
    return top[:, 1] - top[:, 0]


def energy(logits: npt.ArrayLike) -> npt.NDArray:
    """Minus the energy: logsumexp of the logits.

    Parameters
    ----------
    logits : array_like, shape (n, classes)
        Outputs before the softmax.

    Returns
    -------
    ndarray, shape (n,)
        Equal where the logits are, in whatever order.

    References
    ----------
    Liu et al. (2020), Energy-based out-of-distribution detection.

    Examples
    --------
    >>> energy([[0.0, 0.0], [3.0, 0.0]]).round(3).tolist()
    [0.693, 3.049]
    """
    return _by_rows(_log_sum, as_predictions("logits", logits, ("n", "classes")))


def _log_sum(z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    z.sort(axis=1)
    largest = z[:, -1]
    with np.errstate(under="ignore"):
        return largest + np.log1p(np.exp(z[:, :-1] - largest[:, None]).sum(axis=1))


def log_odds(
    probabilities: npt.ArrayLike | None = None,
    *,
    logits: npt.ArrayLike | None = None,
    of: str = "softmax response",
) -> npt.NDArray[np.float64]:
    """A score that ranks as softmax response, margin or entropy, also where these round to 1 or 0.

    A probability of 1 - 1e-20 is 1 for a computer, and all points that are as sure tie; what tells
    them apart is in the other probabilities, or in the logits.  For two classes the three are one
    ranking, and one function here: the difference of the logits.

    Parameters
    ----------
    probabilities : array_like, shape (n, classes), optional
        Softmax of the model, with at least two classes.
    logits : array_like, shape (n, classes), optional
        Outputs before the softmax, in place of probabilities: these may have underflown.
    of : {"softmax response", "margin", "entropy"}
        Which score.

    Returns
    -------
    ndarray of float64, shape (n,)
        With p the largest probability and m the margin: log(p / (1 - p)), log((1 + m) / (1 - m)),
        or minus the logarithm of the entropy.  Infinite where all other probabilities are 0.

    Notes
    -----
    1 - p is the sum of the other probabilities, 1 + m and 1 - m are twice the largest and twice the
    second one plus the others.  Of logits all is computed from their differences to the largest.

    Examples
    --------
    >>> sure = [[1.0, 1e-20], [1.0, 1e-30]]
    >>> softmax_response(sure).tolist(), log_odds(sure).round().tolist()
    ([1.0, 1.0], [46.0, 69.0])
    >>> log_odds(logits=[[1000.0, 0.0, 2.0], [0.0, 0.0, 0.0]], of="margin").round().tolist()
    [998.0, 0.0]
    """
    require_choice("of", of, ("softmax response", "margin", "entropy"))
    if (probabilities is None) == (logits is None):
        raise ValueError("probabilities or logits must be given, and not both")
    if logits is None:
        given = as_probabilities("probabilities", probabilities)
    else:
        given = as_predictions("logits", logits, ("n", "classes"))
    if given.shape[1] < 2:
        name = "probabilities" if logits is None else "logits"
        raise ValueError(f"{name} must have at least two classes, got shape {given.shape}")
    return _by_rows(partial(_log_odds, of=of, logits=logits is not None), given)


def _log_odds(z: npt.NDArray[np.float64], of: str, logits: bool) -> npt.NDArray[np.float64]:
    with np.errstate(divide="ignore", under="ignore"):
        z.sort(axis=1)
        below = z - z[:, -1:] if logits else np.log(z) - np.log(z[:, -1:])
    # Logarithms of ratios to the largest probability; `second` is that of the second one.
    second, below = below[:, -2], below[:, :-1]
    if below.shape[1] == 1:
        return 0.0 - second
    # Only where others are zero are ratios to the second one undefined: there is nothing left.
    some = np.isfinite(second)
    ratios = below - np.where(some, second, 0.0)[:, None]
    with np.errstate(all="ignore"):
        shares = np.exp(ratios)
        others, small = shares.sum(axis=1), np.exp(second)  # of the second one; and that itself
        if of == "softmax response":
            found = -second - np.log(others)
        elif of == "margin":
            # (2 + rest) / (2 second + rest), `rest` being all but the first two.
            rest = others - 1
            apart = 2 * np.expm1(-second) / (2 + rest)
            far = -second + np.log((2 + small * rest) / (2 + rest))
            found = np.where(apart < 1, np.log1p(apart), far)
        else:
            total = small * others
            # Of all p (log ratio + log(1 + total)); divided by `small`, which may underflow.
            first = np.where(total > 1e-8, np.log1p(total) / small, others)
            weighted = np.where(shares > 0, shares * below, 0.0).sum(axis=1)
            found = -second - np.log(first - weighted / (1 + total))
    return np.where(some, found, np.inf) + 0.0  # no minus zero


def _by_rows(
    score: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    table: npt.NDArray[np.floating],
) -> npt.NDArray[np.float64]:
    """A score of rows in double precision, so many at a time as memory has room for."""
    step = max(1, _ENTRIES // table.shape[1])
    parts = (table[at : at + step] for at in range(0, len(table), step))
    return np.concatenate([score(part.astype(np.float64, copy=True)) for part in parts])


_ENTRIES = 2**22


def conformal_set_size(probabilities: npt.ArrayLike, mass: float = 0.9) -> npt.NDArray:
    """Minus the number of classes that it takes to collect a given probability.

    The size of the set that adaptive prediction sets (Romano et al. 2020) would return with the
    model's own probabilities in place of calibrated ones; the last class counts by the fraction of
    its probability that is needed, which is what their randomization does on average.

    Parameters
    ----------
    probabilities : array_like, shape (n, classes)
        Softmax of the model.
    mass : float
        Probability to collect, in (0, 1).

    Returns
    -------
    ndarray, shape (n,)
        In [-classes, 0).

    Examples
    --------
    >>> conformal_set_size([[0.9, 0.1, 0.0], [0.4, 0.4, 0.2]]).round(2).tolist()
    [-1.0, -2.5]
    """
    mass = as_number("mass", mass, 0, 1)
    p = as_probabilities("probabilities", probabilities)
    return _by_rows(partial(_minus_set_size, mass=mass), p)


def _minus_set_size(p: npt.NDArray[np.float64], mass: float) -> npt.NDArray[np.float64]:
    p = np.sort(p, axis=1)[:, ::-1]
    total = p.cumsum(axis=1)
    total /= total[:, -1:]
    last = (total < mass).sum(axis=1)  # index of the class that completes the mass
    rows = np.arange(len(p))
    before = np.where(last, total[rows, last - 1], 0.0)
    return -(last + (mass - before) / (total[rows, last] - before))


def mc_dropout(probabilities: npt.ArrayLike) -> npt.NDArray:
    """Largest class probability of the mean over random sub-networks (MCDO).

    Parameters
    ----------
    probabilities : array_like, shape (passes, n, classes)
        Softmax of the same model with dropout left on.

    Returns
    -------
    ndarray, shape (n,)

    References
    ----------
    P1, Eq. 15; Gal and Ghahramani (2016).

    Examples
    --------
    >>> mc_dropout([[[0.8, 0.2]], [[0.6, 0.4]]]).round(2).tolist()
    [0.7]
    """
    return _response_of_mean(probabilities, "passes")


def deep_ensemble(probabilities: npt.ArrayLike) -> npt.NDArray:
    """Largest class probability of the mean over models (DE).

    Parameters
    ----------
    probabilities : array_like, shape (members, n, classes)
        Softmax of each model.

    Returns
    -------
    ndarray, shape (n,)

    References
    ----------
    P1, Eq. 14; Lakshminarayanan et al. (2017).

    Examples
    --------
    >>> deep_ensemble([[[0.9, 0.1]], [[0.5, 0.5]]]).tolist()
    [0.7]
    """
    return _response_of_mean(probabilities, "members")


def _response_of_mean(probabilities: npt.ArrayLike, first: str) -> npt.NDArray:
    p = as_probabilities("probabilities", probabilities, (first, "n", "classes"))
    # In double precision, and the same in whatever order they come.
    return np.sort(p, axis=0).mean(axis=0, dtype=float).max(axis=1)


def sctd(labels: npt.ArrayLike, k: float = 3.0, form: str = "equation") -> npt.NDArray:
    """Minus the weighted disagreement of intermediate models with the final one (SCTD).

    P1 writes the score in two ways, which do not rank alike in general:

    ``"equation"`` (Eq. 16, the default)
        sum over t of (t / T)^k [f_t(x) != f_T(x)];
    ``"algorithm"`` (Algorithm 1)
        the same sum with the weights 1 / (1 - (t / T)^k).

    Both count late disagreement most, but differently: with k = 3 and T = 20, the next to last
    checkpoint has 7 times the weight of the one in the middle by the equation, and 6 times by the
    algorithm; the first one has 1/6859 of the largest weight or 1/7.

    Parameters
    ----------
    labels : array_like of int, shape (checkpoints, n)
        Predicted classes, the final model's last.
    k : float
        Weighting parameter, at least 0; above 0 for the algorithm.
    form : {"equation", "algorithm"}
        Which weights.

    Returns
    -------
    ndarray, shape (n,)
        At most 0; 0 where no checkpoint disagrees, which is usual: how ties are broken matters
        (:func:`ties_broken_by`).

    References
    ----------
    P1, Eq. 16 and Algorithm 1; Rabanser et al. (2022).

    Examples
    --------
    >>> classes = [[1, 0], [1, 1], [1, 1]]  # three checkpoints, two points
    >>> sctd(classes).round(3).tolist()
    [0.0, -0.037]
    """
    labels = as_labels("labels", labels)
    require_finite("k", k, at_least=0)
    require_choice("form", form, ("equation", "algorithm"))
    if form == "algorithm" and k == 0:
        raise ValueError("k must be above 0 for the form 'algorithm', whose weights are infinite")
    steps = len(labels)
    share = (np.arange(1, steps) / steps) ** k
    weights = share if form == "equation" else 1 / (1 - share)
    scale = float(steps) ** k
    if form == "equation" and k == int(k) and scale * steps < 2**53:
        # In whole numbers, so that other checkpoints of the same weight, 1 + 4 = 2 + 3, do tie.
        weights = np.array([t ** int(k) for t in range(1, steps)], dtype=float)
    else:
        scale = 1.0
    total = np.zeros(labels.shape[1])
    for weight, row in zip(weights, labels[:-1], strict=True):
        # One by one: a matrix product may add in another order for other points, and break ties.
        total += weight * (row != labels[-1])
    return 0.0 - total / scale


def self_adaptive_training(probabilities: npt.ArrayLike) -> npt.NDArray:
    """Minus the probability of the abstention class (SAT's own score).

    P1 ranks SAT by the softmax response of the underlying classifier instead.

    Parameters
    ----------
    probabilities : array_like, shape (n, classes + 1)
        Softmax over all outputs, abstention last.

    Returns
    -------
    ndarray, shape (n,)
        In [-1, 0].

    References
    ----------
    P1, Eq. 13; Huang et al. (2020).

    Examples
    --------
    >>> self_adaptive_training([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]).tolist()
    [-0.1, -0.4]
    """
    return -as_probabilities("probabilities", probabilities, ("n", "classes + 1"))[:, -1]


def deep_gamblers(probabilities: npt.ArrayLike) -> npt.NDArray:
    """Minus the probability of the abstention class, which is what a gambler keeps in hand.

    Parameters
    ----------
    probabilities : array_like, shape (n, classes + 1)
        Softmax over all outputs, abstention last.

    Returns
    -------
    ndarray, shape (n,)
        In [-1, 0].

    References
    ----------
    Liu et al. (2019), Deep gamblers: Learning to abstain with portfolio theory.

    Examples
    --------
    >>> deep_gamblers([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]).tolist()
    [-0.1, -0.4]
    """
    return -as_probabilities("probabilities", probabilities, ("n", "classes + 1"))[:, -1]


def ties_broken_by(score: npt.ArrayLike, second: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """A score that ranks as the first one does, and ties of it as the second one.

    Parameters
    ----------
    score, second : array_like, shape (n,)
        Acceptance scores.

    Returns
    -------
    ndarray of float64, shape (n,)
        Ranks, from 0; equal only where both are equal, up to rounding.

    Examples
    --------
    >>> ties_broken_by([1, 0, 1], [0.2, 0.9, 0.3]).tolist()
    [1.0, 0.0, 2.0]
    """
    same_rows(score=score, second=second)
    first, second = as_scores("score", score), as_scores("second", second)
    if len(first) != len(second):
        raise ValueError(
            f"second must have one entry per entry of score ({len(first)}), got {len(second)}"
        )
    first, second = dense_ranks(first), dense_ranks(second)
    return dense_ranks(first * (second.max() + 1) + second).astype(float)


@dataclass(frozen=True)
class Method:
    """A selective classification method, and what it costs under differential privacy.

    Attributes
    ----------
    name : str
        As P1's text abbreviates it.
    privacy : str
        "post-processing" or "composition".
    releases : int
        Models trained on the same data that share the budget, in P1's experiments.
    uses : str
        What of the training the score is computed from.
    """

    name: str
    privacy: str
    releases: int
    uses: str


#: Every method by name: those of P1 first, others for comparison after them.
METHODS: Mapping[str, Method] = MappingProxyType(
    {
        name: Method(name, "composition" if releases > 1 else "post-processing", releases, uses)
        for name, releases, uses in (
            ("SR", 1, "final model"),
            ("MCDO", 1, "final model with dropout"),
            ("SAT", 1, "final model, C + 1 outputs"),
            ("DG", 1, "final model, C + 1 outputs"),
            ("SCTD", 1, "all checkpoints of one run"),
            ("DE", 5, "final models of 5 runs"),
            ("SN", 5, "final models of 5 target coverages"),
            ("entropy", 1, "final model"),
            ("margin", 1, "final model"),
            ("energy", 1, "final model"),
            ("set size", 1, "final model"),
        )
    }
)
