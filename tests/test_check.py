"""The checks of arguments: what they make of it, and their messages."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from lib.check import (
    as_answers,
    as_array,
    as_flags,
    as_generator,
    as_integer,
    as_labels,
    as_matrix,
    as_number,
    as_predictions,
    as_probabilities,
    as_scored,
    as_scores,
    as_unit,
    as_vector,
    check_delta,
    check_level,
    require_choice,
)

INF, NAN = math.inf, math.nan
TINY = Fraction(1, 10**400)  # 0 as a float, and 1 less it is 1
R = np.array([True, False, False])


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
    assert as_unit("x", [0.0, 1.0]).tolist() == [0.0, 1.0]
    assert as_unit("x", [1e-300, 1.0], open_left=True).tolist() == [1e-300, 1.0]
    assert as_predictions("x", [[7]], ("n", "m")).tolist() == [[7.0]]
    assert as_probabilities("x", [[1.0]]).tolist() == [[1.0]]
    assert as_scores("score", [math.inf, -math.inf]).tolist() == [math.inf, -math.inf]
    # Sums may be off by 0.001, which is what single precision does to thousands of classes.
    assert as_probabilities("x", [[0.5, 0.4992]]).shape == (1, 2)
    assert as_probabilities("x", [[0.5, 0.5008]]).shape == (1, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: as_array("x", [[1], [1, 2]]),
            "x must be rectangular, got rows of unequal length",
        ),
        *[
            (
                lambda seed=seed: as_generator(seed),
                "seed must be an integer of at least 0 (or several) or a Generator, got "
                + repr(seed),
            )
            for seed in (-1, True, 1.0, "1", [], [1, -1], (1, True), [1.0], None)
        ],
        (lambda: check_delta(1.0), "delta must be in [0, 1), got 1.0"),
        (lambda: check_delta(1.5), "delta must be in [0, 1), got 1.5"),
        (lambda: check_level(1.5), "level must be in (0, 1), got 1.5"),
        (lambda: check_delta(-0.1), "delta must be in [0, 1), got -0.1"),
        (lambda: check_delta(False), "delta must be in [0, 1), got False"),
        (lambda: check_delta("0"), "delta must be in [0, 1), got '0'"),
        (lambda: check_level(0), "level must be in (0, 1), got 0"),
        (lambda: check_level(1), "level must be in (0, 1), got 1"),
        (lambda: check_level(True), "level must be in (0, 1), got True"),
        *[
            (lambda v=v: check_level(v), f"level must be in (0, 1), got {v!r}")
            for v in (1 - TINY, TINY, 2 - TINY, -TINY)
        ],
        (lambda: check_delta(1 - TINY), f"delta must be in [0, 1), got {1 - TINY!r}"),
        (lambda: check_level("0.5"), "level must be in (0, 1), got '0.5'"),
        (
            lambda: as_matrix("X", [["a"]]),
            "X must be real numbers of shape (n, columns), both at least 1,"
            " got <U1 of shape (1, 1)",
        ),
        (
            lambda: as_matrix("X", [[None], [{}]]),
            "X must be real numbers of shape (n, columns), both at least 1,"
            " got object of shape (2, 1)",
        ),
        (
            lambda: as_matrix("X", [1.0, 2.0]),
            "X must be real numbers of shape (n, columns), both at least 1,"
            " got float64 of shape (2,)",
        ),
        (
            lambda: as_matrix("X", np.ones((2, 0))),
            "X must be real numbers of shape (n, columns), both at least 1,"
            " got float64 of shape (2, 0)",
        ),
        (
            lambda: as_matrix("X", [[1, 2], [NAN, INF]]),
            "X must be finite, got nan in row 1, column 0 (2 such values)",
        ),
        (
            lambda: as_matrix("X", [[1, 2], [3, INF]]),
            "X must be finite, got inf in row 1, column 1 (1 such values)",
        ),
        (lambda: as_vector("f", ["a"]), "f must be numbers, got could not"),
        (lambda: as_vector("f", [{}]), "f must be numbers, got float() argument"),
        (lambda: as_vector("f", [[1.0]]), "f must be of shape (n,), got shape (1, 1)"),
        (lambda: as_vector("f", []), "f must be of shape (n,), got shape (0,)"),
        (lambda: as_vector("f", [1.0], 2), "f must be of shape (2,), got shape (1,)"),
        (lambda: as_vector("f", [[1.0]], 1), "f must be of shape (1,), got shape (1, 1)"),
        (
            lambda: as_vector("f", [1.0, NAN, INF]),
            "f must be finite, got nan in row 1 (2 such values)",
        ),
        (
            lambda: as_flags("r", [True], 2),
            "r must be of shape (2,), one entry per row, got (1,)",
        ),
        (
            lambda: as_flags("r", [0, 2], 2),
            "r must be booleans, or 0 and 1, got 2",
        ),
        (
            lambda: as_flags("r", [True, None], 2),
            "r must be booleans, or 0 and 1, got object values",
        ),
        (
            lambda: as_answers("s", [1.0], R),
            "s must be numbers of shape (3,), one for each entry of abstained, got shape (1,)",
        ),
        (
            lambda: as_answers("s", ["a", "b", "c"], R),
            "s must be numbers of shape (3,), one for each entry of abstained, got could not",
        ),
        (
            lambda: as_answers("s", [NAN, 1.0, INF], R),
            "s must be finite where the classifier answered, got inf in row 2 (1 such values)",
        ),
        (
            lambda: as_answers("s", [NAN, -INF, NAN], R),
            "s must be finite where the classifier answered, got -inf in row 1 (2 such values)",
        ),
        (lambda: as_number("m", 1, 0, 1), "m must be a number in (0, 1), got 1"),
        (lambda: as_number("m", 0, 0, 1), "m must be a number in (0, 1), got 0"),
        (lambda: as_number("m", True, 0, 2), "m must be a number in (0, 2), got True"),
        (lambda: as_number("m", "1", 0, 2.5), "m must be a number in (0, 2.5), got '1'"),
        (lambda: as_integer("n", 0, 1), "n must be an integer of at least 1, got 0"),
        (lambda: as_integer("n", 1.0, 1), "n must be an integer of at least 1, got 1.0"),
        (lambda: as_integer("n", True, 1), "n must be an integer of at least 1, got True"),
        (lambda: as_integer("n", 4, 1, 3), "n must be an integer from 1 to 3, got 4"),
        (lambda: as_integer("n", 0, 1, 3), "n must be an integer from 1 to 3, got 0"),
        (
            lambda: require_choice("c", "a", ("b", "cd")),
            "c must be one of 'b', 'cd', got 'a'",
        ),
        (lambda: require_choice("c", ["b"], ("b",)), "c must be one of 'b', got ['b']"),
        *[
            (
                lambda check=check: check([[1], [1, 2]]),
                f"{name} must be rectangular, got rows of unequal length",
            )
            for name, check in (
                ("correct", lambda values: as_flags("correct", values)),
                ("score", lambda values: as_scores("score", values)),
                ("level", lambda values: as_unit("level", values)),
                ("checkpoints", lambda values: as_labels("checkpoints", values)),
                ("labels", lambda values: as_predictions("labels", values, ("n",))),
            )
        ],
        (lambda: as_integer("n", 2, 3), "n must be an integer of at least 3, got 2"),
        (lambda: as_integer("n", True, 0), "n must be an integer of at least 0, got True"),
        (lambda: as_integer("n", 3.0, 0), "n must be an integer of at least 0, got 3.0"),
        (
            lambda: as_flags("correct", []),
            "correct must be of shape (n,) with n of at least 1, got (0,)",
        ),
        (
            lambda: as_flags("right", [[True]]),
            "right must be of shape (n,) with n of at least 1, got (1, 1)",
        ),
        (
            lambda: as_flags("right", ["a"]),
            "right must be booleans, or 0 and 1, got <U1 values",
        ),
        (
            lambda: as_flags("correct", [0, 3, 2]),
            "correct must be booleans, or 0 and 1, got 3",
        ),
        (
            lambda: as_scores("score", []),
            "score must be real numbers of shape (n,) with n of at least 1, got float64 of shape"
            " (0,)",
        ),
        (
            lambda: as_scores("second", [[1, 2]]),
            "second must be real numbers of shape (n,) with n of at least 1, got int64 of shape"
            " (1, 2)",
        ),
        (
            lambda: as_scores("score", [0.0, math.nan, math.nan]),
            "score must not be NaN, got 2 NaN, the first in row 1",
        ),
        (
            lambda: as_scored([1, 0, 1], [1, 2], "other_"),
            "other_score must have one entry per entry of other_correct (3), got 2",
        ),
        (
            lambda: as_scored([1, 0, 1], [1, 2, math.nan], "other_"),
            "other_score must not be NaN, got 1 NaN, the first in row 2",
        ),
        (lambda: as_scored([1, 2], [1, 2], "other_"), "other_correct must be booleans"),
        (lambda: as_unit("a", ["x"]), "a must be numbers in [0, 1], got <U1"),
        (
            lambda: as_unit("a", "x", open_left=True),
            "a must be numbers in (0, 1], got <U1",
        ),
        (lambda: as_unit("a", [0.5, 2.0, 3.0]), "a must be in [0, 1], got 2.0"),
        (lambda: as_unit("a", [[0.5], [-1.0]]), "a must be in [0, 1], got -1.0"),
        (
            lambda: as_unit("a", [1.0, 0.0], open_left=True),
            "a must be in (0, 1], got 0.0",
        ),
        (
            lambda: as_predictions("x", np.ones((2, 0)), ("n", "classes")),
            "x must be real numbers of shape (n, classes), all at least 1, got float64 of shape"
            " (2, 0)",
        ),
        (
            lambda: as_predictions("x", np.ones((1, 1), bool), ("n", "m")),
            "x must be real numbers of shape (n, m), all at least 1, got bool of shape (1, 1)",
        ),
        (
            lambda: as_predictions("x", [[0, 1], [math.inf, math.nan]], ("n", "m")),
            "x must be finite, got inf at (1, 0)",
        ),
        (
            lambda: as_probabilities("x", [[0.25, 0.5], [0.5, 1.0]]),
            "x must be probabilities that sum to 1 over the last axis, got values from 0.25 with"
            " sums from 0.75 to 1.5",
        ),
        (
            lambda: as_probabilities("x", [[1.5, -0.5]]),
            "x must be probabilities that sum to 1 over the last axis, got values from -0.5 with"
            " sums from 1 to 1",
        ),
        (
            lambda: as_probabilities("x", [0.5, 0.5]),
            "x must be real numbers of shape (n, classes), all at least 1, got float64 of shape"
            " (2,)",
        ),
        (
            lambda: as_probabilities("x", [[[0.5, 0.5]], [[0.25, 0.5]]], ("k", "n", "c")),
            "x must be probabilities that sum to 1 over the last axis, got values from 0.25 with"
            " sums from 0.75 to 1",
        ),
        (
            lambda: as_labels("x", [0, 1]),
            "x must be integers of shape (checkpoints, n), both at least 1, got int64 of shape"
            " (2,)",
        ),
        (
            lambda: as_labels("x", np.zeros((2, 0), int)),
            "x must be integers of shape (checkpoints, n), both at least 1, got int64 of shape"
            " (2, 0)",
        ),
        (
            lambda: as_labels("x", [[0.5]]),
            "x must be integers of shape (checkpoints, n), both at least 1, got float64 of shape"
            " (1, 1)",
        ),
        (lambda: as_probabilities("x", [[0.5, 0.4989]]), "x must be probabilities that"),
        (lambda: as_probabilities("x", [[0.5, 0.5011]]), "x must be probabilities that"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        call()
