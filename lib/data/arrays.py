"""A user's own numbers: arrays in an NPZ file, cells of a CSV file, neither of which is trusted."""

import csv
import io
import math
import os
import struct
import tokenize
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from lib.data.formats import reading
from lib.data.untrusted import short

#: Size of a file that is read: of a CSV file, or of an NPZ file's arrays, uncompressed.
MOST_BYTES = 2_000_000_000
#: Environment variable: bytes of memory that reading a file may take.
FILE_MEMORY = "COMPANION_FILE_MEMORY"
#: What it may take where the variable is not set, if half of the free memory is not less.
DEFAULT_MEMORY = 4_000_000_000
#: Reading takes at most so many times what the arrays take that are read.
PEAK = 4
MOST_CHARACTERS = 200  # of a word, such as the name of a group
MOST_LINE = 10_000_000  # characters of a row of a CSV file
_PER_CHARACTER = 64  # bytes that a row's cells may take for each of its characters
_MOST_HEADER = 12_000  # bytes: more than NumPy reads
MOST_DIRECTORY = 1_000_000  # bytes of the list of members in an NPZ file

SUFFIXES = (".npz", ".csv")

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# What NumPy raises on a header that is no literal, or too deep a one.
_BAD_HEADER = (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)


def as_path(name: str, path: Any) -> Path:
    """Return `path` as a Path; a number or None is refused, under the argument's `name`."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be a path, got {type(path).__name__}")
    return Path(path)


def read_npz(
    path: Path,
    known: Collection[str] | None,
    required: Collection[str],
    most_bytes: int = MOST_BYTES,
    words: Collection[str] | None = (),
    least_itemsize: int = 1,
    left_out: dict[str, str] | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Read plain numbers from an NPZ file, and arrays that may be `words`; nothing is unpickled.

    What all of them declare is held against the memory before anything is read; integers count
    for `least_itemsize` bytes at least.  With None for `known` arrays may have any names, for
    `words` any may be words.  Where `left_out` is given, arrays that cannot be read without
    unpickling, or hold neither numbers nor words, are left out and named there with the reason.
    """
    what = "an NPZ file"
    try:
        with reading(path, what), path.open("rb") as stream:
            declared = _check_directory(path, stream)
            with zipfile.ZipFile(stream) as archive:
                members = archive.infolist()
                if len(members) != declared:  # a wrong length of a comment hides those after it
                    found = f"damage: {len(members)} of {declared} members"
                    raise ValueError(f"{path}: expected {what}, found {found}")
                _check_arrays(path, [member.filename for member in members], known, required)
                if (total := sum(member.file_size for member in members)) > most_bytes:
                    raise ValueError(f"{path}: {too_large('its arrays', total, most_bytes)}")
                require_memory(path, total)
                heads, kept = [], []
                for member in members:
                    try:
                        heads.append(_read_head(path, archive, member, words))
                        kept.append(member)
                    except _NotPlainError as error:
                        if left_out is None:
                            raise ValueError(str(error)) from None
                        left_out[member.filename.removesuffix(".npy")] = error.reason
                require_memory(
                    path,
                    sum(
                        math.prod(shape)
                        * (
                            dtype.itemsize
                            if dtype.kind in "fU"
                            else max(dtype.itemsize, least_itemsize)
                        )
                        for shape, dtype in heads
                    ),
                )
                return {
                    member.filename.removesuffix(".npy"): _read_array(archive, member)
                    for member in kept
                }
    except (UnicodeDecodeError, struct.error, OverflowError) as error:
        raise ValueError(f"{path}: expected {what}, found damage: {error}") from None


def most_memory() -> tuple[int, str]:
    """Bytes that reading a file may take, and why so many."""
    given = os.environ.get(FILE_MEMORY, "")
    if not given:
        free = psutil.virtual_memory().available // 2
        why = f"4 GB, or half of the memory that is free; {FILE_MEMORY} sets another limit"
        return min(DEFAULT_MEMORY, free), why
    if not (given.isascii() and given.isdecimal()):
        raise ValueError(f"{FILE_MEMORY} must be a number of bytes, got {short(repr(given))}")
    return int(given), f"as {FILE_MEMORY} says"


def require_memory(path: Path, held: int) -> None:
    """Raise a ValueError if a file's arrays, of so many bytes, might take too much to be read."""
    most, why = most_memory()
    if PEAK * held > most:
        raise ValueError(
            f"{path}: its arrays must take at most {most // PEAK:,} bytes of memory, since reading "
            f"them may take {PEAK} times as much and {most:,} may be taken ({why}), got {held:,}"
        )


