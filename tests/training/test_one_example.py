"""Data of one example: delta = 1 / 1 is none."""

import numpy as np
import pytest

from lib.training import ModelSpec, TrainingConfig, TrainingData, train

DATA = TrainingData(np.ones((1, 3), np.float32), np.array([1]), 2)
CONFIG = TrainingConfig(ModelSpec("linear", inputs=(3,), classes=2), batch_size=1, steps=2)


def test_plain_training_spends_everything_at_any_delta():
    result = train(CONFIG, DATA, np.ones((1, 3), np.float32))
    assert result.epsilon == np.inf
    assert result.plan.delta == 0


def test_private_training_asks_for_a_delta():
    private = TrainingConfig(CONFIG.model, noise_multiplier=1.0, batch_size=1, steps=2)
    with pytest.raises(ValueError, match="delta must be given for one training example"):
        train(private, DATA, np.ones((1, 3), np.float32))
