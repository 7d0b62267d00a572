"""Intervals, comparisons and sizes by their formulas; the bootstrap by resampling rows."""

import math

import numpy as np
import pytest
from scipy import stats

from lib import selective
from lib.bounds import few_vary
from lib.selective.influences import METRICS

RNG = np.random.default_rng(1)
FOUR = RNG.random(150) < 0.7, RNG.random(150), RNG.random(150) < 0.6, RNG.random(150)


def by_hand(value, influences, level, bend=0.0):
    """Student's interval with n over the kurtosis less one degrees, moved against the skewness."""
    n, spread = len(influences), influences.std()
    z = stats.norm.ppf((1 + level) / 2)
    effective = n * spread**4 / (influences**4).mean()
    half = stats.t.ppf((1 + level) / 2, effective - 1) * spread / math.sqrt(n - 1)
    move = (influences**3).mean() / spread**3 / math.sqrt(n) * (2 * z**2 + 1) / 6
    middle = value + move * spread / math.sqrt(n - 1)
    return middle - math.hypot(half, bend), middle + math.hypot(half, bend)


@pytest.mark.parametrize("metric", METRICS)
def test_estimates_and_differences(metric):
    values = [selective.influence(*part, metric) for part in (FOUR[:2], FOUR[2:])]
    areas = [METRICS[metric](*part) for part in (FOUR[:2], FOUR[2:])]
    found = selective.estimate(*FOUR[:2], metric, 0.8)
    bends = [z**2 / 300 * (metric == "normalized_score") for z in stats.norm.ppf([0.9, 0.75])]
    assert (found.value, found.level) == (areas[0], 0.8)
    error = math.sqrt((values[0] ** 2).sum()) / 150
    assert found.standard_error == pytest.approx(error, rel=1e-12)
    assert (found.low, found.high) == pytest.approx(by_hand(areas[0], values[0], 0.8, bends[0]))
    found = selective.compare(*FOUR, metric, 0.5)
    assert found.value == areas[0] - areas[1]
    ends = by_hand(found.value, values[0] - values[1], 0.5, bends[1])
    assert (found.low, found.high) == pytest.approx(ends)


def test_defaults():
    assert selective.estimate(*FOUR[:2]) == selective.estimate(*FOUR[:2], "normalized_score", 0.95)
    assert selective.compare(*FOUR) == selective.compare(*FOUR, "normalized_score", 0.95)
    assert selective.points_needed(*FOUR) == selective.points_needed(
        *FOUR, "normalized_score", alpha=0.05, power=0.8
    )
    default = selective.bootstrap(*FOUR, seed=1)
    options = {"metric": "normalized_score", "repetitions": 2000, "level": 0.95, "seed": 1}
    assert default == selective.bootstrap(*FOUR, **options)


@pytest.mark.parametrize("metric", METRICS)
def test_points_needed(metric):
    four = tuple(part[:50] for part in FOUR)
    found = selective.compare(*four, metric)
    z = stats.norm.ppf(1 - 0.1 / 2) + stats.norm.ppf(0.7)
    needed = (z * found.standard_error / found.value) ** 2 * 50
    options = {"alpha": 0.1, "power": 0.7}
    assert selective.points_needed(*four, metric, **options) == pytest.approx(needed)
    twice = selective.points_needed(*four, metric, difference=2 * found.value, **options)
    assert twice == pytest.approx(needed / 4)
    assert selective.points_needed(*four, metric, difference=0.0) == math.inf


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [2, 3, 33, 200])
def test_the_bootstrap_resamples_rows(metric, n):
    """Also where a sample has right points only, or wrong ones only, or few."""
    rng = np.random.default_rng(n)
    correct, other_correct = rng.random((2, n)) < 0.6
    score, other_score = np.round(rng.random((2, n)), 1)
    one, two = (correct, score), (other_correct, other_score)
    rng, area, sampled = np.random.default_rng(4), METRICS[metric], []
    for _ in range(100):
        rows = rng.integers(0, n, n)
        sampled.append([area(c[rows], s[rows]) for c, s in (one, two)])
    sampled = np.array(sampled)
    options = {"metric": metric, "repetitions": 100, "level": 0.8, "seed": 4}
    found, paired = selective.bootstrap(*one, **options), selective.bootstrap(*one, *two, **options)
    # The series of the harmonic numbers leaves 1 / (252 n^6), 3e-12 at 33, times at most n / n.
    tolerance = {"abs": 5e-12}
    assert found.standard_error == pytest.approx(np.std(sampled[:, 0], ddof=1), **tolerance)
    ends = np.quantile(sampled[:, 0], [0.1, 0.9])
    if few_vary(selective.influence(*one, metric), 30)[0]:
        bounds = selective.estimate(*one, metric, 0.8)
        ends = bounds.low, bounds.high
    assert (found.low, found.high) == pytest.approx(ends, **tolerance)
    assert (found.value, found.level) == (area(*one), 0.8)
    assert paired.value == area(*one) - area(*two)
    if n == 200:
        ends = np.quantile(sampled[:, 0] - sampled[:, 1], [0.1, 0.9])
        assert (paired.low, paired.high) == pytest.approx(ends, **tolerance)


