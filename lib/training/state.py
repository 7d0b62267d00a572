"""States of unfinished trainings: what every engine saves, and goes on from."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True, eq=False)
class Task:
    """One training, or several that advance together: what a saved state must agree with."""

    engine: str
    work: Sequence[Work]
    points: np.ndarray  # That models are evaluated on

    @cached_property
    def identity(self) -> list[str]:
        """Of all that decides about the result."""
        digest = hashlib.sha256(f"{self.points.shape}".encode())
        digest.update(np.ascontiguousarray(self.points).data)
        where = f"{self.engine} {digest.hexdigest()}"
        return [f"{where} {config!r} {data.fingerprint}" for config, data, _ in self.work]


def save_state(
    checkpoint: Checkpoint,
    task: Task,
    streams: Sequence[Streams],
    step: int,
    arrays: Mapping[str, np.ndarray],
    kept: Sequence[np.ndarray],
    seconds: float,
) -> None:
    """Save what was done in so many seconds."""
    if kept:
        arrays = {**arrays, "kept": np.stack(kept)}
    state = {
        "trainings": task.identity,
        "seconds": seconds,
        "ledgers": [spent(config, plan, step).to_dict() for config, _, plan in task.work],
        "step": step,
        "streams": [
            {name: generator_state(getattr(each, name)) for name in Streams.names}
            for each in streams
        ],
    }
    checkpoint.save(arrays, state)


def load_state(
    checkpoint: Checkpoint, task: Task, streams: Sequence[Streams]
) -> tuple[int, dict[str, np.ndarray], list[np.ndarray], float] | None:
    """Step, arrays, what was kept, and seconds; sets the streams.  None if nothing was saved."""
    found = checkpoint.load()
    if found is None:
        return None
    arrays, state = found
    require_own(checkpoint, state.get("trainings"), task.identity)
    ledgers = [spent(config, plan, state["step"]).to_dict() for config, _, plan in task.work]
    require_own(checkpoint, state["ledgers"], ledgers)
    for each, content in zip(streams, state["streams"], strict=True):
        for name in Streams.names:
            setattr(each, name, restore_generator(content[name]))
    return state["step"], arrays, list(arrays.pop("kept", ())), state["seconds"]


def require_own(checkpoint: Checkpoint, saved: object, own: object) -> None:
    """Raise a ValueError if what was saved is not of the training at hand."""
    if saved != own:
        raise ValueError(
            "checkpoint must be of this training, but another configuration or other data were"
            f" saved in {checkpoint.path}: remove the file or name another folder"
        )


def took_long(started: float) -> bool:
    """Whether what began then, by ``time.perf_counter``, is worth a save when it is finished."""
    return time.perf_counter() - started > 1
