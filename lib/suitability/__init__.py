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

:mod:`lib.suitability.experiment` runs the paper's evaluation on many folds at once. Beyond the
paper's filter: power and sample size, equivalence, adjusted margins and prediction-powered tests,
sequential designs, an e-process and a :class:`Monitor`, peers, a filter that uses the labels of the
test data, and a report on a user's own model.
"""

from lib.suitability.calibration import (
    calibrate_on_target,
    error_table,
    estimated_and_true,
    evaluate_with_labels,
    margins_table,
)
from lib.suitability.equivalence import (
    Equivalence,
    GroupEquivalence,
    equivalence_between_groups,
    equivalence_test,
)
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.estimators import (
    CALIBRATIONS,
    ESTIMATORS,
    CalibrationErrors,
    calibration_errors,
    compare_estimators,
    compare_signals,
    make_estimator,
    over_splits,
)
from lib.suitability.experiment import (
    DecisionMetrics,
    Task,
    at_margin,
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
from lib.suitability.figures import (
    plot_boundaries,
    plot_error_against_drop,
    plot_estimated_and_true,
    plot_estimation_error,
    plot_lines,
    plot_monitor,
    plot_per_fold,
    plot_share_suitable,
    plot_shares,
)
from lib.suitability.filter import Decision, SuitabilityFilter, fit_errors
from lib.suitability.guarantees import (
    AdjustedMargin,
    Impossibility,
    Offset,
    PredictionPowered,
    adjusted_margin,
    calibration_offset,
    corrected_margin,
    impossibility_example,
    labels_needed,
    lemma_check,
    prediction_powered_test,
    simulate_guarantee,
)
from lib.suitability.importance import anova_table, plot_shap, shap_values
from lib.suitability.labels import LabelsTest, label_errors, labels_for_power, labels_test
from lib.suitability.monitor import (
    AcceptanceDecision,
    AcceptanceMonitor,
    Monitor,
    MonitorDecision,
    simulate_alarms,
    simulate_monitoring,
)
from lib.suitability.noninferiority import (
    NonInferiority,
    non_inferiority_test,
    welch_non_inferiority,
)
from lib.suitability.outputs import ModelOutputs, model_outputs
from lib.suitability.panel import StudyRun, load_study, run_studies, signals_table
from lib.suitability.peers import (
    PEERS,
    RULES,
    evaluate_peers,
    evaluate_peers_pairs,
    filter_as_peer,
    peer_table,
)
from lib.suitability.power import (
    SampleSize,
    non_inferiority_power,
    required_sample_size,
    sample_size_for,
)
from lib.suitability.refined import (
    DomainRuns,
    RefinedFilter,
    choose_signals,
    evaluate_more_data,
    evaluate_refined,
    known_reference,
    leave_domain_out,
)
from lib.suitability.report import (
    Predictions,
    SuitabilityReport,
    example_predictions,
    read_predictions,
    suitability_report,
)
from lib.suitability.sequential import (
    EProcess,
    SequentialDecision,
    SequentialDesign,
    crossing_probabilities,
    information_fractions,
    sequential_errors,
    test_upper_bound,
)
from lib.suitability.signals import (
    SIGNAL_NAMES,
    register_signal,
    registered_signals,
    signals,
    unregister_signal,
)
from lib.suitability.studies import (
    Study,
    digits_study,
    run_study,
    stream,
    timeline,
    wilds_files,
    wilds_study,
)
from lib.suitability.tipping import plot_tipping_point, tipping_point
from lib.suitability.wilds import (
    WILDS_RECIPES,
    WildsRecipe,
    missing_for_wilds,
    train_wilds,
    wilds_signals,
)

__all__ = [
    "CALIBRATIONS",
    "ESTIMATORS",
    "PEERS",
    "RULES",
    "SIGNAL_NAMES",
    "WILDS_RECIPES",
    "AcceptanceDecision",
    "AcceptanceMonitor",
    "AdjustedMargin",
    "CalibrationErrors",
    "CorrectnessEstimator",
    "Decision",
    "DecisionMetrics",
    "DomainRuns",
    "EProcess",
    "Equivalence",
    "GroupEquivalence",
    "Impossibility",
    "LabelsTest",
    "ModelOutputs",
    "Monitor",
    "MonitorDecision",
    "NonInferiority",
    "Offset",
    "PredictionPowered",
    "Predictions",
    "RefinedFilter",
    "SampleSize",
    "SequentialDecision",
    "SequentialDesign",
    "Study",
    "StudyRun",
    "SuitabilityFilter",
    "SuitabilityReport",
    "Task",
    "WildsRecipe",
    "adjusted_margin",
    "anova_table",
    "at_margin",
    "calibrate_on_target",
    "calibration_errors",
    "calibration_offset",
    "choose_signals",
    "compare_estimators",
    "compare_signals",
    "corrected_margin",
    "crossing_probabilities",
    "decision_metrics",
    "digits_study",
    "equivalence_between_groups",
    "equivalence_test",
    "error_table",
    "estimated_and_true",
    "evaluate_more_data",
    "evaluate_pairs",
    "evaluate_peers",
    "evaluate_peers_pairs",
    "evaluate_refined",
    "evaluate_tasks",
    "evaluate_with_labels",
    "example_predictions",
    "filter_as_peer",
    "fit_errors",
    "impossibility_example",
    "information_fractions",
    "known_reference",
    "label_errors",
    "labels_for_power",
    "labels_needed",
    "labels_test",
    "leave_domain_out",
    "lemma_check",
    "load_study",
    "make_estimator",
    "make_tasks",
    "margins_table",
    "mean_and_sd",
    "metrics_table",
    "middle_and_range",
    "missing_for_wilds",
    "model_outputs",
    "non_inferiority_power",
    "non_inferiority_test",
    "over_splits",
    "peer_table",
    "plot_boundaries",
    "plot_error_against_drop",
    "plot_estimated_and_true",
    "plot_estimation_error",
    "plot_lines",
    "plot_monitor",
    "plot_per_fold",
    "plot_shap",
    "plot_share_suitable",
    "plot_shares",
    "plot_tipping_point",
    "prediction_powered_test",
    "read_predictions",
    "register_signal",
    "registered_signals",
    "required_sample_size",
    "run_studies",
    "run_study",
    "sample_size_for",
    "sequential_errors",
    "shap_values",
    "share_suitable",
    "signals",
    "signals_table",
    "simulate_alarms",
    "simulate_guarantee",
    "simulate_monitoring",
    "stream",
    "suitability_report",
    "summarise_folds",
    "test_upper_bound",
    "timeline",
    "tipping_point",
    "train_wilds",
    "unregister_signal",
    "welch_non_inferiority",
    "wilds_files",
    "wilds_signals",
    "wilds_study",
]
