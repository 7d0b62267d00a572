"""The Gaussian audit: level and tightness on mechanisms of known epsilon."""

import numpy as np
import pytest
from scipy import stats

from lib.audit import epsilon_lower_bounds, gaussian_lower_bound, true_best_epsilon


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["held-out", "union"])
@pytest.mark.parametrize(("mu", "n"), [(0.0, 60), (1.0, 8), (1.0, 200), (4.0, 60)])
def test_level(choice, mu, n):
    repetitions, level, delta = 200, 0.9, 1e-5
    rng = np.random.default_rng([n, int(mu)])
    truth = true_best_epsilon(mu, delta) if mu else 0.0
    found = [
        gaussian_lower_bound(
            rng.normal(size=n) + mu, rng.normal(size=n), delta, level, choice=choice, seed=rng
        )
        for _ in range(repetitions)
    ]
    most = stats.binom.ppf(0.999, repetitions, 1 - level)
    assert sum(each.mu > mu for each in found) <= most
    assert sum(each.epsilon > truth + 1e-9 for each in found) <= most


def test_level_with_equal_scores():
    """Scores of two values."""
    repetitions, level, n = 400, 0.9, 30
    rng = np.random.default_rng(1)
    most = stats.binom.ppf(0.999, repetitions, 1 - level)
    for choice in ("held-out", "union"):
        above = 0
        for _ in range(repetitions):
            said = rng.random((2, n)) < 0.5
            above += gaussian_lower_bound(*said, 1e-5, level, choice=choice, seed=rng).mu > 0
        assert above <= most


def test_it_is_tighter_than_without_the_hypothesis_and_close_to_the_truth():
    rng = np.random.default_rng(0)
    mu, n, delta = 1.0, 4000, 1e-5
    truth = true_best_epsilon(mu, delta)
    a, b = rng.normal(size=n) + mu, rng.normal(size=n)
    held = gaussian_lower_bound(a, b, delta, seed=0)
    union = gaussian_lower_bound(a, b, delta, choice="union")
    assert 0.7 * truth < held.epsilon < truth  # 0.84 in the mean of 30
    assert 0.7 * truth < union.epsilon < truth
    # The best threshold of the exact curve, counts as expected there.
    t = np.linspace(-3, 5, 161)
    fn, fp = np.round(n / 2 * stats.norm.cdf(t - mu)), np.round(n / 2 * stats.norm.sf(t))
    counts = np.stack([n / 2 - fn, fp, n / 2 - fp, fn], axis=1).astype(int)
    free = epsilon_lower_bounds(counts, delta, 0.95, "clopper-pearson").max()
    assert free < 0.8 * held.epsilon


def test_by_hand():
    """All right in 10 + 10 trials: both rates at most 1 - 0.05^(1/10) at level 0.9."""
    found = gaussian_lower_bound(np.ones(20), np.zeros(20), 1e-5, 0.9, choice="held-out", seed=0)
    assert found.mu == pytest.approx(-2 * stats.norm.ppf(1 - 0.05 ** (1 / 10)))
    assert found.epsilon == true_best_epsilon(found.mu, 1e-5)
    worse = gaussian_lower_bound(np.arange(20.0), np.arange(20) + 100.0, 1e-5, choice="union")
    assert worse[:2] == (0.0, 0.0)
