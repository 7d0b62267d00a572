"""Tables of the published audits, and the sentences made of them, from confidences made by hand."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from chapter_cells import settings_of
from scipy import stats

from lib import data
from lib.audit import (
    canary_epsilon,
    insert_canaries,
    one_label_bound,
    single_label_guesses,
    top_label_bound,
)
from lib.audit.canaries import THRESHOLDS, top_label_guesses
from lib.book.chapters import profile_parameters
from lib.studies.canaries import mechanisms, published
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


@pytest.fixture
def inputs(monkeypatch):
    monkeypatch.setattr(published, "published_inputs", lambda: INPUTS)


def test_table_of_audits(inputs):
    audits = published.published_audits()
    table = published.published_table(audits)
    names = ["data", "mechanism", "level", "runs"]
    assert [tuple(row) for row in table[names].to_numpy()] == list(INPUTS)
    assert table["claimed epsilon"].tolist()[1:] == [8.0, 19.0, 8.0]
    assert math.isnan(table["claimed epsilon"][0])  # the paper's text claims none
    for row, one in zip(table.itertuples(), INPUTS.values(), strict=True):
        audit = canary_epsilon(*one)
        assert (row.low, row.high, row.threshold) == (audit.low, audit.high, audit.threshold)
        chosen = audit.per_threshold.set_index("threshold").loc[audit.threshold]
        assert row.canaries == chosen["canaries"]


def test_an_audit_without_a_guess_has_no_canaries():
    flat = np.full((POINTS, CLASSES), 1 / CLASSES), *given(0)[1:]
    audits = {("x", "ALIBI", "L", "1 x 1000"): canary_epsilon(*flat)}
    table = published.published_table(audits)
    assert table["canaries"].tolist() == [0]
    assert math.isnan(table["threshold"][0])
    assert table["high"][0] == math.inf


def test_stricter_readings(inputs):
    table = published.careful_table(0.9, seed=7)
    assert (table["corrected"] <= table["paper"]).all()
    for number, (key, one) in enumerate(INPUTS.items()):
        row = table.iloc[number]
        delta = 0.0 if key[1] == "ALIBI" else published.DELTA
        options = {"level": 0.95, "delta": delta, "seed": [7, number]}
        assert row["one label"] == one_label_bound(*one, **options)
        if delta:
            assert math.isnan(row["top label"])
        else:
            assert row["top label"] == top_label_bound(*one, level=0.95)
        smallest = min(THRESHOLDS)
        played = single_label_guesses(*one, smallest, seed=[7, number])
        assert row["bayesian"] == played.bayesian_interval(0.9, delta)[0]
    assert table["one label"][0] > 1
    assert table["one label"][3] < 1


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


def test_the_same_canaries_are_paired(inputs, monkeypatch):
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
    same = {key: given(200) for key in INPUTS}
    monkeypatch.setattr(published, "published_inputs", lambda: same)
    assert published.paired_table().iloc[0, -3:].tolist() == [1.0, 1.0, 1.0]
    none = np.full((POINTS, CLASSES), 1 / CLASSES), *given(0)[1:]
    monkeypatch.setattr(published, "published_inputs", lambda: dict.fromkeys(INPUTS, none))
    assert published.paired_table().iloc[0, -3:].tolist() == [1.0, 1.0, 1.0]


def test_models_with_the_same_chance_are_seldom_told_apart(monkeypatch):
    """At most 5% of six pairs' tests together, by independent guesses of equal chance."""
    rng, runs = np.random.default_rng(0), 400

    def guesses(p, *_):
        return SimpleNamespace(correct=rng.random(200) < p)

    levels = [(d, level) for d in ("cifar10", "cifar100") for level in "HML"]
    keys = [(d, name, level, "1 x 1000") for d, level in levels for name in ("ALIBI", "AGIBI")]
    monkeypatch.setattr(published, "published_inputs", lambda: dict.fromkeys(keys, (0.3, 0, 0)))
    monkeypatch.setattr(published, "top_label_guesses", guesses)
    audit = canary_epsilon(*given(0))
    monkeypatch.setattr(published, "canary_epsilon", lambda *_, **__: audit)
    tables = [published.paired_table() for _ in range(runs)]
    found = [table["p"].min() < 0.05 for table in tables]
    assert sum(found) <= stats.binom.isf(1e-4, runs, 0.05)


@pytest.mark.parametrize(("classes", "epsilon"), [(10, 3.0), (100, 1.0)])
def test_normal_tests_of_equal_losses_have_no_level(monkeypatch, classes, epsilon):
    """By the authors' errors far below 5%, or far above; by the sandwich above. Of one pair."""
    rng, runs, ps = np.random.default_rng(1), 200, []
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


