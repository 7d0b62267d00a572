"""Checks of input that the modules of this package share."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "as_abstained",
    "as_choice",
    "as_integer",
    "as_matrix",
    "as_number",
    "as_rng",
    "as_scores",
    "as_vector",
]


def as_matrix(name: str, values: Any) -> npt.NDArray[np.float64]:
    """Return `values` as finite floats of shape (n, d), n and d at least 1."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers of shape (n, d), got {error}") from None
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be of shape (n, d), both at least 1, got shape {array.shape}"
        )
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{name} must be finite, got {array[row, column]} in row {row}, column {column} "
            f"({int(bad.sum())} such values)"
        )
    return array


def as_vector(name: str, values: Any, n: int | None = None) -> npt.NDArray[np.float64]:
    """Return `values` as finite floats of shape (n,)."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, got {error}") from None
    if array.ndim != 1 or len(array) == 0 or n not in (None, len(array)):
        raise ValueError(
            f"{name} must be of shape ({'n' if n is None else n},), got shape {array.shape}"
        )
    bad = ~np.isfinite(array)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{name} must be finite, got {array[row]} in row {row} ({int(bad.sum())} such values)"
        )
    return array


def as_abstained(name: str, values: Any, n: int) -> npt.NDArray[np.bool_]:
    """Return `values` as n booleans; the numbers 0 and 1 are taken for them."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name} must be of shape ({n},), one entry a row of X, got {array.shape}")
    if array.dtype == object and all(isinstance(v, bool | np.bool_) for v in array):
        array = array.astype(bool)
    if array.dtype != bool:
        if array.dtype.kind not in "fiu" or not np.isin(array, (0, 1)).all():
            raise ValueError(f"{name} must be booleans, or 0 and 1, got {array.dtype} values")
        array = array.astype(bool)
    return array


def as_scores(name: str, values: Any, abstained: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return `values` as floats, with zero where the classifier abstained: those are not read."""
    n = len(abstained)
    try:
        array = np.asarray(values)
        if array.shape != (n,):
            raise ValueError(f"shape {array.shape}")
        answered = array[~abstained].astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be numbers of shape ({n},), one entry a row of X, got {error}"
        ) from None
    bad = ~np.isfinite(answered)
    if bad.any():
        row = int(np.flatnonzero(~abstained)[np.argmax(bad)])
        raise ValueError(
            f"{name} must be finite where the classifier answered, got {array[row]} in row {row} "
            f"({int(bad.sum())} such values)"
        )
    scores = np.zeros(n)
    scores[~abstained] = answered
    return scores


def as_number(name: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float strictly between `low` and `high`."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or isinstance(value, bool) or not low < value < high:
        raise ValueError(f"{name} must be a number in ({low:g}, {high:g}), got {value!r}")
    return float(value)


def as_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an integer from `low` to `high`, both included."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        limit = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be an integer {limit}, got {value!r}")
    return int(value)


def as_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def as_rng(value: Any) -> np.random.Generator:
    """Return a generator, made from `value` if it is a seed."""
    if isinstance(value, np.random.Generator):
        return value
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < 0:
        raise ValueError(
            f"rng must be a numpy.random.Generator or a seed of at least 0, got {value!r}"
        )
    return np.random.default_rng(value)
