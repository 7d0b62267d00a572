import numpy as np
import pytest
from scipy import optimize, special, stats
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier

from lib.studies.suitability.simulations import fit_errors
from lib.suitability import CorrectnessEstimator, SuitabilityFilter, signals, tipping_point
from lib.suitability.filter import p_text


def draw(rng, n, shift=0.0):
    """One signal that tells correctness by a logistic law, the same law everywhere.

    So the estimator can be calibrated on both sides, and a shift of the signal moves
    the accuracy and nothing else.
    """
    x = rng.normal(shift, 1.0, (n, 1))
    return x, rng.random(n) < 1 / (1 + np.exp(-(1.2 * x[:, 0] + 1.0)))


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=n)
    logits = 2.0 * np.eye(4)[labels] + rng.normal(size=(n, 4))
    return signals(logits), logits.argmax(axis=1) == labels


def test_decision_is_the_test_on_the_estimates():
    x, correct = table()
    fitted = SuitabilityFilter(margin=0.03, alpha=0.1, test="paper").fit(x[:200], correct[:200])
    decision = fitted.decide(x[200:300], x[300:])
    assert decision.test == "paper"
    test, user = fitted.estimate(x[200:300]), fitted.estimate(x[300:])
    expected = stats.ttest_ind(test, user + 0.03, equal_var=False, alternative="less")
    assert decision.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert decision.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert decision.dof == pytest.approx(expected.df, rel=1e-9)
    assert decision.estimated_test_accuracy == test.mean()
    assert decision.estimated_user_accuracy == user.mean()
    assert decision.suitable == (decision.p_value <= 0.1)
    assert (decision.margin, decision.alpha) == (0.03, 0.1)
    stderr = np.hypot(stats.sem(test), stats.sem(user))
    assert decision.stderr == pytest.approx(stderr, rel=1e-9)


def gradient(function, at, step=1e-4):
    """Central differences, a row for each coordinate."""
    moves = step * np.eye(len(at))
    return np.array([(function(at + m) - function(at - m)) / (2 * step) for m in moves])


def error_by_differences(x, correct, test, user, margin):
    """The fitted test's standard error as its notes define it; all derivatives are differences."""
    designs = [
        np.column_stack([(z - x.mean(0)) / x.std(0), np.ones(len(z))]) for z in (x, test, user)
    ]

    def loss(theta):
        eta = designs[0] @ theta
        return np.logaddexp(0, eta).sum() - eta[correct].sum() + 0.005 * (theta[:-1] ** 2).sum()

    def estimates(theta):
        return [special.expit(design @ theta) for design in designs[1:]]

    def gap(theta):
        first, second = estimates(theta)
        return first.mean() - second.mean()

    def variance(theta):
        g = gradient(gap, theta)
        direction = np.linalg.solve(gradient(lambda at: gradient(loss, at), theta), g)
        fit = g @ direction
        return sum(p.var(ddof=1) / len(p) for p in estimates(theta)) + fit, direction, fit

    theta = optimize.minimize(loss, np.zeros(x.shape[1] + 1), tol=1e-9).x
    largest, direction, fit = variance(theta)
    if gap(theta) < margin:
        step = min((margin - gap(theta)) / fit, 2 / np.sqrt(fit))
        largest = max(largest, variance(theta + step * direction)[0])
    return np.sqrt(largest), gap(theta) < margin, (margin - gap(theta)) / np.sqrt(fit) < 2


@pytest.mark.parametrize(
    ("margin", "moves", "near"), [(-0.2, False, True), (0.1, True, True), (0.8, True, False)]
)
def test_the_fitted_test_counts_the_error_of_the_fit(margin, moves, near):
    """Few points far from the origin and wide, so that the penalty and the scale can be seen."""
    rng = np.random.default_rng(3)
    x = rng.normal(5.0, 4.0, (40, 2))
    correct = rng.random(40) < special.expit(0.3 * x[:, 0] + 0.5)
    test, user = rng.normal(5.0, 4.0, (30, 2)), rng.normal(4.0, 3.0, (25, 2))
    expected, moved, reached = error_by_differences(x, correct, test, user, margin)
    assert (moved, reached) == (moves, near)
    decision = SuitabilityFilter(margin=margin).fit(x, correct).decide(test, user)
    assert decision.test == "fitted"
    assert decision.stderr == pytest.approx(expected, rel=1e-4)
    excess = decision.estimated_test_accuracy - decision.estimated_user_accuracy - margin
    assert decision.statistic == pytest.approx(excess / decision.stderr)
    assert decision.p_value == pytest.approx(stats.norm.cdf(decision.statistic))
    assert decision.dof == np.inf


