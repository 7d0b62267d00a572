import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import GradientBoostingClassifier

from lib.studies.suitability.fits import fit_errors
from lib.suitability import CorrectnessEstimator, SuitabilityFilter, signals
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": "welch"}, "test must be one of fitted, paper, got 'welch'"),
        (
            {"test": "fitted", "estimator": CorrectnessEstimator()},
            "test must be 'paper' with an estimator|estimator must have predict_proba",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        SuitabilityFilter(**options)
