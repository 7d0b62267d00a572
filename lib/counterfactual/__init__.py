"""Counterfactual evaluation of abstaining classifiers: how good if they had to answer always?

Implements Choe, Gangrade and Ramdas, Counterfactually Comparing Abstaining Classifiers, NeurIPS 2023
(arXiv 2305.10564).
"""

from lib.counterfactual.diagnostics import Diagnostics, PositivityWarning
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

__all__ = [
    "ESTIMATORS",
    "LEARNERS",
    "Diagnostics",
    "Estimate",
    "ForestClassifier",
    "ForestRegressor",
    "Nuisances",
    "PositivityWarning",
    "SuperLearnerClassifier",
    "SuperLearnerRegressor",
    "counterfactual_difference",
    "counterfactual_score",
    "default_clip",
    "estimate_from_nuisances",
    "fit_nuisances",
    "fold_numbers",
    "influence_values",
    "learner_pair",
]
