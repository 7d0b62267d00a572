"""Hundreds of small models at once.

Each model has its own Poisson samples, its own noise and its own data; no number of one model ever
enters another's training, and a model's result does not depend on which others it is trained with.
Three engines do the work, by the mechanism and with the random numbers of
:func:`lib.training.train`:

``"kernel"``
    Linear models and MLPs on a CPU, with any objective and with dropout: compiled code
    (:mod:`lib.training.kernels`) trains one model per thread from start to end, all its state in
    the processor's cache.
``"batched"``
    Linear models and MLPs in lockstep, by products of stacks of matrices: cross-entropy and
    :class:`lib.training.PosteriorTargets`, without dropout.  For accelerators: on a CPU, a model's
    step takes 1.4 to 4.5 times what it takes the kernel.

``"taps"``
    Any architecture and objective: one model per thread of a CPU, one after the other on an
    accelerator, by :func:`lib.training.train` with ``grad_sample_mode="taps"``.

What none of them takes is trained one after the other, by Opacus (``"single"``).
"""

import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from lib.check import require_choice, require_int
from lib.runs import Checkpoint
from lib.runs.provenance import own_cores
from lib.training import kernels, taps
from lib.training.batched import by_batches
from lib.training.checks import as_points, check_match
from lib.training.config import TrainingConfig, TrainingData, plan
from lib.training.models import ModelSpec, build_model
from lib.training.objectives import (
    CrossEntropy,
    DeepGamblers,
    Objective,
    PosteriorTargets,
    SelectiveNet,
    SelfAdaptiveTraining,
)
from lib.training.predict import initial_parameters
from lib.training.randomness import PoissonSampler, Streams
from lib.training.single import Trainer, TrainingResult, _check_finite, summarise, trained
from lib.training.state import Work, identity, load_state, save_state, spent, took_long
from lib.training.torch_settings import accelerated, settings

_BLOCK = 1 << 16  # noise numbers drawn at a time, so that they are still in cache when used


