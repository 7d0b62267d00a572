"""Acceptance scores against their formulas, written out point by point."""

import math

import numpy as np
import pytest
from scipy import stats

from lib import selective


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(0, 2, (50, 6))


@pytest.fixture
def p(logits):
    e = np.exp(logits)
    return e / e.sum(1, keepdims=True)


def test_scores_of_one_model(logits, p):
    for i, row in enumerate(p):
        top = sorted(row)
        assert selective.softmax_response(p)[i] == top[-1]
        assert selective.margin(p)[i] == pytest.approx(top[-1] - top[-2])
        assert selective.entropy(p)[i] == pytest.approx(-stats.entropy(row))
        assert selective.energy(logits)[i] == pytest.approx(math.log(np.exp(logits[i]).sum()))


def test_all_scores_prefer_a_sure_point():
    sure, unsure = [0.97, 0.01, 0.01, 0.01], [0.4, 0.3, 0.2, 0.1]
    p = np.array([sure, unsure])
    for score in (selective.softmax_response, selective.entropy, selective.margin):
        assert score(p)[0] > score(p)[1]
    assert selective.energy([[9.0, 0, 0], [1.0, 0, 0]])[0] > 2
    assert selective.conformal_set_size(p)[0] > selective.conformal_set_size(p)[1]
    assert np.diff(selective.mc_dropout([p, p]))[0] < 0
    assert np.diff(selective.self_adaptive_training([[0.9, 0, 0.1], [0.4, 0, 0.6]]))[0] < 0
    assert np.diff(selective.deep_gamblers([[0.9, 0, 0.1], [0.4, 0, 0.6]]))[0] < 0
    assert selective.selective_net([2.0, -1.0]).tolist() == [2.0, -1.0]


def test_ensembles_average_probabilities_first(p):
    members = np.stack([p, p[:, ::-1], np.roll(p, 1, axis=1)])
    expected = [max(np.mean([m[i, c] for m in members]) for c in range(6)) for i in range(50)]
    assert selective.deep_ensemble(members) == pytest.approx(expected)
    assert selective.mc_dropout(members) == pytest.approx(expected)


@pytest.mark.parametrize("form", ["equation", "algorithm"])
@pytest.mark.parametrize("k", [0.5, 1, 3, 10])
def test_sctd_point_by_point(form, k):
    labels = np.random.default_rng(1).integers(0, 3, (20, 40))
    expected = []
    for column in labels.T:
        total = 0.0
        for t, label in enumerate(column, 1):
            if label != column[-1]:
                share = (t / 20) ** k
                total += share if form == "equation" else 1 / (1 - share)
        expected.append(-total)
    assert selective.sctd(labels, k, form) == pytest.approx(expected)


def test_sctd_equal_histories_tie_exactly():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, (37, 20))
    many = np.tile(labels, (1, 501))[:, rng.permutation(20 * 501)]
    assert len(np.unique(selective.sctd(many))) == len(np.unique(selective.sctd(labels)))


def test_sctd_of_equal_weights_ties_exactly():
    """15 + 16 + 17 = 11 + 18 + 19, and 11^3 + 13^3 + 16^3 = 4^3 + 12^3 + 18^3."""
    for k, sets in ((1, ((15, 16, 17), (11, 18, 19))), (3, ((11, 13, 16), (4, 12, 18)))):
        labels = np.zeros((20, 2), dtype=int)
        for column, places in enumerate(sets):
            labels[np.array(places) - 1, column] = 1
        a, b = selective.sctd(labels, k)
        assert a == b < 0


def test_scores_do_not_depend_on_the_order_of_classes_or_members(p):
    other = p[:, np.random.default_rng(6).permutation(6)]
    for score in (selective.entropy, selective.margin, selective.energy):
        assert (score(p) == score(other)).all()
    members = np.stack([p, p[::-1], np.roll(p, 1, axis=0)])
    assert (selective.deep_ensemble(members) == selective.deep_ensemble(members[[2, 0, 1]])).all()


def test_sctd_edges():
    assert selective.sctd([[3, 1]]).tolist() == [0.0, 0.0]
    assert selective.sctd([[1], [1], [1]]).tolist() == [0.0]
    assert selective.sctd([[0], [1]], k=0).tolist() == [-1.0]
    assert not np.signbit(selective.sctd([[1], [1]])).any()


def test_the_two_forms_can_rank_differently():
    # Two disagreements at the start, or one in the middle.
    early, middle = [1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0]
    labels = np.array([early, middle]).T
    a, b = selective.sctd(labels, 3, "equation")
    assert a > b
    a, b = selective.sctd(labels, 3, "algorithm")
    assert a < b


def test_ties_broken_by_keeps_the_first_order():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 4, 300), rng.random(300)
    found = selective.ties_broken_by(first, second)
    for i in range(0, 300, 7):
        for j in range(300):
            expected = (first[i], second[i]) > (first[j], second[j])
            assert (found[i] > found[j]) == expected
    assert len(np.unique(found)) == 300
    assert selective.ties_broken_by([1, 1, 0], [2, 2, 9]).tolist() == [1, 1, 0]
