"""Auditing with one run beside auditing with many, on the same models."""

from collections.abc import Sequence

import pandas as pd

from lib.audit.attacks import fit_models, log_ratio
from lib.audit.intervals import epsilon_lower_bounds
from lib.audit.one_run import FRACTIONS, best_one_run
from lib.audit.selection import counts_at
from lib.studies.audit.system import FIT_SHARE, AuditResult


def compare_one_run(
    result: AuditResult,
    models: Sequence[int],
    level: float = 0.95,
    shares: Sequence[float] = FRACTIONS,
) -> pd.DataFrame:
    """Lower bounds of both ways of auditing, by the number of models audited."""
    training, rows = result.settings.training, []
    fitted = round(FIT_SHARE * len(result.shadows))
    ins, outs = fit_models(result.shadows[:fitted], result.shadow_members[:fitted])
    scores = log_ratio(result.shadows[fitted:].astype(float), ins, outs)
    members = result.shadow_members[fitted:]
    targets = result.scores["LiRA"]
    for n in models:
        if n <= len(targets):
            threshold = result.held_out_threshold("LiRA", level, trials=n)
            low, truth = 0.0, result.members[:n]
            if truth.any() and not truth.all():
                row = counts_at(targets[:n], truth, threshold)
                low = epsilon_lower_bounds([row], training.delta, level, "clopper-pearson")[0]
            rows.append((training.epsilon, "many runs", n, float(low)))
        if n <= len(scores):
            best = best_one_run(scores[:n], members[:n], training.delta, level, shares)
            rows.append((training.epsilon, "one run each", n, best))
    return pd.DataFrame(rows, columns=["epsilon", "audit", "models", "lower bound"])
