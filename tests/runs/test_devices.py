"""Accelerators: nobody shares one, nobody works on one that is not there."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from jobs_for_tests import OnDevice, executions

from lib.runs import RunsFailed, RunStore, run_all
from lib.runs.devices import (
    DEVICES,
    accelerators,
    claimed,
    claimed_now,
    device_of,
    own_folder,
    places,
    require_device,
)
from lib.training import DataSpec, ModelSpec, TrainingConfig, train
from lib.training.jobs import ManyTrainings

CONFIG = TrainingConfig(ModelSpec("linear", (64,), 10), steps=3)


@pytest.fixture(autouse=True)
def two(monkeypatch, tmp_path):
    """Two pretended devices, and locks of this test's own."""
    (tmp_path / "locks").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "locks"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv(DEVICES, "0,1")


def jobs(tmp_path, count, **changes):
    return [OnDevice(str(tmp_path), seed=seed, **changes) for seed in range(count)]


def test_where_a_job_wants_to_work():
    on_gpu = replace(CONFIG, device="cuda:1")
    assert device_of(ManyTrainings((CONFIG, on_gpu), DataSpec())) == "cuda:1"
    assert device_of(ManyTrainings((CONFIG,), DataSpec())) == "cpu"

    @dataclass(frozen=True)
    class Nested:
        jobs: tuple
        named: dict

    assert device_of(Nested((), {"first": CONFIG, "second": [on_gpu]})) == "cuda:1"
    assert device_of(Nested((CONFIG, "cuda"), {})) == "cpu"  # a text is no device


def test_a_device_that_is_not_there(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="device"):
        require_device("cuda:2")
    with pytest.raises(ValueError, match="device"):
        run_all(jobs(tmp_path, 2, device="cuda:2"), store=RunStore(tmp_path / "runs"))
    assert executions(tmp_path) == 0
    monkeypatch.setenv(DEVICES, "0;1")
    with pytest.raises(ValueError, match="COMPANION_DEVICES"):
        accelerators()
    monkeypatch.setenv(DEVICES, "")
    assert accelerators() == []
    data = DataSpec(train=200, test=50).load()
    with pytest.raises(ValueError, match="device"):
        train(replace(CONFIG, device="cuda"), data.training, data.evaluation)


def test_a_process_has_one_at_a_time_and_gives_it_back():
    with claimed("cuda"):
        assert claimed_now() == 0
        with claimed("cuda"):  # a job that runs another one
            assert claimed_now() == 0
    with claimed("cpu"):
        assert claimed_now() is None
    with claimed("cuda:1"):
        assert claimed_now() == 1


def test_a_device_that_is_listed_three_times_has_three_jobs(monkeypatch):
    monkeypatch.setenv(DEVICES, "1,0,0")
    assert (accelerators(), places()) == ([0, 1], [0, 0, 1])
    have, go = [], threading.Event()

    def work(device):
        with claimed(device):
            have.append(claimed_now())
            go.wait(10)

    with ThreadPoolExecutor(5) as pool:
        threads = [pool.submit(work, device) for device in ("cuda:0",) * 3 + ("cuda:1",) * 2]
        time.sleep(0.7)
        assert sorted(have) == [0, 0, 1]
        go.set()
        for thread in threads:
            thread.result(timeout=10)
    assert sorted(have) == [0, 0, 0, 1, 1]


@pytest.mark.slow
def test_a_killed_holder_gives_its_device_back(monkeypatch):
    monkeypatch.setenv(DEVICES, "0")
    code = """
        import time
        from lib.runs.devices import claimed
        with claimed("cuda"):
            print("mine", flush=True)
            time.sleep(60)
        """
    command = [sys.executable, "-c", textwrap.dedent(code)]

    def claim():
        with claimed("cuda"):
            return claimed_now()

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "mine\n"
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(claim)
            time.sleep(0.6)
            assert not waiting.done()
            process.send_signal(signal.SIGKILL)
            assert waiting.result(timeout=10) == 0


def test_local_workers_are_as_many_as_devices(tmp_path, workers_asked):
    run_all(jobs(tmp_path, 6), store=RunStore(tmp_path / "runs"))
    assert workers_asked == [(6, 2)]
    assert [executions(tmp_path, seed) for seed in range(6)] == [1] * 6


@pytest.mark.slow
def test_workers_without_a_device_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv(DEVICES, "")
    with ThreadPoolExecutor(1) as executor, pytest.raises(RunsFailed, match="device"):
        run_all(jobs(tmp_path, 1), executor, store=RunStore(tmp_path / "runs"))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"companion-devices-{os.getuid()}"


def test_the_folder_of_locks_is_this_users_alone(temporary):
    for _ in range(2):
        assert own_folder("devices") == temporary
        assert temporary.stat().st_mode & 0o777 == 0o700
    temporary.chmod(0o777)
    with pytest.raises(PermissionError, match="0777"):
        own_folder("devices")


def test_a_folder_that_another_laid_out_is_not_taken(temporary, monkeypatch):
    (temporary.parent / "target").mkdir(mode=0o700)
    temporary.symlink_to(temporary.parent / "target")
    with pytest.raises(PermissionError, match="no folder"), claimed("cuda"):
        pass
    assert os.listdir(temporary.parent / "target") == []
    temporary.unlink()
    temporary.mkdir(mode=0o700)
    real = Path.lstat

    def of_another(path):
        found = list(real(path))
        found[4] += 1  # st_uid
        return os.stat_result(found)

    monkeypatch.setattr(Path, "lstat", of_another)
    with pytest.raises(PermissionError, match="belongs to"), claimed("cuda"):
        pass
    assert os.listdir(temporary) == []
