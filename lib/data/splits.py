"""Dividing data at random, by an explicit seed.

Each function draws from a stream of its own: the same seed given to two of them gives independent
draws.  Row numbers count within what a function was given: the rows of a split of the private part
are ``private[rows]``, not ``rows``.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lib.check import as_array, as_classes, require_int, require_number


def split_rows(
    n: int, seed: int, sizes: Mapping[str, int], groups: npt.ArrayLike | None = None
) -> dict[str, npt.NDArray[np.int64]]:
    """Draw disjoint sets of rows.

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        Not negative.  The same arguments give the same sets.
    sizes : mapping of str to int
        How many rows each set gets, at least 1 each, at most `n` together.
    groups : array_like of int, shape (n,), optional
        No two sets share a group.  The group in which a set is full is left out of the next, so
        that up to a group a set is not used.

    Returns
    -------
    dict of str to ndarray of int64
        Row numbers in random order, by the names in `sizes`.
    """
    require_int("n", n, at_least=1)
    require_int("seed", seed, at_least=0)
    rng = np.random.default_rng([seed, 0x5B117])
    order = rng.permutation(n)
    sets = consecutive(order, sizes)
    if groups is None:
        return sets
    return _split_groups(rng, order, as_classes("groups", groups, n), sizes)


def consecutive(
    order: npt.NDArray[np.int64], sizes: Mapping[str, int]
) -> dict[str, npt.NDArray[np.int64]]:
    """The first rows of an order for the first name, those after them for the next, and so on."""
    if not isinstance(sizes, Mapping):
        raise ValueError(f"sizes must be a mapping of names to numbers of rows, got {sizes!r}")
    for name, size in sizes.items():
        require_int(f"sizes[{name!r}]", size, at_least=1)
    if not sizes or sum(sizes.values()) > len(order):
        raise ValueError(
            f"sizes must name sets of at most {len(order)} rows together, got {dict(sizes)}"
        )
    *ends, total = np.cumsum(list(sizes.values()))
    return dict(zip(sizes, np.split(order[:total], ends), strict=True))


def _split_groups(
    rng: np.random.Generator,
    order: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64],
    sizes: Mapping[str, int],
) -> dict[str, npt.NDArray[np.int64]]:
    _, number = np.unique(groups, return_inverse=True)
    rank = rng.permutation(number.max() + 1)[number[order]]
    order = order[np.argsort(rank, kind="stable")]
    rank, found, start = np.sort(rank), {}, 0
    for name, size in sizes.items():
        end = start + size
        if end > len(order):
            raise ValueError(
                f"sizes must leave out up to a group for each set, got {dict(sizes)} of"
                f" {len(order)} rows in {rank[-1] + 1} groups"
            )
        found[name] = rng.permutation(order[start:end])
        start = int(np.searchsorted(rank, rank[end - 1], side="right"))
    return found


def subsample_class(
    labels: npt.ArrayLike, class_index: int, keep: float, seed: int
) -> npt.NDArray[np.int64]:
    """Thin out one class, as in P1's experiments on imbalance.

    Parameters
    ----------
    labels : array_like of int, shape (n,)
        Classes.
    class_index : int
        The class; it must occur.
    keep : float
        Probability, in [0, 1], with which each of its examples is kept, independently.  All others
        are kept.
    seed : int
        Not negative.

    Returns
    -------
    ndarray of int64
        Kept rows, ascending.  With the same seed, those of a smaller `keep` are among those of a
        larger one, so that degrees of imbalance are compared on nested sets.

    References
    ----------
    Rabanser et al. 2023 (P1), appendix B.2: p_0 in {0.5, 0.25, 0.1, 0.01} for class 0.
    """
    labels = as_classes("labels", labels)
    require_int("seed", seed, at_least=0)
    if isinstance(class_index, bool) or not np.any(labels == class_index):
        raise ValueError(f"class_index must be a class that occurs in labels, got {class_index!r}")
    require_number("keep", keep, at_least=0, at_most=1)
    draws = np.random.default_rng([seed, 0x7415]).random(len(labels))
    return np.flatnonzero((labels != class_index) | (draws < keep))


def as_rows(name: str, rows: npt.ArrayLike, n: int, least: int = 0) -> npt.NDArray[np.int64]:
    """At least so many numbers of rows, from 0 to `n` - 1; a mask would be taken for others."""
    rows = as_array(name, rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu") or len(rows) < least:
        raise ValueError(
            f"{name} must be integers of shape (m,), m at least {least}, got {rows.dtype} of shape"
            f" {rows.shape}"
        )
    if rows.size and not 0 <= rows.min() <= rows.max() < n:
        raise ValueError(f"{name} must be from 0 to {n - 1}, got {rows.min()} to {rows.max()}")
    return rows.astype(np.int64)
