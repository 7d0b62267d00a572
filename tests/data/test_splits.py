"""Random divisions of data."""

from itertools import pairwise

import numpy as np
from scipy import stats

from lib.data.splits import split_rows, subsample_class

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
