"""Compiled first layers of a network: PyTorch's values, gradients and clipped sums."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from lib.training import CrossEntropy, ModelSpec, SelectiveNet, TrainingConfig, stem, taps, train
from lib.training.models import build_model
from lib.training.predict import dropout_probabilities
from lib.training.single import module_of

GREY = ModelSpec("small_cnn", (1, 28, 28), 4)
SPECS = {
    "grey": GREY,
    "colour": replace(GREY, inputs=(3, 20, 24)),
    "digits": replace(GREY, inputs=(1, 8, 8)),
    "relu": replace(GREY, activation="relu"),
    "abstain": replace(GREY, head="abstain"),
    "selective": replace(GREY, head="selective"),
    "windows of three": ModelSpec("p3_cnn", (3, 18, 18), 4),
}
C = 0.1


def data(spec, n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn((n, *spec.inputs), generator=generator)
    return x, torch.randint(0, spec.classes, (n,), generator=generator)


def loss_of(spec, targets):
    if spec.head == "selective":
        return partial(SelectiveNet(0.7).per_example, targets=targets, state=torch.tensor([0.5, 1]))
    return partial(CrossEntropy(0.1).per_example, targets=targets)


def flat_gradient(network, loss):
    gradients = torch.autograd.grad(loss, tuple(network.parameters()))
    return torch.cat([g.reshape(-1) for g in gradients])


def one_by_one(network, x, loss, copies=1):
    """Clipped gradients by autograd, a row each; `loss` is of all outputs."""
    outputs = network(x)
    losses = loss(outputs)
    rows = []
    for i in range(0, len(x), copies):
        gradients = torch.autograd.grad(
            losses[i : i + copies].mean(), tuple(network.parameters()), retain_graph=True
        )
        g = torch.cat([g.reshape(-1) for g in gradients])
        rows.append(g * min(1.0, C / (float(g.double().norm()) + 1e-6)))
    return torch.stack(rows).sum(0), outputs.detach()


def close(one, other):
    return bool((one - other).norm() <= 1e-5 * other.norm())


@pytest.mark.parametrize("name", SPECS)
def test_values_and_gradients_are_pytorchs(name):
    spec = SPECS[name]
    network = build_model(spec, 1)
    x, targets = data(spec, 5)
    assert stem.split(network, x)[0] is not None
    outputs = stem.forward(network, x)
    torch.testing.assert_close(outputs, network(x), rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        assert torch.equal(stem.forward(network, x), outputs)
    loss = loss_of(spec, targets)
    gradient = flat_gradient(network, loss(outputs).sum())
    assert close(gradient, flat_gradient(network, loss(network(x)).sum()))


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("copies", [1, 2])
def test_clipped_sums_are_those_of_single_examples(name, copies):
    spec = SPECS[name]
    network = build_model(spec, 2)
    x, targets = data(spec, 6)
    sums, outputs = taps.clipped_sum(network, x, loss_of(spec, targets), C, copies)
    wanted, through = one_by_one(network, x, loss_of(spec, targets), copies)
    assert close(sums, wanted)
    torch.testing.assert_close(outputs, through, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30])
def test_examples_whose_gradient_is_not_finite_are_left_out(activation, bad):
    network = build_model(replace(GREY, activation=activation), 4)
    x, targets = data(GREY, 5)
    wanted, _ = taps.clipped_sum(network, x[1:], loss_of(GREY, targets[1:]), C)
    x[0, 0, 11, 12] = bad
    sums, outputs = taps.clipped_sum(network, x, loss_of(GREY, targets), C)
    assert sums.isfinite().all()
    assert (sums - wanted).norm() <= C * (1 + 1e-5)  # saturated units may make it finite
    if math.isnan(bad):
        assert close(sums, wanted)
        assert outputs[0].isnan().all()
        assert flat_gradient(network, stem.forward(network, x).sum()).isnan().any()


@pytest.mark.parametrize("n", [0, 1, 300])
def test_batches_of_any_size_and_the_generic_path(n, monkeypatch):
    network = build_model(replace(GREY, dropout=0.4), 3)
    x, targets = data(GREY, n, seed=n)

    def result():
        torch.manual_seed(5)
        return taps.clipped_sum(network, x, loss_of(GREY, targets), C)

    sums, outputs = result()
    monkeypatch.setattr(taps, "split", lambda network, x: (None, network))
    wanted, through = result()
    assert close(sums, wanted)
    torch.testing.assert_close(outputs, through, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("size", "stride"), [(2, 1), (2, 2), (3, 1), (3, 2)])
def test_ties_go_to_the_first_place(size, stride):
    """Whole numbers, so that sums are exact and many outputs equal."""
    network = nn.Sequential(
        *(nn.Conv2d(2, 4, (3, 2), (1, 2), (2, 1)), nn.ReLU(), nn.MaxPool2d(size, stride)),
        *(nn.Flatten(), nn.LazyLinear(1)),
    )
    generator = torch.Generator().manual_seed(size)
    x = torch.randint(-1, 2, (3, 2, 7, 9), generator=generator).float()
    network(x)
    for p in network.parameters():
        p.data = torch.randint(-2, 3, p.shape, generator=generator).float()
    outputs = stem.forward(network, x)
    assert torch.equal(outputs, network(x))
    assert torch.equal(
        flat_gradient(network, outputs.sum()), flat_gradient(network, network(x).sum())
    )


def test_what_is_left_to_pytorch():
    network = build_model(GREY, 7)
    x, _ = data(GREY, 2)
    assert stem.split(network, x)[0] is not None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert stem.split(network, x)[0] is None
    assert stem.split(network, x.clone().requires_grad_())[0] is None
    assert stem.split(network.double(), x.double())[0] is None
    conv, act, pool = nn.Conv2d(1, 4, 3), nn.Tanh(), nn.MaxPool2d(2)
    ends = (nn.Flatten(), nn.LazyLinear(2))
    assert stem.split(nn.Sequential(conv, act, pool, *ends), x)[0] is not None
    for layers in (
        (conv, pool, act, *ends),
        (conv, nn.GELU(), pool, *ends),
        (conv, act, nn.MaxPool2d(3, 1, padding=1), *ends),
        (nn.Conv2d(1, 3, 3), act, pool, *ends),
        (nn.Conv2d(1, 4, 3, bias=False), act, pool, *ends),
        (nn.Conv2d(1, 4, 3, padding="same"), act, pool, *ends),
        (conv, act, pool),
    ):
        assert stem.split(nn.Sequential(*layers), x)[0] is None


def test_layers_before_dropout_are_passed_once(images):
    each = TrainingConfig(
        model=replace(GREY, dropout=0.5), epsilon=math.inf, steps=2, batch_size=20, keep="labels"
    )
    result = train(each, images[0], images[1])
    network = module_of(result).train()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        x = torch.from_numpy(images[1])
        wanted = sum(torch.softmax(network(x), dim=1) for _ in range(4)) / 4
    found = dropout_probabilities(result, images[1], passes=4, seed=3)
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)
