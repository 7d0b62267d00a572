"""The paper's experiment: every user fold against every pair of source folds.

All pairs of a partition share its estimators, and all tests their moments: n_folds fits
and one pass over the data replace n_folds (n_folds - 1) fits and twice as many passes.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score
from threadpoolctl import threadpool_limits

from lib.check import (
    as_array,
    as_flags,
    as_integer,
    as_matrix,
    as_names,
    as_number,
    check_columns,
)
from lib.suitability.estimator import CorrectnessEstimator, mean_sigmoid
from lib.suitability.noninferiority import welch_non_inferiority

#: What readers call the fields of :class:`DecisionMetrics`.
METRIC_TITLES = {"accuracy": "accuracy", "fpr": "FPR", "roc_auc": "ROC AUC", "pr_auc": "PR AUC"}
METRICS = list(METRIC_TITLES)

#: Columns of :func:`evaluate_pairs` from which a decision is made: of the test, of the user data.
MOMENTS = tuple(
    f"{part}{which}{rest}"
    for which in ("test", "user")
    for part, rest in (("estimated_", "_accuracy"), ("", "_variance"), ("n_", ""))
)

Rows = npt.NDArray[np.int64]
Splits = Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class Task:
    """One user fold and a partition of the source data that remain.

    Attributes
    ----------
    label : str
        Name of the user fold.
    user : tuple of (str, ndarray)
        Split and rows of D_u.
    source : tuple of (str, ndarray) pairs
        Splits and rows of the source data, in this order one below the other.
    partition : tuple of ndarray
        Disjoint folds of equal size: positions in the source data.
    """

    label: str
    user: tuple[str, Rows]
    source: tuple[tuple[str, Rows], ...]
    partition: tuple[Rows, ...]

    def rows_in(self, split: str, fold: int) -> Rows:
        """Rows of a split that lie in one fold of the partition."""
        start = 0
        for name, rows in self.source:
            if name == split:
                inside = self.partition[fold] - start
                return rows[inside[(inside >= 0) & (inside < len(rows))]]
            start += len(rows)
        return np.empty(0, dtype=int)

    def take_source(self, splits: Splits) -> tuple[Any, Any]:
        """Signals and correctness of the source data, to which ``partition`` refers."""
        parts = [(splits[name][0][rows], splits[name][1][rows]) for name, rows in self.source]
        signals, correct = zip(*parts, strict=True)
        return np.concatenate(signals), np.concatenate(correct)

    def take_user(self, splits: Splits) -> tuple[Any, Any]:
        """Signals and correctness of the user data."""
        split, rows = self.user
        return splits[split][0][rows], splits[split][1][rows]


def make_tasks(
    sizes: Mapping[str, int],
    user_folds: Iterable[tuple[str, npt.ArrayLike, str]],
    id_splits: Sequence[str],
    n_folds: int = 15,
    seed: int = 32,
    shuffles_per_fold: int = 1,
) -> list[Task]:
    """Lay out the experiments as the authors do.

    For a user fold of an ID split the source data are the rest of that split, followed
    by the other ID splits; for one of an OOD split they are all ID data. The source data
    are shuffled and cut into ``n_folds`` folds of equal size, what is left over being
    dropped, anew for each user fold in turn.

    Pouget et al., Suitability Filter, ICML 2025, section 5.1; the authors' notebooks
    evals_fmow.ipynb and evals_rxrx1.ipynb.
    """
    as_integer("n_folds", n_folds, 2)
    as_integer("shuffles_per_fold", shuffles_per_fold)
    distinct = not isinstance(id_splits, str) and len(set(id_splits)) == len(id_splits)
    if not distinct or not id_splits:
        raise ValueError(
            f"id_splits must be a sequence of distinct splits, at least one, got {id_splits!r}"
        )
    if unknown := [name for name in id_splits if name not in sizes]:
        raise ValueError(f"id_splits must be of {', '.join(sizes)}, got {unknown[0]!r}")
    rng = np.random.RandomState(seed)  # legacy on purpose: the authors' shuffles
    tasks = []
    for split, rows, label in user_folds:
        if split not in sizes:
            raise ValueError(f"split must be one of {', '.join(sizes)}, got {split!r}")
        rows = as_rows(f"rows of {label}", rows, sizes[split])
        if len(np.unique(rows)) < len(rows):
            raise ValueError(f"rows of {label} must be distinct")
        source = [(name, np.arange(sizes[name])) for name in id_splits if name != split]
        if split in id_splits:
            source.insert(0, (split, np.setdiff1d(np.arange(sizes[split]), rows)))
        total = sum(len(part) for _, part in source)
        order = np.arange(total)
        rng.shuffle(order)
        for _ in range(shuffles_per_fold - 1):
            rng.permutation(total)  # only moves the stream on, by as much as a shuffle
        size = total // n_folds
        if size < 2:
            raise ValueError(f"n_folds must be at most {total // 2} for {label}, got {n_folds}")
        partition = tuple(order[i * size : (i + 1) * size] for i in range(n_folds))
        tasks.append(Task(label, (split, rows), tuple(source), partition))
    return tasks


def as_rows(name: str, rows: Any, size: int) -> Rows:
    """Return ``rows`` as row numbers of a split of that size, at least one."""
    rows = as_array(name, rows)
    integers = rows.ndim == 1 and len(rows) > 0 and rows.dtype.kind in "iu"
    if not integers or rows.min() < 0 or rows.max() >= size:
        raise ValueError(
            f"{name} must be integers from 0 to {size - 1}, at least one, "
            f"got {rows.dtype} of shape {rows.shape}"
            + (f" from {rows.min()} to {rows.max()}" if integers else "")
        )
    return rows


def as_splits(splits: Any) -> dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]]:
    """Return a mapping of each split to its signals and correctness, both checked."""
    if not isinstance(splits, Mapping) or not splits:
        raise ValueError(
            "splits must be a mapping of at least one split to its signals and correctness, got "
            f"{'none' if splits == {} else type(splits).__name__}"
        )
    found = {}
    for name, pair in splits.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(
                f"splits must have signals and correctness of {name}, got {type(pair).__name__}"
            )
        matrix = as_matrix(f"signals of {name}", pair[0])
        found[name] = matrix, as_flags(f"correctness of {name}", pair[1], len(matrix))
    return found


def as_task_splits(
    splits: Any, tasks: Any
) -> dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]]:
    """As :func:`as_splits`, after a check that the tasks are tasks and name what is there."""
    if not isinstance(tasks, Sequence):
        raise ValueError(f"tasks must be a sequence of tasks as of make_tasks, got {tasks!r}")
    if other := [task for task in tasks if not isinstance(task, Task)]:
        raise ValueError(f"tasks must be tasks as of make_tasks, got {type(other[0]).__name__}")
    if len(tasks) == 0:
        raise ValueError("tasks must have at least one task, got none")
    splits = as_splits(splits)
    for task in tasks:
        for name, rows in (task.user, *task.source):
            if name not in splits:
                raise ValueError(
                    f"splits must have {name}, which task {task.label} needs, got "
                    f"{', '.join(splits) or 'none'}"
                )
            if rows.max() >= len(splits[name][1]):
                raise ValueError(
                    f"splits must have row {rows.max()} of {name}, which task {task.label} needs, "
                    f"got {len(splits[name][1])} rows"
                )
    return splits


def evaluate_pairs(
    source_signals: Any,
    source_correct: Any,
    partition: Sequence[Rows],
    user_signals: Any,
    user_correct: Any,
    margin: float = 0.0,
) -> pd.DataFrame:
    """Run all experiments of one user fold: D_sf = fold i, D_test = fold j, for i != j."""
    source, user = (
        as_matrix("source_signals", source_signals),
        as_matrix("user_signals", user_signals),
    )
    correct = as_flags("source_correct", source_correct, len(source))
    user_correct = as_flags("user_correct", user_correct, len(user))
    margin = as_number("margin", margin, -1, 1)
    if user.shape[1] != source.shape[1]:
        raise ValueError(
            f"user_signals must have {source.shape[1]} columns, as source_signals, "
            f"got {user.shape[1]}"
        )
    if len(user) < 2:
        raise ValueError(f"user_signals must have at least 2 rows, got {len(user)}")
    lengths = sorted({len(rows) for rows in partition})
    if len(partition) < 2 or len(lengths) > 1 or lengths[0] < 2:
        raise ValueError(
            "partition must have at least 2 folds of one length, at least 2, "
            f"got {len(partition)} folds of lengths {lengths}"
        )
    size, k = lengths[0], len(partition)
    rows = np.concatenate([np.asarray(fold) for fold in partition])
    if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(source):
        raise ValueError(
            f"partition must hold integers from 0 to {len(source) - 1}, got {rows.dtype} values "
            f"from {rows.min()} to {rows.max()}"
        )
    if np.bincount(rows).max() > 1:
        raise ValueError("partition must have disjoint folds of distinct rows")

    estimators = [CorrectnessEstimator().fit(source[rows], correct[rows]) for rows in partition]
    weights = np.concatenate([e.weights for e in estimators], axis=1)
    # One centre for all estimators, so that one matrix product serves them.
    center = source.mean(axis=0)
    bias = np.concatenate([e.bias + (center - e.center) @ e.weights for e in estimators])
    # Indexed [estimator, test fold, row] and [estimator, row].
    on_folds = mean_sigmoid(source[rows] - center, weights, bias).reshape(k, k, size)
    on_user = mean_sigmoid(user - center, weights, bias)

    sf, test = np.nonzero(~np.eye(k, dtype=bool))
    mean, variance = on_folds.mean(axis=2).T, on_folds.var(axis=2, ddof=1).T
    user_mean, user_variance = on_user.mean(axis=1), on_user.var(axis=1, ddof=1)
    statistic, p_value, dof = welch_non_inferiority(
        mean[test, sf],
        variance[test, sf],
        size,
        user_mean[sf],
        user_variance[sf],
        len(user),
        margin,
    )
    test_accuracy = np.array([correct[rows].mean() for rows in partition])[test]
    user_accuracy = user_correct.mean()
    return pd.DataFrame(
        {
            "sf_fold": sf,
            "test_fold": test,
            "p_value": p_value,
            "statistic": statistic,
            "dof": dof,
            "test_accuracy": test_accuracy,
            "user_accuracy": user_accuracy,
            "estimated_test_accuracy": mean[test, sf],
            "estimated_user_accuracy": user_mean[sf],
            "test_variance": variance[test, sf],
            "user_variance": user_variance[sf],
            "n_test": size,
            "n_user": len(user),
            "truth": is_suitable(test_accuracy, user_accuracy, margin),
        }
    )


def is_suitable(test_accuracy: Any, user_accuracy: Any, margin: float) -> npt.NDArray[np.bool_]:
    """Definition 3.1: user accuracy at least test accuracy minus the margin."""
    # 0.7 >= 0.8 - 0.1 but for rounding; accuracies differ by 1e-12 or not at all.
    return np.asarray(user_accuracy) - test_accuracy >= -margin - 1e-12


def at_margin(results: pd.DataFrame, margin: float) -> pd.DataFrame:
    """The same experiments with another margin: statistics, p-values and truth anew."""
    margin = as_number("margin", margin, -1, 1)
    check_columns("results", results, [*MOMENTS, "test_accuracy", "user_accuracy"])
    statistic, p_value, dof = welch_non_inferiority(
        *(results[name].to_numpy() for name in MOMENTS), margin
    )
    truth = is_suitable(results["test_accuracy"], results["user_accuracy"], margin)
    return results.assign(statistic=statistic, p_value=p_value, dof=dof, truth=truth)


def evaluate_tasks(
    splits: Splits,
    tasks: Sequence[Task],
    margin: float = 0.0,
    threads: int = 1,
) -> pd.DataFrame:
    """Run all experiments of several user folds."""
    as_integer("threads", threads)
    splits = as_task_splits(splits, tasks)

    def one(task: Task) -> pd.DataFrame:
        source, user = task.take_source(splits), task.take_user(splits)
        result = evaluate_pairs(*source, task.partition, *user, margin)
        result.insert(0, "user_fold", task.label)
        return result

    # One BLAS thread each: the matrices are small, and threads of threads only wait.
    with threadpool_limits(1), ThreadPoolExecutor(threads) as executor:
        return pd.concat(executor.map(one, tasks), ignore_index=True)


@dataclass(frozen=True)
class DecisionMetrics:
    """How good decisions are; the columns of the paper's Table 1.

    Attributes
    ----------
    accuracy : float
        Share of right decisions, SUITABLE counting as right when it is true.
    fpr : float
        False positive rate: share of SUITABLE among what is not suitable.
    roc_auc, pr_auc : float
        Areas under the ROC and the precision-recall curve (average precision), with
        1 - p as the score.
    """

    accuracy: float
    fpr: float
    roc_auc: float
    pr_auc: float


def decision_metrics(p_values: Any, truth: Any, alpha: float = 0.05) -> DecisionMetrics:
    """Compare decisions at ``alpha`` with the truth."""
    p = as_array("p_values", p_values)
    if p.ndim != 1 or len(p) == 0 or p.dtype.kind not in "fiu":
        raise ValueError(
            "p_values must be numbers of shape (n,), n at least 1, got "
            f"{p.dtype} of shape {p.shape}"
        )
    p = p.astype(float)
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        raise ValueError(f"p_values must be in [0, 1], got {p[outside][0]}")
    truth = as_flags("truth", truth, len(p))
    suitable = p <= as_number("alpha", alpha, 0, 1)
    both = truth.any() and not truth.all()
    return DecisionMetrics(
        accuracy=float((suitable == truth).mean()),
        fpr=float(suitable[~truth].mean()) if not truth.all() else float("nan"),
        # -p orders as 1 - p does, without rounding tiny p to ties.
        roc_auc=float(roc_auc_score(truth, -p)) if both else float("nan"),
        pr_auc=float(average_precision_score(truth, -p)) if both else float("nan"),
    )


def metrics_table(results: pd.DataFrame, by: Sequence[str], alpha: float = 0.05) -> pd.DataFrame:
    """Compute :func:`decision_metrics` for each group of experiments."""
    if isinstance(by, str):
        raise ValueError(f"by must be a sequence of column names, got {by!r}")
    as_number("alpha", alpha, 0, 1)
    check_columns("results", results, ["p_value"], ["truth"])
    by = as_names("by", by, results.columns)
    rows = []
    for key, group in results.groupby(by, sort=False, dropna=False):
        metrics = asdict(decision_metrics(group["p_value"], group["truth"], alpha))
        suitable = int(group["truth"].sum())
        counts = {
            "experiments": len(group),
            "suitable": suitable,
            "unsuitable": len(group) - suitable,
        }
        rows.append(dict(zip(by, key, strict=True)) | metrics | counts)
    return pd.DataFrame(rows)


def share_suitable(results: pd.DataFrame, alpha: float = 0.05, width: float = 0.01) -> pd.DataFrame:
    """Share of SUITABLE decisions by bucket of accuracy difference, the paper's Figure 4."""
    as_number("width", width, 0, 1)
    as_number("alpha", alpha, 0, 1)
    check_columns("results", results, ["p_value", "test_accuracy", "user_accuracy"])
    difference = results["user_accuracy"] - results["test_accuracy"]
    bucket = np.floor(difference / width + 1e-9).astype(int)  # 0.03 / 0.01 is 2.9999...
    decided = (results["p_value"] <= alpha).groupby(bucket)
    table = decided.agg(experiments="size", suitable="sum").sort_index()
    table["share"] = table["suitable"] / table["experiments"]
    table.insert(0, "low", table.index * width)
    table.insert(1, "high", (table.index + 1) * width)
    return table.reset_index(drop=True)


