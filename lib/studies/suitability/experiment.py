"""The paper's experiment: every user fold against every pair of source folds.

All pairs of a partition share its estimators, and all tests their moments: n_folds fits
and one pass over the data replace n_folds (n_folds - 1) fits and twice as many passes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score
from threadpoolctl import threadpool_limits

from lib.suitability.estimator import fit_each, mean_sigmoid
from lib.suitability.noninferiority import welch_non_inferiority

#: What readers call the numbers of :func:`decision_metrics`.
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
    """One user fold and a partition of the source data that remain."""

    label: str
    user: tuple[str, Rows]  # split and rows of D_u
    source: tuple[tuple[str, Rows], ...]  # of the source data, in this order one below the other
    partition: tuple[Rows, ...]  # disjoint folds of equal size: positions in the source data

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
) -> list[Task]:
    """Lay out the experiments as the authors do.

    For a user fold of an ID split the source data are the rest of that split, followed
    by the other ID splits; for one of an OOD split they are all ID data. The source data
    are shuffled and cut into ``n_folds`` folds of equal size, what is left over being
    dropped, anew for each user fold in turn.

    Pouget et al., Suitability Filter, ICML 2025, section 5.1; the authors' notebooks
    evals_fmow.ipynb and evals_rxrx1.ipynb.
    """
    rng = np.random.RandomState(seed)  # legacy on purpose: the authors' shuffles
    tasks = []
    for split, rows, label in user_folds:
        rows = np.asarray(rows)
        source = [(name, np.arange(sizes[name])) for name in id_splits if name != split]
        if split in id_splits:
            source.insert(0, (split, np.setdiff1d(np.arange(sizes[split]), rows)))
        total = sum(len(part) for _, part in source)
        order = np.arange(total)
        rng.shuffle(order)
        size = total // n_folds
        if size < 2:
            raise ValueError(f"n_folds must be at most {total // 2} for {label}, got {n_folds}")
        partition = tuple(order[i * size : (i + 1) * size] for i in range(n_folds))
        tasks.append(Task(label, (split, rows), tuple(source), partition))
    return tasks


def evaluate_pairs(
    source_signals: Any,
    source_correct: Any,
    partition: Sequence[Rows],
    user_signals: Any,
    user_correct: Any,
    margin: float = 0.0,
) -> pd.DataFrame:
    """Run all experiments of one user fold: D_sf = fold i, D_test = fold j, for i != j."""
    source, user, correct = source_signals, user_signals, source_correct
    rows = np.stack(partition)
    k, size = rows.shape
    slopes, values, centers = fit_each(source[rows], correct[rows])
    weights = np.concatenate(slopes, axis=1)
    # One center for all estimators, so that one matrix product serves them.
    center = source.mean(axis=0)
    bias = (values + ((center - centers)[:, None] @ slopes)[:, 0]).ravel()
    # Indexed [estimator, test fold, row] and [estimator, row].
    on_folds = mean_sigmoid(source[rows.ravel()] - center, weights, bias).reshape(k, k, size)
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
    test_accuracy = correct[rows].mean(axis=1)[test]
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
    statistic, p_value, dof = welch_non_inferiority(
        *(results[name].to_numpy() for name in MOMENTS), margin
    )
    truth = is_suitable(results["test_accuracy"], results["user_accuracy"], margin)
    return results.assign(statistic=statistic, p_value=p_value, dof=dof, truth=truth)


def evaluate_tasks(splits: Splits, tasks: Sequence[Task], margin: float = 0.0) -> pd.DataFrame:
    """Run all experiments of several user folds."""
    with threadpool_limits(1):  # the matrices are small: several threads would only wait
        return over_tasks(evaluate_pairs, splits, tasks, margin)


def over_tasks(
    evaluate: Callable[..., pd.DataFrame], splits: Splits, tasks: Sequence[Task], margin: float
) -> pd.DataFrame:
    """What a function of source data, partition and user data says of each task."""
    tables = []
    for task in tasks:
        source, user = task.take_source(splits), task.take_user(splits)
        tables.append(evaluate(*source, task.partition, *user, margin))
        tables[-1].insert(0, "user_fold", task.label)
    return pd.concat(tables, ignore_index=True)


def decision_metrics(p_values: Any, truth: Any, alpha: float = 0.05) -> dict[str, float]:
    """Compare decisions at ``alpha`` with the truth: the columns of the paper's Table 1."""
    p, truth = np.asarray(p_values, float), np.asarray(truth, bool)
    suitable = p <= alpha
    both = truth.any() and not truth.all()
    return {
        "accuracy": float((suitable == truth).mean()),
        "fpr": float(suitable[~truth].mean()) if not truth.all() else float("nan"),
        # -p orders as 1 - p does, without rounding tiny p to ties.
        "roc_auc": float(roc_auc_score(truth, -p)) if both else float("nan"),
        "pr_auc": float(average_precision_score(truth, -p)) if both else float("nan"),
    }


def metrics_table(results: pd.DataFrame, by: Sequence[str], alpha: float = 0.05) -> pd.DataFrame:
    """Compute :func:`decision_metrics` for each group of experiments."""
    rows = []
    for key, group in results.groupby(list(by), sort=False, dropna=False):
        metrics = decision_metrics(group["p_value"], group["truth"], alpha)
        rows.append(dict(zip(by, key, strict=True)) | metrics | counts(group))
    return pd.DataFrame(rows)


def counts(group: pd.DataFrame) -> dict[str, int]:
    """How many experiments there are, of either truth."""
    suitable = int(group["truth"].sum())
    return {"experiments": len(group), "suitable": suitable, "unsuitable": len(group) - suitable}


def share_suitable(results: pd.DataFrame, alpha: float = 0.05, width: float = 0.01) -> pd.DataFrame:
    """Fraction of SUITABLE decisions by bucket of accuracy difference, the paper's Figure 4."""
    difference = results["user_accuracy"] - results["test_accuracy"]
    bucket = np.floor(difference / width + 1e-9).astype(int)  # 0.03 / 0.01 is 2.9999...
    decided = (results["p_value"] <= alpha).groupby(bucket)
    table = decided.agg(experiments="size", suitable="sum").sort_index()
    table["share"] = table["suitable"] / table["experiments"]
    table.insert(0, "low", table.index * width)
    table.insert(1, "high", (table.index + 1) * width)
    return table.reset_index(drop=True)


def summarise_folds(results: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Summarize the experiments of each user fold under each model."""
    suitable = results["p_value"] <= alpha
    rows = results[["seed", "user_fold"]].assign(
        difference=results["user_accuracy"] - results["test_accuracy"],
        share=suitable.astype(float),
        false_positives=suitable & ~results["truth"],
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
