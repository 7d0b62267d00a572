"""NaN is refused where it comes in, or not read; it never comes out without a word.

Every number that a public metric, interval or test takes is replaced by NaN, one argument at a
time: one entry of an array, or a number.  Allowed are a ValueError or TypeError, or a result
without NaN (scores of withheld answers, for instance, are not read).
"""

import math

import numpy as np
import pytest
from strategies import never_nan

from lib import audit, selective
from lib import counterfactual as cf
from lib import suitability as su
from lib.audit import (
    canary_epsilon,
    epsilon_of_rate,
    one_label_bound,
    rate_of_epsilon,
    single_label_guesses,
    top_label_bound,
    top_label_guesses,
)
from lib.privacy import (
    GaussianLabels,
    LaplaceLabels,
    PrivacyLedger,
    RandomizedResponse,
    SampledGaussian,
    effective_noise_multiplier,
    find_noise_multiplier,
    posterior,
    project_to_simplex,
    rr_with_prior,
)
from lib.studies.suitability.experiment import decision_metrics

RNG = np.random.default_rng(0)
N = 12
CORRECT, SCORE = RNG.random(N) < 0.6, RNG.random(N)
OTHER = RNG.random(N)
P = RNG.dirichlet(np.ones(4), N)
LABELS = RNG.integers(0, 4, N)
TRAINED = (LABELS + 1) % 4
COUNTS = audit.AttackCounts(8, 2, 9, 3)
ROWS = np.array([[8, 2, 9, 3], [5, 5, 6, 6]])
AWAY = np.arange(N) % 3 == 0
KNOWN = cf.Nuisances(AWAY, np.where(AWAY, 0, SCORE), np.full(N, 0.3), np.full(N, 0.5))
ESTIMATE = cf.estimate_from_nuisances(KNOWN)
GAME = single_label_guesses(P, TRAINED, LABELS, 0.1, seed=0)
RANKED = {"correct": CORRECT, "score": SCORE}
TWO = RANKED | {"other_correct": ~CORRECT, "other_score": OTHER}
CANARIES = {"confidences": P, "canary_labels": TRAINED, "true_labels": LABELS}
STACKED = {name: np.stack([part, part]) for name, part in TWO.items()}


def ledger(sample_rate, noise_multiplier, delta):
    one = SampledGaussian(sample_rate, noise_multiplier, 3)
    return PrivacyLedger((one,)).epsilon(delta)


def from_nuisances(scores, propensity, outcome, clip, level):
    known = cf.Nuisances(AWAY, scores, propensity, outcome)
    found = cf.estimate_from_nuisances(known, clip=clip, level=level)
    return found.value, found.stderr, found.interval, found.p_value


