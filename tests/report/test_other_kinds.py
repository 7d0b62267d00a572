"""More files of people and programs: numbers as they come, other tasks, lists, own names."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.report import read_predictions
from lib.report.__main__ import main

RNG = np.random.default_rng(21)
N, WORDS = 120, np.array(["cat", "dog", "owl"])
LABELS = RNG.permutation(np.repeat([0, 1, 2], N // 3))
LOGITS = 2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3))
P = special.softmax(LOGITS, axis=1)
SAID, SURE = P.argmax(axis=1), P.max(axis=1)
RIGHT = SAID == LABELS
SECOND = RNG.integers(0, 2, N)
ONE = special.expit(3.0 * SECOND - 1.5 + RNG.normal(size=N))
BEYOND = np.where(np.arange(N) == ONE.argmax(), 1 + 1e-7, ONE)
BELOW = np.where(np.arange(N) == ONE.argmin(), -1e-9, ONE)
YES = (ONE > 0.5).astype(int)
TWO = YES == SECOND
ORDER = np.argsort(-P, axis=1)
MANY = (RNG.random((N, 4)) < 0.4).astype(int)
TAGS = ("toxic", "obscene", "threat", "insult")
SETS = [[str(tag) for tag, one in zip(TAGS, row, strict=True) if one] for row in MANY]
DIGITS = np.array(["a", "A", "b"])
CORNERS = ("x1", "y1", "x2", "y2")
SPECIES = {"species": WORDS[LABELS]}
NAMED = {f"p_{word}": P[:, j] for j, word in enumerate(WORDS)}


def of(names, values=P, **more):
    return pd.DataFrame(dict(zip(names, np.asarray(values).T, strict=True)) | more)


def lines(rows):
    return "\n".join(map(json.dumps, rows))


def read(data, path):
    """What is read of a text, of arrays or of a frame."""
    if isinstance(data, str):
        path = path.with_suffix(".jsonl" if data.startswith("{") else path.suffix)
        path.write_text(data)
        return read_predictions(path)
    if isinstance(data, dict):
        path = path.with_suffix(".npz")
        np.savez(path, **data)
        return read_predictions(path)
    data.to_csv(path, index=False)
    return read_predictions(path)


KINDS = {
    # spelling, ranges and numbers
    "classes that differ in case": ({"label": DIGITS[LABELS], "pred": DIGITS[SAID]}, RIGHT),
    "columns that differ in case": (of([f"p_{d}" for d in DIGITS], label=DIGITS[LABELS]), RIGHT),
    "signs in codes": ({"y": np.array(["1_0", "10", "1-0"])[LABELS]} | {"pred": None}, RIGHT),
    "above 1 by rounding": ({"label": SECOND, "prob": BEYOND}, TWO),
    "below 0 by rounding": ({"label": SECOND, "prob": BELOW}, TWO),
    "classes 2 and 4": ({"label": np.where(SECOND, 4, 2), "prob": ONE}, TWO),
    # a probability of the class in its name
    "prob_0 alone": ({"label": SECOND, "prob_0": 1 - ONE}, TWO),
    "p0 alone": ({"label": SECOND, "p0": 1 - ONE}, TWO),
    "of class 0": ({"label": SECOND, "probability of class 0": 1 - ONE}, TWO),
    "P(No)": ({"label": np.where(SECOND, "Yes", "No"), "P(No)": 1 - ONE}, TWO),
    "P(Yes)": ({"label": np.where(SECOND, "Yes", "No"), "P(Yes)": ONE}, TWO),
    "p_benign": ({"label": np.where(SECOND, "malignant", "benign"), "p_benign": 1 - ONE}, TWO),
    "p_left": ({"label": np.where(SECOND, "left", "right"), "p_left": ONE}, TWO),
    # programs
    "SPSS": ({"case": range(N), "default": SECOND, "PRE_1": ONE, "PGR_1": YES}, TWO),
    "SPSS, three classes": (
        of(["Prob_1", "Prob_2", "Prob_3"], species=LABELS + 1, PredictedValue=SAID + 1),
        RIGHT,
    ),
    "Stata": ({"foreign": np.where(SECOND, "Foreign", "Domestic"), "phat": ONE}, TWO),
    "SAS": ({"BAD": SECOND, "P_BAD1": ONE, "P_BAD0": 1 - ONE, "I_BAD": YES}, TWO),
    "SAS, words": (
        of([f"P_species{w}" for w in WORDS], F_species=WORDS[LABELS], I_species=WORDS[SAID]),
        RIGHT,
    ),
    "Orange": (of([f"Trees ({w})" for w in WORDS], iris=WORDS[LABELS], Trees=WORDS[SAID]), RIGHT),
    "R, mlr3": (of([f"prob.{w}" for w in WORDS], truth=WORDS[LABELS], response=WORDS[SAID]), RIGHT),
    "R, caret": (of(WORDS, obs=WORDS[LABELS], pred=WORDS[SAID], Resample="Fold1"), RIGHT),
    "R, tidymodels": (
        of([f".pred_{w}" for w in WORDS], **{".pred_class": WORDS[SAID], ".row": 1}, **SPECIES),
        RIGHT,
    ),
    "Azure": (
        of([f"{w}_predicted_proba" for w in WORDS], y_orig=WORDS[LABELS], y_predicted=WORDS[SAID]),
        RIGHT,
    ),
    "KNIME": (of([f"P (class={w})" for w in WORDS], **{"class": WORDS[LABELS]}), RIGHT),
    "RapidMiner": (
        of([f"confidence({w})" for w in WORDS], label=WORDS[LABELS]).assign(
            **{"prediction(label)": WORDS[SAID]}
        ),
        RIGHT,
    ),
    "H2O": (of(WORDS, predict=WORDS[SAID], species=WORDS[LABELS]), RIGHT),
    "Weka": (
        {
            "inst#": range(1, N + 1),
            "actual": [f"{k + 1}:{WORDS[k]}" for k in LABELS],
            "predicted": [f"{k + 1}:{WORDS[k]}" for k in SAID],
            "error": np.where(RIGHT, "", "+"),
            "prediction": SURE.round(3),
        },
        RIGHT,
    ),
    "fastText": (
        {"label": [f"__label__{w}" for w in WORDS[LABELS]]}
        | {"pred": [f"__label__{w}" for w in WORDS[SAID]], "prob": SURE},
        RIGHT,
    ),
    "decision values": (of([f"svm_decision_{j}" for j in range(3)], LOGITS, y_test=LABELS), RIGHT),
    "cross-validation": (of(["0", "1", "2"], y=LABELS, fold=np.arange(N) % 5), RIGHT),
    "top-k, all of them": (
        {"label": WORDS[LABELS]}
        | {f"top{k + 1}": WORDS[ORDER[:, k]] for k in range(3)}
        | {f"top{k + 1}_prob": np.sort(P, axis=1)[:, -1 - k] for k in range(3)},
        RIGHT,
    ),
    # text and JSON
    "numpy.savetxt": (
        "\n".join(
            f"{a:.6e} {b:.6e} {c:.6e} {y:.1e}" for (a, b, c), y in zip(P, LABELS, strict=True)
        ),
        RIGHT,
    ),
    "batches": (
        lines(
            {"labels": LABELS[j : j + 10].tolist(), "logits": LOGITS[j : j + 10].tolist()}
            for j in range(0, N, 10)
        ),
        RIGHT,
    ),
    "top-k lists": (
        lines(
            {"gold": str(WORDS[y]), "topk_labels": WORDS[o].tolist(), "topk_scores": p[o].tolist()}
            for y, o, p in zip(LABELS, ORDER, P, strict=True)
        ),
        RIGHT,
    ),
    "tokens beside": (
        lines(
            {"label": str(WORDS[y]), "outputs": [*range(1 + j % 4)], "prediction": str(WORDS[s])}
            for j, (y, s) in enumerate(zip(LABELS, SAID, strict=True))
        ),
        RIGHT,
    ),
    "several right answers, and who is right": (
        lines(
            {"answer": ["a", "the a"][: 1 + j % 2], "prediction": "b", "correct": bool(right)}
            for j, right in enumerate(RIGHT)
        ),
        RIGHT,
    ),
    # arrays
    "arrays of parts": (
        {"y_train": np.r_[LABELS, LABELS], "p_train": np.r_[P, P], "y_test": LABELS, "p_test": P},
        RIGHT,
    ),
    "fastai": ({"preds": P, "targs": LABELS}, RIGHT),
    "all_": ({"all_preds": SAID, "all_labels": LABELS, "all_probs": P}, RIGHT),
    "without names": ({"arr_0": P, "arr_1": LABELS}, RIGHT),
    "metrics of a trainer": (
        {"predictions": LOGITS.astype(np.float16), "label_ids": LABELS, "metrics": np.array(0.8)},
        RIGHT,
    ),
    "one-hot of floats": ({"y_true": np.eye(3)[LABELS], "y_pred": P}, RIGHT),
}
KINDS["signs in codes"][0]["pred"] = np.array(["1_0", "10", "1-0"])[SAID]
ARRAYS = ("arrays of parts", "fastai", "all_", "without names", "metrics of a trainer", "one-hot")


@pytest.mark.parametrize("kind", KINDS)
def test_read_as_it_is_meant(kind, tmp_path):
    data, right = KINDS[kind]
    if isinstance(data, dict) and not kind.startswith(ARRAYS):
        data = pd.DataFrame(data)
    path = tmp_path / ("own.txt" if kind == "numpy.savetxt" else "own.csv")
    np.testing.assert_array_equal(read(data, path).correct("test")[0], right)


BROKEN = P.copy()
BROKEN[5] = [-0.1, 0.6, 0.5]
HALF = P.copy()
HALF[7] /= 2
MIXED = np.where(np.arange(N)[:, None] < N // 2, 100 * P, P)
COUNTS = RNG.poisson(12, N)
REFUSED = {
    "several labels": (
        {t: MANY[:, j] for j, t in enumerate(TAGS)} | {f"{t}_pred": RNG.random(N) for t in TAGS},
        r"tasks at once, 'toxic' with 'toxic_pred'.*--map label=toxic,probability=toxic_pred reads",
    ),
    "several labels, of which one may be right": (
        {f"y_{t}": np.arange(N) % 9 == j for j, t in enumerate(TAGS)}
        | {f"p_{t}": RNG.random(N) for t in TAGS},
        r"tasks at once, 'y_toxic' with 'p_toxic'",
    ),
    "several tasks": (
        {"sex_true": YES, "sex_pred": SECOND, "age_true": LABELS, "age_pred": SAID},
        "tasks at once, 'sex_true' with 'sex_pred' and 'age_true' with 'age_pred'",
    ),
    "sets in a cell": (
        {"true": [" ".join(s) for s in SETS], "pred": [" ".join(s) for s in SETS[::-1]]},
        "several labels at once",
    ),
    "sets in JSON": (
        lines({"labels": s, "predictions": t} for s, t in zip(SETS, SETS[::-1], strict=True)),
        r"row \d+: 'labels' holds \d values, in rows before it \d: several labels",
    ),
    "boxes": (
        {"image": 1, "xmin": ONE, "ymin": ONE, "xmax": ONE, "ymax": ONE, "class": SAID}
        | {"confidence": SURE},
        "boxes of objects",
    ),
    "COCO": (
        lines({"image_id": j, "category_id": 3, "bbox": [1, 2, 3, 4.5], "score": p}
              for j, p in enumerate(ONE)),
        "boxes of objects",
    ),
    "a log of training": (
        {"epoch": range(N), "accuracy": ONE, "loss": ONE, "val_loss": ONE},
        "a log of training",
    ),
    "scores of classes": (
        pd.DataFrame({"class": WORDS, "precision": 0.9, "recall": 0.8, "support": 40}),
        "scores of classes, and no predictions",
    ),
    "scores of classes, printed": (
        "              precision    recall  f1-score   support\n\n cat 0.9 0.8 0.85 40\n",
        "scores of classes",
    ),
    "whole prices": (
        {"Id": range(N), "SalePrice": 9 * np.arange(N) + 7, "Predicted": 10 * np.arange(N)},
        "'Predicted' holds 120 different numbers in 120 rows, which are no classes",
    ),
    "counts": (
        {"actual": COUNTS, "predicted": COUNTS + RNG.integers(-2, 3, N)},
        "off by 1 as often as equal.*--map label=actual,prediction=predicted takes",
    ),
    "a row that is no probability": (of(["p0", "p1", "p2"], HALF, label=LABELS),
                                     r"sum to 1, in 119 of 120 rows, but not in row 9: "),
    "a negative probability": (of(["p0", "p1", "p2"], BROKEN, label=LABELS),
                               r"in row 7: -0\.1, 0\.6, 0\.5\. .*--map 'probabilities=p\*'"),
    "percentages and fractions": (of(["p0", "p1", "p2"], MIXED, label=LABELS), "in 60 of 120 rows"),
    "two runs of one class": (
        {"label": SECOND, "prob_0": ONE, "prob_1": special.expit(special.logit(ONE) + 0.5)},
        r"rise and fall together.*--map 'probability=prob_\*' if so",
    ),
    "a submission alone": ({"id": range(N), "target": ONE}, "if it is what a model says, --map"),
    "a gap in a score": (
        {"label": SECOND, "note": "a", "score": np.where(np.arange(N) == 3, np.nan, ONE)},
        "'score' must be a number in every row; leave rows",
    ),
    "ARFF": ("@relation a\n@attribute b numeric\n@data\n1\n", "it is ARFF: keep what follows"),
    "HTML": ("<!DOCTYPE html><html></html>\n", "a page of HTML"),
    "a pointer": ("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "JSON called CSV": ('[{"label": 1, "prob": 0.5}]', r"call it \.json, or \.jsonl"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_with_a_reason(kind, tmp_path):
    data, said = REFUSED[kind]
    data = pd.DataFrame(data) if isinstance(data, dict) else data
    with pytest.raises(ValueError, match=said):
        read(data, tmp_path / "own.csv")


@pytest.mark.parametrize(
    ("ending", "said"),
    [("dta", "pandas.read_stata"), ("sav", "pandas.read_spss"), ("mat", "scipy.io.loadmat"),
     ("rds", "readRDS"), ("safetensors", "load_file"), ("arff", "@data")],
)  # fmt: skip
def test_other_endings_say_what_would_do(ending, said, tmp_path):
    path = tmp_path / f"own.{ending}"
    path.write_bytes(b"a")
    with pytest.raises(ValueError, match=said):
        read_predictions(path)


# --- what looks like other tasks and is none ------------------------------------------------------

ALIKE = {
    "one-hot labels beside probabilities": (
        {w: (j == LABELS) * 1 for j, w in enumerate(WORDS)} | NAMED,
        RIGHT,
    ),
    "a label in two codings": (
        {"label": LABELS, "class": WORDS[LABELS], "pred_label": SAID, "pred_class": WORDS[SAID]},
        RIGHT,
    ),
    "answers and scores of two models": (
        {"y_true": SECOND, "lr": YES, "lr_prob": ONE, "rf": YES, "rf_prob": ONE},
        TWO,
    ),
    "corners as features": (
        {"label": SECOND, "prob": ONE} | dict(zip(CORNERS, RNG.random((4, N)), strict=True)),
        TWO,
    ),
    "a loss of each row": ({"epoch": 3, "label": SECOND, "prob": ONE, "loss": -np.log(ONE)}, TWO),
    "a class of two words": (
        {"label": np.array(["high risk", "low risk", "high"])[LABELS]}
        | {"pred": np.array(["high risk", "low risk", "high"])[SAID]},
        RIGHT,
    ),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_what_looks_like_another_task_is_read(kind):
    data, right = ALIKE[kind]
    np.testing.assert_array_equal(read_predictions(pd.DataFrame(data)).correct("test")[0], right)


def test_numbers_of_few_values_are_classes_if_it_is_said_so():
    data, _ = REFUSED["counts"]
    mapped = {"label": "actual", "prediction": "predicted"}
    found = read_predictions(pd.DataFrame(data), mapped)
    np.testing.assert_array_equal(found.correct("test")[0], data["actual"] == data["predicted"])


# --- what is said ---------------------------------------------------------------------------------


def says(data, text):
    return any(text in line for line in read_predictions(pd.DataFrame(data)).reading)


def test_careless_spelling_is_one_class():
    label = np.where(np.arange(N) % 2, WORDS[LABELS], np.char.title(WORDS[LABELS]))
    data = {"label": label, "pred": WORDS[SAID]}
    np.testing.assert_array_equal(read_predictions(pd.DataFrame(data)).correct("test")[0], RIGHT)
    assert says(data, "'Cat', 'cat' are taken for one class")


def test_rows_without_a_label_and_rows_of_several_models_are_told_of():
    label = np.where(np.arange(N) < 20, "", WORDS[LABELS])
    assert says(NAMED | {"label": label}, "'label' is empty (or NA, or null) in 20 of 120 rows")
    assert not says(NAMED | {"label": WORDS[LABELS]}, "is empty")
    parts = np.where(np.arange(N) < 20, "production", "test")
    assert not says(NAMED | {"label": label, "part": parts}, "is empty")
    for name in ("model", "seed", "epoch"):
        rows = NAMED | {"label": WORDS[LABELS], name: np.arange(N) % 2}
        assert says(rows, f"{name!r} has 2 different values, whose rows count together")
        assert not says(rows | {name: 1}, "count together")


def test_exchanged_classes_take_their_names_along():
    for data, mapped in (
        ({"label": SECOND, "prob": 1 - ONE}, {"positive": "0"}),
        ({"label": SECOND, "prob_0": 1 - ONE}, None),
    ):
        found = read_predictions(pd.DataFrame(data), mapped)
        assert found.class_names == ("1", "0")
        np.testing.assert_array_equal(found.test_labels, 1 - SECOND)


@pytest.mark.parametrize("base", [2, 10])
def test_logarithms_to_another_base_are_natural_ones(base):
    data = of([f"logprob_{w}" for w in WORDS], np.log(P) / np.log(base), label=WORDS[LABELS])
    found = read_predictions(data)
    np.testing.assert_allclose(special.softmax(found.test_logits, axis=1), P)
    assert says(data, f"are logarithms to the base {base}")


def test_tensors_with_gradients_are_arrays():
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.bfloat16):
        logits = torch.tensor(LOGITS, requires_grad=True).to(kind)
        found = read_predictions({"labels": torch.tensor(LABELS), "logits": logits})
        assert abs(found.correct("test")[0].mean() - RIGHT.mean()) < 0.02
    with pytest.raises(ValueError, match="must hold arrays by name"):
        read_predictions({})
    with pytest.raises(ValueError, match=r"data\['labels'\] must be an array"):
        read_predictions({"labels": [[1], [1, 2]]})


# --- the command ----------------------------------------------------------------------------------


def test_an_example_replaces_no_file(tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text("label,prob\n1,0.9\n")
    assert main(["--example", str(path)]) == 2
    assert "file must be new, since --example writes to it" in capsys.readouterr().err
    assert path.read_text() == "label,prob\n1,0.9\n"


def test_what_cannot_be_written_names_the_option(tmp_path, capsys, monkeypatch):
    path = tmp_path / "mine.csv"
    pd.DataFrame({"label": SECOND, "prob": ONE}).to_csv(path, index=False)
    monkeypatch.setattr("lib.report.exports.can_write", lambda folder: False)
    assert main([str(path), "--out", str(tmp_path / "a.html")]) == 2
    told = capsys.readouterr()
    assert "must be where files can be written, got " in told.err
    assert not told.out  # before any work
    assert [each.name for each in tmp_path.iterdir()] == ["mine.csv"]
