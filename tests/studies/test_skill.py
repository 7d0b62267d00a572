"""Confidence against estimates, month by month."""

import numpy as np
import pytest

from lib.counterfactual.forecasts import lagged_p_values, one_sided_e_process, winkler_score
from lib.studies.beyond import skill as studies


class Made:
    """Months with rows; the first signal is the confidence."""

    class plan:
        lag = 2

    def __init__(self, confidence):
        rng = np.random.default_rng(0)
        self.rows = []
        for _ in range(20):
            truth = rng.uniform(0.2, 0.8, 400)
            signals = np.c_[np.full(400, confidence), np.zeros(400)]
            self.rows.append((signals, truth, rng.random(400) < truth))

    def months(self, rng):
        return self.rows


def test_skill_by_hand():
    made = Made(1.0)
    table = studies.confidence_skill(made, None)
    each = [winkler_score(np.full(400, 0.999), f, right).mean() for _, f, right in made.rows]
    assert table["skill"].tolist() == pytest.approx(each)
    assert table["evidence"].tolist() == pytest.approx(one_sided_e_process(-np.array(each), -1))
    assert table["p, late"].tolist() == pytest.approx(lagged_p_values(-np.array(each), -1, 2))
    # A model that is sure of everything is worse than estimates that are right.
    assert table["evidence"].iloc[-1] > 20 > 1 / table["p, late"].iloc[2]
