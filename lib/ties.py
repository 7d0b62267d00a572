"""Choices that every processor makes alike: numbers that differ by rounding alone are equal.

Processors add in other orders and round differently in the last digits; which of two equal results
is larger by 1e-16 must decide nothing.  Where numbers are ordered, binned or held against a
threshold, :func:`precision` says how far rounding reaches.
"""

import numpy as np
import numpy.typing as npt

__all__ = [
    "ROUNDING",
    "above",
    "at_least",
    "bin_index",
    "count_above",
    "dense_ranks",
    "first_largest",
    "first_smallest",
    "group_starts",
    "precision",
]

#: Within which, relative to their size, two results of the same formula are equal. The square roots
#: and inverses of this project are exact to better than a hundredth of it.
ROUNDING = 1e-9

# A few units in the last place: sums, means and complements of a few terms, 1 - 0.9 for 0.1, stay
# within them. Probabilities that differ by more than 1e-13 near 1 were told apart by the model.
_DOUBLE, _SINGLE, _HALF = 2.0**-43, 2.0**-21, 2.0**-11


def precision(values: npt.ArrayLike, *, half: bool = False) -> float:
    """How far rounding may have moved numbers, relative to their size.

    Parameters
    ----------
    values : array_like of float
        Without NaN.
    half : bool
        Whether numbers that all are those of float16 count as rounded to them: where they are held
        against others, which are not.  Among themselves they are equal or not.

    Returns
    -------
    float
        4.8e-7, four units in the last place, where all numbers are those of single precision, in
        whatever type they come (4.9e-4, half a unit, for those of half precision if asked);
        1.1e-13 for others, and for ranks and counts: numbers of which all
        are whole, or halves, are exact.

    Examples
    --------
    >>> precision([0.25, 0.1]) < 1e-12 < precision(np.float32([0.25, 0.1])) < 1e-6
    True
    >>> precision([1.0, 2.5]) < 1e-12
    True
    """
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return _DOUBLE
    array = array.ravel()
    head = array[:256]  # most arrays are told by their first numbers
    parts = (head, array) if len(array) > len(head) else (head,)
    with np.errstate(over="ignore", under="ignore"):
        if array.dtype.itemsize > 4 and not all(_are(np.float32, part) for part in parts):
            return _DOUBLE
        if all(np.array_equal(np.rint(2 * part), 2 * part) for part in parts):
            return _DOUBLE
        if half and all(_are(np.float16, part) for part in parts):
            return _HALF
    return _SINGLE


def _are(kind: type[np.floating], values: npt.NDArray) -> bool:
    """Whether numbers are numbers of a type."""
    return np.array_equal(values.astype(kind), values)


def group_starts(ordered: npt.NDArray) -> npt.NDArray[np.int64]:
    """Where groups of numbers begin that are equal up to rounding.

    Parameters
    ----------
    ordered : ndarray of float, shape (n,)
        Sorted, ascending or descending; may be infinite, not NaN.

    Returns
    -------
    ndarray of int64, shape (groups,)
        Index of the first member of each group; the first one is 0.

    Notes
    -----
    Neighbors are close if they differ by at most :func:`precision` of their size.  A run of close
    neighbors is one group if its ends are close, too.  If they are not, numbers lie so densely
    that rounding does not tell which are equal (probabilities that gather at 1 in single
    precision): then only identical ones are.

    Examples
    --------
    >>> group_starts(np.array([0.3, 0.1 + 0.2, 0.5, 0.5, np.inf])).tolist()
    [0, 2, 4]
    >>> group_starts(np.array([1 - 1e-8, 1 - 1e-10])).tolist()
    [0, 1]
    """
    new, close = _neighbours(ordered)
    if close.any():
        # Of a run of close neighbors whose ends are close, the first alone begins a group.
        steps = np.diff(np.concatenate((_NONE, close.view(np.int8), _NONE)))
        first, last = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
        one = _are_close(ordered[first], ordered[last], precision(ordered))
        inside = np.zeros(len(ordered) + 1, dtype=np.int8)
        inside[first[one] + 1] += 1
        inside[last[one] + 1] -= 1
        new &= np.cumsum(inside[:-1], dtype=np.int8) == 0
    return np.flatnonzero(new)


_NONE = np.zeros(1, dtype=np.int8)
_BLOCK = 2**15  # of numbers, which a processor keeps near


def _neighbours(ordered: npt.NDArray) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which numbers differ from the one before, and which neighbors are close or the same."""
    new, close = np.ones(len(ordered), dtype=bool), np.zeros(max(0, len(ordered) - 1), dtype=bool)
    within, found = precision(ordered), False
    for start in range(0, len(close), _BLOCK):
        part = ordered[start : start + _BLOCK + 1]
        unlike = new[start + 1 : start + len(part)]
        np.not_equal(part[1:], part[:-1], out=unlike)
        here = close[start : start + len(part) - 1]
        here[:] = _are_close(part[1:], part[:-1], within)
        found |= bool((here & unlike).any())
    return new, close if found else close[:0]


def _are_close(a: npt.NDArray, b: npt.NDArray, within: float) -> npt.NDArray[np.bool_]:
    """Equal up to rounding; infinite numbers are close to themselves alone."""
    if a.dtype.kind != "f":
        return a == b
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        apart, size = np.abs(a - b), np.maximum(np.abs(a), np.abs(b))
        return (apart <= within * size) & (apart < np.inf) | (a == b)


def dense_ranks(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Ranks from 0, the smallest first; equal up to rounding has the same, and none is left out.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        May be infinite, not NaN.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> dense_ranks([0.5, 0.3, 0.1 + 0.2]).tolist()
    [1, 0, 0]
    """
    array = np.asarray(values)
    order = np.argsort(array, kind="stable")
    begins = np.zeros(len(array), dtype=np.int64)
    if len(array):
        begins[group_starts(array[order])[1:]] = 1
    ranks = np.empty_like(begins)
    ranks[order] = np.cumsum(begins)
    return ranks


