"""Thresholds chosen on draws from a population: what is judged, and the peer beside it."""

import math

import numpy as np
import pytest
from chapter_cells import settings_of

from lib.privacy import PrivacyLedger, SampledGaussian
from lib.selective import coverage_at_accuracy
from lib.studies.beyond import promise
from lib.studies.beyond.promise import WAYS, quantile_threshold

PARAMETERS = {
    **{"dataset": "digits", "model": "mlp", "hidden": 4, "activation": "tanh", "seed": 0},
    **{"epochs": 0, "steps": 20, "batch_size": 128, "clipping_norm": 1.0, "momentum": 0.9},
    **{"schedule": "constant", "device": "cpu", "epsilon": 7.0, "rate": 0.5, "target": 0.9},
    **{"level": 0.95, "candidates": 12, "budgets": [3.0, 0.3], "sizes": [3000, 100], "draws": 20},
}


@pytest.fixture(scope="module")
def settings():
    return settings_of("promise", PARAMETERS, "digits")


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(1)
    score = rng.random(4000)
    return rng.random(4000) < 0.75 + 0.25 * score, score


@pytest.fixture(scope="module")
def found(settings, points):
    return promise.evaluate(settings, *points)


def test_what_is_judged_is_the_population(settings, points, found):
    correct, score = points
    best = coverage_at_accuracy(correct, score, settings.target)
    kept = found[found["broken"] == 0]
    assert (kept["coverage"] <= best + 1e-9).all()
    many = found[found["n"] == 3000].set_index(["way", "epsilon"])
    assert 0.2 < many.loc[(WAYS[0], 3.0), "coverage"] <= many.loc[(WAYS[1], math.inf), "coverage"]
    assert many.loc[(WAYS[0], 0.3), "coverage"] < many.loc[(WAYS[0], 3.0), "coverage"]
    few = found[found["n"] == 100].set_index(["way", "epsilon"])
    assert few.loc[(WAYS[0], 0.3), "none"] > 0.9


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_private_quantile_keeps_its_own_promise(epsilon):
    """In the mean over draws at most a fraction alpha of new scores lies above."""
    rng, edges, alpha, n = np.random.default_rng(3), np.linspace(0, 1, 101), 0.1, 1000
    found = [quantile_threshold(rng.random(n), edges, alpha, epsilon, rng) for _ in range(600)]
    above = 1 - np.array(found)
    assert above.mean() <= alpha + 4 * above.std() / math.sqrt(len(found))
    assert above.mean() > 0.2 * alpha
    if epsilon == 4.0:
        assert (above > alpha).mean() > 0.01  # a mean is no promise for one threshold


def test_model_and_threshold_together():
    ledger = PrivacyLedger((SampledGaussian(0.1, 1.0, 50),))
    table = promise.compositions(promise.Trained(None, None, ledger, 1e-3), (0.3, 3.0))
    assert (table["same people"] < table["sum"]).all()
    assert (table["no one in both"] == np.maximum(table["model"], table["threshold"])).all()
    assert (table["no one in both"] < table["same people"]).all()
