"""Published image files, read in their own formats: IDX, CIFAR, SVHN, GTSRB, JPEGs in a tar.

Every reader of a data set returns ``(images, labels, names)``: uint8 of shape (n, height, width,
channels), int64 of shape (n,) and the classes' names.  A file that is damaged, cut short or of
another kind gives one :class:`ValueError` with the file's name, what was expected and what was
found.  Nothing is unpickled and nothing is extracted to the disk: members of archives are looked up
by the exact name they must have, so that one called ``../../x`` is never touched.
"""

import csv
import errno
import gzip
import io
import math
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

__all__ = [
    "FASHION_NAMES",
    "GTSRB_SIZE",
    "SPLITS",
    "Parsed",
    "decode_image",
    "is_plain_file",
    "read_cifar10",
    "read_cifar100",
    "read_fashion_mnist",
    "read_gtsrb_test",
    "read_gtsrb_training",
    "read_idx",
    "read_jpeg_tar",
    "read_svhn",
    "reading",
    "walk_tar",
]

Parsed = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], tuple[str, ...]]

SPLITS = ("train", "test")
FASHION_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
GTSRB_CLASSES = 43
GTSRB_SIZE = (32, 32)
CHUNK = 1 << 20  # bytes


# --- Fashion-MNIST ------------------------------------------------------------------------------


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """Read a gzip-compressed IDX file of unsigned bytes, the format of MNIST and Fashion-MNIST.

    Parameters
    ----------
    path : Path
        The file.
    dimensions : int
        How many the array must have: 3 for images, 1 for labels.

    Returns
    -------
    ndarray of uint8
        In the shape that the file states.

    Raises
    ------
    ValueError
        If it is not gzip, the magic number is another, or the data are too short or too long.
    """
    with reading(path, "a gzip-compressed IDX file"), gzip.open(path) as stream:
        magic, expected = stream.read(4), bytes([0, 0, 8, dimensions])
        if magic != expected:
            raise ValueError(
                f"{path}: expected the IDX magic number {expected.hex()} (unsigned bytes in"
                f" {dimensions} dimensions), found {magic.hex() or 'an empty file'}"
            )
        head = stream.read(4 * dimensions)
        if len(head) != 4 * dimensions:
            raise ValueError(f"{path}: expected {dimensions} IDX dimensions, found the file's end")
        shape = struct.unpack(f">{dimensions}I", head)
        data = _read(stream, math.prod(shape), path)
    if not data:
        raise ValueError(f"{path}: expected at least one value, found an array of shape {shape}")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def read_fashion_mnist(images: Path, labels: Path) -> Parsed:
    """Read one split of Fashion-MNIST (H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747).

    Parameters
    ----------
    images, labels : Path
        ``...-images-idx3-ubyte.gz`` and ``...-labels-idx1-ubyte.gz``.

    Returns
    -------
    Parsed
        Images of one channel.

    Raises
    ------
    ValueError
        As :func:`read_idx`; also if the two files do not fit or a label is not in 0 to 9.
    """
    pixels, classes = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(classes):
        raise ValueError(f"{labels}: expected {len(pixels)} labels, found {len(classes)}")
    return pixels[..., np.newaxis], _labels(classes, len(FASHION_NAMES), labels), FASHION_NAMES


# --- CIFAR --------------------------------------------------------------------------------------


def read_cifar10(path: Path, split: str) -> Parsed:
    """Read one split of CIFAR-10 from ``cifar-10-binary.tar.gz``.

    Each record is one byte of label and 3072 of pixels, one colour plane after the other
    (https://www.cs.toronto.edu/~kriz/cifar.html).

    Parameters
    ----------
    path : Path
        The archive.
    split : {"train", "test"}
        The five training batches in their order, or the test batch.

    Raises
    ------
    ValueError
        If the archive is damaged, lacks a member or holds one of a wrong length, or a label is not
        in 0 to 9.
    """
    batches = [f"data_batch_{number}.bin" for number in range(1, 6)]
    files = {"train": batches, "test": ["test_batch.bin"]}[_split(split)]
    members = _tar_members(path, "cifar-10-batches-bin/", [*files, "batches.meta.txt"])
    names = _class_names(members["batches.meta.txt"], 10, f"{path}: batches.meta.txt")
    images, labels = _records([members[file] for file in files], files, (10,), path)
    return images, labels[0], names


