"""Linear models and MLPs in lockstep, by products of stacks of matrices: for accelerators.

Every array has the models as its first axis.  ``parameters`` is (models, p), flat in PyTorch's
order; of a layer, weights are (models, outputs, inputs), what enters it (models, examples, inputs)
and the slope of the loss at what leaves it (models, examples, outputs).  An example's gradient is
their outer product, whose norm is a product of theirs: it is written out only where float32 might
be wrong (:mod:`lib.training.clipping`).  Samples differ in length, and are filled up.
"""

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from lib.runs import Checkpoint
from lib.training import clipping, taps
from lib.training.memory import bytes_per_example, examples_at_once
from lib.training.models import ModelSpec
from lib.training.predict import initial_parameters
from lib.training.randomness import PoissonSampler, Streams
from lib.training.single import (
    EVALUATION_BATCH,
    TrainingResult,
    _check_finite,
    as_tensor,
    noise_of,
    summarise,
)
from lib.training.state import Work, identity, load_state, save_state, spent, took_long
from lib.training.torch_settings import autocast, place, settings

_BYTES = 1 << 30  # of what layers put out, where memory has no limit

Layers = list[tuple[torch.Tensor, torch.Tensor]]


def by_batches(
    work: Sequence[Work],
    rows: Sequence[int],
    results: list[TrainingResult | None],
    points: np.ndarray,
    checkpoint: Checkpoint,
) -> None:
    """Train the models of some rows, those together that differ in numbers alone."""
    groups: dict[tuple, list[int]] = {}
    for i in rows:
        config, data, _ = work[i]
        same = replace(
            config,
            epsilon=math.inf,
            delta=None,
            noise_multiplier=None,
            clipping_norm=1.0,
            releases=1,
            accountant="rdp",
            batch_size=1,
            learning_rate=1.0,
            momentum=0.0,
            weight_decay=0.0,
            seed=0,
        )
        groups.setdefault((same, id(data.inputs), data.soft), []).append(i)
    for members in groups.values():
        own = [work[i] for i in members]
        with settings(own[0][0]):
            found = _Together(own, points).run(checkpoint.part(members[0]))
        for i, result in zip(members, found, strict=True):
            results[i] = result


