"""A private threshold keeps its promise and its budget: exact divergences, and simulations."""

import functools
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from test_guarantee import DESIGNS, GRID

from lib import selective
from lib.selective.private import allowed_errors
from lib.ties import above, count_above

CANDIDATES = np.append(-np.inf, np.linspace(0.05, 0.95, 19))


def noise(decay, size=400):
    """P(G = -size..size) of two-sided geometric noise, written down from its definition."""
    g = np.arange(-size, size + 1)
    return g, (1 - decay) / (1 + decay) * decay ** np.abs(g)


@pytest.mark.parametrize("k", [0, 1, 7, 60])
@pytest.mark.parametrize("rate", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("decay", [0.0, 0.2, 0.9])
def test_what_is_allowed_is_the_exact_quantile(k, rate, decay):
    g, p = noise(decay)
    for alpha in (0.05, 0.001):
        errors = stats.binom.pmf(np.arange(k + 1), k, rate)
        total = np.add.outer(np.arange(k + 1), g).ravel()
        below = np.cumsum(np.bincount(total + 400, np.multiply.outer(errors, p).ravel()))
        expected = int(np.searchsorted(below > alpha * (1 + 1e-9), True)) - 401
        assert allowed_errors(k, rate, decay, alpha) == expected


@pytest.mark.parametrize(("rate", "decay"), [(0.1, 0.6), (0.03, 0.95), (0.4, 0.0), (0.01, 0.3)])
def test_one_point_more_allows_one_error_more_or_none(rate, decay):
    """The sensitivity on which privacy rests."""
    allowed = [allowed_errors(k, rate, decay, 0.002) for k in (*range(250), *range(20_000, 20_100))]
    steps = np.delete(np.diff(allowed), 249)
    assert set(steps) <= {0, 1}
    assert 1 in steps


def answers(points, grid, target, epsilon, level=0.9, actual=None):
    """P(each answer), the last being None, summed over the common noise R but for 1e-17.

    `actual` is the epsilon of the noise that is added, if it is another than the test allows for.
    """
    decay = math.exp(-epsilon / 2)
    added = math.exp(-(actual or epsilon) / 2)
    score = np.array([s for s, _ in points])
    wrong = np.array([not right for _, right in points], bool)
    alpha = (1 - level) / len(grid)
    value = [
        allowed_errors(int((score > t).sum()), 1 - target, decay, alpha)
        - (wrong & (score > t)).sum()
        for t in grid
    ]
    bar = np.arange(max(100, round(80 / (actual or epsilon))))
    passing = added ** np.maximum(bar - np.array(value)[:, None], 0)
    reached = np.cumprod(np.vstack([np.ones(len(bar)), 1 - passing]), axis=0)
    weights = (1 - added) * added**bar
    return np.append((reached[:-1] * passing) @ weights, reached[-1] @ weights)


def neighbours(size, levels=3):
    """All pairs of small data sets that differ by one point: removed, or replaced."""
    points = list(itertools.product(range(levels), [True, False]))
    for data in itertools.combinations_with_replacement(points, size):
        for place in range(size):
            rest = data[:place] + data[place + 1 :]
            yield data, rest
            for other in points:
                yield data, (*rest, other)


def losses(pairs, grid, **options):
    """The largest privacy loss of any answer, for each pair of data sets."""
    found = functools.cache(lambda data: answers(data, grid, **options))
    for p, q in ((found(one), found(two)) for one, two in pairs):
        assert abs(p.sum() - 1) < 1e-9
        yield np.abs(np.log(p / q)).max()


@pytest.mark.parametrize(("epsilon", "target"), [(0.2, 0.5), (1.0, 0.9), (4.0, 0.5)])
def test_no_neighbour_is_told_apart_by_more_than_epsilon(epsilon, target):
    """All pairs of three and four points with three scores, removed and replaced."""
    grid = np.array([-np.inf, 0.0, 1.0])
    options = {"target": target, "epsilon": epsilon}
    pairs = itertools.chain(neighbours(3), neighbours(4))
    found = max(losses(pairs, grid, **options))
    assert 0.4 * epsilon < found <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_budget_is_used_up_by_many_candidates_below_one_that_is_returned(epsilon):
    """A wrong point less lets thirty candidates pass sooner, and the next one no sooner."""
    grid = np.append(np.linspace(0, 0.9, 30), 1.5)

    def largest(actual):
        cases = [((2, True),) * k + ((2, False),) * e for k in range(1, 80, 3) for e in (0, 1)]
        options = {"target": 0.5, "epsilon": epsilon, "actual": actual}
        return max(losses(((case, ((1, False), *case)) for case in cases), grid, **options))

    assert largest(epsilon) == pytest.approx(epsilon, rel=1e-6)
    assert largest(1.1 * epsilon) > 1.05 * epsilon  # less noise is found out


def test_what_is_drawn_has_the_distribution_that_was_checked():
    rng = np.random.default_rng(5)
    score, grid, draws = rng.integers(3, size=120), np.array([-np.inf, 0.0, 1.0]), 2000
    correct = rng.random(120) < np.array([0.3, 0.75, 0.95])[score]
    exact = answers(list(zip(score, correct, strict=True)), grid, 0.8, 1.0)
    found = Counter(
        selective.private_threshold(correct, score, 0.8, grid, 1.0, 0.9, rng=rng).threshold
        for _ in range(draws)
    )
    counts = np.array([found[t] for t in (*grid, None)])
    assert (exact > 0.02).sum() >= 3
    assert stats.chisquare(counts, draws * exact / exact.sum()).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(60, 2.0), (1000, 0.3), (1000, 2.0)])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_promise_is_broken_in_at_most_one_of_twenty(design, n, epsilon):
    p, map_score, target = DESIGNS[design]
    tail = np.cumsum(p(GRID)[::-1])[::-1] / np.arange(len(GRID), 0, -1)
    scores = map_score(GRID)
    rng, repetitions = np.random.default_rng([n, round(100 * epsilon)]), 400
    missed = given = 0
    for _ in range(repetitions):
        u = rng.random(n)
        data = rng.random(n) < p(u), map_score(u)
        t = selective.private_threshold(*data, target, CANDIDATES, epsilon, rng=rng).threshold
        if t is not None:
            given += 1
            first = np.searchsorted(scores, t, side="right")
            missed += first < len(GRID) and tail[first] < target
    assert missed <= stats.binom.ppf(0.999, repetitions, 0.05)
    if n == 1000 and epsilon >= 2:
        assert given > 0.3 * repetitions


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "epsilon"), [(0.001, 5.0), (0.02, 0.5), (0.2, 5.0)])
def test_the_level_is_used_up_where_every_threshold_is_just_below_the_target(rate, epsilon):
    """Accuracies near 1 included; one candidate has no union bound to be lost in."""
    repetitions, n = 500, 2000
    rng = np.random.default_rng([int(1000 * rate), int(10 * epsilon)])
    passed = {1: 0, len(CANDIDATES): 0}
    for _ in range(repetitions):
        correct, score = rng.random(n) >= rate * 1.000001, rng.random(n)
        for grid in (CANDIDATES[:1], CANDIDATES):
            found = selective.private_threshold(correct, score, 1 - rate, grid, epsilon, rng=rng)
            passed[len(grid)] += found.threshold is not None
    for count in passed.values():
        assert count <= stats.binom.ppf(0.999, repetitions, 0.05)
    # The number of errors is an integer: only so near can the level be met.
    noise_steps = 1 - math.exp(-epsilon / 2)
    atom = min(stats.binom.pmf(np.arange(n), n, rate).max(), noise_steps)
    assert passed[1] >= stats.binom.ppf(0.001, repetitions, 0.05 * (1 - min(0.9, 3 * atom)))


