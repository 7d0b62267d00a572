"""Where nothing tells what an answer would be worth, and what can be said all the same: bounds.

A classifier that answers where a score of its own is above a threshold never answers below it.
There positivity fails by construction, whatever a model of the propensity that was fitted to other
features says.  So abstention is held against every score at hand before anything is estimated.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from lib.counterfactual.bounds import bounded_interval
from lib.ties import dense_ranks

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
#: AUROC of a score for abstention from which on it separates: propensities between 0.1 and 0.9 come
#: to at most 0.9.
_SEPARATES = 0.98
#: A tail of a score is unanswered if at most _SELDOM of its rows are answered, and so few are less
#: probable than _RARE with a probability of an answer of _FLOOR in each (or the known one).
_FLOOR, _SELDOM, _RARE = 0.1, 0.02, 1e-3


def without_overlap(
    abstained: Flags, scores: Mapping[str, Array], known: Array | None = None
) -> tuple[Flags, list[str]]:
    """Find rows in which a classifier seems never to answer, by scores that it may abstain by.

    Notes
    -----
    A tail's p-value is binomial with the mean of the rows' least probabilities of an answer, which
    is no smaller than with these themselves where fewer are answered than expected (Hoeffding,
    1956).  Scores that differ by no more than rounding of the largest are equal, in any unit.
    """
    r, n = abstained, len(abstained)
    never, reasons = np.zeros(n, dtype=bool), []
    if not r.any() or r.all():
        return never, reasons
    floor = np.full(n, _FLOOR) if known is None else 1.0 - known
    ranked = {name: _ranks(values) for name, values in scores.items()}
    if known is None and ranked:
        found = {name: _auroc(values, r) for name, values in ranked.items()}
        best = max(found, key=found.get)
        if found[best] >= _SEPARATES:
            return r.copy(), [
                f"{best} alone tells abstained from answered rows (AUROC {found[best]:.3f}), so "
                "that abstention is a rule and positivity fails"
            ]
    for name, values in ranked.items():
        for end, signed in (("lowest", values), ("highest", -values)):
            tail = _unanswered_tail(signed, r, floor)
            if (tail & ~never).any():
                never |= tail
                reasons.append(
                    f"of the {int(tail.sum())} rows with the {end} {name} "
                    f"{int((tail & ~r).sum())} are answered, so that positivity fails there"
                    + ("" if known is None else ", whatever propensities are given")
                )
    return never, reasons


@dataclass(frozen=True)
class Bounds:
    """What is known of a mean whose values are known in part."""

    low: float  # of the identified set, if everything that is estimated were exact
    high: float
    interval: tuple[float, float]  # holds the whole set with at least the probability asked for


def mean_bounds(
    lower: Array, upper: Array, level: float, score_range: tuple[float, float] = (0.0, 1.0)
) -> Bounds:
    """Bounds on a mean, from the least and the largest value that each row may have.

    Rows are independent.  Their interval is Gaffke's bound, Clopper and Pearson's for zeros and
    ones, and holds for any number of rows.

    References
    ----------
    Manski, Nonparametric bounds on treatment effects, 1990.  Imbens and Manski, Confidence
    intervals for partially identified parameters, Econometrica, 2004: the interval for the whole
    set, which is wider than that for the one true value in it.
    """
    ends, outer = [], []
    for values, side in ((lower, 0), (upper, 1)):
        least, most = float(values.min()), float(values.max())
        limits = min(score_range[0], least), max(score_range[1], most)
        end = bounded_interval(values, limits, level)[side]
        ends.append(float(np.clip(values.mean(), *score_range)))
        outer.append(float(np.clip(end, *score_range)))
    return Bounds(*ends, tuple(outer))


def _ranks(values: Array) -> Array:
    """Ranks of a score, equal where it differs by rounding of its largest number alone."""
    largest = float(np.abs(values).max())
    # Numbers near zero may be what is left of large ones: beside 2 they are rounded like these.
    return dense_ranks(2 + values / largest if largest else values)


def _auroc(values: Array, r: Flags) -> float:
    """Of a score for abstention, in whichever direction is better."""
    below = stats.rankdata(values)[r].sum() - r.sum() * (r.sum() + 1) / 2
    share = float(below / (r.sum() * (~r).sum()))
    return max(share, 1 - share)


def _unanswered_tail(values: Array, r: Flags, floor: Array) -> Flags:
    """Rows of the longest tail of the lowest values in which there are too few answers."""
    order = np.argsort(values, kind="stable")
    ordered, k = values[order], np.arange(1, len(values) + 1)
    answered = np.cumsum(~r[order])
    whole = np.r_[ordered[1:] != ordered[:-1], True]
    seldom = np.flatnonzero(whole & (answered <= _SELDOM * k))
    tail = np.zeros(len(values), dtype=bool)
    if not len(seldom):
        return tail
    least = np.minimum(np.cumsum(floor[order]) / k, 1.0)[seldom]
    found = seldom[stats.binom.cdf(answered[seldom], k[seldom], least) <= _RARE]
    if len(found):
        tail[order[: found[-1] + 1]] = True
    return tail
