"""Auditing differential privacy: from an attack's errors to intervals for epsilon (P3)."""

from lib.audit.attacks import Attack, LiRA, Threshold, select_worst
from lib.audit.counts import AttackCounts
from lib.audit.gaussian import GaussianBound, gaussian_lower_bound
from lib.audit.intervals import (
    METHODS,
    best_lower_bound,
    epsilon_interval,
    epsilon_lower_bounds,
)
from lib.audit.one_run import compare_one_run, one_run_epsilon, one_run_guesses, one_run_p_value
from lib.audit.posterior import EpsilonPosterior, epsilon_posterior
from lib.audit.regions import PrivacyRegion, epsilon_point, privacy_region
from lib.audit.selection import (
    counts_at,
    gaussian_fnr,
    held_out_lower_bound,
    roc_counts,
    roc_thresholds,
    true_best_epsilon,
    union_lower_bound,
)
from lib.audit.system import (
    ATTACKS,
    AuditContradiction,
    AuditResult,
    AuditSettings,
    bounds_table,
    require_consistent,
    run_audit,
    settings_for,
    summary_table,
    table_2,
)

__all__ = [
    "ATTACKS",
    "METHODS",
    "Attack",
    "AttackCounts",
    "AuditContradiction",
    "AuditResult",
    "AuditSettings",
    "EpsilonPosterior",
    "GaussianBound",
    "LiRA",
    "PrivacyRegion",
    "Threshold",
    "best_lower_bound",
    "bounds_table",
    "compare_one_run",
    "counts_at",
    "epsilon_interval",
    "epsilon_lower_bounds",
    "epsilon_point",
    "epsilon_posterior",
    "gaussian_fnr",
    "gaussian_lower_bound",
    "held_out_lower_bound",
    "one_run_epsilon",
    "one_run_guesses",
    "one_run_p_value",
    "privacy_region",
    "require_consistent",
    "roc_counts",
    "roc_thresholds",
    "run_audit",
    "select_worst",
    "settings_for",
    "summary_table",
    "table_2",
    "true_best_epsilon",
    "union_lower_bound",
]
