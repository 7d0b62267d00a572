"""What is trained: one configuration that all lenses share."""

import math
from dataclasses import dataclass, replace

from lib.studies.default_problem import default_problem, noise_source
from lib.training import DataSpec, TrainingConfig

# Purposes of training runs: far apart, so that no two models share their noise.
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


def on_digits(epsilon: float, delta: float, device: str, seed: int) -> LensSettings:
    """What stands in where data are not there: the digits, with sizes and rates of their own."""
    data, model = default_problem(
        "digits", "mlp", train=900, validation=297, test=600, hidden=32, seed=seed
    )
    training = TrainingConfig(
        model,
        epsilon=epsilon,
        delta=delta,
        batch_size=128,
        steps=100,
        clipping_norm=1.0,
        learning_rate=2.0,
        device=device,
        noise_source=noise_source(device),
    )
    return LensSettings(data, training, plain_steps=400, plain_learning_rate=1.0, seed=seed)
