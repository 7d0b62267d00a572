"""How far estimated accuracies are off, and what that does to decisions: the paper's A.4.1."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from lib.studies.suitability.experiment import (
    METRICS,
    Splits,
    Task,
    at_margin,
    is_suitable,
    metrics_table,
)
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.filter import welch_decision
from lib.suitability.guarantees import adjusted_margin


def calibrate_on_target(estimates: Any, correct: Any) -> np.ndarray:
    """Platt's sigmoid on the target's own labels, which a user does not have."""
    decision = logit(estimates)[:, None]
    decision -= decision.mean()
    # Without a penalty; the solver's tolerance is that of the gradient.
    model = LogisticRegression(C=np.inf, tol=1e-10, solver="newton-cholesky").fit(decision, correct)
    return model.predict_proba(decision)[:, 1]


def estimated_and_true(
    splits: Splits,
    source: tuple[str, np.ndarray],
    user_folds: Sequence[tuple[str, np.ndarray, str]],
) -> pd.DataFrame:
    """Estimated and true accuracy of user folds under one estimator: the paper's Figure 5."""
    name, rows = source
    estimator = CorrectnessEstimator(seed=None).fit(splits[name][0][rows], splits[name][1][rows])
    table = []
    for split, fold, label in user_folds:
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


def error_table(results: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Drop in accuracy and errors by fifths of the estimation error: P2's Figures 6 and 7."""
    truth = results["truth"]
    error = results["estimated_user_accuracy"] - results["user_accuracy"]
    suitable = results["p_value"] <= alpha
    rows = pd.DataFrame(
        {
            "error": error,
            "drop": results["test_accuracy"] - results["user_accuracy"],
            "wrong": suitable != truth,
            "false": (suitable & ~truth).astype(float).where(~truth),
        }
    )
    grouped = rows.groupby(pd.qcut(error, 5, labels=False), sort=True)
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
    tables = []
    for margin in margins:
        moved = at_margin(results, margin)
        for alpha in alphas:
            by_model = metrics_table(moved, ["dataset", "kind", "seed"], alpha)
            tables.append(by_model.assign(margin=margin, alpha=alpha))
    keys, values = ["dataset", "kind", "margin", "alpha"], METRICS
    return pd.concat(tables).groupby(keys, sort=False)[values].mean().reset_index()


def evaluate_with_labels(
    splits: Splits,
    tasks: Sequence[Task],
    n_labelled: int,
    *,
    margin: float = 0.0,
    alpha: float = 0.05,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """What a few labels of the user's data are worth in the paper's experiments: its Eq. 12.

    The first fold of each partition is D_sf, each other one D_test in turn.
    """
    rows = []
    for task in tasks:
        signals, correct = task.take_source(splits)
        user_signals, user_correct = task.take_user(splits)
        n, size = n_labelled, len(user_correct)
        sf, *tests = task.partition
        estimator = CorrectnessEstimator(seed=None).fit(signals[sf], correct[sf])
        user = estimator.predict(user_signals)
        for fold in tests:
            test, test_correct = estimator.predict(signals[fold]), correct[fold]
            labelled = rng.choice(size, n, replace=False)
            told = (user[labelled], user_correct[labelled])
            adjusted = adjusted_margin(
                margin, test, test_correct, *told, level=alpha / 2, reference="sample"
            )
            # Nothing is suitable with a margin of -1 or less; everything with one of 1 or more.
            welch = {
                name: welch_decision(test, user, float(np.clip(m, -1 + 1e-9, 1 - 1e-9)), alpha)
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
