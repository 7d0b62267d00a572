"""Regions, posteriors, intervals and thresholds of the audit: bounds, nesting, invariance."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import check, levels, ordered, tables, units

from lib import audit
from lib.audit.counts import rate_interval
from lib.audit.intervals import METHODS, SIDES

deltas = st.sampled_from([0.0, 1e-5, 0.01, 0.2])
# Quantiles of the posterior are exact to about 1e-10 in probability.
SLACK = 1e-8


def near(a, b):
    """Whether a <= b but for the accuracy of the quantiles."""
    return a <= b + SLACK * (1 + abs(a)) if math.isfinite(b) else True


@check
@given(units, units, ordered(st.floats(0, 0.9)))
def test_epsilon_of_rates(fpr, fnr, pair):
    small, large = (float(audit.epsilon_point(fpr, fnr, delta)) for delta in pair)
    assert 0 <= large <= small
    delta = pair[0]
    assert small == float(audit.epsilon_point(fnr, fpr, delta))
    # The opposite guesses have one minus the rates, which rounds.
    assert (
        float(audit.epsilon_point(1 - fpr, 1 - fnr, delta))
        == pytest.approx(small, rel=1e-6, abs=1e-6)
        or min(fpr, fnr, 1 - fpr, 1 - fnr) < 1e-9
    )
    if fpr + fnr <= 1 - delta:  # better than chance: fewer errors show more
        assert float(audit.epsilon_point(fpr / 2, fnr, delta)) >= small


@check
@given(units, units, deltas, ordered(st.floats(0, 20)))
def test_regions_nest_and_are_those_of_the_definition(fpr, fnr, delta, pair):
    small, large = (audit.privacy_region(eps, delta) for eps in pair)
    if small.contains(fpr, fnr):
        assert large.contains(fpr, fnr)
    assert small.lower(fnr) >= large.lower(fnr)
    assert small.upper(fnr) <= large.upper(fnr)
    for region, eps in zip((small, large), pair, strict=True):
        needed = float(audit.epsilon_point(fpr, fnr, delta))
        if abs(needed - eps) > 1e-6:
            assert region.contains(fpr, fnr) == (needed < eps)
    assert audit.privacy_region(math.inf, delta).contains(fpr, fnr)


@check
@given(tables(), deltas, ordered(st.floats(0, 12)))
def test_posteriors_are_distributions(counts, delta, pair):
    posterior = audit.epsilon_posterior(audit.AttackCounts(*counts), delta)
    low, high = posterior.cdf(pair)
    assert 0 <= low <= high + 1e-12 <= 1 + 1e-12
    assert (posterior.pdf(pair) >= 0).all()
    assert posterior.cdf(pair) + posterior.sf(pair) == pytest.approx(1, abs=1e-12)
    assert 0 <= posterior.mass_at_zero <= low + 1e-12
    assert posterior.cdf(-1.0) == 0
    assert posterior.cdf(math.inf) == 1


@check
@given(
    st.integers(1, 2000),
    units,
    ordered(st.floats(1e-6, 0.25)),
    st.sampled_from(["clopper-pearson", "jeffreys"]),
)
def test_intervals_of_a_share(trials, part, tails, method):
    errors = round(part * trials)
    wide, narrow = (rate_interval(errors, trials, tail, method) for tail in tails)
    # Quarter-quantiles of Jeffreys' posterior are on either side of what was seen.
    assert 0 <= wide[0] <= narrow[0] <= errors / trials <= narrow[1] <= wide[1] <= 1
    mirrored = rate_interval(trials - errors, trials, tails[0], method)
    assert mirrored == pytest.approx((1 - wide[1], 1 - wide[0]), abs=1e-9)
    low, high = rate_interval(4 * errors, 4 * trials, tails[0], method)
    assert high - low < wide[1] - wide[0]
    if errors < trials:
        more = rate_interval(errors + 1, trials, tails[0], method)
        assert more[0] > wide[0] or (errors == 0 and more[0] > 0)
        assert more[1] > wide[1] or more[1] == 1


@check
@given(tables(), deltas, ordered(levels), st.sampled_from(METHODS), st.sampled_from(SIDES))
def test_intervals_nest_in_the_level(counts, delta, pair, method, side):
    counts = audit.AttackCounts(*counts)
    narrow, wide = (audit.epsilon_interval(counts, delta, lv, method, side) for lv in pair)
    assert near(wide[0], narrow[0])
    assert 0 <= narrow[0] <= narrow[1]
    assert near(narrow[1], wide[1])
    if side == "lower":
        assert narrow[1] == math.inf
    elif method != "bayesian":
        point = float(audit.epsilon_point(counts.fpr, counts.fnr, delta))
        assert narrow[0] <= point <= narrow[1]


@check
@given(ordered(units), ordered(st.floats(0.01, 10)), ordered(st.floats(1e-9, 0.9)))
def test_the_gaussian_mechanism(rates, mus, deltas):
    errors = np.array([audit.gaussian_fnr(rates, mu) for mu in mus])
    assert ((errors >= 0) & (errors <= 1)).all()
    assert (np.diff(errors, axis=0) <= 0).all()
    assert (np.diff(errors, axis=1) <= 0).all()
    table = np.array([[audit.true_best_epsilon(mu, delta) for mu in mus] for delta in deltas])
    assert (table >= 0).all()
    assert (np.diff(table, axis=0) <= 1e-12).all()
    assert (np.diff(table, axis=1) >= -1e-12).all()


runs = st.tuples(st.integers(1, 60), units, st.integers(0, 200)).map(
    lambda a: (round(a[1] * a[0]), a[0], a[0] + a[2])
)


@check
@given(runs, ordered(st.floats(0, 8)), ordered(st.floats(0, 0.05)))
def test_p_values_of_one_run(run, epsilons, deltas):
    correct, guesses, canaries = run
    p = [[audit.one_run_p_value(*run, eps, delta) for eps in epsilons] for delta in (0.0, *deltas)]
    assert all(0 <= value <= 1 for row in p for value in row)
    for a, b in itertools.pairwise(p):  # a larger delta explains more
        assert all(x <= y + 1e-12 for x, y in zip(a, b, strict=True))
    assert p[0][0] <= p[0][1] + 1e-12  # a larger epsilon as well
    if correct < guesses:
        more = audit.one_run_p_value(correct + 1, guesses, canaries, epsilons[0], 0.0)
        assert more <= p[0][0] + 1e-12
    wider = audit.one_run_p_value(correct, guesses, canaries + 7, epsilons[0], deltas[1])
    assert wider >= p[2][0] - 1e-12


@check
@given(runs, ordered(levels), ordered(st.floats(0, 0.02)))
def test_bounds_of_one_run(run, pair, deltas):
    correct, guesses, canaries = run
    low, high = (audit.one_run_epsilon(*run, deltas[0], level) for level in pair)
    assert 0 <= high <= low + 1e-9
    assert audit.one_run_epsilon(*run, deltas[1], pair[0]) <= low + 1e-9
    # Everything below the bound is rejected, not just the bound.
    alpha = 1 - pair[0]
    for share in (0.0, 0.25, 0.5, 0.9):
        if low > 0:
            assert audit.one_run_p_value(*run, share * low, deltas[0]) <= alpha + 1e-12
    if correct < guesses and guesses > 0:
        more = audit.one_run_epsilon(correct + 1, guesses, canaries, deltas[0], pair[0])
        assert more >= low - 1e-9
    if guesses:
        rate = correct / guesses
        seen = math.inf if rate == 1 else max(0.0, math.log(rate / (1 - rate))) if rate else 0.0
        if pair[0] > 0.5:
            assert low <= seen + 1e-9
