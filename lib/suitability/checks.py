"""Checks of input that the modules of this package share."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["as_array", "as_correct", "as_matrix", "as_number"]


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Return ``values`` as an array of whatever type; rows of unequal length are refused."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be rectangular, got rows of unequal length") from None


def as_matrix(name: str, values: Any) -> npt.NDArray[np.float64]:
    """Return ``values`` as finite floats of shape (n, columns) with n >= 1, columns >= 1."""
    if isinstance(values, pd.DataFrame):
        # Strings that look like numbers would be converted without a word.
        wrong = [str(c) for c, t in values.dtypes.items() if t.kind not in "fiu"]
        if wrong:
            raise ValueError(f"{name} must be real numbers, got other types in {', '.join(wrong)}")
        values = values.to_numpy(dtype=float)
    array = as_array(name, values)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be real numbers of shape (n, columns), both at least 1, got "
            f"{array.dtype} of shape {array.shape}"
        )
    array = array.astype(float, copy=False)
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{name} must be finite, got {array[row, column]} in row {row}, column {column} "
            f"({int(bad.sum())} such values)"
        )
    return array


def as_correct(name: str, values: Any, n: int) -> npt.NDArray[np.bool_]:
    """Return ``values`` as n booleans; 0 and 1 are taken for them."""
    array = as_array(name, values)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one entry per row, got {array.shape}")
    if array.dtype != bool:
        if array.dtype.kind not in "fiu" or not np.isin(array, (0, 1)).all():
            raise ValueError(f"{name} must be booleans or 0 and 1, got {array.dtype} values")
        array = array.astype(bool)
    return array


def as_number(name: str, value: Any, low: float, high: float) -> float:
    """Return ``value`` as a float strictly between ``low`` and ``high``."""
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if not is_number or isinstance(value, bool) or not low < value < high:
        raise ValueError(f"{name} must be a number in ({low:g}, {high:g}), got {value!r}")
    return float(value)
