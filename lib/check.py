"""Checks of arguments, one message each: the argument, what is allowed, what was given."""

import math
import numbers
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = [
    "Columns",
    "as_answers",
    "as_array",
    "as_classes",
    "as_flags",
    "as_generator",
    "as_integer",
    "as_labels",
    "as_matrix",
    "as_names",
    "as_number",
    "as_predictions",
    "as_probabilities",
    "as_range",
    "as_real",
    "as_scored",
    "as_scores",
    "as_unit",
    "as_vector",
    "check_delta",
    "columns_of",
    "matched",
    "require_choice",
    "require_finite",
    "require_int",
    "require_number",
    "same_rows",
]

# --------------------------------------------------------------------------------------- arrays


def as_array(name: str, values: Any) -> npt.NDArray[Any]:
    """An array of whatever type: also of a tensor, or of what pandas keeps with missing values.

    Missing numbers become NaN, and missing words None, which the callers' own checks name; rows of
    unequal length and hidden (masked) values are refused.  Tables in a list must have one index,
    and columns of the same names, which are matched.
    """
    if _holds_parts(values):
        values = _stacked(name, values)
    if isinstance(values, np.ma.MaskedArray) and (hidden := int(np.ma.getmaskarray(values).sum())):
        raise ValueError(
            f"{name} must not have masked values, got {hidden}; leave out their rows everywhere"
        )
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # a tensor of PyTorch, on any device
        values = _of_tensor(name, values.detach().cpu())
    if isinstance(values, pd.DataFrame):
        values = _of_frame(name, values)
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, pd.api.extensions.ExtensionDtype):
        return _of_pandas(values, dtype)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be rectangular, got rows of unequal length") from None
    return _unboxed(array) if array.dtype == object else array


_PLAIN = {
    **{"integer": np.int64, "boolean": bool},
    **dict.fromkeys(("floating", "integer-na", "mixed-integer-float"), float),
}


