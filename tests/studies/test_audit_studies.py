"""Studies of the three interval methods: numbers of the paper, exactness, honesty."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import METHODS, AttackCounts, epsilon_interval, epsilon_point, epsilon_posterior
from lib.studies.audit.tables import (
    actual_coverage,
    coverage_table,
    enclosed_mass,
    mass_outside,
    rectangle_mass,
    selection_study,
    swept_narrower,
    trials_needed,
    widths_by_trials,
)

EXAMPLE = AttackCounts(tp=65, fp=25, tn=75, fn=35)


@pytest.mark.parametrize(
    ("positives", "negatives", "epsilon", "delta"),
    [
        (100, 100, 0.4, 1e-5),
        (30, 50, 2.0, 0.05),
        (56, 50, 0.0, 1e-5),
        (5, 7, 3.0, 0.0),
        (500, 500, 9.0, 0.0),
        (1000, 1000, 3.81, 1e-5),
    ],
)
def test_all_tables_at_once_agree_with_one_at_a_time(positives, negatives, epsilon, delta):
    found = mass_outside(positives, negatives, epsilon, delta)
    assert found.shape == (positives + 1, negatives + 1)
    rng = np.random.default_rng(0)
    corners = [(0, 0), (0, negatives), (positives, 0), (positives, negatives)]
    corners += [(1, 5), (0, negatives // 2), (positives // 50, negatives // 10)]
    drawn = zip(rng.integers(0, positives, 12), rng.integers(0, negatives, 12), strict=True)
    for fn, fp in [*corners, *drawn]:
        counts = AttackCounts(positives - fn, fp, negatives - fp, fn)
        assert found[fn, fp] == pytest.approx(
            float(epsilon_posterior(counts, delta).sf(epsilon)), abs=1e-5
        )


def test_masses_of_the_papers_example():
    # The printed 96.3% and 99.8% are those of Clopper-Pearson's rectangle, not of Jeffreys'.
    assert round(rectangle_mass(EXAMPLE, 0.95, "clopper-pearson"), 3) == 0.963
    assert round(enclosed_mass(EXAMPLE, 0.05, 0.95, "clopper-pearson"), 3) == 0.998
    # Two independent 97.5% intervals hold 0.975 squared, whatever the counts.
    assert rectangle_mass(EXAMPLE, 0.95, "jeffreys") == pytest.approx(0.975**2, abs=1e-12)
    assert enclosed_mass(EXAMPLE, 0.05, 0.95, "bayesian") == pytest.approx(0.95, abs=1e-9)


def test_trials_needed_is_where_the_width_is_reached():
    found = trials_needed(0.4, 0.15, 1e-5)
    assert found == {"bayesian": 550, "jeffreys": 1430, "clopper-pearson": 1480}
    table = widths_by_trials(0.4, [540, 550, 1420, 1430, 1470, 1480], 1e-5)
    width = (table["high"] - table["low"]).to_numpy().reshape(3, 6)
    for row, place in zip(width, (1, 3, 5), strict=True):
        assert row[place] <= 0.3 < row[place - 1]


@pytest.mark.parametrize(("fpr", "fnr"), [(0.1, 0.3), (0.4, 0.45), (0.7, 0.8)])
def test_coverage_is_a_sum_over_all_tables(fpr, fnr):
    half, delta, level = 12, 1e-3, 0.9
    truth, expected = float(epsilon_point(fpr, fnr, delta)), {}
    for fn, fp in itertools.product(range(half + 1), repeat=2):
        chance = stats.binom.pmf(fn, half, fnr) * stats.binom.pmf(fp, half, fpr)
        counts = AttackCounts(half - fn, fp, half - fp, fn)
        for method in METHODS:
            holds = epsilon_interval(counts, delta, level, method, "lower")[0] <= truth
            expected[method] = expected.get(method, 0.0) + holds * chance
    found = actual_coverage(fpr, fnr, 2 * half, delta, level)
    assert found == pytest.approx(expected, abs=1e-8)


def test_clopper_pearson_never_below_its_level_and_bayesian_at_chance():
    grid = [(0.5, 0.5), (0.3, 0.3), (0.05, 0.9), (0.01, 0.01)]
    table = coverage_table(grid, [40, 200], 1e-5, 0.9)
    assert (table["clopper-pearson"] >= 0.9).all()
    # At epsilon = 0 no interval with a positive lower end holds the truth.
    assert table.loc[table["fpr"] == 0.5, "bayesian"].max() < 1e-6
    # An attack that never errs shows more than any number.
    assert actual_coverage(0.0, 0.0, 20, 1e-5, 0.9)["bayesian"] == 1.0


def test_equal_rates_are_where_the_bayesian_bound_fails():
    """The larger of two logarithms known with error is too large, however many trials."""
    for trials in (100, 400):
        equal = actual_coverage(0.1, 0.1, trials, 1e-5, 0.9)
        assert equal["bayesian"] < 0.75
        assert equal["clopper-pearson"] >= 0.9
    assert actual_coverage(0.1, 0.4, 400, 1e-5, 0.9)["bayesian"] == pytest.approx(0.9, abs=0.01)


def test_selection_study():
    repetitions, level = 200, 0.9
    table = selection_study([0.0, 1.0], 128, repetitions, 0.01, level, seed=3)
    share = table.set_index(["mu", "method", "choice"])["exceeds"]
    ceiling = stats.binom.isf(1e-4, repetitions, 1 - level) / repetitions
    for mu in (0.0, 1.0):
        for choice in ("fixed", "union", "held-out"):
            assert share[mu, "clopper-pearson", choice] <= ceiling
    # Choosing the best threshold breaks the Bayesian bound's level.
    assert share[0.0, "bayesian", "best"] > 0.5


def test_swept_bayesian_intervals_are_often_the_wider_ones():
    """Of 400 such audits 145 were narrower; without an error every one is."""
    assert swept_narrower(64, 8.0, 5, 1e-5, 0.9, seed=0) == 1.0
    share = swept_narrower(512, 0.6, 40, 1e-5, 0.9, seed=1)
    p = 145 / 400
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) * (1 / 40 + 1 / 400))
