"""Membership inference attacks and the choice of challenge points."""

import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import LiRA, Threshold, select_worst
from lib.audit.attacks import fit_models, log_ratio


def shadows(n_models=400, n=6, seed=0):
    """Point j shifts by j / 2 standard deviations when it is in."""
    rng = np.random.default_rng(seed)
    members = rng.integers(0, 2, (n_models, n)).astype(bool)
    values = rng.standard_normal((n_models, n)) + members * np.arange(n) / 2
    return values, members


def test_lira_is_the_log_likelihood_ratio():
    values, members = shadows()
    seen = np.array([-1.0, 0.0, 2.5])
    inside, outside = values[members[:, 4], 4], values[~members[:, 4], 4]
    expected = stats.norm.logpdf(seen, inside.mean(), inside.std(ddof=1)) - stats.norm.logpdf(
        seen, outside.mean(), outside.std(ddof=1)
    )
    found = LiRA().score(seen, values[:, 4], members[:, 4])
    assert found == pytest.approx(expected, abs=1e-12)
    assert Threshold().score(seen, None, None).tolist() == seen.tolist()
    assert log_ratio(values, *fit_models(values, members)).shape == values.shape


def test_lira_of_a_number_far_from_all_shadows():
    """The wider distribution is the more likely one, by more than a number can say."""
    values, members = np.array([0.0, 2.0, 0.0, 1.0]), np.array([True, True, False, False])
    assert LiRA().score(np.array([1e200, -1e300]), values, members).tolist() == [math.inf] * 2
    assert LiRA().score(np.array([1e200]), values, ~members).tolist() == [-math.inf]
    # Both alike in width: linear in the number.
    inside, outside = np.array([[1.0], [4.0]]), np.array([[0.0], [4.0]])
    found = log_ratio(np.array([1e200]), inside, outside)
    assert found == pytest.approx(1e200 / 4)


def test_the_worst_points_are_those_that_shift_most():
    values, members = shadows(n_models=2000)
    places, weights = select_worst(values, members, 2)
    assert set(places.tolist()) == {4, 5}
    # The best test between N(0, 1) and N(d, 1) is right with probability Phi(d / 2).
    rate = stats.norm.cdf(5 / 4)
    assert abs(weights[5] - rate) < 4 * math.sqrt(rate * (1 - rate) / 400)
    assert abs(weights[0] - 0.5) < 4 * 0.5 / math.sqrt(400)


def test_what_is_beyond_all_numbers_in_the_units_of_the_shadows_is_no_error():
    members = np.arange(10) % 2 == 0
    seen = LiRA().score(np.array([1e300, -1e300]), 1e-300 * np.arange(10.0), members)
    assert np.isfinite(seen).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-13, 1.0, 1e13])
def test_shadows_that_do_not_vary(scale):
    """All equal they tell nothing; members that differ from others by a constant tell all."""
    members = np.arange(10) % 2 == 0
    seen = scale * np.array([0.1, 0.3, 0.2])
    assert LiRA().score(seen, np.full(10, scale * 0.1), members).tolist() == [0, 0, 0]
    nearly = scale * (0.1 + 1e-17 * np.arange(10))
    assert LiRA().score(seen, nearly, members).tolist() == [0, 0, 0]
    found = LiRA().score(seen, scale * np.where(members, 0.3, 0.1), members)
    assert found == pytest.approx([-2e6, 2e6, 0], abs=1e-6)
