"""Estimators and machinery behind the companion book.

Formulas: ``lib.selective``, ``lib.suitability``, ``lib.audit``, ``lib.counterfactual`` and
``lib.privacy``. Experiments: ``lib.training`` and ``lib.studies``, one folder per chapter, on
``lib.data`` (where data come from) and ``lib.runs`` (what a run leaves behind). Pages:
``lib.report`` (on a reader's own model) and ``lib.book`` (how a chapter becomes a page).
``ARCHITECTURE.md`` draws which imports which.
"""

__version__ = "0.1.0"
