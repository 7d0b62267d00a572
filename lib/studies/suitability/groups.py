"""Multicalibration of the correctness estimator over regions and years."""

import numpy as np
import pandas as pd

from lib.studies.suitability.cheats import source_table
from lib.studies.suitability.data import Study
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.estimators import calibration_errors
from lib.suitability.multicalibration import Multicalibrator


def group_members(study: Study) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names of the groups of ID data and, for each split, which rows are in which, (n, n_groups).

    Out of distribution a row may be in no group: a year that the source does not have.
    """
    folds = [fold for kind in study.user_folds.values() for fold in kind]
    names = list(dict.fromkeys(label.split(" · ")[-1] for _, _, label in study.user_folds["ID"]))
    members = {s: np.zeros((len(y), len(names)), dtype=bool) for s, (_, y) in study.splits.items()}
    for split, rows, label in folds:
        name = label.split(" · ")[-1]
        if name in names:
            members[split][rows, names.index(name)] = True
    return names, members


def compare_calibrations(
    study: Study, n: int, repetitions: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Error of the estimated accuracy on groups of fresh ID rows and on OOD folds, by method.

    ``paper`` fits its estimator to n labelled rows; ``half`` to the first half of them, and the
    other three correct ``half`` on the second half: all but ``half`` use the same labels.
    """
    names, members = group_members(study)
    x, y = source_table(study)
    groups = np.concatenate([members[name] for name in study.id_splits])
    n = min(n, len(y) // 2)
    rows = []
    for repetition in range(repetitions):
        order = rng.permutation(len(y))
        first, second, fresh = np.split(order, [n // 2, n])
        whole = CorrectnessEstimator().fit(x[order[:n]], y[order[:n]])
        half = CorrectnessEstimator().fit(x[first], y[first])
        on_second = half.predict(x[second]), y[second], groups[second]
        corrected = {
            "group means": Multicalibrator(bins=1).fit(*on_second),
            "multicalibrated": Multicalibrator().fit(*on_second),
            "beyond 3 s.e.": Multicalibrator(z=3).fit(*on_second),
        }
        targets = [
            ("ID", name, x[fresh[inside]], y[fresh[inside]], groups[fresh[inside]])
            for name, inside in zip(names, groups[fresh].T, strict=True)
        ]
        for split, fold, label in study.user_folds["OOD"]:
            signals, correct = study.splits[split]
            targets.append(("OOD", label, signals[fold], correct[fold], members[split][fold]))
        for kind, name, signals, correct, member in targets:
            estimates = {"paper": whole.predict(signals), "half": half.predict(signals)}
            for method, one in corrected.items():
                estimates[method] = one.predict(estimates["half"], member)
            spread = np.mean(estimates["paper"] * (1 - estimates["paper"])) / len(correct)
            for method, p in estimates.items():
                row = {"repetition": repetition, "kind": kind, "group": name, "method": method}
                error, ece = p.mean() - correct.mean(), calibration_errors(p, correct, 10).ece
                row |= {"error": error, "size": abs(error), "ece": ece}
                rows.append(row | {"chance": np.sqrt(2 * spread / np.pi)})
    return pd.DataFrame(rows)


def calibration_table(errors: pd.DataFrame) -> pd.DataFrame:
    """Mean errors by data, kind of group and method; decisions need the third, Corollary 4.4."""
    keys = ["dataset", "kind", "method"]
    return errors.groupby(keys, sort=False)[["ece", "error", "size", "chance"]].mean().reset_index()
