"""The engine's memory is that of its results."""

import pytest

from lib.studies.training import benchmark


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_models():
    results = 512 * (2410 + 64) * 4 / 2**20  # parameters of all models are part of the result
    assert benchmark.peak_memory("mlp", 512, 5) < 4 * results + 20
    assert benchmark.peak_memory("mlp", 2, 5) < 20
