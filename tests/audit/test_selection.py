"""Thresholds: counts by brute force, and how often bounds exceed a known epsilon."""

import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import (
    best_lower_bound,
    counts_at,
    epsilon_point,
    gaussian_fnr,
    held_out_lower_bound,
    roc_counts,
    roc_thresholds,
    true_best_epsilon,
    union_lower_bound,
)


def test_roc_counts_by_brute_force():
    rng = np.random.default_rng(0)
    scores, members = np.round(rng.normal(size=60), 1), rng.random(60) < 0.5
    found = roc_counts(scores, members)
    expected = []
    for threshold in (math.inf, *np.unique(scores)[::-1]):
        guess = scores >= threshold
        expected.append(
            [
                (guess & members).sum(),
                (guess & ~members).sum(),
                (~guess & ~members).sum(),
                (~guess & members).sum(),
            ]
        )
    assert found.tolist() == np.array(expected).tolist()


def test_equal_scores_give_the_two_trivial_thresholds():
    table = roc_counts([0.5] * 10, [True] * 4 + [False] * 6)
    assert table.tolist() == [[0, 0, 6, 4], [4, 6, 0, 0]]
    assert best_lower_bound(table, 1e-5, method="clopper-pearson") == (0, 0.0)
    # P3's posterior finds some epsilon even for an attack that never looks: see its Figure 1.
    assert best_lower_bound(table, 1e-5)[1] > 0


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-5, 0.01])
def test_epsilon_of_the_gaussian_mechanism_is_the_best_over_its_trade_off_curve(mu, delta):
    fpr = stats.norm.cdf(np.linspace(-12, 12, 200_001))
    fnr = gaussian_fnr(fpr, mu)
    assert epsilon_point(fpr, fnr, delta).max() == pytest.approx(
        true_best_epsilon(mu, delta), abs=1e-6
    )


def test_no_privacy_is_needed_where_delta_covers_everything():
    assert true_best_epsilon(0.1, 0.5) == 0.0


def exceedances(bound, truth, repetitions, mu, n, seed):
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(repetitions):
        members = rng.permutation(np.arange(n) % 2 == 0)
        scores = rng.normal(size=n) + mu * members
        count += bound(scores, members, rng) > truth
    return count


@pytest.mark.slow
def test_choosing_the_best_threshold_breaks_the_level_and_both_corrections_keep_it():
    """The Gaussian mechanism, whose best attack thresholds its output."""
    mu, delta, level, n, repetitions = 0.3, 0.01, 0.9, 100, 120
    truth = true_best_epsilon(mu, delta)
    allowed = stats.binom.ppf(0.999, repetitions, 1 - level)
    cp = "clopper-pearson"

    def swept_bound(scores, members, _):
        return best_lower_bound(roc_counts(scores, members), delta, level)[1]

    def union_bound(scores, members, _):
        return union_lower_bound(roc_counts(scores, members), delta, level, cp)[1]

    def held_out_bound(scores, members, rng):
        return held_out_lower_bound(scores, members, delta, level, cp, seed=rng)[1]

    swept, union, held = (
        exceedances(bound, truth, repetitions, mu, n, 1)
        for bound in (swept_bound, union_bound, held_out_bound)
    )
    assert swept > allowed
    assert union <= allowed
    assert held <= allowed


def test_held_out_bound_is_that_of_the_other_half():
    rng = np.random.default_rng(3)
    members = np.arange(80) % 2 == 0
    scores = rng.normal(size=80) + 2 * members
    threshold, bound = held_out_lower_bound(scores, members, 1e-5, seed=5)
    assert threshold in scores
    assert bound >= 0
    assert held_out_lower_bound(scores, members, 1e-5, seed=5) == (threshold, bound)


@pytest.mark.parametrize(
    ("scores", "members", "message"),
    [
        ([], [], "scores must be real numbers of shape"),
        ([[1.0]], [[True]], "scores must be real numbers of shape"),
        (["a"], [True], "scores must be real numbers"),
        ([1.0, math.nan], [True, False], "scores must not be NaN, got 1 NaN, the first in row 1"),
        ([1.0, 2.0], [True], r"members must have one entry per score \(2\)"),
        ([1.0, 2.0], [0, 2], "members must be booleans"),
        ([1.0, 2.0], [0.0, 1.0], "members must be booleans"),
        ([1.0, 2.0], [True, True], "members must hold both kinds of trials, got only True"),
    ],
)
def test_bad_attacks(scores, members, message):
    with pytest.raises(ValueError, match=message):
        roc_counts(scores, members)
    with pytest.raises(ValueError, match=message):
        held_out_lower_bound(scores, members, 0.1, seed=0)


def test_bad_division():
    with pytest.raises(ValueError, match=r"share must be in \(0, 1\), got 1.0"):
        held_out_lower_bound([1, 2, 3, 4], [1, 0, 1, 0], 0.1, share=1.0, seed=0)
    with pytest.raises(ValueError, match="trials of both kinds to both parts"):
        held_out_lower_bound([1, 2, 3], [1, 0, 1], 0.1, seed=0)


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


def test_counts_at_every_threshold_are_the_rows_of_the_roc():
    rng = np.random.default_rng(0)
    scores, members = np.round(rng.normal(size=60), 1), rng.random(60) < 0.5
    scores[:6] = [np.inf, -np.inf, np.inf, -np.inf, np.inf, 0.0]
    thresholds = roc_thresholds(scores)
    assert thresholds[0] == math.inf > thresholds[1]
    rows = [counts_at(scores, members, t).tolist() for t in thresholds]
    assert rows == roc_counts(scores, members).tolist()
    assert counts_at([1.0, 2.0], [True, True], 1.5).tolist() == [1, 0, 0, 1]
