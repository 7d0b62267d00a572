import numpy as np
import pytest

from lib.data.digits import SIZE, digits_splits, load_digits
from lib.data.shifts import SHIFTS, corrupt

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


@pytest.mark.parametrize(
    ("kind", "severity"), [("rotation", 30), ("gaussian_noise", 0.3), ("blur", 0.8)]
)
def test_shift_changes_a_copy_reproducibly(images, kind, severity):
    before = images.copy()
    shifted = corrupt(images, kind, severity, rng())
    np.testing.assert_array_equal(images, before)
    assert shifted.shape == images.shape
    assert shifted.min() >= 0
    assert shifted.max() <= 1
    np.testing.assert_array_equal(shifted, corrupt(images, kind, severity, rng()))
    mild = corrupt(images, kind, severity / 4, rng())
    assert 0 < np.abs(mild - images).mean() < np.abs(shifted - images).mean()


@pytest.mark.parametrize("kind", SHIFTS)
def test_severity_zero_is_the_identity(images, kind):
    unchanged = corrupt(images, kind, 0, rng())
    np.testing.assert_array_equal(unchanged, images)
    assert unchanged is not images


def test_rotation_by_a_right_angle_is_exact(images):
    turned = corrupt(images, "rotation", 90, rng())
    left = np.array([np.allclose(t, np.rot90(i)) for t, i in zip(turned, images, strict=True)])
    right = np.array([np.allclose(t, np.rot90(i, -1)) for t, i in zip(turned, images, strict=True)])
    assert np.all(left | right)
    assert 60 < left.sum() < 140


def test_noise_has_the_stated_deviation():
    grey = np.full((500, 8, 8), 0.5)
    noise = corrupt(grey, NOISE, 0.05, rng()) - 0.5
    assert noise.std() == pytest.approx(0.05, rel=0.02)
    assert noise.mean() == pytest.approx(0, abs=0.002)


def test_blur_has_the_stated_deviation_and_stays_in_its_image():
    dots = np.zeros((2, 21, 21))
    dots[0, 10, 10] = 1
    blurred = corrupt(dots, "blur", 1.5, rng())
    assert blurred[1].max() == 0
    offsets = np.arange(21) - 10
    assert blurred[0].sum() == pytest.approx(1)
    assert (blurred[0].sum(axis=0) * offsets**2).sum() == pytest.approx(1.5**2, rel=0.02)


def test_blur_draws_nothing(images):
    used, fresh = rng(), rng()
    corrupt(images, "blur", 1, used)
    assert used.random() == fresh.random()


def test_splits_are_disjoint_and_reproducible():
    sizes = {"train": 900, "source": 400, "user": SIZE - 1300}
    splits = digits_splits(0, sizes)
    assert {name: len(rows) for name, rows in splits.items()} == sizes
    assert sorted(np.concatenate(list(splits.values()))) == list(range(SIZE))
    again, other = digits_splits(0, sizes), digits_splits(1, sizes)
    np.testing.assert_array_equal(splits["user"], again["user"])
    assert set(splits["user"]) != set(other["user"])


def test_splits_leave_the_rest_out():
    splits = digits_splits(0, {"one": 1, "two": 2})
    assert [len(rows) for rows in splits.values()] == [1, 2]
    assert digits_splits(0, {}) == {}


def test_splits_ignore_and_leave_the_global_generator():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    digits_splits(0, {"one": 9})
    corrupt(np.zeros((3, 8, 8)), NOISE, 1, rng())
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_splits_refuse_more_digits_than_there_are():
    with pytest.raises(ValueError, match="at most 1797, the number of digits, got 1798"):
        digits_splits(0, {"one": 1000, "two": 798})
