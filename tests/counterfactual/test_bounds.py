"""Intervals where errors are few or none: exact limits, and levels by simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lib.counterfactual import Nuisances, counterfactual_score, estimate_from_nuisances
from lib.counterfactual.bounds import bounded_interval, lower_end


def least(level, trials):
    return level - 3 * math.sqrt(level * (1 - level) / trials)


def drawn(rng, n, psi, guess, pi=(0.1, 0.5)):
    pi = rng.choice(pi, n)
    s = (rng.random(n) < psi).astype(float)
    return Nuisances(rng.random(n) < pi, s, pi, np.full(n, guess))


@pytest.mark.parametrize("n", [1, 2, 20, 500])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_of_zeros_and_ones_it_is_clopper_and_pearsons(n, level):
    alpha = (1 - level) / 2
    for errors in {0, min(1, n), min(3, n), min(20, n)}:
        values = np.r_[np.zeros(errors), np.ones(n - errors)]
        low = stats.beta.ppf(alpha, n - errors, errors + 1) if errors < n else 0
        high = stats.beta.isf(alpha, n - errors + 1, errors) if errors else 1
        found = bounded_interval(values, (0.0, 1.0), level)
        assert found == pytest.approx((low, high), abs=0.006 * max(1 - low, high, 0.01) + 0.003 / n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "psi", "guess"),
    [([12, 20, 40, 80], 0.9, 0.9), ([12, 20, 40, 80], 0.95, 0.95), ([60] * 5, 0.99, 0.5)],
)
def test_intervals_of_groups_hold_all_together(sizes, psi, guess):
    """They did in .43, .18 and .95 of the trials where a variance was all."""
    rng, held, trials = np.random.default_rng(5), 0, 120
    groups = np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(trials):
        found = estimate_from_nuisances(drawn(rng, len(groups), psi, guess), clip=0.2)
        ends = [one.interval for one in found.by_group(groups).values()]
        held += all(low <= psi <= high for low, high in ends)
        assert all(high - low > 1e-3 for low, high in ends)
    assert held / trials >= least(0.95, trials)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 10])
def test_clusters_keep_the_level(size):
    rng, held, naive, trials = np.random.default_rng(size), 0, 0, 150
    for _ in range(trials):
        one = drawn(rng, 40, 0.9, 0.9)
        whole = Nuisances(*(np.repeat(part, size) for part in vars(one).values()))
        clusters = np.repeat(np.arange(40), size)
        found = estimate_from_nuisances(whole, clip=0.2, clusters=clusters)
        plain = estimate_from_nuisances(whole, clip=0.2)
        held += found.interval[0] <= 0.9 <= found.interval[1]
        naive += plain.interval[0] <= 0.9 <= plain.interval[1]
    assert held / trials >= least(0.95, trials)
    assert size == 2 or naive / trials < 0.8


def test_where_few_successes_are_seen_the_lower_limit_counts_them():
    """Clopper and Pearson's, of as many equal ones as the weights are worth."""
    one = drawn(np.random.default_rng(1), 200, 0.05, 0.05)
    weight = np.where(one.abstained, 0.0, one.scores / (1 - one.propensity))
    count = weight.sum() ** 2 / (weight**2).sum()
    assert 1 < count < 15
    low = stats.beta.ppf(0.025, count, count / weight.mean() - count + 1)
    assert estimate_from_nuisances(one, clip=0.2).interval[0] == pytest.approx(low)


@pytest.mark.parametrize("shared", [False, True])
def test_groups_of_clusters_are_estimates_of_their_own(shared):
    """Bonferroni's level where a cluster has points in two groups; else they are independent."""
    one, clusters = drawn(np.random.default_rng(6), 120, 0.8, 0.7), np.arange(120) // 3
    groups = np.arange(120) % 2 if shared else np.arange(120) // 60
    whole = estimate_from_nuisances(one, clip=0.2, clusters=clusters)
    sums = (whole.influence - whole.value).reshape(40, 3).sum(axis=1) / 3
    assert whole.stderr == pytest.approx(stats.sem(sums))
    each = whole.by_group(groups)
    for name, found in each.items():
        rows = groups == int(name)
        part = Nuisances(*(values[rows] for values in vars(one).values()))
        level = 0.975 if shared else math.sqrt(0.95)
        own = estimate_from_nuisances(part, clip=0.2, clusters=clusters[rows], level=level)
        for what in ("level", "value", "stderr", "interval"):
            assert getattr(found, what) == pytest.approx(getattr(own, what)), what


