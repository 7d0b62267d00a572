"""Values in a form that JSON holds, and back."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

_NOT_FINITE = ("inf", "-inf", "nan")


def encode(value: Any, name: str) -> Any:
    """A value as JSON: NumPy's scalars as Python's, tuples as lists, infinity and NaN as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [encode(item, f"{name}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{name} must have strings as keys, got {key!r}")
        return {key: encode(item, f"{name}[{key!r}]") for key, item in value.items()}
    raise TypeError(
        f"{name} must be a number, string, list or mapping of these, got {type(value).__name__}"
    )


def decode(value: Any) -> Any:
    """What :func:`encode` was given, but for tuples, which are lists now."""
    if isinstance(value, Mapping):
        if len(value) == 1 and value.get("float") in _NOT_FINITE:
            return float(value["float"])
        return {key: decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode(item) for item in value]
    return value
