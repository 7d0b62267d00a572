"""Studies of what goes wrong: variances against the bound, and repetitions whatever their jobs."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.studies.counterfactual import stress


def test_variances_in_multiples_of_the_bound():
    row = {"learner": "forest", "estimator": "dr", "repetitions": 30, "n": 2000}
    results = pd.DataFrame([row | {"spread": 0.02, "bias": -0.01}])
    fresh = results.assign(estimator="ipw")
    row = stress.bound_table({"fitted": results, "fresh": fresh}, 0.5).iloc[0]
    total = 0.02**2 * 30 * 2000 / 0.5
    assert row["fitted"] == pytest.approx(total / 29)
    assert row["fitted, low"] == pytest.approx(total / stats.chi2.ppf(0.975, 29))
    assert row["fitted, high"] == pytest.approx(total / stats.chi2.ppf(0.025, 29))
    assert row["bias"] == pytest.approx(-0.01 / math.sqrt(0.5 / 2000))
    assert row.filter(like="fresh").isna().all()  # of another estimator


def test_scores_are_missing_at_random_for_who_learned_from_other_points():
    """P4, Proposition 4.1: the estimate is right where nothing leaked, and not where all did."""
    found = {}
    for leaked in (0.0, 1.0):
        rngs = (np.random.default_rng([7, k]) for k in range(20))
        found[leaked] = np.array([stress.leak(1000, leaked, "linear", r)["bias"] for r in rngs])
    error = {leaked: biases.std(ddof=1) / math.sqrt(20) for leaked, biases in found.items()}
    assert abs(found[0.0].mean()) < 3.3 * error[0.0]
    assert found[1.0].mean() > 10 * error[1.0]
