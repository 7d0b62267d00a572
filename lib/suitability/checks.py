"""Checks of input that the modules of this package share."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = [
    "as_array",
    "as_correct",
    "as_count",
    "as_matrix",
    "as_names",
    "as_number",
    "check_columns",
    "check_generator",
]


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


def as_count(name: str, value: Any, low: int = 1) -> int:
    """Return ``value`` as an integer of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
    return int(value)


def as_names(name: str, values: Any, known: Iterable[Any], low: int = 1) -> list[Any]:
    """Return ``values`` as a list of at least ``low`` entries, all of them among ``known``."""
    known = list(known)
    listed = None if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if listed is None or len(listed) < low or any(value not in known for value in listed):
        few = f"at least {low} " if low else ""
        raise ValueError(f"{name} must be a sequence of {few}of {_listed(known)}, got {values!r}")
    return listed


def check_generator(rng: Any) -> None:
    """Refuse anything but a numpy Generator."""
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng must be a numpy.random.Generator, got {rng!r}")


def check_columns(
    name: str, table: Any, numbers: Sequence[str], others: Sequence[str] = ()
) -> None:
    """Refuse anything but a data frame that has rows, finite ``numbers`` and the ``others``."""
    if not isinstance(table, pd.DataFrame):
        raise ValueError(f"{name} must be a pandas.DataFrame, got {type(table).__name__}")
    if missing := [c for c in (*numbers, *others) if c not in table.columns]:
        raise ValueError(
            f"{name} must have the columns {', '.join((*numbers, *others))}, got none called "
            f"{', '.join(missing)}"
        )
    if len(table) == 0:
        raise ValueError(f"{name} must have at least one row, got none")
    for column in numbers:
        if table[column].dtype.kind not in "fiu" or not np.isfinite(table[column]).all():
            raise ValueError(
                f"{name} must have finite numbers in {column}, got {table[column].dtype} values"
                + (", some NaN or infinite" if table[column].dtype.kind == "f" else "")
            )


def _listed(names: list[Any]) -> str:
    """Names for a message, a long list cut."""
    return ", ".join(map(str, names[:25])) + (", ..." if len(names) > 25 else "")