def read_cifar100(path: Path, split: str, labels: str = "fine") -> Parsed:
    """Read one split of CIFAR-100 from ``cifar-100-binary.tar.gz``.

    Each record is one byte of coarse label, one of fine label and 3072 of pixels.

    Parameters
    ----------
    path : Path
        The archive.
    split : {"train", "test"}
        Which images.
    labels : {"fine", "coarse"}
        The 100 classes or the 20 superclasses.

    Raises
    ------
    ValueError
        As :func:`read_cifar10`.
    """
    if labels not in ("fine", "coarse"):
        raise ValueError(f"labels must be one of ('fine', 'coarse'), got {labels!r}")
    file, listing = f"{_split(split)}.bin", f"{labels}_label_names.txt"
    members = _tar_members(path, "cifar-100-binary/", [file, listing])
    column, classes = (1, 100) if labels == "fine" else (0, 20)
    names = _class_names(members[listing], classes, f"{path}: {listing}")
    images, both = _records([members[file]], [file], (20, 100), path)
    return images, both[column], names


def _records(
    contents: Sequence[bytes], files: Sequence[str], classes: tuple[int, ...], path: Path
) -> tuple[npt.NDArray[np.uint8], list[npt.NDArray[np.int64]]]:
    """Images and, for each of the labels that a record starts with, the column of labels."""
    length = len(classes) + 3072
    for content, file in zip(contents, files, strict=True):
        if not content or len(content) % length:
            raise ValueError(
                f"{path}: {file}: expected records of {length} bytes, found {len(content)} bytes"
            )
    rows = np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(-1, length)
    planes = rows[:, len(classes) :].reshape(-1, 3, 32, 32)
    labels = [_labels(rows[:, column], count, path) for column, count in enumerate(classes)]
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def _class_names(content: bytes, count: int, where: str) -> tuple[str, ...]:
    names = content.decode("ascii", "replace").split()
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"{where}: expected {count} different class names, found {len(names)}")
    return tuple(names)


def read_jpeg_tar(path: Path, split: str) -> Parsed:
    """Read one split of CIFAR-10 that was re-encoded as JPEG.

    JPEG is lossy: the pixels are near those of CIFAR-10 but not the same, and results on them are
    not results on CIFAR-10.  Hence the name ``cifar10-jpeg``, which must go wherever they go.

    Parameters
    ----------
    path : Path
        A gzip-compressed tar archive of ``<split>/<class>/<number>.jpg``, read as a stream.
        Other members are ignored.
    split : {"train", "test"}
        Which images.

    Returns
    -------
    Parsed
        Ordered by class name, then number; labels count the class names in that order.

    Raises
    ------
    ValueError
        If the archive is damaged, has fewer than two classes, the numbers of a class do not run
        from 0 without gap, or an image is not a JPEG of 32 x 32 pixels in colour.
    """
    pattern = re.compile(rf"{_split(split)}/([a-z]+)/([0-9]{{4}})\.jpg")
    files: dict[tuple[str, int], bytes] = {}
    for member, read in walk_tar(path):
        match = pattern.fullmatch(member.name)
        if match and is_plain_file(member):
            key = (match[1], int(match[2]))
            if key in files:
                raise ValueError(f"{path}: expected {member.name} once, found it twice")
            files[key] = read()
    keys = sorted(files)
    names = tuple(sorted({name for name, _ in keys}))
    if len(names) < 2:
        raise ValueError(
            f"{path}: expected {split}/<class>/<number>.jpg of two or more classes, found classes"
            f" {list(names)}"
        )
    for name in names:
        numbers = [number for each, number in keys if each == name]
        if numbers != list(range(len(numbers))):
            raise ValueError(
                f"{path}: expected the images of {split}/{name} to be numbered from 0 without gap,"
                f" found {len(numbers)} of them, the last {numbers[-1]}"
            )
    images = np.empty((len(keys), 32, 32, 3), dtype=np.uint8)
    for row, (name, number) in enumerate(keys):
        where = f"{path}: {split}/{name}/{number:04d}.jpg"
        picture = decode_image(files[name, number], where, ("JPEG",))
        if picture.size != (32, 32) or picture.mode != "RGB":
            raise ValueError(
                f"{where}: expected 32 x 32 pixels in colour, found {picture.width} x"
                f" {picture.height} in mode {picture.mode}"
            )
        images[row] = picture
    number_of = {name: label for label, name in enumerate(names)}
    return images, np.array([number_of[name] for name, _ in keys], dtype=np.int64), names


