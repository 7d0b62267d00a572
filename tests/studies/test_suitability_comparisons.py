"""Comparisons of estimators, signals and tests with single fits, decisions and definitions."""

import numpy as np
import pytest
from scipy import stats

from lib.studies.suitability.experiment import evaluate_tasks, make_tasks
from lib.studies.suitability.refined_filters import evaluate_refined, known_reference
from lib.suitability import CorrectnessEstimator, RefinedFilter


def source(n=300, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, 1.0, (n, 12))
    return x, rng.random(n) < 1 / (1 + np.exp(-(x @ np.r_[1.5, -0.8, np.zeros(10)] + 1)))


def task_of(x, y, user, correct, folds):
    """Splits and tasks of one source and one user fold."""
    n, m = len(y), len(correct)
    tasks = make_tasks({"s": n, "u": m}, [("u", np.arange(m), "u")], ("s",), folds)
    return {"s": (x, y), "u": (user, correct)}, tasks


def few(n, seed):
    x, y = source(n, seed)
    return x[:, :3], y


def test_known_reference_by_hand():
    (x, y), (user, correct) = few(400, 4), few(90, 5)
    splits, tasks = task_of(x, y, user, correct, 4)
    for row in known_reference(evaluate_tasks(splits, tasks), 0.02).itertuples():
        sf, test = tasks[0].partition[row.sf_fold], tasks[0].partition[row.test_fold]
        estimator = CorrectnessEstimator(seed=None).fit(x[sf], y[sf])
        t, u = estimator.predict(x[test]), estimator.predict(user)
        error = np.sqrt((u * (1 - u)).mean() / 90 + (t * (1 - t)).mean() / 200)
        z = ((t.mean() + y[test].mean()) / 2 - u.mean() - 0.02) / error
        assert row.statistic == pytest.approx(z, rel=1e-9)
        assert row.p_value == pytest.approx(stats.norm.cdf(z), rel=1e-9)
        assert row.truth == (correct.mean() >= y[test].mean() - 0.02)


def test_refined_experiment_equals_single_decisions():
    (x, y), (user, correct) = few(300, 6), few(80, 7)
    splits, tasks = task_of(x, y, user, correct, 3)
    labelled = np.concatenate(tasks[0].partition)
    fitted = RefinedFilter(0.01).fit(x[labelled][:, [0, 2]], y[labelled])
    user_accuracy, error = fitted.estimate(user[:, [0, 2]])
    for row in evaluate_refined(splits, tasks, [0, 2], 0.01).itertuples():
        test = y[tasks[0].partition[row.test_fold]]
        # By the error as estimated; decide() takes the one at a drop of the margin if larger.
        z = (test.mean() - user_accuracy - 0.01) / error
        assert row.p_value == pytest.approx(stats.norm.cdf(z), rel=1e-12)
        decision = fitted.decide(test, user[:, [0, 2]])
        assert row.estimated_user_accuracy == pytest.approx(decision.estimated_user_accuracy)
        assert min(row.p_value, 0.5) <= decision.p_value + 1e-12


@pytest.mark.parametrize("method", ["all labels", "known reference"])
def test_suitable_and_wrong_is_rarer_than_alpha(method):
    # No shift: half of all user data are worse than the test data, by chance alone. Then easier
    # user data, as a filter that never says SUITABLE would pass, too.
    wrong = said = 0
    for repetition in range(150):
        (x, y), (user, correct) = few(600, [3, repetition]), few(300, [4, repetition])
        if repetition >= 120:
            user, correct = (
                part[:, :3] if part.ndim > 1 else part
                for part in source(300, [4, repetition], np.r_[0.5, np.zeros(11)])
            )
        splits, tasks = task_of(x, y, user, correct, 2)
        if method == "all labels":
            rows = evaluate_refined(splits, tasks, [0, 1, 2])
        else:
            rows = known_reference(evaluate_tasks(splits, tasks))
        first = rows.iloc[0]
        wrong += first["p_value"] <= 0.05 and not first["truth"]
        said += first["p_value"] <= 0.05 and repetition >= 120
    assert wrong <= stats.binom.isf(1e-4, 150, 0.05)
    assert said > 20
