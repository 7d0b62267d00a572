"""How often thresholds of the reading misread a file, by simulation."""

import numpy as np
import pytest
from scipy import special, stats

from lib.report.other_tasks import numbers, shifted
from lib.report.outputs import Candidate, kind_of
from lib.report.tables import Column

LEVEL = 0.01  # of misread files, at most
FILES = 60


def holds(misread, files=FILES):
    """Whether a rate of `LEVEL` is not excluded by so many misread files."""
    return stats.binomtest(misread, files, LEVEL, "greater").pvalue > 1e-3


def model(rng, k):
    """Rows of logits of a model with k classes, sharpened or not, and what is true."""
    n = int(rng.choice([20, 60, 200]))
    labels = rng.integers(0, k, n)
    logits = 1.5 * rng.normal(size=(n, k))
    logits[np.arange(n), labels] += rng.uniform(2, 6)
    return logits / rng.choice([0.5, 1, 2]), labels


#: By name: how outputs are written, as what they may be read, and the most classes.
WRITTEN = {
    "as they are": (lambda p: p, "probabilities", 1000),
    "in float16": (lambda p: p.astype(np.float16), "probabilities", 1000),
    "2 digits": (lambda p: p.round(2), "probabilities", 100),
    "3 digits": (lambda p: p.round(3), "probabilities", 1000),
    "4 digits": (lambda p: p.round(4), "probabilities", 1000),
    "percent": (lambda p: (100 * p).round(), "percent", 100),
    "percent, 1 digit": (lambda p: (100 * p).round(1), "percent", 1000),
    "logarithms, 2 digits": (lambda p: np.log(p).round(2), "log probabilities", 1000),
    "logarithms in float16": (lambda p: np.log(p).astype(np.float16), "log probabilities", 1000),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("k", [2, 10, 100, 1000])
def test_rounded_outputs_are_known(name, k):
    write, kind, most = WRITTEN[name]
    if k > most:
        kind = ("shares", kind)  # which are divided by their sums: the same probabilities
    files = FILES if k < 1000 else 6
    rng = np.random.default_rng(k)
    written = [write(special.softmax(model(rng, k)[0], axis=1)) for _ in range(files)]
    odd = ("one hot",) * (k < 10)  # of a few rows in few digits all may be 0 and 1
    misread = [w for w in written if (f := kind_of(w)) not in kind and f not in odd]
    assert holds(len(misread), files)


def test_the_last_row_of_a_long_file_changes_nothing():
    p = np.tile([[34.0, 33.0, 33.0]], (4097, 1))
    p[-1] = 33  # rounded from a third each: alone it could be votes
    assert kind_of(p) == "percent"


@pytest.mark.parametrize("digits", [1, 2, None])
@pytest.mark.parametrize("k", [2, 3, 30])
def test_other_numbers_are_no_probabilities(k, digits):
    rng, misread = np.random.default_rng(k), 0
    for _ in range(FILES):
        logits, _ = model(rng, k)
        top = logits.max(axis=1, keepdims=True)
        others = {
            "shares": special.expit(logits),  # a sigmoid a class
            "logits": np.maximum(logits, 0),  # after a ReLU
            "logits ": logits - top,  # none above 0
        }
        for kind, values in others.items():
            found = values if digits is None else values.round(digits)
            misread += kind_of(found) != kind.strip()
    assert holds(misread, 3 * FILES)


def column(values):
    return Column("own", np.asarray(values, dtype=float))


def answers(rng, k, right):
    """Labels of k classes, and answers that are wrong at random, or near the label."""
    n = int(rng.choice([60, 200, 600]))
    labels = rng.integers(0, k, n)
    wrong = rng.integers(0, k, n)
    if rng.random() < 0.5:  # such as of classes that are sorted by kind
        wrong = np.clip(labels + np.rint(rng.laplace(0, 0.05 * k, n)), 0, k - 1)
    return labels, np.where(rng.random(n) < right, labels, wrong)


@pytest.mark.parametrize("k", [2, 5, 10, 100, 1000])
@pytest.mark.parametrize("right", [0.3, 0.6, 0.9])
def test_answers_of_classes_are_neither_shifted_nor_numbers(k, right):
    rng = np.random.default_rng(k)
    files = [answers(rng, k, right) for _ in range(FILES)]
    pairs = [(column(y), column(said)) for y, said in files]
    assert holds(sum(shifted(*pair) is not None for pair in pairs))
    assert holds(sum(numbers(*pair) for pair in pairs))


@pytest.mark.parametrize("k", [3, 10, 100, 1000])
@pytest.mark.parametrize("first", [1, -1])
def test_answers_that_are_counted_from_elsewhere_are_found(k, first):
    rng = np.random.default_rng(k)
    files = [answers(rng, k, 0.7) for _ in range(FILES)]
    missed = [1 for y, said in files if shifted(column(y + first), column(said)) is None]
    assert holds(len(missed))


@pytest.mark.parametrize("spread", [1.2, 2, 10])
def test_numbers_are_found(spread):
    rng, missed = np.random.default_rng(5), 0
    for _ in range(FILES):
        ages = rng.integers(18, 80, int(rng.choice([60, 200, 600])))
        missed += not numbers(
            column(ages), column(np.rint(ages + rng.normal(0, spread, len(ages))))
        )
    assert holds(missed)


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
@pytest.mark.parametrize("accuracy", [0.0, 0.9])
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
