"""Random shifts, distortions and holes of images (n, c, h, w) in [0, 1], for FixMatch.

Weakly augmented images are shifted by up to an eighth of their sides, at least a pixel.  Digits are
never mirrored and have black around them; photos are mirrored left to right with probability 1/2
and continue as their own reflection.  Strongly augmented ones are distorted as well, change their
light (contrast about the image's mean), and lose a square, black or gray, centered anywhere.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

_WEAK_NUMBERS, _STRONG_NUMBERS = 3, 11


@dataclass(frozen=True)
class _Policy:
    """How far augmentations go; all are symmetric about doing nothing."""

    flip: bool
    padding: str  # of grid_sample
    rotation: float  # degrees
    shear: float
    scale: float
    brightness: float
    contrast: float
    cutout: float  # largest side over the image's
    fill: float


POLICIES = {
    "digits": _Policy(False, "zeros", 15.0, 0.15, 0.1, 0.1, 0.3, 0.25, 0.0),
    "photo": _Policy(True, "reflection", 30.0, 0.3, 0.2, 0.3, 0.5, 0.5, 0.5),
}


def _reach(side: int) -> int:
    return max(1, side // 8)


def _offsets(draws: torch.Tensor, reach: int) -> torch.Tensor:
    """Whole numbers from -reach to reach; the clamp is for rounding, draws are below 1."""
    count = 2 * reach + 1
    return (draws * count).floor_().clamp_(max=count - 1) - reach


def _pad(images: torch.Tensor, policy: _Policy) -> torch.Tensor:
    """Surround images by as many pixels as they can be shifted."""
    y, x = map(_reach, images.shape[-2:])
    mode = "constant" if policy.padding == "zeros" else "reflect"
    return functional.pad(images, [x, x, y, y], mode=mode)


def _weak(
    padded: torch.Tensor,
    shape: tuple[int, ...],
    rows: torch.Tensor,
    policy: _Policy,
    draws: torch.Tensor,
) -> torch.Tensor:
    """Cut shifted images (rows of the padded ones) out in one gather, shape (n, c, h, w)."""
    channels, height, width = shape[1:]
    y, x = _reach(height), _reach(width)
    wide = padded.shape[3]
    device = padded.device
    area = padded.shape[2] * wide
    columns = torch.arange(width, device=device)
    base = (
        torch.arange(channels, device=device)[:, None, None] * area
        + torch.arange(height, device=device)[:, None] * wide
        + columns
    )
    offsets = (_offsets(draws[:, 0], y) + y) * wide + _offsets(draws[:, 1], x) + x
    start = rows * (channels * area) + offsets.long()
    index = start[:, None] + base.reshape(-1)
    if policy.flip:
        mirror = (width - 1 - 2 * columns).expand(channels, height, width).reshape(-1)
        index += (draws[:, 2:3] < 0.5) * mirror
    return padded.view(-1)[index].view(-1, channels, height, width)


def _strong(images: torch.Tensor, policy: _Policy, draws: torch.Tensor) -> torch.Tensor:
    """Shift, mirror and distort in one resampling, then light and cutout, shape (n, c, h, w)."""
    height, width = images.shape[2:]
    u = draws.T.contiguous()
    mirrored = policy.flip * (u[2] < 0.5)
    angle, shear, stretch, light, contrast = 2 * u[3:8] - 1  # in [-1, 1)
    angle, shear = angle * math.radians(policy.rotation), shear * policy.shear
    stretch = 1 / (1 + stretch * policy.scale)
    cos, sin = angle.cos() * stretch, angle.sin() * stretch
    # From a pixel of the new image to where it comes from in the old, in units of half a side.
    sign = 1 - 2.0 * mirrored
    ratio = (width - 1) / (height - 1)
    theta = torch.stack(
        [
            sign * cos,
            sign * (shear * cos - sin) / ratio,
            _offsets(u[1], _reach(width)) * (2 / (width - 1)),
            sin * ratio,
            shear * sin + cos,
            _offsets(u[0], _reach(height)) * (2 / (height - 1)),
        ],
        dim=1,
    )
    # affine_grid's many products of 3 x 3 are several times slower than this one product.
    grid = (theta @ _grid_basis(height, width, images.device)).view(-1, height, width, 2)
    changed = functional.grid_sample(
        images, grid, mode="bilinear", padding_mode=policy.padding, align_corners=True
    )
    factor = 1 + contrast * policy.contrast
    added = changed.mean(dim=(1, 2, 3)) * (1 - factor) + light * policy.brightness
    changed = changed.mul_(factor[:, None, None, None]).add_(added[:, None, None, None])
    changed.clamp_(0, 1)
    half = 0.5 * policy.cutout * u[8]
    inside_y = _inside(height, u[9], half)
    inside_x = _inside(width, u[10], half)
    hole = inside_y[:, :, None] & inside_x[:, None, :]
    return changed.masked_fill_(hole[:, None], policy.fill)


def _grid_basis(height: int, width: int, device: torch.device) -> torch.Tensor:
    """What turns six affine coefficients into grid_sample's grid, shape (6, h * w * 2)."""
    y = torch.linspace(-1, 1, height, device=device)[:, None].expand(height, width)
    x = torch.linspace(-1, 1, width, device=device).expand(height, width)
    points = torch.stack([x, y, torch.ones_like(x)])
    basis = points.new_zeros(2, 3, height, width, 2)
    basis[0, ..., 0] = points
    basis[1, ..., 1] = points
    return basis.view(6, -1)


def _inside(side: int, centre: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Which rows (or columns) a hole covers, shape (n, side)."""
    places = (torch.arange(side, device=centre.device) + 0.5) / side
    return (places - centre[:, None]).abs() < half[:, None]
