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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lib.report.example import EXAMPLES, example_predictions, example_source
    from lib.report.files import find_file, read_predictions
    from lib.report.page import show
    from lib.report.predictions import FORMAT, ModelPredictions
    from lib.report.registry import explain, needs, run_analysis
    from lib.report.reports import Report, report, run_report
    from lib.report.suitability import SuitabilityReport, suitability_report
    from lib.report.types import ANALYSES, Analysis, Drawing, Settings

#: Where names are; each module is imported when the first of its names is asked for.
_MODULES = {
    "example": ("EXAMPLES", "example_predictions", "example_source"),
    "files": ("find_file", "read_predictions"),
    "page": ("show",),
    "predictions": ("FORMAT", "ModelPredictions"),
    "registry": ("explain", "needs", "run_analysis"),
    "reports": ("Report", "report", "run_report"),
    "suitability": ("SuitabilityReport", "suitability_report"),
    "types": ("ANALYSES", "Analysis", "Drawing", "Settings"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    """Import a name where it is asked for: SciPy and Numba take longer than ``--help`` may."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
