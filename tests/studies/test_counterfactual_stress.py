"""Studies of what goes wrong: variances against the bound, and repetitions whatever their jobs."""

import math

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
