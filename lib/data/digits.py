"""Handwritten digits that need no download, and ways to shift their distribution."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["SHIFTS", "Digits", "corrupt", "digits_splits", "load_digits"]

SIZE = 1797
SHIFTS = ("rotation", "noise", "blur")


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


def corrupt(
    images: npt.ArrayLike, kind: str, severity: float, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Shift a set of images away from the distribution they come from.

    Parameters
    ----------
    images : array_like of float, shape (n, height, width)
        Values in [0, 1].
    kind : {"rotation", "noise", "blur"}
        ``"rotation"`` turns each image about its centre, one way or the other with equal
        probability; ``"noise"`` adds independent Gaussian noise to each pixel; ``"blur"`` convolves
        with a Gaussian (and draws nothing from ``rng``).
    severity : float
        The angle in degrees (at most 180), the noise's standard deviation, or the blur's standard
        deviation in pixels.  0 leaves the images as they are.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    ndarray of float64, shape (n, height, width)
        A new array, clipped to [0, 1].

    Examples
    --------
    >>> blurred = corrupt(digits.images[:5], "blur", 1.0, np.random.default_rng(0))
    >>> blurred.shape, bool(blurred.std() < digits.images[:5].std())
    ((5, 8, 8), True)
    """
    from scipy import ndimage  # here, as importing it takes a quarter of a second

    images = np.array(images)
    if images.dtype.kind not in "biuf":
        raise ValueError(f"images must be real numbers, got {images.dtype}")
    images = images.astype(float, copy=False)
    if images.ndim != 3 or not np.all((images >= 0) & (images <= 1)):
        raise ValueError(
            "images must be of shape (n, height, width) with values in [0, 1], got shape"
            f" {images.shape}"
        )
    if kind not in SHIFTS:
        raise ValueError(f"kind must be one of {SHIFTS}, got {kind!r}")
    limit = 180 if kind == "rotation" else np.inf
    if not isinstance(severity, int | float | np.number):
        raise ValueError(f"severity must be a number, got {severity!r}")
    if not 0 <= severity <= limit or not np.isfinite(severity):
        raise ValueError(
            f"severity must be finite and in [0, {limit}] for {kind}, got {severity!r}"
        )
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {type(rng).__name__}")
    if severity == 0:
        return images
    if kind == "noise":
        shifted = images + rng.normal(0.0, severity, images.shape)
    elif kind == "blur":
        shifted = ndimage.gaussian_filter(images, sigma=(0, severity, severity))
    else:
        shifted = images.copy()
        left = rng.random(len(images)) < 0.5
        for chosen, angle in ((left, severity), (~left, -severity)):
            shifted[chosen] = ndimage.rotate(
                images[chosen], angle, axes=(2, 1), reshape=False, order=1
            )
    return np.clip(shifted, 0.0, 1.0)


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
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be an int of at least 0, got {seed!r}")
    if not isinstance(sizes, Mapping):
        raise ValueError(f"sizes must be a mapping of names to numbers of digits, got {sizes!r}")
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"sizes[{name!r}] must be an int of at least 1, got {size!r}")
    if (total := sum(sizes.values())) > SIZE:
        raise ValueError(f"sizes must add up to at most {SIZE}, the number of digits, got {total}")
    order = np.random.default_rng(seed).permutation(SIZE)
    ends = np.cumsum(list(sizes.values()), dtype=int)
    return dict(zip(sizes, np.split(order[:total], ends[:-1]), strict=True)) if sizes else {}
