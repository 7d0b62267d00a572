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


def reordered(nuisances, order):
    return Nuisances(*(np.asarray(part)[order] for part in vars(nuisances).values()))


estimators = st.sampled_from(cf.ESTIMATORS)


@check
@given(known(), estimators, ordered(levels), st.floats(0.05, 0.5))
def test_estimates(given_, estimator, pair, clip):
    nuisances, rng = given_
    n = len(nuisances.scores)
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
    shuffled = estimate_from_nuisances(
        reordered(nuisances, rng.permutation(n)), estimator=estimator, clip=clip, level=pair[0]
    )
    assert shuffled.value == pytest.approx(narrow.value, abs=1e-12)
    assert shuffled.stderr == pytest.approx(narrow.stderr, abs=1e-12)
    four = estimate_from_nuisances(
        reordered(nuisances, np.tile(np.arange(n), 4)), estimator=estimator, clip=clip
    )
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
@given(known(), ordered(levels), ordered(st.floats(-2, 2)))
def test_observed_metrics(given_, pair, rewards):
    nuisances, rng = given_
    r, n = nuisances.abstained, len(nuisances.scores)
    s = np.where(r, rng.random(n), nuisances.scores)
    order = rng.permutation(n)
    for metric, low, high in (
        (cf.selective_score, 0, 1),
        (cf.classification_quality, 0, 1),
        (lambda s, r, level: cf.coverage(r, level=level), 0, 1),
        (lambda s, r, level: cf.chow_score(s, r, rewards[0], level=level), min(0, rewards[0]), 2),
    ):
        narrow, wide = (metric(s, r, level=level) for level in pair)
        assert low - 1e-12 <= narrow.value <= high + 1e-12
        assert metric(s[order], r[order], level=0.9).value == pytest.approx(narrow.value)
        if math.isnan(narrow.stderr):  # of a single value, as documented
            assert (~r).sum() == 1
            continue
        assert wide.interval[0] <= narrow.interval[0] <= narrow.value
        assert narrow.value <= narrow.interval[1] <= wide.interval[1]
        four = metric(np.tile(s, 4), np.tile(r, 4), level=0.9)
        assert four.stderr == pytest.approx(narrow.stderr / 2, abs=1e-12)
    low, high = (cf.chow_score(s, r, reward).value for reward in rewards)
    assert low <= high
    theta = cf.classification_quality(s, r).value
    assert cf.classification_quality(s, ~r).value == pytest.approx(1 - theta)


@check
@given(known(), st.floats(0.05, 0.5))
def test_quality_and_score_sum_to_what_is_observed(given_, clip):
    nuisances, _ = given_
    psi = estimate_from_nuisances(nuisances, clip=clip)
    theta = cf.classification_quality_estimate(psi)
    seen = np.where(nuisances.abstained, 1.0, 2 * nuisances.scores)
    assert theta.value + psi.value == pytest.approx(seen.mean(), abs=1e-12)
    low, high = theta.interval
    if math.isnan(low):
        assert math.isnan(high)
    elif theta.reach is None:
        assert low <= theta.value <= high
        assert 0 <= theta.p_value <= 1
    else:
        assert 0 <= low <= high <= 1
        assert 0 <= theta.p_value <= 1
    again = cf.classification_quality_estimate(theta)  # twice is none
    assert again.value == pytest.approx(psi.value, abs=1e-12)


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
    assert 0 <= careful <= plain
    assert plain <= 1 or plain == math.inf
    if 0 < plain < 1:
        found = cf.contamination_bounds(estimate, [plain])
        end = found.loc[0, "low" if value < estimate.value else "high"]
        assert end == pytest.approx(value, abs=1e-6)


@check
@given(known(), st.lists(st.floats(0.01, 0.9), min_size=1, max_size=4))
def test_clipping(given_, clips):
    estimate = estimate_from_nuisances(given_[0], clip=clips[0])
    table = cf.clipping_sensitivity(estimate, clips)
    assert table["clip"].tolist() == clips
    assert table.loc[0, "value"] == estimate.value
    assert (table["low"].isna() == table["high"].isna()).all()
    known_ = table.dropna(subset="low")
    value = known_["value"] if estimate.reach is None else known_["value"].clip(0, 1)
    assert value.between(known_["low"], known_["high"]).all()
    assert table["clipped"].between(0, 1).all()
    ordered_ = table.sort_values("clip")
    assert (ordered_["clipped"].diff().dropna() >= -1e-12).all()


# Scores.


