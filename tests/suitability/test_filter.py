import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier

from lib.studies.suitability.simulations import fit_errors
from lib.suitability import (
    CorrectnessEstimator,
    RefinedFilter,
    SuitabilityFilter,
    signals,
    tipping_point,
)
from lib.suitability.filter import Decision, p_text


def draw(rng, n, shift=0.0):
    """One signal that tells correctness by a logistic law, the same law everywhere.

    So the estimator can be calibrated on both sides, and a shift of the signal moves
    the accuracy and nothing else.
    """
    x = rng.normal(shift, 1.0, (n, 1))
    return x, rng.random(n) < 1 / (1 + np.exp(-(1.2 * x[:, 0] + 1.0)))


RNG = np.random.default_rng(0)
LABELS = RNG.integers(4, size=400)
LOGITS = 2.0 * np.eye(4)[LABELS] + RNG.normal(size=(400, 4))
X, CORRECT = signals(LOGITS), LOGITS.argmax(axis=1) == LABELS


def decide(**options):
    """The first half for the fit, the next quarter as test, the last as user data."""
    return SuitabilityFilter(**options).fit(X[:200], CORRECT[:200]).decide(X[200:300], X[300:])


def test_decision_is_the_test_on_the_estimates():
    decision = decide(margin=0.03, alpha=0.1, test="paper")
    estimated = CorrectnessEstimator().fit(X[:200], CORRECT[:200]).predict(X)
    test, user = estimated[200:300], estimated[300:]
    expected = stats.ttest_ind(test, user + 0.03, equal_var=False, alternative="less")
    assert decision.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert decision.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert decision.dof == pytest.approx(expected.df, rel=1e-9)
    assert decision.estimated_test_accuracy == test.mean()
    assert decision.estimated_user_accuracy == user.mean()
    assert decision.suitable == (decision.p_value <= 0.1)
    assert (decision.margin, decision.alpha, decision.test) == (0.03, 0.1, "paper")
    assert decision.stderr == pytest.approx(np.hypot(stats.sem(test), stats.sem(user)), rel=1e-9)
    assert (SuitabilityFilter().margin, SuitabilityFilter().alpha) == (0.0, 0.05)


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


@pytest.mark.parametrize("test", ["fitted", "paper"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 / 3])
def test_signals_that_never_vary_are_refused(test, value):
    """They said SUITABLE, p < .001, whatever the data."""
    rng = np.random.default_rng(0)
    correct = np.arange(20) % 2 == 0
    same = value * (1 + 1e-16 * rng.integers(-2, 3, (20, 2)))
    for own in (SuitabilityFilter(test=test), RefinedFilter()):
        with pytest.raises(ValueError, match="signals must vary"):
            own.fit(same, correct)
    # Constant at fit, and not for the user.
    x = np.column_stack([rng.normal(size=20), same[:, 0]])
    moved = x.copy()
    moved[3, 1] += 1 + abs(value)
    own = SuitabilityFilter(0.9, test=test).fit(x, correct)
    refined = RefinedFilter(0.9).fit(x, correct).decide(correct, moved)
    for found, note in (
        (own.decide(x, moved), "user_signals .* never varied at fit, in 1 of 20"),
        (own.decide(moved, x), "test_signals .* never varied at fit, in 1 of 20"),
        (refined, "column 1, which never varied"),
        # A sample of equal rows has no variance to judge its mean by.
        (own.decide(x, x[[0] * 9]), "user_signals has 9 rows"),
        (own.decide(x[[0] * 9], x), "test_signals has 9 rows"),
    ):
        assert (found.suitable, found.p_value) == (False, 1.0)
        assert pd.Series(found.notes[:1]).str.contains(note).all()
        assert found.notes[0] in str(found)
    assert SuitabilityFilter(test=test).fit(x, correct).decide(x, x).p_value == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "m"), [(7, 11), (100, 3)])
def test_estimates_that_are_equal_but_for_rounding_show_nothing(n, m):
    x, correct = np.random.default_rng(0).normal(size=(100, 1)), np.arange(100) % 10 < 7
    fitted = SuitabilityFilter(margin=0.05, estimator=DummyClassifier()).fit(x, correct)
    found = fitted.decide(x[:n], x[100 - m :])
    assert (found.suitable, found.p_value) == (False, 1.0)
    assert len([note for note in found.notes if "all have the estimate 0.7" in note]) == 2


def test_level_of_significance_is_inclusive_and_shown():
    p = decide().p_value
    for alpha, word in ((p, "SUITABLE"), (np.nextafter(p, 0), "INCONCLUSIVE")):
        found = decide(alpha=alpha)
        assert found.suitable == (word == "SUITABLE")
        assert str(found).startswith(f"{word}: p = ")


