"""Both accountants over the whole domain: monotone in everything, and right where that is known."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import brentq
from scipy.stats import norm

from lib.privacy import (
    ACCOUNTANTS,
    PrivacyLedger,
    SampledGaussian,
    budget_table,
    find_noise_multiplier,
    group_guarantee,
    joint_epsilon,
    label_guarantee,
    selection_epsilon,
    trade_off,
)
from lib.privacy.losses import loss_distributions
from lib.privacy.renyi import ORDERS, gaussian_bound, renyi_divergence

SIGMAS = (1e-300, 1e-160, 1e-20, 0.05, 0.5, 1.0, 3.0, 1e300)
RATES = (1e-12, 0.01, 0.9, 1.0)
STEPS = (1, 100, 10**9)
DELTAS = (1e-300, 1e-20, 1e-9, 1e-5, 1e-2)
#: The mesh of losses, of epsilon where it is small, and what it adds to the variance of a loss.
MESH, RELATIVE = 2e-4, 5e-3


def ledger(*entries):
    return PrivacyLedger(tuple(SampledGaussian(*entry) for entry in entries))


def gaussian_delta(epsilon, mu):
    """Balle and Wang 2018: of a Gaussian mechanism without sampling."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def gaussian_epsilon(mu, delta):
    return brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0, 200, xtol=1e-14)


@pytest.fixture(scope="module")
def grid():
    """Epsilons of 960 cells: accountant, sigma, rate, steps, delta."""
    found = np.empty((2, len(SIGMAS), len(RATES), len(STEPS), len(DELTAS)))
    for i, j, k in itertools.product(*(range(len(each)) for each in (SIGMAS, RATES, STEPS))):
        history = ledger((RATES[j], SIGMAS[i], STEPS[k]))
        for which, name in enumerate(ACCOUNTANTS):
            found[which, i, j, k] = [history.epsilon(delta, name) for delta in DELTAS]
    return found


def test_every_cell_is_a_number_and_pld_is_no_looser(grid):
    assert not np.isnan(grid).any()
    assert (grid >= 0).all()
    assert (grid[1] <= grid[0]).all()
    infinite = np.isinf(grid[0]).any(axis=(1, 2, 3))  # a true epsilon of 1e300, or nearly
    assert [s for s, some in zip(SIGMAS, infinite, strict=True) if some] == [1e-300, 1e-160]
    assert np.isfinite(grid[1, 2:]).all()


@pytest.mark.parametrize(("axis", "sign"), [(0, -1), (1, 1), (2, 1), (3, -1)])
def test_monotone_in_noise_rate_steps_and_delta(grid, axis, sign):
    for which, (rounding, mesh) in enumerate([(1e-9, 0.0), (RELATIVE, MESH)]):
        ends = np.moveaxis(grid[which], axis, 0)[::sign]
        assert (ends[:-1] <= ends[1:] * (1 + rounding) + mesh).all()


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


@pytest.mark.parametrize("rate", [1.0, 1 - 1e-9])
@pytest.mark.parametrize(
    ("sigma", "steps", "delta"),
    [(1.0, 1, 1e-5), (4.0, 10, 1e-5), (100.0, 10_000, 1e-13), (100.0, 10_000, 3e-12)],
)
def test_no_accountant_is_below_the_exact_value_by_rounding(sigma, steps, delta, rate):
    full = ledger((rate, sigma, steps))
    exact = gaussian_epsilon(math.sqrt(steps) / sigma, delta)
    assert exact * (1 - 1e-6) <= full.epsilon(delta, "pld") <= 1.3 * exact
    assert exact <= full.epsilon(delta, "rdp") <= 1.3 * exact + 0.1


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


# What is built on epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps", "accountant"),
    [
        (7.0, 1 / 1200, 128 / 1200, 400, "rdp"),
        (3.0, 1 / 60_000, 128 / 60_000, 5000, "rdp"),
        (0.1, 1 / 1200, 128 / 1200, 400, "rdp"),
        (3.0, 1 / 1200, 128 / 1200, 400, "pld"),
        (0.003, 1e-5, 0.01, 100, "pld"),  # where Renyi's finds none
    ],
)
def test_noise_found_keeps_the_budget_and_wastes_little(epsilon, delta, rate, steps, accountant):
    sigma = find_noise_multiplier(epsilon, delta, rate, steps, accountant=accountant)
    spent = ledger((rate, sigma, steps)).epsilon(delta, accountant)
    assert (0.999 if accountant == "rdp" else 0.96) * epsilon < spent <= epsilon
    assert ledger((rate, 0.97 * sigma, steps)).epsilon(delta, accountant) > epsilon
    if epsilon == 3.0:
        other = find_noise_multiplier(epsilon, delta, rate, steps)
        assert (sigma < other) == (accountant == "pld")


