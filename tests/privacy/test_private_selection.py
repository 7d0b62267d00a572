"""The best of a random number of private trials: its price, against exact divergences."""

import math

import numpy as np
import pytest
from scipy import stats

from lib.privacy import (
    PrivacyLedger,
    SampledGaussian,
    draw_trials,
    find_noise_multiplier,
    selection_epsilon,
    selection_noise_multiplier,
)
from lib.privacy.renyi import ORDERS

PLAN = (1e-5, 0.01, 500)
SHAPES = [0.0, 0.5, 1.0, 4.0]


def generating_function(mean, shape):
    """E[x^K] of the number of trials, written down from the definitions."""
    low, high = 1e-9, 1 - 1e-9
    for _ in range(200):  # the mean falls in gamma
        gamma = (low + high) / 2
        if shape == 0:
            m = (1 / gamma - 1) / math.log(1 / gamma)
        else:
            m = shape * (1 - gamma) / (gamma * (1 - gamma**shape))
        low, high = (gamma, high) if m > mean else (low, gamma)
    if shape == 0:
        return lambda x: np.log(1 - (1 - gamma) * x) / math.log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)


def best(p, mean, shape):
    """Distribution of the best of K draws; outcomes ascend in quality, none at all comes first."""
    pgf = generating_function(mean, shape)
    below = np.concatenate([[0.0], np.cumsum(p)])
    return np.diff(np.concatenate([[0.0], pgf(below)]))


@pytest.mark.parametrize("mean", [1.5, 5.0, 40.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_price_bounds_exact_outcomes(mean, shape):
    """A trial of one Gaussian step, seen through bins: the best bin of K draws."""
    sigma, delta = 2.0, 1e-5
    ledger = PrivacyLedger((SampledGaussian(1.0, sigma, 1),))
    edges = np.linspace(-8, 9, 300)
    p, q = (
        np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]), shift, sigma))
        for shift in (0.0, 1.0)
    )
    epsilon = selection_epsilon(ledger, delta, mean, shape)
    a, b = best(p, mean, shape), best(q, mean, shape)
    assert a.sum() == pytest.approx(1, abs=1e-9)
    for first, second in ((a, b), (b, a)):
        assert np.maximum(first - math.exp(epsilon) * second, 0).sum() <= delta
    # Not vacuous: a single trial's price is too little for many trials.
    single = ledger.epsilon(delta)
    assert epsilon > single
    if mean == 40:
        spent = max(
            np.maximum(first - math.exp(single) * second, 0).sum()
            for first, second in ((a, b), (b, a))
        )
        assert spent > delta / 10


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_of_trials_have_the_distribution_of_the_proof(shape):
    mean, size = 6.0, 40_000
    drawn = draw_trials(mean, shape, size=size, rng=3)
    assert drawn.min() == 1
    assert abs(drawn.mean() - mean) < 4.5 * drawn.std() / math.sqrt(size)
    pgf = generating_function(mean, shape)
    for x in (0.2, 0.9):  # its values are means of x^K
        values = x**drawn
        assert abs(values.mean() - pgf(x)) < 4.5 * values.std() / math.sqrt(size)
    assert (draw_trials(mean, shape, size=size, rng=3) == drawn).all()


@pytest.mark.slow
@pytest.mark.parametrize("mean", [2.0, 30.0])
@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_noise_keeps_the_budget_and_is_no_larger_than_it_must_be(mean, shape):
    delta, rate, steps = PLAN
    sigma = selection_noise_multiplier(3.0, *PLAN, mean, shape)
    assert sigma > find_noise_multiplier(3.0, *PLAN)

    def spent(noise):
        ledger = PrivacyLedger((SampledGaussian(rate, noise, steps),))
        return selection_epsilon(ledger, delta, mean, shape)

    assert spent(sigma) <= 3.0 < spent(sigma / 1.002)


def test_nothing_spent_costs_nothing_and_no_noise_is_no_privacy():
    assert selection_epsilon(PrivacyLedger(), 1e-5, 5) == 0
    assert selection_epsilon(PrivacyLedger((SampledGaussian(0.1, 0.0, 1),)), 1e-5, 5) == math.inf
    assert selection_noise_multiplier(math.inf, *PLAN, 5) == 0


@pytest.mark.slow
@pytest.mark.parametrize("mean", [1.5, 8.0, 1000.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_dp_accounting_says_the_same(mean, shape):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    orders = [order for order in map(float, ORDERS) if order >= 2]  # it fails to converge below
    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.2))
    accountant = RdpAccountant(orders)
    trial = dp_event.SelfComposedDpEvent(step, 500)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(trial, mean, shape))
    ledger = PrivacyLedger((SampledGaussian(0.01, 1.2, 500),))
    ours = selection_epsilon(ledger, 1e-5, mean, shape)
    theirs = accountant.get_epsilon(1e-5)
    assert 0.9999 * theirs <= ours <= theirs * (1 + 1e-6)  # we have orders below 2 as well
