"""Which public name has which properties, and which has none here, and why.

The keys of the tables are the packages' public names: a new one makes this fail until it is said
what holds of it.  ``bounds`` stands for the ends of the range; ``order`` for invariance to the
order of points, rows, canaries or groups; ``ranks`` for invariance to strictly increasing maps of
the score that are injective in floating point; ``monotone`` in the arguments that matter;
``nesting`` of intervals in their level; ``holds`` for intervals that hold their estimate;
``evidence``: more of the same evidence is tighter or surer; ``brute force`` for agreement with the
definition on few points, ties included; ``closed form`` for an identity.  All that take numbers are
in test_property_nan.py too.
"""

import pytest

from lib import audit, counterfactual, privacy, report, selective, suitability

RUNS = "trains or runs a study: its numbers come from what is listed here"
HOLDER = "holds results; its methods and fields are those of the function that makes it"
NAMES = "a table of names"
PLOT = "draws"
TABLE = "arranges numbers of functions listed here in a table"
MODEL = "a fitted model or a learner: tested where it is defined"
FILES = "reads, describes or makes input"

SELECTIVE = {
    "accuracy_coverage": "bounds, order, ranks, brute force",
    "selective_auc": "bounds, order, ranks, monotone, brute force",
    "aurc": "bounds, order, ranks, monotone, brute force",
    "augrc": "bounds, order, ranks, monotone, brute force",
    "e_aurc": "bounds, order, ranks, monotone, brute force",
    "normalized_score": "bounds, order, ranks, monotone, brute force",
    "coverage_at_accuracy": "bounds, order, monotone, brute force",
    "guaranteed_threshold": "bounds, order, holds",
    "accuracy_bound": "bounds, monotone",
    "bound_area": "bounds, monotone",
    "random_order_score": "bounds",
    "worst_order_score": "bounds",
    "normalized_score_extremes": "bounds",
    "softmax_response": "bounds, order",
    "entropy": "bounds, order",
    "margin": "bounds, order",
    "energy": "bounds, closed form",
    "conformal_set_size": "bounds, order, monotone",
    "mc_dropout": "bounds, order",
    "deep_ensemble": "bounds, order",
    "sctd": "bounds, monotone",
    "self_adaptive_training": "closed form",
    "deep_gamblers": "closed form",
    "selective_net": "closed form",
    "ties_broken_by": "brute force",
    "influence": "order, ranks, closed form",
    "estimate": "order, nesting, holds, evidence",
    "compare": "closed form",
    "bootstrap": "bounds, nesting",
    "mean_over_seeds": "bounds, order, nesting, holds, monotone",
    "compare_over_seeds": "closed form",
    "points_needed": "monotone, closed form",
    "AccuracyCoverage": HOLDER,
    "Estimate": HOLDER,
    "Mean": HOLDER,
    "Threshold": HOLDER,
    "METHODS": NAMES,
    "Method": NAMES,
}

AUDIT = {
    "epsilon_point": "bounds, monotone, closed form",
    "privacy_region": "nesting, brute force",
    "PrivacyRegion": "nesting, brute force",
    "epsilon_posterior": "bounds, monotone, closed form",
    "EpsilonPosterior": "bounds, monotone, closed form",
    "epsilon_interval": "bounds, order, monotone, nesting, holds, evidence",
    "epsilon_lower_bounds": "bounds, closed form",
    "best_lower_bound": "brute force",
    "union_lower_bound": "bounds, monotone",
    "held_out_lower_bound": "bounds, ranks",
    "gaussian_lower_bound": "closed form",
    "GaussianBound": HOLDER,
    "roc_counts": "order, ranks, monotone, brute force",
    "roc_thresholds": "brute force",
    "counts_at": "brute force",
    "gaussian_fnr": "bounds, monotone",
    "true_best_epsilon": "bounds, monotone",
    "one_run_p_value": "bounds, monotone",
    "one_run_epsilon": "bounds, monotone, holds",
    "one_run_guesses": "bounds, order, ranks",
    "AttackCounts": HOLDER,
    "METHODS": NAMES,
    "Attack": MODEL,
    "LiRA": MODEL,
    "Threshold": MODEL,
    "select_worst": RUNS,
    "epsilon_of_rate": "bounds, monotone, closed form",
    "rate_of_epsilon": "bounds, monotone, closed form",
    "canary_epsilon": "bounds, order, nesting, holds, monotone",
    "one_label_bound": "bounds, monotone",
    "top_label_bound": "bounds, order, monotone",
    "top_label_guesses": "order, monotone",
    "single_label_guesses": "monotone",
    "Guesses": "bounds, nesting, holds, monotone, evidence",
    "CanaryAudit": HOLDER,
    "Canaries": HOLDER,
    "insert_canaries": RUNS,
    "error_free_bound": "tested where it is defined",
    "trials_needed": "tested where it is defined",
}

