"""A user's own images: a folder, tar or zip with one folder per class."""

import stat
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from lib.data.arrays import most_memory
from lib.data.formats import (
    MOST_FACTOR,
    decode_image,
    is_plain_file,
    reading,
    require_member,
    require_members,
    unpacks_to_too_much,
    walk_tar,
)
from lib.data.images import ImageSet
from lib.data.untrusted import printable, printable_errors

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""What an image may be encoded as: formats that Pillow decodes by itself."""

MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # of 8 bits at most
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")

_Parts = tuple[str, ...]
_Entry = tuple[str, Callable[[], bytes] | None]  # a name in the tree and its reader; a folder: None


@printable_errors()
def load_folder(
    path: str | Path, size: tuple[int, int], channels: int = 3, name: str | None = None
) -> ImageSet:
    """Load images of which each lies in the folder of its class.

    Parameters
    ----------
    path : path-like
        A directory or a .tar, .tar.gz, .tgz or .zip archive with ``<class>/<image>``; in an archive
        the classes may lie in one common folder.  An archive is read in place, never extracted.
        Every file in a class's folder must be an image, in one of :data:`FORMATS`; hidden files and
        files beside the class folders are ignored.  Links and, in archives, names that lead
        elsewhere are not followed; a warning counts them.
    size : (int, int)
        Height and width, to which every image is resized by Pillow's bilinear filter without
        keeping the ratio of its sides.
    channels : {3, 1}
        Colour or grey.  Transparency is dropped; the orientation in a photograph's EXIF data is
        applied.
    name : str, optional
        The label to show with results; the file's or directory's name by default.

    Returns
    -------
    ImageSet
        Ordered by class name, then file name; the labels count the sorted class names.

    Raises
    ------
    FileNotFoundError
        If there is nothing at ``path``.
    ValueError
        If an argument is out of its range; the archive is damaged, unpacks to more than 100 times
        its bytes or has more than 1.5 million members; the images would take more memory than
        ``COMPANION_FILE_MEMORY`` allows; there are fewer than two classes; a class has no images; a
        file cannot be decoded, has more than 8 bits per channel, or lies deeper than the class
        folders.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         pathlib.Path(folder, name).mkdir()
    ...         Image.new("RGB", (20, 10)).save(f"{folder}/{name}/1.png")
    ...     found = load_folder(folder, size=(8, 8))
    >>> found.names, found.images.shape
    (('cat', 'dog'), (2, 8, 8, 3))
    """
    path = Path(path)
    if not (
        isinstance(size, tuple)
        and len(size) == 2
        and all(type(each) is int and each >= 1 for each in size)
    ):
        raise ValueError(f"size must be two positive ints (height, width), got {size!r}")
    if type(channels) is not int or channels not in (1, 3):
        raise ValueError(f"channels must be 1 or 3, got {channels!r}")
    suffix = next((each for each in SUFFIXES if path.name.lower().endswith(each)), "")
    if not (path.is_dir() or path.is_file()):
        raise FileNotFoundError(f"path: there is no directory or file at {path}")
    if not (path.is_dir() or suffix):
        raise ValueError(f"path must be a directory or one of {', '.join(SUFFIXES)}, got {path}")

    skipped: list[str] = []
    rows, names = _plan(path, _walk(path, skipped))
    if skipped:
        warnings.warn(
            f"{path}: {len(skipped)} entries are not followed (links, or names that lead"
            f" elsewhere), e.g. {skipped[0]!r}",
            stacklevel=3,
        )
    held, (most, why) = len(rows) * size[0] * size[1] * channels, most_memory()
    if held > most:
        raise ValueError(
            f"{path}: {len(rows):,} images of size {size} must take at most {most:,} bytes ({why}),"
            f" got {held:,}"
        )
    images = np.empty((len(rows), *size, channels), dtype=np.uint8)
    done = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        for entry, read in _walk(path, []):  # again, now that it is known to be in order
            if read is not None and entry in rows:
                images[rows[entry]] = _pixels(read(), f"{path}: {entry}", size, channels)
                done += 1
    if done != len(rows):
        raise ValueError(f"{path}: expected {len(rows)} images, found {done}: it was changed")
    labels = np.array([names.index(entry.split("/")[-2]) for entry in rows], dtype=np.int64)
    own_name = path.resolve().name if path.is_dir() else path.name[: -len(suffix)]
    return ImageSet(name if name is not None else printable(own_name), images, labels, names)


def _plan(path: Path, entries: Iterator[_Entry]) -> tuple[dict[str, int], tuple[str, ...]]:
    """The row of each image by its name in the tree, in order of rows, and the classes."""
    files: set[_Parts] = set()
    folders: set[_Parts] = set()
    for entry, read in entries:
        parts = tuple(entry.split("/"))
        if any(part.startswith(".") or part == "__MACOSX" for part in parts):
            continue
        if read is None:
            folders.add(parts)
        elif parts in files:
            raise ValueError(f"{path}: expected {entry} once, found it twice")
        else:
            files.add(parts)
    # An archive of a folder has that folder around the classes.
    tops = {parts[0] for parts in files if len(parts) > 1} | {parts[0] for parts in folders}
    wrapped = not path.is_dir() and len(tops) == 1 and any(len(parts) > 2 for parts in files)
    level = 1 if wrapped else 0
    files = {parts for parts in files if len(parts) > level + 1}
    if deep := sorted(parts for parts in files if len(parts) > level + 2):
        raise ValueError(f"{path}: expected <class>/<image>, found {'/'.join(deep[0])}")
    with_images = {parts[level] for parts in files}
    names = sorted(with_images | {parts[level] for parts in folders if len(parts) > level})
    if len(names) < 2:
        found = f"the one class {names[0]!r}" if names else "no class"
        raise ValueError(
            f"{path}: expected a folder for each of two or more classes, found {found}"
        )
    if empty := [name for name in names if name not in with_images]:
        raise ValueError(f"{path}: expected images in every class, found none in {empty[0]!r}")
    rows = {"/".join(parts): row for row, parts in enumerate(sorted(files))}
    return rows, tuple(names)


def _pixels(
    content: bytes, where: str, size: tuple[int, int], channels: int
) -> npt.NDArray[np.uint8]:
    picture = decode_image(content, where, FORMATS)
    if picture.mode not in MODES:
        raise ValueError(f"{where}: expected 8 bits per channel, found mode {picture.mode}")
    try:
        upright = ImageOps.exif_transpose(picture)
    except Exception as error:  # Pillow has no one error for damaged EXIF data
        raise ValueError(f"{where}: expected EXIF data or none, found {error!r}") from error
    if "transparency" in upright.info:
        upright = upright.convert("RGBA")
    upright = upright.convert("RGB" if channels == 3 else "L")
    pixels = np.asarray(upright.resize(size[::-1], Image.Resampling.BILINEAR))
    return pixels.reshape(*size, channels)


def _walk(path: Path, skipped: list[str]) -> Iterator[_Entry]:
    if path.is_dir():
        return _directory(path, skipped)
    return _zip(path, skipped) if path.name.lower().endswith(".zip") else _tar(path, skipped)


def _directory(root: Path, skipped: list[str], prefix: str = "") -> Iterator[_Entry]:
    for path in sorted(root.iterdir()):
        name = prefix + path.name
        if path.name.startswith("."):
            continue
        if path.is_symlink() or not (path.is_dir() or path.is_file()) or not name.isprintable():
            skipped.append(name)
        elif path.is_dir():
            yield name, None
            yield from _directory(path, skipped, f"{name}/")
        else:
            yield name, path.read_bytes


def _tar(path: Path, skipped: list[str]) -> Iterator[_Entry]:
    for member, read in walk_tar(path):
        name = _inside(member.name)
        if name is None or not (member.isdir() or is_plain_file(member)):
            skipped.append(member.name)
        elif name:
            yield name, None if member.isdir() else read


def _zip(path: Path, skipped: list[str]) -> Iterator[_Entry]:
    with reading(path, "a zip archive"), path.open("rb") as stream:
        end = zipfile._EndRecData(stream)  # before the list of members is read; None: no zip
        require_members(path, end[zipfile._ECD_ENTRIES_TOTAL] if end else 0)
        require_members(path, end[zipfile._ECD_SIZE] // zipfile.sizeCentralDir if end else 0)
        archive = zipfile.ZipFile(stream)
        members = archive.infolist()
        if sum(member.file_size for member in members) > MOST_FACTOR * path.stat().st_size:
            raise unpacks_to_too_much(path)
        for member in members:
            name = _inside(member.filename)
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where the writer knows no kinds
            if name is None or kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                skipped.append(member.filename)
            elif name:
                yield name, None if member.is_dir() else partial(_zipped, path, archive, member)


def _zipped(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    require_member(path, member.filename, member.file_size)
    with reading(path, f"the member {member.filename!r}"):
        return archive.read(member)


def _inside(name: str) -> str | None:
    """The name without ./ and a final /, or None if it may lead out of the archive's tree."""
    plain = "" if name == "." else name.removeprefix("./").removesuffix("/")
    parts = plain.split("/")
    odd = any(part in ("", ".", "..") or not part.isprintable() for part in parts)
    return None if plain and (odd or "\\" in plain or ":" in parts[0]) else plain
