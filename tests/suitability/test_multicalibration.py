"""Multicalibration: on the fitted rows, on fresh ones, and where there is nothing to correct."""

import numpy as np
import pytest
from scipy import stats

from lib.suitability import Multicalibrator


def population(n, seed, gap=0.1):
    """Estimates, correctness and three overlapping groups; ``gap`` is what the estimates miss."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.2, 0.8, n)
    groups = rng.random((n, 3)) < [0.5, 0.3, 0.2]
    truth = p + gap * (groups[:, 0] & (p > 0.5)) - gap * groups[:, 2]
    return p, rng.random(n) < truth, groups, truth


@pytest.mark.parametrize("bins", [1, 7])
@pytest.mark.parametrize("seed", range(3))
def test_every_large_cell_is_right_on_the_fitted_rows(bins, seed):
    p, y, groups, _ = population(2000, seed)
    fitted = Multicalibrator(bins, 0.01, 50).fit(p, y, groups)
    q = fitted.predict(p, groups)
    assert 0 <= q.min() <= q.max() <= 1
    levels = np.minimum((q * bins).astype(int), bins - 1)
    for member in [np.ones(len(p), bool), *groups.T]:
        for cell in [member, *(member & (levels == b) for b in range(bins))]:
            assert cell.sum() < 50 or abs((y - q)[cell].mean()) <= 0.01 + 1e-12
    assert 0 < len(fitted.steps) <= 2000 / (50 * 0.01**2)
    assert ((y - q) ** 2).mean() < ((y - p) ** 2).mean()


def test_steps_by_hand():
    """0.5 where 0.9 are right and where 0.3 are: the group moves, then everybody, in turn."""
    group = np.arange(400)[:, None] < 200
    y = np.arange(400) % 10 < np.where(group[:, 0], 9, 3)
    fitted = Multicalibrator(bins=1).fit(np.full(400, 0.5), y, group)
    assert [(g, b) for g, b, _ in fitted.steps] == [(1, 0), (0, 0)] * 3 + [(1, 0)]
    shifts = [shift for *_, shift in fitted.steps]
    np.testing.assert_allclose(shifts, [0.4, -0.1, 0.1, -0.05, 0.05, -0.025, 0.025])
    np.testing.assert_allclose(fitted.predict([0.5, 0.5], [[True], [False]]), [0.9, 0.325])


def test_fresh_rows_of_a_cell_are_closer_to_the_truth():
    """The error of the mean falls to the tolerance and the chance of the fit's rows."""
    p, y, groups, _ = population(20_000, 1)
    fitted = Multicalibrator().fit(p, y, groups)
    fresh, _, others, truth = population(20_000, 2)
    q = fitted.predict(fresh, others)
    for cell in (others[:, 2], others[:, 0] & (fresh > 0.5)):
        before, after = ((e - truth)[cell].mean() for e in (fresh, q))
        assert abs(after) <= 0.02 + 4 * 0.5 / np.sqrt(cell.sum()) < abs(before)
    assert np.mean((q - truth) ** 2) < np.mean((fresh - truth) ** 2) / 2


def test_what_is_right_already_is_moved_by_chance_alone():
    """In 200 fits: with z = 3 a step is as rare as 12 cells of 0.27% make it; without, common."""
    moved = {0.0: 0, 3.0: 0}
    for seed in range(200):
        p, y, groups, _ = population(600, seed, gap=0.0)
        for z in moved:
            moved[z] += bool(Multicalibrator(bins=2, z=z).fit(p, y, groups).steps)
    assert moved[3.0] <= stats.binom.isf(1e-4, 200, 12 * 0.0027)
    assert moved[0.0] > 100


def test_small_groups_are_left_alone():
    p, y, groups, _ = population(90, 0)
    fitted = Multicalibrator().fit(p, y, groups)
    assert fitted.steps == []
    none = Multicalibrator(least=10).fit(p, y, np.empty((90, 0), bool))
    assert {group for group, _, _ in none.steps} == {0}


def test_the_most_that_z_may_be():
    assert Multicalibrator(z=100).z == 100
    with pytest.raises(ValueError, match=r"z must be .* 100.*101"):
        Multicalibrator(z=101)
