"""The study of how often intervals of counterfactual scores hold."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special

from lib.runs import Checkpoint
from lib.studies.counterfactual import coverage


def test_points_answer_as_often_as_said():
    found, _ = integrate.quad(lambda u: special.expit(1.5 - 2 * u), 0, 1)
    assert found == pytest.approx(coverage._ANSWERED, rel=1e-12)


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


def test_the_worst_of_cells():
    cells = pd.DataFrame(
        {
            "propensities": "known", "answers": 20, "truth": 0.9, "least": 0.8,
            "groups": [1, 5, 1, 5], "held": [0.9, 0.7, 0.95, 1.0], "width": [1.0, 1, 3, 1],
            "normal held": [0.5, 0.6, 0.4, 0.7], "normal width": [1.0, 0, 1, 1],
        }
    )  # fmt: skip
    (row,) = coverage.worst_cells(cells).to_dict("records")
    assert row == {
        "propensities": "known", "answers": 20, "truth": 0.9, "cells": 4, "held": 0.7,
        "least": 0.8, "below": 1, "normal": 0.4, "wider": 2.0,
    }  # fmt: skip
