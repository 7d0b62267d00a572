"""Standard errors and intervals: against brute force, jackknife, and counted coverage."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lib import selective
from lib.selective.influences import METRICS


def draw(rng, n, decimals=None):
    z = rng.random(n)
    correct = rng.random(n) < 0.3 + 0.7 * z
    score = z + 0.3 * rng.normal(size=n)
    return correct, score if decimals is None else np.round(score, decimals)


@pytest.mark.parametrize(("metric", "decimals"), [("normalized_score", None), ("augrc", 1)])
def test_normal_intervals_cover(metric, decimals):
    """Coverage counted over repetitions, within what a binomial of 0.95 would do, and 1% bias."""
    rng, repetitions, hits = np.random.default_rng(5), 400, 0
    truth = METRICS[metric](*draw(rng, 400_000, decimals))
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
    for _ in range(120):
        found = selective.bootstrap(*draw(rng, 400), repetitions=200, seed=rng)
        hits += found.low <= truth <= found.high
    assert stats.binom.ppf(0.0005, 120, 0.93) <= hits <= stats.binom.ppf(0.9995, 120, 0.97), hits


def test_paired_differences_have_the_right_level():
    """Two equally good scores on the same points: rejected in 5% of the repetitions."""
    rng, rejected = np.random.default_rng(7), 0
    for _ in range(400):
        z = rng.random(600)
        correct = rng.random(600) < 0.3 + 0.7 * z
        a, b = (z + 0.3 * rng.normal(size=600) for _ in range(2))
        found = selective.compare(correct, a, correct, b)
        rejected += not found.low <= 0 <= found.high
    assert stats.binom.ppf(0.0005, 400, 0.045) <= rejected <= stats.binom.ppf(0.9995, 400, 0.06)


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
    for _ in range(300):
        difference = selective.compare(*trial(n))
        found += not difference.low <= 0 <= difference.high
    assert stats.binom.ppf(0.0005, 300, 0.76) <= found <= stats.binom.ppf(0.9995, 300, 0.84), found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [2, 20, 500, 3000])
def test_all_right_is_no_certainty(metric, n):
    """Bounded by what a wrong point at the top would do, as often as there may be one."""
    correct, score = np.ones(n, bool), np.arange(float(n))
    found = selective.estimate(correct, score, metric)
    assert found.standard_error == 0
    # Of the influence: 1 - u at half a rank, or the sum of 1 / i.
    most = 1 - 0.5 / n if metric == "augrc" else sum(1 / i for i in range(1, n + 1))
    width = (1 - 0.025 ** (1 / n)) * most
    if metric == "normalized_score":
        width = math.hypot(width, stats.norm.ppf(0.975) ** 2 / (2 * n))
    width = min(width, 0.5 if metric == "augrc" else 1.0)
    assert found.high - found.low == pytest.approx(width, rel=6e-3)
    assert found.high == 1.0 if metric == "selective_auc" else found.low == 0.0
    sampled = selective.bootstrap(correct, score, metric=metric, repetitions=100, seed=0)
    assert (sampled.low, sampled.high) == (found.low, found.high)
    assert sampled.standard_error < 1e-12
    same = selective.compare(correct, score, correct, score, metric)
    assert same.low < same.value == 0 < same.high
    low, high = selective.compare_over_seeds(*[[correct] * 3, [score] * 3] * 2).interval()
    assert low < 0 < high


def test_interval_over_seeds_where_few_points_vary():
    """That of bounds, on either side wider by Student's for the training runs."""
    correct, score = np.arange(60) != 7, np.arange(60.0)
    others = [np.where(correct, score, at) for at in (20.5, 30.5, 40.5)]
    found = selective.compare_over_seeds([correct] * 3, others, [correct] * 3, [score] * 3)
    *_, error, degrees = found.few
    assert error > 0
    low, high = replace(found, few=(*found.few[:3], 0.0, degrees)).interval()
    half = stats.t.isf(0.025, degrees) * error
    assert found.interval() == pytest.approx((low - half, high + half))


