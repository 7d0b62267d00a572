"""Thresholds: counts by brute force, and how often bounds exceed a known epsilon."""

import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import (
    best_lower_bound,
    counts_at,
    epsilon_lower_bounds,
    epsilon_point,
    gaussian_fnr,
    held_out_lower_bound,
    roc_counts,
    roc_thresholds,
    true_best_epsilon,
    union_lower_bound,
)
from lib.audit.selection import chosen_threshold, union_events

_TENTHS = np.random.default_rng(7).integers(0, 11, 300)
_SAME = {
    "k / 10": _TENTHS / 10,
    "0.1 k": 0.1 * _TENTHS,
    "1 - (10 - k) / 10": 1 - (10 - _TENTHS) / 10,
    "float32": (_TENTHS / 10).astype(np.float32),
    "mixed": np.where(np.arange(300) % 2, 0.1 * _TENTHS, 1 - (10 - _TENTHS) / 10),
}


@pytest.mark.parametrize("name", _SAME)
def test_scores_that_differ_by_rounding_are_equal(name):
    """One row for each k, however k / 10 was computed; so say single and held-out thresholds."""
    scores, members = _SAME[name], np.random.default_rng(8).random(300) < _TENTHS / 10
    expected = [
        [np.sum(chosen & members), np.sum(chosen & ~members)]
        for chosen in (k <= _TENTHS for k in range(11, -1, -1))
    ]
    table, thresholds = roc_counts(scores, members), roc_thresholds(scores)
    assert table[:, :2].tolist() == np.array(expected).tolist()
    for row, threshold, k in zip(table, thresholds, range(11, -1, -1), strict=True):
        assert counts_at(scores, members, threshold).tolist() == row.tolist()
        for same in (k / 10, 0.1 * k, 1 - (10 - k) / 10):
            assert counts_at(scores, members, same).tolist() == row.tolist()
    bound = held_out_lower_bound(scores, members, 1e-5, seed=0)[1]
    assert bound == held_out_lower_bound(_TENTHS, members, 1e-5, seed=0)[1] > 0


def test_thresholds_of_scores_too_dense_to_round_are_their_own():
    scores = np.float32(1) - np.arange(12, dtype=np.float32) * np.float32(2**-24)
    members = np.arange(12) % 3 < 2
    table = roc_counts(scores, members)
    assert len(table) == 13
    found = [counts_at(scores, members, t).tolist() for t in roc_thresholds(scores)]
    assert found == table.tolist()


def test_the_chosen_threshold_is_finite_where_all_bounds_are_cut_off():
    """Weak attacks, for which no threshold has a positive bound: the best difference of rates."""
    for seed in range(20):
        rng = np.random.default_rng([seed, 3])
        members = np.arange(60) % 2 == 0
        scores = rng.normal(size=60) + 0.2 * members
        table = roc_counts(scores, members)
        for method in ("clopper-pearson", "jeffreys"):
            assert best_lower_bound(table, 1e-5, 0.999, method)[1] == 0
        threshold = chosen_threshold(scores, members, 1e-5, 0.999)
        places = np.sort(scores)[::-1]
        apart = [abs(np.sum(members[scores >= t]) - np.sum(~members[scores >= t])) for t in places]
        assert threshold == places[np.argmax(apart)]
        assert held_out_lower_bound(scores, members, 1e-5, 0.999, seed=0)[0] < math.inf
    # Nothing tells them apart: no threshold.
    assert chosen_threshold([1.0] * 6, [True, False] * 3, 1e-5) == math.inf


def test_as_many_trials_as_are_said():
    """With many trials rare scores count; with few the common ones do."""
    rng = np.random.default_rng(0)
    members = np.arange(4000) % 2 == 0
    scores = rng.normal(size=4000) + members
    few, many = (chosen_threshold(scores, members, 1e-5, trials=n) for n in (60, 10**6))
    assert 0 < few < many < math.inf
    assert chosen_threshold(scores, members, 1e-5, trials=4000) == chosen_threshold(
        scores, members, 1e-5
    )


