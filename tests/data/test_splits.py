"""Random divisions of data."""

from itertools import pairwise

import numpy as np
from scipy import stats

from lib.data.splits import split_rows, subsample_class

LABELS = np.repeat(np.arange(5), [400, 300, 200, 90, 10])


def test_sets_are_disjoint_repeatable_and_every_row_is_equally_likely():
    counts = np.zeros(20)
    for seed in range(2000):
        found = split_rows(20, seed, {"a": 5, "b": 9})
        counts[found["a"]] += 1
        assert [len(rows) for rows in found.values()] == [5, 9]
        assert len(np.unique(np.concatenate([*found.values()]))) == 14
    assert stats.chisquare(counts).pvalue > 1e-6
    np.testing.assert_array_equal(split_rows(20, seed, {"a": 5, "b": 9})["b"], found["b"])


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
