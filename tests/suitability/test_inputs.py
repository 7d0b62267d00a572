"""Misuse of the experiment that would otherwise fail late, or not at all."""

import numpy as np
import pytest

from lib.studies.suitability.experiment import evaluate_pairs, evaluate_tasks, make_tasks
from lib.suitability import CorrectnessEstimator, welch_non_inferiority

X = np.random.default_rng(0).normal(size=(300, 3))
Y = np.random.default_rng(1).random(300) < 0.6
PARTITION = np.split(np.arange(300), 3)
TASKS = make_tasks({"a": 300}, [("a", np.arange(30), "f")], ("a",), 3)


def pairs(partition):
    return evaluate_pairs(X, Y, partition, X, Y)


def one_task(id_splits=("a",), **options):
    return make_tasks({"a": 300, "b": 9}, [("b", [0, 1], "f")], id_splits, 3, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pairs([p + 10 for p in PARTITION]), "partition must hold.*0 to 299.*10 to 309"),
        (lambda: pairs([p - 10 for p in PARTITION]), "partition must hold.*from -10 to 289"),
        (lambda: pairs([p * 1.0 for p in PARTITION]), "partition must hold.*float64"),
        (lambda: pairs([PARTITION[0], PARTITION[0]]), "partition must have disjoint"),
        (lambda: evaluate_tasks({"a": (X, Y)}, []), "tasks must have at least one"),
        (lambda: evaluate_tasks({"a": (X, Y)}, TASKS, threads=0), "threads must be.*got 0"),
        (lambda: evaluate_tasks({"b": (X, Y)}, TASKS), "splits must have a.*task f.*got b"),
        (lambda: evaluate_tasks({"a": (X[:99], Y[:99])}, TASKS), "splits must have row 299 of a"),
        (lambda: evaluate_tasks({"a": (X, Y[:9])}, TASKS), "correctness of a must be of shape"),
        (lambda: one_task("a"), "id_splits must be a sequence.*got 'a'"),
        (lambda: one_task(()), "id_splits must be a sequence"),
        (lambda: one_task(("a", "a")), "id_splits must be a sequence of distinct"),
        (lambda: one_task(shuffles_per_fold=0), "shuffles_per_fold must be.*got 0"),
        (lambda: one_task(shuffles_per_fold=1.0), "shuffles_per_fold must be.*got 1.0"),
        (lambda: welch_non_inferiority(np.nan, 0.1, 9, 0.5, 0.1, 9), "mean_test must be fin"),
        (lambda: welch_non_inferiority(0.5, 0.1, 9, [0.5, np.inf], 0.1, 9), "mean_user.*got inf"),
        (lambda: welch_non_inferiority(0.5, np.inf, 9, 0.5, 0.1, 9), "variance_test must be fin"),
        (lambda: welch_non_inferiority(0.5, 0.1, 9, 0.5, 0.1, 9, np.nan), "margin must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_predict_before_fit():
    with pytest.raises(RuntimeError, match="must be fitted before it can predict"):
        CorrectnessEstimator().predict(X)


def test_plain_lists_are_taken():
    given = evaluate_tasks({"a": (X.tolist(), Y.astype(int).tolist())}, TASKS)
    assert given.equals(evaluate_tasks({"a": (X, Y)}, TASKS))


@pytest.mark.parametrize("shuffles", [1, 2, 3])
def test_further_shuffles_move_the_stream_on(shuffles):
    """As the authors draw them: shuffle the row numbers anew for each ablation."""
    folds = [("a", np.arange(i, i + 40), str(i)) for i in (0, 100, 250)]
    tasks = make_tasks({"a": 300}, folds, ("a",), 4, 32, shuffles_per_fold=shuffles)
    legacy = np.random.RandomState(32)
    for task in tasks:
        drawn = []
        for _ in range(shuffles):
            indices = np.arange(260)
            legacy.shuffle(indices)
            drawn.append(indices)
        assert np.array_equal(np.concatenate(task.partition), drawn[0])
