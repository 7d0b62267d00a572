"""The checks of arguments: what they make of it, and their messages."""

import math
import re
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

from lib.check import (
    as_answers,
    as_array,
    as_classes,
    as_flags,
    as_generator,
    as_integer,
    as_labels,
    as_matrix,
    as_names,
    as_number,
    as_predictions,
    as_probabilities,
    as_range,
    as_scored,
    as_scores,
    as_unit,
    as_vector,
    check_delta,
    columns_of,
    matched,
    require_choice,
    same_rows,
)
from lib.selective import compare_over_seeds

INF, NAN = math.inf, math.nan
TINY = Fraction(1, 10**400)  # 0 as a float, and 1 less it is 1
R = np.array([True, False, False])
as_open = partial(as_unit, open_left=True)


def test_arrays_keep_their_precision_where_it_is_a_float():
    for kind in (np.float32, np.float64):
        assert as_scores("score", np.ones(2, kind)).dtype == kind
        assert as_predictions("x", np.ones((2, 2), kind), ("n", "m")).dtype == kind
    for kind in (np.float16, np.int8, np.uint64, bool):
        assert as_scores("score", np.ones(2, kind)).dtype == np.float64
    for kind in (np.float16, np.int8, np.uint64):
        assert as_predictions("x", np.ones((2, 2), kind), ("n", "m")).dtype == np.float64
    assert as_unit("x", np.float32(0.5)).dtype == np.float64
    assert as_unit("x", True) == 1.0
    assert as_flags("correct", [1.0, 0.0]).tolist() == [True, False]
    assert as_flags("correct", np.array([1, 0], np.uint8)).dtype == bool
    assert as_labels("x", np.ones((1, 1), np.uint8)).dtype == np.uint8


def test_the_ends_of_what_is_allowed_are_allowed():
    assert as_integer("n", 0, 0) == 0
    assert type(as_integer("n", np.int64(7), 7)) is int
    assert as_classes("y", [2, 0], 2, 3).tolist() == [2, 0]
    assert as_range("x", [np.float32(0), 1]) == (0.0, 1.0)
    assert as_unit("x", [0.0, 1.0]).tolist() == [0.0, 1.0]
    assert as_unit("x", [1e-300, 1.0], open_left=True).tolist() == [1e-300, 1.0]
    assert as_predictions("x", [[7]], ("n", "m")).tolist() == [[7.0]]
    assert as_probabilities("x", [[1.0]]).tolist() == [[1.0]]
    assert as_scores("score", [math.inf, -math.inf]).tolist() == [math.inf, -math.inf]
    # Sums may be off by 0.001, which is what single precision does to thousands of classes.
    assert as_probabilities("x", [[0.5, 0.4992]]).shape == (1, 2)
    assert as_probabilities("x", [[0.5, 0.5008]]).shape == (1, 2)


MATRIX = "must be real numbers of shape (n, columns), both at least 1"
FLAGS, SUMS = (
    "must be booleans, or 0 and 1",
    "must be probabilities that sum to 1 over the last axis",
)
LABELS = "must be integers of shape (checkpoints, n), both at least 1"
SCORES = "must be real numbers of shape (n,) with n of at least 1"
ANSWERS = "must be numbers of shape (3,), one for each entry of abstained"
SEED = "must be an integer of at least 0 (or several) or a Generator"
NUMBERS = "must be real numbers of shape"
RAGGED, UNEQUAL = [[1], [1, 2]], "must be rectangular, got rows of unequal length"
CLOSE = [1 - TINY, TINY, 2 - TINY, -TINY]

