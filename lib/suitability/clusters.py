"""Rows that are not independent: the variances of clusters, and rows that are repeated."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.bounds import few_vary
from lib.check import as_array

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
#: A variance and its degrees of freedom.
Part = tuple[float, float]

#: Clusters, or rows, of a sample below which the level is only that of large samples.
FEW_ROWS = 30
_BLOCK = 2**16  # rows whose products are held at once


def as_clusters(name: str, values: Any, n: int) -> Codes | None:
    """Number of the cluster of each of n rows, from 0; None if none are given."""
    if values is None:
        return None
    array = as_array(name, values)
    if array.shape != (n,):
        raise ValueError(f"{name} must be of shape ({n},), one entry per row, got {array.shape}")
    try:
        codes, names = pd.factorize(array)
    except TypeError as error:
        raise ValueError(f"{name} must be names or numbers, got {error}") from None
    if (codes < 0).any():
        raise ValueError(
            f"{name} must have no missing entries, got {int((codes < 0).sum())}, the first in row "
            f"{int(np.argmax(codes < 0))}; a row that belongs to no other is a cluster of its own"
        )
    if len(names) < 2:
        raise ValueError(f"{name} must have at least 2 different ones, got only {names[0]}")
    return codes.astype(np.int64)


def mean_part(values: Array, clusters: Codes | None) -> Part:
    """Variance of the mean, and its degrees of freedom.

    With clusters by the jackknife that leaves out one at a time, which counts their sizes.
    """
    n, mean = len(values), values.mean()
    if clusters is None:
        return float(values.var(ddof=1)) / n, n - 1.0
    size = np.bincount(clusters)
    moved = np.bincount(clusters, values - mean) / (n - size)
    return float((len(size) - 1) / len(size) * (moved**2).sum()), len(size) - 1.0


def few_clusters(name: str, values: Array, clusters: Codes) -> tuple[str, ...]:
    """Note that a mean's clusters are too few for its jackknife, or that few of them carry it.

    Where large clusters differ from small ones, those that happened not to be drawn count most.
    """
    size = np.bincount(clusters).astype(float)
    alike = float(size.sum() ** 2 / (size**2).sum())
    if alike >= FEW_ROWS and not few_vary(np.bincount(clusters, values - values.mean()))[0]:
        return ()
    return (
        f"{name} has {len(size)} clusters, which weigh as {alike:.0f} of one size would: too few, "
        "or too few that its mean depends on, for the level; data that are not suitable then pass "
        "more often than alpha says, most often if large clusters differ from small ones",
    )


def largest_part(spread: Array, clusters: Codes | None) -> float:
    """Variance of the mean of numbers of these variances, in clusters the largest that can be.

    It is reached where all of a cluster are off together.
    """
    if clusters is None:
        return float(spread.mean()) / len(spread)
    sums = np.bincount(clusters, np.sqrt(spread))
    return float((sums**2).sum()) / len(spread) ** 2


def total(parts: Sequence[Part]) -> Part:
    """Variance of a sum of independent parts, and Satterthwaite's degrees of freedom."""
    variance = sum(part for part, _ in parts)
    if not variance:
        return 0.0, np.nan
    # In fractions of the variance, so that tiny ones do not underflow when squared.
    rest = sum((part / variance) ** 2 / dof for part, dof in parts)
    return variance, 1 / rest if rest else np.inf


def inflation(
    design: Array, residual: Array, weight: Array, hessian: Array, clusters: Codes, g: Array
) -> float:
    """How much larger clusters make the variance of g' theta than the model says, at least 1.

    theta minimizes a penalized loss with this Hessian, of rows with these residuals and weights.
    The variance is that of the jackknife that leaves out one cluster at a time, by one Newton step
    each (CR3): with few clusters it errs on the large side.
    """
    order = np.argsort(clusters, kind="stable")
    starts = np.searchsorted(clusters[order], np.arange(clusters.max() + 1))
    ends = np.append(starts[1:], len(order))
    score = np.add.reduceat(design[order] * residual[order, None], starts)
    squares, first = 0.0, 0
    while first < len(starts):
        # Whole clusters, at least one.
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + _BLOCK, side="right")))
        x = design[order[starts[first] : ends[last - 1]]]
        w = weight[order[starts[first] : ends[last - 1]]]
        own = np.add.reduceat(
            w[:, None, None] * x[:, :, None] * x[:, None, :], starts[first:last] - starts[first]
        )
        moved = np.linalg.solve(hessian - own, score[first:last, :, None])[:, :, 0]
        squares += float(((moved @ g) ** 2).sum())
        first = last
    of_model = float(g @ np.linalg.solve(hessian, g))
    count = len(starts)
    return max(1.0, (count - 1) / count * squares / of_model) if of_model else 1.0


def repeated_rows(tables: dict[str, Array], clusters: dict[str, Any]) -> tuple[str, ...]:
    """Name the tables that hold the same rows again and again though no clusters are given.

    Rows of few possible values are equal by chance; those are found in other tables too.
    """

    @functools.cache
    def rows(name: str) -> Array:
        table = pd.DataFrame(tables[name] + 0.0)
        return np.unique(pd.util.hash_pandas_object(table, index=False).to_numpy())

    notes = []
    for name, table in tables.items():
        n = len(table)
        # One column of many values is enough for many rows to be different.
        if clusters.get(name) is not None or 2 * len(np.unique(table[:, 0])) > n:
            continue
        own, others = rows(name), [rows(other) for other in tables if other != name]
        if 2 * len(own) <= n and np.isin(own, np.concatenate(others)).mean() < 0.5:
            notes.append(
                f"{name} has {n} rows, of which only {len(own)} are different: rows that belong "
                "together are not independent, and the level rests on that; give their clusters"
            )
    return tuple(notes)
