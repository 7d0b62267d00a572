"""States of unfinished training runs: what every engine saves, and goes on from."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lib.privacy.accounting import PrivacyLedger, SampledGaussian
from lib.runs.checkpoint import Checkpoint, generator_state, restore_generator
from lib.training.config import Plan, TrainingConfig, TrainingData

#: A training: what is trained, on what, by which mechanism.
Work = tuple[TrainingConfig, TrainingData, Plan]


def spent(config: TrainingConfig, mechanism: Plan, steps: int) -> PrivacyLedger:
    """The ledger after some steps."""
    return PrivacyLedger(
        (SampledGaussian(mechanism.sample_rate, mechanism.effective_noise_multiplier, steps),)
    )


def identity(engine: str, work: Sequence[Work], points: np.ndarray) -> list[str]:
    """All that decides about the results of training runs that advance together."""
    digest = hashlib.sha256(f"{points.shape}".encode())
    digest.update(np.ascontiguousarray(points).data)
    where = f"{engine} {digest.hexdigest()}"
    return [f"{where} {config!r} {plan!r} {data.fingerprint}" for config, data, plan in work]


def save_state(
    checkpoint: Checkpoint,
    trainings: Callable[[], list[str]],
    streams: Sequence[Any],
    step: int,
    arrays: Mapping[str, np.ndarray],
    kept: Sequence[np.ndarray],
    seconds: float,
) -> None:
    """Save what was done in so many seconds; the streams name their own generators."""
    if kept:
        arrays = {**arrays, "kept": np.stack(kept)}
    state = {
        "trainings": trainings(),
        "seconds": seconds,
        "step": step,
        "streams": [
            {name: generator_state(getattr(each, name)) for name in each.names} for each in streams
        ],
    }
    checkpoint.save(arrays, state)


def load_state(
    checkpoint: Checkpoint, trainings: Callable[[], list[str]], streams: Sequence[Any]
) -> tuple[int, dict[str, np.ndarray], list[np.ndarray], float] | None:
    """Step, arrays, what was kept, and seconds; sets the streams.  None if nothing was saved."""
    found = checkpoint.load()
    if found is None:
        return None
    arrays, state = found
    if state.get("trainings") != trainings():
        raise ValueError(
            "checkpoint must be of this training, but another configuration or other data were"
            f" saved in {checkpoint.path}: remove the file or name another folder"
        )
    for each, content in zip(streams, state["streams"], strict=True):
        for name in each.names:
            setattr(each, name, restore_generator(content[name]))
    return state["step"], arrays, list(arrays.pop("kept", ())), state["seconds"]


def took_long(started: float) -> bool:
    """Whether what began then, by ``time.perf_counter``, is worth a save when it is finished."""
    return time.perf_counter() - started > 1
