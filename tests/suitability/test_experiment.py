import itertools
import os

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib import suitability
from lib.studies.suitability.data import digits_study, run_study, wilds_study
from lib.studies.suitability.experiment import (
    decision_metrics,
    evaluate_pairs,
    evaluate_tasks,
    make_tasks,
    mean_and_sd,
    metrics_table,
    middle_and_range,
    share_suitable,
    summarise_folds,
)
from lib.suitability import SuitabilityFilter, make_estimator

needs_data = pytest.mark.skipif(
    not os.environ.get("COMPANION_DATA"),
    reason="COMPANION_DATA is not set: the authors' signals are not on this machine",
)
MIRRORED = ("fmow", "rxrx1")  # CivilComments' signals are not


def source(n=900, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, 1.0, (n, 3))
    return x, rng.random(n) < 1 / (1 + np.exp(-(x @ [1.0, 0.5, 0.0] + 0.5)))


def separately(x, correct, partition, user, margin, i, j):
    """One experiment as the paper describes it, nothing shared."""
    authors = make_estimator("logistic", seed=None)  # whose splits are in the order of the rows
    fitted = SuitabilityFilter(margin, estimator=authors)
    fitted.fit(x[partition[i]], correct[partition[i]])
    return fitted.decide(x[partition[j]], user)


@pytest.mark.parametrize("margin", [0.0, 0.02, -0.05])
def test_pairs_equal_fitting_each_pair_separately(margin):
    x, correct = source()
    user, user_correct = source(150, seed=1, shift=-0.2)
    partition = np.split(np.random.default_rng(2).permutation(900), 6)
    rows = evaluate_pairs(x, correct, partition, user, user_correct, margin)
    assert len(rows) == 30
    assert set(zip(rows["sf_fold"], rows["test_fold"], strict=True)) == set(
        itertools.permutations(range(6), 2)
    )
    for row in rows.itertuples():
        one = separately(x, correct, partition, user, margin, row.sf_fold, row.test_fold)
        assert row.p_value == pytest.approx(one.p_value, abs=1e-9)
        assert row.statistic == pytest.approx(one.statistic, rel=1e-8)
        assert row.dof == pytest.approx(one.dof, rel=1e-8)
        assert row.estimated_user_accuracy == pytest.approx(one.estimated_user_accuracy, abs=1e-12)
        assert row.estimated_test_accuracy == pytest.approx(one.estimated_test_accuracy, abs=1e-12)
        assert row.test_accuracy == correct[partition[row.test_fold]].mean()
        assert row.user_accuracy == user_correct.mean()
        assert row.truth == (user_correct.mean() >= row.test_accuracy - margin)


def test_truth_is_not_decided_by_rounding():
    """0.8 - 0.1 is more than 0.7 in binary arithmetic."""
    x, _ = source(200)
    correct = np.tile([True] * 8 + [False] * 2, 20)
    user_correct = np.arange(100) % 10 < 7
    partition = np.split(np.arange(200), 2)
    for margin, truth in ((0.1, True), (0.1 - 1e-6, False), (0.0, False)):
        rows = evaluate_pairs(x, correct, partition, x[:100], user_correct, margin)
        assert (rows["truth"] == truth).all()