class Design:
    """Scores of right and wrong points, and how often points are right."""

    def __init__(self, kind, accuracy):
        self.kind, self.accuracy = kind, accuracy

    def draw(self, rng, n):
        y, u = rng.random(n) < self.accuracy, rng.random(n)
        match self.kind:
            case "perfect":
                return y, y + u
            case "reverse":
                return y, u - y
            case "random":
                return y, u
            case "informative":
                return y, 1.5 * y + rng.normal(size=n)
            case "rarely highest":  # 15% of the wrong points are among the surest ones
                top = rng.random(n) < 0.15
                return y, np.where(y, 1.5 + u, np.where(top, 2.4 + 0.1 * u, u))
            case "three levels":
                return y, np.where(y, np.digitize(u, [0.1, 0.3]), np.digitize(u, [0.5, 0.8]))


KINDS = ("perfect", "reverse", "random", "informative", "rarely highest", "three levels")
ACCURACIES = (0.5, 0.8, 0.9, 0.97, 0.99, 0.999)
SIZES = (20, 50, 100, 200, 600, 2000)


def coverage(kind, accuracy, n, metric, repetitions=200, seed=0, points=200_000):
    """How often intervals of 95% hold; the truth is that of so many points."""
    rng = np.random.default_rng([KINDS.index(kind), int(1000 * accuracy), n, *[seed] * bool(seed)])
    design = Design(kind, accuracy)
    truth = METRICS[metric](*design.draw(rng, points))
    found = [selective.estimate(*design.draw(rng, n), metric) for _ in range(repetitions)]
    assert min(one.high - one.low for one in found) > 0
    return np.mean([one.low <= truth <= one.high for one in found])


def least(repetitions):
    return 0.95 - 3 * math.sqrt(0.95 * 0.05 / repetitions)


@pytest.mark.parametrize(
    ("kind", "accuracy", "n", "metric"),
    [
        ("informative", 0.99, 50, "aurc"),
        ("informative", 0.99, 600, "normalized_score"),
        ("rarely highest", 0.9, 100, "aurc"),
        ("three levels", 0.97, 200, "selective_auc"),
        ("reverse", 0.5, 50, "normalized_score"),
        ("random", 0.999, 200, "augrc"),
        ("perfect", 0.97, 100, "aurc"),
    ],
)
def test_intervals_hold_where_few_are_wrong(kind, accuracy, n, metric):
    assert coverage(kind, accuracy, n, metric) >= least(200)


@pytest.mark.long
@pytest.mark.parametrize("metric", ["aurc", "augrc", "normalized_score"])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_in_every_cell(kind, metric):
    # Of 648 cells one is expected to fail by chance, so those that do are drawn anew, with a higher
    # bar.  The lowest known is (perfect, 0.97, 2000) of augrc with 0.9365 of 2,000: it depends on
    # the number of errors alone, about 60, which is whole: coverage goes up and down with n.
    cells = [(a, n) for a in ACCURACIES for n in SIZES]
    low = [c for c in cells if coverage(kind, *c, metric, 400, points=10**6) < least(400)]
    again = {c: coverage(kind, *c, metric, 2000, seed=1, points=10**6) for c in low}
    assert all(c >= least(2000) for c in again.values()), again


@pytest.mark.parametrize("metric", METRICS)
def test_intervals_are_no_wider_where_points_are_plentiful(metric):
    rng = np.random.default_rng(12)
    for accuracy in (0.5, 0.8, 0.95):
        found = selective.estimate(*Design("informative", accuracy).draw(rng, 20_000), metric)
        normal = 2 * stats.norm.ppf(0.975) * found.standard_error
        assert normal < found.high - found.low <= 1.03 * normal


def clustered(rng, clusters, size, accuracy, alike=0.8):
    """Points of a cluster are copies of its first one, or else draws of their own."""
    design, n = Design("informative", accuracy), clusters * size
    own, first = design.draw(rng, n), design.draw(rng, clusters)
    copied = rng.random(n) < alike
    return tuple(np.where(copied, np.repeat(f, size), o) for f, o in zip(first, own, strict=True))


@pytest.mark.parametrize(
    ("clusters", "size", "metric"),
    [
        (200, 2, "aurc"),
        (100, 10, "normalized_score"),
        (40, 50, "aurc"),
        (12, 10, "normalized_score"),
    ],
)
def test_intervals_of_clusters_hold(clusters, size, metric):
    rng = np.random.default_rng([clusters, size])
    truth = METRICS[metric](*Design("informative", 0.85).draw(rng, 400_000))
    names = np.repeat(np.arange(clusters), size)
    found = [
        selective.estimate(*clustered(rng, clusters, size, 0.85), metric, clusters=names)
        for _ in range(200)
    ]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= least(200)


