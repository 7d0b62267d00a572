"""Diagnostics by hand, where warnings begin, and calibration against scikit-learn."""

import math

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression

from lib.counterfactual.diagnostics import diagnose


def of(r, pi, clip=0.01):
    return diagnose(r, np.zeros(len(r)), pi, np.zeros(len(r)), clip)


def test_diagnostics_of_six_points_by_hand():
    r = np.array([True, True, False, False, False, False])
    s = np.array([0.0, 0.0, 1.0, 2.0, 3.0, 6.0])
    pi = np.array([0.8, 0.5, 0.5, 0.2, 0.75, 0.0])
    mu = np.array([9.0, 9.0, 1.0, 1.0, 4.0, 4.0])
    found = diagnose(r, s, pi, mu, 0.5)
    weights = np.array([2, 1.25, 2, 1])
    assert (found.n, found.answered, found.coverage) == (6, 4, 4 / 6)
    assert found.overlap == pytest.approx(0.2)
    assert found.effective_sample_size == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found.largest_weight == 2.0
    assert found.clipped == pytest.approx(2 / 6)
    residual = (0.04 + 0.25 + 0.25 + 0.04 + 0.5625) / 6
    assert found.explained == pytest.approx(1 - residual / (2 / 9))
    # Residuals 0, 1, -1, 2; variance of 1, 2, 3, 6 is 3.5.
    assert found.outcome_r2 == pytest.approx(1 - 1.5 / 3.5)
    assert found.outcome_bias == 0.5
    edges = found.propensity_edges
    assert edges == pytest.approx(np.linspace(0, 1, 21))
    for rows, counts in ((~r, found.propensity_answered), (r, found.propensity_abstained)):
        places = np.searchsorted(edges, pi[rows], "right") - 1
        assert counts.tolist() == np.bincount(places, minlength=20).tolist()
    # Fewer than ten points: each is a part of its own.
    assert found.calibration_error == pytest.approx(np.abs(r - pi).mean())
    assert found.positivity == ()
    assert len(found.notes) == 1
    beyond = of(np.array([True, False]), np.array([1.5, -0.5]), 0.1)  # count as the ends
    assert beyond.propensity_abstained.tolist() == [0] * 19 + [1]
    assert beyond.propensity_answered.tolist() == [1] + [0] * 19
    assert (beyond.largest_weight, beyond.overlap) == (1.0, -0.5)


def test_notes_and_where_they_begin():
    n = 100
    never = diagnose(np.zeros(n, bool), np.ones(n), np.zeros(n), np.ones(n), 0.1)
    assert len(never.notes) == 1
    assert (never.explained, never.coverage) == (0.0, 1.0)
    assert math.isnan(never.outcome_r2)
    r = np.arange(n) % 2 == 0
    for number, noted in ((2, False), (3, True)):  # of a hundred points that are clipped
        pi = np.full(n, 0.5)
        pi[:number] = 0.95
        assert bool(of(r, pi, 0.1).notes) == noted
    assert of(r, np.full(n, 0.75), 0.25).clipped == 0.0  # at the level itself


@pytest.mark.parametrize(
    ("n", "number", "answered", "level", "fails"),
    [
        (500, 100, 1, 0.97, True),
        (500, 100, 1, 0.95, True),
        (500, 100, 1, 0.9499, False),
        (500, 20, 0, 0.97, True),  # twenty points, and a fiftieth of all, are enough
        (500, 19, 0, 0.97, False),
        (2000, 40, 0, 0.97, True),
        (2000, 39, 0, 0.97, False),
        (500, 100, 2, 0.97, False),  # a fiftieth of them answered
    ],
)
def test_where_positivity_is_said_to_fail(n, number, answered, level, fails):
    r, pi = np.random.default_rng(0).random(n) < 0.5, np.full(n, 0.5)
    r[:number], pi[:number] = True, level
    r[:answered] = False
    assert bool(of(r, pi, 0.1).positivity) == fails


def test_abstention_that_inputs_explain_is_said_to_be_weak():
    """Above nine tenths: 1 - d^2 / 0.25 for propensities off by d."""
    r = np.arange(100) >= 50
    for off, warned in ((0.1, True), (0.1582, False), (0.1580, True)):
        assert bool(of(r, np.where(r, 1 - off, off), 0.05).positivity) == warned


def logistic(odds, r):
    model = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky", max_iter=10_000)
    model.fit(odds[:, None], r)
    return model.coef_[0, 0], model.intercept_[0]


@pytest.mark.parametrize(("slope", "intercept"), [(0.5, 1.0), (3.0, -2.0), (-1.0, 0.0), (6.0, 3.0)])
def test_calibration_is_a_logistic_regression_on_the_log_odds(slope, intercept):
    rng = np.random.default_rng(1)
    odds = rng.normal(size=400)
    r = rng.random(400) < special.expit(slope * odds + intercept)
    found = of(r, special.expit(odds))
    expected = logistic(odds, r)
    assert (found.calibration_slope, found.calibration_intercept) == pytest.approx(expected, 1e-6)


@pytest.mark.parametrize("kind", ["zeros and ones", "steep", "uninformative"])
def test_calibration_of_bad_propensities_is_found_too(kind):
    """A whole Newton step would lead back and forth, and end where it began: at "calibrated"."""
    rng = np.random.default_rng(3)
    r = np.arange(100) % 3 == 0
    pi = {
        "zeros and ones": np.arange(100) % 2.0,
        "steep": special.expit(12 * rng.standard_normal(100)),
        "uninformative": rng.random(100),
    }[kind]
    expected = logistic(special.logit(np.clip(pi, 1e-6, 1 - 1e-6)), r)
    found = of(r, pi)
    assert (found.calibration_slope, found.calibration_intercept) == pytest.approx(
        expected, abs=1e-4
    )


def test_calibration_far_from_the_middle_is_not_broken_off():
    """An intercept may be beyond any bound where the slope is not: propensities around 0.0067."""
    rng = np.random.default_rng(8)
    odds = -5 + 0.1 * rng.standard_normal(400)
    r = rng.random(400) < special.expit(30 * (odds + 5))
    found = of(r, special.expit(odds))
    slope, intercept = logistic(odds + 5, r)  # around the middle, where it converges well
    assert slope < 100 < intercept + 5 * slope
    assert (found.calibration_slope, found.calibration_intercept) == pytest.approx(
        (slope, intercept + 5 * slope), rel=1e-6
    )


def test_calibration_at_the_ends():
    r = np.arange(100) % 3 == 0
    for blind in (of(np.zeros(100, bool), np.linspace(0.1, 0.9, 100)), of(r, np.full(100, 0.3))):
        assert math.isnan(blind.calibration_slope)
        assert math.isnan(blind.calibration_intercept)
    rule = of(np.arange(100) >= 50, np.linspace(0.1, 0.9, 100))  # separated: beyond any use
    assert 50 < rule.calibration_slope < 110


def test_calibration_error_is_over_tenths():
    rng = np.random.default_rng(2)
    pi = rng.random(25)  # five parts of three and five of two
    r = rng.random(25) < pi
    parts = np.split(np.argsort(pi), np.cumsum([3] * 5 + [2] * 4))
    total = sum(len(part) * abs(r[part].mean() - pi[part].mean()) for part in parts)
    assert of(r, pi).calibration_error == pytest.approx(total / 25)
