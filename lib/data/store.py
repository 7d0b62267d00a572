"""From a data file's name to a verified path: mirror first, then cache, then download.

Three environment variables steer it:

``COMPANION_DATA``
    Directories with copies of the files, searched first; several are separated as in ``PATH``.
    Layout: ``<owner>/<repository>/<commit>/<path>`` for files on GitHub, ``<host>/<path>`` for
    others, ``<name>.npz`` for plain arrays (:func:`lib.data.load_images`).
``COMPANION_CACHE``
    Where downloads are kept (same layout) instead of the user's cache directory.
``COMPANION_OFFLINE``
    Anything but empty or ``0`` forbids downloads.

Three more are set by the build while it runs a chapter, for the kernel and the processes that it
starts:

``COMPANION_CHAPTER``
    The chapter: only files that the registry lists for it can then be read,
``COMPANION_ALSO``
    and these, parted by blanks: those of the sets of images that its parameters name.
``COMPANION_ASKED``
    A file to which the name of every data file is appended that is asked for, found or not: the
    state of these, and of no others, is part of the build's cache key.

A file whose SHA-256 the registry does not know is absent, wherever copies of it may lie, until the
user accepts it (:func:`fetch_unverified`).
"""

import difflib
import errno
import hashlib
import logging
import os
import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

with warnings.catch_warnings():
    # pooch imports a progress bar that, in a notebook, warns about widgets nobody asked for.
    warnings.filterwarnings("ignore", "IProgress not found")
    import pooch

from lib.data.arrays import MOST_BYTES, read_npz
from lib.data.errors import DataCorrupted, DataUnavailable, UndeclaredData, UnknownData
from lib.data.registry import Entry, is_sha256, registry, sum_of_arrays
from lib.runs import write_atomic
from lib.runs.files import can_write, user_cache

#: The fingerprint of data that cannot be had.
ABSENT = "absent"
#: Environment variable: the file into which a chapter notes the data that it asks for.
ASKED = "COMPANION_ASKED"
#: Environment variable: files that count as declared for the running chapter, parted by blanks.
ALSO = "COMPANION_ALSO"
#: Prefix of the names of a user's own arrays: ``own/<name>`` is ``<name>.npz`` in COMPANION_DATA.
OWN = "own/"
_OWN_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # no fault of the network
TIMEOUTS = (5, 30)  # seconds to connect, and between two pieces of the answer

_hashes: dict[tuple[Path, int, int, int, int], str] = {}  # (path, size, times, inode) -> SHA-256
_no_network: str | None = None  # why the last download found no server, if it did not


def fetch(name: str) -> Path:
    """Path of a data file whose SHA-256 has been checked in this process.

    Parameters
    ----------
    name : str
        A name in :func:`lib.data.registry`, e.g. ``"suitability/fmow_ERM_0"``.

    Returns
    -------
    pathlib.Path
        In the mirror ``COMPANION_DATA`` if the file is there, else in the cache, into which it
        is downloaded if need be.

    Raises
    ------
    UnknownData
        If the name is not registered, or no text.
    UndeclaredData
        If a chapter is being built for which the file is not registered.
    DataUnavailable
        If the file is not on this machine and cannot be downloaded, or if its SHA-256 is unknown.
    DataCorrupted
        If the file that was found is not the registered one.
    """
    wanted = entry(name)
    _check_chapter(wanted)
    return _locate(wanted)


def available(name: str) -> bool:
    """Whether :func:`fetch` would succeed, downloading the file if that is what it takes.

    Once a download has found no network, it is not tried again here for the life of the process.

    Parameters
    ----------
    name : str
        A name in :func:`lib.data.registry`.

    Raises
    ------
    UnknownData, UndeclaredData, DataCorrupted
        As :func:`fetch`: a damaged file is an error, not an absent one.
    """
    wanted = entry(name)
    _check_chapter(wanted)
    return _obtainable(wanted)


