"""Columns that say which answers were given, or how much speaks for none."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.report import Settings, read_predictions, run_analysis

RNG = np.random.default_rng(8)
N, WORDS = 200, np.array(["cat", "dog", "owl"])
LABELS = np.arange(N) % 3
P = special.softmax(2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3)), axis=1)
SAID, SURE = P.argmax(axis=1), P.max(axis=1)
RIGHT = SAID == LABELS
WEIGHT = RNG.uniform(0, 0.5, N)
IN_COLUMNS = {f"p_{word}": P[:, j] for j, word in enumerate(WORDS)}


def says(found, text):
    return any(text in line for line in found.reading)


# --- how much speaks for no answer ----------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["p_abstain", "prob_abstain", "p_reject", "p_defer", "p_idk", "abstain probability",
     "rejection_score", "deferral_prob", "logit_abstain"],
)  # fmt: skip
@pytest.mark.parametrize("labels", [LABELS, WORDS[LABELS]], ids=["numbers", "words"])
def test_a_weight_of_no_answer_is_no_class(name, labels):
    found = read_predictions(pd.DataFrame({"label": labels} | IN_COLUMNS | {name: WEIGHT}))
    assert found.class_names == tuple(WORDS)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    assert says(found, f"{name!r} is how much speaks for no answer, and no class")
    assert says(found, f"not used: {name!r}")


@pytest.mark.parametrize("labels", [LABELS, WORDS[LABELS]], ids=["numbers", "words"])
def test_rows_may_sum_to_one_with_it(labels):
    parts = {name: p * (1 - WEIGHT) for name, p in IN_COLUMNS.items()}
    found = read_predictions(pd.DataFrame({"label": labels} | parts | {"p_abstain": WEIGHT}))
    np.testing.assert_allclose(special.softmax(found.test_logits, axis=1), P)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    assert says(found, "sum to 1 with 'p_abstain': each is divided by its sum without it")


def test_beside_answers_alone_it_says_which_are_surer():
    frame = pd.DataFrame({"label": LABELS, "pred": SAID, "p_abstain": WEIGHT})
    found = read_predictions(frame)
    np.testing.assert_array_equal(found.test_confidence, -WEIGHT)
    assert says(found, "the smaller 'p_abstain' is, the surer is an answer")
    assert not says(found, "not used")
    for name in ("uncertainty", "entropy"):
        frame = pd.DataFrame({"label": LABELS, "pred": SAID, name: WEIGHT})
        np.testing.assert_array_equal(read_predictions(frame).test_confidence, -WEIGHT)
    two = {"y_true": LABELS % 2, "y_pred": (P[:, 0] < 0.5) * 1, "prob_abstain": WEIGHT}
    np.testing.assert_array_equal(read_predictions(pd.DataFrame(two)).test_confidence, -WEIGHT)


@pytest.mark.parametrize("labels", [LABELS, None], ids=["numbers", "words"])
def test_a_class_may_have_such_a_name(labels):
    names = np.array(["accepted", "rejected", "uncertain"])
    columns = {f"p_{name}": P[:, j] for j, name in enumerate(names)}
    labels = names[LABELS] if labels is None else labels
    found = read_predictions(pd.DataFrame({"label": labels} | columns))
    assert found.class_names == tuple(names)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)


# --- flags ----------------------------------------------------------------------------------------

ANSWERED = (SURE + 0.3 * RNG.normal(size=N)) > 0.6


@pytest.mark.parametrize("name", ["answered", "accepted", "covered", "is_covered", "was_answered"])
@pytest.mark.parametrize("kind", [int, bool, str])
@pytest.mark.parametrize("outputs", [IN_COLUMNS, {"prediction": WORDS[SAID], "conf": SURE}])
def test_flags_of_answers_that_were_given(name, kind, outputs, tmp_path):
    flags = np.where(ANSWERED, "yes", "no") if kind is str else ANSWERED.astype(kind)
    path = tmp_path / "own.csv"
    frame = pd.DataFrame({"label": WORDS[LABELS]} | outputs | {name: flags})
    frame.to_csv(path, index=False)
    found = read_predictions(path)
    np.testing.assert_array_equal(found.test_abstained, ~ANSWERED)
    assert says(found, f"{name!r} says where the model answered: in {ANSWERED.sum()} of 200 rows")


def test_what_such_a_word_may_be_else():
    sets = {"label": LABELS, "set_size": 1 + LABELS, "covered": RIGHT} | IN_COLUMNS
    assert read_predictions(pd.DataFrame(sets)).test_abstained is None  # of conformal sets
    days = {
        "label": LABELS,
        "accepted": np.datetime_as_string(np.datetime64("2024-01-01") + LABELS),
    }
    assert read_predictions(pd.DataFrame(days | IN_COLUMNS)).test_abstained is None
    second = {"accepted": LABELS % 2, "probability": 1 - P[:, 0]}  # a label by another name
    found = read_predictions(pd.DataFrame(second))
    np.testing.assert_array_equal(found.test_labels, LABELS % 2)


def test_its_own_answers_stand_beside_as_many_of_the_surest():
    frame = pd.DataFrame({"label": LABELS, "answered": ANSWERED} | IN_COLUMNS)
    found = run_analysis("selective", read_predictions(frame), Settings())
    table = found.tables["selective"].set_index("item")["value"]
    share, own = ANSWERED.mean(), RIGHT[ANSWERED].mean()
    surest = RIGHT[np.argsort(-SURE)][: ANSWERED.sum()].mean()
    assert own < surest
    assert table["coverage of its own answers"] == pytest.approx(share)
    assert table["accuracy of its own answers"] == pytest.approx(own)
    assert table["accuracy of as many by softmax response"] == pytest.approx(surest)
    assert f"answers {share:.1%} of these rows, and {own:.3f} of them right" in found.verdict
    assert f"surest by softmax response, {surest:.3f} are" in found.verdict
    always = run_analysis("selective", read_predictions(frame.assign(answered=1)), Settings())
    assert "own answers" not in " ".join(always.tables["selective"]["item"])


# --- names that were misread ----------------------------------------------------------------------


def test_columns_of_true_and_false_are_classes():
    second = P[:, 0] < 0.5
    frame = {"label": LABELS > 0, "prob_True": 1 - P[:, 0], "prob_False": P[:, 0]}
    for labels in (LABELS > 0, (LABELS > 0).astype(str), (LABELS > 0) * 1):
        found = read_predictions(pd.DataFrame(frame | {"label": labels}))
        np.testing.assert_array_equal(found.correct("test")[0], second == (LABELS > 0))
        assert found.class_names == ("True", "False")


@pytest.mark.parametrize("columns", [("p_pos", "p_neg"), ("positive", "negative"), ("yes", "no")])
@pytest.mark.parametrize("words", [(0, 1), (-1, 1), ("neg", "pos"), ("no", "yes")])
def test_the_sure_word_of_two_names_its_column(columns, words):
    second = LABELS > 0
    frame = {"label": np.where(second, *words[::-1]), columns[0]: 1 - P[:, 0], columns[1]: P[:, 0]}
    found = read_predictions(pd.DataFrame(frame))
    np.testing.assert_array_equal(found.correct("test")[0], (P[:, 0] < 0.5) == second)
    assert found.class_names == tuple(name.removeprefix("p_") for name in columns)


def test_two_words_and_columns_by_other_names_are_borne_out():
    words = np.where(LABELS > 0, "yes", "no")
    columns = {"p_up": 1 - P[:, 0], "p_down": P[:, 0]}  # the second word is the first column
    with pytest.raises(ValueError, match="no better than a constant"):
        read_predictions(pd.DataFrame({"label": words} | columns))


def test_how_likely_an_answer_is_right_is_its_confidence():
    rows = [
        {"gold": str(WORDS[a]), "pred": str(WORDS[b]), "p_correct": float(c)}
        for a, b, c in zip(LABELS, SAID, SURE, strict=True)
    ]
    found = read_predictions(pd.DataFrame(json.loads(json.dumps(rows))))
    np.testing.assert_array_equal(found.test_confidence, SURE)
