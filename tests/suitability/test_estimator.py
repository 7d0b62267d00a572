import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib.suitability import CorrectnessEstimator, estimator


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
    ours = CorrectnessEstimator(seed=None).fit(x, correct).predict(x)
    tight = reference(solver="newton-cholesky", tol=1e-12, max_iter=10_000).fit(x, correct)
    np.testing.assert_allclose(ours, tight.predict_proba(x)[:, 1], atol=2e-6)


@pytest.mark.parametrize("name", ["plain", "imbalanced"])
def test_is_near_scikit_learn_with_the_settings_of_the_paper(name):
    x, correct = sample(name)
    ours = CorrectnessEstimator(seed=None).fit(x, correct).predict(x)
    theirs = reference(max_iter=1000).fit(x, correct).predict_proba(x)[:, 1]
    np.testing.assert_allclose(ours, theirs, atol=5e-3)


def test_large_sample_and_smallest_possible_one():
    x, correct = sample("plain", n=50_000)
    estimate = CorrectnessEstimator(seed=None).fit(x, correct).predict(x)
    assert abs(estimate.mean() - correct.mean()) < 1e-3
    small = np.repeat([True, False], 5)
    assert np.isfinite(
        CorrectnessEstimator(seed=None).fit(np.arange(10.0)[:, None], small).bias
    ).all()


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
    model = CorrectnessEstimator(seed=None).fit(x, correct)
    estimate = model.predict(x)
    assert ((estimate > 0) & (estimate < 1)).all()
    # Platt's first-order condition on each held-out fifth: residuals sum to zero.
    for k, (_, rows) in enumerate(StratifiedKFold(5).split(x, correct)):
        positive = correct[rows].sum()
        negative = len(rows) - positive
        high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
        eta = (x[rows] - model.center) @ model.weights[:, k] + model.bias[k]
        fitted = 1 / (1 + np.exp(-eta))
        residual = fitted - np.where(correct[rows], high, low)
        assert abs(residual.sum()) < 1e-9 * len(rows)


def test_platt_on_heavy_tails_reaches_its_optimum():
    """An outlier in one fold leaves the decision values of the others equal but for 1e-8."""
    for seed in range(150, 250):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(10, 60))
        x = rng.standard_cauchy((n, 1)) ** (3 + 2 * (seed % 2))
        correct = rng.permutation(np.arange(n) < rng.integers(5, n - 4))
        estimate = CorrectnessEstimator(seed=None).fit(x, correct).predict(x)
        assert np.isfinite(estimate).all()
        assert abs(estimate.mean() - correct.mean()) < 0.25


def test_newton_survives_a_bad_start():
    """The full step from here lands where the Hessian vanishes; half steps find the way back."""
    theta = estimator._newton(
        np.ones((10, 1)), np.full(10, 0.5), np.ones((1, 10)), np.zeros(1), np.array([[8.0]])
    )
    np.testing.assert_allclose(theta, 0.0, atol=1e-12)


def test_order_of_rows_matters_through_the_authors_split_alone():
    """Reordering within a class reorders the split; moving the classes about does not."""
    x, correct = sample("plain")
    order = np.argsort(correct != correct[0], kind="stable")  # one class, then the other
    a = CorrectnessEstimator(seed=None).fit(x, correct).predict(x)
    b = CorrectnessEstimator(seed=None).fit(x[order], correct[order]).predict(x)
    shuffled = np.random.default_rng(0).permutation(len(x))
    c = CorrectnessEstimator(seed=None).fit(x[shuffled], correct[shuffled]).predict(x)
    np.testing.assert_allclose(c, a, atol=0.03)
    assert np.abs(c - a).max() > 1e-6
    d = CorrectnessEstimator(seed=None).fit(x, correct).predict(x[shuffled])
    np.testing.assert_allclose(d, a[shuffled], rtol=1e-12)
    np.testing.assert_allclose(b, a, atol=1e-9)


