"""Suitability filters: decide whether a model may be used on unlabelled data.

Implements Pouget et al., Suitability Filter, ICML 2025 (arXiv 2505.22356). From logits
to a decision::

    table = signals(logits)
    filter = SuitabilityFilter(margin=0.02).fit(table_sf, correct_sf)
    print(filter.decide(table_test, table_user))

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
