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
    rng, d, steps, parameters = np.random.default_rng(0), 300, 1000, 64 * 8 + 8 + 8 * 10 + 10
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


def test_the_printed_settings_scale_with_the_root_of_the_parameters():
    """Eq. 13: P1's network has the border's noise at rates that are lower by that root."""
    table = pd.DataFrame(
        {"all noise": [1.0, 4.0], "SCTD low": [0.1, -0.3], "SCTD high": [0.2, -0.1]}
    )
    printed = studies.printed_rates(SETTINGS, table).set_index(["network", "epsilon"])
    assert set(printed.loc["resnet18", "parameters"]) == {11_172_810}  # as book/settings.yml has it
    small = printed.loc["mlp"]
    assert set(small["parameters"]) == {64 * 8 + 8 + 8 * 10 + 10}
    root = math.sqrt(11_172_810 / small["parameters"].iloc[0])
    for name in ("SR up to rate", "SCTD from rate"):
        assert (small[name] / printed.loc["resnet18", name]).tolist() == pytest.approx([root] * 2)
    row = small.loc[1.0]
    noise = 10 / 128 * row["noise multiplier"] * math.sqrt(row["parameters"] * row["steps"])
    assert row["SCTD from rate"] * noise == pytest.approx(4.0)
    assert row["SR up to rate"] * noise == pytest.approx(1.0)
