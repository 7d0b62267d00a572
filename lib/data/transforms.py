"""Augmentations of images of shape (n, channels, height, width)."""

import torch
from torch.nn import functional


def augment(
    images: torch.Tensor, generator: torch.Generator, *, flip: bool = True, crop_padding: int = 4
) -> torch.Tensor:
    """Flip and shift each image at random, independently.

    Images are mirrored left and right with probability 1/2, padded by so many black pixels on all
    sides, and cut out anywhere.  For augmentation multiplicity (De et al. 2022, Unlocking
    High-Accuracy Differentially Private Image Classification through Scale) pass each example k
    times in a row and average the gradients of its copies *before* clipping: one example then still
    adds one gradient of bounded norm to the sum, and the privacy cost is the same for every k.
    Clipping each copy by itself would multiply an example's influence by k.
    """
    n, channels, height, width = images.shape
    device = images.device
    columns = torch.arange(width, device=device).expand(n, width)
    rows = torch.arange(height, device=device).expand(n, height)
    if flip:
        mirrored = torch.rand(n, generator=generator, device=device) < 0.5
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    if crop_padding:
        images = functional.pad(images, [crop_padding] * 4)
        offsets = torch.randint(
            0, 2 * crop_padding + 1, (2, n, 1), generator=generator, device=device
        )
        rows, columns = rows + offsets[0], columns + offsets[1]
    picked = torch.gather(
        images, 2, rows[:, None, :, None].expand(n, channels, height, images.shape[3])
    )
    return torch.gather(picked, 3, columns[:, None, None, :].expand(n, channels, height, width))