COUNTERFACTUAL = {
    "estimate_from_nuisances": "order, nesting, holds, evidence, closed form",
    "influence_values": "order, closed form",
    "selective_score": "bounds, order, nesting, holds, evidence",
    "coverage": "bounds, order, nesting, holds, evidence",
    "chow_score": "bounds, order, nesting, holds, monotone, evidence",
    "classification_quality": "bounds, order, nesting, holds, evidence, closed form",
    "classification_quality_estimate": "bounds, holds, closed form",
    "contamination_bounds": "nesting, holds, monotone",
    "breakdown_share": "bounds, monotone, closed form",
    "clipping_sensitivity": "holds, monotone",
    "confidence_sequence": "nesting, holds, closed form",
    "first_exclusion": "monotone",
    "optimal_rho": "brute force, closed form",
    "default_clip": "bounds, monotone",
    "fold_numbers": "bounds",
    "score": "bounds, order, monotone, closed form",
    "confidence": "bounds, order",
    "abstain": "bounds, monotone",
    "counterfactual_score": "estimate_from_nuisances after fits, which are not invariant to order",
    "counterfactual_difference": "as counterfactual_score",
    "fit_nuisances": MODEL,
    "learner_pair": MODEL,
    "ForestClassifier": MODEL,
    "ForestRegressor": MODEL,
    "SuperLearnerClassifier": MODEL,
    "SuperLearnerRegressor": MODEL,
    "CONFIDENCE_MEASURES": NAMES,
    "ESTIMATORS": NAMES,
    "LEARNERS": NAMES,
    "SCORING_RULES": NAMES,
    "ConfidenceSequence": HOLDER,
    "Diagnostics": HOLDER,
    "Estimate": HOLDER,
    "Metric": HOLDER,
    "Nuisances": HOLDER,
    "PositivityWarning": HOLDER,
}

SUITABILITY = {
    "non_inferiority_test": "bounds, order, monotone, evidence, closed form",
    "welch_non_inferiority": "as non_inferiority_test, which passes it moments",
    "equivalence_test": "bounds, order, monotone, nesting, holds, closed form",
    "equivalence_between_groups": "bounds, order",
    "calibration_errors": "bounds, order, closed form",
    "calibration_offset": "bounds, closed form",
    "corrected_margin": "closed form",
    "adjusted_margin": "nesting, holds, closed form",
    "prediction_powered_test": "bounds, order, monotone, closed form",
    "labels_needed": "monotone",
    "labels_for_power": "monotone",
    "non_inferiority_power": "bounds, monotone",
    "required_sample_size": "monotone",
    "sample_size_for": "as required_sample_size, with two standard deviations",
    "crossing_probabilities": "bounds, monotone",
    "information_fractions": "bounds, monotone",
    "SequentialDesign": "bounds, monotone",
    "EProcess": "bounds, monotone, closed form",
    "test_upper_bound": "bounds",
    "AcceptanceMonitor": "bounds",
    "Monitor": "bounds",
    "labels_test": "bounds, order, monotone",
    "tipping_point": "closed form",
    "SuitabilityFilter": "bounds, order, monotone",
    "signals": "order",
    "CALIBRATIONS": NAMES,
    "ESTIMATORS": NAMES,
    "SIGNAL_NAMES": NAMES,
    "registered_signals": NAMES,
    "register_signal": NAMES,
    "unregister_signal": NAMES,
    "CorrectnessEstimator": MODEL,
    "RefinedFilter": MODEL,
    "make_estimator": MODEL,
    "shap_values": MODEL,
    "anova_table": TABLE,
    "AcceptanceDecision": HOLDER,
    "AdjustedMargin": HOLDER,
    "CalibrationErrors": HOLDER,
    "Decision": HOLDER,
    "Equivalence": HOLDER,
    "GroupEquivalence": HOLDER,
    "LabelsTest": HOLDER,
    "MonitorDecision": HOLDER,
    "NonInferiority": HOLDER,
    "Offset": HOLDER,
    "PredictionPowered": HOLDER,
    "SampleSize": HOLDER,
    "SequentialDecision": HOLDER,
}

REPORT = {
    "run_report": RUNS,
    "run_analysis": RUNS,
    "explain": FILES,
    "ANALYSES": NAMES,
    "EXAMPLES": NAMES,
    "FORMAT": NAMES,
    "Analysis": HOLDER,
    "Drawing": HOLDER,
    "ModelPredictions": HOLDER,
    "SuitabilityReport": HOLDER,
    "suitability_report": RUNS,
    "Report": HOLDER,
    "Settings": HOLDER,
    "example_predictions": FILES,
    "example_source": FILES,
    "find_file": FILES,
    "read_predictions": FILES,
    "show": PLOT,
}

PRIVACY = {
    "PrivacyLedger": "bounds, order, monotone, evidence",
    "find_noise_multiplier": "monotone",
    "effective_noise_multiplier": "bounds, order, monotone",
    "LaplaceLabels": "bounds, monotone, closed form",
    "GaussianLabels": "bounds, monotone, closed form",
    "RandomizedResponse": "bounds, monotone, closed form",
    "posterior": "bounds, closed form",
    "project_to_simplex": "bounds, order, monotone, closed form, brute force",
    "rr_with_prior": "bounds",
    "ACCOUNTANTS": NAMES,
    "Answers": HOLDER,
    "PateCost": HOLDER,
    "SampledGaussian": HOLDER,
    "budget_table": TABLE,
    "group_guarantee": "tested where it is defined",
    "label_guarantee": "tested where it is defined",
    "multi_stage_parts": "tested where it is defined",
    "pate_epsilon": "tested where it is defined",
    "confident_gnmax": "tested where it is defined",
    "shards": "tested where it is defined",
    "vote_histogram": "tested where it is defined",
}

KINDS = {
    "bounds",
    "order",
    "ranks",
    "monotone",
    "nesting",
    "holds",
    "evidence",
    "brute force",
    "closed form",
}


@pytest.mark.parametrize(
    ("package", "table"),
    [
        (selective, SELECTIVE),
        (audit, AUDIT),
        (counterfactual, COUNTERFACTUAL),
        (suitability, SUITABILITY),
        (report, REPORT),
        (privacy, PRIVACY),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_public_name_is_accounted_for(package, table):
    assert sorted(set(package.__all__) - set(table)) == []
    assert sorted(set(table) - set(package.__all__)) == []
    for name, said in table.items():
        words = set(said.split(", "))
        assert words <= KINDS or not words & KINDS, (name, said)
