"""One rule for what an example adds to a step, of whatever size it is: all engines against it."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lib.training import (
    CrossEntropy,
    DeepGamblers,
    ModelSpec,
    SelfAdaptiveTraining,
    TrainingConfig,
    TrainingData,
    clipping,
    initial_parameters,
    kernels,
    module_of,
    taps,
    train_many,
)

# What float32 holds, from its smallest numbers to NetCDF's fill value and its largest ones.
MAGNITUDES = [
    *(1e-42, 1e-40, 1e-38, 1e-34, 1e-30, 1e-25, 1e-22, 1e-20, 1e-18, 1e-12, 1e-6, 1e-2, 1.0),
    *(1e2, 1e6, 1e10, 1e14, 1e18, 1.8e19, 1.9e19, 1e22, 1e26, 1e30, 1e34, 9.97e36, 3e38),
]
NORMS = [1e-6, 1e3]  # other objectives have 1
LINEAR = ModelSpec("linear", (16,), 3)
MLP = ModelSpec("mlp", (16,), 3, hidden=(6,))
CNN = ModelSpec("small_cnn", (1, 8, 8), 3)
NETWORKS = {
    "linear": LINEAR,
    "tanh": MLP,
    "relu": replace(MLP, activation="relu"),
    "cnn": replace(CNN, activation="relu"),
}
CASES = [
    *(("kernel", name) for name in ("linear", "tanh", "relu")),
    *(("batched", name) for name in ("linear", "tanh", "relu")),
    *(("taps", name) for name in ("linear", "relu", "cnn")),
]


def by_definition(gradient, norm):
    """Nothing where float32 does not hold the gradient; else a multiple of at most the norm."""
    wide = gradient.astype(float)
    if not np.isfinite(wide).all():
        return np.zeros(len(wide))
    return wide * min(1.0, norm / (np.linalg.norm(wide) + 1e-6))


def gradient_of(network, objective, x, y):
    outputs = network(torch.from_numpy(x[None]))
    state = objective.state(0) if isinstance(objective, DeepGamblers) else None
    loss = objective.per_example(outputs, torch.tensor([y]), state).sum()
    parts = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([part.reshape(-1) for part in parts]).numpy()


def examples(shape):
    """Eight usual ones, and one of each magnitude, which it has in a few numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8 + len(MAGNITUDES), *shape)).astype(np.float32)
    flat = x.reshape(len(x), -1)
    flat[8:] = 0
    some = [2, 7, 11] if len(shape) == 1 else [20, 35, 53]
    for row, magnitude in zip(flat[8:], MAGNITUDES, strict=True):
        row[some] = magnitude * np.array([1, -0.5, 0.25])
    return x


def check(engine, spec, norm, objective=None):
    """Each magnitude's example is what tells a training from one without it."""
    objective = CrossEntropy() if objective is None else objective
    x, y = examples(spec.inputs), np.arange(8 + len(MAGNITUDES)) % 3
    configs = [
        TrainingConfig(
            spec,
            objective=objective,
            noise_multiplier=1e-30,
            delta=1e-5,
            clipping_norm=norm,
            sample_rate=1.0,
            batch_size=1,
            steps=1,
            learning_rate=1 / norm,
            seed=seed,
        )
        for seed in range(len(MAGNITUDES))
    ]
    begin = [initial_parameters(each) for each in configs]
    usual = TrainingData(x, y, 3, np.arange(8))
    without = train_many(configs, usual, x[:1], engine=engine)
    networks = [
        module_of(replace(result, parameters=first))
        for result, first in zip(without, begin, strict=True)
    ]
    for i, network in enumerate(networks, 8):  # the model is wrong: there is a gradient
        y[i] = int(objective.logits(network(torch.from_numpy(x[i : i + 1]))).argmin())
    data = TrainingData(x, y, 3)
    sets = [data.subset([*range(8), 8 + i]) for i in range(len(configs))]
    joined = train_many(configs, sets, x[:1], engine=engine)
    for i, (network, one, other) in enumerate(zip(networks, without, joined, strict=True)):
        moved = one.parameters.astype(float) - other.parameters  # in units of the norm
        wanted = by_definition(gradient_of(network, objective, x[8 + i], y[8 + i]), norm) / norm
        what = f"{engine} {MAGNITUDES[i]:g}"
        # Parameters round at 1e-7 of their own size, which the first eight may have moved.
        rounding = 2e-6 + 2e-7 * np.linalg.norm(one.parameters)
        assert np.linalg.norm(moved) <= 1 + rounding, what
        assert np.linalg.norm(moved - wanted) <= 1e-4 * np.linalg.norm(wanted) + rounding, what


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "name", "norm"),
    [
        *((*case, NORMS[i % 2]) for i, case in enumerate(CASES)),  # each engine has both
        *(("single", "linear", 1e-6), ("single", "relu", 1e3), ("single", "cnn", 1e-6)),
    ],
)
def test_neighbours_differ_by_the_clipped_gradient_whatever_its_size(engine, name, norm):
    """A pair of neighbours a magnitude, each against a gradient that was clipped in float64."""
    check(engine, NETWORKS[name], norm)


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective",
    [SelfAdaptiveTraining(burn_in_steps=1), DeepGamblers(2.0), CrossEntropy(0.01)],
    ids=lambda objective: type(objective).__name__,
)
@pytest.mark.parametrize(
    ("engine", "name"),
    [*(("kernel", name) for name in ("linear", "tanh", "relu")), ("taps", "relu")],
)
def test_other_objectives(engine, name, objective):
    check(engine, replace(NETWORKS[name], head=objective.model_head), 1.0, objective)