class _Together:
    """Models of one architecture, and how to advance all of them by a step."""

    def __init__(self, work: Sequence[Work], points: np.ndarray):
        self.work, self.points = work, points
        self.configs, sets, plans = zip(*work, strict=True)
        self.config = config = self.configs[0]
        self.device = device = place(config.device)
        first = np.stack([initial_parameters(each) for each in self.configs])
        self.parameters = torch.from_numpy(first).to(device)
        self.velocity = torch.zeros_like(self.parameters)
        self.streams = [Streams(each.seed) for each in self.configs]
        self.samplers = [
            PoissonSampler(s, len(d), p.sample_rate)
            for s, d, p in zip(self.streams, sets, plans, strict=True)
        ]
        self.rows = [d.rows for d in sets]
        self.inputs = as_tensor(sets[0].inputs).to(device).flatten(1)
        self.parts = torch.from_numpy(points).to(device).flatten(1).split(EVALUATION_BATCH)
        self.targets = [as_tensor(d.targets).to(device) for d in sets]

        def column(values: list) -> torch.Tensor:
            return torch.tensor(values, device=device)[:, None]

        self.private = column([each.private for each in self.configs])
        self.clip = column([each.clipping_norm if each.private else 1.0 for each in self.configs])
        scales = [
            p.noise_multiplier * each.clipping_norm if each.private else 0.0
            for each, p in zip(self.configs, plans, strict=True)
        ]
        self.scale = column(scales)
        self.batch = column([float(each.batch_size) for each in self.configs])
        self.momentum = column([float(each.momentum) for each in self.configs])
        self.decay = column([float(each.weight_decay) for each in self.configs])
        rates = np.stack([each.learning_rates() for each in self.configs])
        self.rates = torch.from_numpy(rates.astype(np.float32)).to(device)
        free = replace(config, epsilon=math.inf, noise_multiplier=None)  # no gradient is stored
        self.fitting = examples_at_once(free, device)
        if device.type == "cpu":
            self.fitting = min(self.fitting, _BYTES // bytes_per_example(free))

    def run(self, checkpoint: Checkpoint) -> list[TrainingResult]:
        """Train to the end, from where a checkpoint was saved."""
        started = began = time.perf_counter()
        kept, begin, logits = [], 0, None
        trainings = cache(lambda: identity("batched", self.work, self.points))

        def save(step: int) -> None:
            arrays = {
                "parameters": self.parameters.cpu().numpy(),
                "velocity": self.velocity.cpu().numpy(),
            }
            seconds = time.perf_counter() - started
            save_state(checkpoint, trainings, self.streams, step, arrays, kept, seconds)

        if (found := load_state(checkpoint, trainings, self.streams)) is not None:
            begin, arrays, kept, seconds = found
            started -= seconds
            self.parameters = torch.from_numpy(arrays["parameters"]).to(self.device)
            self.velocity = torch.from_numpy(arrays["velocity"]).to(self.device)
        ends, steps = frozenset(self.config.checkpoint_steps), self.config.steps
        for step in range(begin, steps):
            if checkpoint.due:
                save(step)
            self.advance(step)
            if step + 1 in ends:
                logits = self.logits()
                kept.append(self._summary(logits, step + 1))
        if begin == steps:  # they were finished
            logits = self.logits()
        elif took_long(began):
            save(steps)
        seconds = (time.perf_counter() - started) / len(self.work)
        return self._results(kept, logits, seconds)

    def advance(self, step: int) -> None:
        """One step of DP-SGD, or of SGD, of each model."""
        positions = [sampler.draw(1)[0] for sampler in self.samplers]
        longest = max(1, max(len(p) for p in positions))
        # Samples differ in size from model to model: shorter ones are filled up with row 0, whose
        # gradient `used` takes out of the sum.
        #
        #     rows[0]:  12  3 40  7   used:  1 1 1 1
        #     rows[1]:   5 31  0  0          1 1 0 0
        rows = np.zeros((len(positions), longest), np.int64)
        used = np.zeros((len(positions), longest), bool)
        for m, (p, own) in enumerate(zip(positions, self.rows, strict=True)):
            rows[m, : len(p)] = own[p]
            used[m, : len(p)] = True
        index, inside = (torch.from_numpy(each).to(self.device) for each in (rows, used))
        total = torch.zeros_like(self.parameters)
        # As many models at once as memory holds with all their examples; of a single one that does
        # not fit, as many examples.
        models = int(max(1, min(len(positions), self.fitting // longest)))
        examples = int(max(1, min(longest, self.fitting // models)))
        for m in range(0, len(positions), models):
            for e in range(0, longest, examples):
                some = slice(m, m + models), slice(e, e + examples)
                total[some[0]] += self._sums(some[0], index[some], inside[some])
        if bool(self.private.any()):
            size = self.parameters.shape[1]
            drawn = zip(self.configs, self.streams, strict=True)
            noise = [noise_of(config, s, step, size, self.device) for config, s in drawn]
            total += self.scale * torch.stack(noise)
        # By the expected size of a sample: the actual one is private.
        update = total / self.batch + self.decay * self.parameters
        self.velocity = self.momentum * self.velocity + update
        self.parameters = self.parameters - self.rates[:, step : step + 1] * self.velocity

    def _sums(self, some: slice, index: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
        """Sums (models, p) of the clipped gradients of some models' examples."""
        targets = [t[rows] for t, rows in zip(self.targets[some], index, strict=True)]
        layers = _layers(self.config.model, self.parameters[some])
        with autocast(self.config, self.device), torch.enable_grad():
            entered, left = _pass(layers, self.inputs[index], self.config.model.activation)
            outputs = left[-1].float().flatten(0, 1)
            # One loss for all: the slopes of a model's outputs do not depend on other models.
            losses = self.config.objective.per_example(outputs, torch.cat(targets), None)
            slopes = torch.autograd.grad(losses.sum(), left)
        entered, slopes = ([each.detach().float() for each in part] for part in (entered, slopes))
        with taps.exact(self.device):
            return clipped_sums(entered, slopes, used, self.clip[some], self.private[some])

    def logits(self) -> np.ndarray:
        """Of all models at the points of evaluation, one model after the other."""
        found = []
        for one in self.parameters.split(1):
            layers = _layers(self.config.model, one)
            with torch.no_grad():
                parts = [
                    _pass(layers, part[None], self.config.model.activation)[1][-1]
                    for part in self.parts
                ]
            found.append(torch.cat(parts, dim=1))
        return self.config.objective.logits(torch.cat(found)).float().cpu().numpy()

    def _summary(self, logits: np.ndarray, step: int) -> np.ndarray:
        values = self.parameters.cpu().numpy()
        for vector, config in zip(values, self.configs, strict=True):
            _check_finite(vector, config, step)
        keep = self.config.keep
        return values.copy() if keep == "weights" else summarise(logits, keep)

    def _results(
        self, kept: list[np.ndarray], logits: np.ndarray, seconds: float
    ) -> list[TrainingResult]:
        values = self.parameters.cpu().numpy()
        return [
            TrainingResult(
                config=config,
                plan=mechanism,
                ledger=spent(config, mechanism, config.steps),
                logits=logits[m],
                checkpoints=np.stack([each[m] for each in kept]),
                parameters=values[m].copy(),
                seconds=seconds,
                engine="batched",
            )
            for m, (config, _, mechanism) in enumerate(self.work)
        ]


def _layers(model: ModelSpec, parameters: torch.Tensor) -> Layers:
    """Weights (models, outputs, inputs) and biases (models, 1, outputs) of each layer: views."""
    hidden = model.hidden if model.name == "mlp" else ()
    found, end = [], 0
    for before, after in itertools.pairwise([math.prod(model.inputs), *hidden, model.outputs]):
        start, middle, end = end, end + before * after, end + before * after + after
        weights = parameters[:, start:middle].unflatten(1, (after, before))
        found.append((weights, parameters[:, None, middle:end]))
    return found


def _pass(
    layers: Layers, x: torch.Tensor, activation: str
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What enters each layer and what leaves it, from which on gradients are known if enabled."""
    entered, left = [], []
    for weights, bias in layers:
        if left:
            x = getattr(torch, activation)(left[-1])
        entered.append(x)
        left.append(torch.baddbmm(bias, x, weights.transpose(1, 2)))
        if not left[-1].requires_grad:
            left[-1].requires_grad_(torch.is_grad_enabled())
    return entered, left


def clipped_sums(
    entered: Sequence[torch.Tensor],
    slopes: Sequence[torch.Tensor],
    used: torch.Tensor,
    clip: torch.Tensor,
    private: torch.Tensor,
) -> torch.Tensor:
    """Sums (models, p) of the used gradients, those of private models clipped by the rule.

    Those that fill up samples add nothing, whatever they are, NaN included.
    """
    pairs = [*zip(entered, slopes, strict=True)]
    squares = torch.zeros_like(clip)
    for x, slope in pairs:
        size = slope.square().sum(dim=2)
        squares = squares + size + clipping.product(size, x.square().sum(dim=2))
    factor, tame = clipping.factors(squares, clip)
    apart, written = ~tame & (private | ~used), {}
    if bool(apart.any()):
        wild = apart & used
        for m in wild.any(dim=1).nonzero()[:, 0].tolist():
            some = [(x[m, wild[m]], slope[m, wild[m]]) for x, slope in pairs]
            written[m] = _by_definition(some, clip[m].item())
        pairs = [[each.masked_fill(apart[:, :, None], 0.0) for each in pair] for pair in pairs]
        factor = factor.masked_fill(apart, 0.0)
    factor = torch.where(private, factor, 1.0).mul(used)[:, :, None]
    parts = []
    for x, slope in pairs:
        scaled = factor * slope
        parts += [torch.bmm(scaled.transpose(1, 2), x).flatten(1), scaled.sum(dim=1)]
    total = torch.cat(parts, dim=1)
    for m, others in written.items():
        total[m] += others
    return total


def _by_definition(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], clip: float) -> torch.Tensor:
    """The sum (p,) of one model's gradients of some examples, which are written out."""
    total: torch.Tensor | float = 0.0
    for some in torch.arange(len(pairs[0][0])).split(clipping.AT_ONCE):
        parts = []
        for x, slope in pairs:
            outer = slope[some, :, None] * x[some, None, :]
            parts += [outer.flatten(1), slope[some]]
        total = total + clipping.by_definition(torch.cat(parts, dim=1), clip)
    return total
