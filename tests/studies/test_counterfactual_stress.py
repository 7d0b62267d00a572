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


def test_repetitions_do_not_hang_on_their_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))
    setting = ("mixed", (200, "shifted", 0.05, 0.5), "linear")
    whole = stress.Stress(*setting, 0, 4, 0).execute(None).arrays
    parts = [stress.Stress(*setting, first, 2, 0).execute(None).arrays for first in (0, 2)]
    for name, values in whole.items():
        assert np.concatenate([part[name] for part in parts]).tolist() == values.tolist()
    table = stress.run_stress(setting[0], [setting[1]], setting[2], 4, seed=0)
    assert table.loc[0, "width, mixed"] == pytest.approx(whole["width, mixed"].mean())
