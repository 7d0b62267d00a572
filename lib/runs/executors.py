"""Many runs at once: over local processes, a cluster, or any executor that is handed in."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import pickle
import queue
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import threadpoolctl

from lib.runs.clusters import check_cluster, executor_for
from lib.runs.devices import claimed, device_of, places, require_device
from lib.runs.jobs import Job, label
from lib.runs.progress import progress
from lib.runs.provenance import own_cores
from lib.runs.store import RunStore, StoredRun

_ATTEMPTS = 3  # of a job whose worker died
_PATIENCE = 10.0  # seconds until what another machine wrote must be visible here
_own = threading.local()  # how many jobs, one in the other, this thread is executing


class RunsFailed(RuntimeError):
    """Some runs failed; the others are stored.

    Attributes
    ----------
    failures : dict of str to Exception
        By the label of the job.
    total : int
        Number of runs asked for.
    """

    def __init__(self, failures: dict[str, BaseException], total: int):
        super().__init__(failures, total)
        self.failures = failures
        self.total = total

    def __str__(self) -> str:
        lines = [f"  {name}: {type(e).__name__}: {e}" for name, e in self.failures.items()]
        return "\n".join(
            [f"{len(lines)} of {self.total} runs failed, the others are stored:", *lines]
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
        the executors of ``concurrent.futures``, or a Dask client.  If not given, the cluster
        that the environment variable ``COMPANION_CLUSTER`` names (see :func:`executor_for`), or
        local processes where it names none; a single missing job is then run in this process.
    store : RunStore, optional
        Where runs are kept: a folder that all workers share.
    max_workers : int, optional
        Local processes; by default the cores that this process may use, and one for each
        accelerator of jobs that work on these.  Each gets its part of the cores as threads.  A
        process that has one core, as a chapter of two that are built together on two cores, does
        the work itself.  A cluster and an executor that is handed in have their own number; their
        workers wait for an accelerator that is free, too.

    Returns
    -------
    list of StoredRun
        In the order of `jobs`.

    Raises
    ------
    RunsFailed
        At the end, naming every job that failed.  Finished runs are kept; asking again runs only
        what is missing.
    ValueError
        If `max_workers` is no integer of at least 1, a job's device is not there, or
        ``COMPANION_CLUSTER`` is none of its forms: before any work, as the next two.
    ImportError
        If it names a cluster and Dask is not installed.
    ConnectionError
        If nothing answers there.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = RunStore(Path(folder, "runs"))
    ...     run = run_all([job], store=store)[0]
    ...     print(run.key == store.key(job), store.keys() == [run.key])
    True True
    """
    if max_workers is not None and (type(max_workers) is not int or max_workers < 1):
        raise ValueError(f"max_workers must be an integer of at least 1, got {max_workers!r}")
    if executor is None and not _in_job():
        check_cluster()
    store = RunStore() if store is None else store
    keys = [store.key(job) for job in jobs]
    wanted = dict(zip(keys, jobs, strict=True))
    found = {key: run for key in wanted if (run := store.get_key(key)) is not None}
    missing = {key: job for key, job in wanted.items() if key not in found}
    failures = _run_missing(missing, executor, store, max_workers) if missing else {}
    deadline = time.monotonic() + _PATIENCE
    for key in missing.keys() - failures.keys():
        run = _visible(store, key, deadline)
        if run is not None:
            found[key] = run
        else:
            failures[key] = FileNotFoundError(
                f"the worker says that it stored the run, but {store.path(key)} is not there:"
                " all workers must share the store's file system"
            )
    if failures:
        named = {
            f"{label(job)} ({key[:8]})": failures[key]
            for key, job in missing.items()
            if key in failures
        }
        raise RunsFailed(named, len(wanted)) from next(iter(named.values()))
    return [found[key] for key in keys]


def _run_missing(
    missing: Mapping[str, Job], executor: Any, store: RunStore, max_workers: int | None
) -> dict[str, BaseException]:
    """Have jobs executed where they are to be; the failures, by key."""
    if executor is not None:
        return _through(executor, missing, store)
    if _in_job():  # its worker has its part of the machine, and waits: ask no other
        return _through(_ThisProcess(), missing, store)
    with executor_for() as cluster:
        if cluster is not None:
            return _through(cluster, missing, store)
    if devices := {*map(device_of, missing.values())} - {"cpu"}:
        for device in devices:
            require_device(device)
        max_workers = min(max_workers or own_cores(), len(places()))
    # A single job uses all cores by itself: a worker process would only cost its start.
    if len(missing) < 2 or (max_workers is None and own_cores() == 1):
        return _through(_ThisProcess(), missing, store)
    with LocalProcesses(len(missing), max_workers) as local:
        return _through(local, missing, store)


def _in_job() -> bool:
    """Whether this thread is executing a job for :func:`run_all`."""
    return getattr(_own, "depth", 0) > 0


def _execute(job: Job, folder: str, key: str, public: bool) -> None:
    """What a worker does; nothing travels back."""
    _own.depth = getattr(_own, "depth", 0) + 1
    try:
        store = RunStore(folder, public)
        # The key has the code and data in it: a worker with other files would store its result
        # under another name, and nobody would find it.
        if store.key(job) != key:
            raise RuntimeError(
                "the worker finds other code or other data than the process that asked for the run"
            )
        with claimed(device_of(job)):
            store.run(job)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
        except Exception:  # it would break the pool that carries it
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise
    finally:
        _own.depth -= 1


