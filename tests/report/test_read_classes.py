"""Columns as people and programs name and write them: which are read, and as what."""

import json
import unicodedata

import numpy as np
import pandas as pd
import pytest
from reading_samples import (
    FEW,
    FIFTY,
    HARD,
    LABELS,
    LOGITS,
    NAMED,
    ONE,
    ORDER,
    RIGHT,
    SAID,
    SECOND,
    SURE,
    TOP,
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
)  # fmt: skip
from scipy import special

from lib.report import read_predictions

RNG = np.random.default_rng(1)
BEYOND = np.where(np.arange(N) == ONE.argmax(), 1 + 1e-7, ONE)
BELOW = np.where(np.arange(N) == ONE.argmin(), -1e-9, ONE)
CASED, CODES = np.array(["a", "A", "b"]), np.array(["1_0", "10", "1-0"])
REPLY = np.array(["answer", "refuse"])
RISKS = np.array(["high risk", "low risk", "high"])
SPECIES = {"species": WORDS[LABELS]}
BOTH = np.column_stack([1 - ONE, ONE])
PROB = pd.DataFrame({"label": SECOND, "prob": ONE})
NO, BENIGN = np.where(SECOND, "Yes", "No"), np.where(SECOND, "malignant", "benign")
RELEVANT = {f"{word}_true": (j == LABELS) * 1 for j, word in enumerate(WORDS)}
CORNERS = dict(zip(("x1", "y1", "x2", "y2"), RNG.random((4, N)), strict=True))

TWO_CLASSES = {
    "a probability": {"y_true": SECOND, "y_score": ONE},
    "a logit": {"label": SECOND, "logit": special.logit(ONE)},
    "percent signs": {"label": SECOND, "probability": [f"{100 * one:.6f}%" for one in ONE]},
    "percentages called so": {"label": SECOND, "probability_percent": 100 * ONE},
    "percentages": {"label": SECOND, "y_score": 100 * ONE},
    "percentages beside answers": {"label": SECOND, "y_pred": YES, "score": 100 * ONE},
    "words": {"label": NO, "prob": ONE},
    "minus one and one": {"label": 2 * SECOND - 1, "prob": ONE},
    "numbers from 1": {"label": SECOND + 1, "prob": ONE},
    "2 and 4": {"label": np.where(SECOND, 4, 2), "prob": ONE},
    "both": {"label": SECOND, "p_0": 1 - ONE, "p_1": ONE},
    "a confidence": {"label": SECOND, "prediction": YES, "prob": np.maximum(ONE, 1 - ONE)},
    "signs at the end of words": {"Label": np.where(SECOND, "GON+", "GON-"), "probability": ONE},
    "P(Yes)": {"label": NO, "P(Yes)": ONE},
    "p_left": {"label": np.where(SECOND, "left", "right"), "p_left": ONE},
    "words that no column bears": {"label": np.where(SECOND, "left", "right"), "prob": ONE},
    "a label found by its cells": {"diagnosis": np.array(["B", "M"])[SECOND], "prob": ONE},
    "a score that its labels bear out": {"is_fraud": SECOND == 1, "fraud_score": ONE},
    "no column called so": {"id": range(N), "dropout": SECOND, "prediction": ONE},
    "a spread": {"y_true": SECOND, "prob_mean": ONE, "prob_std": RNG.random(N) / 9},
    "corners as features": {"label": SECOND, "prob": ONE} | CORNERS,
    "a loss of each row": {"epoch": 3, "label": SECOND, "prob": ONE, "loss": -np.log(ONE)},
    "Stata": {"foreign": np.where(SECOND, "Foreign", "Domestic"), "phat": ONE},
    "SAS": {"BAD": SECOND, "P_BAD1": ONE, "P_BAD0": 1 - ONE, "I_BAD": YES},
    "SPSS": {"case": range(N), "default": SECOND, "PRE_1": ONE, "PGR_1": YES},
    "a vector of Spark": {
        "label": SECOND, "probability": [f"DenseVector([{1 - p}, {p}])" for p in ONE]},
    "no header, and the label first": File(
        "own.csv", pd.DataFrame({0: SECOND, 1: ONE}).to_csv(index=False, header=False)),
    "two files of numbers joined": File("own.csv", PROB[:70].to_csv(index=False) +
                                        PROB[70:].to_csv(index=False)),
}  # fmt: skip


@pytest.mark.parametrize("kind", TWO_CLASSES)
def test_two_classes_in_whatever_coding_are_the_same(kind, tmp_path):
    found = read(TWO_CLASSES[kind], tmp_path)
    check(found, {"right": TWO, "rivals": []})
    shown = special.softmax(found.test_logits, axis=1)
    first = int(found.class_names == ("1", "0"))
    np.testing.assert_allclose(shown, BOTH[:, [first, 1 - first]], atol=1e-6)


