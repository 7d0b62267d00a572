"""Files that are refused or asked about: the error names the file, what is wrong, and a way out.

What an error offers for ``--map`` is tried: it reads the file as it says.
"""

import gzip
import io
import json
import zipfile
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from reading_samples import (
    FEW,
    HARD,
    LABELS,
    LOGITS,
    MANY,
    NAMED,
    NUMBERED,
    ONE,
    RIGHT,
    SAID,
    SECOND,
    SURE,
    TRUTH,
    TWO,
    WORDS,
    YES,
    File,
    N,
    P,
    check,
    lines,
    of,
    read,
    saved,
)  # fmt: skip
from scipy import special

from lib.report import read_predictions
from lib.report.__main__ import as_mapping
from lib.report.files import ReadingError
from lib.report.other_tasks import several
from lib.suitability import SIGNAL_NAMES

RNG = np.random.default_rng(3)


class Refused(NamedTuple):
    """What is refused, what the error has, and what reads it all the same, and as what."""

    data: Any
    names: tuple[str, ...]
    offers: dict[str, Any]
    mapped: dict[str, str] | None


def no(data, *names, offers=None, mapped=None):
    return Refused(data, names, offers or {}, mapped)


def text(content, *names, name="own.csv"):
    return no(File(name, content), *names)


def zipped(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "a")
    return buffer.getvalue()