def at_least(values: npt.ArrayLike, threshold: float) -> npt.NDArray[np.bool_]:
    """Whether numbers are at least a threshold, up to rounding.

    Parameters
    ----------
    values : array_like of float
        Without NaN.
    threshold : float
        What they are held against.

    Returns
    -------
    ndarray of bool
        Of the same shape.

    Examples
    --------
    >>> at_least(np.float32([0.7, 0.6]), 0.7).tolist()
    [True, False]
    """
    array = np.asarray(values)
    # In double precision: the threshold would be rounded to the type of the numbers.
    return array.astype(float) >= threshold - precision(array, half=True) * abs(threshold)


def above(values: npt.ArrayLike, threshold: float) -> npt.NDArray[np.bool_]:
    """Whether numbers are above a threshold by more than rounding; each is judged by itself.

    Equal is what double precision cannot tell from the threshold, and what single or half
    precision makes of it, unless that has seven binary digits or less.  Other than in
    :func:`at_least`, the other numbers do not matter: one more or less changes what is said of no
    other, as privacy needs.

    Parameters
    ----------
    values : array_like of float
        Without NaN.
    threshold : float
        What they are held against.

    Returns
    -------
    ndarray of bool
        Of the same shape.

    Examples
    --------
    >>> above(np.float32([0.1, 0.2]), 0.1).tolist(), above([0.1 + 1e-9, 0.1], 0.1).tolist()
    ([False, True], [True, False])
    """
    array = np.asarray(values).astype(float)
    bar, *near = _raised(np.float64(threshold))
    return (array > bar) & ~np.isin(array, near)


def count_above(values: npt.ArrayLike, thresholds: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """How many numbers are :func:`above` each of several thresholds.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        Without NaN.
    thresholds : array_like of float, shape (m,)
        What they are held against.

    Returns
    -------
    ndarray of int64, shape (m,)

    Examples
    --------
    >>> count_above(np.float32([0.1, 0.2]), [0.0, 0.1, 0.3]).tolist()
    [2, 1, 0]
    """
    array = np.sort(np.asarray(values).astype(float))
    bar, single, half = _raised(np.asarray(thresholds, dtype=float))
    found = len(array) - np.searchsorted(array, bar, side="right")
    for near, counts in ((single, single > bar), (half, (half > bar) & (half != single))):
        places = (np.searchsorted(array, near, side=side) for side in ("left", "right"))
        first, last = places
        found -= np.where(counts, last - first, 0)
    return found.astype(np.int64)


def _raised(limits: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], ...]:
    """Thresholds, raised by rounding, and what single and half precision make of them.

    Of the latter none that have seven binary digits or less, such as 0.75: these are themselves.
    """
    bar = limits + _DOUBLE * np.where(np.isinf(limits), 0.0, np.abs(limits))
    with np.errstate(over="ignore", under="ignore"):
        near = [limits.astype(t).astype(float) for t in (np.float32, np.float16)]
    digits = [np.frexp(each)[0] * 128 for each in near]
    itself = [~np.isfinite(d) | (np.rint(d) == d) for d in digits]
    return bar, *(np.where(own, limits, each) for own, each in zip(itself, near, strict=True))


def bin_index(
    values: npt.ArrayLike, bins: int, closed: str = "right", *, within: float | None = None
) -> npt.NDArray[np.int64]:
    """The bin of equal width of numbers in [0, 1]; an edge is met if it is met up to rounding.

    Parameters
    ----------
    values : array_like of float
        In [0, 1].
    bins : int
        How many, at least 1.
    closed : {"right", "left"}
        Whether a number on an edge belongs to the bin below it or to the one above.
    within : float, optional
        How far rounding reaches, relative; as :func:`precision` says if not given.  What comes of
        numbers in single precision is no more exact than they are, though it may be none of them.

    Returns
    -------
    ndarray of int64
        From 0 to `bins` - 1, of the same shape.

    Examples
    --------
    >>> bin_index([0.0, 0.1 + 0.2, 0.3, 0.31, 1.0], 10).tolist()
    [0, 2, 2, 3, 9]
    >>> bin_index([0.0, 0.1 + 0.2, 0.3, 0.31, 1.0], 10, closed="left").tolist()
    [0, 3, 3, 3, 9]
    """
    array = np.asarray(values)
    scaled = array.astype(float) * bins
    edge = np.rint(scaled)
    within = precision(array, half=True) if within is None else within
    on = np.abs(scaled - edge) <= within * np.maximum(edge, 1)
    found = np.where(on, edge - (closed == "right"), np.floor(scaled))
    return found.clip(0, bins - 1).astype(np.int64)


def first_largest(values: npt.ArrayLike) -> int:
    """Index of the first of the values that are the largest up to rounding.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        At least one that is not NaN; NaN is never the largest.

    Returns
    -------
    int
        Of the first value at most ``ROUNDING`` times the size of the largest one below it.

    Examples
    --------
    >>> first_largest([0.1, 0.3, 0.1 + 0.2])
    1
    """
    array = np.asarray(values, dtype=float)
    best = np.nanmax(array)
    if np.isinf(best):
        return int(np.argmax(array == best))
    return int(np.argmax(array >= best - ROUNDING * abs(best)))


def first_smallest(values: npt.ArrayLike) -> int:
    """Index of the first of the values that are the smallest up to rounding.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        As for :func:`first_largest`.

    Examples
    --------
    >>> first_smallest([0.1 + 0.2, 0.3])
    0
    """
    return first_largest(-np.asarray(values, dtype=float))
