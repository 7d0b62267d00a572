"""What leaves a question as it is leaves its answer as it is: order, names, containers, units.

The functions, each with an example, are in rowwise.py.  A test goes through all cases of a row and
names those that fail.
"""

import functools
import inspect
import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from rowwise import KIND, NAMED, ROWS

from lib import audit, counterfactual, privacy, selective, suitability
from lib.suitability import SIGNAL_NAMES

WHOLE = [row for row in ROWS if not row.only]
NAMES = [row for row in ROWS if row.only in ("", "names")]

#: Take numbers, or arrays that are no rows; or follow from the row of another method.
WITHOUT = re.compile(
    r"audit\.(Attack\.score|EpsilonPosterior\..*|PrivacyRegion\..*|epsilon_\w+|error_free_bound"
    r"|one_run_(epsilon|p_value))|counterfactual\.\w+(Classifier|Regressor)\.(predict_proba|score)"
    r"|privacy\.(TradeOff\.fnr|budget_table)|suitability\.Multicalibrator\.predict"
)


def with_rows():
    """Public functions and methods with an argument of a known name, or of arrays."""
    for package in (audit, counterfactual, privacy, selective, suitability):
        for own in package.__all__:
            value, name = getattr(package, own), f"{package.__name__.removeprefix('lib.')}.{own}"
            named = {name: value} if inspect.isfunction(value) else {}
            if inspect.isclass(value):
                functions = inspect.getmembers(value, inspect.isfunction)
                named = {f"{name}.{m}": f for m, f in functions if m[0] != "_" and m != "fit"}
            for full, function in named.items():
                given = inspect.signature(function).parameters
                arrays = any("ArrayLike" in str(p.annotation) for p in given.values())
                if arrays or set(given) & set(KIND):
                    yield full


def test_every_public_function_that_takes_rows_has_a_row():
    rows = {row.name for row in ROWS}
    assert sorted(n for n in set(with_rows()) - rows if not WITHOUT.fullmatch(n)) == []


def parts(result, path=""):
    """All arrays and scalars within a result, by where they are."""
    if isinstance(result, pd.DataFrame):
        result = dict(result)
    if hasattr(result, "__dataclass_fields__"):
        result = {name: getattr(result, name) for name in result.__dataclass_fields__}
    if isinstance(result, list | tuple):
        names = getattr(result, "_fields", range(len(result)))
        result = dict(zip(names, result, strict=True))
    if isinstance(result, dict):
        for name, value in result.items():
            yield from parts(value, f"{path}.{name}")
    else:
        yield path, np.asarray(result)


def close(one, other, rtol):
    if one.shape != other.shape or "f" not in one.dtype.kind + other.dtype.kind:
        return one.shape == other.shape and bool((one == other).all())
    one, other = one.astype(float), other.astype(float)
    size = np.abs(one[np.isfinite(one)]).max(initial=0.0)
    return np.allclose(one, other, rtol=rtol, atol=1e-3 * rtol * size, equal_nan=True)


@functools.cache
def expected(row):
    return dict(parts(row.call(**row.given)))


def difference(row, given, *, order=None, rtol=1e-9):
    """Where the answer differs from that to the example, in words; rows may be in an order."""
    try:
        found = dict(parts(row.call(**{**row.given, **given})))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    wanted = expected(row)
    if wanted.keys() != found.keys():
        return f"parts {sorted(wanted.keys() ^ found.keys())}"
    for path, value in wanted.items():
        marks = [] if order is None else [m.partition("@") for m in row.per_row]
        axes = [int(axis or 0) for m, _, axis in marks if m == "*" or path.startswith(f".{m}")]
        value = np.take(value, order, axis=axes[0]) if axes and value.ndim else value
        if path.split(".")[-1] not in row.but and not close(value, found[path], rtol):
            return f"{path} is {found[path]} instead of {value}"[:400]
    return ""


def assert_same(row, cases, **more):
    """The same answer to all cases, by their names."""
    failed = {name: difference(row, given, **more) for name, given in cases}
    failed = [f"{name}: {text}" for name, text in failed.items() if text]
    assert not failed, f"{row.name}\n" + "\n".join(failed)


def assert_refused(row, cases, words):
    """A ValueError with one of the words, for all cases."""
    failed = []
    for name, given in cases:
        try:
            found = f"taken: {row.call(**{**row.given, **given})}"
        except ValueError as error:
            found = "" if any(w in str(error) for w in words.split()) else str(error)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        failed += [f"{name}: {found[:200]}"] * bool(found)
    assert not failed, f"{row.name}\n" + "\n".join(failed)


def each(rows):
    return pytest.mark.parametrize("row", [pytest.param(r, id=r.name) for r in rows])


def rows_of(row, group):
    name, axis = next(iter(group.items()))
    return np.shape(row.given[name])[axis]


@each(row for row in ROWS if row.only != "units" and len(row.fixed) < len(row.groups))
def test_the_order_of_rows_does_not_matter(row):
    for i, group in enumerate(row.groups):
        n = rows_of(row, group)
        orders = np.random.default_rng(0).permutation(n), np.arange(n)[::-1]
        for order in orders[: 1 if row.only == "names" else 2]:  # those take long
            moved = {a: np.take(row.given[a], order, axis=axis) for a, axis in group.items()}
            if i not in row.fixed:
                after = order if i == row.follow else None
                assert_same(row, [(" ".join(group), moved)], order=after)


