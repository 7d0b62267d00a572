"""A guaranteed threshold keeps its promise, ties and other awkward cases included."""

import math
import warnings

import numpy as np
import pytest
from scipy import special, stats

from lib import selective

GRID = np.linspace(0, 1, 20001)


def continuous(u):
    return special.expit(6 * u - 1)


def step(u):
    """Just below the target up to 0.45, well above it beyond: where a plug-in is misled most."""
    return np.where(u > 0.45, 0.97, 0.87)


def dip(u):
    """Surest answers are below the target: selective accuracy rises before it falls."""
    return np.where(u > 0.9, 0.93, np.where(u > 0.4, 0.985, 0.7))


def tied(u):
    return special.expit(6 * np.floor(8 * u) / 8 - 0.5)


DESIGNS = {
    "continuous": (continuous, lambda u: u, 0.95),
    "step": (step, lambda u: u, 0.93),
    "dip": (dip, lambda u: u, 0.95),
    "tied": (tied, lambda u: np.floor(8 * u) / 8, 0.95),
}


def failures(design, n, repetitions, compared):
    """How often the promised threshold is below the target, how often one is given.

    And how often the plug-in is below it, of the first so many.
    """
    p, map_score, target = DESIGNS[design]
    tail = np.cumsum(p(GRID)[::-1])[::-1] / np.arange(len(GRID), 0, -1)
    scores = map_score(GRID)

    def truth(threshold):
        """Selective accuracy above a threshold; the grid ascends."""
        first = np.searchsorted(scores, threshold, side="right")
        return tail[first] if first < len(GRID) else 1.0

    rng = np.random.default_rng([n, 0])
    broken = plugged = given = 0
    for i in range(repetitions):
        u = rng.random(n)
        correct, score = rng.random(n) < p(u), map_score(u)
        found = selective.guaranteed_threshold(correct, score, target)
        if found.coverage is not None:
            given += 1
            broken += truth(found.threshold) < target
        if i < compared:
            k = round(selective.coverage_at_accuracy(correct, score, target) * n)
            ordered = np.sort(score)[::-1]
            plugged += k > 0 and truth(ordered[k] if k < n else -math.inf) < target
    return broken, given, plugged


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_promise_is_broken_in_at_most_one_of_twenty(design, n):
    repetitions, compared = 600, 60 * (n == 1000)
    broken, given, plugged = failures(design, n, repetitions, compared)
    assert broken <= stats.binom.ppf(0.999, repetitions, 0.05)
    if n == 1000:
        assert given > 0.3 * repetitions  # it does promise something
        # So that the test can fail.
        assert plugged > stats.binom.ppf(0.999, compared, 0.05) or design == "tied"


def test_what_is_promised_can_be_read_off():
    correct = np.r_[np.ones(200, bool), np.arange(100) % 2 == 0]
    score = np.arange(300, 0, -1.0)
    found = selective.guaranteed_threshold(correct, score, 0.95)
    answered = score > found.threshold
    assert answered.mean() == found.coverage
    assert correct[answered].mean() == found.accuracy
    k = answered.sum()
    assert stats.binom.sf(correct[answered].sum() - 1, k, 0.95) <= 0.05
    assert found.coverage_low == pytest.approx(
        stats.binomtest(int(k), 300, alternative="greater").proportion_ci(0.95).low
    )
    assert found.accuracy_low == found.target == 0.95


def test_all_are_answered_where_all_are_right_and_none_where_little_is_known():
    found = selective.guaranteed_threshold(np.ones(200, bool), np.arange(200), 0.95)
    assert (found.coverage, found.threshold) == (1.0, -math.inf)
    for correct, target in ((np.ones(58, bool), 0.95), (np.zeros(300, bool), 0.5),
                            (np.ones(300, bool), 1.0)):  # fmt: skip
        found = selective.guaranteed_threshold(correct, np.arange(len(correct)), target)
        assert found.threshold is found.coverage is found.coverage_low is found.accuracy_low is None
    # 59 right answers are enough for 0.95 (0.95^59 < 0.05), if they are all there is.
    found = selective.guaranteed_threshold(np.ones(59, bool), np.zeros(59), 0.95)
    assert found.coverage == 1.0


def test_the_fallback_passes_on_what_was_enough():
    """Coverages of a plain version: exact tests from the highest threshold down, a third each."""
    rng, level, n, target = np.random.default_rng(4), 0.9, 400, 0.8
    passed = 0
    for _ in range(60):
        score = rng.permutation(n)
        correct = rng.random(n) < 0.72 + 0.2 * (score > 250)
        hits = np.cumsum(correct[np.argsort(-score)])
        counts = np.ceil(n * np.arange(1, 41) / 40).astype(int)
        first = 2 * math.log(1 - level) / math.log(target)
        wanted = [math.floor(first * (n / first) ** (k / 3)) for k in range(3)]
        starts = [next(i for i, k in enumerate(counts) if k >= w) for w in wanted]
        carried, last = 0.0, None
        for i, k in enumerate(counts):
            alpha = carried + (i in starts) * (1 - level) / 3
            rejected = stats.binom.sf(hits[k - 1] - 1, k, target) <= alpha
            carried, last = (alpha, k / n if alpha else last) if rejected else (0.0, last)
        found = selective.guaranteed_threshold(correct, score, target, level)
        assert found.coverage == last
        passed += last is not None and last < 1
    assert passed > 20


def test_ties_are_answered_whole():
    rng = np.random.default_rng(0)
    score = np.floor(5 * rng.random(600))
    correct = rng.random(600) < 0.75 + 0.06 * score
    found = selective.guaranteed_threshold(correct, score, 0.9)
    assert found.threshold in score
    assert found.coverage == (score > found.threshold).mean()
    order = rng.permutation(600)
    assert selective.guaranteed_threshold(correct[order], score[order], 0.9) == found


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 10])
def test_clusters_keep_the_promise_and_copies_do_not(size):
    """All accuracies just below the target: an error is any threshold at all."""
    broken, alone = 0, 0
    rng, repetitions, clusters = np.random.default_rng(size), 400, 120
    names = np.repeat(np.arange(clusters), size)
    for seed in range(repetitions):
        score = np.repeat(rng.random(clusters), size)
        correct = np.repeat(rng.random(clusters) < 0.8999, size)
        given = correct, score, 0.9
        found = selective.guaranteed_threshold(*given, clusters=names, rng=seed)
        broken += found.threshold is not None
        if size == 10 and seed < 100:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # points look repeated
                alone += selective.guaranteed_threshold(*given).threshold is not None
    assert broken <= stats.binom.ppf(0.9985, repetitions, 0.05)
    assert alone > 12 or size != 10  # the 99.8th percentile of 100 at 0.05


def test_one_point_of_each_cluster():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 5, 300)
    names, n = np.repeat([f"p{i}" for i in range(300)], sizes), sizes.sum()
    score = rng.random(n)
    correct, order = rng.random(n) < 0.7 + 0.3 * score, rng.permutation(n)

    def found(rows, names):
        given = correct[rows], score[rows], 0.8
        return selective.guaranteed_threshold(*given, clusters=names, rng=3)

    one = found(np.arange(n), names)
    assert one.coverage * 300 == pytest.approx(round(one.coverage * 300))
    assert found(order, names[order]) == one
    # Clusters of one point are the points.
    alone = selective.guaranteed_threshold(correct, score, 0.8)
    assert found(np.arange(n), np.arange(n)) == alone
