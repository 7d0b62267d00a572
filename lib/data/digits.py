"""Handwritten digits that need no download."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.check import require_int
from lib.data.splits import consecutive

SIZE = 1797


@dataclass(frozen=True, eq=False)
class Digits:
    """The handwritten digits that ship with scikit-learn.

    Attributes
    ----------
    images : ndarray of float64, shape (1797, 8, 8)
        Ink from 0 (none) to 1.
    labels : ndarray of int64, shape (1797,)
        The digit, 0 to 9.
    names : tuple of str
        The classes' names, by label.
    """

    images: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    names: tuple[str, ...]


def load_digits() -> Digits:
    """Load the digits from scikit-learn's own files.

    Examples
    --------
    >>> digits = load_digits()
    >>> digits.images.shape, digits.labels[:3].tolist()
    ((1797, 8, 8), [0, 1, 2])
    """
    from sklearn.datasets import load_digits as load  # here, as importing it takes a second

    bunch = load()
    names = tuple(str(name) for name in bunch.target_names)
    return Digits(bunch.images / 16.0, bunch.target.astype(np.int64), names)


def digits_splits(seed: int, sizes: Mapping[str, int]) -> dict[str, npt.NDArray[np.int64]]:
    """Draw disjoint sets of digits at random.

    Parameters
    ----------
    seed : int
        Not negative.  The same seed and sizes give the same sets.
    sizes : mapping of str to int
        How many digits each set gets, e.g. ``{"train": 900, "source": 400, "user": 400}``.

    Returns
    -------
    dict of str to ndarray of int64
        Row numbers of :class:`Digits`, by the names in ``sizes``.

    Examples
    --------
    >>> parts = digits_splits(0, {"train": 900, "user": 400})
    >>> {name: len(rows) for name, rows in parts.items()}
    {'train': 900, 'user': 400}
    """
    require_int("seed", seed, at_least=0)
    return consecutive(np.random.default_rng(seed).permutation(SIZE), sizes)
