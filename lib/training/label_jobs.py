"""Training runs with label differential privacy as jobs for :mod:`lib.runs`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.check import require_choice, require_finite, require_int
from lib.privacy.labels import (
    GaussianLabels,
    LaplaceLabels,
    RandomizedResponse,
    multi_stage_parts,
    project_to_simplex,
    rr_with_prior,
)
from lib.privacy.pate import confident_gnmax, pate_epsilon, shards, vote_histogram
from lib.privacy.smooth import publish_epsilon
from lib.runs import Checkpoint, Outcome, run_all
from lib.training.config import TrainingConfig, TrainingData
from lib.training.fixmatch import FixMatch, train_fixmatch
from lib.training.jobs import Chunk, DataSpec, OnData, _privacy, in_chunks
from lib.training.many import train_many
from lib.training.memory import models_at_once
from lib.training.objectives import CrossEntropy, PosteriorTargets
from lib.training.subsets import relabel

READINGS = ("posterior", "projection", "labels")


class LabelChange(Protocol):
    """What changes training labels before anything reads them: inserted canaries, say.

    A frozen dataclass, so that a job that holds one has a fingerprint.
    """

    def apply(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the changed labels."""
        ...

    def watched(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows whose predictions are to be recorded."""
        ...


@dataclass(frozen=True)
class LabelTrainings(OnData):
    """Models trained on labels that a mechanism has randomized once.

    Attributes
    ----------
    config : TrainingConfig
        Of all models, without privacy of its own where there is a mechanism; model i has its seed
        plus i, and fresh noise on the labels.
    data : DataSpec
        The points.
    mechanism : LaplaceLabels, GaussianLabels, RandomizedResponse or None
        What randomizes the labels; None is training on the labels as they are.
    changes : tuple of LabelChange
        One a model: what happens to the labels before.
    reading : {"posterior", "projection", "labels"}
        What the observations are trained on as: likelihoods for the posterior with the model's own
        prediction as prior (ALIBI, AGIBI; P5, Algorithm 3); the nearest distributions (P5,
        Algorithm 4); or, for randomized response, plain labels.
    stages : int
        Above 1: LP-MST of Ghazi et al. 2021 (randomized response, read as labels).  Stage t
        randomizes its part of the labels with the model of the stages before as prior.
    seed : int
        Of the noise on the labels and of the stages' parts.

    Notes
    -----
    The arrays of the outcome: ``watched`` (models, t, w, classes), predicted probabilities at the
    watched rows at all checkpoints; ``logits`` (models, w, classes) there in the end; ``rows``
    (models, w); ``accuracy`` (models,) on the test points.
    """

    config: TrainingConfig
    data: DataSpec
    mechanism: LaplaceLabels | GaussianLabels | RandomizedResponse | None
    changes: tuple[Any, ...]
    reading: str = "posterior"
    stages: int = 1
    seed: int = 0
    private = True  # its rows say which training examples are watched

    def __post_init__(self):
        if self.config.private and self.mechanism is not None:
            raise ValueError("config must train without privacy of its own: the labels have theirs")
        if not self.changes:
            raise ValueError("changes must hold one entry per model, got none")
        require_choice("reading", self.reading, READINGS)
        require_int("stages", self.stages, at_least=1)
        require_int("seed", self.seed, at_least=0)
        response = isinstance(self.mechanism, RandomizedResponse)
        if self.reading == "labels" and not (response or self.mechanism is None):
            raise ValueError(
                f"reading must be 'posterior' or 'projection' for {self.mechanism!r}, got 'labels'"
            )
        if self.stages > 1 and not (response and self.reading == "labels"):
            raise ValueError(
                f"stages must be 1 unless labels of randomised response are read, got {self.stages}"
            )

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Randomize the labels of each model, train all models at once."""
        loaded = self.data.load()
        data, n = loaded.training, len(loaded.training.inputs)
        truth = np.asarray(data.targets)
        labels = [each.apply(truth) for each in self.changes]
        rows = np.stack([each.watched(truth) for each in self.changes])
        rngs = [
            np.random.default_rng(np.random.SeedSequence([self.seed, 5, i]))
            for i in range(len(labels))
        ]
        points = np.concatenate([data.inputs, loaded.evaluation])
        if self.stages == 1:
            sets = [
                self._randomised(data, each, rng) for each, rng in zip(labels, rngs, strict=True)
            ]
            results = self._train(sets, points, checkpoint)
        else:
            results = self._in_stages(data, labels, rngs, points, checkpoint)
        watched, logits, accuracy = [], [], []
        for result, where in zip(results, rows, strict=True):
            watched.append(result.checkpoints[:, where])
            logits.append(result.logits[where])
            accuracy.append(float((result.logits[n:].argmax(1) == loaded.labels).mean()))
        arrays = {
            "watched": np.stack(watched).astype(np.float32),
            "logits": np.stack(logits),
            "rows": rows,
            "accuracy": np.array(accuracy),
        }
        seconds = sum(result.seconds for result in results)
        metrics = {"accuracy": float(np.mean(accuracy)), "training_seconds": seconds}
        privacy = {"mechanism": repr(self.mechanism), "unit": "one label"}
        if self.config.private:
            privacy = _privacy(results[0])
        return Outcome(arrays, metrics, privacy)

    def _randomised(
        self, data: TrainingData, labels: np.ndarray, rng: np.random.Generator
    ) -> TrainingData:
        if self.mechanism is None:
            return data.with_targets(labels)
        observed = self.mechanism.observe(labels, data.classes, rng)
        if self.reading == "labels":
            return data.with_targets(observed.argmax(axis=1))
        if self.reading == "projection":
            return data.with_targets(project_to_simplex(observed))
        return data.with_targets(self.mechanism.likelihood(observed))

    def _train(
        self,
        sets: Sequence[TrainingData],
        points: np.ndarray,
        checkpoint: Checkpoint,
        stage: int = 0,
    ) -> list:
        bayes = self.reading == "posterior" and self.mechanism is not None
        # Stages of one model must not share the initial parameters.
        first = self.config.seed + stage * len(sets)
        configs = [
            replace(
                self.config,
                objective=PosteriorTargets() if bayes else CrossEntropy(),
                keep="probabilities",
                seed=first + i,
            )
            for i in range(len(sets))
        ]
        return train_many(configs, list(sets), points, checkpoint=checkpoint.part(stage))

    def _in_stages(self, data, labels, rngs, points, checkpoint) -> list:
        parts = multi_stage_parts(len(data.inputs), self.stages, self.seed)
        priors = [np.full((len(data.inputs), data.classes), 1.0)] * len(labels)
        noisy = [np.zeros(len(data.inputs), np.int64) for _ in labels]
        results: list = []
        for stage, part in enumerate(parts):
            for mine, true, prior, rng in zip(noisy, labels, priors, rngs, strict=True):
                epsilon = self.mechanism.pure_epsilon
                mine[part], _ = rr_with_prior(true[part], prior[part], epsilon, rng)
            known = np.sort(np.concatenate(parts[: stage + 1]))
            sets = [data.with_targets(mine.copy()).subset(known) for mine in noisy]
            results = self._train(sets, points, checkpoint, stage)
            priors = [r.checkpoints[-1, : len(data.inputs)].astype(float) for r in results]
        return results


@dataclass(frozen=True)
class Teachers(OnData):
    """PATE-FM's teachers as a job: FixMatch on disjoint labeled shards, with all images.

    Attributes
    ----------
    config : FixMatch
        Of all; teacher i has its seed plus i.
    data : DataSpec
        Images (``features="images"``, all classes kept).
    n_teachers : int
        How many; each has about the same number of labels.
    canaries : int
        Number of training points (the last ones) that get a wrong label, see
        :func:`lib.training.relabel`.
    canary_seed : int
        Of these labels.
    label_noise : object, optional
        A frozen dataclass with a method ``apply(labels) -> labels``, which replaces the training
        labels (canaries' included).
    shard_seed : int
        Of the shards, see :func:`lib.privacy.pate.shards`.
    chunk : int
        Teachers trained between two saves of the state.

    Notes
    -----
    The arrays of the outcome: ``predictions`` (teachers, n_train) and ``test_predictions``
    (teachers, n_test) of int16, the classes that each teacher votes for; ``accuracy`` (teachers,)
    on the test points; ``pseudo_share`` (teachers,), see ``FixMatchResult``.
    """

    config: FixMatch
    data: DataSpec
    n_teachers: int
    canaries: int = 0
    canary_seed: int = 0
    label_noise: object | None = None
    shard_seed: int = 0
    chunk: int = 50

    def __post_init__(self):
        if self.data.features != "images" or self.data.keep_class < 1:
            raise ValueError(
                "data must have features 'images' and keep_class 1, got"
                f" {self.data.features!r} and {self.data.keep_class!r}"
            )
        require_int("n_teachers", self.n_teachers, at_least=1, at_most=self.data.train)
        require_int("canaries", self.canaries, at_least=0, at_most=self.data.train)
        require_int("canary_seed", self.canary_seed, at_least=0)
        if self.label_noise is not None and not callable(getattr(self.label_noise, "apply", None)):
            raise ValueError(
                f"label_noise must be None or have a method apply, got {self.label_noise!r}"
            )
        require_int("shard_seed", self.shard_seed, at_least=0)
        require_int("chunk", self.chunk, at_least=1)

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train all teachers, going on where some were saved."""
        loaded = self.data.load()
        training = relabel(loaded.training, self.canaries, self.canary_seed)
        images, n = training.inputs, len(training.inputs)
        labels = training.targets
        if self.label_noise is not None:
            labels = self.label_noise.apply(labels.copy())
        parts = shards(n, self.n_teachers, self.shard_seed)
        everything = np.concatenate([images, loaded.evaluation])

        def some(numbers: range, saved: Checkpoint) -> Chunk:
            results = train_fixmatch(
                [replace(self.config, seed=self.config.seed + i) for i in numbers],
                images,
                labels,
                [parts[i] for i in numbers],
                np.arange(n),
                everything,
                checkpoint=saved,
            )
            rows = []
            for result in results:
                votes = result.logits.argmax(axis=1).astype(np.int16)
                rows.append(
                    {
                        "predictions": votes[:n],
                        "test_predictions": votes[n:],
                        "accuracy": np.mean(votes[n:] == loaded.labels),
                        "pseudo_share": np.float64(result.pseudo_share),
                    }
                )
            return rows, [{"seconds": result.seconds} for result in results]

        chunk = models_at_once(self.config.model, self.chunk)
        arrays, records = in_chunks(checkpoint, self.n_teachers, chunk, some)
        metrics = {
            "accuracy": float(arrays["accuracy"].mean()),
            "pseudo_share": float(arrays["pseudo_share"].mean()),
            "training_seconds": sum(each["seconds"] for each in records),
        }
        return Outcome(arrays, metrics)


@dataclass(frozen=True)
class PateStudents:
    """PATE's students: trained on noisy votes of the same teachers, one a setting of the noise.

    Attributes
    ----------
    teachers : Teachers
        The job whose votes are asked for; their label noise must be a :class:`LabelChange`.
    noise : tuple of (float, float, float, int)
        sigma1, sigma2 and the threshold of Confident-GNMax, and after how many answers it stops; a
        tuple for each student.
    student : FixMatch
        Of all; student i has its seed plus i.
    queries : int
        Training images that the teachers are asked about, at random.
    delta : float
        Of the guarantees.
    seed : int
        Of queries and noise.

    Notes
    -----
    The arrays of the outcome: ``watched`` (students, 1, w, classes), ``rows`` (students, w),
    ``accuracy`` (students,), ``ensemble`` (the rate at which the plurality of the teachers is right
    on test points, one number), and per student ``answered``, ``label_accuracy`` (of the answers),
    ``data_dependent`` (epsilon at `delta`, of the questions asked and answered; itself
    private), ``published`` (the same as it may be published, and the limits of its noise's central
    95%), ``votes_unseen`` (without the votes) and ``data_independent`` (of all questions and as
    many answers as allowed).  Without an answer a student cannot be trained: uniform predictions,
    the accuracy of guessing the first class.
    """

    teachers: Teachers
    noise: tuple[tuple[float, float, float, int], ...]
    student: FixMatch
    queries: int
    delta: float = 1e-5
    seed: int = 0

    def __post_init__(self):
        if not self.noise:
            raise ValueError("noise must hold a setting per student, got none")
        require_int("queries", self.queries, at_least=1, at_most=self.teachers.data.train)
        require_finite("delta", self.delta, above=0, below=1)
        require_int("seed", self.seed, at_least=0)
        if not callable(getattr(self.teachers.label_noise, "watched", None)):
            raise ValueError(
                f"teachers.label_noise must be a LabelChange, got {self.teachers.label_noise!r}"
            )

    def data_fingerprint(self) -> str:
        """Fingerprint of what the training runs read."""
        return self.teachers.data_fingerprint()

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Ask the teachers, account for it, train the students."""
        (votes_of,) = run_all([self.teachers])
        loaded = self.teachers.data.load()
        data, n = loaded.training, len(loaded.training.inputs)
        truth = np.asarray(data.targets)
        rows = self.teachers.label_noise.watched(truth)
        order = np.random.default_rng(self.seed).permutation(n)[: self.queries]
        votes = vote_histogram(votes_of.arrays["predictions"][:, order], data.classes)
        known = vote_histogram(votes_of.arrays["test_predictions"], data.classes)
        images = np.concatenate([data.inputs, loaded.evaluation])
        found: dict[str, list] = {}
        seconds = 0.0
        for i, (sigma1, sigma2, threshold, most) in enumerate(self.noise):
            noise_seed = int(np.random.SeedSequence([self.seed, 6, i]).generate_state(1)[0])
            answers = confident_gnmax(votes, sigma1, sigma2, threshold, noise_seed, most)
            spent = (votes, sigma1, sigma2, threshold, self.delta, answers.answered)
            cost = pate_epsilon(*spent, answers.asked)
            release = publish_epsilon(*spent, answers.asked, seed=[self.seed, 7, i])
            # Before anything was asked, only this was sure: all queries, and `most` answers.
            ahead = pate_epsilon(*spent[:-1], np.arange(len(votes)) < most)
            asked = order[answers.answered]
            labels = np.zeros(n, np.int64)
            labels[asked] = answers.labels[answers.answered]
            logits = np.zeros((len(images), data.classes), np.float32)
            if len(asked):
                config = replace(self.student, seed=self.student.seed + i)
                task = [config], data.inputs, labels, [asked], np.arange(n), images
                result = train_fixmatch(*task, checkpoint=checkpoint.part(i))[0]
                logits, seconds = result.logits, seconds + result.seconds
            p = special.softmax(logits, axis=1)
            right = labels[asked] == truth[asked]
            one = {
                "watched": p[rows][None],
                "rows": rows,
                "accuracy": np.mean(logits[n:].argmax(1) == loaded.labels),
                "answered": np.float64(len(asked)),
                "label_accuracy": np.float64(right.mean() if len(asked) else math.nan),
                "data_dependent": np.float64(cost.data_dependent),
                "published": np.array([release.epsilon, release.low, release.high]),
                "votes_unseen": np.float64(cost.data_independent),
                "data_independent": np.float64(ahead.data_independent),
            }
            for name, value in one.items():
                found.setdefault(name, []).append(value)
        arrays = {name: np.stack(each) for name, each in found.items()}
        arrays["ensemble"] = np.float64((known.argmax(axis=1) == loaded.labels).mean())
        metrics = {
            "accuracy": float(arrays["accuracy"].mean()),
            "training_seconds": seconds + votes_of.metrics["training_seconds"],
        }
        return Outcome(arrays, metrics, {"unit": "one label", "delta": self.delta})