def in_pandas(values, index=None):
    values = np.asarray(values)
    if values.ndim == 1:
        return pd.Series(values, index=index)
    columns = SIGNAL_NAMES if values.shape[1] == len(SIGNAL_NAMES) else None
    return pd.DataFrame(values, index=index, columns=columns)


def with_names(row):
    """The arguments of each group whose rows pandas has names for, and their number."""
    for group in row.groups:
        names = [a for a, axis in group.items() if axis == 0 and np.ndim(row.given[a]) in (1, 2)]
        if names:
            yield names, rows_of(row, group)


@each(row for row in NAMES if any(with_names(row)))
def test_names_of_rows_do_not_matter_unless_they_disagree(row):
    shuffled, words, disagreeing = {}, {}, []
    for names, n in with_names(row):
        index = np.random.default_rng(0).permutation(n)
        shuffled |= {a: in_pandas(row.given[a], index) for a in names}
        words |= {a: in_pandas(row.given[a], [f"row {i}" for i in index]) for a in names}
        for pair in itertools.pairwise(names):
            ends = (range(n), range(n)[::-1])
            given = {a: in_pandas(row.given[a], i) for a, i in zip(pair, ends, strict=True)}
            disagreeing.append((" and ".join(pair), given))
    assert_same(row, [("shuffled numbers", shuffled), ("words", words)])
    assert_refused(row, disagreeing, "index")


@each(row for row in NAMES if len(NAMED & set(row.kinds)) > 1)
def test_columns_are_matched_by_name(row):
    frames = {a: in_pandas(row.given[a]) for a in sorted(NAMED & set(row.kinds))}
    frames = {a: frame.rename(columns=lambda c: f"column {c}") for a, frame in frames.items()}
    fit, *others = sorted(frames, key=lambda a: a not in ("signals", "fit_signals", "X"))
    if "fit_signals" in frames:
        fit, others = "fit_signals", ["signals"]
    moved, renamed = [], []
    for a, frame in frames.items():
        last = frame.columns[-1]
        if a != "X":  # a forest draws features by their places
            moved.append((a, frames | {a: frame[frame.columns[::-1]]}))
        renamed.append((a, frames | {a: frame.rename(columns={last: "another"})}))
    if fit != "fit_signals":  # whose columns the values have
        assert_same(row, moved, rtol=1e-6)
    assert_refused(row, [case for case in renamed if case[0] in others], "column columns")


@each(NAMES)
def test_masked_values_are_refused(row):
    cases = []
    for a in row.kinds:
        values = np.asarray(row.given[a])
        one = np.arange(values.size).reshape(values.shape) == 1
        cases.append((a, {a: np.ma.array(values, mask=one)}))
    assert_refused(row, cases, "masked")


def listed(values, other):
    """Rows, or tables, of pandas in a list, the second one being changed."""
    parts = [in_pandas(part) for part in np.asarray(values)]
    return [parts[0], other(parts[1]), *parts[2:]]


@each(row for row in WHOLE if any(np.ndim(row.given[a]) > 1 for a in row.kinds))
def test_lists_are_looked_into(row):
    moved, disagreeing, masked, renamed = [], [], [], []
    for a in row.kinds:
        values = np.asarray(row.given[a])
        if values.ndim < 2 or values.shape[1] < 2:
            continue
        hidden = [
            np.ma.array(part, mask=np.arange(part.size).reshape(part.shape) == 1) for part in values
        ]
        masked.append((a, {a: hidden}))
        disagreeing.append((a, {a: listed(values, lambda part: part.set_axis(part.index[::-1]))}))
        if values.ndim == 3:
            moved.append((a, {a: listed(values, lambda part: part[part.columns[::-1]])}))
            renamed.append((a, {a: listed(values, lambda part: part.add_prefix("another "))}))
    assert_same(row, moved)
    assert_refused(row, masked, "masked")
    assert_refused(row, disagreeing, "index")
    assert_refused(row, renamed, "columns")


TYPES = {"flags": "int8 uint8 float16 float64", "class": "int8 uint8 int32", "group": "object"}
NULLABLE = {
    "flags": "boolean Int64 Float64",
    "class": "Int64 UInt8",
    "group": "str string category",
}


def forms(kind, values):
    """The same values in whatever may hold them."""
    values = np.asarray(values)
    for name in TYPES.get(kind, "float16 float32 float64").split():
        yield name, values.astype(name)
        if kind != "group":
            yield f"tensor of {name}", torch.tensor(values.astype(name))
    if kind == "flags":
        yield "tensor of bool", torch.tensor(values)
    if kind not in ("flags", "class", "group"):
        assert (values == values.astype(np.float16)).all(), "the example is not of half precision"
        yield "gradient", torch.tensor(values.astype(float), requires_grad=True)
    yield "list", values.tolist()
    backwards = np.asfortranarray(values[::-1])[::-1]
    backwards.flags.writeable = False
    yield "Fortran's order, backwards, read-only", backwards
    if values.ndim > 1:
        yield "list of pandas", [in_pandas(part) for part in values]
    if values.ndim < 3:
        frame = in_pandas(values)
        yield "pandas", frame
        yield "objects", frame.astype(object)
        for name in NULLABLE.get(kind, "Float64 Float32").split():
            yield name, (frame.astype(str) if name == "string" else frame).astype(name)
        if kind == "class" and values.ndim == 1:
            yield "category", frame.astype("category")


