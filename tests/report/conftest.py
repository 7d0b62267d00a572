"""What several files look at."""

import pytest

from lib.report import ModelPredictions, example_predictions, read_predictions


@pytest.fixture(scope="session")
def example(tmp_path_factory) -> ModelPredictions:
    """The example of a report, as it is read."""
    return read_predictions(example_predictions(tmp_path_factory.mktemp("e") / "e.npz", seed=0))