CALLS = {
    "accuracy_coverage": (selective.accuracy_coverage, RANKED),
    "selective_auc": (selective.selective_auc, RANKED),
    "aurc": (selective.aurc, RANKED),
    "e_aurc": (selective.e_aurc, RANKED),
    "normalized_score": (selective.normalized_score, RANKED),
    "augrc": (selective.augrc, RANKED),
    "influence": (selective.influence, RANKED),
    "estimate": (selective.estimate, RANKED | {"level": 0.9}),
    "bootstrap": (
        lambda **given: selective.bootstrap(**given, repetitions=100, seed=0),
        RANKED | {"level": 0.9},
    ),
    "compare": (selective.compare, TWO | {"level": 0.9}),
    "compare_over_seeds": (selective.compare_over_seeds, STACKED),
    "points_needed": (
        selective.points_needed,
        TWO | {"difference": 0.1, "alpha": 0.05, "power": 0.8},
    ),
    "mean_over_seeds": (selective.mean_over_seeds, {"values": SCORE, "point_variance": 0.1}),
    "accuracy_bound": (selective.accuracy_bound, {"full_accuracy": 0.7, "coverage": 0.5}),
    "coverage_at_accuracy": (selective.coverage_at_accuracy, RANKED | {"target": 0.7}),
    "guaranteed_threshold": (
        selective.guaranteed_threshold,
        RANKED | {"target": 0.7, "level": 0.9},
    ),
    "bound_area": (selective.bound_area, {"full_accuracy": 0.7}),
    "random_order_score": (selective.random_order_score, {"full_accuracy": 0.7}),
    "worst_order_score": (selective.worst_order_score, {"full_accuracy": 0.7}),
    "normalized_score_extremes": (selective.normalized_score_extremes, {"n_correct": 3, "n": 7}),
    "softmax_response": (selective.softmax_response, {"probabilities": P}),
    "entropy": (selective.entropy, {"probabilities": P}),
    "margin": (selective.margin, {"probabilities": P}),
    "energy": (selective.energy, {"logits": P}),
    "conformal_set_size": (selective.conformal_set_size, {"probabilities": P, "mass": 0.9}),
    "mc_dropout": (selective.mc_dropout, {"probabilities": P[None]}),
    "deep_ensemble": (selective.deep_ensemble, {"probabilities": P[None]}),
    "sctd": (lambda k: selective.sctd(np.arange(8).reshape(4, 2) % 3, k), {"k": 3.0}),
    "self_adaptive_training": (selective.self_adaptive_training, {"probabilities": P}),
    "deep_gamblers": (selective.deep_gamblers, {"probabilities": P}),
    "selective_net": (selective.selective_net, {"selection": SCORE}),
    "ties_broken_by": (selective.ties_broken_by, {"score": SCORE, "second": OTHER}),
    "epsilon_interval": (
        lambda **given: audit.epsilon_interval(COUNTS, **given),
        {"delta": 0.01, "level": 0.9},
    ),
    "epsilon_lower_bounds": (
        audit.epsilon_lower_bounds,
        {"counts": ROWS, "delta": 0.01, "level": 0.9},
    ),
    "best_lower_bound": (audit.best_lower_bound, {"counts": ROWS, "delta": 0.01, "level": 0.9}),
    "union_lower_bound": (audit.union_lower_bound, {"counts": ROWS, "delta": 0.01, "level": 0.9}),
    "epsilon_point": (audit.epsilon_point, {"fpr": 0.1, "fnr": 0.2, "delta": 0.01}),
    "privacy_region": (audit.privacy_region, {"epsilon": 1.0, "delta": 0.01}),
    "PrivacyRegion.lower": (audit.privacy_region(1.0, 0.1).lower, {"fnr": 0.2}),
    "epsilon_posterior": (lambda delta: audit.epsilon_posterior(COUNTS, delta), {"delta": 0.01}),
    "EpsilonPosterior.cdf": (audit.epsilon_posterior(COUNTS, 0.01).cdf, {"eps": 0.5}),
    "EpsilonPosterior.ppf": (audit.epsilon_posterior(COUNTS, 0.01).ppf, {"q": 0.5}),
    "roc_counts": (audit.roc_counts, {"scores": SCORE, "members": CORRECT}),
    "roc_thresholds": (audit.roc_thresholds, {"scores": SCORE}),
    "gaussian_lower_bound": (
        audit.gaussian_lower_bound,
        {"in_scores": SCORE, "out_scores": SCORE, "delta": 0.01, "level": 0.9, "share": 0.5},
    ),
    "held_out_lower_bound": (
        lambda **given: audit.held_out_lower_bound(**given, seed=0),
        {"scores": SCORE, "members": CORRECT, "delta": 0.01, "level": 0.9, "share": 0.5},
    ),
    "gaussian_fnr": (audit.gaussian_fnr, {"fpr": 0.1, "mu": 1.0}),
    "true_best_epsilon": (audit.true_best_epsilon, {"mu": 1.0, "delta": 0.01}),
    "one_run_p_value": (
        lambda **given: audit.one_run_p_value(7, 10, 20, **given),
        {"epsilon": 1.0, "delta": 0.01},
    ),
    "one_run_epsilon": (
        lambda **given: audit.one_run_epsilon(9, 10, 20, **given),
        {"delta": 0.001, "level": 0.9},
    ),
    "one_run_guesses": (
        lambda scores: audit.one_run_guesses(scores, CORRECT[None], 4),
        {"scores": SCORE[None]},
    ),
    "non_inferiority_test": (
        su.non_inferiority_test,
        {"test": SCORE, "user": OTHER, "margin": 0.05},
    ),
    "welch_non_inferiority": (
        su.welch_non_inferiority,
        {
            "mean_test": 0.5,
            "variance_test": 0.1,
            "n_test": 10,
            "mean_user": 0.4,
            "variance_user": 0.2,
            "n_user": 12,
            "margin": 0.1,
        },
    ),
    "equivalence_test": (
        su.equivalence_test,
        {"test": SCORE, "user": OTHER, "margin": 0.05, "alpha": 0.05},
    ),
    "equivalence_between_groups": (
        su.equivalence_between_groups,
        {"estimates": SCORE, "groups": np.arange(N) % 3, "margin": 0.1, "alpha": 0.05},
    ),
    "calibration_errors": (su.calibration_errors, {"probabilities": SCORE, "correct": CORRECT}),
    "calibration_offset": (su.calibration_offset, {"estimated": SCORE, "correct": CORRECT}),
    "corrected_margin": (
        su.corrected_margin,
        {"margin": 0.1, "eps_source": 0.1, "eps_target": 0.05},
    ),
    "adjusted_margin": (
        su.adjusted_margin,
        {
            "margin": 0.1,
            "test_estimated": SCORE,
            "test_correct": CORRECT,
            "user_estimated": OTHER,
            "user_correct": CORRECT,
            "level": 0.025,
        },
    ),
    "prediction_powered_test": (
        su.prediction_powered_test,
        {
            "test_correct": CORRECT,
            "user_estimated": SCORE,
            "labelled_estimated": OTHER,
            "labelled_correct": CORRECT,
            "margin": 0.1,
        },
    ),
    "labels_needed": (
        su.labels_needed,
        {"sd_difference": 0.3, "half_width": 0.1, "level": 0.025},
    ),
    "labels_for_power": (
        su.labels_for_power,
        {
            "test_accuracy": 0.8,
            "n_test": 500,
            "margin": 0.2,
            "drop": 0.0,
            "alpha": 0.05,
            "power": 0.6,
        },
    ),
    "non_inferiority_power": (
        su.non_inferiority_power,
        {
            "n_test": 50,
            "n_user": 60,
            "drop": 0.0,
            "sd_test": 0.2,
            "sd_user": 0.2,
            "margin": 0.1,
            "alpha": 0.05,
        },
    ),
    "required_sample_size": (
        su.required_sample_size,
        {
            "sd_test": 0.2,
            "sd_user": 0.2,
            "margin": 0.1,
            "drop": 0.0,
            "alpha": 0.05,
            "power": 0.8,
            "ratio": 1.0,
        },
    ),
    "sample_size_for": (su.sample_size_for, {"test": SCORE, "user": OTHER, "margin": 0.1}),
    "decision_metrics": (decision_metrics, {"p_values": SCORE, "truth": CORRECT}),
    "crossing_probabilities": (
        su.crossing_probabilities,
        {"critical": np.array([2.5, 2.0]), "information": np.array([0.5, 1.0]), "drift": 0.5},
    ),
    "information_fractions": (
        su.information_fractions,
        {"n_test": 100, "batch_size": 20, "looks": 3, "variance_ratio": 1.0},
    ),
    "SequentialDesign": (lambda alpha: su.SequentialDesign(3, alpha).levels, {"alpha": 0.05}),
    "SequentialDesign.decide": (
        su.SequentialDesign(3).decide,
        {"p_values": np.array([0.5, 0.4])},
    ),
    "SequentialDesign.power": (su.SequentialDesign(3).power, {"drift": 1.0}),
    "EProcess": (lambda threshold: su.EProcess(threshold).e_value, {"threshold": 0.5}),
    "EProcess.update": (lambda values: su.EProcess(0.5).update(values), {"values": SCORE}),
    "test_upper_bound": (su.test_upper_bound, {"test": SCORE, "level": 0.05}),
    "labels_test": (
        su.labels_test,
        {"test_correct": CORRECT, "user_correct": CORRECT, "margin": 0.1},
    ),
    "AcceptanceMonitor": (
        lambda **given: su.AcceptanceMonitor(**given).history,
        {"reference": SCORE, "margin": -0.1, "alpha": 0.05, "reference_level": 0.0},
    ),
    "Monitor": (
        lambda **given: su.Monitor(**given).history,
        {"reference": SCORE, "margin": 0.1, "run_length": 100.0, "reference_level": 0.0},
    ),
    "signals": (su.signals, {"logits": P}),
    "epsilon_of_rate": (epsilon_of_rate, {"rate": 0.7}),
    "rate_of_epsilon": (rate_of_epsilon, {"epsilon": 0.7}),
    "canary_epsilon": (
        lambda **given: vars(canary_epsilon(**given)),
        CANARIES | {"thresholds": np.array([0.1, 0.3]), "level": 0.9},
    ),
    "one_label_bound": (
        lambda **given: one_label_bound(**given, seed=0),
        CANARIES | {"thresholds": np.array([0.1, 0.3]), "level": 0.9, "delta": 0.001},
    ),
    "top_label_bound": (
        top_label_bound,
        CANARIES | {"thresholds": np.array([0.1, 0.3]), "level": 0.9},
    ),
    "top_label_guesses": (top_label_guesses, CANARIES | {"threshold": 0.1}),
    "single_label_guesses": (
        lambda **given: single_label_guesses(**given, seed=0),
        CANARIES | {"threshold": 0.1},
    ),
    "Guesses.interval": (GAME.interval, {"level": 0.9}),
    "Guesses.lower_bound": (GAME.lower_bound, {"level": 0.9, "delta": 0.01}),
    "Guesses.bayesian_interval": (GAME.bayesian_interval, {"level": 0.9, "delta": 0.01}),
    "score": (
        lambda probabilities, floor: cf.score("log", probabilities, LABELS, floor=floor),
        {"probabilities": P, "floor": 1e-3},
    ),
    "confidence": (cf.confidence, {"probabilities": P}),
    "abstain": (cf.abstain, {"probabilities": P, "threshold": 0.5}),
    "selective_score": (
        cf.selective_score,
        {"scores": SCORE, "abstained": AWAY, "level": 0.9},
    ),
    "coverage": (cf.coverage, {"abstained": AWAY, "level": 0.9}),
    "chow_score": (
        cf.chow_score,
        {"scores": SCORE, "abstained": AWAY, "reward": 0.2, "level": 0.9},
    ),
    "classification_quality": (
        cf.classification_quality,
        {"scores": SCORE, "abstained": AWAY, "level": 0.9},
    ),
    "estimate_from_nuisances": (
        from_nuisances,
        {
            "scores": KNOWN.scores[::-1],
            "propensity": KNOWN.propensity,
            "outcome": KNOWN.outcome,
            "clip": 0.1,
            "level": 0.9,
        },
    ),
    "influence_values": (lambda clip: cf.influence_values(KNOWN, "dr", clip), {"clip": 0.1}),
    "default_clip": (cf.default_clip, {"n": 10}),
    "clipping_sensitivity": (
        lambda clips: cf.clipping_sensitivity(ESTIMATE, clips),
        {"clips": np.array([0.1, 0.2])},
    ),
    "contamination_bounds": (
        lambda shares, low: cf.contamination_bounds(ESTIMATE, shares, (low, 1.0)),
        {"shares": np.array([0.1, 0.2]), "low": 0.0},
    ),
    "breakdown_share": (lambda value: cf.breakdown_share(ESTIMATE, value), {"value": 0.1}),
    "confidence_sequence": (
        lambda low, **given: cf.confidence_sequence(**given, start=3, score_range=(low, 9.0)),
        {"influence": SCORE, "level": 0.9, "rho": 0.3, "low": -9.0},
    ),
    "optimal_rho": (cf.optimal_rho, {"n": 10, "level": 0.9}),
    "first_exclusion": (
        lambda value: cf.first_exclusion(cf.confidence_sequence(SCORE, start=3), value),
        {"value": 0.1},
    ),
    "project_to_simplex": (project_to_simplex, {"observed": P}),
    "posterior": (posterior, {"likelihood": P, "prior": P}),
    "rr_with_prior": (
        lambda prior, epsilon: rr_with_prior(LABELS, prior, epsilon, 0),
        {"prior": P, "epsilon": 1.0},
    ),
    "effective_noise_multiplier": (
        lambda one: effective_noise_multiplier(one, 2.0),
        {"one": 1.0},
    ),
    "find_noise_multiplier": (
        lambda **given: find_noise_multiplier(**given, steps=10),
        {"epsilon": 1.0, "delta": 1e-3, "sample_rate": 1.0, "tolerance": 1e-3},
    ),
    "PrivacyLedger.epsilon": (
        ledger,
        {"sample_rate": 1.0, "noise_multiplier": 1.0, "delta": 1e-3},
    ),
    "LaplaceLabels": (
        lambda scale, delta: LaplaceLabels(scale).epsilon(delta),
        {"scale": 1.0, "delta": 0.1},
    ),
    "GaussianLabels": (
        lambda sigma, delta: GaussianLabels(sigma).epsilon(delta),
        {"sigma": 1.0, "delta": 0.1},
    ),
    "RandomizedResponse": (
        lambda epsilon, delta: RandomizedResponse(epsilon).epsilon(delta),
        {"epsilon": 1.0, "delta": 0.1},
    ),
}


def cases():
    for name, (_, given) in CALLS.items():
        for argument in given:
            yield pytest.param(name, argument, id=f"{name}-{argument}")


@pytest.mark.parametrize("name", CALLS)
def test_the_call_itself_gives_no_nan(name):
    function, given = CALLS[name]
    result = function(**given)
    assert never_nan(list(result.values()) if isinstance(result, dict) else result)


@pytest.mark.parametrize(("name", "argument"), list(cases()))
def test_nan_is_refused_or_not_read(name, argument):
    function, given = CALLS[name]
    value = given[argument]
    if isinstance(value, np.ndarray):
        value = value.astype(float)
        value.flat[-1] = math.nan
    else:
        value = math.nan
    try:
        result = function(**given | {argument: value})
    except (ValueError, TypeError) as error:
        assert str(error)  # noqa: PT017  # not raising is right as well
        return
    assert never_nan(list(result.values()) if isinstance(result, dict) else result)


def test_nan_would_be_seen():
    assert not never_nan((1.0, [np.array([0.0, math.nan])]))
    assert not never_nan(selective.Estimate(1.0, math.nan, 0.0, 1.0, 0.9))
    assert never_nan((1, "a", None, math.inf, {"a": 1}))
