"""NaN is refused where it comes in, or not read; it never comes out without a word.

Of the numbers and arrays that public functions take, most have a row with NaN in tests/malformed,
where it must be refused.  These are the others: one entry of an array, or a number, is replaced by
NaN, one argument at a time, and allowed are a ValueError or TypeError, or a result without NaN
(scores of withheld answers, for instance, are not read).
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
    one_label_bound,
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
    "compare_over_seeds": (selective.compare_over_seeds, STACKED),
    "points_needed": (
        selective.points_needed,
        TWO | {"difference": 0.1, "alpha": 0.05, "power": 0.8},
    ),
    "normalized_score_extremes": (selective.normalized_score_extremes, {"n_correct": 3, "n": 7}),
    "PrivacyRegion.lower": (audit.privacy_region(1.0, 0.1).lower, {"fnr": 0.2}),
    "EpsilonPosterior.cdf": (audit.epsilon_posterior(COUNTS, 0.01).cdf, {"eps": 0.5}),
    "EpsilonPosterior.ppf": (audit.epsilon_posterior(COUNTS, 0.01).ppf, {"q": 0.5}),
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
    "decision_metrics": (decision_metrics, {"p_values": SCORE, "truth": CORRECT}),
    "information_fractions": (
        su.information_fractions,
        {"n_test": 100, "batch_size": 20, "looks": 3, "variance_ratio": 1.0},
    ),
    "SequentialDesign.decide": (su.SequentialDesign(3).decide, {"p_values": np.array([0.5, 0.4])}),
    "SequentialDesign.power": (su.SequentialDesign(3).power, {"drift": 1.0}),
    "EProcess.update": (lambda values: su.EProcess(0.5).update(values), {"values": SCORE}),
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
    "default_clip": (cf.default_clip, {"n": 10}),
    "contamination_bounds": (
        lambda shares, low: cf.contamination_bounds(ESTIMATE, shares, (low, 1.0)),
        {"shares": np.array([0.1, 0.2]), "low": 0.0},
    ),
    "confidence_sequence": (
        lambda low, **given: cf.confidence_sequence(**given, start=3, score_range=(low, 9.0)),
        {"influence": SCORE, "level": 0.9, "rho": 0.3, "low": -9.0},
    ),
    "optimal_rho": (cf.optimal_rho, {"n": 10, "level": 0.9}),
    "PrivacyLedger.epsilon": (ledger, {"sample_rate": 1.0, "noise_multiplier": 1.0, "delta": 1e-3}),
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
