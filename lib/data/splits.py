"""Dividing data at random, by an explicit seed."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

__all__ = ["public_private", "split_rows", "subsample_class"]


def split_rows(
    n: int, seed: int, sizes: Mapping[str, int], labels: npt.ArrayLike | None = None
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
        Stratify by these classes: every set gets its share of each class, up to rounding by the
        largest remainders.

    Returns
    -------
    dict of str to ndarray of int64
        Row numbers in random order, by the names in `sizes`.
    """
    _check_int("n", n, 1)
    _check_int("seed", seed, 0)
    for name, size in sizes.items():
        _check_int(f"sizes[{name!r}]", size, 1)
    total = sum(sizes.values())
    if not sizes or total > n:
        raise ValueError(f"sizes must name sets of at most {n} rows together, got {dict(sizes)}")
    rng = np.random.default_rng([seed, 0x5B117])
    order = rng.permutation(n)
    if labels is not None:
        labels = np.asarray(labels)
        if labels.shape != (n,):
            raise ValueError(f"labels must have shape ({n},), got {labels.shape}")
        # Class after class, sets take turns by their shares: each gets its part of every class.
        order = np.concatenate([order[labels[order] == label] for label in np.unique(labels)])
        owner = _turns(np.array([*sizes.values(), n - total]))
        return {name: rng.permutation(order[owner == k]) for k, name in enumerate(sizes)}
    ends = np.cumsum(list(sizes.values()))
    return dict(zip(sizes, np.split(order[:total], ends[:-1]), strict=True))


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
        Kept rows, ascending.

    References
    ----------
    Rabanser et al. 2023 (P1), appendix B.2: p_0 in {0.5, 0.25, 0.1, 0.01} for class 0.
    """
    labels = np.asarray(labels)
    _check_int("seed", seed, 0)
    if labels.ndim != 1 or not np.any(labels == class_index):
        raise ValueError(f"class_index must be a class that occurs in labels, got {class_index!r}")
    if isinstance(keep, bool) or not 0 <= keep <= 1:
        raise ValueError(f"keep must be in [0, 1], got {keep!r}")
    draws = np.random.default_rng([seed, 0x7415]).random(len(labels))
    return np.flatnonzero((labels != class_index) | (draws < keep))


def public_private(
    n: int, public: int, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Declare some rows public; the rest stays private.

    Whatever is fitted to data without noise - patches, whitening, normalisation - may use the
    public rows only, and these must not be trained on afterwards as if they were private.

    Returns
    -------
    public, private : ndarray of int64
        Disjoint, ascending, together all rows.
    """
    _check_int("n", n, 2)
    _check_int("public", public, 1)
    _check_int("seed", seed, 0)
    if public >= n:
        raise ValueError(f"public must be less than n = {n}, got {public}")
    order = np.random.default_rng([seed, 0x9B11C]).permutation(n)
    return np.sort(order[:public]), np.sort(order[public:])


def _turns(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Which set takes the k-th row, so that after any k each has its share up to rounding."""
    positions = [(np.arange(size) + 0.5) / size for size in sizes]
    owners = np.repeat(np.arange(len(sizes)), sizes)
    return owners[np.argsort(np.concatenate(positions), kind="stable")]


def _check_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {value!r}")
