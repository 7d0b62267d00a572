"""P5's losses of two models on the same canaries: the bootstrap repeats P5's own procedure."""

import numpy as np
import pytest
from scipy import stats
from test_published_tables import CLASSES, POINTS, given

from lib.audit import canary_epsilon
from lib.studies.canaries import losses, published


@pytest.mark.parametrize("sure", [0, 5, 60, 250, POINTS])
def test_limits_of_drawings_are_those_of_the_drawn_canaries(sure):
    """Also where no guess is wrong, where all are, where few are made, and where none is."""
    p, canary, true = given(sure)
    kinds = {"as they are": p, "always right": p.copy(), "always wrong": p.copy(), "none": p.copy()}
    rows = np.arange(POINTS)
    kinds["always right"][:] = 0.05 / CLASSES
    kinds["always right"][rows, canary] += 0.95
    kinds["always wrong"][:] = 0.05 / CLASSES
    kinds["always wrong"][rows, (true + 1 + (canary == (true + 1) % CLASSES)) % CLASSES] += 0.95
    kinds["none"][:] = 1 / CLASSES
    rng = np.random.default_rng(sure)
    for of in kinds.values():
        guessed = losses.guesses_of(of, canary, true)
        drawn = [np.arange(POINTS), *rng.integers(0, POINTS, (4, POINTS))]
        counts = np.array([np.bincount(rows, minlength=POINTS) for rows in drawn], dtype=float)
        wanted = [canary_epsilon(of[rows], canary[rows], true[rows]).low for rows in drawn]
        assert losses.lower_limits(guessed, counts) == pytest.approx(wanted, abs=1e-9)


def inputs_of(first, second):
    return {
        ("cifar10", "ALIBI", "H", "1 x 1000"): first,
        ("cifar10", "AGIBI", "H", "1 x 1000"): second,
        ("cifar10", "ALIBI", "H", "10 x 100"): first,
    }


def test_models_that_differ_are_told_apart_and_a_model_is_not_from_itself(monkeypatch):
    better, worse = given(250), given(20)
    monkeypatch.setattr(published, "published_inputs", lambda: inputs_of(better, worse))
    (row,) = losses.paired_losses(200, seed=1).itertuples()
    assert row.ALIBI == canary_epsilon(*better).low > row.AGIBI == canary_epsilon(*worse).low
    assert row.apart
    assert row.difference == row.ALIBI - row.AGIBI
    first, second = canary_epsilon(*better), canary_epsilon(*worse)
    assert row.overlap == (first.low <= second.high and second.low <= first.high)
    monkeypatch.setattr(published, "published_inputs", lambda: inputs_of(better, better))
    same = losses.paired_losses(200, seed=1).iloc[0]
    assert same[["difference", "difference low", "difference high"]].tolist() == [0, 0, 0]
    assert same["overlap"]
    assert not same["apart"]
    assert losses.apart_in_words(losses.paired_losses(50, seed=1)) == "no level"


@pytest.mark.parametrize(("sure", "other"), [(250, 20), (60, 5)])
def test_models_of_which_neither_is_better_are_seldom_told_apart(monkeypatch, sure, other):
    """Swapped at random, canary by canary: the interval of 95% errs in 5% or a bit more."""
    (first, canary, true), (second, *_) = given(sure), given(other)
    rng, told, repetitions = np.random.default_rng(sure), 0, 60
    for repetition in range(repetitions):
        swap = rng.random(POINTS)[:, None] < 0.5
        both = (np.where(swap, b, a) for a, b in ((first, second), (second, first)))
        inputs = inputs_of(*((p, canary, true) for p in both))
        monkeypatch.setattr(published, "published_inputs", lambda of=inputs: of)
        told += bool(losses.paired_losses(200, seed=repetition)["apart"].iloc[0])
    assert told <= stats.binom.ppf(0.999, repetitions, 0.07)
