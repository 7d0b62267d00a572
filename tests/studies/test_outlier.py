"""The outlier experiment: the models, and the statistics about them."""

import math

import numpy as np
import pytest

from lib.studies.interplay import outlier


def made(values, budgets=(math.inf, 7.0, 3.0, 1.0)):
    values = np.array(values, dtype=float)
    return outlier.OutlierStudy(
        budgets[: len(values)], values, values / 2, values / 4, np.zeros((2, 2)), values[:, :3]
    )


def test_growth_of_few_seeds_or_budgets():
    # At 0.5 a model is as sure of the wrong class as of the right one: that is misclassified.
    study = made([[0.1, 0.1, 0.1], [0.5, 0.6, 0.4], [0.7, 0.9, 0.9]])
    steps = np.array([0.2, 0.3])
    expected = steps.mean() / (steps.std(ddof=1) / math.sqrt(2))
    assert outlier.growth_of_wrong_confidence(study) == pytest.approx(expected)
    assert outlier.overall_growth(made([[0.1, 0.3], [0.6, 0.7], [0.7, 0.9]])) == pytest.approx(3.0)
    one_seed = made([[0.1], [0.6], [0.7]])
    one_budget = made([[0.1, 0.2], [0.6, 0.7]])
    for study in (one_seed, one_budget):
        assert math.isnan(outlier.growth_of_wrong_confidence(study))
        assert math.isnan(outlier.overall_growth(study))
    # Every seed grows by the same: as sure as can be.
    sure = outlier.overall_growth(made([[0.1, 0.1], [0.5, 0.75], [0.625, 0.875]]))
    assert 1e200 < sure < math.inf


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


def test_z_has_its_level_where_nothing_grows():
    """Three budgets, no trend: the smaller of two z exceeds 1.645 in at most 5% of the cases."""
    rng = np.random.default_rng(0)
    values = rng.normal(0.7, 0.05, (2000, 4, 50)).clip(0.5, 1)
    exceed = sum(outlier.growth_of_wrong_confidence(made(each)) > 1.645 for each in values)
    assert exceed / 2000 <= 0.055
