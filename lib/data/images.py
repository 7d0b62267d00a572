"""Labeled sets of small images: loaded by name, parsed once, memory-mapped afterwards.

What a published file holds is kept as arrays below ``parsed/`` in the cache (``COMPANION_CACHE``),
by the SHA-256 of the sources and the version of the parser.
"""

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lib.data import store
from lib.data.arrays import read_plain
from lib.data.cache import hash_of, kept_arrays
from lib.data.formats import (
    CIFAR10_NAMES,
    FASHION_NAMES,
    GTSRB_NAMES,
    SPLITS,
    Parsed,
    read_cifar10,
    read_cifar100,
    read_fashion_mnist,
    read_gtsrb_test,
    read_gtsrb_training,
    read_svhn,
)
from lib.data.splits import as_rows

PARSER_VERSION = 2  # to be raised whenever a reader in formats.py returns something else


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images, their labels and the names of the classes; both arrays are read-only views.

    Attributes
    ----------
    name : str
        The label to show wherever results on these images appear, e.g. ``"cifar10"``.
    images : ndarray of uint8, shape (n, height, width, channels)
        One channel (gray) or three (red, green, blue), from 0 to 255; it may be memory-mapped.
    labels : ndarray of int64, shape (n,)
        Positions in ``names``.
    names : tuple of str
        The classes.
    groups : ndarray of int64, shape (n,), optional
        Images of one group are nearly alike, such as frames of one film: a split at random must not
        part them.

    Raises
    ------
    ValueError
        If shapes or types do not fit, there are no images, or a label is not one of a class.
    """

    name: str
    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    names: tuple[str, ...]
    groups: npt.NDArray[np.int64] | None = None

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name must be a non-empty string, got {self.name!r}")
        images, labels = np.asanyarray(self.images), np.asanyarray(self.labels)
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
            raise ValueError(
                "images must be uint8 of shape (n, height, width, 1 or 3), got"
                f" {images.dtype} of shape {images.shape}"
            )
        if images.size == 0:
            raise ValueError(f"images must hold at least one pixel, got shape {images.shape}")
        if labels.dtype != np.int64 or labels.shape != images.shape[:1]:
            raise ValueError(
                f"labels must be int64 of shape ({len(images)},), got {labels.dtype} of shape"
                f" {labels.shape}"
            )
        names = tuple(self.names)
        proper = all(isinstance(name, str) and name for name in names)
        if not proper or len(set(names)) < len(names):
            raise ValueError(f"names must be different non-empty strings, got {names}")
        if labels.min() < 0 or labels.max() >= len(names):
            raise ValueError(
                f"labels must be from 0 to {len(names) - 1}, the positions in names, got"
                f" {labels.min()} to {labels.max()}"
            )
        object.__setattr__(self, "names", names)
        groups = {} if self.groups is None else {"groups": np.asanyarray(self.groups)}
        if any(g.dtype != np.int64 or g.shape != labels.shape for g in groups.values()):
            raise ValueError(f"groups must be int64 of shape ({len(images)},), got {self.groups!r}")
        for attribute, array in ({"images": images, "labels": labels} | groups).items():
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(self, attribute, view)

    def __len__(self) -> int:
        return len(self.labels)

    def as_float(self, rows: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """The images as a network takes them.

        Parameters
        ----------
        rows : array_like of int, shape (m,), optional
            Which images, in that order; a row may be repeated.  All by default: note that this
            takes four times the memory of ``images``.

        Returns
        -------
        ndarray of float32, shape (m, channels, height, width)
            A new array with values in [0, 1]: the bytes divided by 255.
        """
        chosen = self.images if rows is None else self.images[as_rows("rows", rows, len(self))]
        return np.divide(chosen.transpose(0, 3, 1, 2), np.float32(255), order="C")

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content: pixels, labels and class names, but not ``name``.

        For a set of :func:`load_images` it is read from the cache, where it lies beside the arrays,
        whose checksums have been compared.
        """
        return _fingerprint(self.images, self.labels, self.names)


@dataclass(frozen=True)
class _Source:
    """Where a published set comes from: registered files per split, and how they are read."""

    files: dict[str, tuple[str, ...]]
    parse: Callable[..., Parsed]  # split, *paths
    arrays: str | None = None  # registered plain arrays, which are taken first
    names: tuple[str, ...] = ()  # of their classes


