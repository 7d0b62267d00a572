"""An export appears whole or not at all, wherever the process that writes it is killed."""

import contextlib
import csv
import errno
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import psutil

from lib.runs import write_atomic
from lib.runs.files import can_write

_ALWAYS = ("overview.csv", "report.txt", "next_steps.csv")
_SYSTEM = (".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints")  # nobody's work


def require_exportable(folder: Path) -> None:
    """Raise a ValueError if a folder is there that holds anything but an earlier export.

    Or, of a name that ends in ``.html``, any folder; or if nothing may be written there.
    """
    if not can_write(folder.resolve().parent):
        raise ValueError(f"folder must be where files can be written, got {folder}")
    if folder.suffix.lower() == ".html":
        if folder.is_dir():
            raise ValueError(f"folder must be a file if it ends in .html, got {folder}/")
        return
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must be a folder, got {folder}, which is a file")
    if folder.resolve() in (here := Path.cwd().resolve(), *here.parents):
        raise ValueError(f"folder must not be the working directory or above it, got {folder}")
    own = {*_ALWAYS, *_SYSTEM, *_listed(folder / "overview.csv")}
    if other := sorted(set(os.listdir(folder)) - own if folder.is_dir() else ()):
        raise ValueError(
            f"folder must be new, empty or an earlier report, which is replaced, got {folder}, "
            f"which holds {other[0]!r}"
        )


def export_files(target: Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Make a folder of files, or the file ``""``, which takes its place when all of it is there.

    Everything is written into a folder beside it.  What processes left there that were killed goes.
    """
    given, target = target, target.resolve()  # of a link, what it leads to
    target.parent.mkdir(parents=True, exist_ok=True)
    _clean(target)
    scratch = target.with_name(f".{target.name}.{os.getpid()}.partial")
    scratch.mkdir()
    try:
        for name, content in files.items():
            write_atomic(scratch / "new" / (name or "file"), content)
        if "" in files:
            os.replace(scratch / "new" / "file", target)
            return (given,)
        if target.is_dir():
            shutil.copymode(target, scratch / "new")
            _move(target, scratch / "old")
        _move(scratch / "new", target)
    finally:
        if not target.exists() and (scratch / "old").exists():
            os.replace(scratch / "old", target)
        shutil.rmtree(scratch, ignore_errors=True)
    return tuple(given / name for name in files)


def _move(old: Path, new: Path) -> None:
    try:
        os.replace(old, new)
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EXDEV):
            raise
        said = "is a place of its own in the file system: name a new folder inside it"
        raise OSError(error.errno, said, str(new if new.exists() else old)) from None


def _listed(overview: Path) -> set[str]:
    """Files that an earlier export says it has."""
    with (
        contextlib.suppress(OSError, ValueError, csv.Error),
        overview.open(encoding="utf-8") as file,
    ):
        return {name for row in csv.DictReader(file) for name in (row.get("files") or "").split()}
    return set()


def _clean(target: Path) -> None:
    """Remove what killed processes left; one that was killed while it took the place gives back."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"(\d+)\.partial")
    for path in target.parent.iterdir():
        found = pattern.fullmatch(path.name)
        # In a container that starts again, the killed one may have had this one's number.
        if found and (int(found[1]) == os.getpid() or not psutil.pid_exists(int(found[1]))):
            if (path / "old").is_dir() and not target.exists():
                with contextlib.suppress(OSError):
                    os.replace(path / "old", target)
            shutil.rmtree(path, ignore_errors=True)