EXCHANGED = {
    "prob_0 alone": ({"label": SECOND, "prob_0": 1 - ONE}, None),
    "p0 alone": ({"label": SECOND, "p0": 1 - ONE}, None),
    "of class 0": ({"label": SECOND, "probability of class 0": 1 - ONE}, None),
    "P(No)": ({"label": NO, "P(No)": 1 - ONE}, None),
    "p_benign": ({"label": BENIGN, "p_benign": 1 - ONE}, None),
    "by --map": ({"label": SECOND, "prob": 1 - ONE}, {"positive": "0"}),
}


@pytest.mark.parametrize("kind", EXCHANGED)
def test_exchanged_classes_take_their_names_along(kind, tmp_path):
    data, mapped = EXCHANGED[kind]
    first, second = np.unique(data["label"])
    want = {"right": TWO, "test_labels": 1 - SECOND, "class_names": (str(second), str(first))}
    check(read(data, tmp_path, mapped), want)


COLUMNS = {
    # names of columns
    "brackets": of(["P(Cat)", "P(Dog)", "P(Owl)"], truth=WORDS[LABELS]),
    "numbers": of(["prob_0", "prob_1", "prob_2"], label=LABELS),
    "numbers from 1": of(["class 1", "class 2", "class 3"], label=LABELS + 1),
    "labels from 1": of(["p0", "p1", "p2"], label=LABELS + 1),
    "words at the end": of(["cat_prob", "dog_prob", "owl_prob"], gold=WORDS[LABELS]),
    "bare words": of(WORDS, label=WORDS[LABELS]),
    "bare numbers": of(["0", "1", "2"], target=LABELS),
    "columns that differ in case": of([f"p_{word}" for word in CASED], label=CASED[LABELS]),
    "one-hot labels": of(["p_cat", "p_dog", "p_owl"]).assign(**RELEVANT),
    "one-hot labels of bare words": {w: (j == LABELS) * 1 for j, w in enumerate(WORDS)} | NAMED,
    "soft labels": NAMED | {f"label_{w}": P[:, j] for j, w in enumerate(WORDS)} | {"truth": LABELS},
    "a label found by its cells": NAMED | {"animal": WORDS[LABELS]}
    | {f"topic_{j}": 0.25 for j in range(4)},
    "probabilities and logits": NAMED | TRUTH
    | {f"rawPrediction_{w}": LOGITS[:, j] for j, w in enumerate(WORDS)},
    "how far numbers vary": TRUTH | {f"std_prob_{word}": 0.1 for word in WORDS}
    | {f"mean_prob_{word}": P[:, j] for j, word in enumerate(WORDS)},
    "cross-validation": of(["0", "1", "2"], y=LABELS, fold=np.arange(N) % 5),
    "folds called a split": NAMED | TRUTH | {"split": np.arange(N) % 5},
    # numbers
    "percent": of(["p_cat", "p_dog", "p_owl"], 100 * P, y=WORDS[LABELS]),
    "percent signs and decimal commas": File("own.csv", pd.DataFrame(TRUTH).join(
        pd.DataFrame(NAMED).map(lambda v: f"{100 * v:.5f} %".replace(".", ","))).to_csv(
            index=False, sep=";")),
    "logarithms": of(["logp_cat", "logp_dog", "logp_owl"], np.log(P), y=WORDS[LABELS]),
    "of base 2": of([f"logprob_{w}" for w in WORDS], np.log2(P), **TRUTH),
    "of base 10": of([f"logprob_{w}" for w in WORDS], np.log10(P), **TRUTH),
    "logits of words": of(["logit_cat", "logit_dog", "logit_owl"], LOGITS, y=WORDS[LABELS]),
    "words, numbered columns": of(["logit_0", "logit_1", "logit_2"], LOGITS, y=WORDS[LABELS]),
    "decision values": of([f"svm_decision_{j}" for j in range(3)], LOGITS, y_test=LABELS),
    # programs
    "SPSS": of(["Prob_1", "Prob_2", "Prob_3"], species=LABELS + 1, PredictedValue=SAID + 1),
    "SAS": of([f"P_species{w}" for w in WORDS], F_species=WORDS[LABELS], I_species=WORDS[SAID]),
    "Orange": of([f"Trees ({w})" for w in WORDS], iris=WORDS[LABELS], Trees=WORDS[SAID]),
    "R, mlr3": of([f"prob.{w}" for w in WORDS], truth=WORDS[LABELS], response=WORDS[SAID]),
    "R, caret": of(WORDS, obs=WORDS[LABELS], pred=WORDS[SAID], Resample="Fold1"),
    "R, tidymodels": of([f".pred_{w}" for w in WORDS], **SPECIES).assign(
        **{".pred_class": WORDS[SAID], ".row": 1}),
    "Azure": of([f"{w}_predicted_proba" for w in WORDS], y_orig=WORDS[LABELS],
                y_predicted=WORDS[SAID]),
    "Azure ML Studio": of([f"P {w}" for w in WORDS], **{"Scored Labels": WORDS[SAID]}).assign(
        **{"class": WORDS[LABELS]}),
    "KNIME": of([f"P (class={w})" for w in WORDS], **{"class": WORDS[LABELS]}),
    "RapidMiner": of([f"confidence({w})" for w in WORDS], **TRUTH).assign(
        **{"prediction(label)": WORDS[SAID]}),
    "H2O": of(WORDS, predict=WORDS[SAID], species=WORDS[LABELS]),
    "a harness of tests": lines(
        {"doc_id": j, "doc": {"choices": ["a", "b"], "question": "?" * 500}, "target": str(label),
         "filtered_resps": [[str(x), "False"] for x in row], "acc": 1.0}
        for j, (label, row) in enumerate(zip(LABELS, LOGITS, strict=True))),
    "numpy.savetxt": File("own.txt", "\n".join(
        f"{a:.8e} {b:.8e} {c:.8e} {y:.1e}" for (a, b, c), y in zip(P, LABELS, strict=True))),
    "batches": lines({"labels": LABELS[j : j + 10].tolist(), "logits": LOGITS[j : j + 10].tolist()}
                     for j in range(0, N, 10)),
    # arrays
    "arrays": File("own.npz", {"y_true": LABELS, "probs": P}),
    "arrays of parts": File("own.npz", {
        "y_train": np.r_[LABELS, LABELS], "p_train": np.r_[P, P], "y_test": LABELS, "p_test": P}),
    "arrays of fastai": File("own.npz", {"preds": P, "targs": LABELS}),
    "arrays called all": File("own.npz", {
        "all_preds": SAID, "all_labels": LABELS, "all_probs": P}),
    "arrays without names": File("own.npz", {"arr_0": P, "arr_1": LABELS}),
    "arrays of a trainer": File("own.npz", {
        "predictions": np.log(P), "label_ids": LABELS, "metrics": np.array(0.8)}),
    "one-hot arrays": File("own.npz", {"y_true": np.eye(3)[LABELS], "y_pred": P}),
    "features of the test rows": File("own.npz", {
        "X_test": RNG.normal(size=(N, 4)), "y_test": LABELS, "y_pred": SAID, "y_proba": P}),
    "the label last": File("own.npy", np.c_[P, LABELS]),
    "the label first": File("own.npy", np.c_[LABELS, P]),
    "names of classes": File("own.npz", {
        "y_true": WORDS[LABELS], "y_prob": P[:, [2, 0, 1]], "classes": WORDS[[2, 0, 1]]}),
}  # fmt: skip


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_for_each_class(kind, tmp_path):
    found = read(COLUMNS[kind], tmp_path)
    check(found, {"right": RIGHT, "rivals": []})
    shown = special.softmax(found.test_logits, axis=1)
    order = [found.class_names.index(w) for w in WORDS] if "cat" in found.class_names else [0, 1, 2]
    np.testing.assert_allclose(shown[:, order], P, atol=1e-6)


