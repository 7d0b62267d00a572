"""How often intervals of counterfactual scores hold, where errors are few and where they are not.

A score is right with probability 1 - 2 (1 - truth) u, u uniform, and withheld with one that rises
with u: most is withheld where most is wrong.  Groups are ranges of u, and their intervals are to
hold all at once.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

from lib.counterfactual.estimate import (
    Nuisances,
    default_clip,
    estimate_from_nuisances,
    fit_nuisances,
    fold_numbers,
)
from lib.counterfactual.result import Estimate
from lib.runs import Checkpoint, Outcome, run_all

#: Outcome models: mu0, or (with fitted propensities) a ridge regression, which can be right; .9
#: everywhere; and 1 - mu0, which fears errors where there are none.
OUTCOMES = ("right", "constant", "wrong")
_CONSTANT = 0.9
_FIRST, _RISE = -1.5, 2.0  # logit of the probability to abstain: at u = 0, and by how much it rises
_ANSWERED = 1 - (special.log1p(math.exp(_FIRST + _RISE)) - special.log1p(math.exp(_FIRST))) / _RISE
_CHUNK = 25


@dataclass(frozen=True)
class Trials:
    """Trials `first`, ..., `first` + `count` - 1 with one truth; a job of :mod:`lib.runs`.

    Trial i draws from the same stream whatever the truth and the nuisance functions.
    """

    truth: float
    answers: int  # expected
    groups: tuple[int, ...]  # numbers of groups
    fitted: bool  # propensities, by logistic regression
    level: float
    first: int
    count: int
    seed: int

    def data_fingerprint(self) -> str:
        """No data are read."""
        return ""

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Of each trial, outcome model and number of groups: what held, and mean widths."""
        shape = (self.count, len(OUTCOMES), len(self.groups))
        found = {name: np.empty(shape) for name in ("held", "normal held", "width", "normal width")}
        for i in range(self.count):
            rng = np.random.default_rng([self.seed, self.first + i])
            u, models = self._drawn(rng)
            for (j, model), (k, groups) in itertools.product(
                enumerate(models), enumerate(self.groups)
            ):
                ends, normal, truths = self._intervals(model, u, groups)
                for name, (low, high) in (("", ends), ("normal ", normal)):
                    found[f"{name}held"][i, j, k] = ((low <= truths) & (truths <= high)).all()
                    found[f"{name}width"][i, j, k] = (high - low).mean()
        return Outcome(found)

    def _drawn(self, rng: np.random.Generator) -> tuple[npt.NDArray[np.float64], list[Nuisances]]:
        """Points, and what is known of them with each outcome model."""
        n = round(self.answers / _ANSWERED)
        x = rng.random((n, 2))
        u = x[:, 0]
        right = 1 - 2 * (1 - self.truth) * u
        propensity = special.expit(_FIRST + _RISE * u)
        abstained = rng.random(n) < propensity
        scores = np.where(abstained, 0.0, rng.random(n) < right)
        first = right
        if self.fitted:
            fit = fit_nuisances(x, scores, abstained, fold_numbers(n, 2, rng), "linear", rng=rng)
            propensity, first = fit.propensity, fit.outcome
        outcomes = first, np.full(n, _CONSTANT), 1 - right
        return u, [Nuisances(abstained, scores, propensity, outcome) for outcome in outcomes]

    def _intervals(self, model: Nuisances, u: npt.NDArray[np.float64], groups: int):
        """Ends of all groups, those by the normal distribution, and truths."""
        found = estimate_from_nuisances(model, clip=default_clip(len(u)), level=self.level)
        group = np.floor(u * groups).astype(int)
        parts = found.by_group(group)
        middles = (np.array([int(name) for name in parts]) + 0.5) / groups
        ends = np.array([one.interval for one in parts.values()]).T
        normal = np.array([_normal(one) for one in parts.values()]).T
        return ends, normal, 1 - 2 * (1 - self.truth) * middles


def _normal(one: Estimate) -> tuple[float, float]:
    half = float(stats.norm.isf((1 - one.level) / 2)) * one.stderr
    return one.value - half, one.value + half


def coverage_table(
    truths: Sequence[float],
    answers: Sequence[int],
    groups: Sequence[int],
    trials: int,
    *,
    level: float = 0.95,
    seed: int,
) -> pd.DataFrame:
    """One row a cell: how often all intervals hold, and how wide they are.

    Parameters
    ----------
    truths : sequence of float
        Counterfactual scores, in [.5, 1].
    answers : sequence of int
        How many are expected, in all groups together.
    groups : sequence of int
        Numbers of groups whose intervals are to hold all at once.
    trials : int
        Of each cell.
    level : float
        Of the intervals.
    seed : int
        Of everything.

    Returns
    -------
    pandas.DataFrame
        Columns propensities, outcome, answers, groups, truth, trials; held: the fraction of trials
        in which all intervals hold; least: `level` less 3 binomial standard errors; width: the
        median over trials of the mean width; and the same two of normal intervals.
    """
    designs = list(itertools.product((False, True), answers, truths))
    jobs = {
        (fitted, n, truth): [
            Trials(truth, n, tuple(groups), fitted, level, first, min(_CHUNK, trials - first), seed)
            for first in range(0, trials, _CHUNK)
        ]
        for fitted, n, truth in designs
    }
    runs = iter(run_all([job for group in jobs.values() for job in group]))
    least = level - 3 * math.sqrt(level * (1 - level) / trials)
    rows = []
    for (fitted, n, truth), group in jobs.items():
        parts = [next(runs).arrays for _ in group]
        all_of = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for (j, outcome), (k, number) in itertools.product(enumerate(OUTCOMES), enumerate(groups)):
            of = {name: values[:, j, k] for name, values in all_of.items()}
            rows.append(
                {
                    "propensities": "fitted" if fitted else "known",
                    "outcome": outcome,
                    "answers": n,
                    "groups": number,
                    "truth": truth,
                    "trials": trials,
                    "held": of["held"].mean(),
                    "least": least,
                    "width": np.median(of["width"]),
                    "normal held": of["normal held"].mean(),
                    "normal width": np.median(of["normal width"]),
                }
            )
    return pd.DataFrame(rows)


def worst_cells(cells: pd.DataFrame) -> pd.DataFrame:
    """The worst over outcome models and numbers of groups, by propensities, answers and truth.

    "wider": widths in multiples of those of the normal interval, the median over the cells without
    groups; infinite where that has none.
    """
    by = cells.assign(
        below=cells["held"] < cells["least"],
        wider=(cells["width"] / cells["normal width"]).where(cells["groups"] == 1),
    ).groupby(["propensities", "answers", "truth"], sort=False)
    return by.agg(
        cells=("held", "size"),
        held=("held", "min"),
        least=("least", "first"),
        below=("below", "sum"),
        normal=("normal held", "min"),
        wider=("wider", "median"),
    ).reset_index()
