"""Influence functions against sums over all pairs and all coverages."""

import math

import numpy as np
import pytest

from lib import selective


def cases():
    rng = np.random.default_rng(0)
    yield np.array([True, False]), np.array([1.0, 2.0])
    yield np.array([True, False, True]), np.zeros(3)
    for n, values in ((7, 100), (30, 5), (41, 2), (60, 1000)):
        correct = rng.random(n) < 0.7
        correct[:2] = True, False
        yield correct, rng.integers(0, values, n).astype(float)


@pytest.mark.parametrize(("correct", "score"), list(cases()))
def test_influence_on_augrc_is_the_derivative_of_a_double_sum(correct, score):
    """n^2 AUGRC is the sum over wrong j and all i of [i after j], a tie (and j itself) being 1/2.

    A double sum of a kernel h has the influence function mean h(., p) + mean h(p, .) - 2 AUGRC.
    """
    n = len(correct)
    kernel = np.array(
        [
            [
                (not correct[j]) * ((score[i] < score[j]) + (score[i] == score[j]) / 2)
                for i in range(n)
            ]
            for j in range(n)
        ]
    )
    assert selective.augrc(correct, score) == pytest.approx(kernel.mean(), abs=1e-14)
    expected = kernel.mean(0) + kernel.mean(1) - 2 * kernel.mean()
    found = selective.influence(correct, score, "augrc")
    assert found == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize(("correct", "score"), list(cases()))
def test_influence_on_the_area_point_by_point(correct, score):
    """r(u) + int_u^1 (y - r(c)) / c dc as a sum over the grid, averaged over places in a tie."""
    n, curve = len(correct), selective.accuracy_coverage(correct, score).accuracy
    places = [(np.flatnonzero(np.sort(-score) == -s) + 1).tolist() for s in score]
    expected = []
    for y, ranks in zip(correct, places, strict=True):
        values = [
            curve[i - 1] + sum((y - curve[j - 1]) / j for j in range(i, n + 1)) for i in ranks
        ]
        expected.append(sum(values) / len(values))
    expected = np.array(expected) - np.mean(expected)
    area = selective.influence(correct, score, "selective_auc")
    assert area == pytest.approx(expected, abs=1e-12)
    assert selective.influence(correct, score, "aurc") == pytest.approx(-area, abs=1e-15)
    a = correct.mean()
    bound = -math.log(a) * (correct - a)
    assert selective.influence(correct, score) == pytest.approx(bound - area, abs=1e-12)


def test_influence_is_nothing_where_nothing_can_vary():
    for right in (True, False):
        values = selective.influence([right] * 4, [1, 2, 3, 4], "normalized_score")
        assert values.tolist() == [0.0] * 4
    # One error among a thousand is not nothing.
    assert selective.influence([True] * 999 + [False], range(1000)).any()
