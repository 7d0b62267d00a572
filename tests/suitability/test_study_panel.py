import numpy as np
import pandas as pd
import pytest

from lib.studies.suitability.calibration import (
    error_table,
    estimated_and_true,
    evaluate_with_labels,
    margins_table,
)
from lib.studies.suitability.checkpoints import checkpoint_example
from lib.studies.suitability.data import run_study
from lib.studies.suitability.experiment import at_margin, evaluate_tasks, metrics_table
from lib.studies.suitability.study_runs import StudyRun, load_study, run_studies, signals_table
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


def test_a_run_is_the_study(store, results):
    found = run_studies([StudyRun("digits", "ERM", 0, 4)])
    assert set(found["signals"]) == {"all"}
    pd.testing.assert_frame_equal(
        found[results.columns], results, check_dtype=False, check_categorical=False
    )


def test_one_signal_is_a_study_of_that_column(store, digits):
    job = StudyRun("digits", "ERM", 0, 4, signals=("margin_loss",))
    found = run_studies([job])
    column = SIGNAL_NAMES.index("margin_loss")
    splits = {name: (x[:, [column]], y) for name, (x, y) in digits.splits.items()}
    direct = evaluate_tasks(splits, digits.tasks("OOD", 4, 32))
    ood = found[found["kind"] == "OOD"]
    np.testing.assert_array_equal(ood["p_value"], direct["p_value"])
    assert set(found["signals"]) == {"margin_loss"}


def test_the_fingerprint_is_of_the_data_that_are_read():
    assert StudyRun("digits", "ERM", 0).data_fingerprint() == "digits"
    assert StudyRun("fmow", "ERM", 0).data_fingerprint() != "digits"


def test_signals_table(store):
    jobs = [StudyRun("digits", "ERM", 0, 4, signals=names) for names in ((), ("conf_max",))]
    for job in jobs:  # one at a time: in this process
        run_studies([job])
    found = run_studies(jobs)
    table = signals_table(found)
    assert list(table["signals"]) == ["all", "conf_max"] * 2
    by_hand = metrics_table(found[found["signals"] == "conf_max"], ["kind"])
    assert set(table.loc[table["signals"] == "conf_max", "accuracy"]) == set(by_hand["accuracy"])


@pytest.mark.parametrize("margin", [0.03, -0.02])
def test_another_margin_is_the_experiment_run_with_it(digits, results, margin):
    again = run_study(digits, 4, 32, margin)
    pd.testing.assert_frame_equal(at_margin(results, margin), again, rtol=1e-9)


def test_margins_table(results):
    table = margins_table(results, [0.0, 0.05], [0.05, 0.001])
    assert len(table) == 2 * 2 * 2
    row = table[(table["kind"] == "OOD") & (table["margin"] == 0.05) & (table["alpha"] == 0.001)]
    by_hand = metrics_table(at_margin(results[results["kind"] == "OOD"], 0.05), ["seed"], 0.001)
    assert row["accuracy"].item() == by_hand["accuracy"].item()


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


def test_labels_of_the_user(digits):
    tasks = digits.tasks("OOD", 4, 32)[:3]
    rows = evaluate_with_labels(digits.splits, tasks, 50, rng=np.random.default_rng(0))
    assert len(rows) == 3 * 3 * 5
    plain = rows[rows["method"] == "unadjusted"]["p_value"].to_numpy()
    pairs = evaluate_tasks(digits.splits, tasks)
    np.testing.assert_allclose(plain, pairs[pairs["sf_fold"] == 0]["p_value"], rtol=1e-9)
    bound, plug_in = (
        rows[rows["method"] == name]["p_value"].to_numpy() for name in ("bound", "plug-in")
    )
    assert (bound >= plug_in - 1e-12).all()
    again = evaluate_with_labels(digits.splits, tasks, 50, rng=np.random.default_rng(0))
    pd.testing.assert_frame_equal(rows, again)


def test_checkpoints_tell_more_than_the_last_logits():
    table = checkpoint_example(0, epochs=10).set_index(["signals", "data"])
    shifted = table.xs("rotated by 12 degrees", level=1)
    error = (shifted["estimated"] - shifted["accuracy"]).abs()
    assert error["twelve and disagreement"] < error["twelve"]
