"""What attacks see of a model, and the points that are canaries."""

import mpmath
import numpy as np
import pytest

from lib.training import TrainingData, confidence, relabel


def test_confidence_is_the_log_odds_of_the_label_however_sure_the_model_is():
    logits = np.array([[0.0, 1.0, -2.0], [80.0, 0.0, 1.0], [0.0, 90.0, -90.0]])
    labels, expected = [2, 0, 0], []
    with mpmath.workdps(100):
        for row, label in zip(logits.tolist(), labels, strict=True):
            parts = [mpmath.exp(z) for z in row]
            p = parts[label] / sum(parts)
            expected.append(float(mpmath.log(p / (1 - p))))
    assert confidence(logits, labels) == pytest.approx(expected, rel=1e-6)


def test_canaries_are_the_last_points_with_any_wrong_label():
    targets = np.arange(3000) % 5
    data = relabel(TrainingData(np.zeros((3000, 1), np.float32), targets, 5), 2000, 0)
    assert np.array_equal(data.targets[:1000], targets[:1000])
    shift = (data.targets - targets)[1000:] % 5
    # Each of four is binomial with a standard deviation of 19.4.
    assert np.abs(np.bincount(shift, minlength=5) - [0, 500, 500, 500, 500]).max() < 88
