"""The study of how often intervals of counterfactual scores hold."""

import numpy as np
import pytest

from lib.runs import Checkpoint
from lib.studies.counterfactual import coverage


@pytest.mark.parametrize("fitted", [False, True])
def test_what_trials_say(fitted, tmp_path):
    """Intervals hold where errors are few, normal ones do not; a group is as one would take it."""
    job = coverage.Trials(0.99, 60, (1, 3), fitted, 0.95, 4, 20, 1)
    found = job.execute(Checkpoint(tmp_path)).arrays
    assert {values.shape for values in found.values()} == {(20, 3, 2)}
    assert found["held"].mean(axis=0).min() >= 0.95 - 3 * np.sqrt(0.0475 / 20)
    assert found["normal held"][:, 0].mean(axis=0).max() < 0.7
    u, models = job._drawn(np.random.default_rng([1, 4]))
    ends, _, truths = job._intervals(models[0], u, 3)
    assert truths == pytest.approx([1 - 0.02 / 6, 0.99, 1 - 0.1 / 6])
    assert found["held"][0, 0, 1] == ((ends[0] <= truths) & (truths <= ends[1])).all()
    assert found["width"][0, 0, 1] == pytest.approx((ends[1] - ends[0]).mean())
    assert np.abs(models[2].outcome - u * 0.02).max() < 1e-12
    assert (np.abs(models[0].outcome - (1 - u * 0.02)).max() > 1e-3) == fitted
