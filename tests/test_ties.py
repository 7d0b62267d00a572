"""Choices among numbers that differ by rounding alone."""

import numpy as np
import pandas as pd
import pytest

from lib.studies.interplay import tables as studies
from lib.ties import (
    above,
    at_least,
    bin_index,
    count_above,
    dense_ranks,
    first_largest,
    first_smallest,
    group_starts,
)

SUM = 0.1 + 0.2  # 0.30000000000000004


@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ([0.3, SUM], 0, 0),
        ([SUM, 0.3], 0, 0),
        ([-SUM, -0.3, -0.2], 2, 0),
        ([0.3, 0.3 * (1 + 1e-8)], 1, 0),
        ([0.0, 0.0], 0, 0),
        ([np.nan, 0.3, SUM, 0.1], 1, 3),
        ([1.0, np.inf, np.inf], 1, 0),
        ([-np.inf, -np.inf, 1.0], 2, 0),
        ([7], 0, 0),
    ],
)
def test_the_first_of_equals(values, largest, smallest):
    assert (first_largest(values), first_smallest(values)) == (largest, smallest)


def test_tables_of_methods_do_not_choose_by_rounding():
    table = pd.DataFrame(
        {"epsilon": [1.0] * 3, "method": ["DE", "SR", "SCTD"], "score": [SUM, 0.3, 0.4]}
    )
    assert studies.best_methods(table) == {1.0: "DE"}
    steps = pd.DataFrame({"epsilon": [8.0, 4.0, 2.0], "method": "SR", "score": [0.3, SUM, 0.5]})
    assert studies.worsening_share(steps) == 0.5


def routes(k, n, dtype=float):
    """k / n by ways that differ in the last bits."""
    k, one = np.asarray(k), dtype(1)
    steps = np.cumsum(np.r_[dtype(0), np.full(n, one / dtype(n))].astype(dtype), dtype=dtype)
    ways = [k.astype(dtype) / dtype(n), one - (n - k).astype(dtype) / dtype(n), steps[k]]
    if n > 20:  # the rounding of many terms adds up, as does that of the complement of 0.99
        ways[2] = k.astype(dtype) * (one / dtype(n))
        ways[1] = ways[1] if dtype is float else ways[0]
    return [np.clip(way, 0, 1).astype(dtype) for way in ways]


@pytest.mark.parametrize("n", [3, 7, 10, 11, 100])
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_numbers_that_differ_by_rounding_are_one_group(n, dtype):
    k = np.random.default_rng(0).integers(0, n + 1, 600)
    ways = np.choose(np.arange(600) % 3, routes(k, n, dtype))
    for values in (ways, ways.astype(float)):
        assert np.array_equal(dense_ranks(values), dense_ranks(k))
        for sign in (1, -1):
            ordered = np.sort(sign * values)
            assert len(group_starts(ordered)) == len(np.unique(k))
            assert np.array_equal(
                group_starts(ordered[::-1]), np.unique(np.sort(-sign * k), return_index=True)[1]
            )


def test_numbers_that_differ_by_more_are_not():
    for close in ([1 - 1e-8, 1 - 1e-10], [1 - 1e-12, 1.0], [1e-300, 2e-300], [1e7, 1e7 + 1]):
        assert len(group_starts(np.array(close))) == 2
    ranks = np.arange(2**22 + 1) / 2  # of 4 million rows, with averages of ties
    assert len(group_starts(ranks)) == len(group_starts(ranks.astype(np.float32))) == len(ranks)
    # Whatever is between them, infinite numbers are close to themselves alone.
    ends = [-np.inf, -np.inf, -1e308, 0.0, 5e-324, 1e308, np.inf, np.inf]
    assert group_starts(np.array(ends)).tolist() == [0, 2, 3, 4, 5, 6]
    assert group_starts(np.array([])).tolist() == []


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_a_scale_finer_than_rounding_stays_as_it_is(dtype):
    """a is close to b and b to c, and so on: which are equal, nobody can say."""
    chain = 1 - np.arange(10_000, dtype=dtype) * np.finfo(dtype).epsneg
    assert np.array_equal(group_starts(chain), np.arange(10_000))
    few = np.append(chain[:3], dtype(0.5))
    assert group_starts(few).tolist() == [0, 3]
    mixed = np.sort(np.r_[chain, chain[:50], 0.1, 0.1 + np.finfo(dtype).eps * 0.1].astype(dtype))
    assert len(group_starts(mixed)) == 10_001


def test_groups_do_not_depend_on_blocks():
    rng = np.random.default_rng(1)
    k = np.sort(rng.integers(0, 9, 2**17 + 5))
    values = np.sort(np.choose(np.arange(len(k)) % 3, routes(k, 8)))
    assert np.array_equal(group_starts(values), np.unique(k, return_index=True)[1])


@pytest.mark.parametrize("bins", [1, 7, 10, 15])
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_edges_of_bins_are_met_up_to_rounding(bins, dtype):
    k = np.arange(bins + 1)
    for values in routes(k, bins, dtype):
        for same in (values, values.astype(float)):
            assert np.array_equal(bin_index(same, bins), np.maximum(k - 1, 0))
            assert np.array_equal(bin_index(same, bins, "left"), np.minimum(k, bins - 1))
            assert all(at_least(same, j / bins).tolist() == (k >= j).tolist() for j in k)
    half = routes(k, bins)[0].astype(np.float16)
    for same in (half, half.astype(np.float32), half.astype(float)):
        assert np.array_equal(bin_index(same, bins), np.maximum(k - 1, 0))
        assert all(at_least(same, j / bins).tolist() == (k >= j).tolist() for j in k)
    inside = (k[:-1] + np.array([[1e-5], [0.5], [1 - 1e-5]])) / bins
    for closed in ("right", "left"):
        assert np.array_equal(bin_index(inside, bins, closed), np.broadcast_to(k[:-1], (3, bins)))


def test_above_is_what_is_larger_but_for_rounding():
    assert above([0.7499, 0.75, 0.7501], 0.7498).all()  # 0.75 is exact in half precision, too
    assert above([np.inf, 1e300, -np.inf], 1e6).tolist() == [True, True, False]
    rng = np.random.default_rng(0)
    votes, grid = rng.integers(0, 9, 200) / 8, np.r_[-np.inf, np.arange(10) / 8 - 1e-4, 0.1, 0.5]
    for dtype in (np.float16, np.float32, np.float64):
        values = np.r_[votes, rng.integers(0, 11, 200) / 10].astype(dtype)
        found = count_above(values, grid)
        assert found.tolist() == [int(above(values, limit).sum()) for limit in grid]
        exact = [(values.astype(float) > limit + 1e-3).sum() for limit in grid]
        close = [(np.abs(values.astype(float) - limit) <= 1e-3).sum() for limit in grid]
        assert np.all((exact <= found) & (found <= np.add(exact, close)))
    assert count_above([0.75] * 10, [0.7498]).tolist() == [10]
