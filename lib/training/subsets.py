"""Many models, each trained on its own part of one data set: shadow and target models."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lib.check import as_matrix, require_int
from lib.data.splits import as_classes
from lib.runs import Checkpoint, Outcome
from lib.training.config import TrainingConfig, TrainingData
from lib.training.jobs import Chunk, DataSpec, LoadedData, OnData, _privacy, in_chunks
from lib.training.many import train_many
from lib.training.memory import models_at_once


@dataclass(frozen=True)
class SubsetTrainings(OnData):
    """Models that each train on some of the training points, chosen at random.

    Every training point is in with probability 1/2, by a coin of its own.  Without `challenges`
    (shadow models) that is all.  With them (target models), model i is asked about one of the
    challenge points z, at random, and z's coin is the challenge bit (P3, Experiment 2).

    Attributes
    ----------
    config : TrainingConfig
        Of all; model i has its seed plus i.  `sample_rate` and `delta` must be given: they may not
        depend on b.
    data : DataSpec
        The points.
    n_models : int
        How many, from number `first` on: models do not depend on how they are spread over jobs.
    canaries : int
        Number of training points that get a wrong label, in all models alike (:func:`relabel`).
    challenges : tuple of int
        Places of the challenge points among the training points.
    seed : int
        Of subsets, challenges and coins.
    keep_parameters : bool
        Whether the final parameters are stored.
    first : int
        Number of the first model.
    chunk : int
        Models trained between two saves of the state.

    Notes
    -----
    The arrays of the outcome: ``confidence``, (models, n) for shadow models and (models,) for
    targets, at their challenge point (:func:`confidence`); ``members`` of the same shape;
    ``challenge`` (models,), an index into `challenges`; ``parameters``; ``correct`` (models,), the
    fraction of right answers on the evaluation points.
    """

    config: TrainingConfig
    data: DataSpec
    n_models: int
    canaries: int = 0
    challenges: tuple[int, ...] = ()
    seed: int = 0
    keep_parameters: bool = False
    first: int = 0
    chunk: int = 128
    private = True  # it says who was a member

    def __post_init__(self):
        require_int("n_models", self.n_models, at_least=1)
        require_int("canaries", self.canaries, at_least=0, at_most=self.data.train)
        require_int("seed", self.seed, at_least=0)
        require_int("first", self.first, at_least=0)
        require_int("chunk", self.chunk, at_least=1)
        for place in self.challenges:
            require_int("challenges", place, at_least=0, at_most=self.data.train - 1)
        if self.config.sample_rate is None or self.config.delta is None:
            raise ValueError(
                "config must give sample_rate and delta, got"
                f" {self.config.sample_rate!r} and {self.config.delta!r}"
            )

    def drawn(self, i: int) -> tuple[npt.NDArray[np.bool_], int]:
        """Which points are in, and the challenge (an index; -1 for shadow models), of a model."""
        purpose = 1 if self.challenges else 0
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, purpose, i]))
        coins = rng.integers(0, 2, self.data.train).astype(bool)
        return coins, int(rng.integers(len(self.challenges))) if self.challenges else -1

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train all models, going on where some were saved."""
        loaded = self.data.load()
        data = relabel(loaded.training, self.canaries, self.seed)
        points, labels = self._points(data, loaded)

        def some(part: range, saved: Checkpoint) -> Chunk:
            numbers = [self.first + i for i in part]
            draws = [self.drawn(i) for i in numbers]
            results = train_many(
                [replace(self.config, seed=self.config.seed + i) for i in numbers],
                [data.subset(np.flatnonzero(coins)) for coins, _ in draws],
                points,
                checkpoint=saved,
            )
            rows = [
                self._arrays(result, labels, *drawn)
                for result, drawn in zip(results, draws, strict=True)
            ]
            return rows, [{"seconds": r.seconds, "privacy": _privacy(r)} for r in results]

        chunk = models_at_once(self.config.model, self.chunk)
        arrays, records = in_chunks(checkpoint, self.n_models, chunk, some)
        metrics = {
            "accuracy": float(arrays["correct"].mean()),
            "training_seconds": sum(each["seconds"] for each in records),
        }
        return Outcome(arrays, metrics, records[0]["privacy"])

    def _points(self, data: TrainingData, loaded: LoadedData):
        """What models are evaluated on: the points that are asked about, then the test points."""
        asked = slice(None) if not self.challenges else list(self.challenges)
        return (
            np.concatenate([data.inputs[asked], loaded.evaluation]),
            np.concatenate([data.targets[asked], loaded.labels]),
        )

    def _arrays(self, result, labels, coins, which: int) -> dict[str, np.ndarray]:
        asked = len(self.challenges) or self.data.train
        sure = confidence(result.logits[:asked], labels[:asked])
        correct = (result.logits[asked:].argmax(1) == labels[asked:]).mean()
        arrays = {"correct": np.float64(correct), "confidence": sure, "members": coins}
        if self.challenges:
            arrays["confidence"] = sure[which]
            arrays["members"] = coins[self.challenges[which]]
            arrays["challenge"] = np.int64(which)
        if self.keep_parameters:
            arrays["parameters"] = result.parameters
        return arrays


def confidence(logits: npt.ArrayLike, labels: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Logit-scaled confidence in a label: log(p / (1 - p)).

    Parameters
    ----------
    logits : array_like of float, shape (n, classes)
        Of a model.
    labels : array_like of int, shape (n,)
        The labels.

    Returns
    -------
    ndarray of float32, shape (n,)
        Without cancellation where p is near 0 or 1: the logit of the label minus the logarithm of
        the summed exponentials of all others.

    References
    ----------
    Carlini et al. (2022), Membership inference attacks from first principles, section VI-A.
    """
    logits = as_matrix("logits", logits)
    if logits.shape[1] < 2:
        raise ValueError(f"logits must be of two classes at least, got shape {logits.shape}")
    labels = as_classes("labels", labels, *logits.shape)
    rows = np.arange(len(logits))
    own = logits[rows, labels]
    others = logits.copy()
    # log(p / (1 - p)) is the own logit less the log of the sum over all others: p is never formed.
    others[rows, labels] = -np.inf
    top = others.max(axis=1)
    rest = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
    return (own - rest).astype(np.float32)


def relabel(data: TrainingData, count: int, seed: int) -> TrainingData:
    """Give some points a wrong label: canaries.

    Parameters
    ----------
    data : TrainingData
        With classes as targets.
    count : int
        How many, at most all.
    seed : int
        Of the labels.

    Returns
    -------
    TrainingData
        The same inputs; the last `count` points have a wrong label, each equally likely.
    """
    if data.soft:
        raise ValueError("data must have classes as targets, got distributions")
    require_int("count", count, at_least=0, at_most=len(data.inputs))
    require_int("seed", seed, at_least=0)
    rng = np.random.default_rng([seed, 2, 1])  # not a stream of the shadow or target models
    targets = data.targets.copy()
    if count:
        # 1 to C - 1 classes further round: never the right one, and each wrong one alike.
        shift = rng.integers(1, data.classes, count)
        targets[-count:] = (targets[-count:] + shift) % data.classes
    return data.with_targets(targets)
