"""Fixed features: the scattering transform from its definition, patches, the cache."""

import math

import numpy as np
import pytest
from scipy import ndimage

from lib.data import features
from lib.data.features import (
    cached_features,
    fit_patches,
    group_normalise,
    patch_features,
    scattering,
)

RNG = np.random.default_rng(0)


def wavelet(scale, k, radius=24, envelope_only=False):
    """A Morlet wavelet on a grid, written down directly."""
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1].astype(float)
    angle = math.pi * k / 8
    sigma, slant, frequency = 0.8 * 2**scale, 0.5, 0.75 * math.pi / 2**scale
    u = x * math.cos(angle) + y * math.sin(angle)
    v = y * math.cos(angle) - x * math.sin(angle)
    gauss = np.exp(-(u**2 + slant**2 * v**2) / (2 * sigma**2)) * slant / (2 * np.pi * sigma**2)
    wave = gauss * np.exp(1j * frequency * u)
    return wave - gauss * wave.sum() / gauss.sum()


def direct(image):
    """The scattering maps of one plane by convolutions in space; order 2 on every second pixel."""
    y, x = np.mgrid[-12:13, -12:13].astype(float)
    low = np.exp(-(x**2 + y**2) / (2 * 1.6**2)) / (2 * np.pi * 1.6**2)
    padded = np.pad(image.astype(float), 4, mode="reflect")

    def convolve(a, kernel):
        return ndimage.convolve(a, kernel, mode="wrap")

    def average(a):
        return convolve(a, low)[4:-4:4, 4:-4:4]

    maps = [average(padded)]
    first = {}
    for scale in (0, 1):
        for k in range(8):
            psi = wavelet(scale, k)
            real, imag = convolve(padded, psi.real), convolve(padded, psi.imag)
            first[scale, k] = np.hypot(real, imag)
            maps.append(average(first[scale, k]))
    coarse = 4 * low[::2, ::2]  # the average at half the resolution
    for k in range(8):
        for m in range(8):
            psi = wavelet(1, m)
            both = np.hypot(convolve(first[0, k], psi.real), convolve(first[0, k], psi.imag))
            maps.append(convolve(both[::2, ::2], coarse)[2:-2:2, 2:-2:2])
    return np.stack(maps)


@pytest.mark.parametrize("shape", [(16, 16), (8, 20)])
def test_scattering_equals_direct_convolution(shape):
    image = RNG.random(shape)
    ours = scattering(image[None, None])[0]
    assert ours.shape == (81, shape[0] // 4, shape[1] // 4)
    np.testing.assert_allclose(ours, direct(image), atol=2e-5)
    assert ours[17:].std() > 1e-3


@pytest.mark.parametrize("shape", [(2, 1, 28, 28), (1, 3, 32, 32), (3, 1, 8, 8), (1, 1, 8, 16)])
def test_shapes(shape):
    n, channels, height, width = shape
    maps = scattering(RNG.random(shape))
    assert maps.shape == (n, 81 * channels, height // 4, width // 4)
    assert np.isfinite(maps).all()


def test_channels_and_examples_are_independent():
    images = RNG.random((3, 2, 16, 16))
    together = scattering(images)
    for i in range(3):
        for c in range(2):
            alone = scattering(images[i : i + 1, c : c + 1])[0]
            np.testing.assert_allclose(together[i, 81 * c : 81 * (c + 1)], alone, atol=1e-6)


def test_group_normalisation():
    maps = RNG.normal(3, 5, (4, 6, 2, 2))
    out = group_normalise(maps, 3)
    groups = out.reshape(4, 3, -1)
    np.testing.assert_allclose(groups.mean(2), 0, atol=1e-5)
    np.testing.assert_allclose(groups.var(2), 1, atol=1e-3)
    np.testing.assert_allclose(group_normalise(maps[:1], 3), out[:1], atol=1e-6)
    assert np.isfinite(group_normalise(np.ones((1, 2, 2, 2)), 1)).all()


def test_patch_features_by_hand():
    images = RNG.random((30, 2, 9, 9)).astype(np.float32)
    filters = fit_patches(images[:20], n_filters=5, seed=2)
    found = patch_features(images[20:], filters)
    assert found.shape == (10, 10, 2, 2)
    windows = np.lib.stride_tricks.sliding_window_view(images[20:], (6, 6), axis=(2, 3))
    response = np.einsum("ncyxab,fcab->nfyx", windows, filters.weights, dtype=float)
    response += filters.bias[:, None, None]
    for sign, got in ((1, found[:, :5]), (-1, found[:, 5:])):
        kept = np.maximum(sign * response - 0.25, 0)
        cells = kept.reshape(10, 5, 2, 2, 2, 2).mean(axis=(3, 5))
        np.testing.assert_allclose(got, cells, atol=1e-5)
    assert patch_features(images[:0], filters).shape == (0, 10, 2, 2)


def test_patches_are_white(monkeypatch):
    monkeypatch.setattr(features, "PATCH", 3)
    monkeypatch.setattr(features, "REGULARISATION", 1e-9)
    images = 3 + ndimage.gaussian_filter(RNG.normal(size=(30, 1, 24, 24)), (0, 0, 2, 2))
    filters = fit_patches(images, n_filters=9)
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3))
    patches = windows.reshape(-1, 9)
    responses = patches @ filters.weights.reshape(9, 9).T + filters.bias
    # each filter is a unit vector in white coordinates: its responses have variance one
    np.testing.assert_allclose(responses.var(axis=0), 1, rtol=0.25)
    np.testing.assert_allclose(responses.mean(axis=0), 0, atol=0.15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scattering(np.ones((1, 1, 10, 12))), "multiples of 4"),
        (lambda: scattering(np.ones((1, 4, 4))), "images must be of shape"),
        (lambda: scattering(np.ones((1, 1, 4, 8))), "images must be at least 8 pixels wide"),
        (lambda: fit_patches(np.ones((2, 1, 4, 4))), "images must have sides of at least 6"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_features_are_kept_by_what_they_depend_on(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path))
    calls = []

    def compute():
        calls.append(1)
        return np.arange(6.0).reshape(2, 3)

    keys = [("test", "abc", {"a": "1"}), ("test", "abc", {"a": "2"}), ("test", "abd", {"a": "1"})]
    for key in (*keys, *keys):
        found = cached_features(*key, compute)
        assert np.array_equal(found, np.arange(6).reshape(2, 3))
        assert found.dtype == np.float32
    assert len(calls) == 3
