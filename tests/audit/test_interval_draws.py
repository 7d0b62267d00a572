"""The posterior of epsilon and its intervals against draws of the error rates."""

import numpy as np
import pytest

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


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "delta"), TABLES)
def test_beyond_each_end_lies_what_the_level_leaves_for_it(counts, delta):
    rng = np.random.default_rng(0)
    rates = rng.beta(counts.fn + 0.5, counts.tp + 0.5, DRAWS)
    rates = rates, rng.beta(counts.fp + 0.5, counts.tn + 0.5, DRAWS)
    for level in (0.5, 0.9, 0.99):
        tail = (1 - level) / 2
        low, high = epsilon_interval(counts, delta, level)
        one_sided, _ = epsilon_interval(counts, delta, level, side="lower")
        beyond = [(1 - inside(*rates, high, delta).mean(), tail)]
        # At zero more than the tail may be there.
        beyond += [(inside(*rates, low, delta).mean(), tail)] * (low > 0)
        beyond += [(inside(*rates, one_sided, delta).mean(), 1 - level)] * (one_sided > 0)
        for found, wanted in beyond:
            # Of some fifty normal deviates the largest is beyond 4.5 with a probability below 4e-4.
            error = np.sqrt(wanted * (1 - wanted) / DRAWS)
            assert found == pytest.approx(wanted, abs=4.5 * error)
