"""The training runs of the chapter as jobs for :mod:`lib.runs`, and what their models are asked."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.data import load_digits, load_images, split_rows
from lib.data.features import PatchFilters, fit_patches, patch_features, standardised
from lib.data.shifts import corrupt
from lib.runs import Checkpoint, Outcome
from lib.studies.audit.system import alignment
from lib.training import (
    DataSpec,
    TrainingConfig,
    TrainingData,
    TrainingResult,
    confidence,
    initial_parameters,
    train_many,
)
from lib.training.jobs import Chunk, OnData, in_chunks
from lib.training.memory import models_at_once

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Pipeline:
    """From images to what a model of :class:`lib.training.DataSpec` reads."""

    # shape (n, channels, height, width): The test images, in the order in which the data are
    # loaded; values in [0, 1]
    images: Floats
    transform: Callable[[Floats], Floats]  # From images of that shape to inputs of the model

    @classmethod
    def of(cls, data: DataSpec) -> "Pipeline":
        """The pipeline of a data set."""
        drawn = {"train": data.train}
        drawn |= {"validation": data.validation} if data.validation else {}
        drawn |= {"public": data.public} if data.public else {}
        if data.name == "digits":
            digits = load_digits()
            rows = split_rows(len(digits.labels), data.seed, drawn | {"test": data.test})
            images = digits.images[rows["test"], None].astype(np.float32)
        else:
            source = load_images(data.name, "test")
            groups = source.groups
            rows = split_rows(len(source), data.seed, {"test": data.test}, groups=groups)["test"]
            images = source.as_float(np.sort(rows))
        if data.features != "patches":
            return cls(images, _flat if data.features == "pixels" else np.asarray)
        source = load_images(data.name, "train")
        rows = np.sort(split_rows(len(source), data.seed, drawn, groups=source.groups)["public"])
        public = source.as_float(rows)
        filters = fit_patches(public, seed=data.seed)
        return cls(images, partial(_patches, filters=filters))

    def shifted(self, kind: str, severity: float, rows: npt.ArrayLike, seed: int) -> Floats:
        """Inputs of some test images after a shift."""
        return self.transform(corrupt(self.images[np.asarray(rows)], kind, severity, seed))

    def record(self) -> Floats:
        """The audit's inserted record: the inputs of :func:`checkerboard`, of one point."""
        return self.transform(checkerboard(self.images.shape[1:]))[0]


def checkerboard(shape: tuple[int, int, int]) -> Floats:
    """An image that no photograph and no digit looks like, which little should hide."""
    board = (np.indices(shape[1:]).sum(axis=0) % 2).astype(np.float32)
    return np.broadcast_to(board, (1, *shape)).copy()


def _flat(images: Floats) -> Floats:
    return images.reshape(len(images), -1)


def _patches(images: Floats, filters: PatchFilters) -> Floats:
    return _flat(standardised(patch_features(images, filters)))