def row_of(values, key="score"):
    return [{"label": str(WORDS[j]), key: float(values[j])} for j in np.argsort(-values)]


RECORDS = pd.DataFrame(TRUTH | NAMED).to_dict("records")
FRAME = pd.DataFrame(TRUTH | NAMED)
#: An object for each row, but for its label.
OBJECTS = {
    "scores of a pipeline": [{"scores": row_of(row)} for row in P],
    "two lists, as of zero-shot classification": [
        {"labels": WORDS[o].tolist(), "scores": row[o].tolist()}
        for o, row in zip(ORDER, P, strict=True)],
    "top-k lists": [{"topk_labels": WORDS[o].tolist(), "topk_scores": row[o].tolist()}
                    for o, row in zip(ORDER, P, strict=True)],
    "the surest class alone": [{"output": row_of(row)[:1]} for row in P],
    "names and confidences of a service": [
        {"prediction": {"displayNames": WORDS[::-1].tolist(), "confidences": row[::-1].tolist()}}
        for row in P],
    "a printed list": [{"logits": str([*map(float, row)])} for row in LOGITS],
    "tokens beside": [{"outputs": [*range(1 + j % 4)], "prediction": str(WORDS[said])}
                      for j, said in enumerate(SAID)],
}  # fmt: skip
CELLS = {
    "NumPy 2": lambda row: str([np.float64(v) for v in row]),
    "an array": lambda row: repr(np.array(row)),
    "a tensor": lambda row: f"tensor({list(map(float, row))}, device='cuda:0')",
    "one row of a matrix": lambda row: str([list(map(float, row))]),
    "a dictionary": lambda row: str(dict(zip(WORDS.tolist(), map(float, row), strict=True))),
    "an object": lambda row: json.dumps(dict(zip(WORDS, row, strict=True))),
    "classes with scores": lambda row: str(row_of(row, "prob")),
}
HARNESS = COLUMNS["a harness of tests"].content.splitlines()
LONG = pd.DataFrame(
    {"id": i, "class": WORDS[j], "prob": P[i, j], "truth": WORDS[LABELS[i]], "label": 1 * hit}
    for i in range(N)
    for j, hit in enumerate(np.arange(3) == LABELS[i])
)
PAIRS = pd.DataFrame(
    {"id": i, "class": j, "p": round(p, 2), "target": y}
    for i, (p, y) in enumerate(zip(ONE, SECOND, strict=True))
    for j, p in enumerate((1 - p, p))
)
KAESE = [unicodedata.normalize(form, "K\u00e4se") for form in ("NFC", "NFD")]
TEXT = pd.DataFrame(HARD).to_csv(index=False)
HOT = {f"p_{word}": (j == SAID) * 1 for j, word in enumerate(WORDS)}
RULES = {f"system_scores.{name}": RNG.normal(size=N) for name in ("harm", "clarity", "reach")}
QUIET = {"test_logits": None, "test_confidence": None}

