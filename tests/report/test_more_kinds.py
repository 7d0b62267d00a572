"""Files of people and programs that were once read wrongly, or refused without a way out."""

import json
import unicodedata

import numpy as np
import pandas as pd
import pytest
from scipy import special

from lib.report import read_predictions

RNG = np.random.default_rng(11)
N, WORDS = 60, np.array(["cat", "dog", "owl"])
LABELS = RNG.permutation(np.repeat([0, 1, 2], N // 3))
P = special.softmax(2.0 * np.eye(3)[LABELS] + RNG.normal(size=(N, 3)), axis=1)
SAID = P.argmax(axis=1)
RIGHT = SAID == LABELS
SECOND = RNG.integers(0, 2, N)
ONE = special.expit(3.0 * SECOND - 1.5 + RNG.normal(size=N))
TWO = (ONE > 0.5) == SECOND
HARD = pd.DataFrame({"label": WORDS[LABELS], "prediction": WORDS[SAID]})
PROBABLE = pd.DataFrame({f"p_{w}": P[:, j] for j, w in enumerate(WORDS)})
COUNTS = pd.DataFrame([[30, 5, 5], [4, 21, 5], [3, 7, 20]], columns=WORDS)
TEXT, NUMBERS = HARD.to_csv(index=False), pd.DataFrame({"label": SECOND, "prob": ONE})
LONG = pd.DataFrame(
    {"id": i, "class": WORDS[j], "prob": P[i, j], "truth": WORDS[LABELS[i]], "label": 1 * hit}
    for i in range(N)
    for j, hit in enumerate(np.arange(3) == LABELS[i])
)
KAESE = [unicodedata.normalize(form, "K\u00e4se") for form in ("NFC", "NFD")]


def read(data, path):
    """What is read of a text, of objects, of arrays or of a frame."""
    if isinstance(data, str):
        path.write_text(data)
    elif isinstance(data, dict) and isinstance(next(iter(data.values())), np.ndarray):
        path = path.with_suffix(".npz")
        np.savez(path, **data)
    elif isinstance(data, dict):
        path = path.with_suffix(".json")
        path.write_text(json.dumps(data))
    else:
        data.to_csv(path, index=False)
    return read_predictions(path)


MARKDOWN = "| label | prediction |\n|:---|---:|\n" + "".join(
    f"| {WORDS[y]} | {WORDS[s]} |\n" for y, s in zip(LABELS, SAID, strict=True)
)
KINDS = {
    "one row a class, with the true one marked": (
        LONG.drop(columns="truth").astype({"label": bool}).assign(note=range(3 * N)),
        RIGHT,
    ),
    "one row a class, with the true one named": (LONG.drop(columns="label"), RIGHT),
    "one row of each of two classes, rounded": (
        pd.DataFrame(
            {"id": i, "class": j, "p": round(p, 2), "target": y}
            for i, (p, y) in enumerate(zip(ONE, SECOND, strict=True))
            for j, p in enumerate((1 - p, p))
        ).sample(frac=1, random_state=1),
        (ONE.round(2) > (1 - ONE).round(2)) == SECOND,
    ),
    "a table in Markdown": (MARKDOWN, RIGHT),
    "two files joined": (TEXT + TEXT, np.tile(RIGHT, 2)),
    "two files of numbers joined": (2 * NUMBERS.to_csv(index=False), np.tile(TWO, 2)),
    "a line above the header": ("Model 7 of May,\n\n" + TEXT, RIGHT),
    "accents as letters of their own": (
        HARD.replace({"label": {"cat": KAESE[0]}, "prediction": {"cat": KAESE[1]}}),
        RIGHT,
    ),
    "percent signs and decimal commas": (
        HARD[["label"]]
        .join(PROBABLE.map(lambda v: f"{100 * v:.3f} %".replace(".", ",")))
        .to_csv(index=False, sep=";"),
        RIGHT,
    ),
    "percentages called so": (
        pd.DataFrame({"label": SECOND, "probability_percent": 100 * ONE}),
        TWO,
    ),
    "1 and 0 beside True and False": (
        pd.DataFrame({"churn": SECOND == 1, "predicted_churn": 1 * (ONE > 0.5)}),
        TWO,
    ),
    "a label called as the answers": (
        pd.DataFrame({"stars": LABELS + 1, "predicted_stars": SAID + 1, "row_id": range(N)}),
        RIGHT,
    ),
    "no header, and the label first": (
        pd.DataFrame({"0": SECOND, "0.5": ONE}).to_csv(index=False, header=False),
        TWO,
    ),
    "soft labels beside probabilities": (
        PROBABLE.join(PROBABLE.rename(columns=lambda n: f"label_{n[2:]}")).assign(truth=LABELS),
        RIGHT,
    ),
    "a vector of Spark": (
        pd.DataFrame(
            {"label": SECOND, "probability": [f"DenseVector([{1 - p}, {p}])" for p in ONE]}
        ),
        TWO,
    ),
    "parts of one object": (
        {
            "val": {"labels": LABELS[:9].tolist(), "probs": P[:9].tolist()},
            "test": {"labels": LABELS[9:].tolist(), "probs": P[9:].tolist()},
        },
        RIGHT[9:],
    ),
    "features of the test rows": (
        {"X_test": RNG.normal(size=(N, 4)), "y_test": LABELS, "y_pred": SAID, "y_proba": P},
        RIGHT,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_read_as_it_is_meant(kind, tmp_path):
    data, right = KINDS[kind]
    np.testing.assert_array_equal(read(data, tmp_path / "own.csv").correct("test")[0], right)


def test_commas_in_a_file_called_tsv(tmp_path):
    np.testing.assert_array_equal(read(TEXT, tmp_path / "own.tsv").correct("test")[0], RIGHT)


def test_the_second_of_two_answers_is_no_model(tmp_path):
    order = np.argsort(-P, axis=1)
    frame = {f"class{k + 1}": WORDS[order[:, k]] for k in (0, 1)}
    frame |= {f"prob{k + 1}": np.sort(P, axis=1)[:, -1 - k] for k in (0, 1)}
    found = read(pd.DataFrame(frame | {"true": WORDS[LABELS]}), tmp_path / "own.csv")
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    np.testing.assert_allclose(found.test_confidence, P.max(axis=1))
    assert not found.rivals
    frame["prob2"] = RNG.random(N)  # which does not fall: these are of another model
    found = read(pd.DataFrame(frame | {"true": WORDS[LABELS]}), tmp_path / "own.csv")
    assert [*found.rivals] == ["class2"]


def test_scores_of_canaries_and_of_references_are_audited(tmp_path):
    found = read({"canary_scores": P[:9, 0], "reference_scores": P[9:, 0]}, tmp_path / "own.npz")
    np.testing.assert_array_equal(found.member_scores, P[:9, 0])
    np.testing.assert_array_equal(found.nonmember_scores, P[9:, 0])


def test_answers_said_to_be_right_that_are_not_the_label(tmp_path):
    lenient = HARD.assign(correct=RIGHT)
    lenient.loc[np.flatnonzero(~RIGHT)[:2], "correct"] = True
    (told,) = [t for t in read(lenient, tmp_path / "own.csv").reading if "says otherwise" in t]
    assert f"in 2 of {N} rows: by it the accuracy is {lenient['correct'].mean():.3f}" in told
    same = read(HARD.assign(correct=RIGHT), tmp_path / "own.csv").reading
    assert not any("says otherwise" in text for text in same)


def test_what_only_looks_like_it_is_read_as_before(tmp_path):
    """A feature that is called a count, and a model's score beside its answers."""
    few = HARD.drop_duplicates().assign(id=range(len(HARD.drop_duplicates())), count=7, text="a")
    assert len(read(few, tmp_path / "own.csv").correct("test")[0]) == len(few)
    frame = pd.DataFrame({"net": ONE, "net_pred": 1 * (ONE > 0.5), "diagnosis": SECOND})
    assert not any("is no label" in text for text in read(frame, tmp_path / "own.csv").reading)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (COUNTS.assign(actual=WORDS), "a confusion matrix: 3 rows of counts"),
        (COUNTS.add_prefix("pred_").assign(true=WORDS), "a confusion matrix"),
        (
            COUNTS.assign(actual=WORDS).melt("actual", var_name="predicted", value_name="count"),
            r"'count' seems to count.*frame.loc\[frame.index.repeat\(frame\['count'\]\)\]",
        ),
        (TEXT + "Total,60\n", "'label' must be of a prediction.*got 'Total' in row 62"),
        (TEXT + ",\nAccuracy,0.8\n", "got 'Accuracy' in row 63"),
        (NUMBERS.reset_index().to_csv(index=False) + "Sum,30,30.5\n", "'index' must be.*'Sum'"),
        (TEXT.replace("\n", ",\n").replace(",\n", "\n", 1), "rows end in a separator, the header"),
        (
            pd.DataFrame({"price": 99 * ONE, "predicted_price": 98 * ONE}),
            "'price' is no label: .* is no class",
        ),
        (
            pd.DataFrame(
                {"Bought": np.array(["CH", "MM"])[SECOND], "prediction_score": abs(ONE - 0.5) + 0.5}
            ).assign(prediction_label=np.array(["CH", "MM"])[1 * (ONE > 0.5)]),
            "'Bought' has the cells of 'prediction_label'",
        ),
    ],
)
def test_refused_with_what_would_do(data, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        read(data, tmp_path / "own.csv")
