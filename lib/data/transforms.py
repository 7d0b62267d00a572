"""Covariate shifts and augmentations of images of shape (n, channels, height, width)."""

import math
from numbers import Real

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

__all__ = ["IMAGE_SHIFTS", "augment", "corrupt_images"]

# Kind: (smallest severity, largest, what it is measured in).
# Bounds that are not part of the definition keep kernels and Poisson rates computable.
IMAGE_SHIFTS = {
    "gaussian_noise": (0, math.inf, "standard deviation"),
    "shot_noise": (0, math.inf, "1 / photons at full brightness"),
    "blur": (0, math.inf, "standard deviation in pixels"),
    "rotation": (0, 180, "degrees, one way or the other"),
    "translation": (0, math.inf, "pixels, in a random direction"),
    "contrast": (0, 1, "share of contrast lost"),
    "brightness": (-1, 1, "added to every pixel"),
    "pixelate": (0, 1, "share of resolution lost"),
    "occlusion": (0, 1, "sides of a grey rectangle over the sides of the image"),
}


def corrupt_images(
    images: npt.ArrayLike, kind: str, severity: float, seed: int
) -> npt.NDArray[np.float32]:
    """Shift a set of images away from the distribution they come from.

    Parameters
    ----------
    images : array_like of float, shape (n, channels, height, width)
        Values in [0, 1].
    kind : str
        A key of :data:`IMAGE_SHIFTS`.
    severity : float
        In the unit that :data:`IMAGE_SHIFTS` names; 0 changes nothing.  ``"shot_noise"`` takes no
        positive value below 1e-12, ``"blur"`` none above the longer side of the images.
    seed : int
        Not negative.

    Returns
    -------
    ndarray of float32
        A new array of the same shape, clipped to [0, 1].  Rotation and translation interpolate
        linearly and fill with black; contrast keeps each image's own mean.
    """
    from scipy import ndimage  # here, as importing it takes a quarter of a second

    images = np.array(images, dtype=np.float32)
    if images.ndim != 4 or 0 in images.shape[1:]:
        raise ValueError(
            "images must be of shape (n, channels, height, width) with no side of 0, got"
            f" {images.shape}"
        )
    if not np.all((images >= 0) & (images <= 1)):
        raise ValueError(
            "images must be of shape (n, channels, height, width) with values in [0, 1], got values"
            f" from {images.min()} to {images.max()}"
        )
    if kind not in IMAGE_SHIFTS:
        raise ValueError(f"kind must be one of {', '.join(IMAGE_SHIFTS)}, got {kind!r}")
    low, high, unit = IMAGE_SHIFTS[kind]
    if isinstance(severity, bool) or not isinstance(severity, Real):
        raise ValueError(f"severity must be a number, got {severity!r}")
    if not (low <= severity <= high and math.isfinite(severity)):
        raise ValueError(
            f"severity must be finite and in [{low}, {high}] for {kind} ({unit}), got {severity!r}"
        )
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be an int of at least 0, got {seed!r}")
    if kind == "shot_noise" and 0 < severity < 1e-12:
        raise ValueError(f"severity must be 0 or at least 1e-12 for shot_noise, got {severity!r}")
    if kind == "blur" and severity > max(images.shape[2:]):
        raise ValueError(
            f"severity must be at most {max(images.shape[2:])} for blur of images of shape"
            f" {images.shape}, got {severity!r}"
        )
    if severity == 0 or not len(images):
        return images
    rng = np.random.default_rng([seed, 0xC0881])
    n, _, height, width = images.shape
    if kind == "gaussian_noise":
        images += rng.normal(0, severity, images.shape).astype(np.float32)
    elif kind == "shot_noise":
        images = rng.poisson(images / severity).astype(np.float32) * np.float32(severity)
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
        images += np.float32(severity)
    elif kind == "pixelate":
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
        images = np.where(inside[:, None], np.float32(0.5), images)
    return np.clip(images, 0, 1).astype(np.float32)


def augment(
    images: torch.Tensor,
    generator: torch.Generator,
    *,
    flip: bool = True,
    crop_padding: int = 4,
    padding: str = "zeros",
) -> torch.Tensor:
    """Flip and shift each image at random, independently.

    Parameters
    ----------
    images : Tensor, shape (n, channels, height, width)
        Left as they are.
    generator : torch.Generator
        The source of randomness, on the images' device.
    flip : bool
        Mirror left and right with probability 1/2.
    crop_padding : int
        Pad by so many pixels on all sides and cut the original size out anywhere: a shift by up
        to that many pixels.
    padding : {"zeros", "reflect"}
        What surrounds the image; "reflect" needs sides longer than `crop_padding`.

    Returns
    -------
    Tensor
        Of the same shape.

    Notes
    -----
    For augmentation multiplicity (De et al. 2022) pass each example k times in a row
    (``images.repeat_interleave(k, dim=0)``) and average the gradients of its copies *before*
    clipping.  One example then still adds one gradient of bounded norm to the sum: the privacy
    cost is the same for every k.  Clipping each copy by itself would multiply an example's
    influence by k.

    References
    ----------
    De et al. 2022, Unlocking High-Accuracy Differentially Private Image Classification through
    Scale.
    """
    if images.ndim != 4:
        raise ValueError(
            f"images must be of shape (n, channels, height, width), got {tuple(images.shape)}"
        )
    if isinstance(crop_padding, bool) or not isinstance(crop_padding, int) or crop_padding < 0:
        raise ValueError(f"crop_padding must be an int of at least 0, got {crop_padding!r}")
    if padding not in ("zeros", "reflect"):
        raise ValueError(f"padding must be 'zeros' or 'reflect', got {padding!r}")
    n, channels, height, width = images.shape
    if padding == "reflect" and crop_padding >= min(height, width):
        raise ValueError(
            f"crop_padding must be less than the sides {height} and {width} to reflect, got"
            f" {crop_padding}"
        )
    device = images.device
    columns = torch.arange(width, device=device).expand(n, width)
    rows = torch.arange(height, device=device).expand(n, height)
    if flip:
        mirrored = torch.rand(n, generator=generator, device=device) < 0.5
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    if crop_padding:
        mode = "constant" if padding == "zeros" else "reflect"
        images = functional.pad(images, [crop_padding] * 4, mode=mode)
        offsets = torch.randint(
            0, 2 * crop_padding + 1, (2, n, 1), generator=generator, device=device
        )
        rows, columns = rows + offsets[0], columns + offsets[1]
    picked = torch.gather(
        images, 2, rows[:, None, :, None].expand(n, channels, height, images.shape[3])
    )
    return torch.gather(picked, 3, columns[:, None, None, :].expand(n, channels, height, width))