def summarise_folds(results: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Summarise the experiments of each user fold under each model."""
    as_number("alpha", alpha, 0, 1)
    numbers = ["p_value", "test_accuracy", "user_accuracy"]
    check_columns("results", results, numbers, ["seed", "user_fold", "truth"])
    suitable = results["p_value"] <= alpha
    truth = as_flags("truth", results["truth"], len(results))
    rows = results[["seed", "user_fold"]].assign(
        difference=results["user_accuracy"] - results["test_accuracy"],
        share=suitable.astype(float),
        false_positives=suitable & ~truth,
    )
    grouped = rows.groupby(["seed", "user_fold"], sort=False)
    table = grouped[["difference", "share"]].mean()
    table["false_positives"] = grouped["false_positives"].sum()
    table["experiments"] = grouped.size()
    return table.reset_index()


def mean_and_sd(mean: pd.DataFrame, sd: pd.DataFrame) -> pd.DataFrame:
    """Text of a table of means and standard deviations, ``0.918 ± 0.011``."""
    text = mean.copy().astype(object)
    for column in mean:
        text[column] = [
            f"{m:.3f}" if np.isnan(s) else f"{m:.3f}\u00a0±\u00a0{s:.3f}"
            for m, s in zip(mean[column], sd[column], strict=True)
        ]
    return text.rename(columns=METRIC_TITLES)


def middle_and_range(
    lowest: pd.DataFrame, middle: pd.DataFrame, highest: pd.DataFrame
) -> pd.DataFrame:
    """Text of a table of middle values and ranges, ``0.918 (0.911 to 0.925)``."""
    text = middle.copy().astype(object)
    for column in middle:
        parts = zip(lowest[column], middle[column], highest[column], strict=True)
        text[column] = [f"{m:.3f} ({low:.3f}\u00a0to\u00a0{high:.3f})" for low, m, high in parts]
    return text.rename(columns=METRIC_TITLES)
