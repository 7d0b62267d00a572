"""Fixed features for small machines: strong inputs for private linear models on a CPU.

Whitened patches are fitted to examples that were declared public, and to no others.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from lib.data.cache import kept_arrays

PATCH = 6  # pixels a side
REGULARISATION = 1e-2  # added to the eigenvalues of the patches' covariance
THRESHOLD = 0.25
CELLS = 2
_BATCH = 16  # small enough for the processor's cache


def standardised(maps: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Each example's maps with mean 0 and variance 1; 0 where they are constant.

    No statistic is shared between examples, hence nothing is to be accounted for (Tramèr and Boneh
    2021).
    """
    maps = np.asarray(maps)
    out = np.empty(maps.shape, np.float32)
    for start in range(0, len(maps), 1024):  # features of 50,000 images take gigabytes
        part = maps[start : start + 1024]
        flat = part.reshape(len(part), -1).astype(np.float32)
        flat -= flat.mean(axis=1, keepdims=True)
        flat /= np.sqrt((flat**2).mean(axis=1, keepdims=True) + 1e-5)
        out[start : start + 1024] = flat.reshape(part.shape)
    return out


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
    patches are not normalized for contrast one by one, so that the responses are convolutions.
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