def test_releases_share_the_budget():
    sigma = find_noise_multiplier(3.0, 1e-4, 0.1, 100, releases=5)
    assert sigma == find_noise_multiplier(3.0, 1e-4, 0.1, 500)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_composition_is_the_sum_of_steps_in_any_order(accountant):
    one = ledger((0.1, 2.0, 100))
    five = one.compose(one, one, one, one).epsilon(1e-4, accountant)
    assert five == ledger((0.1, 2.0, 500)).epsilon(1e-4, accountant)
    assert five < 5 * one.epsilon(1e-4, accountant)
    exact = ledger((0.25, 1.5, 100), (0.125, 2.0, 7))
    single = ledger((np.float32(0.125), np.float32(2), np.int32(7)), (np.float32(0.25), 1.5, 100))
    assert single.epsilon(1e-5, accountant) == exact.epsilon(1e-5, accountant)
    assert exact.epsilon(1e-5, accountant) > ledger((0.25, 1.5, 100)).epsilon(1e-5, accountant)
    assert PrivacyLedger.from_dict(json.loads(json.dumps(single.to_dict()))) == single


def test_replacing_one_example():
    """Without sampling it is a Gaussian mechanism of twice the sensitivity."""
    found = ledger((1.0, 4.0, 10)).epsilon(1e-5, "pld", neighbours="replace")
    assert found == pytest.approx(gaussian_epsilon(math.sqrt(10) / 2, 1e-5), rel=2e-3)
    # One sampled step by brute force: q N(1) + (1 - q) N(0) against q N(-1) + (1 - q) N(0).
    q, sigma, delta = 0.1, 0.8, 1e-4
    x = np.linspace(-12, 12, 100_001)
    p, other = ((1 - q) * norm.pdf(x, 0, sigma) + q * norm.pdf(x, at, sigma) for at in (1, -1))

    def spare(e):
        return np.maximum(p - math.exp(e) * other, 0).sum() * (x[1] - x[0]) - delta

    one = ledger((q, sigma, 1))
    found = one.epsilon(delta, "pld", neighbours="replace")
    assert found == pytest.approx(brentq(spare, 0.01, 14), rel=1e-3)
    assert one.epsilon(delta, "pld") < found < group_guarantee(one, delta, 2)


def test_a_group_of_records():
    """Above the exact value: k full-batch records are a Gaussian mechanism of k times the shift."""
    full = ledger((1.0, 10.0, 4))
    assert group_guarantee(full, 1e-5, 1) == full.epsilon(1e-5)
    d = np.geomspace(1e-14, 1e-5, 1000)
    e = np.array([full.epsilon(x) for x in d])
    for k in (2, 3):
        value = group_guarantee(full, 1e-5, k)
        assert value > gaussian_epsilon(k * 2 / 10, 1e-5)
        fits = d * np.expm1(k * e) / np.expm1(e) <= 1e-5
        assert value == pytest.approx((k * e)[fits].min(), rel=1e-2)
    # No delta is small enough, or the numerics fail: an answer, and not an error.
    for accountant in ACCOUNTANTS:
        assert group_guarantee(ledger((1.0, 1 / 3, 1)), 1e-5, 2, accountant) < math.inf


def test_budget_table_tells_which_rule_keeps_its_promise():
    rows = {row["rule"]: row for row in budget_table([3.0], 1e-3, 0.1, 20, 5)}
    assert set(rows) == {"one model", "composed", "epsilon/sqrt(M)", "epsilon/M"}
    for rule in ("one model", "composed", "epsilon/M"):
        assert rows[rule]["rdp"] <= 3.0, rule
        assert rows[rule]["pld"] <= 3.0, rule
    assert rows["composed"]["member"] < 3.0
    noise = [rows[r]["noise_multiplier"] for r in ("one model", "composed", "epsilon/M")]
    assert noise[0] < noise[1] < noise[2]