def test_order_of_rows_does_not_matter():
    """Not even by classes: the rows are sorted and dealt out by the seed; nor do names' places."""
    x, correct = sample("plain")
    frame = pd.DataFrame(x, columns=list("cabd"))
    expected = CorrectnessEstimator().fit(x, correct).predict(x)
    rng = np.random.default_rng(0)
    orders = rng.permutation(600), np.argsort(correct), np.argsort(-x[:, 0]), np.arange(600)[::-1]
    for order in orders:
        found = CorrectnessEstimator().fit(x[order], correct[order]).predict(x)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        moved = frame.iloc[order][list("dcba")]
        found = CorrectnessEstimator().fit(moved, correct[order]).predict(frame)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        # Another scale, sign and place of each column.
        other = (x[order] * [1e-7, -1e7, 3.0, 1e-200] + [0.0, 1e9, -50.0, 0.0])[:, [2, 0, 3, 1]]
        found = CorrectnessEstimator().fit(other, correct[order]).predict(other)
        np.testing.assert_allclose(found, expected[order], atol=1e-6)
    another = CorrectnessEstimator(seed=1).fit(x, correct).predict(x)
    assert 1e-6 < np.abs(another - expected).max() < 0.03


def test_rows_that_are_equal_may_be_given_in_any_order():
    """Of few values, and in columns that are alike but for their order."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, (200, 3)).astype(float)
    correct = rng.random(200) < 0.3 + 0.4 * x[:, 0]
    expected = CorrectnessEstimator().fit(x, correct).predict(x)
    for _ in range(5):
        order = rng.permutation(200)
        found = CorrectnessEstimator().fit(x[order], correct[order]).predict(x)
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("rare", [5, 30])
def test_equals_scikit_learn_with_few_wrong_ones(rare):
    rng = np.random.default_rng(rare)
    x, correct = rng.normal(size=(505, 12)), np.arange(505) >= rare
    ours = CorrectnessEstimator(seed=None).fit(x, correct).predict(x)
    tight = reference(solver="newton-cholesky", tol=1e-12, max_iter=10_000).fit(x, correct)
    np.testing.assert_allclose(ours, tight.predict_proba(x)[:, 1], atol=1e-6)


def test_single_precision_numbers_and_frames_are_the_same_as_floats():
    x, correct = sample("plain")
    x = np.round(x, 2).astype(np.float32)
    a = CorrectnessEstimator(seed=None).fit(x, correct).predict(x)
    b = (
        CorrectnessEstimator(seed=None)
        .fit(x.astype(float), correct.astype(int))
        .predict(x.tolist())
    )
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_units_of_the_signals_do_not_matter():
    x, correct = sample("plain")
    a = CorrectnessEstimator(seed=None).fit(x, correct).predict(x)
    scaled = x * [10.0, 0.01, 3.0, 1.0] + [5.0, 0.0, -2.0, 100.0]
    b = CorrectnessEstimator(seed=None).fit(scaled, correct).predict(scaled)
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_estimates_are_calibrated_where_the_model_is_right():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40_000, 1))
    p = 1 / (1 + np.exp(-(1.5 * x[:, 0] + 0.5)))
    correct = rng.random(len(p)) < p
    estimate = CorrectnessEstimator(seed=None).fit(x[:20_000], correct[:20_000]).predict(x[20_000:])
    assert np.abs(estimate - p[20_000:]).max() < 0.03


@pytest.mark.parametrize(
    ("signals", "correct", "message"),
    [
        (np.zeros((20, 2)), np.arange(20) < 4, "at least 5 correct and 5 wrong.*got 4 and 16"),
        (np.zeros((20, 2)), np.arange(20) < 16, "got 16 and 4"),
        (np.arange(20.0)[:, None] * 1e300, np.arange(20) < 10, "signals must be small enough"),
    ],
)
def test_bad_input(signals, correct, message):
    with pytest.raises(ValueError, match=message):
        CorrectnessEstimator(seed=None).fit(signals, correct)


def test_wrong_number_of_columns():
    with pytest.raises(RuntimeError, match="must be fitted before it can predict"):
        CorrectnessEstimator().predict(np.zeros((2, 4)))
    model = CorrectnessEstimator(seed=None).fit(*sample("plain"))
    with pytest.raises(ValueError, match="4 columns, as at fit, got 3"):
        model.predict(np.zeros((2, 3)))
