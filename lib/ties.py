"""Choices that every processor makes alike: numbers that differ by rounding alone are equal.

Processors add in other orders and round differently in the last digits; which of two equal results
is larger by 1e-16 must decide nothing.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["ROUNDING", "first_largest", "first_smallest"]

#: Within which, relative to their size, two results of the same formula are equal. The square roots
#: and inverses of this project are exact to better than a hundredth of it.
ROUNDING = 1e-9


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
