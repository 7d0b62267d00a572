"""The experiment on many classifiers and sets of signals, as jobs of :mod:`lib.runs`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from lib import data
from lib.runs import Checkpoint, Outcome, fingerprint, run_all
from lib.studies.suitability.data import Study, digits_study, run_study, wilds_files, wilds_study
from lib.studies.suitability.experiment import METRICS, metrics_table
from lib.suitability.signals import SIGNAL_NAMES

# Columns that are words, kept as numbers in a list of words.
_WORDS = ("kind", "user_fold")


def load_study(dataset: str, algorithm: str = "ERM", seed: int = 0) -> Study:
    """Load a classifier's study by name: one of WILDS's, or ``digits``."""
    return digits_study(seed) if dataset == "digits" else wilds_study(dataset, seed, algorithm)


@dataclass(frozen=True)
class StudyRun:
    """A job: all experiments of one classifier with some of the signals, all if it names none."""

    dataset: str
    algorithm: str
    seed: int
    n_folds: int = 15
    partition: int = 32  # seed of the shuffles
    signals: tuple[str, ...] = ()

    def data_fingerprint(self) -> str:
        """Checksums of the files that the study reads."""
        if self.dataset == "digits":
            return "digits"
        names = wilds_files([self.dataset], [self.seed], [self.algorithm])
        return fingerprint([data.state(name) for name in names])

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Run the experiments, in distribution and out of it."""
        study = load_study(self.dataset, self.algorithm, self.seed)
        if self.signals:
            study = only_signals(study, self.signals)
        rows = run_study(study, self.n_folds, self.partition)
        arrays, words = {}, {}
        for column in rows.columns.drop(["dataset", "algorithm", "seed", "partition"]):
            if column in _WORDS:
                codes, found = pd.factorize(rows[column])
                arrays[column], words[column] = codes, list(found)
            else:
                arrays[column] = rows[column].to_numpy()
        return Outcome(arrays, {"words": words})


def only_signals(study: Study, names: Sequence[str]) -> Study:
    """The same study for a provider who has only some of the signals."""
    columns = [SIGNAL_NAMES.index(name) for name in names]
    splits = {name: (x[:, columns], y) for name, (x, y) in study.splits.items()}
    return replace(study, splits=splits)


def run_studies(jobs: Sequence[StudyRun]) -> pd.DataFrame:
    """Run jobs, those that are not stored, and put their experiments together."""
    tables = []
    for job, run in zip(jobs, run_all(jobs), strict=True):
        columns: dict[str, Any] = {
            "signals": "+".join(job.signals) or "all",
            "dataset": job.dataset,
            "algorithm": job.algorithm,
            "seed": job.seed,
            "partition": job.partition,
        }
        for name, values in run.arrays.items():
            words = run.metrics["words"].get(name)
            columns[name] = values if words is None else np.array(words, dtype=object)[values]
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def signals_table(results: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """How good the decisions are by set of signals: Pouget et al., ICML 2025, Table 5."""
    by_model = metrics_table(results, ["dataset", "kind", "signals", "seed"], alpha)
    mean = by_model.groupby(["dataset", "kind", "signals"], sort=False)[METRICS].mean()
    table = mean.reset_index().assign(first=lambda t: t["signals"] == "all")
    order = ["dataset", "kind", "first", "accuracy"]
    return table.sort_values(order, ascending=[True, True, False, False], ignore_index=True).drop(
        columns="first"
    )
