"""Curves and areas against brute force, second libraries and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr
from sklearn.metrics import roc_auc_score

from lib import selective

some = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.booleans(), min_size=n, max_size=n),
        st.lists(st.integers(-4, 4).map(lambda i: i / 4), min_size=n, max_size=n),
    )
)


@settings(deadline=None)
@given(some)
def test_augrc_by_auroc_of_scikit_learn(case):
    correct, score = case
    a = np.mean(correct)
    auroc = roc_auc_score(correct, score) if 0 < a < 1 else 0.0
    expected = (1 - auroc) * a * (1 - a) + (1 - a) ** 2 / 2
    assert selective.augrc(correct, score) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(some, st.floats(0, 1), st.booleans())
def test_coverage_at_accuracy_is_the_last_that_reaches(case, target, randomized):
    correct, score = case
    found = selective.coverage_at_accuracy(correct, score, target, randomized=randomized)
    curve = selective.accuracy_coverage(correct, score)
    whole = {(np.asarray(score) >= s).mean() for s in score}  # by a threshold
    reached = [
        c
        for c, a in zip(curve.coverage, curve.accuracy, strict=True)
        if a >= target - 1e-12 and (randomized or c in whole)
    ]
    assert found == (max(reached) if reached else 0.0)


def test_the_bound_on_accuracy_by_hand():
    found = selective.accuracy_bound([0.6, 0.6, 1.0], [0.3, 0.8, 0.5])
    assert found == pytest.approx([1.0, 0.75, 1.0])
    assert selective.accuracy_coverage([1, 0, 1], [3, 2, 1]).full_accuracy == 2 / 3


def test_own_full_accuracy_is_always_reached():
    rng = np.random.default_rng(0)
    for n in range(1, 200):
        correct, score = rng.random(n) < 0.6, rng.random(n)
        assert selective.coverage_at_accuracy(correct, score, np.mean(correct)) == 1.0


@pytest.mark.parametrize("a", [0.1, 0.5, 0.8, 0.99])
def test_closed_forms_are_the_limits(a):
    n = 200_000
    right = round(a * n)
    correct = np.arange(n) < right
    order = np.arange(n)[::-1]
    assert selective.normalized_score(correct, order) == 0.0
    assert selective.selective_auc(correct, order) == pytest.approx(
        selective.bound_area(a), abs=2 / n * math.log(n)
    )
    worst = selective.normalized_score(correct, -order)
    assert worst == pytest.approx(selective.worst_order_score(a), abs=1e-4)
    random, _ = selective.normalized_score_extremes(right, n)
    assert random == pytest.approx(selective.random_order_score(a), abs=1e-4)
    assert selective.random_order_score(a) == pytest.approx(-a * math.log(a))
    assert selective.worst_order_score(a) == pytest.approx(entr(a) + entr(1 - a))


@pytest.mark.parametrize("a", [0.0, 1.0])
def test_nothing_to_rank(a):
    correct = [bool(a)] * 5
    assert selective.normalized_score(correct, [1, 2, 3, 4, 5]) == 0.0
    found = selective.risk_areas(~np.array(correct), [1, 2, 3, 4, 5])
    assert found["e_aurc"] == found["naurc"] == 0.0
    assert selective.accuracy_coverage(correct, [1, 2, 3, 4, 5]).accuracy.tolist() == [a] * 5
    assert selective.worst_order_score(a) == selective.random_order_score(a) == 0.0
    assert selective.coverage_at_accuracy(correct, [1] * 5, 0.5) == a


def test_infinite_scores_have_a_rank():
    curve = selective.accuracy_coverage([True, False, True], [-np.inf, 0.0, np.inf])
    assert curve.accuracy == pytest.approx([1, 1 / 2, 2 / 3])
    assert selective.accuracy_coverage([1, 0], [0.0, -0.0]).accuracy.tolist() == [0.5, 0.5]


def test_extremes_of_few_points_by_hand():
    extremes = selective.normalized_score_extremes
    assert extremes(0, 1) == extremes(1, 1) == extremes(2, 2) == (0.0, 0.0)
    # Best (1 + 1/2) / 2, random 1/2 at both coverages, worst (0 + 1/2) / 2.
    assert extremes(1, 2) == (0.25, 0.5)
    best = (1 + 1 + 2 / 3) / 3
    assert extremes(2, 3) == pytest.approx((best - 2 / 3, best - (0 + 1 / 2 + 2 / 3) / 3))


def test_a_target_that_rounding_misses_is_reached():
    # 3/10 as the share of three right among ten, against the float 0.1 + 0.2.
    correct, target = [True] * 3 + [False] * 7, 0.1 + 0.2
    assert target > 3 / 10
    assert selective.coverage_at_accuracy(correct, range(10, 0, -1), target) == 1.0
    assert selective.coverage_at_accuracy(correct, range(10, 0, -1), 0.3 + 1e-9) == 0.9


def test_whole_groups_or_random_parts_of_them():
    correct, score = [True, True, True, False], [2, 1, 1, 1]
    assert selective.coverage_at_accuracy(correct, score, 0.8) == 0.25
    assert selective.coverage_at_accuracy(correct, score, 0.8, randomized=True) == 0.5
    assert selective.coverage_at_accuracy(correct, score, 0.75) == 1.0