def test_without_noise_it_is_the_exact_binomial_test_of_each_threshold():
    rng = np.random.default_rng(1)
    score = np.round(rng.random(800), 2)
    correct = rng.random(800) < 0.75 + 0.25 * score
    found = selective.private_threshold(correct, score, 0.9, CANDIDATES, math.inf, rng=0)
    p = [
        stats.binom.cdf((~correct & (score > t)).sum(), (score > t).sum(), 0.1) for t in CANDIDATES
    ]
    assert found.threshold == CANDIDATES[np.argmax(np.array(p) <= 0.05 / len(CANDIDATES))]
    assert (found.target, found.accuracy_low, found.level) == (0.9, 0.9, 0.95)
    assert found.coverage is found.accuracy is found.coverage_low is None


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_scores_on_a_candidate_are_not_above_it_in_whatever_precision(kind):
    score = np.r_[np.full(400, 0.1), np.full(200, 0.05)].astype(kind)
    correct = score > 0.07
    for copy in (score, score.astype(np.float32), score.astype(float)):
        found = [
            selective.private_threshold(correct, copy, 0.9, [t], math.inf, rng=0).threshold
            for t in (0.1, 0.07)
        ]
        if np.array_equal(copy.astype(float), score.astype(float)):
            assert found == [None, 0.07]


def test_a_point_changes_no_comparison_of_another():
    """One number more, of another precision, leaves what is said of all others as it is."""
    rng = np.random.default_rng(0)
    score = np.round(rng.random(300), 1).astype(np.float32).astype(float)
    grid = np.arange(10) / 10
    alone = np.sum([count_above([s], grid) for s in score], axis=0)
    np.testing.assert_array_equal(count_above(score, grid), alone)
    for more in (0.1 + 1e-9, 0.5, math.inf, -math.inf):
        with_one = count_above([*score, more], grid)
        np.testing.assert_array_equal(with_one - alone, count_above([more], grid))
    np.testing.assert_array_equal(alone, [above(score, t).sum() for t in grid])