def _gtsrb(split: str, *paths: Path) -> Parsed:
    return read_gtsrb_training(*paths) if split == "train" else read_gtsrb_test(*paths)


def _both(name: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(SPLITS, (name,))


_SOURCES = {
    "fashion-mnist": _Source(
        {s: (f"fashion_mnist/{s}_images", f"fashion_mnist/{s}_labels") for s in SPLITS},
        lambda split, *paths: read_fashion_mnist(*paths),
        "arrays/fashion_mnist",
        FASHION_NAMES,
    ),
    "cifar10": _Source(
        _both("cifar/cifar10_binary"),
        lambda split, path: read_cifar10(path, split),
        "arrays/cifar10",
        CIFAR10_NAMES,
    ),
    "cifar100": _Source(
        _both("cifar/cifar100_binary"),
        lambda split, path: read_cifar100(path, split),
        "arrays/cifar100",
    ),
    "svhn": _Source(
        {split: (f"svhn/{split}",) for split in SPLITS}, lambda split, path: read_svhn(path)
    ),
    "gtsrb": _Source(
        {"train": ("gtsrb/training",), "test": ("gtsrb/test_images", "gtsrb/test_labels")}, _gtsrb
    ),
    "gtsrb32": _Source(dict.fromkeys(SPLITS, ()), _gtsrb, "arrays/gtsrb32", GTSRB_NAMES),
}

IMAGE_SETS = (*_SOURCES, "digits")
"""The names that :func:`load_images` knows."""


def image_files(name: str, split: str | None = None) -> tuple[str, ...]:
    """The data files that :func:`load_images` reads: plain arrays where they are at hand.

    Parameters
    ----------
    name : str
        One of :data:`IMAGE_SETS`, or of arrays of your own.
    split : {"train", "test"}, optional
        Both by default; for the digits, which need no file, ``"all"``.

    Returns
    -------
    tuple of str
        Names for :func:`lib.data.available` and for ``chapters`` in the registry; none for the
        digits.
    """
    _check(name, split)
    if name == "digits":
        return ()
    plain = array_file(name)
    if plain is not None and (name not in _SOURCES or store.state(plain) != store.ABSENT):
        return (plain,)
    files = _SOURCES[name].files
    wanted = SPLITS if split is None else (split,)
    return tuple(dict.fromkeys(file for each in wanted for file in files[each])) or (plain,)


def array_file(name: str) -> str | None:
    """Return the data file of a set's plain arrays; None if none are registered for it."""
    if name in IMAGE_SETS:
        return _SOURCES[name].arrays if name in _SOURCES else None
    return f"{store.OWN}{name}"


def load_images(name: str, split: str) -> ImageSet:
    """Load a published set of images.

    Parameters
    ----------
    name : str
        One of

        ``"fashion-mnist"``
            60,000 and 10,000 images of 28 x 28 gray pixels, 10 classes.
        ``"cifar10"``, ``"cifar100"``
            50,000 and 10,000 of 32 x 32 in color, 10 classes or the 100 fine ones.  As plain
            arrays the test images of ``"cifar10"`` are ordered by class: join nothing to them by
            their position.  Arrays of ``"cifar100"`` are taken once they are accepted, since no
            SHA-256 of them is known (``examine_arrays``).
        ``"svhn"``
            73,257 and 26,032 of 32 x 32 in color, 10 digits.
        ``"gtsrb"``
            26,640 (the 2011 competition's, as in torchvision) and 12,630 in color, resized to
            32 x 32 by Pillow's bilinear filter, 43 classes.
        ``"gtsrb32"``
            The same signs as plain arrays: 13,069 frames, a third of the 39,209 for training,
            with their tracks as groups, and all 12,630 for testing; resized whole to 32 x 32 by
            OpenCV's bilinear filter.
        ``"digits"``
            The 1,797 of 8 x 8 that ship with scikit-learn, 10 classes.  Their 17 levels of ink are
            rounded to the nearest of 256, so that ``as_float`` is within 1/510 of
            :func:`lib.data.load_digits`.
        the name of arrays of your own
            ``<name>.npz`` in a folder of ``COMPANION_DATA``, with ``x_train`` and ``x_test``
            (uint8, (n, height, width) or (n, height, width, 1 or 3)), ``y_train`` and ``y_test``
            (integers from 0), and ``train_groups`` and ``test_groups`` (integers) if images of a
            group must stay together.

    split : {"train", "test"}
        As published.  For ``"digits"``, which have no published split, only ``"all"``.

    Returns
    -------
    ImageSet
        Memory-mapped, except for the digits.  A cached copy that is damaged is made anew, with a
        warning.

    Raises
    ------
    ValueError
        If the name or the split is unknown, or a file is not in its format.  Nothing is unpickled.
    DataUnavailable, DataCorrupted, UndeclaredData
        As :func:`lib.data.fetch` for the files of :func:`image_files`.

    Examples
    --------
    >>> images = load_images("digits", "all")
    >>> images.images.shape, images.as_float([0]).shape
    ((1797, 8, 8, 1), (1, 1, 8, 8))
    """
    _check(name, split)
    if name == "digits":
        from lib.data.digits import load_digits

        digits = load_digits()
        grey = np.rint(digits.images * 255).astype(np.uint8)
        return ImageSet(name, grey[..., np.newaxis], digits.labels, digits.names)
    source, files = _SOURCES.get(name), image_files(name, split)
    paths = [store.fetch(file) for file in files]
    identity = {
        "parser": PARSER_VERSION,
        "name": name,
        "split": split,
        "sources": [store.entry(file).sha256 for file in files],
    }

    def parse() -> dict[str, np.ndarray]:
        groups = None
        if files == (array_file(name),):
            names = source.names if source else ()
            images, labels, names, groups = read_plain(*paths, split, names)
        else:
            images, labels, names = source.parse(split, *paths)
        made = ImageSet(name, images, labels, names, groups)
        arrays = {"images": made.images, "labels": made.labels, "names": np.array(made.names)}
        arrays["fingerprint"] = np.array([made.fingerprint])
        return arrays if groups is None else arrays | {"groups": made.groups}

    kept = kept_arrays("parsed", identity, parse)
    names = tuple(map(str, kept["names"]))
    found = ImageSet(name, kept["images"], kept["labels"], names, kept.get("groups"))
    found.__dict__["fingerprint"] = str(kept["fingerprint"][0])  # as cached_property keeps it
    return found


def examine_arrays(name: str, path: Path) -> str:
    """Check without their SHA-256 that plain arrays can be CIFAR-100; say what they have.

    As published, 500 images of each of 100 classes for training and 100 for testing, 32 x 32 in
    color.  Nothing is known of the pixels, nor of the order.
    """
    if name != _SOURCES["cifar100"].arrays:
        raise ValueError(f"{name!r} names no plain arrays whose SHA-256 is unknown")
    for split, each in (("train", 500), ("test", 100)):
        images, labels, *_ = read_plain(path, split)
        counts = np.bincount(np.maximum(labels, 0), minlength=100)
        if images.shape != (100 * each, 32, 32, 3) or np.any(counts != each):
            raise ValueError(
                f"{path}: x_{split} and y_{split} must be {each} images of 32 x 32 x 3 for each of"
                f" 100 classes, got shape {images.shape} and {min(counts)} to {max(counts)} of"
                f" {len(counts)} classes"
            )
    return "500 and 100 images of each of 100 classes; classes are named by their numbers"


def _check(name: str, split: str | None) -> None:
    if name not in IMAGE_SETS and not (isinstance(name, str) and store.has_own(name)):
        raise ValueError(
            f"name must be one of {IMAGE_SETS}, or of <name>.npz in COMPANION_DATA, got {name!r}"
        )
    allowed = ("all",) if name == "digits" else SPLITS
    if split is not None and split not in allowed:
        raise ValueError(f"split must be one of {allowed} for {name}, got {split!r}")


def _fingerprint(
    images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], names: tuple[str, ...]
) -> str:
    parts = [
        hashlib.sha256(np.ascontiguousarray(array, dtype=dtype)).hexdigest()
        for array, dtype in ((images, "|u1"), (labels, "<i8"))
    ]
    return hash_of([images.shape, *parts, names])
