"""Many runs through processes, threads and a cluster, whatever dies on the way."""

import contextlib
import http.client
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from jobs_for_tests import Asks, Deadly, Fails, FailsStubbornly, Walk, executions

from lib.book.execute import BuildError, execute_book
from lib.book.session import open_chapter
from lib.runs import RunsFailed, RunStore, executor_for, executors, provenance, run_all, run_key

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "store")


def walk(tmp_path, **changes):
    return Walk(str(tmp_path), **changes)


def same_result(a, b):
    return np.array_equal(a.arrays["path"], b.arrays["path"]) and a.privacy == b.privacy


def test_run_all_keeps_the_order_and_runs_only_what_is_missing(tmp_path, store, monkeypatch):
    store.run(walk(tmp_path, seed=1))
    with monkeypatch.context() as patch:
        patch.setattr(executors, "ProcessPoolExecutor", None)
        two = [walk(tmp_path, seed=1), walk(tmp_path, seed=7)]
        assert run_all(two, store=store)[1].metrics["pid"] == os.getpid()
    jobs = [walk(tmp_path, seed=seed) for seed in (2, 1, 0, 2)]
    found = run_all(jobs, ThreadPoolExecutor(2), store=store)
    assert [run.config["seed"] for run in found] == [2, 1, 0, 2]
    assert [executions(tmp_path, seed) for seed in (0, 1, 2)] == [1, 1, 1]
    assert store.keys() == sorted(run_key(walk(tmp_path, seed=seed)) for seed in (0, 1, 2, 7))
    assert run_all([], store=store) == []
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RunsFailed, match="shutdown"):  # an executor that takes no jobs
        run_all([walk(tmp_path, seed=9)], pool, store=store)
    assert executions(tmp_path, 9) == 0


@pytest.mark.parametrize(("cores", "here"), [("1", True), ("2", False), ("no", False)])
def test_a_process_with_one_core_starts_no_other(
    tmp_path, store, monkeypatch, workers_asked, cores, here
):
    monkeypatch.setattr(provenance, "usable_cores", lambda: 2)
    monkeypatch.setenv("COMPANION_THREADS", cores)
    run_all([walk(tmp_path, seed=seed) for seed in range(2)], store=store)
    assert workers_asked == ([] if here else [(2, None)])
    run_all([walk(tmp_path, seed=s) for s in (2, 3)], store=store, max_workers=1)
    assert workers_asked[-1] == (2, 1)
    assert [executions(tmp_path, seed) for seed in range(4)] == [1] * 4


@pytest.mark.slow
def test_local_processes(tmp_path, store):
    jobs = [walk(tmp_path, seed=seed) for seed in range(3)]
    with pytest.raises(RunsFailed, match="RuntimeError: Stubborn: 1 and more") as caught:
        run_all([FailsStubbornly(1), *jobs], store=store, max_workers=2)  # it cannot travel
    assert len(caught.value.failures) == 1
    here = RunStore(tmp_path / "here")
    found = [store.get(job) for job in jobs]
    for run, job in zip(found, jobs, strict=True):
        assert same_result(run, here.run(job))
        assert run.metrics["pid"] != os.getpid()
        assert run.metrics["threads"] == str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert len({run.metrics["pid"] for run in found}) <= 2


def test_failures_are_named_and_the_rest_is_kept(tmp_path, store):
    jobs = [Fails(1), walk(tmp_path), Fails(2)]
    with pytest.raises(RunsFailed, match="2 of 3") as caught:
        run_all(jobs, ThreadPoolExecutor(1), store=store)
    assert len(store.keys()) == 1
    again = pickle.loads(pickle.dumps(caught.value))
    assert list(again.failures) == list(caught.value.failures)
    for number in (1, 2):
        assert f"Fails(number={number})" in str(again)
        assert f"job {number} divides by zero" in str(again)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.slow
