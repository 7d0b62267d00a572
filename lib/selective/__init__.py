"""Selective classification: accuracy against coverage, and what privacy does to it (P1).

A *score* is an acceptance score everywhere: larger is accepted earlier.

Examples
--------
Those of this package begin so:

>>> from lib.selective import *
>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(4, size=400)
>>> logits = 2.0 * np.eye(4)[labels] + rng.normal(size=(400, 4))
>>> probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
>>> correct = logits.argmax(axis=1) == labels
>>> score = probabilities.max(axis=1)
>>> other = rng.normal(size=400)
"""

from lib.selective.areas import (
    augrc,
    aurc,
    bound_area,
    e_aurc,
    normalized_score,
    normalized_score_extremes,
    random_order_score,
    risk_areas,
    selective_auc,
    worst_order_score,
)
from lib.selective.curves import (
    AccuracyCoverage,
    accuracy_bound,
    accuracy_coverage,
    coverage_at_accuracy,
)
from lib.selective.gap import gap_decomposition
from lib.selective.guarantee import Threshold, guaranteed_threshold
from lib.selective.influences import influence
from lib.selective.private import private_threshold
from lib.selective.scores import (
    METHODS,
    conformal_set_size,
    deep_ensemble,
    deep_gamblers,
    energy,
    entropy,
    log_odds,
    margin,
    mc_dropout,
    sctd,
    self_adaptive_training,
    softmax_response,
    ties_broken_by,
)
from lib.selective.uncertainty import (
    Estimate,
    Mean,
    bootstrap,
    compare,
    compare_over_seeds,
    estimate,
    mean_over_seeds,
    points_needed,
)

__all__ = [
    "METHODS",
    "AccuracyCoverage",
    "Estimate",
    "Mean",
    "Threshold",
    "accuracy_bound",
    "accuracy_coverage",
    "augrc",
    "aurc",
    "bootstrap",
    "bound_area",
    "compare",
    "compare_over_seeds",
    "conformal_set_size",
    "coverage_at_accuracy",
    "deep_ensemble",
    "deep_gamblers",
    "e_aurc",
    "energy",
    "entropy",
    "estimate",
    "gap_decomposition",
    "guaranteed_threshold",
    "influence",
    "log_odds",
    "margin",
    "mc_dropout",
    "mean_over_seeds",
    "normalized_score",
    "normalized_score_extremes",
    "points_needed",
    "private_threshold",
    "random_order_score",
    "risk_areas",
    "sctd",
    "selective_auc",
    "self_adaptive_training",
    "softmax_response",
    "ties_broken_by",
    "worst_order_score",
]