# --- SVHN ---------------------------------------------------------------------------------------


def read_svhn(path: Path) -> Parsed:
    """Read ``train_32x32.mat`` or ``test_32x32.mat`` of SVHN's cropped digits.

    The file labels the digit 0 as 10; here its label is 0, so that a label is its digit
    (Y. Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011).

    Parameters
    ----------
    path : Path
        The file, in MATLAB's version 5 format.

    Raises
    ------
    ValueError
        If it is damaged, holds other variables than X, uint8 of shape (32, 32, 3, n), and y, of
        shape (n, 1), or a label is not in 1 to 10.
    """
    from scipy.io import loadmat  # here, as importing it takes a while

    with open(path, "rb") as stream:
        try:
            content = loadmat(stream)
        except Exception as error:  # whatever SciPy stumbles over first in a damaged file
            found = f"{type(error).__name__}: {_one_line(error)}"
            raise ValueError(f"{path}: expected a MATLAB 5 file, found {found}") from error
    found = sorted(name for name in content if not name.startswith("__"))
    if found != ["X", "y"]:
        raise ValueError(f"{path}: expected the variables X and y, found {found}")
    pixels, digits = content["X"], content["y"]
    if pixels.dtype != np.uint8 or pixels.shape[:3] != (32, 32, 3) or pixels.ndim != 4:
        raise ValueError(
            f"{path}: expected X to be uint8 of shape (32, 32, 3, n), found {pixels.dtype} of shape"
            f" {pixels.shape}"
        )
    if digits.dtype.kind not in "iuf" or digits.shape != (pixels.shape[3], 1):
        raise ValueError(
            f"{path}: expected y to be numbers of shape ({pixels.shape[3]}, 1), found"
            f" {digits.dtype} of shape {digits.shape}"
        )
    wrong = ~np.isin(digits, np.arange(1, 11))
    if digits.size == 0 or wrong.any():
        what = digits[wrong][0] if digits.size else "no labels"
        raise ValueError(f"{path}: expected labels from 1 to 10, found {what}")
    images = np.ascontiguousarray(pixels.transpose(3, 0, 1, 2))
    return images, digits[:, 0].astype(np.int64) % 10, tuple("0123456789")


# --- GTSRB --------------------------------------------------------------------------------------


def read_gtsrb_training(path: Path) -> Parsed:
    """Read the training images of the German Traffic Sign Recognition Benchmark.

    The images are of 15 to 250 pixels a side.  Each is resized, border and all, to 32 x 32 pixels
    by Pillow's bilinear filter, which averages over all the pixels it covers when it shrinks; the
    ratio of the sides is not kept.

    Parameters
    ----------
    path : Path
        ``GTSRB-Training_fixed.zip``, with ``GTSRB/Training/<class>/GT-<class>.csv`` and the images
        that it lists, for the 43 classes 00000 to 00042.

    Returns
    -------
    Parsed
        Ordered by class, then as in its CSV file; a class's name is its number of five digits.

    Raises
    ------
    ValueError
        If the archive is damaged, a CSV file or an image is missing, not listed or unreadable, or a
        class id is not that of its folder.
    """
    with reading(path, "a zip archive"), zipfile.ZipFile(path) as archive:
        images, labels = [], []
        for label in range(GTSRB_CLASSES):
            folder = f"GTSRB/Training/{label:05d}/"
            rows = _gtsrb_rows(path, archive, f"{folder}GT-{label:05d}.csv")
            if wrong := {number for _, number in rows} - {label}:
                raise ValueError(
                    f"{path}: {folder}GT-{label:05d}.csv: expected class id {label} only, found"
                    f" {min(wrong)}"
                )
            images += _gtsrb_images(path, archive, folder, [name for name, _ in rows])
            labels += [label] * len(rows)
    return np.stack(images), np.array(labels, dtype=np.int64), _gtsrb_names()


