"""Models compared by pairs of rows: intervals and decisions are wrong as often as they say."""

import numpy as np
import pytest
from scipy import stats

from lib.report import ModelPredictions, Settings
from lib.report.rivals import analyse, exact_p

REPETITIONS, ALPHA = 120, 0.1
MOST = stats.binom.isf(1e-4, REPETITIONS, ALPHA)
MANY = 250  # where what would be wrong is near the level: without Holm's correction 22%


def pairs(rng, n, only_one, only_other, both):
    """Whether either is right, by row, with the probabilities of the ways to differ."""
    kind = rng.choice(4, size=n, p=[only_one, only_other, both, 1 - only_one - only_other - both])
    return (kind == 0) | (kind == 2), (kind == 1) | (kind == 2)


def found(one, others, clusters=None):
    """Labels are 0: an answer is 0 where it is right."""
    given = ModelPredictions(
        test_labels=np.zeros(len(one), dtype=int),
        test_predicted=(~one).astype(int),
        rivals={f"m{j}": (~other).astype(int) for j, other in enumerate(others)},
        test_clusters=clusters,
    )
    return analyse(given, Settings(alpha=ALPHA))


def wrong(draw, difference, seed, repetitions=REPETITIONS):
    """How often an interval misses the difference, and a decision is for the worse or of equals."""
    rng, missed, decided = np.random.default_rng(seed), 0, 0
    for _ in range(repetitions):
        analysis = found(*draw(rng))
        low, high = (analysis.values[f"difference_{end}"] for end in ("low", "high"))
        missed += not low <= difference <= high
        for row in analysis.tables["comparison"].to_dict("records"):
            if row["decided"] != "not decided":
                better = row["decided"] == "the reported model is better"
                decided += difference == 0 or better != (difference > 0)
                break
    return missed, decided


DESIGNS = {
    # rows, only the first right, only the second, both
    "alike": (400, 0.15, 0.15, 0.55),
    "few differ": (200, 0.01, 0.01, 0.9),
    "next to none differ": (60, 0.005, 0.005, 0.95),
    "close to 1": (100, 0.02, 0.0, 0.98),
    "few rows": (20, 0.3, 0.1, 0.4),
    "one is better": (300, 0.2, 0.1, 0.5),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_intervals_and_decisions_of_two(design):
    n, first, second, both = DESIGNS[design]

    def draw(rng):
        one, other = pairs(rng, n, first, second, both)
        return one, [other]

    missed, decided = wrong(draw, first - second, 3)
    assert missed <= MOST
    assert decided <= MOST


def test_decisions_of_several_hold_together():
    def draw(rng):
        one = rng.random(200) < 0.7
        return one, [rng.random(200) < 0.7 for _ in range(4)]

    _, decided = wrong(draw, 0.0, 4, MANY)
    assert decided <= stats.binom.isf(1e-4, MANY, ALPHA)


def test_intervals_count_clusters():
    """All rows of a cluster differ together; by rows the interval misses far too often."""
    naive, groups, size = 0, 40, 10

    def draw(rng):
        nonlocal naive
        one, other = (np.repeat(each, size) for each in pairs(rng, groups, 0.2, 0.2, 0.4))
        only, its = int((one & ~other).sum()), int((other & ~one).sum())
        naive += exact_p(only, its) <= ALPHA
        return one, [other], np.repeat(np.arange(groups), size)

    missed, decided = wrong(draw, 0.0, 5)
    assert missed <= MOST
    assert decided <= MOST
    assert naive > MOST


def test_models_that_never_differ_are_alike():
    one = np.arange(50) % 5 > 0
    assert found(one, [one]).tables["comparison"]["decided"].tolist() == ["not decided"]


def test_what_differs_is_found():
    rng = np.random.default_rng(6)
    one, other = pairs(rng, 1000, 0.15, 0.05, 0.7)
    table = found(one, [other, one]).tables["comparison"]
    assert table["decided"].tolist() == ["the reported model is better", "not decided"]
    assert found(other, [one]).tables["comparison"]["decided"][0] == "the other is better"
