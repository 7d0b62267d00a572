"""Tables of the published audits, and the sentences made of them, from confidences made by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lib.audit import canary_epsilon
from lib.audit.canaries import top_label_guesses
from lib.studies.canaries import published
from lib.studies.canaries.simulation import randomized_response_confidences

CLASSES, POINTS = 10, 300


def given(sure, seed=0):
    """Confidences that favour the canary's label in so many of the points."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, CLASSES, POINTS)
    canary = (true + rng.integers(1, CLASSES, POINTS)) % CLASSES
    p = rng.dirichlet(np.full(CLASSES, 0.5), POINTS)
    rows = np.flatnonzero(np.arange(POINTS) < sure)
    p[rows] = 0.1 / CLASSES
    p[rows, canary[rows]] += 0.9
    return p, canary, true


INPUTS = {
    ("cifar10", "ALIBI", "HH", "1 x 1000"): given(250),
    ("cifar10", "ALIBI", "H", "1 x 1000"): given(200),
    ("cifar10", "AGIBI", "H", "1 x 1000"): given(100),
    ("cifar10", "ALIBI", "H", "10 x 100"): given(0),
}


def rate_by_hand(p, canary, true, error):
    """The weighted rate at the reported threshold, mirrored, and its standard error."""
    rows, threshold = (
        np.arange(len(p)),
        canary_epsilon(p, canary, true, standard_error=error).threshold,
    )
    own, others = p[rows, canary][:, None], p.copy()
    others[rows, canary] = others[rows, true] = np.nan
    made = (own >= threshold) | (others >= threshold)
    made &= ~np.isnan(others)
    right = made & (own >= threshold) & (own > others)
    has = made.any(1)
    weight, rate = made.sum(1)[has] / made.sum(), right.sum(1)[has] / made.sum(1)[has]
    mean = weight @ rate
    if error == "authors":
        square = weight @ (rate - mean) ** 2 / (1 - weight @ weight) / has.sum()
    else:
        square = weight**2 @ (rate - mean) ** 2
    return max(mean, 1 - mean), math.sqrt(square)


def test_the_same_canaries_are_paired(monkeypatch):
    monkeypatch.setattr(published, "published_inputs", lambda: INPUTS)
    (row,) = published.paired_table().itertuples(index=False)
    first, second = (
        top_label_guesses(*INPUTS["cifar10", name, "H", "1 x 1000"], 0.0).correct
        for name in ("ALIBI", "AGIBI")
    )
    alone = (first & ~second).sum(), (second & ~first).sum()
    p = stats.binomtest(alone[0], sum(alone)).pvalue
    assert row[:7] == ("cifar10", "H", first.sum(), second.sum(), *alone, p)
    assert first.sum() > second.sum() > 0
    for p, error in zip(row[7:], ("authors", "sandwich"), strict=True):
        (a, s), (b, t) = (
            rate_by_hand(*INPUTS["cifar10", name, "H", "1 x 1000"], error)
            for name in ("ALIBI", "AGIBI")
        )
        assert p == pytest.approx(2 * stats.norm.sf(abs(a - b) / math.hypot(s, t)))


@pytest.mark.parametrize(("classes", "epsilon"), [(10, 3.0), (100, 1.0)])
def test_normal_tests_of_equal_losses_have_no_level(monkeypatch, classes, epsilon):
    """By the authors' errors far below 5%, or far above; by the sandwich above. Of one pair."""
    rng, runs, ps = np.random.default_rng(1), 45, []
    keys = [("cifar10", name, "H", "1 x 1000") for name in ("ALIBI", "AGIBI")]
    for _ in range(runs):
        true = rng.integers(0, classes, 1000)
        wrong = (true + rng.integers(1, classes, 1000)) % classes
        both = {
            k: (randomized_response_confidences(wrong, classes, epsilon, seed=rng), wrong, true)
            for k in keys
        }
        monkeypatch.setattr(published, "published_inputs", lambda both=both: both)
        ps.append(published.paired_table().iloc[0, -3:].to_numpy(float))
    named, authors, sandwich = (np.array(ps) < 0.05).sum(0)
    assert named <= stats.binom.isf(1e-4, runs, 0.05)
    if epsilon > 2:
        assert authors <= stats.binom.isf(1e-4, runs, 0.005)
    else:
        assert authors > stats.binom.isf(1e-4, runs, 0.05)
    assert sandwich > stats.binom.isf(1e-4, runs, 0.05)


def test_models_with_the_same_chance_are_seldom_told_apart(monkeypatch):
    """At most 5% of six pairs' tests together, by independent guesses of equal chance."""
    rng, runs = np.random.default_rng(0), 60

    def guesses(p, *_):
        return SimpleNamespace(correct=rng.random(200) < p)

    levels = [(d, level) for d in ("cifar10", "cifar100") for level in "HML"]
    keys = [(d, name, level, "1 x 1000") for d, level in levels for name in ("ALIBI", "AGIBI")]
    monkeypatch.setattr(published, "published_inputs", lambda: dict.fromkeys(keys, (0.3, 0, 0)))
    monkeypatch.setattr(published, "top_label_guesses", guesses)
    monkeypatch.setattr(published, "canary_epsilon", lambda *_, **__: None)  # no part of this test
    monkeypatch.setattr(published, "_rate", lambda _: (0.6, 0.1))
    tables = [published.paired_table() for _ in range(runs)]
    found = [table["p"].min() < 0.05 for table in tables]
    assert sum(found) <= stats.binom.isf(1e-4, runs, 0.05)
