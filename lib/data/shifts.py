"""Covariate shifts of images."""

import math

import numpy as np
import numpy.typing as npt

from lib.check import require_choice, require_finite, require_int

# Kind: (smallest severity, largest, what it is measured in).
# Bounds that are not part of the definition keep kernels and Poisson rates computable.
SHIFTS = {
    "gaussian_noise": (0, math.inf, "standard deviation"),
    "shot_noise": (0, math.inf, "1 / photons at full brightness"),
    "blur": (0, math.inf, "standard deviation in pixels"),
    "rotation": (0, 180, "degrees, one way or the other"),
    "translation": (0, math.inf, "pixels, in a random direction"),
    "contrast": (0, 1, "fraction of contrast lost"),
    "brightness": (-1, 1, "added to every pixel"),
    "pixelate": (0, 1, "fraction of resolution lost"),
    "occlusion": (0, 1, "sides of a grey rectangle over the sides of the image"),
}


def corrupt(
    images: npt.ArrayLike, kind: str, severity: float, rng: np.random.Generator | int
) -> npt.NDArray[np.floating]:
    """Shift a set of images away from the distribution they come from.

    Parameters
    ----------
    images : array_like of float, shape (n, height, width) or (n, channels, height, width)
        Values in [0, 1].
    kind : str
        A key of :data:`SHIFTS`.
    severity : float
        In the unit that :data:`SHIFTS` names; 0 changes nothing.  ``"shot_noise"`` takes no
        positive value below 1e-12, ``"blur"`` none above the longer side of the images.
    rng : numpy.random.Generator or int
        The source of randomness, or a seed.

    Returns
    -------
    ndarray of float32 if `images` are, else of float64
        A new array of the same shape, clipped to [0, 1].  Rotation and translation interpolate
        linearly and fill with black; contrast keeps each image's own mean.
    """
    images = np.array(images)
    if images.dtype.kind not in "biuf":
        raise ValueError(f"images must be real numbers, got {images.dtype}")
    dtype = np.dtype(np.float32 if images.dtype == np.float32 else float)
    images, shape = images.astype(dtype, copy=False), images.shape
    if images.ndim not in (3, 4) or 0 in shape[1:] or not np.all((images >= 0) & (images <= 1)):
        raise ValueError(
            "images must be of shape (n, height, width) or (n, channels, height, width), with no"
            f" side of 0 and values in [0, 1], got shape {shape}"
        )
    low, high, unit = SHIFTS[require_choice("kind", kind, tuple(SHIFTS))]
    most = {"at_most": high} if high < math.inf else {}
    require_finite(f"severity of {kind} ({unit})", severity, at_least=low, **most)
    if kind == "shot_noise" and 0 < severity < 1e-12:
        raise ValueError(f"severity must be 0 or at least 1e-12 for shot_noise, got {severity!r}")
    if kind == "blur" and severity > max(shape[-2:]):
        raise ValueError(
            f"severity must be at most {max(shape[-2:])} for blur of images of shape {shape}, got"
            f" {severity!r}"
        )
    if not isinstance(rng, np.random.Generator):
        require_int("rng", rng, at_least=0)
        rng = np.random.default_rng([rng, 0xC0881])
    if severity == 0 or not len(images):
        return images
    return _shifted(images.reshape(len(images), -1, *shape[-2:]), kind, severity, rng).reshape(
        shape
    )


def _shifted(
    images: npt.NDArray, kind: str, severity: float, rng: np.random.Generator
) -> npt.NDArray:
    """Images of shape (n, channels, height, width) after a shift, clipped."""
    from scipy import ndimage  # here, as importing it takes a quarter of a second

    dtype = images.dtype
    n, _, height, width = images.shape
    if kind == "gaussian_noise":
        images += rng.normal(0, severity, images.shape).astype(dtype)
    elif kind == "shot_noise":
        images = rng.poisson(images / severity).astype(dtype) * dtype.type(severity)
    elif kind == "blur":
        images = ndimage.gaussian_filter(images, sigma=(0, 0, severity, severity))
    elif kind == "rotation":
        left = rng.random(n) < 0.5
        for chosen, angle in ((left, severity), (~left, -severity)):
            if chosen.any():
                images[chosen] = ndimage.rotate(
                    images[chosen], angle, axes=(3, 2), reshape=False, order=1
                )
    elif kind == "translation":
        directions = rng.random(n) * 2 * math.pi
        for k, angle in enumerate(directions):
            shift = (0, severity * math.sin(angle), severity * math.cos(angle))
            images[k] = ndimage.shift(images[k], shift, order=1)
    elif kind == "contrast":
        mean = images.mean(axis=(1, 2, 3), keepdims=True)
        images = mean + (1 - severity) * (images - mean)
    elif kind == "brightness":
        images += dtype.type(severity)
    elif kind == "pixelate":
        import torch
        from torch.nn import functional

        small = [max(1, round((1 - severity) * side)) for side in (height, width)]
        coarse = functional.interpolate(torch.from_numpy(images), small, mode="area")
        images = functional.interpolate(coarse, (height, width), mode="nearest").numpy()
    else:
        side_h, side_w = (max(1, round(severity * side)) for side in (height, width))
        top = rng.integers(0, height - side_h + 1, n)[:, None]
        left = rng.integers(0, width - side_w + 1, n)[:, None]
        rows, columns = np.arange(height)[None], np.arange(width)[None]
        inside = ((rows >= top) & (rows < top + side_h))[:, :, None] & (
            (columns >= left) & (columns < left + side_w)
        )[:, None, :]
        images = np.where(inside[:, None], dtype.type(0.5), images)
    return np.clip(images, 0, 1).astype(dtype)