def train_many(
    configs: Sequence[TrainingConfig],
    data: TrainingData | Sequence[TrainingData],
    evaluation: npt.ArrayLike,
    *,
    engine: str = "auto",
    threads: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[TrainingResult]:
    """Train many models.

    Parameters
    ----------
    configs : sequence of TrainingConfig
        One a model: they may differ in everything.  Training runs with the same seed draw the same
        noise.  It cancels in the difference of two private models, so that no accountant covers
        their joint release; and equal configurations on different data give dependent results,
        which spoils an audit.  Both are refused.
    data : TrainingData or sequence of TrainingData
        One for all models, or one a model (subsets and changed labels of the same inputs share
        memory: see :meth:`TrainingData.subset`).
    evaluation : array_like of float, shape (n_evaluation, ...)
        Points that all models are evaluated on.
    engine : {"auto", "kernel", "batched", "taps", "single"}
        ``"auto"`` takes the kernel where it can, on accelerators ``"batched"`` where that can, else
        ``"taps"``.  The kernel takes neither augmentation, nor dropout together with
        ``SelectiveNet`` or ``physical_batch``.
    threads : int, optional
        Threads of the kernel and taps engines; by default the cores at hand, or a local
        worker's part of them.
    checkpoint : lib.runs.Checkpoint, optional
        Where unfinished models are saved, each in a part of its own, whenever half a minute has
        passed; asked again for the same models, they go on from there.  Removed when all are done.

    Returns
    -------
    list of TrainingResult
        In the order of `configs`.

    Raises
    ------
    ValueError
        On bad input, or where other models were saved, before any work.
    TrainingDiverged
        If a model's parameters are not finite at a checkpoint.

    Notes
    -----
    Samples shared between models would be faster still, but make trials of an audit dependent;
    there is no such mode here.

    Examples
    --------
    >>> configs = [TrainingConfig(model, steps=50, seed=seed) for seed in (1, 2, 3)]
    >>> results = train_many(configs, data, inputs[200:], engine="batched")
    >>> [result.accuracy(labels[200:]) > 0.8 for result in results]
    [True, True, True]
    """
    configs = list(configs)
    sets = [data] * len(configs) if isinstance(data, TrainingData) else list(data)
    if not configs or len(sets) != len(configs):
        raise ValueError(
            f"data must be one TrainingData or one per configuration ({len(configs)}, at least 1),"
            f" got {len(sets)}"
        )
    require_choice("engine", engine, ("auto", "kernel", "batched", "taps", "single"))
    if threads is None:
        threads = own_cores()
    require_int("threads", threads, at_least=1)
    _check_seeds(configs)
    engines = [engine_for(config) if engine == "auto" else engine for config in configs]
    plans = []
    for config, each, chosen in zip(configs, sets, engines, strict=True):
        points = as_points("evaluation", evaluation, each.inputs.shape[1:])
        check_match(config, each)
        if reason := _unsuited(config, chosen):
            raise ValueError(f"engine must suit every configuration: {chosen!r} cannot {reason}")
        plans.append(plan(config, len(each)))

    results: list[TrainingResult | None] = [None] * len(configs)
    work = list(zip(configs, sets, plans, strict=True))
    checkpoint = Checkpoint() if checkpoint is None else checkpoint

    def chosen(name: str) -> list[int]:
        return [i for i, each in enumerate(engines) if each == name]

    if rows := chosen("kernel"):
        _by_kernel(work, rows, results, points, threads, checkpoint)
    if rows := chosen("batched"):
        by_batches(work, rows, results, points, checkpoint)
    if rows := chosen("taps"):
        _by_taps(work, rows, results, points, threads, checkpoint)
    for i in chosen("single"):
        results[i] = trained(*work[i][:2], points, plans[i], checkpoint.part(i))
    checkpoint.done()
    return results


def _check_seeds(configs: list[TrainingConfig]) -> None:
    first: dict[int, TrainingConfig] = {}
    for config in configs:
        if config.seed not in first:
            first[config.seed] = config
            continue
        # The same seed is the same noise, which whoever has both models can subtract. Two different
        # configurations without privacy may share one.
        other = first[config.seed]
        if config.private or other.private or config == other:
            raise ValueError(
                f"configs must have different seeds, but seed {config.seed} comes twice: noise that"
                " two models share cancels in their difference, and equal trainings on different"
                " data are dependent"
            )


def engine_for(config: TrainingConfig) -> str:
    """The engine that ``"auto"`` chooses for a configuration.

    Parameters
    ----------
    config : TrainingConfig
        Of one training.

    Returns
    -------
    str
        ``"kernel"``, ``"batched"``, ``"taps"`` or ``"single"``, as for :func:`train_many`.
    """
    if not isinstance(config, TrainingConfig):
        raise ValueError(f"config must be a TrainingConfig, got {config!r}")
    if not (_unsuited(config, "kernel") or accelerated(config.device)):
        return "kernel"
    if accelerated(config.device) and not _unsuited(config, "batched"):
        return "batched"
    return "single" if _unsuited(config, "taps") else "taps"


def _unsuited(config: TrainingConfig, engine: str) -> str | None:
    """Why an engine cannot train a configuration, or None."""
    if engine == "single":
        return None
    if config.model.name == "roberta":
        return "train a 'roberta'"
    if engine == "taps":
        return None if _tapped(config.model) else f"train a {config.model.name!r}"
    if config.augmentation is not None or config.adversarial:
        return "augment"
    if config.model.name not in ("linear", "mlp"):
        return f"train a {config.model.name!r}"
    if engine == "batched":
        if type(config.objective) not in (CrossEntropy, PosteriorTargets):
            return f"train with {type(config.objective).__name__}"
        if config.model.dropout:
            return "train with dropout"
    if engine == "kernel":
        if config.model.dropout and isinstance(config.objective, SelectiveNet):
            return "train SelectiveNet with dropout"
        if config.model.dropout and config.physical_batch:
            return "train with dropout in physical batches"  # masks are drawn batch by batch
        if torch.device(config.device).type != "cpu" or config.precision != "float32":
            return f"use device {config.device!r} with precision {config.precision!r}"
        if config.noise_source != "host":
            return "draw noise on the device"
    return None


@cache
def _tapped(spec: ModelSpec) -> bool:
    return taps.supports(build_model(spec, 0))


def _in_threads(threads: int, train_one: Callable[[int], None], rows: Sequence[int]) -> None:
    """Train models; where one fails, no other begins."""
    stop = threading.Event()

    def unless_stopped(i: int) -> None:
        if stop.is_set():
            return
        try:
            train_one(i)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(unless_stopped, rows))


