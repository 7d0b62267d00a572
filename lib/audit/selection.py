"""Choosing a threshold of an attack, and what the choice does to a lower bound."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from lib.audit.intervals import _table, best_lower_bound, epsilon_lower_bounds
from lib.check import (
    as_flags,
    as_generator,
    as_integer,
    as_number,
    as_scores,
    as_unit,
    check_delta,
    require_choice,
    require_finite,
    require_number,
    same_rows,
)
from lib.ties import at_least, dense_ranks, group_starts


def roc_counts(scores: npt.ArrayLike, members: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Counts of an attack at every threshold of its ROC curve.

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        Larger says "member".  May be infinite, not NaN.
    members : array_like of bool, shape (n,)
        Whether the challenge point was in the training data; both kinds must occur.

    Returns
    -------
    ndarray of int64, shape (m, 4)
        Columns tp, fp, tn, fn; a row for guessing "member" nowhere, and one for every distinct
        score from which on, downwards, it is guessed: n + 1 rows if all scores differ, 2 if all
        are equal.  Scores that differ by rounding alone are equal (:mod:`lib.ties`).

    Examples
    --------
    >>> roc_counts([3.0, 2.0, 1.0], [True, False, True]).tolist()
    [[0, 0, 1, 2], [1, 0, 1, 1], [1, 1, 0, 1], [2, 1, 0, 0]]
    """
    scores, members = _attack(scores, members)
    order = np.argsort(-scores, kind="stable")
    above = np.r_[group_starts(scores[order]), len(scores)]  # how many are above each group
    tp = np.r_[0, np.cumsum(members[order])][above]
    fp = above - tp
    positives, negatives = int(members.sum()), int((~members).sum())
    return np.stack([tp, fp, negatives - fp, positives - tp], axis=1).astype(np.int64)


