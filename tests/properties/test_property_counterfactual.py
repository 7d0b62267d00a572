"""Estimates from known nuisance functions, metrics, scores, bounds and confidence sequences."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import check, levels, ordered, seeds, units

from lib import counterfactual as cf
from lib.counterfactual import Nuisances, estimate_from_nuisances


@st.composite
def known(draw, low=2, high=40):
    """Scores, abstentions and nuisance functions of one classifier, with a seed for more."""
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(low, high))
    abstained = rng.random(n) < draw(st.sampled_from([0.0, 0.2, 0.6, 0.95]))
    abstained[rng.integers(n)] = False
    scores = rng.random(n) if draw(st.booleans()) else (rng.random(n) < 0.8).astype(float)
    return (
        Nuisances(abstained, np.where(abstained, 0.0, scores), rng.random(n), rng.random(n)),
        rng,
    )


estimators = st.sampled_from(cf.ESTIMATORS)


@check
@given(known(), estimators, ordered(levels), st.floats(0.05, 0.5))
def test_estimates(given_, estimator, pair, clip):
    nuisances, _ = given_
    narrow, wide = (
        estimate_from_nuisances(nuisances, estimator=estimator, clip=clip, level=level)
        for level in pair
    )
    (low, high), (lower, higher) = narrow.interval, wide.interval
    if math.isnan(low) or math.isnan(lower):  # a narrower one may lie outside what is possible
        assert math.isnan(low)
        assert math.isnan(high)
        assert math.isnan(lower) == math.isnan(higher)
    else:
        assert lower <= low <= high <= higher
        if narrow.reach is None:
            assert low <= narrow.value <= high
        else:
            assert 0 <= low <= np.clip(narrow.value, 0, 1) <= high <= 1
    np.testing.assert_equal(narrow.p_value, wide.p_value)
    blind = narrow.reach is None and math.isnan(low)
    assert blind if math.isnan(narrow.p_value) else 0 <= narrow.p_value <= 1
    assert narrow.influence.mean() == pytest.approx(narrow.value)
    if narrow.stderr > 1e-12:  # the test at level alpha rejects 0 where the interval excludes it
        edge = estimate_from_nuisances(
            nuisances,
            estimator=estimator,
            clip=clip,
            level=float(np.clip(1 - np.nan_to_num(narrow.p_value), 1e-6, 0.9999)),
        )
        if 1e-4 < narrow.p_value < 0.9999 and not math.isnan(edge.interval[0]):
            assert min(abs(end) for end in edge.interval) == pytest.approx(0, abs=1e-7)
    four = Nuisances(*(np.tile(part, 4) for part in vars(nuisances).values()))
    four = estimate_from_nuisances(four, estimator=estimator, clip=clip)
    assert four.value == pytest.approx(narrow.value, abs=1e-12)
    assert four.stderr == pytest.approx(narrow.stderr / 2, abs=1e-12)


@check
@given(known(), st.floats(0.05, 0.5), st.floats(-3, 3), st.floats(0.1, 5))
def test_the_doubly_robust_estimate_follows_the_scale_of_the_scores(given_, clip, shift, factor):
    nuisances, _ = given_
    plain = estimate_from_nuisances(nuisances, clip=clip)
    moved = estimate_from_nuisances(
        Nuisances(
            nuisances.abstained,
            np.where(nuisances.abstained, 0.0, shift + factor * nuisances.scores),
            nuisances.propensity,
            shift + factor * nuisances.outcome,
        ),
        clip=clip,
    )
    assert moved.value == pytest.approx(shift + factor * plain.value, abs=1e-10)
    assert moved.stderr == pytest.approx(factor * plain.stderr, abs=1e-10)


@check
@given(known(3, 30), seeds, estimators, st.floats(0.05, 0.5))
def test_differences_are_antisymmetric(given_, seed, estimator, clip):
    one, _ = given_
    rng = np.random.default_rng(seed)
    n = len(one.scores)
    abstained = rng.random(n) < 0.3
    two = Nuisances(abstained, np.where(abstained, 0, rng.random(n)), rng.random(n), rng.random(n))
    options = {"estimator": estimator, "clip": clip}
    forth = estimate_from_nuisances([one, two], **options)
    back = estimate_from_nuisances([two, one], **options)
    assert back.value == pytest.approx(-forth.value, abs=1e-14)
    assert back.stderr == pytest.approx(forth.stderr)
    assert back.p_value == pytest.approx(forth.p_value, nan_ok=True)
    assert back.interval[::-1] == pytest.approx([-x for x in forth.interval], nan_ok=True)
    alone = [estimate_from_nuisances(each, **options).value for each in (one, two)]
    assert forth.value == pytest.approx(alone[0] - alone[1], abs=1e-12)
    same = estimate_from_nuisances([one, one], **options)
    assert (same.value, same.stderr) == (0.0, 0.0)
    # No spread: nothing is known, but where the range of scores is.
    assert math.isnan(same.p_value) if same.reach is None else same.p_value == 1.0


@check
@given(known(3, 40), ordered(units), st.floats(0.05, 0.5))
def test_bounds_under_contamination(given_, shares, clip):
    nuisances, rng = given_
    estimate = estimate_from_nuisances(nuisances, clip=clip)
    rows = cf.contamination_bounds(estimate, [0.0, *shares, 1.0])
    for outer, inner in zip(rows.iloc[1:].itertuples(), rows.iloc[:-1].itertuples(), strict=True):
        assert outer.low <= inner.low + 1e-9
        assert inner.high <= outer.high + 1e-9
    for row in rows.itertuples():
        assert row.low <= estimate.value + 1e-12
        assert estimate.value <= row.high + 1e-12
        if not math.isnan(row.ci_low):
            assert row.ci_low <= row.low + 1e-12
            assert row.high <= row.ci_high + 1e-12
    assert rows.loc[0, ["low", "high"]].tolist() == pytest.approx([estimate.value] * 2, abs=1e-9)
    # As far out as the interval at least, which is cut off at what is possible.
    ends = rows.loc[0, ["ci_low", "ci_high"]].tolist()
    if not math.isnan(estimate.interval[0]):
        assert ends[0] <= estimate.interval[0] + 1e-9
        assert estimate.interval[1] <= ends[1] + 1e-9
        if estimate.reach is None:
            assert ends == pytest.approx(estimate.interval, abs=1e-9)
    # At other shares the scores that are seen are not in the order of the outcome model.
    wider = cf.contamination_bounds(estimate, [1.0], (-1.0, 2.0))
    assert wider.loc[0, "low"] <= rows.loc[3, "low"] + 1e-9
    assert wider.loc[0, "high"] >= rows.loc[3, "high"] - 1e-9
    value = estimate.value + rng.normal() / 2
    plain, careful = (cf.breakdown_share(estimate, value, interval=flag) for flag in (False, True))
    if math.isnan(estimate.interval[0]):  # nothing is known of how sure the bounds are
        assert math.isnan(careful)
    else:
        assert 0 <= careful <= plain
    assert plain <= 1 or plain == math.inf
    if 0 < plain < 1:
        found = cf.contamination_bounds(estimate, [plain])
        end = found.loc[0, "low" if value < estimate.value else "high"]
        assert end == pytest.approx(value, abs=1e-6)
