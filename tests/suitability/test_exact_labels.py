"""The exact test of labels: its level by enumeration, its power, and where others fail."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from lib.suitability import labels_for_power, labels_test
from lib.suitability.labels import (
    _BESIDE,
    _MISSED,
    _most_extreme,
    _pmf,
    _score,
    _smooth_cdf,
    _window,
    clopper_pearson,
    critical_counts,
    rejection_rate,
    two_samples,
)
from lib.suitability.noninferiority import welch_non_inferiority

ACCURACIES = (0.5, 0.7, 0.9, 0.95, 0.99)
MARGINS = (0.0, 0.02, 0.05, 0.1)


def rates(n_test, n, margin, accuracy, reject):
    """Probability of a rejection at a drop of the margin, by enumeration of all outcomes."""
    x, y = np.arange(n_test + 1), np.arange(n + 1)
    weight = np.outer(
        stats.binom.pmf(x, n_test, accuracy), stats.binom.pmf(y, n, accuracy - margin)
    )
    return float(weight[reject(*np.meshgrid(x, y, indexing="ij"))].sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_test", "counts", "margins"), [(60, (2, 3, 20), MARGINS), (200, (2, 60), (0.05,))]
)
def test_level_by_enumeration(n_test, counts, margins):
    """Both tests, at the boundary, for accuracies near 1 too: at most alpha, not by chance."""
    for n, margin, accuracy in product(counts, margins, ACCURACIES):
        pair = accuracy, n_test, accuracy - margin, n
        assert rejection_rate(*pair, margin, 0.05) <= 0.05
        assert rejection_rate(*pair[2:], *pair[:2], -margin, 0.05) <= 0.05


@pytest.mark.parametrize(
    ("n_test", "n", "margin", "alpha"),
    [(40, 12, 0.05, 0.05), (80, 80, -0.1, 0.25), (150, 6, 0.0, 0.05), (30, 10, 0.3, 0.25)],
)
def test_level_between_the_points_of_the_search(n_test, n, margin, alpha):
    """At every accuracy of a fine grid: by the 32 points alone the second and third are above."""
    x = np.arange(n_test + 1)
    least = critical_counts(x, n_test, n, margin, alpha)
    p = np.linspace(max(margin, 0.0), min(1.0, 1 + margin), 2001)[:, None]
    weight = stats.binom.pmf(x, n_test, p)
    rate = (weight * stats.binom.sf(least - 1, n, np.clip(p - margin, 0, 1))).sum(axis=1)
    assert 0.6 * alpha < rate.max() <= alpha


def test_nothing_is_missed_between_the_points():
    """P-values against the exact probability at 400 accuracies, few errors and few labels too."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        n_1, n_2 = np.exp(rng.uniform(np.log(2), np.log(400), 2)).astype(int)
        margin = float(rng.choice([0.0, 0.05, -0.05, 0.3, -0.5]))
        low, high = max(margin, 0.0), min(1.0, 1 + margin)
        p = low + (high - low) * rng.choice([rng.random(), 0.002, 0.01, 0.99])
        x_1, x_2 = rng.binomial(n_1, p), rng.binomial(n_2, p - margin)
        found = two_samples(x_1, n_1, x_2, n_2, margin)
        tail = _MISSED / 2
        if n_1 >= n_2:
            ends = clopper_pearson(x_1, n_1, tail)
        else:
            ends = np.add(clopper_pearson(x_2, n_2, tail), margin)
        p = np.linspace(max(ends[0], low), min(ends[1], high), 400)[:, None]
        y = np.arange(n_2 + 1)
        score = _score(np.array(float(x_1)), n_1, np.array(float(x_2)), n_2, margin)
        most = _most_extreme(score, n_1, y, n_2, margin)
        chance = stats.binom.pmf(y, n_2, np.clip(p - margin, 0, 1)) * stats.binom.cdf(most, n_1, p)
        assert found >= min(1.0, chance.sum(axis=1).max() + _MISSED - _BESIDE)


def test_where_the_usual_tests_fail():
    """Exact error rates of Welch's test and of the score test by its normal distribution."""

    def welch(x, y):
        variance = [p * (1 - p) * n / (n - 1) for p, n in ((x / 500, 500), (y / 10, 10))]
        p = welch_non_inferiority(x / 500, variance[0], 500, y / 10, variance[1], 10, 0.02)[1]
        return p <= 0.05

    def normal(x, y):
        return _score(x.astype(float), 500, y.astype(float), 10, 0.02) <= stats.norm.ppf(0.05)

    assert rates(500, 10, 0.02, 0.99, welch) > 0.7
    assert max(rates(500, 10, 0.02, p, normal) for p in (0.03, 0.1, 0.98, 0.995)) > 0.055
    assert rejection_rate(0.99, 500, 0.97, 10, 0.02, 0.05) <= 0.05


