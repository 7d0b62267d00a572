"""Files as people have them: what is taken for what, what is asked, what is refused."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.report import ModelPredictions, read_predictions, report
from lib.report.__main__ import as_mapping, main
from lib.report.outputs import auc, kind_of
from lib.report.tables import ReadingError

ROOT = Path(__file__).parents[2]
CASES = ROOT.parent / "shared" / "cases" / "files"
RNG = np.random.default_rng(3)
N, WORDS = 80, ("cat", "dog", "owl")
LABELS = RNG.integers(0, 3, N)
LOGITS = 2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3))
P = special.softmax(LOGITS, axis=1)
SAID = LOGITS.argmax(axis=1)
RIGHT = SAID == LABELS
ACCURACY = RIGHT.mean()
SECOND = RNG.integers(0, 2, N)
ONE = special.expit(3.0 * SECOND - 1.5 + RNG.normal(size=N))
TWO = (ONE > 0.5) == SECOND


def words(codes):
    return np.array(WORDS)[codes]


def of_classes(names, values=P, **more):
    return pd.DataFrame(dict(zip(names, np.asarray(values).T, strict=True)) | more)


THREE = {
    "words in the columns' names": of_classes(["p_cat", "p_dog", "p_owl"], y=words(LABELS)),
    "brackets": of_classes(["P(Cat)", "P(Dog)", "P(Owl)"], truth=words(LABELS)),
    "numbers": of_classes(["prob_0", "prob_1", "prob_2"], label=LABELS),
    "numbers from 1": of_classes(["class 1", "class 2", "class 3"], label=LABELS + 1),
    "labels from 1": of_classes(["p0", "p1", "p2"], label=LABELS + 1),
    "at the end": of_classes(["cat_prob", "dog_prob", "owl_prob"], gold=words(LABELS)),
    "bare words": of_classes(WORDS, label=words(LABELS)),
    "bare numbers": of_classes(["0", "1", "2"], target=LABELS),
    "percent": of_classes(["p_cat", "p_dog", "p_owl"], 100 * P, y=words(LABELS)),
    "logarithms": of_classes(["logp_cat", "logp_dog", "logp_owl"], np.log(P), y=words(LABELS)),
    "rounded": of_classes(["p_cat", "p_dog", "p_owl"], P.round(3), y=words(LABELS)),
    "logits of words": of_classes(["logit_cat", "logit_dog", "logit_owl"], LOGITS, y=words(LABELS)),
    "words, numbered columns": of_classes(
        ["logit_0", "logit_1", "logit_2"], LOGITS, y=words(LABELS)
    ),
    "one-hot labels": of_classes(
        ["p_cat", "p_dog", "p_owl"],
        **{f"{w}_true": (j == LABELS).astype(int) for j, w in enumerate(WORDS)},
    ),
    "predictions beside": of_classes(
        ["p_cat", "p_dog", "p_owl"], y=words(LABELS), pred=words(SAID)
    ),
    "predictions and confidence": pd.DataFrame(
        {"y_true": words(LABELS), "y_pred": words(SAID), "confidence": P.max(axis=1)}
    ),
    "predictions alone": pd.DataFrame({"gold_label": words(LABELS), "prediction": words(SAID)}),
    "correct alone": pd.DataFrame({"is_correct": RIGHT, "confidence": P.max(axis=1)}),
    "wrong case": pd.DataFrame({"gold": words(LABELS), "pred": np.char.upper(words(SAID))}),
}
BINARY = {
    "probability": pd.DataFrame({"y_true": SECOND, "y_score": ONE}),
    "logit": pd.DataFrame({"label": SECOND, "logit": special.logit(ONE)}),
    "percent signs": pd.DataFrame(
        {"label": SECOND, "probability": [f"{100 * one:.6f}%" for one in ONE]}
    ),
    "words": pd.DataFrame({"label": np.where(SECOND, "Yes", "no"), "prob": ONE}),
    "minus one and one": pd.DataFrame({"label": 2 * SECOND - 1, "prob": ONE}),
    "numbers from 1": pd.DataFrame({"label": SECOND + 1, "prob": ONE}),
    "both": pd.DataFrame({"label": SECOND, "p_0": 1 - ONE, "p_1": ONE}),
    "confidence": pd.DataFrame(
        {"label": SECOND, "prediction": (ONE > 0.5).astype(int), "prob": np.maximum(ONE, 1 - ONE)}
    ),
}


@pytest.mark.parametrize("case", THREE)
def test_three_classes(case):
    found = read_predictions(THREE[case])
    correct, _ = found.correct("test")
    np.testing.assert_array_equal(correct, RIGHT)
    assert "taken as test data" in found.reading[0]
    if found.has("test_logits"):
        most = 1e-2 if case == "rounded" else 1e-9
        np.testing.assert_allclose(special.softmax(found.test_logits, axis=1), P, atol=most)


@pytest.mark.parametrize("case", BINARY)
def test_two_classes_in_whatever_coding_are_the_same(case):
    found = read_predictions(BINARY[case])
    np.testing.assert_array_equal(found.correct("test")[0], TWO)
    expected = np.column_stack([np.log1p(-ONE), np.log(ONE)])
    np.testing.assert_allclose(found.test_logits, expected, rtol=1e-5, atol=1e-7)


def write(folder, frame, kind):
    path = folder / f"own.{kind}"
    if kind in ("csv", "tsv", "txt"):
        frame.to_csv(path, index=False, sep={"csv": ",", "tsv": "\t", "txt": ";"}[kind])
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind == "json":
        frame.to_json(path, orient="records")
    else:
        np.savez(path, **{name: frame[name].to_numpy() for name in frame})
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt", "jsonl", "json", "npz"])
def test_formats_say_the_same(kind, tmp_path):
    frame = of_classes(["prob_0", "prob_1", "prob_2"], label=LABELS, note=RNG.normal(size=N))
    found = read_predictions(write(tmp_path, frame, kind))
    np.testing.assert_allclose(found.test_logits, np.log(P), atol=1e-7)
    np.testing.assert_array_equal(found.test_labels, LABELS)
    assert "not used: 'note'" in found.reading
    assert any("each row sums to 1" in text for text in found.reading)


@pytest.mark.parametrize(
    "text",
    [
        "label;p_a;p_b\na;0,75;0,25\nb;0,5;0,5\n",
        'label,probs\n0,"[0.75, 0.25]"\n1,"[0.5 0.5]"\n',
        "\ufefflabel,p_a,p_b\na,75%,25%\nb,50 %,50 %\n",
        ",label,p_a,p_b\n0,a,0.75,0.25\n1,b,0.5,0.5\n",
    ],
)
def test_spreadsheets_and_printed_lists(text, tmp_path):
    (tmp_path / "own.csv").write_text(text, encoding="utf-8")
    found = read_predictions(tmp_path / "own.csv")
    np.testing.assert_allclose(np.exp(found.test_logits), [[0.75, 0.25], [0.5, 0.5]])
    np.testing.assert_array_equal(found.test_labels, [0, 1])


def test_arrays_of_parts_by_any_names(tmp_path):
    arrays = {
        "val_probs": P[:30],
        "val_y": LABELS[:30],
        "test_probs": P[30:],
        "test_y": LABELS[30:],
    }
    np.savez(tmp_path / "own.npz", **arrays)
    found = read_predictions(tmp_path / "own.npz")
    np.testing.assert_array_equal(found.holdout_labels, LABELS[:30])
    np.testing.assert_allclose(found.test_logits, np.log(P[30:]))
    same = read_predictions({"y_true": LABELS, "probs": P})
    np.testing.assert_allclose(same.test_logits, np.log(P))
    np.save(tmp_path / "own.npy", P)
    assert read_predictions(tmp_path / "own.npy").test_labels is None


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (("val", "test", "production"), ("holdout", "test", "user")),
        (("dev", "eval", "serving"), ("holdout", "test", "user")),
        (("Validation", "Test", "deploy"), ("holdout", "test", "user")),
        (("valid", "valid", "valid"), ("test",)),
        (("train", "test", "test"), ("test",)),
    ],
)
def test_names_of_parts(names, parts):
    column = np.array(names)[np.arange(N) % 3]
    found = read_predictions(of_classes(["p0", "p1", "p2"], label=LABELS, split=column))
    given = tuple(p for p in ("holdout", "test", "user") if found.has(f"{p}_logits"))
    assert given == parts
    left = np.isin(column, "train").sum()
    assert sum(len(getattr(found, f"{p}_logits")) for p in parts) == N - left
    assert any("training rows are left out" in text for text in found.reading) == bool(left)


def test_groups_clusters_and_what_is_not_used():
    frame = of_classes(["p0", "p1", "p2"], label=LABELS)
    frame = frame.assign(part=["val", "test"] * 40, cohort=list("abcd") * 20, patient_id=range(N))
    frame["patient_id"] //= 4
    found = read_predictions(frame.assign(age=RNG.normal(size=N), note=[f"t{i}" for i in range(N)]))
    assert set(found.test_groups) == {"b", "d"}
    assert len(np.unique(found.test_clusters)) == 20
    assert found.reading[-1] == "not used: 'age', 'note'"
    whole = report(frame)
    assert "intervals count 20 clusters, not 40 rows" in whole.analyses["quality"].warnings


def test_a_label_that_is_not_called_one_is_found_by_its_cells():
    named = of_classes(["prob_cat", "prob_dog", "prob_owl"], animal=words(LABELS))
    found = read_predictions(named.assign(**{f"topic_{j}": 0.25 for j in range(4)}))
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    assert any("'animal' is the label, by the names" in text for text in found.reading)
    beside = pd.DataFrame({"gold": words(LABELS), "label": words(SAID), "score": P.max(axis=1)})
    np.testing.assert_array_equal(read_predictions(beside).test_confidence, P.max(axis=1))


def test_what_other_programs_call_their_predictions_is_no_label():
    scored = of_classes(["P cat", "P dog", "P owl"], **{"Scored Labels": words(SAID)})
    found = read_predictions(scored.assign(**{"class": words(LABELS)}))
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    alone = pd.DataFrame({"prediction": words(SAID), "confidence": P.max(axis=1)})
    found = read_predictions(alone)
    assert found.test_labels is None
    np.testing.assert_array_equal(found.test_confidence, P.max(axis=1))
    dropout = pd.DataFrame({"id": range(N), "dropout": SECOND, "prediction": ONE})
    np.testing.assert_array_equal(read_predictions(dropout).correct("test")[0], TWO)


def test_signs_at_the_end_of_a_word_tell_classes_apart():
    frame = pd.DataFrame({"Label": np.where(SECOND, "GON+", "GON-"), "probability": ONE})
    found = read_predictions(frame)
    assert found.class_names == ("GON-", "GON+")
    np.testing.assert_array_equal(found.correct("test")[0], TWO)


# --- what is asked --------------------------------------------------------------------------------


def test_a_probability_of_two_meanings_is_asked_for():
    """Predictions of 1 where it is small: neither of the second nor of the predicted class."""
    frame = pd.DataFrame({"label": SECOND, "prediction": (ONE < 0.5).astype(int), "prob": ONE})
    with pytest.raises(ReadingError) as caught:
        read_predictions(frame)
    assert len([line for line in caught.value.lines if "accuracy" in line]) == 2
    chosen = read_predictions(frame, {"probability": "prob"})
    np.testing.assert_array_equal(chosen.correct("test")[0], TWO)


def test_reversed_numbers_are_asked_for():
    frame = pd.DataFrame({"label": SECOND, "prob": 1 - ONE})
    with pytest.raises(ReadingError, match=r"positive=0") as caught:
        read_predictions(frame)
    assert f"{TWO.mean():.3f}" in str(caught.value)
    chosen = read_predictions(frame, as_mapping(["probability=prob,positive=0"]))
    np.testing.assert_array_equal(chosen.correct("test")[0], TWO)
    as_it_is = read_predictions(frame, {"positive": "1"})
    np.testing.assert_array_equal(as_it_is.correct("test")[0], ~TWO)


def test_words_of_two_classes_that_no_column_bears():
    frame = pd.DataFrame({"label": np.where(SECOND, "left", "right"), "prob": ONE})
    found = read_predictions(frame)  # one of the two orders is no better than a constant
    np.testing.assert_array_equal(found.correct("test")[0], TWO)
    even = pd.DataFrame({"label": ["left", "right"] * 40, "prob": [0.9, 0.9, 0.1, 0.1] * 20})
    with pytest.raises(ReadingError, match=r"more than one way.*positive=left.*positive=right|"
                       r"more than one way.*positive=right.*positive=left"):  # fmt: skip
        read_predictions(even)


def test_labels_that_may_be_counted_from_0_or_1():
    kept = LABELS > 0
    frame = of_classes(["p0", "p1", "p2"], P[kept], label=LABELS[kept])
    found = read_predictions(frame)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT[kept])
    shuffled = frame.assign(label=np.where(RNG.random(kept.sum()) < 0.5, 1, 2))
    for first in "01":
        chosen = read_predictions(shuffled, {"first": first})
        np.testing.assert_array_equal(chosen.test_labels, shuffled["label"] - int(first))


def test_one_error_says_everything():
    with pytest.raises(ReadingError) as caught:
        read_predictions(pd.DataFrame({"a": LABELS, "b": RNG.normal(size=N)}))
    text = str(caught.value)
    for said in ("--map label=", "--map probabilities=", "'a', 'b'", "smallest file that would do"):
        assert said in text


def test_labels_that_do_not_fit():
    with pytest.raises(ReadingError, match=r"3 columns of classes.*5 different values"):
        read_predictions(of_classes(["p0", "p1", "p2"], label=np.arange(N) % 5))


@pytest.mark.parametrize(
    ("mapped", "message"),
    [
        ({"labels": "y"}, "must name one of"),
        ({"label": "none"}, "no such column"),
        ({"probabilities": "q_*"}, "no such column"),
    ],
)
def test_bad_maps(mapped, message):
    with pytest.raises(ReadingError, match=message):
        read_predictions(of_classes(["p0", "p1", "p2"], y=LABELS), mapped)


def test_maps_overrule_and_are_read_from_the_command(tmp_path, capsys):
    frame = of_classes(["a(1,x)", "b", "c"], q=LABELS, r=RNG.integers(0, 3, N))
    mapped = as_mapping(["label=q,probabilities=[abc]*"])
    assert mapped == {"label": "q", "probabilities": "[abc]*"}
    np.testing.assert_array_equal(read_predictions(frame, mapped).correct("test")[0], RIGHT)
    path = write(tmp_path, frame, "csv")
    assert main([str(path)]) == 1
    assert "--map label=COLUMN names it" in capsys.readouterr().out
    assert main([str(path), "--map", "label=q", "--map", "probabilities=[abc]*", "--check"]) == 0
    assert "read: probabilities in 3 columns" in capsys.readouterr().out
    for text in ("q", "nothing=q", "label=q,label=r"):
        assert main([str(path), "--map", text]) == 2
        assert "--map must" in capsys.readouterr().err


# --- several models, samples of harnesses ---------------------------------------------------------


def test_models_side_by_side():
    other = words(np.where(RNG.random(N) < 0.2, LABELS, (LABELS + 1) % 3))
    frame = pd.DataFrame({"gold": words(LABELS), "full": words(SAID), "small": other})
    found = report(frame)
    table = found.analyses["comparison"].tables["comparison"].set_index("model")
    right = other == words(LABELS)
    assert table.loc["small", "difference"] == pytest.approx(ACCURACY - right.mean())
    assert table.loc["small", "decided"] == "the reported model is better"
    scores = pd.DataFrame({"label": SECOND, "lr_prob": ONE, "rf_prob": RNG.random(N)})
    assert list(read_predictions(scores).rivals) == ["rf_prob"]
    wide = {f"m{m}_prob_{w}": P[:, j] for m in (1, 2) for j, w in enumerate(WORDS)}
    assert len(read_predictions(pd.DataFrame(wide | {"y": words(LABELS)})).rivals) == 1


def test_samples_of_a_harness(tmp_path):
    path = tmp_path / "samples.jsonl"
    lines = [
        {
            "doc_id": i,
            "doc": {"choices": ["a", "b", "c"], "question": "?" * 500},
            "target": str(label),
            "filtered_resps": [[str(x), "False"] for x in row],
            "acc": 1.0,
        }
        for i, (label, row) in enumerate(zip(LABELS, LOGITS, strict=True))
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    found = read_predictions(path)
    np.testing.assert_allclose(found.test_logits, LOGITS)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    lines[0]["filtered_resps"] = lines[0]["filtered_resps"][:2]  # fewer choices
    lines[0]["target"] = "0"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert np.isfinite(read_predictions(path).test_logits).all()


# --- numbers that are no logits -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (P, "probabilities"),
        (100 * P, "percent"),
        (np.log(P), "log probabilities"),
        (np.eye(3), "one hot"),
        (P * [[0.4, 1, 1]], "shares"),
        (LOGITS, "logits"),
        (np.full((2, 2), math.nan), "no"),
    ],
)
def test_kinds(matrix, kind):
    assert kind_of(matrix) == kind


def test_probabilities_under_the_name_of_logits():
    sparse = P.copy()
    sparse[0] = [0.0, 0.25, 0.75]
    given = ModelPredictions(test_logits=sparse, test_labels=LABELS)
    np.testing.assert_allclose(special.softmax(given.test_logits, axis=1), sparse, atol=1e-15)
    assert "their logarithms are taken (1 of them is 0" in given.reading[0]
    percent = ModelPredictions(test_logits=100 * P, test_labels=LABELS)
    np.testing.assert_allclose(special.softmax(percent.test_logits, axis=1), P)
    threshold = report({"test_logits": P, "test_labels": LABELS}, target=0.6)
    again = report({"test_logits": np.log(P), "test_labels": LABELS}, target=0.6)
    for found in (threshold, again):
        assert found.analyses["selective"].verdict == again.analyses["selective"].verdict


def test_log_of_zero():
    logits = np.array([[0.0, -np.inf], [np.log(0.25), np.log(0.75)]])
    given = ModelPredictions(test_logits=logits, test_labels=[0, 1])
    assert np.isfinite(given.test_logits).all()
    np.testing.assert_array_equal(given.correct("test")[0], [True, True])


def test_area_under_the_curve():
    from sklearn.metrics import roc_auc_score

    score = np.round(ONE, 1)
    assert auc(score, SECOND == 1) == pytest.approx(roc_auc_score(SECOND, score))


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own.pkl", "pandas.read_pickle('own.pkl').to_csv('own.csv'"),
        ("own.pt", "numpy.savez"),
        ("own.xlsx", "pandas.read_excel"),
        ("own.csv.gz", "must be a file packed as .gz"),
        ("own.doc", "must end in one of"),
    ],
)
def test_formats_that_are_refused_say_what_would_do(name, said, tmp_path):
    (tmp_path / name).write_bytes(b"cos\nsystem\n")
    with pytest.raises(ValueError) as caught:
        read_predictions(tmp_path / name)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("own.jsonl", '{"a": 1}\n[1]\n', "row 2 must be an object"),
        ("own.jsonl", '{"a": 1}\n{"a": \n', "row 2 must be JSON"),
        ("own.jsonl", "[" * 100_000, "row 1 must be JSON"),
        ("own.jsonl", "\n\n", "must have rows"),
        ("own.json", "3", "must hold a list of objects"),
        ("own.json", "[" * 100_000, "nested too deep"),
        ("own.json", "{", "must be JSON"),
        ("own.tsv", "label\tp_0\tp_1\n0\t0.5\n", "row 2 must have 3 cells"),
        ("own.csv", "label,p_0,p_1\n0,0.5,0.5\n1,,1\n", "'p_0' must be a number.*row 3"),
        ("own.csv", "label,p_0,p_1\n0,inf,0.5\n1,1,1\n", "'p_0' must be a number.*'inf' in row 2"),
        ("own.csv", "part,label,p_0,p_1\ntrain,0,1,0\n", "all rows are training data"),
        ("own.npy", "no array", "NumPy's format"),
        ("own.csv", ",".join(map(str, range(25_001))) + "\n", "at most 25,000 columns"),
        ("own.jsonl", json.dumps(dict.fromkeys(map(str, range(25_001)), 1)), "at most 25,000"),
        ("own.jsonl", '{"label": ' + "9" * 5000 + "}", "row 1 must be JSON"),
    ],
)
def test_malformed_rows(name, text, said, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        read_predictions(tmp_path / name)


def test_labels_that_are_texts_are_not_kept(tmp_path):
    for label in (["x" * 300] * 2, [f"w{j}" for j in range(10_001)]):
        rows = "".join(f"{one},0.5,0.5\n" for one in label)
        (tmp_path / "own.csv").write_text(f"label,p_a,p_b\n{rows}")
        found = read_predictions(tmp_path / "own.csv")
        assert found.test_labels is None
        assert any(text.startswith("'label' is no label") for text in found.reading)


def test_names_and_cells_of_others_do_nothing(tmp_path, capsys):
    name = "\x1b[2J=HYPERLINK(1)"
    frame = of_classes(["p_=a", "p_\x1b[31m", "p_c\u202e"], y=LABELS).assign(**{name: "\x1b"})
    path = write(tmp_path, frame, "csv")
    assert main([str(path), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\u202e" not in said
    for each in (tmp_path / "out").glob("*.csv"):
        text = each.read_text()
        assert "\x1b" not in text
        assert "\n=" not in text
        assert ",=" not in text


def test_parquet_and_feather_or_what_to_install(tmp_path):
    frame = of_classes(["p_cat", "p_dog", "p_owl"], y=words(LABELS))
    for kind in ("parquet", "feather"):
        path = tmp_path / f"own.{kind}"
        if importlib.util.find_spec("pyarrow") is None:
            path.write_bytes(b"PAR1")
            with pytest.raises(ValueError, match="install pyarrow"):
                read_predictions(path)
            continue
        getattr(frame, f"to_{kind}")(path)
        np.testing.assert_array_equal(read_predictions(path).correct("test")[0], RIGHT)
        path.write_bytes(path.read_bytes()[:200])
        with pytest.raises(ValueError, match=f"must be {kind}"):
            read_predictions(path)


@pytest.mark.parametrize("data", [3, None, [1, 2], object()])
def test_what_is_no_table(data):
    with pytest.raises(TypeError, match="data must be"):
        read_predictions(data)


@pytest.mark.skipif(not CASES.is_dir(), reason="real files belong to others and are not kept here")
def test_shared_cases_are_read_or_asked_for():
    """Real files, where they are at hand."""
    expected = {
        "01_": 0.730, "04_": 0.658, "05_": 0.693, "06_": 0.858, "06b": 0.436, "07_": 0.693,
        "08_": 0.832, "10_": 0.785, "11_": 1.0, "12_": 1.0, "14_": 0.602, "15_": 0.730,
        "17_": 0.600, "18_": 0.2, "19_": 1.0,
    }  # fmt: skip
    for path in sorted(CASES.glob("[0-9]*")):
        correct, _ = read_predictions(path).correct("test")
        assert correct.mean() == pytest.approx(expected[path.name[:3]], abs=5e-4), path


def test_the_example_is_reported_on_without_torch(tmp_path):
    """One command from nothing to a report, in a process where PyTorch cannot be loaded."""
    code = (
        "import sys, importlib.abc\n"
        "class Without(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in ('torch', 'opacus'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from lib.report.__main__ import main\n"
        "sys.exit(main(['--example', '--learner', 'linear', '--out', 'page.html']))"
    )
    options = {"cwd": tmp_path, "capture_output": True, "text": True}
    path = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | path, **options)
    assert done.returncode == 0, done.stderr
    assert "Accuracy and calibration: done" in done.stdout
    assert {each.name for each in tmp_path.iterdir()} == {"example.npz", "page.html"}


def test_a_command_without_a_file_says_so(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == "error: a file must be given, or --example\n"
