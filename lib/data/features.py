"""Fixed features for small machines: strong inputs for private linear models on a CPU.

Tramèr and Boneh (2021) show that a linear model on scattering features is the baseline to beat
under differential privacy.  Nothing in :func:`scattering` is fitted to data, so it costs no
privacy.  Whitened patches are fitted: to examples that were declared public, and to no others.
"""

import hashlib
import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from lib.data import store

__all__ = [
    "PatchFilters",
    "cached_features",
    "fit_patches",
    "group_normalise",
    "patch_features",
    "scattering",
]

SCALES = 2  # J: averaging over 2^J pixels
ORIENTATIONS = 8  # L
_BATCH = 64


def scattering(images: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Scattering transform of second order with Morlet wavelets.

    Averages of |x * psi| and ||x * psi| * psi'| over 4 x 4 pixels, for wavelets of two scales and
    eight orientations, and of x itself: 1 + 16 + 64 = 81 maps a colour channel.

    Parameters
    ----------
    images : array_like of float, shape (n, channels, height, width)
        Height and width multiples of 4, at least 8.

    Returns
    -------
    ndarray of float32, shape (n, 81 channels, height / 4, width / 4)
        Maps of the first channel first; within one, order 0, 1 (scale by scale) and 2.  As in
        Kymatio, second-order waves are subsampled by two before their modulus is averaged.

    References
    ----------
    Bruna and Mallat 2013, Invariant Scattering Convolution Networks; the wavelets' parameters are
    those of Kymatio (Andreux et al. 2020), which Tramèr and Boneh (2021) use.
    """
    images = np.asarray(images, dtype=np.float32)
    step = 2**SCALES
    if images.ndim != 4 or images.shape[2] % step or images.shape[3] % step:
        raise ValueError(
            "images must be of shape (n, channels, height, width) with sides that are multiples of"
            f" {step}, got {images.shape}"
        )
    if min(images.shape[2:]) < 2 * step or not np.isfinite(images).all():
        raise ValueError(f"images must be finite and at least {2 * step} pixels wide and high")
    n, channels, height, width = images.shape
    low, wavelets = _filters(height + 2 * step, width + 2 * step)
    planes = torch.from_numpy(np.array(images).reshape(n * channels, 1, height, width))
    found = []
    for part in planes.split(_BATCH):
        padded = functional.pad(part, [step] * 4, mode="reflect")[:, 0]
        found.append(_transform(padded, low, wavelets)[..., 1:-1, 1:-1])
    maps = torch.cat(found) if found else torch.zeros(0, 81, height // step, width // step)
    return maps.reshape(n, channels * maps.shape[1], *maps.shape[2:]).numpy()


def _transform(x: torch.Tensor, low: torch.Tensor, wavelets: list[list[torch.Tensor]]):
    """Scattering maps, shape (n, 81, h / 4, w / 4), of padded planes (n, h, w)."""
    spectrum = torch.fft.fft2(x)

    def average(transformed: torch.Tensor, factor: int) -> torch.Tensor:
        """Low-pass and keep every 2^J-th pixel; `factor` of the subsampling is done already."""
        return torch.fft.ifft2(_fold(transformed * _coarse(low, factor), 2**SCALES // factor)).real

    maps = [average(spectrum, 1)[:, None]]
    second = []
    for scale in range(SCALES):
        first = torch.stack([spectrum * psi for psi in wavelets[scale]], dim=1)
        first = torch.fft.fft2(torch.fft.ifft2(first).abs())
        maps.append(average(first, 1))
        for larger in range(scale + 1, SCALES):
            both = torch.stack([first * psi for psi in wavelets[larger]], dim=2)
            both = torch.fft.ifft2(_fold(both, 2**larger)).abs()
            second.append(average(torch.fft.fft2(both), 2**larger).flatten(1, 2))
    return torch.cat(maps + second, dim=1)


def _fold(spectrum: torch.Tensor, factor: int) -> torch.Tensor:
    """The spectrum of every `factor`-th pixel in both directions."""
    if factor == 1:
        return spectrum
    *front, h, w = spectrum.shape
    parts = spectrum.reshape(*front, factor, h // factor, factor, w // factor)
    return parts.mean(dim=(-4, -2))


def _coarse(kernel: torch.Tensor, factor: int) -> torch.Tensor:
    """A low-pass spectrum at lower resolution: its central part, and what aliases into it."""
    return _fold(kernel, factor) * factor**2


@cache
def _filters(height: int, width: int) -> tuple[torch.Tensor, list[list[torch.Tensor]]]:
    """Spectra of the low-pass filter and of the wavelets, by scale and orientation."""
    low = _spectrum(_gabor(height, width, 0.8 * 2 ** (SCALES - 1), 0.0, 0.0, 1.0))
    wavelets = []
    for scale in range(SCALES):
        row = []
        for k in range(ORIENTATIONS):
            angle = math.pi * k / ORIENTATIONS
            shape = (height, width, 0.8 * 2**scale, angle)
            wave = _gabor(*shape, 0.75 * math.pi / 2**scale, 4 / ORIENTATIONS)
            envelope = _gabor(*shape, 0.0, 4 / ORIENTATIONS)
            wave -= envelope * (wave.sum() / envelope.sum())  # no response to constants
            row.append(_spectrum(wave))
        wavelets.append(row)
    return low, wavelets


def _gabor(height, width, sigma, angle, frequency, slant) -> npt.NDArray[np.complex128]:
    """Gaussian envelope times plane wave, made periodic, of mass 1 without the wave."""
    rows, columns = np.mgrid[:height, :width]
    total = np.zeros((height, width), complex)
    for a in range(-2, 3):
        for b in range(-2, 3):
            y, x = rows + a * height, columns + b * width
            along = x * math.cos(angle) + y * math.sin(angle)
            across = -x * math.sin(angle) + y * math.cos(angle)
            envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
            total += envelope * np.exp(1j * frequency * along)
    return total * slant / (2 * math.pi * sigma**2)


def _spectrum(filter_: npt.NDArray[np.complex128]) -> torch.Tensor:
    # The transform of these filters is real: they are Hermitian about the origin.
    return torch.from_numpy(np.fft.fft2(filter_).real.astype(np.float32))


def group_normalise(maps: npt.ArrayLike, groups: int) -> npt.NDArray[np.float32]:
    """Normalise each example by its own groups of maps: zero mean, unit variance.

    No statistic is shared between examples, hence nothing is to be accounted for (Tramèr and Boneh
    2021, section 2.3, "group normalization").

    Parameters
    ----------
    maps : array_like of float, shape (n, channels, height, width)
        For example from :func:`scattering`.
    groups : int
        Number of groups of successive channels; divides their number.
    """
    maps = np.asarray(maps, dtype=np.float32)
    if maps.ndim != 4 or groups < 1 or maps.shape[1] % groups:
        raise ValueError(f"groups must divide the number of channels of {maps.shape}, got {groups}")
    flat = maps.reshape(len(maps), groups, -1)
    flat = flat - flat.mean(axis=2, keepdims=True)
    flat /= np.sqrt((flat**2).mean(axis=2, keepdims=True) + 1e-5)
    return flat.reshape(maps.shape)


# ----------------------------------------------------------------------------- whitened patches


@dataclass(frozen=True, eq=False)
class PatchFilters:
    """Whitened patches of public images, as filters.

    Attributes
    ----------
    weights : ndarray of float32, shape (filters, channels, size, size)
        The whitening is part of them.
    bias : ndarray of float32, shape (filters,)
        What the mean patch adds.
    public : ndarray of int64
        Rows of the images that they were fitted to.
    """

    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    public: npt.NDArray[np.int64]

    def check_disjoint(self, rows: npt.ArrayLike) -> None:
        """Raise ValueError if any of these training rows was used for the filters."""
        shared = np.intersect1d(self.public, np.asarray(rows))
        if len(shared):
            raise ValueError(
                f"rows must not hold public examples, got {len(shared)} of them, the first being"
                f" {shared[0]}: the filters were fitted to them without noise"
            )


def fit_patches(
    images: npt.ArrayLike,
    public: npt.ArrayLike,
    *,
    size: int = 6,
    n_filters: int = 256,
    seed: int = 0,
    regularisation: float = 1e-2,
) -> PatchFilters:
    """Take random patches of public images and whiten them (Coates and Ng 2012).

    Parameters
    ----------
    images : array_like of float, shape (n, channels, height, width)
        All images; only the public rows are read.
    public : array_like of int
        Rows declared public.  They must be left out of training: see
        :meth:`PatchFilters.check_disjoint`.
    size : int
        Side of a patch.
    n_filters : int
        Number of patches that become filters.
    seed : int
        Of the choice of patches.
    regularisation : float
        Added to the eigenvalues of the patches' covariance.
    """
    images, public = np.asarray(images, dtype=np.float32), np.unique(np.asarray(public))
    if images.ndim != 4 or not 1 <= size <= min(images.shape[2:]):
        raise ValueError(f"size must fit into the images {images.shape}, got {size}")
    if not len(public) or public.min() < 0 or public.max() >= len(images):
        raise ValueError(f"public must hold rows between 0 and {len(images) - 1}")
    if regularisation <= 0 or n_filters < 1:
        raise ValueError(
            "regularisation must be positive and n_filters at least 1, got"
            f" {regularisation!r} and {n_filters!r}"
        )
    rng = np.random.default_rng([seed, 0xFA7C4])
    count = max(10_000, 4 * n_filters)
    rows = rng.choice(public, count)
    top = rng.integers(0, images.shape[2] - size + 1, count)
    left = rng.integers(0, images.shape[3] - size + 1, count)
    windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(2, 3))
    patches = windows[rows, :, top, left].reshape(count, -1).astype(float)
    mean = patches.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((patches - mean).T, bias=True).reshape(2 * [len(mean)]))
    whiten = vectors / np.sqrt(np.maximum(values, 0) + regularisation) @ vectors.T
    chosen = (patches[:n_filters] - mean) @ whiten
    chosen /= np.linalg.norm(chosen, axis=1, keepdims=True) + 1e-8
    weights = chosen @ whiten
    shape = (len(weights), images.shape[1], size, size)
    return PatchFilters(
        weights.reshape(shape).astype(np.float32), (-weights @ mean).astype(np.float32), public
    )


def patch_features(
    images: npt.ArrayLike, filters: PatchFilters, *, threshold: float = 0.25, grid: int = 2
) -> npt.NDArray[np.float32]:
    """Responses to the filters, thresholded on both sides and averaged over a grid of cells.

    Returns
    -------
    ndarray of float32, shape (n, 2 filters, grid, grid)
    """
    images = np.array(images, dtype=np.float32)
    weights, bias = torch.from_numpy(filters.weights), torch.from_numpy(filters.bias)
    found = []
    for part in torch.from_numpy(images).split(_BATCH):
        response = functional.conv2d(part, weights, bias)
        both = torch.cat([response - threshold, -response - threshold], dim=1).relu()
        found.append(functional.adaptive_avg_pool2d(both, grid))
    empty = torch.zeros(0, 2 * len(bias), grid, grid)
    return (torch.cat(found) if found else empty).numpy()


# --------------------------------------------------------------------------------------- on disk


def cached_features(
    name: str,
    content: str,
    options: Mapping[str, Any],
    compute: Callable[[], npt.NDArray[np.float32]],
) -> npt.NDArray[np.float32]:
    """Features computed once and memory-mapped afterwards.

    Parameters
    ----------
    name : str
        Of the kind of features.
    content : str
        Fingerprint of what they are computed from.
    options : mapping
        Everything else that they depend on.
    compute : callable
        Computes them; this module's source is part of the key.

    Returns
    -------
    ndarray
        Read-only.
    """
    from lib.runs import fingerprint

    source = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    key = fingerprint([name, content, dict(options), source])
    path = store._cache() / "features" / f"{name}-{key[:32]}.npy"
    sums = path.with_suffix(".sha256")
    if path.exists():
        found = _checked(path, sums)
        if found is not None:
            return found
        warnings.warn(
            f"the cached features {path} are damaged; computing them anew",
            RuntimeWarning,
            stacklevel=2,
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.npy")
    try:
        np.save(temporary, np.ascontiguousarray(compute(), dtype=np.float32))
        digest = store.pooch.file_hash(str(temporary), alg="sha256")
        sums.write_text(digest)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _checked(path: Path, sums: Path) -> npt.NDArray[np.float32] | None:
    try:
        if store.pooch.file_hash(str(path), alg="sha256") != sums.read_text():
            return None
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None
