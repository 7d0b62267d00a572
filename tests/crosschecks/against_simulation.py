"""The posterior of epsilon and its intervals against draws of the error rates."""

import numpy as np
from agreements import agreement, check

from lib.audit import AttackCounts, epsilon_interval

DRAWS = 400_000
TABLES = (
    (AttackCounts(65, 25, 75, 35), 0.05),
    (AttackCounts(450, 10, 490, 50), 1e-5),
    (AttackCounts(30, 20, 30, 20), 1e-5),
    (AttackCounts(48, 51, 1, 0), 1e-5),
    (AttackCounts(10, 0, 12, 0), 0.0),
    (AttackCounts(3, 9, 2, 8), 0.01),
    (AttackCounts(1, 0, 1, 0), 1e-3),
)


def inside(fnr, fpr, epsilon, delta):
    """Theorem 2.2 of P3: the rates that an (epsilon, delta)-private mechanism allows."""
    grow = np.exp(epsilon)
    return (
        (fpr + grow * fnr >= 1 - delta)
        & (fnr + grow * fpr >= 1 - delta)
        & (1 - fpr + grow * (1 - fnr) >= 1 - delta)
        & (1 - fnr + grow * (1 - fpr) >= 1 - delta)
    )


@check
def bayesian_intervals():
    """Beyond each end lies the probability that the level leaves for it."""
    rng = np.random.default_rng(0)
    found, wanted = [], []
    for counts, delta in TABLES:
        fnr = rng.beta(counts.fn + 0.5, counts.tp + 0.5, DRAWS)
        fpr = rng.beta(counts.fp + 0.5, counts.tn + 0.5, DRAWS)
        for level in (0.5, 0.9, 0.99):
            tail = (1 - level) / 2
            low, high = epsilon_interval(counts, delta, level)
            if low > 0:  # else more than the tail may be there
                found.append(inside(fnr, fpr, low, delta).mean())
                wanted.append(tail)
            found.append(1 - inside(fnr, fpr, high, delta).mean())
            wanted.append(tail)
            one_sided, _ = epsilon_interval(counts, delta, level, side="lower")
            if one_sided > 0:
                found.append(inside(fnr, fpr, one_sided, delta).mean())
                wanted.append(1 - level)
    wanted = np.array(wanted)
    errors = np.sqrt(wanted * (1 - wanted) / DRAWS)
    # Of some fifty normal deviates the largest is beyond 4.5 with a probability below 4e-4; the
    # binomial counts, 2000 and more, are normal enough for that.
    assert 40 < len(found) < 64
    yield agreement(
        "tails of the Bayesian interval",
        "simulation",
        found,
        wanted,
        4.5,
        "standard errors",
        errors,
    )
