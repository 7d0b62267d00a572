"""Intervals for epsilon from an attack's counts: Bayesian, Jeffreys and Clopper-Pearson."""

import math

import numpy as np
import numpy.typing as npt

from lib.audit.counts import AttackCounts, rate_interval, rate_intervals
from lib.audit.posterior import epsilon_posterior, most_below
from lib.audit.regions import epsilon_point
from lib.check import as_array, as_number, check_delta, require_choice
from lib.ties import ROUNDING, first_largest

#: Ways to an interval for epsilon: the posterior, and two pairs of intervals for the error rates.
METHODS = ("bayesian", "jeffreys", "clopper-pearson")
SIDES = ("two-sided", "lower")

# Of the columns tp, fp, tn, fn: as given; rates exchanged; guesses the other way round; both.
_SYMMETRIES = ([0, 1, 2, 3], [2, 3, 0, 1], [3, 2, 1, 0], [1, 0, 3, 2])
# Standard deviations of the FNR at which upper bounds of the posterior mass step.
_STEPS = (np.linspace(-3, 3, 7), np.linspace(-4, 4, 81))


def epsilon_interval(
    counts: AttackCounts,
    delta: float,
    level: float = 0.9,
    method: str = "bayesian",
    side: str = "two-sided",
) -> tuple[float, float]:
    """Interval for the epsilon that an attack demonstrates.

    Parameters
    ----------
    counts : AttackCounts
        What the attack got right and wrong.
    delta : float
        In [0, 1).
    level : float
        Of the credible or confidence interval, in (0, 1).
    method : {"bayesian", "jeffreys", "clopper-pearson"}
        ``"bayesian"``: equal-tailed interval of :func:`lib.audit.epsilon_posterior`.  The other
        two: the least and the largest epsilon over the rectangle of the confidence intervals for
        both error rates, each at half the error probability (union bound).
    side : {"two-sided", "lower"}
        With ``"lower"`` all the error probability is on the lower limit, and the upper one is
        infinite.

    Returns
    -------
    low, high : float
        0 <= low <= high, high possibly infinite.

    Notes
    -----
    The least epsilon over a rectangle is, by the definition through privacy regions, 0 where the
    rectangle meets the region of epsilon = 0, and otherwise attained in its corner next to that
    region.  A footnote of P3 takes a smaller value at a point with FPR = 0 by using one of the two
    terms of Eq. 1; but no region of finite epsilon holds a point with FPR = 0 and FNR < 1 - delta.

    The Bayesian interval is the narrowest, and does not keep its level for every mechanism: where
    both error rates are equal its lower limit exceeds the truth more often than it says, and at
    epsilon = 0 always if delta is tiny (the chapter on the audit counts how often).  A lower bound
    that holds is that of ``method="clopper-pearson"`` with ``side="lower"``.

    References
    ----------
    P3, sections 2.5, 2.6, 3.1 and 3.2 (Eq. 4 and 5).

    Examples
    --------
    >>> low, high = epsilon_interval(AttackCounts(tp=65, fp=25, tn=75, fn=35), 0.05, 0.95)
    >>> round(low, 3), round(high, 3)
    (0.522, 1.267)
    """
    if not isinstance(counts, AttackCounts):
        raise TypeError(f"counts must be AttackCounts, got {type(counts).__name__}")
    delta, level = check_delta(delta), as_number("level", level, 0, 1)
    require_choice("method", method, METHODS)
    require_choice("side", side, SIDES)
    alpha = 1 - level
    tail = alpha if side == "lower" else alpha / 2
    if method == "bayesian":
        posterior = epsilon_posterior(counts, delta)
        low = float(posterior.ppf(tail))
        return low, math.inf if side == "lower" else max(low, float(posterior.isf(tail)))
    fnr = rate_interval(counts.fn, counts.positives, tail / 2, method)
    fpr = rate_interval(counts.fp, counts.negatives, tail / 2, method)
    low = _least(fnr, fpr, delta)
    return low, math.inf if side == "lower" else max(low, _largest(fnr, fpr, delta))


def epsilon_lower_bounds(
    counts: npt.ArrayLike, delta: float, level: float = 0.9, method: str = "bayesian"
) -> npt.NDArray[np.float64]:
    """One-sided lower bounds on epsilon for many tables of counts.

    Parameters
    ----------
    counts : array_like of int, shape (m, 4)
        Columns tp, fp, tn, fn.
    delta, level, method
        As for :func:`epsilon_interval`.

    Returns
    -------
    ndarray of float64, shape (m,)

    Examples
    --------
    >>> table = [[65, 25, 75, 35], [90, 10, 90, 10]]
    >>> epsilon_lower_bounds(table, delta=1e-5, level=0.95).round(2).tolist()
    [0.66, 1.91]
    """
    table, delta, level = _table(counts), check_delta(delta), as_number("level", level, 0, 1)
    require_choice("method", method, METHODS)
    if method == "bayesian":
        return np.array([_bayesian(row, delta, 1 - level) for row in table])
    tp, fp, tn, fn = table.T
    half = (1 - level) / 2
    x_low, x_high = rate_intervals(fn, tp, half, method)
    y_low, y_high = rate_intervals(fp, tn, half, method)
    better, worse = x_high + y_high < 1 - delta, x_low + y_low > 1 + delta
    return np.select(
        [better, worse],
        [epsilon_point(y_high, x_high, delta), epsilon_point(y_low, x_low, delta)],
        0.0,
    )