def _unboxed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers or booleans that came as objects, such as those of pandas, if all are alike.

    Others stay objects: words, whole numbers beyond 64 bits, and what is of several kinds.
    """
    kind = pd.api.types.infer_dtype(array.ravel(), skipna=False)
    try:
        return array.astype(_PLAIN[kind]) if kind in _PLAIN else array
    except (OverflowError, TypeError, ValueError):
        return array


_PARTS = (pd.Series, pd.DataFrame, pd.api.extensions.ExtensionArray, np.ma.MaskedArray)


def _holds_parts(values: Any) -> bool:
    """Whether it is a list that holds, at any depth, what NumPy would strip of names or mask."""
    if not isinstance(values, list | tuple):
        return False
    kinds = set(map(type, values))
    if any(issubclass(kind, _PARTS) or hasattr(kind, "detach") for kind in kinds):
        return True
    return not kinds.isdisjoint((list, tuple)) and any(map(_holds_parts, values))


def _stacked(name: str, values: Sequence[Any]) -> npt.NDArray[Any]:
    """The parts of a list as one array, each read by itself."""
    same_rows(**{name: values})
    first = next((part for part in values if isinstance(part, pd.DataFrame)), None)
    parts = []
    for i, part in enumerate(values):
        if isinstance(part, pd.DataFrame):
            part = matched(f"{name}[{i}]", part, columns_of(name, first))
        parts.append(as_array(f"{name}[{i}]", part))
    if len({part.shape for part in parts}) > 1:
        raise ValueError(f"{name} must be rectangular, got parts of unequal shape")
    return np.stack(parts)


def _of_frame(name: str, frame: pd.DataFrame) -> Any:
    """Columns of different types, or that may miss values, one by one."""
    plain = all(isinstance(t, np.dtype) and t.kind != "O" for t in frame.dtypes)
    if not frame.shape[1] or (plain and len({t.kind == "b" for t in frame.dtypes}) == 1):
        return frame.to_numpy()
    columns = [as_array(name, frame.iloc[:, place]) for place in range(frame.shape[1])]
    if all(column.dtype.kind in "biuf" for column in columns):
        return np.stack(columns, axis=1)
    return frame.to_numpy(dtype=object, na_value=None)


def _of_tensor(name: str, tensor: Any) -> npt.NDArray[Any]:
    """NumPy has no bfloat16, nor the floats of 8 bits; single precision holds them exactly."""
    try:
        return tensor.numpy()
    except TypeError:
        pass
    try:
        return tensor.float().numpy()
    except (TypeError, RuntimeError, NotImplementedError):
        raise ValueError(f"{name} must be a dense tensor of numbers, got {tensor.dtype}") from None


def _of_pandas(values: Any, dtype: Any) -> npt.NDArray[Any]:
    """Plain arrays of categories, words and nullable numbers."""
    if isinstance(dtype, pd.CategoricalDtype):
        array = np.asarray(values)
        return _unboxed(array) if array.dtype == object else array
    missing = bool(pd.isna(values).any())
    if dtype.kind in "iuf":
        if missing:
            return values.to_numpy(dtype=float, na_value=np.nan)
        plain = getattr(dtype, "numpy_dtype", None)
        return np.asarray(values if plain is None else values.to_numpy(dtype=plain))
    if dtype.kind == "b" and not missing:
        return values.to_numpy(dtype=bool)
    return _unboxed(values.to_numpy(dtype=object, na_value=None))


def same_rows(**given: Any) -> None:
    """Refuse objects of pandas whose rows have different names: those are matched by no one here.

    Arrays and lists have no names of rows and are taken in their order; what lists hold is
    compared with what others hold.
    """
    seen: dict[int, tuple[str, pd.Index]] = {}
    for depth, name, index in (part for item in given.items() for part in _indexes(*item)):
        first, reference = seen.setdefault(depth, (name, index))
        if len(index) == len(reference) and not index.equals(reference):
            raise ValueError(
                f"{name} must have the index of {first}, in the same order, got another; align "
                f"them with {name}.loc[{first}.index], or give arrays (.to_numpy()) in one order"
            )


def _indexes(name: str, values: Any, depth: int = 0) -> Iterator[tuple[int, str, pd.Index]]:
    """Names of rows of what pandas holds, by how many lists it is in."""
    if isinstance(values, pd.Series | pd.DataFrame):
        yield depth, name, values.index
    elif _holds_parts(values):
        for i, part in enumerate(values):
            yield from _indexes(f"{name}[{i}]", part, depth + 1)


#: Of a fit: the names of its data frame's columns, or the number of an array's.
Columns = list[Any] | int


def columns_of(name: str, table: Any) -> Columns:
    """What later tables are matched with: the names of a data frame's columns, or their number."""
    if not isinstance(table, pd.DataFrame):
        shape = as_array(name, table).shape
        if len(shape) != 2:
            raise ValueError(f"{name} must have shape (n, columns), got shape {shape}")
        return shape[1]
    if not table.columns.is_unique:
        twice = list(table.columns[table.columns.duplicated()].unique())
        raise ValueError(f"{name} must have distinct column names, got {twice} more than once")
    return list(table.columns)


def matched(name: str, table: Any, columns: Columns) -> Any:
    """The table with the columns of a fit, in their order: by name, where the fit had names.

    What cannot be matched is refused: other, missing or repeated names, a data frame where the fit
    had no names, and an array where it had some.
    """
    if isinstance(table, pd.DataFrame):
        given = columns_of(name, table)
        if isinstance(columns, int):
            raise ValueError(
                f"{name} must be an array, as at fit, got a data frame, whose names have nothing "
                f"to be matched with; fit to a data frame, or give {name}.to_numpy() if its "
                "columns are in the order of the fit"
            )
        if set(given) != set(columns):
            raise ValueError(
                f"{name} must have the columns {', '.join(map(str, columns))}, got "
                f"{', '.join(map(str, given))}"
            )
        return table.reindex(columns=columns)  # names may be booleans, which would choose rows
    shape = as_array(name, table).shape
    count = columns if isinstance(columns, int) else len(columns)
    if len(shape) == 2 and shape[1] != count:
        raise ValueError(f"{name} must have {count} columns, as at fit, got {shape[1]}")
    if len(shape) == 2 and not isinstance(columns, int):
        raise ValueError(
            f"{name} must be a data frame with the columns of the fit "
            f"({', '.join(map(str, columns))}), got an array without names; give "
            f"pandas.DataFrame({name}, columns=...) with the names of its columns"
        )
    return table