def read_gtsrb_test(images: Path, labels: Path) -> Parsed:
    """Read the test images of the German Traffic Sign Recognition Benchmark.

    They are resized as :func:`read_gtsrb_training` does it.

    Parameters
    ----------
    images : Path
        ``GTSRB_Final_Test_Images.zip``, with ``GTSRB/Final_Test/Images/<number>.ppm``.
    labels : Path
        ``GTSRB_Final_Test_GT.zip``, with ``GT-final_test.csv``.

    Returns
    -------
    Parsed
        Ordered as in the CSV file.

    Raises
    ------
    ValueError
        As :func:`read_gtsrb_training`; a class id must be in 0 to 42.
    """
    with reading(labels, "a zip archive"), zipfile.ZipFile(labels) as archive:
        rows = _gtsrb_rows(labels, archive, "GT-final_test.csv")
    with reading(images, "a zip archive"), zipfile.ZipFile(images) as archive:
        folder = "GTSRB/Final_Test/Images/"
        pixels = _gtsrb_images(images, archive, folder, [name for name, _ in rows])
    numbers = np.array([number for _, number in rows], dtype=np.int64)
    return np.stack(pixels), numbers, _gtsrb_names()


def _gtsrb_names() -> tuple[str, ...]:
    return tuple(f"{label:05d}" for label in range(GTSRB_CLASSES))


def _gtsrb_rows(path: Path, archive: zipfile.ZipFile, member: str) -> list[tuple[str, int]]:
    """File names and class ids, in the order of a table with semicolons."""
    where = f"{path}: {member}"
    if member not in archive.namelist():
        raise ValueError(f"{path}: expected the member {member}, found none of that name")
    text = archive.read(member).decode("ascii", "replace")
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=";")
    columns = table.fieldnames or []
    if missing := {"Filename", "ClassId"} - set(columns):
        raise ValueError(f"{where}: expected the columns {sorted(missing)}, found {columns}")
    rows = []
    for line, row in enumerate(table, start=2):
        name, number = row["Filename"] or "", row["ClassId"] or ""
        if not re.fullmatch(r"[0-9_]+\.ppm", name):
            raise ValueError(f"{where}: line {line}: expected <digits>.ppm, found {name!r}")
        if not re.fullmatch("[0-9]{1,2}", number) or int(number) >= GTSRB_CLASSES:
            raise ValueError(
                f"{where}: line {line}: expected a class id from 0 to {GTSRB_CLASSES - 1}, found"
                f" {number!r}"
            )
        rows.append((name, int(number)))
    if not rows or len({name for name, _ in rows}) != len(rows):
        raise ValueError(f"{where}: expected different file names, found {len(rows)} lines")
    return rows


def _gtsrb_images(
    path: Path, archive: zipfile.ZipFile, folder: str, names: Sequence[str]
) -> list[npt.NDArray[np.uint8]]:
    here = {name for name in archive.namelist() if name.startswith(folder)}
    if odd := {folder + name for name in names} ^ {x for x in here if x.endswith(".ppm")}:
        raise ValueError(
            f"{path}: expected exactly the images that the CSV file lists in {folder}, found"
            f" {min(odd)} in one place only"
        )
    images = []
    for name in names:
        picture = decode_image(archive.read(folder + name), f"{path}: {folder}{name}", ("PPM",))
        small = picture.convert("RGB").resize(GTSRB_SIZE, Image.Resampling.BILINEAR)
        images.append(np.asarray(small))
    return images


