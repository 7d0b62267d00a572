"""The refined filter on the paper's data: choice of signals, more data, leaving a domain out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from lib.runs import Checkpoint, Outcome, run_all
from lib.studies.suitability.data import Study
from lib.studies.suitability.experiment import (
    Splits,
    Task,
    decision_metrics,
    is_suitable,
    over_tasks,
)
from lib.studies.suitability.study_runs import StudyRun, load_study
from lib.suitability.estimator import CorrectnessEstimator, standardiser
from lib.suitability.filter import Array, welch_decision
from lib.suitability.refined import RefinedFilter
from lib.suitability.signals import SIGNAL_NAMES
from lib.ties import first_largest


def evaluate_refined(
    splits: Splits, tasks: Sequence[Task], columns: Sequence[int], margin: float = 0.0
) -> pd.DataFrame:
    """Run :class:`RefinedFilter` in the experiments of several user folds.

    p-values are by the error as estimated; ``decide`` takes that at a drop of the margin if it is
    larger, which matters where errors are few.
    """

    def evaluate(signals, correct, partition, user_signals, user_correct, margin):
        rows = np.concatenate(partition)
        user, error = correct[rows].mean(), math.inf  # p = 1/2 of what says nothing
        if not standardiser(signals[rows][:, columns])[2].all():
            fitted = RefinedFilter(margin).fit(signals[rows][:, columns], correct[rows])
            user, error = fitted.estimate(user_signals[:, columns])
        test = np.array([correct[fold].mean() for fold in partition])
        accuracy = float(np.mean(user_correct))
        return pd.DataFrame(
            {
                "test_fold": np.arange(len(test)),
                "p_value": stats.norm.cdf((test - user - margin) / error),
                "test_accuracy": test,
                "user_accuracy": accuracy,
                "estimated_user_accuracy": user,
                "stderr": error,
                "truth": is_suitable(test, accuracy, margin),
            }
        )

    return over_tasks(evaluate, splits, tasks, margin)


def leave_domain_out(study: Study, n_folds: int = 15, seed: int = 32) -> list[Task]:
    """Lay out ID experiments whose source has nothing of the user's domain, in no split.

    A user fold of an ID split is a domain: a region, a span of years, a cell type.
    """
    rng = np.random.default_rng(seed)
    folds = study.user_folds["ID"]
    tasks = []
    for split, rows, label in folds:
        source = []
        for name in study.id_splits:
            same = [r for s, r, other in folds if s == name and domain(other) == domain(label)]
            kept = np.arange(len(study.splits[name][1]))
            source.append((name, np.setdiff1d(kept, np.concatenate([[], *same]).astype(int))))
        order = rng.permutation(sum(len(kept) for _, kept in source))
        size = len(order) // n_folds
        partition = tuple(order[i * size : (i + 1) * size] for i in range(n_folds))
        tasks.append(Task(label, (split, np.asarray(rows)), tuple(source), partition))
    return tasks


def domain(label: str) -> str:
    """What a user fold's label says after the dot: its domain, whatever its split."""
    return label.rpartition("·")[2].strip()


@dataclass(frozen=True)
class DomainRuns:
    """A job: sets of signals under :func:`leave_domain_out`, for one classifier."""

    dataset: str
    algorithm: str
    seed: int
    candidates: tuple[tuple[str, ...], ...]
    n_folds: int = 15
    partition: int = 32
    margin: float = 0.0

    def data_fingerprint(self) -> str:
        """Checksums of the files that the study reads."""
        return StudyRun(self.dataset, self.algorithm, self.seed).data_fingerprint()

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Fit each candidate for each domain; nothing out of distribution is read."""
        study = load_study(self.dataset, self.algorithm, self.seed)
        tasks = leave_domain_out(study, self.n_folds, self.partition)
        tables = [
            evaluate_refined(
                study.splits, tasks, [SIGNAL_NAMES.index(n) for n in names], self.margin
            )
            for names in self.candidates
        ]
        shape = (len(self.candidates), len(tasks), self.n_folds)
        arrays = {
            name: np.stack([table[name].to_numpy() for table in tables]).reshape(shape)
            for name in ("p_value", "truth")
        }
        return Outcome(arrays, {"domains": [domain(task.label) for task in tasks]})


def evaluate_more_data(splits: Splits, tasks: Sequence[Task], margin: float = 0.0) -> pd.DataFrame:
    """The paper's filter with more labels: D_sf is all folds of the source but the test fold."""

    def evaluate(signals, correct, partition, user_signals, user_correct, margin):
        rows = []
        for j, fold in enumerate(partition):
            fitting = np.concatenate([f for i, f in enumerate(partition) if i != j])
            estimator = CorrectnessEstimator(seed=None).fit(signals[fitting], correct[fitting])
            test, user = estimator.predict(signals[fold]), estimator.predict(user_signals)
            test_accuracy, user_accuracy = correct[fold].mean(), np.mean(user_correct)
            rows.append(
                {
                    "test_fold": j,
                    "p_value": welch_decision(test, user, margin, 0.05).p_value,
                    "test_accuracy": test_accuracy,
                    "user_accuracy": user_accuracy,
                    "truth": bool(is_suitable(test_accuracy, user_accuracy, margin)),
                }
            )
        return pd.DataFrame(rows)

    return over_tasks(evaluate, splits, tasks, margin)


