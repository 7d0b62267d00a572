"""Scores of classifiers that abstain while data arrive: valid at every time, from the first on.

Each value may use models of earlier points only.  If, moreover, every answer's probability is known
and has a floor, a confidence sequence holds at every sample size without any approximation.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.check import (
    as_answers,
    as_flags,
    as_generator,
    as_integer,
    as_matrix,
    as_number,
    as_vector,
    require_choice,
    require_number,
    same_rows,
)
from lib.counterfactual.estimate import Nuisances, as_pair, fit_nuisances
from lib.counterfactual.sequences import ConfidenceSequence

Array = npt.NDArray[np.float64]


def predictable_nuisances(
    X: npt.ArrayLike,
    scores: npt.ArrayLike,
    abstained: npt.ArrayLike,
    *,
    start: int = 100,
    learner: Any = "linear",
    rng: np.random.Generator | int,
) -> Nuisances:
    """Propensity and outcome of each point by models of the points before it.

    Parameters
    ----------
    X, scores, abstained, learner, rng
        As for :func:`lib.counterfactual.counterfactual_score`, *in order of arrival*.
    start : int
        Points, from 2 to n - 1, that the first models learn from.  They are fitted anew whenever
        the points have doubled.

    Returns
    -------
    Nuisances
        Of the points after the first `start`.

    Raises
    ------
    ValueError
        If the classifier answered none of the first `start` points.

    References
    ----------
    Waudby-Smith et al., 2024 (see :func:`lib.counterfactual.confidence_sequence`).

    Examples
    --------
    >>> nuisances = predictable_nuisances(X, a, r, start=100, rng=0)
    >>> nuisances.propensity.shape
    (500,)
    """
    same_rows(X=X, scores=scores, abstained=abstained)
    x, rng = as_matrix("X", X), as_generator(rng, "rng")
    r = as_flags("abstained", abstained, len(x))
    s = as_answers("scores", scores, r)
    stop = as_integer("start", start, 2, len(x) - 1)
    if r[:stop].all():
        raise ValueError(f"abstained must be False somewhere in the first {stop} rows (start)")
    first, parts = stop, []
    while stop < len(x):
        # Models are fitted to all points before `past` and used until there are twice as many:
        #
        #     | start |   start   |       2 start       | ...
        #             ^ fit        ^ fit                 ^ fit
        #
        # so that each value knows earlier points only, and fits are few.
        past, stop = stop, min(len(x), 2 * stop)
        later = np.arange(stop) >= past
        fit = fit_nuisances(x[:stop], s[:stop], r[:stop], later, learner, rng=rng, only=1)
        parts.append((fit.propensity[past:], fit.outcome[past:]))
    return Nuisances(r[first:], s[first:], *map(np.concatenate, zip(*parts, strict=True)))


def exact_sequence(
    nuisances: Nuisances | Sequence[Nuisances],
    floor: float,
    *,
    target: str = "sample",
    level: float = 0.95,
    planned: int | None = None,
) -> ConfidenceSequence:
    """Confidence sequence for a counterfactual score, or a difference, with known propensities.

    Parameters
    ----------
    nuisances : Nuisances or sequence of one or two
        Of the classifier, or of A and B, in order of arrival, with scores in [0, 1].  Propensities
        are the *true* ones, by which abstentions were drawn; each outcome is a guess that knows
        earlier points only (:func:`predictable_nuisances`), good or bad, and is clipped to [0, 1].
    floor : float
        In (0, 1]: least probability of an answer, known beforehand.
    target : {"sample", "population"}
        Mean score (difference) of the *first n points themselves*, had nothing been withheld; or
        mean of their expectations, each given all that came before.
    level : float
        In (0, 1): probability with which all intervals hold together.
    planned : int, optional
        Points at which it is to be narrow, chosen without a look at the data; all if not given.

    Returns
    -------
    ConfidenceSequence
        From the first point on.  Its `rho` is that of the mixture.

    Notes
    -----
    y_t is the influence value of point t less gamma_t, V the sum of the squares, and c = k / floor
    for k classifiers.  As -c <= y <= c, for 0 <= lambda < 1 / c

        exp(lambda sum(y - E y) + V (log(1 - c lambda) + c lambda) / c^2)

    is a supermartingale, and so is its mixture over a truncated gamma distribution, which exceeds
    2 / alpha with probability alpha / 2 at most; the same with -y.  For the sample gamma_t is what
    was guessed, and nothing is random but the coins by which classifiers abstain: data may drift,
    or depend on each other.  For the population it is the mean of earlier values, and the target is
    psi (Delta) if points are independent and alike.  If nobody abstains (`floor` 1), that is the
    sequence of Choe and Ramdas for forecasters.

    References
    ----------
    Choe and Ramdas, Comparing sequential forecasters, 2024 (arXiv 2110.00115), Theorem 2.  Howard
    et al., Time-uniform, nonparametric, nonasymptotic confidence sequences, Annals of Statistics,
    2021, Theorem 4 and Proposition 9.  With weights: Waudby-Smith et al., Anytime-valid off-policy
    inference for contextual bandits, 2024 (arXiv 2210.10768).

    Examples
    --------
    >>> from dataclasses import replace
    >>> guess = predictable_nuisances(X, a, r, rng=0)
    >>> known = replace(guess, propensity=drawn.propensities[0][100:])
    >>> sequence = exact_sequence(known, floor=0.2)
    >>> bool(sequence.lower[-1] < a[100:].mean() < sequence.upper[-1])
    True
    """
    pair = as_pair(nuisances)
    n, k = len(pair[0].scores), len(pair)
    require_number("floor", floor, above=0, at_most=1)
    require_choice("target", target, ("sample", "population"))
    alpha = 1 - as_number("level", level, 0, 1)
    planned = n if planned is None else as_integer("planned", planned, 1)
    count, residual, guess = np.arange(1, n + 1), np.zeros(n), np.zeros(n)
    for sign, one in zip((1, -1), pair, strict=False):
        y, outcome = _residuals(one, n, floor)
        residual, guess = residual + sign * y, guess + sign * outcome
    mean = np.cumsum(guess + residual) / count
    if target == "population":
        before = np.clip(np.r_[0.0, mean[:-1]], 1 - k, 1)
        # For the population the mean so far is subtracted, which knows earlier points only.
        residual = guess + residual - before
    rho = _mixture_rho(planned * k / 4, alpha / 2)
    half = mixture_boundary(np.cumsum(residual**2), alpha / 2, rho, k / floor) / count
    return ConfidenceSequence(count, mean, mean - half, mean + half, rho, level)


def _residuals(one: Nuisances, n: int, floor: float) -> tuple[Array, Array]:
    """Weighted differences of answers from their guesses, and the guesses."""
    r = as_flags("abstained", one.abstained, n)
    s = as_answers("scores", one.scores, r)
    answers = 1 - as_vector("propensity", one.propensity, n)
    if (answers < floor * (1 - 1e-9)).any() or (answers > 1).any():
        raise ValueError(
            f"propensity must be from 0 to 1 - floor, {1 - floor:g}, got {1 - answers.max():g} to "
            f"{1 - answers.min():g}"
        )
    if (~r & ((s < 0) | (s > 1))).any():
        raise ValueError(f"scores must be in [0, 1], got {s[~r].min():g} to {s[~r].max():g}")
    outcome = np.clip(as_vector("outcome", one.outcome, n), 0, 1)
    return np.where(r, 0.0, (s - outcome) / answers), outcome


def _mixture_rho(v: float, alpha: float) -> float:
    """The parameter that makes the boundary nearly as low as can be at intrinsic time v."""
    need = -2 * math.log(2 * alpha)
    return v / (need + math.log1p(need))


def log_mixture(s: Array, v: Array, rho: float, c: float) -> tuple[Array, Array]:
    """Logarithm of the gamma-exponential mixture at sum s and intrinsic time v; its slope in s.

    Howard et al., 2021, Proposition 9.
    """
    # In logarithms, and with the regularized incomplete gamma function: sums reach thousands.
    base, a = rho / c**2, (v + rho) / c**2
    x = s / c + a
    tail = special.gammainc(a, x)
    first = base * math.log(base) - special.gammaln(base) - math.log(special.gammainc(base, base))
    log = first + special.gammaln(a) + np.log(tail) - a * np.log(x) + s / c + v / c**2
    density = np.exp((a - 1) * np.log(x) - x - special.gammaln(a))
    return log, (density / tail - a / x + 1) / c


def mixture_boundary(v: Array, alpha: float, rho: float, c: float) -> Array:
    """What the sum exceeds at no intrinsic time v, but with probability alpha: by Newton's method.

    The mixture's logarithm is convex in the sum, so that after a step everything is above the root.
    """
    goal = -math.log(alpha)
    s = np.sqrt(2 * goal * (v + rho)) + c * goal
    for _ in range(50):
        value, slope = log_mixture(s, v, rho, c)
        step = (value - goal) / slope
        s = s - step
        if np.all(np.abs(step) <= 1e-10 * s):
            break
    return s