def test_sentences():
    rows = pd.DataFrame({"low": [2.41, 1.8], "high": [3.26, math.inf]}, index=["H", "M"])
    assert published.ends_in_words(rows, ["M", "H"]) == "1.8 to inf, 2.4 to 3.3"
    columns = ["data", "level", "ALIBI", "AGIBI", "p"]
    pairs = pd.DataFrame(
        [("cifar100", "H", 30, 4, 2e-5), ("cifar10", "L", 9, 5, 0.06)], columns=columns
    )
    assert published.pairs_in_words(pairs) == (
        "at high accuracy on CIFAR-100 ALIBI's model names 30 canaries and AGIBI's 4 of the same"
        " (p = 2e-05)"
    )
    careful = pd.DataFrame(
        {
            "data": ["cifar10"] * 3,
            "mechanism": ["ALIBI", "AGIBI", "ALIBI"],
            "level": ["H", "H", "H"],
            "runs": ["1 x 1000", "1 x 1000", "10 x 100"],
            "paper": [3.0, 2.0, 1.0],
            "one label": [2.5, 2.0, 1.0],
            "top label": [2.25, math.nan, 1.0],
        }
    )
    assert published.changes_in_words(careful, "ALIBI") == {
        ("cifar10", "H"): "3.00 becomes 2.50 (one label) or 2.25 (top label)"
    }


def test_inputs_are_those_of_every_published_file(monkeypatch):
    labels = np.arange(50_000) % 10
    asked = []

    def confidences(dataset, mechanism, level):
        asked.append((dataset, mechanism, level))
        return np.full((1000, data.CANARY_CLASSES[dataset]), 0.1)

    def runs(dataset, level):
        positions = np.arange(1000)
        return data.CanaryRuns(
            np.full((1000, data.CANARY_CLASSES[dataset]), 0.2), positions, (labels[:1000] + 1) % 10
        )

    monkeypatch.setattr(data, "load_cifar_labels", lambda dataset: labels)
    monkeypatch.setattr(data, "load_canary_confidences", confidences)
    monkeypatch.setattr(data, "load_canary_runs", runs)
    found = published.published_inputs()
    assert len(asked) == len(set(asked)) == 20
    assert [key[3] for key in found].count("10 x 100") == 6
    for (dataset, _, _, which), (p, canary, true) in found.items():
        assert p.shape == (1000, data.CANARY_CLASSES[dataset])
        assert (canary != true).all()
        if which == "10 x 100":
            assert (true == labels[:1000]).all()
        else:
            drawn = insert_canaries(labels, 1000, data.CANARY_CLASSES[dataset], legacy=True)
            assert (canary == drawn.canary_labels).all()
            assert (true == labels[drawn.positions]).all()


GIVEN = profile_parameters(Path(__file__).parents[2] / "params", "quick", "canaries")
GIVEN |= {"alibi_epsilons": [8.0, 1.0], "agibi_epsilons": [8.0], "rr_epsilons": [8.0, 4.0]}


def test_settings_share_a_rate_among_the_levels_or_have_one_each():
    made = settings_of("canaries", GIVEN | {"steps": 50, "canaries": 20}, "digits")
    assert len(made.configs) == 2
    assert made.configs[0] == made.configs[1]
    assert made.configs[0].checkpoint_every == 5
    assert made.data.test == 597
    assert made.fixmatch.weak == "digits"
    own = settings_of(
        "canaries", GIVEN | {"model": "linear", "learning_rates": [0.2, 0.1]}, "digits"
    )
    assert [each.learning_rate for each in own.configs] == [0.2, 0.1]


@pytest.mark.parametrize("name", ["learning_rates", "weight_decays"])
def test_settings_refuse_another_number_of_rates(name):
    message = rf"{name} must be one or 2 numbers, got \[0.1, 0.1, 0.1\]"
    with pytest.raises(ValueError, match=message):
        settings_of("canaries", GIVEN | {name: [0.1] * 3}, "digits")


def test_memorisation_is_shown_only_where_there_are_checkpoints():
    p, canary, true = given(10)

    def result(name, count):
        return mechanisms.MechanismResult(
            name, 0, 1.0, 0.0, np.ones(1), np.stack([p] * count), canary, true, {}
        )

    table = mechanisms.memorisation_table([result("PATE", 1), result("ALIBI", 2)], [5, 10])
    assert table["mechanism"].unique().tolist() == ["ALIBI"]
    assert table["step"].tolist() == [5, 10]
    rows = np.arange(POINTS)
    assert table["canary"][0] == pytest.approx(p[rows, canary].mean())
    total = table["canary"] + table["true"] + (CLASSES - 2) * table["other"]
    np.testing.assert_allclose(total, 1)
