"""What audits detect, in tables."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.audit.one_run import best_one_run
from lib.audit.planning import AUDITS, detection_limit, detection_rate, gaussian_mu
from lib.audit.selection import true_best_epsilon
from lib.studies.audit.sanity import SanityCheck, engine_scores


def detection_table(
    check: SanityCheck,
    models: Sequence[int],
    trainings: int,
    *,
    level: float = 0.95,
    power: float = 0.9,
    repetitions: int = 200,
    seed: int = 0,
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
            given = {"level": level, "repetitions": repetitions, "seed": seed}
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
    epsilon: float, delta: float, canaries: Sequence[int], *, level: float = 0.95, seed: int
) -> pd.DataFrame:
    """One-run bounds on a Gaussian mechanism by the number of canaries: of each family."""
    rng, mu, rows = np.random.default_rng(seed), gaussian_mu(epsilon, delta), []
    for count in canaries:
        members = rng.random(count) < 0.5
        scores = rng.standard_normal(count) + mu * members
        bounds = [best_one_run(scores, members, d, level) for d in (delta, 0.0)]
        bounds.append(best_one_run(scores, members, delta, level, family="gaussian"))
        rows.append((count, *bounds))
    return pd.DataFrame(rows, columns=["canaries", "delta", "delta = 0", "Gaussian curve"])
