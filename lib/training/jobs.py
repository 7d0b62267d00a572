"""Training runs as jobs for :mod:`lib.runs`: stored once, resumed, spread over workers."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.check import require_choice, require_finite, require_int
from lib.data.digits import load_digits
from lib.data.features import cached_features, fit_patches, patch_features, standardised
from lib.data.images import ImageSet, image_files, load_images
from lib.data.splits import split_rows, subsample_class
from lib.data.text import TEXT_FILES, TextSet, hashed_words, load_sst2
from lib.runs import fingerprint
from lib.runs.checkpoint import Checkpoint
from lib.runs.imports import needed
from lib.runs.jobs import Outcome
from lib.training.config import TrainingConfig, TrainingData
from lib.training.many import train_many
from lib.training.memory import models_at_once
from lib.training.predict import (
    averages,
    dropout_probabilities,
    features_of,
    outputs_of,
    trained_plainly,
)
from lib.training.single import TrainingResult, train
from lib.training.text import tokens_of

FEATURES = ("pixels", "images", "patches", "network", "tokens", "words")
_OF_PUBLIC = ("patches", "network")  # features that are fitted to public images
_PASSES = 12.0  # of the network over these
OF_TEXT = ("tokens", "words")
POINTS = ("test", "validation")


@dataclass(frozen=True, eq=False)
class LoadedData:
    """Data as a training wants them.

    Attributes
    ----------
    training : TrainingData
        Inputs and labels to train on.
    evaluation : ndarray of float32
        Inputs of the evaluation points.
    labels : ndarray of int64
        Their labels.
    validation, validation_labels : ndarray
        The same of the validation points, to choose hyper-parameters on; possibly none.
    name : str
        What pages must call the data.
    """

    training: TrainingData
    evaluation: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    validation: npt.NDArray[np.float32]
    validation_labels: npt.NDArray[np.int64]
    name: str


@dataclass(frozen=True)
class DataSpec:
    """Which data a job trains on: enough for any worker to load the same.

    Attributes
    ----------
    name : str
        A name that :func:`lib.data.load_images` knows, or ``"sst2"``.
    features : {"pixels", "images", "patches", "network", "tokens", "words"}
        Flat pixels; images of shape (channels, height, width); responses to 256 whitened patches
        of the public images, averaged over 2 x 2 cells and standardized per example; or the last
        hidden layer of a small CNN that the public images trained; or, of texts, RoBERTa's token
        numbers, or hashed words (:func:`lib.data.hashed_words`).
    train, test, validation, public : int
        Number of training, evaluation, validation and public points, disjoint.  Public ones are
        for patches and networks alone: the guarantee does not cover them.  Digits have no official
        split: all are drawn from one pot.  Of other sets, training and validation points are drawn
        from their training split.
    seed : int
        Of the draw.
    keep_class : float
        Probability with which an example of class 0 stays in the training set (P1, appendix B.2).
    tokens : int
        Length of texts, in tokens.  Their test points come from the validation split: labels of the
        test split were never published.
    """

    name: str = "digits"
    features: str = "pixels"
    train: int = 1200
    test: int = 597
    validation: int = 0
    public: int = 0
    seed: int = 0
    keep_class: float = 1.0
    tokens: int = 64

    def __post_init__(self):
        if self.name not in TEXT_FILES:
            image_files(self.name)  # raises for a name that is none
        require_choice("features", self.features, FEATURES)
        if (self.name in TEXT_FILES) != (self.features in OF_TEXT):
            raise ValueError(
                f"features must be 'tokens' or 'words' for {', '.join(TEXT_FILES)} alone, got"
                f" {self.features!r} for {self.name!r}"
            )
        require_int("tokens", self.tokens, at_least=3, at_most=512)
        require_int("train", self.train, at_least=1)
        require_int("test", self.test, at_least=1)
        require_int("validation", self.validation, at_least=0)
        require_int("public", self.public, at_least=0)
        if (self.features in _OF_PUBLIC) != (self.public > 0):
            raise ValueError(
                f"public must be above 0 for {' and '.join(_OF_PUBLIC)} and 0 for other features,"
                f" got {self.public} for {self.features!r}"
            )
        require_int("seed", self.seed, at_least=0)
        require_finite("keep_class", self.keep_class, at_least=0, at_most=1)

    def load(self) -> LoadedData:
        """Read, draw and transform the data; what was loaded last is there for the next job."""
        kept = _loaded(self, _data_fingerprint(self))
        own = ("evaluation", "labels", "validation", "validation_labels")
        return replace(kept, **{name: getattr(kept, name).copy() for name in own})

    def _read(self) -> LoadedData:
        drawn = {"train": self.train}
        if self.validation:
            drawn["validation"] = self.validation
        if self.public:
            drawn["public"] = self.public
        if self.name == "digits":
            digits = load_digits()
            images = digits.images[:, None].astype(np.float32)
            rows = split_rows(len(images), self.seed, drawn | {"test": self.test})
            parts = {name: (images[r], digits.labels[r]) for name, r in rows.items()}
            classes = len(digits.names)
        else:
            last = "validation" if self.name in TEXT_FILES else "test"
            parts = self._drawn("train", drawn) | self._drawn(last, {"test": self.test})
            classes = len(self._source(last).names)
        transform = self._transform
        if self.public:
            transform = self._fitted(*parts.pop("public"), classes)
        x, y = parts["train"]
        kept = None
        if self.keep_class < 1:
            kept = subsample_class(y, 0, self.keep_class, self.seed)
        training = TrainingData(transform(x), y, classes, kept)
        test, labels = parts["test"]
        validation, validation_labels = training.inputs[:0], y[:0]
        if self.validation:
            validation, validation_labels = parts["validation"]
            validation = transform(validation)
        return LoadedData(
            training, transform(test), labels, validation, validation_labels, self.name
        )

    def _source(self, split: str) -> ImageSet | TextSet:
        return load_sst2(split) if self.name in TEXT_FILES else load_images(self.name, split)

    def _drawn(self, split: str, sizes: dict[str, int]) -> dict[str, tuple[Any, np.ndarray]]:
        source = self._source(split)
        texts = isinstance(source, TextSet)
        groups = None if texts else source.groups
        parts = {}
        for name, rows in split_rows(len(source), self.seed, sizes, groups=groups).items():
            rows = np.sort(rows)
            inputs = [source.texts[i] for i in rows] if texts else source.as_float(rows)
            parts[name] = inputs, np.asarray(source.labels[rows])
        return parts

    def _transform(self, images: Any) -> np.ndarray:
        if self.features == "tokens":
            return tokens_of(images, self.tokens)
        if self.features == "words":
            return hashed_words(images)
        if self.features == "images":
            return images
        return images.reshape(len(images), -1)

    def _fitted(
        self, images: np.ndarray, labels: np.ndarray, classes: int
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The transform that is fitted to public images."""
        if self.features == "patches":
            filters = fit_patches(images, seed=self.seed)
            settings = {name: fingerprint_of(array) for name, array in vars(filters).items()}
            return lambda x: _kept(
                "patches", x, settings, lambda: standardised(patch_features(x, filters))
            )
        training = TrainingData(images, labels, classes)
        options = {"epochs": _PASSES, "seed": self.seed}
        network = cache(lambda: trained_plainly(training, images[:1], **options))
        settings = {"images": fingerprint_of(images), "labels": fingerprint_of(labels)}
        settings |= {name: str(value) for name, value in options.items()}
        settings["code"] = needed("lib.training.predict").fingerprint()
        return lambda x: _kept("network", x, settings, lambda: features_of(network(), x))


