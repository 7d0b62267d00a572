"""Auditing with one training run (Steinke, Nasr and Jagielski 2023)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from lib.audit.selection import true_best_epsilon
from lib.check import (
    as_array,
    as_flags,
    as_generator,
    as_number,
    as_real,
    check_delta,
    require_choice,
    require_int,
    require_number,
    same_rows,
)
from lib.ties import dense_ranks

#: Guesses up to which a Gaussian bound takes less than a minute: it may visit each of them.
_MOST = 10_000_000

#: Of the points, fixed beforehand: the surest of them are guessed.
FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.3)


def one_run_p_value(
    correct: int, guesses: int, canaries: int, epsilon: float, delta: float, *, fixed: bool = True
) -> float:
    """Bound on the chance of so many right guesses about an (epsilon, delta)-private training.

    Parameters
    ----------
    correct, guesses, canaries : int
        Right guesses, guesses, and canaries that were included by independent fair coins:
        0 <= correct <= guesses <= canaries, canaries at least 1.
    epsilon, delta : float
        The guarantee under which the chance is computed.
    fixed : bool
        Whether the number of guesses (or an upper limit, given as `guesses`) was fixed beforehand.
        If the trained model had a say in it, as where guesses are made from some confidence on,
        only the second bound of the notes holds.

    Returns
    -------
    float
        At most 1.

    Notes
    -----
    With q = e^epsilon / (1 + e^epsilon) and T the chance of a binomial number of at least `correct`
    in `guesses` trials, two bounds hold, and the smaller one is taken: T + 2 m delta w for a number
    of guesses fixed beforehand, w the largest mean of the probabilities just below `correct`
    (Steinke et al.), and T + m (1 - q) delta for every number, also one that the model chooses.

    Proof of the second.  Reveal the coins in turn.  Given those before coin i, let P_1 and P_0 be
    the chances of the guesses t if coin i is 1 or 0.  The posterior of the guessed side exceeds q
    by e_i(t) with mean E[e_i] = 1/2 sum_t ((1 - q) P_guess - q P_other)_+, and q / (1 - q) =
    e^epsilon makes this (1 - q) / 2 times two sums of (P - e^epsilon P')_+, at most delta each.
    Let U_i be the chance of rejection if from guess i on all are right with probability q: it
    starts at T, whatever t and the number of guesses in t, ends as the fact, and grows in step i
    by at most e_i on average.  So the chance of rejection is at most the largest T over numbers of
    guesses at which one rejects, plus m (1 - q) delta.

    References
    ----------
    Steinke, Nasr and Jagielski (2023), Privacy auditing with one (1) training run, Theorem 5.2 and
    the program of appendix D.

    Examples
    --------
    >>> round(one_run_p_value(correct=80, guesses=100, canaries=500, epsilon=1.0, delta=0.0), 4)
    0.0716
    """
    _check(correct, guesses, canaries)
    require_choice("fixed", fixed, (False, True))
    delta = check_delta(delta)
    require_number("epsilon", epsilon, at_least=0)
    rate = float(special.expit(epsilon))
    beyond = float(special.betainc(correct, guesses - correct + 1, rate)) if correct else 1.0
    if delta == 0 or correct == 0:
        return min(1.0, beyond)
    slack = canaries * delta * float(special.expit(-epsilon))
    if fixed:
        # The largest mean of the probabilities just below: P[correct - i <= W < correct] / i.
        # They rise and fall: what is far from the most probable number makes no mean larger.
        reach = 50 + 10 * math.sqrt(guesses * rate * (1 - rate))
        first = min(correct - 1, math.ceil(guesses * rate + reach))
        last = max(0, math.floor(min(first, guesses * rate) - reach))
        count = np.arange(first, last - 1, -1)
        below = np.cumsum(stats.binom.pmf(count, guesses, rate))
        worst = float((below / (correct - count)).max())
        slack = min(slack, 2 * canaries * delta * worst)
    return min(1.0, beyond + slack)


def one_run_epsilon(
    correct: int,
    guesses: int,
    canaries: int,
    delta: float,
    level: float = 0.95,
    *,
    fixed: bool = True,
    family: str | None = None,
) -> float:
    """Lower bound on epsilon from guesses about many canaries of one training run, or of several.

    Several independent runs count as one mechanism with all their canaries together: each coin
    decides about a single run.

    Parameters
    ----------
    correct, guesses, canaries : int
        As for :func:`one_run_p_value`.  With a family at most 10 million guesses, or canaries if
        the number of guesses was not fixed.
    delta : float
        In [0, 1); in (0, 1) with a family.
    level : float
        Of the bound, in (0, 1).
    fixed : bool
        As for :func:`one_run_p_value`.
    family : {None, "gaussian"}
        None: for every mechanism.  ``"gaussian"``: *on the hypothesis* that the training's
        trade-off curve is that of a Gaussian mechanism; see the notes.  It stands beside the other
        bound, never in its place.

    Returns
    -------
    float
        The largest epsilon that is rejected at the level; 0 if none is.  It does not assume that
        guesses are independent.

    Notes
    -----
    What is rejected at epsilon is rejected below, too: (epsilon, delta)-privacy implies it for
    every larger epsilon.

    With ``family="gaussian"``, let F(x) = Phi(Phi^-1(x) + mu), the largest chance of an event whose
    chance is x on a neighbor.  For a coin j take the events "guess j is right (wrong), and at
    least n of the *other* guesses are right".  To flip the coin turns one into the other, so that
    the first has at most the chance F(chance of the second).  The mean over coins (F is concave)
    is, with p_i the chance of i right guesses of at most c', m canaries,

        sum_{i > n} i p_i / m  <=  F( sum_{i >= n} (c' - i) p_i / m ),   n = 0, 1, ...

    The largest chance of c right guesses that this allows lies on p_c and, downwards, on the least
    p_i that the next inequality asks for: to move mass from i to i - 1 lowers left sides and raises
    right ones, so that any solution becomes this one.  A mu is rejected where that takes more than
    all the mass.  The largest rejected mu becomes epsilon at delta by
    :func:`lib.audit.true_best_epsilon`: here alone the hypothesis is needed.  If the number of
    guesses was not fixed, it is at most the number of canaries.

    References
    ----------
    Mahloujifar, Melis and Chaudhuri (2024), Auditing f-differential privacy in one run, for the
    family.

    Examples
    --------
    >>> round(one_run_epsilon(90, 100, 1000, 0.0), 3)
    1.631
    >>> round(one_run_epsilon(90, 100, 1000, 1e-5, family="gaussian"), 2)
    2.46
    """
    _check(correct, guesses, canaries)
    require_choice("fixed", fixed, (False, True))
    delta, level = check_delta(delta), as_number("level", level, 0, 1)
    require_choice("family", family, (None, "gaussian"))
    if family:
        as_number("delta", delta, 0, 1)
        most = guesses if fixed else canaries
        if most > _MOST:
            raise ValueError(
                f"{'guesses' if fixed else 'canaries'} must be at most {_MOST:,} with a family, "
                f"got {most:,}; family=None takes any number"
            )
        mu = _largest_rejected(lambda mu: _gaussian_excess(correct, most, canaries, mu, 1 - level))
        return true_best_epsilon(mu, delta) if mu > 0 else 0.0

    def excess(eps: float) -> float:
        return one_run_p_value(correct, guesses, canaries, eps, delta, fixed=fixed) - (1 - level)

    # Without what delta adds, it would be Clopper and Pearson's bound: none above it is rejected.
    # The lower limit of the rate of right guesses, and the epsilon that has it as its largest rate.
    share = special.betaincinv(correct, guesses - correct + 1, 1 - level) if correct else 0.0
    ceiling = float(special.logit(share))
    if delta == 0 or ceiling <= 0:
        return max(0.0, ceiling)
    # Rejection need not be monotone, so that a grid is searched from above: what falls between two
    # of its values can only make the bound smaller.
    grid = np.r_[0.0, np.geomspace(1e-3, 128.0, 100)]
    grid = [ceiling, *grid[grid < ceiling][::-1].tolist()]
    place = next((k for k, eps in enumerate(grid) if excess(eps) <= 0), None)
    if not place:
        return 0.0 if place is None else ceiling
    low, high = grid[place], grid[place - 1]
    return max(low, optimize.brentq(excess, low, high, xtol=1e-12) - 2e-12)


def _largest_rejected(rejected: Callable[[float], bool]) -> float:
    """The largest value up to 64 that is rejected; 0 if none is."""
    low, high = 0.0, 64.0
    while high - low > 1e-12 * (1 + low):
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


def _gaussian_excess(correct: int, guesses: int, canaries: int, mu: float, alpha: float) -> bool:
    """Whether so many right guesses have a chance below alpha under mu-GDP.

    All in units of 1 / canaries: `right` and `wrong` are the sums over i of i p_i and (c' - i) p_i.
    """
    right, wrong = alpha * correct, alpha * (guesses - correct)
    # From c right guesses down: the least mass that the inequality for n = i asks for is put on i.
    for i in range(correct - 1, -1, -1):
        chance = min(right / canaries, 1.0)
        needed = canaries * float(special.ndtr(special.ndtri(chance) - mu))
        if needed <= wrong:
            return False  # nor is anything asked of the next
        right += (needed - wrong) * i / (guesses - i)
        wrong = needed
        if right + wrong > guesses:
            return True
    return False


def one_run_guesses(
    scores: npt.ArrayLike,
    members: npt.ArrayLike,
    guesses: int,
    *,
    seed: int | np.random.Generator = 0,
) -> tuple[int, int]:
    """Guess where the scores say most: "in" at the largest half, "out" at the smallest.

    Parameters
    ----------
    scores : array_like of float, shape (runs, m)
        Membership scores of the canaries of each run.
    members : array_like of bool, shape (runs, m)
        Whether they were in.
    guesses : int
        Guesses a run, even, at most m.
    seed : int or Generator
        Of the order of scores that are equal up to rounding: that of the arrays may tell who was
        in.

    Returns
    -------
    correct, guesses : int
        Over all runs.

    Examples
    --------
    >>> one_run_guesses([[3.0, 1.0, -1.0, -2.0]], [[True, False, True, False]], guesses=2)
    (2, 2)
    """
    same_rows(scores=scores, members=members)
    scores = np.atleast_2d(as_real("scores", scores))
    members = np.atleast_2d(as_array("members", members))
    if scores.ndim != 2 or not scores.size:
        raise ValueError(f"scores must be of shape (runs, m), got {scores.shape}")
    if scores.shape != members.shape:
        raise ValueError(
            "members must be booleans of the shape of scores, got"
            f" {members.dtype} {members.shape} for {scores.shape}"
        )
    members = as_flags("members", members.ravel()).reshape(members.shape)
    if np.isnan(scores).any():
        raise ValueError(f"scores must not be NaN, got {int(np.isnan(scores).sum())} NaN")
    require_int("guesses", guesses)
    if guesses % 2 or not 0 < guesses <= scores.shape[1]:
        raise ValueError(f"guesses must be even, from 2 to {scores.shape[1]}, got {guesses!r}")
    # Scores equal up to rounding share a rank, and random numbers decide among them.
    ranks = np.stack([dense_ranks(run) for run in scores])
    order = np.lexsort((as_generator(seed).random(scores.shape), ranks), axis=1)
    low, high = order[:, : guesses // 2], order[:, -(guesses // 2) :]
    right = (
        np.take_along_axis(members, high, 1).sum() + (~np.take_along_axis(members, low, 1)).sum()
    )
    return int(right), guesses * len(scores)


def best_one_run(
    scores: npt.ArrayLike, members: npt.ArrayLike, delta: float, level: float = 0.95, **options: Any
) -> float:
    """The best one-run bound over :data:`FRACTIONS` of guesses, corrected for the choice."""
    scores, members = np.atleast_2d(scores), np.atleast_2d(members)
    points = scores.shape[1]
    each = 1 - (1 - level) / len(FRACTIONS)
    best = 0.0
    for fraction in FRACTIONS:
        right, made = one_run_guesses(scores, members, fixed_guesses(points, fraction))
        best = max(best, one_run_epsilon(right, made, scores.size, delta, each, **options))
    return best


def fixed_guesses(points: int, fraction: float) -> int:
    """An even number of guesses, at least 2, for a fraction of the points."""
    return max(2, 2 * round(fraction * points / 2))


def _check(correct: int, guesses: int, canaries: int) -> None:
    for name, value in (("correct", correct), ("guesses", guesses), ("canaries", canaries)):
        require_int(name, value, at_least=0)
    if not correct <= guesses <= canaries or canaries < 1:
        raise ValueError(
            "correct, guesses and canaries must ascend, with a canary at least, got"
            f" {correct}, {guesses}, {canaries}"
        )
