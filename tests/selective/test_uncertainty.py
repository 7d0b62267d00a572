"""Standard errors and intervals: against brute force, jackknife, and counted coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from lib import selective
from lib.selective.uncertainty import METRICS


def draw(rng, n, decimals=None):
    z = rng.random(n)
    correct = rng.random(n) < 0.3 + 0.7 * z
    score = z + 0.3 * rng.normal(size=n)
    return correct, score if decimals is None else np.round(score, decimals)


@pytest.mark.parametrize("metric", METRICS)
def test_paired_bootstrap_is_resampling_rows(metric):
    rng = np.random.default_rng(4)
    correct, score = draw(rng, 80, 1)
    other_correct, other_score = draw(rng, 80, 1)
    paired = selective.bootstrap(
        correct, score, other_correct, other_score, metric=metric, repetitions=100, seed=9
    )
    rng = np.random.default_rng(9)
    area, two = METRICS[metric], []
    for _ in range(100):
        rows = rng.integers(0, 80, 80)
        two.append(area(correct[rows], score[rows]) - area(other_correct[rows], other_score[rows]))
    assert (paired.low, paired.high) == pytest.approx(np.quantile(two, [0.025, 0.975]), abs=1e-12)


@pytest.mark.parametrize("metric", ["normalized_score", "augrc"])
@pytest.mark.parametrize("decimals", [None, 1])
def test_normal_intervals_cover(metric, decimals):
    """Coverage counted over repetitions, within what a binomial of 0.95 would do, and 1% bias."""
    rng = np.random.default_rng(5)
    truth = METRICS[metric](*draw(rng, 400_000, decimals))
    repetitions = 1000
    hits = 0
    for _ in range(repetitions):
        found = selective.estimate(*draw(rng, 800, decimals), metric)
        hits += found.low <= truth <= found.high
    low = stats.binom.ppf(0.0005, repetitions, 0.94)
    high = stats.binom.ppf(0.9995, repetitions, 0.96)
    assert low <= hits <= high, hits


def test_bootstrap_intervals_cover():
    rng = np.random.default_rng(6)
    truth = selective.normalized_score(*draw(rng, 400_000))
    hits = 0
    for _ in range(200):
        found = selective.bootstrap(*draw(rng, 400), repetitions=200, seed=rng)
        hits += found.low <= truth <= found.high
    assert stats.binom.ppf(0.0005, 200, 0.93) <= hits <= stats.binom.ppf(0.9995, 200, 0.97), hits


def test_paired_differences_have_the_right_level():
    """Two equally good scores on the same points: rejected in 5% of the repetitions."""
    rng = np.random.default_rng(7)
    rejected = 0
    for _ in range(1000):
        z = rng.random(600)
        correct = rng.random(600) < 0.3 + 0.7 * z
        a, b = (z + 0.3 * rng.normal(size=600) for _ in range(2))
        found = selective.compare(correct, a, correct, b)
        rejected += not found.low <= 0 <= found.high
    assert stats.binom.ppf(0.0005, 1000, 0.045) <= rejected <= stats.binom.ppf(0.9995, 1000, 0.06)


def test_points_needed_give_the_promised_power():
    """A pilot of many points, then trials of the size it asks for."""
    rng = np.random.default_rng(8)

    def trial(n):
        z = rng.random(n)
        correct = rng.random(n) < 0.3 + 0.7 * z
        return correct, z + 0.1 * rng.normal(size=n), correct, z + 0.4 * rng.normal(size=n)

    n = math.ceil(selective.points_needed(*trial(400_000)))
    assert 20 < n < 5000
    found = 0
    for _ in range(600):
        difference = selective.compare(*trial(n))
        found += not difference.low <= 0 <= difference.high
    assert stats.binom.ppf(0.0005, 600, 0.76) <= found <= stats.binom.ppf(0.9995, 600, 0.84), found


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_varies_where_all_are_right(metric):
    correct, score = np.ones(20, bool), np.arange(20.0)
    found = selective.estimate(correct, score, metric)
    assert found.standard_error == 0
    assert found.low == found.value == found.high
    sampled = selective.bootstrap(correct, score, metric=metric, repetitions=100, seed=0)
    assert sampled.low == pytest.approx(found.value)
    assert sampled.standard_error < 1e-12


def test_level_over_seeds_and_points():
    """Neither method is better; each training favours one or the other, points are shared."""
    rng = np.random.default_rng(10)
    rejected, repetitions = 0, 600
    for _ in range(repetitions):
        z = rng.random(400)
        correct = rng.random((4, 400)) < 0.3 + 0.7 * z
        noise = 0.1 + 0.4 * rng.random((2, 4, 1))
        a, b = z + noise * rng.normal(size=(2, 4, 400))
        found = selective.compare_over_seeds(correct, a, correct, b)
        rejected += found.p_positive < 0.05
    low, high = stats.binom.ppf([0.0005, 0.9995], repetitions, [0.035, 0.065])
    assert low <= rejected <= high, rejected


def test_power_over_seeds_and_points():
    rng = np.random.default_rng(11)
    z = rng.random(1000)
    correct = rng.random((4, 1000)) < 0.3 + 0.7 * z
    worse = z + 0.5 * rng.normal(size=(4, 1000))
    found = selective.compare_over_seeds(correct, worse, correct, np.tile(z, (4, 1)))
    assert found.p_positive < 0.01
    assert found.interval()[0] > 0
    back = selective.compare_over_seeds(correct, np.tile(z, (4, 1)), correct, worse)
    assert back.value == -found.value
    assert back.p_positive == pytest.approx(1 - found.p_positive)


@pytest.mark.parametrize(("seeds", "least"), [(2, 0.87), (3, 0.92), (5, 0.94)])
def test_intervals_over_few_seeds_cover_what_is_said(seeds, least):
    """Worst where a tenth of the variance is due to the points; exactly where none is."""
    rng, runs, tails = np.random.default_rng(seeds), 2000, 4 * math.sqrt(0.1 * 0.9 / 2000)
    values = rng.normal(size=(runs, seeds)) * math.sqrt(0.9 * seeds)
    shift = rng.normal(size=runs) * math.sqrt(0.1)
    for row, moved, low, high in ((1, 1, least, least + 0.02), (0, 0, 0.95, 0.95)):
        found = [
            selective.mean_over_seeds(v + moved * s, 0.1 * row, 10_000 * row).interval()
            for v, s in zip(values, shift, strict=True)
        ]
        covered = np.mean([low_end <= 0 <= high_end for low_end, high_end in found])
        assert low - tails <= covered <= high + tails


def test_mean_over_seeds_is_student_without_points():
    values = np.array([0.1, 0.4, 0.2, 0.5])
    found = selective.mean_over_seeds(values)
    expected = stats.ttest_1samp(values, 0, alternative="greater")
    assert found.p_positive == pytest.approx(expected.pvalue)
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert found.interval(0.9) == pytest.approx((interval.low, interval.high))
    still = selective.mean_over_seeds([0.5, 0.5])
    assert (still.p_positive, still.interval()) == (0.0, (0.5, 0.5))
    assert selective.mean_over_seeds([0.0, 0.0]).p_positive == 1.0
