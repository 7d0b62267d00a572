"""Arrays computed once, kept in the user's cache, and memory-mapped afterwards.

They lie in a folder named after the SHA-256 of what they are computed from.  Such a folder appears
whole or not at all, and is checked against its checksums the first time that a process reads it.
"""

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lib.runs.files import can_write, user_cache

SUMS = "SHA256SUMS"

#: What was checked and mapped, by path, size, mtime_ns and SHA-256.
_checked: dict[tuple[Path, int, int, str], npt.NDArray[Any]] = {}


def kept_arrays(
    kind: str, identity: Any, compute: Callable[[], Mapping[str, npt.NDArray[Any]]]
) -> dict[str, npt.NDArray[Any]]:
    """Read-only arrays by name, computed at need; a damaged copy is made anew, with a warning.

    `identity` is all that they depend on, as JSON can hold it.
    """
    folder = user_cache() / kind / hash_of(identity)
    if folder.exists():
        try:
            return _read(folder)
        except (OSError, ValueError) as error:
            warnings.warn(
                f"the arrays kept in {folder} are damaged and made anew: {error}", stacklevel=3
            )
    arrays = compute()
    if not can_write(folder.parent):  # they are computed whenever they are asked for
        return {name: _read_only(array) for name, array in arrays.items()}
    _write(folder, arrays)
    return _read(folder)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


def hash_of(value: Any) -> str:
    """SHA-256 of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _write(folder: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Put arrays and their checksums into a folder that appears at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name[:16]}."))
    try:
        for name, array in arrays.items():
            array = np.ascontiguousarray(array)
            with open(temporary / f"{name}.npy", "wb") as stream:  # np.save hides a full disk
                header = np.lib.format.header_data_from_array_1_0(array)
                np.lib.format.write_array_header_1_0(stream, header)
                stream.write(array.data)
        sums = {path.name: _file_hash(path) for path in sorted(temporary.iterdir())}
        (temporary / SUMS).write_bytes(_listed(sums).encode())
        for path in temporary.iterdir():
            with open(path, "rb+") as stream:
                os.fsync(stream.fileno())
        temporary.chmod(0o777 & ~_umask())  # mkdtemp's folders are private
        if folder.exists():  # damaged; who has it mapped keeps what is mapped
            os.replace(folder, temporary / "damaged")
        try:
            os.replace(temporary, folder)
        except OSError:
            if not folder.exists():
                raise
            return  # another process was faster, and its copy is as good
        shutil.rmtree(folder / "damaged", ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    """What new files of this process lack; it can only be read by setting it."""
    old = os.umask(0o077)
    os.umask(old)
    return old


def _read(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays in a folder; any error means that it is damaged."""
    text = (folder / SUMS).read_bytes().decode()
    sums = {file: digest for digest, file in (line.split("  ") for line in text.splitlines())}
    whole = text == _listed(sums) and set(sums) == {path.name for path in folder.glob("*.npy")}
    if not sums or not whole:
        raise ValueError(f"{SUMS} lists {sorted(sums)}")
    arrays = {}
    for file, digest in sums.items():
        path = folder / file
        status = path.stat()
        key = (path, status.st_size, status.st_mtime_ns, digest)
        if key not in _checked:
            if _file_hash(path) != digest:
                raise ValueError(f"{file} does not have the SHA-256 in {SUMS}")
            _checked[key] = np.load(path, mmap_mode="r", allow_pickle=False)
        arrays[file.removesuffix(".npy")] = _checked[key]
    return arrays


def _listed(sums: Mapping[str, str]) -> str:
    """Lines that ``sha256sum -c`` reads."""
    return "".join(f"{digest}  {file}\n" for file, digest in sums.items())


def _file_hash(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
