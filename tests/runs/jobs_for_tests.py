"""Jobs that workers can import."""

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lib.runs import Checkpoint, Outcome, RunStore, generator_state, restore_generator, run_all


@dataclass(frozen=True)
class Walk:
    """A random walk that saves its state, counts its executions and dies where told.

    Each step costs privacy, and more or less of it by chance, so that a step that is repeated or
    forgotten after a resumption is seen in what was spent.
    """

    folder: str
    steps: int = 40
    seed: int = 0
    save_every: int = 5
    kill_at: tuple[int, ...] = ()
    pause: float = 0.0
    data: str = "d"
    level: float = float("inf")
    bits: str = "SFC64"

    def data_fingerprint(self):
        return self.data

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        name = f"{self.seed}"
        with open(Path(self.folder) / f"executions-{name}", "a") as stream:
            stream.write("x")
        rng = np.random.Generator(getattr(np.random, self.bits)(self.seed))
        path, step, spent = [0.0], 0, 0.0
        found = checkpoint.load()
        if found is not None:
            arrays, state = found
            path, step, spent = list(arrays["path"]), state["step"], state["spent"]
            rng = restore_generator(state["rng"])
        while step < self.steps:
            path.append(path[-1] + rng.standard_normal() + float(rng.integers(3)))
            spent += rng.random()
            step += 1
            if self.pause:
                time.sleep(self.pause)
            if step % self.save_every == 0:
                state = {"step": step, "spent": spent, "rng": generator_state(rng)}
                checkpoint.save({"path": np.array(path)}, state)
            if step in self.kill_at:
                mark = Path(self.folder) / f"killed-{name}-{step}"
                if not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        metrics = {
            "end": path[-1],
            "pid": os.getpid(),
            "threads": os.environ.get("OMP_NUM_THREADS"),
        }
        return Outcome({"path": np.array(path)}, metrics, {"epsilon": spent})


@dataclass(frozen=True)
class Asks(Walk):
    def execute(self, checkpoint: Checkpoint) -> Outcome:
        (asked,) = run_all([Walk(self.folder, seed=self.seed + 1)], store=RunStore(self.folder))
        done = super().execute(checkpoint)
        return replace(done, metrics={**done.metrics, "asked pid": asked.metrics["pid"]})


@dataclass(frozen=True)
class OnDevice(Walk):
    """A walk that wants an accelerator to itself."""

    device: str = "cuda"


@dataclass(frozen=True)
class Fails:
    number: int

    def data_fingerprint(self):
        return "none"

    def execute(self, checkpoint):
        raise ZeroDivisionError(f"job {self.number} divides by zero")


class Stubborn(Exception):
    """An error that can be pickled but not unpickled, as some libraries have them."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@dataclass(frozen=True)
class FailsStubbornly(Fails):
    def execute(self, checkpoint):
        raise Stubborn(self.number, "more")


@dataclass(frozen=True)
class Deadly(Fails):
    """Its worker always dies."""

    def execute(self, checkpoint):
        os.kill(os.getpid(), signal.SIGKILL)


def executions(folder, seed=0):
    path = Path(folder) / f"executions-{seed}"
    return len(path.read_text()) if path.exists() else 0
