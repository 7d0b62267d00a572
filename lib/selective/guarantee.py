"""A threshold whose selective accuracy is at least a target, with confidence."""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from lib.check import as_generator, as_integer, as_names, as_number, as_scored, as_unit, same_rows
from lib.selective.curves import warn_of_copies
from lib.ties import group_starts

_GRID = 40  # coverages that are tried, equally spaced
_STARTS = 3  # from which the sequence of tests goes down


@dataclass(frozen=True)
class Threshold:
    """Where to answer, and what that promises.

    Attributes
    ----------
    threshold : float or None
        Answer where the score is *above* it; minus infinity if everywhere, None if nowhere can the
        target be promised.
    coverage : float or None
        Fraction of the given points that are answered.
    coverage_low : float or None
        Lower confidence limit of the coverage at this threshold, at `level` (Clopper and Pearson).
    accuracy : float or None
        Of the answers among the given points: larger than what is promised, for it has to be.
    accuracy_low : float or None
        What is promised: the target.
    target, level : float
        As asked for.
    """

    threshold: float | None
    coverage: float | None
    coverage_low: float | None
    accuracy: float | None
    accuracy_low: float | None
    target: float
    level: float


def guaranteed_threshold(
    correct: npt.ArrayLike,
    score: npt.ArrayLike,
    target: float,
    level: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
    rng: np.random.Generator | int | None = None,
    draws: int = 1,
) -> Threshold:
    """The threshold of largest coverage whose selective accuracy is surely at least a target.

    Parameters
    ----------
    correct, score : array_like, shape (n,)
        As for :func:`lib.selective.accuracy_coverage`, of independent points that neither the model
        nor the score was made with.
    target : float
        Accuracy to promise, in (0, 1].
    level : float
        In (0, 1): with at least this probability, over draws of the points, the selective accuracy
        of the threshold that is returned, on new points, is at least `target` (or None is
        returned).
    clusters : array_like, shape (n,), optional
        Integers or strings: whom or what each point is of, where points of one cluster may depend
        on one another.  One point of each cluster is drawn, and the others are left out: what is
        promised, and seen, is then of a random point of a random cluster.
    rng : numpy.random.Generator or int
        Needed with clusters, not read without: by whom the points are drawn.
    draws : int
        Times that points are drawn, odd; not read without clusters.  With more than one, each
        draw's threshold may fail half as often, and the median threshold counts, so that no single
        draw decides.  Coverage and accuracy are then those of the median draw.

    Returns
    -------
    Threshold

    Warns
    -----
    UserWarning
        If no clusters are given and points look like copies: at least half of them share their
        score with another, but no right point does so with a wrong one.

    Notes
    -----
    The median of several draws is too low only if half of them are, which happens with at most
    twice the probability of one, however they depend on each other (Markov's inequality for the
    fraction that fails).  That, too, needs the accuracy to cross the target once.  The lower limit
    of the coverage is then by Massart's inequality, which holds at all thresholds together.

    The level rests on independent points: with 10 copies of each the target is missed in a quarter
    of the draws instead of a twentieth.  Groups are of scores that are equal up to rounding
    (:func:`lib.ties.group_starts`); the threshold is the largest score of the next group.

    Tried are the thresholds at 40 equally spaced coverages, groups of equal scores being answered
    whole or not at all.  Whether a point is above a threshold is decided by scores; given how many
    are, the number of correct ones among them is binomial with the selective accuracy, so that
    "below the target" has an exact p-value.  Thresholds are tested from the highest down with the
    fallback procedure.  Three of them get a third of 1 - `level` each, and a part that was enough
    goes on to the next threshold.  The first answers twice as many points, k, as could show the
    target if all were right; the others about (k^2 n)^(1/3) and (k n^2)^(1/3) points.  That keeps
    the family's level where selective accuracy crosses the target once as the threshold falls.  The
    plug-in, which takes the largest coverage at which the accuracy seen is the target
    (:func:`lib.selective.coverage_at_accuracy`), misses the target in about every second draw.

    References
    ----------
    Geifman and El-Yaniv, Selective classification for deep neural networks, 2017, whose SGR has a
    Bonferroni correction instead.  Angelopoulos, Bates, Candes, Jordan and Lei, Learn then test,
    2021: fixed sequences with several starts.  Wiens and Dmitrienko, The fallback procedure for
    evaluating a single family of hypotheses, 2005.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> score = rng.random(2000)
    >>> correct = rng.random(2000) < 0.7 + 0.3 * score
    >>> found = guaranteed_threshold(correct, score, 0.9)
    >>> round(found.coverage, 3), found.accuracy_low
    (0.575, 0.9)
    >>> guaranteed_threshold(correct[:20], score[:20], 0.9).coverage is None
    True
    """
    same_rows(correct=correct, score=score, clusters=clusters)
    correct, score = as_scored(correct, score)
    target = float(as_unit("target", target, open_left=True))
    level = as_number("level", level, 0, 1)
    if as_integer("draws", draws, 1) % 2 == 0:
        raise ValueError(f"draws must be odd, got {draws!r}")
    if clusters is None:
        warn_of_copies(correct, score)
        return _threshold(correct, score, target, level)
    names, rng = as_names("clusters", clusters, len(score)), as_generator(rng, "rng")
    # By what points are and not by where they stand: one of each cluster, drawn by its place there.
    _, place, sizes = np.unique(names, return_inverse=True, return_counts=True)
    order, first = np.lexsort((correct, score, place)), np.cumsum(sizes) - sizes
    each = level if draws == 1 else (1 + level) / 2
    found = []
    for _ in range(draws):
        chosen = order[first + rng.integers(0, sizes)]
        found.append((_threshold(correct[chosen], score[chosen], target, each), score[chosen]))
    return found[0][0] if draws == 1 else _median(found, level)


