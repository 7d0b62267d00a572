"""Kinds of files found in the wild, each as a small one of our own."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.data import arrays
from lib.report import packed, read_predictions, readers
from lib.report.__main__ import told_if_slow
from lib.suitability import SIGNAL_NAMES

RNG = np.random.default_rng(8)
N, WORDS = 60, np.array(["cat", "dog", "owl"])
LABELS = RNG.permutation(np.repeat([0, 1, 2], N // 3))
LOGITS = 2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3))
P = special.softmax(LOGITS, axis=1).round(6)
SAID = P.argmax(axis=1)
RIGHT = SAID == LABELS
SECOND = RNG.integers(0, 2, N)
ONE = special.expit(3.0 * SECOND - 1.5 + RNG.normal(size=N))
TWO = (ONE > 0.5) == SECOND
FRAME = pd.DataFrame({"label": WORDS[LABELS]} | {f"p_{w}": P[:, j] for j, w in enumerate(WORDS)})
RECORDS = FRAME.to_dict("records")


def correct(data, mapped=None):
    return read_predictions(data, mapped).correct("test")[0]


def says(found, text):
    return any(text in each for each in found.reading)


# --- packed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zip"])
@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.jsonl", "own.json"])
def test_text_is_read_packed(name, suffix, tmp_path):
    sep = "\t" if name.endswith("tsv") else ","
    text = FRAME.to_csv(index=False, sep=sep)
    if "json" in name:
        text = FRAME.to_json(orient="records", lines=name.endswith("l"))
    path = tmp_path / (name + suffix)
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, text)
            archive.writestr("__MACOSX/" + name, "")
    else:
        pack = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix]
        path.write_bytes(pack.compress(text.encode()))
    np.testing.assert_array_equal(correct(path), RIGHT)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=f"packed as {suffix}"):
        read_predictions(path)


def test_what_is_packed_is_bounded(tmp_path, monkeypatch):
    path = tmp_path / "own.csv.gz"
    path.write_bytes(gzip.compress(b"label,p_0,p_1\n" + b"\n" * 200_000))
    monkeypatch.setattr(packed, "MOST_BYTES", 100_000)
    with pytest.raises(ValueError, match="at most 100,000 bytes, unpacked"):
        read_predictions(path)
    monkeypatch.setattr(arrays, "most_memory", lambda: (100_000, "as a test says"))
    path = tmp_path / "own.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 50_000 + b"]"))
    with pytest.raises(ValueError, match="at most 25,000 bytes of memory"):
        read_predictions(path)


def test_packed_files_that_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "own.zip", "w") as archive:
        archive.writestr("a.csv", "a")
        archive.writestr("b.csv", "b")
    with pytest.raises(ValueError, match="must hold one file, got 2: unpack it first"):
        read_predictions(tmp_path / "own.zip")
    for name in ("own.npz.gz", "own.tar.gz", "own.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"a"))
        with pytest.raises(ValueError, match="unpack it first"):
            read_predictions(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-8-sig"])
def test_encodings_with_and_without_a_mark(encoding, tmp_path):
    (tmp_path / "own.csv").write_text(FRAME.to_csv(index=False), encoding=encoding)
    np.testing.assert_array_equal(correct(tmp_path / "own.csv"), RIGHT)


def test_comments_before_the_header(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("# model: a, b\n# 2026\n" + FRAME.to_csv(index=False))
    found = read_predictions(path)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    assert says(found, "2 lines before the header")
    path.write_text("#" + FRAME.to_csv(index=False))  # the header itself
    np.testing.assert_array_equal(correct(path), RIGHT)
    path.write_text("# a\n" + FRAME.to_csv(index=False) + "x\n")
    with pytest.raises(ValueError, match=f"row {N + 3} must have 4 cells"):
        read_predictions(path)


# --- nested ---------------------------------------------------------------------------------------


def scores(row, key="score"):
    return [{"label": str(WORDS[j]), key: float(row[j])} for j in np.argsort(-row)]


CELLS = {
    "NumPy 2": lambda row: str([np.float64(v) for v in row]),
    "an array": lambda row: repr(np.array(row)),
    "a tensor": lambda row: f"tensor({list(map(float, row))}, device='cuda:0')",
    "one row of a matrix": lambda row: str([list(map(float, row))]),
    "a dictionary": lambda row: str(dict(zip(WORDS.tolist(), map(float, row), strict=True))),
    "an object": lambda row: json.dumps(dict(zip(WORDS, row, strict=True))),
    "classes with scores": lambda row: str(scores(row, "prob")),
}


@pytest.mark.parametrize("kind", CELLS)
def test_what_is_printed_in_a_cell(kind, tmp_path):
    labels = LABELS if kind in list(CELLS)[:4] else WORDS[LABELS]
    frame = pd.DataFrame({"label": labels, "probs": [CELLS[kind](row) for row in P]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    np.testing.assert_array_equal(correct(tmp_path / "own.csv"), RIGHT)


def test_an_object_in_a_cell_is_data(tmp_path):
    cell = "{'cat': __import__('os').system('true'), 'dog': 0.5}"
    frame = pd.DataFrame({"label": WORDS[LABELS], "probs": [cell] * N})
    frame.to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(ValueError, match="no columns are known"):
        read_predictions(tmp_path / "own.csv")


ORDERS = [np.argsort(-row) for row in P]
JSON = {
    "two lists, as of zero-shot classification": [
        {"gold": str(WORDS[y]), "labels": WORDS[o].tolist(), "scores": row[o].tolist()}
        for y, o, row in zip(LABELS, ORDERS, P, strict=True)
    ],
    "the surest class alone": [
        {"gold": str(WORDS[y]), "output": scores(row)[:1]} for y, row in zip(LABELS, P, strict=True)
    ],
    "columns": FRAME.to_dict(),
    "split": json.loads(FRAME.to_json(orient="split")),
    "rows by number": json.loads(FRAME.to_json(orient="index")),
    "rows by name": {f"{j}.png": row for j, row in enumerate(RECORDS)},
    "beside what is said of the whole": {"meta": {"n": N, "by": "me"}, "predictions": RECORDS},
    "results by name": {"n": N, "results": {f"r{j}": row for j, row in enumerate(RECORDS)}},
}


@pytest.mark.parametrize("kind", JSON)
def test_what_programs_write_as_json(kind, tmp_path):
    (tmp_path / "own.json").write_text(json.dumps(JSON[kind]))
    found = read_predictions(tmp_path / "own.json")
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    if found.test_logits is None:
        np.testing.assert_allclose(found.test_confidence, P.max(axis=1))


# --- arrays ---------------------------------------------------------------------------------------


def test_arrays_of_other_shapes_say_what_would_do(tmp_path):
    with pytest.raises(ValueError, match=r"'logits' must have a row for each.*save logits\.T"):
        read_predictions({"logits": LOGITS.T, "labels": LABELS})
    with pytest.raises(ValueError, match=r"shape is \(5, 60, 3\): of several passes, take the"):
        read_predictions({"probs": np.stack([P] * 5), "labels": LABELS})
    np.save(tmp_path / "own.npy", P)
    assert says(read_predictions(tmp_path / "own.npy"), "no labels; both go into one file")


def test_hard_predictions_in_columns_are_no_confidence():
    hot = np.eye(3)[SAID]
    frame = pd.DataFrame({"y": WORDS[LABELS]} | {f"p_{w}": hot[:, j] for j, w in enumerate(WORDS)})
    found = read_predictions(frame)
    assert found.test_logits is None
    assert found.test_confidence is None
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    assert says(found, "there is no confidence")
    frame = frame.rename(columns=lambda name: name.replace("p_", "logit_"))
    assert read_predictions(frame).test_logits.max() == 1  # as an array of that name


# --- which column is what -------------------------------------------------------------------------


def test_numbers_that_contradict_the_answers_are_asked_for():
    frame = FRAME.assign(predicted_label=WORDS[(SAID + (RNG.random(N) < 0.5)) % 3])
    with pytest.raises(ValueError, match="more than one way") as caught:
        read_predictions(frame)
    assert "--map 'probabilities=p_*'" in str(caught.value)
    assert "--map prediction=predicted_label" in str(caught.value)
    np.testing.assert_array_equal(correct(frame, {"probabilities": "p_*"}), RIGHT)
    assert read_predictions(frame, {"prediction": "predicted_label"}).test_logits is None


def test_scores_of_rules_are_no_classes():
    rules = {f"system_scores.{name}": RNG.normal(size=N) for name in ("harm", "clarity", "reach")}
    frame = pd.DataFrame({"gold_label": WORDS[LABELS], "system": WORDS[SAID]} | rules)
    np.testing.assert_array_equal(correct(frame), RIGHT)


def test_probabilities_and_logits_of_one_model_are_one_model():
    frame = FRAME.assign(**{f"raw_{w}": LOGITS[:, j] for j, w in enumerate(WORDS)})
    frame = frame.rename(columns=lambda name: name.replace("raw_", "rawPrediction_"))
    found = read_predictions(frame)
    assert not found.rivals
    assert says(found, "the same answers, and not used")


def test_a_guessed_label_that_follows_from_the_outputs_is_none():
    frame = pd.DataFrame({"user_id": range(N), "status": (ONE > 0.2).astype(int), "prob": ONE})
    found = read_predictions(frame)
    assert found.test_labels is None
    assert says(found, "taken as what the model answered")
    np.testing.assert_array_equal(correct(frame, {"label": "status"}), (ONE > 0.5) == (ONE > 0.2))
    frame["status"] = SECOND
    np.testing.assert_array_equal(correct(frame), TWO)


def test_a_category_is_neither_the_truth_nor_an_answer():
    frame = pd.DataFrame({"category": np.array(["a", "b", "cat"])[RNG.integers(0, 3, N)]})
    frame["expected_label"], frame["bert_label"] = WORDS[LABELS], WORDS[SAID]
    frame["bert_score"] = 0.001 + 0.9 * RNG.random(N)
    found = read_predictions(frame)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    assert found.test_confidence is None
    assert says(found, "'bert_score' is not the probability of the answer")


def test_the_confidence_of_each_model_is_named_as_its_answers():
    frame = pd.DataFrame({"truth": WORDS[LABELS], "a_pred": WORDS[SAID], "a_conf": P.max(axis=1)})
    frame["b_pred"], frame["b_conf"] = frame["truth"], 1.0
    found = read_predictions(frame)
    np.testing.assert_allclose(found.test_confidence, P.max(axis=1))
    assert list(found.rivals) == ["b_pred"]


def test_sigmoids_by_the_names_of_classes():
    columns = {f"sigmoid_{w}": special.expit(LOGITS[:, j]) for j, w in enumerate(WORDS)}
    found = read_predictions(pd.DataFrame(columns | {"label": WORDS[LABELS]}))
    np.testing.assert_array_equal(found.correct("test")[0], LOGITS.argmax(axis=1) == LABELS)
    assert says(found, "each row is divided by its sum")


def test_a_score_is_a_guess_that_its_labels_bear_out():
    frame = pd.DataFrame({"is_fraud": SECOND.astype(bool), "fraud_score": ONE})
    np.testing.assert_array_equal(correct(frame), TWO)
    with pytest.raises(ValueError, match=r"no better than a constant|more than one way"):
        read_predictions(frame.assign(fraud_score=RNG.random(N)))
    features = pd.DataFrame({"age": RNG.integers(20, 90, N), "stroma_score": ONE})
    with pytest.raises(ValueError, match="no columns are known"):
        read_predictions(features)


# --- what there is no report of, and why ----------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"y_true": ONE, "y_pred_svr": ONE / 2}, "'y_true' is no label: .* is no class"),
        (
            {"Actual": np.arange(N) * 7, "Predicted": 400 * ONE},
            "'Predicted' holds numbers .* no classes",
        ),
        ({f"Label {j}": RNG.integers(0, 2, N) for j in range(4)}, "several 1s in a row"),
        (
            {"label": LABELS, "p_0": ["?", *map(str, P[1:, 0])], "p_1": P[:, 1], "p_2": P[:, 2]},
            "'p_0' holds numbers, but '\\?' in row 0",
        ),
    ],
)
def test_what_is_missing_is_said_with_its_reason(columns, said):
    with pytest.raises(ValueError, match=said):
        read_predictions(pd.DataFrame(columns))


def test_signals_and_canaries_say_what_takes_them():
    signals = pd.DataFrame({name: RNG.random(N) for name in SIGNAL_NAMES})
    with pytest.raises(ValueError, match="SuitabilityFilter takes them as they are"):
        read_predictions(signals)
    found = read_predictions(signals.assign(correct=SECOND))
    assert says(found, "SuitabilityFilter takes them as they are")
    np.testing.assert_array_equal(found.test_confidence, signals["conf_max"])
    found = read_predictions({"confs": P, "pos": np.arange(N), "labels": LABELS})
    assert says(found, "If these are confidences in canaries")


def test_a_data_set_may_be_a_part():
    frame = pd.concat([FRAME.assign(Dataset="Training"), FRAME.assign(Dataset="Test")])
    assert len(read_predictions(frame).test_labels) == N
    assert len(read_predictions(frame.assign(Dataset="imdb")).test_labels) == 2 * N


# --- the command begins at once, and says what takes long -----------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import lib.report",
        "from lib.report.__main__ import _parser; assert 'ROLE' in _parser().format_help()",
    ],
)
def test_help_loads_nothing_that_takes_time(code):
    heavy = "{'numpy', 'scipy', 'pandas', 'numba', 'matplotlib', 'sklearn', 'torch'}"
    code = f"{code}; import sys; found = {heavy} & set(sys.modules); assert not found, found"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_in_words_loads_no_matplotlib(tmp_path):
    FRAME.to_csv(tmp_path / "own.csv", index=False)
    code = f"""
