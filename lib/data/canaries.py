"""The canary confidences of P5, as its authors published them, and the labels they belong to.

The files are those whose SHA-256 the registry states: what is in them is not checked again.
"""

import zipfile
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.check import require_choice
from lib.data.pickles import read_numpy_pickle
from lib.data.store import fetch

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


@dataclass(frozen=True, eq=False)
class CanaryRuns:
    """Ten training runs with 100 canaries each.

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
    _check_dataset(dataset)
    name, levels = CANARY_FILES[require_choice("mechanism", mechanism, tuple(CANARY_FILES))]
    require_choice("level", level, levels)
    return _confidences(f"confs_{dataset}_{name}_{level}")


def load_canary_runs(dataset: str, level: str) -> CanaryRuns:
    """Ten training runs by ALIBI with 100 canaries each.

    Parameters
    ----------
    dataset : {"cifar10", "cifar100"}
        What they were trained on.
    level : {"H", "M", "L"}
        Accuracy level.
    """
    _check_dataset(dataset)
    require_choice("level", level, CANARY_RUNS)
    confidences, positions, labels = (
        f"10x100_{part}_{dataset}_RR_{level}" for part in ("confs", "pos", "labels")
    )
    return CanaryRuns(_confidences(confidences), _integers(positions), _integers(labels))


def load_cifar_labels(dataset: str, kind: str = "clean_label") -> npt.NDArray[np.int64]:
    """Labels of CIFAR's training examples, in the official order.

    Parameters
    ----------
    dataset : {"cifar10", "cifar100"}
        Which.
    kind : {"clean_label", "random_label1", "random_label2", "random_label3"}
        The true ones, or of CIFAR-10 what one of three people said, each image's own three in
        random order.

    Returns
    -------
    ndarray of int64, shape (50000,)
        From the file of CIFAR-10N or CIFAR-100N, which carries them beside its own.

    Notes
    -----
    The file is a PyTorch archive: a zip file around one pickle, which is read without running it.
    """
    _check_dataset(dataset)
    people = tuple(f"random_label{k}" for k in (1, 2, 3)) if dataset == "cifar10" else ()
    require_choice("kind", kind, ("clean_label", *people))
    with zipfile.ZipFile(fetch(f"cifar_n/{dataset}_human")) as archive:
        (member,) = (m for m in archive.infolist() if m.filename.endswith("/data.pkl"))
        content = read_numpy_pickle(archive.read(member))
    return np.asarray(content[kind]).astype(np.int64)


def _check_dataset(dataset: str) -> None:
    require_choice("dataset", dataset, tuple(CANARY_CLASSES))


def _confidences(name: str) -> npt.NDArray[np.float64]:
    return np.load(fetch(f"canaries/{name}"), allow_pickle=False).astype(np.float64)


def _integers(name: str) -> npt.NDArray[np.int64]:
    return np.load(fetch(f"canaries/{name}"), allow_pickle=False).astype(np.int64)
