"""Runs kept on disk under their content hash: asked for again, they are read, not made."""

import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt
from filelock import FileLock

import lib
from lib.runs.checkpoint import Checkpoint, dump_arrays, load_arrays, set_aside
from lib.runs.files import beside, kept_folder, require_writable, write_atomic
from lib.runs.jobs import Job, Outcome, code_of, has_guarantee, identity, rounded, without_counts
from lib.runs.plain import decode, encode
from lib.runs.provenance import (
    check_loaded,
    fingerprint,
    hardware,
    package_versions,
    python_version,
)

FORMAT = 1
PUBLIC = "COMPANION_PUBLIC_DATA"
_KEY = re.compile("[0-9a-f]{64}")


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
        The configuration, in canonical form; its class alone where data are not public.
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


# A store's folder:
#
#     ab/ab12.../run.json, arrays.npz    a finished run, which appeared whole, by one rename
#     ab/.ab12....<random>/              one that is being written, or whose writer was killed
#     partial/ab12.../                   checkpoints of a run under way
#     partial/ab12....lock               held by whoever executes it
#     set-aside/                         damaged runs


class RunStore:
    """A folder of finished runs.

    Several processes, also on several machines, may share it; the file system must be common to
    them and must support locks on files.

    Parameters
    ----------
    folder : path-like, optional
        ``COMPANION_RUNS``, or ``.cache/runs`` in the working tree, if not given; ``runs`` in
        ``COMPANION_CACHE`` or the user's cache where there is no working tree, or none to write to.
    public : bool, optional
        Whether the data of all runs are public, as the book's are: then a run records its whole
        configuration with all seeds, plain hashes of its data, and their counts, and its key is
        that of :func:`run_key`.  By default what the environment variable
        ``COMPANION_PUBLIC_DATA`` says (1 or 0), and no without it.

    Notes
    -----
    Where data are not public, a finished run keeps nothing that helps to undo its guarantee: of the
    configuration the class alone, hence no seed; keys and hashes of data under a random salt (the
    file ``salt`` of the store, mode 0600, by which runs are found again here and nowhere else); no
    numbers of examples; what follows from these numbers, rounded to steps of 5 to 12.5 percent:
    noise multipliers down, and epsilon, delta, sampling rates, steps and seconds up, so that a
    ledger's epsilon is never below that of the training.  A job must give them
    these names (in ``lib/runs/jobs.py``).  A run without a guarantee of its own, or whose job says
    that it is ``private``, can be read by its owner alone; of others the umask decides.
    """

    def __init__(self, folder: Path | str | None = None, public: bool | None = None):
        if public is None:
            said = os.environ.get(PUBLIC, "") or "0"
            if said not in ("0", "1"):
                raise ValueError(f"{PUBLIC} must be 1 or 0, got {said!r}")
            public = said == "1"
        self.public = public
        usual = kept_folder(Path(lib.__file__).parents[1], "runs")
        named = os.environ.get("COMPANION_RUNS") if folder is None else folder
        self.folder = Path(named or usual)

    def key(self, job: Job) -> str:
        """What a job's run is found by here: its content hash, salted unless data are public."""
        return self._key(identity(job))

    def _key(self, parts: Mapping[str, Any]) -> str:
        return self._salted(fingerprint(parts))

    def _salted(self, text: str) -> str:
        return text if self.public else hmac.digest(self._salt, text.encode(), "sha256").hex()

    @cached_property
    def _salt(self) -> bytes:
        place = self.folder / "salt"
        if not place.exists():
            require_writable(self.folder / "partial", "COMPANION_RUNS")
            with self._lock("salt"):
                if not place.exists():
                    write_atomic(place, secrets.token_bytes(32), private=True)
        salt = place.read_bytes()
        if len(salt) != 32:
            raise ValueError(f"{place} must hold 32 bytes, got {len(salt)}: remove the store")
        return salt

    def path(self, key: str) -> Path:
        """Where a run lies, or would lie."""
        return self.folder / key[:2] / key

    def keys(self) -> list[str]:
        """Content hashes of all finished runs, sorted."""
        found = (path.parent for path in self.folder.glob("??/*/run.json"))
        return sorted(p.name for p in found if _KEY.fullmatch(p.name) and p == self.path(p.name))

    def get(self, job: Job) -> StoredRun | None:
        """The stored run of a job, None if there is none.

        A damaged one is moved to the folder ``set-aside``, with a warning.
        """
        return self.get_key(self.key(job))

    def get_key(self, key: str) -> StoredRun | None:
        """The stored run of a content hash, as :meth:`get`."""
        try:
            return _read(self.path(key), key)
        except Exception as error:
            if _passing(error):
                raise
            with self._lock(key):  # lest a second process sets aside what a first has corrected
                return self._read_or_set_aside(key)

    def run(self, job: Job) -> StoredRun:
        """The stored run of a job, executed now if there is none.

        While a job is executed here, other processes that ask for it wait.

        Raises
        ------
        RuntimeError
            If files of ``lib`` that the job depends on have changed since they were loaded.
        ValueError, TypeError
            If the job's outcome holds what cannot be stored; its checkpoint is kept.
        """
        parts = identity(job)
        key = self._key(parts)
        partial = self.folder / "partial" / key
        if (found := self.get_key(key)) is not None:
            shutil.rmtree(partial, ignore_errors=True)  # where its writer was killed after writing
            return found
        for folder in (self.path(key).parent, partial.parent):
            require_writable(folder, "COMPANION_RUNS")
            folder.mkdir(parents=True, exist_ok=True)
        with self._lock(key):
            # Asked again: another process may have finished it while this one waited for the lock.
            if (found := self._read_or_set_aside(key)) is not None:
                return found
            # The key was made from the files as they are now; the process may have loaded older
            # ones.
            check_loaded(*code_of(job).modules)
            for leftover in self.path(key).parent.glob(f".{key}.*"):
                shutil.rmtree(leftover, ignore_errors=True)  # its writer was killed: no news
            started = time.perf_counter()
            outcome = job.execute(Checkpoint(partial, kept=True))
            seconds = time.perf_counter() - started
            self._write(key, job, parts, outcome, seconds)
            shutil.rmtree(partial, ignore_errors=True)
            found = self._read_or_set_aside(key)
        if found is None:
            raise OSError(f"the run {self.path(key)} cannot be read back after it was written")
        return found

    def _lock(self, key: str) -> FileLock:
        folder = self.folder / "partial"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{key}.lock")

    def _read_or_set_aside(self, key: str) -> StoredRun | None:
        """For the holder of the lock."""
        try:
            return _read(self.path(key), key)
        except Exception as error:  # whatever there is, it is no run
            if _passing(error):
                raise
            where = set_aside(self.path(key), self.folder / "set-aside")
            warnings.warn(
                f"the run {self.path(key)} is damaged ({error or type(error).__name__}); moved to"
                f" {where}, to be computed anew",
                RuntimeWarning,
                stacklevel=3,
            )
            return None

    def _write(
        self, key: str, job: Job, parts: Mapping[str, Any], outcome: Outcome, seconds: float
    ) -> None:
        config, private = parts["config"], False
        if not self.public:
            config = {"class": config["class"]}
            metrics, privacy = without_counts(outcome.metrics), without_counts(outcome.privacy)
            outcome = replace(outcome, metrics=metrics, privacy=privacy)
            seconds = rounded(seconds)
            private = getattr(job, "private", False) or not has_guarantee(privacy)
        arrays = dump_arrays(outcome.arrays)
        record = {
            "format": FORMAT,
            "key": key,
            "config": config,
            "metrics": encode(outcome.metrics, "metrics"),
            "privacy": encode(outcome.privacy, "privacy"),
            "seconds": seconds,
            "arrays_sha256": hashlib.sha256(arrays).hexdigest(),
            "provenance": {
                "code": parts["code"],
                "data": self._salted(parts["data"]),
                "hardware": hardware(),
                "packages": package_versions(),
                "python": python_version(),
                "when": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        }
        # Of the record without this entry: a file that was cut short or edited is no run.
        record["record_sha256"] = _digest(record)
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        target = self.path(key)
        temporary = beside(target)
        try:
            temporary.mkdir()
            write_atomic(temporary / "arrays.npz", arrays, private=private)
            write_atomic(temporary / "run.json", text, private=private)
            os.replace(temporary, target)  # appears whole
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _passing(error: Exception) -> bool:
    """Whether an error says nothing of the run: no memory just now, a disk that does not answer."""
    absent = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
    return isinstance(error, MemoryError | OSError) and not isinstance(error, absent)


def _digest(record: Mapping[str, Any]) -> str:
    content = {name: value for name, value in record.items() if name != "record_sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path, key: str) -> StoredRun | None:
    if not path.exists():
        return None
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
    numbers = {name: decode(record[name]) for name in ("metrics", "privacy")}
    kept = {name: record[name] for name in ("config", "seconds", "provenance")}
    return StoredRun(key, path, **numbers, **kept)
