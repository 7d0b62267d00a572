"""Random divisions of data."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from lib.data.splits import as_rows, split_rows, subsample_class

LABELS = np.repeat(np.arange(5), [400, 300, 200, 90, 10])


def test_sets_are_disjoint_and_repeatable():
    a = split_rows(1000, 3, {"train": 700, "test": 200})
    assert {name: len(rows) for name, rows in a.items()} == {"train": 700, "test": 200}
    together = np.concatenate(list(a.values()))
    assert len(np.unique(together)) == 900
    assert together.min() >= 0
    assert together.max() < 1000
    b = split_rows(1000, 3, {"train": 700, "test": 200})
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert not np.array_equal(a["train"], split_rows(1000, 4, {"train": 700})["train"])


def test_every_row_is_equally_likely():
    counts = np.zeros(20)
    for seed in range(2000):
        counts[split_rows(20, seed, {"a": 5})["a"]] += 1
    assert stats.chisquare(counts).pvalue > 1e-6


def test_thinned_classes_are_nested():
    kept = [subsample_class(LABELS, 0, keep, 2) for keep in (0.5, 0.25, 0.1, 0.01)]
    for more, fewer in pairwise(kept):
        assert np.isin(fewer, more).all()
        assert np.all(np.diff(fewer) > 0)


def test_thinning_a_class():
    rows = subsample_class(LABELS, 0, 0.25, 0)
    kept = np.bincount(LABELS[rows], minlength=5)
    assert kept[1:].tolist() == [300, 200, 90, 10]
    low, high = stats.binom.ppf([1e-6, 1 - 1e-6], 400, 0.25)
    assert low <= kept[0] <= high
    sizes = [np.sum(LABELS[subsample_class(LABELS, 0, 0.25, s)] == 0) for s in range(300)]
    assert abs(np.mean(sizes) - 100) < 6 * np.sqrt(400 * 0.25 * 0.75 / 300)
    assert len(subsample_class(LABELS, 0, 1.0, 0)) == 1000
    assert len(subsample_class(LABELS, 0, 0.0, 0)) == 600


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split_rows(5, 0, {"a": 6}), "sizes must name sets of at most 5 rows"),
        (lambda: subsample_class(LABELS, 9, 0.5, 0), "class_index must be a class that occurs"),
        (lambda: subsample_class(LABELS, True, 0.5, 0), "class_index must be .*, got True"),
        (lambda: as_rows("r", [4], 4), "r must be from 0 to 3, got 4 to 4"),
        (lambda: as_rows("r", [-1, 2], 4), "r must be from 0 to 3, got -1 to 2"),
        (lambda: as_rows("r", [0.0], 4), r"r must be integers of shape \(m,\).*, got float64"),
        (lambda: as_rows("r", [True] * 4, 4), "r must be integers .*, got bool"),
        (lambda: as_rows("r", 2, 4), r"r must be integers .*, got int64 of shape \(\)"),
        (lambda: as_rows("r", [], 4, least=1), r"m at least 1, got float64 of shape \(0,\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_rows_and_classes():
    assert as_rows("r", np.array([3, 0], np.uint8), 4).tolist() == [3, 0]
    assert as_rows("r", [], 4).dtype == np.int64
