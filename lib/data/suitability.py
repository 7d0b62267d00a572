"""The suitability filter's signals and folds, as its authors published them.

A *signal table* holds, for each example of a data split, twelve numbers computed from a
classifier's output and whether its prediction was correct.  A *fold* is a set of rows of one split:
a year, a region, a cell type, an identity that a comment mentions.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.check import require_choice
from lib.data.pickles import read_numpy_pickle
from lib.data.splits import as_rows
from lib.data.store import fetch

#: The data sets whose signals P2's authors have published.
DATASETS = ("fmow", "rxrx1", "civilcomments")
MODELS = (("ERM", 0), ("ERM", 1), ("ERM", 2), ("IRM", 0), ("groupDRO", 0))
"""The (algorithm, seed) pairs published; of CivilComments only the first three are registered."""

#: The splits drawn from the distribution that the classifier was trained on, in the authors' order.
ID_SPLITS = {"fmow": ("id_val", "id_test"), "rxrx1": ("id_test",), "civilcomments": ("val", "test")}

#: The twelve signals, in the order of the authors' published tables.
SIGNAL_NAMES = (
    "conf_max",
    "conf_std",
    "conf_entropy",
    "logit_mean",
    "logit_max",
    "logit_std",
    "logit_diff_top2",
    "loss",
    "margin_loss",
    "conf_ratio",
    "top_k_conf_sum",
    "energy",
)

_SPLITS = {
    "fmow": {"id_val", "id_test", "val", "test"},
    "rxrx1": {"val", "test", "id_test"},
    "civilcomments": {"val", "test"},
}
_FOLD_FILES = {
    "fmow": ("folds_fmow_id", "folds_fmow_ood"),
    "rxrx1": ("folds_rxrx1",),
    "civilcomments": ("folds_civilcomments",),
}
_PROPERTIES = {"fmow": ["year", "region"], "rxrx1": ["cell_type"], "civilcomments": ["sensitive"]}

# What each signal can be by its definition; SLACK allows for single precision.
_INFINITY = float("inf")
_BOUNDS = {
    "conf_max": (0, 1),
    "conf_std": (0, 0.5**0.5),  # of (1, 0), the sample's; less with more classes
    "conf_entropy": (0, _INFINITY),
    "logit_std": (0, _INFINITY),
    "logit_diff_top2": (0, _INFINITY),
    "loss": (0, _INFINITY),
    "margin_loss": (-_INFINITY, 0),
    "conf_ratio": (1, _INFINITY),
    "top_k_conf_sum": (0, 1),
}
SLACK = 1e-4


@dataclass(frozen=True, eq=False)
class SignalTable:
    """Signals and correctness of one classifier on n examples; both arrays are read-only copies.

    Attributes
    ----------
    signals : ndarray of float64, shape (n, len(names))
        One row per example, one column per signal.
    correct : ndarray of bool, shape (n,)
        Whether the classifier's prediction was correct.
    names : tuple of str
        The columns.

    Raises
    ------
    ValueError
        If shapes or types do not fit, a value is not finite, or one is outside the range that its
        signal's definition allows (a confidence above 1, say).
    """

    signals: npt.NDArray[np.float64]
    correct: npt.NDArray[np.bool_]
    names: tuple[str, ...] = SIGNAL_NAMES

    def __post_init__(self):
        signals, correct = np.asarray(self.signals), np.asarray(self.correct)
        if signals.dtype.kind != "f" or signals.ndim != 2 or signals.shape[1] != len(self.names):
            raise ValueError(
                f"signals must be floats of shape (n, {len(self.names)}), got"
                f" {signals.dtype} of shape {signals.shape}"
            )
        if correct.dtype != bool or correct.shape != signals.shape[:1]:
            raise ValueError(
                f"correct must be bools of shape ({len(signals)},), got"
                f" {correct.dtype} of shape {correct.shape}"
            )
        if len(correct) == 0:
            raise ValueError("a signal table must have at least one row, got none")
        for column, name in enumerate(self.names):
            values = signals[:, column]
            low, high = _BOUNDS.get(name, (-_INFINITY, _INFINITY))
            wrong = ~np.isfinite(values) | (values < low - SLACK) | (values > high + SLACK)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise ValueError(
                    f"{name} must be finite and in [{low}, {high}], got {values[row]} in row {row}"
                    f" ({int(wrong.sum())} such rows)"
                )
        for name, array, dtype in (("signals", signals, float), ("correct", correct, bool)):
            copy = np.array(array, dtype=dtype)
            copy.flags.writeable = False
            object.__setattr__(self, name, copy)

    def __len__(self) -> int:
        return len(self.correct)

    @property
    def accuracy(self) -> float:
        """The fraction of correct predictions."""
        return float(self.correct.mean())

    def take(self, rows: npt.ArrayLike) -> "SignalTable":
        """The table of the given rows, in that order; a row may be repeated.

        Parameters
        ----------
        rows : array_like of int, shape (m,)
            Row numbers from 0 to ``len(self) - 1``.
        """
        rows = as_rows("rows", rows, len(self))
        return SignalTable(self.signals[rows], self.correct[rows], self.names)


@dataclass(frozen=True, eq=False)
class SuitabilitySignals:
    """The signal tables of one trained classifier.

    Attributes
    ----------
    dataset, algorithm, seed
        Which classifier: see ``DATASETS`` and ``MODELS``.
    splits : mapping of str to SignalTable
        One table per data split, e.g. ``"id_val"``.
    """

    dataset: str
    algorithm: str
    seed: int
    splits: Mapping[str, SignalTable]


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows of one data split that share a property.

    Attributes
    ----------
    dataset, split : str
        Where the rows are.
    label : str
        What a reader sees, e.g. ``"id_val · year 2002–2006"`` or ``"val · Europe 2013"``.
    rows : ndarray of int64, shape (n,)
        Distinct row numbers in the split's table; read-only.
    in_distribution : bool
        Whether the split is drawn from the distribution the classifier was trained on.
    filter : mapping of str to tuple
        The property, e.g. ``{"region": ("Europe",), "year": (2013,)}``.
    """

    dataset: str
    split: str
    label: str
    rows: npt.NDArray[np.int64]
    in_distribution: bool
    filter: Mapping[str, tuple[int | str, ...]]

    def __post_init__(self):
        rows = np.array(self.rows, dtype=np.int64)
        rows.flags.writeable = False
        object.__setattr__(self, "rows", rows)

    def __len__(self) -> int:
        return len(self.rows)


