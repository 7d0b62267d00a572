"""Fixed features: whitened patches, and the cache."""

import numpy as np
from scipy import ndimage

from lib.data import features
from lib.data.features import cached_features, fit_patches, patch_features, standardised

RNG = np.random.default_rng(0)


def test_examples_are_standardised_each_by_itself():
    maps = RNG.normal(3, 5, (4, 6, 2, 2))
    out = standardised(maps)
    np.testing.assert_allclose(out.reshape(4, -1).mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(out.reshape(4, -1).var(1), 1, atol=1e-3)
    np.testing.assert_allclose(standardised(maps[:1]), out[:1], atol=1e-6)
    assert np.all(standardised(np.ones((1, 2, 2, 2))) == 0)


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
