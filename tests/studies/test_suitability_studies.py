"""CivilComments' layout, whose signals no mirror has: every split is in distribution."""

import os

import numpy as np
import pytest

from lib import data
from lib.studies.suitability.data import wilds_study
from lib.studies.suitability.experiment import evaluate_tasks


@pytest.mark.skipif(
    not os.environ.get("COMPANION_DATA"),
    reason="COMPANION_DATA is not set: the authors' folds are not on this machine",
)
@pytest.mark.data
def test_civilcomments_with_the_authors_folds(monkeypatch):
    published = data.load_published_folds("civilcomments").set_index("label")["num_samples"]
    sizes = {split: int(published[f"{split} · all"]) for split in ("val", "test")}
    rng = np.random.default_rng(0)
    tables = {}
    for split, n in sizes.items():
        confidence = rng.uniform(0.5, 1, n)
        right = rng.random(n) < confidence
        tables[split] = data.SignalTable(confidence[:, np.newaxis], right, ("conf_max",))
    signals = data.SuitabilitySignals("civilcomments", "ERM", 0, tables)
    monkeypatch.setattr(data, "load_suitability_signals", lambda *_: signals)
    study = wilds_study("civilcomments", 0)
    assert study.user_folds["OOD"] == []
    tasks = study.tasks("ID", 15, 32)
    assert len(tasks) == 16
    for task in tasks:
        assert len(task.partition[0]) == (45_180 + 133_782 - len(task.user[1])) // 15
    rows = evaluate_tasks(study.splits, [tasks[0], tasks[-1]])
    assert rows["user_fold"].unique().tolist() == ["val · Male", "test · White"]
    # Signals that are calibrated, whatever the group: nobody is unlike the rest by much.
    assert np.abs(rows["estimated_user_accuracy"] - rows["user_accuracy"]).max() < 0.06
