"""Private training: one engine for one model or for hundreds, with its privacy accounted for.

:class:`TrainingConfig` says what is trained, :func:`train` trains one model (DP-SGD by Opacus),
:func:`train_many` many at once by the same mechanism, and every result carries a
:class:`PrivacyLedger`.
"""

from lib.training.accounting import (
    ACCOUNTANTS,
    PrivacyLedger,
    SampledGaussian,
    budget_table,
    effective_noise_multiplier,
    find_noise_multiplier,
    group_guarantee,
)
from lib.training.config import Augmentation, Plan, TrainingConfig, TrainingData, plan
from lib.training.cost import p1_panel, sample_steps
from lib.training.fixmatch import FixMatch, FixMatchResult, Teachers, train_fixmatch
from lib.training.jobs import DataSpec, LoadedData, ManyTrainings, Training
from lib.training.label_jobs import LabelChange, LabelTrainings, PateStudents
from lib.training.labels import (
    GaussianLabels,
    LaplaceLabels,
    RandomizedResponse,
    multi_stage_parts,
    posterior,
    project_to_simplex,
    rr_with_prior,
)
from lib.training.linear import LinearClassifier, train_linear
from lib.training.many import engine_for, train_many
from lib.training.models import ModelSpec, build_model, check_private, parameter_count
from lib.training.objectives import (
    CrossEntropy,
    DeepGamblers,
    PosteriorTargets,
    SelectiveNet,
    SelfAdaptiveTraining,
)
from lib.training.pate import (
    Answers,
    PateCost,
    confident_gnmax,
    pate_epsilon,
    shards,
    vote_histogram,
)
from lib.training.predict import (
    dropout_probabilities,
    example_gradients,
    initial_parameters,
    outputs_of,
)
from lib.training.single import TrainingDiverged, TrainingResult, module_of, train
from lib.training.subsets import SubsetTrainings, confidence, relabel
from lib.training.suited import PUBLIC_IMAGES, suited
from lib.training.tuning import LearningRateChoice, choose_learning_rate

__all__ = [
    "ACCOUNTANTS",
    "PUBLIC_IMAGES",
    "Answers",
    "Augmentation",
    "CrossEntropy",
    "DataSpec",
    "DeepGamblers",
    "FixMatch",
    "FixMatchResult",
    "GaussianLabels",
    "LabelChange",
    "LabelTrainings",
    "LaplaceLabels",
    "LearningRateChoice",
    "LinearClassifier",
    "LoadedData",
    "ManyTrainings",
    "ModelSpec",
    "PateCost",
    "PateStudents",
    "Plan",
    "PosteriorTargets",
    "PrivacyLedger",
    "RandomizedResponse",
    "SampledGaussian",
    "SelectiveNet",
    "SelfAdaptiveTraining",
    "SubsetTrainings",
    "Teachers",
    "Training",
    "TrainingConfig",
    "TrainingData",
    "TrainingDiverged",
    "TrainingResult",
    "budget_table",
    "build_model",
    "check_private",
    "choose_learning_rate",
    "confidence",
    "confident_gnmax",
    "dropout_probabilities",
    "effective_noise_multiplier",
    "engine_for",
    "example_gradients",
    "find_noise_multiplier",
    "group_guarantee",
    "initial_parameters",
    "module_of",
    "multi_stage_parts",
    "outputs_of",
    "p1_panel",
    "parameter_count",
    "pate_epsilon",
    "plan",
    "posterior",
    "project_to_simplex",
    "relabel",
    "rr_with_prior",
    "sample_steps",
    "shards",
    "suited",
    "train",
    "train_fixmatch",
    "train_linear",
    "train_many",
    "vote_histogram",
]
