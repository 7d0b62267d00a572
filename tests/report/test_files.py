"""Files as other programs write them: each is read rightly, or asked about, or refused."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.report import Settings, read_predictions
from lib.report.__main__ import as_mapping
from lib.report.naming import counted, families
from lib.report.quality import analyse
from lib.report.tables import ReadingError

RNG = np.random.default_rng(5)
N, WORDS = 90, np.array(["cat", "dog", "owl"])
LABELS = RNG.permutation(np.repeat([0, 1, 2], N // 3))
LOGITS = 2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3))
P = special.softmax(LOGITS, axis=1)
SAID = P.argmax(axis=1)
SECOND = RNG.integers(0, 2, N)
ONE = special.expit(3.0 * SECOND - 1.5 + RNG.normal(size=N))
TWO = (ONE > 0.5) == SECOND


def correct(data, mapped=None):
    return read_predictions(data, mapped).correct("test")[0]


def says(found, text):
    return any(text in each for each in found.reading)


# --- names of classes, and what an error offers ---------------------------------------------------


def test_what_an_error_offers_can_be_pasted():
    frame = pd.DataFrame({"label": np.where(SECOND, "spam", "ham"), "prob of one": 1 - ONE})
    with pytest.raises(ReadingError) as caught:
        read_predictions(frame, {"probability": "prob of one"})
    offered = [shlex.split(line.split("--map ")[1])[0] for line in caught.value.lines[1:3]]
    first, second = (correct(frame, as_mapping([each.rstrip(".")])) for each in offered)
    np.testing.assert_array_equal(first, ~TWO)
    np.testing.assert_array_equal(second, TWO)
    names = ["P[a]", "P[b]"]
    frame = pd.DataFrame(np.column_stack([1 - ONE, ONE]), columns=names).assign(y=SECOND)
    mapped = {"label": "y", "probabilities": families(names)[0].pattern}
    np.testing.assert_array_equal(correct(frame, mapped), TWO)


def test_numbers_from_1_keep_their_names():
    found = read_predictions(pd.DataFrame({"label": SECOND + 1, "prob": ONE}))
    assert found.class_names == ("1", "2")
    assert says(found, "second class, '2'")


def test_a_runner_up_is_no_rival():
    second = np.sort(P, axis=1)[:, 1]
    found = read_predictions(
        pd.DataFrame(
            {"label": LABELS, "top1_pred": SAID, "top1_prob": P.max(axis=1), "top2_prob": second}
        )
    )
    np.testing.assert_array_equal(found.test_confidence, P.max(axis=1))
    assert says(found, "not used: 'top2_prob'")


# --- abstentions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("no", "yes"), ("False", "True"), ("0", "1")])
def test_a_column_says_where_the_model_abstained(words):
    said = np.array(words)[(np.abs(ONE - 0.5) < 0.1).astype(int)]
    frame = pd.DataFrame({"label": SECOND, "p_0": 1 - ONE, "p_1": ONE, "abstain": said})
    hard = pd.DataFrame({"y_true": SECOND, "y_pred": (ONE > 0.5) * 1, "abstained": said})
    for each in (frame, hard, frame.rename(columns={"abstain": "what"})):
        mapped = {"abstained": "what"} if "what" in each else None
        found = read_predictions(each, mapped)
        np.testing.assert_array_equal(found.test_abstained, said == words[1])
        np.testing.assert_array_equal(found.correct("test")[0], TWO)
    frame.loc[said == words[1], ["p_0", "p_1"]] = np.nan
    found = read_predictions(frame)
    np.testing.assert_array_equal(found.correct("test")[0], TWO[said == words[0]])
    with pytest.raises(ValueError, match=r"'p_0' must be true or false.*in row 0"):
        read_predictions(frame.fillna(0.5), {"abstained": "p_0"})


# --- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ("val_labels", "val_probs", "test_labels", "test_probs"),
        ("y_val", "y_val_proba", "y_test", "y_test_proba"),
    ],
)
def test_arrays_of_two_parts_in_names_like_ours(names, tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, **dict(zip(names, (LABELS[:30], P[:30], LABELS[30:], P[30:]), strict=True)))
    found = read_predictions(path)
    np.testing.assert_array_equal(found.correct("test")[0], (SAID == LABELS)[30:])
    np.testing.assert_array_equal(found.correct("holdout")[0], (SAID == LABELS)[:30])
    np.savez(path, y_train=LABELS[:7], y_test=LABELS, y_pred=SAID)
    np.testing.assert_array_equal(correct(path), SAID == LABELS)


def test_one_row_is_one_row():
    found = read_predictions(pd.DataFrame({"label": ["a"], "p_a": [0.9], "p_b": [0.1]}))
    assert found.reading[0].startswith("1 row;")


# --- labels ---------------------------------------------------------------------------------------


def test_numbers_for_words_in_another_order_are_asked_for():
    order = [2, 0, 1]
    names = [f"prob_{WORDS[j]}" for j in order]
    frame = pd.DataFrame(P[:, order], columns=names).assign(label=LABELS)
    with pytest.raises(
        ReadingError, match=r"no better than a constant.*order of the columns, 'owl'"
    ):
        read_predictions(frame)
    assert len(correct(frame, {"first": "0"})) == N
    right = frame[[names[1], names[2], names[0], "label"]]
    np.testing.assert_array_equal(correct(right), SAID == LABELS)


def test_two_columns_that_may_be_the_label_are_asked_for():
    frame = pd.DataFrame({"label": WORDS[SAID], "score": P.max(axis=1), "class": WORDS[LABELS]})
    with pytest.raises(ReadingError, match=r"agree in .*--map label=label.*--map label=class"):
        read_predictions(frame)
    found = read_predictions(frame, {"label": "class"})
    np.testing.assert_array_equal(found.correct("test")[0], SAID == LABELS)
    np.testing.assert_array_equal(found.test_confidence, P.max(axis=1))
    np.testing.assert_array_equal(found.test_labels, LABELS)
    coded = pd.DataFrame({"target": LABELS, "target_class": WORDS[LABELS], "pred": SAID})
    np.testing.assert_array_equal(correct(coded), SAID == LABELS)


def test_a_number_with_a_fraction_is_no_label():
    found = read_predictions(pd.DataFrame({"y_true": ONE, "y_pred": SECOND}))
    assert found.test_labels is None
    assert says(found, "'y_true' is no label: 0.")


# --- what other programs write --------------------------------------------------------------------

ROWS = "".join(f"{'ab'[y]};{1 - p:.6f};{p:.6f}\n" for y, p in zip(SECOND, ONE, strict=True))


@pytest.mark.parametrize("name", ["own.csv", "own.txt"])
@pytest.mark.parametrize(
    ("encoding", "first", "separator"),
    [("utf-16", "", "\t"), ("utf-16", "", ";"), ("utf-8-sig", "sep=;\r\n", ";")],
)
def test_what_spreadsheets_write(name, encoding, first, separator, tmp_path):
    text = f"{first}label;p_a;p_b\r\n{ROWS}".replace(";", separator)
    text = text.replace(f"sep={separator}", "sep=;")
    (tmp_path / name).write_text(text, encoding=encoding)
    np.testing.assert_array_equal(correct(tmp_path / name), TWO)
    (tmp_path / name).write_text(text + "a", encoding=encoding)
    with pytest.raises(ValueError, match=f"row {N + 2 + bool(first)} must have 3 cells"):
        read_predictions(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'"truth" ".pred"\n"1" "a" "a"\n', "separated by commas.*from R: write.csv"),
        (b'"truth","pred"\n"1","a","a"\n', "got 3: if the first is the row's name"),
        (b"label,pred\nk\xe4se,brot\n", "byte 0xe4 after row .*iconv"),
        (b"label\na,b\n", "must have 1 cell, as"),
    ],
)
def test_what_is_refused_says_what_would_do(text, said, tmp_path):
    (tmp_path / "own.csv").write_bytes(text)
    with pytest.raises(ValueError, match=said):
        read_predictions(tmp_path / "own.csv")


def test_what_trainers_and_pipelines_write(tmp_path):
    np.savez(tmp_path / "own.npz", predictions=LOGITS.astype(np.float16), label_ids=LABELS)
    np.testing.assert_array_equal(correct(tmp_path / "own.npz"), SAID == LABELS)
    lines = [
        {
            "gold": str(WORDS[y]),
            "scores": [{"label": str(WORDS[j]), "score": p[j]} for j in np.argsort(-p)],
        }
        for y, p in zip(LABELS, P, strict=True)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    np.testing.assert_array_equal(correct(tmp_path / "own.jsonl"), SAID == LABELS)
    np.save(tmp_path / "own.npy", ONE[:, None])
    with pytest.raises(ValueError, match=r"savez\('my.npz', probabilities=p, labels=y\)"):
        read_predictions(tmp_path / "own.npy")


# --- rows that belong together, columns that are no models ----------------------------------------


def test_ids_that_repeat_say_which_rows_belong_together():
    one = pd.DataFrame({"id": range(N), "y_true": SECOND, "y_prob": ONE})
    assert read_predictions(one).test_clusters is None
    other = one.assign(y_prob=RNG.random(N))
    found = read_predictions(pd.concat([one.assign(model="a"), other.assign(model="b")]))
    assert says(found, f"'id' says which rows belong together: {N} different")
    assert sorted(set(found.test_groups)) == ["a", "b"]
    anew = pd.concat([one.assign(split="val"), one.assign(split="test")])
    assert read_predictions(anew).test_clusters is None


def test_a_spread_is_no_model():
    frame = pd.DataFrame({"y_true": SECOND, "prob_mean": ONE, "prob_std": RNG.random(N) / 9})
    assert read_predictions(frame).rivals == {}
    assert says(read_predictions(frame), "not used: 'prob_std'")


def test_labels_that_are_the_answers_are_doubted():
    frame = pd.DataFrame({"label": SAID, **{f"prob_{j}": P[:, j] for j in range(3)}})
    assert any("are the labels what is true" in t for t in doubts(frame))
    assert not any("what is true" in t for t in doubts(frame.assign(label=LABELS)))


def doubts(frame):
    return analyse(read_predictions(frame), Settings()).warnings


def test_one_of_anything_is_singular():
    frame = pd.DataFrame({"y_true": [1], "y_prob": [0.9]})
    assert "of 1 row;" in analyse(read_predictions(frame), Settings()).verdict
    assert (counted(1, "row"), counted(1200, "row")) == ("1 row", "1,200 rows")


def test_a_label_found_by_its_cells_names_the_classes():
    found = read_predictions(pd.DataFrame({"diagnosis": np.array(["B", "M"])[SECOND], "prob": ONE}))
    assert found.class_names == ("B", "M")
    assert says(found, "second class, 'M'")
    np.testing.assert_array_equal(found.correct("test")[0], TWO)


def test_labels_of_one_class_are_doubted():
    frame = pd.DataFrame({"label": ["cat"] * N, "p_cat": ONE, "p_dog": 1 - ONE})
    assert any("all labels are the same, 'cat'" in text for text in doubts(frame))


# --- what --map says ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapped", "said"),
    [
        ("label=y,probability=y", "names 'y' for label and for probability"),
        ("label=y,first=2", "first=2: the first class must be number 0 or 1"),
        ("label=y,positive=z", "positive=z: must be one of '0', '1'"),
        ("label=p", "'p' must be classes, got '0"),
        ("label=[yp]", "one must be 1, and the others 0"),
        ("label=y,probability=word", "'word' must be a number in every row, got 'w0' in row 0"),
        ("label=y,probabilities=p", "at least 2 columns, one a class, got 'p' alone"),
        ("label=y,group=one", "'one' is not used: it must have 2 to"),
        ("label=y,cluster=word", "'word' is not used: it must have fewer different"),
        ("label=y,part=site", "'site' is not used: it must hold names of parts"),
        ("label=y,correct=p", "'p' is not used: it must be 1 or 0"),
        ("label=y,prediction=word", "'word' is not used: beside"),
    ],
)
def test_what_map_names_is_used_or_refused(mapped, said):
    frame = pd.DataFrame({"y": SECOND, "p": ONE, "word": [f"w{j}" for j in range(N)]})
    frame["site"], frame["one"] = np.where(RNG.random(N) < 0.5, "a", "b"), "x"
    np.testing.assert_array_equal(correct(frame), TWO)
    with pytest.raises(ValueError, match=re.escape(said)):
        read_predictions(frame, as_mapping([mapped]))


# --- parts and confidences ------------------------------------------------------------------------

THREE = {f"p_{w}": P[:, j] for j, w in enumerate(WORDS)}


def test_parts_by_other_names():
    third = np.arange(N) % 3
    split = np.array(["calibration", "source", "target"])[third]
    found = read_predictions(pd.DataFrame(THREE | {"split": split, "label": WORDS[LABELS]}))
    np.testing.assert_array_equal(found.correct("test")[0], (SAID == LABELS)[third == 1])
    assert found.has("user_logits")
    assert found.has("holdout_logits")
    domain = np.array(["source", "target"])[third % 2]
    found = read_predictions(pd.DataFrame(THREE | {"domain": domain, "label": WORDS[LABELS]}))
    assert len(found.user_logits) == (third % 2 == 1).sum()


@pytest.mark.parametrize("other", ["extra", ""])
def test_a_word_for_no_part_is_named(other):
    split = np.array(["train", "test", other])[np.arange(N) % 3]
    frame = pd.DataFrame(THREE | {"split": split, "label": WORDS[LABELS]})
    with pytest.raises(ValueError, match=f"'split' must be one of train, val.*got '{other}' in r"):
        read_predictions(frame)
    folds = frame.assign(split=np.arange(N) % 5)  # of numbers nothing is known
    assert len(read_predictions(folds).correct("test")[0]) == N


def test_arrays_of_a_source_and_a_target(tmp_path):
    half = N // 2
    path = tmp_path / "own.npz"
    source = {"source_probs": P[:half], "source_labels": LABELS[:half]}
    np.savez(path, **source, target_probs=P[half:])
    found = read_predictions(path)
    np.testing.assert_array_equal(found.correct("test")[0], (SAID == LABELS)[:half])
    assert len(found.user_logits) == N - half
    assert not found.rivals
    logits = np.log(P)
    np.savez(path, test_logits=logits, test_labels=LABELS, val_logits=logits, val_labels=LABELS)
    assert says(read_predictions(path), "'val_logits' is holdout_logits")
    np.testing.assert_array_equal(read_predictions(path).holdout_labels, LABELS)


@pytest.mark.parametrize(
    ("given", "want"),
    [(P.max(1), P.max(1)), (100 * P.max(1), P.max(1)), (np.log(P.max(1)), np.log(P.max(1)))],
)
def test_a_confidence_beside_answers_of_any_name(given, want):
    frame = pd.DataFrame({"gold": WORDS[LABELS], "parsed": WORDS[SAID], "confidence": given})
    np.testing.assert_allclose(read_predictions(frame).test_confidence, want)
    correct = pd.DataFrame({"is_correct": SAID == LABELS, "confidence": given})
    np.testing.assert_allclose(read_predictions(correct).test_confidence, want)


def test_several_right_choices_of_a_harness_are_refused(tmp_path):
    choices = [[-1.0, False], [-2.0, False]]
    lines = [json.dumps({"target": 0, "filtered_resps": choices, "acc": x}) for x in (1.0, 0.4)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"row 2: acc must be 0 or 1, got 0\.4: several choices"):
        read_predictions(tmp_path / "own.jsonl")


# --- why not --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"label": LABELS + 1, "pred": SAID},
            r"agree in .* rows, and in .* if the answers are counted from 1\. Number",
        ),
        ({"label": LABELS, "pred": WORDS[SAID]}, r"'pred' has no cell of 'label': 'cat', 'dog'"),
        (
            {"label": WORDS[LABELS], "p_cat": P[:, 0], "p_dog": P[:, 1]},
            "'p_cat', 'p_dog' lack 'owl', a label",
        ),
        (
            THREE | {"label": LABELS, "patient_id": [None, *range(N - 1)]},
            "'patient_id' must be given in every row, since intervals count it",
        ),
        (
            {name: np.where(SECOND == 1, 0, p) for name, p in THREE.items()}
            | {"label": WORDS[LABELS]},
            r"'p_cat' must be above 0 in one class at least; leave rows .*got '0' in row \d",
        ),
    ],
)
def test_what_does_not_fit_is_told(columns, said):
    with pytest.raises(ValueError, match=said):
        read_predictions(pd.DataFrame(columns))


def test_a_group_that_is_none_says_why():
    gaps = np.where(SECOND == 1, "", np.array(["a", "b"])[LABELS % 2])
    found = read_predictions(pd.DataFrame(THREE | {"label": WORDS[LABELS], "site": gaps}))
    assert found.test_groups is None
    assert says(found, "'site' is no group: it must have 2 to 100 different values and no empty")
    assert says(found, f"got 2 and {SECOND.sum()}")


@pytest.mark.parametrize("words", [("answer", "defer"), ("Answered", "Abstained")])
def test_two_words_may_say_where_it_abstained(words):
    low = P.max(axis=1) < 0.7
    frame = pd.DataFrame(THREE | {"label": WORDS[LABELS], "decision": np.array(words)[low * 1]})
    np.testing.assert_array_equal(read_predictions(frame).test_abstained, low)
    flags = frame.assign(decision=WORDS[SAID], deferred=np.where(low, "Y", "N"))
    np.testing.assert_array_equal(read_predictions(flags).test_abstained, low)
    unclear = read_predictions(frame.assign(deferred="maybe", decision=WORDS[SAID]))
    assert unclear.test_abstained is None
    assert says(unclear, "'deferred' says not yes or no where the model abstained")


def test_truth_in_such_words_is_a_label():
    words = np.array(["answer", "refuse"])
    frame = pd.DataFrame({"label": words[SECOND], "pred": words[(ONE > 0.5) * 1], "p": ONE})
    found = read_predictions(frame)
    assert found.test_abstained is None
    np.testing.assert_array_equal(found.correct("test")[0], TWO)


def test_a_column_with_the_words_of_the_answers_is_asked_for():
    frame = pd.DataFrame({"species": WORDS[LABELS], "pred": WORDS[SAID], "note": ["x", "y"] * 45})
    with pytest.raises(ReadingError, match=r"'species' has the cells of 'pred'.*map label=species"):
        read_predictions(frame)
    np.testing.assert_array_equal(correct(frame, {"label": "species"}), SAID == LABELS)
    assert read_predictions(frame[["pred", "note"]]).test_labels is None


# --- names of classes -----------------------------------------------------------------------------

SIGNED = [
    ("<=50K", ">50K", "?50K"),
    ("C", "C#", "C++"),
    ("A", "A+", "A-"),
    ("\u732ba", "\u72d7a", "\u9c7ca"),
    ("K\u00e4se", "\u00c4pfel", "\u00d6l"),
    ("<18", "18-65", ">65"),
    ("1-2", "2-3", "3-4"),
]


@pytest.mark.parametrize("names", SIGNED)
@pytest.mark.parametrize("form", ["p_{}", "{}", "{} score", "P({})", ""])
def test_names_that_differ_in_signs_or_other_letters(names, form):
    label = {"label": np.array(names)[LABELS]}
    outputs = {form.format(name): P[:, j] for j, name in enumerate(names)}
    found = read_predictions(
        pd.DataFrame(label | (outputs if form else {"pred": np.array(names)[SAID]}))
    )
    np.testing.assert_array_equal(found.correct("test")[0], SAID == LABELS)
    assert set(found.class_names) == {*names}


def test_what_other_services_write(tmp_path):
    rows = [
        {
            "label": str(WORDS[label]),
            "prediction": {"displayNames": WORDS[::-1].tolist(), "confidences": p[::-1].tolist()},
            "logits": str([*map(float, np.log(p))]),
        }
        for label, p in zip(LABELS, P, strict=True)
    ]
    for left in ("logits", "prediction"):
        path = tmp_path / "own.jsonl"
        lines = [{k: v for k, v in row.items() if k != left} for row in rows]
        path.write_text("\n".join(map(json.dumps, lines)))
        np.testing.assert_array_equal(correct(path), SAID == LABELS)


def test_an_array_with_the_label_last(tmp_path):
    np.save(tmp_path / "own.npy", np.column_stack([P, LABELS]))
    found = read_predictions(tmp_path / "own.npy")
    np.testing.assert_array_equal(found.correct("test")[0], SAID == LABELS)
    assert says(found, "the last of 4 columns holds whole numbers below 3: it is the label")


def test_how_far_numbers_vary_is_no_model():
    spread = {f"std_prob_{word}": np.full(N, 0.1) for word in WORDS}
    means = {f"mean_prob_{word}": P[:, j] for j, word in enumerate(WORDS)}
    found = read_predictions(pd.DataFrame({"label": WORDS[LABELS]} | spread | means))
    assert not found.rivals
    np.testing.assert_array_equal(found.correct("test")[0], SAID == LABELS)
