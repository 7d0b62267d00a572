"""What a chapter hands over for a random quantity: a number and its interval."""

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded when they are used

#: Of the intervals that decide: at a true effect of 0 either side is reached in 2.5% at most.
LEVEL = 0.95


@dataclass(frozen=True)
class Evidence:
    """A number found by chance, and the interval that decides about a claim.

    It is infinite on a side about which the runs say nothing; `n` is how many training runs,
    models, shuffles or repetitions it rests on.
    """

    value: float
    low: float = -math.inf
    high: float = math.inf
    n: int = 1


@functools.lru_cache(maxsize=1000)
def _quantile(level: float, degrees: float) -> Any:
    """Half the width of Student's interval for a number that has a standard error of 1."""
    return scipy.stats.t.isf((1 - level) / 2, degrees)


def runs(values: npt.ArrayLike, level: float = LEVEL) -> Evidence:
    """Student's interval for the mean of a few independent runs, which it takes to be normal.

    Differences that are paired by run are taken before. Unbounded for one run, and for runs that
    all agree up to rounding: their spread is unknown then, not 0. Skewed runs err too often on one
    side: exponential ones in 0.11 of cases instead of 0.025 with 3 or 5 runs, in 0.10 with 10.
    Differences of two methods whose runs are alike in shape and spread are not skewed.

    Examples
    --------
    >>> found = runs([0.9, 1.1, 1.0])
    >>> print(f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]")
    1.00 [0.75, 1.25]
    >>> runs([0.0004]).low
    -inf
    """
    values = np.asarray(values, dtype=float)
    n, mean = len(values), float(np.mean(values)) if len(values) else math.nan
    if n < 2 or not np.isfinite(values).all() or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return Evidence(mean, n=n)
    half = float(_quantile(level, n - 1) * values.std(ddof=1)) / math.sqrt(n)
    return Evidence(mean, mean - half, mean + half, n)


def of_mean(mean: Any, n: int, level: float = LEVEL) -> Evidence:
    """The same for a :class:`lib.selective.Mean`; unbounded for one run or no spread.

    Its own degrees of freedom are estimated, and with two or three runs too large too often: those
    of the runs are taken where they are fewer, which is exact or wide. Where too few points vary
    for a variance, the interval is the mean's own, of bounds.
    """
    if n < 2 or not mean.standard_error:
        return Evidence(float(mean.value), n=n)
    if mean.few is not None:
        low, high = mean.interval(level)
        return Evidence(float(mean.value), float(low), float(high), n)
    half = float(_quantile(level, min(mean.degrees, n - 1))) * mean.standard_error
    return Evidence(float(mean.value), mean.value - half, mean.value + half, n)


def share(count: int, n: int, level: float = LEVEL) -> Evidence:
    """Clopper and Pearson's exact interval for a fraction of independent repetitions.

    Examples
    --------
    >>> found = share(0, 20)
    >>> print(f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]")
    0.00 [0.00, 0.17]
    """
    found = scipy.stats.binomtest(int(count), int(n)).proportion_ci(level, method="exact")
    return Evidence(int(count) / int(n), float(found.low), float(found.high), int(n))


def standardized(z: float, n: int, level: float = LEVEL) -> Evidence:
    """Student's interval for a mean of n runs that is given in its own standard errors."""
    if n < 2 or not math.isfinite(z):
        return Evidence(float(z), n=int(n))
    half = float(_quantile(level, n - 1))
    return Evidence(float(z), z - half, z + half, int(n))


