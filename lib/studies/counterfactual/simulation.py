"""P4's simulations: two abstaining classifiers whose counterfactual difference is known.

Inputs are uniform on the unit square; the label is 1[x0 + x1 >= 1], flipped with probability 0.15.

Experiment 1 compares A, which predicts by x0 + x1 and so has the best boundary, with B, which
predicts by x0^2 + x1^2.  Experiment 2 compares A with itself, the boundary shifted by mu.  Each
abstains with probability 1 - epsilon near its own boundary and epsilon elsewhere.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.counterfactual.estimate import (
    ESTIMATORS,
    Nuisances,
    estimate_from_nuisances,
    fit_nuisances,
    fold_numbers,
)
from lib.runs import Checkpoint, Outcome, run_all
from lib.studies.counterfactual.classifiers import Simulated, simulate, true_difference


def trial_arrays(drawn: Simulated) -> dict[str, Any]:
    """What is seen of a data set after a free trial, as :class:`lib.report.ModelPredictions`."""
    return {
        "test_features": drawn.X,
        "feature_names": ("x0", "x1"),
        "test_scores": drawn.scores[0],
        "test_abstained": drawn.abstained[0],
        "other_scores": drawn.scores[1],
        "other_abstained": drawn.abstained[1],
    }


@dataclass(frozen=True)
class Repetitions:
    """Repetitions of a simulated experiment with one learner and all three estimators.

    A job of :mod:`lib.runs`.  Repetition i draws the same data whatever the learner and however
    repetitions are grouped into jobs.

    Attributes
    ----------
    experiment, epsilon
        As for :func:`simulate`; epsilon is also the clipping level.
    shifts : tuple of float
        As `shift` there; A is the same throughout, and its nuisance functions are fitted once.
    n : int
        Points.
    learner : {"linear", "forest", "super"}
        Of the nuisance functions.
    first, count : int
        Repetitions `first`, ..., `first` + `count` - 1.
    seed : int
        Of everything.
    nuisances : {"cross-fitted", "fresh halves", "fresh sample"}
        Where the nuisance functions are learned: those of each half from the other half, or from a
        fresh sample of that size, or those of all points from one fresh sample of `n` points, the
        same for both classifiers.
    level : float
        Of the intervals.
    """

    experiment: str
    epsilon: float
    shifts: tuple[float, ...]
    n: int
    learner: str
    first: int
    count: int
    seed: int
    nuisances: str = "cross-fitted"
    level: float = 0.95

    def data_fingerprint(self) -> str:
        """No data are read."""
        return ""

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Estimate with plug-in, IPW and DR, which share their nuisance functions."""
        shape = (len(self.shifts), self.count)
        value, stderr = np.empty((*shape, len(ESTIMATORS))), np.empty((*shape, len(ESTIMATORS)))
        oracle = np.empty(shape)
        for k in range(self.count):
            streams = np.random.SeedSequence([self.seed, self.first + k]).spawn(5)
            fold = fold_numbers(self.n, 2, np.random.default_rng(streams[1]))
            a = None
            for i, shift in enumerate(self.shifts):
                rng = np.random.default_rng(streams[0])
                drawn = simulate(self.n, self.experiment, self.epsilon, shift, rng=rng)
                if a is None:
                    a = self._nuisances(drawn, 0, fold, streams[2], streams[4])
                pair = (a, self._nuisances(drawn, 1, fold, streams[3], streams[4]))
                oracle[i, k] = drawn.oracle_difference
                for j, estimator in enumerate(ESTIMATORS):
                    found = estimate_from_nuisances(
                        pair, estimator=estimator, clip=self.epsilon, level=self.level
                    )
                    value[i, k, j], stderr[i, k, j] = found.value, found.stderr
        return Outcome({"value": value, "stderr": stderr, "oracle": oracle})

    def _nuisances(
        self,
        drawn: Simulated,
        k: int,
        fold: npt.NDArray,
        stream: np.random.SeedSequence,
        shared: np.random.SeedSequence,
    ) -> Nuisances:
        rng = np.random.default_rng(stream)
        r, scores = drawn.abstained[k], drawn.scores[k]
        if self.nuisances == "cross-fitted":
            return fit_nuisances(drawn.X, scores, r, fold, self.learner, rng=rng)
        kind = (self.experiment, self.epsilon, self.shifts[0])
        propensity, outcome = np.empty(self.n), np.empty(self.n)
        whole = self.nuisances == "fresh sample"
        for half in range(1 if whole else 2):
            if whole:
                inside = np.ones(self.n, bool)
                fresh = simulate(self.n, *kind, rng=np.random.default_rng(shared))
            else:
                inside = fold == half
                fresh = simulate(self.n // 2, *kind, rng=rng)
            # What is fitted outside the fold 1 of both samples together is fitted to the fresh one.
            both = fit_nuisances(
                np.concatenate([fresh.X, drawn.X[inside]]),
                np.concatenate([fresh.scores[k], scores[inside]]),
                np.concatenate([fresh.abstained[k], r[inside]]),
                np.repeat([0, 1], [len(fresh.X), inside.sum()]),
                self.learner,
                rng=rng,
                only=1,
            )
            propensity[inside] = both.propensity[len(fresh.X) :]
            outcome[inside] = both.outcome[len(fresh.X) :]
        return Nuisances(r, np.where(r, 0.0, scores), propensity, outcome)


def repetitions(
    n: int,
    learner: str,
    count: int,
    *,
    experiment: str = "curved",
    epsilon: float = 0.2,
    shifts: Sequence[float] = (0.0,),
    seed: int = 0,
    nuisances: str = "cross-fitted",
    chunk: int = 25,
) -> list[Repetitions]:
    """The jobs of one cell of an experiment."""
    kind, moved = (experiment, epsilon), tuple(shifts)
    return [
        Repetitions(*kind, moved, n, learner, first, part, seed, nuisances)
        for first in range(0, count, chunk)
        for part in [min(chunk, count - first)]
    ]


def run_cells(
    cells: Mapping[Any, Sequence[Repetitions]], max_workers: int | None = None
) -> pd.DataFrame:
    """Run the jobs of all cells and summarise each."""
    jobs = [job for group in cells.values() for job in group]
    runs = dict(zip(jobs, run_all(jobs, max_workers=max_workers), strict=True))
    rows = []
    for key, group in cells.items():
        job = group[0]
        parts = [runs[one].arrays for one in group]
        all_values, all_errors, all_oracles = (
            np.concatenate([part[name] for part in parts], axis=1)
            for name in ("value", "stderr", "oracle")
        )
        for i, j in itertools.product(range(len(job.shifts)), range(len(ESTIMATORS))):
            shift, estimator = job.shifts[i], ESTIMATORS[j]
            value, stderr, oracle = all_values[i], all_errors[i], all_oracles[i]
            half = stderr * float(stats.norm.isf((1 - job.level) / 2))
            truth = true_difference(job.experiment, shift)
            low, high = value[:, j] - half[:, j], value[:, j] + half[:, j]
            missed = int(((oracle < low) | (oracle > high)).sum())
            missed_truth = int(((truth < low) | (truth > high)).sum())
            rejected = int(((low > 0) | (high < 0)).sum())
            count = len(value)
            rows.append(
                {
                    "cell": key,
                    "learner": job.learner,
                    "estimator": estimator,
                    "n": job.n,
                    "epsilon": job.epsilon,
                    "shift": shift,
                    "repetitions": count,
                    "miscovered": missed,
                    "miscoverage": missed / count,
                    "population_miscovered": missed_truth,
                    "population_miscoverage": missed_truth / count,
                    "width": float(2 * half[:, j].mean()),
                    "stderr": float(stderr[:, j].mean()),
                    "bias": float(value[:, j].mean() - truth),
                    "spread": float(value[:, j].std()),
                    "rejected": rejected,
                    "power": rejected / count,
                }
            )
    return pd.DataFrame(rows)


def cells_of_experiment_1(
    counts: Mapping[str, int],
    n: int = 2000,
    epsilon: float = 0.2,
    seed: int = 0,
    nuisances: str = "cross-fitted",
) -> dict[str, list[Repetitions]]:
    """Experiment 1: one cell a learner."""
    return {
        learner: repetitions(n, learner, count, epsilon=epsilon, seed=seed, nuisances=nuisances)
        for learner, count in counts.items()
        if count
    }


def cells_of_positivity(
    epsilons: Sequence[float], learner: str, count: int, n: int = 2000, seed: int = 0
) -> dict[float, list[Repetitions]]:
    """Experiment 1 at several positivity levels, one cell a level, for :func:`run_cells`."""
    return {
        epsilon: repetitions(n, learner, count, epsilon=epsilon, seed=seed) for epsilon in epsilons
    }


def cells_of_experiment_2(
    shifts: Sequence[float],
    sizes: Sequence[int],
    learner: str,
    count: int,
    epsilon: float = 0.2,
    seed: int = 0,
) -> dict[int, list[Repetitions]]:
    """Experiment 2: one cell a sample size, for :func:`run_cells`."""
    return {
        n: repetitions(
            n, learner, count, experiment="shifted", epsilon=epsilon, shifts=shifts, seed=seed,
            chunk=10,
        )
        for n in sizes
    }  # fmt: skip


def power_table(
    results: pd.DataFrame, estimator: str = "dr", column: str = "power"
) -> pd.DataFrame:
    """Rejection rates of experiment 2, or another column: shifts down, sample sizes across."""
    rows = results[results["estimator"] == estimator]
    return rows.pivot(index="shift", columns="n", values=column)


def share_interval(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share."""
    found = stats.binomtest(int(count), int(n)).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


def two_share_z(count: int, n: int, share: float, share_n: int) -> float:
    """How far a share is from one that somebody else found in an experiment of its own."""
    pooled = (count + share * share_n) / (n + share_n)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / share_n))
    return abs(count / n - share) / error if error > 0 else 0.0
