import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from lib.runs import run_all
from lib.studies.suitability.data import Study
from lib.studies.suitability.experiment import (
    evaluate_pairs,
    evaluate_tasks,
    make_tasks,
    over_tasks,
)
from lib.studies.suitability.refined_filters import (
    DomainRuns,
    choose_signals,
    domain,
    evaluate_refined,
    known_reference,
    leave_domain_out,
)
from lib.suitability import CorrectnessEstimator, RefinedFilter, SuitabilityFilter
from lib.suitability.estimator import fit_logistic


def draw(n, rng, shift=0.0):
    """Three signals of which two tell the probability of a correct prediction."""
    x = rng.normal(shift, 1.0, (n, 3))
    return x, rng.random(n) < 1 / (1 + np.exp(-(x @ [1.0, 0.5, 0.0] + 0.5)))


def within(count, n, rate):
    """Whether a count is what a binomial allows, but for one in ten thousand."""
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], n, rate)
    return low <= count <= high


def test_fit_equals_scikit_learn():
    x, y = draw(800, np.random.default_rng(0))
    theta, hessian = fit_logistic(np.column_stack([x, np.ones(800)]), y)
    model = LogisticRegression(tol=1e-12, solver="newton-cholesky").fit(x, y)
    np.testing.assert_allclose(theta, [*model.coef_[0], *model.intercept_], atol=1e-8)
    p = model.predict_proba(x)[:, 1]
    design = np.column_stack([x, np.ones(800)])
    by_hand = sum(w * np.outer(d, d) for w, d in zip(p * (1 - p), design, strict=True))
    np.testing.assert_allclose(hessian, by_hand + np.diag([1, 1, 1, 0]), rtol=1e-7)


def test_estimate_is_calibrated_on_the_source():
    x, y = draw(500, np.random.default_rng(1))
    assert RefinedFilter().fit(x, y).estimate(x)[0] == pytest.approx(y.mean(), abs=1e-9)


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
    assert within(outside, 400, 0.05)
    assert abs(np.mean(scores)) < 4 / np.sqrt(400)
    assert 0.85 < np.std(scores) < 1.15


@pytest.mark.parametrize("method", ["all labels", "known reference"])
def test_suitable_and_wrong_is_rarer_than_alpha(method):
    # No shift: half of all user data are worse than the test data, by chance alone. Then easier
    # user data, as a filter that never says SUITABLE would pass, too.
    rng = np.random.default_rng(3)
    wrong = said = 0
    for repetition in range(230):
        x, y = draw(600, rng)
        user, correct = draw(300, rng, shift=0.0 if repetition < 200 else 0.5)
        tasks = make_tasks({"s": 600, "u": 300}, [("u", np.arange(300), "u")], ("s",), 2)
        splits = {"s": (x, y), "u": (user, correct)}
        if method == "all labels":
            rows = evaluate_refined(splits, tasks, [0, 1, 2])
        else:
            rows = known_reference(over_tasks(evaluate_pairs, splits, tasks, 0.0))
        first = rows.iloc[0]
        wrong += first["p_value"] <= 0.05 and not first["truth"]
        said += first["p_value"] <= 0.05 and repetition >= 200
    assert wrong <= stats.binom.ppf(1 - 1e-4, 230, 0.05)
    assert said > 20


def test_estimates_without_doubt_show_nothing():
    """They said SUITABLE, p = 0, from 500 rows."""
    x, y = draw(500, np.random.default_rng(8))
    fitted = RefinedFilter().fit(x, y)
    decision = fitted.decide(y, np.full((50, 3), 1e5))  # estimates are 1, exactly
    assert (decision.stderr, decision.statistic, decision.p_value) == (0, -np.inf, 1)
    assert not decision.suitable
    assert "50 rows that all have an estimate of 0 or 1, beyond any doubt" in str(decision)
    assert np.isnan(decision.dof)
    assert fitted.decide(y, np.full((50, 3), -1e5)).p_value == 1


def test_known_reference_by_hand():
    rng = np.random.default_rng(4)
    x, y = draw(400, rng)
    user, correct = draw(90, rng)
    tasks = make_tasks({"s": 400, "u": 90}, [("u", np.arange(90), "u")], ("s",), 4)
    rows = evaluate_tasks({"s": (x, y), "u": (user, correct)}, tasks)
    found = known_reference(rows, 0.02)
    for row in found.itertuples():
        sf, test = tasks[0].partition[row.sf_fold], tasks[0].partition[row.test_fold]
        estimator = CorrectnessEstimator(seed=None).fit(x[sf], y[sf])
        t, u = estimator.predict(x[test]), estimator.predict(user)
        error = np.sqrt((u * (1 - u)).mean() / 90 + (t * (1 - t)).mean() / 200)
        z = ((t.mean() + y[test].mean()) / 2 - u.mean() - 0.02) / error
        assert row.statistic == pytest.approx(z, rel=1e-9)
        assert row.p_value == pytest.approx(stats.norm.cdf(z), rel=1e-9)
        assert row.truth == (correct.mean() >= y[test].mean() - 0.02)