def _kept(
    name: str, images: np.ndarray, settings: dict[str, str], compute: Callable[[], np.ndarray]
) -> np.ndarray:
    """Features of images, computed once, a flat row an image."""
    found = cached_features(name, fingerprint_of(images), settings, compute)
    return np.asarray(found, dtype=np.float32).reshape(len(images), -1)


@lru_cache(maxsize=1)
def _loaded(spec: DataSpec, content: str) -> LoadedData:
    """The data of a specification whose sources have this content."""
    return spec._read()


class OnData:
    """Jobs that read what their ``data``, a :class:`DataSpec`, name."""

    def data_fingerprint(self) -> str:
        """Fingerprint of what the training runs read."""
        return _data_fingerprint(self.data)


@dataclass(frozen=True)
class Training(OnData):
    """One model as a job.

    Attributes
    ----------
    config : TrainingConfig
        The training.
    data : DataSpec
        Its data.
    save_every : int, optional
        Steps between two saves of the state; by default as often as one is due.
    keep_parameters : bool
        Whether the final parameters are stored.
    """

    config: TrainingConfig
    data: DataSpec
    save_every: int | None = None
    keep_parameters: bool = False

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train, resuming from a checkpoint if there is one."""
        data = self.data.load()
        result = train(
            self.config,
            data.training,
            data.evaluation,
            checkpoint=checkpoint,
            save_every=self.save_every,
        )
        arrays = {"logits": result.logits, "checkpoints": result.checkpoints, "labels": data.labels}
        if self.keep_parameters:
            arrays["parameters"] = result.parameters
        return Outcome(arrays, _metrics(result, data, data.labels), _privacy(result))


#: Arrays of some models and what else is recorded of them, an entry a model.
Chunk = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def in_chunks(
    checkpoint: Checkpoint, count: int, chunk: int, train_some: Callable[[range, Checkpoint], Chunk]
) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Arrays and records of all models, going on where models were saved, finished or not."""
    kept: dict[str, list[np.ndarray]] = {}
    records: list[dict[str, Any]] = []
    saved = checkpoint.load()
    if saved is not None:
        kept = {name: list(array) for name, array in saved[0].items()}
        records = saved[1]["records"]
    while len(records) < count:
        part = checkpoint.part(first := len(records))
        rows, new = train_some(range(first, min(first + chunk, count)), part)
        for row in rows:
            for name, value in row.items():
                kept.setdefault(name, []).append(value)
        records += new
        if len(records) < count:
            arrays = {name: np.stack(each) for name, each in kept.items()}
            checkpoint.save(arrays, {"records": records, "done": len(records)})
            part.clear()
    return {name: np.stack(each) for name, each in kept.items()}, records