def _through(
    executor: Any, missing: Mapping[str, Job], store: RunStore
) -> dict[str, BaseException]:
    """Have all jobs executed; the failures, by key."""
    folder = str(store.folder.absolute())
    dask = type(executor).__module__.startswith("distributed")
    futures: dict[str, Any] = {}
    failures: dict[str, BaseException] = {}
    try:
        for key, job in missing.items():
            try:
                # Dask would else take equal calls of two sessions for one.
                options = {"key": f"run-{key}-{uuid.uuid4().hex}"} if dask else {}
                futures[key] = executor.submit(_execute, job, folder, key, store.public, **options)
            except Exception as error:  # a pool that is broken or shut down
                failures[key] = error
        for key in progress(_as_completed(futures), "runs", total=len(futures)):
            try:
                futures[key].result()
            except Exception as error:
                failures[key] = error
    except BaseException:  # interrupted: what has not begun shall not begin
        for future in futures.values():
            if hasattr(future, "cancel"):
                future.cancel()
        raise
    return failures


def _as_completed(futures: Mapping[str, Any]) -> Iterator[str]:
    """Keys of futures as these finish; in order if they cannot tell."""
    if not all(hasattr(future, "add_done_callback") for future in futures.values()):
        yield from futures
        return
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    for key, future in futures.items():
        future.add_done_callback(lambda _, key=key: done.put(key))
    for _ in futures:
        yield done.get()


def _visible(store: RunStore, key: str, deadline: float) -> StoredRun | None:
    """The stored run; network file systems may show with delay what others have written."""
    while (run := store.get_key(key)) is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.listdir(store.path(key).parent)  # makes NFS look again
        time.sleep(0.2)
    return run


class _ThisProcess:
    """An executor that does the work when asked to."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> concurrent.futures.Future:
        future: concurrent.futures.Future = concurrent.futures.Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class LocalProcesses:
    """Worker processes, each with a part of the cores and in a pool of its own.

    In a common pool, a dying worker takes the jobs of all others with it, and it cannot be told
    which one was to blame.
    """

    def __init__(self, jobs: int, max_workers: int | None):
        workers = min(max_workers or own_cores(), jobs)
        # Workers share the cores: libraries that each take all of them would slow each other down.
        self._threads_each = max(1, own_cores() // workers)
        self._waiting = ThreadPoolExecutor(workers)
        self._lock = threading.Lock()
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: set[ProcessPoolExecutor] = set()
        self._closed = False

    def __enter__(self) -> "LocalProcesses":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._lock:
            self._closed = True
            for pool in self._busy if kind else ():  # interrupted: checkpoints are on the disk
                for process in list((pool._processes or {}).values()):
                    process.terminate()
        self._waiting.shutdown(cancel_futures=True)
        for pool in self._idle:
            pool.shutdown()

    def submit(
        self, function: Callable[..., Any], job: Job, *arguments: Any
    ) -> concurrent.futures.Future:
        """Have a job's call made by a worker."""
        main = sys.modules["__main__"]
        if type(job).__module__ == "__main__" and not hasattr(main, "__file__"):
            raise ValueError(
                f"{type(job).__name__} is defined in a notebook, where worker processes do not"
                " find it: put it in a module"
            )
        return self._waiting.submit(self._call, function, job, *arguments)

    def _call(self, *call: Any) -> Any:
        """Have one call made, by a second and third worker if the first ones die."""
        # A pool of one process each: if it dies, this call alone is to blame, or the memory.
        for _ in range(_ATTEMPTS):
            pool, future = self._begin(call)
            died = isinstance(error := future.exception(), BrokenProcessPool)
            with self._lock:
                self._busy.remove(pool)
                if not died:
                    self._idle.append(pool)
            if not died:
                return future.result()
            pool.shutdown()
        raise BrokenProcessPool(
            f"its worker process died {_ATTEMPTS} times: killed, out of memory, or a script that"
            " lacks `if __name__ == '__main__':`"
        ) from error

    def _begin(self, call: tuple[Any, ...]) -> tuple[ProcessPoolExecutor, Any]:
        """A pool that has begun a call; one whose worker died while idle is passed over."""
        with self._lock:
            while not self._closed:
                pool = self._idle.pop() if self._idle else self._new_pool()
                try:
                    future = pool.submit(*call)
                except BrokenProcessPool:
                    pool.shutdown(wait=False)
                    continue
                self._busy.add(pool)
                return pool, future
        raise concurrent.futures.CancelledError

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1,
            mp_context=multiprocessing.get_context("spawn"),  # forks of threads may hang
            initializer=_begin_worker,
            initargs=(self._threads_each, os.getpid()),
        )


def _begin_worker(threads: int, parent: int) -> None:
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    os.environ["COMPANION_THREADS"] = str(threads)  # for threads of our own
    os.environ["OMP_NUM_THREADS"] = str(threads)  # for libraries that are not loaded yet
    threadpoolctl.threadpool_limits(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def _follow(parent: int) -> None:
    """End this worker when its parent was killed: nobody else would ever tell it to."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
