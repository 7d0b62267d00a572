"""Studies of the authors' published signals, CivilComments' among them."""

import os

import numpy as np
import pytest

from lib import data
from lib.studies.suitability.data import run_study, wilds_files, wilds_study
from lib.studies.suitability.experiment import evaluate_tasks

needs_data = pytest.mark.skipif(
    not os.environ.get("COMPANION_DATA"),
    reason="COMPANION_DATA is not set: the authors' signals are not on this machine",
)
N = 240


def published(dataset, splits, folds):
    """Signals and folds as the loaders return them; correctness follows the first signal."""
    rng = np.random.default_rng(0)
    tables = {}
    for split in splits:
        x = np.abs(rng.normal(size=(N, 2)))
        tables[split] = data.SignalTable(x, rng.random(N) < x[:, 0], ("first", "second"))
    return (
        lambda name, algorithm, seed: data.SuitabilitySignals(name, algorithm, seed, tables),
        lambda name: tuple(
            data.Fold(name, split, f"{split} {i}", np.arange(i, i + 40), inside, {})
            for i, (split, inside) in enumerate(folds)
        ),
    )


@pytest.fixture
def publish(monkeypatch):
    def publish(*arguments):
        signals, folds = published(*arguments)
        monkeypatch.setattr(data, "load_suitability_signals", signals)
        monkeypatch.setattr(data, "load_suitability_folds", folds)

    return publish


def test_study_without_ood_folds(publish):
    """CivilComments: every split is in distribution, and no OOD experiment is run."""
    publish("civilcomments", ["val", "test"], [("val", True), ("test", True)])
    study = wilds_study("civilcomments", 2)
    assert study.id_splits == ("val", "test")
    assert (len(study.user_folds["ID"]), study.user_folds["OOD"]) == (2, [])
    tasks = study.tasks("ID", 4, 32)
    # The rest of the fold's own split first, then the other.
    assert [[(s, len(rows)) for s, rows in task.source] for task in tasks] == [
        [("val", N - 40), ("test", N)],
        [("test", N - 40), ("val", N)],
    ]
    rows = run_study(study, 4, 32)
    assert len(rows) == 2 * 4 * 3
    assert set(rows["kind"]) == {"ID"}
    assert set(rows["seed"]) == {2}


@pytest.mark.parametrize(
    ("dataset", "id_splits"), [("fmow", ("id_val", "id_test")), ("rxrx1", ("id_test",))]
)
def test_study_with_ood_folds(publish, dataset, id_splits):
    folds = [(id_splits[0], True), ("val", False), ("test", False)]
    publish(dataset, [*id_splits, "val", "test"], folds)
    study = wilds_study(dataset, 0, "IRM")
    assert study.id_splits == id_splits
    rows = run_study(study, 3, 32)
    assert list(rows.columns[:5]) == ["dataset", "algorithm", "kind", "seed", "partition"]
    assert set(rows["algorithm"]) == {"IRM"}
    assert rows["kind"].value_counts().to_dict() == {"ID": 6, "OOD": 12}


def test_files_of_a_run():
    """Folds, then models; of other algorithms than ERM there is one seed."""
    files = wilds_files(["rxrx1"], [2, 0], ["ERM", "IRM"])
    assert [file.removeprefix("suitability/") for file in files] == [
        "folds_rxrx1",
        "published_folds_rxrx1",
        "rxrx1_ERM_2",
        "rxrx1_ERM_0",
        "rxrx1_IRM_0",
    ]
    every = wilds_files(data.DATASETS, [0, 1, 2], ["ERM", "IRM", "groupDRO"])
    assert set(every) <= set(data.registry())


@needs_data
@pytest.mark.data
def test_civilcomments_with_the_authors_folds(monkeypatch):
    """All but the signals, which no mirror has: sizes and source data of the true layout."""
    published = data.load_published_folds("civilcomments").set_index("label")["num_samples"]
    sizes = {split: int(published[f"{split} · all"]) for split in ("val", "test")}
    rng = np.random.default_rng(0)
    tables = {}
    for split, n in sizes.items():
        confidence = rng.uniform(0.5, 1, n)
        tables[split] = data.SignalTable(
            confidence[:, np.newaxis], rng.random(n) < confidence, ("conf_max",)
        )
    signals = data.SuitabilitySignals("civilcomments", "ERM", 0, tables)
    monkeypatch.setattr(data, "load_suitability_signals", lambda *_: signals)
    study = wilds_study("civilcomments", 0)
    tasks = study.tasks("ID", 15, 32)
    assert len(tasks) == 16
    for task in tasks:
        assert len(task.partition[0]) == (45_180 + 133_782 - len(task.user[1])) // 15
    rows = evaluate_tasks(study.splits, [tasks[0], tasks[-1]])
    assert rows["user_fold"].unique().tolist() == ["val · Male", "test · White"]
    # Signals that are calibrated, whatever the group: nobody is unlike the rest by much.
    assert np.abs(rows["estimated_user_accuracy"] - rows["user_accuracy"]).max() < 0.06
