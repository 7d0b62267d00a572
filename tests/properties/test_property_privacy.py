"""Privacy accounting, label mechanisms and the projection onto the simplex."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from strategies import check, ordered, seeds

from lib.privacy import (
    GaussianLabels,
    LaplaceLabels,
    PrivacyLedger,
    RandomizedResponse,
    SampledGaussian,
    project_to_simplex,
)

# Few different values, as one step of Renyi accounting takes a tenth of a second.
sigmas = st.sampled_from([1.0, 2.0, 10.0])
rates = st.sampled_from([0.01, 0.2, 1.0])
steps = st.integers(1, 5000)
deltas = st.floats(1e-9, 0.5)


def spent(rate, sigma, count, delta, accountant="rdp"):
    return PrivacyLedger((SampledGaussian(rate, sigma, count),)).epsilon(delta, accountant)


@check
@given(rates, sigmas, steps, ordered(deltas))
def test_epsilon_falls_with_delta_and_more_steps_cost_more(rate, sigma, count, pair):
    high, low = (spent(rate, sigma, count, delta) for delta in pair)
    assert 0 <= low <= high < math.inf
    assert spent(rate, sigma, 2 * count, pair[0]) >= high
    ledger = PrivacyLedger((SampledGaussian(rate, sigma, count),))
    other = PrivacyLedger((SampledGaussian(0.2, 10.0, 10),))
    both = ledger.compose(other).epsilon(pair[0])
    assert both == other.compose(ledger).epsilon(pair[0])
    assert both >= max(high, other.epsilon(pair[0]))
    # Basic composition, which shares delta, is no better.
    assert both <= ledger.epsilon(pair[0] / 2) + other.epsilon(pair[0] / 2) + 1e-9
    halves = PrivacyLedger(
        (SampledGaussian(rate, sigma, count // 2), SampledGaussian(rate, sigma, count - count // 2))
    )
    assert halves.epsilon(pair[0]) == high


@check
@given(ordered(st.floats(0.05, 20)), ordered(st.floats(1e-9, 0.9)))
def test_label_mechanisms(noises, pair):
    for make in (LaplaceLabels, GaussianLabels, lambda x: RandomizedResponse(1 / x)):
        table = np.array([[make(noise).epsilon(delta) for delta in pair] for noise in noises])
        assert (table >= 0).all()
        assert (np.diff(table, axis=0) <= 1e-12).all()  # more noise
        assert (np.diff(table, axis=1) <= 1e-12).all()  # a larger delta
    exact, renyi = (GaussianLabels(noises[0]).epsilon(pair[0], a) for a in ("exact", "rdp"))
    assert exact <= renyi + 1e-12
    for kind in (LaplaceLabels, GaussianLabels, RandomizedResponse):
        made = kind.for_epsilon(noises[1], pair[0])
        assert made.epsilon(pair[0]) == pytest.approx(noises[1], rel=1e-8, abs=1e-10)


vectors = st.tuples(st.integers(1, 3), st.integers(2, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-12, 12).map(lambda i: i / 4))
)


def closest(o):
    """The closest probability vector, by brute force over the sets of positive entries.

    On a set A the closest point of the plane "entries in A sum to 1, others are 0" is o_A plus a
    constant; it is a candidate where it is not negative, and the closest one is the answer.
    """
    best, where = math.inf, None
    for size in range(1, len(o) + 1):
        for active in map(list, itertools.combinations(range(len(o)), size)):
            p = np.zeros(len(o))
            p[active] = o[active] + (1 - o[active].sum()) / size
            distance = ((p - o) ** 2).sum()
            if (p >= -1e-15).all() and distance < best:
                best, where = distance, p
    return where


@check
@given(vectors, seeds)
def test_projection_is_the_closest_point(observed, seed):
    found = project_to_simplex(observed)
    expected = [closest(row) for row in observed]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=1e-14)
    # Once is enough, classes have no names, the order stays, and nothing moves apart.
    np.testing.assert_allclose(project_to_simplex(found), found, rtol=0, atol=1e-15)
    rng = np.random.default_rng(seed)
    names = rng.permutation(observed.shape[1])
    np.testing.assert_allclose(project_to_simplex(observed[:, names]), found[:, names], atol=1e-15)
    i, j = rng.permutation(observed.shape[1])[:2]
    assert ((found[:, i] >= found[:, j]) | (observed[:, i] < observed[:, j])).all()
    other = rng.normal(size=observed.shape)
    apart = np.linalg.norm(found - project_to_simplex(other), axis=1)
    assert (apart <= np.linalg.norm(observed - other, axis=1) + 1e-14).all()
    inside = rng.dirichlet(np.ones(observed.shape[1]), len(observed))
    np.testing.assert_allclose(project_to_simplex(inside), inside, rtol=0, atol=1e-15)
