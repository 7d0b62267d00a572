"""Published image files, read in their own formats: IDX, CIFAR, SVHN, GTSRB.

Every reader of a data set returns ``(images, labels, names)``: uint8 of shape (n, height, width,
channels), int64 of shape (n,) and the classes' names.  These files are the ones whose SHA-256 the
registry states: what is in them is not checked again.  Damage becomes one :class:`ValueError` with
the file's name.  Nothing is unpickled and nothing is extracted to the disk: members of archives are
looked up by the exact name they must have.
"""

import csv
import errno
import gzip
import io
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

from lib.data.untrusted import short

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
CIFAR10_NAMES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
GTSRB_CLASSES = 43
GTSRB_SIZE = (32, 32)
GTSRB_NAMES = tuple(f"{label:05d}" for label in range(GTSRB_CLASSES))
CHUNK = 1 << 20  # bytes
MOST_FACTOR = 100  # times the bytes of an archive that its members may unpack to
MOST_MEMBERS = 1_500_000  # of an archive; ImageNet has 1.3 million images
MOST_MEMBER = 1_000_000_000  # bytes of one member


# --- published sets -----------------------------------------------------------------------------


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """A gzip-compressed IDX file of unsigned bytes: the format of MNIST and Fashion-MNIST."""
    with gzip.open(path) as stream:
        content = stream.read()
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_fashion_mnist(images: Path, labels: Path) -> Parsed:
    """One split of Fashion-MNIST (H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747)."""
    return read_idx(images, 3)[..., np.newaxis], read_idx(labels, 1).astype(np.int64), FASHION_NAMES


def read_cifar10(path: Path, split: str) -> Parsed:
    """One split of CIFAR-10 from ``cifar-10-binary.tar.gz``.

    Each record is one byte of label and 3072 of pixels, one color plane after the other
    (https://www.cs.toronto.edu/~kriz/cifar.html).
    """
    batches = [f"data_batch_{number}.bin" for number in range(1, 6)]
    files = {"train": batches, "test": ["test_batch.bin"]}[_split(split)]
    *contents, names = _tar_members(path, "cifar-10-batches-bin/", [*files, "batches.meta.txt"])
    images, labels = _records(contents, 1)
    return images, labels[:, 0], tuple(names.decode("ascii").split())


def read_cifar100(path: Path, split: str) -> Parsed:
    """One split of CIFAR-100 from ``cifar-100-binary.tar.gz``, with its 100 fine classes.

    Each record is one byte of coarse label, one of fine label and 3072 of pixels.
    """
    files = [f"{_split(split)}.bin", "fine_label_names.txt"]
    content, names = _tar_members(path, "cifar-100-binary/", files)
    images, both = _records([content], 2)
    return images, both[:, 1], tuple(names.decode("ascii").split())


