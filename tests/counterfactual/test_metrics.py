"""Metrics by hand; the identity of quality and counterfactual score; intervals by simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lib.counterfactual.estimate import Nuisances, estimate_from_nuisances, influence_values
from lib.counterfactual.metrics import (
    chow_score,
    classification_quality,
    classification_quality_estimate,
    coverage,
    selective_score,
)

NAN = math.nan
S = [1.0, 0.0, 0.5, 1.0]  # of all points
R = [0, 1, 0, 1]
SEEN = [1.0, NAN, 0.5, None]

points = st.integers(2, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0, 1), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n),
    )
)


def simulate(rng, n):
    """Scores of all points, abstentions, and true nuisance functions."""
    x = rng.random(n)
    outcome, propensity = 0.9 - 0.5 * x, 0.2 + 0.5 * x
    return rng.random(n) < outcome, rng.random(n) < propensity, propensity, outcome


def known(rng, n):
    s, r, propensity, outcome = simulate(rng, n)
    return Nuisances(r, np.where(r, 0.0, s), propensity, outcome), s.astype(float)


def cheap(base, nuisances):
    """An estimate from other points, its diagnostics left as they are."""
    influence = influence_values(nuisances, "dr", base.clip)
    stderr = influence.std() / math.sqrt(len(influence))
    return replace(base, influence=influence, stderr=stderr, nuisances=(nuisances,))


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        (selective_score(SEEN, R), [1.0, 0.5]),
        (coverage(R), [1, 0, 1, 0]),
        (chow_score(SEEN, R, 0.25), [1.0, 0.25, 0.5, 0.25]),
        (chow_score(SEEN, R, 0), [1.0, 0, 0.5, 0]),
        (chow_score(SEEN, R, -2), [1.0, -2, 0.5, -2]),
        (classification_quality(S, R), [1.0, 1.0, 0.5, 0.0]),
        (coverage([False] * 3), [1, 1, 1]),
        (coverage([1, 1]), [0, 0]),
        (selective_score([0.2, 0.4], [False, False]), [0.2, 0.4]),
        (chow_score([NAN, NAN], [1, 1], 0.5), [0.5, 0.5]),
        (classification_quality([0.25, 1], [1, 1]), [0.75, 0]),
        (classification_quality([0.25, 1], [0, 0]), [0.25, 1]),
    ],
)
def test_by_hand(metric, values):
    n = len(values)
    assert metric.value == pytest.approx(sum(values) / n)
    variance = sum((v - sum(values) / n) ** 2 for v in values) / n
    assert metric.stderr == pytest.approx(math.sqrt(variance / n))
    if set(values) <= {0, 1}:  # Clopper and Pearson's, by the formula of a saddlepoint
        k = sum(values)
        low = stats.beta.ppf(0.025, k, n - k + 1) if k else 0
        high = stats.beta.isf(0.025, k + 1, n - k) if k < n else 1
        assert metric.interval == pytest.approx((low, high), abs=0.003)
    elif len(set(values)) == 1:
        assert np.isnan(metric.interval).all()
    else:
        assert metric.interval[0] < metric.value < metric.interval[1]


def test_a_single_value_has_no_spread():
    for metric, interval in (
        (selective_score([1.0, NAN], [0, 1]), (0.025, 1)),  # one answer, Clopper and Pearson
        (coverage([0]), (0.025, 1)),
        (classification_quality([1.0], [0]), (0.025, 1)),
        (selective_score([0.3, NAN], [0, 1]), (NAN, NAN)),
        (chow_score([NAN], [1], 0.5), (NAN, NAN)),
        (classification_quality([0.5], [0]), (0.0125, 0.9875)),  # whatever it is within [0, 1]
    ):
        assert math.isfinite(metric.value)
        assert math.isnan(metric.stderr)
        assert metric.interval == pytest.approx(interval, abs=0.002, nan_ok=True)


@settings(deadline=None, max_examples=60)
@given(points, st.floats(-3, 3))
def test_relations(data, reward):
    s, r = data
    chow = chow_score(s, r, reward).value
    share = coverage(r).value
    answered = selective_score(s, r).value * share if share else 0.0
    assert chow == pytest.approx(answered + reward * (1 - share), abs=1e-9)
    theta, psi = classification_quality(s, r).value, float(np.mean(s))
    assert theta + psi == pytest.approx(2 * answered + 1 - share, abs=1e-9)
    # The authors' documented form: the sum of S + gamma over the answers.
    authors = sum(v + reward for v, out in zip(s, r, strict=True) if not out) / len(s)
    assert authors == pytest.approx(chow_score(s, r, -reward).value + reward, abs=1e-9)


@pytest.mark.slow
def test_intervals_cover():
    rng, misses, repetitions = np.random.default_rng(0), np.zeros(5), 300
    x = np.linspace(0, 1, 100_001)
    mu, pi = 0.9 - 0.5 * x, 0.2 + 0.5 * x
    answered, withheld = np.mean(mu * (1 - pi)), np.mean((1 - mu) * pi)
    truth = [
        answered / np.mean(1 - pi),
        np.mean(1 - pi),
        answered + 0.3 * np.mean(pi),
        answered + withheld,
        answered + withheld,
    ]
    base = estimate_from_nuisances(known(rng, 400)[0], clip=0.01)
    for _ in range(repetitions):
        nuisances, s = known(rng, 400)
        r, seen = nuisances.abstained, np.where(nuisances.abstained, NAN, s)
        estimate = cheap(base, nuisances)
        found = (
            selective_score(seen, r),
            coverage(r),
            chow_score(seen, r, 0.3),
            classification_quality(s, r),
            classification_quality_estimate(estimate),
        )
        for i, metric in enumerate(found):
            misses[i] += not metric.interval[0] <= truth[i] <= metric.interval[1]
    slack = 3.5 * math.sqrt(0.05 * 0.95 / repetitions)
    assert (np.abs(misses / repetitions - 0.05) < slack).all(), misses / repetitions


def test_estimated_quality_of_one():
    rng = np.random.default_rng(1)
    nuisances, s = known(rng, 5000)
    r = nuisances.abstained
    estimate = estimate_from_nuisances(nuisances, clip=0.01, level=0.9)
    theta = classification_quality_estimate(estimate)
    observed = 2 * chow_score(s, r, 0).value + 1 - coverage(r).value
    assert theta.value == pytest.approx(observed - estimate.value)
    assert np.allclose(theta.influence, np.where(r, 1.0, 2 * s) - estimate.influence)
    assert theta.value == pytest.approx(theta.influence.mean())
    assert theta.stderr == pytest.approx(theta.influence.std() / math.sqrt(5000))
    half = stats.norm.isf(0.05) * theta.stderr
    ends = theta.value - half, theta.value + half
    assert theta.interval == pytest.approx(ends, abs=0.03 * half)
    assert theta.p_value < 1e-6
    assert (theta.level, theta.clip, theta.nuisances) == (0.9, 0.01, estimate.nuisances)
    (ours,), (given,) = theta.diagnostics, estimate.diagnostics  # of the same nuisance functions
    for name, value in vars(given).items():
        np.testing.assert_array_equal(getattr(ours, name), value, err_msg=name)
    oracle = classification_quality(s, r)
    assert abs(theta.value - oracle.value) < 4 * oracle.stderr
    assert theta.stderr < oracle.stderr  # as it knows that S and R are independent given X
    # An oracle and an estimate of both sum to the same observed number.
    assert oracle.value + s.mean() == pytest.approx(theta.value + estimate.value)


def test_estimated_quality_of_two():
    rng = np.random.default_rng(2)
    pair = [known(rng, 300)[0] for _ in range(2)]
    both = classification_quality_estimate(estimate_from_nuisances(pair, clip=0.01))
    single = [
        classification_quality_estimate(estimate_from_nuisances(one, clip=0.01)) for one in pair
    ]
    assert both.value == pytest.approx(single[0].value - single[1].value)
    assert np.allclose(both.influence, single[0].influence - single[1].influence)
    same = classification_quality_estimate(estimate_from_nuisances([pair[0], pair[0]], clip=0.01))
    assert (same.value, same.stderr, same.p_value) == (0, 0, 1)


def test_spread_over_splits_is_kept():
    estimate = estimate_from_nuisances(known(np.random.default_rng(3), 200)[0], clip=0.01)
    wider = replace(estimate, stderr=math.hypot(estimate.stderr, 0.03))
    plain, spread = map(classification_quality_estimate, (estimate, wider))
    assert spread.stderr == pytest.approx(math.hypot(plain.stderr, 0.03))
    narrower = replace(estimate, stderr=estimate.stderr / 2)
    assert classification_quality_estimate(narrower).stderr == pytest.approx(plain.stderr)
