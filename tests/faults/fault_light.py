"""Jobs that need no PyTorch, and what forked children do with them."""

import time
from dataclasses import dataclass

import numpy as np

from lib.runs import Checkpoint, Outcome, RunStore, generator_state, restore_generator, run_all


@dataclass(frozen=True)
class Steps:
    """A sum of random arrays, saved every other step."""

    seed: int
    steps: int = 10
    size: int = 5000
    pause: float = 0.02

    def data_fingerprint(self) -> str:
        return "none"

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        rng, total, step = np.random.default_rng(self.seed), np.zeros(self.size), 0
        if (found := checkpoint.load()) is not None:
            total, step = found[0]["total"], found[1]["step"]
            rng = restore_generator(found[1]["rng"])
        while step < self.steps:
            total += rng.standard_normal(self.size)
            step += 1
            time.sleep(self.pause)
            if step % 2 == 0:
                checkpoint.save({"total": total}, {"step": step, "rng": generator_state(rng)})
        return Outcome({"total": total}, {"mean": total.mean(), "steps": step}, {"epsilon": 1.0})


def jobs(count: int, pause: float = 0.02, steps: int = 10) -> list[Steps]:
    return [Steps(seed, steps, pause=pause) for seed in range(count)]


def run_here(store: str, count: int, pause: float = 0.02, order: int = 1) -> None:
    """One job after the other in this process, from the first or from the last."""
    for job in jobs(count, pause)[::order]:
        RunStore(store).run(job)


def run_spread(store: str, count: int, pause: float = 0.02) -> None:
    """All jobs in two worker processes."""
    run_all(jobs(count, pause), store=RunStore(store), max_workers=2)