@pytest.mark.parametrize(
    ("margin", "statistic", "p_value"),
    [
        (0.0, 0.0, 0.5),
        (1e-13, 0.0, 0.5),
        (-1e-13, 0.0, 0.5),
        (0.05, -np.inf, 0.0),
        (-0.05, np.inf, 1.0),
    ],
)
def test_signals_that_say_nothing_decide_by_the_margin_but_for_rounding(margin, statistic, p_value):
    same, correct = np.full((20, 1), 3.0), np.arange(20) % 2 == 0
    decision = SuitabilityFilter(margin=margin).fit(same, correct).decide(same, same[:7])
    assert (decision.statistic, decision.p_value) == (statistic, p_value)
    assert decision.suitable == (p_value == 0.0)
    assert np.isnan(decision.dof)


def test_level_of_significance_is_inclusive_and_shown():
    x, correct = table()
    p = SuitabilityFilter().fit(x[:200], correct[:200]).decide(x[200:300], x[300:]).p_value
    at = SuitabilityFilter(alpha=p).fit(x[:200], correct[:200]).decide(x[200:300], x[300:])
    below = SuitabilityFilter(alpha=np.nextafter(p, 0)).fit(x[:200], correct[:200])
    assert at.suitable
    assert str(at).startswith("SUITABLE: p = ")
    assert not below.decide(x[200:300], x[300:]).suitable
    assert str(below.decide(x[200:300], x[300:])).startswith("INCONCLUSIVE")


def test_own_estimator_is_cloned_and_used():
    x, correct = table()
    mine = GradientBoostingClassifier(n_estimators=5, random_state=0)
    fitted = SuitabilityFilter(estimator=mine).fit(x[:200], correct[:200])
    assert not hasattr(mine, "estimators_")
    reference = GradientBoostingClassifier(n_estimators=5, random_state=0)
    reference.fit(x[:200].to_numpy(), correct[:200])
    expected = reference.predict_proba(x[200:].to_numpy())[:, 1]
    np.testing.assert_array_equal(fitted.estimate(x[200:]), expected)


def test_false_positive_rate_at_the_boundary():
    """User data whose true accuracy is exactly the test accuracy minus the margin.

    With 4,000 points for the fit and 250 for test and user, the error of the fit matters little.
    """
    margin, grid = 0.05, np.linspace(-8, 8, 40_001)
    p = 1 / (1 + np.exp(-(1.2 * grid + 1.0)))

    def accuracy(shift):
        weight = np.exp(-0.5 * (grid - shift) ** 2)
        return (weight * p).sum() / weight.sum()

    shifts = np.linspace(-1, 0.5, 3001)
    gaps = [accuracy(0.0) - accuracy(s) - margin for s in shifts]
    shift = shifts[np.argmin(np.abs(gaps))]
    rng, alpha, repetitions = np.random.default_rng(7), 0.1, 400
    rejected = 0
    for _ in range(repetitions):
        fitted = SuitabilityFilter(margin, alpha).fit(*draw(rng, 4000))
        rejected += fitted.decide(draw(rng, 250)[0], draw(rng, 250, shift)[0]).suitable
    tolerance = 4 * np.sqrt(alpha * (1 - alpha) / repetitions) + 0.02
    assert abs(rejected / repetitions - alpha) < tolerance


def test_level_with_an_estimator_that_is_fitted():
    """Calibrated on both populations, a drop of the margin: the paper's test errs too often."""
    runs = 250
    found = fit_errors([(1000, 1000, 5000)], repetitions=runs, rng=np.random.default_rng(1))
    most = stats.binom.isf(1e-4, runs, 0.05)
    assert found["fitted"].iloc[0] * runs <= most
    assert found["paper"].iloc[0] * runs > most
    assert found["low"].iloc[0] <= found["fitted"].iloc[0] <= found["high"].iloc[0]


def test_no_small_p_value_is_printed():
    assert [p_text(p) for p in (1.8e-26, 0.00099, 0.001, 0.0421, 1.0)] == [
        "p < 0.001", "p < 0.001", "p = 0.001", "p = 0.042", "p = 1",
    ]  # fmt: skip


@pytest.mark.parametrize(("n", "m"), [(7, 11), (10, 13), (100, 3)])
def test_estimates_that_are_equal_but_for_rounding_have_no_error(n, m):
    x, correct = np.zeros((100, 1)), np.arange(100) % 10 < 7
    fitted = SuitabilityFilter(margin=0.05, estimator=DummyClassifier()).fit(x, correct)
    decision = fitted.decide(x[:n], x[:m])
    assert (decision.stderr, decision.p_value) == (0.0, 0.0)
    assert tipping_point(decision) == pytest.approx(0.05, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": CorrectnessEstimator()}, "^estimator must have predict_proba"),
        ({"test": "welch"}, "test must be one of 'fitted', 'paper', got 'welch'"),
        (
            {"test": "fitted", "estimator": DummyClassifier()},
            "^test must be 'paper' with an estimator of one's own, got 'fitted'$",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        SuitabilityFilter(**options)
