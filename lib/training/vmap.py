"""Many models in lockstep by ``torch.func``: the engine for small ones on accelerators."""

import math
import time
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from lib.training import clipping, taps
from lib.training.memory import examples_at_once
from lib.training.models import build_model, check_private
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
from lib.training.state import identity, load_state, save_state, spent, took_long
from lib.training.torch_settings import autocast, place, settings

_GRADIENT_BYTES = 1 << 30  # of stored per-example gradients, where memory has no limit


def _by_vmap(work, rows, results, points, checkpoint) -> None:
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
        with settings(work[members[0]][0]):
            _train_by_vmap(work, members, results, points, checkpoint.part(members[0]))


def _train_by_vmap(work, members, results, points, checkpoint) -> None:
    started = time.perf_counter()
    own = [work[i] for i in members]
    configs, sets, plans = zip(*own, strict=True)
    config = configs[0]
    device = place(config.device)
    network = build_model(config.model, 0).to(device)
    if any(each.private for each in configs):
        check_private(network)
    network.eval()
    shapes = {name: p.shape for name, p in network.named_parameters()}
    params = torch.from_numpy(np.stack([initial_parameters(each) for each in configs])).to(device)
    velocity = torch.zeros_like(params)
    streams = [Streams(each.seed) for each in configs]
    samplers = [
        PoissonSampler(s, len(d), p.sample_rate)
        for s, d, p in zip(streams, sets, plans, strict=True)
    ]
    inputs = as_tensor(sets[0].inputs).to(device)
    targets = [as_tensor(d.targets).to(device) for d in sets]
    parts = torch.from_numpy(points).to(device).split(EVALUATION_BATCH)

    def column(values) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)[:, None]

    private = column([float(each.private) for each in configs])
    clip = column([each.clipping_norm if each.private else math.inf for each in configs])
    scale = column(
        [
            p.noise_multiplier * each.clipping_norm if each.private else 0.0
            for each, p in zip(configs, plans, strict=True)
        ]
    )
    batch = column([each.batch_size for each in configs])
    momentum = column([each.momentum for each in configs])
    decay = column([each.weight_decay for each in configs])
    rates = torch.from_numpy(
        np.stack([each.learning_rates() for each in configs]).astype(np.float32)
    ).to(device)

    def unflatten(vector: torch.Tensor) -> dict[str, torch.Tensor]:
        pieces = vector.split([shape.numel() for shape in shapes.values()])
        return {
            name: piece.view(shape)
            for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
        }

    def loss(vector, example, target):
        with autocast(config, device):
            output = functional_call(network, unflatten(vector), (example[None],))
        return config.objective.per_example(output.float(), target[None], None)[0]

    gradients = vmap(vmap(grad(loss), in_dims=(None, 0, 0)), in_dims=(0, 0, 0))
    forward = vmap(
        lambda vector, x: functional_call(network, unflatten(vector), (x,)), in_dims=(0, None)
    )
    fitting = examples_at_once(replace(config, epsilon=1.0, noise_multiplier=None), device)
    if device.type == "cpu":
        fitting = min(fitting, _GRADIENT_BYTES // (4 * params.shape[1]))
    fitting = int(min(fitting, len(members) * len(sets[0].inputs)))
    kept, ends, begin = [], frozenset(config.checkpoint_steps), 0
    began = started
    trainings = cache(lambda: identity("vmap", own, points))

    def save(step: int) -> None:
        arrays = {"parameters": params.cpu().numpy(), "velocity": velocity.cpu().numpy()}
        seconds = time.perf_counter() - started
        save_state(checkpoint, trainings, streams, step, arrays, kept, seconds)

    def evaluate() -> np.ndarray:
        with torch.no_grad():
            logits = torch.cat(
                [
                    torch.cat([forward(params[m : m + 1], part) for part in parts], dim=1)
                    for m in range(len(members))
                ]
            )
        return config.objective.logits(logits).float().cpu().numpy()

    if (found := load_state(checkpoint, trainings, streams)) is not None:
        begin, arrays, kept, seconds = found
        started -= seconds
        params = torch.from_numpy(arrays["parameters"]).to(device)
        velocity = torch.from_numpy(arrays["velocity"]).to(device)
    for step in range(begin, config.steps):
        if checkpoint.due:
            save(step)
        positions = [sampler.draw(1)[0] for sampler in samplers]
        longest = max(1, max(len(p) for p in positions))
        rows = np.zeros((len(members), longest), np.int64)
        inside = np.zeros((len(members), longest), np.float32)
        for m, (p, d) in enumerate(zip(positions, sets, strict=True)):
            rows[m, : len(p)] = d.rows[p]
            inside[m, : len(p)] = 1
        index = torch.from_numpy(rows).to(device)
        mask = torch.from_numpy(inside).to(device)
        total = torch.zeros_like(params)
        models = max(1, min(len(members), fitting // longest))
        examples = max(1, min(longest, fitting // models))
        for m in range(0, len(members), models):
            group = slice(m, m + models)
            for e in range(0, longest, examples):
                part = index[group, e : e + examples]
                wanted = torch.stack([t[r] for t, r in zip(targets[group], part, strict=True)])
                each = gradients(params[group], inputs[part], wanted)
                used = mask[group, e : e + examples]
                with taps.exact(device):
                    _add_clipped(total[group], each, used, clip[group], private[group].bool())
        if bool(private.any()):
            total += scale * torch.stack(
                [
                    noise_of(each, s, step, params.shape[1], device)
                    for each, s in zip(configs, streams, strict=True)
                ]
            )
        update = total / batch + decay * params
        velocity = momentum * velocity + update
        params = params - rates[:, step : step + 1] * velocity
        if step + 1 in ends:
            logits = evaluate()
            values = params.detach().cpu().numpy()
            for vector, each in zip(values, configs, strict=True):
                _check_finite(vector, each, step + 1)
            kept.append(
                values.copy() if config.keep == "weights" else summarise(logits, config.keep)
            )
    if begin == config.steps:  # they were finished
        logits, values = evaluate(), params.cpu().numpy()
    elif took_long(began):
        save(config.steps)
    seconds = (time.perf_counter() - started) / len(members)
    for m, i in enumerate(members):
        results[i] = TrainingResult(
            config=configs[m],
            plan=plans[m],
            ledger=spent(configs[m], plans[m], config.steps),
            logits=logits[m],
            checkpoints=np.stack([each[m] for each in kept]),
            parameters=values[m].copy(),
            seconds=seconds,
            engine="vmap",
        )


def _add_clipped(total, each, used, clip, private) -> None:
    """Add the used ones of the gradients (models, n, p) to sums (models, p), by the rule.

    The others fill up rows: whatever they are, NaN included, they add nothing.
    """
    factor, tame = clipping.of_norms(each.norm(dim=2), clip)
    apart = ~tame & (private | (used == 0))
    if bool(apart.any()):
        wild = apart & used.bool()
        for m in wild.any(dim=1).nonzero()[:, 0].tolist():
            total[m] += clipping.by_definition(each[m, wild[m]], clip[m].item())
        each, factor = each.masked_fill(apart[:, :, None], 0.0), factor.masked_fill(apart, 0.0)
    total += torch.einsum("mb,mbp->mp", factor * used, each)
