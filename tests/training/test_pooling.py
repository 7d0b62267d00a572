"""Compiled pooling is PyTorch's, bit for bit, and only where it is asked for."""

import itertools
import math

import pytest
import torch
from torch import nn

from lib.training.pooling import MaxPool, compiled_pooling

SHAPES = [(0, 1, 4, 4), (3, 2, 7, 5), (2, 1, 3, 3), (1, 4, 14, 14)]


@pytest.mark.parametrize(
    ("shape", "size", "stride"),
    list(itertools.product(SHAPES, (2, 3), (1, 2))),
)
def test_values_and_gradients_equal_pytorchs(shape, size, stride):
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(shape, generator=generator).round(decimals=1)  # with ties
    outs, gradients = [], []
    for layer in (MaxPool(size, stride), nn.MaxPool2d(size, stride)):
        mine = x.clone().requires_grad_()
        with compiled_pooling():
            out = layer(mine)
        weights = torch.arange(out.numel(), dtype=torch.float32).reshape(out.shape)
        (out * weights).sum().backward()
        outs.append(out.detach())
        gradients.append(mine.grad)
    assert torch.equal(*outs)
    assert torch.equal(*gradients)


def test_nan_comes_through():
    x = torch.zeros(1, 1, 3, 3)
    x[0, 0, 1, 1] = math.nan
    with compiled_pooling():
        assert MaxPool(2, 1)(x).isnan().all()


def test_only_within_the_context_and_on_what_it_knows():
    x = torch.randn(2, 1, 4, 4, requires_grad=True)
    with compiled_pooling():
        assert "_Pool" in type(MaxPool(2)(x).grad_fn).__name__
        assert "_Pool" not in type(MaxPool(2)(x.double()).grad_fn).__name__
    assert "_Pool" not in type(MaxPool(2)(x).grad_fn).__name__
