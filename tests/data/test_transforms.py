"""Shifts and augmentations of images."""

import numpy as np
import pytest
import torch
from scipy import stats

from lib.data.shifts import SHIFTS, corrupt
from lib.data.transforms import augment

IMAGES = np.random.default_rng(0).random((12, 3, 16, 20), dtype=np.float32)
SEVERITY = {"rotation": 30, "blur": 1.0}


@pytest.mark.parametrize("kind", SHIFTS)
def test_shifts_change_images_and_nothing_else(kind):
    before = IMAGES.copy()
    severity = SEVERITY.get(kind, 0.3)
    shifted = corrupt(IMAGES, kind, severity, 1)
    assert np.array_equal(IMAGES, before)
    assert shifted.shape == IMAGES.shape
    assert shifted.dtype == np.float32
    assert shifted.min() >= 0
    assert shifted.max() <= 1
    assert np.abs(shifted - IMAGES).mean() > 0.01
    assert np.array_equal(shifted, corrupt(IMAGES, kind, severity, 1))
    assert np.array_equal(corrupt(IMAGES, kind, 0, 1), IMAGES)
    assert corrupt(IMAGES[:0], kind, severity, 1).shape == (0, 3, 16, 20)
    stronger = corrupt(IMAGES, kind, min(2.2 * severity, 180), 1)
    assert np.abs(stronger - IMAGES).mean() > np.abs(shifted - IMAGES).mean()


def test_geometry_of_shifts():
    noisy = corrupt(np.full((1, 1, 200, 200), 0.5), "gaussian_noise", 0.05, 0)
    assert noisy.std() == pytest.approx(0.05, rel=0.03)
    turned = corrupt(IMAGES[..., :16], "rotation", 180, 0)
    np.testing.assert_allclose(turned, IMAGES[:, :, ::-1, 15::-1], atol=1e-5)
    quarter = corrupt(IMAGES[..., :16], "rotation", 90, 0)
    turns = [np.rot90(IMAGES[..., :16], k, axes=(2, 3)) for k in (1, -1)]
    ways = [np.abs(quarter - turn).max(axis=(1, 2, 3)) < 1e-5 for turn in turns]
    assert np.all(ways[0] ^ ways[1])
    assert ways[0].any()
    assert ways[1].any()


def test_blur_spreads_each_channel_by_itself():
    point = np.zeros((2, 3, 25, 25), np.float32)
    point[0, 1, 12, 12] = 1
    blurred = corrupt(point, "blur", 2, 0)
    assert np.all(blurred[1] == 0)
    assert np.all(blurred[0, ::2] == 0)
    weights, offsets = blurred[0, 1], np.arange(25) - 12
    assert weights.sum() == pytest.approx(1, abs=1e-4)
    for axis in (0, 1):
        assert weights.sum(axis=axis) @ offsets**2 == pytest.approx(4, rel=0.02)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_augmented_images_are_flips_and_shifts_of_the_originals():
    images = torch.arange(2 * 25, dtype=torch.float32).reshape(2, 1, 5, 5) + 1
    padded = torch.nn.functional.pad(images, [1, 1, 1, 1])
    crops = [padded[:, :, y : y + 5, x : x + 5] for y in range(3) for x in range(3)]
    crops = torch.stack([*crops, *(crop.flip(3) for crop in crops)])
    found = set()
    for seed in range(300):
        new = augment(images, generator(seed), flip=True, crop_padding=1)
        same = (crops == new).flatten(2).all(dim=2)
        assert (same.sum(dim=0) == 1).all()
        found |= set(same.nonzero()[:, 0].tolist())
    assert len(found) == 18  # every shift, flipped and not


def test_augmentation_is_independent_and_can_be_switched_off():
    images = torch.rand(64, 3, 8, 8, generator=generator(1))
    before = images.clone()
    same = augment(images, generator(), flip=False, crop_padding=0)
    assert torch.equal(same, images)
    flipped = augment(images, generator(), flip=True, crop_padding=0)
    which = torch.tensor([not torch.equal(a, b) for a, b in zip(images, flipped, strict=True)])
    assert torch.equal(flipped[which], images[which].flip(3))
    assert 14 <= which.sum() <= 50  # binomial(64, 1/2), beyond 4.5 standard deviations
    assert torch.equal(images, before)


def test_copies_of_one_example_are_augmented_independently():
    image = torch.arange(64, dtype=torch.float32).reshape(1, 1, 8, 8) + 1
    copies = augment(image.repeat_interleave(2000, dim=0), generator(), crop_padding=1)
    _, counts = copies.reshape(2000, -1).unique(dim=0, return_counts=True)
    assert len(counts) == 18
    assert stats.chisquare(counts.numpy()).pvalue > 1e-6
