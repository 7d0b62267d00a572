"""What finished and interrupted runs keep, and who may read it."""

import json
import math
import os
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from jobs_for_tests import Walk

from lib.privacy import PrivacyLedger, find_noise_multiplier
from lib.runs import Checkpoint, Outcome, RunStore, run_all, run_key, write_atomic
from lib.runs.jobs import has_guarantee, rounded, without_counts
from lib.training import (
    DataSpec,
    LabelTrainings,
    ModelSpec,
    SelfAdaptiveTraining,
    SubsetTrainings,
    Training,
    TrainingConfig,
    train,
)
from lib.training.config import plan
from lib.training.state import spent

SEED = 760_431_977  # that occurs nowhere else
TRAIN = 1123
MODEL = ModelSpec("mlp", (64,), 10, hidden=(8,), head="abstain")
CONFIG = TrainingConfig(
    MODEL,
    objective=SelfAdaptiveTraining(burn_in_steps=2, momentum=0.5),
    epsilon=3.0,
    accountant="rdp",
    batch_size=100,
    steps=30,
    seed=SEED,
)
JOB = Training(CONFIG, DataSpec(train=TRAIN, test=60), save_every=5, keep_parameters=True)


class Killed(BaseException):
    """What ends a training in its middle."""


@pytest.fixture(autouse=True)
def not_public(monkeypatch):
    monkeypatch.delenv("COMPANION_PUBLIC_DATA", raising=False)


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_modes_of_files_are_those_of_the_umask_or_private(tmp_path, umask, mask, monkeypatch):
    umask(mask)
    seen, fsync = [], os.fsync

    def looked(descriptor):  # while the file has its temporary name
        seen.append(os.fstat(descriptor).st_mode & 0o777)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", looked)
    write_atomic(tmp_path / "a" / "file", "x")
    write_atomic(tmp_path / "a" / "secret", "x", private=True)
    assert [mode(tmp_path / "a" / name) for name in ("file", "secret")] == [0o666 & ~mask, 0o600]
    assert seen == [0o666 & ~mask, 0o600]
    assert mode(tmp_path / "a") == 0o777 & ~mask
    place = Checkpoint(tmp_path / "c")
    place.save({"a": np.arange(3)}, {})
    assert mode(place.path) == 0o600
    store = RunStore(tmp_path / "runs")
    run = store.run(Walk(str(tmp_path)))
    assert mode(run.path) == 0o777 & ~mask
    assert {mode(path) for path in files(run.path)} == {0o666 & ~mask}
    assert mode(store.folder / "salt") == 0o600
    written = files(tmp_path / "runs") + files(tmp_path / "a")
    assert all(mode(path) & mask == 0 for path in written if path.suffix != ".lock")


@dataclass(frozen=True)
class Result:
    """A job with a given guarantee."""

    epsilon: float | None
    private: bool = False

    def data_fingerprint(self):
        return "unsalted"

    def execute(self, checkpoint):
        return Outcome({"a": np.arange(3)}, {}, self.epsilon and {"epsilon": self.epsilon})


@pytest.mark.parametrize(
    ("job", "private"),
    [(Result(None), True), (Result(np.inf), True), (Result(2.0), False), (Result(2.0, True), True)],
)
def test_who_may_read_a_run_where_data_are_not_public(tmp_path, umask, job, private):
    run = RunStore(tmp_path).run(job)
    assert {mode(path) for path in files(run.path)} == {0o600 if private else 0o644}
    open_to_all = RunStore(tmp_path, public=True).run(job)
    assert {mode(path) for path in files(open_to_all.path)} == {0o644}
    # Those that say which examples are watched are private, whatever their trainings guarantee.
    assert LabelTrainings.private
    assert SubsetTrainings.private


