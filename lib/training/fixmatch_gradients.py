"""Gradients of FixMatch's loss: for MLPs that advance together, and for any one network."""

import math
from typing import Any

import torch


def _residual(
    config: Any, logits: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Derivative of the loss by the logits of labeled and strong images, and the mask.

    The loss is the mean cross-entropy of the labeled images plus `unlabelled_weight` times the
    mean, over all strong images, of mask times cross-entropy.
    """
    labelled, unlabelled = config.labelled_batch, config.unlabelled_batch
    probabilities = logits.softmax(dim=2)
    learnt = labelled + unlabelled
    confidence, pseudo = probabilities[:, learnt:].max(dim=2)
    mask = (confidence >= config.threshold).to(logits.dtype)
    residual = probabilities[:, :learnt]
    both = torch.cat([targets, pseudo], dim=1)
    residual.scatter_add_(
        2, both[:, :, None], residual.new_full((1, 1, 1), -1.0).expand(*both.shape, 1)
    )
    residual[:, :labelled] *= 1 / labelled
    residual[:, labelled:] *= (mask * (config.unlabelled_weight / unlabelled))[:, :, None]
    return residual, mask


class _Lockstep:
    """MLPs (and linear models) that advance together by batched matrix products."""

    def __init__(self, config: Any, network: torch.nn.Module, parameters: torch.Tensor):
        self.config = config
        self.relu = config.model.activation == "relu"
        self.shapes = [tuple(p.shape) for p in network.parameters()]
        self.load(parameters)
        self.total = torch.empty_like(parameters)
        self.slots = self._layers(self.total)

    def load(self, parameters: torch.Tensor) -> None:
        """Work with these parameters, shape (models, p), and with what they become."""
        self.layers = self._layers(parameters)

    def _layers(self, vectors: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        views, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            views.append(vectors[:, start : start + size].view(-1, *shape))
            start += size
        return list(zip(views[::2], views[1::2], strict=True))

    def _forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """What goes into every layer, and the logits."""
        found = [x]
        for number, (weight, bias) in enumerate(self.layers):
            x = torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))
            if number < len(self.layers) - 1:
                x = x.relu_() if self.relu else x.tanh_()
            found.append(x)
        return found

    def gradient(
        self, inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of every model's loss, shape (models, p), and its mask."""
        *before, logits = self._forward(inputs.flatten(2))
        back, mask = _residual(self.config, logits, targets)
        learnt = back.shape[1]
        for number in reversed(range(len(self.layers))):
            x = before[number][:, :learnt]
            weight, bias = self.slots[number]
            torch.bmm(back.transpose(1, 2), x, out=weight)
            torch.sum(back, dim=1, out=bias)
            if number:
                back = torch.bmm(back, self.layers[number][0])
                back *= (x > 0) if self.relu else 1 - x * x
        return self.total, mask

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Of every model at the same images, shape (models, n, classes)."""
        models = self.layers[0][0].shape[0]
        return self._forward(images.flatten(1).expand(models, -1, -1))[-1]


class _Network:
    """Any one architecture, by PyTorch's own differentiation."""

    def __init__(self, config: Any, network: torch.nn.Module, parameters: torch.Tensor):
        self.config, self.network = config, network
        self.load(parameters)

    def load(self, parameters: torch.Tensor) -> None:
        """Work with these parameters, shape (1, p), and with what they become."""
        start = 0
        for p in self.network.parameters():
            p.data = parameters[0, start : start + p.numel()].view_as(p)
            start += p.numel()

    def gradient(
        self, inputs: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of the model's loss, shape (1, p), and its mask."""
        learnt = self.config.labelled_batch + self.config.unlabelled_batch
        with torch.no_grad():
            weak = self.network(inputs[0, learnt:])
        logits = self.network(inputs[0, :learnt])
        residual, mask = _residual(self.config, torch.cat([logits.detach(), weak])[None], targets)
        parts = torch.autograd.grad(logits, tuple(self.network.parameters()), residual[0])
        return torch.cat([part.reshape(-1) for part in parts])[None], mask

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Of the model, shape (1, n, classes)."""
        with torch.no_grad():
            return self.network(images)[None]