def fingerprints(chapter: str, also: Collection[str] = ()) -> dict[str, str]:
    """What a chapter's results may depend on: the state of every file it may read.

    Parameters
    ----------
    chapter : str
        The chapter's name; one that reads no data has no fingerprints.
    also : collection of str
        Files that count as declared for it, as those of a data set that its parameters name.

    Returns
    -------
    dict of str to str
        For each file declared for the chapter its verified SHA-256, or ``"absent"``.

    Raises
    ------
    DataCorrupted
        If a file is there but damaged.
    """
    listed = [n for n, each in registry().items() if chapter in each.chapters or n in also]
    declared = [entry(name) for name in (*listed, *(n for n in also if n.startswith(OWN)))]
    return {each.name: each.sha256 if _obtainable(each) else ABSENT for each in declared}


def state(name: str) -> str:
    """The verified SHA-256 of a file on this machine, or ``"absent"``; nothing is downloaded.

    Parameters
    ----------
    name : str
        A name in :func:`lib.data.registry`.

    Raises
    ------
    UnknownData
        If the name is not registered, or no text.
    DataCorrupted
        If the file is there but damaged.
    """
    wanted = entry(name)
    copies = local_copies(wanted)
    if not copies or wanted.sha256 is None:
        return ABSENT
    check(copies[0][1], wanted)
    return wanted.sha256


def fetch_unverified(name: str, examine: Callable[[str, Path], str]) -> tuple[Path, str]:
    """Accept the content of a file whose SHA-256 the registry does not know, on the user's word.

    The copy on this machine is taken, else the file is downloaded.  ``examine``, of name and path,
    raises ValueError if it cannot be what it should be, without running anything in it, else says
    what it found.  Then the SHA-256 is noted in the cache.  What was noted before is only checked.
    Returns the path and what ``examine`` said.
    """
    wanted = entry(name)
    if registry()[name].sha256 is not None:
        raise ValueError(f"the SHA-256 of {name!r} is known: fetch it without --unverified")
    if chapter := os.environ.get("COMPANION_CHAPTER"):
        raise UndeclaredData(f"chapter {chapter!r} accepts {name!r}: only a person can")
    if wanted.sha256 is not None:
        path = _locate(wanted)
        return path, examine(name, path)
    copies = local_copies(wanted)
    path = copies[0][1] if copies else user_cache() / wanted.mirror
    if not copies:
        _retrieve(wanted, path, retry=True)
    digest = pooch.file_hash(str(path), alg="sha256")
    try:
        said = examine(name, path)
    except DataCorrupted:  # of another file, which this one is compared with
        raise
    except ValueError as error:
        if not copies:
            path.unlink()
        raise DataCorrupted(f"the content of {name!r} is not what it should be: {error}") from error
    write_atomic(_note_of(wanted), f"{digest}\n")
    return path, said


