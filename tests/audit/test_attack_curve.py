"""The curve that an attack reaches: level of its limits and of what refutes a claim."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from lib.audit import (
    attack_curve,
    epsilon_lower_bounds,
    gaussian_fnr,
    held_out_lower_bound,
    roc_counts,
    true_best_epsilon,
    union_lower_bound,
)
from lib.audit.selection import union_events

LEVEL = 0.9


def drawn(n, mu, rng, digits=None):
    scores = rng.normal(size=n) + mu * (np.arange(n) % 2 == 0)
    scores = scores if digits is None else np.round(scores, digits)
    return roc_counts(scores, np.arange(n) % 2 == 0)


def most(repetitions, error):
    """More failures than this have a chance below one in a thousand."""
    return stats.binom.ppf(0.999, repetitions, error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "n", "digits"),
    [*((0.0, 20, None), (0.0, 300, 0), (1.0, 40, 0), (1.0, 600, None), (4.0, 60, None))],
)
def test_true_claims_are_rarely_refuted(mu, n, digits):
    """Rounded scores say less: the true curve is above the one that is claimed."""
    rng, repetitions = np.random.default_rng([n, int(mu)]), 250
    curves = [attack_curve(drawn(n, mu, rng, digits), LEVEL) for _ in range(repetitions)]
    refuted = sum(curve.margin(lambda fpr: gaussian_fnr(fpr, mu)) > 0 for curve in curves)
    assert refuted <= most(repetitions, 1 - LEVEL)


def test_the_error_is_spent_where_thresholds_are_fixed():
    """One threshold, at equal rates of a coin: two limits, and nearly all of the error."""
    rng, repetitions, n = np.random.default_rng(5), 20_000, 200
    fn, fp = rng.binomial(n, 0.5, (2, repetitions))
    table = np.stack([n - fn, fp, n - fp, fn], axis=1)
    limits = {row: attack_curve([row], LEVEL, fixed=True) for row in set(map(tuple, table))}
    either = [
        (limits[tuple(row)].fnr[2, 0] < 0.5, limits[tuple(row)].fpr[2, 0] < 0.5) for row in table
    ]
    failed = np.any(either, axis=1).mean()
    assert failed <= 1 - LEVEL + 3 * math.sqrt(0.09 / repetitions)
    assert failed > 0.6 * (1 - LEVEL)
    single = attack_curve([[90, 10, 90, 10]], LEVEL, fixed=True)
    assert single.fpr[2, 0] == pytest.approx(stats.beta.isf(0.05, 11, 90))
    assert single.fnr[1, 0] == pytest.approx(stats.beta.ppf(0.05, 10, 91))
    assert union_events(np.array([[90, 10, 90, 10]]), fixed=True) == 2


@pytest.mark.parametrize("digits", [None, 0])
def test_limits_of_the_largest_rate_and_accuracy(digits):
    rng, repetitions, n, mu = np.random.default_rng(8), 400, 80, 1.0
    truth = [1 - gaussian_fnr(0.1, mu), stats.norm.cdf(mu / 2)]
    if digits == 0:  # members and others at whole numbers: the corners of the true curve
        t = np.arange(-8, 9) - 0.5
        fpr, tpr = stats.norm.sf(t), stats.norm.sf(t - mu)
        truth = [np.interp(0.1, fpr[::-1], tpr[::-1]), ((tpr + 1 - fpr) / 2).max()]
    below, above = np.zeros(2, int), np.zeros(2, int)
    for _ in range(repetitions):
        curve = attack_curve(drawn(n, mu, rng, digits), LEVEL)
        for i, (_, low, high) in enumerate((curve.tpr(0.1), curve.accuracy())):
            below[i] += high < truth[i]
            above[i] += low > truth[i]
    assert (below <= most(repetitions, 1 - LEVEL)).all()
    assert (above <= most(repetitions, 1 - LEVEL)).all()


def test_a_false_claim_is_refuted_where_one_pair_is_not():
    """A claim of half the mu: the whole curve shows it, epsilon at a small delta does not."""
    rng, mu, n, delta = np.random.default_rng(1), 1.0, 1000, 1e-5
    by_curve, by_pair = 0, 0
    for _ in range(50):
        table = drawn(n, mu, rng)
        by_curve += attack_curve(table, 0.95).margin(lambda fpr: gaussian_fnr(fpr, mu / 2)) > 0
        by_pair += union_lower_bound(table, delta, 0.95)[1] > true_best_epsilon(mu / 2, delta)
    assert by_curve >= 45
    assert by_pair <= 5


def test_the_largest_rate_by_every_pair_of_thresholds():
    rng = np.random.default_rng(2)
    for _ in range(20):
        table = drawn(int(rng.integers(4, 30)), 0.5, rng, 1)
        curve = attack_curve(table)
        points = list(zip(curve.fpr[0], 1 - curve.fnr[0], strict=True))
        for x in np.linspace(0, 1, 7):
            best = max(b for a, b in points if a <= x)
            for (a, b), (c, d) in itertools.product(points, points):
                if a <= x < c:
                    best = max(best, b + (d - b) * (x - a) / (c - a))
            assert curve.tpr(x)[0] == pytest.approx(best, abs=1e-12)
    low, estimate, high = curve.tpr(0.2)[[1, 0, 2]]
    assert low <= estimate <= high
    assert curve.tpr([0.0, 1.0]).shape == (3, 2)
    assert curve.tpr(1.0).tolist() == [1, 1, 1]


def test_accuracy_by_hand():
    curve = attack_curve([[0, 0, 10, 10], [6, 1, 9, 4], [10, 10, 0, 0]])
    assert curve.accuracy()[0] == pytest.approx(0.75)
    assert curve.accuracy(0.9)[0] == pytest.approx(0.9)  # everyone a member
    assert curve.accuracy(0.0).tolist()[0] == 1.0


# What else people do with one set of trials: how often a bound on epsilon is above the truth.


@pytest.mark.slow
def test_the_median_of_divisions_holds_and_the_best_of_them_does_not():
    """An attack that says yes or no: the other half of the trials, 101 times, by its counts."""
    rng, repetitions, n, rates = np.random.default_rng(6), 500, 200, (0.5, 0.1)
    truth, above = math.log(rates[0] / rates[1]), np.zeros(3, int)
    for _ in range(repetitions):
        tp, fp = (rng.hypergeometric(k, n - k, n // 2, 101) for k in rng.binomial(n, rates))
        rows = np.stack([tp, fp, n // 2 - fp, n // 2 - tp], axis=1)
        bounds = epsilon_lower_bounds(rows, 0.0, LEVEL, "clopper-pearson")
        stricter = epsilon_lower_bounds(rows, 0.0, (1 + LEVEL) / 2, "clopper-pearson")
        above += np.array([bounds[0], np.median(stricter), bounds.max()]) > truth
    assert (above[:2] <= most(repetitions, 1 - LEVEL)).all()
    assert above[2] > most(repetitions, 1 - LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_the_level_with_several_divisions(mu):
    rng, repetitions, n, delta = np.random.default_rng(2), 100, 60, 0.01
    members, truth = np.arange(n) % 2 == 0, true_best_epsilon(mu, delta) if mu else 0.0
    above = 0
    for _ in range(repetitions):
        given = (rng.normal(size=n) + mu * members, members, delta, LEVEL, "clopper-pearson")
        above += held_out_lower_bound(*given, splits=3, seed=rng)[1] > truth
    assert above <= most(repetitions, 1 - LEVEL)


def test_several_divisions_begin_with_the_first():
    rng = np.random.default_rng(4)
    scores, members = rng.normal(size=80), np.arange(80) % 2 == 0
    scores[members] += 2
    one = held_out_lower_bound(scores, members, 1e-5, seed=7)
    assert held_out_lower_bound(scores, members, 1e-5, splits=1, seed=7) == one
    bounds = sorted(
        held_out_lower_bound(scores, members, 1e-5, 0.95, seed=generator)
        for generator in [np.random.default_rng(7)] * 3
    )
    three = held_out_lower_bound(scores, members, 1e-5, 0.9, splits=3, seed=7)
    assert three[1] == sorted(bound for _, bound in bounds)[1]
