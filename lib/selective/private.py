"""A threshold with a promise, chosen on data that must stay private."""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from lib.check import as_generator, as_number, as_scored, as_scores, as_unit, require_number
from lib.selective.guarantee import Threshold
from lib.ties import count_above


def private_threshold(
    correct: npt.ArrayLike,
    score: npt.ArrayLike,
    target: float,
    thresholds: npt.ArrayLike,
    epsilon: float,
    level: float = 0.95,
    *,
    rng: np.random.Generator | int,
) -> Threshold:
    """The first of given thresholds whose selective accuracy is surely a target, privately.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`, of independent points that neither the model
        nor the score was made with.  They stay private.
    target : float
        Accuracy to promise, in (0, 1].
    thresholds : array_like of float, shape (m,)
        Candidates, tried from the lowest up.  They count as public, so they must not depend on the
        points; minus infinity answers everywhere.  A score is above one if :func:`lib.ties.above`
        says so: 0.1 in single precision, in whatever type it comes, is not above 0.1.  Answer by
        the same rule.
    epsilon : float
        At least 1e-6: what the answer spends, in pure differential privacy, whether neighbors
        differ by adding, removing or replacing one point.  Infinity is the same test without noise.
    level : float
        In (0, 1): with at least this probability, over draws of the points *and* of the noise, the
        selective accuracy of the threshold that is returned is at least `target`, or None is
        returned.
    rng : numpy.random.Generator or int
        Source of the noise, which must stay secret.

    Returns
    -------
    Threshold
        Without coverage and accuracy seen: to publish them would cost more.

    Notes
    -----
    Let k points be above a threshold, E of them wrong.  If its accuracy is below the target, then
    E is at least binomial with k and 1 - `target`.  Let c(k) be the largest integer with
    P(B + G <= c) <= (1 - `level`) / m, B being that binomial and G two-sided geometric,
    P(G = g) proportional to ``exp(-epsilon |g| / 2)``.  The threshold passes if
    c(k) - E + N >= R: N is drawn anew for each, R once for all, both geometric with
    P(N >= x) = exp(-epsilon x / 2).  R - N has the distribution of G, so that a threshold that
    breaks the promise passes with at most (1 - `level`) / m, whatever the others do (Bonferroni):
    neither selective accuracy nor scores are assumed to be well behaved.

    Privacy: c grows by 0 or 1 with k, so one point more or less, or another one in its place, moves
    c(k) - E by 0 or 1 at every threshold and in the same direction at all of them.  For such
    queries AboveThreshold with one-sided noise spends epsilon: if they rise, moving R by one undoes
    what happens below the threshold that is returned, at the price of epsilon / 2, and N at this
    threshold pays as much again; if they fall, N alone pays.  Noise and counts are integers: no
    rounding tells of them.  Whether a score is a threshold up to rounding is told by these two
    alone, so that another point changes no other comparison.

    References
    ----------
    Lyu, Su and Li, Understanding the sparse vector technique for differential privacy, 2017, for
    monotonic queries with Laplace noise.  Liu, Wang, Liu, Li and Chen, Unleash the power of
    ellipsis, 2024, for exponential noise.  Geifman and El-Yaniv, Selective classification for deep
    neural networks, 2017, for the promise without privacy.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> score = rng.random(2000)
    >>> correct = rng.random(2000) < 0.7 + 0.3 * score
    >>> grid = np.linspace(0, 0.9, 10)
    >>> private_threshold(correct, score, 0.9, grid, epsilon=1.0, rng=1).threshold
    0.5
    >>> private_threshold(correct, score, 0.9, grid, epsilon=0.05, rng=1).threshold is None
    True
    """
    correct, score = as_scored(correct, score)
    target = float(as_unit("target", target, open_left=True))
    grid = np.unique(as_scores("thresholds", thresholds))
    require_number("epsilon", epsilon, at_least=1e-6)
    level = as_number("level", level, 0, 1)
    rng = as_generator(rng, "rng")
    answered, wrong = count_above(score, grid), count_above(score[~correct], grid)
    decay, alpha = math.exp(-epsilon / 2), min((1 - level) / len(grid), 0.5)
    bar, *noise = rng.geometric(1 - decay, 1 + len(grid)) - 1
    for threshold, k, errors, more in zip(grid, answered, wrong, noise, strict=True):
        if allowed_errors(int(k), 1 - target, decay, alpha) - errors + more >= bar:
            return Threshold(float(threshold), None, None, None, target, target, level)
    return Threshold(None, None, None, None, None, target, level)


@lru_cache(maxsize=2**17)
def allowed_errors(k: int, rate: float, decay: float, alpha: float) -> int:
    """The largest c with P(B + G <= c) <= alpha, see :func:`private_threshold`.

    Parameters
    ----------
    k : int
        Rows that are answered; B of them are wrong.
    rate : float
        The chance of each to be wrong.
    decay : float
        Of the two-sided geometric noise G.
    alpha : float
        Level.

    Returns
    -------
    int
        Errors at which the rate is rejected; negative if none are few enough.
    """
    reach = 40 + 9 * math.sqrt(k * rate * (1 - rate))
    b = np.arange(max(0, math.floor(k * rate - reach)), min(k, math.ceil(k * rate + reach)) + 1)
    p = stats.binom.pmf(b, k, rate)
    missing = abs(1 - p.sum())  # rounding, and less than that in the tails

    def below(c: int) -> float:
        x = c - b
        tail = decay ** np.where(x < 0, -x, x + 1) / (1 + decay)
        return float(p @ np.where(x < 0, tail, 1 - tail)) + missing

    low, step = int(b[0]) - 1, 1
    while below(low) > alpha:
        low, step = low - step, 2 * step
    high, step = low + 1, 1
    while below(high) <= alpha:
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if below(middle) <= alpha else (low, middle)
    return low