def read_plain(
    path: Path, split: str, names: tuple[str, ...] = ()
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[str, ...], npt.NDArray[Any] | None]:
    """Images, labels, class names and groups (if any) of one split of a set in an NPZ file."""
    required = [f"{part}_{each}" for each in ("train", "test") for part in "xy"]
    known = (*required, "train_groups", "test_groups", "train_track", "train_frame")
    found = read_npz(path, known, required)
    for name, array in found.items():
        dimensions = (3, 4) if name.startswith("x") else (1,)
        if array.ndim not in dimensions or array.dtype.kind not in "iu":
            raise ValueError(
                f"{path}: array {name!r} must be integers in {' or '.join(map(str, dimensions))} "
                f"dimensions, got {array.dtype} of shape {array.shape}"
            )
    images, labels = found[f"x_{split}"], found[f"y_{split}"].astype(np.int64)
    groups = found.get(f"{split}_groups")
    if split == "train" and "train_track" in found:  # tracks are counted within a class
        groups = labels * (int(found["train_track"].max()) + 1) + found["train_track"]
    classes = 1 + max(int(found[f"y_{each}"].max()) for each in ("train", "test"))
    return (
        images if images.ndim == 4 else images[..., np.newaxis],
        labels,
        names or tuple(map(str, range(classes))),
        None if groups is None else groups.astype(np.int64),
    )


class Lines:
    """Lines of a stream, of which some can be taken aside, and given back."""

    def __init__(self, stream: Any):
        self._stream = stream
        self._back: list[str] = []  # the next one last
        self._error: UnicodeDecodeError | None = None
        self.aside = 0  # lines that were taken and not given back

    def readline(self, size: int) -> str:
        """As a stream's."""
        if not self._back:
            if self._error is not None:
                raise self._error
            return self._stream.readline(size)
        line = self._back.pop()
        if not self._back and self._error is None and line[-1] not in "\r\n":
            line += self._stream.readline(size - len(line))  # it was cut
        return line

    def take(self, count: int, longest: int) -> list[str]:
        """Up to so many lines; none if one of them is longer, or cannot be read."""
        taken: list[str] = []
        while len(taken) < count:
            try:
                line = self._stream.readline(longest)
            except UnicodeDecodeError as error:
                self._error = error
                self._back = taken[::-1]
                return []
            if not line:
                break
            taken.append(line)
            if len(line) == longest:
                self._back = taken[::-1]
                return []
        self.aside += len(taken)
        return taken

    def give_back(self, taken: list[str]) -> None:
        """Lines that are to be read again."""
        self._back += taken[::-1]
        self.aside -= len(taken)


