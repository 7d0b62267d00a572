"""Compiled functions do what their Python source says: numba's machine code against the source.

Coverage cannot see machine code either, so this is also where the lines of these functions count.
"""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lib import selective
from lib.counterfactual import ForestClassifier, ForestRegressor, forest
from lib.selective import curves, influences, uncertainty
from lib.studies.beyond import online
from lib.training import (
    CrossEntropy,
    DeepGamblers,
    ModelSpec,
    PosteriorTargets,
    SelectiveNet,
    SelfAdaptiveTraining,
    TrainingConfig,
    TrainingData,
    kernel_layers,
    kernels,
    stem,
    stem_loops,
    train_many,
)


def compiled_functions(module):
    return {
        name: value
        for name, value in vars(module).items()
        if hasattr(value, "py_func") and value.__module__ == module.__name__
    }


class Records:
    """NumPy, but for arrays of records, whose fields are attributes in compiled code."""

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype=float):
        array = np.empty(shape, dtype)
        return array.view(np.recarray) if array.dtype.names else array


@pytest.fixture
def as_python(monkeypatch):
    """Replaces all compiled functions by their sources, where they are written and imported."""

    def replace_all(*modules):
        for name, function in [item for m in modules for item in compiled_functions(m).items()]:

            @functools.wraps(function.py_func)
            def run(*arguments, source=function.py_func):
                with np.errstate(all="ignore"):  # machine code does not warn either
                    return source(*arguments)

            for module in modules:
                if vars(module).get(name) is function:
                    monkeypatch.setattr(module, name, run)
        for module in modules:
            monkeypatch.setattr(module, "np", Records(), raising=False)

    return replace_all