def kernel_sum(weights, x, y, norm):
    """Clipped sum of a linear model, whose parameters one step changes by it."""
    n, features = x.shape
    classes = len(weights) // (features + 1)
    velocity, logits = np.zeros_like(weights), np.zeros((0, classes), np.float32)
    x = x.view()
    x.flags.writeable = False
    kernels.run_steps(
        *(x, y.astype(np.int32), logits, np.arange(n), np.array([0, n]), weights.copy(), velocity),
        *(np.zeros((0, len(weights)), np.float32), np.float32(0), np.float32(norm)),
        *(np.ones(1, np.float32), np.float32(1), np.float32(0), np.float32(0), np.float32(0)),
        *(np.array([features, classes]), 0, 0, np.zeros(0, np.float32), np.ones(1, bool)),
        *(np.zeros((0, 0), np.float32), np.zeros((0, 2), np.float32)),
        *(np.zeros((0, 0), np.float32), np.float32(1)),
    )
    return velocity


def taps_sum(network, x, y, norm, copies=1):
    loss, labels = nn.CrossEntropyLoss(reduction="none"), torch.tensor(y)
    found, _ = taps.clipped_sum(
        network, torch.from_numpy(x), lambda outputs: loss(outputs, labels), norm, copies
    )
    return found.numpy()


@pytest.mark.parametrize("norm", [1e-6, 1.0])
@pytest.mark.parametrize("gap", [10, 40, 52, 53, 60, 80, 86, 90, 100, 200])
def test_a_slope_whose_square_is_lost_does_not_escape(gap, norm):
    """The model is all but sure, so the slope is tiny; the features make up for it."""
    for magnitude in (1e3, 1e7, 1e12, 8e18, 1e25, 3e38):
        x = magnitude * np.resize(np.array([1, -0.5, 0.25, 0.1]), (1, 16)).astype(np.float32)
        y, bias = np.array([0]), np.array([gap, 0, -3], np.float32)
        network = nn.Linear(16, 3)
        with torch.no_grad():
            network.weight.zero_()
            network.bias.copy_(torch.from_numpy(bias))
        gradient = gradient_of(network, CrossEntropy(), x[0], 0)
        wanted = by_definition(gradient, norm)
        flat = np.concatenate([np.zeros(48, np.float32), bias])
        by_kernel = kernel_sum(flat, x, y, norm)
        by_taps = taps_sum(network, x, [0], norm)
        for name, found in (("kernel", by_kernel), ("taps", by_taps)):
            what = f"{name} {magnitude:g}"
            assert np.linalg.norm(found.astype(float)) <= norm * (1 + 1e-6), what
            # Where the label's probability is not 1, what is subtracted from it rounds.
            error = 2e-7 * np.linalg.norm(x.astype(float)) if gap < 20 else 1e-6 * norm
            assert np.linalg.norm(found - wanted) <= 1e-3 * np.linalg.norm(wanted) + error, what


def test_places_that_cancel_leave_no_rounding_above_the_norm():
    """A convolution whose gradient is a difference of large numbers, of few places."""
    torch.manual_seed(0)
    layer = nn.Conv2d(8, 32, 1, bias=False)
    network = nn.Sequential(layer, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 4))
    assert taps._by_ghost(layer, torch.zeros(1, 32, 2, 2))
    for size, norm, _ in itertools.product((1e3, 1e5, 1e8), (1e-3, 1.0), range(4)):
        x = torch.randn(1, 8, 2, 2)
        x = size * (x - x.mean(dim=(2, 3), keepdim=True))
        found = taps_sum(network, x.numpy(), [0], norm)
        assert np.linalg.norm(found.astype(float)) <= norm * (1 + 1e-5)


def test_gradients_of_copies_are_averaged_before_they_are_clipped():
    """Also of a network that begins with compiled layers, for examples of all sizes at once."""
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2, 2)),
        *(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3)),
    )
    x = torch.rand(20, 1, 10, 10)
    x[::2] *= torch.logspace(-30, 37, 10)[:, None, None, None]  # one of two copies
    with torch.no_grad():
        labels = network(x).argmin(dim=1)[::2].repeat_interleave(2).tolist()
    found, wanted = taps_sum(network, x.numpy(), labels, 0.1, 2), 0.0
    each = [
        gradient_of(network, CrossEntropy(), *one) for one in zip(x.numpy(), labels, strict=True)
    ]
    for both in zip(each[::2], each[1::2], strict=True):
        wanted = wanted + by_definition(np.mean(both, axis=0, dtype=np.float32), 0.1)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_the_rule_itself():
    rows = torch.tensor([[3e38, 3e38], [1e-42, 0.0], [3.0, 4.0], [math.inf, 0.0], [math.nan, 1.0]])
    found = [clipping.by_definition(row[None], 1.0).tolist() for row in rows]
    half = 0.5**0.5
    wanted = [[half, half], rows[1].tolist(), [0.6, 0.8], [0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_an_example_that_no_training_has_changes_none():
    """Trainings that run together fill up their samples; what they do it with adds nothing."""
    x, y = examples(MLP.inputs)[:9], np.arange(9) % 3
    usual = np.where(np.arange(9)[:, None] == 0, np.float32(0), x)
    for privacy in ({"noise_multiplier": 1.0, "delta": 1e-5}, {}):
        configs = [
            TrainingConfig(
                LINEAR, **privacy, sample_rate=0.5, batch_size=4, steps=5, learning_rate=0.1, seed=s
            )
            for s in range(3)
        ]
        # float32 does not hold an output of the first model.
        x[0] = 3e38 * np.sign(initial_parameters(configs[0])[:16])
        found = [
            train_many(configs, TrainingData(each, y, 3, np.arange(1, 9)), x[1:2], engine="batched")
            for each in (x, usual)
        ]
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one.parameters, other.parameters)