def test_special_ledgers_and_extreme_arguments():
    assert PrivacyLedger().epsilon(1e-5) == 0 == ledger((0.1, 1.0, 0)).epsilon(1e-5)
    assert ledger((0.1, 0.0, 1)).epsilon(1e-5) == math.inf == ledger((0.1, 1.0, 1)).epsilon(0.0)
    assert find_noise_multiplier(math.inf, 0.0, 0.1, 10) == 0
    tiny, huge = ledger((0.1, 1e-300, 10)), ledger((0.1, 1e300, 10))
    assert group_guarantee(tiny, 1e-5, 3) == math.inf == group_guarantee(tiny, 1e-5, 3, "pld")
    assert group_guarantee(huge, 1e-5, 10**9, "pld") == 0 == label_guarantee(huge, 1e-5)
    assert label_guarantee(tiny, 1e-5) == math.inf == selection_epsilon(tiny, 1e-5, 10)
    assert trade_off(tiny).mu(1e-5) == math.inf
    assert trade_off(huge).mu(1e-5) == 0
    assert find_noise_multiplier(1e300, 1e-300, 1e-12, 10**9) > 0
    many, rounding = ledger((0.1, 1.0, 1000)), 1000 * 2.0**-52
    whole = gaussian_bound(((0.1, 1.0, 1000),), rounding, 2)  # of what is left of delta: nothing
    assert many.epsilon(rounding, "pld", neighbours="replace") == whole
    assert many.epsilon(2 * rounding, "pld", neighbours="replace") < 0.9 * whole


# With pure mechanisms on the same records


@pytest.mark.parametrize("pure", [0.1, 0.5, 3.0])
def test_a_ledger_and_a_pure_mechanism_on_the_same_records(pure):
    """Exact for one Gaussian step and a randomized response: the loss is shifted by a coin."""
    mu, delta, heads = 0.5, 1e-5, 1 / (1 + math.exp(-pure))

    def spare(e):
        shifted = heads * gaussian_delta(e - pure, mu) + (1 - heads) * gaussian_delta(e + pure, mu)
        return shifted - delta

    one = ledger((1.0, 1 / mu, 1))
    found, exact = joint_epsilon(one, delta, [pure]), brentq(spare, pure, 20)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-4)
    assert one.epsilon(delta, "pld") < found < one.epsilon(delta, "pld") + pure


def test_pure_mechanisms_alone_or_none_of_them():
    one = ledger((0.1, 1.0, 10))
    assert joint_epsilon(PrivacyLedger(), 1e-5, [0.5, 0.25]) == 0.75
    assert joint_epsilon(one, 1e-5, [0.0]) == one.epsilon(1e-5, "pld")
    assert joint_epsilon(one, 1e-5, [math.inf]) == math.inf
    assert joint_epsilon(one, 1e-5, [1e308]) == 1e308
    assert joint_epsilon(one, 1e-5, [8e307, 8e307, 0.5]) == 1.6e308
    for beyond in ([1e308, 1e308], [1e308, 0.5, 1e308], [math.inf, 1e308, 1e308], [1.7e308] * 9):
        assert joint_epsilon(one, 1e-5, beyond) == math.inf  # no OverflowError
        assert joint_epsilon(PrivacyLedger(), 1e-5, beyond) == math.inf
    assert joint_epsilon(ledger((0.1, 0.0, 1)), 1e-5, [1.0]) == math.inf
    assert joint_epsilon(one, 1e-5, [0.2] * 8) < joint_epsilon(one, 1e-5, [1.6])


@pytest.mark.parametrize("pure", [[710.0], [0.1, 710.0], [1e300], [39.0, 41.0], [1e-300]])
def test_pure_mechanisms_of_any_size(pure):
    """At most the sum; the largest adds up, but for the chance of e^-40 that it says otherwise."""
    one = ledger((0.01, 1.0, 1000))
    alone = one.epsilon(1e-5, "pld")
    found = joint_epsilon(one, 1e-5, pure)
    assert max(pure) <= found <= alone + math.fsum(pure)
    assert found >= max(pure) + alone * (max(pure) > 38) * (1 - 1e-6)


@pytest.mark.parametrize(("count", "loss"), [(1000, 0.05), (100, 0.3)])
def test_many_pure_mechanisms_at_small_deltas(count, loss):
    """Transforms of a thousand responses round, too: never below the binomial distribution."""
    ups = np.arange(count + 1)
    chances = stats.binom.pmf(ups, count, special.expit(loss))
    for delta in (1e-9, 1e-13, 1e-14, 3e-15):
        found = joint_epsilon(ledger((1e-9, 5.0, 1)), delta, [loss] * count)
        spared = np.exp(np.minimum(0.0, found - (2 * ups - count) * loss))
        assert chances @ (1 - spared) <= delta