KINDS = {
    # answers
    "answers and a confidence": (HARD | {"confidence": SURE},
                                 {"right": RIGHT, "test_confidence": SURE}),
    "a confidence beside answers of any name": (
        {"gold": WORDS[LABELS], "parsed": WORDS[SAID], "confidence": 100 * SURE},
        {"right": RIGHT, "test_confidence": SURE}),
    "its logarithm": (HARD | {"confidence": np.log(SURE)}, {"test_confidence": np.log(SURE)}),
    "correct and a confidence": ({"is_correct": RIGHT, "confidence": 100 * SURE},
                                 {"right": RIGHT, "test_confidence": SURE}),
    "probabilities and answers": (TRUTH | NAMED | {"pred": WORDS[SAID]}, {"right": RIGHT}),
    "answers alone": ({"gold_label": WORDS[LABELS], "prediction": WORDS[SAID]},
                      {"right": RIGHT} | QUIET),
    "answers without a label": ({"prediction": WORDS[SAID], "confidence": SURE},
                                {"test_labels": None, "test_confidence": SURE}),
    "answers in columns": (TRUTH | HOT, {"right": RIGHT} | QUIET),
    "the same called logits": (
        TRUTH | {name.replace("p_", "logit_"): column for name, column in HOT.items()},
        {"test_logits": np.eye(3)[SAID]}),
    "upper case": ({"gold": WORDS[LABELS], "pred": np.char.upper(WORDS[SAID])}, {"right": RIGHT}),
    "careless spelling": (
        HARD | {"label": np.where(FEW, np.char.title(WORDS[LABELS]), WORDS[LABELS])},
        {"right": RIGHT, "says": "'Cat', 'cat'"}),
    "classes that differ in case": ({"label": CASED[LABELS], "pred": CASED[SAID]},
                                    {"right": RIGHT}),
    "signs in codes": ({"y": CODES[LABELS], "pred": CODES[SAID]}, {"right": RIGHT}),
    "a class of two words": ({"label": RISKS[LABELS], "pred": RISKS[SAID]}, {"right": RIGHT}),
    "accents as letters of their own": (
        pd.DataFrame(HARD).replace({"label": {"cat": KAESE[0]}, "prediction": {"cat": KAESE[1]}}),
        {"right": RIGHT}),
    "1 and 0 beside True and False": ({"churn": SECOND == 1, "predicted_churn": YES},
                                      {"right": TWO}),
    "a label called as the answers": (
        {"stars": LABELS + 1, "predicted_stars": SAID + 1, "row_id": range(N)}, {"right": RIGHT}),
    "a label in two codings": (
        {"label": LABELS, "class": WORDS[LABELS], "pred_label": SAID, "pred_class": WORDS[SAID]},
        {"right": RIGHT}),
    "a coded target": ({"target": LABELS, "target_class": WORDS[LABELS], "pred": SAID},
                       {"right": RIGHT}),
    "two that may be the label": (
        NAMED | {"animal": WORDS[LABELS], "beast": WORDS[LABELS[::-1]]},
        {"test_labels": None, "says": "'animal', 'beast'"}),
    "a label beside its score": (
        {"gold": WORDS[LABELS], "label": WORDS[SAID], "score": SURE},
        {"right": RIGHT, "test_confidence": SURE}),
    "truth in words of answering": (
        {"label": REPLY[SECOND], "pred": REPLY[YES], "p": ONE},
        {"right": TWO, "test_abstained": None}),
    "scores of rules": ({"gold_label": WORDS[LABELS], "system": WORDS[SAID]} | RULES,
                        {"right": RIGHT, "rivals": []}),
    "a category beside": (
        {"category": np.array(["a", "b", "cat"])[RNG.integers(0, 3, N)],
         "expected_label": WORDS[LABELS], "bert_label": WORDS[SAID],
         "bert_score": 0.001 + 0.9 * RNG.random(N)}, {"right": RIGHT, "test_confidence": None}),
    "a data set as the part": (
        pd.concat([FRAME.assign(Dataset="Training"), FRAME.assign(Dataset="Test")]),
        {"right": RIGHT}),
    "a data set that is no part": (FRAME.assign(Dataset="imdb"), {"right": RIGHT}),
    "Weka": ({"inst#": range(1, N + 1), "actual": [f"{k + 1}:{WORDS[k]}" for k in LABELS],
              "predicted": [f"{k + 1}:{WORDS[k]}" for k in SAID],
              "error": np.where(RIGHT, "", "+"), "prediction": SURE.round(3)},
             {"right": RIGHT, "test_confidence": SURE.round(3)}),
    "fastText": ({"label": [f"__label__{w}" for w in WORDS[LABELS]],
                  "pred": [f"__label__{w}" for w in WORDS[SAID]], "prob": SURE},
                 {"right": RIGHT, "test_confidence": SURE}),
    "several right answers, and who is right": (
        lines({"answer": ["a", "the a"][: 1 + j % 2], "prediction": "b", "correct": bool(right)}
              for j, right in enumerate(RIGHT)), {"right": RIGHT}),
    "numbers of few values by --map": (
        {"actual": LABELS + 7, "predicted": SAID + 7}, {"right": RIGHT},
        {"label": "actual", "prediction": "predicted"}),
    # numbers
    "above 1 by rounding": ({"label": SECOND, "prob": BEYOND}, {"right": TWO}),
    "below 0 by rounding": ({"label": SECOND, "prob": BELOW}, {"right": TWO}),
    "sigmoids by the names of classes": (
        of([f"sigmoid_{w}" for w in WORDS], special.expit(LOGITS), **TRUTH), {"right": RIGHT}),
    "rounded": (of([f"p_{w}" for w in WORDS], P.round(3), **TRUTH), {"right": RIGHT}),
    "two digits": (of([f"p_{w}" for w in WORDS], P.round(2), **TRUTH),
                   P.round(2).argmax(axis=1) == LABELS),
    "a harness with fewer choices in a row": (lines(
        [json.loads(HARNESS[0]) | {"filtered_resps": [["-1", "False"], ["-2", "False"]],
                                   "target": "0"}, *map(json.loads, HARNESS[1:])]),
        np.r_[True, RIGHT[1:]]),
    "float16 of a trainer": (
        File("own.npz", {"predictions": LOGITS.astype(np.float16), "label_ids": LABELS}),
        {"right": RIGHT}),
    "labels counted from 0 or 1": (
        of(["p0", "p1", "p2"], label=LABELS)[LABELS > 0], RIGHT[LABELS > 0]),
    "minus infinities": (
        File("own.npy", np.where(P < 0.01, -np.inf, np.log(P))), {"test_labels": None}),
    "signals of a suitability filter": (
        {"conf_max": SURE, "conf_std": ONE, "conf_entropy": ONE, "logit_mean": ONE,
         "logit_max": ONE, "logit_std": ONE, "logit_diff_top2": ONE, "correct": RIGHT},
        {"test_confidence": SURE, "says": "SuitabilityFilter"}),
    # the surest of many
    "top-1 beside a runner-up": (
        {"label": LABELS, "top1_pred": SAID, "top1_prob": SURE, "top2_prob": np.sort(P)[:, 1]},
        {"right": RIGHT, "test_confidence": SURE, "says": "not used: 'top2_prob'"}),
    "the two surest": (
        {"true": WORDS[LABELS]} | {f"class{k + 1}": WORDS[ORDER[:, k]] for k in (0, 1)}
        | {f"prob{k + 1}": np.sort(P)[:, -1 - k] for k in (0, 1)},
        {"right": RIGHT, "test_confidence": SURE, "rivals": []}),
    "two that do not fall, of two models": (
        {"true": WORDS[LABELS], "class1": WORDS[SAID], "class2": WORDS[ORDER[:, 1]],
         "prob1": SURE, "prob2": RNG.random(N)}, {"right": RIGHT, "rivals": ["class2"]}),
    "all of them": (
        TRUTH | {f"top{k + 1}": WORDS[ORDER[:, k]] for k in range(3)}
        | {f"top{k + 1}_prob": np.sort(P)[:, -1 - k] for k in range(3)}, {"right": RIGHT}),
    # one row a class, tables in text, objects
    "a row a class, the true one marked": (
        LONG.drop(columns="truth").astype({"label": bool}).assign(note=range(3 * N)), RIGHT),
    "a row a class, the true one named": (LONG.drop(columns="label"), RIGHT),
    "a row of each of two classes, shuffled": (
        PAIRS.sample(frac=1, random_state=1), (ONE.round(2) > (1 - ONE).round(2)) == SECOND),
    "a table in Markdown": (File("own.csv", "| label | prediction |\n|:---|---:|\n" + "".join(
        f"| {a} | {b} |\n" for a, b in zip(WORDS[LABELS], WORDS[SAID], strict=True))), RIGHT),
    "two files joined": (File("own.csv", TEXT + TEXT), np.tile(RIGHT, 2)),
    "commas in a file called TSV": (File("own.tsv", TEXT), RIGHT),
    "a line above the header": (File("own.csv", "Model 7 of May,\n\n" + TEXT), RIGHT),
    "few rows and a count": (
        pd.DataFrame(HARD).drop_duplicates().reset_index(names="id").assign(count=7, text="a"),
        {"says": "not used: 'id', 'count', 'text'"}),
    "parts of one object": (
        File("own.json", {part: {"labels": LABELS[rows].tolist(), "probs": P[rows].tolist()}
                          for part, rows in (("val", slice(9)), ("test", slice(9, N)))}),
        {"right": RIGHT[9:], "holdout_labels": LABELS[:9]}),
    "names of classes in an object": (
        File("own.json", {"class_names": WORDS[[2, 0, 1]].tolist(),
                          "labels": WORDS[LABELS].tolist(), "probs": P[:, [2, 0, 1]].tolist()}),
        {"right": RIGHT}),
    **{f"JSON, {name}": (File("own.json", content), {"right": RIGHT, "p": P})
       for name, content in {
        "columns": json.loads(FRAME.to_json(double_precision=15)),
        "split": json.loads(FRAME.to_json(orient="split", double_precision=15)),
        "rows by number": json.loads(FRAME.to_json(orient="index", double_precision=15)),
        "rows by name": {f"{j}.png": row for j, row in enumerate(RECORDS)},
        "beside what is said of the whole": {"meta": {"n": N}, "predictions": RECORDS},
        "results by name": {"n": N, "results": {f"r{j}": row for j, row in enumerate(RECORDS)}},
    }.items()},
    **{f"objects, {name}": (lines({"gold": str(WORDS[y])} | row for y, row in zip(
        LABELS, rows, strict=True)), RIGHT) for name, rows in OBJECTS.items()},
    **{f"in a cell, {name}": (
        {"label": LABELS if "{" not in cell(P[0]) else WORDS[LABELS], "probs": [*map(cell, P)]},
        RIGHT) for name, cell in CELLS.items()},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_columns(kind, tmp_path):
    data, want, *mapped = KINDS[kind]
    check(read(data, tmp_path, *mapped), want)


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
def test_names_that_differ_in_signs_or_other_letters(names, form, tmp_path):
    label = {"label": np.array(names)[LABELS]}
    outputs = {form.format(name): P[:, j] for j, name in enumerate(names)}
    found = read(label | (outputs if form else {"pred": np.array(names)[SAID]}), tmp_path)
    check(found, RIGHT)
    assert set(found.class_names) == {*names}


@pytest.mark.parametrize("columns", [("p_pos", "p_neg"), ("positive", "negative"), ("yes", "no"),
                                     ("p_True", "p_False")])  # fmt: skip
@pytest.mark.parametrize("words", [(0, 1), (-1, 1), ("neg", "pos"), ("no", "yes"), (False, True)])
def test_the_sure_word_of_two_names_its_column(columns, words, tmp_path):
    data = {"label": np.where(SECOND, *words[::-1])} | dict(
        zip(columns, (ONE, 1 - ONE), strict=True)
    )
    names = tuple(name.removeprefix("p_") for name in columns)
    check(read(data, tmp_path), {"right": TWO, "class_names": names})


@pytest.mark.parametrize("kind", ["objects", "two lists", "columns", "arrays", "one by one"])
def test_of_the_surest_of_fifty_classes_the_first_is_the_answer(kind, tmp_path):
    names, truth = [f"c{j}" for j in range(50)], np.arange(N) % 50
    surest = np.take_along_axis(FIFTY, TOP, axis=1)
    pairs = [[*zip(ids, p, strict=True)] for ids, p in zip(TOP.tolist(), surest.tolist(),
                                                           strict=True)]  # fmt: skip
    ids = {"top3_classes": TOP, "top3_probs": surest}
    wide = {f"{name}_{j}": values[:, j] for name, values in ids.items() for j in range(3)}
    data = {
        "objects": lambda: lines(
            {"gold": names[y], "top": [{"label": names[j], "score": p} for j, p in row]}
            for y, row in zip(truth, pairs, strict=True)
        ),
        "two lists": lambda: lines(
            {"gold": names[y], "labels": [names[j] for j, _ in row], "scores": [p for _, p in row]}
            for y, row in zip(truth, pairs, strict=True)
        ),
        "columns": lambda: File("own.npz", {"labels": truth} | wide),
        "arrays": lambda: File("own.npz", {"labels": truth} | ids),
        "one by one": lambda: (
            {"target": truth}
            | {f"top{j + 1}_index": TOP[:, -1 - j] for j in range(3)}
            | {f"top{j + 1}_prob": surest[:, -1 - j] for j in range(3)}
        ),
    }[kind]()
    want = {"right": FIFTY.argmax(axis=1) == truth, "test_confidence": FIFTY.max(axis=1)}
    check(read(data, tmp_path), want)


# --- several models, and rows that belong together ------------------------------------------------


def test_models_side_by_side(tmp_path):
    wide = {f"m{m}_prob_{w}": P[:, j] for m in (1, 2) for j, w in enumerate(WORDS)}
    for data, rivals in (
        (TRUTH | {"full": WORDS[SAID], "small": WORDS[np.roll(SAID, 1)]}, ["small"]),
        ({"label": SECOND, "lr_prob": ONE, "rf_prob": RNG.random(N)}, ["rf_prob"]),
        ({"y_true": SECOND, "lr": YES, "lr_prob": ONE, "rf": YES, "rf_prob": ONE}, None),
    ):
        found = read(data, tmp_path)
        check(found, TWO if "lr_prob" in data else RIGHT)
        assert rivals is None or [*found.rivals] == rivals
    assert len(read(TRUTH | wide, tmp_path).rivals) == 1
    named = {"truth": WORDS[LABELS], "a_pred": WORDS[SAID], "a_conf": SURE, "b_pred": WORDS[LABELS]}
    want = {"right": RIGHT, "test_confidence": SURE, "rivals": ["b_pred"]}
    check(read(named | {"b_conf": 1.0}, tmp_path), want)


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (("val", "test", "production"), ("holdout", "test", "user")),
        (("dev", "eval", "serving"), ("holdout", "test", "user")),
        (("Validation", "Test", "deploy"), ("holdout", "test", "user")),
        (("calibration", "source", "target"), ("holdout", "test", "user")),
        (("valid", "valid", "valid"), ("test",)),
        (("train", "test", "test"), ("test",)),
    ],
)
def test_names_of_parts(names, parts, tmp_path):
    column = np.array(names)[np.arange(N) % 3]
    found = read(NAMED | TRUTH | {"split": column}, tmp_path)
    for part in ("holdout", "test", "user"):
        assert found.has(f"{part}_logits") == (part in parts)
        if part in parts and len(parts) == 3:
            rows = np.arange(N) % 3 == parts.index(part)
            np.testing.assert_array_equal(getattr(found, f"{part}_labels"), LABELS[rows])
    left = np.isin(column, "train").sum()
    assert sum(len(getattr(found, f"{part}_logits")) for part in parts) == N - left


