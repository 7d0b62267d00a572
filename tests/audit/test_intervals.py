"""Regions and intervals: the paper's numbers, definitions, edges of what is allowed, and speed."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import (
    AttackCounts,
    best_lower_bound,
    epsilon_interval,
    epsilon_lower_bounds,
    epsilon_point,
    privacy_region,
)
from lib.audit.counts import rate_interval
from lib.audit.intervals import METHODS, SIDES

EXAMPLE = AttackCounts(tp=65, fp=25, tn=75, fn=35)
PERFECT = AttackCounts(tp=1000, fp=0, tn=1000, fn=0)
INF = math.inf


def test_the_region_by_its_three_lines():
    """P3, Theorem 2.2: FPR + e^eps FNR and FNR + e^eps FPR are at least 1 - delta, and mirrored."""
    region = privacy_region(math.log(3), 0.1)
    # 0.9 - 3 x up to the crossing at 0.225, then (0.9 - x) / 3, and 0 from 0.9 on.
    x = np.array([0.0, 0.1, 0.225, 0.3, 0.6, 0.9, 0.95, 1.0])
    expected = np.array([0.9, 0.6, 0.225, 0.2, 0.1, 0.0, 0.0, 0.0])
    assert region.lower(x) == pytest.approx(expected, abs=1e-15)
    assert region.upper(x) == pytest.approx(1 - region.lower(1 - x), abs=1e-15)
    assert region.upper(0.7) == pytest.approx(1 - 0.2)
    assert privacy_region(INF, 0.1).lower(x).tolist() == [0.0] * 8
    grid = np.linspace(0, 1, 41)
    fpr, fnr = np.meshgrid(grid, grid)
    # The rounding of thirds must not decide.
    edge = 1e-9
    lines = [fpr + 3 * fnr, fnr + 3 * fpr, 1 - fpr + 3 * (1 - fnr), 1 - fnr + 3 * (1 - fpr)]
    away = np.all([np.abs(line - 0.9) > edge for line in lines], axis=0)
    inside = np.all([line >= 0.9 for line in lines], axis=0)
    assert (region.contains(fpr, fnr) == inside)[away].all()
    assert inside[away].any()
    assert not inside[away].all()


def test_epsilon_of_points_by_hand():
    for fpr, fnr, delta, expected in (
        (0.2, 0.1, 0.0, math.log(8)),
        (0.1, 0.2, 0.0, math.log(8)),
        (0.8, 0.9, 0.0, math.log(8)),  # worse than chance
        (0.9, 0.8, 0.0, math.log(8)),
        (0.2, 0.1, 0.5, math.log(3)),  # 0.3 / 0.1, more than 0.4 / 0.2
        (0.5, 0.5, 0.0, 0.0),
        (0.3, 0.7, 0.0, 0.0),
        (0.5, 0.25, 0.25, 0.0),
        (0.0, 0.5, 0.25, INF),
        (0.5, 0.0, 0.25, INF),
        (1.0, 0.5, 0.25, INF),
        (0.0, 0.75, 0.25, 0.0),  # the numerator is 0: nothing is shown
        (0.75, 0.0, 0.25, 0.0),
        (0.0, 0.8, 0.25, 0.0),
        (0.0, 0.0, 0.0, INF),
        (1.0, 1.0, 0.0, INF),
        (0.0, 1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0, 0.0),
    ):
        assert epsilon_point(fpr, fnr, delta) == pytest.approx(expected, abs=1e-12)
    assert epsilon_point([[0.2], [0.1]], [0.1, 0.2, 0.3], 0.0).shape == (2, 3)
    assert epsilon_point([0.2], 0.1, 0.0).dtype == np.float64


@pytest.mark.parametrize("tail", [0.005, 0.05, 0.4])
@pytest.mark.parametrize(("errors", "trials"), [(0, 1), (1, 1), (0, 9), (9, 9), (1, 9), (5, 9)])
def test_rates_by_their_definitions(errors, trials, tail):
    low, high = rate_interval(errors, trials, tail, "clopper-pearson")
    if errors:
        assert stats.binom.sf(errors - 1, trials, low) == pytest.approx(tail)
    else:
        assert low == 0.0
    if errors < trials:
        assert stats.binom.cdf(errors, trials, high) == pytest.approx(tail)
    else:
        assert high == 1.0
    low, high = rate_interval(errors, trials, tail, "jeffreys")
    beta = stats.beta(errors + 0.5, trials - errors + 0.5)
    assert low == (pytest.approx(beta.ppf(tail)) if errors else 0.0)
    assert high == (pytest.approx(beta.isf(tail)) if errors < trials else 1.0)


def corners(counts, delta, tail, method):
    """Least and largest epsilon over the rectangle of both rates, from its four corners."""
    fnr = rate_interval(counts.fn, counts.positives, tail, method)
    fpr = rate_interval(counts.fp, counts.negatives, tail, method)
    values = [float(epsilon_point(y, x, delta)) for x in fnr for y in fpr]
    # The rectangle meets the region of 0 where it reaches into 1 - delta <= sum <= 1 + delta.
    meets = fnr[0] + fpr[0] <= 1 + delta and fnr[1] + fpr[1] >= 1 - delta
    return 0.0 if meets else min(values), max(values)


@pytest.mark.parametrize("method", ["jeffreys", "clopper-pearson"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_rectangles_share_the_error_probability(method, level):
    """Two rates, two ends: a quarter each; for a lower bound two, half each."""
    rng = np.random.default_rng(0)
    tables = [AttackCounts(*map(int, rng.integers(0, 40, 4) + 1)) for _ in range(15)]
    tables += [AttackCounts(40, 1, 39, 2), AttackCounts(2, 39, 1, 40), AttackCounts(9, 0, 9, 0)]
    for counts in tables:
        for delta in (0.0, 0.1):
            found = epsilon_interval(counts, delta, level, method)
            assert found == pytest.approx(corners(counts, delta, (1 - level) / 4, method))
            low, high = epsilon_interval(counts, delta, level, method, "lower")
            assert high == INF
            assert low == pytest.approx(corners(counts, delta, (1 - level) / 2, method)[0])
    assert epsilon_interval(EXAMPLE, 0.01, method=method) == epsilon_interval(
        EXAMPLE, 0.01, 0.9, method, "two-sided"
    )


@pytest.mark.parametrize("method", METHODS)
def test_lower_bounds_of_tables_are_those_of_intervals(method):
    rng = np.random.default_rng(1)
    rows = [[40, 1, 39, 2], [2, 39, 1, 40], [9, 0, 9, 0], [0, 9, 0, 9], [1, 0, 1, 0], [5, 5, 5, 5]]
    rows += (rng.integers(0, 40, (8, 4)) + 1).tolist()
    for delta in (0.0, 0.1):
        expected = [
            epsilon_interval(AttackCounts(*row), delta, 0.8, method, "lower")[0] for row in rows
        ]
        found = epsilon_lower_bounds(rows, delta, 0.8, method)
        assert found == pytest.approx(expected, abs=1e-12)
        index, bound = best_lower_bound(rows, delta, 0.8, method)
        first = next(i for i, e in enumerate(expected) if e >= max(expected) * (1 - 1e-9))
        assert (index, bound) == (first, pytest.approx(max(expected)))
        assert type(bound) is float
    assert epsilon_lower_bounds(rows, 0.1).tolist() == (
        epsilon_lower_bounds(rows, 0.1, 0.9, "bayesian").tolist()
    )
    assert best_lower_bound(rows, 0.1) == best_lower_bound(rows, 0.1, 0.9, "bayesian")
    assert best_lower_bound(np.array(rows, np.uint8), 0.1, 0.8, method) == (
        best_lower_bound(rows, 0.1, 0.8, method)
    )


@pytest.mark.parametrize("method", METHODS)
def test_of_equal_bounds_the_first_is_the_best(method):
    chance, good = [5, 5, 5, 5], [30, 2, 28, 4]
    assert best_lower_bound([chance, [6, 6, 6, 6], chance], 0.1, 0.9, method) == (0, 0.0)
    index, bound = best_lower_bound([chance, good, chance, good], 0.0, 0.9, method)
    assert (index, bound > 1) == (1, True)
    # In a sweep the best is wherever it is put.
    rng = np.random.default_rng(2)
    rows = (rng.integers(0, 30, (30, 4)) + 10).tolist()
    for place in (0, 11, 29):
        table = [*rows[:place], [60, 1, 60, 2], *rows[place:]]
        assert best_lower_bound(table, 1e-3, 0.9, method)[0] == place


@pytest.mark.slow
def test_a_best_bound_that_rectangles_do_not_lead_to():
    """Jeffreys' rectangles rank these rows otherwise than the posterior does."""
    rng = np.random.default_rng(3)
    differ = 0
    for _ in range(12):
        n = int(rng.integers(5, 60))
        fn, fp = rng.integers(0, n, 25), rng.integers(0, n, 25)
        rows = np.column_stack([n - fn, fp, n - fp, fn])
        bounds = epsilon_lower_bounds(rows, 1e-2, 0.9)
        guess = epsilon_lower_bounds(rows, 1e-2, 0.9, "jeffreys")
        differ += int(np.argmax(bounds)) != int(np.argmax(guess))
        index, best = best_lower_bound(rows, 1e-2, 0.9)
        assert best == pytest.approx(bounds.max(), abs=1e-11)
        assert bounds[index] == pytest.approx(bounds.max(), abs=1e-11)
    assert differ


