"""Trade-off curves of ledgers: against exact curves, a second discretisation, and guarantees."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from lib.privacy import (
    LaplaceLabels,
    PrivacyLedger,
    RandomizedResponse,
    SampledGaussian,
    TradeOff,
    trade_off,
)

FPR = np.r_[0.0, np.geomspace(1e-9, 0.5, 60), np.linspace(0.5, 1, 40)]
EPSILONS = np.linspace(0, 6, 61)


def ledger(*entries):
    return PrivacyLedger(tuple(SampledGaussian(*entry) for entry in entries))


def gaussian_delta(epsilons, mu):
    return norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * norm.cdf(-mu / 2 - epsilons / mu)


def implied(curve, epsilons):
    """The least delta at each epsilon that a curve proves: a line through one of its corners."""
    fpr, caught = curve._corners(0.0)
    assert np.abs(1 - curve.fnr(fpr) - caught).max() < 1e-12
    return np.array([np.max(caught - math.exp(e) * fpr) for e in epsilons])


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("steps", [1, 16])
def test_the_gaussian_mechanism(mu, steps):
    curve = trade_off(ledger((1.0, math.sqrt(steps) / mu, steps)))
    exact = norm.cdf(norm.isf(FPR) - mu)
    found = curve.fnr(FPR)
    assert (found <= exact + 1e-14).all()  # never more than is true
    assert (exact - found).max() < 2e-3 * min(1, mu)
    # And its mu: a little less, as an event of chance 1e-9 is spared, or more by discretisation.
    assert mu * (1 - 1e-2) < curve.mu(1e-5) < curve.mu(1e-9) < mu * (1 + 1e-3)
    assert curve.mu(1e-9) > mu * (1 - 2e-3)


@pytest.mark.parametrize("q", [0.02, 0.2, 0.7])
def test_both_directions_of_one_subsampled_step(q):
    """Exact by hand: the curve of one direction is the other's inverse, and ours is below both."""
    mu = 1.5
    t = np.linspace(-12, 12, 40_001)
    fpr, fnr = norm.sf(t), (1 - q) * norm.cdf(t) + q * norm.cdf(t - mu)
    curve = trade_off(ledger((q, 1 / mu, 1)))
    assert (curve.fnr(fpr) <= fnr + 1e-13).all()
    assert (curve.fnr(fnr) <= fpr + 1e-13).all()
    # It is the tightest symmetric one: no delta is larger than in the worse direction.
    remove = np.array([np.max(1 - fnr - math.exp(e) * fpr) for e in EPSILONS])
    add = np.array([np.max(1 - fpr - math.exp(e) * fnr) for e in EPSILONS])
    worse = np.maximum(remove, add)
    assert (implied(curve, EPSILONS) >= worse - 1e-12).all()
    assert (implied(curve, EPSILONS) - worse).max() < 5e-4


