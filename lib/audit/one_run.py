"""Auditing with one training run (Steinke, Nasr and Jagielski 2023)."""

import math
import numbers
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

from lib.audit.attacks import fit_models, log_ratio
from lib.audit.counts import as_array, check_delta, check_level
from lib.audit.intervals import epsilon_lower_bounds
from lib.audit.selection import counts_at
from lib.audit.system import FIT_SHARE, AuditResult

__all__ = ["compare_one_run", "one_run_epsilon", "one_run_guesses", "one_run_p_value"]


def one_run_p_value(
    correct: int, guesses: int, canaries: int, epsilon: float, delta: float
) -> float:
    """Bound on the chance of so many right guesses about an (epsilon, delta)-private training.

    Parameters
    ----------
    correct, guesses, canaries : int
        Right guesses, guesses, and canaries that were included by independent fair coins:
        0 <= correct <= guesses <= canaries, canaries at least 1.
    epsilon, delta : float
        The guarantee under which the chance is computed.

    Returns
    -------
    float
        At most 1.

    References
    ----------
    Steinke, Nasr and Jagielski (2023), Privacy auditing with one (1) training run, Theorem 5.2 and
    the program of appendix D.
    """
    _check(correct, guesses, canaries)
    delta = check_delta(delta)
    if not isinstance(epsilon, numbers.Real) or not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
    rate = float(special.expit(epsilon))
    beyond = float(stats.binom.sf(correct - 1, guesses, rate))
    if delta == 0 or correct == 0:
        return min(1.0, beyond)
    # The largest mean of the probabilities just below: P[correct - i <= W < correct] / i.
    below = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, rate))
    worst = float((below / np.arange(1, correct + 1)).max())
    return min(1.0, beyond + 2 * canaries * delta * worst)


def one_run_epsilon(
    correct: int, guesses: int, canaries: int, delta: float, level: float = 0.95
) -> float:
    """Lower bound on epsilon from guesses about many canaries of one training run, or of several.

    Several independent runs count as one mechanism with all their canaries together: each coin
    decides about a single run.

    Parameters
    ----------
    correct, guesses, canaries : int
        As for :func:`one_run_p_value`.
    delta : float
        In [0, 1).
    level : float
        Of the bound, in (0, 1).

    Returns
    -------
    float
        The largest epsilon that is rejected at the level; 0 if none is.  It does not assume that
        guesses are independent.

    Examples
    --------
    >>> round(one_run_epsilon(90, 100, 1000, 0.0), 3)
    1.631
    """
    _check(correct, guesses, canaries)
    delta, level = check_delta(delta), check_level(level)
    alpha = 1 - level

    def rejected(eps: float) -> bool:
        return one_run_p_value(correct, guesses, canaries, eps, delta) <= alpha

    if not rejected(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while rejected(high):
        low, high = high, 2 * high
        if high > 100:
            break
    while high - low > 1e-12 * (1 + low):
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
        if middle in (low, high) and high - low <= math.ulp(high):
            break
    return low


def one_run_guesses(scores: npt.ArrayLike, members: npt.ArrayLike, guesses: int) -> tuple[int, int]:
    """Guess where the scores say most: "in" at the largest half, "out" at the smallest.

    Parameters
    ----------
    scores : array_like of float, shape (runs, m)
        Membership scores of the canaries of each run.
    members : array_like of bool, shape (runs, m)
        Whether they were in.
    guesses : int
        Guesses a run, even, at most m.

    Returns
    -------
    correct, guesses : int
        Over all runs.
    """
    scores = np.atleast_2d(as_array("scores", scores))
    members = np.atleast_2d(as_array("members", members))
    if scores.dtype.kind not in "biuf" or scores.ndim != 2 or not scores.size:
        raise ValueError(
            "scores must be real numbers of shape (runs, m), got"
            f" {scores.dtype} of shape {scores.shape}"
        )
    if scores.shape != members.shape or members.dtype != bool:
        raise ValueError(
            "members must be booleans of the shape of scores, got"
            f" {members.dtype} {members.shape} for {scores.shape}"
        )
    if np.isnan(scores).any():
        raise ValueError(f"scores must not be NaN, got {int(np.isnan(scores).sum())} NaN")
    whole = isinstance(guesses, numbers.Integral)
    if not whole or guesses % 2 or not 0 < guesses <= scores.shape[1]:
        raise ValueError(f"guesses must be even, from 2 to {scores.shape[1]}, got {guesses!r}")
    order = np.argsort(scores, axis=1, kind="stable")
    low, high = order[:, : guesses // 2], order[:, -(guesses // 2) :]
    right = (
        np.take_along_axis(members, high, 1).sum() + (~np.take_along_axis(members, low, 1)).sum()
    )
    return int(right), guesses * len(scores)


def compare_one_run(
    result: AuditResult,
    models: Sequence[int],
    level: float = 0.95,
    shares: Sequence[float] = (0.01, 0.02, 0.05, 0.1, 0.3),
) -> pd.DataFrame:
    """Lower bounds of both ways of auditing, by the number of models audited.

    Parameters
    ----------
    result : AuditResult
        An audit with one challenge a target model.  Its left-out shadow models serve as the audited
        models of the other way: every point of the data is a canary there, since each was in by a
        coin of its own.  Both ways use LiRA with the same reference models.
    models : sequence of int
        Numbers of audited models; those beyond what there is are left out.
    level : float
        Of the bounds.
    shares : sequence of float
        Of the points that are guessed; the bound is the best of them, each at a level that pays
        for the choice.

    Returns
    -------
    pandas.DataFrame
        Columns ``epsilon``, ``audit`` (``"many runs"`` or ``"one run each"``), ``models``,
        ``lower bound``.
    """
    settings, rows = result.settings, []
    fitted = round(FIT_SHARE * len(result.shadows))
    ins, outs = fit_models(result.shadows[:fitted], result.shadow_members[:fitted])
    scores = log_ratio(result.shadows[fitted:].astype(float), ins, outs)
    members = result.shadow_members[fitted:]
    targets = result.scores["LiRA"]
    points = scores.shape[1]
    each = 1 - (1 - level) / len(shares)
    for n in models:
        if n <= len(targets):
            threshold = result.held_out_threshold("LiRA", level, trials=n)
            low, truth = 0.0, result.members[:n]
            if truth.any() and not truth.all():
                row = counts_at(targets[:n], truth, threshold)
                low = epsilon_lower_bounds([row], settings.delta, level, "clopper-pearson")[0]
            rows.append((settings.epsilon, "many runs", n, float(low)))
        if n <= len(scores):
            best = 0.0
            for share in shares:
                guesses = max(2, 2 * round(share * points / 2))
                right, made = one_run_guesses(scores[:n], members[:n], guesses)
                low = one_run_epsilon(right, made, n * points, settings.delta, each)
                best = max(best, low)
            rows.append((settings.epsilon, "one run each", n, best))
    return pd.DataFrame(rows, columns=["epsilon", "audit", "models", "lower bound"])


def _check(correct: int, guesses: int, canaries: int) -> None:
    for name, value in (("correct", correct), ("guesses", guesses), ("canaries", canaries)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise ValueError(f"{name} must be an integer of at least 0, got {value!r}")
    if not correct <= guesses <= canaries or canaries < 1:
        raise ValueError(
            "correct, guesses and canaries must ascend, with a canary at least, got"
            f" {correct}, {guesses}, {canaries}"
        )
