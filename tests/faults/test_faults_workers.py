"""Worker processes killed with SIGKILL at random moments, and two processes with the same work."""

import contextlib
import os
import signal
import time
import warnings
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import psutil
import pytest
from fault_light import jobs
from fault_tools import (
    KILLED,
    Forker,
    assert_same_runs,
    kill_at,
    moments,
    read_all,
    runs_files,
    wait_until,
)

from lib.runs import RunStore, executors

SEED = 20_261_123
COUNT = 6  # jobs


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The runs, made here one after the other."""
    store = RunStore(tmp_path_factory.mktemp("expected"))
    for job in jobs(COUNT, pause=0.0):
        store.run(job)
    return read_all(store)


def by_seed(runs: dict) -> dict:
    """Keys depend on the pause."""
    return {run["arrays"]["total"].tobytes(): run for run in runs.values()}


def same(store: RunStore, expected: dict) -> None:
    assert_same_runs(by_seed(read_all(store)), by_seed(expected))


def workers(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children():
            with contextlib.suppress(psutil.Error):
                if "spawn_main" in " ".join(child.cmdline()):
                    found.append(child.pid)
    return found


def kill_a_worker(
    forker: Forker, folder: Path, seconds: float, rng: np.random.Generator, expected
) -> bool:
    """Kill one worker after some seconds, one that lives then; whether there was one."""
    store = RunStore(folder)
    pid = forker.begin("run_spread", folder, COUNT, 0.03)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not forker.ended():
        read_all(store)
        time.sleep(max(0.0, min(0.02, deadline - time.monotonic())))
    alive = workers(pid) if not forker.ended() else []
    finished = runs_files(store)
    if alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(rng.choice(alive)), signal.SIGKILL)
    assert forker.end() == 0, forker.printed()
    after = runs_files(store)
    assert {key: after[key] for key in finished} == finished
    same(store, expected)
    assert not list(store.folder.glob("partial/*/"))
    wait_until(lambda: not forker.others(), 10, "workers are left")
    return bool(alive)


def kill_workers(forker: Forker, folder: Path, expected, count: int) -> int:
    forker.run("run_spread", folder / "warm", COUNT, 0.03)
    whole = forker.run("run_spread", folder / "undisturbed", COUNT, 0.03)
    when, rng = moments(SEED, count, whole), np.random.default_rng(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hit = [
            kill_a_worker(forker, folder / str(number), seconds, rng, expected)
            for number, seconds in enumerate(when)
        ]
    return sum(hit)


@pytest.mark.long
def test_killed_workers_are_replaced(light, tmp_path, expected):
    assert kill_workers(light, tmp_path, expected, KILLED) >= 30


@pytest.mark.slow
def test_a_worker_killed_between_two_jobs_harms_none(tmp_path):
    """Killed after it has given a result and before it gets the next job."""
    with executors.LocalProcesses(2, 1) as local:
        worker = local.submit(_id_of, None).result(timeout=120)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(worker), 20, "the worker still runs")
        wait_until(lambda: all(p._broken for p in local._idle), 20, "the pool does not notice")
        again: Future = local.submit(_id_of, None)
        assert again.result(timeout=120) != worker


def _id_of(_) -> int:
    return os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_two_processes_share_the_same_work(light, other_light, tmp_path, expected, killed):
    """One begins with the first job, one with the last; killed, one leaves the other the rest."""
    store = RunStore(tmp_path)
    first = light.begin("run_here", tmp_path, COUNT, 0.03, 1)
    other_light.begin("run_here", tmp_path, COUNT, 0.03, -1)
    if killed:
        assert kill_at(light, first, 0.5, lambda: read_all(store))
    else:
        assert light.end() == 0, light.printed()
    assert other_light.end() == 0, other_light.printed()
    assert not other_light.printed()  # nothing was taken for damaged
    same(store, expected)
    assert not (store.folder / "set-aside").exists()
