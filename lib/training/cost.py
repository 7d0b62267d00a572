"""What trainings will take on this machine, from a few steps of each kind."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from lib.runs import Job
from lib.training.config import TrainingConfig, TrainingData
from lib.training.fixmatch import FixMatch, train_fixmatch
from lib.training.jobs import ManyTrainings, Training
from lib.training.label_jobs import LabelTrainings, PateStudents, Teachers
from lib.training.many import engine_for, train_many
from lib.training.memory import bytes_per_example
from lib.training.models import parameter_count
from lib.training.subsets import SubsetTrainings

_LEAST = 0.2  # seconds that the measured steps of a kind take: longer is more accurate


@dataclass(frozen=True)
class Kind:
    """Trainings that take the same time."""

    config: TrainingConfig | FixMatch  # One of them, with seed 0
    models: int  # How many
    points: int  # On how many each is evaluated at each of its checkpoints

    @property
    def examples(self) -> float:
        """Gradients of one example that one model takes."""
        config = self.config
        if isinstance(config, FixMatch):
            return config.steps * (config.labelled_batch + 2 * config.unlabelled_batch)
        return config.steps * config.batch_size * config.copies

    @property
    def evaluations(self) -> int:
        """Points at which one model is evaluated, over all its checkpoints."""
        config = self.config
        return self.points * (1 if isinstance(config, FixMatch) else len(config.checkpoint_steps))

    @property
    def bytes(self) -> int:
        """Memory of a batch, in one piece, and of the model."""
        if isinstance(self.config, FixMatch):
            return 16 * parameter_count(self.config.model)
        batch = self.config.physical_batch or self.config.batch_size
        return batch * bytes_per_example(self.config) + 16 * parameter_count(self.config.model)


def kinds_of(jobs: Iterable[Job]) -> list[Kind]:
    """The trainings of some jobs, alike ones together."""
    found: dict[tuple[Any, int], int] = {}
    for job in jobs:
        for config, models, points in _trainings(job):
            place = (replace(config, seed=0), points)
            found[place] = found.get(place, 0) + models
    return [Kind(config, models, points) for (config, points), models in found.items()]


def _trainings(job: Any) -> list[tuple[Any, int, int]]:
    """Configurations, how many models each, and how many points these are evaluated on."""
    if isinstance(job, Training):
        return [(job.config, 1, job.data.test)]
    if isinstance(job, ManyTrainings):
        points = job.data.test if job.points == "test" else job.data.validation
        passes = 1 + job.dropout_passes  # of the last of its checkpoints, which are few then
        return [(config, 1, points * passes) for config in job.configs]
    if isinstance(job, SubsetTrainings):
        asked = len(job.challenges) or job.data.train
        return [(job.config, job.n_models, asked + job.data.test)]
    if isinstance(job, LabelTrainings):
        points = job.data.train + job.data.test
        return [(job.config, len(job.changes) * job.stages, points)]
    if isinstance(job, Teachers):
        return [(job.config, job.n_teachers, job.data.train + job.data.test)]
    if isinstance(job, PateStudents):
        data = job.teachers.data
        return [(job.student, len(job.noise), data.train + data.test)]
    raise TypeError(f"job must be a training of lib.training, got {type(job).__name__}")


def seconds_of(kinds: Iterable[Kind]) -> list[float]:
    """Processor (or accelerator) seconds of all models of each kind, by measuring a few steps."""
    found = []
    for kind in kinds:
        alike, together = replace(kind.config, steps=1, seed=0, learning_rate=0.01), 1
        if isinstance(kind.config, TrainingConfig):
            given = {"noise_multiplier": 1.0 if kind.config.private else None}
            alike = replace(alike, epsilon=math.inf, delta=1e-5, checkpoint_every=None, **given)
            if engine_for(alike) == "batched":  # models that advance at once
                together = min(kind.models, 16)
        step, evaluation = _paces(alike, together)
        found.append(kind.models * (kind.config.steps * step + kind.evaluations * evaluation))
    return found


@cache
def _paces(config: Any, together: int) -> tuple[float, float]:
    """Seconds of a step and of an evaluated point."""
    few, base = 16, 10 if isinstance(config, FixMatch) else 1  # it takes no fewer steps
    _timed_once(config, together, base, few)  # compiled, loaded
    short, found = _timed(config, together, base, few), []
    for more, most, step, point in ((2, 500, 1, 0), (256, 10_000, 0, 1)):
        size = base + step * more, few + point * more
        while (longer := _timed(config, together, *size) - short) < _LEAST and more < most:
            more *= 4
            size = base + step * more, few + point * more
        found.append(max(longer, 0.0) / more)
    return found[0], found[1]


def _timed(*task: Any) -> float:
    """Seconds of one model's training on noise, with one thread on a CPU; the least of some."""
    found = [_timed_once(*task)]
    while len(found) < 3 and sum(found) < 0.5:
        found.append(_timed_once(*task))
    return min(found)


def _timed_once(config: Any, together: int, steps: int, points: int) -> float:
    rng = np.random.default_rng(0)
    # Other work on the machine counts on no processor's clock but on the wall's.
    clock = time.process_time if config.device == "cpu" else time.perf_counter
    if isinstance(config, FixMatch):
        shape = config.model.inputs
        if len(shape) == 1:  # an MLP's images, grey or coloured
            channels = 1 if math.isqrt(shape[0]) ** 2 == shape[0] else 3
            side = math.isqrt(shape[0] // channels)
            shape = (channels, side, side)
        images = rng.random((256, *shape), dtype=np.float32)
        task = [replace(config, steps=steps)], images, rng.integers(0, 2, 256)
        rows = [np.arange(128)], np.arange(256)
        started = clock()
        train_fixmatch(*task, *rows, images[np.arange(points) % 256])
        return clock() - started
    n = 2 * config.batch_size
    inputs = rng.standard_normal((n, *config.model.inputs), dtype=np.float32)
    if config.model.name == "roberta":
        inputs = rng.integers(3, 1000, inputs.shape).astype(np.float32)  # numbers of tokens
    data = TrainingData(inputs, rng.integers(0, 2, n), config.model.classes)
    rows = inputs[np.arange(points) % n]
    started = clock()
    configs = [replace(config, steps=steps, sample_rate=0.5, seed=i) for i in range(together)]
    train_many(configs, data, rows, threads=1)
    return (clock() - started) / together