@pytest.mark.slow
def test_against_dp_accounting_rounded_up_and_down():
    """Its finest way above, its optimistic one below: the truth is between, and we are above it."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    entries = [(0.1, 2.0, 100), (0.02, 1.0, 300), (1.0, 20.0, 3)]

    def composed(pessimistic):
        total = None
        for q, sigma, steps in entries:
            one = pld.from_gaussian_mechanism(
                sigma,
                sampling_prob=q,
                pessimistic_estimate=pessimistic,
                value_discretization_interval=4e-4,
                use_connect_dots=pessimistic,
            ).self_compose(steps)
            total = one if total is None else total.compose(one)
        return total

    curve = trade_off(ledger(*entries))
    found = implied(curve, EPSILONS)
    least = np.array([composed(False).get_delta_for_epsilon(e) for e in EPSILONS[:1]])
    assert found[0] >= least[0] - 1e-12
    finest = composed(True).get_delta_for_epsilon(EPSILONS)
    assert np.abs(found - finest).max() < 1e-3 * finest[0]
    seen = finest > 1e-8
    assert (found[seen] > finest[seen] * (1 - 1e-3)).all()
    assert (found[seen] < finest[seen] * 1.05).all()
    # The accountant's epsilon at a delta allows what the curve does, and more.
    for delta in (1e-3, 1e-5):
        epsilon = ledger(*entries).epsilon(delta, "pld")
        region = np.maximum(1 - delta - np.exp(epsilon) * FPR, np.exp(-epsilon) * (1 - delta - FPR))
        assert (curve.fnr(FPR) > region - 1e-3).all()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pure_mechanisms(epsilon):
    for mechanism in (RandomizedResponse(epsilon), LaplaceLabels.for_epsilon(epsilon)):
        curve = trade_off(mechanism.epsilon)
        exact = np.maximum(1 - math.exp(epsilon) * FPR, math.exp(-epsilon) * (1 - FPR))
        if isinstance(mechanism, LaplaceLabels):
            assert (curve.fnr(FPR) >= np.maximum(exact, 0) - 1e-12).all()
            continue
        assert (curve.fnr(FPR) <= exact + 1e-12).all()
        assert np.abs(curve.fnr(FPR) - exact).max() < 1e-12
        assert curve.mu(0.0) == math.inf  # the table of deltas ends at 1e-15
        most = 2 * norm.isf(1 / (1 + math.exp(epsilon)))
        assert curve.mu(1e-9) == pytest.approx(most, rel=1e-6)


def test_randomized_response_with_many_classes():
    """Three outputs matter: either label, or any of the others, which says nothing."""
    epsilon, classes = 2.0, 10
    mechanism = RandomizedResponse(epsilon)
    curve = trade_off(lambda delta: mechanism.epsilon(delta, n_classes=classes))
    total = math.exp(epsilon) + classes - 1
    kept, other = math.exp(epsilon) / total, 1 / total
    exact = np.interp(FPR, [0, other, 1 - kept, 1], [1, 1 - kept, other, 0])
    assert (curve.fnr(FPR) <= exact + 1e-12).all()
    assert np.abs(curve.fnr(FPR) - exact).max() < 1e-3
    assert (curve.fnr(FPR) >= trade_off(mechanism.epsilon).fnr(FPR) - 1e-12).all()


@pytest.mark.parametrize("spared", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize("entries", [(0.1, 1.2, 250), (0.01, 0.8, 2000), (0.5, 4.0, 30)])
def test_mu_is_the_smallest_that_is_proven(entries, spared):
    """For every epsilon delta(epsilon) <= spared + (1 - spared) delta_mu(epsilon), and tightly."""
    curve = trade_off(ledger(entries))
    mu = curve.mu(spared)
    excess = curve.deltas - spared - (1 - spared) * gaussian_delta(curve.epsilons, mu)
    assert excess.max() <= 1e-13
    below = curve.deltas - spared - (1 - spared) * gaussian_delta(curve.epsilons, 0.99 * mu)
    assert below.max() > 0
    # The same on the curve itself.
    lowered = (1 - spared) * norm.cdf(norm.isf(np.minimum(1, FPR / (1 - spared))) - mu)
    assert (lowered <= curve.fnr(FPR) + 1e-12).all()
    # Without subsampling it would be more.
    _, sigma, steps = entries
    assert mu < math.sqrt(steps) / sigma


def test_curves_are_convex_symmetric_and_below_chance():
    rng = np.random.default_rng(0)
    for _ in range(20):
        curve = trade_off(ledger((rng.uniform(0.01, 1), rng.uniform(0.7, 5), rng.integers(1, 200))))
        x = np.linspace(0, 1, 501)
        y = curve.fnr(x)
        assert (y <= 1 - x + 1e-12).all()
        assert (np.diff(y) <= 1e-12).all()
        assert (np.diff(y, 2) >= -1e-9).all()
        inside = (y > 1e-6) & (x > 1e-6)
        assert np.abs(curve.fnr(y[inside]) - x[inside]).max(initial=0) < 1e-6


def test_the_ends():
    nothing = trade_off(PrivacyLedger())
    assert nothing.fnr([0.0, 0.3, 1.0]).tolist() == [1.0, 0.7, 0.0]
    assert nothing.mu(0.0) == 0.0
    for sigma in (0.0, 1e-3):
        everything = trade_off(ledger((0.1, sigma, 1)))
        assert everything.fnr([0.0, 0.5, 1.0]).tolist() == [0.0, 0.0, 0.0]
        assert everything.mu(1e-5) == math.inf
    assert trade_off(lambda delta: math.inf).fnr([0.5]).tolist() == [0.0]
    either = ledger((0.1, 1.0, 50))
    replaced = trade_off(either, neighbours="replace")
    assert (replaced.fnr(FPR[1:-1]) < trade_off(either).fnr(FPR[1:-1])).all()
    assert replaced.mu(1e-5) > trade_off(either).mu(1e-5)
    # Pairs that another one makes useless do not count, whatever their order.
    pairs = {0.1: 1.0, 0.01: 3.0}
    some = trade_off(lambda delta: pairs[0.1] if delta >= 0.1 else math.inf)
    assert isinstance(some, TradeOff)
    assert some.fnr([0.0]) == pytest.approx(0.9, abs=5e-3)
