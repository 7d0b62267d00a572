"""Decisions by the number of user samples and of labelled hold-out rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.studies.suitability.cheats import binomial_limits, source_table
from lib.studies.suitability.data import Study
from lib.studies.suitability.experiment import METRICS, is_suitable, metrics_table
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.noninferiority import welch_non_inferiority


def by_sample_size(
    study: Study,
    n_users: Sequence[int],
    n_holdouts: Sequence[int],
    n_test: int,
    margin: float,
    repetitions: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Decide about all OOD user folds with few to all of their rows; the truth is the whole fold's.

    Smaller samples are parts of larger ones. The last size, 0, stands for all rows of a fold.
    """
    x, y = source_table(study)
    n_test = min(n_test, len(y) // 3)
    tables = []
    for _ in range(repetitions):
        order = rng.permutation(len(y))
        test, rest = order[:n_test], order[n_test:]
        shuffled = [
            (split, rng.permutation(rows), label) for split, rows, label in study.user_folds["OOD"]
        ]
        for n_holdout in n_holdouts:
            hold = rest[:n_holdout]
            estimator = CorrectnessEstimator().fit(x[hold], y[hold])
            known = estimator.predict(x[test])
            for split, rows, label in shuffled:
                signals, correct = study.splits[split]
                found = estimator.predict(signals[rows])
                sizes = np.array([*[min(n, len(rows)) for n in n_users], len(rows)])
                mean = np.cumsum(found)[sizes - 1] / sizes
                squares = np.cumsum(found**2)[sizes - 1] / sizes
                variance = np.maximum(squares - mean**2, 0) * sizes / (sizes - 1)
                of_test = known.mean(), known.var(ddof=1), n_test
                p = welch_non_inferiority(*of_test, mean, variance, sizes, margin)[1]
                truth = is_suitable(y[test].mean(), correct[rows].mean(), margin)
                which = {"user_fold": label, "n_user": [*n_users, 0], "n_holdout": n_holdout}
                which |= {"rows": sizes, "p_value": p, "truth": bool(truth)}
                tables.append(pd.DataFrame(which))
    return pd.concat(tables, ignore_index=True)


def missed_table(decisions: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """Metrics by sizes, with the rate of suitable folds that are missed and its limits."""
    keys = ["n_holdout", "n_user"]
    metrics = metrics_table(decisions, [*keys, "seed"], alpha)
    table = metrics.groupby(keys, sort=False)[METRICS].mean().reset_index()
    rows = decisions.groupby(keys, sort=False)["rows"].median().to_numpy()
    table = table.assign(rows=rows, **{"user samples": rows.astype(int).astype(object)})
    table.loc[table["n_user"] == 0, "user samples"] = "all"
    suitable = decisions[decisions["truth"]]
    missed = (suitable["p_value"] > alpha).groupby([suitable[k] for k in keys], sort=False).mean()
    folds = suitable["user_fold"].nunique()
    limits = [binomial_limits(rate, folds) for rate in missed]
    return table.assign(missed=missed.to_numpy()).assign(
        low=[low for low, _ in limits], high=[high for _, high in limits]
    )
