"""Jobs that workers can import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from lib.runs import Checkpoint, Outcome, generator_state, restore_generator


@dataclass(frozen=True)
class Walk:
    """A random walk that saves its state, counts its executions and dies where told."""

    folder: str
    steps: int = 40
    seed: int = 0
    save_every: int = 5
    kill_at: tuple[int, ...] = ()
    pause: float = 0.0
    data: str = "d"
    level: float = float("inf")

    code: ClassVar[tuple[str, ...]] = ("runs",)

    def data_fingerprint(self):
        return self.data

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        name = f"{self.seed}"
        with open(Path(self.folder) / f"executions-{name}", "a") as stream:
            stream.write("x")
        rng = np.random.Generator(np.random.SFC64(self.seed))
        path, step = [0.0], 0
        found = checkpoint.load()
        if found is not None:
            arrays, state = found
            path, step = list(arrays["path"]), state["step"]
            rng = restore_generator(state["rng"])
        while step < self.steps:
            path.append(path[-1] + rng.standard_normal() + float(rng.integers(3)))
            step += 1
            if self.pause:
                time.sleep(self.pause)
            if step % self.save_every == 0:
                state = {"step": step, "rng": generator_state(rng)}
                checkpoint.save({"path": np.array(path)}, state)
            if step in self.kill_at:
                mark = Path(self.folder) / f"killed-{name}-{step}"
                if not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        return Outcome({"path": np.array(path)}, {"end": path[-1]}, {"epsilon": 1.0})


@dataclass(frozen=True)
class Fails:
    """A job that does not succeed."""

    number: int

    code: ClassVar[tuple[str, ...]] = ("runs",)

    def data_fingerprint(self):
        return "none"

    def execute(self, checkpoint):
        raise ZeroDivisionError(f"job {self.number} divides by zero")


@dataclass(frozen=True)
class Deadly:
    """A job whose worker always dies."""

    number: int

    code: ClassVar[tuple[str, ...]] = ("runs",)

    def data_fingerprint(self):
        return "none"

    def execute(self, checkpoint):
        os.kill(os.getpid(), signal.SIGKILL)


def executions(folder, seed=0):
    path = Path(folder) / f"executions-{seed}"
    return len(path.read_text()) if path.exists() else 0
