"""How far estimated accuracies are off, and what that does to decisions: the paper's A.4.1."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from lib.check import (
    as_array,
    as_flags,
    as_generator,
    as_integer,
    as_matrix,
    as_number,
    check_columns,
)
from lib.studies.suitability.experiment import (
    METRICS,
    Splits,
    Task,
    as_rows,
    as_splits,
    as_task_splits,
    at_margin,
    is_suitable,
    metrics_table,
)
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.guarantees import adjusted_margin
from lib.suitability.noninferiority import non_inferiority_test


def calibrate_on_target(estimates: Any, correct: Any) -> np.ndarray:
    """Platt's sigmoid on the target's own labels, which a user does not have."""
    p = as_array("estimates", estimates)
    if p.ndim != 1:
        raise ValueError(f"estimates must have shape (n,), got {p.dtype} of shape {p.shape}")
    p = as_matrix("estimates", p[:, None])[:, 0]
    y = as_flags("correct", correct, len(p))
    if not ((p > 0) & (p < 1)).all():
        raise ValueError(f"estimates must be in (0, 1), got {p.min():g} to {p.max():g}")
    if y.all() or not y.any():
        raise ValueError("correct must have both kinds of prediction, got one only")
    decision = logit(p)[:, None]
    decision -= decision.mean()
    # Without a penalty; the solver's tolerance is that of the gradient.
    model = LogisticRegression(C=np.inf, tol=1e-10, solver="newton-cholesky").fit(decision, y)
    return model.predict_proba(decision)[:, 1]


def estimated_and_true(
    splits: Splits,
    source: tuple[str, np.ndarray],
    user_folds: Sequence[tuple[str, np.ndarray, str]],
) -> pd.DataFrame:
    """Estimated and true accuracy of many user folds under one correctness estimator.

    Pouget et al., Suitability Filter, ICML 2025, Figure 5.
    """
    splits = as_splits(splits)
    name, rows = _fold("source", ("split", "rows"), source, splits)
    if isinstance(user_folds, str) or not isinstance(user_folds, Sequence) or not user_folds:
        raise ValueError(
            "user_folds must be a sequence of (split, rows, label), at least one, got "
            f"{user_folds!r}"
        )
    folds = [_fold("user_folds", ("split", "rows", "label"), one, splits) for one in user_folds]
    estimator = CorrectnessEstimator().fit(splits[name][0][rows], splits[name][1][rows])
    table = []
    for split, fold, label in folds:
        signals, correct = splits[split][0][fold], splits[split][1][fold]
        estimates = estimator.predict(signals)
        both = correct.any() and not correct.all()
        table.append(
            {
                "label": label,
                "n": len(fold),
                "accuracy": correct.mean(),
                "estimated": estimates.mean(),
                "calibrated": calibrate_on_target(estimates, correct).mean() if both else np.nan,
            }
        )
    return pd.DataFrame(table)


def _fold(name: str, parts: tuple[str, ...], value: Any, splits: Splits) -> tuple[Any, ...]:
    """A split, rows of it, checked, and what other parts there are."""
    if not isinstance(value, tuple | list) or len(value) != len(parts):
        raise ValueError(
            f"{name} must be ({', '.join(parts)}), got {type(value).__name__}: {str(value)[:60]!r}"
        )
    if value[0] not in list(splits):
        raise ValueError(
            f"{name} must name a split, one of {', '.join(map(str, splits))}, got {value[0]!r}"
        )
    return value[0], as_rows(f"rows of {name}", value[1], len(splits[value[0]][1])), *value[2:]


def error_table(results: pd.DataFrame, alpha: float = 0.05, groups: int = 5) -> pd.DataFrame:
    """Accuracy estimation error and drop in accuracy, by size of the error on user data.

    Pouget et al., Suitability Filter, ICML 2025, Figures 6 and 7.
    """
    alpha, groups = as_number("alpha", alpha, 0, 1), as_integer("groups", groups)
    numbers = ["estimated_user_accuracy", "user_accuracy", "test_accuracy", "p_value"]
    check_columns("results", results, numbers, ["truth"])
    truth = as_flags("truth", results["truth"], len(results))
    error = results["estimated_user_accuracy"] - results["user_accuracy"]
    # As pandas.qcut cuts.
    few = groups > len(error) or error.quantile(np.linspace(0, 1, groups + 1)).nunique() <= groups
    if few and groups > 1:
        raise ValueError(
            f"groups must be so few that the errors' quantiles differ, got {groups} for "
            f"{len(error)} errors of {error.nunique()} different values"
        )
    suitable = results["p_value"] <= alpha
    rows = pd.DataFrame(
        {
            "error": error,
            "drop": results["test_accuracy"] - results["user_accuracy"],
            "wrong": suitable != truth,
            "false": (suitable & ~truth).astype(float).where(~truth),
        }
    )
    grouped = rows.groupby(pd.qcut(error, groups, labels=False), sort=True)
    return pd.DataFrame(
        {
            "error_low": grouped["error"].min(),
            "error_high": grouped["error"].max(),
            "drop": grouped["drop"].mean(),
            "wrong": grouped["wrong"].mean(),
            "fpr": grouped["false"].mean(),
            "experiments": grouped.size(),
        }
    ).reset_index(drop=True)


def margins_table(
    results: pd.DataFrame, margins: Sequence[float], alphas: Sequence[float]
) -> pd.DataFrame:
    """Metrics for several margins and significance levels."""
    margins = _levels("margins", margins, -1, 1)
    alphas = _levels("alphas", alphas, 0, 1)
    check_columns("results", results, ["p_value"], ["dataset", "kind", "seed", "truth"])
    tables = []
    for margin in margins:
        moved = at_margin(results, margin)
        for alpha in alphas:
            by_model = metrics_table(moved, ["dataset", "kind", "seed"], alpha)
            tables.append(by_model.assign(margin=margin, alpha=alpha))
    keys, values = ["dataset", "kind", "margin", "alpha"], METRICS
    return pd.concat(tables).groupby(keys, sort=False)[values].mean().reset_index()


def _levels(name: str, values: Any, low: float, high: float) -> list[float]:
    """At least one number strictly between the bounds."""
    listed = list(values) if isinstance(values, Iterable) else []
    if not listed:
        raise ValueError(f"{name} must be a sequence of at least one number, got {values!r}")
    return [as_number(name, value, low, high) for value in listed]


def evaluate_with_labels(
    splits: Splits,
    tasks: Sequence[Task],
    n_labelled: int,
    *,
    margin: float = 0.0,
    alpha: float = 0.05,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """What a few labels of the user's data are worth in the paper's experiments.

    The first fold of each partition is D_sf, each other one D_test in turn; from the user's data
    `n_labelled` rows are drawn anew for each, without replacement, and their labels told.

    Pouget et al., Suitability Filter, ICML 2025, section 4.4, Eq. 12.
    """
    margin, alpha = as_number("margin", margin, -1, 1), as_number("alpha", alpha, 0, 1)
    as_integer("n_labelled", n_labelled, 2)
    rng = as_generator(rng, "rng")
    splits = as_task_splits(splits, tasks)
    rows = []
    for task in tasks:
        signals, correct = task.take_source(splits)
        user_signals, user_correct = task.take_user(splits)
        n, size = n_labelled, len(user_correct)
        if n_labelled >= len(user_correct):
            raise ValueError(
                f"n_labelled must be from 2 to {len(user_correct) - 1} for {task.label}, got "
                f"{n_labelled!r}"
            )
        sf, *tests = task.partition
        estimator = CorrectnessEstimator().fit(signals[sf], correct[sf])
        user = estimator.predict(user_signals)
        for fold in tests:
            test, test_correct = estimator.predict(signals[fold]), correct[fold]
            labelled = rng.choice(len(user), n_labelled, replace=False)
            told = (user[labelled], user_correct[labelled])
            adjusted = adjusted_margin(
                margin, test, test_correct, *told, level=alpha / 2, reference="sample"
            )
            # Nothing is suitable with a margin of -1 or less; everything with one of 1 or more.
            welch = {
                name: non_inferiority_test(test, user, float(np.clip(m, -1 + 1e-9, 1 - 1e-9)))
                for name, m in (
                    ("unadjusted", margin),
                    ("plug-in", adjusted.value),
                    ("bound", adjusted.bound),
                )
            }
            p_values = {name: result.p_value for name, result in welch.items()}
            p_values["bound"] = min(2 * p_values["bound"], 1.0)
            # The truth is the accuracy of these very rows, a finite population: its estimates are
            # all known, and n of its labels.
            gap, drawn = test_correct.mean() - margin, told[1] - told[0]
            error = np.sqrt((1 - n / size) * drawn.var(ddof=1) / n)
            excess = gap - user.mean() - drawn.mean()
            p_values["prediction-powered"] = (
                float(special.stdtr(n - 1, excess / error))
                if error > 0
                else 0.5 * (1 + float(np.sign(excess)))
            )
            # The most right rows that are not suitable: there this many right labels are likeliest.
            possible = np.arange(size + 1) / size
            most = int((~is_suitable(test_correct.mean(), possible, margin)).sum()) - 1
            right = int(told[1].sum())
            p_values["labels alone"] = (
                float(stats.hypergeom.sf(right - 1, size, most, n)) if most >= 0 else 0.0
            )
            truth = bool(is_suitable(test_correct.mean(), user_correct.mean(), margin))
            rows += [
                {"user_fold": task.label, "method": name, "p_value": p, "truth": truth}
                for name, p in p_values.items()
            ]
    return pd.DataFrame(rows)
