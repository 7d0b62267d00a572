"""The panel: seeds and budgets of what is trained, rates that are chosen, scores by hand."""

import math

import numpy as np
import pytest
from scipy import special

from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.studies.interplay import tables as studies
from lib.studies.interplay.experiments import FAMILIES, ExperimentSettings, decide, scaled
from lib.training import DataSpec, ModelSpec, TrainingConfig, plan

SETTINGS = ExperimentSettings(
    DataSpec(train=300, validation=100, test=200),
    TrainingConfig(
        ModelSpec("mlp", (64,), 10, hidden=(8,)), steps=40, batch_size=64, checkpoint_every=8
    ),
    epsilons=(math.inf, 3.0, 1.0),
    n_seeds=2,
    rates=(0.01, 1.0),
    dropout_passes=3,
    members=3,
    coverages=(0.5, 1.0),
    families=tuple(FAMILIES),
)


def test_no_two_models_share_their_randomness():
    seeds = []
    for family in FAMILIES:
        for epsilon in SETTINGS.epsilons:
            seeds += [c.seed for c in SETTINGS.configs(family, epsilon, 1.0)]
            for repetition in (0, 1, 49):
                tuning = SETTINGS.tuning(family, epsilon, repetition=repetition)
                seeds += [c.seed for c in tuning]
                if family == "SN":
                    smallest = SETTINGS.tuning("SN", epsilon, None, repetition, smallest=True)
                    seeds += [c.seed for c in smallest]
    for rare in SETTINGS.with_rare_class((0.5,), 2, dict.fromkeys(SETTINGS.epsilons, 1.0)).values():
        seeds += [c.seed for c in rare.configs]
    assert len(seeds) == len(set(seeds))


@pytest.mark.parametrize(("family", "models"), [("plain", 1), ("DE", 3), ("SN", 2)])
@pytest.mark.parametrize("epsilon", [3.0, 1.0])
def test_models_of_one_method_keep_the_budget_together(family, models, epsilon):
    n, steps = SETTINGS.data.train, SETTINGS.training.steps
    configs = SETTINGS.configs(family, epsilon, 1.0)
    assert len(configs) == models * SETTINGS.n_seeds
    found = [plan(config, n) for config in configs[:models]]
    noise = [each.effective_noise_multiplier for each in found]
    ledger = PrivacyLedger(tuple(SampledGaussian(64 / n, sigma, steps) for sigma in noise))
    assert 0.98 * epsilon < ledger.epsilon(1 / n) <= epsilon
    alone = find_noise_multiplier(epsilon, 1 / n, 64 / n, steps)
    assert min(noise) >= alone * (1 - 1e-9)


def sure(logits, labels):
    return special.softmax(scaled(logits, labels), axis=1).max(1)


def test_temperature_scaling_finds_the_scale_and_never_the_own_labels():
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(20_000, 4)) * 2
    p = special.softmax(logits, axis=1)
    labels = (rng.random((20_000, 1)) > p.cumsum(1)).sum(1).clip(max=3)
    # A standard error of log T, 0.0136 by the information of 10,000 points, moves a score by at
    # most 0.0056: four of them.
    for factor in (0.2, 1.0, 7.0):
        assert sure(factor * logits, labels) == pytest.approx(p.max(1), abs=0.0225)
    other = labels.copy()
    other[::2] = rng.integers(4, size=10_000)
    before, after = sure(logits, labels), sure(logits, other)
    assert np.array_equal(before[::2], after[::2])
    assert not np.allclose(before[1::2], after[1::2], atol=0.01)


def test_decisions_between_rates_err_as_often_as_they_should():
    rng, n = np.random.default_rng(11), 8000
    gap, sd = 0.004, 0.004
    for trainings in (1, 3):
        draws = rng.normal(0, sd, (n, 2, trainings)) + np.array([[0.0], [gap]])
        wrong = np.mean(
            [decide(dict(zip((1.0, 2.0), d.tolist(), strict=True))) == 1.0 for d in draws]
        )
        error = special.ndtr(-gap / (sd * math.sqrt(2 / trainings)))
        assert wrong == pytest.approx(error, abs=4 * math.sqrt(error * (1 - error) / n))


def test_right_first_is_the_share_of_ordered_pairs():
    rng = np.random.default_rng(0)
    correct, score = rng.random(30) < 0.5, np.round(rng.random(30), 1)
    pairs = [(a > b) + 0.5 * (a == b) for a in score[correct] for b in score[~correct]]
    assert studies.right_first(correct, score) == pytest.approx(np.mean(pairs))
    assert math.isnan(studies.right_first(np.ones(3, bool), np.ones(3)))


def test_closed_forms_and_bound():
    table = studies.closed_forms(480, 597).set_index("order")
    assert table.loc["perfect", "n = 597"] == 0.0
    limit = table["n to infinity"]
    assert table["n = 597"].to_numpy() == pytest.approx(limit.to_numpy(), abs=0.01)
    curves, largest = studies.bound_reached((0.3, 0.9), 500, 0)
    assert largest < 1e-12
    assert curves[0.3][-1] == pytest.approx(0.3)


def test_selective_net_score_by_hand():
    correct = np.array([[1, 1, 0, 0], [1, 0, 1, 0]], bool)
    score = np.array([[4, 3, 2, 1], [4, 3, 2, 1]], float)
    assert studies.selective_net_curve(correct, score, (0.5, 1.0)).tolist() == [1.0, 0.5]
    # bound of a = 1/2, which both have, at 1/4 .. 1: 1, 1, 2/3, 1/2; curve: 1, 1, 3/4, 1/2
    assert studies.selective_net_score(correct, score, (0.5, 1.0)) == pytest.approx(
        (2 / 3 - 3 / 4) / 4
    )
    collapsed = np.array([[1, 1, 1, 0], [0, 0, 0, 1]], bool)  # the bound is that of the first
    assert studies.selective_net_score(collapsed, score, (0.5, 1.0)) == pytest.approx(
        (0 + 0 + 1 - (1 + 0.25) / 2 + 3 / 4 - 0.25) / 4
    )
