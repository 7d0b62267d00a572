"""Opacus' optimizer for the engine ``"single"``, apart: importing Opacus takes a second."""

import torch
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed

from lib.training import clipping, taps


class _GivenNoise(DPOptimizer):
    """Opacus' optimizer, told the standard normal numbers instead of drawing them.

    It clips and sums in float32 whatever the passes were computed in, since rounding after the
    norms are known would change the sensitivity, and by the rule of :mod:`lib.training.clipping`:
    Opacus itself loses gradients whose norm float32 does not hold.
    """

    normals: torch.Tensor | None = None

    def clip_and_accumulate(self):
        for p in self.params:
            if isinstance(p.grad_sample, torch.Tensor):
                p.grad_sample = p.grad_sample.float()
        each = self.grad_samples
        if not len(each[0]):
            super().clip_and_accumulate()
            return
        with taps.exact(each[0].device):
            norms = [g.reshape(len(g), -1).norm(2, dim=-1) for g in each]
            norms = torch.stack(norms, dim=1).norm(2, dim=1)
            factor, tame = clipping.of_norms(norms, self.max_grad_norm)
            others = None
            if not bool(tame.all()):
                flat = torch.cat([g[~tame].flatten(1) for g in each], dim=1)
                others = clipping.by_definition(flat, self.max_grad_norm)
                others = others.split([g[0].numel() for g in each])
                factor, each = taps._only(factor, tame), [taps._only(g, tame) for g in each]
            for i, (p, g) in enumerate(zip(self.params, each, strict=True)):
                _check_processed_flag(p.grad_sample)
                total = torch.einsum("i,i...", factor, g)
                if others is not None:
                    total += others[i].view_as(total)
                p.summed_grad = total if p.summed_grad is None else p.summed_grad + total
                _mark_as_processed(p.grad_sample)

    def add_noise(self):
        start = 0
        for p in self.params:
            p.grad = p.summed_grad.view_as(p)
            if self.normals is not None:
                scale = self.noise_multiplier * self.max_grad_norm
                p.grad = p.grad + scale * self.normals[start : start + p.numel()].view_as(p)
            p.grad = p.grad / self.expected_batch_size  # by Opacus where a mean is the loss
            start += p.numel()
