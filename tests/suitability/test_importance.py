from itertools import permutations

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.feature_selection import f_classif

from lib.suitability.importance import anova_table, shap_values


def sample(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)) * [1.0, 20.0, 1e-3, 1.0] + [0.0, 1e4, 0.0, -5.0]
    x[:, 3] += x[:, 0]
    eta = 0.5 + 1.5 * x[:, 0] - 0.04 * (x[:, 1] - 1e4)
    table = pd.DataFrame(x, columns=["up", "down", "noise", "copy"])
    return table, rng.random(n) < expit(eta)


def own_regression(z, y):
    """Intercept and slopes with the penalty 0.5 |w|^2, by a general optimiser."""
    design = np.column_stack([np.ones(len(z)), z])

    def loss(theta):
        eta = design @ theta
        value = np.logaddexp(0, eta).sum() - y @ eta + 0.5 * theta[1:] @ theta[1:]
        gradient = design.T @ (expit(eta) - y)
        gradient[1:] += theta[1:]
        return value / len(y), gradient / len(y)

    start = np.zeros(design.shape[1])
    theta = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-11}).x
    return theta[0], theta[1:]


def test_anova_equals_scikit_learn_and_scipy():
    x, y = sample()
    found = anova_table(x, y)
    assert list(found["f"]) == sorted(found["f"], reverse=True)
    found = found.set_index("signal").loc[x.columns]
    by_scipy = [stats.f_oneway(x[name][y], x[name][~y]) for name in x]
    for f, p in (f_classif(x, y), np.transpose(by_scipy)):
        np.testing.assert_allclose(found["f"], f, rtol=1e-6)
        np.testing.assert_allclose(found["p_value"], p, rtol=1e-6)
    np.testing.assert_allclose(found["log10_p"], np.log10(found["p_value"]), rtol=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_coefficients_are_those_of_the_penalised_regression(seed):
    x, y = sample(200, seed)
    found = anova_table(x, y).set_index("signal").loc[x.columns]
    z = ((x - x.mean()) / x.std(ddof=0)).to_numpy()
    np.testing.assert_allclose(found["coefficient"], own_regression(z, y)[1], atol=1e-6)
    assert (found["sign"] == np.sign(found["coefficient"])).all()
    assert list(found["sign"][["up", "down"]]) == [1, -1]


@pytest.mark.parametrize(
    ("n", "shift"),
    [(20, 1e6), (200, 5), (200, 1e4), (1400, 2.6), (1400, 2.9), (20_000, 0.6), (20_000, 3)],
)
def test_tiny_p_values_have_the_right_logarithm(n, shift):
    """Against arbitrary precision, on both sides of where the series takes over."""
    rng = np.random.default_rng(n)
    y = np.arange(n) % 2 == 0
    row = anova_table(pd.DataFrame({"a": rng.normal(size=n) + shift * y}), y).iloc[0]
    with mpmath.workdps(50):
        f, dof = mpmath.mpf(row["f"]), n - 2
        half = mpmath.mpf(1) / 2
        tail = mpmath.betainc(mpmath.mpf(dof) / 2, half, 0, dof / (dof + f), regularized=True)
        expected = float(mpmath.log10(tail))
    assert row["log10_p"] == pytest.approx(expected, rel=1e-10)
    assert row["p_value"] == pytest.approx(10**expected, rel=1e-8, abs=1e-300)


def test_signals_without_variation_come_last():
    x, y = sample(100)
    x.insert(0, "constant", 0.1)
    x.insert(1, "rounding", 1e6 + 1e-11 * np.arange(100))
    found = anova_table(x, y)
    last = found[-2:]
    assert list(last["signal"]) == ["constant", "rounding"]
    assert last[["f", "p_value", "log10_p"]].isna().all(axis=None)
    assert (last[["coefficient", "sign"]] == 0).all(axis=None)
    without = anova_table(x.drop(columns=["constant", "rounding"]), y)
    pd.testing.assert_frame_equal(found[:-2], without)


def test_three_rows_are_enough():
    """By hand: 2 and 3 against 1 differ by 1.5, the mean square within is 1/2."""
    row = anova_table(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), [False, True, True]).iloc[0]
    assert row["f"] == pytest.approx(1.5**2 * 2 / 3 / 0.5)
    with pytest.raises(ValueError, match="at least 3 rows"):
        anova_table(pd.DataFrame({"a": [1.0, 2.0]}), [False, True])


@pytest.mark.parametrize(
    "x", [np.repeat([0.0, 1.0], 10), np.repeat([0.0, 1e-100], 10), np.repeat([1e9, 1e9 + 1], 10)]
)
def test_perfect_separation(x):
    row = anova_table(pd.DataFrame({"a": x}), np.repeat([False, True], 10)).iloc[0]
    assert row["f"] > 1e12
    assert row["log10_p"] < -90
    assert row["sign"] == 1


def test_shap_values_are_coefficient_times_deviation_and_add_up():
    """The fitted data are more than the 100 rows that shap samples by default."""
    x, y = sample(1000, seed=3)
    other, _ = sample(50, seed=4)
    values, base = shap_values(x, y, other[["noise", "copy", "down", "up"]])
    mean, sd = x.mean(), x.std(ddof=0)
    intercept, slopes = own_regression(((x - mean) / sd).to_numpy(), y)
    coefficients = anova_table(x, y).set_index("signal")["coefficient"][x.columns]
    by_hand = coefficients * (other - mean) / sd
    np.testing.assert_allclose(values[x.columns], by_hand, atol=1e-9)
    log_odds = intercept + ((other - mean) / sd) @ slopes
    np.testing.assert_allclose(values.sum(axis=1) + base, log_odds, atol=1e-6)
    fitted, _ = shap_values(x, y, x)
    assert abs(fitted.mean()).max() < 1e-9
    assert base == pytest.approx(intercept, abs=1e-6)


def test_shap_values_are_shapley_values():
    """Averages over all orders in which signals take the sample's value, by enumeration."""
    x, y = sample(60, seed=5)
    z = ((x - x.mean()) / x.std(ddof=0)).to_numpy()
    intercept, slopes = own_regression(z, y)

    def payoff(known):
        mixed = z.copy()
        mixed[:, list(known)] = z[7, list(known)]
        return (intercept + mixed @ slopes).mean()

    gains = np.zeros((24, 4))
    for row, order in enumerate(permutations(range(4))):
        for i, signal in enumerate(order):
            gains[row, signal] = payoff(order[: i + 1]) - payoff(order[:i])
    values, base = shap_values(x, y, x[7:8])
    np.testing.assert_allclose(values.to_numpy()[0], gains.mean(axis=0), atol=1e-6)
    assert base == pytest.approx(payoff(()), abs=1e-6)


def test_shap_value_of_a_constant_signal_is_zero():
    x, y = sample(100)
    values, _ = shap_values(x.assign(noise=0.1), y, x.assign(noise=7.0))
    assert (values["noise"] == 0).all()
