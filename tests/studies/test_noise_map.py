"""The map of SCTD against SR: what is trained, what noise means, and how its tables decide."""

import math

import numpy as np
import pandas as pd
import pytest

from lib.studies.beyond import noise_map as studies
from lib.studies.beyond.noise_map import MapSettings, Regime
from lib.training import DataSpec, ModelSpec

REGIMES = (Regime(32, 10.0, 0.0, 2, 2), Regime(64, 0.5, 0.9, 3, 1))
SETTINGS = MapSettings(
    DataSpec(train=200, test=150),
    ModelSpec("mlp", (64,), 10, hidden=(8,)),
    REGIMES,
    moves=(0.01, 0.3),
    epsilons=(8.0, 1.0),
    checkpoints=5,
)


def test_every_model_has_its_own_randomness_and_the_step_that_was_asked_for():
    configs = [c for job in SETTINGS.jobs().values() for c in job.configs]
    assert len({c.seed for c in configs}) == len(configs) == (2 + 1) * 2 * 2
    moves = [c.learning_rate * c.clipping_norm / c.batch_size / (1 - c.momentum) for c in configs]
    assert np.allclose(np.reshape(moves, (-1, 2)), SETTINGS.moves)
    assert {c.steps for c in configs} == {round(2 * 200 / 32), round(3 * 200 / 64)}


def test_noise_is_how_far_noise_alone_moves_the_parameters(tmp_path, monkeypatch):
    """Gradient descent with momentum, fed with nothing but DP-SGD's noise."""
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    monkeypatch.setattr("lib.runs.executors.own_cores", lambda: 1)  # others would import PyTorch
    models = studies.run_map(SETTINGS).models
    rng, d, steps, parameters = np.random.default_rng(0), 500, 2000, 64 * 8 + 8 + 8 * 10 + 10
    for _, row in models.drop_duplicates(studies.SETTING).iterrows():
        # Momentum reaches its full effect after some 10 steps: many steps, then scaled back.
        position, velocity = np.zeros(d), np.zeros(d)
        for _ in range(steps):
            noise = rng.normal(size=d) * row["noise multiplier"] * row["clipping norm"]
            velocity = row["momentum"] * velocity + noise / row["batch"]
            position -= row["rate"] * velocity
        each = np.linalg.norm(position) / math.sqrt(steps * d)
        assert row["noise"] == pytest.approx(each * math.sqrt(parameters), rel=0.15)
        trained = round(row["epochs"] * 200 / row["batch"])
        assert row["all noise"] == pytest.approx(row["noise"] * math.sqrt(trained))


def by_hand(rows) -> pd.DataFrame:
    """Settings from (epsilon, rate, noise, accuracy, SR, difference, half the interval)."""
    table = []
    for epsilon, rate, noise, accuracy, response, difference, half in rows:
        row = dict(zip(studies.SETTING, (128, 10.0, 0.0, 15, epsilon, rate), strict=True))
        row |= {"noise": noise / 9, "all noise": noise, "accuracy": accuracy, "SR": response}
        for method in studies.SHOWN:
            row |= {method: difference, f"{method} low": difference - half}
            row[f"{method} high"] = difference + half
        row |= {"mean probabilities": -0.02, "mean probabilities accuracy": accuracy + 0.01}
        table.append(row | {"mean parameters accuracy": accuracy})
    return pd.DataFrame(table)


TABLE = by_hand(
    [
        (3.0, 0.01, 10, 0.80, 0.03, +0.05, 0.01),
        (3.0, 0.05, 50, 0.83, 0.03, +0.01, 0.02),
        (3.0, 0.20, 200, 0.70, 0.09, -0.04, 0.01),
        (1.0, 0.01, 30, 0.81, 0.04, +0.02, 0.01),
        (1.0, 0.05, 20, 0.78, 0.05, -0.01, 0.005),
    ]
)


def test_who_is_ahead_is_decided_by_the_interval():
    assert studies.ahead(TABLE).tolist() == ["SR", "undecided", "SCTD", "SR", "SCTD"]
    # Of the pairs of (200, 20) with (10, 30) all but (20, 30) are in order.
    assert studies.ordered_pairs(TABLE, "all noise") == (3, 4)
    assert studies.ordered_pairs(TABLE[:2], "all noise") == (0, 0)


def test_best_pairs_by_region():
    pairs = studies.best_pairs(TABLE).set_index(["epsilon", "ahead"])
    row = pairs.loc[3.0, "SCTD"]
    assert (row["highest accuracy"], row["method"]) == (pytest.approx(0.71), "mean probabilities")
    assert row["its score"] == pytest.approx(0.07)
    assert (row["lowest score"], row["accuracy there"]) == (pytest.approx(0.05), 0.70)
    assert row["its method"] == "SCTD"
    row = pairs.loc[1.0, "SR"]
    assert (row["its method"], row["accuracy there"]) == ("mean probabilities", pytest.approx(0.82))
    assert row["lowest score"] == pytest.approx(0.02)
    assert studies.accuracy_lost(TABLE) == pytest.approx(0.13)
    assert studies.accuracy_lost(TABLE[:2]) == 0


def test_printed_rates_have_the_noise_of_the_border():
    rates = studies.printed_rates(SETTINGS, TABLE)
    assert rates["epsilon"].tolist() == [8.0, 1.0]
    steps = round(200 * 200 / 128)
    for row in rates.to_dict("records"):
        scale = row["noise multiplier"] * 10 / 128 * math.sqrt(610 * steps)
        assert row["SR up to rate"] * scale == pytest.approx(20)
        assert row["SCTD from rate"] * scale == pytest.approx(30)
        assert row["noise at rate 0.01"] == pytest.approx(0.01 * scale)
