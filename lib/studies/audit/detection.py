"""What audits detect: with many training runs, and with one."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.audit.attacks import fit_models, log_ratio
from lib.audit.intervals import epsilon_lower_bounds
from lib.audit.one_run import best_one_run
from lib.audit.planning import AUDITS, detection_limit, detection_rate, gaussian_mu
from lib.audit.selection import counts_at, true_best_epsilon
from lib.studies.audit.sanity import SanityCheck, engine_scores
from lib.studies.audit.system import FIT_SHARE, AuditResult

#: The level of the audits' lower bounds, and in how many audits an understatement must be found.
LEVEL, POWER = 0.95, 0.9


def detection_table(
    check: SanityCheck,
    models: Sequence[int],
    trainings: int,
    *,
    level: float,
    power: float,
    seed: int,
) -> pd.DataFrame:
    """Understatements that audits detect, by audit, number of models and what the attack sees."""
    claimed = gaussian_mu(check.epsilon, check.delta)
    scores, members = engine_scores(check, trainings, seed)
    parts = [scores[members], scores[~members]]
    spread = math.sqrt(sum(part.var(ddof=1) for part in parts) / 2)
    seen = (parts[0].mean() - parts[1].mean()) / spread / claimed
    error = math.sqrt(sum(1 / len(part) for part in parts)) / claimed
    rows = []
    for audit in AUDITS:
        for n in models:
            given = {"level": level, "seed": seed}
            limit = detection_limit(audit, n, check.epsilon, check.delta, power=power, **given)
            wrong = detection_rate(audit, claimed, n, check.epsilon, check.delta, **given)[0]
            white, final = (
                true_best_epsilon(mu, check.delta) / check.epsilon if mu < math.inf else math.inf
                for mu in (limit, limit / seen if seen > 0 else math.inf)
            )
            rows.append((audit, n, wrong, white, final, seen, error))
    columns = ["audit", "models", "error rate", "white box", "final model", "seen", "seen, error"]
    return pd.DataFrame(rows, columns=columns)


def one_run_growth(
    epsilon: float, delta: float, canaries: Sequence[int], *, seed: int
) -> pd.DataFrame:
    """One-run bounds (95%) on a Gaussian mechanism by the number of canaries: of each family."""
    rng, mu, rows = np.random.default_rng(seed), gaussian_mu(epsilon, delta), []
    for count in canaries:
        members = rng.random(count) < 0.5
        scores = rng.standard_normal(count) + mu * members
        bounds = [best_one_run(scores, members, d) for d in (delta, 0.0)]
        bounds.append(best_one_run(scores, members, delta, family="gaussian"))
        rows.append((count, *bounds))
    return pd.DataFrame(rows, columns=["canaries", "delta", "delta = 0", "Gaussian curve"])


def compare_one_run(result: AuditResult, models: Sequence[int]) -> pd.DataFrame:
    """95% bounds of many runs and of one, on the same models, by the number of models audited."""
    training, rows = result.settings.training, []
    fitted = round(FIT_SHARE * len(result.shadows))
    ins, outs = fit_models(result.shadows[:fitted], result.shadow_members[:fitted])
    scores = log_ratio(result.shadows[fitted:].astype(float), ins, outs)
    members = result.shadow_members[fitted:]
    targets = result.scores["LiRA"]
    for n in models:
        if n <= len(targets):
            threshold = result.held_out_threshold(trials=n)
            low, truth = 0.0, result.members[:n]
            if truth.any() and not truth.all():
                row = counts_at(targets[:n], truth, threshold)
                low = epsilon_lower_bounds([row], training.delta, 0.95, "clopper-pearson")[0]
            rows.append((training.epsilon, "many runs", n, float(low)))
        if n <= len(scores):
            best = best_one_run(scores[:n], members[:n], training.delta)
            rows.append((training.epsilon, "one run each", n, best))
    return pd.DataFrame(rows, columns=["epsilon", "audit", "models", "lower bound"])