def load_suitability_signals(
    dataset: str, algorithm: str = "ERM", seed: int = 0
) -> SuitabilitySignals:
    """Signals and correctness of one of the authors' classifiers on every data split.

    Parameters
    ----------
    dataset : {"fmow", "rxrx1", "civilcomments"}
        The WILDS data set.
    algorithm, seed : str, int
        One of ``suitability_models(dataset)``: ``"ERM"`` with seeds 0, 1, 2, and, but for
        CivilComments, ``"IRM"`` and ``"groupDRO"`` with seed 0.

    Returns
    -------
    SuitabilitySignals
        With the splits in the order of the file.

    Raises
    ------
    DataUnavailable
        For CivilComments unless its file was accepted: ``python -m lib.data fetch --unverified``.
    ValueError
        If there is no such model, or the file does not hold what it should.

    Notes
    -----
    CivilComments has two classes.  Of the authors' top_k_conf_sum, the sum of the largest
    ``int(0.1 k)`` confidences, we expect no term to be left there and the column to be 0 in every
    row; we have not seen the file.
    """
    models = suitability_models(dataset)
    if (algorithm, seed) not in models:
        raise ValueError(f"(algorithm, seed) must be one of {models}, got {(algorithm, seed)!r}")
    return _read_signals(
        dataset, algorithm, seed, fetch(f"suitability/{dataset}_{algorithm}_{seed}")
    )


def suitability_models(dataset: str) -> tuple[tuple[str, int], ...]:
    """The pairs (algorithm, seed) whose signals are registered for a data set.

    Parameters
    ----------
    dataset : {"fmow", "rxrx1", "civilcomments"}
        The WILDS data set.
    """
    _check_dataset(dataset)
    return tuple(each for each in MODELS if dataset != "civilcomments" or each[0] == "ERM")


