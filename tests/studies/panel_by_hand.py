"""A panel and an imbalance study with chosen numbers: nothing is trained."""

import math

import numpy as np
import pandas as pd

from lib.studies.interplay.experiments import (
    Experiments,
    ExperimentSettings,
    Imbalance,
    Predictions,
)
from lib.training import DataSpec, ModelSpec, TrainingConfig

EPSILONS = (math.inf, 3.0, 1.0)
COVERAGES = (0.5, 1.0)


def predictions(accuracy, noise, n=60, seeds=2, seed=0):
    """Exactly round(accuracy n) points are right; scores are the better the less noise."""
    rng = np.random.default_rng([seed, round(1000 * accuracy)])
    correct = np.array([rng.permutation(n) < round(accuracy * n) for _ in range(seeds)])
    return Predictions(correct, correct + noise * rng.normal(size=correct.shape))


def panel(seeds=2):
    """SR is the more accurate and the better ranked the larger the budget, the others worse."""
    settings = ExperimentSettings(
        DataSpec(train=1000, validation=10, test=60),
        TrainingConfig(
            ModelSpec("mlp", (64,), 10, hidden=(8,)), steps=40, batch_size=50, checkpoint_every=20
        ),
        epsilons=EPSILONS,
        n_seeds=seeds,
        coverages=COVERAGES,
    )
    found = {}
    for i, epsilon in enumerate(EPSILONS):
        for k, method in enumerate(("SR", "SCTD", "SCTD, ties by SR", "MCDO")):
            found[method, epsilon] = predictions(
                0.9 - 0.1 * i - 0.05 * (k == 3), 0.5 + 0.2 * i + 0.1 * k, seeds=seeds, seed=k
            )
    selective = {}
    for i, epsilon in enumerate(EPSILONS):
        each = [predictions(0.8 - 0.2 * i, 0.3, seeds=seeds, seed=9 + j) for j in range(2)]
        selective[epsilon] = Predictions(
            np.stack([p.correct for p in each], 1), np.stack([p.score for p in each], 1)
        )
    none = pd.DataFrame()
    return Experiments(settings, np.zeros(60, int), found, selective, {}, none, none, 60.0)


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
