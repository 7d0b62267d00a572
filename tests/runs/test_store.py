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
from lib.runs.files import kept_folder, user_cache
from lib.runs.provenance import code_fingerprint


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "store")


def same_result(a, b):
    return (
        np.array_equal(a.arrays["path"], b.arrays["path"])
        and a.metrics["end"] == b.metrics["end"]
        and a.privacy == b.privacy
    )


def walk(tmp_path, **changes):
    return Walk(str(tmp_path), **changes)


@dataclass(frozen=True)
class Holder:
    value: Any

    def data_fingerprint(self):
        return "d"

    def execute(self, checkpoint):
        return Outcome(self.value)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1.0, math.inf),
        (math.inf, -math.inf),
        (math.inf, "inf"),
        (True, 1.5),
        ((1, 2), (2, 1)),
        (Walk("f"), Holder(1)),
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
    code = "from jobs_for_tests import Walk; import lib.runs; print(lib.runs.run_key(Walk('f')))"
    environment = os.environ | {"PYTHONHASHSEED": "1"}  # in any process
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    assert done.stdout.decode().strip() == run_key(Walk("f"))
    for value in (math.nan, np.zeros(3), {1: 2}, object()):
        with pytest.raises((ValueError, TypeError), match="value"):
            canonical(Holder(value))


def test_code_and_data_are_part_of_the_key(tmp_path, monkeypatch):
    job = walk(tmp_path)
    assert run_key(replace(job, data="other")) != run_key(job)
    package = tmp_path / "lib"
    for name in ("__init__.py", "runs/__init__.py", "book/__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    monkeypatch.setattr(provenance_module.lib, "__file__", str(package / "__init__.py"))
    before, everything = code_fingerprint("runs"), code_fingerprint()
    (package / "book" / "page.py").write_text("1")
    (package / "runs" / "NOTES.md").write_text("1")  # words change no number
    assert code_fingerprint("runs") == before
    assert code_fingerprint() != everything
    (package / "runs" / "a.py").write_text("1")
    assert code_fingerprint("runs") != before


def test_code_that_changed_after_it_was_loaded_is_not_run(tmp_path, store, monkeypatch):
    stale = provenance_module._LOADED | {"runs": "0" * 64}
    monkeypatch.setattr(provenance_module, "_LOADED", stale)
    with pytest.raises(RuntimeError, match="runs"):
        store.run(walk(tmp_path))
    assert executions(tmp_path) == 0
    monkeypatch.setattr(provenance_module, "_LOADED", stale | {"runs": code_fingerprint("runs")})
    monkeypatch.setitem(provenance_module._LOADED, "data", "0" * 64)
    store.run(walk(tmp_path))  # does not depend on lib.data
    with pytest.raises(RuntimeError, match="data"):
        provenance_module.check_loaded()
    package = tmp_path / "lib" / "runs"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setattr(provenance_module.lib, "__file__", str(package.parent / "__init__.py"))
    now = {"runs": code_fingerprint("runs")}
    monkeypatch.setattr(provenance_module, "_LOADED", now)
    provenance_module.check_loaded("lib.runs.store")
    (package / "another.py").write_text("1")
    with pytest.raises(RuntimeError, match="runs"):
        provenance_module.check_loaded("lib.runs.store")


def test_a_run_is_made_once(tmp_path, store):
    job = walk(tmp_path)
    assert store.get(job) is None
    first, second = store.run(job), store.run(job)
    assert executions(tmp_path) == 1
    assert same_result(first, second)
    assert first.metrics["end"] == first.arrays["path"][-1]
    assert 10 < first.privacy["epsilon"] < 30  # 40 steps of 0.5 each on average
    assert (first.config["steps"], first.config["level"]) == (40, {"float": "inf"})
    assert {"code", "data", "hardware", "packages", "python", "when"} <= set(first.provenance)
    assert store.keys() == [first.key]
    left = store.folder / "partial" / first.key / "checkpoint.npz"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")  # of a writer that was killed after writing
    store.run(job)
    assert not left.parent.exists()
    assert executions(tmp_path) == 1
    target = store.path(run_key(walk(tmp_path, seed=1)))  # another's run is not believed
    shutil.copytree(first.path, target)
    with pytest.warns(RuntimeWarning, match=first.key):
        assert store.get(walk(tmp_path, seed=1)) is None


def rewritten(name, change):
    def damage(path):
        (path / name).write_bytes(change((path / name).read_bytes()))

    return damage


def foreign(path):
    shutil.rmtree(path)
    path.write_text("not even a folder")


@pytest.mark.parametrize(
    "damage",
    [
        rewritten("run.json", lambda _: b"{"),
        rewritten("run.json", lambda record: record.replace(b'"epsilon": ', b'"epsilon": 1')),
        rewritten("run.json", lambda _: b"\xff\xfe\x00"),
        rewritten("run.json", lambda _: b"[" * 100_000),  # a RecursionError
        rewritten("run.json", lambda _: b'["another program"]'),
        rewritten("arrays.npz", lambda c: c[:200] + bytes([c[200] ^ 1]) + c[201:]),
        rewritten("arrays.npz", lambda content: content[:100]),
        lambda path: (path / "arrays.npz").unlink(),
        lambda path: (path / "run.json").unlink(),
        lambda path: [each.unlink() for each in path.iterdir()],
        foreign,
    ],
)
def test_damage_is_found_set_aside_and_repaired(tmp_path, store, damage):
    job = walk(tmp_path)
    first = store.run(job)
    assert first.arrays  # read now
    damage(first.path)
    with pytest.warns(RuntimeWarning, match="set-aside"):
        again = store.run(job)
    assert executions(tmp_path) == 2
    assert same_result(again, first)
    assert len(list((store.folder / "set-aside").iterdir())) == 1


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
        np.testing.assert_array_equal(run.arrays[name], array, strict=True)
    numbers = {"x": 0.5, "n": 3, "flag": True, "t": [1, [2, None]], "inf": math.inf}
    assert run.metrics == numbers | {"rates": [-math.inf, {"deep": "ü"}], "float": "text"}
    assert run.privacy == {"epsilon": math.inf}
    assert math.isnan(store.run(Says("nan")).metrics["x"])


@pytest.mark.parametrize("what", list(SAYINGS)[2:])
def test_what_cannot_be_stored_is_named_and_the_checkpoint_kept(store, what):
    with pytest.raises((TypeError, ValueError), match=r"metrics\['x'\]|arrays\['a'\]"):
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


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_generators_survive_json(bits):
    rng = np.random.Generator(getattr(np.random, bits)(5))
    rng.standard_normal(7)
    rng.standard_normal(3, dtype=np.float32)  # leaves half a 64-bit number behind
    again = restore_generator(json.loads(json.dumps(generator_state(rng))))
    with pytest.raises(ValueError, match="state"):
        restore_generator({"bit_generator": "os"})
    assert np.array_equal(rng.standard_normal(50), again.standard_normal(50))
    assert np.array_equal(
        rng.standard_normal(9, dtype=np.float32), again.standard_normal(9, dtype=np.float32)
    )


def test_checkpoints(tmp_path):
    checkpoint = Checkpoint(tmp_path / "c")
    assert checkpoint.load() is None
    checkpoint.save({"a": np.arange(3)}, {"step": 2**100})
    last = {"step": 2**100 + 1, "epsilon": math.inf, "n": 3}
    checkpoint.save({"a": np.arange(4)}, last | {"loss": math.nan, "n": np.int64(3)})
    for arrays, state in ({"a": np.zeros(2)}, {"x": object()}), ({"": np.zeros(2)}, {}):
        with pytest.raises((TypeError, ValueError), match=r"state\['x'\]|arrays"):
            checkpoint.save(arrays, state)
    arrays, state = checkpoint.load()
    assert arrays["a"].tolist() == [0, 1, 2, 3]
    assert math.isnan(state.pop("loss"))
    assert state == last
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:-30])
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert checkpoint.load() is None
    assert checkpoint.load() is None
    nothing = Checkpoint()
    nothing.save({"a": np.arange(3)}, {})
    assert nothing.load() is None
    nothing.clear()


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