def examine_signals(name: str, path: Path) -> str:
    """Check without its SHA-256 that a file can hold the signals of its name; say what it has.

    It must be readable without running code, with the right splits, every signal in its range, as
    many rows as the authors published, where they did, and every row that a fold names.  How far
    the accuracies of ERM, seed 0, on the folds are from those published is said, but no error.
    """
    known = {
        f"suitability/{d}_{a}_{s}": (d, a, s) for d in DATASETS for a, s in suitability_models(d)
    }
    if name not in known:
        raise ValueError(f"{name!r} names no file of signals")
    dataset, algorithm, seed = known[name]
    signals = _read_signals(dataset, algorithm, seed, path)
    published = load_published_folds(dataset).set_index("label")["num_samples"]
    for split, table in signals.splits.items():
        rows = published.get(f"{split} · all", len(table))
        if len(table) != rows:
            raise ValueError(f"{path}: {split} must have {rows:,} rows, got {len(table):,}")
    folds = load_suitability_folds(dataset)
    ours = fold_summary(signals, folds)
    found = ", ".join(f"{len(table):,} rows of {name}" for name, table in signals.splits.items())
    if (algorithm, seed) == ("ERM", 0):
        theirs = published_for(folds, load_published_folds(dataset))
        gap = (ours["accuracy"] - theirs["accuracy"]).abs().max()
        found += f"; accuracies on the {len(folds)} folds within {gap:.1g} of the published ones"
    return found


def _read_signals(dataset: str, algorithm: str, seed: int, path: Path) -> SuitabilitySignals:
    content = read_numpy_pickle(path)
    if type(content) is not dict:
        raise ValueError(f"{path} must hold a dict, got {type(content).__name__}")
    if set(content) != _SPLITS[dataset]:
        raise ValueError(f"{path}: splits must be {sorted(_SPLITS[dataset])}, got {list(content)}")
    splits = {}
    for split, pair in content.items():
        try:
            if type(pair) is not tuple or len(pair) != 2:
                raise ValueError("must be a pair (signals, correct)")
            splits[split] = SignalTable(*pair)
        except ValueError as error:
            raise ValueError(f"{path}: split {split!r}: {error}") from error
    return SuitabilitySignals(dataset, algorithm, seed, splits)


def load_suitability_folds(dataset: str) -> tuple[Fold, ...]:
    """The folds the authors evaluated, in the order of their files.

    The order matters: downstream, each fold consumes a random stream in its turn.

    Parameters
    ----------
    dataset : {"fmow", "rxrx1", "civilcomments"}
        The WILDS data set.

    Returns
    -------
    tuple of Fold
        FMoW: 16 in-distribution folds, then 30 out-of-distribution ones.  RxRx1: 4 of the split
        val, 4 of id_test (in distribution), 4 of test.  CivilComments: 8 of val, 8 of test, all in
        distribution; they overlap, as a comment may mention several identities.
    """
    _check_dataset(dataset)
    folds = []
    for name in _FOLD_FILES[dataset]:
        for (split, text), rows in read_numpy_pickle(fetch(f"suitability/{name}")).items():
            restriction = {
                key: tuple(value) if isinstance(value, list) else (value,)
                for key, value in ast.literal_eval(text).items()
            }
            label, inside = _label(split, restriction), split in ID_SPLITS[dataset]
            folds.append(Fold(dataset, split, label, np.array(rows), inside, restriction))
    return tuple(folds)