HALF = N // 2
ARRAYS = {
    "probabilities": {"val_probs": P[:HALF], "val_y": LABELS[:HALF], "test_probs": P[HALF:],
                      "test_y": LABELS[HALF:]},
    "names like ours": {"val_labels": LABELS[:HALF], "val_probs": P[:HALF],
                        "test_labels": LABELS[HALF:], "test_probs": P[HALF:]},
    "of scikit-learn": {"y_val": LABELS[:HALF], "y_val_proba": P[:HALF], "y_test": LABELS[HALF:],
                        "y_test_proba": P[HALF:]},
    "logits": {"test_logits": LOGITS[HALF:], "test_labels": LABELS[HALF:],
               "val_logits": LOGITS[:HALF], "val_labels": LABELS[:HALF]},
}  # fmt: skip


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_two_parts(kind, tmp_path):
    want = {"right": RIGHT[HALF:], "holdout_labels": LABELS[:HALF], "rivals": []}
    check(read(File("own.npz", ARRAYS[kind]), tmp_path), want)


def test_other_parts_and_arrays(tmp_path):
    moved = {"source_probs": P[:HALF], "source_labels": LABELS[:HALF], "target_probs": P[HALF:]}
    found = read(File("own.npz", moved), tmp_path)
    check(found, {"right": RIGHT[:HALF], "rivals": []})
    assert len(found.user_logits) == N - HALF
    domain = np.where(FEW, "target", "source")
    found = read(NAMED | TRUTH | {"domain": domain}, tmp_path)
    assert len(found.user_logits) == FEW.sum()
    train = File("own.npz", {"y_train": LABELS[:7], "y_test": LABELS, "y_pred": SAID})
    check(read(train, tmp_path), RIGHT)
    for columns in (np.c_[ONE, SECOND], np.c_[SECOND, ONE]):
        check(read(File("own.npy", columns), tmp_path), TWO)
    check(read(File("own.npy", P), tmp_path), {"test_labels": None})
    canaries = {"canary_scores": P[:9, 0], "reference_scores": P[9:, 0]}
    want = {"member_scores": P[:9, 0], "nonmember_scores": P[9:, 0]}
    check(read(File("own.npz", canaries), tmp_path), want)