MLP = ModelSpec("mlp", inputs=(6,), classes=3, hidden=(5,))
DEEP = ModelSpec("mlp", inputs=(6,), classes=3, hidden=(5, 4), activation="relu")
SETTINGS = {
    "dropout": (replace(DEEP, dropout=0.3), CrossEntropy(0.3), {"momentum": 0.5}),
    "posterior": (MLP, PosteriorTargets(), {}),
    "SAT": (MLP, SelfAdaptiveTraining(burn_in_steps=1, momentum=0.6, entropy=0.2), {}),
    "gamblers": (MLP, DeepGamblers(2.0, burn_in_steps=1), {"weight_decay": 0.01}),
    "SelectiveNet": (MLP, SelectiveNet(0.7, statistic_noise=5.0, entropy=0.3), {}),
    "SelectiveNet, soft": (MLP, SelectiveNet(0.4), {"noise_multiplier": None}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_training(name, as_python):
    """Two steps on samples of more than one width of tile; sums of float32 may be reordered."""
    model, objective, options = SETTINGS[name]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(110, 6)).astype(np.float32)
    targets = rng.integers(0, 3, 110)
    if name in {"posterior", "SelectiveNet, soft"}:
        targets = rng.dirichlet(np.ones(3), 110)
        targets[:20] = np.eye(3)[rng.integers(0, 3, 20)]
    data, head = TrainingData(x, targets, 3), replace(model, head=objective.model_head)
    more = {"noise_multiplier": 1.5, "learning_rate": 0.3, "steps": 2} | options
    configs = [
        TrainingConfig(head, objective=objective, batch_size=size, seed=size, **more)
        for size in (10, 42)
    ]
    compiled = train_many(configs, data, x, engine="kernel")
    as_python(kernels, kernel_layers)
    source = train_many(configs, data, x, engine="kernel", threads=1)
    for one, other in zip(compiled, source, strict=True):
        # float32 has 6e-8; a few hundred roundings of numbers around 1.
        np.testing.assert_allclose(other.parameters, one.parameters, rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(other.logits, one.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "private", "moved"), [(1e25, True, 1.0), (3e38, True, 0.0), (1e25, False, math.inf)]
)
def test_an_example_whose_squares_are_infinite_in_float32(size, private, moved, as_python):
    """Clipped in a private step, or left out where the gradient itself is infinite."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 6)).astype(np.float32)
    x[3, 2] = size
    x.flags.writeable = False  # as in training: numba compiles once for both
    labels = rng.integers(0, 3, 20).astype(np.int32)
    start = rng.normal(size=(6 + 1) * 5 + (5 + 1) * 3).astype(np.float32)
    sizes, relu = np.array([6, 5, 3]), kernels.ACTIVATIONS["relu"]
    logits = np.empty((20, 3), np.float32)
    kernels.predict(x, start, sizes, relu, logits)
    labels[3] = logits[3].argmin()  # the model is wrong: there is a gradient

    def step(rows):
        params = start.copy()
        single, none = np.float32, np.zeros((0, 0), np.float32)
        kernels.run_steps(
            *(x, labels, np.zeros((0, 3), single), rows, np.array([0, len(rows)])),
            *(params, np.zeros_like(params), np.zeros((0, len(params)), single), single(0)),
            *(single(1 if private else np.inf), np.ones(1, single), single(1)),
            *(single(0), single(0), single(0), sizes, relu, kernels.OBJECTIVES["CrossEntropy"]),
            *(np.zeros(0, single), np.ones(1, bool), none, np.zeros((0, 2), single), none),
            single(1),
        )
        return params

    everyone, others = np.arange(20), np.delete(np.arange(20), 3)
    compiled = step(everyone)
    difference = np.linalg.norm((compiled - step(others)).astype(float))
    assert difference > 1e20 if math.isinf(moved) else abs(difference - moved) < 1e-5
    as_python(kernels, kernel_layers)
    np.testing.assert_allclose(step(everyone), compiled, rtol=1e-4, atol=1e-5)


def test_detectors_for_streams(as_python):
    windows, rng = (3, 7), np.random.default_rng(2)
    fisher, cramer = online.FisherOnline(50, 40, windows), online.CramerOnline(20, windows)

    def statistics():
        draws = np.random.default_rng(3)
        ranks = cramer.simulate((2, 15), draws)
        return [fisher.statistics(right), cramer.statistics(ranks), ranks]

    right = rng.random((2, 15)) < 0.8
    compiled = statistics()
    as_python(online)
    for one, other in zip(statistics(), compiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("kind", ["distinct", "ties"])
@pytest.mark.parametrize(("classes", "features"), [(False, "all"), (True, 1)])
def test_forests(kind, classes, features, as_python):
    rng = np.random.default_rng(1)
    x, new = rng.normal(size=(40, 3)), rng.normal(size=(300, 3))  # more than one block of points
    if kind == "ties":
        x, new = np.round(x), np.round(new)
        x[:, 2] = 3.0
    y = x[:, 0] + rng.normal(size=40)
    made = ForestClassifier if classes else ForestRegressor
    options = {"n_estimators": 3, "max_features": features}

    def predictions():
        grown = made(**options, random_state=0).fit(x, y > 0 if classes else y)
        return np.r_[grown._mean(new), grown._out_of_bag(), grown._trees[1]]

    compiled = predictions()
    as_python(forest)
    np.testing.assert_allclose(predictions(), compiled, rtol=0, atol=1e-12)


def test_a_threshold_half_way_that_rounds_up_to_the_larger_value(as_python):
    """Half of each of two neighbours may add up to the larger one: the smaller one is taken."""
    low, high = 3 * 5e-324, 4 * 5e-324  # the least that is: half of three rounds to two
    assert low / 2 + high / 2 == high
    x = np.r_[np.full(10, low), np.full(10, high)][:, None]
    y = np.r_[np.zeros(10), np.ones(10)]

    def predictions():
        return ForestRegressor(3, random_state=0).fit(x, y).predict(x)

    np.testing.assert_array_equal(predictions(), y)
    as_python(forest)
    np.testing.assert_array_equal(predictions(), y)


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("metric", sorted(influences.METRICS))
def test_curves_and_their_uncertainty(metric, ties, as_python):
    rng = np.random.default_rng(2)
    score = np.round(rng.normal(size=60), 1) if ties else rng.normal(size=60)
    correct = rng.random(60) < 0.7

    def values():
        estimates = (
            selective.estimate(correct, score, metric),
            selective.bootstrap(correct, score, metric=metric, repetitions=100, seed=3),
        )
        numbers = [(e.value, e.standard_error, e.low, e.high) for e in estimates]
        return np.r_[np.ravel(numbers), selective.accuracy_coverage(correct, score).accuracy]

    compiled = values()
    as_python(uncertainty, influences), as_python(curves)
    np.testing.assert_allclose(values(), compiled, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("size", "stride"), [(2, 1), (3, 2)])
def test_first_layers(size, stride, as_python):
    """Two convolutions, forward and backward, with and without clipping."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(4, 2, 9, 8)
        network = torch.nn.Sequential(
            *(torch.nn.Conv2d(2, 4, 3, 1, 1), torch.nn.Tanh(), torch.nn.MaxPool2d(size, stride)),
            *(torch.nn.Conv2d(4, 4, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(2, 1)),
            torch.nn.Flatten(),
        )
    x[3, 0, 3, 3] = math.nan

    def values():
        first, _ = stem.split(network, x)
        ends, passed = first.outputs(x)
        slopes = ends.nan_to_num() + 1
        clipped = first.clipped(passed, slopes, torch.zeros(2), 0.1, copies=2)
        return [a.numpy() for a in (ends, first.summed(passed, slopes), *clipped)]

    compiled = values()
    as_python(stem_loops, kernel_layers, stem)
    for one, other in zip(compiled, values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
