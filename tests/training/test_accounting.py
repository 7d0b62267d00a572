"""The privacy accounting agrees with closed forms, with itself and with a second library."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from lib.privacy.accounting import (
    PrivacyLedger,
    SampledGaussian,
    budget_table,
    find_noise_multiplier,
    group_guarantee,
    joint_epsilon,
)


def gaussian_epsilon(sigma, steps, delta):
    """Exact epsilon of `steps` Gaussian mechanisms without subsampling (Balle and Wang 2018)."""
    mu = math.sqrt(steps) / sigma

    def excess(epsilon):
        return (
            norm.cdf(-epsilon / mu + mu / 2)
            - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
            - delta
        )

    return brentq(excess, 0, 200)


@pytest.mark.parametrize(("sigma", "steps"), [(1.0, 1), (4.0, 10), (20.0, 400)])
def test_full_batches_against_the_exact_gaussian_mechanism(sigma, steps):
    ledger = PrivacyLedger((SampledGaussian(1.0, sigma, steps),))
    exact = gaussian_epsilon(sigma, steps, 1e-5)
    assert ledger.epsilon(1e-5, "pld") == pytest.approx(exact, rel=2e-3)
    assert exact <= ledger.epsilon(1e-5, "pld") <= ledger.epsilon(1e-5, "rdp") <= 1.3 * exact + 0.1


def hockey_stick_one_step(q, sigma):
    """Brute force: delta(epsilon) of one subsampled step, both directions, on a fine grid."""
    x = np.linspace(-12 * sigma, 12 * sigma + 1, 100_001)
    p0 = norm.pdf(x, 0, sigma)
    p1 = (1 - q) * p0 + q * norm.pdf(x, 1, sigma)
    step = x[1] - x[0]

    def delta(epsilon):
        remove = np.maximum(p1 - np.exp(epsilon) * p0, 0).sum() * step
        add = np.maximum(p0 - np.exp(epsilon) * p1, 0).sum() * step
        return max(remove, add)

    return delta


def test_one_subsampled_step_against_brute_force():
    q, sigma, delta = 0.1, 0.8, 1e-4
    spent = hockey_stick_one_step(q, sigma)
    exact = brentq(lambda e: spent(e) - delta, 0.01, 20)
    ledger = PrivacyLedger((SampledGaussian(q, sigma, 1),))
    assert ledger.epsilon(delta, "pld") == pytest.approx(exact, rel=1e-3)
    assert ledger.epsilon(delta, "rdp") >= exact


@pytest.mark.parametrize(
    ("epsilon", "n", "batch", "steps"),
    [(7.0, 1200, 128, 400), (3.0, 60_000, 128, 5000), (0.1, 1200, 128, 400)],
)
def test_noise_found_keeps_the_budget_and_wastes_little(epsilon, n, batch, steps):
    delta = 1 / n
    sigma = find_noise_multiplier(epsilon, delta, batch / n, steps)
    ledger = PrivacyLedger((SampledGaussian(batch / n, sigma, steps),))
    assert 0.999 * epsilon < ledger.epsilon(delta) <= epsilon
    assert ledger.epsilon(delta, "pld") <= epsilon
    less = PrivacyLedger((SampledGaussian(batch / n, 0.99 * sigma, steps),))
    assert less.epsilon(delta) > epsilon


def test_noise_by_the_tighter_accountant():
    arguments = (3.0, 1 / 1200, 128 / 1200, 400)
    sigma = find_noise_multiplier(*arguments, accountant="pld")
    assert sigma < find_noise_multiplier(*arguments)
    ledger = PrivacyLedger((SampledGaussian(128 / 1200, sigma, 400),))
    assert 2.9 < ledger.epsilon(1 / 1200, "pld") <= 3.0


def test_composition_is_the_sum_of_steps():
    one = PrivacyLedger((SampledGaussian(0.1, 2.0, 100),))
    five = one.compose(one, one, one, one)
    together = PrivacyLedger((SampledGaussian(0.1, 2.0, 500),))
    for accountant in ("rdp", "pld"):
        assert five.epsilon(1e-4, accountant) == together.epsilon(1e-4, accountant)
    assert five.epsilon(1e-4) < 5 * one.epsilon(1e-4)


def test_composition_of_different_mechanisms_needs_no_order():
    a, b = SampledGaussian(0.1, 2.0, 100), SampledGaussian(0.1, 1.5, 30)
    for accountant in ("rdp", "pld"):
        both = PrivacyLedger((a, b)).epsilon(1e-4, accountant)
        assert both == PrivacyLedger((b, a)).epsilon(1e-4, accountant)
        assert both > max(PrivacyLedger((m,)).epsilon(1e-4, accountant) for m in (a, b))


@pytest.mark.parametrize("rate", [1.0, 1 - 1e-9])
@pytest.mark.parametrize("delta", [1e-13, 3e-12, 1e-9])
def test_no_accountant_is_below_the_exact_value_by_rounding(delta, rate):
    """Ten thousand full-batch steps with noise 100: one Gaussian mechanism with mu = 1."""
    found = PrivacyLedger((SampledGaussian(rate, 100.0, 10_000),)).epsilon(delta, "pld")
    exact = gaussian_epsilon(100.0, 10_000, delta)
    assert exact * (1 - 1e-6) <= found <= 1.3 * exact


def test_noise_is_found_where_renyis_accountant_finds_none():
    arguments = (0.003, 1e-5, 0.01, 100)
    with pytest.raises(ValueError, match=r"cannot be reached .* by 'rdp'"):
        find_noise_multiplier(*arguments)
    sigma = find_noise_multiplier(*arguments, accountant="pld")
    assert 50 < sigma < 100
    ledger = PrivacyLedger((SampledGaussian(0.01, sigma, 100),))
    assert ledger.epsilon(1e-5, "pld") <= 0.003
    less = PrivacyLedger((SampledGaussian(0.01, 0.97 * sigma, 100),))
    assert less.epsilon(1e-5, "pld") > 0.003


def test_replacing_one_example():
    """Without sampling it is a Gaussian mechanism of twice the sensitivity."""
    ledger = PrivacyLedger((SampledGaussian(1.0, 4.0, 10),))
    found = ledger.epsilon(1e-5, "pld", neighbours="replace")
    assert found == pytest.approx(gaussian_epsilon(2.0, 10, 1e-5), rel=2e-3)
    # One sampled step by brute force: q N(1) + (1 - q) N(0) against q N(-1) + (1 - q) N(0).
    q, sigma, delta = 0.1, 0.8, 1e-4
    x = np.linspace(-12, 12, 100_001)
    p, other = ((1 - q) * norm.pdf(x, 0, sigma) + q * norm.pdf(x, at, sigma) for at in (1, -1))

    def spare(e):
        return np.maximum(p - math.exp(e) * other, 0).sum() * (x[1] - x[0]) - delta

    ledger = PrivacyLedger((SampledGaussian(q, sigma, 1),))
    found = ledger.epsilon(delta, "pld", neighbours="replace")
    assert found == pytest.approx(brentq(spare, 0.01, 20), rel=1e-3)
    assert ledger.epsilon(delta, "pld") < found < group_guarantee(ledger, delta, 2)
    with pytest.raises(ValueError, match="accountant must be 'pld' for neighbours='replace', got"):
        ledger.epsilon(delta, neighbours="replace")


def test_a_group_of_records():
    """Above the exact value: k full-batch records are a Gaussian mechanism of k times the shift."""
    ledger = PrivacyLedger((SampledGaussian(1.0, 10.0, 4),))
    found = [group_guarantee(ledger, 1e-5, k) for k in (1, 2, 3)]
    assert found[0] == ledger.epsilon(1e-5)
    d = np.geomspace(1e-14, 1e-5, 1000)
    e = np.array([ledger.epsilon(x) for x in d])
    for k, value in zip((2, 3), found[1:], strict=True):
        assert value > gaussian_epsilon(10.0 / k, 4, 1e-5)
        fits = d * np.expm1(k * e) / np.expm1(e) <= 1e-5
        assert value == pytest.approx((k * e)[fits].min(), rel=1e-2)
    # No delta is small enough, or the numerics fail: an answer, and not an error.
    wild = PrivacyLedger((SampledGaussian(1.0, 1 / 3, 1),))
    for accountant in ("rdp", "pld"):
        assert group_guarantee(wild, 1e-5, 2, accountant) < math.inf


@pytest.mark.parametrize("pure", [0.1, 0.5, 3.0])
def test_a_ledger_and_a_pure_mechanism_on_the_same_records(pure):
    """Exact for one Gaussian step and a randomized response: the loss is shifted by a coin."""
    mu, delta, heads = 0.5, 1e-5, 1 / (1 + math.exp(-pure))

    def gaussian(e):
        return norm.cdf(-e / mu + mu / 2) - math.exp(e) * norm.cdf(-e / mu - mu / 2)

    def spare(e):
        return heads * gaussian(e - pure) + (1 - heads) * gaussian(e + pure) - delta

    ledger = PrivacyLedger((SampledGaussian(1.0, 1 / mu, 1),))
    found = joint_epsilon(ledger, delta, [pure])
    exact = brentq(spare, pure, 20)
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-4)
    assert ledger.epsilon(delta, "pld") < found < ledger.epsilon(delta, "pld") + pure


def test_pure_mechanisms_alone_or_none_of_them():
    ledger = PrivacyLedger((SampledGaussian(0.1, 1.0, 10),))
    assert joint_epsilon(PrivacyLedger(), 1e-5, [0.5, 0.25]) == 0.75
    assert joint_epsilon(ledger, 1e-5, [0.0]) == ledger.epsilon(1e-5, "pld")
    assert joint_epsilon(ledger, 1e-5, [math.inf]) == math.inf
    assert joint_epsilon(ledger, 1e-5, [1e308]) == 1e308
    assert joint_epsilon(ledger, 1e-5, [8e307, 8e307, 0.5]) == 1.6e308
    for beyond in ([1e308, 1e308], [1e308, 0.5, 1e308], [math.inf, 1e308, 1e308], [1.7e308] * 9):
        assert joint_epsilon(ledger, 1e-5, beyond) == math.inf  # no OverflowError
        assert joint_epsilon(PrivacyLedger(), 1e-5, beyond) == math.inf
    assert joint_epsilon(PrivacyLedger((SampledGaussian(0.1, 0.0, 1),)), 1e-5, [1.0]) == math.inf
    several = joint_epsilon(ledger, 1e-5, [0.2] * 8)
    assert several < joint_epsilon(ledger, 1e-5, [1.6])


def test_releases_share_the_budget():
    sigma = find_noise_multiplier(3.0, 1e-4, 0.1, 100, releases=5)
    assert sigma == find_noise_multiplier(3.0, 1e-4, 0.1, 500)


def test_special_ledgers():
    assert PrivacyLedger().epsilon(1e-5) == 0
    assert PrivacyLedger((SampledGaussian(0.1, 1.0, 0),)).epsilon(1e-5) == 0
    assert PrivacyLedger((SampledGaussian(0.1, 0.0, 1),)).epsilon(1e-5) == math.inf
    assert PrivacyLedger((SampledGaussian(0.1, 1.0, 1),)).epsilon(0.0) == math.inf
    assert find_noise_multiplier(math.inf, 0.0, 0.1, 10) == 0


def test_ledger_survives_json():
    import json

    ledger = PrivacyLedger((SampledGaussian(0.1, 1.3, 7), SampledGaussian(1.0, 0.0, 1)))
    assert PrivacyLedger.from_dict(json.loads(json.dumps(ledger.to_dict()))) == ledger


def test_budget_table_tells_which_rule_keeps_its_promise():
    rows = {row["rule"]: row for row in budget_table([3.0], 1e-3, 0.1, 20, 5)}
    assert set(rows) == {"one model", "composed", "epsilon/sqrt(M)", "epsilon/M"}
    for rule in ("one model", "composed", "epsilon/M"):
        assert rows[rule]["rdp"] <= 3.0, rule
        assert rows[rule]["pld"] <= 3.0, rule
    assert rows["composed"]["member"] < 3.0
    assert rows["epsilon/M"]["noise_multiplier"] > rows["composed"]["noise_multiplier"]
    assert rows["composed"]["noise_multiplier"] > rows["one model"]["noise_multiplier"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 1e-5}, "epsilon = 1e-05 cannot be reached .*100000"),
        ({"delta": 0.0}, "delta must be positive for a finite epsilon"),
    ],
)
def test_bad_input(change, message):
    arguments = {"epsilon": 1.0, "delta": 1e-5, "sample_rate": 0.1, "steps": 10} | change
    with pytest.raises(ValueError, match=message):
        find_noise_multiplier(**arguments)


def test_epsilon_is_never_negative():
    for accountant in ("rdp", "pld"):
        assert PrivacyLedger((SampledGaussian(1.0, 100.0, 1),)).epsilon(0.1, accountant) >= 0
