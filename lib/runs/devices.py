"""Accelerators of this machine, of which a job has one to itself."""

import contextlib
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

#: Environment variable: numbers of the accelerators that jobs may use, as ``0,1``; one listed
#: several times, as ``0,0,0``, is shared by so many jobs.
DEVICES = "COMPANION_DEVICES"
_own = threading.local()  # the number of the accelerator that this thread has claimed


def accelerators() -> list[int]:
    """Numbers of the accelerators here: those that ``COMPANION_DEVICES`` lists, or all."""
    return sorted(set(places()))


def places() -> list[int]:
    """An accelerator's number for each job that may run at the same time as the others."""
    listed = os.environ.get(DEVICES)
    if listed is not None:
        numbers = [each.strip() for each in listed.split(",") if each.strip()]
        if not all(each.isdecimal() for each in numbers):
            raise ValueError(f"{DEVICES} must be numbers such as '0,1' or '0,0', got {listed!r}")
        return sorted(int(each) for each in numbers)
    import torch

    return list(range(torch.cuda.device_count()))


def device_of(value: Any) -> str:
    """Where a job wants to work: the first ``device`` in its configuration that is no CPU."""
    if is_dataclass(value):
        own = getattr(value, "device", "cpu")
        if isinstance(own, str) and own.partition(":")[0] != "cpu":
            return own
        value = [getattr(value, each.name) for each in fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return next((each for each in map(device_of, value) if each != "cpu"), "cpu")
    return "cpu"


def require_device(device: str) -> None:
    """Raise a ValueError if there is no such device."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return
    here = accelerators()
    if not here or (number and int(number) not in here):
        names = ", ".join(["cpu", *(f"{kind}:{each}" for each in here)])
        raise ValueError(f"device must be one of this machine ({names}), got {device!r}")


@contextlib.contextmanager
def claimed(device: str) -> Iterator[None]:
    """Have a place on a device: no other thread or process of this user gets it meanwhile.

    It waits until one is free. A process that dies gives its own back. ``cuda`` is whichever is
    free, ``cuda:1`` that one.
    """
    kind, _, number = device.partition(":")
    if kind == "cpu" or claimed_now() is not None:  # nothing to claim, or claimed already
        yield
        return
    require_device(device)
    wanted = [each for each in places() if each == int(number or each)]
    folder = own_folder("devices")
    names = [_name(each) for each in wanted]
    names = [f"{name}.{names[:i].count(name)}.lock" for i, name in enumerate(names)]
    locks = [FileLock(folder / name) for name in names]
    free, lock = _first_free([*zip(wanted, locks, strict=True)])
    _own.number = free
    try:
        yield
    finally:
        del _own.number
        try:
            if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
                sys.modules["torch"].cuda.empty_cache()  # raises where a kernel has failed
        finally:
            lock.release()


def own_folder(purpose: str) -> Path:
    """A folder among the temporary files that is this user's alone, which no other can have made.

    Raises
    ------
    PermissionError
        If what has its name is a link, no folder, another user's, or open to others.
    """
    uid = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"companion-{purpose}-{uid}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()  # of a link itself
    if hasattr(os, "getuid"):
        faults = {
            "is no folder": not stat.S_ISDIR(found.st_mode),
            f"belongs to user {found.st_uid}": found.st_uid != uid,
            f"has the mode {stat.S_IMODE(found.st_mode):04o}": bool(found.st_mode & 0o077),
        }
        if said := [text for text, there in faults.items() if there]:
            raise PermissionError(
                f"{folder} must be a folder of this user with the mode 0700, but it {said[0]}: "
                "remove it, or let TMPDIR name another folder"
            )
    return folder


def claimed_now() -> int | None:
    """The number of the accelerator that this thread has claimed, None without one."""
    return getattr(_own, "number", None)


def _name(number: int) -> str:
    """What tells an accelerator from others, though a scheduler may call each worker's own 0."""
    import torch

    if number < torch.cuda.device_count():
        return str(torch.cuda.get_device_properties(number).uuid)
    return str(number)


def _first_free(locks: Sequence[tuple[int, FileLock]]) -> tuple[int, FileLock]:
    while True:
        for number, lock in locks:
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=0)
                return number, lock
        time.sleep(0.2)
