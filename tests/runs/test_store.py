"""Runs are stored once, found again, and never believed when damaged."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs_for_tests import Walk, executions

from lib.runs import (
    Checkpoint,
    Outcome,
    RunStore,
    canonical,
    generator_state,
    restore_generator,
    run_key,
)
from lib.runs import provenance as provenance_module
from lib.runs.provenance import code_fingerprint
from lib.studies.counterfactual.scenarios import ScenarioRuns, Sizes
from lib.studies.suitability.study_runs import StudyRun


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "store")


def walk(tmp_path, **changes):
    return Walk(str(tmp_path), **changes)


# ---------------------------------------------------------------------------------------- hashing


@dataclass(frozen=True)
class Holder:
    value: Any

    def data_fingerprint(self):
        return "d"

    def execute(self, checkpoint):
        return Outcome(self.value)


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
    (package / "runs" / "NOTES.md").write_text("1")  # words change no number
    assert code_fingerprint("runs") == before
    (package / "runs" / "a.py").write_text("1")
    assert code_fingerprint("runs") != before


@pytest.mark.parametrize(
    ("job", "module", "other"),
    [
        (StudyRun("digits", "ERM", 0), "training/linear.py", "book/session.py"),
        (StudyRun("fmow", "ERM", 0), "suitability/signals.py", "counterfactual/forest.py"),
        (
            ScenarioRuns("digits", True, "linear", Sizes(400, 200), 2, 0),
            "training/predict.py",
            "data/features.py",
        ),
    ],
)
def test_a_change_of_what_a_job_calls_makes_its_runs_stale(job, module, other, monkeypatch):
    """Found by following imports: nobody has to list them, and nobody can forget one."""
    key, read = run_key(job), Path.read_bytes
    changed = []
    monkeypatch.setattr(
        Path, "read_bytes", lambda path: read(path) + b"#" * path.as_posix().endswith(changed[0])
    )
    changed.append(f"lib/{other}")
    assert run_key(job) == key
    changed[0] = f"lib/{module}"
    assert run_key(job) != key


@pytest.mark.parametrize("part", ["nothing", "", ".", "data/../runs", "runs/store.py"])
def test_unknown_parts_of_the_code(part):
    with pytest.raises(ValueError, match=f"parts must name sub-packages of lib, got {part!r}"):
        code_fingerprint("runs", part)


def test_code_that_changed_after_it_was_loaded_is_not_run(tmp_path, store, monkeypatch):
    """A long-lived kernel would store old code's results under the new code's key."""
    stale = provenance_module._LOADED | {"runs": "0" * 64}
    monkeypatch.setattr(provenance_module, "_LOADED", stale)
    with pytest.raises(RuntimeError, match=r"files of lib\.runs have changed since .* restart it"):
        store.run(walk(tmp_path))
    assert executions(tmp_path) == 0
    monkeypatch.setattr(provenance_module, "_LOADED", stale | {"runs": code_fingerprint("runs")})
    monkeypatch.setitem(provenance_module._LOADED, "data", "0" * 64)
    store.run(walk(tmp_path))  # does not depend on lib.data
    with pytest.raises(RuntimeError, match=r"files of lib\.data have changed"):
        provenance_module.check_loaded()


# ---------------------------------------------------------------------------------------- storing


def test_a_run_is_made_once(tmp_path, store):
    job = walk(tmp_path)
    assert store.get(job) is None
    first, second = store.run(job), store.run(job)
    assert executions(tmp_path) == 1
    assert np.array_equal(first.arrays["path"], second.arrays["path"])
    assert first.metrics == second.metrics
    assert first.metrics["end"] == first.arrays["path"][-1]
    assert first.privacy == second.privacy
    assert 10 < first.privacy["epsilon"] < 30  # 40 steps of 0.5 each on average
    assert first.config["steps"] == 40
    assert first.config["level"] == {"float": "inf"}
    assert {"code", "data", "hardware", "packages", "python", "when"} <= set(first.provenance)
    assert store.keys() == [first.key]
    assert not (store.folder / "partial" / first.key).exists()
    store.run(walk(tmp_path, seed=1))
    assert len(store.keys()) == 2


def emptied(path):
    shutil.rmtree(path)
    path.mkdir()


def foreign(path):
    emptied(path)
    (path / "run.json").write_text('["another program"]')


def foreign_file(path):
    shutil.rmtree(path)
    path.write_text("not even a folder")


def rewritten(name, change):
    """Damage that rewrites the bytes of a file."""

    def damage(path):
        (path / name).write_bytes(change((path / name).read_bytes()))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        rewritten("run.json", lambda _: b"{"),
        rewritten("run.json", lambda record: record.replace(b'"epsilon": ', b'"epsilon": 1')),
        rewritten("run.json", lambda _: b"\xff\xfe\x00"),
        rewritten("run.json", lambda _: b"[" * 100_000),  # a RecursionError
        rewritten("arrays.npz", lambda c: c[:200] + bytes([c[200] ^ 1]) + c[201:]),
        rewritten("arrays.npz", lambda content: content[:100]),
        lambda path: (path / "arrays.npz").unlink(),
        lambda path: (path / "run.json").unlink(),
        emptied,
        foreign,
        foreign_file,
    ],
)
def test_damage_is_found_set_aside_and_repaired(tmp_path, store, damage):
    job = walk(tmp_path)
    first = store.run(job)
    assert first.arrays  # read now
    damage(first.path)
    with pytest.warns(RuntimeWarning, match="is damaged .*; moved to .*set-aside"):
        again = store.run(job)
    assert executions(tmp_path) == 2
    assert same_result(again, first)
    assert len(list((store.folder / "set-aside").iterdir())) == 1


def test_a_run_under_another_key_is_not_believed(tmp_path, store):
    a, b = walk(tmp_path), walk(tmp_path, seed=1)
    stored = store.run(a)
    target = store.path(run_key(b))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(stored.path, target)
    with pytest.warns(RuntimeWarning, match=f"it is the run {stored.key}"):
        assert store.get(b) is None


@dataclass(frozen=True)
class Says(Holder):
    """A job with the metrics and arrays of `SAYINGS`."""

    def execute(self, checkpoint):
        checkpoint.save({"a": np.arange(3)}, {"step": 1})
        arrays, metrics = SAYINGS[self.value]
        return Outcome(arrays, metrics, {"epsilon": math.inf})


SAYINGS = {
    "numbers": (
        {"file": np.arange(2), "allow_pickle": np.ones((0, 3)), "a/b": np.array(1.5, np.float16)},
        {"x": np.float32(0.5), "n": np.int64(3), "flag": np.bool_(True), "t": (1, (2, None))}
        | {"inf": math.inf, "rates": [-math.inf, {"deep": "ü"}], "float": "text"},
    ),
    "nan": ({}, {"x": math.nan}),
    "integer keys": ({}, {"x": {10: 1, 9: 2}}),
    "an array": ({}, {"x": [np.zeros(2)]}),
    "complex": ({}, {"x": 1j}),
    "objects": ({"a": np.array([object()])}, {}),
    "texts": ({"a": np.array(["text"])}, {}),
}


def test_all_numbers_come_back(store):
    arrays, _ = SAYINGS["numbers"]
    run = store.run(Says("numbers"))
    assert set(run.arrays) == set(arrays)
    for name, array in arrays.items():
        assert run.arrays[name].dtype == array.dtype
        assert run.arrays[name].shape == array.shape
        assert np.array_equal(run.arrays[name], array)
    numbers = {"x": 0.5, "n": 3, "flag": True, "t": [1, [2, None]], "inf": math.inf}
    assert run.metrics == numbers | {"rates": [-math.inf, {"deep": "ü"}], "float": "text"}
    assert run.privacy == {"epsilon": math.inf}
    assert math.isnan(store.run(Says("nan")).metrics["x"])


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("integer keys", r"metrics\['x'\] must have strings as keys, got 10"),
        ("an array", r"metrics\['x'\]\[0\] must be a number, .* got ndarray"),
        ("complex", r"metrics\['x'\] must be a number, .* got complex"),
        ("objects", r"arrays\['a'\] must hold numbers or booleans, got dtype object"),
        ("texts", r"arrays\['a'\] must hold numbers or booleans, got dtype <U4"),
    ],
)
def test_what_cannot_be_stored_is_named_and_the_checkpoint_kept(store, what, message):
    with pytest.raises((TypeError, ValueError), match=message):
        store.run(Says(what))
    assert store.keys() == []
    partial = store.folder / "partial" / run_key(Says(what))
    assert Checkpoint(partial).load()[1] == {"step": 1}


def test_what_a_killed_writer_left_is_removed_without_a_word(tmp_path, store):
    job = walk(tmp_path)
    target = store.path(run_key(job))
    leftover = target.parent / f".{target.name}.abc"
    leftover.mkdir(parents=True)
    (leftover / "run.json").write_text("{")
    for foreign in (target.parent / "foreign", store.folder / "fo" / "foreign"):
        foreign.mkdir(parents=True)
        (foreign / "run.json").write_text("{}")
    assert store.keys() == []
    store.run(job)  # a warning would be an error here, and in a chapter's build
    assert store.keys() == [target.name]
    assert not leftover.exists()


def test_the_checkpoint_of_a_writer_killed_after_writing_is_removed(tmp_path, store):
    job = walk(tmp_path)
    store.run(job)
    left = store.folder / "partial" / run_key(job)
    left.mkdir(parents=True)
    (left / "checkpoint.npz").write_bytes(b"half")
    assert store.run(job).metrics
    assert not left.exists()
    assert executions(tmp_path) == 1


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


@pytest.mark.parametrize("name", ["", "__state__"])
def test_names_that_no_array_may_have(tmp_path, name):
    with pytest.raises(ValueError, match=f"arrays must have other names than {name!r}"):
        Checkpoint(tmp_path).save({name: np.zeros(2)}, {})


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


def test_a_state_keeps_infinity_and_numpy_scalars(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save({}, {"epsilon": math.inf, "loss": math.nan, "step": np.int64(3)})
    arrays, state = checkpoint.load()
    assert arrays == {}
    assert math.isnan(state.pop("loss"))
    assert state == {"epsilon": math.inf, "step": 3}
    with pytest.raises(TypeError, match=r"state\['x'\] must be a number, .* got object"):
        checkpoint.save({}, {"x": object()})
    assert checkpoint.load()[1]["step"] == 3


@pytest.mark.filterwarnings("ignore:the checkpoint .* is damaged:RuntimeWarning")
def test_no_flipped_bit_or_cut_stops_a_checkpoint_or_is_believed(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    written = {"a": np.arange(2.0)}, {"step": 7}
    checkpoint.save(*written)
    content = checkpoint.path.read_bytes()
    flips = (
        content[:i] + bytes([content[i] ^ 1 << bit]) + content[i + 1 :]
        for i in range(len(content))
        for bit in range(0, 8, 2)
    )
    refused = 0
    for damaged in [*flips, *(content[:n] for n in range(0, len(content), 5))]:
        checkpoint.path.write_bytes(damaged)
        found = checkpoint.load()
        if found is None:
            refused += 1
        else:  # in what the zip format ignores, such as dates
            assert found[0].keys() == {"a"}
            assert np.array_equal(found[0]["a"], written[0]["a"])
            assert found[1] == written[1]
    assert refused > 1000
    assert len(list(tmp_path.glob("checkpoint.npz.damaged-*"))) == refused
    checkpoint.done()
    assert not list(tmp_path.iterdir())


def same_result(a, b):
    return (
        np.array_equal(a.arrays["path"], b.arrays["path"])
        and a.metrics["end"] == b.metrics["end"]
        and a.privacy == b.privacy
    )


@pytest.mark.parametrize(
    ("kill_at", "bits"), [((1,), "SFC64"), ((39,), "PCG64"), ((7, 23), "Philox")]
)
def test_a_killed_run_goes_on_to_the_same_result(tmp_path, store, kill_at, bits):
    code = textwrap.dedent(
        """
        import ast, sys
        from jobs_for_tests import Walk
        from lib.runs import RunStore
        kill_at = ast.literal_eval(sys.argv[3])
        RunStore(sys.argv[2]).run(Walk(sys.argv[1], kill_at=kill_at, bits=sys.argv[4]))
        """
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(store.folder), str(kill_at), bits]
    codes = [subprocess.run(command, timeout=60).returncode for _ in range(len(kill_at) + 1)]
    assert codes == [-signal.SIGKILL] * len(kill_at) + [0]
    resumed = store.get(walk(tmp_path, kill_at=kill_at, bits=bits))
    whole = RunStore(tmp_path / "other").run(walk(tmp_path, seed=0, bits=bits))
    assert same_result(resumed, whole)
    assert executions(tmp_path) == len(kill_at) + 2


def test_killed_at_every_moment_of_every_write(tmp_path):
    """SIGKILL before each flush and each renaming, of checkpoints and of the result."""
    code = textwrap.dedent(
        """
        import os, signal, sys
        from jobs_for_tests import Walk
        from lib.runs import RunStore

        def child(number, die_at):
            folder = os.path.join(sys.argv[1], str(number))
            os.makedirs(folder, exist_ok=True)
            calls = 0
            def dying(function):
                def call(*arguments):
                    nonlocal calls
                    calls += 1
                    if calls == die_at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return function(*arguments)
                return call
            os.fsync, os.replace = dying(os.fsync), dying(os.replace)
            RunStore(os.path.join(folder, "store")).run(Walk(folder, steps=20))

        def forked(*arguments):
            pid = os.fork()
            if not pid:
                child(*arguments)
                os._exit(0)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        number = 1
        while forked(number, number) == -signal.SIGKILL:
            assert forked(number, None) == 0
            number += 1
        print(number)
        """
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    number = int(done.stdout)
    # a flush and a renaming for each of 4 checkpoints and 2 files, and the renaming of the folder
    assert number == 1 + 2 * (4 + 2) + 1
    whole = RunStore(tmp_path / "whole").run(walk(tmp_path, steps=20))
    for folder in (tmp_path / str(n) for n in range(1, number + 1)):
        store = RunStore(folder / "store")
        (key,) = store.keys()
        assert same_result(store.get_key(key), whole)
        assert executions(folder) == 2 - (folder.name == str(number))
        assert not list((store.folder / "partial").glob("*/"))
        assert not list(store.folder.glob(f"{key[:2]}/.*"))


def test_where_runs_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "runs"))
    assert RunStore().folder == tmp_path / "runs"
    monkeypatch.delenv("COMPANION_RUNS")
    assert RunStore().folder == Path(__file__).parents[2] / ".cache" / "runs"
