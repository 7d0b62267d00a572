import numpy as np
import pandas as pd
import pytest

from lib.studies.suitability.calibration import estimated_and_true
from lib.studies.suitability.data import run_study
from lib.studies.suitability.experiment import at_margin
from lib.studies.suitability.study_runs import load_study


@pytest.fixture(scope="module")
def digits():
    return load_study("digits", seed=0)


@pytest.fixture(scope="module")
def results(digits):
    return run_study(digits, 4, 32)


@pytest.mark.parametrize("margin", [0.03, -0.02])
def test_another_margin_is_the_experiment_run_with_it(digits, results, margin):
    again = run_study(digits, 4, 32, margin)
    pd.testing.assert_frame_equal(at_margin(results, margin), again, rtol=1e-9)


def test_calibration_on_the_target_makes_the_mean_right(digits):
    folds = digits.user_folds["OOD"]
    table = estimated_and_true(digits.splits, ("source", np.arange(1050)), folds)
    np.testing.assert_allclose(table["calibrated"], table["accuracy"], atol=1e-6)
    assert (table["estimated"] - table["accuracy"]).abs().max() > 0.01
    assert list(table["n"]) == [597] * len(folds)
