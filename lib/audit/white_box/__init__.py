"""Audits that look inside one training: gradient canaries, their scores, and what these show.

A *gradient canary* is a record that exists as a gradient alone: a direction of its own, longer
than the clipping norm.  A fair coin decides whether it is in; if so, it takes part in the Poisson
samples as any record does.  The auditor reads, in each step, how far the noisy sum reaches along
each direction.  Directions are orthogonal, so that thousands of canaries share one training.

:func:`lib.training.train_audited` puts them into the book's own training runs,
:class:`lib.training.OpacusCanaries` into those that Opacus makes, and :func:`canary_scores` reads
the noisy sums of any other loop.  :func:`statements` says what the scores show, by what hypothesis.
"""

from lib.audit.white_box.directions import Directions, GradientCanaries
from lib.audit.white_box.scores import CanaryRecorder, CanaryScores, canary_scores
from lib.audit.white_box.statements import Statements, statements, sure_guesses
from lib.audit.white_box.steps import StepAudit, StepCounts, step_audit

__all__ = [
    "CanaryRecorder",
    "CanaryScores",
    "Directions",
    "GradientCanaries",
    "Statements",
    "StepAudit",
    "StepCounts",
    "canary_scores",
    "statements",
    "step_audit",
    "sure_guesses",
]