TAGS = ("toxic", "obscene", "threat", "insult")
SETS = [[str(tag) for tag, one in zip(TAGS, row, strict=True) if one] for row in MANY]
JOINED = ["|".join(each) for each in SETS]
AGES, COUNTS = RNG.integers(10, 90, N), RNG.poisson(12, N)
MATRIX = pd.DataFrame([[30, 5, 5], [4, 21, 5], [3, 7, 20]], columns=WORDS)
CSV = pd.DataFrame(HARD).to_csv(index=False)
INDEXED = pd.DataFrame({"label": SECOND, "prob": ONE}).reset_index().to_csv(index=False)
EVEN = {"label": ["left", "right"] * 40, "prob": [0.9, 0.9, 0.1, 0.1] * 20}
BELOW, HALVED = P.copy(), P.copy()
BELOW[5], HALVED[7] = [-0.1, 0.6, 0.5], HALVED[7] / 2
MIXED = np.where(np.arange(N)[:, None] < N // 2, 100 * P, P)
TURNED = np.argsort([2, 0, 1])
PAIR = {"y": SECOND, "p": ONE, "word": [f"w{j}" for j in range(N)], "one": "x",
        "site": np.array(["a", "b"])[LABELS % 2]}  # fmt: skip
ANSWERS = {"label": WORDS[SAID], "score": SURE, "class": WORDS[LABELS]}
NET = NAMED | TRUTH | {"predicted_label": WORDS[(SAID + (RNG.random(N) < 0.5)) % 3]}

ASKED = {
    "a probability of two meanings": no(
        {"label": SECOND, "prediction": 1 - YES, "prob": ONE}, "accuracy",
        offers={"probability=prob": TWO}),
    "reversed numbers": no(
        {"label": SECOND, "prob": 1 - ONE}, f"{TWO.mean():.3f}",
        offers={"probability=prob,positive=0": TWO, "probability=prob,positive=1": ~TWO}),
    "words of which neither is the second": no(
        EVEN, offers={f"probability=prob,positive={word}": None for word in ("left", "right")}),
    "names that a shell would change": no(
        {"label": np.where(SECOND, "spam", "ham"), "prob of one": 1 - ONE},
        offers={"'probability=prob of one,positive=spam'": ~TWO,
                "'probability=prob of one,positive=ham'": TWO},
        mapped={"probability": "prob of one"}),
    "one class alone": no(
        {"label": ["ham"] * N, "prob": ONE}, "'ham'",
        offers={"probability=prob,positive=ham": ONE > 0.5,
                "probability=prob,positive=other": ONE <= 0.5}),
    "words that two columns do not bear": no(
        {"label": np.where(SECOND, "yes", "no"), "p_up": ONE, "p_down": 1 - ONE}, "'p_up'"),
    "numbers for words in another order": no(
        of([f"prob_{WORDS[j]}" for j in (2, 0, 1)], P[:, [2, 0, 1]], label=LABELS), "'owl'",
        offers={"'probabilities=prob_*,first=0'": TURNED[SAID] == LABELS}),
    "two columns that may be the label": no(
        ANSWERS, offers={"label=label": None, "label=class": {
            "right": RIGHT, "test_confidence": SURE, "test_labels": LABELS}}),
    "numbers that contradict the answers": no(
        NET, offers={"'probabilities=p_*'": RIGHT, "prediction=predicted_label": {
            "right": NET["predicted_label"] == WORDS[LABELS], "test_logits": None}}),
    "a column with the words of the answers": no(
        {"species": WORDS[LABELS], "pred": WORDS[SAID], "note": ["x", "y"] * 60}, "'pred'",
        offers={"label=species": RIGHT}),
    "a label beside answers of one model": no(
        {"Bought": np.array(["CH", "MM"])[SECOND], "prediction_score": np.maximum(ONE, 1 - ONE),
         "prediction_label": np.array(["CH", "MM"])[YES]}, "'prediction_label'",
        offers={"label=Bought": TWO}),
    "counts": no(
        {"actual": COUNTS, "predicted": COUNTS + RNG.integers(-2, 3, N)}, "'predicted'",
        offers={"label=actual,prediction=predicted": None}),
    "several labels": no(
        {t: MANY[:, j] for j, t in enumerate(TAGS)}
        | {f"{t}_pred": (MANY[:, j] + 0.9 * RNG.random(N)) / 2 for j, t in enumerate(TAGS)},
        "'toxic_pred'", offers={"label=toxic,probability=toxic_pred": None}),
    "several labels, of which one may be right": no(
        {f"y_{t}": np.arange(N) % 9 == j for j, t in enumerate(TAGS)}
        | {f"p_{t}": RNG.random(N) for t in TAGS}, "'y_toxic'", "'p_toxic'"),
    "several tasks": no(
        {"sex_true": YES, "sex_pred": SECOND, "age_true": LABELS, "age_pred": SAID},
        "'sex_true'", "'sex_pred'", "'age_true'", "'age_pred'",
        offers={"label=sex_true,prediction=sex_pred": TWO}),
    "a row of probabilities that does not sum to 1": no(
        of(["p0", "p1", "p2"], HALVED, label=LABELS), "119 of 120", "row 9",
        offers={"'probabilities=p*'": RIGHT}),
    "a negative probability": no(
        of(["p0", "p1", "p2"], BELOW, label=LABELS), "row 7", "-0.1, 0.6, 0.5",
        "'probabilities=p*'"),
    "percentages and fractions": no(
        of(["p0", "p1", "p2"], MIXED, label=LABELS), "60 of 120", "row 2",
        offers={"'probabilities=p*'": RIGHT}),
    "two runs of one class": no(
        {"label": SECOND, "prob_0": ONE, "prob_1": special.expit(special.logit(ONE) + 0.5)},
        "'prob_0', 'prob_1'", "--map 'probability=prob_*'",
        offers={"'probabilities=prob_*'": None}),
    "scores from 1 to 10": no(
        {"label": SECOND, "score": np.ceil(10 * ONE)}, "from 1 to 10",
        offers={"logit=score": None}),
    "scores of any size": no({"label": SECOND, "score": 300 + 500 * ONE}, "'score'", "probability"),
    "a submission alone": no({"id": range(N), "target": ONE}, "'target'", "--map"),
    "a score that ranks the wrong way": no(
        {"is_fraud": SECOND == 1, "fraud_score": 1 - ONE}, "'fraud_score'"),
}  # fmt: skip

LACKING = {
    "everything": no({"a": LABELS, "b": RNG.normal(size=N)}, "--map label=", "--map probabilities=",
                     "'a', 'b'", "label,p_cat,p_dog"),
    "features": no({"age": RNG.integers(20, 90, N), "stroma_score": ONE}, "'age', 'stroma_score'"),
    "labels of other classes": no(of(["p0", "p1", "p2"], label=np.arange(N) % 5), "3", "5"),
    "a column of a class": no(TRUTH | {"p_cat": P[:, 0], "p_dog": P[:, 1]}, "'p_cat'", "'owl'"),
    "answers in other words": no({"label": LABELS, "pred": WORDS[SAID]}, "'pred'", "'label'"),
    "answers from another number": no({"label": LABELS + 1, "pred": SAID}, "'label'", "'pred'",
                                      f"{RIGHT.mean():.1%}"),
    "names of columns": no(
        of([f"p_{j}" for j in range(3)], P[:, TURNED], label=np.array(["b", "c", "a"])[SAID]),
        "'a', 'b', 'c'"),
    "numbers": no({"y_true": ONE, "y_pred_svr": ONE / 2}, "'y_true'"),
    "numbers that go together": no({"age_true": AGES, "age_pred": AGES + RNG.integers(-5, 6, N)},
                                   "'age_true'", "'age_pred'"),
    "prices": no({"y_true": AGES * 1.5, "y_pred": AGES + 0.5}, "'y_true'"),
    "whole prices": no({"y_true": AGES, "y_pred": AGES + 0.5}, "'y_true'", "'y_pred'"),
    "predicted prices": no({"Actual": np.arange(N) * 7, "Predicted": 400 * ONE}, "'Predicted'"),
    "predicted whole prices": no({"Id": range(N), "SalePrice": 9 * np.arange(N) + 7,
                                  "Predicted": 10 * np.arange(N)}, "'Predicted'", "120"),
    "prices of a pair": no({"price": 99 * ONE, "predicted_price": 98 * ONE}, "'price'"),
    "sets": no({"labels": JOINED, "predictions": JOINED[::-1]}, "'labels'", "|"),
    "sets in words": no({"true": [*map(" ".join, SETS)], "pred": [*map(" ".join, SETS[::-1])]},
                        "'true'"),
    "printed lists": no({"labels": [*map(str, SETS)], "pred": JOINED}, "'labels'"),
    "sets in JSON": no(lines({"labels": s, "predictions": t}
                             for s, t in zip(SETS, SETS[::-1], strict=True)), "row ", "'correct'"),
    "hot labels": no({f"Label {j}": MANY[:, j] for j in range(4)}, "'Label 0'"),
    "hot arrays": no(File("own.npz", {"y_true": MANY, "y_prob": RNG.random((N, 4))}), "'y_true_0'"),
    "boxes": no({"image": 1, "xmin": ONE, "ymin": ONE, "xmax": ONE, "ymax": ONE, "class": SAID,
                 "confidence": SURE}, "boxes", "true_label"),
    "COCO": no(lines({"image_id": j, "category_id": 3, "bbox": [1, 2, 3, 4.5], "score": p}
                     for j, p in enumerate(ONE)), "boxes"),
    "a log of training": no({"epoch": range(N), "accuracy": ONE, "loss": ONE, "val_loss": ONE},
                            "log of training"),
    "scores of classes": no({"class": WORDS, "precision": 0.9, "recall": 0.8, "support": 40},
                            "scores of classes"),
    "scores of classes, printed": text(
        "              precision    recall  f1-score   support\n\n cat 0.9 0.8 0.85 40\n",
        "scores of classes"),
    "a confusion matrix": no(MATRIX.assign(actual=WORDS), "confusion matrix", "'actual'"),
    "its answers by a word": no(MATRIX.add_prefix("pred_").assign(true=WORDS), "'true'"),
    "a row for each of its counts": no(
        MATRIX.assign(actual=WORDS).melt("actual", var_name="predicted", value_name="count"),
        "'count'", "frame.index.repeat"),
    "signals": no({name: RNG.random(N) for name in SIGNAL_NAMES}, "SuitabilityFilter"),
    "confidences in canaries": no(File("own.npz", {"confs": ONE, "pos": np.arange(N)}),
                                  "canary_epsilon"),
}  # fmt: skip

GAPS = {
    "a total": text(CSV + "Total,60\n", "'label'", "'Total'", f"row {N + 2}"),
    "an accuracy": text(CSV + ",\nAccuracy,0.8\n", "'Accuracy'", f"row {N + 3}"),
    "a sum": text(INDEXED + "Sum,30,30.5\n", "'index'", "'Sum'"),
    "in a score": no({"label": SECOND, "note": "a", "score": np.where(FEW, np.nan, ONE)},
                     "'score'", "row 2"),
    "in a confidence": no(HARD | {"confidence": np.where(FEW, np.nan, SURE)}, "'confidence'",
                          "row 2"),
    "in who belongs together": no(NAMED | {"label": LABELS, "patient_id": [None, *range(N - 1)]},
                                  "'patient_id'", "row 2"),
    "in a flag of the right answers": no({"correct": [None, *RIGHT[1:]], "confidence": SURE},
                                         "'correct'", "row 2"),
    "a question mark": no(NUMBERED | {"label": LABELS, "p_0": ["?", *map(str, P[1:, 0])]}, "'p_0'",
                          "'?'", "row 2"),
    "all 0": no({name: np.where(FEW, 0, p) for name, p in NAMED.items()} | TRUTH, "'p_cat'",
                "row 2"),
    "a part of no name": no(NAMED | TRUTH | {"split": np.array(["train", "test", "extra"])[LABELS]},
                            "'split'", "'extra'", "train, val, test, production"),
    "no part": no(NAMED | TRUTH | {"split": np.array(["train", "test", ""])[LABELS]}, "'split'",
                  "''"),
    "training alone": text("part,label,p_0,p_1\ntrain,0,1,0\n", "training"),
    "no number": text("label,p_0,p_1\n0,0.5,0.5\n1,,1\n", "'p_0'", "row 3"),
    "infinity": text("label,p_0,p_1\n0,inf,0.5\n1,1,1\n", "'p_0'", "'inf'", "row 2"),
    "several right choices": text("\n".join(
        json.dumps({"target": 0, "filtered_resps": [[-1.0, False], [-2.0, False]], "acc": x})
        for x in (1.0, 0.4)), "row 2", "acc", "0.4", name="own.jsonl"),
}  # fmt: skip

TEXTS = {
    "too few cells": text("label\tp_0\tp_1\n0\t0.5\n", "row 2", "3 cells", name="own.tsv"),
    "too few after comments": text("# a\n" + CSV + "x\n", f"row {N + 3}", "2 cells"),
    "UTF-16 and a cell": no(File("own.csv", ("\ufeff" + CSV + "a").encode("utf-16-le")),
                            f"row {N + 2}", "2 cells"),
    "a line of Excel": text("sep=;\r\nlabel;p_a;p_b\r\na;1;0\r\na", "row 4", "3 cells"),
    "another separator": text("label\na,b\n", "1 cell,"),
    "separators at the end": text(CSV.replace("\n", ",\n").replace(",\n", "\n", 1), "separator"),
    "R, write.table": text(b'"truth" ".pred"\n"1" "a" "a"\n', "write.csv"),
    "R, row names": text(b'"truth","pred"\n"1","a","a"\n', "row's name"),
    "Latin-1": text(b"label,pred\nk\xe4se,brot\n", "0xe4", "iconv"),
    "an object in a cell": no(TRUTH | {"probs": ["{'cat': __import__('os').abort()}"] * N},
                              "--map probabilities="),
    "columns without end": text(",".join(map(str, range(25_001))) + "\n", "25,000"),
    "ARFF": text("@relation a\n@attribute b numeric\n@data\n1\n", "ARFF"),
    "HTML": text("<!DOCTYPE html><html></html>\n", "HTML"),
    "a pointer": text("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "JSON": text('[{"label": 1, "prob": 0.5}]', ".json"),
    "packed": text(gzip.compress(b"label,p") + bytes(range(256)), ".gz"),
    "Excel": text(b"PK\x03\x04" + bytes(range(256)), ".xlsx"),
    "Parquet": text(b"PAR1\x15" + bytes(range(256)), ".parquet"),
    "no object": text('{"a": 1}\n[1]\n', "row 2", name="own.jsonl"),
    "half a row": text('{"a": 1}\n{"a": \n', "row 2", "JSON", name="own.jsonl"),
    "a deep row": text("[" * 100_000, "row 1", "JSON", name="own.jsonl"),
    "a long number": text('{"label": ' + "9" * 5000 + "}", "row 1", name="own.jsonl"),
    "no rows": text("\n\n", "rows", name="own.jsonl"),
    "keys without end": text(json.dumps(dict.fromkeys(map(str, range(25_001)), 1)), "25,000",
                             name="own.jsonl"),
    "a number": text("3", "orient='records'", name="own.json"),
    "deep JSON": text("[" * 100_000, "deep", name="own.json"),
    "half of JSON": text("{", "JSON", name="own.json"),
    "no array": text("no array", "NumPy's format", name="own.npy"),
    "one column of an array": no(File("own.npy", ONE[:, None]), "savez('my.npz'"),
    "two whole columns": no(File("own.npy", np.c_[LABELS, SAID]), "label"),
    "a matrix on its side": no(File("own.npz", {"logits": LOGITS.T, "labels": LABELS}), "'logits'",
                               "save logits.T"),
    "several passes": no(File("own.npz", {"probs": np.stack([P] * 5), "labels": LABELS}),
                         "(5, 120, 3)"),
    **{f"ending {ending}": text(b"a", way, name=f"own.{ending}") for ending, way in {
        "dta": "pandas.read_stata", "sav": "pandas.read_spss", "mat": "scipy.io.loadmat",
        "rds": "readRDS", "safetensors": "load_file", "arff": "@data", "pt": "numpy.savez",
        "pkl": "pandas.read_pickle('own.pkl').to_csv('own.csv'", "xlsx": "pandas.read_excel",
        "csv.gz": ".gz", "doc": ".csv", "npz.gz": "unpack", "tar.gz": "unpack", "gz": "unpack",
    }.items()},
    "two files in one": text(zipped("a.csv", "b.csv"), "2", "unpack", name="own.zip"),
}  # fmt: skip

MAPS = {
    "no role": no(PAIR, "'labels'", mapped={"labels": "y"}),
    "no column": no(PAIR, "label=none", "'site'", mapped={"label": "none"}),
    "no columns": no(PAIR, "probabilities=q_*", mapped={"probabilities": "q_*"}),
    "two roles": no(PAIR, "'y'", "label", "probability", mapped={"label": "y", "probability": "y"}),
    "first": no(PAIR, "first=2", mapped={"label": "y", "first": "2"}),
    "positive": no(PAIR, "positive=z", "'0', '1'", mapped={"label": "y", "positive": "z"}),
    "a label with fractions": no(PAIR, "'p'", "row 2", mapped={"label": "p"}),
    "labels that are not hot": no(PAIR, "label=[yp]", "'y', 'p'", mapped={"label": "[yp]"}),
    "a word for a number": no(PAIR, "'word'", "'w0'", "row 2",
                              mapped={"label": "y", "probability": "word"}),
    "one column of classes": no(PAIR, "'p'", "probability=COLUMN",
                                mapped={"label": "y", "probabilities": "p"}),
    "a flag that is none": no(NAMED | TRUTH, "'p_cat'", "row 2", mapped={"abstained": "p_cat"}),
    "no probability": no({"y": SECOND, "s": 300 + 500 * ONE}, "'s'", "row 2",
                         mapped={"probability": "s"}),
    "a negative one": no({"y": SECOND, "s": ONE - 0.5}, "'s'", "'-0", mapped={"probability": "s"}),
    **{f"a {role} without use": no(PAIR, f"{role}={column}", f"'{column}'",
                                   mapped={"label": "y", role: column})
       for role, column in {"group": "one", "cluster": "word", "part": "site", "correct": "p",
                            "prediction": "word"}.items()},
}  # fmt: skip

ALL = {
    f"{table}: {kind}": row
    for table, rows in (("asked", ASKED), ("lacks", LACKING), ("gap", GAPS), ("text", TEXTS),
                        ("map", MAPS))
    for kind, row in rows.items()
}  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_refused(kind, tmp_path):
    data, names, offers, mapped = ALL[kind]
    path = saved(data, tmp_path)
    with pytest.raises(ValueError) as caught:
        read_predictions(path, mapped)
    said = str(caught.value)
    assert type(caught.value) in (ValueError, ReadingError)
    wanted = (path.name, *names, *(f"--map {option}" for option in offers))
    assert [each for each in wanted if each not in said] == [], said
    for option, want in offers.items():
        found = read_predictions(path, as_mapping([option.strip("'")]))
        check(found, {} if want is None else want)


@pytest.mark.parametrize("data", [3, None, [1, 2], object()])
def test_what_is_no_table(data):
    with pytest.raises(TypeError, match="data must be"):
        read_predictions(data)


@pytest.mark.parametrize("data", [{}, {"labels": [[1], [1, 2]]}])
def test_what_holds_no_arrays(data):
    with pytest.raises(ValueError, match=r"must hold arrays by name|data\['labels'\] must be"):
        read_predictions(data)


def test_either_of_two_ways_to_count_may_be_chosen(tmp_path):
    shuffled = of(["p0", "p1", "p2"], label=1 + (RNG.random(N) < 0.5))
    for first in "01":
        want = {"test_labels": shuffled["label"] - int(first)}
        check(read(shuffled, tmp_path, {"first": first}), want)


def test_what_is_called_a_logit_is_one_of_any_size(tmp_path):
    found = read({"label": SECOND, "logit": 300 + 500 * ONE}, tmp_path)
    assert (found.answers("test") == 1).all()


def test_classes_in_another_order_than_columns_are_noticed():
    words = np.array(["apple", "bear", "cat", "dog", "emu", "hen", "gnu", "fox"])
    labels = RNG.integers(0, 8, 300)
    p = special.softmax(3.0 * np.eye(8)[labels] + RNG.normal(size=(300, 8)), axis=1)
    frame = pd.DataFrame(p, columns=[f"p_{j}" for j in range(8)]).assign(label=words[labels])
    with pytest.raises(ReadingError, match="Name the columns by their classes"):
        read_predictions(frame)
    frame.iloc[:, :8] = p[:, np.argsort(words)]
    want = {"right": p.argmax(axis=1) == labels, "class_names": tuple(sorted(words))}
    check(read_predictions(frame), want)


def test_classes_may_look_like_numbers_and_sets():
    assert not several(("tench, Tinca", "goldfish, Carassius", "shark, great white"))
    classes = RNG.integers(10, 90, 300)  # of many classes, mostly right, or wrong anyhow
    for said in (np.where(RNG.random(300) < 0.8, classes, 11), RNG.permutation(classes)):
        found = read_predictions({"label": classes, "pred": said})
        check(found, said == classes)