def entry(name: str) -> Entry:
    """The registered file of that name, with the SHA-256 noted for it; or an error."""
    if not isinstance(name, str):
        raise UnknownData(
            "name must be a text under which a data file is registered, got "
            f"{name!r} (python -m lib.data list shows all)"
        )
    if name.startswith(OWN):
        return _own(name)
    try:
        found = registry()[name]
    except KeyError:
        close = difflib.get_close_matches(name, registry(), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownData(
            f"no data file is registered as {name!r}{hint} (python -m lib.data list shows all)"
        ) from None
    if found.sha256 is not None or not (note := _note_of(found)).is_file():
        return found
    digest = note.read_text("ascii", "replace").strip()
    if not is_sha256(digest):
        raise DataCorrupted(f"{note} is damaged: delete it and fetch {name!r} --unverified again")
    return replace(found, sha256=digest)


def local_copies(wanted: Entry) -> list[tuple[str, Path]]:
    """Where a file lies on this machine, unchecked: pairs of "mirror" or "cache" and path.

    Every search for a file comes through here, so that it is noted for the build.
    """
    _note(wanted.name)
    places = [*(("mirror", folder) for folder in _mirrors()), ("cache", user_cache())]
    found = [(place, folder / wanted.mirror) for place, folder in places]
    return [(place, path) for place, path in found if path.is_file()]


def local_folder(name: str) -> Path | None:
    """The first folder of that name in ``COMPANION_DATA``'s, such as a network's files."""
    return next((path for m in _mirrors() if (path := m / name).is_dir()), None)


def check(path: Path, wanted: Entry) -> Path:
    """Return the path if its content is the registered one, else raise :class:`DataCorrupted`.

    A file that has not changed since it was last read in this process is not read again.
    """
    try:
        found = _digest(path, wanted.arrays)
    except ValueError as error:  # plain arrays that cannot be read
        raise DataCorrupted(str(error)) from error
    if found != wanted.sha256:
        raise DataCorrupted(
            f"{path} is not {wanted.name!r}: expected SHA-256 {wanted.sha256}, found"
            f" {found}; delete it or restore it"
            + f", or delete {_note_of(wanted)} to accept another"
            * _note_of(wanted).is_file()
        )
    return path


def _digest(path: Path, arrays: Collection[str] = ()) -> str:
    """SHA-256 of a file, or of the plain arrays in it; remembered while the file stays as it is."""
    status = path.stat()
    # The time of change too: that of modification can be set, as rsync and cp -p do.
    key = (path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    if key not in _hashes:
        if arrays:
            found = read_npz(path, arrays, arrays)
            sums = {
                n: hashlib.sha256(np.ascontiguousarray(a)).hexdigest() for n, a in found.items()
            }
            _hashes[key] = sum_of_arrays(sums)
        else:
            _hashes[key] = pooch.file_hash(str(path), alg="sha256")
    return _hashes[key]


def _own(name: str) -> Entry:
    """A user's own arrays, pinned to what they are now; its chapters are those that name them."""
    entry = Entry(name, None, f"{name.removeprefix(OWN)}.npz", None, None, "", "", ())
    copies = local_copies(entry) if re.fullmatch(r"[\w-]+", name.removeprefix(OWN)) else []
    if not copies:
        raise UnknownData(f"no folder of COMPANION_DATA holds {entry.mirror!r}")
    return replace(entry, sha256=_digest(copies[0][1]), size=copies[0][1].stat().st_size)


def has_own(name: str) -> bool:
    """Whether a folder of COMPANION_DATA holds ``<name>.npz``."""
    try:
        return bool(_own(f"{OWN}{name}"))
    except UnknownData:
        return False


def _locate(wanted: Entry, retry: bool = True) -> Path:
    damage, copies = None, local_copies(wanted)
    if wanted.sha256 is None:
        raise DataUnavailable(
            f"{wanted.name!r} is not fetched, as nothing could be checked: its SHA-256 is not in"
            " the registry, as nobody had the file when that was written. To accept what"
            f" {wanted.url or 'a mirror'} holds, on your own trust: python -m lib.data fetch"
            f" --unverified {wanted.name}"
        )
    for place, path in copies:
        try:
            return check(path, wanted)
        except DataCorrupted as error:
            if place == "mirror":
                raise
            damage = error  # of a download, which a new one replaces
    target = user_cache() / wanted.mirror
    try:
        _retrieve(wanted, target, retry)
    except DataUnavailable:
        if damage is not None:
            raise damage from None
        raise
    return check(target, wanted)


def _obtainable(wanted: Entry) -> bool:
    try:
        _locate(wanted, retry=False)
    except DataUnavailable:
        return False
    return True


def _retrieve(wanted: Entry, target: Path, retry: bool) -> None:
    """Download a file to `target`; only :func:`fetch_unverified` comes here without a SHA-256."""
    global _no_network
    if wanted.url is None:
        raise DataUnavailable(_advice(wanted, "has no public address"))
    if _offline():
        raise DataUnavailable(_advice(wanted, "COMPANION_OFFLINE forbids to download it"))
    if _no_network is not None and not retry:
        raise DataUnavailable(_advice(wanted, _no_network))
    pooch.get_logger().setLevel(logging.WARNING)  # its progress would end up in the book's pages
    try:
        pooch.retrieve(
            wanted.url,
            known_hash=None if wanted.sha256 is None else f"sha256:{wanted.sha256}",
            fname=target.name,
            path=target.parent,
            downloader=_Bounded(MOST_BYTES if wanted.size is None else wanted.size),
        )
    except OSError as error:  # every failure of requests is one
        if error.errno in _OWN_DISK:
            raise OSError(error.errno, error.strerror, str(target)) from error
        response = getattr(error, "response", None)
        if response is None:
            cause = error.strerror or type(error).__name__
            if not can_write(target.parent):
                cause = f"{target.parent} cannot be written: COMPANION_CACHE may name another"
            _no_network = f"an earlier download failed ({cause})"
        else:
            cause = f"HTTP status {response.status_code}"
        reason = f"{wanted.url} cannot be downloaded ({cause})"
        raise DataUnavailable(_advice(wanted, reason)) from error
    except ValueError as error:  # how pooch reports a wrong hash, having deleted the file
        raise DataCorrupted(f"{wanted.name!r} from {wanted.url}: {error}") from error
    _no_network = None


class _Bounded(pooch.HTTPDownloader):
    """Downloads that end when more arrives than is registered."""

    def __init__(self, most: int):
        opened: list[Any] = []
        super().__init__(
            timeout=TIMEOUTS,
            chunk_size=1 << 16,
            hooks={"response": lambda r, **_: opened.append(r)},
        )
        self._opened, self._left = opened, most
        self._said = f"more arrives than the {most:,} bytes that it may have"

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> Any:
        try:
            with open(output_file, "wb") as self._file:
                return super().__call__(url, self, pooch, check_only)
        finally:  # pooch leaves a connection open whose file cannot be written
            for response in self._opened:
                response.close()

    def write(self, chunk: bytes) -> None:
        """Write what arrived."""
        self._left -= len(chunk)
        if self._left < 0:
            raise ValueError(self._said)
        self._file.write(chunk)

    def flush(self) -> None:
        """Nobody reads it before it is whole."""


def _note_of(wanted: Entry) -> Path:
    """Where the SHA-256 of a file that the registry does not know is noted."""
    return user_cache() / f"{wanted.mirror}.sha256"


def _advice(wanted: Entry, reason: str) -> str:
    looked = ", ".join(map(str, (*_mirrors(), user_cache())))
    connect = (
        "" if wanted.url is None else "connect to the network (with COMPANION_OFFLINE unset), or "
    )
    return (
        f"{wanted.name!r} is not on this machine (looked in {looked}) and {reason}. To have it,"
        f" {connect}set COMPANION_DATA to a mirror: a directory laid out as"
        f" <owner>/<repository>/<commit>/<path> or <host>/<path>, here {wanted.mirror}"
    )


def _note(name: str) -> None:
    """Tell the build that a file was asked for; many processes may do so at once."""
    notes = os.environ.get(ASKED)
    if not notes:
        return
    line = f"{name}\n".encode()
    file = os.open(notes, os.O_WRONLY | os.O_APPEND)  # the build made it: none is made here
    try:
        if os.write(file, line) != len(line):
            raise OSError(f"{name!r} could not be noted in {notes}, which {ASKED} names")
    finally:
        os.close(file)


def _check_chapter(wanted: Entry) -> None:
    chapter = os.environ.get("COMPANION_CHAPTER")
    also = os.environ.get(ALSO, "").split()
    if chapter and chapter not in wanted.chapters and wanted.name not in also:
        listed = ", ".join(wanted.chapters) or "no chapter"
        raise UndeclaredData(
            f"chapter {chapter!r} reads {wanted.name!r}, which is declared for {listed}: add"
            f" {chapter!r} to its chapters in lib/data/registry.yml, because the build looks only"
            " at declared data"
        )


def _mirrors() -> list[Path]:
    value = os.environ.get("COMPANION_DATA", "")
    folders = [Path(part).expanduser() for part in value.split(os.pathsep) if part]
    for folder in folders:
        if not folder.is_dir():
            raise NotADirectoryError(f"COMPANION_DATA={value!r}: {folder} is not a directory")
    return folders


def _offline() -> bool:
    return os.environ.get("COMPANION_OFFLINE", "") not in ("", "0")
