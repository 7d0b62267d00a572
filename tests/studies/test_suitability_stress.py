"""Cheats, sample sizes and groups on a made-up study whose truth is known."""

import numpy as np
import pytest
from scipy import stats

from lib.studies.suitability.data import Study
from lib.studies.suitability.stress_tests import (
    _moved,
    binomial_limits,
    compare_calibrations,
    simulate_cheats,
)
from lib.suitability import signals


def table(n, strength, seed):
    """Signals and correctness of a classifier of three classes, worse if its logits are weaker."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    logits = strength * np.eye(3)[labels] + rng.normal(size=(n, 3))
    return signals(logits).to_numpy(), logits.argmax(axis=1) == labels


def study(n=6000):
    splits = {"id": table(n, 2.0, 0), "same": table(3000, 2.0, 1), "worse": table(3000, 1.6, 2)}
    half = np.arange(n) % 2 == 0
    folds = {
        "ID": [("id", np.flatnonzero(half), "id · a"), ("id", np.flatnonzero(~half), "id · b")],
        "OOD": [("same", np.arange(3000), "same · b"), ("worse", np.arange(3000), "worse · c")],
    }
    return Study("made up", 0, splits, ("id",), folds)


@pytest.fixture(scope="module")
def draws():
    return simulate_cheats(study(), 400, 100, 0.03, 30, np.random.default_rng(0)).assign(seed=0)


def test_checks_of_honest_data_keep_their_level(draws):
    """30 draws: false alarms of the reference, and of labels drawn from suitable data."""
    honest = draws[draws["cheat"] == "honest"]
    same = honest[honest["truth"]]
    most = stats.binom.isf(1e-4, len(same), 0.05)
    assert same["moved_reference"].sum() <= most
    assert same["moved_source"].sum() <= most
    assert same["labels_drawn"].sum() <= most
    assert not honest["copies"].any()


@pytest.mark.parametrize(("n", "m"), [(30, 20), (200, 500)])
def test_moved_keeps_its_level(n, m):
    rng = np.random.default_rng(n)
    said = sum(_moved(rng.random((n, 12)), rng.random((m, 12))) for _ in range(2000))
    assert said <= stats.binom.isf(1e-4, 2000, 0.05)
    shifted = sum(_moved(rng.random((200, 12)), rng.random((200, 12)) ** 2) for _ in range(50))
    assert shifted > 45


@pytest.mark.parametrize(("count", "n"), [(0, 8), (3, 8), (8, 8), (1, 30)])
def test_limits_of_whole_counts_are_clopper_and_pearsons(count, n):
    exact = stats.binomtest(count, n).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(binomial_limits(count / n, n), exact, atol=1e-12)


@pytest.mark.parametrize("concentration", [0.1, 1.0, 20.0])
@pytest.mark.parametrize(("mean", "n"), [(0.02, 5), (0.1, 10), (0.5, 5), (0.9, 25)])
def test_limits_of_fractions_cover(mean, n, concentration):
    """Means of n beta variables, from nearly yes or no to nearly constant."""
    rng = np.random.default_rng(0)
    a, b = mean * concentration, (1 - mean) * concentration
    limits = [binomial_limits(rng.beta(a, b, n).mean(), n) for _ in range(500)]
    missed = sum(not low <= mean <= high for low, high in limits)
    assert missed <= stats.binom.isf(1e-4, 500, 0.05)


def test_multicalibration_corrects_a_group_that_signals_do_not_show():
    """In every second source row a right prediction is taken away with probability 0.4."""
    one = study()
    x, y = one.splits["id"]
    spoilt = (np.arange(len(y)) % 2 == 0) & (np.random.default_rng(9).random(len(y)) < 0.4)
    one.splits["id"] = (x, y & ~spoilt)
    found = compare_calibrations(one, 3000, 2, np.random.default_rng(0)).assign(dataset="made up")
    table = found[found["kind"] == "ID"].groupby("method")["size"].mean()
    assert table["paper"] > 0.1
    for method in ("group means", "multicalibrated", "beyond 3 s.e."):
        # Tolerance, and the chance of 750 and 1,500 rows: four standard errors.
        assert table[method] < 0.02 + 4 * np.sqrt(0.25 / 750 + 0.25 / 1500)
    assert table["half"] > 0.1