#: A check, its arguments after the name, and its message after the name.
MESSAGES = [
    *((f, "x", (RAGGED, *more), UNEQUAL) for f, *more in (
        (as_array,), (as_flags,), (as_scores,), (as_unit,), (as_labels,), (as_predictions, ("n",))
    )),
    *((as_generator, "seed", (v,), f"{SEED}, got {v!r}")
      for v in (-1, True, 1.0, "1", [], [1, -1], (1, True), [1.0], None)),
    *((check_delta, "delta", (v,), f"must be in [0, 1), got {v!r}")
      for v in (1.0, 1.5, -0.1, False, "0", 1 - TINY)),
    *((as_number, "level", (v, 0, 1), f"must be a number in (0, 1), got {v!r}")
      for v in (1.5, 0, 1, True, "0.5", *CLOSE)),
    (as_matrix, "X", ([["a"]],), f"{MATRIX}, got <U1 of shape (1, 1)"),
    (as_matrix, "X", ([[None], [{}]],), f"{MATRIX}, got object of shape (2, 1)"),
    (as_matrix, "X", ([1.0, 2.0],), f"{MATRIX}, got float64 of shape (2,)"),
    (as_matrix, "X", (np.ones((2, 0)),), f"{MATRIX}, got float64 of shape (2, 0)"),
    (as_matrix, "X", ([[1, 2], [NAN, INF]],), "must be finite, got nan in row 1, column 0 (2"),
    (as_matrix, "X", ([[1, 2], [3, INF]],), "must be finite, got inf in row 1, column 1 (1 such"),
    (as_vector, "f", (["1"],), "must be numbers, got <U1 values"),
    (as_vector, "f", ([1j],), "must be numbers, got complex128 values"),
    (as_vector, "f", ([{}],), "must be numbers, got float() argument"),
    (as_vector, "f", ([[1.0]],), "must be of shape (n,), got shape (1, 1)"),
    (as_vector, "f", ([],), "must be of shape (n,), got shape (0,)"),
    (as_vector, "f", ([1.0], 2), "must be of shape (2,), got shape (1,)"),
    (as_vector, "f", ([[1.0]], 1), "must be of shape (1,), got shape (1, 1)"),
    (as_vector, "f", ([1.0, NAN, INF],), "must be finite, got nan in row 1 (2 such values)"),
    (as_flags, "r", ([True], 2), "must be of shape (2,), one entry per row, got (1,)"),
    (as_flags, "r", ([0, 2], 2), f"{FLAGS}, got 2"),
    (as_flags, "r", ([True, None], 2), f"{FLAGS}, got object values"),
    (as_flags, "r", ([],), "must be of shape (n,) with n of at least 1, got (0,)"),
    (as_flags, "r", ([[True]],), "must be of shape (n,) with n of at least 1, got (1, 1)"),
    (as_flags, "r", (["a"],), f"{FLAGS}, got <U1 values"),
    (as_flags, "r", ([0, 3, 2],), f"{FLAGS}, got 3"),
    (as_answers, "s", ([1.0], R), f"{ANSWERS}, got shape (1,)"),
    (as_answers, "s", (["a", "b", "c"], R), f"{ANSWERS}, got could not"),
    (as_answers, "s", ([NAN, 1.0, INF], R),
     "must be finite where the classifier answered, got inf in row 2 (1 such values)"),
    (as_answers, "s", ([NAN, -INF, NAN], R),
     "must be finite where the classifier answered, got -inf in row 1 (2 such values)"),
    (as_number, "m", (1, 0, 1), "must be a number in (0, 1), got 1"),
    (as_number, "m", (0, 0, 1), "must be a number in (0, 1), got 0"),
    (as_number, "m", (True, 0, 2), "must be a number in (0, 2), got True"),
    (as_number, "m", ("1", 0, 2.5), "must be a number in (0, 2.5), got '1'"),
    *((as_integer, "n", (v, low), f"must be an integer of at least {low}, got {v}")
      for v, low in ((0, 1), (1.0, 1), (True, 1), (2, 3), (True, 0), (3.0, 0))),
    (as_integer, "n", (4, 1, 3), "must be an integer from 1 to 3, got 4"),
    (as_integer, "n", (0, 1, 3), "must be an integer from 1 to 3, got 0"),
    (require_choice, "c", ("a", ("b", "cd")), "must be one of 'b', 'cd', got 'a'"),
    (require_choice, "c", (["b"], ("b",)), "must be one of 'b', got ['b']"),
    (as_scores, "score", ([],), f"{SCORES}, got float64 of shape (0,)"),
    (as_scores, "second", ([[1, 2]],), f"{SCORES}, got int64 of shape (1, 2)"),
    (as_scores, "score", ([0.0, NAN, NAN],), "must not be NaN, got 2 NaN, the first in row 1"),
    (as_scored, "other_score", ([1, 0, 1], [1, 2]),
     "must have one entry per entry of other_correct (3), got 2"),
    (as_scored, "other_score", ([1, 0, 1], [1, 2, NAN]), "must not be NaN, got 1 NaN, the first i"),
    (as_scored, "other_correct", ([1, 2], [1, 2]), "must be booleans"),
    (as_unit, "a", (["x"],), "must be numbers in [0, 1], got <U1"),
    (as_unit, "a", ([0.5, 2.0, 3.0],), "must be in [0, 1], got 2.0"),
    (as_unit, "a", ([[0.5], [-1.0]],), "must be in [0, 1], got -1.0"),
    (as_open, "a", ("x",), "must be numbers in (0, 1], got <U1"),
    (as_open, "a", ([1.0, 0.0],), "must be in (0, 1], got 0.0"),
    (as_predictions, "x", (np.ones((2, 0)), ("n", "classes")),
     f"{NUMBERS} (n, classes), all at least 1, got float64 of shape (2, 0)"),
    (as_predictions, "x", (np.ones((1, 1), complex), ("n", "m")),
     f"{NUMBERS} (n, m), all at least 1, got complex128 of shape (1, 1)"),
    (as_predictions, "x", ([[0, 1], [INF, NAN]], ("n", "m")), "must be finite, got inf at (1, 0)"),
    (as_probabilities, "x", ([[0.25, 0.5], [0.5, 1.0]],),
     f"{SUMS}, got values from 0.25 with sums from 0.75 to 1.5"),
    (as_probabilities, "x", ([[1.5, -0.5]],), f"{SUMS}, got values from -0.5 with sums from 1"),
    (as_probabilities, "x", ([0.5, 0.5],),
     f"{NUMBERS} (n, classes), all at least 1, got float64 of shape (2,)"),
    (as_probabilities, "x", ([[[0.5, 0.5]], [[0.25, 0.5]]], ("k", "n", "c")),
     f"{SUMS}, got values from 0.25 with sums from 0.75 to 1"),
    (as_probabilities, "x", ([[0.5, 0.4989]],), "must be probabilities that"),
    (as_probabilities, "x", ([[0.5, 0.5011]],), "must be probabilities that"),
    (as_classes, "y", ([0.5],), "must be integers of shape (n,), got float64 of shape (1,)"),
    (as_classes, "y", ([[0]],), "must be integers of shape (n,), got int64 of shape (1, 1)"),
    (as_classes, "y", ([0], 2), "must be integers of shape (2,), got int64 of shape (1,)"),
    (as_classes, "y", ([0, 3], 2, 3), "must be from 0 to 2, got 0 to 3"),
    (as_classes, "y", ([-1], 1, 3), "must be from 0 to 2, got -1 to -1"),
    *((as_range, "x", (v,), f"must be two finite numbers, the larger last, got {v!r}")
      for v in ((1, 0), (0, 0), (0, INF), (NAN, 1), 0.5, (1,), "01")),
    *((as_classes, "y", (v,), "must be integers of shape (n,), got")
      for v in (["a"], [0.0, NAN], [INF], [2.0**60], [0, None], [10**30])),
    *((as_names, "g", (v, 2), "must be integers or strings of shape (2,), one for each row, got")
      for v in (["a"], [0.5, 1.0], [NAN, 1.0], ["a", None], ["a", NAN], [1, "1"],
                np.array(["a", 1], object),
                [["a"], ["b"]],
                pd.Series(["a", None], dtype="string"), pd.Categorical(["a", None]))),
    (as_names, "g", (["a", None], 2), "must be integers or strings of shape (2,), one for each row,"
     " got object of shape (2,) with 1 missing"),
    (as_probabilities, "x", ([[99.5, 0.5]],), f"{SUMS}, got values from 0.5 with sums from 100 to "
     "100; divide percentages by 100"),
    (as_probabilities, "x", ([[3.0, -1.0]],), f"{SUMS}, got values from -1 with sums from 2 to 2; "
     "take the softmax of logits"),
    (as_labels, "x", ([0, 1],), f"{LABELS}, got int64 of shape (2,)"),
    (as_labels, "x", (np.zeros((2, 0), int),), f"{LABELS}, got int64 of shape (2, 0)"),
    (as_labels, "x", ([[0.5]],), f"{LABELS}, got float64 of shape (1, 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "name", "arguments", "message"), MESSAGES)
def test_messages(check, name, arguments, message):
    named = {check_delta: (), as_generator: (), as_scored: ()}.get(check, (name,))
    more = {as_scored: {"prefix": "other_"}}.get(check, {})
    with pytest.raises(ValueError, match=f"^{re.escape(f'{name} {message}')}"):
        check(*named, *arguments, **more)


def softmax(classes, dtype, spread=3.0):
    """Of random logits, computed in the given precision (in single, where that is half)."""
    kind = np.float32 if dtype == np.float16 else dtype
    z = (spread * np.random.default_rng(classes).normal(size=(4, classes))).astype(kind)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(dtype)


@pytest.mark.parametrize("classes", [2, 1_000, 151_936])
@pytest.mark.parametrize("spread", [0.0, 30.0])
def test_softmax_of_many_classes_in_few_digits(classes, spread):
    # As bfloat16 rounds: to nearest, of which 16 bits of single precision are left.
    cut = softmax(classes, np.float32, spread).view(np.uint32)
    half = ((cut + 0x7FFF + ((cut >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    kinds = (np.float64, np.float32, np.float16)
    for p in (half, *(softmax(classes, dtype, spread) for dtype in kinds)):
        for same in (p, p.astype(np.float32), p.astype(float)):
            assert as_probabilities("p", same).shape == p.shape


def test_what_half_precision_may_be_off_is_not_forgiven_to_others():
    p = softmax(10, np.float64) * 1.003
    for wrong in (p, (p * 1.003).astype(np.float16)):
        with pytest.raises(ValueError, match="must be probabilities"):
            as_probabilities("p", wrong)


def test_one_probability_of_two_classes():
    two = as_probabilities("p", [0.0, 0.25], binary=True)
    assert two.tolist() == [[1.0, 0.0], [0.75, 0.25]]
    for bad, text in (([[1.0]], r"\(n, C\), C at least 2"), ([1.5], "in \\[0, 1\\], got 1.5")):
        with pytest.raises(ValueError, match=f"^p must be (of shape )?{text}"):
            as_probabilities("p", bad, binary=True)


KINDS = {
    "integers": [1, 0, 1],
    "booleans": [True, False, True],
    "whole floats": [1.0, 0.0, 1.0],
    "single": np.float32([1, 0, 1]),
    "unsigned": np.uint8([1, 0, 1]),
    "objects": np.array([1, 0, 1], dtype=object),
    "nullable": pd.array([1, 0, 1], dtype="Int64"),
    "nullable, as a column": pd.Series([1, 0, 1], dtype="UInt8"),
    "nullable booleans": pd.Series([True, False, True], dtype="boolean"),
    "categories": pd.Categorical([1, 0, 1]),
    "a column of categories": pd.Series([1, 0, 1], dtype="category"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_classes_in_whatever_container(kind):
    found = as_classes("y", KINDS[kind], 3, 2)
    assert found.dtype.kind in "iu"
    assert found.tolist() == [1, 0, 1]
    assert as_flags("y", KINDS[kind]).tolist() == [True, False, True]
    assert as_scores("s", KINDS[kind]).tolist() == [1, 0, 1]
    assert as_vector("s", KINDS[kind]).tolist() == [1, 0, 1]
    assert np.unique(as_names("g", KINDS[kind], 3), return_inverse=True)[1].tolist() == [1, 0, 1]


WORDS = ["dog", "cat", "dog"]
CONTAINERS = [list, np.array, pd.Series, pd.Categorical, pd.Index]
CONTAINERS += [partial(np.array, dtype=object), partial(pd.array, dtype="string")]
CONTAINERS += [partial(pd.Series, dtype=kind) for kind in (object, "string", "category")]


@pytest.mark.parametrize("container", CONTAINERS)
def test_words_in_whatever_container(container):
    found = as_names("g", container(WORDS), 3)
    assert found.dtype.kind in "UO"
    assert found.tolist() == WORDS


# ------------------------------------------------------------------------------ lists, booleans


def test_boolean_columns_beside_others_are_zeros_and_ones():
    frame = pd.get_dummies(pd.DataFrame({"place": list("abca"), "x": [0.5, 1.5, 2.5, 3.5]}))
    assert {t.kind for t in frame.dtypes} == {"b", "f"}
    for form in (frame, frame.astype({"place_a": "boolean"}), frame[["place_a", "place_b"]]):
        np.testing.assert_array_equal(as_matrix("X", form), form.to_numpy(dtype=float))
    with pytest.raises(ValueError, match="place"):
        as_matrix("X", pd.DataFrame({"x": [0.5], "place": ["a"]}))


FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([FRAME, FRAME[::-1]], r"x\[1\] must have the index of x\[0\]"),
        ([[FRAME], [FRAME[::-1]]], r"x\[1\]\[0\] must have the index"),
        ([FRAME, FRAME.add_prefix("other ")], r"x\[1\] must have the columns a, b"),
        ([FRAME, FRAME[:1]], "rectangular"),
        ([0.5, np.ma.masked], r"x\[1\] must not have masked values"),
        ([[0.5], [np.ma.array(1.0, mask=True)]], r"x\[1\]\[0\] must not have masked values"),
    ],
)
def test_lists_of_what_may_not_be_stacked(parts, words):
    with pytest.raises(ValueError, match=words):
        as_array("x", parts)


def test_tables_in_a_list_are_matched_by_name():
    stack = np.stack([FRAME, FRAME])
    np.testing.assert_array_equal(as_array("x", [FRAME, FRAME[["b", "a"]]]), stack)
    np.testing.assert_array_equal(as_array("x", (FRAME, FRAME.to_numpy())), stack)
    nullable = pd.Series([1, None], dtype="Int64")
    np.testing.assert_array_equal(as_array("x", [nullable, nullable]), [[1, np.nan]] * 2)


def test_what_lists_hold_is_compared_with_what_others_hold():
    first, second = pd.Series([1.0, 2.0]), pd.Series([1.0, 2.0], index=[1, 0])
    same_rows(one=[first], other=[first], table=second)  # the latter's rows are those of the list
    with pytest.raises(ValueError, match=r"other\[0\] must have the index of one\[0\]"):
        same_rows(one=[first], other=[second])


def test_one_row_per_training_in_a_list_and_in_a_table():
    """The points are the index of a series, and the columns of a table."""
    right, points = np.arange(20) % 3 > 0, np.arange(20)[::-1]
    score = np.random.default_rng(0).random((2, 20))
    given = {"correct": [right] * 2, "score": [pd.Series(s, index=points) for s in score]}
    others = {"other_correct": [right] * 2, "other_score": score[::-1]}
    found = compare_over_seeds(**given, **others)
    assert found == compare_over_seeds([right] * 2, score, **others)
    table = pd.DataFrame([right] * 2)
    with pytest.raises(ValueError, match="score must have the index of correct"):
        compare_over_seeds(**given | {"correct": table}, **others)
    assert compare_over_seeds(**given | {"correct": table[points]}, **others) is not None


def test_columns_may_be_called_true_and_false():
    table = pd.DataFrame({True: [1, 2, 5], False: [3, 4, 6]})
    assert matched("x", table, [False, True]).to_numpy().tolist() == [[3, 1], [4, 2], [6, 5]]
    with pytest.raises(ValueError, match=r"x must have shape \(n, columns\), got shape \(3,\)"):
        columns_of("x", [1, 2, 3])
