"""Many runs at once: over local processes, or over any executor that is handed in."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import threadpoolctl

from lib.runs.jobs import Job, label, run_key
from lib.runs.progress import progress
from lib.runs.store import RunStore, StoredRun

__all__ = ["RunsFailed", "executor_for", "run_all"]

_ATTEMPTS = 3  # of a job whose worker died


class RunsFailed(RuntimeError):
    """Some runs failed; the others are stored.

    Attributes
    ----------
    failures : dict of str to Exception
        By the label of the job.
    """

    def __init__(self, failures: dict[str, BaseException], total: int):
        self.failures = failures
        lines = [f"  {name}: {type(e).__name__}: {e}" for name, e in failures.items()]
        super().__init__(
            f"{len(failures)} of {total} runs failed, the others are stored:\n" + "\n".join(lines)
        )


def run_all(
    jobs: Sequence[Job],
    executor: Any = None,
    *,
    store: RunStore | None = None,
    max_workers: int | None = None,
) -> list[StoredRun]:
    """Run all jobs that are not stored yet.

    Parameters
    ----------
    jobs : sequence of Job
        Equal ones are run once.
    executor : object, optional
        Anything with ``submit(function, *arguments)`` that returns futures with ``result()``:
        the executors of :mod:`concurrent.futures`, or a Dask client.  Local processes if not given;
        their number is `max_workers`.
    store : RunStore, optional
        Where runs are kept: a folder that all workers share.
    max_workers : int, optional
        Local processes; the usable cores by default.  Each gets its share of them as threads.

    Returns
    -------
    list of StoredRun
        In the order of `jobs`.

    Raises
    ------
    RunsFailed
        At the end, naming every job that failed.  Finished runs are kept; asking again runs only
        what is missing.
    """
    store = RunStore() if store is None else store
    keys = [run_key(job) for job in jobs]
    found: dict[str, StoredRun] = {}
    missing: dict[str, Job] = {}
    for key, job in zip(keys, jobs, strict=True):
        if key in found or key in missing:
            continue
        stored = store.get_key(key)
        if stored is None:
            missing[key] = job
        else:
            found[key] = stored
    failures: dict[str, BaseException] = {}
    if executor is not None:
        failures = _through(executor, missing, store)
    elif len(missing) == 1:
        failures = _here(missing, store)
    elif missing:
        failures = _local(missing, store, max_workers)
    for key in missing:
        if key not in failures:
            stored = store.get_key(key)
            if stored is None:
                failures[key] = FileNotFoundError(
                    f"the worker says that it stored the run, but {store.path(key)} is not there:"
                    " all workers must share the store's file system"
                )
            else:
                found[key] = stored
    if failures:
        named = {f"{label(missing[key])} ({key[:8]})": error for key, error in failures.items()}
        raise RunsFailed(named, len(set(keys)))
    return [found[key] for key in keys]


@contextlib.contextmanager
def executor_for(scheduler: str | None = None, max_workers: int | None = None) -> Iterator[Any]:
    """The executor that a chapter's parameter ``scheduler`` names, for :func:`run_all`.

    Parameters
    ----------
    scheduler : str, optional
        ``"local"`` or None: local processes (yields None).  ``"tcp://host:port"``: the Dask cluster
        with that scheduler.  ``"local-cluster:2"``: a Dask cluster of so many processes here.
    max_workers : int, optional
        Not used by clusters.

    Raises
    ------
    ValueError
        If the scheduler has none of these forms.
    ImportError
        If Dask is asked for and not installed.
    """
    if scheduler in (None, "", "local"):
        yield None
        return
    kind, _, rest = scheduler.partition(":")
    count = int(rest) if kind == "local-cluster" and rest.isdigit() else 0
    if count < 1 and not scheduler.startswith(("tcp://", "tls://", "ws://", "wss://")):
        raise ValueError(
            "scheduler must be 'local', 'local-cluster:N' or an address such as 'tcp://host:8786',"
            f" got {scheduler!r}"
        )
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            f"scheduler = {scheduler!r} needs Dask:"
            ' pip install "abstention-privacy-companion[cluster]"'
        ) from error
    if count:
        with (
            LocalCluster(
                n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
    else:
        with Client(scheduler) as client:
            yield client


def _execute(job: Job, folder: str) -> str:
    """What a worker does; only the key travels back."""
    return RunStore(folder).run(job).key


def _here(missing: dict[str, Job], store: RunStore) -> dict[str, BaseException]:
    failures: dict[str, BaseException] = {}
    for key, job in missing.items():
        try:
            store.run(job)
        except Exception as error:
            failures[key] = error
    return failures


def _through(executor: Any, missing: dict[str, Job], store: RunStore) -> dict[str, BaseException]:
    folder = str(store.folder.absolute())
    options = {}
    if type(executor).__module__.startswith("distributed"):
        options = {"pure": False}  # Dask would else take equal calls of two sessions for one
    futures = {
        key: executor.submit(_execute, job, folder, **options) for key, job in missing.items()
    }
    failures: dict[str, BaseException] = {}
    for key, future in progress(futures.items(), "runs", total=len(futures)):
        try:
            future.result()
        except Exception as error:
            failures[key] = error
    return failures


def _local(
    missing: dict[str, Job], store: RunStore, max_workers: int | None
) -> dict[str, BaseException]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers = max(1, min(max_workers or cores or 1, len(missing)))
    threads = max(1, (cores or 1) // workers)
    context = multiprocessing.get_context("spawn")  # forks of a threaded process may hang
    failures: dict[str, BaseException] = {}
    attempts = dict.fromkeys(missing, 0)
    waiting = dict(missing)
    while waiting:
        lost: dict[str, BaseException] = {}
        with concurrent.futures.ProcessPoolExecutor(
            workers, mp_context=context, initializer=_limit_threads, initargs=(threads,)
        ) as pool:
            folder = str(store.folder.absolute())
            futures = {pool.submit(_execute, job, folder): key for key, job in waiting.items()}
            done = concurrent.futures.as_completed(futures)
            for future in progress(done, "runs", total=len(futures)):
                key = futures[future]
                try:
                    future.result()
                except BrokenProcessPool as error:
                    lost[key] = error  # this worker died, or another one whose pool it shared
                except Exception as error:
                    failures[key] = error
        waiting = {}
        for key, error in lost.items():
            attempts[key] += 1
            if attempts[key] < _ATTEMPTS:
                waiting[key] = missing[key]
            else:
                failures[key] = error
    return failures


def _limit_threads(threads: int) -> None:
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for libraries that are not loaded yet
    threadpoolctl.threadpool_limits(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