import sys
from lib.report.__main__ import main
assert main([{str(tmp_path / "own.csv")!r}]) == 0
assert "matplotlib" not in sys.modules and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_long_is_said_on_a_terminal(terminal, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    with told_if_slow("reading own.csv", after=0.0):
        end = time.monotonic() + 30
        while terminal and not stream.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    with told_if_slow("no word", after=30.0):
        pass
    assert stream.getvalue() == "reading own.csv ...\n" * terminal


# --- some classes of many -------------------------------------------------------------------------

NOISE = np.random.default_rng(9).normal(size=(N, 50))
MANY = special.softmax(4.0 * np.eye(50)[np.arange(N) % 50] + NOISE, axis=1)
FIRST = np.argsort(MANY, axis=1)[:, -3:]  # the surest last
TOP = np.take_along_axis(MANY, FIRST, axis=1)


@pytest.mark.parametrize("kind", ["objects", "two lists", "columns", "arrays"])
def test_of_the_surest_classes_the_first_is_the_answer(kind, tmp_path):
    names, path = [f"c{j}" for j in range(50)], tmp_path / "own.jsonl"
    truth, rows = np.arange(N) % 50, []
    for label, ids, scores in zip(truth, FIRST.tolist(), TOP.tolist(), strict=True):
        pairs = [{"label": names[j], "score": p} for j, p in zip(ids, scores, strict=True)]
        lists = {"labels": [names[j] for j in ids], "scores": scores}
        rows.append({"gold": names[label]} | ({"top": pairs} if kind == "objects" else lists))
    path.write_text("\n".join(map(json.dumps, rows)))
    if kind in ("columns", "arrays"):
        path = tmp_path / "own.npz"
        ids = {"top3_classes": FIRST, "top3_probs": TOP}
        if kind == "columns":
            ids = {f"{n}_{j}": v[:, j] for n, v in ids.items() for j in range(3)}
        np.savez(path, labels=truth, **ids)
    found = read_predictions(path)
    np.testing.assert_array_equal(found.correct("test")[0], MANY.argmax(axis=1) == truth)
    np.testing.assert_allclose(found.test_confidence, MANY.max(axis=1))
    assert says(found, "the surest is taken")


def test_of_several_answers_that_are_named_one_by_one(tmp_path):
    columns = {f"top{j + 1}_index": FIRST[:, -1 - j] for j in range(3)}
    columns |= {f"top{j + 1}_prob": TOP[:, -1 - j] for j in range(3)}
    truth = np.arange(N) % 50
    found = read_predictions(pd.DataFrame({"target": truth} | columns))
    np.testing.assert_array_equal(found.correct("test")[0], MANY.argmax(axis=1) == truth)
    np.testing.assert_allclose(found.test_confidence, MANY.max(axis=1))


# --- an array alone, and other bytes than the name says -------------------------------------------


def test_an_array_alone_may_hold_the_label(tmp_path):
    path = tmp_path / "own.npy"
    for whole in (np.c_[P, LABELS], np.c_[LABELS, P]):
        np.save(path, whole)
        np.testing.assert_array_equal(correct(path), RIGHT)
    for pair in (np.c_[ONE, SECOND], np.c_[SECOND, ONE]):
        np.save(path, pair)
        np.testing.assert_array_equal(correct(path), TWO)
    np.save(path, np.c_[LABELS, SAID])
    with pytest.raises(ValueError, match="must say which column is the label, got two of whole"):
        read_predictions(path)
    np.save(path, np.where(np.isneginf(np.log(P)) | (P < 0.01), -np.inf, np.log(P)))
    assert read_predictions(path).test_labels is None


@pytest.mark.parametrize(
    ("begin", "ending"),
    [(gzip.compress(b"label,p"), r"\.gz"), (b"PK\x03\x04", r"\.xlsx"), (b"PAR1\x15", r"\.parquet")],
)
def test_a_file_that_is_no_text_says_what_it_is(begin, ending, tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes(begin + bytes(range(256)))
    with pytest.raises(ValueError, match=rf"must be text, got a file as of .*{ending}: name it so"):
        read_predictions(path)


# --- commas in numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("separator", "cells", "values"),
    [
        (",", ["950", "1,050", "-12,345"], [950, 1050, -12345]),
        (",", ["0.5", "1,050.5", "2,345"], [0.5, 1050.5, 2345]),
        (",", ["0,500", "1,050", "-2,345"], [0.5, 1.05, -2.345]),  # others are decimal commas
        (",", ["2,5", "1,050", "-2,345"], [2.5, 1.05, -2.345]),
        (";", ["1,500", "1,050", "-2,345"], [1.5, 1.05, -2.345]),
        (";", ["950", "1,234,567", "-2,345.5"], [950, 1234567, -2345.5]),
    ],
)
def test_commas_are_of_thousands_or_of_decimals(separator, cells, values, tmp_path):
    path = tmp_path / "own.csv"
    rows = [f'{j % 2}{separator}"{cells[j % 3]}"' for j in range(12)]
    path.write_text("\n".join([f"label{separator}value", *rows]) + "\n")
    np.testing.assert_allclose(readers.read_file(path).columns["value"].numbers, values * 4)