@pytest.mark.parametrize("size", [500, 3000])
def test_signals_that_say_nothing_decide_nothing(size):
    _, correct = source(3 * size)
    x = np.full((3 * size, 2), 0.1)
    partition = np.split(np.arange(3 * size), 3)
    rows = evaluate_pairs(x, correct, partition, x[: size // 3], correct[: size // 3])
    assert (rows["p_value"] == 0.5).all()


def test_folds_that_would_be_too_small():
    with pytest.raises(ValueError, match="n_folds must be at most 4 for x, got 5"):
        make_tasks({"a": 10}, [("a", [0], "x")], ("a",), 5)


def test_tasks_follow_the_authors():
    """An independent account of evals_fmow.ipynb on a small layout."""
    sizes = {"id_val": 40, "id_test": 50, "test": 30}
    folds = [
        ("id_val", [3, 1, 7], "a"),
        ("id_test", list(range(10, 30)), "b"),
        ("test", [0, 2], "c"),
    ]
    tasks = make_tasks(sizes, folds, ("id_val", "id_test"), n_folds=4)
    np_random = np.random.RandomState(32)
    everything = {name: [(name, i) for i in range(n)] for name, n in sizes.items()}
    for task, (split, rows, label) in zip(tasks, folds, strict=True):
        own = [e for e in everything[split] if e[1] not in rows]
        if split == "id_val":
            pool = own + everything["id_test"]
        elif split == "id_test":
            pool = own + everything["id_val"]
        else:
            pool = everything["id_val"] + everything["id_test"]
        order = list(range(len(pool)))
        indices = np.arange(len(pool))
        np_random.shuffle(indices)
        order = [pool[i] for i in indices]
        size = len(pool) // 4
        expected = [order[k * size : (k + 1) * size] for k in range(4)]
        flat = [(name, int(i)) for name, part in task.source for i in part]
        assert [[flat[i] for i in fold] for fold in task.partition] == expected
        assert task.label == label
        assert (task.user[0], list(task.user[1])) == (split, list(rows))
        assert not {(split, r) for r in rows} & set(flat)


def test_results_do_not_depend_on_other_tasks():
    splits = {"id": source(), "ood": source(200, 1, -0.3)}
    folds = [
        ("id", np.arange(60), "first"),
        ("ood", np.arange(200), "all"),
        ("ood", [1, 2, 5], "f"),
    ]
    tasks = make_tasks({"id": 900, "ood": 200}, folds, ("id",), n_folds=5)
    one = evaluate_tasks(splits, tasks)
    assert list(one["user_fold"].unique()) == ["first", "all", "f"]
    alone = evaluate_tasks(splits, tasks[1:2])
    pd.testing.assert_frame_equal(
        alone, one[one["user_fold"] == "all"].reset_index(drop=True), check_exact=True
    )


def test_metrics_by_hand():
    p = [0.01, 0.05, 0.2, 0.6, 0.04, 0.9]
    truth = [True, True, True, False, False, False]
    m = decision_metrics(p, truth, 0.05)
    assert m["accuracy"] == pytest.approx(4 / 6)
    assert m["fpr"] == pytest.approx(1 / 3)
    # Pairs (suitable, unsuitable) that p puts in order: 3 + 2 + 2 of 9.
    assert m["roc_auc"] == pytest.approx(7 / 9)
    # Precision at the ranks of the three suitable ones: 1/1, 2/3, 3/4.
    assert m["pr_auc"] == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


def test_areas_with_ties_and_tiny_p():
    """1 - 1e-20 and 1 - 1e-17 are equal, and yet in order."""
    m = decision_metrics([1e-20, 1e-17, 0.5, 0.5], [True, False, True, False])
    assert m["roc_auc"] == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert m["pr_auc"] == pytest.approx((1 + 2 / 4) / 2)


def test_metrics_that_are_not_defined_are_nan():
    all_suitable = decision_metrics([0.01, 0.2], [True, True])
    assert np.isnan([all_suitable["fpr"], all_suitable["roc_auc"], all_suitable["pr_auc"]]).all()
    assert all_suitable["accuracy"] == 0.5
    none = decision_metrics([0.01, 0.2], [False, False])
    assert none["fpr"] == 0.5
    assert np.isnan(none["roc_auc"])


def test_table_of_metrics():
    rows = pd.DataFrame(
        {
            "kind": ["b", "b", "a", "a"],
            "seed": [0, 0, 0, 0],
            "p_value": [0.01, 0.9, 0.01, 0.9],
            "truth": [True, False, False, True],
        }
    )
    table = metrics_table(rows, ["kind", "seed"])
    assert list(table["kind"]) == ["b", "a"]
    assert list(table["accuracy"]) == [1.0, 0.0]
    assert list(table["suitable"]) == [1, 1]
    assert list(table["unsuitable"]) == [1, 1]
    np.testing.assert_array_equal(table["fpr"], [0.0, 1.0])
    # The truth as numbers, and a group without a name.
    numbers = rows.assign(truth=rows["truth"].astype(int), kind=["b", "b", None, None])
    again = metrics_table(numbers, ["kind", "seed"])
    pd.testing.assert_frame_equal(again.drop(columns="kind"), table.drop(columns="kind"))
    assert list(table["experiments"]) == [2, 2]


def test_summary_of_folds():
    rows = pd.DataFrame(
        {
            "seed": [0, 0, 0, 1],
            "user_fold": ["a", "a", "b", "a"],
            "user_accuracy": [0.5, 0.5, 0.9, 0.4],
            "test_accuracy": [0.6, 0.4, 0.8, 0.6],
            "p_value": [0.01, 0.01, 0.9, 0.05],
            "truth": [False, True, True, False],
        }
    )
    table = summarise_folds(rows)
    assert list(zip(table["seed"], table["user_fold"], strict=True)) == [
        (0, "a"),
        (0, "b"),
        (1, "a"),
    ]
    np.testing.assert_allclose(table["difference"], [0.0, 0.1, -0.2], atol=1e-12)
    assert list(table["share"]) == [1.0, 0.0, 1.0]
    assert list(table["false_positives"]) == [1, 0, 1]
    assert list(table["experiments"]) == [2, 1, 1]


def test_text_of_tables():
    mean = pd.DataFrame({"fpr": [0.12345, 0.5]})
    sd = pd.DataFrame({"fpr": [0.01, np.nan]})
    text = mean_and_sd(mean, sd)
    assert list(text["FPR"]) == ["0.123\u00a0±\u00a00.010", "0.500"]
    text = middle_and_range(mean - 0.1, mean, mean + 0.1)
    assert text["FPR"][1] == "0.500 (0.400\u00a0to\u00a00.600)"


def test_buckets_of_accuracy_difference():
    difference = [-0.03, -0.0300001, -0.0299999, 0.0, 0.0099, 0.01, 0.03, -0.07]
    rows = pd.DataFrame(
        {
            "user_accuracy": 0.5 + np.array(difference),
            "test_accuracy": 0.5,
            "p_value": [0.01, 0.9, 0.01, 0.05, 0.0500001, 0.2, 0.01, 0.9],
        }
    )
    table = share_suitable(rows, 0.05)
    lows = dict(
        zip(
            table["low"].round(2),
            zip(table["experiments"], table["suitable"], strict=True),
            strict=True,
        )
    )
    assert lows == {
        -0.07: (1, 0), -0.04: (1, 0), -0.03: (2, 2), 0.0: (2, 1), 0.01: (1, 0), 0.03: (1, 1),
    }  # fmt: skip
    assert table["experiments"].sum() == len(rows)
    np.testing.assert_allclose(table["high"] - table["low"], 0.01)


# ------------------------------------------------------------------ studies


def test_digits_study_is_reproducible_and_honest():
    one, two = digits_study(3), digits_study(3)
    for name, (x, correct) in one.splits.items():
        np.testing.assert_array_equal(x, two.splits[name][0])
        np.testing.assert_array_equal(correct, two.splits[name][1])
    accuracy = {name: correct.mean() for name, (_, correct) in one.splits.items()}
    assert 0.8 < accuracy["source"] < 0.97
    assert accuracy["rotation 16"] < accuracy["unshifted"] - 0.1
    rows = run_study(one, 5, 32)
    assert len(rows) == (10 + 13) * 5 * 4
    assert set(rows["kind"]) == {"ID", "OOD"}


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("dataset", MIRRORED)
def test_real_pairs_equal_fitting_each_pair_separately(dataset):
    study = wilds_study(dataset, 1)
    rng = np.random.default_rng(0)
    for kind in ("ID", "OOD"):
        tasks = study.tasks(kind, 15, 32)
        for task in (tasks[0], tasks[-1]):
            x, correct, user, user_correct = study.data(task)
            rows = evaluate_pairs(x, correct, task.partition, user, user_correct)
            for row in rows.sample(8, random_state=int(rng.integers(1000))).itertuples():
                one = separately(x, correct, task.partition, user, 0.0, row.sf_fold, row.test_fold)
                assert row.p_value == pytest.approx(one.p_value, abs=1e-9)


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("dataset", MIRRORED)
def test_estimates_on_real_signals_are_those_of_scikit_learn(dataset):
    study = wilds_study(dataset, 0)
    task = study.tasks("OOD", 15, 32)[0]
    x, correct, user, _ = study.data(task)
    rows = task.partition[0]
    ours = suitability.CorrectnessEstimator(seed=None).fit(x[rows], correct[rows]).predict(user)
    for options, tolerance in (
        ({"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 10_000}, 1e-7),
        ({"max_iter": 1000}, 0.01),  # the paper's, which stops early
    ):
        base = LogisticRegression(**options)
        theirs = make_pipeline(StandardScaler(), CalibratedClassifierCV(base, cv=5))
        theirs.fit(x[rows], correct[rows])
        np.testing.assert_allclose(ours, theirs.predict_proba(user)[:, 1], atol=tolerance)


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("dataset", MIRRORED)
def test_the_grid_has_as_many_tests_as_the_papers(dataset):
    """36,540 of both data sets and three models each: every ordered pair of 15 folds."""
    users = {"fmow": {"ID": 16, "OOD": 30}, "rxrx1": {"ID": 4, "OOD": 8}}
    study = wilds_study(dataset, 0)
    for kind, count in users[dataset].items():
        tasks = study.tasks(kind, 15, 32)
        assert len(tasks) == count
        assert {len(task.partition) for task in tasks} == {15}
    assert 3 * 15 * 14 * sum(n for each in users.values() for n in each.values()) == 36_540
