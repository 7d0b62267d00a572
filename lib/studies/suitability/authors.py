"""The shuffles of the authors' public notebooks, which differ from each other.

That of December 2024 (``evals_fmow.ipynb``, whose results ``tables_plots.ipynb`` prints) sets the
seed anew for each kind of user folds. For each user fold it shuffles the source data three times,
and cuts them into 15, into 10 and into 5 folds; its table counts all pairs together. The paper
describes 15 folds alone, as later notebooks have them. The last one (``wilds_experiments.ipynb``,
May 2025) sets the seed once: user folds out of distribution come after those in it, in one stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib import data
from lib.runs import Checkpoint, Outcome, fingerprint, run_all
from lib.studies.suitability.data import Study, wilds_files, wilds_study
from lib.studies.suitability.experiment import (
    Task,
    counts,
    decision_metrics,
    evaluate_tasks,
    make_tasks,
)

SEED, FOLDS = 32, (15, 10, 5)
#: Numbers of folds, and whether the seed is set once for both kinds of user folds.
NOTEBOOKS = {"December 2024": (FOLDS, False), "May 2025": ((15,), True)}
_KINDS, _DROP = ("ID", "OOD"), 0.03
_KEPT = ("p_value", "truth", "user_accuracy", "test_accuracy")


def authors_tasks(
    study: Study, kind: str, folds: Sequence[int] = FOLDS, *, once: bool = False
) -> list[Task]:
    """Experiments of one kind: a shuffle after the other, for each user fold one a number of folds.

    The stream of shuffles is that of user folds that each come several times; a shuffle does not
    depend on the number of folds that it is cut into. `once`: the seed is set once for both kinds.
    """
    sizes = {name: len(correct) for name, (_, correct) in study.splits.items()}
    before = study.user_folds["ID"] if once and kind == "OOD" else []
    repeated = [each for each in (*before, *study.user_folds[kind]) for _ in folds]
    laid = [make_tasks(sizes, repeated, study.id_splits, n, SEED) for n in folds]
    tasks = [laid[i % len(folds)][i] for i in range(len(repeated))]
    return tasks[len(before) * len(folds) :]


@dataclass(frozen=True)
class AuthorsRun:
    """A job: all experiments of one model by these shuffles."""

    dataset: str
    seed: int
    folds: tuple[int, ...] = FOLDS
    once: bool = False

    def data_fingerprint(self) -> str:
        """Checksums of the files that the study reads."""
        return fingerprint([data.state(name) for name in wilds_files([self.dataset], [self.seed])])

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Run the experiments, in distribution and out of it."""
        study, kept = wilds_study(self.dataset, self.seed), {}
        for kind in _KINDS:
            tasks = authors_tasks(study, kind, self.folds, once=self.once)
            rows = evaluate_tasks(study.splits, tasks)
            kept |= {f"{kind} {name}": rows[name].to_numpy() for name in _KEPT}
        return Outcome(kept, {})


def authors_table(dataset: str, seeds: Sequence[int], alpha: float = 0.05) -> pd.DataFrame:
    """Metrics by notebook, kind and model, and SUITABLE where accuracy is over 3 points lower."""
    jobs = {
        (notebook, seed): AuthorsRun(dataset, seed, folds, once)
        for notebook, (folds, once) in NOTEBOOKS.items()
        for seed in seeds
    }
    rows = []
    for (notebook, seed), run in zip(jobs, run_all(list(jobs.values())), strict=True):
        for kind in _KINDS:
            p, truth, user, test = (run.arrays[f"{kind} {name}"] for name in _KEPT)
            worse = np.count_nonzero((p <= alpha) & (user - test < -_DROP - 1e-12))
            row = {"notebook": notebook, "kind": kind, "seed": seed}
            row |= decision_metrics(p, truth, alpha) | counts(pd.DataFrame({"truth": truth}))
            rows.append(row | {"worse, SUITABLE": worse})
    return pd.DataFrame(rows)
