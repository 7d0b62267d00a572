"""Dividing data at random, by an explicit seed.

Each function draws from a stream of its own: the same seed given to two of them gives independent
draws.  Row numbers count within what a function was given: the rows of a split of the private part
are ``private[rows]``, not ``rows``.
"""

from collections.abc import Mapping
from numbers import Real

import numpy as np
import numpy.typing as npt

__all__ = ["split_rows", "subsample_class"]


def split_rows(
    n: int,
    seed: int,
    sizes: Mapping[str, int],
    labels: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
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
    labels : array_like of int, shape (n,), optional
        Stratify by these classes: every set gets its share of each class, rounded up or down, up
        where the remainders are largest.
    groups : array_like of int, shape (n,), optional
        No two sets share a group.  The group in which a set is full is left out of the next, so
        that up to a group a set is not used.  Not together with `labels`.

    Returns
    -------
    dict of str to ndarray of int64
        Row numbers in random order, by the names in `sizes`.

    Notes
    -----
    With several sets, rounding each by itself may leave too few or too many of a class.  The
    counts are the integral solution of the transport problem that rounds up where the sum of the
    remainders is largest; such a solution exists for every table.  For one set it
    is the method of largest remainders.
    """
    _check_int("n", n, 1)
    _check_int("seed", seed, 0)
    if not isinstance(sizes, Mapping):
        raise ValueError(f"sizes must be a mapping of names to numbers of rows, got {sizes!r}")
    for name, size in sizes.items():
        _check_int(f"sizes[{name!r}]", size, 1)
    total = sum(sizes.values())
    if not sizes or total > n:
        raise ValueError(f"sizes must name sets of at most {n} rows together, got {dict(sizes)}")
    rng = np.random.default_rng([seed, 0x5B117])
    order = rng.permutation(n)
    if groups is not None:
        return _split_groups(rng, order, _classes(groups, "groups"), sizes)
    if labels is not None:
        labels = _classes(labels)
        if labels.shape != (n,):
            raise ValueError(f"labels must have shape ({n},), got {labels.shape}")
        members = [order[labels[order] == label] for label in np.unique(labels)]
        counts = _counts(np.array([*sizes.values(), n - total]), np.array([*map(len, members)]))
        ends = counts.cumsum(axis=0)[:-1]
        parts = [np.split(rows, end) for rows, end in zip(members, ends.T, strict=True)]
        found = [np.concatenate(part) for part in zip(*parts, strict=True)]
        return {name: rng.permutation(rows) for name, rows in zip(sizes, found, strict=False)}
    ends = np.cumsum(list(sizes.values()))
    return dict(zip(sizes, np.split(order[:total], ends[:-1]), strict=True))


def _split_groups(
    rng: np.random.Generator,
    order: npt.NDArray[np.int64],
    groups: npt.NDArray[np.int64],
    sizes: Mapping[str, int],
) -> dict[str, npt.NDArray[np.int64]]:
    if groups.shape != order.shape:
        raise ValueError(f"groups must have shape ({len(order)},), got {groups.shape}")
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
    labels = _classes(labels)
    _check_int("seed", seed, 0)
    if isinstance(class_index, bool) or not np.any(labels == class_index):
        raise ValueError(f"class_index must be a class that occurs in labels, got {class_index!r}")
    if isinstance(keep, bool) or not isinstance(keep, Real) or not 0 <= keep <= 1:
        raise ValueError(f"keep must be in [0, 1], got {keep!r}")
    draws = np.random.default_rng([seed, 0x7415]).random(len(labels))
    return np.flatnonzero((labels != class_index) | (draws < keep))


def _counts(sizes: npt.NDArray[np.int64], classes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many of each class each set gets; the sums are `sizes` and `classes`."""
    from scipy import optimize  # here, as importing it takes a quarter of a second

    products = np.outer(sizes, classes)
    down, remainder = np.divmod(products, classes.sum())
    n_sets, n_classes = products.shape
    sums = np.vstack(
        [np.kron(np.eye(n_sets), np.ones(n_classes)), np.kron(np.ones(n_sets), np.eye(n_classes))]
    )
    missing = np.concatenate([sizes - down.sum(axis=1), classes - down.sum(axis=0)])
    # The matrix of a transport problem is totally unimodular: a vertex is integral.
    solved = optimize.linprog(
        -remainder.ravel() / classes.sum(),
        A_eq=sums,
        b_eq=missing,
        bounds=[(0, int(part > 0)) for part in remainder.ravel()],
        method="highs-ds",
    )
    return down + np.rint(solved.x).astype(np.int64).reshape(down.shape)


def _classes(labels: npt.ArrayLike, name: str = "labels") -> npt.NDArray[np.int64]:
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"{name} must be integers in one dimension, got shape {labels.shape} of {labels.dtype}"
        )
    return labels


def _check_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {value!r}")