def test_the_best_bound_may_be_the_second_where_rectangles_tell_nothing():
    rows = [[3, 5, 5, 7], [4, 7, 3, 6]]
    assert epsilon_lower_bounds(rows, 0.0, 0.9, "jeffreys").tolist() == [0.0, 0.0]
    bounds = epsilon_lower_bounds(rows, 0.0, 0.9, "bayesian")
    assert 0.1 < bounds[0] < bounds[1]
    assert best_lower_bound(rows, 0.0, 0.9) == (1, pytest.approx(bounds[1], rel=1e-12))


@pytest.mark.parametrize(
    ("counts", "delta", "level", "method", "side", "low", "high"),
    [
        (AttackCounts(90, 0, 100, 10), 1e-5, 0.9, "clopper-pearson", "two-sided", 3.124, math.inf),
        (PERFECT, 1e-5, 0.9, "clopper-pearson", "two-sided", 5.60, math.inf),
        (PERFECT, 1e-5, 0.9, "clopper-pearson", "lower", 5.81, math.inf),
        (PERFECT, 1e-5, 0.9, "jeffreys", "lower", 6.25, math.inf),
        (EXAMPLE, 0.05, 0.95, "jeffreys", "two-sided", 0.321, 1.456),
        (EXAMPLE, 0.05, 0.95, "clopper-pearson", "two-sided", 0.295, 1.489),
        (EXAMPLE, 0.05, 0.95, "bayesian", "two-sided", 0.5218, 1.2666),
    ],
)
def test_printed_numbers(counts, delta, level, method, side, low, high):
    found = epsilon_interval(counts, delta, level, method, side)
    assert found[0] == pytest.approx(low, abs=5e-3 if low > 5 else 5.1e-4)
    assert found[1] == pytest.approx(high, abs=5.1e-4)


