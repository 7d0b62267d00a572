"""Suitability filters: decide whether a model may be used on unlabeled data.

Implements Pouget et al., Suitability Filter, ICML 2025 (arXiv 2505.22356). From logits
to a decision:

>>> import numpy as np
>>> from lib.suitability import SuitabilityFilter, signals
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(3, size=900)
>>> logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(900, 3))
>>> correct = logits.argmax(axis=1) == labels
>>> table = signals(logits)
>>> suitability_filter = SuitabilityFilter(margin=0.05).fit(table[:300], correct[:300])
>>> decision = suitability_filter.decide(table[300:600], table[600:])
>>> print(str(decision).split(":")[0])
SUITABLE

Beyond the paper's filter: power and sample size, equivalence, adjusted margins, tests of labels
and prediction-powered tests, sequential designs, an e-process, a :class:`Monitor`, labels of rows
that are chosen, and a filter that uses the labels of the test data. The paper's experiments and
other methods are in ``lib.studies.suitability``, the report on a user's own model in
:mod:`lib.report`.

Examples
--------
Those of this package begin so:

>>> from lib.suitability import *
>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(3, size=1500)
>>> logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(1500, 3))
>>> correct = logits.argmax(axis=1) == labels
>>> table = signals(logits)
>>> few = table[["conf_max", "conf_entropy"]]
>>> test, user = rng.beta(8, 2, 500), rng.beta(8, 2, 400)  # estimated correctness
"""

from lib.suitability.active import (
    ActiveDecision,
    ActiveMonitor,
    active_accuracy,
    labelling_probabilities,
)
from lib.suitability.equivalence import (
    Equivalence,
    GroupEquivalence,
    equivalence_between_groups,
    equivalence_test,
)
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.estimators import (
    CALIBRATIONS,
    ESTIMATORS,
    CalibrationErrors,
    calibration_errors,
    make_estimator,
)
from lib.suitability.filter import Decision, SuitabilityFilter
from lib.suitability.guarantees import (
    AdjustedMargin,
    Offset,
    PredictionPowered,
    adjusted_margin,
    calibration_offset,
    corrected_margin,
    labels_needed,
    prediction_powered_test,
)
from lib.suitability.importance import anova_table, shap_values
from lib.suitability.labels import LabelsTest, labels_for_power, labels_test
from lib.suitability.monitor import Monitor, MonitorDecision
from lib.suitability.multicalibration import Multicalibrator
from lib.suitability.noninferiority import (
    NonInferiority,
    non_inferiority_test,
    welch_non_inferiority,
)
from lib.suitability.power import SampleSize, non_inferiority_power, required_sample_size
from lib.suitability.refined import RefinedFilter
from lib.suitability.sequential import (
    EProcess,
    SequentialDecision,
    SequentialDesign,
    information_fractions,
    test_upper_bound,
)
from lib.suitability.signals import SIGNAL_NAMES, register_signal, signals
from lib.suitability.tipping import tipping_point

__all__ = [
    "CALIBRATIONS",
    "ESTIMATORS",
    "SIGNAL_NAMES",
    "ActiveDecision",
    "ActiveMonitor",
    "AdjustedMargin",
    "CalibrationErrors",
    "CorrectnessEstimator",
    "Decision",
    "EProcess",
    "Equivalence",
    "GroupEquivalence",
    "LabelsTest",
    "Monitor",
    "MonitorDecision",
    "Multicalibrator",
    "NonInferiority",
    "Offset",
    "PredictionPowered",
    "RefinedFilter",
    "SampleSize",
    "SequentialDecision",
    "SequentialDesign",
    "SuitabilityFilter",
    "active_accuracy",
    "adjusted_margin",
    "anova_table",
    "calibration_errors",
    "calibration_offset",
    "corrected_margin",
    "equivalence_between_groups",
    "equivalence_test",
    "information_fractions",
    "labelling_probabilities",
    "labels_for_power",
    "labels_needed",
    "labels_test",
    "make_estimator",
    "non_inferiority_power",
    "non_inferiority_test",
    "prediction_powered_test",
    "register_signal",
    "required_sample_size",
    "shap_values",
    "signals",
    "test_upper_bound",
    "tipping_point",
    "welch_non_inferiority",
]