def test_where_answers_are_plentiful_it_is_as_narrow_as_the_normal_one():
    rng = np.random.default_rng(7)
    for psi in (0.5, 0.8, 0.9):
        found = estimate_from_nuisances(drawn(rng, 2000, psi, psi), clip=0.2)
        width = found.interval[1] - found.interval[0]
        assert 0.99 < width / (2 * 1.959964 * found.stderr) < 1.03


@pytest.mark.parametrize("level", [0.8, 0.99])
def test_p_values_agree_with_the_interval(level):
    rng = np.random.default_rng(8)
    for _ in range(20):
        pair = drawn(rng, 60, 0.8, 0.7), drawn(rng, 60, 0.6, 0.6)
        found = estimate_from_nuisances(pair, clip=0.2, level=level)
        inside = found.interval[0] <= 0 <= found.interval[1]
        assert inside == (found.p_value >= 1 - level)
        # As of repeated splits, which add to the variance.
        wider = replace(found, stderr=1.2 * found.stderr)
        assert wider.p_value > found.p_value
        ends = replace(wider, level=1 - wider.p_value).interval
        assert min(map(abs, ends)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("psi", [0.01, 0.1, 0.5])
def test_errors_are_bounded_from_above_as_successes_are_from_below(psi):
    one = drawn(np.random.default_rng(3), 150, psi, psi)
    low, high = estimate_from_nuisances(one, clip=0.2).interval
    errors = replace(one, scores=1 - one.scores, outcome=1 - one.outcome)
    assert estimate_from_nuisances(errors, clip=0.2).interval == pytest.approx((1 - high, 1 - low))


def test_p_value_of_a_single_score_of_repeated_splits():
    """Where it is the level, limit and what the splits add are as far off as the score itself."""
    plain = estimate_from_nuisances(drawn(np.random.default_rng(1), 200, 0.05, 0.05), clip=0.2)
    found = replace(plain, stderr=1.5 * plain.stderr)
    alpha = found.p_value / 2
    below = found.value - lower_end(found._units, found.reach, None, alpha)
    more = math.sqrt(1.5**2 - 1) * plain.stderr * stats.norm.isf(alpha)
    assert 0.001 < alpha < 0.5
    assert math.hypot(below, more) == pytest.approx(found.value)


def test_folds_split_no_cluster_and_copies_are_named():
    rng = np.random.default_rng(9)
    x, r = np.repeat(rng.random((40, 2)), 5, axis=0), np.repeat(rng.random(40) < 0.3, 5)
    s = np.repeat(rng.random(40) < 0.8, 5).astype(float)
    plain = counterfactual_score(x, s, r, learner="linear", clip=0.2, rng=0)
    assert "160 of 200 rows repeat" in " ".join(plain.diagnostics[0].notes)
    clusters = np.repeat(np.arange(40), 5)
    found = counterfactual_score(x, s, r, learner="linear", clip=0.2, clusters=clusters, rng=0)
    assert "repeat" not in " ".join(found.diagnostics[0].notes)
    # Copies in one fold are predicted by one model.
    assert len(np.unique(found.nuisances[0].outcome.round(12))) <= 40
    assert np.ptp(found.interval) > 1.5 * np.ptp(plain.interval)


def test_a_group_without_an_answer_may_be_anything():
    known = Nuisances([True, True, False, False], np.ones(4), np.full(4, 0.5), np.full(4, 0.9))
    found = estimate_from_nuisances(known, clip=0.1).by_group(["a", "a", "b", "b"])
    assert found["a"].interval == (0, 1)
    low, high = found["b"].interval
    assert 0 <= low < 0.3
    assert high == 1


def test_propensities_that_cannot_be_right_give_no_interval():
    """Those to answer in place of those to abstain: an estimate of 1.5 had the interval (1, 1)."""
    rng = np.random.default_rng(0)
    propensity = rng.choice([0.1, 0.6], 1000)
    abstained = rng.random(1000) < propensity
    scores = (rng.random(1000) < 0.95).astype(float)
    given = Nuisances(abstained, scores, 1 - propensity, np.full(1000, 0.9))
    found = estimate_from_nuisances(given, estimator="ipw", clip=0.05)
    assert found.value > 1.2
    assert np.isnan(found.interval).all()
    right = replace(given, propensity=propensity)
    low, high = estimate_from_nuisances(right, estimator="ipw", clip=0.05).interval
    assert low < 0.95 < high <= 1