def roc_thresholds(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The thresholds that belong to the rows of :func:`roc_counts`.

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        As there.

    Returns
    -------
    ndarray of float64, shape (m,)
        Infinite for "member nowhere", then the distinct scores from the largest (of scores that
        differ by rounding alone the smallest); an infinite score is reached by the largest finite
        number.

    Examples
    --------
    >>> roc_thresholds([3.0, 2.0, 1.0]).tolist()
    [inf, 3.0, 2.0, 1.0]
    """
    ordered = np.sort(as_scores("scores", scores).astype(np.float64))[::-1]
    lowest = np.r_[group_starts(ordered)[1:], len(ordered)] - 1
    return np.r_[math.inf, np.minimum(ordered[lowest], np.finfo(np.float64).max)]


def counts_at(
    scores: npt.ArrayLike, members: npt.ArrayLike, threshold: float
) -> npt.NDArray[np.int64]:
    """Counts of an attack at one threshold.

    Parameters
    ----------
    scores, members : array_like, shape (n,)
        As for :func:`roc_counts`, except that one kind of trials may be missing.
    threshold : float
        "Member" is guessed from this score on, up to rounding, and nowhere if it is infinite.

    Returns
    -------
    ndarray of int64, shape (4,)
        tp, fp, tn, fn.

    Examples
    --------
    >>> counts_at([3.0, 2.0, 1.0], [True, False, True], threshold=2.0).tolist()
    [1, 1, 0, 1]
    """
    same_rows(scores=scores, members=members)
    scores = as_scores("scores", scores).astype(np.float64)
    members = as_flags("members", members, len(scores))
    require_number("threshold", threshold)
    guess = _reached(scores, float(threshold)) & (threshold < math.inf)
    tp, fp = np.count_nonzero(guess & members), np.count_nonzero(guess & ~members)
    positives = np.count_nonzero(members)
    return np.array([tp, fp, len(members) - positives - fp, positives - tp], dtype=np.int64)


def _reached(scores: npt.NDArray[np.float64], threshold: float) -> npt.NDArray[np.bool_]:
    """Which scores are at least a threshold, with all that are equal to one of those."""
    guess = scores >= threshold
    below = at_least(scores, threshold) & ~guess
    if below.any():
        met = scores == threshold
        ranks = dense_ranks(scores)
        guess |= ranks >= ranks[met if met.any() else below].min()
    return guess


def union_lower_bound(
    counts: npt.ArrayLike,
    delta: float,
    level: float = 0.9,
    method: str = "clopper-pearson",
    *,
    fixed: bool = False,
) -> tuple[int, float]:
    """The largest of many lower bounds, each at a level that pays for the choice (Bonferroni).

    Parameters
    ----------
    counts : array_like of int, shape (m, 4)
        Columns tp, fp, tn, fn: all rows of one :func:`roc_counts`, or any of them, or of
        thresholds fixed beforehand.  An attack worse than chance shows 0: larger scores must say
        "member".
    delta : float
        In [0, 1).
    level : float
        Of the chosen bound.
    method : {"bayesian", "jeffreys", "clopper-pearson"}
        Only Clopper-Pearson's intervals keep their level for all error rates.
    fixed : bool
        Whether the thresholds were fixed before the scores were seen, as those of an attack that
        can only say a few things; few of them then cost less.

    Returns
    -------
    index : int
        The first row with the largest bound.
    bound : float
        The bound.

    Notes
    -----
    A bound rests on an upper limit of each of the two rates, each failing with probability a.  It
    is above the truth only if one of them is below its rate.  For m thresholds fixed beforehand
    these are 2 m events.  How many different scores will be observed is not fixed: with ties it is
    random, and may be small just where a limit fails.  But with n1 + n0 = N scores there are only
    N events for all thresholds together: those with k false positives lie above the (k + 1)-th
    largest of the n0 scores without the point, whose true FPR is stochastically at most
    Beta(k + 1, n0 - k), which is the distribution that Clopper-Pearson's upper limit at k is a
    quantile of.  That makes one event for each k < n0 (for k = n0 the limit is 1), whatever the
    ties, and as many as n1 for the FNR.  So a = (1 - level) / N, or (1 - level) / min(2 m, N) if
    `fixed`.

    To pay for the thresholds on the frontier alone (the corners of the least concave curve above
    the ROC curve, about ten to forty) gives a larger bound, and is not enough: the scores choose
    them, where chance favors the attack.  jax_privacy's default does so.  Where every threshold
    reaches the truth, such bounds at 95% were above it in 6.5% of 10,000 simulated audits of 2,500
    scores of each kind, and in 7.6% of one-run audits of 5,000 guesses
    (``tests/audit/test_jax_privacy.py``); the bound here was in 0.05%.

    Examples
    --------
    >>> row, bound = union_lower_bound(roc_counts(scores, members), delta=1e-5)
    >>> 0 < bound < true_best_epsilon(mu=1.5, delta=1e-5)
    True
    """
    level = as_number("level", level, 0, 1)
    require_choice("fixed", fixed, (False, True))
    table = _table(counts)
    each = 1 - 2 * (1 - level) / union_events(table, fixed)
    tp, fp, tn, fn = table.T
    better = tp * (fp + tn) >= fp * (tp + fn)
    # A row worse than chance becomes one that shows nothing.
    return best_lower_bound(np.where(better[:, None], table, [0, 0, 1, 1]), delta, each, method)


def union_events(counts: npt.NDArray[np.int64], fixed: bool = False) -> int:
    """Ways in which bounds at these thresholds can fail, see :func:`union_lower_bound`."""
    trials = int(counts.sum(axis=1).max())
    return max(2, min(2 * len(counts), trials) if fixed else trials)


def chosen_threshold(
    scores: npt.ArrayLike,
    members: npt.ArrayLike,
    delta: float,
    level: float = 0.95,
    method: str = "clopper-pearson",
    *,
    trials: int | None = None,
) -> float:
    """The threshold whose lower bound is largest, for use on *other* trials.

    The one rule of all held-out audits.  Where every bound is cut off at 0, which the largest of
    them would make "member nowhere", Jeffreys' decide; where those are 0, too, the largest
    difference between true and false positive rate.
    """
    table = roc_counts(scores, members)
    thresholds = roc_thresholds(scores)
    apart = np.abs(table[:, 0] / table[0, 3] - table[:, 1] / table[0, 2])
    if trials is not None:
        # Rounded so that every row has the same numbers of trials of each kind.
        table = _rescaled(table, trials)
    for name in dict.fromkeys((method, "jeffreys")):
        index, bound = best_lower_bound(table, delta, level, name)
        if bound > 0:
            return float(thresholds[index])
    return float(thresholds[int(np.argmax(apart > apart.max() - 1e-12))])


def held_out_lower_bound(
    scores: npt.ArrayLike,
    members: npt.ArrayLike,
    delta: float,
    level: float = 0.9,
    method: str = "clopper-pearson",
    *,
    share: float = 0.5,
    splits: int = 1,
    seed: int | np.random.Generator,
) -> tuple[float, float]:
    """A lower bound whose threshold was chosen on other trials.

    That takes away the bias of the choice, and nothing else: a Bayesian bound keeps its level only
    where one of the two logarithms of P3's Eq. 1 dominates, and never at epsilon = 0 with a tiny
    delta.

    Parameters
    ----------
    scores, members : array_like, shape (n,)
        As for :func:`roc_counts`; both parts must have trials of both kinds.
    delta, level, method
        As for :func:`lib.audit.epsilon_interval`.
    share : float
        Fraction of the trials of each kind that choose the threshold, in (0, 1).
    splits : int
        Times that the trials are divided, odd.  With more than one each bound may fail half as
        often, and the median counts: it fails with at most twice that probability, however the
        bounds depend on each other (Markov's inequality for the fraction that fails; Meinshausen,
        Meier and Buehlmann 2009).  The largest of them would not hold.
    seed : int or Generator
        Of the divisions.

    Returns
    -------
    threshold : float
        A trial is guessed to be a member from this score on; infinite for "never".
    bound : float
        On the trials that did not choose it.

    Examples
    --------
    >>> threshold, bound = held_out_lower_bound(scores, members, delta=1e-5, seed=0)
    >>> 0 < bound < true_best_epsilon(mu=1.5, delta=1e-5)
    True
    """
    scores, members = _attack(scores, members)
    delta, level = check_delta(delta), as_number("level", level, 0, 1)
    if as_integer("splits", splits) % 2 == 0:
        raise ValueError(f"splits must be odd, got {splits!r}")
    rng, found = as_generator(seed), []
    each = level if splits == 1 else (1 + level) / 2
    for _ in range(splits):
        choosing = divided(members, share, rng)
        threshold = chosen_threshold(scores[choosing], members[choosing], delta, each, method)
        row = counts_at(scores[~choosing], members[~choosing], threshold)
        found.append((float(epsilon_lower_bounds([row], delta, each, method)[0]), threshold))
    bound, threshold = sorted(found)[splits // 2]
    return threshold, bound


def gaussian_fnr(fpr: npt.ArrayLike, mu: float) -> npt.NDArray[np.float64]:
    """Trade-off curve of the Gaussian mechanism: least FNR at each FPR.

    Parameters
    ----------
    fpr : array_like of float
        False positive rates, in [0, 1].
    mu : float
        Sensitivity over standard deviation of the noise.

    Returns
    -------
    ndarray of float64

    References
    ----------
    Dong, Roth and Su (2022), Gaussian differential privacy, Eq. 6.

    Examples
    --------
    >>> gaussian_fnr([0.05, 0.5], mu=1.0).round(3).tolist()
    [0.74, 0.159]
    """
    require_finite("mu", mu, at_least=0)
    return stats.norm.cdf(stats.norm.isf(as_unit("fpr", fpr)) - mu)


def true_best_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of one Gaussian mechanism at `delta`.

    Solves delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2) (Balle and Wang 2018), for the
    argument of the first Phi, with which the second term neither overflows nor cancels.

    Parameters
    ----------
    mu : float
        Sensitivity over standard deviation of the noise, positive.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        At least 0; infinite beyond the largest float.

    Examples
    --------
    >>> round(true_best_epsilon(mu=1.0, delta=1e-5), 2)
    4.38
    """
    from scipy.optimize import brentq

    require_finite("mu", mu, above=0)
    mu, delta = float(mu), as_number("delta", delta, 0, 1)  # with 0 no finite epsilon does

    def spare(a: float) -> float:
        second = math.exp(-a * a / 2) * special.erfcx((mu - a) / math.sqrt(2)) / 2
        return float(special.ndtr(a) - second) - delta

    # At epsilon = 0 a is mu / 2; beyond 40 nothing is left of either term.
    low, high = float(special.ndtri(delta)) - 0.1, min(mu / 2, 40.0)
    if low >= high or spare(high) <= 0:
        return 0.0
    return mu * (mu / 2 - float(brentq(spare, low, high, xtol=1e-16)))


def _rescaled(table: npt.NDArray[np.int64], trials: int) -> npt.NDArray[np.int64]:
    """The same rates with another number of trials, as nearly as whole numbers can."""
    scaled = table * (trials / table[0].sum())
    positives, negatives = max(1, np.round(scaled[0, 3])), max(1, np.round(scaled[0, 2]))
    fn, fp = np.minimum(np.round(scaled[:, [3, 1]]), [positives, negatives]).T
    return np.stack([positives - fn, fp, negatives - fp, fn], axis=1).astype(np.int64)


def divided(
    members: npt.NDArray[np.bool_], share: float, seed, names: Sequence[str] = ("scores", "scores")
) -> npt.NDArray[np.bool_]:
    """Which trials choose a threshold: a fraction of those of each kind."""
    as_number("share", share, 0, 1)
    rng, choosing = as_generator(seed), np.zeros(len(members), bool)
    for name, kind in zip(names, (True, False), strict=True):
        rows = rng.permutation(np.flatnonzero(members == kind))
        count = round(share * len(rows))
        if not 0 < count < len(rows):
            which = f"trials with members = {kind}" if names[0] == names[1] else "trials"
            raise ValueError(f"{name} must leave {which} to both parts, got {len(rows)}")
        choosing[rows[:count]] = True
    return choosing


def _attack(scores, members) -> tuple[np.ndarray, np.ndarray]:
    same_rows(scores=scores, members=members)
    scores = as_scores("scores", scores).astype(np.float64)
    members = as_flags("members", members, len(scores))
    if members.all() or not members.any():
        raise ValueError(f"members must hold both kinds of trials, got only {bool(members[0])}")
    return scores, members