def load_published_folds(dataset: str) -> pd.DataFrame:
    """The fold sizes and accuracies the authors published for ERM, seed 0.

    Parameters
    ----------
    dataset : {"fmow", "rxrx1", "civilcomments"}
        The WILDS data set.

    Returns
    -------
    pandas.DataFrame
        Columns split, label (as in :class:`Fold`), the property's columns as text with ``"ALL"``
        for no restriction (FMoW: year and region; RxRx1: cell_type; CivilComments: sensitive),
        num_samples and accuracy.
        FMoW's in-distribution years are listed one by one: see :func:`published_for`.
    """
    _check_dataset(dataset)
    table = pd.read_csv(fetch(f"suitability/published_folds_{dataset}"), dtype={"year": str})
    properties = _PROPERTIES[dataset]
    if dataset != "fmow":  # the property is in the column group; RxRx1's cell_type is empty
        table = table.drop(columns=properties, errors="ignore").rename(
            columns={"group": properties[0]}
        )
    labels = []
    for row in table.to_dict("records"):
        restriction = {key: (row[key],) for key in properties if row[key] != "ALL"}
        labels.append(_label(row["split"], restriction))
    return table.assign(label=labels)[["split", "label", *properties, "num_samples", "accuracy"]]


def fold_summary(signals: SuitabilitySignals, folds: Sequence[Fold]) -> pd.DataFrame:
    """Size of each fold and a classifier's accuracy on it.

    Parameters
    ----------
    signals : SuitabilitySignals
        The classifier.
    folds : sequence of Fold
        Folds of the same data set.

    Returns
    -------
    pandas.DataFrame
        Columns split, label, size, accuracy; one row per fold.
    """
    rows = []
    for fold in folds:
        if fold.dataset != signals.dataset or fold.split not in signals.splits:
            raise ValueError(
                f"folds must lie in {signals.dataset}'s splits {list(signals.splits)}, got"
                f" {fold.dataset}'s {fold.label!r}"
            )
        accuracy = signals.splits[fold.split].take(fold.rows).accuracy
        rows.append((fold.split, fold.label, len(fold), accuracy))
    return pd.DataFrame(rows, columns=["split", "label", "size", "accuracy"])


def published_for(folds: Sequence[Fold], published: pd.DataFrame) -> pd.DataFrame:
    """What the authors published for each fold, comparable with :func:`fold_summary`.

    A fold that unites several published ones (years 2002 to 2006) has the sum of their sizes and
    the mean of their accuracies weighted by size.

    Parameters
    ----------
    folds : sequence of Fold
        The folds.
    published : pandas.DataFrame
        As :func:`load_published_folds` returns it.

    Returns
    -------
    pandas.DataFrame
        Columns split, label, size, accuracy; one row per fold.  Size is ``<NA>`` and accuracy NaN
        where a part of the fold is not published.
    """
    properties = [
        key for key in ("year", "region", "cell_type", "sensitive") if key in published.columns
    ]
    index = ["split", *properties]
    by_fold = published.set_index(index)[["num_samples", "accuracy"]].to_dict("index")
    rows = []
    for fold in folds:
        values = [[str(each) for each in fold.filter.get(key, ("ALL",))] for key in properties]
        parts = [by_fold.get((fold.split, *part)) for part in product(*values)]
        size, accuracy = None, float("nan")
        if None not in parts:
            size = sum(part["num_samples"] for part in parts)
            accuracy = sum(part["num_samples"] * part["accuracy"] for part in parts) / size
        rows.append((fold.split, fold.label, size, accuracy))
    table = pd.DataFrame(rows, columns=["split", "label", "size", "accuracy"])
    return table.astype({"size": "Int64", "accuracy": float})


def _check_dataset(dataset: str) -> None:
    require_choice("dataset", dataset, DATASETS)


def _label(split: str, restriction: Mapping[str, tuple[Any, ...]]) -> str:
    words = [
        ", ".join(_title(each) if key == "sensitive" else each for each in values)
        for key, values in restriction.items()
        if key != "year"
    ]
    if "year" in restriction:
        years = [int(year) for year in restriction["year"]]
        consecutive = years == list(range(years[0], years[0] + len(years)))
        if len(years) > 1 and consecutive:
            span = f"{years[0]}–{years[-1]}"
        else:
            span = ", ".join(map(str, years))
        words.append(span if words else f"year {span}")
    return f"{split} · {' '.join(words) or 'all'}"


def _title(group: str) -> str:
    """An identity as the paper's Table 4 names it: ``"Other Religions"``, but ``"LGBTQ"``."""
    return group if group.isupper() else group.replace("_", " ").title()
