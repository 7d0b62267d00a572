"""One privately trained classifier under all six lenses of the book.

:func:`settings_for` says what is trained; :func:`classify`, :func:`audit_record` and
:func:`label_canaries` train it, as stored jobs; the functions of :mod:`lib.lenses.views` ask the
six questions, by what the subjects' packages offer.
"""

from lib.lenses.evidence import (
    LabelEvidence,
    RecordAudit,
    audit_record,
    error_free_bound,
    faulty,
    label_canaries,
    label_guarantee,
    most_provable,
    trials_needed,
)
from lib.lenses.jobs import Classifiers, LabelCanaries, RecordTrainings
from lib.lenses.population import Pipeline, checkerboard
from lib.lenses.settings import LensSettings, available, settings_for
from lib.lenses.views import (
    Abstention,
    Classified,
    Trained,
    abstention,
    answers_table,
    classify,
    compare_answers,
    decisions,
    suitability,
    trained,
)

__all__ = [
    "Abstention",
    "Classified",
    "Classifiers",
    "LabelCanaries",
    "LabelEvidence",
    "LensSettings",
    "Pipeline",
    "RecordAudit",
    "RecordTrainings",
    "Trained",
    "abstention",
    "answers_table",
    "audit_record",
    "available",
    "checkerboard",
    "classify",
    "compare_answers",
    "decisions",
    "error_free_bound",
    "faulty",
    "label_canaries",
    "label_guarantee",
    "most_provable",
    "settings_for",
    "suitability",
    "trained",
    "trials_needed",
]
