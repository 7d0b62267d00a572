"""Fixed features for small machines: strong inputs for private linear models on a CPU.

Tramèr and Boneh (2021) show that a linear model on scattering features is the baseline to beat
under differential privacy.  Nothing in :func:`scattering` is fitted to data, so it costs no
privacy.  Whitened patches are fitted: to examples that were declared public, and to no others.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from lib.data.cache import kept_arrays

SCALES = 2  # J: averaging over 2^J pixels
ORIENTATIONS = 8  # L
PATCH = 6  # pixels a side
REGULARISATION = 1e-2  # added to the eigenvalues of the patches' covariance
THRESHOLD = 0.25
CELLS = 2
_BATCH = 16  # small enough for the processor's cache


def scattering(images: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Scattering transform of second order with Morlet wavelets, (n, 81 channels, h / 4, w / 4).

    Averages of |x * psi| and ||x * psi| * psi'| over 4 x 4 pixels, for wavelets of two scales and
    eight orientations, and of x itself: 1 + 16 + 64 = 81 maps a colour channel.  Height and width
    are multiples of 4, at least 8.  Maps of the first channel come first; within one, order 0, 1
    (scale by scale) and 2.

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
    if min(images.shape[2:]) < 2 * step:
        raise ValueError(
            f"images must be at least {2 * step} pixels wide and high, got shape {images.shape}"
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
    """Normalise each example's maps by groups of successive channels: zero mean, unit variance.

    No statistic is shared between examples, hence nothing is to be accounted for (Tramèr and Boneh
    2021).  A group that is constant becomes 0.
    """
    maps = np.asarray(maps)
    out = np.empty(maps.shape, np.float32)
    for start in range(0, len(maps), 1024):  # features of 50,000 images take gigabytes
        part = maps[start : start + 1024]
        flat = part.reshape(len(part), groups, -1).astype(np.float32)
        flat -= flat.mean(axis=2, keepdims=True)
        flat /= np.sqrt((flat**2).mean(axis=2, keepdims=True) + 1e-5)
        out[start : start + 1024] = flat.reshape(part.shape)
    return out


# ----------------------------------------------------------------------------- whitened patches


@dataclass(frozen=True, eq=False)
class PatchFilters:
    """Whitened patches of public images, as filters."""

    weights: npt.NDArray[np.float32]  # (filters, channels, size, size), with the whitening
    bias: npt.NDArray[np.float32]  # (filters,): what the mean patch adds


def fit_patches(images: npt.ArrayLike, *, n_filters: int = 256, seed: int = 0) -> PatchFilters:
    """Take random patches of public images and whiten them.

    The images must be left out of training, or the fit must be accounted for: it uses them without
    noise.

    References
    ----------
    Coates and Ng 2011, The Importance of Encoding Versus Training with Sparse Coding and Vector
    Quantization: random patches as filters, whitening, thresholds on both sides.  Unlike there,
    patches are not normalised for contrast one by one, so that the responses are convolutions.
    """
    images = np.asarray(images, dtype=np.float32)
    if min(images.shape[2:]) < PATCH:
        raise ValueError(f"images must have sides of at least {PATCH}, got shape {images.shape}")
    rng = np.random.default_rng([seed, 0xFA7C4])
    count = max(10_000, 4 * n_filters)
    rows = rng.choice(len(images), count)
    top = rng.integers(0, images.shape[2] - PATCH + 1, count)
    left = rng.integers(0, images.shape[3] - PATCH + 1, count)
    windows = np.lib.stride_tricks.sliding_window_view(images, (PATCH, PATCH), axis=(2, 3))
    patches = windows[rows, :, top, left].reshape(count, -1).astype(float)
    mean = patches.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((patches - mean).T, bias=True).reshape(2 * [len(mean)]))
    whiten = vectors / np.sqrt(np.maximum(values, 0) + REGULARISATION) @ vectors.T
    chosen = (patches[:n_filters] - mean) @ whiten
    chosen /= np.linalg.norm(chosen, axis=1, keepdims=True) + 1e-8
    weights = chosen @ whiten
    shape = (len(weights), images.shape[1], PATCH, PATCH)
    return PatchFilters(
        weights.reshape(shape).astype(np.float32), (-weights @ mean).astype(np.float32)
    )


def patch_features(images: npt.ArrayLike, filters: PatchFilters) -> npt.NDArray[np.float32]:
    """Responses to the filters, thresholded on both sides and averaged over 2 x 2 cells.

    Of images scaled as those of :func:`fit_patches`, max(0, response - threshold) and max(0,
    -response - threshold) are kept: shape (n, 2 filters, 2, 2).
    """
    images = np.array(images, dtype=np.float32)
    weights, bias = torch.from_numpy(filters.weights), torch.from_numpy(filters.bias)
    # One array from the start: small results between large temporaries would fragment the memory.
    out = torch.empty(len(images), 2 * len(bias), CELLS, CELLS)
    for start in range(0, len(images), _BATCH):
        part = torch.from_numpy(images[start : start + _BATCH])
        response = functional.conv2d(part, weights, bias)
        both = torch.cat([response - THRESHOLD, -response - THRESHOLD], dim=1).relu()
        out[start : start + _BATCH] = functional.adaptive_avg_pool2d(both, CELLS)
    return out.numpy()


def cached_features(
    name: str,
    content: str,
    options: Mapping[str, str],
    compute: Callable[[], npt.NDArray[np.float32]],
) -> npt.NDArray[np.float32]:
    """Features computed once and memory-mapped afterwards, read-only.

    `content` is the fingerprint of what they are computed from, and `options` are all else that
    they depend on; this module's source is part of the key.
    """
    source = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    kept = kept_arrays(
        "features",
        [name, content, dict(options), source],
        lambda: {"features": np.asarray(compute(), dtype=np.float32)},
    )
    return kept["features"]