def known_reference(results: pd.DataFrame, margin: float = 0.0) -> pd.DataFrame:
    """The paper's experiments decided with the labels of the test data.

    With estimates c and calibration, the error of an estimator that was fitted to n rows is mostly
    one of its level, common to test and user data, of variance E[c(1 - c)] / n. Compared with the
    *known* test accuracy, the user's estimate has this error; compared with the *estimated* one, it
    has instead the difference between that and the known one, which comes from the labels of the
    test data and has the same variance. The two are independent, and the mean of the references,
    for folds of one size, halves the variance. So P(SUITABLE although not suitable) is about alpha
    at most, on average over test samples and for user data near the source: errors of the slopes
    are not in the variance. :class:`RefinedFilter` has them.
    """
    test, user = results["estimated_test_accuracy"], results["estimated_user_accuracy"]
    spread = {}
    for which, mean in (("test", test), ("user", user)):
        n = results[f"n_{which}"]
        # E[c (1 - c)] from the moments.
        spread[which] = (mean - mean**2 - results[f"{which}_variance"] * (n - 1) / n).clip(lower=0)
    reference = (test + results["test_accuracy"]) / 2
    error = np.sqrt(spread["user"] / results["n_user"] + spread["test"] / (2 * results["n_test"]))
    statistic = (reference - user - margin) / error
    return results.assign(
        statistic=statistic,
        p_value=stats.norm.cdf(statistic),
        dof=np.inf,
        truth=is_suitable(results["test_accuracy"], results["user_accuracy"], margin),
    )


def choose_signals(
    jobs: Sequence[DomainRuns], alpha: float = 0.05
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Choose the set of signals with the largest ROC AUC when domains are left out."""
    runs = run_all(list(jobs))
    names = ["+".join(one) for one in jobs[0].candidates]
    domains = np.array(runs[0].metrics["domains"])
    p_value, truth = (np.stack([run.arrays[key] for run in runs]) for key in ("p_value", "truth"))

    def metrics(candidate: int | Array, which: Array) -> pd.DataFrame:
        """One row per classifier, over the user folds in `which`."""
        chosen = np.broadcast_to(candidate, len(domains))[which]
        return pd.DataFrame(
            [
                decision_metrics(p[chosen, which].ravel(), t[chosen, which].ravel(), alpha)
                for p, t in zip(p_value, truth, strict=True)
            ]
        )

    everywhere = np.arange(len(domains))
    table = pd.DataFrame([metrics(c, everywhere).mean() for c in range(len(names))])
    table.insert(0, "signals", names)
    best = np.empty(len(domains), dtype=int)
    for one in np.unique(domains):
        others = np.flatnonzero(domains != one)
        areas = np.array([metrics(c, others)["roc_auc"].mean() for c in range(len(names))])
        # Without an area, where the truth is the same throughout, the first one.
        best[domains == one] = first_largest(np.nan_to_num(areas, nan=-1.0))
    nested = metrics(best, everywhere).mean().to_frame().T
    nested.insert(0, "signals", ", ".join(sorted({names[c] for c in best})))
    table = table.sort_values("roc_auc", ascending=False, kind="stable", ignore_index=True)
    return table, nested