def test_a_run_killed_twice_goes_on_to_the_same_result(tmp_path, store):
    code = textwrap.dedent(
        """
        import os, sys
        from jobs_for_tests import Walk
        from lib.runs import RunStore
        for _ in range(3):
            pid = os.fork()
            if not pid:
                RunStore(sys.argv[2]).run(Walk(sys.argv[1], kill_at=(7, 23), bits="Philox"))
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        """
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(store.folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    assert [int(each) for each in done.stdout.split()] == [-signal.SIGKILL] * 2 + [0]
    resumed = store.get(walk(tmp_path, kill_at=(7, 23), bits="Philox"))
    whole = RunStore(tmp_path / "other").run(walk(tmp_path, bits="Philox"))
    assert same_result(resumed, whole)
    assert executions(tmp_path) == 4


def test_killed_at_every_moment_of_every_write(tmp_path):
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
            RunStore(os.path.join(folder, "store")).run(Walk(folder, steps=10))

        def forked(*arguments):
            pid = os.fork()
            if not pid:
                child(*arguments)
                os._exit(0)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        child(0, None)  # what is computed once for a process, children need not
        number = 1
        while forked(number, number) == -signal.SIGKILL:
            assert forked(number, None) == 0
            number += 1
        print(number)
        """
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    number = int(done.stdout)
    # a flush and a renaming for each of 2 checkpoints and 2 files, and the renaming of the folder
    assert number == 1 + 2 * (2 + 2) + 1
    whole = RunStore(tmp_path / "whole").run(walk(tmp_path, steps=10))
    for folder in (tmp_path / str(n) for n in range(1, number + 1)):
        store = RunStore(folder / "store")
        (key,) = store.keys()
        assert same_result(store.get_key(key), whole)
        assert executions(folder) == 2 - (folder.name == str(number))
        assert not list((store.folder / "partial").glob("*/"))
        assert not list(store.folder.glob(f"{key[:2]}/.*"))


def test_a_store_that_cannot_be_written_gives_what_it_has_and_says_what_would_do(
    tmp_path, monkeypatch
):
    """Here by what the system says of rights, which root has whatever a folder's mode is."""
    store, job = RunStore(tmp_path / "runs", public=True), Walk(str(tmp_path))
    found = store.run(job)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK | os.X_OK)
    assert store.run(job).metrics == found.metrics
    with pytest.raises(PermissionError, match="COMPANION_RUNS may name a folder that can be writ"):
        store.run(replace(job, seed=1))
    with pytest.raises(PermissionError, match="COMPANION_RUNS may name"):
        RunStore(tmp_path / "others", public=False).run(job)
    (tmp_path / "book").mkdir()
    (tmp_path / ".cache" / "runs").mkdir(parents=True)
    assert kept_folder(tmp_path, "runs") == user_cache() / "runs"
    # The folder may be somebody else's, in one that is ours.
    mine = lambda path, mode: Path(path).name != "runs" and access(path, mode)  # noqa: E731
    monkeypatch.setattr(os, "access", mine)
    assert kept_folder(tmp_path, "runs") == user_cache() / "runs"
    assert kept_folder(tmp_path, "book") == tmp_path / ".cache" / "book"
