"""Audits of randomized response, whose epsilon is known."""

import math

import numpy as np
import pytest
from scipy import stats

from lib.studies.canaries.simulation import (
    randomized_response_confidences,
    randomized_response_study,
)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0, math.inf])
def test_labels_are_released_with_the_right_probability(epsilon):
    classes, n = 7, 20_000
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    p = randomized_response_confidences(labels, classes, epsilon, seed=1)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    released = p.argmax(axis=1)
    keep = 1.0 if math.isinf(epsilon) else math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    kept = int((released == labels).sum())
    if keep == 1:
        assert kept == n
        return
    assert stats.binomtest(kept, n, keep).pvalue > 1e-3
    shift = (released - labels)[released != labels] % classes
    assert stats.chisquare(np.bincount(shift, minlength=classes)[1:]).pvalue > 1e-3
    assert stats.kstest(p.max(axis=1), stats.uniform(0.4, 0.6).cdf).pvalue > 1e-3


@pytest.mark.slow
def test_valid_bounds_keep_their_level_and_the_papers_does_not():
    """With 100 classes and little to find, P5's interval claims far too much."""
    repetitions, level = 60, 0.95
    table = randomized_response_study([0.5, 3.0], 100, 400, repetitions, level=level, seed=0)
    assert (table["repetitions"] == repetitions).all()
    found = table.set_index(["interval", "epsilon"])
    allowed = stats.binom.ppf(0.999, repetitions, 1 - level) / repetitions
    for epsilon in (0.5, 3.0):
        for name in ("one label, lower", "top label, lower"):
            assert found.loc[(name, epsilon), "exceeds"] <= allowed
        # Two-sided: half of the error on each side.
        both = stats.binom.ppf(0.999, repetitions, (1 - level) / 2) / repetitions
        assert found.loc[("one label", epsilon), "exceeds"] <= both
    assert found.loc[("paper", 0.5), "exceeds"] > 0.5
    # Each mend alone leaves most of it; all together leave what a normal interval cannot mend.
    for name in ("corrected", "no mirror", "sandwich"):
        assert found.loc[(name, 0.5), "exceeds"] > 0.3
    assert found.loc[("all three", 0.5), "exceeds"] < 0.3
    # Guessing outright is the stronger attack.
    low = found["low"]
    assert low["top label, lower", 3.0] > low["one label, lower", 3.0]
    for row in table.itertuples():
        assert row.covers + row.exceeds <= 1
