import numpy as np
import pytest

from lib.data.digits import SIZE, digits_splits, load_digits
from lib.data.shifts import corrupt

NOISE = "gaussian_noise"


@pytest.fixture(scope="module")
def images():
    return load_digits().images[:200]


def rng(seed=0):
    return np.random.default_rng(seed)


def test_digits():
    digits = load_digits()
    assert digits.images.shape == (SIZE, 8, 8)
    assert digits.images.dtype == np.float64
    assert (digits.images.min(), digits.images.max()) == (0.0, 1.0)
    assert digits.labels.dtype == np.int64
    assert digits.names == tuple("0123456789")
    assert set(digits.labels) == set(range(10))


def test_images_need_no_channel(images):
    for kind in ("gaussian_noise", "blur"):
        shifted = corrupt(images, kind, 0.3, rng())
        assert shifted.dtype == np.float64
        np.testing.assert_array_equal(corrupt(images[:, None], kind, 0.3, rng())[:, 0], shifted)


def test_splits_ignore_and_leave_the_global_generator():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    digits_splits(0, {"one": 9})
    corrupt(np.zeros((3, 8, 8)), NOISE, 1, rng())
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
