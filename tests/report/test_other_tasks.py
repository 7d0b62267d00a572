"""Files of other tasks, one class alone, and classes in another order than their columns."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from lib.report import read_predictions
from lib.report.other_tasks import several
from lib.report.outputs import Candidate
from lib.report.tables import ReadingError

RNG = np.random.default_rng(6)
N = 300
NUMBERS = RNG.integers(10, 90, N)
MANY = (RNG.random((N, 4)) < 0.4).astype(int)
SETS = ["|".join(np.array(list("abcd"))[row == 1]) for row in MANY]
SCORES = RNG.random((N, 4))
WORDS = np.array(["apple", "bear", "cat", "dog", "emu", "hen", "gnu", "fox"])  # not the alphabet
LABELS = RNG.integers(0, 8, N)
P = special.softmax(3.0 * np.eye(8)[LABELS] + RNG.normal(size=(N, 8)), axis=1)
RIGHT = P.argmax(axis=1) == LABELS

OTHER = {
    "ages": ({"age_true": NUMBERS, "age_pred": NUMBERS + RNG.integers(-5, 6, N)}, "go together"),
    "prices": ({"y_true": NUMBERS * 1.5, "y_pred": NUMBERS + 0.5}, "'y_true' is no label"),
    "whole prices": ({"y_true": NUMBERS, "y_pred": NUMBERS + 0.5}, "go together"),
    "sets": ({"labels": SETS, "predictions": SETS[::-1]}, r"several labels at once.* '.*\|"),
    "printed lists": (
        {"labels": [str([*one]) for one in SETS], "pred": SETS},
        "several labels at once",
    ),
    "columns": (
        {f"true_{c}": MANY[:, j] for j, c in enumerate("abcd")}
        | {f"prob_{c}": SCORES[:, j] for j, c in enumerate("abcd")},
        r"tasks at once, 'true_a' with 'prob_a' and 'true_b' with 'prob_b', \.\.\.",
    ),
}


@pytest.mark.parametrize("case", OTHER)
def test_other_tasks_are_refused_at_once(case):
    columns, said = OTHER[case]
    with pytest.raises(ReadingError, match=said) as caught:
        read_predictions(pd.DataFrame(columns))
    assert len(caught.value.lines) == 1 + (case == "columns")  # and a --map that takes one of them


def test_arrays_of_several_labels(tmp_path):
    np.savez(tmp_path / "own.npz", y_true=MANY, y_prob=SCORES)
    with pytest.raises(ReadingError, match=r"'y_true_0', .* have several 1s in a row"):
        read_predictions(tmp_path / "own.npz")
    np.savez(tmp_path / "own.npz", targets=np.eye(8)[LABELS], probs=P)  # one a row
    np.testing.assert_array_equal(read_predictions(tmp_path / "own.npz").test_labels, LABELS)


def test_classes_may_look_so():
    commas = ("tench, Tinca", "goldfish, Carassius", "shark, great white")
    assert not several(commas)
    classes = NUMBERS  # numbers of many classes, mostly right, or wrong anyhow
    for said in (np.where(RNG.random(N) < 0.8, classes, 11), RNG.permutation(classes)):
        assert len(read_predictions({"label": classes, "pred": said}).correct("test")[0]) == N


def test_one_class_alone():
    score = RNG.random(N)
    spam = read_predictions({"label": ["spam"] * N, "prob": score})
    np.testing.assert_array_equal(spam.correct("test")[0], score > 0.5)
    for positive, want in (("ham", score > 0.5), ("other", score <= 0.5)):
        with pytest.raises(ReadingError, match=f"--map probability=prob,positive={positive}"):
            read_predictions({"label": ["ham"] * N, "prob": score})
        mapped = {"probability": "prob", "positive": positive}
        found = read_predictions({"label": ["ham"] * N, "prob": score}, mapped)
        np.testing.assert_array_equal(found.correct("test")[0], want)


def test_classes_in_another_order_than_columns_are_noticed():
    frame = pd.DataFrame(P, columns=[f"p_{j}" for j in range(8)]).assign(label=WORDS[LABELS])
    with pytest.raises(ReadingError, match=r"another order.*Name the columns by their classes"):
        read_predictions(frame)
    order = np.argsort(WORDS)
    right = pd.DataFrame(P[:, order], columns=frame.columns[:8]).assign(label=WORDS[LABELS])
    found = read_predictions(right)
    np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
    assert found.class_names == tuple(sorted(WORDS))


def better_orders(k: int, n: int, accuracy: float, uneven: bool, moved: int, draws: int) -> int:
    """In how many files another order of classes is found; `moved` classes of theirs are."""
    rng = np.random.default_rng([k, n, round(10 * accuracy), uneven, moved])
    shares = np.arange(1, k + 1) ** (-1.5 * uneven)
    order, found = np.r_[np.roll(np.arange(moved), 1), moved:k], 0
    for _ in range(draws):
        labels, others = rng.choice(k, (2, n), p=shares / shares.sum())
        answers = order[np.where(rng.random(n) < accuracy, labels, others)]
        one = Candidate(labels, tuple(map(str, range(k))), [], "", predicted=answers)
        found += one.better_order(np.ones(n, bool)) is not None
    return found


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("n", [10, 100, 1000])
@pytest.mark.parametrize("k", [3, 10])
def test_by_chance_no_other_order_is_better(k, n, accuracy, uneven):
    """In at most 1% of the files, also of models that guess: of these it was 23% once."""
    draws = 300
    found = better_orders(k, n, accuracy, uneven, 0, draws)
    assert found <= stats.binom.ppf(1 - 1e-6, draws, 0.01)


@pytest.mark.parametrize(("k", "moved"), [(3, 2), (10, 2), (10, 10)])
def test_another_order_is_found(k, moved):
    assert better_orders(k, 300, 0.8, False, moved, 100) >= 95


def test_another_array_names_the_columns(tmp_path):
    np.savez(tmp_path / "own.npz", y_true=WORDS[LABELS], y_prob=P, classes=WORDS)
    with (tmp_path / "own.json").open("w") as file:
        names = {"class_names": WORDS.tolist(), "labels": WORDS[LABELS].tolist()}
        json.dump(names | {"probs": P.tolist()}, file)
    for name in ("own.npz", "own.json"):
        found = read_predictions(tmp_path / name)
        np.testing.assert_array_equal(found.correct("test")[0], RIGHT)
        assert found.class_names == tuple(WORDS)