def test_groups_clusters_and_what_is_not_used(tmp_path):
    data = pd.DataFrame(NAMED | TRUTH).assign(part=["val", "test"] * 60, cohort=[*"abcd"] * 30)
    data["patient_id"] = np.arange(N) // 4
    found = read(data.assign(age=RNG.normal(size=N), note=[f"t{i}" for i in range(N)]), tmp_path)
    assert set(found.test_groups) == {"b", "d"}
    assert len(np.unique(found.test_clusters)) == 30
    assert found.reading[-1] == "not used: 'age', 'note'"
    gaps = np.where(SECOND == 1, "", np.array(["a", "b"])[LABELS % 2])
    want = {"test_groups": None, "says": f"got 2 and {SECOND.sum()}"}
    check(read(NAMED | TRUTH | {"site": gaps}, tmp_path), want)


def test_ids_that_repeat_say_which_rows_belong_together():
    one = pd.DataFrame({"id": range(N), "y_true": SECOND, "y_prob": ONE})
    other = one.assign(y_prob=RNG.random(N))
    found = read_predictions(pd.concat([one.assign(model="a"), other.assign(model="b")]))
    assert len(np.unique(found.test_clusters)) == N
    assert sorted(set(found.test_groups)) == ["a", "b"]
    for apart in (one, pd.concat([one.assign(split="val"), one.assign(split="test")])):
        assert read_predictions(apart).test_clusters is None
    for name in ("model", "seed", "epoch"):  # whose rows count together
        rows = pd.DataFrame(NAMED | TRUTH | {name: np.arange(N) % 2})
        check(read_predictions(rows), {"says": f"{name!r} has 2 different values"})


