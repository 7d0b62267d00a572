"""P5's attack on canaries: guess which of two wrong labels a model was trained on.

*Game 1* fixes two neighboring data sets, *Game 2* makes them by giving one random example either
of two wrong labels, *Game 3* plays many instances of Game 2 in a single training: every canary is
one.  The adversary compares the model's confidences in both labels, and abstains where both are
small.  Theorem B.1: an epsilon-DP training allows a rate of correct guesses, among those made, of
at most e^epsilon / (1 + e^epsilon).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.audit.counts import AttackCounts
from lib.audit.intervals import epsilon_interval
from lib.audit.one_run import one_run_epsilon
from lib.check import (
    as_classes,
    as_generator,
    as_integer,
    as_number,
    as_probabilities,
    check_delta,
    require_choice,
    require_number,
    same_rows,
)

#: Thresholds that P5's authors try.
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)

AUTHORS_Z = float(stats.norm.isf(0.025))  # of the level 0.95, where their rules hold
_SAME = 1e-24  # squares of differences of rates that are but rounding
FEW = 50  # canaries with a guess, up to which an attack that is never wrong shows nothing


@dataclass(frozen=True, eq=False)
class CanaryAudit:
    """What the canaries of one training say about epsilon.

    Attributes
    ----------
    low, high : float
        Ends of the interval for epsilon at the chosen threshold.
    threshold : float
        The one with the largest lower limit; NaN if nothing was guessed at any.
    per_threshold : pandas.DataFrame
        Columns ``threshold``, ``canaries`` (with a guess), ``guesses``, ``accuracy`` (weighted mean
        of the canaries' rates of correct guesses), ``low``, ``high``.
    """

    low: float
    high: float
    threshold: float
    per_threshold: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Guesses:
    """One guess about each canary.

    Attributes
    ----------
    made : ndarray of bool, shape (n,)
        Where the adversary did not abstain.
    correct : ndarray of bool, shape (n,)
        Whether the guess is right; False where none was made.
    options : int
        Number of labels that were equally likely beforehand: 2, or C - 1.
    bits : ndarray of bool, shape (n,), optional
        Of two options, whether the trained label is the second.
    """

    made: npt.NDArray[np.bool_]
    correct: npt.NDArray[np.bool_]
    options: int
    bits: npt.NDArray[np.bool_] | None = None

    @property
    def n_made(self) -> int:
        """Number of guesses."""
        return int(np.count_nonzero(self.made))

    @property
    def n_correct(self) -> int:
        """Number of right ones."""
        return int(np.count_nonzero(self.correct))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Clopper-Pearson's interval for the rate of correct guesses, as one for epsilon.

        Parameters
        ----------
        level : float
            Two-sided, in (0, 1).

        Returns
        -------
        low, high : float
            (0, infinity) without a guess.

        References
        ----------
        P5, appendix B ("we count the number of correct guesses among the M <= N instances").
        """
        if not self.n_made:
            return 0.0, math.inf
        tail = (1 - as_number("level", level, 0, 1)) / 2
        right, wrong = self.n_correct, self.n_made - self.n_correct
        rates = (
            stats.beta.ppf(tail, right, wrong + 1) if right else 0.0,
            stats.beta.isf(tail, right + 1, wrong) if wrong else 1.0,
        )
        low, high = (self._epsilon(float(rate)) for rate in rates)
        return low, high

    def lower_bound(self, level: float = 0.95, delta: float = 0.0) -> float:
        """A lower bound on epsilon that does not assume the guesses to be independent.

        Parameters
        ----------
        level : float
            One-sided, in (0, 1).
        delta : float
            In [0, 1); above 0 for two options alone.

        Returns
        -------
        float
            0 without a guess.

        Notes
        -----
        Given the model and the labels of all canaries before it, the trained label of a canary is
        each of k equally likely ones with odds of at most e^epsilon: a guess is right with
        probability at most e^epsilon / (e^epsilon + k - 1).  The number of right guesses is
        therefore stochastically smaller than a binomial one, however the guesses and abstentions
        depend on the model (Steinke, Nasr and Jagielski 2023, Theorem 5.2, whose argument for two
        options holds word for word for k).  With delta = 0 the bound is Clopper-Pearson's.  With a
        delta the number of guesses counts as chosen by the model, which it is where guesses are
        made from a confidence on: see :func:`lib.audit.one_run_p_value` with ``fixed=False``.
        """
        level = as_number("level", level, 0, 1)
        delta = check_delta(delta)
        if delta and self.options != 2:
            raise ValueError(f"delta must be 0 for {self.options} options, got {delta!r}")
        if not self.n_made:
            return 0.0
        if delta:
            counts = self.n_correct, self.n_made, len(self.made)
            return one_run_epsilon(*counts, delta, level, fixed=False)
        right, wrong = self.n_correct, self.n_made - self.n_correct
        rate = float(stats.beta.ppf(1 - level, right, wrong + 1)) if right else 0.0
        return self._epsilon(rate)

    def bayesian_interval(self, level: float = 0.95, delta: float = 0.0) -> tuple[float, float]:
        """P3's Bayesian interval on the same guesses, see :func:`lib.audit.epsilon_interval`.

        Parameters
        ----------
        level : float
            Two-sided, in (0, 1); there must be two options.
        delta : float
            In [0, 1).

        Returns
        -------
        low, high : float
            (0, infinity) unless guesses were made about both bits.

        Notes
        -----
        The bit says which of the two labels came first, by a fair coin: a guess is a trial with a
        true bit.  Which trials make the adversary abstain does not depend on the coin, so that
        given a guess delta counts as delta over the fraction of guesses.

        The coin makes two error rates out of one, and the posterior is about the larger of two
        logarithms that are equal here: its lower limit is above the truth more often than it says.
        """
        if self.bits is None:
            raise ValueError(f"a Bayesian interval needs two options, got {self.options}")
        one, zero = self.bits & self.made, ~self.bits & self.made
        if not one.any() or not zero.any():
            return 0.0, math.inf
        counts = AttackCounts(
            tp=int(np.count_nonzero(one & self.correct)),
            fp=int(np.count_nonzero(zero & ~self.correct)),
            tn=int(np.count_nonzero(zero & self.correct)),
            fn=int(np.count_nonzero(one & ~self.correct)),
        )
        # delta is of all trials: it may all be spent on those in which a guess was made.
        given = min(delta * len(self.made) / self.n_made, 1 - 1e-9)
        return epsilon_interval(counts, given, level, "bayesian")

    def _epsilon(self, rate: float) -> float:
        if rate >= 1:
            return math.inf
        if rate <= 1 / self.options:
            return 0.0
        return math.log(rate * (self.options - 1) / (1 - rate))


def epsilon_of_rate(rate: float) -> float:
    """Smallest epsilon that allows a rate of correct guesses: log(rate / (1 - rate)), at least 0.

    Parameters
    ----------
    rate : float
        In [0, 1]; up to 1/2 nothing is needed.

    Returns
    -------
    float
        Infinite for 1.

    References
    ----------
    P5, Theorem B.1.

    Examples
    --------
    >>> round(epsilon_of_rate(0.75), 3), epsilon_of_rate(0.5)
    (1.099, 0.0)
    """
    require_number("rate", rate, at_least=0, at_most=1)
    if rate == 1:
        return math.inf
    return max(0.0, math.log(rate / (1 - rate))) if rate > 0.5 else 0.0


def rate_of_epsilon(epsilon: float) -> float:
    """Largest rate of correct guesses under epsilon-DP: e^epsilon / (1 + e^epsilon).

    Parameters
    ----------
    epsilon : float
        At least 0.

    Returns
    -------
    float

    Examples
    --------
    >>> round(rate_of_epsilon(1.0), 3)
    0.731
    """
    require_number("epsilon", epsilon, at_least=0)
    return 1 / (1 + math.exp(-epsilon))


def canary_epsilon(
    confidences: npt.ArrayLike,
    canary_labels: npt.ArrayLike,
    true_labels: npt.ArrayLike,
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    level: float = 0.95,
    corrected: bool = False,
    mirror: bool = True,
    standard_error: str = "authors",
) -> CanaryAudit:
    """Interval for epsilon from the confidences of one model on its canaries.

    Every canary's wrong label is compared with all C - 2 other wrong ones; its rate of correct
    guesses is averaged with the number of guesses as weight.

    Parameters
    ----------
    confidences : array_like of float, shape (n, C)
        The model's softmax output on the canaries; C is at least 3.
    canary_labels, true_labels : array_like of int, shape (n,)
        What they were trained with, and what is right; different everywhere.
    thresholds : sequence of float
        Confidences, in [0, 1], below which both labels make the adversary abstain.
    level : float
        Of the interval at each threshold, two-sided.
    corrected : bool
        Raise the level at each threshold so that all of them hold together (Bonferroni): the
        paper's own intervals are not corrected for the choice.
    mirror : bool
        Whether an accuracy below 1/2 counts as the reversed attack, as in the authors' program.
        Without, it gives a lower limit of 0.
    standard_error : {"authors", "sandwich"}
        The authors' sqrt(variance / k), see below, or sqrt(sum w_i^2 (a_i - m)^2), which takes the
        unequal weights into account.

    Returns
    -------
    CanaryAudit
        Without a guess at any threshold the interval is (0, infinity), and its threshold NaN.

    Notes
    -----
    With a_i the rate of canary i and w_i its fraction of all guesses: the mean m = sum w_i a_i, the
    variance sum w_i (a_i - m)^2 / (1 - sum w_i^2) (reliability weights), and the normal interval
    with the number k of canaries that have a guess, m -+ z sqrt(variance / k), clipped to
    [1/2, 1].  A mean below 1/2 is mirrored: the reverse of the attack is an attack.  If the attack
    is never wrong, the lower limit is 1/2 up to k = 50, and beyond the authors' 1 - 3 / k, about a
    one-sided limit of 95%; at any other level, and if corrected, it is Clopper-Pearson's there.
    The reported threshold has the largest lower limit and, among equal ones, is the
    largest with a finite upper limit.  A single canary with both right and wrong guesses has no
    variance, nor have canaries with the same rate: their interval is (0, infinity).  Equal
    confidences are a wrong guess: the adversary says "this label" only where it is the more
    confident one.

    The authors' program has z = 1.96, and takes among equal lower limits the largest finite upper
    one: on all their files that is the same threshold.

    References
    ----------
    P5, appendix B, and the authors' public program for what the text leaves open (the mirror, the
    rule for attacks that are never wrong, k).

    Examples
    --------
    >>> found = canary_epsilon(*data)
    >>> round(found.low, 2), round(found.high, 2), found.threshold
    (4.3, inf, 0.6)
    """
    p, canary, true = _checked(confidences, canary_labels, true_labels)
    thresholds = _thresholds(thresholds)
    level = as_number("level", level, 0, 1)
    require_choice("standard_error", standard_error, ("authors", "sandwich"))
    tail = (1 - level) / 2 / (len(thresholds) if corrected else 1)
    z = float(stats.norm.isf(tail))
    rows = np.arange(len(p))
    own = p[rows, canary]
    others = p.copy()
    others[rows, canary] = others[rows, true] = -1.0  # not alternatives
    # Alternatives that are less likely than the label trained with: right guesses. Equal ones are
    # not.
    beaten = np.count_nonzero((others < own[:, None]) & (others >= 0), axis=1)
    alternatives = p.shape[1] - 2
    table = []
    for threshold in thresholds:
        sure = own >= threshold
        # Sure of its own label, the adversary guesses against every alternative; otherwise against
        # those alone that reach the threshold, and then wrongly.
        made = np.where(sure, alternatives, np.count_nonzero(others >= threshold, axis=1))
        right = np.where(sure, beaten, 0)
        table.append((threshold, *_interval(made, right, z, mirror, standard_error)))
    columns = ["threshold", "canaries", "guesses", "accuracy", "low", "high"]
    frame = pd.DataFrame(table, columns=columns)
    ends = [(low, high, threshold) for threshold, _, made, _, low, high in table if made > 0]
    if not ends:
        return CanaryAudit(0.0, math.inf, math.nan, frame)
    # The largest lower limit; of equal ones a finite upper limit, and then the largest threshold.
    best = max(ends, key=lambda row: (row[0], math.isfinite(row[1]), row[2]))
    return CanaryAudit(*map(float, best), frame)


def single_label_guesses(
    confidences: npt.ArrayLike,
    canary_labels: npt.ArrayLike,
    true_labels: npt.ArrayLike,
    threshold: float,
    *,
    seed: int | np.random.Generator,
) -> Guesses:
    """Play Game 3 as it is written: one random alternative a canary, one guess or none.

    Parameters
    ----------
    confidences, canary_labels, true_labels
        As for :func:`canary_epsilon`.
    threshold : float
        The adversary abstains where both labels are below.
    seed : int or Generator
        Of the alternatives, and of which label comes first.

    Returns
    -------
    Guesses
        With two options.

    Examples
    --------
    >>> guesses = single_label_guesses(*data, threshold=0.5, seed=0)
    >>> guesses.options, guesses.n_correct <= guesses.n_made <= 300
    (2, True)
    >>> round(guesses.lower_bound(level=0.95), 2)
    3.02
    """
    p, canary, true = _checked(confidences, canary_labels, true_labels)
    (threshold,) = _thresholds([threshold])
    rng = as_generator(seed)
    n, classes = p.shape
    # The r-th of the labels that are neither the true nor the trained one.
    draw = rng.integers(0, classes - 2, n)
    low, high = np.minimum(canary, true), np.maximum(canary, true)
    draw += draw >= low
    draw += draw >= high
    bits = rng.integers(0, 2, n).astype(bool)
    rows = np.arange(n)
    own, other = p[rows, canary], p[rows, draw]
    made = np.maximum(own, other) >= threshold
    return Guesses(made, made & (own > other), 2, bits)


def one_label_bound(
    confidences: npt.ArrayLike,
    canary_labels: npt.ArrayLike,
    true_labels: npt.ArrayLike,
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    level: float = 0.95,
    delta: float = 0.0,
    draws: int = 11,
    seed: int | np.random.Generator,
) -> float:
    """Lower bound on epsilon from the single-label game, for any of several thresholds.

    Parameters
    ----------
    confidences, canary_labels, true_labels, thresholds
        As for :func:`canary_epsilon`.
    level : float
        One-sided, in (0, 1).
    delta : float
        In [0, 1).
    draws : int
        Times that the alternatives are drawn, odd; 1 for a single game.
    seed : int or Generator
        Of the draws.

    Returns
    -------
    float

    Notes
    -----
    The error is divided by the number of thresholds (Bonferroni), and with several draws by two
    more: of bounds that each fail with probability a, the median fails with at most 2 a (Markov's
    inequality for the fraction of bounds that fail), however they depend on each other.

    Examples
    --------
    >>> round(one_label_bound(*data, thresholds=(0.5,), draws=3, seed=0), 1)
    3.3
    """
    if as_integer("draws", draws) % 2 == 0:
        raise ValueError(f"draws must be odd, got {draws!r}")
    thresholds = _thresholds(thresholds)
    rng = as_generator(seed)
    each = 1 - (1 - as_number("level", level, 0, 1)) / len(thresholds) / (2 if draws > 1 else 1)
    bounds = [
        [
            single_label_guesses(confidences, canary_labels, true_labels, t, seed=rng).lower_bound(
                each, delta
            )
            for t in thresholds
        ]
        for _ in range(draws)
    ]
    return float(np.median(bounds, axis=0).max())


def top_label_bound(
    confidences: npt.ArrayLike,
    canary_labels: npt.ArrayLike,
    true_labels: npt.ArrayLike,
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    level: float = 0.95,
) -> float:
    """Lower bound on a pure epsilon from guessing labels outright, for any of several thresholds.

    Parameters
    ----------
    confidences, canary_labels, true_labels, thresholds
        As for :func:`canary_epsilon`.
    level : float
        One-sided, in (0, 1); the error is divided by the number of thresholds.

    Returns
    -------
    float

    Examples
    --------
    >>> round(top_label_bound(*data, thresholds=(0.5,)), 2)
    4.43
    """
    thresholds = _thresholds(thresholds)
    each = 1 - (1 - as_number("level", level, 0, 1)) / len(thresholds)
    return max(
        top_label_guesses(confidences, canary_labels, true_labels, t).lower_bound(each)
        for t in thresholds
    )


def top_label_guesses(
    confidences: npt.ArrayLike,
    canary_labels: npt.ArrayLike,
    true_labels: npt.ArrayLike,
    threshold: float,
) -> Guesses:
    """Guess the trained label outright: the wrong one with the largest confidence, or none.

    A stronger test than P5's: chance is right once in C - 1 times, and nothing is drawn.

    Parameters
    ----------
    confidences, canary_labels, true_labels
        As for :func:`canary_epsilon`.
    threshold : float
        The adversary abstains where all wrong labels are below.

    Returns
    -------
    Guesses
        With C - 1 options.  Of equal confidences the smallest label is named.

    Examples
    --------
    >>> guesses = top_label_guesses(*data, threshold=0.5)
    >>> guesses.options, guesses.n_made, guesses.n_correct
    (9, 103, 99)
    """
    p, canary, true = _checked(confidences, canary_labels, true_labels)
    (threshold,) = _thresholds([threshold])
    wrong = p.copy()
    rows = np.arange(len(p))
    wrong[rows, true] = -1.0
    named = wrong.argmax(axis=1)
    made = wrong[rows, named] >= threshold
    return Guesses(made, made & (named == canary), p.shape[1] - 1)


def _interval(
    made: np.ndarray, right: np.ndarray, z: float, mirror: bool, standard_error: str
) -> tuple[float, ...]:
    """Canaries with a guess, guesses, accuracy, and the interval's ends as epsilon."""
    total = int(made.sum())
    if not total:
        return 0, 0, math.nan, 0.0, math.inf
    has = made > 0
    k = int(np.count_nonzero(has))
    weight = made[has] / total
    rate = right[has] / made[has]
    mean = float(weight @ rate)
    if right.sum() == total or (mirror and not right.any()):
        exact = max(0.5, float(stats.norm.sf(z)) ** (1 / k))
        low = 1 - 3 / k if math.isclose(z, AUTHORS_Z) else exact
        low = low if k > FEW else 0.5
        return k, total, mean, epsilon_of_rate(low), math.inf
    spread = 1 - float(weight @ weight)
    away = np.square(rate - mean)
    if k == 1 or spread <= 0 or away.max() < _SAME:
        return k, total, mean, 0.0, math.inf
    if standard_error == "authors":
        error = math.sqrt(float(weight @ away) / spread / k)
    else:
        error = math.sqrt(float(np.square(weight) @ away))
    center = max(mean, 1 - mean) if mirror else mean
    low, high = (min(1.0, max(0.5, end)) for end in (center - z * error, center + z * error))
    return k, total, mean, epsilon_of_rate(low), epsilon_of_rate(high)


def _checked(confidences, canary_labels, true_labels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    same_rows(confidences=confidences, canary_labels=canary_labels, true_labels=true_labels)
    p = as_probabilities("confidences", confidences, ("n", "C")).astype(np.float64)
    if p.shape[1] < 3:
        raise ValueError(f"confidences must have at least 3 classes, got shape {p.shape}")
    canary = as_classes("canary_labels", canary_labels, *p.shape)
    true = as_classes("true_labels", true_labels, *p.shape)
    if (same := canary == true).any():
        raise ValueError(
            f"canary_labels must differ from true_labels, got {int(same.sum())} equal ones, the"
            f" first in row {int(same.argmax())}"
        )
    return p, canary.astype(np.int64), true.astype(np.int64)


def _thresholds(values: Sequence[float]) -> list[float]:
    array = np.atleast_1d(np.asarray(values))
    found = [float(v) for v in array.ravel()] if array.dtype.kind in "iuf" else []
    if not found or not all(0 <= v <= 1 for v in found):
        raise ValueError(f"thresholds must be one or more numbers in [0, 1], got {values!r}")
    if len(set(found)) != len(found):
        raise ValueError(f"thresholds must differ, got {values!r}")
    return sorted(found)
