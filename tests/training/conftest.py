"""Small data for training tests."""

import numpy as np
import pytest

from lib.data import digits_splits, load_digits
from lib.training import TrainingData


@pytest.fixture(scope="session")
def digits():
    """Training data, evaluation points and their labels."""
    source = load_digits()
    rows = digits_splits(0, {"train": 1200, "test": 597})
    x = source.images.reshape(-1, 64).astype(np.float32)
    data = TrainingData(x, source.labels, 10, rows["train"])
    return data, x[rows["test"]], source.labels[rows["test"]]


@pytest.fixture(scope="session")
def images():
    """Random images with four classes, and some to evaluate on."""
    rng = np.random.default_rng(0)
    x = rng.random((150, 1, 28, 28), dtype=np.float32)
    return TrainingData(x, rng.integers(0, 4, 150), 4, np.arange(120)), x[120:]
