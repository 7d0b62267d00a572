import itertools
from dataclasses import asdict

import numpy as np
import pandas as pd
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

from lib.studies.suitability.comparisons import compare_estimators, compare_signals
from lib.suitability import CorrectnessEstimator, SuitabilityFilter
from lib.suitability.estimators import (
    CALIBRATIONS,
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


@pytest.mark.parametrize("bins", [1, 2, 7, 15, 100])
@pytest.mark.parametrize("n", [1, 2, 40, 400])
def test_errors_equal_a_brute_force_count(n, bins):
    rng = np.random.default_rng(n * bins)
    for kind in range(3):
        p = [rng.random(n), rng.integers(0, bins + 1, n) / bins, rng.beta(0.2, 0.2, n)][kind]
        y = rng.random(n) < p**2
        pair = calibration_errors(p, y, bins, "bins"), calibration_errors(p, y, bins)
        for found, expected in zip(pair, brute_force(p, y, bins)[::-1], strict=True):
            np.testing.assert_allclose([found.ece, found.mce, found.rmsce], expected, atol=1e-12)
        assert found.accuracy == np.mean([(a >= 0.5) == b for a, b in zip(p, y, strict=True)])
        mean_error = abs(p.mean() - y.mean())
        assert mean_error <= found.ece + 1e-12 <= found.rmsce + 2e-12 <= found.mce + 3e-12


@pytest.mark.parametrize(
    ("p", "correct", "accuracy", "ece", "mce", "rmsce"),
    [
        ([0.0], [0], 1, 0, 0, 0),
        ([0.0], [1], 0, 1, 1, 1),
        ([1.0], [1], 1, 0, 0, 0),
        ([1.0], [0], 0, 1, 1, 1),
        ([0.5], [1], 1, 0.5, 0.5, 0.5),
        ([0.0, 0.01, 1.0], [0, 1, 1], 2 / 3, 0.33, 0.495, np.sqrt(2 / 3) * 0.495),
        ([1, 0, 1, 1], [True, False, False, False], 0.5, 0.5, 2 / 3, np.sqrt(3 / 4) * 2 / 3),
    ],
)
def test_errors_of_few_points(p, correct, accuracy, ece, mce, rmsce):
    found = calibration_errors(p, correct)
    np.testing.assert_allclose(
        [found.accuracy, found.ece, found.mce, found.rmsce], [accuracy, ece, mce, rmsce]
    )


@pytest.mark.parametrize("bins", [3, 10, 15, 49])
def test_bins_are_closed_on_the_right(bins):
    for k in range(1, bins):
        edge = k / bins
        apart = calibration_errors([edge, edge + 1e-9], [1, 0], bins)
        together = calibration_errors([edge - 1e-9, edge], [1, 0], bins)
        assert apart.mce == pytest.approx(max(edge, 1 - edge))
        assert together.mce == pytest.approx(abs(0.5 - edge), abs=1e-8)


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


def test_a_comparison_is_what_its_estimators_say():
    x, y = sample(300)
    test, test_y = sample(500, seed=1)
    kinds = ["svm", "decision-tree"], ["none", "platt"]
    found = compare_estimators(pd.DataFrame(x), y, pd.DataFrame(test), test_y, *kinds)
    pairs = list(itertools.product(*kinds))
    assert list(zip(found["estimator"], found["calibration"], strict=True)) == pairs
    assert (found["true_accuracy"] == test_y.mean()).all()
    for row, (name, calibration) in zip(found.itertuples(), pairs, strict=True):
        fitted = make_estimator(name, calibration, seed=None).fit(x, y)
        p = fitted.predict_proba(test)[:, 1]
        errors = asdict(calibration_errors(p, test_y, 15))
        assert {name: getattr(row, name) for name in errors} == pytest.approx(errors)
        assert row.brier == pytest.approx(np.mean((p - test_y) ** 2))
        assert row.estimated_accuracy == pytest.approx(p.mean())


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
    x, y = sample(400, seed=4)
    test, _ = sample(100, seed=5)
    calibrated = CalibratedClassifierCV(model, method=method, cv=StratifiedKFold(4))
    expected = make_pipeline(StandardScaler(), calibrated).fit(x, y).predict_proba(test)
    # Not the default number of splits, so that the paper's estimator is scikit-learn's here.
    found = make_estimator(name, calibration, splits=4, seed=None).fit(x, y).predict_proba(test)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_default_is_the_estimator_of_the_paper():
    x, y = sample()
    ours = make_estimator("logistic").fit(x, y).predict_proba(x)[:, 1]
    np.testing.assert_array_equal(ours, CorrectnessEstimator().fit(x, y).predict(x))
    other = make_estimator("logistic", splits=6).fit(x, y).predict_proba(x)[:, 1]
    assert 1e-6 < np.abs(other - ours).max() < 0.03


def test_without_calibration_the_margin_of_the_svm_is_log_odds():
    x, y = sample()
    z = StandardScaler().fit_transform(x)
    found = make_estimator("svm", "none", seed=None).fit(x, y).predict_proba(x)[:, 1]
    np.testing.assert_allclose(found, expit(SVC().fit(z, y).decision_function(z)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_are_reproducible_and_fit_into_the_filter(name):
    x, y = sample()
    estimator = make_estimator(name, "none", seed=5)
    by_filter = SuitabilityFilter(estimator=estimator).fit(x, y)
    p = by_filter.estimate(x)
    np.testing.assert_array_equal(p, clone(estimator).fit(x, y).predict_proba(x)[:, 1])
    assert ((p >= 0) & (p <= 1)).all()
    assert by_filter.decide(x, x).p_value == pytest.approx(0.5)
    other = make_estimator(name, "none", seed=6).fit(x, y).predict_proba(x)[:, 1]
    random = name in ("one-layer", "two-layer", "random-forest")
    assert (np.abs(other - p).max() > 1e-6) == random
    paper = SuitabilityFilter(estimator=make_estimator("logistic")).fit(x, y)
    np.testing.assert_array_equal(
        paper.estimate(x), SuitabilityFilter(test="paper").fit(x, y).estimate(x)
    )


def test_signals_one_by_one():
    rng = np.random.default_rng(6)
    x = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["noise", "good", "weak"])
    y = rng.random(3000) < expit(2 * x["good"] + 0.7 * x["weak"] + 1)
    train, test = slice(0, 1000), slice(1000, None)
    found = compare_signals(x[train], y[train], x[test], y[test])
    assert list(found["signals"]) == ["all", "noise", "good", "weak"]
    brier = found.set_index("signals")["brier"]
    assert brier["all"] < brier["good"] < brier["weak"] < brier["noise"]
    p = CorrectnessEstimator(seed=None).fit(x[train], y[train]).predict(x[test])
    assert found.loc[0, "ece"] == calibration_errors(p, y[test]).ece
    noise = found.set_index("signals").loc["noise"]
    # A constant estimate: the accuracy of saying "correct", and the base rate of training.
    assert noise["accuracy"] == noise["true_accuracy"] == y[test].mean()
    assert noise["estimated_accuracy"] == pytest.approx(y[train].mean(), abs=0.01)


def test_arrays_have_the_twelve_signals():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(200, 12)), rng.random(200) < 0.5
    table = as_table("x", x)
    assert list(compare_signals(table, y, table, y)["signals"]) == ["all", *SIGNAL_NAMES]
    assert list(as_table("x", x).columns) == list(SIGNAL_NAMES)
    with pytest.raises(ValueError, match="x must have 12 columns, or be a data frame with names"):
        as_table("x", x[:, :2])


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_neither_the_order_of_rows_nor_of_named_columns_matters(name, calibration):
    x, y = sample(150)
    x = pd.DataFrame(x, columns=["b", "a", "c"])
    test = pd.DataFrame(sample(50, seed=1)[0], columns=x.columns)
    expected = make_estimator(name, calibration, splits=2).fit(x, y).predict_proba(test)
    rows = np.random.default_rng(3).permutation(150)
    for order in (rows, np.argsort(y, kind="stable"), np.argsort(x["a"].to_numpy())):
        moved = x.iloc[order][["c", "b", "a"]]
        fitted = make_estimator(name, calibration, splits=2).fit(moved, y[order])
        found = fitted.predict_proba(test[["a", "c", "b"]])
        np.testing.assert_allclose(found, expected, atol=1e-8)
    for wrong, message in (
        (test.rename(columns={"a": "z"}), "signals must have the columns"),
        (test.drop(columns="a"), "signals must have the columns"),
        (test[["a", "a", "b", "c"]], "signals must have distinct column names"),
        (test.to_numpy(), "signals must be a data frame with the columns of the fit"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict_proba(wrong)
    by_place = make_estimator(name, calibration, splits=2).fit(x.to_numpy(), y)
    with pytest.raises(ValueError, match="signals must be an array, as at fit, got a data frame"):
        by_place.predict_proba(test)
