"""The shuffles of the authors' public notebooks, which differ from each other.

That of December 2024 (``evals_fmow.ipynb``, whose results ``tables_plots.ipynb`` prints) sets the
seed anew for each kind of user folds. For each user fold it shuffles the source data three times,
and cuts them into 15, into 10 and into 5 folds; its table counts all pairs together. The paper
describes 15 folds alone, as later notebooks have them. That of January 2025 (``evals_fmow.ipynb``
at commit 3bdb193) makes the results that the table of May 2025 prints, the paper's. It sets the
seed for each kind, too, but the three models come one after the other in one stream. The last one
(``wilds_experiments.ipynb``, May 2025) sets the seed once: user folds out of distribution come
after those in it, in one stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

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
from lib.studies.suitability.study_runs import only_signals

SEED, FOLDS = 32, (15, 10, 5)


class Shuffles(NamedTuple):
    """Numbers of folds, and what has one stream beside the user folds of a kind."""

    folds: tuple[int, ...]
    kinds: bool = False
    models: bool = False


NOTEBOOKS = {
    "December 2024": Shuffles(FOLDS),
    "January 2025": Shuffles((15,), models=True),
    "May 2025": Shuffles((15,), kinds=True),
}
#: Whose shuffles give the numbers that the paper prints.
PRINTED = "January 2025"
_KINDS, _DROP = ("ID", "OOD"), 0.03
_KEPT = ("p_value", "truth", "user_accuracy", "test_accuracy")


def authors_tasks(
    study: Study, kind: str, folds: Sequence[int] = FOLDS, *, once: bool = False, models: int = 0
) -> list[Task]:
    """Experiments of one kind: a shuffle after the other, for each user fold one a number of folds.

    The stream of shuffles is that of user folds that each come several times; a shuffle does not
    depend on the number of folds that it is cut into. `once`: the seed is set once for both kinds.
    `models`: so many come before this one in the stream.
    """
    sizes = {name: len(correct) for name, (_, correct) in study.splits.items()}
    own = list(study.user_folds[kind])
    before = [*(study.user_folds["ID"] if once and kind == "OOD" else ()), *own * models]
    repeated = [each for each in (*before, *own) for _ in folds]
    laid = [make_tasks(sizes, repeated, study.id_splits, n, SEED) for n in folds]
    tasks = [laid[i % len(folds)][i] for i in range(len(repeated))]
    return tasks[len(before) * len(folds) :]


@lru_cache(maxsize=1)
def _laid_out(run: "AuthorsRun", state: str) -> tuple[Study, dict[str, list[Task]]]:
    """A model's study and tasks, for all sets of signals that a process tries one after another.

    `state`: of the files, so that others are read anew.
    """
    study = wilds_study(run.dataset, run.seed)
    options = {"once": run.once, "models": run.models}
    return study, {kind: authors_tasks(study, kind, run.folds, **options) for kind in _KINDS}


@dataclass(frozen=True)
class AuthorsRun:
    """A job: all experiments of one model by these shuffles."""

    dataset: str
    seed: int
    folds: tuple[int, ...] = FOLDS
    once: bool = False
    models: int = 0  # before it in the stream
    signals: tuple[str, ...] = ()  # all if it names none
    margin: float = 0.0

    def data_fingerprint(self) -> str:
        """Checksums of the files that the study reads."""
        return fingerprint([data.state(name) for name in wilds_files([self.dataset], [self.seed])])

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Run the experiments, in distribution and out of it."""
        # What does not hang on signals and margin is the same for those that differ in them alone.
        same = replace(self, signals=(), margin=0.0)
        study, tasks = _laid_out(same, self.data_fingerprint())
        kept: dict[str, np.ndarray] = {}
        if self.signals:
            study = only_signals(study, self.signals)
        for kind in _KINDS:
            rows = evaluate_tasks(study.splits, tasks[kind], self.margin)
            kept |= {f"{kind} {name}": rows[name].to_numpy() for name in _KEPT}
        return Outcome(kept, {})


def authors_signals(
    dataset: str, seeds: Sequence[int], sets: Sequence[tuple[str, ...]], margin: float = 0.0
) -> pd.DataFrame:
    """P-values and truth of all experiments for sets of signals, by the paper's shuffles.

    Columns dataset, kind, signals, seed, ``p_value`` and ``truth``.
    """
    of = NOTEBOOKS[PRINTED]
    jobs = [
        AuthorsRun(dataset, seed, of.folds, of.kinds, seed, names, margin)
        for seed in seeds
        for names in sets
    ]
    tables = []
    for job, run in zip(jobs, run_all(jobs), strict=True):
        for kind in _KINDS:
            same = {"dataset": dataset, "kind": kind, "seed": job.seed}
            rows = {name: run.arrays[f"{kind} {name}"] for name in ("p_value", "truth")}
            names = "+".join(job.signals) or "all"
            tables.append(pd.DataFrame(rows).assign(**same, signals=names))
    return pd.concat(tables, ignore_index=True)


def authors_table(dataset: str, seeds: Sequence[int], alpha: float = 0.05) -> pd.DataFrame:
    """Metrics by notebook, kind and model, and SUITABLE where accuracy is over 3 points lower."""
    jobs = {
        (notebook, seed): AuthorsRun(dataset, seed, of.folds, of.kinds, seed if of.models else 0)
        for notebook, of in NOTEBOOKS.items()
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
