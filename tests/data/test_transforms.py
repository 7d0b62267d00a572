"""Shifts and augmentations of images."""

import numpy as np
import pytest
import torch

from lib.data.transforms import IMAGE_SHIFTS, augment, corrupt_images

IMAGES = np.random.default_rng(0).random((12, 3, 16, 20), dtype=np.float32)
SEVERITY = {"rotation": 30, "translation": 3, "blur": 1.0}


@pytest.mark.parametrize("kind", IMAGE_SHIFTS)
def test_shifts_change_images_and_nothing_else(kind):
    before = IMAGES.copy()
    severity = SEVERITY.get(kind, 0.3)
    shifted = corrupt_images(IMAGES, kind, severity, 1)
    assert np.array_equal(IMAGES, before)
    assert shifted.shape == IMAGES.shape
    assert shifted.dtype == np.float32
    assert shifted.min() >= 0
    assert shifted.max() <= 1
    assert np.abs(shifted - IMAGES).mean() > 0.01
    assert np.array_equal(shifted, corrupt_images(IMAGES, kind, severity, 1))
    assert np.array_equal(corrupt_images(IMAGES, kind, 0, 1), IMAGES)
    assert corrupt_images(IMAGES[:0], kind, severity, 1).shape == (0, 3, 16, 20)
    stronger = corrupt_images(IMAGES, kind, min(2.2 * severity, 180), 1)
    assert np.abs(stronger - IMAGES).mean() > np.abs(shifted - IMAGES).mean()


def test_shifts_by_hand():
    grey = np.full((2, 1, 8, 8), 0.5, np.float32)
    assert np.allclose(corrupt_images(grey, "brightness", 0.25, 0), 0.75)
    assert np.allclose(corrupt_images(grey, "contrast", 0.5, 0), 0.5)
    white = np.ones((1, 1, 8, 8), np.float32)
    assert (corrupt_images(white, "occlusion", 0.5, 0) == 0.5).sum() == 16
    noisy = corrupt_images(np.full((1, 1, 200, 200), 0.5), "gaussian_noise", 0.05, 0)
    assert noisy.std() == pytest.approx(0.05, rel=0.03)
    counted = corrupt_images(np.full((1, 1, 200, 200), 0.5), "shot_noise", 0.01, 0)
    assert counted.std() == pytest.approx(np.sqrt(0.5 * 0.01), rel=0.03)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((IMAGES[0], "blur", 1, 0), "images must be of shape"),
        ((IMAGES * 2, "blur", 1, 0), r"values in \[0, 1\]"),
        ((IMAGES * np.nan, "blur", 1, 0), r"values in \[0, 1\]"),
        ((IMAGES, "fog", 1, 0), "kind must be one of gaussian_noise, .*got 'fog'"),
        ((IMAGES, "blur", -1, 0), r"severity must be finite and in \[0, inf\] for blur"),
        ((IMAGES, "contrast", 1.5, 0), r"\[0, 1\] for contrast .*got 1.5"),
        ((IMAGES, "blur", np.nan, 0), "severity must be finite"),
        ((IMAGES, "blur", 1, -1), "seed must be an int of at least 0, got -1"),
    ],
)
def test_bad_shifts(arguments, message):
    with pytest.raises(ValueError, match=message):
        corrupt_images(*arguments)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_augmented_images_are_flips_and_shifts_of_the_originals():
    images = torch.arange(2 * 25, dtype=torch.float32).reshape(2, 1, 5, 5) + 1
    found = set()
    for seed in range(300):
        for original, new in zip(
            images, augment(images, generator(seed), flip=True, crop_padding=1), strict=True
        ):
            padded = torch.nn.functional.pad(original, [1, 1, 1, 1])
            crops = {
                (dy, dx, flip): (part.flip(2) if flip else part)
                for dy in range(3)
                for dx in range(3)
                for flip in (False, True)
                for part in [padded[:, dy : dy + 5, dx : dx + 5]]
            }
            match = [key for key, crop in crops.items() if torch.equal(crop, new)]
            assert len(match) == 1
            found.add(match[0])
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
    with pytest.raises(ValueError, match="crop_padding must be an int of at least 0, got -1"):
        augment(images, generator(), crop_padding=-1)
    with pytest.raises(ValueError, match="images must be of shape"):
        augment(images[0], generator())
