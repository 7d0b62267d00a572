"""The outlier experiment: the models, and the statistics about them."""

import math

import numpy as np
import pytest
import torch

from lib.studies.interplay import outlier
from lib.training import ModelSpec, TrainingConfig, TrainingData, module_of, train

STUDY = outlier.run_outlier((math.inf, 3.0), 6, n_majority=200, steps=150)


def test_confidence_is_the_softmax_of_the_trained_model():
    rng = np.random.default_rng([0, 0x0071])
    points = rng.standard_normal((201, 2)) + np.r_[np.zeros((200, 2)), [[10, 0]]]
    assert np.allclose(STUDY.points, points, atol=1e-6)
    data = TrainingData(points, np.r_[np.ones(200, int), 0], 2)
    config = TrainingConfig(
        ModelSpec("linear", (2,), 2), epsilon=3.0, steps=150, learning_rate=1.0, seed=6
    )
    module = module_of(train(config, data, points))
    with torch.no_grad():
        p = torch.softmax(module(torch.tensor(points[-1:], dtype=torch.float32)), 1)[0]
    assert STUDY.wrong_confidence[1, 0] == pytest.approx(p[outlier.MAJORITY].item(), abs=1e-4)
    w1, w2, b = STUDY.weights[1]
    z = w1 * points[-1, 0] + w2 * points[-1, 1] + b
    assert 1 / (1 + math.exp(z)) == pytest.approx(STUDY.wrong_confidence[1, 0], abs=1e-9)


def test_table():
    table = outlier.outlier_table(STUDY)
    assert table["wrong confidence"].tolist() == STUDY.wrong_confidence.mean(1).tolist()
    share = (STUDY.wrong_confidence >= 0.5).mean(1)
    assert table["outlier misclassified"].tolist() == share.tolist()
    assert (table["test accuracy"] > 0.9).all()


def made(values):
    values = np.array(values, dtype=float)
    budgets = (math.inf, 7.0, 3.0, 1.0)[: len(values)]
    return outlier.OutlierStudy(budgets, values, values, values, np.zeros((2, 2)), values[:, :3])


def test_growth_uses_aligned_seeds_only():
    study = made(
        [
            [0.1, 0.1, 0.1, 0.1],
            [0.6, 0.7, 0.8, 0.2],  # the last seed is right here: not aligned
            [0.7, 0.9, 0.9, 0.9],
            [0.8, 0.95, 0.99, 0.1],
        ]
    )
    first = np.array([0.1, 0.2, 0.1])
    second = np.array([0.1, 0.05, 0.09])
    z = min(s.mean() / (s.std(ddof=1) / math.sqrt(3)) for s in (first, second))
    assert outlier.growth_of_wrong_confidence(study) == pytest.approx(z)
    assert outlier.overall_growth(study) < 0


def test_growth_without_aligned_seeds_is_unknown():
    study = made([[0.1] * 4, [0.2] * 4, [0.9] * 4, [0.9] * 4])
    assert math.isnan(outlier.growth_of_wrong_confidence(study))


def test_z_has_its_level_where_nothing_grows():
    """Three budgets, no trend: the smaller of two z exceeds 1.645 in at most 5% of the cases."""
    rng = np.random.default_rng(0)
    exceed = 0
    for _ in range(2000):
        values = rng.normal(0.7, 0.05, (4, 50)).clip(0.5, 1)
        exceed += outlier.growth_of_wrong_confidence(made(values)) > 1.645
    assert exceed / 2000 <= 0.055
