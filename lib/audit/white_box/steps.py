"""The mechanism itself, tested by what canaries do in single steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from lib.check import as_flags, as_number


@dataclass(eq=False)
class StepCounts:
    """Sums over steps and canaries: all that :func:`step_audit` needs.

    Attributes
    ----------
    took_part : ndarray of int64, shape (m,)
        In how many steps each canary took part.
    steps : int
        How many there were.
    with_sum, with_squares : float
        Sum and sum of squares of the reach, in clipping norms, where a canary took part.
    without_number, without_squares : float
        Number and sum of squares where none did.
    pairs, pair_squares : float
        Sum, and sum of squares, of products of a direction's reach in two steps that follow each
        other and in which its canary took no part.
    """

    took_part: npt.NDArray[np.int64]
    steps: int = 0
    with_sum: float = 0.0
    with_squares: float = 0.0
    without_number: float = 0.0
    without_squares: float = 0.0
    pairs: float = 0.0
    pair_squares: float = 0.0

    @classmethod
    def begun(cls, number: int) -> "StepCounts":
        """Before the first step."""
        return cls(np.zeros(number, np.int64))

    @classmethod
    def numbers(cls) -> list[str]:
        """Names of all but the array."""
        return [field.name for field in fields(cls)][1:]

    def copy(self) -> "StepCounts":
        """The same, of its own."""
        return replace(self, took_part=self.took_part.copy())

    def add(self, y: npt.NDArray, took: npt.NDArray, last: npt.NDArray) -> npt.NDArray:
        """Take in a step, and return what the next one takes as `last`.

        That is what was seen of those that took no part, and 0 elsewhere; 0 before the first step.
        """
        inside, outside = y[took], np.where(took, 0.0, y)
        self.steps += 1
        self.took_part += took
        self.with_sum += float(inside.sum())
        self.with_squares += float(inside @ inside)
        self.without_number += len(y) - len(inside)
        self.without_squares += float(outside @ outside)
        products = outside * last
        self.pairs += float(products.sum())
        self.pair_squares += float(products @ products)
        return outside


@dataclass(frozen=True)
class StepAudit:
    """What canaries say about the mechanism, by :func:`step_audit`.

    Attributes
    ----------
    epsilon : float
        What the accountant says of the least rate and the most noise that the canaries allow: a
        lower bound on what it says of the mechanism that ran, and on epsilon itself as far as the
        accountant is exact.  It rests on the mechanism's form, as is said there.
    noise : tuple of float
        Limits of the noise's standard deviation over the clipping norm.
    norm : tuple of float
        Limits of what a canary adds where it takes part, over the clipping norm: 1 if clipping is
        right.
    rate : tuple of float
        Limits of the probability to take part.
    p_sampling : float
        p-value of independent Poisson samples: by how much canaries differ in how often they took
        part.  Where batches are shuffled they do not differ.
    p_fresh : float
        p-value of noise that does not depend on the step before.
    """

    epsilon: float
    noise: tuple[float, float]
    norm: tuple[float, float]
    rate: tuple[float, float]
    p_sampling: float
    p_fresh: float


def step_audit(
    counts: StepCounts,
    coins: npt.NDArray[np.bool_],
    epsilon_of: Callable[[float, float, int], float],
    level: float = 0.95,
) -> StepAudit:
    """Test the noise, the clipping and the sampling of a training by single steps of its canaries.

    Parameters
    ----------
    counts : StepCounts
        Of :class:`CanaryScores`: for an auditor who knows the other records, and who took part.
    coins : ndarray of bool, shape (m,)
        Who was in.
    epsilon_of : callable
        The accountant: epsilon of a sampling rate, a noise multiplier and a number of steps.  It
        must rise with the rate and fall with the noise.  Take that of the claim, or ``"pld"``,
        which is nearly exact: what Renyi accounting says is larger than epsilon, by a seventh at
        a rate of 0.05, a noise of 1 and 100 steps, and refutes no claim that was made by another.
    level : float
        Of the bound, and of each interval; in (0, 1).

    Returns
    -------
    StepAudit

    Notes
    -----
    *On the mechanism's form*: along a direction a step shows noise that is normal, fresh, and alike
    in all directions and steps, and c clipping norms more if the canary takes part, which it does
    with probability q.  The likelihood is then one of a binomial number and of normal variables:
    limits of q are Clopper and Pearson's, of the standard deviation sigma those of chi-squared
    where no canary takes part, of c those of Student where one does.  Each of the three one-sided
    limits that epsilon needs fails with probability (1 - level) / 3 at most, so that
    epsilon_of(q, sigma / c, steps) is, at the level, at most epsilon_of the mechanism that ran.  An
    accountant gives an upper bound on epsilon: how far that is above epsilon is added here, too.
    The form itself is tested by `p_sampling` and `p_fresh`, not proven: noise that depends on the
    data along no canary's direction, or that repeats after two steps, is not seen.  Where canaries
    take part less than about two hundred times in all, `p_sampling` is below 0.01 more often than
    that.

    Examples
    --------
    >>> import numpy as np
    >>> from lib.audit.white_box import CanaryRecorder, step_audit
    >>> from lib.privacy import PrivacyLedger, SampledGaussian
    >>> def epsilon_of(q, sigma, steps):
    ...     return PrivacyLedger((SampledGaussian(q, sigma, steps),)).epsilon(1e-5, "pld")
    >>> rng, coins = np.random.default_rng(0), np.arange(1000) < 500
    >>> recorder = CanaryRecorder(coins, noise_multiplier=1.0, sample_rate=0.1)
    >>> for _ in range(100):
    ...     took = coins & (rng.random(1000) < 0.1)
    ...     y = took + 0.9 * rng.normal(size=1000)  # a tenth of the noise is missing
    ...     recorder.add(y, y, took)
    >>> found = step_audit(recorder.scores().counts, coins, epsilon_of)
    >>> found.epsilon > epsilon_of(0.1, 1.0, 100), found.noise[1] < 0.91
    (True, True)
    """
    level = as_number("level", level, 0, 1)
    if not isinstance(counts, StepCounts):
        raise ValueError(
            "counts must be StepCounts, got"
            f" {counts!r}: they need the others' sums and who took part in each step"
        )
    if not callable(epsilon_of):
        raise ValueError(
            f"epsilon_of must be a function of rate, noise and steps, got {epsilon_of!r}"
        )
    inside = as_flags("coins", coins, len(counts.took_part))
    strangers = int((counts.took_part[~inside] > 0).sum())
    if strangers:
        raise ValueError(
            f"coins must be those of the canaries that took part, got {strangers} that did and are"
            " out: take both from the same scores"
        )
    took, rounds = int(counts.took_part.sum()), int(inside.sum()) * counts.steps
    if took < 2 or counts.without_number < 2:
        raise ValueError(
            f"counts must have at least two canaries that took part and two that did not, got"
            f" {took} and {counts.without_number:.0f}"
        )
    tails = (1 - level) / 3, (1 - level) / 2
    mean = counts.with_sum / took
    # The noise is read where no canary takes part: what one adds may differ, if clipping fails.
    freedom, squares = counts.without_number, counts.without_squares
    spread = max(0.0, counts.with_squares - took * mean**2) / (took - 1)
    error = math.sqrt(spread / took)

    def noise(tail: float, upper: bool) -> float:
        at = stats.chi2.ppf(tail, freedom) if upper else stats.chi2.isf(tail, freedom)
        return math.sqrt(squares / at)

    def norm(tail: float, sign: int) -> float:
        return float(mean + sign * stats.t.isf(tail, took - 1) * error)

    def rate(tail: float, upper: bool) -> float:
        if upper:
            return (
                float(special.betaincinv(took + 1, rounds - took, 1 - tail))
                if took < rounds
                else 1.0
            )
        return float(special.betaincinv(took, rounds - took + 1, tail))

    one, two = tails
    least, most, added = rate(one, False), noise(one, True), norm(one, -1)
    epsilon = float(epsilon_of(least, most / added, counts.steps)) if added > 0 else 0.0
    return StepAudit(
        epsilon=max(0.0, epsilon),
        noise=(noise(two, False), noise(two, True)),
        norm=(norm(two, -1), norm(two, 1)),
        rate=(rate(two, False), rate(two, True)),
        p_sampling=_p_sampling(counts.took_part[inside], counts.steps),
        p_fresh=_p_fresh(counts),
    )


def _p_sampling(took_part: npt.NDArray[np.int64], steps: int) -> float:
    """Two-sided p-value of the dispersion of binomial numbers."""
    mean = took_part.mean()
    if mean in (0, steps):
        return 1.0
    found = float(((took_part - mean) ** 2).sum() / (mean * (1 - mean / steps)))
    freedom = len(took_part) - 1
    return float(min(1, 2 * min(stats.chi2.sf(found, freedom), stats.chi2.cdf(found, freedom))))


def _p_fresh(counts: StepCounts) -> float:
    """Two-sided p-value of products of independent symmetric numbers, a sum over its own root."""
    if not counts.pair_squares:
        return 1.0
    return float(2 * stats.norm.sf(abs(counts.pairs) / math.sqrt(counts.pair_squares)))
