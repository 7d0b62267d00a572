"""The ledger that all trainings carry against other accountants.

Our divergences are closed forms or a quadrature; Opacus' are another series, cut off where a term
is e^-30.

dp-accounting's own RDP is compared at whole orders alone: at fractional ones its version 0.6 is an
upper bound that may be far above the divergence (30% at order 1.5, noise 1.45 and rate 0.107),
while Opacus' formula and ours agree with a quadrature of the definition.
"""

import math

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    get_epsilon_gaussian,
)
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from opacus.accountants.analysis import rdp
from scipy import special

from lib.audit import true_best_epsilon
from lib.privacy import PrivacyLedger, SampledGaussian
from lib.privacy.renyi import ORDERS

# Sampling rate, steps, delta and noise multipliers of the book's trainings: the noise is what
# find_noise_multiplier gives, by RDP and to three digits, for the epsilons in the comment.
GRID = (
    (128 / 1200, 400, 1 / 1200, (2.626, 6.399)),  # training, quick: 3, 1
    (128 / 1200, 2000, 1 / 1200, (3.090,)),  # its ensemble of five, composed
    (1024 / 50_000, 1320, 1 / 50_000, (3.029,)),  # interplay, standard: 1
)
LONG = (
    (128 / 900, 100, 1e-5, (1.198,)),  # six lenses, quick: 8
    (128 / 1200, 400, 1 / 1200, (1.450,)),  # training, quick: 7
    (256 / 1200, 400, 1 / 1200, (5.089,)),  # interplay, quick: 3
    (1024 / 50_000, 1320, 1 / 50_000, (1.260,)),  # interplay, standard: 3
    (128 / 50_000, 78_125, 1 / 50_000, (0.795, 2.0)),  # interplay, gpu: P1's 200 epochs
    (128 / 1000, 400, 1e-5, (1.7, 8.0)),  # audit, quick: about 8 and 1
    (150 / 3000, 150, 1e-5, (0.790,)),  # audit, standard: 8
    (512 / 48_000, 2345, 1e-5, (0.702,)),  # audit, gpu: P3's 50 epochs
    (256 / 66_000, 387, 1e-5, (0.6,)),  # audit of SST-2
    (512 / 10_000, 300, 1e-5, (0.9,)),  # six lenses, standard
    (1024 / 40_000, 1200, 1e-5, (0.85,)),  # six lenses, gpu
)
#: Histories with several kinds of steps.
MIXED = ((0.1, 2.0, 100), (0.02, 1.0, 300), (0.1, 4.0, 100))


def ledgers(grid, mixed=()):
    """Every training of a grid, and a mixed history."""
    for rate, steps, delta, multipliers in grid:
        for sigma in multipliers:
            yield PrivacyLedger((SampledGaussian(rate, sigma, steps),)), delta
    if mixed:
        yield PrivacyLedger(tuple(SampledGaussian(*one) for one in mixed)), 1e-4


def renyi(rate, sigma):
    """Divergence of one step at every order, from the definition by the trapezoidal rule.

    log E[(1 - q + q exp((2 x - 1) / (2 sigma^2)))^a] / (a - 1) under x ~ N(0, sigma^2), the larger
    direction (Mironov, Talwar and Zhang 2019).  The integrand is analytic in a strip and falls like
    a Gaussian centred between 0 and a, so that steps of a twentieth of sigma leave nothing.
    """
    step = sigma / 20
    found = []
    for order in ORDERS:
        x = np.arange(-12 * sigma, order + 12 * sigma, step)
        log = order * np.logaddexp(
            math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * sigma**2)
        ) - x**2 / (2 * sigma**2)
        scale = math.log(step / (sigma * math.sqrt(2 * math.pi)))
        found.append((special.logsumexp(log) + scale) / (order - 1))
    return np.array(found)


def by_quadrature(ledger, delta, whole=False):
    """Epsilon by Canonne, Kamath and Steinke's conversion (2020, Proposition 12)."""
    total = sum(e.steps * renyi(e.sample_rate, e.noise_multiplier) for e in ledger.entries)
    a = np.array(ORDERS)
    found = total + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)
    return float(found[a == np.round(a)].min() if whole else found.min())


def by_dp_accounting(ledger, delta):
    """Epsilon by RDP at whole orders."""
    other = RdpAccountant(orders=[a for a in ORDERS if a == int(a) and a > 1])
    for e in ledger.entries:
        event = PoissonSampledDpEvent(e.sample_rate, GaussianDpEvent(e.noise_multiplier))
        other.compose(SelfComposedDpEvent(event, e.steps))
    return other.get_epsilon(delta)


def by_opacus(ledger, delta):
    """Epsilon by RDP at the same orders."""
    spent = sum(
        rdp.compute_rdp(
            q=e.sample_rate, noise_multiplier=e.noise_multiplier, steps=e.steps, orders=ORDERS
        )
        for e in ledger.entries
    )
    return rdp.get_privacy_spent(orders=ORDERS, rdp=spent, delta=delta)[0]


def by_losses(ledger, delta, neighbours=NeighboringRelation.ADD_OR_REMOVE_ONE):
    """Epsilon by dp-accounting's PLD, on a mesh of 1e-4 (1e-5 for small epsilon)."""
    total = None
    for e in ledger.entries:
        one = privacy_loss_distribution.from_gaussian_mechanism(
            e.noise_multiplier,
            sampling_prob=e.sample_rate,
            value_discretization_interval=1e-4 * min(1.0, max(0.1, ledger.epsilon(delta))),
            use_connect_dots=True,
            neighboring_relation=neighbours,
        ).self_compose(e.steps)
        total = one if total is None else total.compose(one)
    return total.get_epsilon_for_delta(delta)


def compare(ledger, delta):
    by_rdp, by_pld = (ledger.epsilon(delta, name) for name in ("rdp", "pld"))
    assert by_rdp == pytest.approx(by_quadrature(ledger, delta), rel=1e-9)
    # Opacus stops its series at terms of e^-30.
    assert by_rdp == pytest.approx(by_opacus(ledger, delta), rel=1e-6)
    # Whole orders are some of all orders: theirs is larger, but for rounding.
    whole = by_dp_accounting(ledger, delta)
    assert by_rdp <= whole * (1 + 1e-9)
    assert by_quadrature(ledger, delta, whole=True) == pytest.approx(whole, rel=1e-6)
    # Both discretise by connect-the-dots on one mesh, and truncate tails of 1e-15 differently.
    assert by_pld == pytest.approx(by_losses(ledger, delta), rel=1e-5)
    replaced = ledger.epsilon(delta, "pld", neighbours="replace")
    theirs = by_losses(ledger, delta, NeighboringRelation.REPLACE_ONE)
    assert replaced == pytest.approx(theirs, rel=1e-5)
    # No bound by RDP is below what is nearly exact.
    assert by_pld <= by_rdp


@pytest.mark.slow
@pytest.mark.parametrize(("ledger", "delta"), [*ledgers(GRID)])
def test_epsilon_equals_other_accountants(ledger, delta):
    compare(ledger, delta)


@pytest.mark.long
@pytest.mark.parametrize(("ledger", "delta"), [*ledgers(LONG, MIXED)])
def test_epsilon_of_the_other_profiles(ledger, delta):
    compare(ledger, delta)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0, 8.0])
def test_a_gaussian_mechanism_equals_dp_accounting(mu):
    for delta in (1e-9, 1e-5, 1e-2):  # dp-accounting solves to a tolerance of its own
        theirs = get_epsilon_gaussian(1 / mu, delta)
        assert true_best_epsilon(mu, delta) == pytest.approx(theirs, abs=1e-6)