def test_a_cluster_with_other_code_does_not_begin(tmp_path, store, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    other = tmp_path / "other"
    shutil.copytree(ROOT / "lib", other / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    with open(other / "lib" / "runs" / "jobs.py", "a") as file:
        file.write("_ANOTHER_VERSION = True\n")
    options = {"n_workers": 0, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options, scheduler_kwargs={"dashboard": False}) as cluster:
        address = cluster.scheduler_address
        monkeypatch.setenv("COMPANION_CLUSTER", address)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
        command += ["--no-nanny", "--no-dashboard", "--death-timeout", "60"]
        path = os.pathsep.join([str(other), os.environ["PYTHONPATH"]])
        with subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path, stderr=subprocess.DEVNULL
        ) as worker:
            try:
                with pytest.raises(RunsFailed, match="other code"):
                    run_all([walk(tmp_path)], store=store)
            finally:
                worker.kill()
    assert executions(tmp_path) == 0


@pytest.mark.slow
def test_killed_workers_are_replaced_and_harm_no_other(tmp_path, store):
    once = walk(tmp_path, seed=8, kill_at=(12,))
    jobs = [Deadly(1), once, *(walk(tmp_path, seed=n, steps=5, pause=0.02) for n in range(4))]
    with pytest.raises(RunsFailed, match="its worker process died 3 times") as caught:
        run_all(jobs, store=store, max_workers=2)
    assert [name[:9] for name in caught.value.failures] == ["Deadly(nu"]
    assert [executions(tmp_path, seed) for seed in (*range(4), 8)] == [1] * 4 + [2]
    whole = RunStore(tmp_path / "other").run(walk(tmp_path, seed=8))
    assert same_result(store.get(once), whole)


def by(seconds, condition):
    """Whether something comes about within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def gone(group):
    """Whether a process group is at its end."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


WALKS = """
import signal, sys
from jobs_for_tests import Walk
from lib.runs import RunStore, run_all
if __name__ == "__main__":
    # Shells start background jobs with interrupts ignored, which is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    jobs = [Walk(sys.argv[1], seed=s, steps=6000, pause=0.1) for s in range(4)]
    run_all(jobs, store=RunStore(sys.argv[2]), max_workers=2)
"""


def walking(folder):
    """A script that runs four walks of ten minutes each, two at a time."""
    folder.mkdir()
    (folder / "script.py").write_text(WALKS)
    root, path = str(ROOT), os.environ["PYTHONPATH"]
    return subprocess.Popen(
        [sys.executable, "script.py", str(folder), "store"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([root, path])},
        cwd=folder,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def begun(folder):
    return sum(executions(folder, seed) for seed in range(4))


@pytest.mark.slow
def test_an_interrupt_ends_at_once_and_leaves_no_process(tmp_path):
    """Three scripts at the same time, since most of it is waiting."""
    kinds = {
        "everyone": (os.killpg, signal.SIGINT),
        "parent": (os.kill, signal.SIGINT),
        "killed parent": (os.kill, signal.SIGKILL),
    }
    found = {whom: walking(tmp_path / whom) for whom in kinds}
    try:
        for whom, process in found.items():
            assert by(60, lambda whom=whom: begun(tmp_path / whom) >= 2)
            assert process.poll() is None
            kill, number = kinds[whom]
            kill(process.pid, number)
        for whom, process in found.items():
            _, errors = process.communicate(timeout=20)
            assert (b"KeyboardInterrupt" in errors) == (whom != "killed parent")
            assert by(10, lambda group=process.pid: gone(group)), whom
            assert begun(tmp_path / whom) == 2
    finally:
        for process in found.values():
            if not gone(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


class Elsewhere:
    """An executor whose workers keep their results to themselves, or show them late."""

    def __init__(self, late=None):
        self.late = late

    def submit(self, function, *arguments):
        if self.late is not None:
            self.late.submit(lambda: (time.sleep(0.2), function(*arguments)))
        future = Future()
        future.set_result(None)
        return future


def test_a_store_that_shows_runs_late_is_waited_for_or_noticed(tmp_path, store, monkeypatch):
    with ThreadPoolExecutor(1) as late:
        (run,) = run_all([walk(tmp_path)], Elsewhere(late), store=store)
    assert run.key == run_key(walk(tmp_path))
    monkeypatch.setattr(executors, "_PATIENCE", 0.1)
    with pytest.raises(RunsFailed, match="share"):
        run_all([walk(tmp_path, seed=1)], Elsewhere(), store=store)


BAD = [
    *("slurm", "local-cluster:0", "local-cluster:x", "local-cluster:²", "local-cluster:1000"),
    *("local-cluster:1@", "local-cluster:1@all", "http://a:1", "tcp://", "tcp://host", "tcp://h:0"),
    *("tcp://h:x", "tcp://h:8786/", "tcp://me@h:8786", "tcp://h:8786\n", " local", "LOCAL", 8786),
]


def test_an_unknown_cluster_is_refused_before_any_work(tmp_path, store, monkeypatch):
    for bad in BAD:
        with pytest.raises(ValueError, match="scheduler"), executor_for(bad):
            pass
        monkeypatch.setenv("COMPANION_CLUSTER", str(bad))
        for jobs in ([], [walk(tmp_path)]):
            with pytest.raises(ValueError, match="COMPANION_CLUSTER"):
                run_all(jobs, store=store)
        with pytest.raises(ValueError, match="COMPANION_CLUSTER"):
            open_chapter("audit", {})
        with pytest.raises(BuildError, match="COMPANION_CLUSTER"):
            execute_book(tmp_path, "quick")
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer(tmp_path, store, monkeypatch):
    dask = pytest.importorskip("dask", reason="the optional extra 'cluster' is not installed")
    monkeypatch.setenv("COMPANION_CLUSTER", "tcp://127.0.0.1:9")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}),
        pytest.raises(ConnectionError, match="COMPANION_CLUSTER"),
    ):
        run_all([walk(tmp_path)], store=store)
    assert executions(tmp_path) == 0


