"""Data for the book: found, verified, loaded.

Files are registered in ``registry.yml`` with their address and SHA-256; :func:`fetch` finds one in
a mirror, in the cache or on the network and never returns one whose content has not been checked.
The loaders turn files into typed, validated arrays.

What needs PyTorch is imported by its module: :mod:`lib.data.transforms` (augmentations) and
:mod:`lib.data.features` (fixed features).

From the command line: ``python -m lib.data list | fetch NAME... | verify``.

Examples
--------
Those of this package begin so:

>>> from lib.data import *
>>> import numpy as np
>>> digits = load_digits()
"""

from lib.data.canaries import (
    CANARY_CLASSES,
    CANARY_FILES,
    CANARY_RUNS,
    CanaryRuns,
    canary_files,
    load_canary_confidences,
    load_canary_runs,
    load_cifar_labels,
)
from lib.data.digits import Digits, digits_splits, load_digits
from lib.data.errors import (
    DataCorrupted,
    DataUnavailable,
    RegistryError,
    UndeclaredData,
    UnknownData,
    UnsafePickle,
)
from lib.data.images import IMAGE_SETS, ImageSet, image_files, load_images
from lib.data.pickles import read_numpy_pickle
from lib.data.registry import Entry, registry
from lib.data.shifts import SHIFTS, corrupt
from lib.data.splits import split_rows, subsample_class
from lib.data.store import ABSENT, ALSO, ASKED, available, fetch, fingerprints, state
from lib.data.suitability import (
    DATASETS,
    ID_SPLITS,
    MODELS,
    SIGNAL_NAMES,
    Fold,
    SignalTable,
    SuitabilitySignals,
    fold_summary,
    load_published_folds,
    load_suitability_folds,
    load_suitability_signals,
    published_for,
    suitability_models,
)
from lib.data.text import TextSet, hashed_words, load_sst2

__all__ = [
    "ABSENT",
    "ALSO",
    "ASKED",
    "CANARY_CLASSES",
    "CANARY_FILES",
    "CANARY_RUNS",
    "DATASETS",
    "ID_SPLITS",
    "IMAGE_SETS",
    "MODELS",
    "SHIFTS",
    "SIGNAL_NAMES",
    "CanaryRuns",
    "DataCorrupted",
    "DataUnavailable",
    "Digits",
    "Entry",
    "Fold",
    "ImageSet",
    "RegistryError",
    "SignalTable",
    "SuitabilitySignals",
    "TextSet",
    "UndeclaredData",
    "UnknownData",
    "UnsafePickle",
    "available",
    "canary_files",
    "corrupt",
    "digits_splits",
    "fetch",
    "fingerprints",
    "fold_summary",
    "hashed_words",
    "image_files",
    "load_canary_confidences",
    "load_canary_runs",
    "load_cifar_labels",
    "load_digits",
    "load_images",
    "load_published_folds",
    "load_sst2",
    "load_suitability_folds",
    "load_suitability_signals",
    "published_for",
    "read_numpy_pickle",
    "registry",
    "split_rows",
    "state",
    "subsample_class",
    "suitability_models",
]
