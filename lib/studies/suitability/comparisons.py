"""Estimators of correctness and signals compared: the paper's Tables 6 and 8."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.parallel import Parallel, delayed

from lib.runs.provenance import own_cores
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.estimators import (
    CALIBRATIONS,
    ESTIMATORS,
    as_table,
    calibration_errors,
    make_estimator,
)


def compare_estimators(
    x: pd.DataFrame,
    y: Any,
    test: pd.DataFrame,
    test_y: Any,
    names: Sequence[str] = tuple(ESTIMATORS),
    calibrations: Sequence[str] = CALIBRATIONS,
    **bins: Any,
) -> pd.DataFrame:
    """Fit several estimators to the same data and assess them on others: the paper's Table 8."""
    rows = []
    for name, calibration in itertools.product(names, calibrations):
        model = make_estimator(name, calibration, seed=None)
        p = model.fit(x.to_numpy(), y).predict_proba(test.to_numpy())[:, 1]
        rows.append({"estimator": name, "calibration": calibration, **_assess(p, test_y, **bins)})
    return pd.DataFrame(rows)


def compare_signals(
    x: pd.DataFrame, y: Any, test: pd.DataFrame, test_y: Any, **bins: Any
) -> pd.DataFrame:
    """Assess the paper's estimator on all signals and on each alone: the paper's Table 6."""
    rows = []
    for label, columns in [("all", list(x.columns)), *((c, [c]) for c in x.columns)]:
        p = CorrectnessEstimator(seed=None).fit(x[columns], y).predict(test[columns])
        rows.append({"signals": label, **_assess(p, test_y, **bins)})
    return pd.DataFrame(rows)


def _assess(p: Any, correct: Any, **bins: Any) -> dict[str, float]:
    return {
        **asdict(calibration_errors(p, correct, **bins)),
        "brier": float(((p - correct) ** 2).mean()),
        "estimated_accuracy": float(p.mean()),
        "true_accuracy": float(correct.mean()),
    }


def over_splits(
    compare: Callable[..., pd.DataFrame],
    signals: Any,
    correct: Any,
    *,
    splits: int,
    seed: int,
    rows: int | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Repeat a comparison over random splits, four fifths against one, as the authors do.

    The authors' notebook tables_plots.ipynb: three splits of FMoW's ID data, first model.
    """
    x, y, rng = as_table("signals", signals), correct, np.random.default_rng(seed)
    orders = np.array([rng.permutation(len(x)) for _ in range(splits)])
    tests, fits = np.split(orders, [len(x) // 5], axis=1)
    tables = Parallel(min(splits, own_cores()), backend="threading")(
        delayed(compare)(x.iloc[fit], y[fit], x.iloc[test], y[test], **options)
        for fit, test in zip(fits[:, :rows], tests, strict=True)
    )
    return pd.concat([t.assign(split=i) for i, t in enumerate(tables)], ignore_index=True)
