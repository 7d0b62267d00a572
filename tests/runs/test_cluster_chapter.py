"""A chapter's jobs on two workers of a Dask cluster, of which one is killed in the middle."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import yaml

from lib.runs import RunStore, executor_for

ROOT = Path(__file__).parents[2]
CHAPTER = "counterfactual"
CUT = {
    "points": 200,
    "linear_repetitions": 26,
    "forest_repetitions": 2,
    "super_repetitions": 0,
    "independent_repetitions": 2,
    "independent_learners": ["linear"],
    "power_learner": "linear",
    "power_sizes": [100],
    "power_shifts": [0.0, 0.4],
    "power_repetitions": 2,
    "positivity_learner": "linear",
    "epsilons": [0.1, 0.5],
    "positivity_repetitions": 2,
    "services_learner": "linear",
}
EXECUTE = """
import json, sys
from pathlib import Path
from lib.book.execute import execute_chapter
chapter, target = sys.argv[1:]
done = execute_chapter(Path(chapter), "quick")
assert not done.cached
shown = [[o.get("text") or o["data"] for o in cell["outputs"]] for cell in done.cells]
given = {"values": done.values, "tables": done.tables, "verdicts": done.verdicts, "shown": shown}
Path(target).write_text(json.dumps({"key": done.key, **given}))
"""


def execute(root: Path, cluster: str) -> dict:
    """Execute the chapter from a folder of its own, and say what it gave."""
    book, params = root / "book", root / "params" / "quick"
    book.mkdir(parents=True)
    params.mkdir(parents=True)
    for name in (f"{CHAPTER}.py", "claims.yml"):
        shutil.copy(ROOT / "book" / name, book)
    given = yaml.safe_load((ROOT / "params" / "quick" / f"{CHAPTER}.yml").read_text()) | CUT
    (params / f"{CHAPTER}.yml").write_text(yaml.safe_dump(given))
    own = {
        "COMPANION_CLUSTER": cluster,
        "COMPANION_DATA": "",  # without the services
        "COMPANION_OFFLINE": "1",
        "COMPANION_RUNS": str(root / "runs"),
        "COMPANION_THREADS": "1",  # without a cluster, its kernel does the work itself
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]]),
    }
    target = root / "given.json"
    process = subprocess.Popen(
        [sys.executable, "-c", EXECUTE, str(book / f"{CHAPTER}.py"), str(target)],
        cwd=root,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said = process.communicate(timeout=500)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the kernel notices by itself
    assert process.returncode == 0, said
    return json.loads(target.read_text())


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
def test_a_chapter_on_a_cluster_that_loses_a_worker(tmp_path):
    """It gives what it gives without a cluster, and what the killed worker was at is done again."""
    pytest.importorskip("distributed", reason="the optional extra 'cluster' is not installed")
    alone = execute(tmp_path / "alone", "")
    store = RunStore(tmp_path / "together" / "runs", public=True)
    with executor_for("local-cluster:2") as client, ThreadPoolExecutor(1) as killer:
        client.wait_for_workers(2, timeout=60)
        workers = client.run(os.getpid)
        over = threading.Event()
        killed = killer.submit(kill_one, list(workers.values()), store, over)
        try:
            together = execute(tmp_path / "together", client.scheduler.address)
        finally:
            over.set()
        pid, key = killed.result()
        log = client.cluster.scheduler.transition_log
        client.wait_for_workers(2, timeout=60)
        assert pid not in client.run(os.getpid).values()  # another has its place
    assert together == alone
    jobs = RunStore(tmp_path / "alone" / "runs", public=True).keys()
    assert store.keys() == jobs
    assert key in jobs
    sent = [str(each[0]).split("-")[1] for each in log if each[2] == "processing"]
    assert set(sent) == set(jobs)  # all of them, and nothing else
    assert key in jobs
    assert sent.count(key) == 2
