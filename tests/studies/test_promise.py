"""Thresholds chosen on draws from a population: what is judged, and the peer beside it."""

import math

import numpy as np
import pytest

from lib.privacy import PrivacyLedger, SampledGaussian
from lib.studies.beyond import promise
from lib.studies.beyond.promise import quantile_threshold


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
