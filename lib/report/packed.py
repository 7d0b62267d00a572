"""Text of a file, packed or not, in the encoding that its first bytes say."""

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from lib.data.arrays import MOST_BYTES
from lib.data.untrusted import short

#: Endings of packed files.
PACKED = (".gz", ".bz2", ".xz", ".zip")
#: First bytes of files that are no text, and the endings that such files have.
_MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zX": ".xz", b"PAR1": ".parquet",
          b"PK\x03\x04": ".zip, .npz or .xlsx", b"\x93NUM": ".npy"}  # fmt: skip
_OPEN = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BROKEN = (
    OSError, EOFError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError,
    zipfile.BadZipFile,
)  # fmt: skip


class _Unpacked(io.RawIOBase):
    """Bytes of a packed file, no more than :data:`lib.data.arrays.MOST_BYTES` of them."""

    def __init__(self, path: Path, stream: Any):
        super().__init__()
        self._path, self._stream, self._count = path, stream, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As a stream's."""
        try:
            found = self._stream.read(len(buffer))
        except _BROKEN as error:
            raise _broken(self._path, error) from None
        self._count += len(found)
        if self._count > MOST_BYTES:
            raise ValueError(f"{self._path}: it must have at most {MOST_BYTES:,} bytes, unpacked")
        buffer[: len(found)] = found
        return len(found)


def inner_suffix(path: Path) -> str:
    """The ending of the file that a packed one holds, in small letters; else its own."""
    suffix = path.suffix.lower()
    if suffix not in PACKED:
        return suffix
    if suffix != ".zip":
        return Path(path.stem).suffix.lower()
    try:
        with zipfile.ZipFile(path) as archive:
            return Path(_member(path, archive)).suffix.lower()
    except _BROKEN as error:
        raise _broken(path, error) from None


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Text of a file, line ends as they are.

    Raises
    ------
    ValueError
        If a packed file is broken, or is no single file, or is too large once it is unpacked.
    """
    encoding = _encoding(path)
    with _bytes(path) as stream, io.TextIOWrapper(stream, encoding, newline="") as text:
        yield text


@contextmanager
def _bytes(path: Path) -> Iterator[Any]:
    suffix = path.suffix.lower()
    if suffix not in PACKED:
        with path.open("rb") as stream:
            yield stream
    elif suffix == ".zip":
        try:
            archive = zipfile.ZipFile(path)
        except _BROKEN as error:
            raise _broken(path, error) from None
        with archive:
            try:
                stream = archive.open(_member(path, archive))
            except _BROKEN as error:
                raise _broken(path, error) from None
            with stream:
                yield io.BufferedReader(_Unpacked(path, stream))
    else:
        with _OPEN[suffix](path, "rb") as stream:
            yield io.BufferedReader(_Unpacked(path, stream))


def _member(path: Path, archive: zipfile.ZipFile) -> str:
    """The only file of an archive, apart from what macOS adds."""
    names = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX")]
    if len(names) != 1:
        raise ValueError(f"{path}: must hold one file, got {len(names):,}: unpack it first")
    return names[0]


def _broken(path: Path, error: Exception) -> ValueError:
    said = short(str(error) or type(error).__name__)
    return ValueError(f"{path}: must be a file packed as {path.suffix.lower()}, got {said}")


def _encoding(path: Path) -> str:
    """UTF-8, or UTF-16 by the mark that spreadsheets write first, or by zeros beside letters."""
    with _bytes(path) as stream:
        first = stream.read(4)
    for begin, endings in _MAGIC.items():
        if first.startswith(begin):
            raise ValueError(f"{path}: must be text, got a file as of {endings}: name it so")
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    zeros = [byte == 0 for byte in first]
    told = {(False, True, False, True): "utf-16-le", (True, False, True, False): "utf-16-be"}
    return told.get(tuple(zeros), "utf-8-sig")
