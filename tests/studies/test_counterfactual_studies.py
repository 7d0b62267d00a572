"""What the chapter on counterfactual evaluation shows: tables recomputed."""

import math

import numpy as np
import pytest

from lib.counterfactual import confidence_sequence, influence_values
from lib.studies.counterfactual.classifiers import simulate, true_difference
from lib.studies.counterfactual.tables import oracle_nuisances, sequence_study

Z = 1.959963984540054


@pytest.mark.parametrize(("experiment", "shift"), [("curved", 0.0), ("shifted", 0.3)])
def test_told_functions_are_the_true_ones(experiment, shift):
    """Mean scores and abstentions in 100 cells of the square, on either side of both boundaries."""
    drawn = simulate(200_000, experiment, 0.2, shift, rng=0)
    cell = np.floor(drawn.X * 10).astype(int) @ [10, 1]
    for k, one in enumerate(oracle_nuisances(drawn)):
        s, r = drawn.scores[k], drawn.abstained[k]
        assert set(one.outcome) == ({0.85} if k == 0 else {0.15, 0.85})
        np.testing.assert_array_equal(one.propensity, drawn.propensities[k])
        np.testing.assert_array_equal(one.abstained, r)
        np.testing.assert_array_equal(one.scores, np.where(r, 0, s))
        for hits, expected in ((s, one.outcome), (r, one.propensity)):
            for rows in (~r, r) if hits is s else (np.full(len(r), True),):
                error = np.bincount(cell[rows], (hits - expected)[rows], 100)
                variance = np.bincount(cell[rows], (expected * (1 - expected))[rows], 100)
                assert np.abs(error / np.sqrt(variance)).max() < 4.5
        assert abs((s - one.outcome)[one.outcome < 0.5].sum()) <= 4 * math.sqrt(
            0.15 * 0.85 * (one.outcome < 0.5).sum()
        )


def test_sequence_study_by_hand():
    """The streams one after the other from one generator, and each interval looked at."""
    found = sequence_study(12, 160, 80, rng=5)
    rng, truth = np.random.default_rng(5), true_difference()
    counts = {"sequence": 0, "pointwise": 0, "slide": 0, "streams": 12}
    for _ in range(12):
        a, b = oracle_nuisances(simulate(160, rng=rng))
        x = influence_values(a) - influence_values(b)
        sequence = confidence_sequence(x, start=80)
        ever = {"sequence": False, "pointwise": False, "slide": False}
        for i, n in enumerate(range(80, 161)):
            half = Z * x[:n].std() / math.sqrt(n)
            ever["pointwise"] |= abs(x[:n].mean() - truth) > half
            ever["sequence"] |= not sequence.lower[i] <= truth <= sequence.upper[i]
            # As printed: n sigma^2 for rho^2 n, and sigma once more before the root.
            var = x[:n].var()
            inner = (2 * n * var + 1) / n**2 * math.log(math.sqrt(n * var + 1) / 0.05)
            ever["slide"] |= abs(x[:n].mean() - truth) > math.sqrt(var) * math.sqrt(inner)
        for name, flag in ever.items():
            counts[name] += flag
    assert found == counts
    assert found == sequence_study(12, 160, 80, rng=np.random.default_rng(5))
    assert 0 < counts["pointwise"] < 12
