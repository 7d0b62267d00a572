"""Runs kept on disk under their content hash: asked for again, they are read, not made."""

import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt
from filelock import FileLock

import lib
from lib.runs.checkpoint import Checkpoint, dump_arrays, load_arrays, set_aside
from lib.runs.files import write_atomic_bytes
from lib.runs.jobs import Job, canonical, run_key
from lib.runs.provenance import (
    code_fingerprint,
    hardware,
    package_versions,
    python_version,
)

__all__ = ["RunStore", "StoredRun", "default_folder"]

FORMAT = 1


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A finished run.

    Attributes
    ----------
    key : str
        Its content hash.
    path : pathlib.Path
        Its folder.
    config : dict
        The configuration, in canonical form.
    metrics : dict
        Numbers.
    privacy : dict or None
        What was spent.
    seconds : float
        Duration of the execution that finished it; a resumed run took longer in all.
    provenance : dict
        Hardware, versions, fingerprints of code and data, date.
    """

    key: str
    path: Path
    config: Mapping[str, Any]
    metrics: Mapping[str, Any]
    privacy: Mapping[str, Any] | None
    seconds: float
    provenance: Mapping[str, Any]

    @cached_property
    def arrays(self) -> dict[str, npt.NDArray]:
        """The arrays, read when first asked for."""
        return load_arrays(self.path / "arrays.npz")[0]


def default_folder() -> Path:
    """``COMPANION_RUNS``, or ``.cache/runs`` in the working tree."""
    named = os.environ.get("COMPANION_RUNS")
    return Path(named) if named else Path(lib.__file__).parent.parent / ".cache" / "runs"


class RunStore:
    """A folder of finished runs.

    Several processes, also on several machines, may share it; the file system must be common to
    them and must support locks on files.

    Parameters
    ----------
    folder : path-like, optional
        :func:`default_folder` if not given.
    """

    def __init__(self, folder: Path | str | None = None):
        self.folder = default_folder() if folder is None else Path(folder)

    def path(self, key: str) -> Path:
        """Where a run lies, or would lie."""
        return self.folder / key[:2] / key

    def keys(self) -> list[str]:
        """Content hashes of all finished runs, sorted."""
        return sorted(p.parent.name for p in self.folder.glob("??/*/run.json"))

    def get(self, job: Job) -> StoredRun | None:
        """The stored run of a job, None if there is none.

        A damaged one is moved to the folder ``set-aside``, with a warning.
        """
        return self.get_key(run_key(job))

    def get_key(self, key: str) -> StoredRun | None:
        """The stored run of a content hash, as :meth:`get`."""
        path = self.path(key)
        if not path.exists():
            return None
        try:
            return _read(path, key)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            try:
                where = set_aside(path, self.folder / "set-aside")
            except FileNotFoundError:
                return None  # another process was quicker
            warnings.warn(
                f"the run {path} is damaged ({error or type(error).__name__}); moved to {where},"
                " to be computed anew",
                RuntimeWarning,
                stacklevel=3,
            )
            return None

    def run(self, job: Job) -> StoredRun:
        """The stored run of a job, executed now if there is none.

        While a job is executed here, other processes that ask for it wait.
        """
        key = run_key(job)
        if (found := self.get_key(key)) is not None:
            return found
        partial = self.folder / "partial" / key
        partial.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "partial" / f"{key}.lock"):
            if (found := self.get_key(key)) is not None:
                return found
            checkpoint = Checkpoint(partial)
            started = time.perf_counter()
            outcome = job.execute(checkpoint)
            seconds = time.perf_counter() - started
            self._write(key, job, outcome, seconds)
            shutil.rmtree(partial, ignore_errors=True)
        found = self.get_key(key)
        if found is None:
            raise OSError(f"the run {self.path(key)} cannot be read back after it was written")
        return found

    def _write(self, key: str, job: Job, outcome: Any, seconds: float) -> None:
        arrays = dump_arrays(outcome.arrays)
        record = {
            "format": FORMAT,
            "key": key,
            "config": canonical(job),
            "metrics": dict(outcome.metrics),
            "privacy": None if outcome.privacy is None else dict(outcome.privacy),
            "seconds": seconds,
            "arrays_sha256": hashlib.sha256(arrays).hexdigest(),
            "provenance": {
                "code": code_fingerprint(*job.code),
                "data": job.data_fingerprint(),
                "hardware": hardware(),
                "packages": package_versions(),
                "python": python_version(),
                "when": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        }
        record["record_sha256"] = _digest(record)
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        target = self.path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{key}."))
        try:
            write_atomic_bytes(temporary / "arrays.npz", arrays)
            write_atomic_bytes(temporary / "run.json", text.encode())
            os.chmod(temporary, 0o755)
            os.replace(temporary, target)  # appears whole
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _digest(record: Mapping[str, Any]) -> str:
    content = {name: value for name, value in record.items() if name != "record_sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path, key: str) -> StoredRun:
    record = json.loads((path / "run.json").read_text(encoding="utf-8"))
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError("run.json is not a run of this format")
    if record["record_sha256"] != _digest(record):
        raise ValueError("run.json is not what was written")
    if record["key"] != key:
        raise ValueError(f"it is the run {record['key']}")
    digest = hashlib.sha256((path / "arrays.npz").read_bytes()).hexdigest()
    if digest != record["arrays_sha256"]:
        raise ValueError("arrays.npz is not what was written")
    return StoredRun(
        key=key,
        path=path,
        config=record["config"],
        metrics=record["metrics"],
        privacy=record["privacy"],
        seconds=record["seconds"],
        provenance=record["provenance"],
    )
