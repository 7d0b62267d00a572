"""PATE: answers voted by teachers, and what they cost in label differential privacy.

Papernot et al. 2018, "Scalable Private Learning with PATE" (ICLR), as P5 uses it: every teacher is
trained on the labels of one shard and on all inputs, which are public.  Neighboring data sets
differ in one label.  That label belongs to one shard, so at most one teacher changes, and each
query's histogram of votes changes by at most one vote that moves from one class to another.

Confident-GNMax (their Algorithm 1) answers a query if the largest count plus N(0, sigma1^2) reaches
a threshold, and the answer is the argmax of the counts plus N(0, sigma2^2) each.

Cost without looking at the votes: at Renyi order a, the check costs a / (2 sigma1^2) (one vote
changes the largest count by at most 1), an answer a / sigma2^2 (two counts change by 1 each).

Cost that depends on the votes: where one outcome is very likely the divergence is far smaller.
Three things about these smaller numbers should not be overlooked.

1. They are functions of the private labels.  An epsilon computed from them must not be published
   as it is: :func:`lib.privacy.publish_epsilon` adds noise scaled by its smooth sensitivity.
   ``data_independent`` costs may be published, as far as the numbers of questions and answers that
   they count may.
2. They bound D_a(M(votes) || M(neighbor)) for every neighbor, in this direction only.  The
   reverse divergence is bounded by the cost at the neighbor's votes.  It often exceeds the cost
   here, even by orders of magnitude (the tests hold examples); never the data-independent one.
3. The cost of a whole process depends on which queries were answered.  Let the queries and the
   moment to stop depend on public things and earlier answers only.  Then, for given votes, a sum of
   costs that no run can exceed is a bound (adaptive composition, Mironov 2017, Proposition 1, for
   the dearest run): all checks that might be made plus all answers, or plus the K dearest answers
   if the process stops after K, fixed in advance.  The *realized* cost, of the answers that were
   given, is at most that; read off afterwards it is a record of what was spent, and no theorem
   makes an (epsilon, delta) guarantee of it.  The *expected* cost, each answer weighted with its
   probability, is what Papernot et al. report.  It is no bound either, because a Renyi divergence
   averages exponentials of costs and not costs; the tests hold an example that exceeds it.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from lib.check import as_array, as_flags, require_finite, require_int, same_rows
from lib.privacy.labels import multi_stage_parts

# dp-accounting's conversion needs orders above 1.01; data-dependent optima lie far out.
_ORDERS = 1 + np.geomspace(0.011, 1e4, 160)
_MOST_VOTES = 2**53  # beyond it floats skip whole numbers


@dataclass(frozen=True)
class Answers:
    """What Confident-GNMax returned.

    Attributes
    ----------
    answered : ndarray of bool, (n_queries,)
        The query was asked and its noisy largest count reached the threshold.
    labels : ndarray of int, (n_queries,)
        The noisy winner; -1 where not answered.
    asked : ndarray of bool, (n_queries,)
        The query was processed.  Those after the last allowed answer were not, and cost nothing.
    """

    answered: np.ndarray
    labels: np.ndarray
    asked: np.ndarray


@dataclass(frozen=True)
class PateCost:
    """Epsilon of one run of Confident-GNMax at a given delta; see the module's documentation.

    Attributes
    ----------
    data_dependent : float
        From the votes.  Itself private: not to be published without sanitization.
    data_independent : float
        From the numbers of asked and answered queries alone.
    orders : tuple of float
        The Renyi orders at which the two were smallest, in this order.
    """

    data_dependent: float
    data_independent: float
    orders: tuple[float, float]


def shards(n: int, n_teachers: int, seed: int) -> list[np.ndarray]:
    """Disjoint random sets of rows, one per teacher, that together hold every row once.

    The division must not depend on the labels; here it depends on the arguments only.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    n_teachers : int
        At least 1, at most `n`.
    seed : int
        Not negative.

    Returns
    -------
    list of ndarray of int
        Ascending row numbers; sizes differ by at most 1.

    Examples
    --------
    >>> [part.tolist() for part in shards(5, n_teachers=2, seed=0)]
    [[2, 3, 4], [0, 1]]
    """
    require_int("n", n, at_least=1)
    require_int("n_teachers", n_teachers, at_least=1, at_most=n)
    return multi_stage_parts(n, n_teachers, seed)


def vote_histogram(predictions: npt.ArrayLike, n_classes: int) -> np.ndarray:
    """Number of teachers that voted for each class.

    Parameters
    ----------
    predictions : array_like of int, (n_teachers, n_queries)
        Class predicted by each teacher, in [0, n_classes).
    n_classes : int
        At least 1.

    Returns
    -------
    ndarray of int, (n_queries, n_classes)
        Each row sums to the number of teachers.

    Examples
    --------
    >>> vote_histogram([[0, 1], [0, 2], [1, 2]], n_classes=3).tolist()
    [[2, 1, 0], [0, 1, 2]]
    """
    require_int("n_classes", n_classes, at_least=1)
    predictions = as_array("predictions", predictions)
    if predictions.ndim != 2 or len(predictions) == 0:
        raise ValueError(
            "predictions must have shape (n_teachers, n_queries) with at least one teacher, got"
            f" shape {predictions.shape}"
        )
    if not np.issubdtype(predictions.dtype, np.integer):
        raise ValueError(f"predictions must be integers, got dtype {predictions.dtype}")
    wrong = predictions[(predictions < 0) | (predictions >= n_classes)]
    if len(wrong):
        raise ValueError(
            f"predictions must be classes from 0 to {n_classes - 1}, got {int(wrong[0])}"
        )
    n_queries = predictions.shape[1]
    # One number for each pair of query and class, and one count for all of them.
    cells = predictions.astype(np.int64) + n_classes * np.arange(n_queries)
    counts = np.bincount(cells.ravel(), minlength=n_queries * n_classes)
    return counts.reshape(n_queries, n_classes)


def confident_gnmax(
    votes: npt.ArrayLike,
    sigma1: float,
    sigma2: float,
    threshold: float,
    seed: int,
    max_answers: int | None = None,
) -> Answers:
    """Ask the queries in the order given (Papernot et al. 2018, Algorithm 1).

    Parameters
    ----------
    votes : array_like of int, (n_queries, n_classes)
        Number of teachers per class; each row sums to the same number, at least 1.
    sigma1, sigma2 : float
        Standard deviations, in votes, of the noise of the check and of each count; above 0.
    threshold : float
        In votes; finite.
    seed : int
        Not negative.  Who knows it knows the noise: keep it secret if the answers are published.
    max_answers : int, optional
        Stop once so many were answered.

    Returns
    -------
    Answers
        An answer does not depend on `max_answers`, as long as it is given at all.

    Examples
    --------
    >>> found = confident_gnmax([[9, 1], [5, 5]], 0.1, 0.1, threshold=8.0, seed=0)
    >>> found.answered.tolist(), found.labels.tolist()
    ([True, False], [0, -1])
    """
    votes = _check_run(votes, sigma1, sigma2, threshold)
    require_int("seed", seed, at_least=0)
    if max_answers is not None:
        require_int("max_answers", max_answers, at_least=0)
    # Streams of their own, one number a query: an answer does not depend on which others are asked.
    checks, counts = (np.random.default_rng([seed, part]) for part in (0, 1))
    # Algorithm 1, line 1: is the noisy largest count above the threshold? Then, with new noise on
    # every count, line 2.
    answered = votes.max(axis=1) + sigma1 * checks.standard_normal(len(votes)) >= threshold
    winners = np.argmax(votes + sigma2 * counts.standard_normal(votes.shape), axis=1)
    asked = np.ones(len(votes), dtype=bool)
    if max_answers is not None:
        # Answers given before a query; the run stops at the first query that finds enough of them.
        before = np.cumsum(answered) - answered
        asked = before < max_answers
    answered = answered & asked
    return Answers(answered, np.where(answered, winners, -1), asked)


def gnmax_log_q(votes: npt.ArrayLike, sigma2: float) -> np.ndarray:
    """Upper bound on log Pr[the noisy winner is not the most voted class].

    Papernot et al. 2018, Proposition 7: a union bound, the sum over the other classes i of
    erfc((n_max - n_i) / (2 sigma2)) / 2; and at most 1 - 1 / n_classes, since no class wins more
    often than a most voted one.
    """
    votes = np.asarray(votes)
    n_classes = votes.shape[1]
    if n_classes == 1:
        return np.full(len(votes), -np.inf)
    gaps = votes.max(axis=1, keepdims=True) - votes
    with np.errstate(over="ignore"):  # tiny sigma2: infinite ratios, caught below
        loses = log_ndtr(gaps / (-math.sqrt(2) * sigma2))
    loses[np.arange(len(votes)), votes.argmax(axis=1)] = -np.inf
    log_q = np.minimum(np.logaddexp.reduce(loses, axis=1), math.log1p(-1 / n_classes))
    return _keep_possible(log_q)


def threshold_log_q(votes: npt.ArrayLike, sigma1: float, threshold: float) -> np.ndarray:
    """Log probability of the less likely outcome of each threshold check, which is exact."""
    with np.errstate(over="ignore"):
        margin = (np.asarray(votes).max(axis=1) - threshold) / sigma1
    return _keep_possible(log_ndtr(-np.abs(margin)))


def likely_outcome_rdp(log_q: npt.ArrayLike, sigma: float, orders: npt.ArrayLike) -> np.ndarray:
    """Renyi divergence of a mechanism that has one likely outcome.

    Papernot et al. 2018, Theorem 6.  A mechanism that is (mu, mu / sigma^2)-RDP at every order mu,
    and that with these data gives another outcome than a certain one with probability at most q,
    has at order a < mu1 a divergence from any neighbor of at most ::

        log((1 - q) A^(a - 1) + q B^(a - 1)) / (a - 1)
        A = (1 - q) / (1 - (q e^eps2)^(1 - 1 / mu2)),   B = e^eps1 / q^(1 / (mu1 - 1))

    with eps1 = mu1 / sigma^2, eps2 = mu2 / sigma^2, and mu2 = sigma sqrt(log(1 / q)), mu1 = mu2 + 1
    (Proposition 10).  It holds if mu2 > 1 and q <= e^((mu2 - 1) eps2) / (mu1 / (mu1 - 1) *
    mu2 / (mu2 - 1))^mu2, where the bound grows with q, so that an upper bound on q is enough, and
    if q e^eps2 < 1, as A is no bound otherwise.  Where one of these fails, or where this is not
    smaller, the result is a / sigma^2.  These are the rules of the authors' implementation
    (tensorflow/privacy, research/pate_2018/core.py, ``rdp_gaussian``).
    """
    log_q, orders = np.asarray(log_q, dtype=float), np.asarray(orders, dtype=float)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        # Extreme sigmas give infinities or NaN, with which the conditions are false.
        variance = np.float64(sigma) ** 2
        independent = orders / variance
        mu2 = sigma * np.sqrt(-log_q)
        eps2 = mu2 / variance
        monotone = log_q <= (mu2 - 1) * eps2 - mu2 * (np.log1p(1 / mu2) + np.log1p(1 / (mu2 - 1)))
        # With these orders q e^eps2 < 1 is mu2 > 1 but for rounding; both keep log(1 - ...) finite.
        rows = np.flatnonzero((mu2 > 1) & monotone & (eps2 < -log_q))
    result = np.tile(independent, (len(log_q), 1))
    log_q_, mu2, eps2 = log_q[rows, None], mu2[rows, None], eps2[rows, None]
    log_p = _log1mexp(log_q_)
    log_a = log_p - _log1mexp((log_q_ + eps2) * (1 - 1 / mu2))
    log_b = (mu2 + 1) / variance - log_q_ / mu2
    log_sum = np.logaddexp(log_p + (orders - 1) * log_a, log_q_ + (orders - 1) * log_b)
    dependent = np.maximum(log_sum / (orders - 1), 0)  # rounding only: A is at least 1 - q
    dependent[mu2 + 1 <= orders] = np.inf
    result[rows] = np.minimum(result[rows], dependent)
    result[np.isneginf(log_q)] = 0
    return result


def gnmax_rdp(votes: npt.ArrayLike, sigma2: float, orders: npt.ArrayLike) -> np.ndarray:
    """Data-dependent Renyi cost of one GNMax answer per query.

    Papernot et al. 2018, Theorem 6 with the q of Proposition 7; at most order / sigma2^2
    (Proposition 8).  See :func:`likely_outcome_rdp`.
    """
    return likely_outcome_rdp(gnmax_log_q(votes, sigma2), sigma2, orders)


def threshold_rdp(
    votes: npt.ArrayLike, sigma1: float, threshold: float, orders: npt.ArrayLike
) -> np.ndarray:
    """Data-dependent Renyi cost of one threshold check per query, whose outcome is yes or no.

    One vote changes the largest count by at most 1, so the check is (mu, mu / (2 sigma1^2))-RDP at
    every order: Theorem 6 of Papernot et al. 2018 with sqrt(2) sigma1, and with the probability of
    the less likely outcome for q (``compute_rdp_threshold`` of the authors' implementation).
    """
    log_q = threshold_log_q(votes, sigma1, threshold)
    return likely_outcome_rdp(log_q, math.sqrt(2) * sigma1, orders)


def pate_epsilon(
    votes: npt.ArrayLike,
    sigma1: float,
    sigma2: float,
    threshold: float,
    delta: float,
    answered: npt.ArrayLike,
    asked: npt.ArrayLike | None = None,
) -> PateCost:
    """Epsilon at `delta` of the realized cost, from the votes and without them.

    The total Renyi cost is converted at the best of 160 orders in (1.01, 10001] by dp-accounting's
    ``compute_epsilon``: the improved conversion of Canonne, Kamath and Steinke 2020,
    Proposition 12, which is below that of Mironov 2017, Proposition 3 (used by Papernot et al. and
    in their implementation).  The conversion holds for one direction of the divergence at a time,
    so for these votes against any neighbor.

    ``data_dependent`` is a function of the private labels, not to be published without sanitization
    by its smooth sensitivity, which costs more: :func:`lib.privacy.publish_epsilon`.

    ``data_independent`` is a guarantee if the numbers of questions and of answers could not have
    been larger: all queries are counted as asked (leave out `asked`), and the process stops at a
    number of answers fixed in advance that was reached (``max_answers``).  With fewer questions
    charged than might have been asked it is, like ``data_dependent``, a record of what was spent.

    Parameters
    ----------
    votes, sigma1, sigma2, threshold
        As for :func:`confident_gnmax`.
    delta : float
        In (0, 1).
    answered : array_like of bool, (n_queries,)
        The queries that were answered, all of them asked.
    asked : array_like of bool, (n_queries,), optional
        The queries that were processed; all by default.

    Returns
    -------
    PateCost
        Zero epsilons without a query.

    Examples
    --------
    >>> cost = pate_epsilon([[90, 10]] * 5, 40.0, 20.0, 60.0, 1e-5, answered=[True] * 5)
    >>> cost.data_dependent <= cost.data_independent, round(cost.data_independent, 2)
    (True, 0.66)
    """
    require_finite("delta", delta, above=0, below=1)
    same_rows(votes=votes, answered=answered, asked=asked)
    votes = _check_run(votes, sigma1, sigma2, threshold)
    answered = as_flags("answered", answered, len(votes))
    asked, answered = _check_masks(len(votes), asked, answered)
    total = threshold_rdp(votes[asked], sigma1, threshold, _ORDERS).sum(axis=0)
    total += gnmax_rdp(votes[answered], sigma2, _ORDERS).sum(axis=0)
    independent = np.zeros_like(_ORDERS)
    for count, sigma in ((asked.sum(), math.sqrt(2) * sigma1), (answered.sum(), sigma2)):
        if count:  # a price may be infinite, of which none is nothing
            independent += count * likely_outcome_rdp([0.0], sigma, _ORDERS)[0]
    from dp_accounting.rdp import compute_epsilon  # here: it loads much of SciPy

    dependent_epsilon, order = compute_epsilon(_ORDERS, total, delta)
    independent_epsilon, independent_order = compute_epsilon(_ORDERS, independent, delta)
    return PateCost(
        float(dependent_epsilon),
        float(independent_epsilon),
        (float(order), float(independent_order)),
    )


def _keep_possible(log_q: np.ndarray) -> np.ndarray:
    """No minus infinity where an outcome is possible: its probability is positive, if tiny."""
    return np.maximum(log_q, -np.finfo(float).max)


def _log1mexp(x: np.ndarray) -> np.ndarray:
    """log(1 - e^x) for x < 0, without cancellation."""
    near = x > -math.log(2)
    return np.where(near, np.log(-np.expm1(x)), np.log1p(-np.exp(np.where(near, -1, x))))


def _check_run(
    votes: npt.ArrayLike, sigma1: float, sigma2: float, threshold: float
) -> npt.NDArray[np.int64]:
    require_finite("sigma1", sigma1, above=0)
    require_finite("sigma2", sigma2, above=0)
    require_finite("threshold", threshold)
    votes = as_array("votes", votes)
    if votes.ndim != 2 or votes.shape[1] == 0:
        raise ValueError(
            "votes must have shape (n_queries, n_classes) with at least one class, got shape"
            f" {votes.shape}"
        )
    if not np.issubdtype(votes.dtype, np.integer):
        raise ValueError(f"votes must be integers, got dtype {votes.dtype}")
    votes = votes.astype(np.int64, copy=False)
    if votes.size:
        sums = votes.sum(axis=1)
        if votes.min() < 0:
            raise ValueError(f"votes must not be negative, got {votes.min()}")
        if votes.max() > _MOST_VOTES // votes.shape[1]:
            raise ValueError(
                f"votes must be of at most 2^53 teachers, got {votes.max()} for one class of"
                f" {votes.shape[1]}"
            )
        if sums.min() < 1 or sums.min() != sums.max():
            raise ValueError(
                "votes must hold one vote of each teacher in every row, got rows of"
                f" {sums.min()} to {sums.max()} votes"
            )
    return votes


def _check_masks(
    n: int, asked: npt.ArrayLike | None, answered: npt.ArrayLike | None
) -> tuple[np.ndarray, np.ndarray | None]:
    asked = np.ones(n, dtype=bool) if asked is None else as_flags("asked", asked, n)
    if answered is None:
        return asked, None
    answered = as_flags("answered", answered, n)
    if np.any(answered & ~asked):
        query = int(np.flatnonzero(answered & ~asked)[0])
        raise ValueError(f"answered must hold only queries that were asked, got query {query}")
    return asked, answered