@dataclass(frozen=True)
class Classifiers(OnData):
    """Models on the same data, asked about validation, test and shifted points.

    The arrays of the outcome: logits ``validation`` (models, n, C), ``test``, ``shifted`` (models,
    shifts, users, C); ``labels``, ``validation_labels``; rows of the test points ``reference`` and
    ``users``.
    """

    configs: tuple[TrainingConfig, ...]  # The models, in the order of the results
    data: DataSpec  # Their data
    shifts: tuple[tuple[str, float], ...]  # Kinds and severities, as for :func:`lib.data.corrupt`
    # Of the shifts, and of who is shifted: half of the test points, the users; the other half is
    # the reference
    seed: int = 0

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train the models and evaluate them."""
        loaded, pipeline = self.data.load(), Pipeline.of(self.data)
        order = np.random.default_rng([self.seed, 71]).permutation(len(loaded.labels))
        reference, users = np.split(order, [len(order) // 2])
        shifted = [
            pipeline.shifted(kind, severity, users, self.seed + k)
            for k, (kind, severity) in enumerate(self.shifts)
        ]
        n_validation, n_test = len(loaded.validation), len(loaded.labels)
        points = np.concatenate([loaded.validation, loaded.evaluation, *shifted])
        results = train_many(list(self.configs), loaded.training, points, checkpoint=checkpoint)
        parts = [
            np.split(result.logits, [n_validation, n_validation + n_test]) for result in results
        ]
        classes = parts[0][0].shape[1]
        arrays = {
            "validation": np.stack([p[0] for p in parts]),
            "test": np.stack([p[1] for p in parts]),
            "shifted": np.stack([p[2].reshape(len(shifted), len(users), classes) for p in parts]),
            "labels": loaded.labels,
            "validation_labels": loaded.validation_labels,
            "reference": reference,
            "users": users,
        }
        metrics = {"training_seconds": sum(r.seconds for r in results)}
        return Outcome(arrays, metrics, {"models": [_ledger(r) for r in results]})


@dataclass(frozen=True)
class RecordTrainings(OnData):
    """Models that differ in one record: a fair coin decides whether it is in the training set.

    The arrays of the outcome, each of shape (models,): ``members``; ``confidence`` at the record
    (:func:`lib.training.confidence`), which anyone with the model sees; ``alignment``, how far the
    model went along the record's gradient from where it began, which takes the parameters, also the
    initial ones; ``correct``, the fraction of right answers on the test points.
    """

    # Of all; model i has its seed plus i. `sample_rate` and `delta` must be given.
    config: TrainingConfig
    data: DataSpec  # All training points are in; the record comes on top
    n_models: int  # How many
    # Of the record, a checkerboard (:func:`lib.studies.beyond.six_lenses.lens_jobs.checkerboard`)
    label: int = 0
    seed: int = 0  # Of the coins
    chunk: int = 100  # Models trained between two saves of the state
    private = True  # it says which models had the record

    def coins(self) -> npt.NDArray[np.bool_]:
        """Who is trained with the record, shape (models,)."""
        return np.random.default_rng([self.seed, 72]).integers(0, 2, self.n_models).astype(bool)

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train all models, going on after the last finished chunk if there is one."""
        loaded, record = self.data.load(), Pipeline.of(self.data).record()
        inputs = np.concatenate([loaded.training.inputs, record[None]])
        targets = np.r_[loaded.training.targets, self.label]
        everything = TrainingData(inputs, targets, loaded.training.classes)
        points = np.concatenate([record[None], loaded.evaluation])
        coins, n = self.coins(), len(inputs)

        def some(part: range, saved: Checkpoint) -> Chunk:
            results = train_many(
                [replace(self.config, seed=self.config.seed + i) for i in part],
                [everything.subset(np.arange(n - 1 + coins[i])) for i in part],
                points,
                checkpoint=saved,
            )
            logits = np.stack([r.logits for r in results])
            final = np.stack([r.parameters for r in results])
            begin = np.stack([initial_parameters(r.config) for r in results])
            columns = {
                "members": coins[part.start : part.stop],
                "confidence": confidence(logits[:, 0], np.full(len(part), self.label)),
                "alignment": alignment(self.config.model, begin, final, record, self.label),
                "correct": (logits[:, 1:].argmax(axis=2) == loaded.labels).mean(axis=1),
            }
            rows = [{name: column[k] for name, column in columns.items()} for k in range(len(part))]
            return rows, [{"seconds": r.seconds, "privacy": _ledger(r)} for r in results]

        chunk = models_at_once(self.config.model, self.chunk)
        arrays, records = in_chunks(checkpoint, self.n_models, chunk, some)
        metrics = {
            "accuracy": float(arrays["correct"].mean()),
            "training_seconds": sum(each["seconds"] for each in records),
        }
        return Outcome(arrays, metrics, records[0]["privacy"])


def _ledger(result: TrainingResult) -> dict[str, Any]:
    epsilon = result.epsilon
    return {
        "epsilon": "Infinity" if math.isinf(epsilon) else epsilon,
        "delta": result.plan.delta,
        "noise_multiplier": result.plan.noise_multiplier,
        "sample_rate": result.plan.sample_rate,
        "ledger": result.ledger.to_dict(),
    }
