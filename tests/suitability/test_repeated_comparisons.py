"""Comparisons over random splits, the filter with more labels, and where folds of a source lie."""

import numpy as np
import pandas as pd
import pytest

from lib.studies.suitability.comparisons import over_splits
from lib.studies.suitability.experiment import Task
from lib.studies.suitability.refined_filters import evaluate_more_data
from lib.suitability import CorrectnessEstimator, non_inferiority_test


def source(n=300, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, 1.0, (n, 12))
    return x, rng.random(n) < 1 / (1 + np.exp(-(x @ np.r_[1.5, -0.8, np.zeros(10)] + 1)))


@pytest.mark.parametrize("rows", [None, 40])
def test_splits_are_four_fifths_against_one(rows):
    x, y = source()
    seen = []

    def compare(fit_x, fit_y, test_x, test_y, *, word):
        seen.append((fit_x, fit_y, test_x, test_y))
        return pd.DataFrame({"word": [word], "rows": [len(fit_x)], "first": [test_x.index[0]]})

    table = over_splits(compare, x, y, splits=3, seed=1, rows=rows, word="a")
    assert table["rows"].tolist() == [rows or 240] * 3
    assert table["split"].tolist() == [0, 1, 2]
    rng = np.random.default_rng(1)
    assert table["first"].tolist() == [rng.permutation(300)[0] for _ in range(3)]
    assert set(table["word"]) == {"a"}
    for fit_x, fit_y, test_x, test_y in seen:
        # Rows keep their labels, and none is on both sides.
        np.testing.assert_array_equal(fit_x, x[fit_x.index])
        np.testing.assert_array_equal(fit_y, y[fit_x.index])
        np.testing.assert_array_equal(test_y, y[test_x.index])
        assert len(test_x) == 60
        assert not set(fit_x.index) & set(test_x.index)
    assert set(seen[0][2].index) != set(seen[1][2].index)


def test_more_data_fits_on_all_folds_but_one():
    splits = {"id": source(300), "user": source(120, 1, -1.0)}
    folds = tuple(np.array_split(np.random.default_rng(0).permutation(300), 3))
    task = Task("shifted", ("user", np.arange(120)), (("id", np.arange(300)),), folds)
    table = evaluate_more_data(splits, [task], margin=0.05)
    assert table["user_fold"].tolist() == ["shifted"] * 3
    assert table["test_fold"].tolist() == [0, 1, 2]
    (x, y), (user_x, user_y) = splits["id"], splits["user"]
    for j, row in table.iterrows():
        rest = np.setdiff1d(np.arange(300), folds[j])
        fitting = np.concatenate([fold for i, fold in enumerate(folds) if i != j])
        assert sorted(fitting) == sorted(rest)
        estimator = CorrectnessEstimator(seed=None).fit(x[fitting], y[fitting])
        p = [estimator.predict(part) for part in (x[folds[j]], user_x)]
        assert row["p_value"] == pytest.approx(non_inferiority_test(*p, 0.05).p_value)
        assert row["test_accuracy"] == y[folds[j]].mean()
        assert row["user_accuracy"] == user_y.mean()
        assert row["truth"] == (user_y.mean() >= y[folds[j]].mean() - 0.05)


def test_rows_of_a_split_in_a_fold():
    parts = (("a", np.array([10, 11, 12])), ("b", np.array([5, 6])))
    task = Task("u", ("c", np.arange(2)), parts, (np.array([0, 3]), np.array([1, 2, 4])))
    assert task.rows_in("a", 0).tolist() == [10]
    assert task.rows_in("b", 0).tolist() == [5]
    assert task.rows_in("a", 1).tolist() == [11, 12]
    assert task.rows_in("b", 1).tolist() == [6]
    assert task.rows_in("c", 0).tolist() == []  # what it is asked about is no part of the source
    assert task.rows_in("c", 0).dtype.kind == "i"
