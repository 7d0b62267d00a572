"""Which engine trains what, and why another cannot: a table."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from lib.runs.devices import DEVICES
from lib.training import (
    DeepGamblers,
    ModelSpec,
    SelectiveNet,
    SelfAdaptiveTraining,
    TrainingConfig,
    TrainingData,
    engine_for,
    many,
    taps,
)
from lib.training.config import Augmentation

MLP = ModelSpec("mlp", inputs=(64,), classes=10, hidden=(8,))
LINEAR = ModelSpec("linear", inputs=(64,), classes=10)
CNN = ModelSpec("small_cnn", inputs=(1, 8, 8), classes=10)
RESNET = ModelSpec("resnet18", inputs=(3, 32, 32), classes=10)
ROBERTA = ModelSpec("roberta", inputs=(16,), classes=2)


def config(model=MLP, objective=None, **changes):
    given = {} if objective is None else {"objective": objective}
    return TrainingConfig(model, epsilon=3.0, **given, **changes)


OTHER = DeepGamblers(), SelfAdaptiveTraining(), SelectiveNet(0.8)
HEADED = [(objective, replace(MLP, head=objective.model_head)) for objective in OTHER]
AMONG = ("kernel", "taps", "batched", "single")


@pytest.mark.parametrize(
    ("each", "engine", "refused"),
    [
        (config(), "kernel", ""),
        (config(LINEAR), "kernel", ""),
        (config(CNN), "taps", "kernel batched"),
        (config(ROBERTA), "single", "kernel taps batched"),
        (config(replace(MLP, dropout=0.1)), "kernel", "batched"),
        (config(replace(MLP, dropout=0.1), physical_batch=16), "taps", "kernel batched"),
        *((config(model, objective), "kernel", "batched") for objective, model in HEADED),
        (config(replace(HEADED[2][1], dropout=0.1), OTHER[2]), "taps", "kernel batched"),
        (config(precision="bf16"), "taps", "kernel"),
        (config(noise_source="device"), "taps", "kernel"),
        (config(device="cuda"), "batched", "kernel"),
        (config(CNN, device="cuda"), "taps", "kernel batched"),
        (config(replace(RESNET, dropout=0.1), device="cuda"), "taps", "kernel batched"),
        (replace(config(RESNET, device="cuda"), epsilon=math.inf), "taps", "kernel batched"),
        (config(ROBERTA, device="cuda"), "single", "kernel taps batched"),
        (config(CNN, augmentation=Augmentation()), "taps", "kernel batched"),
    ],
)
def test_engines(each, engine, refused):
    assert engine_for(each) == engine
    points = np.zeros((2, *each.model.inputs), np.float32)
    data = TrainingData(points, np.arange(2), each.model.classes)
    for name in refused.split():
        with pytest.raises(ValueError, match=name):
            many.train_many([each], data, points, engine=name)
    assert [name for name in AMONG if many._unsuited(each, name)] == [
        name for name in AMONG if name in refused.split()
    ]


def test_an_accelerator_trains_convolutions_in_the_thread_that_has_claimed_it(monkeypatch):
    """Others would take the first device; on a CPU each model has a thread of its own."""
    found = {}

    class Watched(many.Trainer):
        def run(self, checkpoint):
            found.setdefault(self.config.device, set()).add(threading.current_thread())
            super().run(checkpoint)

    monkeypatch.setattr(many, "Trainer", Watched)
    monkeypatch.setenv("COMPANION_REHEARSAL", "1")  # the CPU stands in
    monkeypatch.setenv(DEVICES, "0")
    rng = np.random.default_rng(0)
    own = TrainingData(rng.random((40, 1, 8, 8), dtype=np.float32), rng.integers(0, 10, 40), 10)
    for device in ("cuda", "cpu"):
        configs = [config(CNN, device=device, steps=1, batch_size=8, seed=i) for i in range(2)]
        many.train_many(configs, own, own.inputs[:4], threads=2)
    assert found["cuda"] == {threading.current_thread()}
    assert threading.current_thread() not in found["cpu"]


def frozen():
    layer = nn.Linear(4, 3)
    layer.bias.requires_grad_(False)
    return layer


@pytest.mark.parametrize(
    ("network", "known"),
    [
        (nn.Sequential(nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten()), True),
        (nn.Linear(4, 3), True),
        (nn.Conv2d(4, 4, 3, groups=2), False),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), False),
        (nn.Conv2d(4, 4, 3, padding="same"), False),
        (nn.Sequential(nn.Linear(4, 3), nn.PReLU()), False),
        (frozen(), False),
    ],
)
def test_layers_whose_gradients_per_example_are_known(network, known):
    assert taps.supports(network) is known
