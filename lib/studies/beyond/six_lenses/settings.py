"""What is trained: one configuration that all lenses share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lib.studies.default_problem import at_hand, default_problem, with_training
from lib.training import DataSpec, TrainingConfig

#: What is trained on the digits, in whose place they stand where other data are not there.
DIGITS = {"model": "mlp", "points": 900, "validation": 297, "test": 600, "hidden": 32, "epochs": 0}
DIGITS |= {"activation": "tanh", "batch_size": 128, "steps": 100, "clipping_norm": 1.0}
DIGITS |= {"learning_rate": 2.0, "plain_learning_rate": 1.0, "plain_steps": 400}
DIGITS |= {"schedule": "constant"}

# Purposes of trainings: far apart, so that no two models share their noise.
_PURPOSES = ("private", "plain", "audit", "fault", "canaries", "plain canaries")
_STRIDE = 1_000_000


@dataclass(frozen=True)
class LensSettings:
    """The classifier of the chapter, and its competitor."""

    data: DataSpec  # Training, validation and test points; images, pixels or patch features
    # The private training, with the delta for one record, added or removed.  Its samples' rate is
    # the batch size over the number of training points, also where an audit adds a record.
    training: TrainingConfig
    plain_steps: int  # Of the competitor, which is trained without clipping and noise
    plain_learning_rate: float
    seed: int  # Of everything

    def config(self, purpose: str = "private") -> TrainingConfig:
        """The training for a purpose; those with the same purpose differ in the seed."""
        config = replace(
            self.training,
            sample_rate=self.training.batch_size / self.data.train,
            seed=_STRIDE * (len(_PURPOSES) * self.seed + _PURPOSES.index(purpose)),
        )
        if purpose.startswith("plain"):
            config = replace(config, epsilon=math.inf, steps=self.plain_steps)
            config = replace(config, learning_rate=self.plain_learning_rate)
        return config


def settings_from(parameters: Mapping[str, Any]) -> LensSettings:
    """The settings of a chapter's parameters, for the digits where its data are not there."""
    names = (*DIGITS, "epsilon", "delta", "device", "seed")
    dataset, given = parameters["dataset"], {name: parameters[name] for name in names}
    if at_hand(dataset) != dataset:
        dataset, given = "digits", given | DIGITS
    sizes = {"train": given.pop("points")} | {n: given.pop(n) for n in ("validation", "test")}
    shape = {name: given.pop(name) for name in ("hidden", "activation")}
    model = given.pop("model")
    data, spec = default_problem(dataset, model, **sizes, **shape, seed=given["seed"])
    return with_training(LensSettings, data, spec, given)
