"""The outlier experiment: the models, and the statistics about them."""

import itertools
import math

import numpy as np
import pytest

from lib.studies.interplay import outlier
from lib.training import ModelSpec, TrainingConfig, TrainingData, module_of, train_many


def made(values, budgets=(math.inf, 7.0, 3.0, 1.0)):
    values = np.array(values, dtype=float)
    return outlier.OutlierStudy(
        budgets[: len(values)], values, values / 2, values / 4, np.zeros((2, 2)), values[:, :3]
    )


def test_every_cell_of_the_outlier_study_is_a_training_of_its_own(monkeypatch):
    # Without privacy, whose accounting takes longer than all of this: only the seeds differ.
    budgets, seeds, n = (math.inf, math.inf), 6, 30
    # So little training that many points are still near the boundary, on either side.
    options = {"batch_size": 8, "clipping_norm": 0.5, "learning_rate": 0.01, "steps": 3}
    monkeypatch.setattr(outlier, "POINTS", n)
    monkeypatch.setattr(outlier, "DISTANCE", 4.0)
    study = outlier.run_outlier(budgets, seeds, seed=3, **options)
    rng = np.random.default_rng([3, 0x0071])
    drawn = []
    for _ in range(2 * seeds):  # training and test set of each seed
        points = rng.standard_normal((n + 1, 2))
        points[n, 0] += 4.0
        drawn.append(points)
    labels = np.array([1] * n + [0])
    assert study.epsilons == budgets
    assert study.points == pytest.approx(drawn[0], abs=1e-6)
    logits = []
    for i, k in itertools.product(range(2), range(seeds)):
        data = TrainingData(drawn[2 * k], labels, 2)
        config = TrainingConfig(
            ModelSpec("linear", (2,), 2),
            epsilon=budgets[i],
            seed=3_000_000 + seeds * i + k,
            **options,
        )
        (result,) = train_many([config], [data], drawn[2 * k])
        layer = module_of(result)[-1]
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        w, b = weight[0] - weight[1], bias[0] - bias[1]
        if k == 0:
            assert study.weights[i] == pytest.approx([*w, b], abs=1e-4)
        wrong = [1 / (1 + math.exp(points[n] @ w + b)) for points in drawn[2 * k : 2 * k + 2]]
        assert study.wrong_confidence[i, k] == pytest.approx(wrong[0], abs=1e-4)
        assert study.test_wrong_confidence[i, k] == pytest.approx(wrong[1], abs=1e-4)
        logits.append(drawn[2 * k + 1][n] @ w + b)
        said = np.where(drawn[2 * k + 1] @ w + b > 0, 0, 1)
        assert study.test_accuracy[i, k] == pytest.approx((said == labels).mean())
    # Outliers on either side of the boundary, and near it.
    assert min(logits) < 0
    assert any(0 < z < 1 for z in logits)


def test_the_outlier_study_of_the_paper_by_default(monkeypatch):
    """Figure 1: a thousand points and one around (10, 0), in batches of 128."""
    seen = []

    def capture(configs, data, inputs):
        seen.append((configs, data, inputs))
        raise InterruptedError

    monkeypatch.setattr(outlier, "train_many", capture)
    with pytest.raises(InterruptedError):
        outlier.run_outlier((math.inf, 1.0), 3, seed=0)
    ((configs, data, inputs),) = seen
    assert [c.epsilon for c in configs] == [math.inf] * 3 + [1.0] * 3
    assert [c.seed for c in configs] == list(range(6))
    for config in configs:
        assert config == TrainingConfig(
            ModelSpec("linear", (2,), 2),
            epsilon=config.epsilon,
            clipping_norm=1.0,
            batch_size=128,
            steps=1600,
            learning_rate=1.0,
            seed=config.seed,
        )
    points = np.random.default_rng([0, 0x0071]).standard_normal((1001, 2))
    points[1000, 0] += 10
    assert data[0].inputs == pytest.approx(points, abs=1e-5)
    assert inputs is data[0].inputs
    assert data[0].targets.tolist() == [1] * 1000 + [0]
    assert data[0].classes == 2
    assert all(data[3 + k] is data[k] for k in range(3))


def test_the_sweep_of_rates_by_default(monkeypatch):
    given = []

    def study(*arguments, **options):
        given.append((*arguments, options))
        return made([[0.1, 0.4], [0.6, 0.75], [0.7, 0.9]], arguments[0])

    monkeypatch.setattr(outlier, "run_outlier", study)
    budgets = (math.inf, 2.5, 1.0)
    table = outlier.rate_sweep(budgets, 2, seed=1)
    assert given == [
        (budgets, 2, {"learning_rate": rate, "seed": 1}) for rate in (0.1, 0.3, 1.0, 3.0)
    ]
    assert list(table) == [
        "learning rate",
        "epsilon = inf",
        "epsilon = 2.5",
        "epsilon = 1",
        "aligned",
        "z, aligned",
        "z, all",
    ]
    assert table["learning rate"].tolist() == [0.1, 0.3, 1.0, 3.0]
    assert table["epsilon = inf"].tolist() == pytest.approx([0.25] * 4)
    assert table["z, aligned"].tolist() == pytest.approx([0.125 / 0.025] * 4)
    assert table["epsilon = 2.5"].tolist() == pytest.approx([0.675] * 4)
    assert table["aligned"].tolist() == [2] * 4
    assert table["z, all"].tolist() == pytest.approx([0.125 / 0.025] * 4)

    # A seed is aligned if all private models err, as one at 0.5 does; that of seed 0 does not.
    one = made([[0.1, 0.4, 0.2], [0.3, 0.5, 0.6], [0.7, 0.9, 0.8]], budgets)
    monkeypatch.setattr(outlier, "run_outlier", lambda *arguments, **options: one)
    assert set(outlier.rate_sweep(budgets, 3, seed=1)["aligned"]) == {2}
    few = made([[0.1, 0.4], [0.3, 0.75], [0.7, 0.4]], budgets)
    monkeypatch.setattr(outlier, "run_outlier", lambda *arguments, **options: few)
    assert set(outlier.rate_sweep(budgets, 2, seed=1)["aligned"]) == {0}


def test_the_table_of_the_outlier():
    study = made([[0.1, 0.4, 0.5], [0.6, 0.7, 0.8]])
    table = outlier.outlier_table(study)
    assert list(table) == [
        "epsilon",
        "wrong confidence",
        "standard error",
        "outlier misclassified",
        "at a new outlier",
        "test accuracy",
    ]
    assert table["epsilon"].tolist() == [math.inf, 7.0]
    assert table["wrong confidence"].tolist() == pytest.approx([1 / 3, 0.7])
    # sd 0.2082 and 0.1 over the root of 3.
    assert table["standard error"].tolist() == pytest.approx([0.120185, 0.057735], abs=1e-6)
    assert table["outlier misclassified"].tolist() == pytest.approx([1 / 3, 1.0])
    assert table["at a new outlier"].tolist() == pytest.approx([1 / 6, 0.35])
    assert table["test accuracy"].tolist() == pytest.approx([1 / 12, 0.175])


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