def _records(
    contents: Sequence[bytes], labels: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Images, and the columns of labels that their records start with."""
    rows = np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(-1, labels + 3072)
    planes = rows[:, labels:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, :labels].astype(np.int64)


def read_svhn(path: Path) -> Parsed:
    """``train_32x32.mat`` or ``test_32x32.mat`` of SVHN's cropped digits.

    The file labels the digit 0 as 10; here its label is 0, so that a label is its digit
    (Y. Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, 2011).
    """
    from scipy.io import loadmat  # here, as importing it takes a while

    content = loadmat(path)
    images = np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2))
    return images, content["y"][:, 0].astype(np.int64) % 10, tuple("0123456789")


def read_gtsrb_training(path: Path) -> Parsed:
    """The training images of the German Traffic Sign Recognition Benchmark.

    The images are of 15 to 250 pixels a side.  Each is resized, border and all, to 32 x 32 pixels
    by Pillow's bilinear filter, which averages over all the pixels it covers when it shrinks; the
    ratio of the sides is not kept.  Ordered by class, then as in its CSV file; a class's name is
    its number of five digits.
    """
    images, labels = [], []
    with zipfile.ZipFile(path) as archive:
        for label in range(GTSRB_CLASSES):
            folder = f"GTSRB/Training/{label:05d}/"
            rows = _gtsrb_rows(archive, f"{folder}GT-{label:05d}.csv")
            images += _gtsrb_images(path, archive, folder, rows)
            labels += [label] * len(rows)
    return np.stack(images), np.array(labels, dtype=np.int64), GTSRB_NAMES


def read_gtsrb_test(images: Path, labels: Path) -> Parsed:
    """The test images of the same, in the order of the CSV file among `labels`, resized alike."""
    with zipfile.ZipFile(labels) as archive:
        rows = _gtsrb_rows(archive, "GT-final_test.csv")
    with zipfile.ZipFile(images) as archive:
        pixels = _gtsrb_images(images, archive, "GTSRB/Final_Test/Images/", rows)
    return np.stack(pixels), np.array([int(row["ClassId"]) for row in rows], np.int64), GTSRB_NAMES


def _gtsrb_rows(archive: zipfile.ZipFile, member: str) -> list[dict[str, str]]:
    text = io.StringIO(archive.read(member).decode("ascii"), newline="")
    return list(csv.DictReader(text, delimiter=";"))


def _gtsrb_images(
    path: Path, archive: zipfile.ZipFile, folder: str, rows: Sequence[dict[str, str]]
) -> list[npt.NDArray[np.uint8]]:
    images = []
    for name in (folder + row["Filename"] for row in rows):
        picture = decode_image(archive.read(name), f"{path}: {name}", ("PPM",))
        small = picture.convert("RGB").resize(GTSRB_SIZE, Image.Resampling.BILINEAR)
        images.append(np.asarray(small))
    return images


# --- shared -------------------------------------------------------------------------------------


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn the ways in which decoders report damage into one error that names the file."""
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

    It may have 1.5 million members of at most 1 GB each, and unpack to 100 times its bytes.
    """
    what = "a tar archive"
    with (
        reading(path, what),
        _open(path) as opened,
        _Bounded(path, opened) as stream,
        tarfile.open(fileobj=stream, mode="r:") as archive,
    ):
        count = 0
        while (member := archive.next()) is not None:
            archive.members.clear()  # else every header is kept
            count += 1
            if count > MOST_MEMBERS:
                raise ValueError(f"{path}: must have at most {MOST_MEMBERS:,} members, got more")
            yield member, partial(_member, path, archive, member)
        # tarfile takes a bad header for the end; the true one is a block of zeros, then more.
        complete = stream.tell() == archive.offset + tarfile.BLOCKSIZE
        while chunk := stream.read(CHUNK):
            complete = complete and not chunk.strip(b"\0")
        if not complete:
            raise ValueError(f"{path}: expected the archive's end mark, found other bytes or none")


class _Bounded:
    """What a tar archive holds, unpacked: up to so many times the archive's own bytes."""

    def __init__(self, path: Path, stream: BinaryIO | gzip.GzipFile):
        self._path, self._stream = path, stream
        packed = isinstance(stream, gzip.GzipFile)
        self._most = path.stat().st_size * (MOST_FACTOR if packed else 1)
        self.tell, self.close = stream.tell, stream.close

    def __enter__(self) -> "_Bounded":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seek(self, place: int) -> int:
        """Go to a place, at most to where the archive has to end."""
        return self._stream.seek(min(place, self._most))

    def read(self, size: int = -1) -> bytes:
        """No more is unpacked than one byte beyond the bound."""
        left = self._most - self.tell()
        content = self._stream.read(size if 0 <= size <= left else left + 1)
        if len(content) > left:
            raise ValueError(
                f"{self._path}: members must unpack to at most {MOST_FACTOR} times its bytes"
            )
        return content


def _member(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > MOST_MEMBER:
        raise ValueError(
            f"{path}: member {short(repr(member.name))} must have at most {MOST_MEMBER:,} bytes, "
            f"got {member.size:,}"
        )
    with reading(path, f"the member {member.name!r}"):
        return archive.extractfile(member).read()


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    with open(path, "rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if compressed else open(path, "rb")


def is_plain_file(member: tarfile.TarInfo) -> bool:
    """Whether a member holds bytes of its own: no link, device, folder or sparse file."""
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)


def _tar_members(path: Path, folder: str, names: Collection[str]) -> list[bytes]:
    """The content of these files of a tar archive."""
    found = {
        member.name: read()
        for member, read in walk_tar(path)
        if member.name.startswith(folder)
        and member.name.removeprefix(folder) in names
        and is_plain_file(member)
    }
    return [found[folder + name] for name in names]


def decode_image(content: bytes, where: str, formats: Sequence[str]) -> Image.Image:
    """Decode an encoded image of one of the named formats of Pillow."""
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


def _split(split: str) -> str:
    if split not in SPLITS:
        raise ValueError(f"split must be one of {SPLITS}, got {split!r}")
    return split


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