def _median(found: list[tuple[Threshold, npt.NDArray]], level: float) -> Threshold:
    """The draw with the median threshold; one without a threshold counts as the highest."""
    found = sorted(found, key=_height)
    middle = found[len(found) // 2][0]
    if middle.threshold is None:
        return replace(middle, level=level)
    # Of draws that each hold at (1 + level) / 2: the median fails at most twice as often.
    seen = float(np.median([(score > middle.threshold).mean() for _, score in found]))
    slack = math.sqrt(math.log(2 / (1 - level)) / (2 * len(found[0][1])))
    return replace(middle, coverage_low=max(0.0, seen - slack), level=level)


def _height(one: tuple[Threshold, npt.NDArray]) -> float:
    return math.inf if one[0].threshold is None else one[0].threshold


def _threshold(
    correct: npt.NDArray[np.bool_], score: npt.NDArray[np.floating], target: float, level: float
) -> Threshold:
    """The threshold of independent points."""
    n = len(score)
    order = np.argsort(-score, kind="stable")
    ordered, hits = score[order], np.cumsum(correct[order])
    ranks = np.ceil(n * np.arange(1, _GRID) / _GRID).astype(int)
    # Above the score at a rank: the groups before its own, whole.
    starts = group_starts(ordered)
    above = starts[np.searchsorted(starts, ranks[ranks < n], side="right") - 1]
    counts = np.unique(np.append(above[above > 0], n))
    p = stats.binom.sf(hits[counts - 1] - 1, counts, target)
    found = _fallback(p, (1 - level) * _weights(counts, n, target, level))
    if found is None:
        return Threshold(None, None, None, None, None, target, level)
    k = int(counts[found])
    return Threshold(
        -math.inf if k == n else float(ordered[k]),
        k / n,
        float(stats.beta.ppf(1 - level, k, n - k + 1)),
        float(hits[k - 1] / k),
        target,
        target,
        level,
    )


def _weights(
    counts: npt.NDArray[np.int64], n: int, target: float, level: float
) -> npt.NDArray[np.float64]:
    """How the error is divided among the thresholds; by numbers of points alone, not by labels."""
    fewest = math.log(1 - level) / math.log(target) if target < 1 else math.inf
    first = min(2 * fewest, n)
    wanted = first * (n / first) ** (np.arange(_STARTS) / _STARTS)
    starts = np.unique(np.searchsorted(counts, np.floor(wanted)).clip(0, len(counts) - 1))
    weights = np.zeros(len(counts))
    weights[starts] = 1 / len(starts)
    return weights


def _fallback(p: npt.NDArray[np.float64], alphas: npt.NDArray[np.float64]) -> int | None:
    """The last hypothesis that is rejected; the level of a rejected one goes on to the next."""
    carried, last = 0.0, None
    for i, (value, alpha) in enumerate(zip(p, alphas, strict=True)):
        carried = carried + alpha if value <= carried + alpha else 0.0
        last = i if carried else last
    return last
