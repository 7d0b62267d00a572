"""Which engine trains what, and why another cannot: a table."""

import math
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from lib import data
from lib.runs.devices import DEVICES
from lib.studies.default_problem import default_problem, on_public_network
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


def headed(objective, model=MLP):
    return config(replace(model, head=objective.model_head), objective)


@pytest.mark.parametrize(
    ("each", "engine", "others"),
    [
        (config(), "kernel", {"taps": None, "batched": None, "single": None}),
        (config(LINEAR), "kernel", {"taps": None, "batched": None}),
        (config(CNN), "taps", {"kernel": "train a 'small_cnn'", "batched": "train a 'small_cnn'"}),
        (
            config(ROBERTA),
            "single",
            dict.fromkeys(("kernel", "taps", "batched"), "train a 'roberta'") | {"single": None},
        ),
        (
            config(replace(MLP, dropout=0.1)),
            "kernel",
            {"taps": None, "batched": "train with dropout"},
        ),
        (
            config(replace(MLP, dropout=0.1), physical_batch=16),
            "taps",
            {"kernel": "train with dropout in physical batches"},
        ),
        (
            headed(SelectiveNet(0.8), replace(MLP, dropout=0.1)),
            "taps",
            {"kernel": "train SelectiveNet with dropout"},
        ),
        (headed(SelfAdaptiveTraining()), "kernel", {"batched": "train with SelfAdaptiveTraining"}),
        (headed(DeepGamblers()), "kernel", {"batched": "train with DeepGamblers"}),
        (
            config(precision="bf16"),
            "taps",
            {"kernel": "use device 'cpu' with precision 'bf16'", "batched": None},
        ),
        (config(noise_source="device"), "taps", {"kernel": "draw noise on the device"}),
        (
            config(device="cuda"),
            "batched",
            {"kernel": "use device 'cuda' with precision 'float32'", "taps": None, "single": None},
        ),
        (config(CNN, device="cuda"), "taps", {"batched": "train a 'small_cnn'", "single": None}),
        (config(RESNET, device="cuda"), "taps", {"batched": "train a 'resnet18'", "single": None}),
        (config(replace(RESNET, dropout=0.1), device="cuda"), "taps", {}),
        (replace(config(RESNET, device="cuda"), epsilon=math.inf), "taps", {"single": None}),
        (config(ROBERTA, device="cuda"), "single", {}),
        (
            config(CNN, augmentation=Augmentation()),
            "taps",
            {"kernel": "augment", "batched": "augment", "taps": None},
        ),
    ],
)
def test_engines(each, engine, others):
    assert engine_for(each) == engine
    assert many._unsuited(each, engine) is None
    assert {name: many._unsuited(each, name) for name in others} == others


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


def test_models_and_data_that_suit_each_other(monkeypatch):
    sizes = {"train": 300, "validation": 50, "test": 100}
    spec, model = default_problem("digits", "small_cnn", **sizes)
    assert (spec.features, spec.public, model.inputs) == ("images", 0, (1, 8, 8))
    # As if larger sets of images were here: made ones of their names.
    shapes = {"cifar10": (30, 32, 32, 3), "fashion-mnist": (30, 28, 28, 1)}

    def made(name, split):
        images = np.zeros(shapes[name], dtype=np.uint8)
        return data.ImageSet(name, images, np.arange(30) % 10, tuple("abcdefghij"))

    monkeypatch.setattr(sys.modules[default_problem.__module__], "load_images", made)
    for dataset, name, features, inputs in (
        ("cifar10", "small_cnn", "images", (3, 32, 32)),
        ("cifar10", "mlp", "patches", (2048,)),
        ("fashion-mnist", "small_cnn", "images", (1, 28, 28)),
        ("fashion-mnist", "mlp", "pixels", (784,)),
    ):
        spec, model = default_problem(dataset, name, **sizes, hidden=16, seed=3)
        assert (spec.name, spec.features, spec.seed) == (dataset, features, 3)
        assert (spec.public > 0) == (features == "patches")
        assert (model.inputs, model.classes) == (inputs, 10)
    assert model.hidden == (16,)
    spec, model = on_public_network(*default_problem("cifar10", "linear", **sizes), 9)
    assert (spec.features, spec.public, model.inputs) == ("network", 9, (32,))
    with pytest.raises(ValueError, match="public must be 0 for 'small_cnn' on 'cifar10', got 9"):
        on_public_network(*default_problem("cifar10", "small_cnn", **sizes), 9)