@each(WHOLE)
def test_the_form_of_the_same_values_does_not_matter(row):
    held = {a: list(forms(kind, row.given[a])) for a, kind in row.kinds.items()}
    cases = []
    for i in range(max(map(len, held.values()))):
        one = {a: these[i % len(these)] for a, these in held.items()}
        name = ", ".join(f"{a} as {form}" for a, (form, _) in one.items())
        cases.append((name, {a: values for a, (_, values) in one.items()}))
    assert_same(row, cases)


def outcome(call):
    """What comes of a call: its parts, or the type of its refusal."""
    try:
        return dict(parts(call()))
    except ValueError:
        return {"": np.array("refused")}


@each(row for row in WHOLE if set(row.kinds.values()) & {"number", "unit", "simplex"})
def test_booleans_are_zeros_and_ones(row):
    failed = []
    for a, kind in row.kinds.items():
        if kind not in ("number", "unit", "simplex"):
            continue
        values = np.asarray(row.given[a])
        ones = values > np.median(values)
        if kind == "simplex":
            ones = values == values.max(axis=-1, keepdims=True)
        one, other = (
            outcome(functools.partial(row.call, **{**row.given, a: v}))
            for v in (ones, ones.astype(float))
        )
        if one.keys() != other.keys() or not all(close(one[k], other[k], 1e-9) for k in one):
            failed.append(f"{a}: {one} instead of {other}"[:300])
    assert not failed, f"{row.name}\n" + "\n".join(failed)


@each(row for row in ROWS if row.recode and row.only != "order")
def test_units_and_codings_do_not_matter(row):
    cases = [
        (f"{which} {label}", {a: change(row.given[a]) for a in which.split()})
        for which, changes in row.recode.items()
        for label, change in changes.items()
    ]
    assert_same(row, cases, rtol=row.rtol)


@each(row for row in WHOLE if {"number", "unit", "simplex"} & set(row.kinds.values()))
def test_nan_is_refused_or_not_read(row):
    failed = []
    for a, kind in row.kinds.items():
        if kind not in ("number", "unit", "simplex"):
            continue
        values = np.array(row.given[a], dtype=float)
        values.flat[-1] = math.nan
        found = outcome(functools.partial(row.call, **{**row.given, a: values}))
        for path, value in found.items():
            if value.dtype.kind == "f" and (np.isnan(value) > np.isnan(expected(row)[path])).any():
                failed.append(f"{a}: {path} is {value}"[:300])
    assert not failed, f"{row.name}\n" + "\n".join(failed)


#: Rows of nearest neighbours and trees, which decide by differences that single precision changes.
JUMPS = ("make_estimator", "Forest", "SuperLearner")


def on_a_grid(row, parts):
    """The row with numbers that are multiples of 1 / parts, where that is no power of two."""
    kinds = {"number", "unit"}
    near = {
        a: np.round(np.asarray(row.given[a]) * parts) / parts
        for a, kind in row.kinds.items()
        if kind in kinds
    }
    return near, replace(row, given={**row.given, **near})


@each(row for row in WHOLE if {"number", "unit"} & set(row.kinds.values()))
def test_the_precision_of_tenths_does_not_matter(row):
    near, double = on_a_grid(row, 10)
    for kind in (np.float16, np.float32):
        held = {a: values.astype(kind) for a, values in near.items()}
        if "prior" in held:  # may not be zero
            continue
        up = replace(row, given={**row.given, **{a: v.astype(float) for a, v in held.items()}})
        tensors = {a: torch.tensor(values) for a, values in held.items()}
        assert_same(up, [(kind.__name__, held), ("tensors", tensors)])
        if kind is np.float32 and not any(name in row.name for name in JUMPS):
            assert_same(double, [("against double", held)], rtol=1e-4)


@each(row for row in WHOLE if "group" in row.kinds.values())
def test_groups_may_be_called_anything_but_missing(row):
    (argument,) = (a for a, kind in row.kinds.items() if kind == "group")
    words = pd.Series([f"group {v}" for v in np.asarray(row.given[argument])])
    named = [words.tolist(), words, *(words.astype(t) for t in ("category", "string", object))]
    for form in named:
        row.call(**{**row.given, argument: form})
    cases = []
    for value, kind in ((math.nan, object), (None, object), (pd.NA, "string"), (None, "category")):
        gone = words.astype(object).where(np.arange(len(words)) > 40, value).astype(kind)
        cases += [(f"{value} {kind}", {argument: gone}), (f"array {kind}", {argument: gone.array})]
    assert_refused(row, cases, "missing NaN nan None NA")
