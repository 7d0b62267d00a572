"""A panel, an imbalance study and an outlier study with chosen numbers: nothing is trained."""

import math

import numpy as np
import pandas as pd

from lib.studies.interplay.experiments import (
    Experiments,
    ExperimentSettings,
    Imbalance,
    Predictions,
)
from lib.studies.interplay.outlier import OutlierStudy
from lib.training import DataSpec, ModelSpec, TrainingConfig

EPSILONS = (math.inf, 3.0, 1.0)
COVERAGES = (0.5, 1.0)


def predictions(accuracy, noise, n=60, seeds=2, seed=0):
    """Exactly round(accuracy n) points are right; scores are the better the less noise."""
    rng = np.random.default_rng([seed, round(1000 * accuracy)])
    correct = np.array([rng.permutation(n) < round(accuracy * n) for _ in range(seeds)])
    return Predictions(correct, correct + noise * rng.normal(size=correct.shape))


def panel(selective_net=True, epsilons=EPSILONS, seeds=2):
    """SR is the more accurate and the better ranked the larger the budget, the others worse."""
    settings = ExperimentSettings(
        DataSpec(train=1000, validation=10, test=60),
        TrainingConfig(
            ModelSpec("mlp", (64,), 10, hidden=(8,)), steps=40, batch_size=50, checkpoint_every=20
        ),
        epsilons=epsilons,
        n_seeds=seeds,
        coverages=COVERAGES,
    )
    found = {}
    for i, epsilon in enumerate(epsilons):
        for k, method in enumerate(
            ("SR", "SCTD", "SCTD, ties by SR", "MCDO", "SR, no entropy", "SCTD, no entropy")
        ):
            found[method, epsilon] = predictions(
                0.9 - 0.1 * i - 0.05 * (k == 3), 0.5 + 0.2 * i + 0.1 * k, seeds=seeds, seed=k
            )
    selective = {}
    if selective_net:
        for i, epsilon in enumerate(epsilons):
            each = [predictions(0.8 - 0.2 * i, 0.3, seeds=seeds, seed=9 + j) for j in range(2)]
            selective[epsilon] = Predictions(
                np.stack([p.correct for p in each], 1), np.stack([p.score for p in each], 1)
            )
    rows = [
        (family, epsilon, rate, math.nan if family == "MCDO" else 0.5 + rate / 10, 1, rate == 1.0)
        for family in ("plain", "MCDO")
        for epsilon in epsilons
        for rate in (0.1, 1.0)
    ]
    columns = ["family", "epsilon", "rate", "accuracy", "trainings", "chosen"]
    rates = pd.DataFrame(rows, columns=columns)
    spent = [
        (family, epsilon, models, 1.5, epsilon / 2, epsilon)
        for family, models in (("plain", 1), ("MCDO", 1), ("DE", 5))
        for epsilon in epsilons
    ]
    columns = ["family", "epsilon", "models", "noise_multiplier", "each", "spent"]
    return Experiments(
        settings,
        np.zeros(60, int),
        found,
        selective,
        {},
        rates,
        pd.DataFrame(spent, columns=columns),
        60.0,
    )


def imbalance():
    """Twenty points, five of class 0, which come last and are all wrong at the smaller p0."""
    labels = np.repeat([0, 1], [5, 15])
    score = np.r_[np.linspace(0.05, 0.2, 5), np.linspace(0.3, 0.9, 15)]
    found = {}
    for p0 in (0.5, 0.01):
        for epsilon in (math.inf, 1.0):
            correct = np.ones((2, 20), bool)
            correct[:, : 2 if p0 == 0.5 else 5] = False
            found[p0, epsilon] = Predictions(correct, np.stack([score, score]))
    return Imbalance((0.5, 0.01), (math.inf, 1.0), labels, found, {0.5: 50, 0.01: 1}, 9.0)


def outlier():
    """Three budgets, of which the first has a boundary at x1 = 2 and the last has none."""
    rng = np.random.default_rng(0)
    points = np.r_[rng.normal(size=(9, 2)), [[10.0, 0.5]]]
    wrong = np.array([[0.2, 0.1, 0.3], [0.5, 0.6, 0.4], [0.9, 0.8, 1.0]])
    weights = np.array([[2.0, 0.0, -4.0], [1.0, 1.0, -3.0], [0.0, 1.0, 1.0]])
    return OutlierStudy(EPSILONS, wrong, wrong, wrong, points, weights)
