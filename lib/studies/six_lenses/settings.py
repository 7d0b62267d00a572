"""What is trained: one configuration that all lenses share."""

import math
from dataclasses import dataclass, replace
from typing import Any

from lib import data
from lib.check import require_finite, require_int
from lib.studies.default_problem import default_problem
from lib.training import DataSpec, ModelSpec, TrainingConfig

#: What is trained on the digits, in whose place they stand where other data are not there.
DIGITS = {
    "points": 900,
    "validation": 297,
    "test": 600,
    "hidden": 32,
    "activation": "tanh",
    "batch_size": 128,
    "steps": 100,
    "clipping_norm": 1.0,
    "learning_rate": 2.0,
    "plain_learning_rate": 1.0,
    "plain_steps": 400,
    "schedule": "constant",
}

# Purposes of trainings: far apart, so that no two models share their noise.
_PURPOSES = ("private", "plain", "audit", "fault", "canaries", "plain canaries")
_STRIDE = 1_000_000


@dataclass(frozen=True)
class LensSettings:
    """The classifier of the chapter, and its competitor.

    Attributes
    ----------
    data : DataSpec
        Training, validation and test points; pixels or patch features.
    model : ModelSpec
        The architecture of both.
    epsilon, delta : float
        Budget for one record, added or removed.
    batch_size : int
        Expected size of a Poisson sample; the sampling probability is this over the number of
        training points, also where an audit adds a record.
    steps, clipping_norm, learning_rate, schedule
        Of the private training.
    plain_steps, plain_learning_rate
        Of the competitor, which is trained without clipping and noise.
    accountant : {"rdp", "prv", "pld"}
        What finds the noise and proves epsilon.
    device : str
        As PyTorch names it.
    physical_batch : int, optional
        Largest number of examples whose gradients are in memory at once.
    seed : int
        Of everything.
    """

    data: DataSpec
    model: ModelSpec
    epsilon: float = 8.0
    delta: float = 1e-5
    batch_size: int = 128
    steps: int = 100
    clipping_norm: float = 1.0
    learning_rate: float = 2.0
    schedule: str = "constant"
    plain_steps: int = 400
    plain_learning_rate: float = 1.0
    accountant: str = "rdp"
    device: str = "cpu"
    physical_batch: int | None = None
    seed: int = 0

    def __post_init__(self):
        require_finite("epsilon", self.epsilon, above=0)
        require_finite("delta", self.delta, above=0, below=1)
        require_int("seed", self.seed, at_least=0)
        require_int("batch_size", self.batch_size, at_least=1, at_most=self.data.train // 2)
        if self.data.features not in ("pixels", "patches"):
            raise ValueError(
                f"data must have pixels or patches as features, got {self.data.features!r}"
            )
        for name, least in (("validation", 40), ("test", 40)):
            if getattr(self.data, name) < least:
                raise ValueError(
                    f"data must have at least {least} {name} points, got {getattr(self.data, name)}"
                )

    def config(self, purpose: str = "private") -> TrainingConfig:
        """The training for a purpose; those with the same purpose differ in the seed."""
        if purpose not in _PURPOSES:
            raise ValueError(f"purpose must be one of {', '.join(_PURPOSES)}, got {purpose!r}")
        config = TrainingConfig(
            model=self.model,
            epsilon=self.epsilon,
            delta=self.delta,
            clipping_norm=self.clipping_norm,
            accountant=self.accountant,
            batch_size=self.batch_size,
            sample_rate=self.batch_size / self.data.train,
            steps=self.steps,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            seed=_STRIDE * (len(_PURPOSES) * self.seed + _PURPOSES.index(purpose)),
            device=self.device,
            physical_batch=self.physical_batch,
        )
        if not purpose.startswith("plain"):
            return config
        return replace(
            config,
            epsilon=math.inf,
            steps=self.plain_steps,
            learning_rate=self.plain_learning_rate,
        )


def available(dataset: str) -> bool:
    """Whether a set of images can be had here: the digits always can."""
    if dataset not in data.IMAGE_SETS:
        raise ValueError(
            f"dataset must be one of {', '.join(sorted(data.IMAGE_SETS))}, got {dataset!r}"
        )
    return dataset == "digits" or all(data.available(n) for n in data.image_files(dataset))


def settings_for(
    dataset: str,
    *,
    points: int,
    validation: int,
    test: int,
    hidden: int = 32,
    activation: str = "tanh",
    seed: int = 0,
    **others: Any,
) -> LensSettings:
    """The settings for a data set of the book, or for the digits where it is not there."""
    given = {
        "points": points,
        "validation": validation,
        "test": test,
        "hidden": hidden,
        "activation": activation,
    } | others
    if not available(dataset):
        dataset, given = "digits", given | DIGITS
    sizes = {"train": given.pop("points")} | {n: given.pop(n) for n in ("validation", "test")}
    shape = {name: given.pop(name) for name in ("hidden", "activation")}
    spec, model = default_problem(dataset, "mlp", **sizes, **shape, seed=seed)
    return LensSettings(spec, model, seed=seed, **given)
