import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib.suitability import CorrectnessEstimator


def reference(**options):
    base = LogisticRegression(**options)
    return make_pipeline(StandardScaler(), CalibratedClassifierCV(base, method="sigmoid", cv=5))


def sample(name, n=600):
    rng = np.random.default_rng(len(name))
    x = rng.normal(size=(n, 4))
    score = x @ [1.0, -0.5, 0.0, 0.3] + 0.4
    if name == "collinear":
        x = np.column_stack([x[:, 0], x[:, 0] + 1e-6 * x[:, 1], 2 * x[:, 0], x[:, 3]])
    elif name == "constant":
        x[:, 1] = 3.7
    elif name == "separable":
        score = 100 * x[:, 0]
    elif name == "imbalanced":
        score = score - 3.5
    elif name == "scales":
        x = x * [1e9, 1e-9, 1.0, 1e3] + [1e9, 0.0, -50.0, 0.0]
    elif name == "noise":
        score = np.zeros(n)
    correct = rng.random(n) < 1 / (1 + np.exp(-score))
    return x, correct


CASES = ["plain", "collinear", "constant", "separable", "imbalanced", "scales", "noise"]


@pytest.mark.parametrize("name", CASES)
def test_equals_scikit_learn_at_its_optimum(name):
    x, correct = sample(name)
    ours = CorrectnessEstimator().fit(x, correct).predict(x)
    tight = reference(solver="newton-cholesky", tol=1e-12, max_iter=10_000).fit(x, correct)
    np.testing.assert_allclose(ours, tight.predict_proba(x)[:, 1], atol=2e-6)


@pytest.mark.parametrize("name", ["plain", "imbalanced", "noise"])
def test_is_near_scikit_learn_with_the_settings_of_the_paper(name):
    x, correct = sample(name)
    ours = CorrectnessEstimator().fit(x, correct).predict(x)
    theirs = reference(max_iter=1000).fit(x, correct).predict_proba(x)[:, 1]
    np.testing.assert_allclose(ours, theirs, atol=5e-3)


def test_large_sample_and_smallest_possible_one():
    x, correct = sample("plain", n=200_000)
    estimate = CorrectnessEstimator().fit(x, correct).predict(x)
    assert abs(estimate.mean() - correct.mean()) < 1e-3
    small = np.repeat([True, False], 5)
    assert np.isfinite(CorrectnessEstimator().fit(np.arange(10.0)[:, None], small).bias).all()


@pytest.mark.parametrize(
    ("x", "correct"),
    [
        (np.arange(10.0)[:, None], np.arange(10) >= 5),
        (np.arange(10.0)[:, None], np.arange(10) % 2 == 0),
        (np.repeat([[0.0], [1.0]], [5, 5000], axis=0), np.arange(5005) < 5),
        (np.append(np.zeros(99), 1e8)[:, None], np.arange(100) % 2 == 0),
        (np.ones((100, 2)), np.arange(100) < 50),
        (np.random.default_rng(0).normal(size=(12, 50)), np.arange(12) % 2 == 0),
        (np.random.default_rng(0).normal(size=(60, 2)) * 1e150, np.arange(60) % 3 == 0),
        (np.random.default_rng(0).normal(size=(60, 2)) + 1e12, np.arange(60) % 3 == 0),
    ],
    ids=["separable", "alternating", "rare", "outlier", "constant", "wide", "huge", "offset"],
)
def test_hard_problems_converge_to_probabilities(x, correct):
    """The optimum, by its definition: no scikit-learn solver converges on all of these."""
    estimator = CorrectnessEstimator().fit(x, correct)
    estimate = estimator.predict(x)
    assert ((estimate > 0) & (estimate < 1)).all()
    # Platt's first-order condition on each held-out fifth: residuals sum to zero.
    for k, (_, rows) in enumerate(StratifiedKFold(5).split(x, correct)):
        positive = correct[rows].sum()
        negative = len(rows) - positive
        high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
        eta = (x[rows] - estimator.center) @ estimator.weights[:, k] + estimator.bias[k]
        fitted = 1 / (1 + np.exp(-eta))
        residual = fitted - np.where(correct[rows], high, low)
        assert abs(residual.sum()) < 1e-9 * len(rows)


def test_units_of_the_signals_do_not_matter():
    x, correct = sample("plain")
    a = CorrectnessEstimator().fit(x, correct).predict(x)
    scaled = x * [10.0, 0.01, 3.0, 1.0] + [5.0, 0.0, -2.0, 100.0]
    b = CorrectnessEstimator().fit(scaled, correct).predict(scaled)
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_estimates_are_calibrated_where_the_model_is_right():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40_000, 1))
    p = 1 / (1 + np.exp(-(1.5 * x[:, 0] + 0.5)))
    correct = rng.random(len(p)) < p
    estimate = CorrectnessEstimator().fit(x[:20_000], correct[:20_000]).predict(x[20_000:])
    assert np.abs(estimate - p[20_000:]).max() < 0.03


@pytest.mark.parametrize(
    ("signals", "correct", "message"),
    [
        (np.zeros((20, 2)), np.arange(20) < 4, "at least 5 correct and 5 wrong.*got 4 and 16"),
        (np.zeros((20, 2)), np.arange(20) < 16, "got 16 and 4"),
        (np.zeros((20, 2)), np.zeros(19, bool), r"correct must have shape \(20,\)"),
        (np.zeros((20, 2)), np.full(20, 0.5), "booleans or 0 and 1"),
        (np.zeros((20, 2)), np.array(["yes"] * 20), "booleans or 0 and 1"),
        (np.full((20, 2), np.nan), np.arange(20) < 10, "signals must be finite"),
        (np.zeros(20), np.arange(20) < 10, "signals must be real numbers"),
        (np.arange(20.0)[:, None] * 1e300, np.arange(20) < 10, "signals must be small enough"),
    ],
)
def test_bad_input(signals, correct, message):
    with pytest.raises(ValueError, match=message):
        CorrectnessEstimator().fit(signals, correct)


def test_wrong_number_of_columns():
    model = CorrectnessEstimator().fit(*sample("plain"))
    with pytest.raises(ValueError, match="4 columns, as at fit, got 3"):
        model.predict(np.zeros((2, 3)))