def test_clusters_of_one_point_and_of_copies():
    rng = np.random.default_rng(13)
    four = *draw(rng, 300), *draw(rng, 300)
    each = np.array([f"patient {i}" for i in rng.permutation(300)])
    for function, given in ((selective.estimate, four[:2]), (selective.compare, four)):
        for metric in METRICS:
            one = function(*given, metric)
            own = function(*given, metric, clusters=each)
            assert own.value == one.value
            assert own.standard_error == pytest.approx(one.standard_error * math.sqrt(300 / 299))
            # Copies add nothing to what is known; up to the ties that they make.
            many = [np.repeat(a, 10) for a in given]
            copied = function(*many, metric, clusters=np.repeat(each, 10))
            assert copied.standard_error == pytest.approx(one.standard_error, rel=0.1)


@pytest.mark.parametrize("wrong", [2, 198])
@pytest.mark.parametrize("metric", METRICS)
def test_copies_in_clusters_reach_no_further_than_one_of_each(metric, wrong):
    """Also where few points are wrong, or right, and what might have been seen counts."""
    confidence = np.random.default_rng(15).random(200)
    correct = np.arange(200) >= wrong
    one = selective.estimate(correct, confidence, metric)
    twice = [np.repeat(each, 2) for each in (correct, confidence, np.arange(200))]
    copied = selective.estimate(*twice[:2], metric, clusters=twice[2])
    found = (copied.low, copied.high)
    assert found == pytest.approx((one.low, one.high), abs=0.02)


def test_copies_are_named():
    rng = np.random.default_rng(14)
    copies = [np.repeat(part, 10) for part in draw(rng, 80)]
    names = np.repeat(np.arange(80), 10)

    def compare(correct, score, **options):
        return selective.compare(correct, score, correct, score[::-1], **options)

    def guaranteed(*given, **options):
        return selective.guaranteed_threshold(*given, 0.8, rng=0, **options)

    for call in (selective.estimate, compare, guaranteed):
        with pytest.warns(UserWarning, match="800 of 800"):
            call(*copies)
        call(*copies, clusters=names)
    selective.estimate(*draw(rng, 3000, 1))  # a scale of few levels is no copy
    selective.estimate(*draw(rng, 30_000, 3))


def test_level_over_seeds_and_points():
    """Neither method is better; each training favours one or the other, points are shared."""
    rng = np.random.default_rng(10)
    rejected, repetitions = 0, 400
    for _ in range(repetitions):
        z = rng.random(400)
        correct = rng.random((4, 400)) < 0.3 + 0.7 * z
        noise = 0.1 + 0.4 * rng.random((2, 4, 1))
        a, b = z + noise * rng.normal(size=(2, 4, 400))
        found = selective.compare_over_seeds(correct, a, correct, b)
        rejected += found.interval(0.9)[0] > 0  # a one-sided test at 5%
    low, high = stats.binom.ppf([0.0005, 0.9995], repetitions, [0.035, 0.065])
    assert low <= rejected <= high, rejected


@pytest.mark.parametrize(("seeds", "least"), [(2, 0.87), (3, 0.92), (5, 0.94)])
def test_intervals_over_few_seeds_cover_what_is_said(seeds, least):
    """Worst where a tenth of the variance is due to the points; exactly where none is."""
    rng, runs, tails = np.random.default_rng(seeds), 1200, 4 * math.sqrt(0.1 * 0.9 / 1200)
    values = rng.normal(size=(runs, seeds)) * math.sqrt(0.9 * seeds)
    shift = rng.normal(size=runs) * math.sqrt(0.1)
    for row, moved, low, high in ((1, 1, least, least + 0.02), (0, 0, 0.95, 0.95)):
        found = [
            selective.mean_over_seeds(v + moved * s, 0.1 * row, 10_000 * row).interval()
            for v, s in zip(values, shift, strict=True)
        ]
        covered = np.mean([low_end <= 0 <= high_end for low_end, high_end in found])
        assert low - tails <= covered <= high + tails
