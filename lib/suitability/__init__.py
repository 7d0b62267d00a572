"""Suitability filters: decide whether a model may be used on unlabelled data.

Implements Pouget et al., Suitability Filter, ICML 2025 (arXiv 2505.22356). From logits
to a decision:

>>> import numpy as np
>>> from lib.suitability import SuitabilityFilter, signals
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(3, size=900)
>>> logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(900, 3))
>>> correct = logits.argmax(axis=1) == labels
>>> table = signals(logits)
>>> suitability_filter = SuitabilityFilter(margin=0.05).fit(table[:300], correct[:300])
>>> decision = suitability_filter.decide(table[300:600], table[600:])
>>> print(str(decision).split(":")[0])
SUITABLE

:mod:`lib.suitability.experiment` runs the paper's evaluation on many folds at once.
"""

from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.experiment import (
    DecisionMetrics,
    Task,
    decision_metrics,
    evaluate_pairs,
    evaluate_tasks,
    make_tasks,
    mean_and_sd,
    metrics_table,
    middle_and_range,
    share_suitable,
    summarise_folds,
)
from lib.suitability.figures import plot_per_fold, plot_share_suitable
from lib.suitability.filter import Decision, SuitabilityFilter
from lib.suitability.noninferiority import (
    NonInferiority,
    non_inferiority_test,
    welch_non_inferiority,
)
from lib.suitability.signals import SIGNAL_NAMES, signals
from lib.suitability.studies import Study, digits_study, run_study, wilds_files, wilds_study

__all__ = [
    "SIGNAL_NAMES",
    "CorrectnessEstimator",
    "Decision",
    "DecisionMetrics",
    "NonInferiority",
    "Study",
    "SuitabilityFilter",
    "Task",
    "decision_metrics",
    "digits_study",
    "evaluate_pairs",
    "evaluate_tasks",
    "make_tasks",
    "mean_and_sd",
    "metrics_table",
    "middle_and_range",
    "non_inferiority_test",
    "plot_per_fold",
    "plot_share_suitable",
    "run_study",
    "share_suitable",
    "signals",
    "summarise_folds",
    "welch_non_inferiority",
    "wilds_files",
    "wilds_study",
]