def test_experiment_equals_single_decisions():
    rng = np.random.default_rng(5)
    x, y = draw(300, rng)
    user, correct = draw(80, rng)
    tasks = make_tasks({"s": 300, "u": 80}, [("u", np.arange(80), "u")], ("s",), 3)
    rows = evaluate_refined({"s": (x, y), "u": (user, correct)}, tasks, [0, 2], 0.01)
    labelled = np.concatenate(tasks[0].partition)
    fitted = RefinedFilter(0.01).fit(x[labelled][:, [0, 2]], y[labelled])
    user_accuracy, error = fitted.estimate(user[:, [0, 2]])
    for row in rows.itertuples():
        test = y[tasks[0].partition[row.test_fold]]
        # By the error as estimated; decide() takes the one at a drop of the margin if larger.
        z = (test.mean() - user_accuracy - 0.01) / error
        assert row.p_value == pytest.approx(stats.norm.cdf(z), rel=1e-12)
        decision = fitted.decide(test, user[:, [0, 2]])
        assert row.estimated_user_accuracy == pytest.approx(decision.estimated_user_accuracy)
        assert min(row.p_value, 0.5) <= decision.p_value + 1e-12


def study():
    rng = np.random.default_rng(6)
    names = ("id_a", "id_b")
    splits = {name: draw(240, rng) for name in names}
    folds = [
        (name, np.flatnonzero(np.arange(240) % 3 == k), f"{name} · region {k}")
        for name in names
        for k in range(3)
    ]
    return Study("made up", 0, splits, names, {"ID": folds, "OOD": []})


def test_a_domain_left_out_is_in_no_source():
    made = study()
    tasks = leave_domain_out(made, 5, 0)
    assert [task.label for task in tasks] == [label for _, _, label in made.user_folds["ID"]]
    for task in tasks:
        k = int(domain(task.label)[-1])
        for _, rows in task.source:
            assert (rows % 3 != k).all()
            assert len(rows) == 160
        flat = np.concatenate(task.partition)
        assert len(set(flat)) == len(flat) == 320
    again = leave_domain_out(made, 5, 0)
    np.testing.assert_array_equal(again[3].partition[2], tasks[3].partition[2])


def test_domain_of_a_label():
    assert domain("id_val · year 2010") == "year 2010"
    assert domain("digit 3") == "digit 3"


CANDIDATES = (("conf_max", "margin_loss"), ("logit_std",))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        found = [DomainRuns("digits", "ERM", seed, CANDIDATES, 4) for seed in (0, 1)]
        for job in found:  # one at a time: in this process
            run_all([job])
        yield found


def test_choice_takes_the_larger_area(jobs):
    table, nested = choose_signals(jobs)
    assert table["roc_auc"].is_monotonic_decreasing
    assert set(table["signals"]) == {"conf_max+margin_loss", "logit_std"}
    # Confidence tells what is right, the spread of all logits of a linear model hardly.
    assert table["signals"].iloc[0] == "conf_max+margin_loss"
    assert len(nested) == 1
    assert nested["roc_auc"].iloc[0] <= table["roc_auc"].iloc[0] + 0.05


X, Y = draw(50, np.random.default_rng(7))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RefinedFilter().fit(X, np.ones(50)), "correct must have both kinds.*only correct"),
        (lambda: RefinedFilter().fit(X, np.zeros(50)), "both kinds.*only wrong"),
        (lambda: RefinedFilter().fit(1e300 * X, Y), "signals must be small enough"),
        (lambda: SuitabilityFilter(test="fitted").fit(1e300 * X, Y), "signals must be small"),
        (lambda: RefinedFilter().fit(X, Y).decide(Y, X[:, :2]), "user_signals must have 3 columns"),
        (lambda: RefinedFilter().fit(X, Y).decide([], X), "test_correct must be .* of at least 1"),
        (lambda: RefinedFilter().fit(X, Y).decide([0.5], X), "test_correct must be booleans"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_decide_before_fit():
    with pytest.raises(RuntimeError, match="must be fitted"):
        RefinedFilter().decide([True], X)


def test_constant_signals_and_one_row():
    x = np.column_stack([X, np.full(50, 3.0)])
    fitted = RefinedFilter().fit(x, Y)
    plain = RefinedFilter().fit(X, Y)
    estimate, error = fitted.estimate(x[:1])
    assert (estimate, error) == pytest.approx(plain.estimate(X[:1]), rel=1e-8)
    assert 0 < estimate < 1
    assert error > 0.2  # one label is a coin