def test_score_is_the_likelihoods():
    """The root of the cubic against a search for the maximum of the likelihood."""
    grid = np.linspace(0.05, 1, 200_001)
    for x, y in ((40, 3), (55, 8), (60, 10), (30, 0), (59, 10)):
        likelihood = stats.binom.logpmf(x, 60, grid) + stats.binom.logpmf(y, 10, grid - 0.05)
        p = grid[np.argmax(likelihood)]
        variance = p * (1 - p) / 60 + (p - 0.05) * (1.05 - p) / 10
        expected = (x / 60 - y / 10 - 0.05) / np.sqrt(variance)
        assert _score(float(x), 60, float(y), 10, 0.05) == pytest.approx(expected, abs=1e-3)


def test_p_value_is_the_largest_probability():
    """Against a plain enumeration, over a grid of accuracies."""
    x, y, n_1, n_2, margin = 27, 6, 30, 8, 0.1
    score = _score(float(x), n_1, float(y), n_2, margin)

    def extreme(i, j):
        return _score(i.astype(float), n_1, j.astype(float), n_2, margin) <= score + 1e-9

    low, high = stats.binomtest(x, n_1).proportion_ci(1 - _MISSED)
    grid = np.linspace(max(low, margin), high, 400)
    expected = max(rates(n_1, n_2, margin, p, extreme) for p in grid) + _MISSED
    assert two_samples(x, n_1, y, n_2, margin) == pytest.approx(expected, rel=2e-3)


def test_three_right_labels_show_nothing():
    test = np.arange(1000) % 5 > 0
    found = labels_test(test, [True] * 3, 0.05)
    assert found.suitable_p > 0.3
    assert found.unsuitable_p > 0.9
    assert (found.n_test, found.n_user, found.user_accuracy) == (1000, 3, 1.0)
    assert labels_test(test, [False] * 3, 0.05).unsuitable_p < 0.05


def test_against_a_known_accuracy():
    test, user = np.arange(100) % 5 > 0, np.arange(40) < 35
    found = labels_test(test, user, 0.05, reference="sample")
    assert found.suitable_p == pytest.approx(stats.binomtest(35, 40, 0.75, "greater").pvalue)
    assert found.unsuitable_p == pytest.approx(stats.binomtest(35, 40, 0.75, "less").pvalue)


def test_more_right_labels_are_never_against():
    counts = critical_counts(np.arange(31), 30, 9, 0.05, 0.05)
    assert (np.diff(counts) >= 0).all()
    for x in (3, 15, 30):
        p = [two_samples(x, 30, y, 9, 0.05) for y in range(10)]
        assert (np.diff(p) <= 1e-12).all()
        shown = np.array(p) <= 0.05
        assert (np.argmax(shown) if shown.any() else 10) == counts[x]


@pytest.mark.slow
def test_power_is_what_was_promised():
    accuracy, n_test, margin = 0.95, 150, 0.1
    n = labels_for_power(test_accuracy=accuracy, n_test=n_test, margin=margin)
    reached = rejection_rate(accuracy, n_test, accuracy, n, margin, 0.05)
    assert 0.795 <= reached <= 0.87
    assert rejection_rate(accuracy, n_test, accuracy, n // 2, margin, 0.05) < 0.7


def test_power_that_cannot_be_had():
    options = {"test_accuracy": 0.8, "margin": 0.05}
    with pytest.raises(ValueError, match=r"power must be at most about 0\.\d+ with 100 test"):
        labels_for_power(**options, n_test=100)
    with pytest.raises(ValueError, match=r"power must be at most about 0\.05 with"):
        labels_for_power(**options, n_test=10**6, drop=0.05)


@pytest.mark.parametrize("n", [12_000, 10**6])
def test_many_trials_are_summed_as_few_are(n):
    """The distribution of large counts by a polynomial, against SciPy's, over the whole range."""
    p = np.array([[0.7], [0.7 + 2 / np.sqrt(n)]])
    first, last = _window(n, p)
    x = np.unique(np.linspace(0, n, 500).astype(int).tolist() + list(range(first, last, 7)))
    for rows in (slice(None), slice(1, 2)):
        exact = stats.binom.cdf(x, n, p[rows])
        np.testing.assert_allclose(
            _smooth_cdf(n, p)(x, rows), exact, atol=5e-8 if n < 1e5 else 5e-9
        )
    np.testing.assert_allclose(_pmf(x, n, p), stats.binom.pmf(x, n, p), rtol=1e-7, atol=1e-15)


def test_most_extreme_counts_of_large_samples():
    """Sought along a line, and verified: each count is the last whose score is extreme."""
    n_1, n_2, margin = 300_000, 40_000, 0.01
    score = _score(np.array(270_400.0), n_1, np.array(35_900.0), n_2, margin)
    x_2 = np.arange(35_000, 36_800)
    most = _most_extreme(score, n_1, x_2, n_2, margin)
    assert (_score(most, n_1, x_2, n_2, margin) <= score + 1e-9).all()
    assert (_score(most + 1, n_1, x_2, n_2, margin) > score + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accuracy", "margin", "power", "found"),
    [(0.8, 0.005, 0.8, 42_170), (0.99, 0.001, 0.9, 98_791), (0.9, 0.1, 0.8, 87)],
)
def test_labels_for_a_million_test_points(accuracy, margin, power, found):
    """The numbers that enumeration alone found, in half a minute each."""
    asked = {"test_accuracy": accuracy, "margin": margin, "power": power}
    assert labels_for_power(n_test=10**6, **asked) == found
