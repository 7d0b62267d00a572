"""Auditing differential privacy: from an attack's errors to intervals for epsilon (P3).

Examples
--------
Those of this package begin so:

>>> from lib.audit import *
>>> import numpy as np
>>> counts = AttackCounts(tp=65, fp=25, tn=75, fn=35)
>>> rng = np.random.default_rng(0)
>>> members = np.arange(400) % 2 == 0
>>> scores = rng.normal(size=400) + 1.5 * members  # an attack on a Gaussian mechanism, mu = 1.5
>>> shadow_members = rng.random((60, 20)) < 0.5
>>> shadows = rng.normal(size=(60, 20)) + shadow_members * np.linspace(0, 3, 20)
>>> own = np.random.default_rng(0)
>>> labels = own.integers(10, size=1000)
>>> drawn = insert_canaries(labels, 300, n_classes=10, seed=1)
>>> logits = own.normal(size=(300, 10))
>>> logits[np.arange(300), drawn.canary_labels] += 2.0  # a model that remembers a little
>>> confidences = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
>>> data = (confidences, drawn.canary_labels, drawn.true_labels)
"""

from lib.audit.attacks import Attack, LiRA, Threshold, select_worst
from lib.audit.canaries import (
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
from lib.audit.counts import AttackCounts
from lib.audit.curves import AttackCurve, attack_curve
from lib.audit.gaussian import gaussian_lower_bound
from lib.audit.insert import Canaries, insert_canaries
from lib.audit.intervals import METHODS, best_lower_bound, epsilon_interval, epsilon_lower_bounds
from lib.audit.one_run import one_run_epsilon, one_run_guesses, one_run_p_value
from lib.audit.planning import error_free_bound, trials_needed
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

__all__ = [
    "METHODS",
    "Attack",
    "AttackCounts",
    "AttackCurve",
    "Canaries",
    "CanaryAudit",
    "EpsilonPosterior",
    "Guesses",
    "LiRA",
    "PrivacyRegion",
    "Threshold",
    "attack_curve",
    "best_lower_bound",
    "canary_epsilon",
    "counts_at",
    "epsilon_interval",
    "epsilon_lower_bounds",
    "epsilon_of_rate",
    "epsilon_point",
    "epsilon_posterior",
    "error_free_bound",
    "gaussian_fnr",
    "gaussian_lower_bound",
    "held_out_lower_bound",
    "insert_canaries",
    "one_label_bound",
    "one_run_epsilon",
    "one_run_guesses",
    "one_run_p_value",
    "privacy_region",
    "rate_of_epsilon",
    "roc_counts",
    "roc_thresholds",
    "select_worst",
    "single_label_guesses",
    "top_label_bound",
    "top_label_guesses",
    "trials_needed",
    "true_best_epsilon",
    "union_lower_bound",
]
