"""Opacus' optimizer for the engine ``"single"``, apart: importing Opacus takes a second."""

import torch
from opacus.optimizers import DPOptimizer

from lib.training import taps


class _GivenNoise(DPOptimizer):
    """Opacus' optimizer, told the standard normal numbers instead of drawing them.

    It clips and sums in float32 whatever the passes were computed in, since rounding after the
    norms are known would change the sensitivity.  Examples whose gradient is infinite or NaN are
    left out: nothing would bound them.
    """

    normals: torch.Tensor | None = None

    def clip_and_accumulate(self):
        for p in self.params:
            if isinstance(p.grad_sample, torch.Tensor):
                p.grad_sample = p.grad_sample.float()
        with taps.exact(self.params[0].device):
            before = [None if p.summed_grad is None else p.summed_grad.clone() for p in self.params]
            super().clip_and_accumulate()
            if all(bool(p.summed_grad.isfinite().all()) for p in self.params):
                return
            each = [p.grad_sample.detach() for p in self.params]
            finite = torch.stack([g.flatten(1).isfinite().all(dim=1) for g in each]).all(dim=0)
            norms = torch.stack([g.flatten(1).norm(dim=1) for g in each]).norm(dim=0)
            finite &= norms.isfinite()
            for p, g, summed in zip(self.params, each, before, strict=True):
                rows = finite.view(-1, *[1] * (g.dim() - 1))
                p.grad_sample = torch.where(rows, g, torch.zeros_like(g))
                p.summed_grad = summed
            super().clip_and_accumulate()

    def add_noise(self):
        start = 0
        for p in self.params:
            p.grad = p.summed_grad.view_as(p)
            if self.normals is not None:
                scale = self.noise_multiplier * self.max_grad_norm
                p.grad = p.grad + scale * self.normals[start : start + p.numel()].view_as(p)
            p.grad = p.grad / self.expected_batch_size  # by Opacus where a mean is the loss
            start += p.numel()
