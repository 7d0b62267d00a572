"""A chapter's jobs on two workers of a Dask cluster, of which one is killed in the middle."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest
import yaml

from lib.book.execute import execute_chapter
from lib.book.kernels import Fork
from lib.runs import RunStore, executor_for

ROOT = Path(__file__).parents[2]
CHAPTER = "beyond/gap"
CUT = {"dataset": "digits", "epsilons": [3.0, 1.0], "n_seeds": 2, "steps": 300, "batch_size": 64}
#: Kernels and workers are forks of a process that has imported these, which takes most of the time.
IMPORTED = ("distributed", "ipykernel.kernelapp", "matplotlib_inline.backend_inline")
IMPORTED += ("lib.book.session", "lib.studies.beyond.gap_terms")
IMPORTED += ("lib.studies.interplay.experiments",)


@pytest.fixture
def forks(monkeypatch):
    """What forks kernels and, when asked to, Dask's workers."""
    reason = "the optional extra 'cluster' is not installed"
    pytest.importorskip("distributed", reason=reason)  # which first has settings of its own
    dask = pytest.importorskip("dask")
    forkserver._forkserver._stop()  # another test's, which has imported other modules
    monkeypatch.setattr(Fork, "preloaded", IMPORTED)
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield
    forkserver._forkserver._stop()


def execute(root: Path, cluster: str, monkeypatch) -> dict:
    """Execute the chapter from a folder of its own, and say what it gave."""
    book, params = root / "book", root / "params" / "quick"
    path = book / f"{CHAPTER}.py"
    path.parent.mkdir(parents=True)
    params.mkdir(parents=True)
    shutil.copy(ROOT / "book" / f"{CHAPTER}.py", path)
    (book / "claims.yml").touch()  # claims cost more time than jobs
    (book / "_toc.yml").write_text(
        f"format: jb-book\nroot: index\nchapters: [{{file: {CHAPTER}}}]\n"
    )
    (params / f"{path.stem}.yml").write_text(yaml.safe_dump(CUT))
    monkeypatch.setenv("COMPANION_CLUSTER", cluster)
    monkeypatch.setenv("COMPANION_RUNS", str(root / "runs"))
    monkeypatch.setenv("COMPANION_OFFLINE", "1")
    monkeypatch.setenv("COMPANION_THREADS", "1")  # without a cluster, its kernel does the work
    done = execute_chapter(path, "quick", forks=True)
    assert not done.cached
    shown = [[o.get("text") or o["data"] for o in cell["outputs"]] for cell in done.cells]
    return {"values": done.values, "tables": done.tables, "key": done.key, "shown": shown}


def begun(process: psutil.Process, store: RunStore) -> list[str]:
    """Keys of the unfinished runs whose locks a process holds."""
    names = [Path(each.path).name for each in process.open_files()]
    locks = [name.removesuffix(".lock") for name in names if name.endswith(".lock")]
    return [key for key in locks if len(key) == 64 and not store.path(key).exists()]


def kill_one(workers: list[int], store: RunStore, over: threading.Event) -> tuple[int, str]:
    """Kill a worker while it executes a job; which one, and the job's key.

    It is stopped first, so that what it is at cannot end before it is killed.
    """
    while not over.wait(0.01):
        for process in map(psutil.Process, workers):
            if not begun(process, store):
                continue
            process.suspend()
            if keys := begun(process, store):
                process.kill()
                return process.pid, keys[0]
            process.resume()
    raise AssertionError("no worker was at a job when it was looked at")


@pytest.mark.slow
def test_a_chapter_on_a_cluster_that_loses_a_worker(tmp_path, monkeypatch, forks):
    """It gives what it gives without a cluster, and what the killed worker was at is done again."""
    alone = execute(tmp_path / "alone", "", monkeypatch)
    store = RunStore(tmp_path / "together" / "runs", public=True)
    with executor_for("local-cluster:2") as client, ThreadPoolExecutor(1) as killer:
        client.wait_for_workers(2, timeout=60)
        workers = client.run(os.getpid)
        over = threading.Event()
        killed = killer.submit(kill_one, list(workers.values()), store, over)
        try:
            together = execute(tmp_path / "together", client.scheduler.address, monkeypatch)
        finally:
            over.set()
        pid, key = killed.result()
        log = client.cluster.scheduler.transition_log
        client.wait_for_workers(2, timeout=60)
        assert pid not in client.run(os.getpid).values()  # another has its place
    assert together == alone
    jobs = RunStore(tmp_path / "alone" / "runs", public=True).keys()
    assert store.keys() == jobs
    sent = [str(each[0]).split("-")[1] for each in log if each[2] == "processing"]
    trainings = {each for each in jobs if "TrainingConfig" in str(store.get_key(each).config)}
    assert set(sent) == trainings  # all of them, and nothing else: not the table of the page
    assert (len(trainings), len(jobs)) == (3, 4)
    assert key in jobs
    assert sent.count(key) == 2