def as_real(name: str, values: Any) -> npt.NDArray[Any]:
    """An array of real numbers, of whatever type; 0 and 1 may be booleans."""
    array = as_array(name, values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be real numbers, got {array.dtype} of shape {array.shape}")
    return array


def as_matrix(name: str, values: Any) -> npt.NDArray[np.float64]:
    """Finite floats of shape (n, columns), both at least 1; booleans are 0 and 1."""
    if isinstance(values, pd.DataFrame):
        kinds = {c: as_array(name, values[[c]]).dtype.kind for c in values.columns.unique()}
        if wrong := [str(column) for column, kind in kinds.items() if kind not in "biuf"]:
            raise ValueError(f"{name} must be real numbers, got other types in {', '.join(wrong)}")
    array = as_array(name, values)
    if array.dtype.kind not in "biuf" or array.ndim != 2 or 0 in array.shape:
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


def as_vector(name: str, values: Any, n: int | None = None) -> npt.NDArray[np.float64]:
    """Finite floats of shape (n,)."""
    array = as_array(name, values)
    try:
        if array.dtype.kind in "cUS":
            raise TypeError(f"{array.dtype} values")
        array = array.astype(float, copy=False)
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


def as_flags(name: str, values: Any, n: int | None = None) -> npt.NDArray[np.bool_]:
    """Booleans of shape (n,), at least one if n is not given; 0 and 1 are taken for them."""
    array = as_array(name, values)
    if n is not None and array.shape != (n,):
        raise ValueError(f"{name} must be of shape ({n},), one entry per row, got {array.shape}")
    if array.ndim != 1 or (n is None and not len(array)):
        raise ValueError(f"{name} must be of shape (n,) with n of at least 1, got {array.shape}")
    if array.dtype == object and all(isinstance(v, bool | np.bool_) for v in array):
        array = array.astype(bool)
    if array.dtype == bool:
        return array
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be booleans, or 0 and 1, got {array.dtype} values")
    ones = array == 1
    if not (ones | (array == 0)).all():
        bad = array[~(ones | (array == 0))][0]
        raise ValueError(f"{name} must be booleans, or 0 and 1, got {bad}")
    return ones


def as_scores(name: str, values: Any) -> npt.NDArray[np.floating]:
    """Acceptance scores as floats of shape (n,); NaN is refused, infinity has a rank."""
    array = as_array(name, values)
    if array.dtype.kind not in "biuf" or array.ndim != 1 or not len(array):
        raise ValueError(
            f"{name} must be real numbers of shape (n,) with n of at least 1, got {array.dtype} of"
            f" shape {array.shape}"
        )
    array = _floating(array)
    if np.isnan(array).any():
        bad = np.flatnonzero(np.isnan(array))
        raise ValueError(f"{name} must not be NaN, got {len(bad)} NaN, the first in row {bad[0]}")
    return array


def as_scored(
    correct: Any, score: Any, prefix: str = ""
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating]]:
    """Both, of equal length; `prefix` comes before their names in messages."""
    same_rows(**{f"{prefix}correct": correct, f"{prefix}score": score})
    correct, score = as_flags(f"{prefix}correct", correct), as_scores(f"{prefix}score", score)
    if len(correct) != len(score):
        raise ValueError(
            f"{prefix}score must have one entry per entry of {prefix}correct ({len(correct)}), got"
            f" {len(score)}"
        )
    return correct, score


