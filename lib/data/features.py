"""Fixed features for small machines: strong inputs for private linear models on a CPU.

Tramèr and Boneh (2021) show that a linear model on scattering features is the baseline to beat
under differential privacy.  Nothing in :func:`scattering` is fitted to data, so it costs no
privacy.  Whitened patches are fitted: to examples that were declared public, and to no others.
"""

import hashlib
import math
import os
import re
import uuid
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
_BATCH = 16  # small enough for the processor's cache


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
        Maps of the first channel first; within one, order 0, 1 (scale by scale) and 2.

    Notes
    -----
    The images are extended by reflection.  As in Kymatio, second-order waves are subsampled by two
    before the modulus; Kymatio does so with those of the larger scale in first order, too, and
    numbers the orientations differently.

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
        raise ValueError(
            f"images must be finite and at least {2 * step} pixels wide and high, got shape"
            f" {images.shape}"
        )
    n, channels, height, width = images.shape
    planes = torch.from_numpy(np.array(images).reshape(n * channels, 1, height, width))
    maps = torch.empty(n * channels, 81, height // step, width // step)
    for part, out in zip(planes.split(_BATCH), maps.split(_BATCH), strict=True):
        if len(part):
            _transform(functional.pad(part, [step] * 4, mode="reflect")[:, 0], out)
    return maps.reshape(n, channels * 81, *maps.shape[2:]).numpy()


def _transform(x: torch.Tensor, out: torch.Tensor) -> None:
    """Scattering maps, shape (n, 81, h / 4, w / 4) without the padding, of padded planes (n, h, w).

    The Gaussian is separable, so averaging is a product with a matrix on either side.
    """
    n, h, w = x.shape
    small, large = _wavelets(h, w)
    down, right = _average(h), _average(w)
    spectrum = torch.fft.fft2(x)[:, None]
    out[:, 0] = down @ (x @ right.T)
    first = torch.fft.ifft2(spectrum * small).abs()
    out[:, 1:9] = down @ (first @ right.T)
    out[:, 9:17] = down @ (torch.fft.ifft2(spectrum * large).abs() @ right.T)
    # Every second pixel of first * large: the spectrum's four quarters add up (aliasing).
    quarters = torch.view_as_real(torch.fft.fft2(first)).reshape(n, 8, 1, 2, h // 2, 2, w // 2, 2)
    kernels = (large / 4).reshape(8, 2, h // 2, 2, w // 2, 1)
    folded = quarters[:, :, :, 0, :, 0] * kernels[:, 0, :, 0]
    for i, j in ((0, 1), (1, 0), (1, 1)):
        folded.addcmul_(quarters[:, :, :, i, :, j], kernels[:, i, :, j])
    second = torch.fft.ifft2(torch.view_as_complex(folded)).abs().flatten(1, 2)
    # At half the resolution the average has half as many terms, each twice the weight.
    out[:, 17:] = (2 * down[:, ::2]) @ (second @ (2 * right[:, ::2]).T)


@cache
def _average(side: int) -> torch.Tensor:
    """Gaussian average around every 2^J-th pixel of a periodic line, the padding's left out."""
    sigma, step = 0.8 * 2 ** (SCALES - 1), 2**SCALES
    offsets = np.arange(step, side - step, step)[:, None] - np.arange(side)
    wrapped = offsets[..., None] + side * np.arange(-2, 3)
    weights = np.exp(-(wrapped**2) / (2 * sigma**2)).sum(axis=-1)
    return torch.from_numpy((weights / (math.sqrt(2 * math.pi) * sigma)).astype(np.float32))


@cache
def _wavelets(height: int, width: int) -> torch.Tensor:
    """Spectra of the wavelets, shape (scales, orientations, height, width)."""
    spectra = np.empty((SCALES, ORIENTATIONS, height, width), np.float32)
    for scale in range(SCALES):
        for k in range(ORIENTATIONS):
            shape = (height, width, 0.8 * 2**scale, math.pi * k / ORIENTATIONS)
            wave = _gabor(*shape, 0.75 * math.pi / 2**scale, 4 / ORIENTATIONS)
            envelope = _gabor(*shape, 0.0, 4 / ORIENTATIONS)
            wave -= envelope * (wave.sum() / envelope.sum())  # no response to constants
            # The transform of these filters is real: they are Hermitian about the origin.
            spectra[scale, k] = np.fft.fft2(wave).real
    return torch.from_numpy(spectra)


def _gabor(
    height: int, width: int, sigma: float, angle: float, frequency: float, slant: float
) -> npt.NDArray[np.complex128]:
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


def group_normalise(maps: npt.ArrayLike, groups: int) -> npt.NDArray[np.float32]:
    """Normalise each example by its own groups of maps: zero mean, unit variance.

    No statistic is shared between examples, hence nothing is to be accounted for (Tramèr and Boneh
    2021).  A group that is constant becomes 0.

    Parameters
    ----------
    maps : array_like of float, shape (n, channels, height, width)
        For example from :func:`scattering`.
    groups : int
        Number of groups of successive channels; divides their number.
    """
    maps = np.asarray(maps)
    if maps.ndim != 4:
        raise ValueError(
            f"maps must be of shape (n, channels, height, width), got shape {maps.shape}"
        )
    _check_int("groups", groups, 1)
    if maps.shape[1] % groups:
        raise ValueError(f"groups must divide the number of channels of {maps.shape}, got {groups}")
    out = np.empty(maps.shape, np.float32)
    for start in range(0, len(maps), 1024):  # features of 50,000 images take gigabytes
        part = maps[start : start + 1024]
        flat = part.reshape(len(part), groups, -1).astype(np.float32)
        if not np.isfinite(flat).all():
            raise ValueError(f"maps must be finite, got others from row {start} on")
        flat -= flat.mean(axis=2, keepdims=True)
        flat /= np.sqrt((flat**2).mean(axis=2, keepdims=True) + 1e-5)
        out[start : start + 1024] = flat.reshape(part.shape)
    return out


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
    contents : frozenset of bytes
        SHA-256 of each of these images, as float32.
    """

    weights: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    public: npt.NDArray[np.int64]
    contents: frozenset[bytes]

    def check_disjoint(self, rows: npt.ArrayLike) -> None:
        """Raise ValueError if any of these training rows was used for the filters.

        Row numbers must be those of the images given to :func:`fit_patches`, counted from 0; where
        that is in doubt, use :meth:`check_images`.  Masks and negative numbers are refused, as
        they would be taken for other rows.
        """
        shared = np.intersect1d(self.public, _rows("rows", rows))
        if len(shared):
            raise ValueError(
                f"rows must not hold public examples, got {len(shared)} of them, the first being"
                f" {shared[0]}: the filters were fitted to them without noise"
            )

    def check_images(self, images: npt.ArrayLike) -> None:
        """Raise ValueError if any of these training images was used for the filters.

        Compares contents, however the images are numbered; they must be scaled as those given to
        :func:`fit_patches`.
        """
        shared = [k for k, content in enumerate(_contents(images)) if content in self.contents]
        if shared:
            raise ValueError(
                f"images must not hold public examples, got {len(shared)} of them, the first being"
                f" number {shared[0]}: the filters were fitted to them without noise"
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
    """Take random patches of public images and whiten them.

    Parameters
    ----------
    images : array_like of float, shape (n, channels, height, width)
        All images; only the public rows are read.
    public : array_like of int
        Rows declared public; numbers, not a mask.
        They must be left out of training - :meth:`PatchFilters.check_disjoint` sees to it - or the
        fit must be accounted for: it uses them without noise.
    size : int
        Side of a patch.
    n_filters : int
        Number of patches that become filters.
    seed : int
        Of the choice of patches.
    regularisation : float
        Added to the eigenvalues of the patches' covariance.

    References
    ----------
    Coates and Ng 2011, The Importance of Encoding Versus Training with Sparse Coding and Vector
    Quantization: random patches as filters, whitening, thresholds on both sides.  Unlike there,
    patches are not normalised for contrast one by one, so that the responses are convolutions.
    """
    images, public = np.asarray(images), np.unique(_rows("public", public))
    _check_int("size", size, 1)
    _check_int("n_filters", n_filters, 1)
    _check_int("seed", seed, 0)
    if images.ndim != 4 or size > min(images.shape[2:]):
        raise ValueError(f"size must fit into the images {images.shape}, got {size}")
    if not len(public) or public.max() >= len(images):
        raise ValueError(f"public must hold rows between 0 and {len(images) - 1}")
    if isinstance(regularisation, bool) or not 0 < regularisation < math.inf:
        raise ValueError(f"regularisation must be positive and finite, got {regularisation!r}")
    seen = images[public].astype(np.float32)
    if not np.isfinite(seen).all():
        raise ValueError("images must be finite in the public rows")
    rng = np.random.default_rng([seed, 0xFA7C4])
    count = max(10_000, 4 * n_filters)
    rows = rng.choice(len(seen), count)
    top = rng.integers(0, images.shape[2] - size + 1, count)
    left = rng.integers(0, images.shape[3] - size + 1, count)
    windows = np.lib.stride_tricks.sliding_window_view(seen, (size, size), axis=(2, 3))
    patches = windows[rows, :, top, left].reshape(count, -1).astype(float)
    mean = patches.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((patches - mean).T, bias=True).reshape(2 * [len(mean)]))
    whiten = vectors / np.sqrt(np.maximum(values, 0) + regularisation) @ vectors.T
    chosen = (patches[:n_filters] - mean) @ whiten
    chosen /= np.linalg.norm(chosen, axis=1, keepdims=True) + 1e-8
    weights = chosen @ whiten
    shape = (len(weights), images.shape[1], size, size)
    return PatchFilters(
        weights.reshape(shape).astype(np.float32),
        (-weights @ mean).astype(np.float32),
        public,
        frozenset(_contents(seen)),
    )


def patch_features(
    images: npt.ArrayLike, filters: PatchFilters, *, threshold: float = 0.25, grid: int = 2
) -> npt.NDArray[np.float32]:
    """Responses to the filters, thresholded on both sides and averaged over a grid of cells.

    Parameters
    ----------
    images : array_like of float, shape (n, channels, height, width)
        Scaled as those given to :func:`fit_patches`.
    filters : PatchFilters
        What to respond to.
    threshold : float
        Not negative: max(0, response - threshold) and max(0, -response - threshold) are kept.
    grid : int
        Cells in either direction.

    Returns
    -------
    ndarray of float32, shape (n, 2 filters, grid, grid)
    """
    images = np.array(images, dtype=np.float32)
    _, channels, size, _ = filters.weights.shape
    if images.ndim != 4 or images.shape[1] != channels or min(images.shape[2:]) < size:
        raise ValueError(
            f"images must have {channels} channels and sides of at least {size}, got shape"
            f" {images.shape}"
        )
    if not np.isfinite(images).all():
        raise ValueError(f"images must be finite, got shape {images.shape} with others")
    if isinstance(threshold, bool) or not 0 <= threshold < math.inf:
        raise ValueError(f"threshold must be at least 0 and finite, got {threshold!r}")
    _check_int("grid", grid, 1)
    weights, bias = torch.from_numpy(filters.weights), torch.from_numpy(filters.bias)
    # One array from the start: small results between large temporaries would fragment the memory.
    out = torch.empty(len(images), 2 * len(bias), grid, grid)
    for start in range(0, len(images), _BATCH):
        part = torch.from_numpy(images[start : start + _BATCH])
        response = functional.conv2d(part, weights, bias)
        both = torch.cat([response - threshold, -response - threshold], dim=1).relu()
        out[start : start + _BATCH] = functional.adaptive_avg_pool2d(both, grid)
    return out.numpy()


def _contents(images: npt.ArrayLike) -> list[bytes]:
    return [
        hashlib.sha256(np.ascontiguousarray(image, dtype="<f4").tobytes()).digest()
        for image in np.asarray(images)
    ]


def _rows(name: str, rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
    rows = np.asarray(rows)
    if not rows.size:
        return np.zeros(0, np.int64)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer) or rows.min() < 0:
        raise ValueError(
            f"{name} must be row numbers of at least 0 in one dimension, not a mask, got"
            f" {rows.dtype} of shape {rows.shape}"
            + (f" from {rows.min()}" if np.issubdtype(rows.dtype, np.integer) else "")
        )
    return rows.astype(np.int64)


def _check_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, got {value!r}")


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
        Of the kind of features: letters, digits, "-" and "_".
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
    from lib.runs import fingerprint, write_atomic

    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ValueError(f"name must consist of letters, digits, - and _, got {name!r}")
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
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex}.npy")
    try:
        array = np.ascontiguousarray(compute(), dtype=np.float32)
        with open(temporary, "wb") as stream:  # np.save does not say that a disk is full
            header = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(stream, header)
            stream.write(array.data)
        digest = store.pooch.file_hash(str(temporary), alg="sha256")
        write_atomic(sums, digest)
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
