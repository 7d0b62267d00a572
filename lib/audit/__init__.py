"""Auditing differential privacy: from an attack's errors to intervals for epsilon (P3)."""

from lib.audit.counts import AttackCounts
from lib.audit.intervals import best_lower_bound, epsilon_interval, epsilon_lower_bounds
from lib.audit.posterior import EpsilonPosterior, epsilon_posterior
from lib.audit.regions import PrivacyRegion, epsilon_point, privacy_region
from lib.audit.selection import (
    gaussian_fnr,
    held_out_lower_bound,
    roc_counts,
    true_best_epsilon,
    union_lower_bound,
)

__all__ = [
    "AttackCounts",
    "EpsilonPosterior",
    "PrivacyRegion",
    "best_lower_bound",
    "epsilon_interval",
    "epsilon_lower_bounds",
    "epsilon_point",
    "epsilon_posterior",
    "gaussian_fnr",
    "held_out_lower_bound",
    "privacy_region",
    "roc_counts",
    "true_best_epsilon",
    "union_lower_bound",
]
