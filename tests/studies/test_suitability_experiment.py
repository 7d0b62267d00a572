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
from lib.studies.suitability.authors import authors_tasks
from lib.studies.suitability.data import Study, wilds_study
from lib.studies.suitability.experiment import (
    decision_metrics,
    evaluate_pairs,
    is_suitable,
    make_tasks,
    share_suitable,
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


@pytest.mark.parametrize("margin", [0.0, -0.05])
def test_pairs_equal_fitting_each_pair_separately(margin):
    x, correct = source()
    user, user_correct = source(150, seed=1, shift=-0.2)
    partition = np.split(np.random.default_rng(2).permutation(900), 5)
    rows = evaluate_pairs(x, correct, partition, user, user_correct, margin)
    pairs = zip(rows["sf_fold"], rows["test_fold"], strict=True)
    assert set(pairs) == set(itertools.permutations(range(5), 2))
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


def test_tasks_follow_the_authors():
    """An independent account of evals_fmow.ipynb on a small layout."""
    sizes = {"id_val": 40, "id_test": 50, "test": 30}
    folds = [("id_val", [3, 1, 7], "a"), ("id_test", list(range(10, 30)), "b"), ("test", [0], "c")]
    tasks = make_tasks(sizes, folds, ("id_val", "id_test"), n_folds=4)
    np_random = np.random.RandomState(32)
    everything = {name: [(name, i) for i in range(n)] for name, n in sizes.items()}
    for task, (split, rows, label) in zip(tasks, folds, strict=True):
        own = [e for e in everything[split] if e[1] not in rows]
        pool = {
            "id_val": own + everything["id_test"],
            "id_test": own + everything["id_val"],
            "test": everything["id_val"] + everything["id_test"],
        }[split]
        indices = np.arange(len(pool))
        np_random.shuffle(indices)
        size = len(pool) // 4
        expected = [[pool[i] for i in indices[k * size : (k + 1) * size]] for k in range(4)]
        flat = [(name, int(i)) for name, part in task.source for i in part]
        assert [[flat[i] for i in fold] for fold in task.partition] == expected
        assert task.label == label
        assert (task.user[0], list(task.user[1])) == (split, list(rows))


@pytest.mark.parametrize(
    ("p", "truth", "accuracy", "fpr", "roc_auc", "pr_auc"),
    [
        # Pairs (suitable, unsuitable) that p puts in order: 3 + 2 + 2 of 9.  Precision at the ranks
        # of the three suitable ones: 1/1, 2/3, 3/4.
        ([0.01, 0.05, 0.2, 0.6, 0.04, 0.9], [1, 1, 1, 0, 0, 0], 4 / 6, 1 / 3, 7 / 9, 29 / 36),
        # 1 - 1e-20 and 1 - 1e-17 are equal, and yet in order; and ties.
        ([1e-20, 1e-17, 0.5, 0.5], [1, 0, 1, 0], 0.5, 0.5, 2.5 / 4, 0.75),
        ([0.01, 0.2], [1, 1], 0.5, np.nan, np.nan, np.nan),
        ([0.01, 0.2], [0, 0], 0.5, 0.5, np.nan, np.nan),
    ],
)
def test_metrics_by_hand(p, truth, accuracy, fpr, roc_auc, pr_auc):
    found = decision_metrics(p, np.array(truth, bool), 0.05)
    wanted = {"accuracy": accuracy, "fpr": fpr, "roc_auc": roc_auc, "pr_auc": pr_auc}
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, nan_ok=True)


def test_buckets_of_accuracy_difference():
    difference = np.array([-0.03, -0.0300001, -0.0299999, 0.0, 0.0099, 0.01, 0.03, -0.07])
    p = [0.01, 0.9, 0.01, 0.05, 0.0500001, 0.2, 0.01, 0.9]
    rows = pd.DataFrame({"user_accuracy": 0.5 + difference, "test_accuracy": 0.5, "p_value": p})
    table = share_suitable(rows, 0.05)
    found = table[["experiments", "suitable"]].set_axis(table["low"].round(2)).T.to_dict("list")
    assert found == {
        -0.07: [1, 0], -0.04: [1, 0], -0.03: [2, 2], 0.0: [2, 1], 0.01: [1, 0], 0.03: [1, 1],
    }  # fmt: skip
    np.testing.assert_allclose(table["high"] - table["low"], 0.01)


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


def test_the_authors_shuffle_once_for_each_number_of_folds():
    """An account of the notebook of December 2024: seed, user folds, numbers of folds."""
    folds = {"ID": [("id", np.array([1, 2]), "a"), ("id", np.array([5]), "b")], "OOD": []}
    splits = {"id": (np.zeros((31, 1)), np.ones(31, dtype=bool))}
    study = Study("made", 0, splits, ("id",), folds)
    tasks = authors_tasks(study, "ID", folds=(5, 3))
    stream, wanted = np.random.RandomState(32), []
    for left in (29, 30):
        for n in (5, 3):
            order = np.arange(left)
            stream.shuffle(order)
            size = left // n
            wanted.append([order[i * size : (i + 1) * size].tolist() for i in range(n)])
    assert [[part.tolist() for part in task.partition] for task in tasks] == wanted
    assert [task.label for task in tasks] == ["a", "a", "b", "b"]
    # The last notebook goes on out of distribution where it ended in it.
    folds["OOD"] = [("ood", np.arange(4), "c")]
    splits["ood"] = (np.zeros((4, 1)), np.ones(4, dtype=bool))
    (last,) = authors_tasks(study, "OOD", folds=(5,), once=True)
    stream = np.random.RandomState(32)
    for left in (29, 30, 31):
        order = np.arange(left)
        stream.shuffle(order)
    assert np.concatenate(last.partition).tolist() == order[:30].tolist()
    assert last.label == "c"
    # That of January 2025 goes on with the next model where it ended with the one before.
    second = authors_tasks(study, "ID", folds=(5,), models=1)
    stream = np.random.RandomState(32)
    for left in (29, 30, 29, 30):
        order = np.arange(left)
        stream.shuffle(order)
    assert [task.label for task in second] == ["a", "b"]
    assert np.concatenate(second[-1].partition).tolist() == order.tolist()
    # With 15 folds alone they are those of every other page.
    alone = authors_tasks(study, "ID", folds=(5,))
    usual = study.tasks("ID", 5, 32)
    for one, other in zip(alone, usual, strict=True):
        assert all(map(np.array_equal, one.partition, other.partition))


@needs_data
def test_unsuitable_experiments_are_as_many_as_the_authors_count():
    """181,585 over 23 sets of signals: what their notebook prints for the first model, OOD."""
    study = wilds_study("fmow", 0)
    sizes = {"unsuitable": 0, "suitable": 0}
    for task in authors_tasks(study, "OOD"):
        correct = task.take_source(study.splits)[1]
        accuracy = np.array([correct[fold].mean() for fold in task.partition])
        suitable = is_suitable(accuracy, task.take_user(study.splits)[1].mean(), 0.0)
        others = len(accuracy) - 1  # each fold is tested by the estimators of all others
        sizes["suitable"] += int(suitable.sum()) * others
        sizes["unsuitable"] += int((~suitable).sum()) * others
    assert sizes == {"unsuitable": 181_585 // 23, "suitable": 39_215 // 23}
