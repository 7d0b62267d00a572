"""Counterfactual evaluation of abstaining classifiers: how good, if they had to answer always.

Implements Choe, Gangrade and Ramdas, Counterfactually Comparing Abstaining Classifiers, NeurIPS
2023 (arXiv 2305.10564).

>>> import numpy as np
>>> from lib.counterfactual import counterfactual_difference
>>> from lib.studies.counterfactual import simulation
>>> drawn = simulation.simulate(800, rng=0)
>>> (a, b), (r, s) = drawn.scores, drawn.abstained
>>> found = counterfactual_difference(drawn.X, a, r, b, s, learner="forest", clip=0.2, rng=1)
>>> found.interval[0] < drawn.oracle_difference < found.interval[1]
True

Examples
--------
Those of this package begin so:

>>> from lib.counterfactual import *
>>> import numpy as np
>>> from lib.studies.counterfactual import simulation
>>> drawn = simulation.simulate(600, rng=0)
>>> X, (a, b), (r, s) = drawn.X, drawn.scores, drawn.abstained
>>> fit = {"learner": "linear", "clip": 0.2}
>>> estimate = counterfactual_score(X, a, r, rng=1, **fit)
"""

from lib.counterfactual.diagnostics import Diagnostics, PositivityWarning
from lib.counterfactual.efficiency import efficiency_bound, mixed_difference
from lib.counterfactual.estimate import (
    ESTIMATORS,
    Estimate,
    Nuisances,
    counterfactual_difference,
    counterfactual_score,
    default_clip,
    estimate_from_nuisances,
    fit_nuisances,
    fold_numbers,
    influence_values,
)
from lib.counterfactual.forest import ForestClassifier, ForestRegressor
from lib.counterfactual.learners import (
    LEARNERS,
    SuperLearnerClassifier,
    SuperLearnerRegressor,
    learner_pair,
)
from lib.counterfactual.metrics import (
    Metric,
    chow_score,
    classification_quality,
    classification_quality_estimate,
    coverage,
    selective_score,
)
from lib.counterfactual.scores import CONFIDENCE_MEASURES, SCORING_RULES, abstain, confidence, score
from lib.counterfactual.sensitivity import (
    breakdown_share,
    clipping_sensitivity,
    contamination_bounds,
)
from lib.counterfactual.sequences import ConfidenceSequence, confidence_sequence, optimal_rho
from lib.counterfactual.sequential import exact_sequence, predictable_nuisances

__all__ = [
    "CONFIDENCE_MEASURES",
    "ESTIMATORS",
    "LEARNERS",
    "SCORING_RULES",
    "ConfidenceSequence",
    "Diagnostics",
    "Estimate",
    "ForestClassifier",
    "ForestRegressor",
    "Metric",
    "Nuisances",
    "PositivityWarning",
    "SuperLearnerClassifier",
    "SuperLearnerRegressor",
    "abstain",
    "breakdown_share",
    "chow_score",
    "classification_quality",
    "classification_quality_estimate",
    "clipping_sensitivity",
    "confidence",
    "confidence_sequence",
    "contamination_bounds",
    "counterfactual_difference",
    "counterfactual_score",
    "coverage",
    "default_clip",
    "efficiency_bound",
    "estimate_from_nuisances",
    "exact_sequence",
    "fit_nuisances",
    "fold_numbers",
    "influence_values",
    "learner_pair",
    "mixed_difference",
    "optimal_rho",
    "predictable_nuisances",
    "score",
    "selective_score",
]