def as_answers(name: str, values: Any, abstained: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Floats, with zero where the classifier abstained: those are not read."""
    n = len(abstained)
    try:
        array = as_array(name, values)
        if array.shape != (n,):
            raise ValueError(f"shape {array.shape}")
        answered = array[~abstained].astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be numbers of shape ({n},), one for each entry of abstained, got {error}"
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


def as_unit(name: str, values: Any, *, open_left: bool = False) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1] (or (0, 1]) as an array of any shape."""
    array = as_array(name, values)
    allowed = "(0, 1]" if open_left else "[0, 1]"
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers in {allowed}, got {array.dtype}")
    array = array.astype(np.float64)
    fits = ((array > 0) if open_left else (array >= 0)) & (array <= 1)
    if not fits.all():
        raise ValueError(f"{name} must be in {allowed}, got {array[~fits].flat[0]}")
    return array


def as_predictions(name: str, values: Any, dimensions: tuple[str, ...]) -> npt.NDArray[np.floating]:
    """Finite floats of a shape with the given dimensions, all at least 1; booleans are 0 and 1."""
    array = as_array(name, values)
    if array.dtype.kind not in "biuf" or array.ndim != len(dimensions) or 0 in array.shape:
        raise ValueError(
            f"{name} must be real numbers of shape ({', '.join(dimensions)}), all at least 1, got"
            f" {array.dtype} of shape {array.shape}"
        )
    array = _floating(array)
    if not np.isfinite(array).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[bad]} at {bad}")
    return array


def as_probabilities(
    name: str, values: Any, dimensions: tuple[str, ...] = ("n", "classes"), *, binary: bool = False
) -> npt.NDArray[np.floating]:
    """Probabilities; those over the last axis sum to 1.

    If `binary`, those of class 1 of two, of shape (n,), are taken, too, and one class is not.

    Sums may be off by 0.001, which covers single precision, whatever the number of classes, and
    numbers that were written with a few digits.  Half precision (float16 and bfloat16, also where
    they were cast up: all numbers are numbers of those types) rounds each by at most 2^-9 of its
    size, or by 2^-25 where it is tiny.  Their sums may be off by 2^-8 + classes 2^-25.
    """
    if binary:
        values = as_array(name, values)
        if values.ndim == 1:
            ones = as_unit(name, as_vector(name, values))
            return np.column_stack([1.0 - ones, ones])
        if values.ndim != 2 or values.shape[1] < 2:
            raise ValueError(
                f"{name} must be of shape (n, C), C at least 2, or (n,), got shape {values.shape}"
            )
    array = as_predictions(name, values, dimensions)
    sums = array.sum(axis=-1, dtype=float)
    least, low, high = (float(end) for end in (array.min(), sums.min(), sums.max()))
    off = max(1 - low, high - 1)
    if least < 0 or off > 1e-3:
        half = least >= 0 and off <= 2.0**-8 + array.shape[-1] * 2.0**-25
        if not half or not _in_half_precision(array):
            raise ValueError(
                f"{name} must be probabilities that sum to 1 over the last axis, got values from"
                f" {least:g} with sums from {low:g} to {high:g}; {_remedy(least, low, high)}"
            )
    return array


def _remedy(least: float, low: float, high: float) -> str:
    """What makes probabilities of numbers that are none."""
    if least < 0:
        return "take the softmax of logits, or the exponential of log-probabilities"
    if low >= 99 and high <= 101:
        return "divide percentages by 100"
    return "divide each row by its sum, or take the softmax if these are logits"


def _in_half_precision(array: npt.NDArray[np.floating]) -> bool:
    """Whether all numbers are numbers of float16, or all are of bfloat16."""
    with np.errstate(over="ignore", under="ignore"):
        single = np.ascontiguousarray(array, dtype=np.float32)
        if not np.array_equal(single, array):
            return False
        return not (single.view(np.uint32) & 0xFFFF).any() or np.array_equal(
            single.astype(np.float16), single
        )


def as_labels(name: str, values: Any) -> npt.NDArray[np.integer]:
    """Predicted classes of shape (checkpoints, n), both at least 1."""
    array = _whole(as_array(name, values))
    if array.dtype.kind not in "iu" or array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be integers of shape (checkpoints, n), both at least 1, got"
            f" {array.dtype} of shape {array.shape}"
        )
    return array


def as_classes(
    name: str, values: Any, n: int | None = None, classes: int | None = None
) -> npt.NDArray[np.integer]:
    """Integers, one for each of `n` rows, from 0 to `classes` - 1, if these are given.

    Booleans are the classes 0 and 1; floats are taken if all are whole.
    """
    array = _whole(as_array(name, values))
    if array.dtype.kind not in "iu" or array.shape != (array.size if n is None else n,):
        raise ValueError(
            f"{name} must be integers of shape ({'n' if n is None else n},), got {array.dtype} of"
            f" shape {array.shape}"
        )
    if classes is not None and array.size and not 0 <= array.min() <= array.max() < classes:
        raise ValueError(
            f"{name} must be from 0 to {classes - 1}, got {array.min()} to {array.max()}"
        )
    return array