# --- shared -------------------------------------------------------------------------------------


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn the ways in which decoders report damage into one error that names the file.

    Parameters
    ----------
    path : Path
        The file being read.
    what : str
        What it is expected to be.

    Raises
    ------
    ValueError
        Instead of the errors of gzip, zlib, tarfile and zipfile.
    """
    try:
        yield
    except (
        OSError,
        zlib.error,
        tarfile.TarError,
        zipfile.BadZipFile,
        csv.Error,
        EOFError,
        NotImplementedError,  # an unusual way of compression
        RuntimeError,  # an encrypted member
    ) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # not the content's fault; an invalid argument is an offset read from it
        found = _one_line(error) or type(error).__name__
        raise ValueError(f"{path}: expected {what}, found damage: {found}") from error


def walk_tar(path: Path) -> Iterator[tuple[tarfile.TarInfo, Callable[[], bytes]]]:
    """Go through a tar archive, compressed by gzip or not, once from its start to its end.

    Parameters
    ----------
    path : Path
        The archive.

    Yields
    ------
    member : tarfile.TarInfo
        Its name is as in the archive: never use it as a path.
    read : callable
        Returns the member's content; to be called before the next member is asked for.

    Raises
    ------
    ValueError
        If the archive is damaged, cut short or followed by something else.
    """
    what = "a tar archive"
    with (
        reading(path, what),
        _open(path) as stream,
        tarfile.open(fileobj=stream, mode="r:") as archive,
    ):
        while (member := archive.next()) is not None:
            yield member, partial(_member, path, archive, member)
        # tarfile takes a bad header for the end; the true one is a block of zeros, then more.
        complete = stream.tell() == archive.offset + tarfile.BLOCKSIZE
        while chunk := stream.read(CHUNK):
            complete = complete and not chunk.strip(b"\0")
        if not complete:
            raise ValueError(f"{path}: expected the archive's end mark, found other bytes or none")


def _member(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    with reading(path, f"the member {member.name!r}"):
        return archive.extractfile(member).read()


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    with open(path, "rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if compressed else open(path, "rb")


def is_plain_file(member: tarfile.TarInfo) -> bool:
    """Whether a member holds bytes of its own: no link, device, folder or sparse file."""
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)


def _tar_members(path: Path, folder: str, names: Collection[str]) -> dict[str, bytes]:
    """The content of exactly these files of a gzip-compressed tar archive."""
    found: dict[str, bytes] = {}
    for member, read in walk_tar(path):
        name = member.name.removeprefix(folder)
        if member.name == folder + name and name in names and is_plain_file(member):
            if name in found:
                raise ValueError(f"{path}: expected {member.name} once, found it twice")
            found[name] = read()
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"{path}: expected the member {folder}{missing[0]}, found none")
    return found


def decode_image(content: bytes, where: str, formats: Sequence[str]) -> Image.Image:
    """Decode an encoded image of one of the named formats of Pillow.

    Parameters
    ----------
    content : bytes
        The encoded image.
    where : str
        Its name, for errors.
    formats : sequence of str
        E.g. ``("JPEG",)``.  No other decoder is tried.

    Returns
    -------
    PIL.Image.Image
        Decoded to the last pixel.

    Raises
    ------
    ValueError
        If it is of another format, damaged, cut short or absurdly large.
    """
    try:
        picture = Image.open(io.BytesIO(content), formats=list(formats))
        picture.load()
    except UnidentifiedImageError:  # its own message is of no use
        found: Any = f"{len(content)} bytes of something else"
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        IndexError,
        TypeError,
        struct.error,
        zlib.error,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        found = f"damage: {_one_line(error)}"
    else:
        return picture
    raise ValueError(f"{where}: expected an image ({' or '.join(formats)}), found {found}")


def _read(stream: BinaryIO | gzip.GzipFile, size: int, path: Path) -> bytes:
    """Exactly ``size`` bytes up to the end; asks for no more memory than there are bytes."""
    data = bytearray()
    while len(data) <= size and (chunk := stream.read(min(CHUNK, size + 1 - len(data)))):
        data += chunk
    if len(data) != size:
        found = f"{len(data)}" if len(data) < size else "more"
        raise ValueError(f"{path}: expected {size} bytes of data, found {found}")
    return bytes(data)


def _labels(values: npt.NDArray[np.uint8], classes: int, path: Path) -> npt.NDArray[np.int64]:
    if len(values) and values.max() >= classes:
        row = int(np.argmax(values >= classes))
        raise ValueError(
            f"{path}: expected labels from 0 to {classes - 1}, found {values[row]} in row {row}"
        )
    return values.astype(np.int64)


def _split(split: str) -> str:
    if split not in SPLITS:
        raise ValueError(f"split must be one of {SPLITS}, got {split!r}")
    return split


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