@check
@given(seeds, st.integers(2, 6), st.sampled_from(cf.SCORING_RULES))
def test_scores_do_not_depend_on_names(seed, classes, rule):
    rng = np.random.default_rng(seed)
    p, y = rng.dirichlet(np.ones(classes), 6), rng.integers(0, classes, 6)
    found = cf.score(rule, p, y)
    names = rng.permutation(classes)
    assert cf.score(rule, p[:, np.argsort(names)], names[y]) == pytest.approx(found, abs=1e-12)
    assert (found <= 1).all() if rule != "log" else (found <= 0).all()
    if rule != "log":
        assert (found >= 0).all()
    certain = np.eye(classes)[y]
    half = (p + certain) / 2  # moved towards the truth
    assert (cf.score(rule, half, y) >= found - 1e-12).all()
    best = cf.score(rule, certain, y)
    assert best == pytest.approx(1.0 if rule != "log" else 0.0)
    # Proper: in expectation over labels drawn from p nothing beats p.
    other = rng.dirichlet(np.ones(classes), 6)

    def expected(of):
        each = [cf.score(rule, of, np.full(6, c)) for c in range(classes)]
        return sum(p[:, c] * each[c] for c in range(classes))

    assert (expected(p) >= expected(other) - 1e-12).all()


@check
@given(seeds, st.integers(2, 6), st.sampled_from(cf.CONFIDENCE_MEASURES), ordered(units))
def test_confidence_and_abstention(seed, classes, measure, bounds):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.5), 6)
    sure = cf.confidence(p, measure)
    assert ((sure >= 1 / classes - 1e-12) & (sure <= 1)).all()
    assert cf.confidence(p[:, ::-1], measure) == pytest.approx(sure, abs=1e-12)
    less, more = (cf.abstain(p, measure, threshold=t)[0] for t in bounds)
    assert (less <= more).all()
    drawn, propensity = cf.abstain(p, measure, bounds=tuple(bounds), rng=seed)
    assert ((propensity >= 1 - bounds[1]) & (propensity <= 1 - bounds[0])).all()
    assert drawn.dtype == bool
    order = np.argsort(sure)
    assert (np.diff(propensity[order]) <= 0).all()


# Sequences.


@check
@given(seeds, st.integers(4, 80), ordered(st.floats(0.2, 0.999)), st.floats(-5, 5))
def test_confidence_sequences(seed, n, pair, shift):
    x = np.random.default_rng(seed).normal(size=n)
    start = 3
    narrow, wide = (cf.confidence_sequence(x, level, 0.3, start) for level in pair)
    assert (wide.lower <= narrow.lower).all()
    assert (narrow.upper <= wide.upper).all()
    assert ((narrow.lower <= narrow.centre) & (narrow.centre <= narrow.upper)).all()
    means = np.cumsum(x)[start - 1 :] / np.arange(start, n + 1)
    assert narrow.centre == pytest.approx(means, abs=1e-12)
    moved = cf.confidence_sequence(shift + 2 * x, pair[0], 0.3, start)
    assert moved.lower == pytest.approx(shift + 2 * narrow.lower, abs=1e-10)
    # What is known at n does not change afterwards.
    part = cf.confidence_sequence(x[: n // 2 + 2], pair[0], 0.3, start)
    assert part.upper.tolist() == narrow.upper[: len(part.n)].tolist()
    # Wider than the interval for one size.
    fixed = x.std() / math.sqrt(n)
    assert narrow.upper[-1] - narrow.centre[-1] > fixed * math.sqrt(
        max(0.0, -2 * math.log(2 * (1 - pair[0])))
    )


@check
@given(st.integers(1, 10**6), levels, st.floats(0.3, 3))
def test_the_best_rho_is_the_best(n, level, factor):
    rho = cf.optimal_rho(n, level)

    def width(value):
        u = n * value**2
        return (u + 1) / u * (math.log1p(u) / 2 - math.log(1 - level))

    assert width(rho) <= width(factor * rho) * (1 + 1e-9)
    assert cf.optimal_rho(4 * n, level) == pytest.approx(rho / 2)
    assert 0 < cf.default_clip(n) <= 0.2
    assert cf.default_clip(n + 1) <= cf.default_clip(n)


@check
@given(st.integers(2, 60), st.integers(2, 10), seeds)
def test_folds_are_even(n, folds, seed):
    folds = min(folds, n)
    counts = np.bincount(cf.fold_numbers(n, folds, seed), minlength=folds)
    assert len(counts) == folds
    assert counts.max() - counts.min() <= 1