@pytest.mark.parametrize("name", ["local-cluster:2", "tcp://127.0.0.1:9"])
def test_dask_is_optional(tmp_path, store, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match="needs Dask"), executor_for(name):
        pass
    monkeypatch.setenv("COMPANION_CLUSTER", name)
    with pytest.raises(ImportError, match="needs Dask"):
        run_all([walk(tmp_path)], store=store)
    with pytest.raises(BuildError, match="needs Dask"):
        execute_book(tmp_path, "quick")
    assert executions(tmp_path) == 0
    with executor_for("local") as executor:
        assert executor is None


def listening():
    """Addresses and ports on which this process and its children wait for connections."""
    own = psutil.Process()
    return {
        (found.laddr.ip, found.laddr.port)
        for process in (own, *own.children(recursive=True))
        for found in process.net_connections("inet")
        if found.status == psutil.CONN_LISTEN
    }


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster of one worker process, and what listens because of it."""
    pytest.importorskip("distributed", reason="the optional extra 'cluster' is not installed")
    before = listening()
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")}
    with executor_for("local-cluster:1@127.0.0.2") as client:
        client.wait_for_workers(1, timeout=60)
        yield client, listening() - before
    assert threads == {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")}


@pytest.mark.slow
def test_a_local_cluster_listens_on_one_address_and_shows_no_page(cluster):
    _, named = cluster
    before = listening()
    with executor_for("local-cluster:1") as other:  # no port is wanted twice
        assert other.submit(sum, [1, 3]).result() == 4
        assert_no_page(listening() - before, "127.0.0.1")
    assert_no_page(named, "127.0.0.2")


def assert_no_page(opened, address):
    assert len(opened) >= 3  # scheduler, worker, nanny
    assert {ip for ip, _ in opened} == {address}
    for ip, port in opened:
        connection = http.client.HTTPConnection(ip, port, timeout=5)
        with (
            contextlib.closing(connection),
            contextlib.suppress(OSError, http.client.HTTPException),  # no web server
        ):
            connection.request("GET", "/info/main/workers.html")
            with connection.getresponse() as answer:
                assert answer.status == 404


@pytest.mark.slow
def test_the_variable_sends_jobs_to_a_cluster(tmp_path, store, monkeypatch, cluster):
    monkeypatch.setenv("COMPANION_CLUSTER", cluster[0].scheduler.address)
    (run,) = run_all([Asks(str(tmp_path), seed=4)], store=store)
    assert run.metrics["pid"] == run.metrics["asked pid"] != os.getpid()
    assert [executions(tmp_path, seed) for seed in (4, 5)] == [1, 1]
    monkeypatch.setenv("COMPANION_CLUSTER", "tcp://127.0.0.1:9")  # would not answer
    assert run_all([Asks(str(tmp_path), seed=4)], store=store)[0].key == run.key
    # An executor that is handed in takes precedence.
    run_all([walk(tmp_path, seed=6)], ThreadPoolExecutor(1), store=store)
    assert executions(tmp_path, 6) == 1
    for name in ("", "local"):  # no cluster
        monkeypatch.setenv("COMPANION_CLUSTER", name)
        assert run_all([walk(tmp_path, seed=7)], store=store)[0].metrics["pid"] == os.getpid()


@pytest.mark.slow
def test_dask_by_its_address_and_as_an_executor(tmp_path, store, cluster):
    dask, _ = cluster
    with executor_for(dask.scheduler.address) as client:
        run_all([walk(tmp_path, seed=0)], client, store=store)
    run_all([walk(tmp_path, seed=1)], dask.get_executor(), store=store)
    assert [executions(tmp_path, seed) for seed in (0, 1)] == [1, 1]
    with pytest.raises(RunsFailed, match=r"Fails\(number=1\).*divides by zero"):
        run_all([Fails(1)], dask.get_executor(), store=store)