def as_names(name: str, values: Any, n: int) -> npt.NDArray[Any]:
    """Names of classes or groups, one for each of `n` rows: words, integers or booleans.

    Floats are taken if all are whole; missing names are refused.
    """
    if isinstance(values, list | tuple):  # an array of them would make words of all
        values = np.array([*values, None], dtype=object)[:-1]
    array = _whole(as_array(name, values), booleans=False)
    # Words of pandas stay objects: an array of words has room for the longest in every row.
    named = array.dtype.kind in "biuUS" or (
        array.dtype == object and pd.api.types.infer_dtype(array, skipna=False) == "string"
    )
    if array.shape != (n,) or not named:
        missing = int(pd.isna(array).sum()) if array.dtype.kind in "Of" and array.ndim == 1 else 0
        raise ValueError(
            f"{name} must be integers or strings of shape ({n},), one for each row, got"
            f" {array.dtype} of shape {array.shape}" + f" with {missing} missing" * bool(missing)
        )
    return array


def _whole(array: npt.NDArray[Any], booleans: bool = True) -> npt.NDArray[Any]:
    """Integers of booleans, if asked, and of floats if all are whole (as pandas makes of them)."""
    if array.dtype.kind == "b" and booleans:
        return array.astype(np.int64)
    if array.dtype.kind == "f" and array.size and (abs(array) < 2**53).all():
        whole = array.astype(np.int64)
        return whole if np.array_equal(whole, array) else array
    return array


def _floating(array: npt.NDArray[Any]) -> npt.NDArray[np.floating]:
    """Single precision stays what it is."""
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


# -------------------------------------------------------------------------------------- numbers


def require_number(name, value, *, above=None, at_least=None, at_most=None, below=None) -> None:
    """A number within bounds, possibly infinite; bool and NaN are none."""
    bounds = {"above": above, "at least": at_least, "at most": at_most, "below": below}
    allowed = [f"{text} {bound:g}" for text, bound in bounds.items() if bound is not None]
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


def as_integer(name: str, value: Any, low: int = 1, high: int | None = None) -> int:
    """An integer from `low` to `high`, both included."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        limit = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be an integer {limit}, got {value!r}")
    return int(value)


def as_number(name: str, value: Any, low: float, high: float) -> float:
    """A float strictly between `low` and `high`."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not low < float(value) < high:  # a fraction may round to an end
        raise ValueError(f"{name} must be a number in ({low:g}, {high:g}), got {value!r}")
    return float(value)


def as_range(name: str, values: Any) -> tuple[float, float]:
    """Two finite numbers, the second larger than the first."""
    try:
        low, high = (as_number(name, end, -math.inf, math.inf) for end in values)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise ValueError(f"{name} must be two finite numbers, the larger last, got {values!r}")
    return low, high


def check_delta(delta: float) -> float:
    """A number in [0, 1), also as a float."""
    is_number = isinstance(delta, numbers.Real) and not isinstance(delta, bool)
    if not is_number or not 0 <= delta < 1 or float(delta) == 1:  # a fraction may round to 1
        raise ValueError(f"delta must be in [0, 1), got {delta!r}")
    return float(delta)


# ------------------------------------------------------------------------- choices, chance


def require_choice(name: str, value: Any, choices: Sequence[Any]) -> Any:
    """One of a few values; NumPy's scalars are what they hold."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not any(
        value is choice or (type(plain) is type(choice) and plain == choice) for choice in choices
    ):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return plain


def as_generator(value: Any, name: str = "seed") -> np.random.Generator:
    """The generator itself, or the one of a seed: an integer of at least 0, or several of them."""
    if isinstance(value, np.random.Generator):
        return value
    parts = value if isinstance(value, list | tuple) and len(value) else [value]
    if any(isinstance(v, bool) or not isinstance(v, int | np.integer) or v < 0 for v in parts):
        raise ValueError(
            f"{name} must be an integer of at least 0 (or several) or a Generator, got {value!r}"
        )
    return np.random.default_rng(value)
