"""Estimators and machinery behind the companion book.

One sub-package a subject (``lib.suitability``, ...), and beside them what the
subjects share: ``lib.data`` (where data come from), ``lib.runs`` (what a run
leaves behind) and ``lib.book`` (how a chapter becomes a page).
"""

__version__ = "0.1.0"
