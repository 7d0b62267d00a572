"""A report on your own model: one file of predictions, every analysis that it allows.

>>> import numpy as np
>>> from lib.report import ModelPredictions, explain
>>> table = explain(ModelPredictions(member_scores=[0.9, 0.7], nonmember_scores=[0.2, 0.1]))
>>> print(table.loc[table["possible"], "analysis"].tolist())
['audit']
>>> print(table.set_index("analysis").loc["selective", "reason"])
missing: test_logits, test_labels

What a file may hold: :data:`FORMAT`.  From the command line:
``python -m lib.report my.npz --out report/``.

Examples
--------
Those of this package begin so:

>>> from lib.report import *
>>> import tempfile
>>> scores = ModelPredictions(
...     member_scores=[0.9, 0.7, 0.6], nonmember_scores=[0.2, 0.1]
... )
"""

from lib.report.example import EXAMPLES, example_predictions, example_source
from lib.report.files import find_file, read_predictions
from lib.report.page import show
from lib.report.predictions import FORMAT, ModelPredictions
from lib.report.registry import explain, needs, run_analysis
from lib.report.reports import Report, report, run_report
from lib.report.suitability import SuitabilityReport, suitability_report
from lib.report.types import ANALYSES, Analysis, Drawing, Settings

__all__ = [
    "ANALYSES",
    "EXAMPLES",
    "FORMAT",
    "Analysis",
    "Drawing",
    "ModelPredictions",
    "Report",
    "Settings",
    "SuitabilityReport",
    "example_predictions",
    "example_source",
    "explain",
    "find_file",
    "needs",
    "read_predictions",
    "report",
    "run_analysis",
    "run_report",
    "show",
    "suitability_report",
]
