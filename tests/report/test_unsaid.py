"""Cells that say nothing: unknown labels, and answers that were not given."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.report import read_predictions

RNG = np.random.default_rng(8)
N, WORDS = 200, np.array(["cat", "dog", "owl"])
LABELS = np.arange(N) % 3
P = special.softmax(2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3)), axis=1)
SAID, SURE = P.argmax(axis=1), P.max(axis=1)
RIGHT = SAID == LABELS
FEW = np.arange(N) < 30
IN_COLUMNS = {f"p_{word}": P[:, j] for j, word in enumerate(WORDS)}


def says(found, text):
    return any(text in line for line in found.reading)


def but(values, cell, rows=FEW):
    found = np.asarray(values).astype(object)
    found[rows] = cell
    return found


@pytest.mark.parametrize("cell", ["unlabeled", "None", "?", -1, "unknown", "NA", -100])
@pytest.mark.parametrize("columns", [IN_COLUMNS, {"y_pred": WORDS[SAID]}])
def test_labels_that_are_not_known_count_for_nothing(cell, columns):
    found = read_predictions(pd.DataFrame({"label": but(WORDS[LABELS], cell)} | columns))
    np.testing.assert_array_equal(found.test_labels < 0, FEW)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT[~FEW])
    assert found.class_names == tuple(WORDS)
    told = says(found, f"'{cell}' (30 rows) is taken for an unknown label")
    assert told or cell == "NA" or (cell == -1 and says(found, "-1 where it is unknown"))


def test_a_class_may_have_such_a_name():
    names = np.array(["none", "dog", "owl"])
    hard = pd.DataFrame({"label": names[LABELS], "pred": names[SAID]})
    soft = pd.DataFrame(P, columns=[f"p_{name}" for name in names]).assign(label=names[LABELS])
    never = pd.DataFrame({"label": names[LABELS % 2], "pred": ["dog"] * N})  # one class is left
    few = pd.DataFrame({"label": names[LABELS], "pred": np.where(SAID == 0, "dog", names[SAID])})
    assert len(read_predictions(few).correct("test")[0]) == N  # though it never answers none
    for frame in (hard, soft):
        np.testing.assert_array_equal(read_predictions(frame).correct("test")[0], RIGHT)
    np.testing.assert_array_equal(read_predictions(never).correct("test")[0], LABELS % 2 == 1)


@pytest.mark.parametrize("cell", ["abstain", "IDK", "I don't know", -1, None, "", "REJECT"])
@pytest.mark.parametrize("more", [{}, {"confidence": SURE}, IN_COLUMNS])
def test_answers_that_are_none_are_abstentions(cell, more):
    frame = pd.DataFrame({"label": WORDS[LABELS], "prediction": but(WORDS[SAID], cell)} | more)
    found = read_predictions(frame)
    np.testing.assert_array_equal(found.test_abstained, FEW)
    assert found.class_names == tuple(WORDS)
    known = np.ones(N, dtype=bool) if more is IN_COLUMNS else ~FEW
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT[known])
    assert says(found, "'prediction' has no answer in 30 of 200 rows: taken as abstentions")


@pytest.mark.parametrize("more", [{}, {"confidence": SURE}, {f"p_{j}": P[:, j] for j in range(3)}])
def test_numbered_answers_that_are_none_are_abstentions(more):
    for cell in (-1, None):
        frame = pd.DataFrame({"label": LABELS, "prediction": but(SAID, cell)} | more)
        found = read_predictions(frame)
        np.testing.assert_array_equal(found.test_abstained, FEW)
        known = np.ones(N, dtype=bool) if "p_0" in more else ~FEW
        np.testing.assert_array_equal(found.correct("test")[0], RIGHT[known])


def test_gaps_of_another_models_answers_are_no_abstentions():
    other = but(WORDS[np.roll(LABELS, 1)], "abstain")
    frame = pd.DataFrame(IN_COLUMNS | {"label": WORDS[LABELS], "pred": other})
    found = read_predictions(frame, {"probabilities": "p_*"})
    assert found.test_abstained is None
    assert says(found, "not used: 'pred'")


SENTIMENTS = {
    "answers": {"y_pred": SAID - 1},
    "answers and a confidence": {"y_pred": SAID - 1, "confidence": SURE},
    "numbers in columns": {f"p_{j}": P[:, j] for j in range(3)},
    "words in columns": {f"p_{word}": P[:, j] for j, word in enumerate(("neg", "neu", "pos"))},
    "signs in columns": {f"p_{j - 1}": P[:, j] for j in range(3)},
    "signs alone": {f"{j - 1}": P[:, j] for j in range(3)},
}


@pytest.mark.parametrize("case", SENTIMENTS)
def test_minus_one_may_be_a_class(case):
    found = read_predictions(pd.DataFrame({"label": LABELS - 1} | SENTIMENTS[case]))
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    np.testing.assert_array_equal(found.test_labels, LABELS)


def test_minus_one_among_more_classes_is_none():
    many = np.arange(N) % 5
    frame = pd.DataFrame({"label": but(many, -1), "pred": but(many, -1, ~FEW & (many == 4))})
    found = read_predictions(frame)
    np.testing.assert_array_equal(found.test_labels < 0, FEW)
    np.testing.assert_array_equal(found.test_abstained, ~FEW & (many == 4))
    assert found.class_names == tuple("01234")
    assert read_predictions(frame, {"first": "0"}).class_names == tuple("01234")


def test_unknown_labels_of_two_classes():
    second = (LABELS > 0).astype(int)
    score = special.expit(2.0 * second - 1 + RNG.normal(size=N))
    for label in (but(second, -1), but(np.where(second, "spam", "ham"), "unlabeled")):
        found = read_predictions(pd.DataFrame({"label": label, "prob": score}))
        np.testing.assert_array_equal(found.correct("test")[0], ((score > 0.5) == second)[~FEW])
    signs = pd.DataFrame({"label": 2 * second - 1, "pred": np.ones(N, dtype=int)})
    assert len(read_predictions(signs).correct("test")[0]) == N


def test_labels_of_which_none_is_known():
    for cell, columns in ((-1, {f"p_{j}": P[:, j] for j in range(3)}), ("unlabeled", IN_COLUMNS)):
        found = read_predictions(pd.DataFrame({"label": [cell] * N} | columns))
        assert found.test_labels is None
        assert len(found.test_logits) == N


def test_a_rival_that_abstains_is_not_compared():
    other = {"other": but(WORDS[LABELS], "abstain"), "third": WORDS[np.roll(LABELS, 1)]}
    found = read_predictions(pd.DataFrame({"label": WORDS[LABELS], "pred": WORDS[SAID]} | other))
    assert [*found.rivals] == ["third"]
    assert says(found, "'other' has no answer in 30 rows: it is not compared")


def test_answers_that_are_never_true_are_told():
    frame = pd.DataFrame({"label": WORDS[LABELS], "prediction": but(WORDS[SAID], "[invalid]")})
    found = read_predictions(frame)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT & ~FEW)
    assert says(found, "'[invalid]' (30 rows) is never true, and counts as wrong")
