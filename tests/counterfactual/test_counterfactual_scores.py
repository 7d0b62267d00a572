"""Scoring rules against brute force and their propriety; mechanisms against their probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.counterfactual.scores import CONFIDENCE_MEASURES, SCORING_RULES, abstain, confidence, score

THREE = [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1], [0.4, 0.4, 0.2], [0.0, 1.0, 0.0]]


def simplex(rng, n, classes):
    return rng.dirichlet(np.ones(classes), n)


def by_hand(rule, p, y):
    """One point, in the words of the docstring."""
    if rule == "zero-one":
        best = 0
        for c in range(len(p)):
            best = c if p[c] > p[best] else best
        return float(best == y)
    if rule == "brier":
        return 1 - sum((p[c] - (c == y)) ** 2 for c in range(len(p))) / 2
    return math.log(p[y])


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from(SCORING_RULES))
def test_scores_by_hand(seed, classes, rule):
    rng = np.random.default_rng(seed)
    p, y = simplex(rng, 7, classes), rng.integers(classes, size=7)
    assert np.allclose(score(rule, p, y), [by_hand(rule, p[i], y[i]) for i in range(7)])


@pytest.mark.parametrize(
    ("rule", "labels", "expected"),
    [
        ("zero-one", [2, 0, 0, 1], [1, 1, 1, 1]),
        ("zero-one", [0, 1, 1, 0], [0, 0, 0, 0]),  # of a tie the smaller class counts
        ("brier", [2, 1, 0, 1], [0.81, 0.43, 0.72, 1.0]),
        ("brier", [0, 0, 2, 2], [0.51, 0.93, 0.52, 0.0]),
        ("log", [2, 0, 1, 1], np.log([0.5, 0.7, 0.4, 1.0])),
    ],
)
def test_known_scores(rule, labels, expected):
    assert np.allclose(score(rule, THREE, labels), expected)


def test_two_classes():
    p = np.array([0.0, 0.3, 0.5, np.nextafter(0.5, 1), np.nextafter(0.5, 0), 0.9, 1.0])
    ones = np.ones(7, int)
    assert score("zero-one", p, ones).tolist() == [0, 0, 0, 1, 0, 1, 1]
    assert score("zero-one", p, 0 * ones).tolist() == [1, 1, 1, 0, 1, 0, 0]
    assert np.allclose(score("brier", p, ones), 1 - (p - 1) ** 2)
    assert np.allclose(score("brier", p, ones == 0), 1 - p**2)  # booleans are labels too
    columns = np.column_stack([1 - p, p])
    for rule in SCORING_RULES:
        y = (p >= 0.5).astype(int)
        assert np.array_equal(score(rule, p, y), score(rule, columns, y))
    single = np.array([0.1, 0.7], dtype=np.float32)
    assert np.allclose(score("brier", single, [0, 1]), [0.99, 0.91])


@pytest.mark.parametrize("rule", SCORING_RULES)
def test_larger_is_better_and_the_truth_is_best(rule):
    """A surer right answer scores at least as much; to report the true probabilities pays most."""
    rising = score(rule, np.linspace(0.01, 0.99, 99), np.ones(99, int))
    assert (np.diff(rising) >= 0).all()
    assert rising[-1] > rising[0]
    if rule != "zero-one":
        assert (np.diff(rising) > 0).all()
    rng = np.random.default_rng(0)
    truth, reports = np.array([0.2, 0.5, 0.3]), simplex(rng, 500, 3)

    def expected(p):
        return sum(truth[y] * score(rule, p, np.full(len(p), y)) for y in range(3))

    best = expected(truth[None])[0]
    assert (expected(reports) <= best + 1e-12).all()
    if rule != "zero-one":
        assert (expected(reports) < best).all()


def test_confidence():
    assert np.allclose(confidence(THREE), [0.5, 0.7, 0.4, 1.0])
    assert np.allclose(confidence(THREE, "gini"), [0.38, 0.54, 0.36, 1.0])
    assert np.allclose(confidence([0.2, 0.5]), [0.8, 0.5])
    assert np.allclose(confidence([0.2, 0.5], "gini"), [0.68, 0.5])


def test_gini_is_never_surer():
    """sum p^2 <= max p, with equality at the vertices and the centre: P4's scenario II."""
    p = simplex(np.random.default_rng(2), 1000, 5)
    assert (confidence(p, "gini") < confidence(p)).all()
    assert np.allclose(confidence(np.full((1, 5), 0.2), "gini"), 0.2)


def test_sums_may_be_off_by_a_thousandth_and_no_more():
    for off in (9e-4, -9e-4):
        assert score("brier", [[0.5, 0.5 + off]], [0]) == pytest.approx(0.75, abs=1e-3)
    for bad in ([0.5, 0.5011], [0.5, 0.4989], [1.002, 0.0], [1.0, -1e-9]):
        with pytest.raises(ValueError, match="probabilities"):
            score("brier", [bad], [0])
    over = [[1 + 9e-7, 0.0]]  # by as much a probability may exceed 1: scores stay in their ranges
    assert 1 - 1e-11 < score("brier", over, [0])[0] <= 1
    assert score("brier", over, [1]).tolist() == score("log", over, [0]).tolist() == [0.0]
    assert confidence(over).tolist() == confidence(over, "gini").tolist() == [1.0]


def test_a_floor_bounds_the_log_score_and_no_other():
    p, y = [[1.0, 0.0], [0.95, 0.05], [0.5, 0.5]], [1, 1, 1]
    with pytest.raises(ValueError, match="probabilities"):
        score("log", p, y)
    assert score("log", p, y, floor=0.1) == pytest.approx(np.log([0.1, 0.1, 0.5]))
    assert score("log", p[:1], [0]).tolist() == [0.0]  # 0 is not at the label: no harm
    for rule in ("zero-one", "brier"):
        assert score(rule, p, y, floor=0.1).tolist() == score(rule, p, y).tolist()


@pytest.mark.parametrize("measure", CONFIDENCE_MEASURES)
@pytest.mark.parametrize("bounds", [(0.2, 0.8), (0.6, 0.9), (0, 1), (0.6, 0.6)])
def test_abstention_at_random_by_hand(measure, bounds):
    p = np.linspace(0.5, 1.0, 200)
    abstained, propensity = abstain(p, measure, bounds=bounds, rng=7)
    expected = 1 - np.clip(confidence(p, measure), *bounds)
    assert propensity == pytest.approx(expected)
    assert abstained.tolist() == (np.random.default_rng(7).random(200) < expected).tolist()
    if bounds == (0.2, 0.8):
        assert abstain(p, measure, rng=7)[1].tolist() == propensity.tolist()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_threshold_is_met_up_to_rounding(kind):
    """Tenths in every precision, and by ways that differ in the last bits."""
    k = np.arange(5, 11)
    for p in (k / 10, 1 - (10 - k) / 10, np.cumsum(np.full(10, 0.1))[k - 1].clip(0, 1)):
        table = p.astype(kind)
        for same in (table, table.astype(float)):
            for j in range(1, 11):
                abstained, propensity = abstain(same, threshold=j / 10)
                assert abstained.tolist() == propensity.tolist() == (k < j).tolist()
    assert abstain([[0.7, 0.3]], threshold=0.7 + 1e-6)[0].all()
    for beyond in (-0.1, 1.1):
        with pytest.raises(ValueError, match="threshold"):
            abstain([[0.7, 0.3]], threshold=beyond)
