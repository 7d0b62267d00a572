"""Random divisions of data."""

from itertools import pairwise

import numpy as np
import pytest
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


@pytest.mark.parametrize("sizes", [{"a": 500, "b": 500}, {"a": 700, "b": 200}, {"a": 10, "b": 30}])
def test_strata_keep_their_shares(sizes):
    order = np.random.default_rng(0).permutation(1000)
    found = split_rows(1000, 1, sizes, LABELS[order])
    assert sum(len(np.unique(rows)) for rows in found.values()) == sum(sizes.values())
    for name, size in sizes.items():
        assert len(found[name]) == size
        got = np.bincount(LABELS[order][found[name]], minlength=5)
        share = size * np.bincount(LABELS) / 1000
        assert np.abs(got - share).max() < 1, name


def test_counts_are_shares_rounded_up_or_down():
    rng = np.random.default_rng(0)
    for seed in range(200):
        classes = rng.integers(1, 40, rng.integers(1, 8))
        n = classes.sum()
        parts = rng.multinomial(n, np.full(5, 0.2))[: rng.integers(1, 5)]
        sizes = {str(k): int(size) for k, size in enumerate(parts) if size}
        labels = rng.permutation(np.repeat(np.arange(len(classes)), classes))
        found = split_rows(int(n), seed, sizes, labels)
        assert len(np.unique(np.concatenate([*found.values()]))) == sum(sizes.values())
        for name, size in sizes.items():
            assert len(found[name]) == size
            got = np.bincount(labels[found[name]], minlength=len(classes))
            assert np.all(got >= size * classes // n)
            assert np.all(got <= -(-size * classes // n))


@pytest.mark.parametrize(
    ("classes", "size", "counts"),
    [
        ([50, 30, 20], 10, [5, 3, 2]),
        ([50, 30, 20], 9, [4, 3, 2]),  # 4.5, 2.7, 1.8: up where .8 and .7
        ([70, 20, 10], 4, [3, 1, 0]),  # 2.8, 0.8, 0.4
        ([97, 2, 1], 10, [10, 0, 0]),
        ([5], 3, [3]),
    ],
)
def test_one_set_is_rounded_by_largest_remainders(classes, size, counts):
    labels = np.repeat(np.arange(len(classes)), classes)
    rows = split_rows(len(labels), 0, {"a": size}, labels)["a"]
    assert np.bincount(labels[rows], minlength=len(classes)).tolist() == counts


def test_rows_of_a_stratum_are_equally_likely():
    labels = np.repeat([0, 1], [12, 8])
    counts = np.zeros(20)
    for seed in range(1000):
        counts[split_rows(20, seed, {"a": 5, "b": 5}, labels)["b"]] += 1
    for label in (0, 1):
        assert stats.chisquare(counts[labels == label]).pvalue > 1e-6


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
        (lambda: split_rows(5, 0, {}), "sizes must name sets"),
        (lambda: split_rows(5, 0, {"a": 0}), r"sizes\['a'\] must be an int of at least 1, got 0"),
        (lambda: split_rows(5, -1, {"a": 1}), "seed must be an int of at least 0, got -1"),
        (lambda: split_rows(5, True, {"a": 1}), "seed must be an int of at least 0, got True"),
        (lambda: split_rows(5, 0, {"a": 1}, [0, 1]), r"labels must have shape \(5,\), got \(2,\)"),
        (lambda: subsample_class(LABELS, 9, 0.5, 0), "class_index must be a class that occurs"),
        (lambda: subsample_class(LABELS, 0, 1.5, 0), r"keep must be in \[0, 1\], got 1.5"),
        (lambda: subsample_class(LABELS, 0, np.nan, 0), r"keep must be in \[0, 1\], got nan"),
        (lambda: split_rows(2, 0, {"a": 1}, [0.0, 1.0]), "labels must be integers in one"),
        (lambda: split_rows(2, 0, {"a": 1}, [0, np.nan]), "labels must be integers in one"),
        (lambda: subsample_class([[0, 1]], 0, 0.5, 0), r"labels must be .* got shape \(1, 2\)"),
        (lambda: subsample_class(LABELS, True, 0.5, 0), "class_index must be .*, got True"),
        (lambda: subsample_class(LABELS, 0, "a", 0), r"keep must be in \[0, 1\], got 'a'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
