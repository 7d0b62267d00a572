import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib.suitability import CorrectnessEstimator, estimator

TIGHT = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 10_000}


def estimate(x, correct, seed=None):
    """Estimates for the rows of the fit itself; without a seed the splits are scikit-learn's."""
    return CorrectnessEstimator(seed=seed).fit(x, correct).predict(x)


def by_scikit_learn(x, correct, **options):
    calibrated = CalibratedClassifierCV(LogisticRegression(**options), method="sigmoid", cv=5)
    return make_pipeline(StandardScaler(), calibrated).fit(x, correct).predict_proba(x)[:, 1]


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
    return x, rng.random(n) < 1 / (1 + np.exp(-score))


CASES = ["plain", "collinear", "constant", "separable", "imbalanced", "scales", "noise"]


@pytest.mark.parametrize("name", CASES)
def test_equals_scikit_learn_at_its_optimum(name):
    x, correct = sample(name)
    ours = estimate(x, correct)
    np.testing.assert_allclose(ours, by_scikit_learn(x, correct, **TIGHT), atol=2e-6)
    if name in ("plain", "imbalanced"):  # the settings of the paper stop early
        np.testing.assert_allclose(ours, by_scikit_learn(x, correct, max_iter=1000), atol=5e-3)


@pytest.mark.parametrize("rare", [5, 30])
def test_equals_scikit_learn_with_few_wrong_ones(rare):
    rng = np.random.default_rng(rare)
    x, correct = rng.normal(size=(505, 12)), np.arange(505) >= rare
    expected = by_scikit_learn(x, correct, **TIGHT)
    np.testing.assert_allclose(estimate(x, correct), expected, atol=1e-6)


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
        sample("plain", n=50_000),
    ],
)
def test_hard_problems_converge_to_probabilities(x, correct):
    """The optimum, by its definition: no scikit-learn solver converges on all of these."""
    model = CorrectnessEstimator(seed=None).fit(x, correct)
    found = model.predict(x)
    assert ((found > 0) & (found < 1)).all()
    # Platt's first-order condition on each held-out fifth: residuals sum to zero.
    for k, (_, rows) in enumerate(StratifiedKFold(5).split(x, correct)):
        positive = correct[rows].sum()
        negative = len(rows) - positive
        high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
        eta = (x[rows] - model.center) @ model.weights[:, k] + model.bias[k]
        residual = 1 / (1 + np.exp(-eta)) - np.where(correct[rows], high, low)
        assert abs(residual.sum()) < 1e-9 * len(rows)


def test_platt_on_heavy_tails_reaches_its_optimum():
    """An outlier in one fold leaves the decision values of the others equal but for 1e-8."""
    for seed in range(150, 250):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(10, 60))
        x = rng.standard_cauchy((n, 1)) ** (3 + 2 * (seed % 2))
        correct = rng.permutation(np.arange(n) < rng.integers(5, n - 4))
        found = estimate(x, correct)
        assert np.isfinite(found).all()
        assert abs(found.mean() - correct.mean()) < 0.25


@pytest.mark.parametrize(("signals", "batch"), [(1, None), (4, None), (4, 1), (12, None)])
def test_sets_side_by_side_are_fitted_as_each_alone(monkeypatch, signals, batch):
    """Though sets that differ much share their start, also where a batch holds some of them."""
    if batch is not None:
        monkeypatch.setattr(estimator, "_BATCH", batch)
    rng = np.random.default_rng(signals)
    x = rng.normal(size=(7, 300, signals)) * rng.uniform(0.1, 100, (7, 1, signals))
    x[3, :, 0] = 2.5  # constant in one of them
    score = (x / x.std(axis=1, keepdims=True).clip(min=1e-9))[:, :, -1] * np.linspace(-9, 9, 7)[
        :, None
    ]
    correct = score + rng.logistic(size=(7, 300)) > np.linspace(-2, 2, 7)[:, None]
    weights, bias, center = estimator.fit_each(x, correct)
    for i in range(7):
        alone = CorrectnessEstimator(seed=None).fit(x[i], correct[i])
        found = estimator.mean_sigmoid(x[i] - center[i], weights[i], bias[i])[0]
        np.testing.assert_allclose(found, alone.predict(x[i]), rtol=0, atol=1e-12)


def test_newton_survives_a_bad_start():
    """The full step from here lands where the Hessian vanishes; half steps find the way back."""
    theta = estimator._newton(
        np.ones((10, 1)), np.full(10, 0.5), np.ones((1, 10)), np.zeros(1), np.array([[8.0]])
    )
    np.testing.assert_allclose(theta, 0.0, atol=1e-12)


def test_order_of_rows_matters_through_the_authors_split_alone():
    """Reordering within a class reorders the split; moving the classes about does not."""
    x, correct = sample("plain")
    expected = estimate(x, correct)
    order = np.argsort(correct != correct[0], kind="stable")  # one class, then the other
    np.testing.assert_allclose(estimate(x[order], correct[order]), expected[order], atol=1e-9)
    order = np.random.default_rng(0).permutation(len(x))
    moved = np.abs(estimate(x[order], correct[order]) - expected[order]).max()
    assert 1e-6 < moved < 0.03
    seeded = [estimate(x, correct, seed) for seed in (0, 1)]
    assert 1e-6 < np.abs(seeded[1] - seeded[0]).max() < 0.03


def test_rows_that_are_equal_may_be_given_in_any_order():
    """Of few values, and in columns that are alike but for their order."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, (200, 3)).astype(float)
    correct = rng.random(200) < 0.3 + 0.4 * x[:, 0]
    expected = estimate(x, correct, seed=0)
    for _ in range(5):
        order = rng.permutation(200)
        found = estimate(x[order], correct[order], seed=0)
        np.testing.assert_allclose(found, expected[order], atol=1e-9)