def test_degrees_of_freedom_by_welch_and_satterthwaite():
    values = [0.1, 0.4, 0.2, 0.5, 0.9]
    seeds = np.var(values, ddof=1) / 5
    found = selective.mean_over_seeds(values, 0.03, 40)
    assert found.value == pytest.approx(0.42)
    assert found.standard_error == pytest.approx(math.sqrt(seeds + 0.03))
    expected = (seeds + 0.03) ** 2 / (seeds**2 / 4 + 0.03**2 / 39)
    assert found.degrees == pytest.approx(expected)
    for level in (0.8, 0.95):
        half = stats.t.ppf((1 + level) / 2, expected) * found.standard_error
        assert found.interval(level) == pytest.approx((0.42 - half, 0.42 + half))
    # A variance of unknown or least origin counts one degree of freedom.
    for n in (0, 1, 2):
        few = selective.mean_over_seeds(values, 0.03, n)
        assert few.degrees == pytest.approx((seeds + 0.03) ** 2 / (seeds**2 / 4 + 0.03**2))
    points = selective.mean_over_seeds([0.5, 0.5], 0.04, 11)
    assert (points.standard_error, points.degrees) == pytest.approx((0.2, 10))
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    student = selective.mean_over_seeds(values).interval(0.9)
    assert student == pytest.approx((interval.low, interval.high))
    still = selective.mean_over_seeds([0.5, 0.5])
    assert (still.value, still.standard_error, still.degrees) == (0.5, 0.0, math.inf)
    assert np.isnan(still.interval()).all()  # not certain: unknown
    # Trainings of a wide range: the variance of the points is not nothing.
    wide = selective.mean_over_seeds([1, 2], 0.5, 100)
    assert wide.standard_error == pytest.approx(math.sqrt(0.25 + 0.5))


@pytest.mark.parametrize("metric", METRICS)
def test_comparison_over_seeds(metric):
    rng, area = np.random.default_rng(6), METRICS[metric]
    correct, other = rng.random((2, 3, 250)) < 0.7
    score, second = rng.normal(size=(2, 3, 250))
    found = selective.compare_over_seeds(correct, score, other, second, metric)
    pairs = zip(zip(correct, score, strict=True), zip(other, second, strict=True), strict=True)
    each = [area(*a) - area(*b) for a, b in pairs]
    mean = sum(
        (
            selective.influence(correct[k], score[k], metric)
            - selective.influence(other[k], second[k], metric)
        )
        / 3
        for k in range(3)
    )
    assert found.value == pytest.approx(np.mean(each))
    seeds, points = np.var(each, ddof=1) / 3, (mean**2).sum() / 250**2
    effective = 250 * (mean**2).mean() ** 2 / (mean**4).mean()
    assert found.standard_error == pytest.approx(math.sqrt(seeds + points))
    expected = (seeds + points) ** 2 / (seeds**2 / 2 + points**2 / (effective - 1))
    assert found.degrees == pytest.approx(expected)
    if metric == "normalized_score":
        assert selective.compare_over_seeds(correct, score, other, second) == found
