"""Runs are stored once, found again, and never believed when damaged."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from jobs_for_tests import Deadly, Fails, Walk, executions

from lib.runs import (
    Checkpoint,
    Outcome,
    RunsFailed,
    RunStore,
    canonical,
    executor_for,
    generator_state,
    restore_generator,
    run_all,
    run_key,
)
from lib.runs import provenance as provenance_module
from lib.runs.provenance import code_fingerprint


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "store")


def walk(tmp_path, **changes):
    return Walk(str(tmp_path), **changes)


# ---------------------------------------------------------------------------------------- hashing


@dataclass(frozen=True)
class Holder:
    value: Any
    code: ClassVar[tuple[str, ...]] = ("runs",)

    def data_fingerprint(self):
        return "d"

    def execute(self, checkpoint):
        return Outcome(self.value)


OBJECTS = {"objects": np.array([object()]), "texts": np.array(["text"])}


@dataclass(frozen=True)
class Gives(Holder):
    def execute(self, checkpoint):
        return Outcome({"a": OBJECTS[self.value]})


@dataclass(frozen=True)
class Other:
    value: Any


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1.0, math.inf),
        (math.inf, -math.inf),
        (math.inf, "inf"),
        (True, 1.5),
        ((1, 2), (2, 1)),
        (Other(1), Holder(1)),
        (None, "None"),
        ({"a": 1}, {"a": 2}),
        ("1", 1),
    ],
)
def test_unlike_configurations_have_unlike_keys(a, b):
    assert run_key(Holder(a)) != run_key(Holder(b))


def test_like_configurations_have_one_key():
    assert run_key(Holder(np.float64(0.5))) == run_key(Holder(0.5))
    assert run_key(Holder(np.int64(3))) == run_key(Holder(3))
    assert run_key(Holder((1, 2))) == run_key(Holder([1, 2]))
    assert run_key(Holder({"a": 1, "b": 2})) == run_key(Holder({"b": 2, "a": 1}))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (math.nan, ValueError, "value must not be NaN"),
        (np.zeros(3), TypeError, "value must be a number, string, .* got ndarray"),
        ({1: 2}, TypeError, "value must have strings as keys"),
        (object(), TypeError, "got object"),
    ],
)
def test_what_no_configuration_may_hold(value, error, message):
    with pytest.raises(error, match=message):
        canonical(Holder(value))


def test_keys_do_not_depend_on_the_process(tmp_path):
    code = (
        "from jobs_for_tests import Walk; from lib.runs import run_key; print(run_key(Walk('f')))"
    )
    found = set()
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout.strip())
    assert found == {run_key(Walk("f"))}


def test_code_and_data_are_part_of_the_key(tmp_path, monkeypatch):
    job = walk(tmp_path)
    key = run_key(job)
    assert run_key(replace(job, data="other")) != key
    package = tmp_path / "lib"
    (package / "runs").mkdir(parents=True)
    (package / "book").mkdir()
    for name in ("__init__.py", "runs/__init__.py", "book/__init__.py"):
        (package / name).touch()
    monkeypatch.setattr(provenance_module.lib, "__file__", str(package / "__init__.py"))
    before, everything = code_fingerprint("runs"), code_fingerprint()
    (package / "book" / "page.py").write_text("1")
    assert code_fingerprint("runs") == before
    assert code_fingerprint() != everything
    (package / "runs" / "a.py").write_text("1")
    assert code_fingerprint("runs") != before
    assert run_key(job) != key
    with pytest.raises(ValueError, match="parts must name sub-packages of lib, got 'nothing'"):
        code_fingerprint("nothing")


# ---------------------------------------------------------------------------------------- storing


def test_a_run_is_made_once(tmp_path, store):
    job = walk(tmp_path)
    assert store.get(job) is None
    first, second = store.run(job), store.run(job)
    assert executions(tmp_path) == 1
    assert np.array_equal(first.arrays["path"], second.arrays["path"])
    assert first.metrics == second.metrics == {"end": first.arrays["path"][-1]}
    assert first.privacy == {"epsilon": 1.0}
    assert first.config["steps"] == 40
    assert first.config["level"] == {"float": "inf"}
    assert {"code", "data", "hardware", "packages", "python", "when"} <= set(first.provenance)
    assert store.keys() == [first.key]
    assert not (store.folder / "partial" / first.key).exists()
    store.run(walk(tmp_path, seed=1))
    assert len(store.keys()) == 2


def damage_json(path):
    (path / "run.json").write_text("{")


def damage_value(path):
    record = json.loads((path / "run.json").read_text())
    record["metrics"]["end"] = 0.0
    (path / "run.json").write_text(json.dumps(record))


def damage_arrays(path):
    content = bytearray((path / "arrays.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (path / "arrays.npz").write_bytes(content)


def truncate(path):
    content = (path / "arrays.npz").read_bytes()
    (path / "arrays.npz").write_bytes(content[:100])


def lose_arrays(path):
    (path / "arrays.npz").unlink()


def foreign(path):
    shutil.rmtree(path)
    path.mkdir()
    (path / "run.json").write_text('["another program"]')


def empty(path):
    shutil.rmtree(path)
    path.mkdir()


@pytest.mark.parametrize(
    "damage", [damage_json, damage_value, damage_arrays, truncate, lose_arrays, foreign, empty]
)
def test_damage_is_found_set_aside_and_repaired(tmp_path, store, damage):
    job = walk(tmp_path)
    first = store.run(job)
    arrays = first.arrays
    damage(first.path)
    with pytest.warns(RuntimeWarning, match="is damaged .*; moved to .*set-aside"):
        again = store.run(job)
    assert executions(tmp_path) == 2
    assert np.array_equal(again.arrays["path"], arrays["path"])
    assert len(list((store.folder / "set-aside").iterdir())) == 1


def test_a_run_under_another_key_is_not_believed(tmp_path, store):
    a, b = walk(tmp_path), walk(tmp_path, seed=1)
    stored = store.run(a)
    target = store.path(run_key(b))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(stored.path, target)
    with pytest.warns(RuntimeWarning, match=f"it is the run {stored.key}"):
        assert store.get(b) is None


def test_objects_are_never_written(store):
    for name in OBJECTS:
        with pytest.raises(ValueError, match=r"arrays\['a'\] must hold numbers or booleans"):
            store.run(Gives(name))
    assert store.keys() == []


def test_two_processes_do_not_run_the_same_job(tmp_path, store):
    code = textwrap.dedent(
        """
        import sys
        from jobs_for_tests import Walk
        from lib.runs import RunStore
        job = Walk(sys.argv[1], steps=20, pause=0.05)
        print(RunStore(sys.argv[2]).run(job).metrics["end"])
        """
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(store.folder)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    ends = {process.communicate(timeout=60)[0] for process in both}
    assert len(ends) == 1
    assert executions(tmp_path) == 1


# -------------------------------------------------------------------------- checkpoints and killing


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_generators_survive_json(bits):
    rng = np.random.Generator(getattr(np.random, bits)(5))
    rng.standard_normal(7)
    rng.standard_normal(3, dtype=np.float32)  # leaves half a 64-bit number behind
    again = restore_generator(json.loads(json.dumps(generator_state(rng))))
    assert np.array_equal(rng.standard_normal(50), again.standard_normal(50))
    assert np.array_equal(
        rng.standard_normal(9, dtype=np.float32), again.standard_normal(9, dtype=np.float32)
    )


def test_other_generators_are_refused():
    with pytest.raises(ValueError, match=r"rng must use one of PCG64, .*got MT19937"):
        generator_state(np.random.Generator(np.random.MT19937(0)))
    with pytest.raises(ValueError, match=r"state must be of one of .*got 'os'"):
        restore_generator({"bit_generator": "os"})


def test_checkpoints(tmp_path):
    checkpoint = Checkpoint(tmp_path / "c")
    assert checkpoint.load() is None
    checkpoint.save({"a": np.arange(3)}, {"step": 2**100})
    checkpoint.save({"a": np.arange(4)}, {"step": 2**100 + 1})
    arrays, state = checkpoint.load()
    assert arrays["a"].tolist() == [0, 1, 2, 3]
    assert state == {"step": 2**100 + 1}
    content = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(content[:-30])
    with pytest.warns(RuntimeWarning, match=r"checkpoint .* is damaged .*starting anew"):
        assert checkpoint.load() is None
    assert checkpoint.load() is None
    checkpoint.clear()
    nothing = Checkpoint()
    nothing.save({"a": np.arange(3)}, {})
    assert nothing.load() is None
    nothing.clear()


@pytest.mark.parametrize("kill_at", [(1,), (5,), (12,), (39,), (7, 23)])
def test_a_killed_run_goes_on_to_the_same_result(tmp_path, store, kill_at):
    code = textwrap.dedent(
        """
        import ast, sys
        from jobs_for_tests import Walk
        from lib.runs import RunStore
        RunStore(sys.argv[2]).run(Walk(sys.argv[1], kill_at=ast.literal_eval(sys.argv[3])))
        """
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(store.folder), str(kill_at)]
    codes = [subprocess.run(command, timeout=60).returncode for _ in range(len(kill_at) + 1)]
    assert codes == [-signal.SIGKILL] * len(kill_at) + [0]
    resumed = store.get(walk(tmp_path, kill_at=kill_at))
    whole = RunStore(tmp_path / "other").run(walk(tmp_path, seed=0))
    assert np.array_equal(resumed.arrays["path"], whole.arrays["path"])
    assert executions(tmp_path) == len(kill_at) + 2


# -------------------------------------------------------------------------------------- executors


def test_run_all_keeps_the_order_and_runs_only_what_is_missing(tmp_path, store):
    store.run(walk(tmp_path, seed=1))
    jobs = [walk(tmp_path, seed=seed) for seed in (2, 1, 0, 2)]
    found = run_all(jobs, ThreadPoolExecutor(2), store=store)
    assert [run.config["seed"] for run in found] == [2, 1, 0, 2]
    assert [executions(tmp_path, seed) for seed in (0, 1, 2)] == [1, 1, 1]
    run_all(jobs, store=store)
    assert [executions(tmp_path, seed) for seed in (0, 1, 2)] == [1, 1, 1]
    assert run_all([], store=store) == []


@pytest.mark.slow
def test_local_processes(tmp_path, store):
    jobs = [walk(tmp_path, seed=seed) for seed in range(3)]
    found = run_all(jobs, store=store, max_workers=2)
    here = RunStore(tmp_path / "here")
    for run, job in zip(found, jobs, strict=True):
        assert np.array_equal(run.arrays["path"], here.run(job).arrays["path"])


def test_failures_are_named_and_the_rest_is_kept(tmp_path, store):
    jobs = [Fails(1), walk(tmp_path), Fails(2)]
    with pytest.raises(RunsFailed) as caught:
        run_all(jobs, ThreadPoolExecutor(1), store=store)
    text = str(caught.value)
    assert "2 of 3 runs failed, the others are stored" in text
    for number in (1, 2):
        assert f"Fails(number={number})" in text
        assert f"ZeroDivisionError: job {number} divides by zero" in text
    assert len(store.keys()) == 1
    with pytest.raises(RunsFailed, match="1 of 1 runs failed"):
        run_all([Fails(3)], store=store)


@pytest.mark.slow
def test_a_killed_local_worker_is_replaced(tmp_path, store):
    jobs = [walk(tmp_path, seed=0, kill_at=(12,)), walk(tmp_path, seed=1), walk(tmp_path, seed=2)]
    found = run_all(jobs, store=store, max_workers=2)
    whole = RunStore(tmp_path / "other").run(walk(tmp_path))
    assert np.array_equal(found[0].arrays["path"], whole.arrays["path"])


@pytest.mark.slow
def test_a_job_that_always_kills_its_worker_is_given_up(tmp_path, store):
    with pytest.raises(RunsFailed, match=r"Deadly\(number=1\)") as caught:
        run_all([Deadly(1), Deadly(2)], store=store, max_workers=2)
    assert len(caught.value.failures) == 2


class Elsewhere:
    """An executor whose workers keep their results to themselves."""

    def submit(self, function, job, folder):
        class Done:
            def result(self):
                return run_key(job)

        return Done()


def test_a_store_that_workers_do_not_share_is_noticed(tmp_path, store):
    with pytest.raises(RunsFailed, match="all workers must share the store's file system"):
        run_all([walk(tmp_path)], Elsewhere(), store=store)


@pytest.mark.parametrize("scheduler", ["slurm", "local-cluster:0", "local-cluster:x", "http://a"])
def test_unknown_schedulers(scheduler):
    with (
        pytest.raises(ValueError, match="scheduler must be 'local', 'local-cluster:N' or an addr"),
        executor_for(scheduler),
    ):
        pass


def test_dask_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ImportError, match=r"pip install \"abstention-privacy-companion\[cluster\]"),
        executor_for("local-cluster:2"),
    ):
        pass
    with executor_for("local") as executor:
        assert executor is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Dask leaves sockets to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_dask_cluster_loses_a_worker_and_finishes(tmp_path, store):
    pytest.importorskip("distributed", reason="the optional extra 'cluster' is not installed")
    jobs = [walk(tmp_path, seed=seed, steps=20, pause=0.1) for seed in range(6)]
    with executor_for("local-cluster:2") as client:
        client.wait_for_workers(2, timeout=60)
        pids = client.run(os.getpid)
        assert len(pids) == 2
        killer = ThreadPoolExecutor(1)

        def kill_one():
            deadline = time.monotonic() + 60
            while sum(executions(tmp_path, seed) for seed in range(6)) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

        killed = killer.submit(kill_one)
        found = run_all(jobs, client, store=store)
        killed.result()
    whole = RunStore(tmp_path / "other")
    for run, job in zip(found, jobs, strict=True):
        assert np.array_equal(run.arrays["path"], whole.run(job).arrays["path"])
    assert sum(executions(tmp_path, seed) for seed in range(6)) > 2 * 6  # one ran again


def test_where_runs_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "runs"))
    assert RunStore().folder == tmp_path / "runs"
    monkeypatch.delenv("COMPANION_RUNS")
    assert RunStore().folder == Path(__file__).parents[2] / ".cache" / "runs"
