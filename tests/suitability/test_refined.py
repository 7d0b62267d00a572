import numpy as np
import pytest
from scipy import special, stats
from sklearn.linear_model import LogisticRegression

from lib.suitability import RefinedFilter
from lib.suitability.estimator import fit_logistic, logistic_hessian
from lib.suitability.filter import normal_decision


def draw(n, rng, shift=0.0):
    """Three signals of which two tell the probability of a correct prediction."""
    x = rng.normal(shift, 1.0, (n, 3))
    return x, rng.random(n) < 1 / (1 + np.exp(-(x @ [1.0, 0.5, 0.0] + 0.5)))


def test_fit_equals_scikit_learn():
    x, y = draw(800, np.random.default_rng(0))
    theta, hessian = fit_logistic(np.column_stack([x, np.ones(800)]), y)
    model = LogisticRegression(tol=1e-12, solver="newton-cholesky").fit(x, y)
    np.testing.assert_allclose(theta, [*model.coef_[0], *model.intercept_], atol=1e-8)
    p = model.predict_proba(x)[:, 1]
    design = np.column_stack([x, np.ones(800)])
    by_hand = sum(w * np.outer(d, d) for w, d in zip(p * (1 - p), design, strict=True))
    np.testing.assert_allclose(hessian, by_hand + np.diag([1, 1, 1, 0]), rtol=1e-7)
    model.fit((x - x.mean(axis=0)) / x.std(axis=0), y)
    found = RefinedFilter().fit(x, y).coefficients
    np.testing.assert_allclose(found, [*model.coef_[0], *model.intercept_], atol=1e-8)


def test_error_of_the_estimate_is_what_it_says():
    # 600 source and 300 shifted user samples: errors of coefficients and of labels both count.
    rng = np.random.default_rng(2)
    scores = []
    for _ in range(400):
        x, y = draw(600, rng)
        user, correct = draw(300, rng, shift=-0.5)
        fitted = RefinedFilter().fit(x, y)
        estimate, error = fitted.estimate(user)
        scores.append((estimate - correct.mean()) / error)
    outside = int((np.abs(scores) > stats.norm.isf(0.025)).sum())
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], 400, 0.05)
    assert low <= outside <= high
    assert abs(np.mean(scores)) < 4 / np.sqrt(400)
    assert 0.85 < np.std(scores) < 1.15


@pytest.mark.parametrize("margin", [-0.2, 0.05, 0.6])
def test_decision_by_hand(margin):
    """The error is taken at the estimated coefficients, or nearer to a drop of the margin."""
    rng = np.random.default_rng(5)
    (x, y), (user, _) = draw(300, rng), draw(80, rng, 0.3)
    fitted, right = RefinedFilter(margin).fit(x, y), y[:200]
    designs = [np.column_stack([(z - x.mean(0)) / x.std(0), np.ones(len(z))]) for z in (x, user)]

    def parts(theta):
        p = special.expit(designs[1] @ theta)
        g = -designs[1].T @ (p * (1 - p)) / 80
        direction = np.linalg.solve(logistic_hessian(designs[0], theta, 1.0), g)
        return p.mean(), (p * (1 - p)).mean() / 80 + g @ direction, direction, g @ direction

    accuracy, variance, direction, reach = parts(fitted.coefficients)
    assert fitted.estimate(user) == pytest.approx((accuracy, np.sqrt(variance)))
    missing = margin - (right.mean() - accuracy)
    if missing > 0:
        step = min(missing / reach, 2 / np.sqrt(reach))
        variance = max(variance, parts(fitted.coefficients + step * direction)[1])
    found = fitted.decide(right, user)
    assert (found.test, found.margin, found.alpha) == ("refined", margin, 0.05)
    assert found.estimated_test_accuracy == right.mean()
    assert found.estimated_user_accuracy == pytest.approx(accuracy)
    assert found.stderr == pytest.approx(np.sqrt(variance))
    assert found.statistic == pytest.approx(-missing / found.stderr)
    assert found.p_value == pytest.approx(stats.norm.cdf(found.statistic))


def test_estimates_without_doubt_show_nothing():
    """They said SUITABLE, p = 0, from 500 rows."""
    x, y = draw(500, np.random.default_rng(8))
    fitted = RefinedFilter().fit(x, y)
    decision = fitted.decide(y, np.full((50, 3), 1e5))  # estimates are 1, exactly
    assert (decision.stderr, decision.statistic, decision.p_value) == (0, -np.inf, 1)
    assert not decision.suitable
    assert "50 rows that all have an estimate of 0 or 1" in str(decision)
    assert np.isnan(decision.dof)
    assert fitted.decide(y, np.full((50, 3), -1e5)).p_value == 1


def test_equal_accuracies_without_doubt_speak_neither_for_nor_against():
    found = normal_decision(0.75, 0.75, (0.0, np.inf), 0.0, 0.05, "paper")
    assert (found.statistic, found.p_value, found.suitable) == (0.0, 0.5, False)


def test_constant_signals_and_one_row():
    x, y = draw(50, np.random.default_rng(7))
    wide = np.column_stack([x, np.full(50, 3.0)])
    estimate, error = RefinedFilter().fit(wide, y).estimate(wide[:1])
    assert (estimate, error) == pytest.approx(RefinedFilter().fit(x, y).estimate(x[:1]), rel=1e-8)
    assert 0 < estimate < 1
    assert error > 0.2  # one label is a coin