def range_of(values: npt.ArrayLike, of: int = 1) -> Evidence:
    """The median and the range over shuffles or splits, for a printed value that is one more.

    A further shuffle falls outside of the range of n with probability 2 / (n + 1). Where the
    printed value is a mean of several splits, the range is that of means of as many, the first
    ones, the next, and so on; where there are fewer, of their mean.

    Examples
    --------
    >>> range_of([0.3, 0.1, 0.2])
    Evidence(value=0.2, low=0.1, high=0.3, n=3)
    >>> range_of([0.0, 2.0, 2.0, 4.0], of=2)
    Evidence(value=2.0, low=1.0, high=3.0, n=2)
    >>> range_of([0.0, 2.0, 2.0], of=2)
    Evidence(value=1.0, low=1.0, high=1.0, n=1)
    """
    n = max(1, len(values) // of)
    values = np.asarray(values, dtype=float)[: n * of].reshape(n, -1).mean(axis=1)
    return Evidence(float(np.median(values)), float(values.min()), float(values.max()), len(values))


@functools.cache
def ranges_beyond(n: int, probability: float) -> float:
    """How far a further value lies outside of the range of n, in ranges, with that probability.

    For independent normal values, at either end; 0 where it is at least 2 / (n + 1).

    Examples
    --------
    >>> round(ranges_beyond(20, 0.01), 2)
    0.32
    """
    points, weights = np.polynomial.legendre.leggauss(300)
    least, most = 9 * points[:, None], 9 * points
    inner = np.clip(scipy.stats.norm.cdf(most) - scipy.stats.norm.cdf(least), 0, None) ** (n - 2)
    density = n * (n - 1) * scipy.stats.norm.pdf(least) * scipy.stats.norm.pdf(most) * inner
    density *= 81 * weights[:, None] * weights * (most > least)

    def excess(ranges: float) -> float:
        beyond = 2 * scipy.stats.norm.sf(most + ranges * (most - least))
        return float((density * beyond).sum()) - probability

    return scipy.optimize.brentq(excess, 0, 1e3) if excess(0) > 1e-9 else 0.0


def point(value: float, n: int) -> Evidence:
    """A number whose own error a claim's condition allows for, and how many runs it is of."""
    return Evidence(float(value), n=int(n))


def counted(
    found: Mapping[str, tuple[float, float, int] | str],
) -> dict[str, tuple[Evidence, float] | str]:
    """Return cells for :meth:`lib.book.session.Chapter.check_cells` with their repetitions.

    `found` maps a claim's id to the number that decides, the one to show and the repetitions behind
    both, or to the reason why it is not run.
    """
    return {
        name: one if isinstance(one, str) else (point(one[0], one[2]), one[1])
        for name, one in found.items()
    }


def least(of: Callable[..., Evidence], parts: Iterable[Any]) -> Evidence:
    """The least of several quantities: for a claim that each of them must meet.

    ``of(part, level=...)`` gives the evidence on one of them; a tuple stands for several arguments.
    The lower limit is the least lower limit: a claim that all are above a bound errs no more often
    than one of them does. Above, where any of them may refute it, the level is shared (by
    Bonferroni). A part of no runs may be anything: it leaves the lower limit open, and the others
    may still refute the claim.

    Examples
    --------
    >>> found = least(runs, [[0.9, 1.1, 1.0], []])
    >>> print(f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]")
    1.00 [-inf, 1.25]
    """
    parts = list(parts)
    each = [_taken(of, part, LEVEL) for part in parts]
    known = [(part, one) for part, one in zip(parts, each, strict=True) if one.n]
    if not known or any(math.isnan(one.value) for _, one in known):
        return Evidence(math.nan, n=0)
    wide = [_taken(of, part, 1 - (1 - LEVEL) / len(known)) for part, _ in known]
    return Evidence(
        min(one.value for _, one in known),
        min(one.low for one in each),
        min(one.high for one in wide),
        min(one.n for _, one in known),
    )


def largest(of: Callable[..., Evidence], parts: Iterable[Any]) -> Evidence:
    """Return the largest of several quantities; see :func:`least`."""

    def turned(*part: Any, level: float) -> Evidence:
        return _negative(of(*part, level=level))

    return _negative(least(turned, parts))


def _taken(of: Callable[..., Evidence], part: Any, level: float) -> Evidence:
    return of(*part, level=level) if isinstance(part, tuple) else of(part, level=level)


def hull(families: Iterable[npt.ArrayLike]) -> Evidence:
    """The runs of the first model family, and the interval that holds those of all families.

    Where the families disagree, it lies on no side of a bound.
    """
    each = [runs(values) for values in families]
    return Evidence(
        each[0].value,
        min(one.low for one in each),
        max(one.high for one in each),
        min(one.n for one in each),
    )


def _negative(one: Evidence) -> Evidence:
    return Evidence(-one.value, -one.high, -one.low, one.n)
