"""Augmentations of images of shape (n, channels, height, width)."""

import torch
from torch.nn import functional

__all__ = ["augment"]


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
