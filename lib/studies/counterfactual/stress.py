"""P4's intervals against the efficiency bound, where errors meet, and where assumptions fail.

Each study is a function of one repetition: its settings, the learner and a generator go in, numbers
come out.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.spatial import KDTree

from lib.counterfactual.efficiency import efficiency_bound, mix
from lib.counterfactual.estimate import (
    Estimate,
    Nuisances,
    estimate_from_nuisances,
    fit_nuisances,
    fold_numbers,
    influence_values,
)
from lib.runs import Checkpoint, Outcome, run_all
from lib.studies.counterfactual.classifiers import FLIP, classify, simulate, true_difference
from lib.studies.counterfactual.tables import oracle_nuisances

_EPSILON = 0.2  # of the power study
_SHIFT = 0.2  # at which two edges meet there
_CHUNK = 25
_VARIANCE = FLIP * (1 - FLIP)  # of a score, given X


def bound_of_experiment() -> float:
    """Efficiency bound of experiment 1, times the points, on a grid of 1,000 cells a side."""
    ticks = (np.arange(1000) + 0.5) / 1000
    x = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    predictions, propensities = classify(x)
    right = [(p > 0.5) == (x.sum(axis=1) >= 1) for p in predictions]
    outcomes = [np.where(one, 1 - FLIP, FLIP) for one in right]
    variance = np.full(len(x), _VARIANCE)
    covariance = np.where(right[0] == right[1], _VARIANCE, -_VARIANCE)
    return efficiency_bound(propensities, outcomes, [variance, variance], covariance)


def bound_table(parts: Mapping[str, pd.DataFrame], bound: float) -> pd.DataFrame:
    """Variances of experiment 1's estimates in multiples of the bound, with 95% intervals.

    `parts` are results of ``run_cells`` by where the nuisance functions come from.
    """
    tables = []
    for name, results in parts.items():
        degrees = results["repetitions"] - 1
        total = results["spread"] ** 2 * results["repetitions"] * results["n"] / bound
        columns = {
            name: total / degrees,
            f"{name}, low": total / stats.chi2.isf(0.025, degrees),
            f"{name}, high": total / stats.chi2.ppf(0.025, degrees),
        }
        tables.append(results[["learner", "estimator"]].assign(**columns))
    first = next(iter(parts.values()))
    tables.append(
        first[["learner", "estimator"]].assign(bias=first["bias"] / np.sqrt(bound / first["n"]))
    )
    merged = tables[0]
    for table in tables[1:]:
        merged = merged.merge(table, how="left", on=["learner", "estimator"])
    return merged


def edges(n: int, near: float, learner: str, rng: np.random.Generator) -> dict[str, float]:
    """B of the power study at a shift of 0.2, abstaining mostly within `near` of its boundary."""
    drawn = simulate(n, "shifted", _EPSILON, _SHIFT, near, rng=rng)
    r, scores = drawn.abstained[1], drawn.scores[1]
    fit = fit_nuisances(drawn.X, scores, r, fold_numbers(n, 2, rng), learner, rng=rng)
    true = oracle_nuisances(drawn)[1]
    truth = 1 - FLIP - true_difference("shifted", _SHIFT)
    found = estimate_from_nuisances(fit, clip=_EPSILON)
    answers = 1 - np.clip(fit.propensity, 0, 1 - _EPSILON)
    product = (1 - (1 - true.propensity) / answers) * (fit.outcome - true.outcome)
    known = Nuisances(r, fit.scores, true.propensity, fit.outcome)
    return {
        "missed": _misses(found, truth),
        "missed, known": _misses(estimate_from_nuisances(known, clip=_EPSILON), truth),
        "bias": (found.value - truth) / found.stderr,
        "product": product.mean() / found.stderr,
    }


def leak(n: int, leaked: float, learner: str, rng: np.random.Generator) -> dict[str, float]:
    """A of experiment 1, abstaining where it was wrong on the nearest point that it learned from.

    Of these a fraction are the points that it is evaluated on.
    """
    drawn, train = simulate(n, rng=rng), simulate(n, rng=rng)
    inside = np.arange(n) < round(leaked * n)
    x = np.where(inside[:, None], drawn.X, train.X)
    wrong = np.where(inside, drawn.scores[0], train.scores[0]) == 0
    expects = wrong[KDTree(x).query(drawn.X)[1]]
    r = rng.random(n) < np.where(expects, 1 - _EPSILON, _EPSILON)
    fit = fit_nuisances(drawn.X, drawn.scores[0], r, fold_numbers(n, 2, rng), learner, rng=rng)
    found = estimate_from_nuisances(fit, clip=_EPSILON)
    return {
        "missed": _misses(found, 1 - FLIP),
        "bias": found.value - (1 - FLIP),
        "width": np.ptp(found.interval),
    }


def mixed(
    n: int, experiment: str, shift: float, epsilon: float, learner: str, rng: np.random.Generator
) -> dict[str, float]:
    """The doubly robust estimate of the difference and mixed ones, with the same fits.

    "half" weighs and clips as the authors' public code.
    """
    drawn = simulate(n, experiment, epsilon, shift, rng=rng)
    truth = true_difference(experiment, shift)
    (a, b), (r, s) = drawn.scores, drawn.abstained
    fold = fold_numbers(n, 2, rng)
    *pair, both = (
        fit_nuisances(drawn.X, scores, hidden, fold, learner, rng=rng)
        for scores, hidden in ((a, r), (b, s), (a - b, r | s))
    )
    found = estimate_from_nuisances(pair, clip=epsilon)
    mixture = mix(pair, both, clip=epsilon)
    half = (found.influence + influence_values(both, clip=epsilon)) / 2
    error = half.std() / math.sqrt(n)
    halved = Estimate(half.mean(), error, half, 0.95, "mixed", epsilon, ())
    return {
        f"{quantity}, {name}": value
        for name, one in (("robust", found), ("mixed", mixture), ("half", halved))
        for quantity, value in (
            ("missed", _misses(one, truth)),
            ("bias", one.value - truth),
            ("width", np.ptp(one.interval)),
        )
    }


def _misses(found: Any, truth: float) -> bool:
    low, high = found.interval
    return not low <= truth <= high


_STUDIES: dict[str, Callable[..., dict[str, float]]] = {
    "edges": edges,
    "leak": leak,
    "mixed": mixed,
}


@dataclass(frozen=True)
class Stress:
    """Repetitions `first`, ..., `first` + `count` - 1 of a study; a job of :mod:`lib.runs`."""

    study: str
    setting: tuple[Any, ...]
    learner: str
    first: int
    count: int
    seed: int

    def data_fingerprint(self) -> str:
        """No data are read."""
        return ""

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Repeat; repetition i draws from the same stream in every setting."""
        rows = [
            _STUDIES[self.study](
                *self.setting, self.learner, np.random.default_rng([self.seed, self.first + k])
            )
            for k in range(self.count)
        ]
        return Outcome({name: np.array([row[name] for row in rows]) for name in rows[0]})


def run_stress(
    study: str, settings: Sequence[tuple[Any, ...]], learner: str, count: int, *, seed: int
) -> pd.DataFrame:
    """One row a setting: means over the repetitions, which of misses are rates."""
    jobs = {
        setting: [
            Stress(study, setting, learner, first, min(_CHUNK, count - first), seed)
            for first in range(0, count, _CHUNK)
        ]
        for setting in settings
    }
    runs = iter(run_all([job for group in jobs.values() for job in group]))
    names, rows = list(inspect.signature(_STUDIES[study]).parameters)[:-2], []
    for setting, group in jobs.items():
        parts = [next(runs).arrays for _ in group]
        means = {k: float(np.concatenate([part[k] for part in parts]).mean()) for k in parts[0]}
        rows.append(dict(zip(names, setting, strict=True)) | {"repetitions": count} | means)
    return pd.DataFrame(rows)