def csv_records(path: Path, stream: Lines, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Go through the rows of a CSV file that have any cell; lines taken aside are counted."""
    since = [0]  # characters since the last row, which quotes may spread over lines
    options = {"delimiter": delimiter, "strict": True, "skipinitialspace": delimiter != "\t"}
    reader, end = csv.reader(_lines(stream, since), **options), 0
    try:
        for record in reader:
            since[0] = 0
            text = "".join(record)
            words = text.split(None, 1)
            if words == [text]:  # nothing to strip, as in most files
                yield end + stream.aside + 1, record
            elif words:
                yield end + stream.aside + 1, [cell.strip() for cell in record]
            end = reader.line_num
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: must be text in UTF-8, got byte {error.object[error.start]:#04x} after row "
            f"{end + stream.aside}; from Windows: save it as 'CSV UTF-8', or iconv -f WINDOWS-1252 "
            "-t UTF-8"
        ) from None
    except csv.Error as error:
        raise ValueError(
            f"{path}: must be CSV, got in row {end + stream.aside + 1}: {error}"
        ) from None


def _lines(stream: Any, since: list[int]) -> Iterator[str]:
    most = min(MOST_LINE, most_memory()[0] // _PER_CHARACTER)
    while line := stream.readline(most + 1):
        since[0] += len(line)
        if since[0] > most:
            raise csv.Error(f"a row of more than {most:,} characters")
        yield line


def number_in(cell: str) -> float:
    """Return the number that a cell holds, NaN if it holds none."""
    if "_" in cell:  # 1_000 is a number to Python, not to others
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return math.nan


def too_large(what: str, size: int, most_bytes: int = MOST_BYTES) -> str:
    """Say that something has too many bytes."""
    return f"{what} must have at most {most_bytes:,} bytes, uncompressed, got {size:,}"


def _check_directory(path: Path, stream: Any) -> int | None:
    """The number of members; a long list is refused, as each would take more memory than it has."""
    end = zipfile._EndRecData(stream)  # None: ZipFile says what is wrong
    if end is not None and end[zipfile._ECD_SIZE] > MOST_DIRECTORY:
        raise ValueError(
            f"{path}: expected an NPZ file, found a list of members of {end[zipfile._ECD_SIZE]:,} "
            "bytes"
        )
    return None if end is None else end[zipfile._ECD_ENTRIES_TOTAL]


def _check_arrays(
    path: Path, members: list[str], known: Collection[str], required: Collection[str]
) -> None:
    names = [name.removesuffix(".npy") for name in members]
    for name, member in zip(names, members, strict=True):
        if known is None and name != member:
            pass
        elif known is None:
            raise ValueError(f"{path}: members must be arrays, *.npy, got {short(member)}")
        elif name not in known or name == member:
            raise ValueError(f"{path}: arrays must be of {', '.join(known)}, got {short(member)}")
        if names.count(name) > 1:
            raise ValueError(f"{path}: array {name!r} must be there once, got it more than once")
    for name in required:
        if name not in names:
            raise ValueError(
                f"{path}: array {name!r} must be there, got {', '.join(names) or 'no array'}"
            )


class _NotPlainError(Exception):
    """An array that holds neither numbers nor, where they are allowed, words."""

    def __init__(self, text: str, reason: str):
        super().__init__(text)
        self.reason = reason


def _read_head(
    path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, words: Collection[str] | None
) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type, of which nothing is believed that the array's bytes do not bear out."""
    name = member.filename.removesuffix(".npy")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(
            f"{path}: array {name!r} must be stored or deflated, as NumPy does, got compression "
            f"{member.compress_type}"
        )
    with archive.open(member) as whole:
        head = whole.read(_MOST_HEADER)  # it states its own length
    return _checked_head(path, name, head, member.file_size, words)


def _checked_head(
    path: Path, name: str, head: bytes, size: int, words: Collection[str] | None
) -> tuple[tuple[int, ...], np.dtype]:
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the format")
        shape, _, dtype = _HEADERS[version](stream)
    except _BAD_HEADER as error:
        # What Python's parser says is of its own, down to addresses that are never the same twice.
        parsers = not isinstance(error, ValueError) or " object at 0x" in str(error)
        said = "a header that no version of NumPy writes" if parsers else error
        raise ValueError(
            f"{path}: array {name!r} must be in NumPy's format, got {short(said)}: write the file "
            "by numpy.savez"
        ) from None
    if dtype.hasobject:
        what = f"got {short(dtype)}, which would have to be unpickled"
        save = f"save {name}.astype(str), or {name}.astype(float) of numbers"
        raise _NotPlainError(
            f"{path}: array {name!r} must be real numbers, {what}: {save}",
            f"Python objects, which would have to be unpickled: {save}",
        )
    if dtype.kind not in ("fiubU" if words is None or name in words else "fiub"):
        raise _NotPlainError(
            f"{path}: array {name!r} must be real numbers, got {short(dtype)}",
            f"neither numbers nor words: {short(dtype)}"
            + f": save {name}.astype(str)" * (dtype.kind == "S"),
        )
    # A shape that the bytes do not fill would take its memory all the same.
    if min(shape, default=1) < 1:
        raise ValueError(f"{path}: array {name!r} must have rows and columns, got {shape}")
    stated = stream.tell() + math.prod(shape) * dtype.itemsize
    if stated != size:
        raise ValueError(
            f"{path}: array {name!r} must have the {stated} bytes that its shape {shape} of "
            f"{dtype} takes, got {size}"
        )
    if dtype.kind == "U" and dtype.itemsize > 4 * MOST_CHARACTERS:
        raise _NotPlainError(
            f"{path}: array {name!r} must be words of at most {MOST_CHARACTERS} characters, "
            f"got {dtype.itemsize // 4:,}",
            f"words of more than {MOST_CHARACTERS} characters",
        )
    return shape, dtype


def read_npy(path: Path) -> npt.NDArray[Any]:
    """Read one array of numbers or words from an NPY file; nothing is unpickled."""
    with path.open("rb") as stream:
        head, size = stream.read(_MOST_HEADER), path.stat().st_size
        if size > MOST_BYTES:
            raise ValueError(f"{path}: {too_large('it', size)}")
        try:
            shape, dtype = _checked_head(path, path.stem, head, size, None)
        except _NotPlainError as error:
            raise ValueError(str(error)) from None
        require_memory(path, math.prod(shape) * max(dtype.itemsize, 8))
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
