"""Both accountants over the whole domain: monotone in everything, and right where that is known."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from lib.privacy import (
    ACCOUNTANTS,
    PrivacyLedger,
    SampledGaussian,
    find_noise_multiplier,
    group_guarantee,
    joint_epsilon,
    label_guarantee,
    selection_epsilon,
    trade_off,
)
from lib.privacy.losses import loss_distributions
from lib.privacy.noise import gaussian_epsilon
from lib.privacy.renyi import ORDERS, gaussian_bound, renyi_divergence

SIGMAS = (1e-300, 1e-160, 1e-20, 1e-3, 0.05, 0.5, 1.0, 3.0, 100.0, 1e5, 1e160, 1e300)
RATES = (1e-12, 1e-6, 1e-3, 0.1, 0.9, 1.0)
STEPS = (1, 100, 10_000, 10**9)
DELTAS = (1e-300, 1e-20, 1e-9, 1e-5, 1e-2)
#: The mesh of losses, of epsilon where it is small, and what it adds to the variance of a loss.
MESH, RELATIVE = 2e-4, 5e-3


def ledger(*entries):
    return PrivacyLedger(tuple(SampledGaussian(*entry) for entry in entries))


@pytest.fixture(scope="module")
def grid():
    """Epsilons of 2,880 cells: accountant, sigma, rate, steps, delta."""
    found = np.empty((2, len(SIGMAS), len(RATES), len(STEPS), len(DELTAS)))
    for i, j, k in itertools.product(*(range(len(each)) for each in (SIGMAS, RATES, STEPS))):
        history = ledger((RATES[j], SIGMAS[i], STEPS[k]))
        for which, name in enumerate(ACCOUNTANTS):
            found[which, i, j, k] = [history.epsilon(delta, name) for delta in DELTAS]
    return found


def test_every_cell_is_a_number_and_pld_is_no_looser(grid):
    assert grid.size == 2880
    assert not np.isnan(grid).any()
    assert (grid >= 0).all()
    assert (grid[1] <= grid[0]).all()
    infinite = np.isinf(grid[0]).any(axis=(1, 2, 3))  # a true epsilon of 1e300, or nearly
    assert [s for s, some in zip(SIGMAS, infinite, strict=True) if some] == [1e-300, 1e-160]
    assert np.isfinite(grid[1, 2:]).all()


@pytest.mark.parametrize(("axis", "sign"), [(0, -1), (1, 1), (2, 1), (3, -1)])
def test_monotone_in_noise_rate_steps_and_delta(grid, axis, sign):
    for which, (rounding, mesh) in enumerate([(1e-9, 0.0), (RELATIVE, MESH)]):
        low, high = (
            np.take(grid[which], places, axis)
            for places in (range(grid.shape[axis + 1] - 1), range(1, grid.shape[axis + 1]))
        )
        if sign < 0:
            low, high = high, low
        assert (low <= high * (1 + rounding) + mesh).all()


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_monotone_in_small_steps(accountant):
    """Where the mesh changes, and where one bound takes over from another."""
    base = {"sigma": 1.0, "rate": 0.01, "steps": 500, "delta": 1e-6}
    chains = {
        "sigma": (np.geomspace(0.02, 60, 30)[::-1]).tolist(),
        "rate": np.geomspace(1e-7, 1, 30).tolist(),
        "steps": np.unique(np.geomspace(1, 1e8, 30).astype(int)).tolist(),
        "delta": np.geomspace(1e-18, 0.5, 30)[::-1].tolist(),
    }
    for name, values in chains.items():
        given = [base | {name: value} for value in values]
        found = np.array(
            [
                ledger((g["rate"], g["sigma"], g["steps"])).epsilon(g["delta"], accountant)
                for g in given
            ]
        )
        assert (found[:-1] <= found[1:] * (1 + RELATIVE) + MESH).all(), name
        assert found[-1] > found[0], name


def test_without_sampling_it_is_the_gaussian_mechanism(grid):
    """Balle and Wang's curve, by its own definition: delta at epsilon is delta."""
    seen = 0
    for i, k, m in itertools.product(range(len(SIGMAS)), range(len(STEPS)), range(len(DELTAS))):
        mu, epsilon = math.sqrt(STEPS[k]) / SIGMAS[i], grid[1, i, RATES.index(1.0), k, m]
        if epsilon == 0:  # delta is at least the distance in total variation
            assert math.erf(mu / 2 / math.sqrt(2)) <= DELTAS[m]
        elif 0.1 < mu < 20:
            a, b = special.log_ndtr([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
            log_delta = a + math.log(-math.expm1(epsilon + b - a))
            assert log_delta == pytest.approx(math.log(DELTAS[m]), rel=1e-9)
            seen += 1
        else:  # and a bracket of it where the curve cannot be computed so
            tail = math.sqrt(-2 * math.log(DELTAS[m]))
            assert epsilon <= (mu * mu / 2 + mu * tail) * (1 + 1e-11)
            assert epsilon >= (mu * mu / 2 - mu * tail) * (1 - 1e-11)
    assert seen >= 20


def test_one_sampled_step_by_quadrature():
    """Delta at the epsilon found is delta, in the worse direction."""
    for q, sigma, delta in itertools.product((1e-3, 0.1, 0.9), (0.3, 1.0, 5.0), (1e-9, 1e-5)):
        epsilon = ledger((q, sigma, 1)).epsilon(delta, "pld")
        x = np.linspace(-15 * sigma, 1 + 15 * sigma, 400_001)
        noise = np.exp(-((x / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
        moved = noise * (1 - q + q * np.exp((2 * x - 1) / (2 * sigma**2)))
        both = [(moved, noise), (noise, moved)]
        exact = max(np.maximum(0, p - math.exp(epsilon) * r).sum() for p, r in both)
        exact *= x[1] - x[0]
        if epsilon == 0:
            assert exact <= delta
        else:
            assert delta * (1 - 5e-3) <= exact <= delta * (1 + 1e-6)


def test_tiny_noise_costs_what_taking_part_costs(grid):
    """As sigma falls, epsilon is 0 if delta is the chance of taking part, else without bound."""
    for j, k, m in itertools.product(range(len(RATES)), range(len(STEPS)), range(len(DELTAS))):
        taking_part = -math.expm1(STEPS[k] * math.log1p(-min(RATES[j], 1 - 1e-16)))
        cell = grid[1, SIGMAS.index(1e-20), j, k, m]
        assert cell == 0 if taking_part <= DELTAS[m] else cell > 1e39


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_steps_without_end_are_the_gaussian_mechanism_of_the_limit(delta):
    """mu = q sqrt(T (exp(1 / sigma^2) - 1)), Dong, Roth and Su 2022, Theorem 11."""
    for q, sigma, steps in [(1e-3, 1.0, 10**6), (1e-3, 2.0, 10**5), (1e-2, 3.0, 10**5)]:
        mu = q * math.sqrt(steps * math.expm1(sigma**-2))
        found = ledger((q, sigma, steps)).epsilon(delta, "pld")
        assert found == pytest.approx(gaussian_epsilon(mu, delta), rel=0.03)
    many = ledger((1e-6, 1.0, 10**9))
    limit = gaussian_epsilon(1e-6 * math.sqrt(1e9 * math.expm1(1)), delta)
    # Here transforms leave nothing of a small delta, and the mesh is a step's standard deviation.
    most = many.epsilon(delta) if delta < 1e-6 else 1.3 * limit
    assert limit * (1 - 1e-3) <= many.epsilon(delta, "pld") <= most


def test_divergences_by_their_definition():
    """Also at rates and noise where a sum of terms of both signs leaves nothing."""
    for q, sigma, order in itertools.product((1e-12, 1e-4, 0.5), (0.5, 1.0, 50.0), (1.1, 2.5, 9.0)):
        step = min(sigma / 40, sigma**2 / 4)
        x = np.arange(-14 * sigma, order + 14 * sigma, step)
        t = np.minimum((2 * x - 1) / (2 * sigma**2), 700)
        u = q * np.expm1(t)
        terms = np.expm1(order * np.log1p(u)) - order * u
        small = np.abs(u) < 1e-4
        terms[small] = (order * (order - 1) / 2 * u**2 * (1 + (order - 2) / 3 * u))[small]
        density = np.exp(-((x / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
        exact = math.log1p((terms * density).sum() * step) / (order - 1)
        assert renyi_divergence(q, sigma, order) == pytest.approx(exact, rel=1e-7)
    for order in ORDERS:
        assert renyi_divergence(1.0, 2.0, order) == order / 8
        whole, between = renyi_divergence(0.1, 1.0, 8.0), renyi_divergence(0.1, 1.0, 8 - 1e-9)
    assert whole == pytest.approx(between, rel=1e-6)
    # Opacus says less than nothing here.
    assert renyi_divergence(1e-6, 100.0, 1.1) == pytest.approx(1.1 * 1e-16 / 2, rel=1e-3)


def test_the_bound_by_the_number_of_parts_taken_holds():
    """Above the accountant that is nearly exact, and of its size."""
    for entries in [((0.1, 0.3, 50),), ((0.01, 0.2, 1000), (0.5, 1.0, 3)), ((1.0, 2.0, 5),)]:
        for delta in (1e-3, 1e-6):
            for shift, replace in ((1, False), (2, True)):
                sides = loss_distributions(entries, 1e-3, replace)
                exact = max(side.epsilon(delta) for side in sides)
                assert exact <= gaussian_bound(entries, delta, shift) * (1 + 1e-6) <= 10 * exact


def test_extreme_arguments_of_what_uses_the_accountants():
    tiny, huge = ledger((0.1, 1e-300, 10)), ledger((0.1, 1e300, 10))
    assert group_guarantee(tiny, 1e-5, 3) == math.inf == group_guarantee(tiny, 1e-5, 3, "pld")
    assert group_guarantee(huge, 1e-5, 10**9, "pld") == 0 == label_guarantee(huge, 1e-5)
    assert label_guarantee(tiny, 1e-5) == math.inf == selection_epsilon(tiny, 1e-5, 10)
    assert trade_off(tiny).mu(1e-5) == math.inf
    assert trade_off(huge).mu(1e-5) == 0
    assert find_noise_multiplier(1e300, 1e-300, 1e-12, 10**9) > 0
    with pytest.raises(ValueError, match="epsilon = 1e-300 cannot be reached"):
        find_noise_multiplier(1e-300, 1e-5, 0.5, 100)
    for name, change in (("steps", (0.1, 1.0, 10**300)), ("sample_rate", (5e-325, 1.0, 1))):
        with pytest.raises(ValueError, match=f"{name} must be"):
            SampledGaussian(*change)


@pytest.mark.parametrize("pure", [[710.0], [0.1, 710.0], [1e300], [39.0, 41.0], [1e-300]])
def test_pure_mechanisms_of_any_size(pure):
    """At most the sum; the largest adds up, but for the chance of e^-40 that it says otherwise."""
    one = ledger((0.01, 1.0, 1000))
    alone = one.epsilon(1e-5, "pld")
    found = joint_epsilon(one, 1e-5, pure)
    assert max(pure) <= found <= alone + math.fsum(pure)
    assert found >= max(pure) + alone * (max(pure) > 38) * (1 - 1e-6)


def test_many_pure_mechanisms_are_bounded_in_time():
    """Four hundred different ones: rounded up to fifty kinds."""
    one = ledger((0.01, 1.0, 1000))
    values = np.linspace(1e-3, 0.05, 400)
    found = joint_epsilon(one, 1e-5, values.tolist())
    fine = joint_epsilon(one, 1e-5, [0.001 * math.ceil(1000 * v) for v in values])
    assert found == pytest.approx(fine, rel=0.05)
    assert found < one.epsilon(1e-5, "pld") + values.sum() / 2


@pytest.mark.parametrize(("count", "loss"), [(1000, 0.05), (100, 0.3)])
def test_many_pure_mechanisms_at_small_deltas(count, loss):
    """Transforms of a thousand responses round, too: never below the binomial distribution."""
    almost_nothing = ledger((1e-9, 5.0, 1))
    ups = np.arange(count + 1)
    chances = stats.binom.pmf(ups, count, special.expit(loss))
    for delta in (1e-9, 1e-13, 1e-14, 3e-15):
        found = joint_epsilon(almost_nothing, delta, [loss] * count)
        spared = np.exp(np.minimum(0.0, found - (2 * ups - count) * loss))
        assert chances @ (1 - spared) <= delta


def test_single_precision_and_order_change_nothing():
    exact = ledger((0.25, 1.5, 100), (0.125, 2.0, 7))
    single = ledger((np.float32(0.125), np.float32(2), np.int32(7)), (np.float32(0.25), 1.5, 100))
    for accountant in ACCOUNTANTS:
        assert single.epsilon(1e-5, accountant) == exact.epsilon(1e-5, accountant)
    assert PrivacyLedger.from_dict(single.to_dict()) == single
