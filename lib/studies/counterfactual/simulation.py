"""P4's simulations: two abstaining classifiers whose counterfactual difference is known.

Inputs are uniform on the unit square; the label is 1[x0 + x1 >= 1], flipped with probability 0.15.

Experiment 1 compares A, which predicts by x0 + x1 and so has the best boundary, with B, which
predicts by x0^2 + x1^2.  Experiment 2 compares A with itself, the boundary shifted by mu.  Each
abstains with probability 1 - epsilon near its own boundary and epsilon elsewhere.
"""

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from lib.counterfactual.diagnostics import PositivityWarning
from lib.counterfactual.estimate import (
    ESTIMATORS,
    Nuisances,
    counterfactual_difference,
    estimate_from_nuisances,
    fit_nuisances,
    fold_numbers,
)
from lib.counterfactual.result import Estimate
from lib.runs import Checkpoint, Outcome, run_all
from lib.studies.counterfactual.classifiers import Simulated, simulate, true_difference

Z = float(stats.norm.isf((1 - 0.95) / 2))  # of 95% intervals


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
    """

    experiment: str  # As for :func:`simulate`
    epsilon: float  # The same; also the clipping level
    shifts: tuple[float, ...]  # A is the same throughout, and its nuisance functions fitted once
    n: int  # Points
    learner: str  # "linear", "forest" or "super"
    first: int  # Repetitions `first`, ..., `first` + `count` - 1
    count: int
    seed: int
    # "cross-fitted": the nuisance functions of each half are learned from the other half; "fresh
    # halves": from a fresh sample of that size; "fresh sample": those of all points from one fresh
    # sample of `n` points, the same for both classifiers
    nuisances: str = "cross-fitted"

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
                    found = estimate_from_nuisances(pair, estimator=estimator, clip=self.epsilon)
                    value[i, k, j], stderr[i, k, j] = found.value, found.stderr
        return Outcome({"value": value, "stderr": stderr, "oracle": oracle})

    def _nuisances(self, drawn: Simulated, k: int, fold, stream, shared) -> Nuisances:
        rng = np.random.default_rng(stream)
        r, scores = drawn.abstained[k], drawn.scores[k]
        if self.nuisances == "cross-fitted":
            return fit_nuisances(drawn.X, scores, r, fold, self.learner, rng=rng)
        kind = (self.experiment, self.epsilon, self.shifts[0])
        propensity, outcome = np.empty(self.n), np.empty(self.n)
        whole = self.nuisances == "fresh sample"
        for inside in [np.ones(self.n, bool)] if whole else [fold == 0, fold == 1]:
            if whole:
                fresh = simulate(self.n, *kind, rng=np.random.default_rng(shared))
            else:
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
) -> list[Repetitions]:
    """The jobs of one cell of an experiment."""
    kind = (experiment, epsilon, tuple(shifts), n, learner)
    chunk = 25 if len(shifts) == 1 else 10
    return [
        Repetitions(*kind, first, min(chunk, count - first), seed, nuisances)
        for first in range(0, count, chunk)
    ]


def run_cells(cells: Mapping[Any, Sequence[Repetitions]]) -> pd.DataFrame:
    """Run the jobs of all cells and summarize each."""
    jobs = [job for group in cells.values() for job in group]
    runs = dict(zip(jobs, run_all(jobs), strict=True))
    rows = []
    for key, group in cells.items():
        job = group[0]
        parts = [runs[one].arrays for one in group]
        values, errors, oracles = (
            np.concatenate([part[name] for part in parts], axis=1)
            for name in ("value", "stderr", "oracle")
        )
        for i, j in itertools.product(range(len(job.shifts)), range(len(ESTIMATORS))):
            value, stderr, oracle = values[i, :, j], errors[i, :, j], oracles[i]
            truth = true_difference(job.experiment, job.shifts[i])
            half = stderr * Z
            low, high = value - half, value + half
            count = len(value)
            missed = int(((oracle < low) | (oracle > high)).sum())
            missed_truth = int(((truth < low) | (truth > high)).sum())
            rejected = int(((low > 0) | (high < 0)).sum())
            rows.append(
                {
                    "cell": key,
                    "learner": job.learner,
                    "estimator": ESTIMATORS[j],
                    "n": job.n,
                    "epsilon": job.epsilon,
                    "shift": job.shifts[i],
                    "repetitions": count,
                    "miscovered": missed,
                    "miscoverage": missed / count,
                    "population_miscovered": missed_truth,
                    "population_miscoverage": missed_truth / count,
                    "width": float(2 * half.mean()),
                    "stderr": float(stderr.mean()),
                    "bias": float(value.mean() - truth),
                    "spread": float(value.std()),
                    "rejected": rejected,
                    "power": rejected / count,
                }
            )
    return pd.DataFrame(rows)


def cells_of_experiment_1(
    counts: Mapping[str, int], n: int, *, seed: int, nuisances: str = "cross-fitted"
) -> dict[str, list[Repetitions]]:
    """Experiment 1: one cell a learner."""
    return {
        learner: repetitions(n, learner, count, seed=seed, nuisances=nuisances)
        for learner, count in counts.items()
        if count
    }


def over_levels(levels: Sequence[float], *, seed: int) -> dict[float, tuple[Estimate, Estimate]]:
    """Experiment 1 on one draw of 2,000 at every level of positivity: doubly robust, and IPW.

    Propensities are clipped at the level; inputs, labels and coins are the same at each.
    """
    found = {}
    for level in levels:
        drawn = simulate(2000, epsilon=level, rng=seed)
        (a, b), (r, s) = drawn.scores, drawn.abstained
        with warnings.catch_warnings():  # the diagnostics of the estimate say the same
            warnings.simplefilter("ignore", PositivityWarning)
            dr = counterfactual_difference(
                drawn.X, a, r, b, s, learner="forest", clip=level, rng=seed
            )
        found[level] = dr, estimate_from_nuisances(dr.nuisances, estimator="ipw", clip=level)
    return found


def share_interval(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson interval of a share."""
    found = stats.binomtest(int(count), int(n)).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


def two_share_z(count: int, n: int, share: float, share_n: int) -> float:
    """How far a share is from one that somebody else found in an experiment of its own."""
    pooled = (count + share * share_n) / (n + share_n)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / share_n))
    return abs(count / n - share) / error if error > 0 else 0.0
