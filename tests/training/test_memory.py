"""Batches come in pieces that fit the memory, and what does not fit is said before any work."""

import ctypes
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.runs.devices import DEVICES
from lib.training import (
    Augmentation,
    DataSpec,
    ModelSpec,
    TrainingConfig,
    TrainingData,
    batched,
    memory,
    train,
    train_many,
)
from lib.training.memory import MEMORY, bytes_per_example, memory_of, models_at_once

MLP = ModelSpec("mlp", (64,), 10, hidden=(8,))
CONFIG = TrainingConfig(MLP, noise_multiplier=1.0, steps=5, batch_size=50)
DATA = DataSpec(train=150, test=60)


def test_what_examples_and_models_take(monkeypatch):
    """A gigabyte of parameters: a ResNet-18 with 21 others; what is larger is alone."""
    parameters = 64 * 8 + 8 + 8 * 10 + 10
    outputs = 64 + 8 + 8 + 10  # flat, hidden, activated, logits
    assert bytes_per_example(CONFIG) == 4 * (2 * parameters + 3 * outputs)
    assert bytes_per_example(replace(CONFIG, noise_multiplier=None)) == 4 * 3 * outputs
    one = replace(CONFIG, model=ModelSpec("small_cnn", (1, 28, 28), 10))
    copies = replace(one, augmentation=Augmentation(multiplicity=4))
    assert bytes_per_example(copies) == 4 * bytes_per_example(one)
    assert models_at_once(MLP, 128) == 128
    assert models_at_once(ModelSpec("resnet18", (3, 32, 32), 10), 128) == 22
    assert models_at_once(MLP, 1) == 1
    monkeypatch.setattr(memory, "_PARAMETERS", 4 * parameters - 1)
    assert models_at_once(MLP, 128) == 1


@pytest.mark.parametrize("engine", ["single", "batched"])
def test_pieces_make_no_difference_but_by_rounding(monkeypatch, engine):
    data = DATA.load()
    task = [CONFIG, replace(CONFIG, seed=1)], data.training, data.evaluation
    whole = train_many(*task, engine=engine)
    sizes, call = [], batched.clipped_sums

    def sums(entered, slopes, used, *others):
        sizes.append(used.numel())
        return call(entered, slopes, used, *others)

    # Gradients are never written out by the one, and are by the other.
    stored = replace(CONFIG, noise_multiplier=None) if engine == "batched" else CONFIG
    monkeypatch.setenv(MEMORY, str(7.5 * bytes_per_example(stored) / 0.5))
    monkeypatch.setattr(batched, "clipped_sums", sums)
    pieces = train_many(*task, engine=engine)
    for one, other in zip(pieces, whole, strict=True):
        np.testing.assert_allclose(one.parameters, other.parameters, atol=1e-6)
    if engine == "batched":  # models times examples
        assert 6 <= max(sizes) <= 7


def test_too_little_memory_is_said_before_any_work(monkeypatch):
    monkeypatch.setenv(MEMORY, str(bytes_per_example(CONFIG)))
    data = DATA.load()
    monkeypatch.setattr("lib.training.single.Trainer.advance", lambda self: pytest.fail("began"))
    with pytest.raises(ValueError, match="device"):
        train(CONFIG, data.training, data.evaluation)
    monkeypatch.setenv(MEMORY, "100")
    with pytest.raises(ValueError, match="memory"):
        train_many([CONFIG], data.training, data.evaluation, engine="batched")


def test_jobs_that_share_an_accelerator_have_a_part_of_its_memory_each(monkeypatch):
    properties = SimpleNamespace(total_memory=12e9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setenv(DEVICES, "0,0,0,1")
    assert memory_of(torch.device("cuda", 0)) == 4e9
    assert memory_of(torch.device("cuda", 1)) == 12e9


def status(name):
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name + ":"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which Linux alone has")
def test_memory_does_not_grow_with_the_number_of_models():
    rng = np.random.default_rng(0)
    x = rng.random((1200, 64), dtype=np.float32)
    data = TrainingData(x, rng.integers(0, 10, 1200), 10)
    model = replace(MLP, hidden=(32,))
    configs = [TrainingConfig(model, noise_multiplier=1.0, steps=5, seed=s) for s in range(256)]
    train_many(configs[:2], data, x[:1])  # compiles, loads libraries
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)  # what was freed before and is held would hide what is taken now
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far becomes what is in use now
    before = status("VmRSS")
    assert len(train_many(configs, data, x[:1])) == 256
    peak = status("VmHWM") - before
    results = 256 * (2410 + 64) * 4 / 2**20  # MiB: parameters of all models are part of the result
    assert peak < 4 * results + 20
