"""Areas, curves, scores and their intervals: bounds, order, invariance, brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import check, levels, ordered, ranked, seeds

from lib import selective
from lib.selective.influences import METRICS

AREAS = {
    "selective_auc": selective.selective_auc,
    "aurc": selective.aurc,
    "e_aurc": selective.e_aurc,
    "normalized_score": selective.normalized_score,
    "augrc": selective.augrc,
}
# Smaller is better but for the first.
SIGN = {name: -1 if name == "selective_auc" else 1 for name in AREAS}
SLACK = 1e-13  # means of at most 60 numbers in [0, 1]


def arrangements(correct, score):
    """All orders, up to points of equal score and correctness, which are equally likely."""
    groups = []
    for value in sorted(set(score.tolist()), reverse=True):
        mine = correct[score == value]
        size, right = len(mine), int(mine.sum())
        places = itertools.combinations(range(size), right)
        groups.append([[i in chosen for i in range(size)] for chosen in places])
    for parts in itertools.product(*groups):
        yield [c for part in parts for c in part]


def by_brute_force(correct, score):
    """Every area, exactly, by its definition, averaged over all orders."""
    n, right = len(correct), int(correct.sum())
    curve, count = [Fraction(0)] * n, 0
    for order in arrangements(correct, score):
        count += 1
        for i in range(n):
            curve[i] += Fraction(sum(order[: i + 1]), i + 1)
    curve = [c / count for c in curve]
    area = sum(curve) / n
    best = sum(min(Fraction(1), Fraction(right, i)) for i in range(1, n + 1)) / n
    wrong = [Fraction(0)] + [(1 - c) * i / n for i, c in enumerate(curve, 1)]
    generalized = sum((a + b) / 2 for a, b in itertools.pairwise(wrong)) / n
    found = {
        "selective_auc": area,
        "aurc": 1 - area,
        "e_aurc": best - area,
        "normalized_score": best - area,
        "augrc": generalized,
    }
    return {name: float(value) for name, value in found.items()}, [float(c) for c in curve]


@check
@given(ranked(1, 8, 2))
def test_all_areas_equal_brute_force_with_ties(case):
    expected, curve = by_brute_force(*case)
    for name, area in AREAS.items():
        assert area(*case) == pytest.approx(expected[name], abs=SLACK), name
    assert selective.accuracy_coverage(*case).accuracy == pytest.approx(curve, abs=SLACK)
    for target in (0.0, 0.3, 0.5, 2 / 3, 0.9, 1.0):
        reached = [i + 1 for i, c in enumerate(curve) if c >= target - 1e-12]
        found = selective.coverage_at_accuracy(*case, target, randomized=True)
        assert found == (reached[-1] / len(curve) if reached else 0.0)


@check
@given(ranked())
def test_areas_are_within_their_bounds(case):
    correct, _ = case
    n, right = len(correct), int(correct.sum())
    random, worst = selective.normalized_score_extremes(right, n)
    assert random + SLACK >= 0
    assert random <= worst + SLACK <= 1 + SLACK
    assert 0 <= selective.selective_auc(*case) <= 1
    assert 0 <= selective.aurc(*case) <= 1
    assert 0 <= AREAS["e_aurc"](*case) <= worst + SLACK
    assert 0 <= selective.normalized_score(*case) <= worst + SLACK
    share = 1 - right / n
    # At best all wrong points come last, at worst first.
    assert share**2 / 2 - SLACK <= selective.augrc(*case) <= share - share**2 / 2 + SLACK
    curve = selective.accuracy_coverage(*case)
    assert ((curve.accuracy >= 0) & (curve.accuracy <= 1)).all()
    assert curve.full_accuracy == right / n
    bound = selective.accuracy_bound(right / n, curve.coverage)
    assert (curve.accuracy <= bound + SLACK).all()


@check
@given(ranked(2, 20), seeds)
def test_a_better_order_is_no_worse_and_a_mended_error_helps(case, seed):
    correct, score = case
    rng = np.random.default_rng(seed)
    right, wrong = np.flatnonzero(correct), np.flatnonzero(~correct)
    assume(len(right) and len(wrong))
    i, j = rng.choice(right), rng.choice(wrong)
    swapped = score.copy()
    swapped[i], swapped[j] = max(score[i], score[j]), min(score[i], score[j])
    mended = correct.copy()
    mended[j] = True
    for name, area in AREAS.items():
        before = SIGN[name] * area(correct, score)
        assert SIGN[name] * area(correct, swapped) <= before + SLACK, name
        if name in ("selective_auc", "aurc", "augrc"):  # the others are about the order alone
            assert SIGN[name] * area(mended, score) <= before + SLACK, name


@check
@given(ranked(30, 90), ordered(st.floats(0.05, 0.999)), ordered(st.floats(0.5, 0.99)), seeds)
def test_a_guaranteed_threshold_reaches_what_it_promises_where_it_was_found(
    case, targets, levels, seed
):
    correct, score = case
    for target, level in zip(targets, levels, strict=True):
        found = selective.guaranteed_threshold(correct, score, target, level)
        shuffle = np.random.default_rng(seed).permutation(len(score))
        assert selective.guaranteed_threshold(correct[shuffle], score[shuffle], target, level) == (
            found
        )
        if found.coverage is not None:
            assert found.accuracy >= target
            assert found.coverage == (score > found.threshold).mean()
            assert 0 <= found.coverage_low <= found.coverage <= 1
    right = selective.guaranteed_threshold(np.ones(90, bool), score[:1].repeat(90), 0.9)
    assert right.coverage == 1.0


@check
@given(ranked(5, 90), ordered(st.floats(0.05, 0.999)), st.floats(0.01, 10), seeds)
def test_a_private_threshold_is_one_of_the_candidates_whatever_the_order(
    case, targets, epsilon, seed
):
    correct, score = case
    grid = np.random.default_rng(seed).choice(np.append(score, -np.inf), 4)
    options = {"thresholds": grid, "epsilon": epsilon, "rng": seed}
    easy, hard = (selective.private_threshold(*case, t, **options).threshold for t in targets)
    assert easy in {*grid, None}
    assert (
        easy
        == selective.private_threshold(
            correct[::-1], score[::-1], targets[0], **options | {"thresholds": grid[::-1]}
        ).threshold
    )
    # The same noise: whoever promises more is stricter at every threshold.
    assert hard is None or (easy is not None and easy <= hard)


@check
@given(ranked(2, 40), st.sampled_from(sorted(METRICS)), ordered(levels), seeds)
def test_intervals_nest_hold_their_estimate_and_forget_the_order(case, metric, pair, seed):
    correct, score = case
    narrow, wide = (selective.estimate(*case, metric, level) for level in pair)
    assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high
    assert narrow.value == METRICS[metric](*case)
    influence = selective.influence(*case, metric)
    assert influence.mean() == pytest.approx(0, abs=1e-12)
    order = np.random.default_rng(seed).permutation(len(score))
    again = selective.influence(correct[order], score[order], metric)
    assert again == pytest.approx(influence[order], abs=1e-12)
    assert narrow.standard_error == pytest.approx(
        math.sqrt((influence**2).mean() / len(influence)), abs=1e-13
    )


@check
@given(ranked(8, 30), seeds, st.sampled_from(sorted(METRICS)))
def test_comparisons_are_antisymmetric(case, seed, metric):
    correct, score = case
    rng = np.random.default_rng(seed)
    other = rng.random(len(score)) < 0.6, rng.normal(size=len(score))
    one = selective.compare(correct, score, *other, metric)
    back = selective.compare(*other, correct, score, metric)
    assert (back.value, back.low, back.high) == pytest.approx((-one.value, -one.high, -one.low))
    assert back.standard_error == pytest.approx(one.standard_error)
    same = selective.compare(correct, score, correct, score, metric)
    assert (same.value, same.standard_error) == (0.0, 0.0)
    needed = [
        selective.points_needed(correct, score, *other, metric, difference=d, alpha=a, power=p)
        for d, a, p in ((0.1, 0.05, 0.8), (0.2, 0.05, 0.8), (0.1, 0.01, 0.8), (0.1, 0.05, 0.9))
    ]
    assert needed[1] == pytest.approx(needed[0] / 4)
    assert needed[0] <= min(needed[2], needed[3])
    assert selective.points_needed(correct, score, correct, score, metric) == math.inf
