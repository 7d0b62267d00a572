"""Canaries against label differential privacy: P5's attack, mechanisms under attack, bounds."""

from lib.canaries.attack import (
    THRESHOLDS,
    CanaryAudit,
    Guesses,
    canary_epsilon,
    epsilon_of_rate,
    one_label_bound,
    rate_of_epsilon,
    single_label_guesses,
    top_label_bound,
    top_label_guesses,
)
from lib.canaries.insert import LEGACY_SEED, Canaries, insert_canaries

__all__ = [
    "LEGACY_SEED",
    "THRESHOLDS",
    "Canaries",
    "CanaryAudit",
    "Guesses",
    "canary_epsilon",
    "epsilon_of_rate",
    "insert_canaries",
    "one_label_bound",
    "rate_of_epsilon",
    "single_label_guesses",
    "top_label_bound",
    "top_label_guesses",
]
