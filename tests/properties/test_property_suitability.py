"""Tests, intervals, sizes and sequential procedures of suitability: bounds, order, invariance."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import check, ordered, seeds

from lib import suitability as su
from lib.suitability.noninferiority import zeros_and_ones

margins = st.floats(-0.5, 0.5)


@st.composite
def two_samples(draw, low=2, high=40):
    """Estimated correctness of test and user data, sometimes rounded, never constant."""
    rng = np.random.default_rng(draw(seeds))
    n, m = draw(st.integers(low, high)), draw(st.integers(low, high))
    a, b = rng.beta(*rng.uniform(0.5, 5, 2), n), rng.beta(*rng.uniform(0.5, 5, 2), m)
    decimals = draw(st.sampled_from([None, None, 1, 0]))
    if decimals is not None:
        a, b = a.round(decimals), b.round(decimals)
    for sample in (a, b):
        if np.ptp(sample) == 0:
            sample[0] = (sample[0] + 0.5) % 1
    return a, b, rng


@check
@given(two_samples(), ordered(margins), st.floats(-0.4, 0.4))
def test_non_inferiority(samples, pair, shift):
    test, user, _ = samples
    strict, mild = (su.non_inferiority_test(test, user, m).p_value for m in pair)
    assert 0 <= mild <= strict + 1e-12 <= 1 + 1e-12
    found = su.non_inferiority_test(test, user, pair[0])
    assert not math.isnan(found.statistic)
    # The opposite hypothesis with the roles exchanged.
    back = su.non_inferiority_test(user, test, -pair[0])
    if all(map(zeros_and_ones, (test, user))):  # exact: what was seen counts on both sides
        assert back.p_value + found.p_value >= 1 - 1e-10
        return  # nor are they zeros and ones if moved, or few if repeated
    assert back.p_value == pytest.approx(1 - found.p_value, abs=1e-10)
    if math.isnan(found.dof):  # no variance: all is decided by the difference, which may round
        return
    moved = su.non_inferiority_test(test + shift, user + shift, pair[0])
    assert moved.p_value == pytest.approx(found.p_value, abs=1e-9)
    worse = su.non_inferiority_test(test, user - abs(shift), pair[0])
    assert worse.p_value >= found.p_value - 1e-12
    if found.p_value < 0.5:  # the more data say the same, the surer
        more = su.non_inferiority_test(np.tile(test, 3), np.tile(user, 3), pair[0])
        assert more.p_value <= found.p_value + 1e-12


@check
@given(two_samples(), ordered(st.floats(0.01, 0.9)), ordered(st.floats(0.001, 0.49)))
def test_equivalence(samples, margins_, alphas):
    test, user, _ = samples
    narrow, wide = (su.equivalence_test(test, user, m, alphas[0]) for m in margins_)
    assert 0 <= wide.p_value <= narrow.p_value + 1e-12 <= 1 + 1e-12
    assert narrow.p_value == max(narrow.p_lower, narrow.p_upper)
    sure, unsure = (su.equivalence_test(test, user, margins_[0], a).interval for a in alphas)
    difference = narrow.difference
    assert sure[0] <= unsure[0] <= difference <= unsure[1] <= sure[1]
    inside = -margins_[0] <= sure[0] and sure[1] <= margins_[0]
    gap = min(abs(margins_[0] + sure[0]), abs(margins_[0] - sure[1]))
    if gap > 1e-9:
        assert inside == (narrow.p_value <= alphas[0])
    back = su.equivalence_test(user, test, margins_[0], alphas[0])
    assert back.p_value == pytest.approx(narrow.p_value, abs=1e-10)


@check
@given(two_samples(3, 60), margins, ordered(st.floats(0.001, 0.49)))
def test_offsets_and_margins(samples, margin, levels):
    test, user, rng = samples
    right, user_right = rng.random(len(test)) < test, rng.random(len(user)) < user
    offset = su.calibration_offset(test, right)
    assert offset.value == pytest.approx(test.mean() - right.mean())
    assert -1 <= offset.value <= 1
    assert offset.stderr >= 0
    for reference in ("distribution", "sample"):
        sure, unsure = (
            su.adjusted_margin(
                margin, test, right, user, user_right, level=level, reference=reference
            )
            for level in levels
        )
        (low, high), (lower, higher) = unsure.interval, sure.interval
        assert lower <= low <= unsure.value <= high <= higher
        assert sure.bound == lower
    # The plug-in is what the corollary says of the offsets measured.
    measured = su.calibration_offset(user, user_right)
    assert su.corrected_margin(margin, -offset.value, -measured.value) == pytest.approx(sure.value)


@check
@given(two_samples(3, 60), ordered(margins), st.sampled_from(["distribution", "sample"]))
def test_prediction_powered(samples, pair, reference):
    test, user, rng = samples
    right, labelled = rng.random(len(test)) < test, rng.random(8)
    truth = rng.random(8) < labelled
    strict, mild = (
        su.prediction_powered_test(right, user, labelled, truth, m, reference=reference)
        for m in pair
    )
    assert 0 <= mild.p_value <= strict.p_value + 1e-12 <= 1 + 1e-12
    assert 0 <= strict.labels_p_value <= 1
    assert strict.stderr >= 0
    assert strict.user_accuracy == pytest.approx(
        strict.tuning * (user.mean() - labelled.mean()) + truth.mean()
    )
    assert mild.labels_p_value <= strict.labels_p_value + 1e-12
    assert 0 < strict.betting_p_value <= 1


@check
@given(
    st.integers(1, 4),
    st.sampled_from([0.01, 0.05, 0.2]),
    st.sampled_from(["pocock", "obrien-fleming"]),
    st.sampled_from([1, 2]),
    ordered(st.floats(0, 4)),
    seeds,
)
def test_designs(looks, alpha, kind, sides, drifts, seed):
    design = su.SequentialDesign(looks, alpha, kind, sides)
    assert (np.diff(design.spent) > 0).all()
    assert design.spent[-1] == pytest.approx(alpha, abs=1e-8)
    assert ((design.levels > 0) & (design.levels <= alpha / sides + 1e-9)).all()
    if kind == "obrien-fleming":
        assert (np.diff(design.levels) > 0).all()
    low, high = (design.power(d) for d in drifts)
    assert alpha - 1e-8 <= low <= high + 1e-9 <= 1 + 2e-9
    p = np.random.default_rng(seed).random()
    decision = design.decide([p])
    if decision.rejected and sides == 1:
        assert design.decide([p / 2]).rejected
        assert p <= alpha + 1e-12
    assert not decision.rejected or decision.stopped


@check
@given(seeds, st.integers(1, 60), ordered(st.floats(0.05, 1.2)), st.integers(0, 60))
def test_e_processes(seed, n, thresholds, cut):
    x = np.random.default_rng(seed).beta(3, 2, n)
    process = su.EProcess(thresholds[0])
    values, p = [], [1.0]
    for value in x:
        values.append(process.update(value))
        p.append(process.p_value)
    assert min(values) > 0
    assert (np.diff(p) <= 0).all()
    assert 0 < p[-1] <= 1
    assert p[-1] == pytest.approx(1 / max(1.0, *values))
    whole = su.EProcess(thresholds[0])
    whole.update(x[: cut % n])
    whole.update(x[cut % n :])
    assert whole.e_value == pytest.approx(values[-1])
    # It is harder to be above a higher threshold, for constant data at every time.
    constant = [su.EProcess(t) for t in thresholds]
    for each in constant:
        each.update(np.full(n, x[0]))
    assert constant[1].p_value >= constant[0].p_value - 1e-12
    never = su.EProcess(1.0)
    assert never.update(np.ones(n)) == 1.0


@check
@given(seeds, st.integers(1, 80), st.floats(0.001, 0.3))
def test_upper_bounds(seed, n, level):
    x = np.random.default_rng(seed).beta(4, 2, n)
    bound = su.test_upper_bound(x, level)
    assert 0 < bound <= 1
    assert su.test_upper_bound(np.ones(n), level) == 1
    # What is refuted by the first observations stays refuted: the capital was there once.  The bets
    # depend on the number of all observations, so this takes the same number of them.
    lower = np.where(np.arange(n) < n // 2, x, 0.0)
    assert su.test_upper_bound(np.zeros(n), level) <= su.test_upper_bound(lower, level) + 1e-6


def labelled(seed, n=60, rate=0.3):
    """A batch of rows of which some are chosen and labelled."""
    rng = np.random.default_rng(seed)
    f = rng.beta(*rng.uniform(0.3, 5, 2), n).round(rng.choice([1, 2, 12]))
    p = su.labelling_probabilities(f, rate, rng.beta(8, 2, 100))
    chosen = rng.random(n) < p
    return f, chosen, rng.random(chosen.sum()) < rng.random(), p


@check
@given(seeds, ordered(st.floats(0.01, 0.5)))
def test_active_accuracy(seed, alphas):
    batch = labelled(seed)
    (value, wide), (again, narrow) = (
        su.active_accuracy(*batch, least_probability=0.15, alpha=alpha) for alpha in alphas
    )
    assert value == again
    assert 0 <= wide[0] <= narrow[0] <= narrow[1] <= wide[1] <= 1
    f, chosen, right, p = batch
    turned, ends = su.active_accuracy(
        1 - f, chosen, ~right, p, least_probability=0.15, alpha=alphas[0]
    )
    assert turned == pytest.approx(1 - value, abs=1e-9)
    assert ends == pytest.approx((1 - wide[1], 1 - wide[0]), abs=1e-6)


@check
@given(seeds, st.integers(1, 6))
def test_active_monitor_does_not_care_how_rows_are_cut_while_it_watches(seed, parts):
    f, chosen, right, p = labelled(seed)
    whole, cut = (su.ActiveMonitor(0.5, least_probability=0.15, run_length=1e12) for _ in range(2))
    at_once = whole.update(f, chosen, right, p)
    places = np.searchsorted(np.flatnonzero(chosen), np.arange(len(f)))
    largest = 0.0
    for rows in np.array_split(np.arange(len(f)), parts):
        labels = right[places[rows[0]] :][: chosen[rows].sum()]
        largest = max(largest, cut.update(f[rows], chosen[rows], labels, p[rows]).evidence)
    assert largest == pytest.approx(at_once.evidence, rel=1e-9)
    assert cut._detector.value == pytest.approx(whole._detector.value, rel=1e-9)
