"""Checks of arguments, one message each: the argument, what is allowed, what was given."""

import math
import numbers

import numpy as np
import numpy.typing as npt

__all__ = ["as_real", "require_choice", "require_finite", "require_int", "require_number"]


def as_real(name, values) -> npt.NDArray:
    """An array of real numbers, of whatever type; 0 and 1 may be booleans."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be rectangular, got rows of unequal length") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be real numbers, got {array.dtype} of shape {array.shape}")
    return array


def require_number(name, value, *, above=None, at_least=None, at_most=None, below=None) -> None:
    """A number within bounds, possibly infinite; bool and NaN are none."""
    allowed = [
        f"{text} {bound:g}"
        for text, bound in (
            ("above", above),
            ("at least", at_least),
            ("at most", at_most),
            ("below", below),
        )
        if bound is not None
    ]
    fits = (
        isinstance(value, numbers.Real)
        and not isinstance(value, bool)
        and not math.isnan(value)
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (at_most is None or value <= at_most)
        and (below is None or value < below)
    )
    if not fits:
        rule = " and ".join(allowed)
        raise ValueError(f"{name} must be a number{' ' if rule else ''}{rule}, got {value!r}")


def require_finite(name, value, **bounds) -> None:
    """A finite number within bounds."""
    require_number(name, value, **bounds)
    if math.isinf(value):
        raise ValueError(f"{name} must be finite, got {value!r}")


def require_int(name, value, *, at_least=None, at_most=None) -> None:
    """An integer (not a bool) within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    require_number(name, value, at_least=at_least, at_most=at_most)


def require_choice(name, value, choices) -> None:
    """One of a few values."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
