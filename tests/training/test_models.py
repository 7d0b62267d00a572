"""Architectures: sizes, determinism, and that no example reaches another."""

import pytest
import torch
from torch import nn

from lib.training.models import (
    ModelSpec,
    build_model,
    check_private,
    forward_flops,
    parameter_count,
)

ALL = [
    ModelSpec("linear", (64,), 10),
    ModelSpec("mlp", (64,), 10, hidden=(32, 16)),
    ModelSpec("small_cnn", (1, 28, 28), 10),
    ModelSpec("small_cnn", (3, 32, 32), 10),
    ModelSpec("small_cnn", (1, 8, 8), 10),
    ModelSpec("p3_cnn", (3, 32, 32), 10),
    ModelSpec("resnet18", (3, 32, 32), 10),
    ModelSpec("wide_resnet", (3, 32, 32), 10, depth=10, width=1),
    ModelSpec("medium_cnn", (1, 28, 28), 10),
]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (ALL[0], 64 * 10 + 10),
        (ALL[1], 65 * 32 + 33 * 16 + 17 * 10),
        # Papernot et al. 2021, table 1: 16 8x8 and 32 4x4 filters, 32 units
        (ALL[2], (64 * 1 * 16 + 16) + (16 * 16 * 32 + 32) + (512 * 32 + 32) + 330),
        (ALL[8], (64 * 1 * 32 + 32) + (16 * 32 * 64 + 64) + (1024 * 64 + 64) + 650),
        (ALL[5], 973_962),
        # He et al. 2016 with a 3x3 stem; batch and group normalisation have as many parameters
        (ALL[6], 11_173_962),
    ],
)
def test_parameter_counts(spec, count):
    assert parameter_count(spec) == count


def test_operations():
    assert forward_flops(ALL[0]) == 2 * 64 * 10
    assert forward_flops(ALL[1]) == 2 * (64 * 32 + 32 * 16 + 16 * 10)
    # conv1: 3x3x3 -> 64 on 32x32; the usual count for this network is 0.56 G multiply-adds
    assert forward_flops(ALL[6]) / 2 == pytest.approx(0.556e9, rel=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "head"),
    [
        pytest.param(spec, head, id=f"{head}-{spec.name}-{spec.inputs}")
        for spec in ALL
        for head in ("plain", "abstain", "selective")
        if spec.name != "resnet18" or head == "selective"  # a large one, whose head is as others'
    ],
)
def test_outputs_are_independent_and_reproducible(spec, head):
    spec = ModelSpec(**{**spec.__dict__, "head": head})
    state = torch.get_rng_state()
    network, twin, other = build_model(spec, 3), build_model(spec, 3), build_model(spec, 4)
    assert torch.equal(torch.get_rng_state(), state)
    check_private(network)
    pairs = list(zip(network.parameters(), twin.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    others = zip(network.parameters(), other.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in others)
    x = torch.rand(3, *spec.inputs, generator=torch.Generator().manual_seed(0))
    outputs = network(x)
    assert outputs.shape == (3, {"plain": 10, "abstain": 11, "selective": 21}[head])
    x[1] = 100.0  # an outlier in the batch leaves the others as they are
    changed = network(x)
    assert torch.allclose(changed[[0, 2]], outputs[[0, 2]], atol=1e-5)
    assert not torch.allclose(changed[1], outputs[1])


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(8),
        nn.BatchNorm2d(8, affine=False, track_running_stats=False),
        nn.SyncBatchNorm(8),
        nn.InstanceNorm2d(3, track_running_stats=True),
    ],
    ids=lambda m: type(m).__name__,
)
def test_layers_that_mix_examples_are_refused(layer):
    with pytest.raises(ValueError, match="layer '1'"):
        check_private(nn.Sequential(nn.Linear(4, 8), layer))
