import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from lib.suitability import CorrectnessEstimator, SuitabilityFilter
from lib.suitability.estimators import (
    ESTIMATORS,
    SIGNAL_NAMES,
    as_table,
    calibration_errors,
    make_estimator,
)


def sample(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.1] + [0.0, 100.0, 0.0]
    eta = 0.6 + 1.2 * x[:, 0] - 0.2 * (x[:, 1] - 100)
    return x, rng.random(n) < expit(eta)


def estimates(name, calibration="platt", fit=None, test=None, **options):
    x, y = sample() if fit is None else fit
    fitted = make_estimator(name, calibration, **options).fit(x, y)
    found = fitted.predict_proba(x if test is None else test)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    return found[:, 1]


def brute_force(p, y, bins):
    gaps, shares = [], []
    for b in range(bins):
        inside = [i for i in range(len(p)) if b / bins < p[i] <= (b + 1) / bins]
        inside += [i for i in range(len(p)) if b == 0 and p[i] == 0]
        if inside:
            gaps.append(abs(np.mean([y[i] for i in inside]) - np.mean([p[i] for i in inside])))
            shares.append(len(inside) / len(p))
    gaps, shares = np.array(gaps), np.array(shares)
    by_bins = gaps.mean(), gaps.max(), np.sqrt((gaps**2).mean())
    return (shares @ gaps, gaps.max(), np.sqrt(shares @ gaps**2)), by_bins


@pytest.mark.parametrize("bins", [1, 2, 15, 100])
@pytest.mark.parametrize("n", [1, 2, 40, 400])
def test_errors_equal_a_brute_force_count(n, bins):
    rng = np.random.default_rng(n * bins)
    for p in (rng.random(n), rng.integers(0, bins + 1, n) / bins, rng.beta(0.2, 0.2, n)):
        y = rng.random(n) < p**2
        pair = calibration_errors(p, y, bins, "bins"), calibration_errors(p, y, bins)
        for found, expected in zip(pair, brute_force(p, y, bins)[::-1], strict=True):
            np.testing.assert_allclose([found.ece, found.mce, found.rmsce], expected, atol=1e-12)
        assert found.accuracy == np.mean([(a >= 0.5) == b for a, b in zip(p, y, strict=True)])


def test_edges_do_not_hang_on_the_last_bit():
    """Ten votes as fractions, however they were computed, are in the bin below their edge."""
    rng = np.random.default_rng(1)
    k = rng.integers(0, 11, 2000)
    y = rng.random(2000) < np.clip(k / 10 + np.where(k % 2 == 1, 0.15, -0.15), 0, 1)
    count = np.bincount(k, minlength=11)
    below = np.maximum(np.arange(11) - 1, 0)  # 0 belongs to the first bin, with 0.1
    gap = np.bincount(below, np.bincount(k, y - k / 10, 11))
    expected = np.abs(gap).sum() / count.sum()
    sums = np.cumsum([0.0] + [0.1] * 10).clip(0, 1)[k]
    for p in (k / 10, 0.1 * k, 1 - (10 - k) / 10, sums):
        assert calibration_errors(p, y, 10).ece == pytest.approx(expected, abs=1e-12)
    for p in (np.float32(k / 10), np.float32(k / 10).astype(float)):
        found = calibration_errors(p, y, 10)
        assert found.ece == pytest.approx(expected, abs=1e-6)
        assert found.accuracy == calibration_errors(k / 10, y, 10).accuracy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calibration", "method"),
    [("platt", "sigmoid"), ("temperature", "temperature"), ("isotonic", "isotonic")],
)
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("logistic", LogisticRegression(max_iter=1000)),
        ("svm", SVC()),
        ("decision-tree", DecisionTreeClassifier(random_state=0)),
    ],
)
def test_calibration_is_scikit_learns(name, model, calibration, method):
    (x, y), (test, _) = sample(400, seed=4), sample(100, seed=5)
    calibrated = CalibratedClassifierCV(model, method=method, cv=StratifiedKFold(4))
    expected = make_pipeline(StandardScaler(), calibrated).fit(x, y).predict_proba(test)[:, 1]
    # Not the default number of splits, so that the paper's estimator is scikit-learn's here.
    found = estimates(name, calibration, (x, y), test, splits=4, seed=None)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_default_is_the_estimator_of_the_paper():
    x, y = sample()
    ours = estimates("logistic")
    np.testing.assert_array_equal(ours, CorrectnessEstimator().fit(x, y).predict(x))
    paper = SuitabilityFilter(estimator=make_estimator("logistic")).fit(x, y)
    np.testing.assert_array_equal(
        paper.estimate(x), SuitabilityFilter(test="paper").fit(x, y).estimate(x)
    )
    assert 1e-6 < np.abs(estimates("logistic", splits=6) - ours).max() < 0.03


def test_without_calibration_the_margin_of_the_svm_is_log_odds():
    x, y = sample()
    z = StandardScaler().fit_transform(x)
    found = estimates("svm", "none", seed=None)
    np.testing.assert_allclose(found, expit(SVC().fit(z, y).decision_function(z)))


@pytest.mark.parametrize(("name", "layers"), [("one-layer", (100,)), ("two-layer", (100, 100))])
def test_networks_have_as_many_layers_as_they_are_called_after(name, layers):
    network = make_estimator(name, "none", seed=0).model[-1]
    assert network.hidden_layer_sizes == layers


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_are_reproducible_and_fit_into_the_filter(name):
    x, y = sample()
    estimator = make_estimator(name, "none", seed=5)
    by_filter = SuitabilityFilter(estimator=estimator).fit(x, y)
    p = by_filter.estimate(x)
    np.testing.assert_array_equal(p, clone(estimator).fit(x, y).predict_proba(x)[:, 1])
    assert ((p >= 0) & (p <= 1)).all()
    assert by_filter.decide(x, x).p_value == pytest.approx(0.5)
    random = name in ("one-layer", "two-layer", "random-forest")
    assert (np.abs(estimates(name, "none", seed=6) - p).max() > 1e-6) == random


def test_arrays_have_the_twelve_signals():
    x = np.random.default_rng(7).normal(size=(20, 12))
    assert tuple(as_table("x", x).columns) == SIGNAL_NAMES
