"""Selective classification: accuracy against coverage, and what privacy does to it (P1).

A *score* is an acceptance score everywhere: larger is accepted earlier.
"""

from lib.selective.areas import (
    augrc,
    aurc,
    bound_area,
    e_aurc,
    normalized_score,
    normalized_score_extremes,
    random_order_score,
    selective_auc,
    worst_order_score,
)
from lib.selective.curves import (
    AccuracyCoverage,
    accuracy_bound,
    accuracy_coverage,
    coverage_at_accuracy,
)
from lib.selective.scores import (
    METHODS,
    Method,
    conformal_set_size,
    deep_ensemble,
    deep_gamblers,
    energy,
    entropy,
    margin,
    mc_dropout,
    sctd,
    selective_net,
    self_adaptive_training,
    softmax_response,
    ties_broken_by,
)
from lib.selective.uncertainty import (
    Estimate,
    bootstrap,
    compare,
    estimate,
    influence,
    points_needed,
)

__all__ = [
    "METHODS",
    "AccuracyCoverage",
    "Estimate",
    "Method",
    "accuracy_bound",
    "accuracy_coverage",
    "augrc",
    "aurc",
    "bootstrap",
    "bound_area",
    "compare",
    "conformal_set_size",
    "coverage_at_accuracy",
    "deep_ensemble",
    "deep_gamblers",
    "e_aurc",
    "energy",
    "entropy",
    "estimate",
    "influence",
    "margin",
    "mc_dropout",
    "normalized_score",
    "normalized_score_extremes",
    "points_needed",
    "random_order_score",
    "sctd",
    "selective_auc",
    "selective_net",
    "self_adaptive_training",
    "softmax_response",
    "ties_broken_by",
    "worst_order_score",
]
