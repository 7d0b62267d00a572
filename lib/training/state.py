"""States of unfinished trainings: what every engine saves, and goes on from."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lib.privacy.accounting import PrivacyLedger, SampledGaussian
from lib.runs.checkpoint import Checkpoint, generator_state, restore_generator
from lib.training.config import Plan, TrainingConfig, TrainingData
from lib.training.randomness import Streams

#: A training: what is trained, on what, by which mechanism.
Work = tuple[TrainingConfig, TrainingData, Plan]


def spent(config: TrainingConfig, mechanism: Plan, steps: int) -> PrivacyLedger:
    """The ledger after some steps."""
    return PrivacyLedger(
        (SampledGaussian(mechanism.sample_rate, mechanism.effective_noise_multiplier, steps),)
    )


def save_state(
    checkpoint: Checkpoint,
    work: Sequence[Work],
    streams: Sequence[Streams],
    step: int,
    arrays: Mapping[str, np.ndarray],
    kept: Sequence[np.ndarray],
) -> None:
    """Save one training, or several that advance together."""
    if kept:
        arrays = {**arrays, "kept": np.stack(kept)}
    state = {
        "trainings": [_identity(config, data) for config, data, _ in work],
        "ledgers": [spent(config, plan, step).to_dict() for config, _, plan in work],
        "step": step,
        "streams": [
            {name: generator_state(getattr(each, name)) for name in Streams.names}
            for each in streams
        ],
    }
    checkpoint.save(arrays, state)


def load_state(
    checkpoint: Checkpoint, work: Sequence[Work], streams: Sequence[Streams]
) -> tuple[int, dict[str, np.ndarray], list[np.ndarray]] | None:
    """Step, arrays and what was kept; sets the streams.  None if nothing was saved.

    Raises
    ------
    ValueError
        If other trainings were saved there.
    """
    found = checkpoint.load()
    if found is None:
        return None
    arrays, state = found
    step: Any = state.get("step")
    ledgers = [spent(config, plan, step).to_dict() for config, _, plan in work]
    trainings = [_identity(config, data) for config, data, _ in work]
    if state.get("trainings") != trainings or state.get("ledgers") != ledgers:
        raise ValueError(
            "checkpoint must be of this training, but another configuration or other data were"
            f" saved in {checkpoint.path}: remove the file or name another folder"
        )
    for each, content in zip(streams, state["streams"], strict=True):
        for name in Streams.names:
            setattr(each, name, restore_generator(content[name]))
    return step, arrays, list(arrays.pop("kept", ()))


def took_long(started: float) -> bool:
    """Whether what began then, by ``time.monotonic``, is worth a save when it is finished."""
    return time.monotonic() - started > 5


def _identity(config: TrainingConfig, data: TrainingData) -> str:
    return f"{config!r} {data.fingerprint}"
