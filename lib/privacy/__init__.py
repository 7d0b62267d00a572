"""What a mechanism costs in privacy: noisy gradients, noisy labels, votes of teachers (P1, P5).

Examples
--------
Those of this package begin so:

>>> from lib.privacy import *
"""

from lib.privacy.accounting import (
    ACCOUNTANTS,
    PrivacyLedger,
    SampledGaussian,
    budget_table,
    find_noise_multiplier,
    group_guarantee,
    joint_epsilon,
    label_guarantee,
)
from lib.privacy.curves import TradeOff, trade_off
from lib.privacy.labels import (
    GaussianLabels,
    LaplaceLabels,
    RandomizedResponse,
    multi_stage_parts,
    posterior,
    project_to_simplex,
    rr_with_prior,
)
from lib.privacy.pate import (
    Answers,
    PateCost,
    confident_gnmax,
    pate_epsilon,
    shards,
    vote_histogram,
)
from lib.privacy.selection import draw_trials, selection_epsilon, selection_noise_multiplier
from lib.privacy.smooth import PublishedCost, publish_epsilon, smooth_noise_rdp, smooth_sensitivity

__all__ = [
    "ACCOUNTANTS",
    "Answers",
    "GaussianLabels",
    "LaplaceLabels",
    "PateCost",
    "PrivacyLedger",
    "PublishedCost",
    "RandomizedResponse",
    "SampledGaussian",
    "TradeOff",
    "budget_table",
    "confident_gnmax",
    "draw_trials",
    "find_noise_multiplier",
    "group_guarantee",
    "joint_epsilon",
    "label_guarantee",
    "multi_stage_parts",
    "pate_epsilon",
    "posterior",
    "project_to_simplex",
    "publish_epsilon",
    "rr_with_prior",
    "selection_epsilon",
    "selection_noise_multiplier",
    "shards",
    "smooth_noise_rdp",
    "smooth_sensitivity",
    "trade_off",
    "vote_histogram",
]
