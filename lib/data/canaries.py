"""The canary confidences of P5, as its authors published them, and the labels they belong to."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lib.data.pickles import read_numpy_pickle
from lib.data.store import fetch

__all__ = [
    "CANARY_CLASSES",
    "CANARY_FILES",
    "CANARY_RUNS",
    "CanaryRuns",
    "canary_files",
    "load_canary_confidences",
    "load_canary_runs",
    "load_cifar_labels",
]

#: Number of classes of each data set.
CANARY_CLASSES = {"cifar10": 10, "cifar100": 100}

#: Mechanism, as the authors' file names have it, and accuracy levels of the single runs.
CANARY_FILES = {
    "ALIBI": ("RR", ("HH", "H", "M", "L")),
    "AGIBI": ("RR_gaussian", ("H", "M", "L")),
    "PATE": ("PATE", ("H", "M", "L")),
}

#: Accuracy levels of the ten runs with 100 canaries each; ALIBI only.
CANARY_RUNS = ("H", "M", "L")

_POINTS = 50_000  # training examples of both data sets
_CANARIES = 1000
_LARGEST_PICKLE = 16_000_000


@dataclass(frozen=True, eq=False)
class CanaryRuns:
    """Ten trainings with 100 canaries each.

    Attributes
    ----------
    confidences : ndarray of float64, shape (1000, C)
        Of the run that a canary was in.
    positions : ndarray of int64, shape (1000,)
        Of the canaries in the training set.
    labels : ndarray of int64, shape (1000,)
        Wrong labels that they were trained with.
    """

    confidences: npt.NDArray[np.float64]
    positions: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]


def canary_files() -> tuple[str, ...]:
    """Registered names of everything that the loaders of this module read."""
    names = []
    for data in CANARY_CLASSES:
        names += [
            f"canaries/confs_{data}_{name}_{level}"
            for name, levels in CANARY_FILES.values()
            for level in levels
        ]
        for part in ("confs", "pos", "labels"):
            names += [f"canaries/10x100_{part}_{data}_RR_{level}" for level in CANARY_RUNS]
        names.append(f"cifar_n/{data}_human")
    return tuple(names)


def load_canary_confidences(dataset: str, mechanism: str, level: str) -> npt.NDArray[np.float64]:
    """Softmax confidences of one trained model on its 1,000 canaries.

    Parameters
    ----------
    dataset : {"cifar10", "cifar100"}
        What it was trained on.
    mechanism : {"ALIBI", "AGIBI", "PATE"}
        How.
    level : {"HH", "H", "M", "L"}
        Accuracy level; HH for ALIBI alone.

    Returns
    -------
    ndarray of float64, shape (1000, C)
        Rows sum to 1 up to single precision.
    """
    classes = _classes(dataset)
    if mechanism not in CANARY_FILES:
        raise ValueError(
            f"mechanism must be one of {', '.join(map(repr, CANARY_FILES))}, got {mechanism!r}"
        )
    name, levels = CANARY_FILES[mechanism]
    _check_level(level, levels)
    return _confidences(fetch(f"canaries/confs_{dataset}_{name}_{level}"), classes)


def load_canary_runs(dataset: str, level: str) -> CanaryRuns:
    """Ten trainings by ALIBI with 100 canaries each.

    Parameters
    ----------
    dataset : {"cifar10", "cifar100"}
        What they were trained on.
    level : {"H", "M", "L"}
        Accuracy level.

    Returns
    -------
    CanaryRuns
    """
    classes = _classes(dataset)
    _check_level(level, CANARY_RUNS)

    def path(part: str) -> Path:
        return fetch(f"canaries/10x100_{part}_{dataset}_RR_{level}")

    return CanaryRuns(
        _confidences(path("confs"), classes),
        _integers(path("pos"), _POINTS),
        _integers(path("labels"), classes),
    )


def load_cifar_labels(dataset: str) -> npt.NDArray[np.int64]:
    """True labels of CIFAR's training examples, in the official order.

    Parameters
    ----------
    dataset : {"cifar10", "cifar100"}
        Which.

    Returns
    -------
    ndarray of int64, shape (50000,)
        From the file of CIFAR-10N or CIFAR-100N, which carries them beside its own.

    Notes
    -----
    The file is a PyTorch archive: a zip file around one pickle, which is read without running it.
    """
    classes = _classes(dataset)
    path = fetch(f"cifar_n/{dataset}_human")
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.infolist() if m.filename.endswith("/data.pkl")]
        if len(members) != 1 or members[0].file_size > _LARGEST_PICKLE:
            raise ValueError(f"{path.name} must hold one data.pkl, got {len(members)}")
        content = read_numpy_pickle(archive.read(members[0]))
    labels = np.asarray(content["clean_label"])
    _check_integers(labels, (_POINTS,), classes, path)
    return labels.astype(np.int64)


def _classes(dataset: str) -> int:
    if dataset not in CANARY_CLASSES:
        raise ValueError(
            f"dataset must be one of {', '.join(map(repr, CANARY_CLASSES))}, got {dataset!r}"
        )
    return CANARY_CLASSES[dataset]


def _check_level(level: str, levels: tuple[str, ...]) -> None:
    if level not in levels:
        raise ValueError(f"level must be one of {', '.join(map(repr, levels))}, got {level!r}")


def _confidences(path: Path, classes: int) -> npt.NDArray[np.float64]:
    found = np.load(path, allow_pickle=False)
    if found.shape != (_CANARIES, classes) or found.dtype.kind != "f":
        raise ValueError(
            f"{path.name} must hold floats of shape ({_CANARIES}, {classes}), got"
            f" {found.dtype} of shape {found.shape}"
        )
    return found.astype(np.float64)


def _integers(path: Path, below: int) -> npt.NDArray[np.int64]:
    found = np.load(path, allow_pickle=False)
    _check_integers(found, (_CANARIES,), below, path)
    return found.astype(np.int64)


def _check_integers(found: np.ndarray, shape: tuple[int, ...], below: int, path: Path) -> None:
    if found.dtype.kind not in "iu" or found.shape != shape:
        raise ValueError(
            f"{path.name} must hold integers of shape {shape}, got {found.dtype} of shape"
            f" {found.shape}"
        )
    if found.min() < 0 or found.max() >= below:
        raise ValueError(
            f"{path.name} must hold numbers from 0 to {below - 1}, got {found.min()} to"
            f" {found.max()}"
        )