# ----------------------------------------------------------------------------------------- kernel


def _by_kernel(work, rows, results, points, threads, checkpoint) -> None:
    flat = points.reshape(len(points), -1).view()
    flat.flags.writeable = False  # as the training inputs: numba compiles once for both
    # Models on the same data share its targets, by identity: hundreds of copies would not fit.
    shared: dict[int, tuple] = {}
    # Here, because PyTorch's generator is not for threads.
    initial = {i: initial_parameters(work[i][0]) for i in rows}
    for i in rows:
        data = work[i][1]
        if id(data.targets) not in shared:
            shared[id(data.targets)] = _targets(data)

    def one(i: int) -> None:
        targets = shared[id(work[i][1].targets)]
        results[i] = _train_by_kernel(work[i], targets, flat, initial.pop(i), checkpoint.part(i))

    before = torch.get_num_threads()
    try:
        if any(work[i][0].model.dropout for i in rows):
            torch.set_num_threads(1)  # small masks, drawn in every thread of the pool
        _in_threads(threads, one, rows)
    finally:
        torch.set_num_threads(before)


def _targets(data: TrainingData) -> tuple[np.ndarray, np.ndarray]:
    if data.soft:  # a copy that may be written to, as below: numba compiles once for both
        return np.zeros(0, np.int32), np.array(data.targets, dtype=np.float32)
    return data.targets.astype(np.int32), np.zeros((0, data.classes), np.float32)


