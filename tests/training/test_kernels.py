"""The compiled kernel against per-example gradients by autograd, in double precision."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from lib.training import kernels
from lib.training.randomness import PoissonSampler, Streams

F32 = np.float32


def make(sizes, n=90, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, sizes[0])).astype(F32)
    labels = rng.integers(0, sizes[-1], n).astype(np.int32)
    size = sum((a + 1) * b for a, b in itertools.pairwise(sizes))
    params = rng.normal(0, 0.4, size).astype(F32)
    x.flags.writeable = False  # as in training: numba compiles once for both
    return rng, x, labels, params


def network(sizes, params, activation):
    layers, start = [], 0
    for a, b in itertools.pairwise(sizes):
        layer = torch.nn.Linear(a, b, dtype=torch.float64)
        with torch.no_grad():
            for p in (layer.weight, layer.bias):
                p.copy_(torch.from_numpy(params[start : start + p.numel()].copy()).view_as(p))
                start += p.numel()
        layers += [layer, torch.nn.Tanh() if activation == "tanh" else torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def reference(sizes, x, targets, rows, params, noise, options):
    """One model's steps, example by example, by autograd."""
    params = params.astype(float)
    velocity = np.zeros_like(params)
    for step, sample in enumerate(rows):
        total = np.zeros_like(params)
        net = network(sizes, params, options["activation"])
        for row in sample:
            log_p = torch.log_softmax(net(torch.from_numpy(x[row].astype(float))), 0)
            entropy = -(log_p.exp() * log_p).sum()
            loss = -(torch.from_numpy(targets[row]) * log_p).sum() + options["entropy"] * entropy
            g = torch.cat([v.reshape(-1) for v in torch.autograd.grad(loss, net.parameters())])
            norm = float(g.norm())
            total += g.numpy() * min(1.0, options["clip"] / (norm + 1e-6))
        g = (total + options["scale"] * noise[step]) / options["batch"] + options["decay"] * params
        velocity = options["momentum"] * velocity + g
        params = params - options["rate"] * velocity
    return params


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(64, 10), (7, 6, 4), (9, 33, 2), (6, 5, 7, 3), (1, 2)])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("soft", [False, True])
def test_steps_equal_autograd(sizes, activation, soft):
    rng, x, labels, params = make(sizes)
    targets = np.eye(sizes[-1])[labels]
    if soft:
        targets = rng.dirichlet(np.ones(sizes[-1]), len(x))
    # A long, a short, an empty and a middling sample: several tiles and every tile width.
    rows = [np.sort(rng.choice(len(x), k, replace=False)) for k in (83, 5, 0, 40, 20)]
    noise = rng.normal(size=(len(rows), len(params))).astype(F32)
    options = {
        "activation": activation,
        "entropy": 0.3,
        "clip": 0.7,
        "scale": 0.9,
        "batch": 30.0,
        "rate": 0.5,
        "momentum": 0.8,
        "decay": 0.01,
    }
    expected = reference(sizes, x, targets, rows, params, noise, options)
    kernels.run_steps(
        x,
        labels,
        targets.astype(F32) if soft else np.zeros((0, sizes[-1]), F32),
        np.concatenate(rows),
        np.cumsum([0, *map(len, rows)]),
        params,
        np.zeros_like(params),
        noise,
        F32(options["scale"]),
        F32(options["clip"]),
        np.full(len(rows), options["rate"], F32),
        F32(options["batch"]),
        F32(options["momentum"]),
        F32(options["decay"]),
        F32(options["entropy"]),
        np.array(sizes),
        kernels.ACTIVATIONS[activation],
        *cross_entropy(len(rows)),
    )
    np.testing.assert_allclose(params, expected, atol=1e-5)

    logits = np.empty((len(x), sizes[-1]), F32)
    kernels.predict(x, params, np.array(sizes), kernels.ACTIVATIONS[activation], logits)
    net = network(sizes, params, activation)
    with torch.no_grad():
        np.testing.assert_allclose(logits, net(torch.from_numpy(x.astype(float))), atol=2e-5)


def cross_entropy(steps):
    """The last arguments of `run_steps`: the objective, and nothing that others need."""
    none = np.zeros((0, 0), F32)
    settled = np.ones(steps, bool)
    normals = np.zeros((0, 2), F32)
    objective = kernels.OBJECTIVES["CrossEntropy"]
    return objective, np.zeros(0, F32), settled, none, normals, none, F32(1)


def samples(n, rate, steps, seed=0):
    positions, starts = PoissonSampler(Streams(seed), n, rate).draw(steps)
    return [positions[a:b] for a, b in itertools.pairwise(starts)]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate"), [(50, 0.1), (7, 0.5), (1, 0.3), (400, 0.003), (30, 0.97)])
def test_every_example_is_drawn_independently_with_the_same_probability(n, rate):
    steps = 8000
    drawn = np.zeros((steps, n))
    for row, sample in zip(drawn, samples(n, rate, steps), strict=True):
        assert np.all(np.diff(sample) > 0)
        row[sample] = 1
    counts = drawn.sum(0)
    # inclusion: all n counts are binomial; a bound that holds for all of them with 1 - 1e-6
    tail = 1e-6 / n
    assert counts.min() >= stats.binom.ppf(tail / 2, steps, rate)
    assert counts.max() <= stats.binom.isf(tail / 2, steps, rate)
    # size: binomial distribution by a chi-square test
    sizes = drawn.sum(1)
    expected = steps * stats.binom.pmf(np.arange(n + 1), n, rate)
    observed = np.bincount(sizes.astype(int), minlength=n + 1)
    common = expected >= 5
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    keep = expected > 1e-9
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-6
    # neighbours in the data and in time are uncorrelated
    if n > 1:
        z = (drawn - rate) / math.sqrt(rate * (1 - rate))
        for products in (z[:, 1:] * z[:, :-1], z[1:] * z[:-1]):
            assert abs(products.mean()) < 6 / math.sqrt(products.size)


def test_full_batches_and_block_sizes():
    assert all(np.array_equal(sample, np.arange(9)) for sample in samples(9, 1.0, 3))
    one_by_one = PoissonSampler(Streams(5), 60, 0.2)
    singly = [one_by_one.draw(1)[0] for _ in range(200)]
    for a, b in zip(singly, samples(60, 0.2, 200, seed=5), strict=True):
        assert np.array_equal(a, b)


def test_long_samples_are_completed():
    """With hardly any numbers per step, samples still have the right size."""
    sampler = PoissonSampler(Streams(1), 100, 0.5)
    sampler._count = 10  # the overflow stream must supply the other forty or so
    positions, starts = sampler.draw(2000)
    sizes = np.diff(starts)
    assert np.abs(np.bincount(positions, minlength=100) - 1000).max() < 6 * math.sqrt(500)
    assert abs(sizes.mean() - 50) < 6 * 5 / math.sqrt(2000)
    assert abs(sizes.var() - 25) < 6 * 25 * math.sqrt(2 / 2000)


def test_streams_are_independent_of_each_other_and_of_the_seed():
    first = [
        getattr(Streams(seed), name).standard_normal(2000)
        for seed in (0, 1)
        for name in Streams.names
    ]
    correlations = np.corrcoef(first)[np.triu_indices(len(first), 1)]
    assert np.abs(correlations).max() < 6 / math.sqrt(2000)
    steps = {Streams(s).step(t) for s in range(20) for t in range(20)}
    assert len(steps) == 400
