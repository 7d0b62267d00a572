"""Processes that are killed at random moments, what they leave behind, and file systems that fail.

Every process started here, and whatever it starts, carries a token in its environment: by it, and
by nothing else, a test finds what it has to end.
"""

import contextlib
import hashlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import psutil
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUN_MARK = "COMPANION_FAULTS_MARK"
#: How often what is killed at random, and how often it must live then for the test to be one.
KILLED, LIVED = 50, 35
PATIENCE = 300.0  # seconds until a child that says nothing counts as hanging


def environment(*paths: Path | str, **extra: str) -> dict[str, str]:
    """The environment of a child: of the project's variables only those given."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COMPANION_")}
    places = [*map(str, paths), str(HERE), str(HERE.parent), str(ROOT)]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own = {"PYTHONPATH": os.pathsep.join(places), "COMPANION_OFFLINE": "1"}
    # One key in all stores: without it each salts its own.
    return kept | one | own | {"COMPANION_PUBLIC_DATA": "1", **extra}


def carriers(token: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                process.environ().get(RUN_MARK) == token
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def wait_until(true: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s: {what}"
        time.sleep(0.05)


class Processes:
    def __init__(self, token: str):
        self.token = token
        self._started: list[subprocess.Popen] = []

    def start(self, command: list[str], env: Mapping[str, str], **options) -> subprocess.Popen:
        process = subprocess.Popen(
            command,
            env={**env, RUN_MARK: self.token},
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.STDOUT),
            text=True,
            start_new_session=True,
            **options,
        )
        self._started.append(process)
        return process

    def run(self, command: list[str], env: Mapping[str, str], seconds: float = PATIENCE, **options):
        process = self.start(command, env, **options)
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output

    def finish(self, patience: float = 10.0) -> list[str]:
        """Give what still runs some time, kill the rest, and say what that was."""
        deadline = time.monotonic() + patience
        while (left := carriers(self.token)) and time.monotonic() < deadline:
            time.sleep(0.05)
        names = []
        for process in left:
            with contextlib.suppress(psutil.Error):
                names.append(" ".join(process.cmdline())[:200])
                process.kill()
        for process in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=10)
        return names


class Forker:
    def __init__(self, module: str, folder: Path, *paths: Path | str, **extra: str):
        self._processes = Processes(uuid.uuid4().hex)
        self._folder = folder
        self._count = 0
        self._killed = False
        command = [sys.executable, str(HERE / "fault_forker.py"), module]
        with (folder / "forker.log").open("w") as errors:
            self._process = subprocess.Popen(
                command,
                env={**environment(*paths, **extra), RUN_MARK: self._processes.token},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._answer() == "ready"

    def _read(self) -> None:
        for line in self._process.stdout:
            self._answers.put(line.strip())
        self._answers.put("")

    def _answer(self, seconds: float = PATIENCE) -> str:
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no answer within {seconds:.0f} s") from None
        assert answer, (self._folder / "forker.log").read_text()
        return answer

    def begin(self, task: str, *arguments, **variables: str) -> int:
        self._count += 1
        self.log = self._folder / f"{self._count}.log"
        request = {"task": task, "arguments": list(map(_plain, arguments)), "log": str(self.log)}
        self._process.stdin.write(json.dumps(request | {"environment": variables}) + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def end(self, seconds: float = PATIENCE) -> int:
        return int(self._answer(seconds))

    def ended(self) -> bool:
        return not self._answers.empty()

    def run(self, task: str, *arguments, **variables: str) -> float:
        """Do a task to its end without a fault; the seconds it took."""
        started = time.monotonic()
        self.begin(task, *arguments, **variables)
        code = self.end()
        assert code == 0, self.log.read_text()
        return time.monotonic() - started

    def printed(self) -> str:
        return self.log.read_text()

    def others(self) -> list[psutil.Process]:
        return [p for p in carriers(self._processes.token) if p.pid != self._process.pid]

    def close(self) -> list[str]:
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        left = self._processes.finish()
        self._process.wait(10)
        self._reader.join(10)
        self._process.stdout.close()
        return left


def _plain(value):
    return str(value) if isinstance(value, Path) else value


def kill_at(forker: Forker, pid: int, seconds: float, meanwhile: Callable[[], None]) -> bool:
    """Kill a child with SIGKILL after some seconds, looking around meanwhile; whether it lived."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not forker.ended():
        meanwhile()
        time.sleep(max(0.0, min(0.02, deadline - time.monotonic())))
    if not forker.ended():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    code = forker.end()
    assert code in (0, -signal.SIGKILL), forker.printed()
    return code != 0


def moments(seed: int, count: int, seconds: float) -> np.ndarray:
    """Random moments from 0 to a little beyond an expected duration, one in each equal part.

    Stratified, so that a few of them cover the whole duration as well; in random order.
    """
    rng = np.random.default_rng(seed)
    parts = (np.arange(count) + rng.random(count)) / count
    return rng.permutation(parts) * 1.05 * seconds


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def runs_files(store) -> dict[str, dict[str, str]]:
    return {key: files(store.path(key)) for key in store.keys()}  # noqa: SIM118


def read_all(store) -> dict[str, dict]:
    """Arrays, metrics and privacy of all finished runs; each must be readable and whole."""
    found = {}
    for key in store.keys():  # noqa: SIM118
        run = store.get_key(key)
        assert run is not None
        found[key] = {"arrays": run.arrays, "metrics": run.metrics, "privacy": run.privacy}
    return found


def untimed(metrics):
    if isinstance(metrics, dict):
        return {name: untimed(item) for name, item in metrics.items() if "seconds" not in name}
    return list(map(untimed, metrics)) if isinstance(metrics, list) else metrics


def assert_same_runs(found: Mapping[str, dict], expected: Mapping[str, dict]) -> None:
    """Bit for bit the same arrays, metrics but durations, and privacy, of exactly these runs."""
    assert found.keys() == expected.keys()
    for key, run in expected.items():
        assert untimed(found[key]["metrics"]) == untimed(run["metrics"])
        assert found[key]["privacy"] == run["privacy"]
        assert found[key]["arrays"].keys() == run["arrays"].keys()
        for name, array in run["arrays"].items():
            other = found[key]["arrays"][name]
            assert other.dtype == array.dtype
            assert other.tobytes() == array.tobytes(), f"{key}: {name}"


def require_mounts(folder: Path) -> None:
    """Skip a test where mounting is not permitted, saying why.

    The probe, like the tests, mounts in a namespace of its own process: nothing can stay mounted.
    """
    place = folder / "probe"
    place.mkdir()
    probe = ["mount", "-t", "tmpfs", "-o", "size=64k", "companion", str(place)]
    try:
        done = subprocess.run(
            ["unshare", "--mount", *probe], capture_output=True, text=True, timeout=30
        )
    except FileNotFoundError:
        pytest.skip("a full or read-only file system needs `unshare`, which is not here")
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


@contextlib.contextmanager
def changed(path: Path) -> Iterator[bytes]:
    """A file's bytes; they, and its times, are put back at the end, wherever it was moved."""
    content, status = path.read_bytes(), path.stat()
    try:
        yield content
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def damages(content: bytes, rng: np.random.Generator, flips: int, cuts: int) -> Iterator[bytes]:
    """Copies with one random bit flipped, cut short at random places, and empty."""
    for _ in range(flips):
        place = int(rng.integers(len(content)))
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        yield bytes(flipped)
    for _ in range(cuts):
        yield content[: int(rng.integers(1, len(content)))]
    yield b""