def _train_by_kernel(
    work: Work,
    targets: tuple[np.ndarray, np.ndarray],
    points: np.ndarray,
    params: np.ndarray,
    checkpoint: Checkpoint,
) -> TrainingResult:
    started = time.perf_counter()
    (config, data, mechanism), (labels, soft) = work, targets
    x = data.inputs.reshape(len(data.inputs), -1)
    streams = Streams(config.seed)
    sampler = PoissonSampler(streams, len(data), mechanism.sample_rate)
    hidden = config.model.hidden if config.model.name == "mlp" else ()
    sizes = np.array([x.shape[1], *hidden, config.model.outputs], dtype=np.int64)
    activation = kernels.ACTIVATIONS[config.model.activation]
    rates = config.learning_rates().astype(np.float32)
    velocity = np.zeros_like(params)
    # Infinite, not a flag: a compiled loop that never clips is the same loop.
    clip = np.float32(config.clipping_norm if config.private else np.inf)
    scale = np.float32(mechanism.noise_multiplier * config.clipping_norm if config.private else 0)
    # What a training does not need is an array without rows: the compiled function has one
    # signature.
    no_noise = np.zeros((0, len(params)), np.float32)
    objective = config.objective
    constants, memory = _constants(objective, config.private), np.zeros((0, 0), np.float32)
    if isinstance(objective, SelfAdaptiveTraining):
        initial = objective.initial_state(torch.from_numpy(labels.astype(np.int64)), data.classes)
        memory = initial.numpy()
    no_normals, burn_in = np.zeros((0, 2), np.float32), getattr(objective, "burn_in_steps", 0)
    no_masks, dropped = np.zeros((0, 0), np.float32), hidden or (x.shape[1],)
    # Random numbers are drawn for some steps at once; the stream, and so the result, is the same
    # whatever the block.
    block = max(1, min(64, _BLOCK // len(params)))
    step, kept, logits = 0, [], np.empty((len(points), data.classes), np.float32)
    trainings, began = cache(lambda: identity("kernel", [work], points)), started

    def save() -> None:
        arrays = {"parameters": params, "velocity": velocity}
        arrays["memory"] = memory if step < config.steps else memory[:0]
        so_far = step, arrays, kept, time.perf_counter() - started
        save_state(checkpoint, trainings, [streams], *so_far)

    # Resumed bit for bit: the states of the random streams are saved with the parameters.
    if (found := load_state(checkpoint, trainings, [streams])) is not None:
        step, arrays, kept, seconds = found
        started -= seconds
        params, velocity, memory = (arrays[n] for n in ("parameters", "velocity", "memory"))
    for end in config.checkpoint_steps[len(kept) :]:
        while step < end:
            if checkpoint.due:
                save()
            count = min(block, end - step)
            positions, starts = sampler.draw(count)
            noise = no_noise
            if scale > 0:
                noise = streams.noise.standard_normal((count, len(params)), dtype=np.float32)
            normals = no_normals
            if isinstance(objective, SelectiveNet):
                normals = streams.statistics.standard_normal((count, 2), dtype=np.float32)
            masks = no_masks
            if config.model.dropout:
                masks = _masks(streams, step, starts, dropped, config.model.dropout)
            kernels.run_steps(
                x,
                labels,
                soft,
                data.rows[positions],
                starts,
                params,
                velocity,
                noise,
                scale,
                clip,
                rates[step : step + count],
                np.float32(config.batch_size),
                np.float32(config.momentum),
                np.float32(config.weight_decay),
                np.float32(objective.entropy),
                sizes,
                activation,
                kernels.OBJECTIVES[type(objective).__name__],
                constants,
                np.arange(step, step + count) >= burn_in,
                memory,
                normals,
                masks,
                np.float32(1 - config.model.dropout),
            )
            step += count
        kernels.predict(points, params, sizes, activation, logits)
        _check_finite(params, config, step)
        kept.append(params.copy() if config.keep == "weights" else summarise(logits, config.keep))
    if found is not None and found[0] == config.steps:  # it was finished
        kernels.predict(points, params, sizes, activation, logits)
    elif took_long(began):
        save()
    return TrainingResult(
        config=config,
        plan=mechanism,
        ledger=spent(config, mechanism, config.steps),
        logits=logits,
        checkpoints=np.stack(kept),
        parameters=params,
        seconds=time.perf_counter() - started,
        engine="kernel",
    )


def _constants(objective: Objective, private: bool) -> np.ndarray:
    """What :func:`lib.training.kernels.run_steps` wants to know of an objective."""
    values: tuple[float, ...] = ()
    if isinstance(objective, SelfAdaptiveTraining):
        values = (objective.momentum, 1 - objective.momentum)
    elif isinstance(objective, DeepGamblers):
        values = (math.log(objective.reward),)
    elif isinstance(objective, SelectiveNet):
        values = (
            objective.coverage,
            objective.alpha,
            objective.penalty,
            objective.loss_bound,
            objective.smallest_coverage,
            # One example moves both sums by at most 1 each: an L2 norm of sqrt(2).
            objective.statistic_noise * math.sqrt(2) if private else 0.0,
        )
    return np.array(values, dtype=np.float32)


def _masks(
    streams: Streams, step: int, starts: np.ndarray, layers: Sequence[int], dropout: float
) -> np.ndarray:
    """What PyTorch's dropout multiplies units by in some steps, one row a sampled example."""
    found = torch.empty(int(starts[-1]), sum(layers))
    generator = torch.Generator()  # one of our own: the global one is not for threads
    for offset, (start, end) in enumerate(itertools.pairwise(starts)):
        generator.manual_seed(streams.step(step + offset))
        column = 0
        for units in layers:
            drawn = torch.empty(int(end - start), units)
            drawn.bernoulli_(1 - dropout, generator=generator).div_(1 - dropout)
            found[start:end, column : column + units] = drawn
            column += units
    return found.numpy()


# ------------------------------------------------------------------------------------------- taps


def _by_taps(work, rows, results, points, threads, checkpoint) -> None:
    if any(work[i][0].model.dropout for i in rows):
        threads = 1  # dropout draws from PyTorch's global generator
    before = torch.get_num_threads()
    lock = threading.Lock()

    def one(i: int) -> None:
        config, data, mechanism = work[i]
        with lock:  # making a model uses the global generator, too
            trainer = Trainer(config, data, points, mechanism, mode="taps")
        trainer.run(checkpoint.part(i))
        results[i] = trainer.result()

    groups: dict[tuple, list[int]] = {}
    for i in rows:
        config = work[i][0]
        same = config.precision, config.deterministic, config.device
        groups.setdefault(same, []).append(i)
    for members in groups.values():
        with settings(work[members[0]][0]):
            if accelerated(work[members[0]][0].device):
                for i in members:  # here: this thread has claimed the device
                    one(i)
                continue
            try:
                torch.set_num_threads(max(1, before // threads))
                _in_threads(threads, one, members)
            finally:
                torch.set_num_threads(before)
