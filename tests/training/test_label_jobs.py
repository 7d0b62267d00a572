"""Trainings with label DP as jobs: what is randomised, when, and what students see."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from lib.privacy import GaussianLabels, LaplaceLabels, RandomizedResponse
from lib.runs import Checkpoint, run_all
from lib.training import (
    DataSpec,
    FixMatch,
    LabelTrainings,
    ModelSpec,
    PateStudents,
    TrainingConfig,
    label_jobs,
)
from lib.training.label_jobs import Teachers

DATA = DataSpec("digits", "pixels", train=200, test=100)
IMAGES = DataSpec("digits", "images", train=200, test=100)
LINEAR = ModelSpec("linear", (64,), 10)
CONFIG = TrainingConfig(LINEAR, steps=60, learning_rate=0.5, batch_size=50, checkpoint_every=20)


@dataclass(frozen=True)
class Wrong:
    """The first rows get the next label."""

    count: int = 100

    def apply(self, labels):
        labels = labels.copy()
        labels[: self.count] = (labels[: self.count] + 1) % 10
        return labels

    def watched(self, labels):
        return np.arange(self.count)


@pytest.fixture(scope="module", autouse=True)
def runs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPANION_RUNS", str(tmp_path_factory.mktemp("runs")))
        yield


def seen(monkeypatch, job):
    """The data that every training of a job got, stage after stage."""
    calls = []
    original = label_jobs.train_many

    def spy(configs, sets, points, **options):
        calls.append((configs, sets))
        return original(configs, sets, points, **options)

    monkeypatch.setattr(label_jobs, "train_many", spy)
    outcome = job.execute(Checkpoint())
    return calls, outcome


def truth():
    return np.asarray(DATA.load().training.targets)


@pytest.mark.parametrize(
    ("mechanism", "reading"),
    [
        (LaplaceLabels(0.5), "posterior"),
        (LaplaceLabels(0.5), "projection"),
        (GaussianLabels(0.7), "posterior"),
        (RandomizedResponse(2.0), "labels"),
        (RandomizedResponse(2.0), "posterior"),
        (None, "posterior"),
    ],
)
def test_what_a_training_gets(monkeypatch, mechanism, reading):
    job = LabelTrainings(CONFIG, DATA, mechanism, (Wrong(), Wrong()), reading=reading)
    ((configs, sets),), outcome = seen(monkeypatch, job)
    assert [c.seed for c in configs] == [0, 1]
    changed = Wrong().apply(truth())
    if mechanism is None:
        for each in sets:
            np.testing.assert_array_equal(each.targets, changed)
    else:
        # Fresh noise for every model.
        assert not np.array_equal(sets[0].targets, sets[1].targets)
        best = sets[0].targets if reading == "labels" else sets[0].targets.argmax(axis=1)
        share = (best == changed).mean()
        assert 0.3 < share < 1
        # The noise surrounds the wrong labels: nothing kept the true ones.
        assert (best[:100] == changed[:100]).mean() > 2 * (best[:100] == truth()[:100]).mean()
    assert outcome.arrays["watched"].shape == (2, 3, 100, 10)
    np.testing.assert_allclose(outcome.arrays["watched"].sum(axis=3), 1, atol=1e-5)
    assert outcome.arrays["rows"].tolist() == [list(range(100))] * 2
    assert ((outcome.arrays["accuracy"] >= 0) & (outcome.arrays["accuracy"] <= 1)).all()


def test_stages_randomise_every_label_once(monkeypatch):
    job = LabelTrainings(
        CONFIG, DATA, RandomizedResponse(2.0), (Wrong(), Wrong()), reading="labels", stages=2
    )
    calls, _ = seen(monkeypatch, job)
    assert len(calls) == 2
    (first_configs, first), (second_configs, second) = calls
    assert [len(s) for s in first] == [100, 100]
    assert [len(s) for s in second] == [200, 200]
    seeds = [c.seed for c in (*first_configs, *second_configs)]
    assert len(set(seeds)) == 4
    for before, after in zip(first, second, strict=True):
        # What the first stage let out stays as it was.
        np.testing.assert_array_equal(before.targets[before.rows], after.targets[before.rows])
        # In the first stage nothing but zeros stands for the labels that it may not see.
        unseen = np.setdiff1d(np.arange(200), before.rows)
        assert not before.targets[unseen].any()


TEACHER = FixMatch(LINEAR, steps=40, labelled_batch=10, learning_rate=0.3, threshold=0.8)


@pytest.mark.slow
def test_students_learn_from_answers_alone(monkeypatch):
    teachers = Teachers(TEACHER, IMAGES, 5, label_noise=Wrong())
    noise = ((0.01, 0.01, 3.0, 200), (0.01, 0.01, 3.0, 7), (5.0, 5.0, 1000.0, 10))
    job = PateStudents(teachers, noise, TEACHER, queries=150, delta=1e-4)
    votes = run_all([teachers])[0].arrays["predictions"]
    given = []
    original = label_jobs.train_fixmatch

    def spy(configs, images, labels, rows, *others, **options):
        given.append((labels, rows))
        return original(configs, images, labels, rows, *others, **options)

    monkeypatch.setattr(label_jobs, "train_fixmatch", spy)
    outcome = job.execute(Checkpoint())
    winner = np.array([np.bincount(votes[:, i], minlength=10).argmax() for i in range(200)])
    for labels, (rows,) in given:
        np.testing.assert_array_equal(labels[rows], winner[rows])  # hardly any noise
        hidden = np.setdiff1d(np.arange(200), rows)
        assert not labels[hidden].any()
    answered = outcome.arrays["answered"]
    assert answered[1] == 7
    assert answered[2] == 0
    assert len(given) == 2  # nobody answered the third
    np.testing.assert_allclose(outcome.arrays["watched"][2], 0.1)
    assert math.isnan(outcome.arrays["label_accuracy"][2])
    assert (outcome.arrays["data_dependent"][1] <= outcome.arrays["data_independent"][1]).all()
    assert outcome.arrays["watched"].shape == (3, 1, 100, 10)
    published, unseen = outcome.arrays["published"], outcome.arrays["votes_unseen"]
    assert published.shape == (3, 3)
    assert (published[:, 1] <= published[:, 2]).all()
    assert (outcome.arrays["data_dependent"] <= unseen).all()
    assert (unseen <= outcome.arrays["data_independent"]).all()