# --- what may be a label --------------------------------------------------------------------------


@pytest.mark.parametrize("label", [["x" * 300] * 2, [f"w{j}" for j in range(10_001)]])
def test_labels_that_are_texts_are_not_kept(label, tmp_path):
    found = read({"label": label, "p_a": 0.5, "p_b": 0.5}, tmp_path)
    check(found, {"test_labels": None, "says": "'label' is no label"})


def test_a_guessed_label_that_follows_from_the_outputs_is_none(tmp_path):
    data = {"user_id": range(N), "status": (ONE > 0.2).astype(int), "prob": ONE}
    check(read(data, tmp_path), {"test_labels": None})
    check(read(data, tmp_path, {"label": "status"}), (ONE > 0.5) == (ONE > 0.2))
    check(read(data | {"status": SECOND}, tmp_path), TWO)
    net = {"net": ONE, "net_pred": YES, "diagnosis": SECOND}  # a score beside its answers
    assert not any("is no label" in text for text in read(net, tmp_path).reading)
    check(read({"y_true": ONE, "y_pred": SECOND}, tmp_path), {"test_labels": None})
    check(read({"pred": WORDS[SAID], "note": ["x", "y"] * 60}, tmp_path), {"test_labels": None})


def test_one_class_alone(tmp_path):
    check(read({"label": ["spam"] * N, "prob": ONE}, tmp_path), ONE > 0.5)
    for positive, want in (("ham", ONE > 0.5), ("other", ONE <= 0.5)):
        mapped = {"probability": "prob", "positive": positive}
        check(read({"label": ["ham"] * N, "prob": ONE}, tmp_path, mapped), want)


def test_answers_said_to_be_right_that_are_not_the_label(tmp_path):
    lenient = RIGHT.copy()
    lenient[np.flatnonzero(~RIGHT)[:2]] = True
    want = {"says": f"in 2 of {N} rows: by it the accuracy is {lenient.mean():.3f}"}
    check(read(HARD | {"correct": lenient}, tmp_path), want)
    same = read(HARD | {"correct": RIGHT}, tmp_path).reading
    assert not any("says otherwise" in text for text in same)


def test_tensors_with_gradients_are_arrays():
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.bfloat16):
        logits = torch.tensor(LOGITS, requires_grad=True).to(kind)
        found = read_predictions({"labels": torch.tensor(LABELS), "logits": logits})
        assert abs(found.correct("test")[0].mean() - RIGHT.mean()) < 0.02
