"""Killed in the middle of a training, every engine and every job goes on to the same result."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from lib.privacy import RandomizedResponse
from lib.runs import Checkpoint
from lib.runs.checkpoint import load_arrays
from lib.runs.files import beside
from lib.training import (
    DataSpec,
    FixMatch,
    LabelTrainings,
    ManyTrainings,
    ModelSpec,
    SelectiveNet,
    SelfAdaptiveTraining,
    SubsetTrainings,
    TrainingConfig,
    train_fixmatch,
    train_many,
)

MLP = ModelSpec("mlp", (64,), 10, hidden=(8,))
LINEAR = ModelSpec("linear", (64,), 10)
CONFIG = TrainingConfig(
    MLP, noise_multiplier=1.0, steps=300, batch_size=20, checkpoint_every=40, momentum=0.5
)
DATA = DataSpec(train=150, test=60)
SHORT = replace(CONFIG, steps=15, checkpoint_every=4)


class Killed(Exception):
    pass


@pytest.fixture
def killed(monkeypatch):
    """Run something, saving as often as it can, and stop it right after so many saves."""
    monkeypatch.setenv("COMPANION_SAVE_EVERY", "0")

    def run(after, call):
        save, left = Checkpoint.save, [after]

        def once(self, arrays, state):
            save(self, arrays, state)
            left[0] -= 1
            if not left[0]:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "save", once)
            with pytest.raises(Killed):
                call()

    return run


def steps_of(folder):
    """Steps of what lies there, unfinished."""
    return [json.loads(load_arrays(path)[1])["step"] for path in folder.iterdir()]


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        for name in ("parameters", "logits", "checkpoints"):
            if hasattr(other, name):
                assert np.array_equal(getattr(one, name), getattr(other, name)), name


ENGINES = {
    "kernel": (CONFIG, "kernel"),
    "kernel, own statistics": (
        replace(CONFIG, model=replace(MLP, head="selective"), objective=SelectiveNet(0.8)),
        "kernel",
    ),
    "kernel, memory": (
        replace(CONFIG, model=replace(MLP, head="abstain"), objective=SelfAdaptiveTraining(50)),
        "kernel",
    ),
    "kernel, dropout": (replace(CONFIG, model=replace(MLP, dropout=0.3)), "kernel"),
    "batched": (replace(SHORT, keep="weights"), "batched"),
    "taps": (SHORT, "taps"),
    "taps, own statistics": (
        replace(SHORT, model=replace(MLP, head="selective"), objective=SelectiveNet(0.8)),
        "taps",
    ),
    "single": (SHORT, "single"),
    "single, dropout": (replace(SHORT, model=replace(MLP, dropout=0.3)), "single"),
    "single, memory": (
        replace(SHORT, model=replace(MLP, head="abstain"), objective=SelfAdaptiveTraining(9)),
        "single",
    ),
    "single, without privacy": (replace(SHORT, noise_multiplier=None), "single"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_models_go_on_where_they_were(tmp_path, killed, name):
    config, engine = ENGINES[name]
    data = DATA.load()
    configs = [replace(config, seed=seed) for seed in range(2)]
    task = configs, data.training, data.evaluation
    killed(3, lambda: train_many(*task, engine=engine, threads=1, checkpoint=Checkpoint(tmp_path)))
    assert 0 < max(steps_of(tmp_path)) < config.steps
    resumed = train_many(*task, engine=engine, threads=1, checkpoint=Checkpoint(tmp_path))
    same(resumed, train_many(*task, engine=engine, threads=1))


@pytest.mark.slow
@pytest.mark.parametrize("model", [MLP, ModelSpec("small_cnn", (1, 28, 28), 10)])
def test_fixmatch_goes_on(tmp_path, killed, model, monkeypatch):
    monkeypatch.setenv("COMPANION_THREADS", "1")
    rng = np.random.default_rng(0)
    config = FixMatch(model, steps=60 if model is MLP else 20, labelled_batch=5)
    images = rng.random((40, 1, *((8, 8) if model is MLP else (28, 28))), dtype=np.float32)
    labels, rows = rng.integers(0, 10, 40), [np.arange(7), np.arange(20, 23)]
    configs = [config, replace(config, seed=1)]
    task = configs, images, labels, rows, np.arange(40), images[:9]
    killed(2, lambda: train_fixmatch(*task, checkpoint=Checkpoint(tmp_path)))
    assert max(steps_of(tmp_path)) > 0
    before = Checkpoint(tmp_path).part(0).load()[1]["seconds"]
    with pytest.raises(ValueError, match="checkpoint"):
        train_fixmatch(
            [replace(config, seed=5), configs[1]], *task[1:], checkpoint=Checkpoint(tmp_path)
        )
    resumed = train_fixmatch(*task, checkpoint=Checkpoint(tmp_path))
    assert sum(each.seconds for each in resumed) > before > 0
    assert [*tmp_path.iterdir()] == []
    same(resumed, train_fixmatch(*task))


@dataclass(frozen=True)
class Wrong:
    """The first rows get the next label."""

    count: int

    def apply(self, labels):
        labels = labels.copy()
        labels[: self.count] = (labels[: self.count] + 1) % 10
        return labels

    def watched(self, labels):
        return np.arange(5)


LABELS = replace(CONFIG, model=LINEAR, noise_multiplier=None, checkpoint_every=100)
JOBS = {
    "many": ManyTrainings(tuple(replace(CONFIG, seed=s) for s in range(4)), DATA, chunk=2),
    "subsets": SubsetTrainings(replace(CONFIG, sample_rate=0.2, delta=1e-5), DATA, 4, chunk=2),
    "labels": LabelTrainings(LABELS, DATA, None, (Wrong(3), Wrong(4))),
    "stages": LabelTrainings(
        LABELS, DATA, RandomizedResponse(2.0), (Wrong(3), Wrong(4)), reading="labels", stages=2
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_jobs_go_on_where_they_were(tmp_path, killed, monkeypatch, name):
    monkeypatch.setenv("COMPANION_THREADS", "1")
    job = JOBS[name]
    whole = job.execute(Checkpoint())
    for saves in (2, 7):
        place = Checkpoint(tmp_path / str(saves))
        killed(saves, lambda place=place: job.execute(place))
        resumed = job.execute(place)
        assert {*resumed.arrays} == {*whole.arrays}
        for each, array in whole.arrays.items():
            assert np.array_equal(resumed.arrays[each], array), each
        assert resumed.privacy == whole.privacy


def test_what_was_trained_is_not_trained_again(tmp_path, killed):
    """A state that was tampered with shows in the result."""
    data = DATA.load()
    task = [CONFIG], data.training, data.evaluation
    killed(3, lambda: train_many(*task, checkpoint=Checkpoint(tmp_path)))
    part = Checkpoint(tmp_path).part(0)
    arrays, state = part.load()
    part.save(arrays | {"parameters": arrays["parameters"] + 1}, state)
    (resumed,) = train_many(*task, checkpoint=Checkpoint(tmp_path))
    (whole,) = train_many(*task)
    assert not np.allclose(resumed.parameters, whole.parameters, atol=0.1)


@pytest.mark.parametrize(
    ("change", "engine"),
    [
        ({"configs": [replace(SHORT, seed=1)]}, "taps"),
        ({"evaluation": DATA.load().evaluation[:50]}, "taps"),
        ({"data": DATA.load().training.subset(range(140))}, "taps"),
        ({}, "batched"),
    ],
)
def test_another_training_is_refused(tmp_path, killed, change, engine):
    """Other configurations, points, data or engines: what was saved stays as it is."""
    loaded = DATA.load()
    task = {"configs": [SHORT], "data": loaded.training, "evaluation": loaded.evaluation}
    place = Checkpoint(tmp_path)
    killed(2, lambda: train_many(**task, engine="taps", checkpoint=place))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="checkpoint"):
        train_many(**task | change, engine=engine, checkpoint=Checkpoint(tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("engine", ["kernel", "taps", "batched"])
def test_what_is_finished_is_read_back(tmp_path, monkeypatch, engine):
    """A model that took long is saved when it is finished, before its company is."""
    for module in ("many", "single", "batched"):
        monkeypatch.setattr(f"lib.training.{module}.took_long", lambda started: True)
    data = DATA.load()
    task = [SHORT], data.training, data.evaluation
    whole = train_many(*task, engine=engine, checkpoint=Checkpoint(tmp_path, kept=True))
    assert steps_of(tmp_path) == [SHORT.steps]
    advanced = []
    monkeypatch.setattr("lib.training.kernels.run_steps", lambda *a: advanced.append(a))
    monkeypatch.setattr("lib.training.single.Trainer.advance", lambda *a: advanced.append(a))
    monkeypatch.setattr("lib.training.batched.noise_of", lambda *a: advanced.append(a))
    same(train_many(*task, engine=engine, checkpoint=Checkpoint(tmp_path)), whole)
    assert advanced == []
    assert [*tmp_path.iterdir()] == []  # who asked is done with it


def test_a_save_is_due_after_half_a_minute(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    place = Checkpoint(tmp_path)
    for after, due in ((29.0, False), (31.0, True)):
        now[0] = after
        assert place.due == due
    place.save({}, {})
    assert not place.due
    now[0] += math.inf
    assert not Checkpoint().part("of nothing").due


def test_parts_vanish_with_the_whole(tmp_path):
    place = Checkpoint(tmp_path)
    place.save({}, {"of": "the whole"})
    place.part(1).save({}, {"of": 1})
    place.part(12).save({}, {"of": 12})
    place.part(1).part("a").save({}, {"of": "1-a"})
    place.part(1).clear()
    assert place.part(1).part("a").load() is None
    assert place.part(12).load()[1] == {"of": 12}
    place.clear()
    assert [*tmp_path.iterdir()] == []


def test_what_is_done_leaves_nothing_of_its_own_and_all_of_others(tmp_path):
    """Outside a store, too: what was damaged, and what saves left that were killed."""
    others = ["run-2", "run-2-x", "xrun", "run.npz", ".run", "run.npz.damaged-1", "[r]un", "*"]
    for name in others:
        Checkpoint(tmp_path, name=name).save({}, {"of": name})
        Checkpoint(tmp_path, name=name).part(0).save({}, {"of": name})
    (tmp_path / "run.npz.damaged-by-me").write_text("mine")
    before = {path.name for path in tmp_path.iterdir()}
    whole = Checkpoint(tmp_path, name="run")
    for place in (whole, whole.part(0), whole.part("2"), whole.part(0).part("a\nb")):
        place.save({"a": np.arange(3)}, {})
        place.path.write_bytes(place.path.read_bytes()[:-40])
        with pytest.warns(RuntimeWarning, match="is damaged"):
            assert place.load() is None
        place.save({"a": np.arange(3)}, {})
        beside(place.path).write_bytes(place.path.read_bytes())  # as of a killed save
        assert place.load() is not None
    assert len([*tmp_path.iterdir()]) == len(before) + 12
    whole.part(0).done()
    assert len([*tmp_path.iterdir()]) == len(before) + 6
    whole.done()
    assert {path.name for path in tmp_path.iterdir()} == before
    Checkpoint(tmp_path, name="*").done()
    assert len([*tmp_path.iterdir()]) == len(before) - 2
    Checkpoint(tmp_path / "never made").done()


@pytest.mark.parametrize("saves", [1, 4])
def test_a_killed_and_damaged_training_leaves_nothing(tmp_path, killed, saves):
    """All engines' own calls, not those of a store."""
    data = DATA.load()
    task = [SHORT, replace(SHORT, seed=1)], data.training, data.evaluation
    killed(saves, lambda: train_many(*task, checkpoint=Checkpoint(tmp_path)))
    for path in [*tmp_path.iterdir()]:
        path.write_bytes(path.read_bytes()[:-40])
        beside(path).write_bytes(b"part of a state")
    with pytest.warns(RuntimeWarning, match="is damaged"):
        found = train_many(*task, checkpoint=Checkpoint(tmp_path))
    same(found, train_many(*task))
    assert [*tmp_path.iterdir()] == []