def nothing_is_told(store, targets):
    """Of seed, data, their number and what examples were trained on, in no file that is left."""
    content = {path: path.read_bytes() for path in files(store.folder)}
    told = [str(SEED), JOB.data_fingerprint(), run_key(JOB), str(TRAIN), repr(1 / TRAIN)]
    told += [repr(find_noise_multiplier(3.0, 1 / TRAIN, 100 / TRAIN, 30))]
    for path, each in content.items():
        for text in told:
            assert text.encode() not in each, (path, text)
        for row in targets:
            assert row.tobytes() not in each, path
    assert not list((store.folder / "partial").glob("*/"))


def test_a_finished_private_run_keeps_nothing_that_is_not_released(tmp_path, monkeypatch):
    store, save, saved = RunStore(tmp_path / "runs"), Checkpoint.save, []

    def dying(*given):
        save(*given)
        saved.append(given)
        if len(saved) == 3:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", dying)
        with pytest.raises(Killed):
            store.run(JOB)
    (left,) = (store.folder / "partial").glob("*/*")
    assert mode(left) == 0o600
    arrays, state = Checkpoint(left.parent).load()
    memory = arrays["memory"]
    assert memory.shape == (TRAIN, 10)
    moved = memory[(memory > 0).all(axis=1)]
    assert len(moved)
    assert str(SEED) in json.dumps(state)
    left.write_bytes(left.read_bytes()[:-40])  # damaged, too: it is put aside, and gone at the end
    with pytest.warns(RuntimeWarning, match="is damaged"):
        run = store.run(JOB)
    nothing_is_told(store, moved[:20])
    place = Checkpoint(store.folder / "partial" / run.key)  # of a writer killed after writing
    place.save({"memory": np.ones((3, 2))}, {"seed": SEED})
    assert store.run(JOB).key == run.key
    nothing_is_told(store, [])
    assert store.get(JOB).key == run.key == RunStore(store.folder).key(JOB)
    assert run.config == {"class": "lib.training.jobs.Training"}
    assert run.arrays["parameters"].shape
    assert run.privacy["epsilon"] == 3.0
    assert 1 / TRAIN <= run.privacy["delta"] == 0.0009
    (entry,) = run.privacy["ledger"]["entries"]
    assert 100 / TRAIN <= entry["sample_rate"] == 0.09
    noise = find_noise_multiplier(3.0, 1 / TRAIN, 100 / TRAIN, 30)
    assert 0.95 == entry["noise_multiplier"] <= noise
    assert run.metrics["training_examples"] is None


def test_a_training_forgets_its_checkpoint_when_it_is_done(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_SAVE_EVERY", "0")
    saved, save = [], Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda *a: (save(*a), saved.append(a[1])))
    monkeypatch.setattr("lib.training.single.took_long", lambda started: True)
    data = JOB.data.load()
    train(CONFIG, data.training, data.evaluation, checkpoint=Checkpoint(tmp_path))
    assert "memory" in saved[0]
    assert "memory" not in saved[-1]  # no step is left that wants it
    assert files(tmp_path) == []


def test_keys_are_stable_here_and_nowhere_else(tmp_path):
    here, there = RunStore(tmp_path / "here"), RunStore(tmp_path / "there")
    assert here.key(JOB) == RunStore(tmp_path / "here").key(JOB)
    assert len({here.key(JOB), there.key(JOB), run_key(JOB)}) == 3
    assert RunStore(tmp_path / "here", public=True).key(JOB) == run_key(JOB)
    (tmp_path / "here" / "salt").write_bytes(b"")
    with pytest.raises(ValueError, match="salt"):
        RunStore(tmp_path / "here").key(JOB)


@pytest.mark.parametrize("public", [True, False])
def test_workers_write_as_they_were_asked_to(tmp_path, public, monkeypatch):
    monkeypatch.setenv("COMPANION_PUBLIC_DATA", "0" if public else "1")
    jobs = [Walk(str(tmp_path), steps=3, seed=seed) for seed in range(2)]
    store = RunStore(tmp_path / "runs", public)
    runs = run_all(jobs, store=store, max_workers=1)
    assert {run.metrics["pid"] for run in runs} & {os.getpid()} == set()  # a process of its own
    assert {len(run.config) > 1 for run in runs} == {public}
    assert {run.provenance["data"] == "d" for run in runs} == {public}