def best_lower_bound(
    counts: npt.ArrayLike, delta: float, level: float = 0.9, method: str = "bayesian"
) -> tuple[int, float]:
    """The largest of many one-sided lower bounds, and where it is found.

    P3 sweeps the N + 1 thresholds of a ROC curve and reports this.  *It is biased*: the largest of
    many bounds that each hold with probability `level` does not.  See
    :func:`lib.audit.union_lower_bound` and :func:`lib.audit.held_out_lower_bound`.

    Parameters
    ----------
    counts : array_like of int, shape (m, 4)
        Columns tp, fp, tn, fn.
    delta, level, method
        As for :func:`epsilon_interval`.

    Returns
    -------
    index : int
        The first row with the largest bound; bounds that differ by rounding alone (1e-9 of them)
        are equal.
    bound : float
        Its bound.

    Notes
    -----
    A Bayesian bound exceeds b exactly if the posterior mass beyond b exceeds `level`.  Most rows
    fail that by upper bounds of the mass, ever finer sums over steps of the FNR, others by one
    evaluation of the mass; only the rest need their own bound.  Rows that tell the same, with the
    error rates exchanged or every guess the other way round, are looked at once.

    Examples
    --------
    >>> row, bound = best_lower_bound([[65, 25, 75, 35], [90, 10, 90, 10]], delta=1e-5)
    >>> row, round(bound, 2)
    (1, 2.0)
    """
    table, delta, level = _table(counts), check_delta(delta), as_number("level", level, 0, 1)
    require_choice("method", method, METHODS)
    rows = _distinct(table)
    # Where Jeffreys' rectangles put the bounds: close enough to look at the best ones first.
    guess = epsilon_lower_bounds(
        table[rows], delta, level, "jeffreys" if method == "bayesian" else method
    )
    if method != "bayesian":
        place = first_largest(guess)
        return int(rows[place]), float(guess[place])
    left = rows[np.argsort(-guess, kind="stable")]
    bounds = {int(left[0]): _bayesian(table[left[0]], delta, 1 - level)}
    left = left[1:]
    while len(left):
        # A row with less than this has a smaller bound than the best, not one equal up to rounding.
        floor = max(bounds.values()) * (1 - ROUNDING)
        for steps in _STEPS:
            left = left[_most_beyond(table[left], delta, floor, steps) > level]
        for place, row in enumerate(left.tolist()):
            posterior = epsilon_posterior(AttackCounts(*map(int, table[row])), delta)
            if posterior.sf(floor) > level:
                bounds[row] = _bayesian(table[row], delta, 1 - level)
                left = left[place + 1 :]
                break
        else:
            break
    if not any(bounds.values()):
        return 0, 0.0
    found = sorted(bounds)
    where = found[first_largest([bounds[row] for row in found])]
    return where, bounds[where]


def _distinct(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The first of the rows that have the same bound by symmetry, in order.

    The privacy region is its own mirror image, with the error rates exchanged and with every guess
    the other way round; so are the priors of both rates and their intervals.
    """
    turned = np.stack([table[:, columns] for columns in _SYMMETRIES], axis=1)
    # The least of the four in dictionary order stands for them.
    order = np.lexsort(turned.transpose(2, 0, 1)[::-1], axis=-1)
    least = turned[np.arange(len(table)), order[:, 0]]
    return np.sort(np.unique(least, axis=0, return_index=True)[1])


def _most_beyond(
    table: npt.NDArray[np.int64], delta: float, eps: float, steps: npt.NDArray
) -> npt.NDArray[np.float64]:
    """At least the posterior mass beyond epsilon in every row."""
    a, b, c, d = table[:, [3, 0, 1, 2]].T + 0.5  # fn, tp, fp, tn: of both Beta posteriors
    better = most_below(a, b, c, d, 1 - delta, eps, steps)
    return better + most_below(b, a, d, c, 1 - delta, eps, steps)


def _bayesian(row: npt.NDArray[np.int64], delta: float, tail: float) -> float:
    return float(epsilon_posterior(AttackCounts(*map(int, row)), delta).ppf(tail))


def _table(counts: npt.ArrayLike) -> npt.NDArray[np.int64]:
    table = as_array("counts", counts)
    if table.ndim != 2 or table.shape[1] != 4 or not len(table):
        raise ValueError(
            f"counts must be of shape (m, 4) with m of at least 1, got shape {table.shape}"
        )
    if table.dtype.kind not in "iu":
        raise ValueError(f"counts must be integers, got {table.dtype}")
    if (table < 0).any():
        raise ValueError(f"counts must be at least 0, got {table.min()}")
    if not ((table[:, 0] + table[:, 3]) > 0).all() or not ((table[:, 1] + table[:, 2]) > 0).all():
        raise ValueError("counts must have positive and negative trials in every row")
    return table.astype(np.int64)


def _least(fnr: tuple[float, float], fpr: tuple[float, float], delta: float) -> float:
    """Least epsilon over a rectangle of error rates."""
    if fnr[1] + fpr[1] < 1 - delta:  # better than chance throughout
        return float(epsilon_point(fpr[1], fnr[1], delta))
    if fnr[0] + fpr[0] > 1 + delta:  # worse than chance throughout
        return float(epsilon_point(fpr[0], fnr[0], delta))
    return 0.0


def _largest(fnr: tuple[float, float], fpr: tuple[float, float], delta: float) -> float:
    """Largest epsilon over a rectangle of error rates, in one of two corners."""
    return float(max(epsilon_point(fpr[0], fnr[0], delta), epsilon_point(fpr[1], fnr[1], delta)))