def test_figure_1():
    counts = AttackCounts(tp=487, fp=512, tn=1, fn=0)
    assert epsilon_interval(counts, 1e-5) == pytest.approx((0.145, 6.399), abs=0.02)
    assert epsilon_interval(counts, 1e-5, method="jeffreys") == (0.0, math.inf)
    assert epsilon_interval(counts, 1e-5, method="clopper-pearson") == (0.0, math.inf)


CORNERS = [
    AttackCounts(1, 0, 1, 0),
    AttackCounts(0, 1, 0, 1),
    AttackCounts(1, 1, 0, 0),
    AttackCounts(0, 0, 1, 1),
    AttackCounts(5, 5, 5, 5),
    AttackCounts(90, 0, 100, 10),
    AttackCounts(10**7, 0, 10**7, 0),
    AttackCounts(0, 10**7, 0, 10**7),
    AttackCounts(6 * 10**6, 10**6, 9 * 10**6, 4 * 10**6),
    AttackCounts(1, 10**7, 10**7, 0),
]


@pytest.mark.slow
@pytest.mark.parametrize("counts", CORNERS)
@pytest.mark.parametrize("delta", [0.0, 0.3])
def test_corner_cases_are_finite_ordered_and_monotone_in_the_level(counts, delta):
    levels = (1e-9, 0.01, 0.5, 0.9, 0.99, 1 - 1e-6, 1 - 1e-12)
    for method, side in itertools.product(METHODS, SIDES):
        ends = [epsilon_interval(counts, delta, level, method, side) for level in levels]
        for low, high in ends:
            assert 0 <= low <= high
            assert low < math.inf
        lows, highs = zip(*ends, strict=True)
        assert all(a >= b - 1e-9 * (1 + a) for a, b in itertools.pairwise(lows))
        assert all(a <= b + 1e-9 * (1 + a) for a, b in itertools.pairwise(highs))
