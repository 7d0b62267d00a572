"""Studies: a classifier's signals on source data and on many sets of user data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib import data
from lib.studies.suitability.experiment import Task, evaluate_tasks, make_tasks
from lib.suitability.signals import signals

# Sizes of the disjoint sets of digits; few for training, so that errors remain.
_DIGITS = {"train": 150, "source": 1050, "user": 597}
# Kinds and severities (degrees, standard deviation, pixels) of the shifts of the digits.
_SHIFTS = {"rotation": (2, 4, 8, 16), "noise": (0.05, 0.1, 0.2, 0.3), "blur": (0.4, 0.5, 0.6, 0.7)}

#: Signals, shape (n, 12), and correctness, shape (n,).
Table = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Study:
    """One classifier, its source data and the user data it might be used on."""

    dataset: str
    seed: int  # which of the classifiers
    splits: Mapping[str, Table]
    id_splits: tuple[str, ...]  # the source
    #: ``"ID"`` and ``"OOD"`` to split, rows and label of each; CivilComments has no OOD ones.
    user_folds: Mapping[str, list[tuple[str, npt.NDArray[np.int64], str]]]
    algorithm: str = "ERM"

    def tasks(self, kind: str, n_folds: int, partition_seed: int) -> list[Task]:
        """Lay out the experiments of one kind, ``"ID"`` or ``"OOD"``."""
        sizes = {name: len(correct) for name, (_, correct) in self.splits.items()}
        return make_tasks(sizes, self.user_folds[kind], self.id_splits, n_folds, partition_seed)

    def data(self, task: Task) -> tuple[Any, Any, Any, Any]:
        """Signals and correctness of a task's source data, then of its user data."""
        return (*task.take_source(self.splits), *task.take_user(self.splits))


def wilds_files(
    datasets: Sequence[str], seeds: Sequence[int], algorithms: Sequence[str] = ("ERM",)
) -> list[str]:
    """Names in the registry of all files that :func:`wilds_study` reads for these."""
    folds = {
        "fmow": ["folds_fmow_id", "folds_fmow_ood"],
        "rxrx1": ["folds_rxrx1"],
        "civilcomments": ["folds_civilcomments"],
    }
    models = {d: data.suitability_models(d) for d in datasets}
    names = [name for d in datasets for name in (*folds[d], f"published_folds_{d}")]
    names += [
        f"{d}_{algorithm}_{seed}"
        for d in datasets
        for algorithm in algorithms
        for seed in seeds
        if (algorithm, seed) in models[d]
    ]
    return [f"suitability/{name}" for name in names]


def wilds_study(dataset: str, seed: int, algorithm: str = "ERM") -> Study:
    """Load the authors' published signals of one model."""
    tables = data.load_suitability_signals(dataset, algorithm, seed).splits
    folds: dict[str, list] = {"ID": [], "OOD": []}
    for fold in data.load_suitability_folds(dataset):
        folds["ID" if fold.in_distribution else "OOD"].append((fold.split, fold.rows, fold.label))
    splits = {name: (table.signals, table.correct) for name, table in tables.items()}
    return Study(dataset, seed, splits, data.ID_SPLITS[dataset], folds, algorithm)


def timeline(study: Study) -> list[str]:
    """Labels of the user folds that follow one another: later years, or stronger rotations."""
    labels = [label for _, _, label in study.user_folds["OOD"]]
    years = [label for label in labels if " · year " in label]
    return years or [label for label in labels if label.startswith("rotation ")]


@lru_cache(maxsize=1)  # of many jobs, one after the other
def digits_study(seed: int) -> Study:
    """Make a study of scikit-learn's digits: ID folds by digit, OOD folds of shifted images."""
    from lib.training.linear import train_linear  # here: WILDS's studies need no PyTorch

    digits = data.load_digits()
    rows = data.digits_splits(seed, _DIGITS)
    rng = np.random.default_rng(seed)
    model = train_linear(digits.images[rows["train"]], digits.labels[rows["train"]])

    def table(images: Any, labels: Any) -> Table:
        logits = model.logits(images)
        return signals(logits).to_numpy(), logits.argmax(axis=1) == labels

    images, labels = digits.images[rows["user"]], digits.labels[rows["user"]]
    source_labels = digits.labels[rows["source"]]
    splits = {"source": table(digits.images[rows["source"]], source_labels)}
    splits["unshifted"] = table(images, labels)
    for kind, severities in _SHIFTS.items():
        for severity in severities:
            shifted = data.corrupt(images, kind.replace("noise", "gaussian_noise"), severity, rng)
            splits[f"{kind} {severity:g}"] = table(shifted, labels)
    folds = {
        "ID": [("source", np.flatnonzero(source_labels == d), f"digit {d}") for d in range(10)],
        "OOD": [(name, np.arange(len(labels)), name) for name in splits if name != "source"],
    }
    return Study("digits", seed, splits, ("source",), folds)


def run_study(study: Study, n_folds: int, partition_seed: int, margin: float = 0.0) -> pd.DataFrame:
    """Run the paper's experiment, ID and OOD where there is any, from one seed of the shuffles."""
    results = []
    for kind in [kind for kind, folds in study.user_folds.items() if folds]:
        tasks = study.tasks(kind, n_folds, partition_seed)
        rows = evaluate_tasks(study.splits, tasks, margin)
        which = {"dataset": study.dataset, "algorithm": study.algorithm, "kind": kind}
        which |= {"seed": study.seed, "partition": partition_seed}
        results.append(pd.concat([pd.DataFrame(which, rows.index), rows], axis=1))
    return pd.concat(results, ignore_index=True)
