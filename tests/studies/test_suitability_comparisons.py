"""Comparisons of estimators, signals and tests with single fits, decisions and definitions."""

from dataclasses import asdict
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.runs import run_all
from lib.studies.suitability.comparisons import compare_estimators, compare_signals, over_splits
from lib.studies.suitability.data import Study
from lib.studies.suitability.experiment import Task, evaluate_tasks, make_tasks
from lib.studies.suitability.refined_filters import (
    DomainRuns,
    choose_signals,
    domain,
    evaluate_more_data,
    evaluate_refined,
    known_reference,
    leave_domain_out,
)
from lib.suitability import (
    SIGNAL_NAMES,
    CorrectnessEstimator,
    RefinedFilter,
    calibration_errors,
    make_estimator,
    non_inferiority_test,
)


def source(n=300, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, 1.0, (n, 12))
    return x, rng.random(n) < 1 / (1 + np.exp(-(x @ np.r_[1.5, -0.8, np.zeros(10)] + 1)))


@pytest.mark.parametrize("rows", [None, 40])
def test_splits_are_four_fifths_against_one(rows):
    x, y = source()
    seen = []

    def compare(*parts, word):
        seen.append(parts)
        return pd.DataFrame({"word": [word], "rows": [len(parts[0])]})

    table = over_splits(compare, x, y, splits=3, seed=1, rows=rows, word="a")
    assert table["rows"].tolist() == [rows or 240] * 3
    assert table["split"].tolist() == [0, 1, 2]
    assert set(table["word"]) == {"a"}
    rng = np.random.default_rng(1)
    for fit_x, fit_y, test_x, test_y in seen:
        # Rows keep their labels, and none is on both sides.
        assert test_x.index.tolist() == rng.permutation(300)[:60].tolist()
        assert not set(fit_x.index) & set(test_x.index)
        for part_x, part_y in ((fit_x, fit_y), (test_x, test_y)):
            np.testing.assert_array_equal(part_x, x[part_x.index])
            np.testing.assert_array_equal(part_y, y[part_x.index])


def test_more_data_fits_on_all_folds_but_one():
    (x, y), (user, user_y) = source(300), source(120, 1, -1.0)
    folds = tuple(np.array_split(np.random.default_rng(0).permutation(300), 3))
    task = Task("shifted", ("user", np.arange(120)), (("id", np.arange(300)),), folds)
    table = evaluate_more_data({"id": (x, y), "user": (user, user_y)}, [task], margin=0.05)
    assert table["test_fold"].tolist() == [0, 1, 2]
    for j, row in table.iterrows():
        fitting = np.concatenate([fold for i, fold in enumerate(folds) if i != j])
        estimator = CorrectnessEstimator(seed=None).fit(x[fitting], y[fitting])
        p = [estimator.predict(part) for part in (x[folds[j]], user)]
        assert row["p_value"] == pytest.approx(non_inferiority_test(*p, 0.05).p_value)
        assert row["test_accuracy"] == y[folds[j]].mean()
        assert row["truth"] == (user_y.mean() >= y[folds[j]].mean() - 0.05)


def test_rows_of_a_split_in_a_fold():
    parts = (("a", np.array([10, 11, 12])), ("b", np.array([5, 6])))
    task = Task("u", ("c", np.arange(2)), parts, (np.array([0, 3]), np.array([1, 2, 4])))
    # What it is asked about, c, is no part of the source.
    for split, rows in (("a", [[10], [11, 12]]), ("b", [[5], [6]]), ("c", [[], []])):
        assert [task.rows_in(split, fold).tolist() for fold in (0, 1)] == rows


def test_a_comparison_is_what_its_estimators_say():
    (x, y), (test, test_y) = source(), source(500, 1)
    kinds = ["svm", "decision-tree"], ["none", "platt"]
    found = compare_estimators(pd.DataFrame(x), y, pd.DataFrame(test), test_y, *kinds)
    for row, (name, calibration) in zip(found.itertuples(), product(*kinds), strict=True):
        assert (row.estimator, row.calibration) == (name, calibration)
        fitted = make_estimator(name, calibration, seed=None).fit(x, y)
        p = fitted.predict_proba(test)[:, 1]
        errors = asdict(calibration_errors(p, test_y, 15))
        assert {name: getattr(row, name) for name in errors} == pytest.approx(errors)
        assert row.brier == pytest.approx(np.mean((p - test_y) ** 2))
        assert row.estimated_accuracy == pytest.approx(p.mean())
        assert row.true_accuracy == test_y.mean()


def test_signals_one_by_one():
    (x, y), (test, test_y) = source(1000), source(2000, 1)
    tables = [pd.DataFrame(z, columns=SIGNAL_NAMES) for z in (x, test)]
    found = compare_signals(tables[0], y, tables[1], test_y)
    assert list(found["signals"]) == ["all", *SIGNAL_NAMES]
    brier = found["brier"]
    assert brier[0] < brier[1] < brier[2] < brier[3:].min()
    p = CorrectnessEstimator(seed=None).fit(x[:, :1], y).predict(test[:, :1])
    assert found["ece"][1] == calibration_errors(p, test_y).ece


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
    for repetition in range(230):
        (x, y), (user, correct) = few(600, [3, repetition]), few(300, [4, repetition])
        if repetition >= 200:
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
        said += first["p_value"] <= 0.05 and repetition >= 200
    assert wrong <= stats.binom.isf(1e-4, 230, 0.05)
    assert said > 20


def test_a_domain_left_out_is_in_no_source():
    names, regions = ("id_a", "id_b"), np.arange(240) % 3
    folds = [
        (name, np.flatnonzero(regions == k), f"{name} · region {k}")
        for name in names
        for k in range(3)
    ]
    made = Study("made up", 0, {name: few(240, 6) for name in names}, names, {"ID": folds})
    tasks = leave_domain_out(made, 5, 0)
    assert [task.label for task in tasks] == [label for _, _, label in folds]
    for task in tasks:
        k = int(domain(task.label).removeprefix("region "))
        for _, rows in task.source:
            assert sorted(rows) == np.flatnonzero(regions != k).tolist()
        flat = np.concatenate(task.partition)
        assert len(set(flat)) == len(flat) == 320


def test_choice_takes_the_larger_area(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    candidates = (("conf_max", "margin_loss"), ("logit_std",))
    jobs = [DomainRuns("digits", "ERM", seed, candidates, 4) for seed in (0, 1)]
    for job in jobs:  # one at a time: in this process
        run_all([job])
    table, nested = choose_signals(jobs)
    assert table["roc_auc"].is_monotonic_decreasing
    # Confidence tells what is right, the spread of all logits of a linear model hardly.
    assert table["signals"].tolist() == ["conf_max+margin_loss", "logit_std"]
    assert len(nested) == 1
    assert nested["roc_auc"].iloc[0] <= table["roc_auc"].iloc[0] + 0.05
