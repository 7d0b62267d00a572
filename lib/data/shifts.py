"""Covariate shifts of images."""

import math

import numpy as np
import numpy.typing as npt

from lib.check import require_choice, require_finite, require_int

#: Kinds of corruption: the largest severity, and what it is measured in.
SHIFTS = {
    "gaussian_noise": (math.inf, "standard deviation"),
    "blur": (math.inf, "standard deviation in pixels"),
    "rotation": (180, "degrees, one way or the other"),
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
        In the unit that :data:`SHIFTS` names; 0 changes nothing.  ``"blur"`` takes none above the
        longer side of the images.
    rng : numpy.random.Generator or int
        The source of randomness, or a seed.

    Returns
    -------
    ndarray of float32 if `images` are, else of float64
        A new array of the same shape, clipped to [0, 1].  Rotation interpolates linearly and fills
        with black.
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
    high, unit = SHIFTS[require_choice("kind", kind, tuple(SHIFTS))]
    most = {"at_most": high} if high < math.inf else {}
    require_finite(f"severity of {kind} ({unit})", severity, at_least=0, **most)
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
    if kind == "gaussian_noise":
        images += rng.normal(0, severity, images.shape).astype(dtype)
    elif kind == "blur":
        images = ndimage.gaussian_filter(images, sigma=(0, 0, severity, severity))
    else:
        left = rng.random(len(images)) < 0.5
        for chosen, angle in ((left, severity), (~left, -severity)):
            if chosen.any():
                images[chosen] = ndimage.rotate(
                    images[chosen], angle, axes=(3, 2), reshape=False, order=1
                )
    return np.clip(images, 0, 1).astype(dtype)
