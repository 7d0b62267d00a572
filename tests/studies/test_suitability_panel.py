import numpy as np
import pandas as pd
import pytest

from lib.studies.suitability.calibration import error_table, estimated_and_true
from lib.studies.suitability.data import run_study
from lib.studies.suitability.experiment import at_margin, evaluate_tasks
from lib.studies.suitability.study_runs import StudyRun, load_study, run_studies
from lib.suitability import SIGNAL_NAMES


@pytest.fixture(scope="module")
def digits():
    return load_study("digits", seed=0)


@pytest.fixture(scope="module")
def results(digits):
    return run_study(digits, 4, 32)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path))


def test_one_signal_is_a_study_of_that_column(store, digits):
    job = StudyRun("digits", "ERM", 0, 4, signals=("margin_loss",))
    found = run_studies([job])
    column = SIGNAL_NAMES.index("margin_loss")
    splits = {name: (x[:, [column]], y) for name, (x, y) in digits.splits.items()}
    direct = evaluate_tasks(splits, digits.tasks("OOD", 4, 32))
    ood = found[found["kind"] == "OOD"]
    np.testing.assert_array_equal(ood["p_value"], direct["p_value"])
    assert set(found["signals"]) == {"margin_loss"}


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


def test_error_table_by_hand(results):
    ood = results[results["kind"] == "OOD"]
    table = error_table(ood, groups=3)
    assert table["experiments"].sum() == len(ood)
    error = ood["estimated_user_accuracy"] - ood["user_accuracy"]
    last = ood[error >= table["error_low"].iloc[-1]]
    wrong = ((last["p_value"] <= 0.05) != last["truth"]).mean()
    assert table["wrong"].iloc[-1] == pytest.approx(wrong)
    assert (table["error_high"].iloc[:-1].to_numpy() <= table["error_low"].iloc[1:]).all()
