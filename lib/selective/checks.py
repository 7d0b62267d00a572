"""Checks of input that the modules of this package share."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "as_array",
    "as_integer",
    "as_labels",
    "as_level",
    "as_predictions",
    "as_probabilities",
    "as_scored",
    "as_scores",
    "as_unit",
]


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Return ``values`` as an array of whatever type; rows of unequal length are refused."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be rectangular, got rows of unequal length") from None


def as_integer(name: str, value: Any, low: int) -> int:
    """Return ``value`` as an integer of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
    return int(value)


def as_correct(correct: Any, name: str = "correct") -> npt.NDArray[np.bool_]:
    """Return ``correct`` as booleans of shape (n,) with n >= 1; 0 and 1 will do."""
    array = as_array(name, correct)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} must be of shape (n,) with n of at least 1, got {array.shape}")
    if array.dtype == bool:
        return array
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be booleans (or 0 and 1), got {array.dtype}")
    ones = array == 1
    if not (ones | (array == 0)).all():
        bad = array[~(ones | (array == 0))][0]
        raise ValueError(f"{name} must be booleans (or 0 and 1), got {bad}")
    return ones


def as_scores(score: Any, name: str = "score") -> npt.NDArray[np.floating]:
    """Return acceptance scores as floats of shape (n,); NaN is refused, infinity has a rank."""
    array = as_array(name, score)
    if array.dtype.kind not in "biuf" or array.ndim != 1 or not len(array):
        raise ValueError(
            f"{name} must be real numbers of shape (n,) with n of at least 1, got {array.dtype} of"
            f" shape {array.shape}"
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if np.isnan(array).any():
        bad = np.flatnonzero(np.isnan(array))
        raise ValueError(f"{name} must not be NaN, got {len(bad)} NaN, the first in row {bad[0]}")
    return array


def as_scored(
    correct: Any, score: Any, prefix: str = ""
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating]]:
    """Return both, of equal length; ``prefix`` comes before their names in messages."""
    correct, score = as_correct(correct, f"{prefix}correct"), as_scores(score, f"{prefix}score")
    if len(correct) != len(score):
        raise ValueError(
            f"{prefix}score must have one entry per entry of {prefix}correct ({len(correct)}), got"
            f" {len(score)}"
        )
    return correct, score


def as_unit(name: str, values: Any, *, open_left: bool = False) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1] (or (0, 1]) as an array of any shape."""
    array = as_array(name, values)
    allowed = "(0, 1]" if open_left else "[0, 1]"
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers in {allowed}, got {array.dtype}")
    array = array.astype(np.float64)
    low = array > 0 if open_left else array >= 0
    fits = low & (array <= 1)
    if not fits.all():
        raise ValueError(f"{name} must be in {allowed}, got {array[~fits].flat[0]}")
    return array


def as_level(name: str, level: Any) -> float:
    """Return a confidence level in (0, 1)."""
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {level!r}")
    return float(level)


def as_predictions(name: str, values: Any, dimensions: tuple[str, ...]) -> npt.NDArray[np.floating]:
    """Return finite floats of a shape with the given dimensions, all of at least 1."""
    array = as_array(name, values)
    if array.dtype.kind not in "iuf" or array.ndim != len(dimensions) or 0 in array.shape:
        raise ValueError(
            f"{name} must be real numbers of shape ({', '.join(dimensions)}), all at least 1, got"
            f" {array.dtype} of shape {array.shape}"
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if not np.isfinite(array).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[bad]} at {bad}")
    return array


def as_probabilities(
    name: str, values: Any, dimensions: tuple[str, ...] = ("n", "classes")
) -> npt.NDArray[np.floating]:
    """Return probabilities; those over the last axis sum to 1."""
    array = as_predictions(name, values, dimensions)
    if array.min() < 0 or np.abs(array.sum(axis=-1) - 1).max() > 1e-3:
        raise ValueError(
            f"{name} must be probabilities that sum to 1 over the last axis, got values from"
            f" {array.min():g} with sums from {array.sum(axis=-1).min():g} to"
            f" {array.sum(axis=-1).max():g}"
        )
    return array


def as_labels(name: str, values: Any) -> npt.NDArray[np.integer]:
    """Return predicted classes of shape (checkpoints, n), both at least 1."""
    array = as_array(name, values)
    if array.dtype.kind not in "iu" or array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be integers of shape (checkpoints, n), both at least 1, got"
            f" {array.dtype} of shape {array.shape}"
        )
    return array
