"""Intervals: the paper's numbers, brute force over regions, corner cases, and speed."""

import itertools
import math
import time

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
    roc_counts,
)
from lib.audit.counts import rate_interval
from lib.audit.intervals import METHODS, SIDES

EXAMPLE = AttackCounts(tp=65, fp=25, tn=75, fn=35)
PERFECT = AttackCounts(tp=1000, fp=0, tn=1000, fn=0)


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


def test_epsilon_of_a_point_is_the_least_region_that_holds_it():
    rng = np.random.default_rng(0)
    for _ in range(300):
        delta = float(rng.choice([0.0, 1e-3, 0.2]))
        fpr, fnr = rng.choice([0.0, 1.0, rng.random(), rng.random() ** 6], 2)
        eps = float(epsilon_point(fpr, fnr, delta))
        if math.isinf(eps):
            assert not privacy_region(30.0, delta).contains(fpr, fnr)
            continue
        assert privacy_region(eps + 1e-7, delta).contains(fpr, fnr)
        if eps > 1e-6:
            assert not privacy_region(eps - 1e-6, delta).contains(fpr, fnr)


def test_no_finite_region_holds_a_point_without_false_positives():
    """What P3's footnote overlooks: FPR = 0 with FNR < 1 - delta."""
    for eps in (1.736, 3.124, 10.0, 30.0):
        assert not privacy_region(eps, 1e-5).contains(0.0, 0.176)
    assert epsilon_point(0.0, 0.176, 1e-5) == math.inf


@pytest.mark.parametrize("method", ["jeffreys", "clopper-pearson"])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.2])
def test_ends_are_extremes_over_the_rectangle(method, delta):
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = int(rng.integers(1, 60))
        fn, fp = (int(rng.choice([0, n, rng.integers(0, n + 1)])) for _ in range(2))
        counts = AttackCounts(n - fn, fp, n - fp, fn)
        low, high = epsilon_interval(counts, delta, 0.9, method)
        x = np.linspace(*rate_interval(fn, n, 0.025, method), 61)
        y = np.linspace(*rate_interval(fp, n, 0.025, method), 61)
        everywhere = epsilon_point(y[:, None], x[None, :], delta)
        assert everywhere.max() == pytest.approx(high)
        # The least is in a corner or, where the rectangle meets the region of 0, is 0.
        assert low <= everywhere.min() + 1e-12
        assert everywhere.min() == pytest.approx(low, abs=0.2 if low == 0 else 1e-9)


def test_rates_by_the_definition_of_clopper_and_pearson():
    low, high = rate_interval(3, 20, 0.025, "clopper-pearson")
    assert stats.binom.sf(2, 20, low) == pytest.approx(0.025)
    assert stats.binom.cdf(3, 20, high) == pytest.approx(0.025)
    assert rate_interval(0, 20, 0.025, "jeffreys")[0] == 0.0
    assert rate_interval(20, 20, 0.025, "jeffreys")[1] == 1.0
    low, high = rate_interval(3, 20, 0.025, "jeffreys")
    assert stats.beta.cdf([low, high], 3.5, 17.5) == pytest.approx([0.025, 0.975])


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


@pytest.mark.parametrize("counts", CORNERS)
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-5, 0.3, 0.999])
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


def test_many_trials_agree():
    """With 10^7 trials all three intervals close in on the truth."""
    counts = CORNERS[8]
    truth = float(epsilon_point(counts.fpr, counts.fnr, 1e-5))
    for method in METHODS:
        low, high = epsilon_interval(counts, 1e-5, 0.9, method)
        assert low < truth < high
        assert high - low < 0.01


@pytest.mark.parametrize("method", METHODS)
def test_lower_bounds_over_arrays(method):
    rng = np.random.default_rng(2)
    rows = [(c.tp, c.fp, c.tn, c.fn) for c in CORNERS[:6]]
    rows += rng.integers(0, 30, (20, 4)).clip(1).tolist()
    found = epsilon_lower_bounds(rows, 0.01, 0.8, method)
    expected = [epsilon_interval(AttackCounts(*r), 0.01, 0.8, method, "lower")[0] for r in rows]
    assert found == pytest.approx(expected, abs=1e-12)
    index, best = best_lower_bound(rows, 0.01, 0.8, method)
    assert best == pytest.approx(max(expected), abs=1e-12)
    assert expected[index] == pytest.approx(best, abs=1e-12)


def roc(separation, n=1024, seed=0):
    rng = np.random.default_rng(seed)
    members = np.arange(n) % 2 == 0
    return roc_counts(rng.normal(size=n) + separation * members, members)


@pytest.mark.parametrize("separation", [0.0, 0.3, 1.0, 3.0, 8.0])
def test_best_of_a_roc_is_the_maximum(separation):
    table = roc(separation, 200)
    bounds = epsilon_lower_bounds(table, 1e-5)
    index, best = best_lower_bound(table, 1e-5)
    assert best == pytest.approx(bounds.max(), abs=1e-12)
    assert bounds[index] == pytest.approx(best, abs=1e-12)


def processor_time(call) -> float:
    """Seconds of processor time, the least of three: other work on the machine is no concern."""
    times = []
    for _ in range(3):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


@pytest.mark.speed
def test_an_interval_takes_milliseconds_and_a_roc_less_than_a_third_of_a_second():
    rng = np.random.default_rng(3)
    tables = [AttackCounts(*map(int, rng.integers(0, 500, 4) + 1)) for _ in range(40)]
    assert np.median([processor_time(lambda c=c: epsilon_interval(c, 1e-5)) for c in tables]) < 5e-3
    sweeps = [roc(separation) for separation in (0.3, 1.0, 3.0)]
    assert all(len(table) == 1025 for table in sweeps)
    assert np.median([processor_time(lambda t=t: best_lower_bound(t, 1e-5)) for t in sweeps]) < 0.3


def test_the_region_of_infinity_is_the_unit_square():
    region = privacy_region(math.inf, 1e-5)
    rates = np.array([0.0, 0.3, 1.0])
    assert region.contains(rates[:, None], rates).all()
