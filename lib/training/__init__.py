"""Private training: one engine for one model or for hundreds, with its privacy accounted for.

:class:`TrainingConfig` says what is trained, :func:`train` trains one model (DP-SGD by Opacus),
:func:`train_many` many at once by the same mechanism, and every result carries a
:class:`~lib.privacy.PrivacyLedger`.

Examples
--------
Those of this package begin so:

>>> from lib.training import *
>>> import numpy as np
>>> import torch
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(3, size=300)
>>> inputs = (np.eye(3)[labels] + 0.5 * rng.normal(size=(300, 3))).astype(np.float32)
>>> data = TrainingData(inputs[:200], labels[:200], classes=3)
>>> model = ModelSpec("linear", (3,), 3)
>>> config = TrainingConfig(model, epsilon=8.0, steps=20, batch_size=50, seed=1)
"""

from lib.extras import TRAINING as _needed  # noqa: F401
from lib.training.canaries import OpacusCanaries, train_audited
from lib.training.config import Augmentation, Plan, TrainingConfig, TrainingData, plan
from lib.training.fixmatch import FixMatch, train_fixmatch
from lib.training.jobs import DataSpec, LoadedData, ManyTrainings, Training
from lib.training.label_jobs import LabelChange, LabelTrainings, PateStudents, Teachers
from lib.training.linear import LinearClassifier, train_linear
from lib.training.many import engine_for, train_many
from lib.training.models import ModelSpec, build_model, parameter_count
from lib.training.objectives import (
    CrossEntropy,
    DeepGamblers,
    PosteriorTargets,
    SelectiveNet,
    SelfAdaptiveTraining,
)
from lib.training.predict import example_gradients, initial_parameters
from lib.training.single import TrainingDiverged, TrainingResult, module_of, train
from lib.training.subsets import SubsetTrainings, confidence, relabel

__all__ = [
    "Augmentation",
    "CrossEntropy",
    "DataSpec",
    "DeepGamblers",
    "FixMatch",
    "LabelChange",
    "LabelTrainings",
    "LinearClassifier",
    "LoadedData",
    "ManyTrainings",
    "ModelSpec",
    "OpacusCanaries",
    "PateStudents",
    "Plan",
    "PosteriorTargets",
    "SelectiveNet",
    "SelfAdaptiveTraining",
    "SubsetTrainings",
    "Teachers",
    "Training",
    "TrainingConfig",
    "TrainingData",
    "TrainingDiverged",
    "TrainingResult",
    "build_model",
    "confidence",
    "engine_for",
    "example_gradients",
    "initial_parameters",
    "module_of",
    "parameter_count",
    "plan",
    "relabel",
    "train",
    "train_audited",
    "train_fixmatch",
    "train_linear",
    "train_many",
]