def test_own_estimator_is_cloned_and_used():
    mine, reference = (GradientBoostingClassifier(n_estimators=5, random_state=0) for _ in range(2))
    fitted = SuitabilityFilter(estimator=mine).fit(X[:200], CORRECT[:200])
    assert not hasattr(mine, "estimators_")
    reference.fit(X[:200].to_numpy(), CORRECT[:200])
    expected = reference.predict_proba(X[200:].to_numpy())[:, 1]
    np.testing.assert_array_equal(fitted.estimate(X[200:]), expected)


@pytest.mark.slow
def test_false_positive_rate_at_the_boundary():
    """User data whose true accuracy is exactly the test accuracy minus the margin.

    With 4,000 points for the fit and 250 for test and user, the error of the fit matters little:
    so each fit decides ten times.
    """
    margin, grid = 0.05, np.linspace(-8, 8, 40_001)
    p = 1 / (1 + np.exp(-(1.2 * grid + 1.0)))

    def accuracy(shift):
        weight = np.exp(-0.5 * (grid - shift) ** 2)
        return (weight * p).sum() / weight.sum()

    shift = optimize.brentq(lambda s: accuracy(0.0) - accuracy(s) - margin, -1, 0.5)
    rng, alpha, repetitions = np.random.default_rng(7), 0.1, 400
    rejected = 0
    for i in range(repetitions):
        if i % 10 == 0:
            fitted = SuitabilityFilter(margin, alpha).fit(*draw(rng, 4000))
        rejected += fitted.decide(draw(rng, 250)[0], draw(rng, 250, shift)[0]).suitable
    tolerance = 4 * np.sqrt(alpha * (1 - alpha) / repetitions) + 0.02
    assert abs(rejected / repetitions - alpha) < tolerance


@pytest.mark.slow
def test_level_with_an_estimator_that_is_fitted():
    """Calibrated on both populations, a drop of the margin: the paper's test errs too often."""
    runs = 120
    found = fit_errors([(1000, 1000, 5000)], repetitions=runs, rng=np.random.default_rng(1))
    most = stats.binom.isf(1e-4, runs, 0.05)
    assert found["fitted"].iloc[0] * runs <= most
    assert found["paper"].iloc[0] * runs > most
    assert found["low"].iloc[0] <= found["fitted"].iloc[0] <= found["high"].iloc[0]


@pytest.mark.parametrize("test", ["fitted", "paper"])
def test_tipping_point_by_hand(test):
    found = decide(margin=0.05, alpha=0.1, test=test)
    drop = found.estimated_test_accuracy - found.estimated_user_accuracy
    reach = stats.t.isf(0.1, found.dof) * found.stderr
    assert tipping_point(found) == pytest.approx(0.05 - drop - reach)


def test_a_decision_in_words():
    assert [p_text(p) for p in (1.8e-26, 0.00099, 0.001, 0.0421, 1.0)] == [
        "p < 0.001", "p < 0.001", "p = 0.001", "p = 0.042", "p = 1",
    ]  # fmt: skip
    decision = Decision(True, 0.012345, -2.5, 30.0, 0.91234, 0.90006, 0.05, 0.1, 0.01)
    assert str(decision) == (
        "SUITABLE: p = 0.012 at alpha = 0.1, margin = 0.05\n"
        "estimated accuracy on test data: 0.912\n"
        "estimated accuracy on user data: 0.900"
    )


def test_few_rows_are_noted_and_from_there_on_the_level_holds():
    """Of 10 user rows data that are not suitable passed in .10 of the runs: below 30 it is said."""
    rng, runs, least, passed = np.random.default_rng(4), 300, 30, 0
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)

    def accuracy(shift):
        return special.expit(1.5 + nodes + shift) @ weights / weights.sum()

    shift = optimize.brentq(lambda one: accuracy(0.0) - accuracy(one) - 0.05, -3, 0)
    for _ in range(runs):
        x = rng.normal(size=(500, 1))
        own = SuitabilityFilter(0.05).fit(x, rng.random(500) < special.expit(1.5 + x[:, 0]))
        test, user = rng.normal(size=(500, 1)), rng.normal(shift, 1.0, size=(least, 1))
        found = own.decide(test, user)
        assert found.notes == ()
        passed += found.suitable
    assert stats.binom.sf(passed - 1, runs, 0.05) > 1e-3
    assert "user_signals has only 29 rows" in own.decide(test, user[1:]).notes[0]
    assert "test_signals has only 29 rows" in own.decide(test[:29], user).notes[0]
    # Student's distribution, which counts clusters, does not make up for few skewed ones.
    found = own.decide(test, user[:20], user_clusters=np.arange(20))
    assert "user_signals has 20 clusters" in found.notes[0]
