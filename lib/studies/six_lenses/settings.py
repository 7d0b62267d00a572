"""What is trained: one configuration that all lenses share."""

import math
from dataclasses import dataclass, replace
from typing import Any

from lib.studies.default_problem import at_hand, default_problem, with_training
from lib.training import DataSpec, TrainingConfig

#: What is trained on the digits, in whose place they stand where other data are not there.
DIGITS = {"model": "mlp", "points": 900, "validation": 297, "test": 600, "hidden": 32, "epochs": 0}
DIGITS |= {"activation": "tanh", "batch_size": 128, "steps": 100, "clipping_norm": 1.0}
DIGITS |= {"learning_rate": 2.0, "plain_learning_rate": 1.0, "plain_steps": 400}
DIGITS |= {"schedule": "constant"}

_DEFAULTS = {"hidden": 32, "activation": "tanh", "epsilon": 8.0, "delta": 1e-5, "steps": 100}
_DEFAULTS |= {"model": "mlp", "learning_rate": 2.0}

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
    plain_steps: int = 400  # Of the competitor, which is trained without clipping and noise
    plain_learning_rate: float = 1.0
    seed: int = 0  # Of everything

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


def settings_for(dataset: str, *, seed: int = 0, **given: Any) -> LensSettings:
    """The settings for a data set of the book, or for the digits where it is not there."""
    given = _DEFAULTS | given
    if at_hand(dataset) != dataset:
        dataset, given = "digits", given | DIGITS
    sizes = {"train": given.pop("points")} | {n: given.pop(n) for n in ("validation", "test")}
    shape = {name: given.pop(name) for name in ("hidden", "activation")}
    data_spec, model = default_problem(dataset, given.pop("model"), **sizes, **shape, seed=seed)
    return with_training(LensSettings, data_spec, model, given | {"seed": seed})