def kept_of(n, config=CONFIG):
    """What a run on so many examples spends, and what is kept of it."""
    ledger = spent(config, plan(config, n), config.steps)
    whole = {"epsilon": ledger.epsilon(1 / n), "delta": 1 / n, "ledger": ledger.to_dict()}
    return whole, without_counts(whole)


def test_many_counts_keep_the_same_and_none_claims_too_much():
    kept = [kept_of(n)[1] for n in range(TRAIN - 11, TRAIN + 50, 10)]
    assert all(each == kept[0] for each in kept)
    noises = {kept_of(n)[0]["ledger"]["entries"][0]["noise_multiplier"] for n in (1122, TRAIN)}
    assert len(noises) == 2
    for n in range(400, 1600, 120):
        whole, left = kept_of(n)
        epsilon = PrivacyLedger.from_dict(left["ledger"]).epsilon(left["delta"])
        assert whole["epsilon"] <= left["epsilon"] <= 1.125 * whole["epsilon"]
        assert whole["epsilon"] <= PrivacyLedger.from_dict(left["ledger"]).epsilon(whole["delta"])
        assert epsilon < 1.5 * whole["epsilon"]  # still a ledger to speak of


def test_numbers_are_rounded_to_coarse_steps():
    for exponent in (-300, -42, -5, 0, 3, 40, 300):
        for value in np.geomspace(1, 10, 500) * 10.0**exponent:
            up, down = rounded(float(value)), rounded(float(value), down=True)
            assert down <= value <= up <= 1.126 * down
            assert {rounded(up), rounded(up, down=True)} == {up}  # also 0.1 and the like
            assert {rounded(down), rounded(down, down=True)} == {down}
    assert [rounded(n) for n in (1, 9, 30, 1123, 2100)] == [1, 9, 30, 1200, 2250]
    assert [rounded(n) for n in (21, 22)] == [23, 23]
    assert len({rounded(float(x)) for x in np.geomspace(1.01, 10, 10_000)}) == 32
    assert rounded(np.float64(0.123)) == 0.13
    as_they_are = [0.0, math.inf, True, None, "x"]
    assert [rounded(x) for x in as_they_are] == as_they_are
    assert math.isnan(rounded(math.nan))


def test_numbers_that_tell_counts_are_rounded_up(tmp_path, monkeypatch):
    curve = {"epsilon": [0.123, [1.01]], "noise_multiplier": (0.999,), "steps": 1123}
    wanted = {"epsilon": [0.13, [1.1]], "noise_multiplier": [0.95], "steps": 1200}
    assert without_counts(curve) == wanted
    assert without_counts({"steps": [{"delta": 0.123}]}) == {"steps": [{"delta": 0.13}]}
    assert without_counts({"training_seconds": 61.7}) == {"training_seconds": 65.0}
    model = {"epsilon": 2.991, "delta": 1 / 1123, "rare_examples": 4, "other": 0.123}
    given = {"models": [model], "epsilon": "Infinity"}
    told = model | {"epsilon": 3.0, "delta": 0.0009, "rare_examples": None}
    assert without_counts(given) == {"models": [told], "epsilon": "Infinity"}
    assert without_counts({"epsilon": 3.0, "delta": 0.0})["epsilon"] == 3.0
    assert [has_guarantee(each) for each in (given, given["models"], None)] == [False, True, False]
    ticks = iter([0.0, 1.2345])
    clock = SimpleNamespace(perf_counter=lambda: next(ticks))
    monkeypatch.setattr("lib.runs.store.time", clock)
    assert RunStore(tmp_path).run(Result(2.0)).seconds == 1.3