@dataclass(frozen=True)
class ManyTrainings(OnData):
    """Many models as one job.

    Attributes
    ----------
    configs : tuple of TrainingConfig
        The training runs.
    data : DataSpec
        Their data.
    chunk : int
        Models trained between two saves of the state.
    points : {"test", "validation"}
        What the models are evaluated on.
    dropout_passes : int
        Random sub-networks of Monte-Carlo dropout, 0 for none.
    averages : tuple of float
        Parts of the checkpoints to average, see :func:`lib.training.predict.averages`; the
        configurations then keep ``"weights"``, of which predicted classes are stored.

    Notes
    -----
    The arrays of the outcome: ``logits`` (models, n, classes), ``checkpoints`` (models, t, ...),
    ``labels`` (n,); ``outputs`` (models, n, outputs) where the models have a head of their own;
    ``dropout`` (models, n, classes), the mean probabilities of the sub-networks;
    ``of_parameters`` and ``of_probabilities`` (models, averages, n, classes).
    """

    configs: tuple[TrainingConfig, ...]
    data: DataSpec
    chunk: int = 64
    points: str = "test"
    dropout_passes: int = 0
    averages: tuple[float, ...] = ()

    def __post_init__(self):
        require_int("chunk", self.chunk, at_least=1)
        require_choice("points", self.points, POINTS)
        require_int("dropout_passes", self.dropout_passes, at_least=0)
        if self.points == "validation" and not self.data.validation:
            raise ValueError("points must be 'test' where data have no validation points")

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train all models, going on where some were saved."""
        data = self.data.load()
        points, labels = data.evaluation, data.labels
        if self.points == "validation":
            points, labels = data.validation, data.validation_labels

        def some(part: range, saved: Checkpoint) -> Chunk:
            configs = self.configs[part.start : part.stop]
            results = train_many(configs, data.training, points, checkpoint=saved)
            records = [
                {"metrics": _metrics(result, data, labels), "privacy": _privacy(result)}
                for result in results
            ]
            return [self._arrays(result, points) for result in results], records

        chunk = models_at_once(self.configs[0].model, self.chunk)
        arrays, records = in_chunks(checkpoint, len(self.configs), chunk, some)
        return Outcome(
            arrays | {"labels": labels},
            {"models": [each["metrics"] for each in records]},
            {"models": [each["privacy"] for each in records]},
        )

    def _arrays(self, result: TrainingResult, points: np.ndarray) -> dict[str, np.ndarray]:
        arrays = {"logits": result.logits, "checkpoints": result.checkpoints}
        if result.config.model.head != "plain":
            arrays["outputs"] = outputs_of(result, points)
        if self.dropout_passes:
            seed = result.config.seed
            arrays["dropout"] = dropout_probabilities(result, points, self.dropout_passes, seed)
        if self.averages:
            arrays |= averages(result, points, self.averages)
        return arrays


def fingerprint_of(array: np.ndarray) -> str:
    """SHA-256 of an array's shape, type and bytes."""
    array = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{array.shape}{array.dtype}".encode())
    digest.update(array.data)
    return digest.hexdigest()


def _data_fingerprint(spec: DataSpec) -> str:
    """Of the sources: the draw itself is part of the configuration and of the code."""
    if spec.name == "digits":
        digits = load_digits()
        return fingerprint([fingerprint_of(digits.images), fingerprint_of(digits.labels)])
    if spec.name in TEXT_FILES:
        splits = map(load_sst2, TEXT_FILES[spec.name])
        return fingerprint([[s.texts, s.labels.tolist()] for s in splits])
    return fingerprint([load_images(spec.name, split).fingerprint for split in ("train", "test")])


def _metrics(result: TrainingResult, data: LoadedData, labels: np.ndarray) -> dict[str, Any]:
    return {
        "accuracy": result.accuracy(labels),
        "training_examples": len(data.training),
        "rare_examples": _of_class_0(data.training),
        "training_seconds": result.seconds,
        "engine": result.engine,
    }


def _of_class_0(data: TrainingData) -> int:
    """Training rows of class 0, the one that ``keep_class`` thins."""
    targets = data.targets[data.rows]
    return int(np.count_nonzero((targets.argmax(1) if data.soft else targets) == 0))


def _privacy(result: TrainingResult) -> dict[str, Any]:
    epsilon = result.epsilon
    return {
        "epsilon": "Infinity" if math.isinf(epsilon) else epsilon,
        "delta": result.plan.delta,
        "accountant": result.config.accountant,
        "ledger": result.ledger.to_dict(),
    }