def test_the_union_bound_spends_its_error_and_no_more():
    """No other bound of this form holds at half of the error: each side's limits fail in 5%."""
    n, level, repetitions = 40, 0.9, 20_000
    # The sup of the true FPR over thresholds with k false positives is an order statistic.
    rng = np.random.default_rng(0)
    rates = np.sort(rng.random((repetitions, n // 2)), axis=1)
    k = np.arange(n // 2)
    fails = (rates > stats.beta.isf((1 - level) / n, k + 1, n // 2 - k)).any(axis=1).mean()
    # Two sides: at most 1 - level together; and not so much less that half would do.
    error = math.sqrt(0.05 * 0.95 / repetitions)
    assert fails <= (1 - level) / 2
    assert fails > 0.4 * (1 - level) / 2 + 3 * error
    table = roc_counts(np.r_[np.arange(20) + 20, np.arange(20)], np.arange(40) < 20)
    expected = epsilon_lower_bounds([[20, 0, 20, 0]], 0.01, 1 - 2 * 0.1 / 40, "clopper-pearson")
    assert union_lower_bound(table, 0.01, level)[1] == pytest.approx(expected[0], abs=1e-12)
    assert union_lower_bound(table[:, [1, 0, 3, 2]], 0.01, level) == (0, 0.0)  # worse than chance


def test_limits_at_tied_scores_fail_no_more_often_than_the_union_bound_pays_for():
    """Seven in ten scores are equal; how many differ is random, and is not what is paid for."""
    n, level, repetitions, p = 40, 0.9, 400, 0.3
    rng, failed = np.random.default_rng(4), np.zeros(2, int)
    members = np.arange(2 * n) < n
    for _ in range(repetitions):
        scores = np.where(rng.random(2 * n) < p, rng.random(2 * n), 0.0)
        table = roc_counts(scores, members)[1:]  # the first is "member" nowhere
        t = np.unique(scores)[::-1]
        fpr = np.where(t > 0, p * (1 - t), 1.0)
        for which, a in enumerate(((1 - level) / union_events(table), 1 - level)):
            upper = [
                np.where(k < n, stats.beta.isf(a, k + 1, np.maximum(n - k, 1)), 1.0)
                for k in (table[:, 1], table[:, 3])
            ]
            failed[which] += ((fpr > upper[0]) | (1 - fpr > upper[1])).any()
    most = stats.binom.ppf(0.999, repetitions, 1 - level)
    assert failed[0] <= most < failed[1]
    row = int(np.argmax(table[:, 0] - table[:, 1]))
    counts = table[[row, row]]
    for fixed, events in ((False, 2 * n), (True, 4)):
        expected = epsilon_lower_bounds(counts, 0.0, 1 - 2 * 0.1 / events, "clopper-pearson")
        assert union_lower_bound(counts, 0.0, level, fixed=fixed)[1] == pytest.approx(expected[0])


def test_never_guessing_does_not_guess_infinite_scores():
    """The choosing half knows nothing; in the other one infinite scores would give all away."""
    members = np.arange(80) % 2 == 0
    # The documented division: of each kind the first half of a permutation chooses.
    rng = np.random.default_rng(1)
    scores = np.zeros(80)
    scores[rng.permutation(np.flatnonzero(members))[20:]] = np.inf
    found = held_out_lower_bound(scores, members, 1e-5, method="clopper-pearson", seed=1)
    assert found == (math.inf, 0.0)
    # With another division the choosing half sees infinite scores, and the bound is positive.
    threshold, bound = held_out_lower_bound(scores, members, 1e-5, method="clopper-pearson", seed=2)
    assert threshold < math.inf
    assert bound > 0


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 7.0, 300.0, 1e5, 1e9, 1e150])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.3])
def test_epsilon_of_a_gaussian_mechanism_by_its_equation(mu, delta):
    """In logarithms, for every size of mu; beyond the largest float it is infinite."""
    epsilon = true_best_epsilon(mu, delta)
    a = mu / 2 - epsilon / mu
    if epsilon == 0:
        assert 2 * stats.norm.cdf(mu / 2) - 1 <= delta
    elif mu <= 300:
        second = math.exp(epsilon + stats.norm.logcdf(-epsilon / mu - mu / 2))
        left = stats.norm.cdf(a) - second
        assert left == pytest.approx(delta, rel=1e-6)
    else:
        assert epsilon == pytest.approx(mu * (mu / 2 - stats.norm.ppf(delta)), rel=1e-9)
    assert true_best_epsilon(1e200, delta) == math.inf


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-5, 0.01])
def test_epsilon_of_the_gaussian_mechanism_is_the_best_over_its_trade_off_curve(mu, delta):
    fpr = stats.norm.cdf(np.linspace(-12, 12, 200_001))
    fnr = gaussian_fnr(fpr, mu)
    assert epsilon_point(fpr, fnr, delta).max() == pytest.approx(
        true_best_epsilon(mu, delta), abs=1e-6
    )


@pytest.mark.parametrize("method", ["bayesian", "clopper-pearson"])
def test_the_held_out_bound_is_that_of_the_other_part(method):
    """Of each kind the first part of a permutation chooses; members are divided first."""
    rng = np.random.default_rng(3)
    members = np.arange(90) % 3 > 0
    scores = rng.normal(size=90) + 2 * members
    rng = np.random.default_rng(5)
    parts = [rng.permutation(np.flatnonzero(members == kind)) for kind in (True, False)]
    cut = [part[: round(0.4 * len(part))] for part in parts]
    rest = np.concatenate([part[round(0.4 * len(part)) :] for part in parts])
    first = np.concatenate(cut)
    threshold = chosen_threshold(scores[first], members[first], 1e-5, 0.95, method)
    counts = counts_at(scores[rest], members[rest], threshold)
    bound = epsilon_lower_bounds([counts], 1e-5, 0.95, method)[0]
    found = held_out_lower_bound(scores, members, 1e-5, 0.95, method, share=0.4, seed=5)
    assert found == (threshold, pytest.approx(bound))
    assert bound > 0
