"""Exact sequences: confseq's published values, the definition, and errors at any time, counted."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from lib.counterfactual import (
    Nuisances,
    counterfactual_difference,
    estimate_from_nuisances,
    exact_sequence,
    fit_nuisances,
    predictable_nuisances,
)
from lib.counterfactual.sequential import log_mixture, mixture_boundary
from lib.studies.counterfactual.classifiers import simulate
from lib.studies.counterfactual.tables import pointwise_interval

REPETITIONS = 250


def most(level, repetitions=REPETITIONS):
    """Misses that a rate of 1 - level exceeds once in a thousand times."""
    return int(stats.binom.isf(1e-3, repetitions, 1 - level))


def lowest_at(v, alpha):
    """The rho whose boundary is about the lowest at v (Howard et al., 2021, section 3.5)."""
    need = -2 * math.log(2 * alpha)
    return v / (need + math.log1p(need))


def test_published_values_of_confseq():
    """`test/uniform_boundaries_unittest.cpp` of gostevehoward/confseq: "a reference in R"."""
    s, v = np.array([10.0]), np.array([100.0])
    rho = lowest_at(100, 0.05)
    assert log_mixture(s, v, rho, 2.0)[0] == pytest.approx(-0.2490165, abs=1e-5)
    assert mixture_boundary(v, 0.05, rho, 2.0) == pytest.approx(33.02017, abs=1e-5)


@pytest.mark.parametrize(("c", "rho"), [(0.5, 3.0), (2.0, 15.8), (10.0, 40.0), (40.0, 4000.0)])
def test_the_mixture_is_the_integral_that_defines_it(c, rho):
    """Over lambda in [0, 1 / c): 1 - c lambda is gamma distributed, cut off at 1."""

    def weight(lam):
        return (1 - c * lam) ** (rho / c**2 - 1) * math.exp(-(1 - c * lam) * rho / c**2)

    whole = integrate.quad(weight, 0, 1 / c)[0]
    for s, v in [(0.0, 0.0), (5.0, 2.0), (12.0, 80.0), (-1.0, 30.0)]:

        def value(lam, s=s, v=v):
            cgf = (-math.log1p(-c * lam) - c * lam) / c**2
            return math.exp(lam * s - v * cgf) * weight(lam)

        expected = math.log(integrate.quad(value, 0, 1 / c)[0] / whole)
        found, slope = log_mixture(np.array([s]), np.array([v]), rho, c)
        assert found[0] == pytest.approx(expected, abs=1e-6)
        step = [log_mixture(np.array([s + d]), np.array([v]), rho, c)[0][0] for d in (-1e-4, 1e-4)]
        assert slope[0] == pytest.approx((step[1] - step[0]) / 2e-4, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("alpha", [1e-6, 0.025, 0.4])
@pytest.mark.parametrize("c", [1.0, 10.0, 200.0])
def test_the_boundary_is_where_the_mixture_reaches_the_level(alpha, c):
    v = np.array([0.0, 1e-3, 1.0, 50.0, 1e4, 1e6])
    rho = lowest_at(500.0, alpha)
    found = mixture_boundary(v, alpha, rho, c)
    assert np.allclose(log_mixture(found, v, rho, c)[0], -math.log(alpha), rtol=1e-8)
    assert (np.diff(found) > 0).all()


def pair_of(drawn, guesses):
    return [
        Nuisances(r, s, pi, guess)
        for r, s, pi, guess in zip(
            drawn.abstained, drawn.scores, drawn.propensities, guesses, strict=True
        )
    ]


@pytest.mark.parametrize("target", ["sample", "population"])
@pytest.mark.parametrize("count", [1, 2])
def test_point_by_point(target, count):
    """The formulas of the docstring, with a root search for the boundary."""
    floor, level, planned = 0.2, 0.9, 70
    drawn = simulate(40, rng=3)
    guesses = np.random.default_rng(1).random((2, 40))
    pair = pair_of(drawn, guesses)[:count]
    found = exact_sequence(pair, floor, target=target, level=level, planned=planned)
    values, square, c = [], 0.0, count / floor
    rho = lowest_at(planned * count / 4, (1 - level) / 2)
    for t in range(40):
        phi = gamma = 0.0
        for sign, one in zip((1, -1), pair, strict=False):
            m = one.outcome[t]
            weight = 0 if one.abstained[t] else 1 / (1 - one.propensity[t])
            phi += sign * (m + weight * (one.scores[t] - m))
            gamma += sign * m
        if target == "population":
            gamma = np.clip(np.mean(values) if values else 0.0, 1 - count, 1)
        values.append(phi)
        square += (phi - gamma) ** 2

        def beyond(s, square=square):
            at = log_mixture(np.array([s]), np.array([square]), rho, c)[0][0]
            return at - math.log(2 / (1 - level))

        half = optimize.brentq(beyond, 0, 1e4, xtol=1e-10) / (t + 1)
        assert found.lower[t] == pytest.approx(np.mean(values) - half, abs=1e-7)
        assert found.upper[t] == pytest.approx(np.mean(values) + half, abs=1e-7)
    assert found.n.tolist() == list(range(1, 41))
    assert (found.rho, found.level) == (rho, level)


def drift(rng, n, floor):
    """A score that falls with time and, against B, with A's last answer; a useless guess."""
    r, s = np.zeros((2, n), bool), np.zeros((2, n))
    pi = np.where(rng.random((2, n)) < 0.5, 1 - floor, 0.3)
    for t in range(n):
        rate = 0.9 - 0.6 * t / n - 0.2 * (t > 0 and not r[0, t - 1])
        s[:, t] = rng.random(2) < (rate, 1 - rate)
        r[:, t] = rng.random(2) < pi[:, t]
    return [Nuisances(r[k], s[k], pi[k], np.full(n, 0.1)) for k in (0, 1)], s[0] - s[1]


@pytest.mark.slow
@pytest.mark.parametrize(("floor", "level"), [(0.05, 0.95), (0.2, 0.7), (0.6, 0.95)])
def test_the_points_own_difference_is_missed_at_any_time_as_seldom_as_promised(floor, level):
    """Scores drift and depend on earlier coins; guesses are poor; watched from the first point."""
    rng, n, missed = np.random.default_rng([1, round(100 * floor)]), 150, 0
    for _ in range(REPETITIONS):
        pair, difference = drift(rng, n, floor)
        found = exact_sequence(pair, floor, level=level)
        truth = np.cumsum(difference) / found.n
        missed += bool(((found.lower > truth) | (found.upper < truth)).any())
    assert missed <= most(level)


def flat(rng, n, floor):
    """Independent points, a few of which are seldom answered; the guess is their mean."""
    pi = np.where(rng.random(n) < 0.3, 1 - floor, 0.0)
    s, r = (rng.random(n) < 0.9).astype(float), rng.random(n) < pi
    return Nuisances(r, s, pi, np.full(n, 0.9)), 0.9


@pytest.mark.slow
@pytest.mark.parametrize("floor", [0.02, 0.2, 1.0])
def test_a_score_is_missed_at_any_time_as_seldom_as_promised(floor):
    """Where a fixed-time interval is wrong in many streams, for the same values."""
    rng, n, missed, fixed = np.random.default_rng(7), 600, 0, 0
    for _ in range(REPETITIONS):
        one, truth = flat(rng, n, floor)
        found = exact_sequence(one, floor, target="population")
        missed += bool(((found.lower > truth) | (found.upper < truth)).any())
        values = one.outcome + np.where(one.abstained, 0, (one.scores - 0.9) / (1 - one.propensity))
        low, high = pointwise_interval(values, 20)
        fixed += bool(((low > truth) | (high < truth)).any())
    assert missed <= most(0.95)
    assert fixed > 0.2 * REPETITIONS


@pytest.mark.slow
def test_the_level_is_used_up_where_it_can_be():
    """The boundary is not a bound by far: Gaussian-like sums, few looks lost at the start."""
    rng, n, missed = np.random.default_rng(2), 3000, 0
    for _ in range(REPETITIONS):
        s = (rng.random(n) < 0.5).astype(float)
        one = Nuisances(np.zeros(n, bool), s, np.zeros(n), np.full(n, 0.5))
        found = exact_sequence(one, 1.0, target="population", level=0.5)
        missed += bool(((found.lower > 0.5) | (found.upper < 0.5)).any())
    assert 0.05 * REPETITIONS < missed <= most(0.5)


def test_each_model_knows_the_earlier_points_alone():
    drawn, start = simulate(230, rng=0), 50
    options = {"start": start, "learner": "linear", "rng": 0}
    given = drawn.X, drawn.scores[0], drawn.abstained[0]
    found = predictable_nuisances(*given, **options)
    assert len(found.outcome) == 180
    for at in (50, 99, 100, 199, 200):
        changed = [part.copy() for part in given]
        changed[1][at:], changed[2][at:] = 1 - changed[1][at:], ~changed[2][at:]
        other = predictable_nuisances(*changed, **options)
        block = start * 2 ** int(math.log2(at / start))
        stop = min(230, 2 * block) - start
        for name in ("propensity", "outcome"):
            one, two = getattr(found, name)[:stop], getattr(other, name)[:stop]
            assert np.array_equal(one, two)


def test_each_block_is_fitted_to_all_before_it():
    drawn = simulate(120, rng=0)
    given = drawn.X, drawn.scores[0], drawn.abstained[0]
    found = predictable_nuisances(*given, start=60, rng=0)
    fold = np.arange(120) >= 60
    expected = fit_nuisances(*given, fold, "linear", rng=0, only=1)
    assert np.array_equal(found.outcome, expected.outcome[60:])
    assert np.array_equal(found.abstained, drawn.abstained[0][60:])


def test_models_are_fitted_anew_whenever_there_are_twice_as_many_points():
    drawn = simulate(160, rng=0)
    x, s, r = drawn.X, drawn.scores[0], np.zeros(160, dtype=bool)
    other = np.where((np.arange(160) >= 40) & (np.arange(160) < 80), 1 - s, s)
    one, two = (predictable_nuisances(x, each, r, start=40, rng=0).outcome for each in (s, other))
    assert (one[:40] == two[:40]).all()
    assert (one[40:] != two[40:]).all()


@pytest.mark.parametrize("change", [{"propensity": 0.9}, {"scores": 1.5}, {"outcome": np.nan}])
def test_what_breaks_the_promise_is_refused(change):
    (one, _) = pair_of(simulate(50, rng=0), np.full((2, 50), 0.7))
    ((name, value),) = change.items()
    with pytest.raises(ValueError, match=name):
        exact_sequence(replace(one, **{name: np.full(50, value)}), 0.2)


def test_a_start_without_an_answer_is_refused():
    drawn = simulate(120, rng=0)
    r = drawn.abstained[0] | (np.arange(120) < 60)
    with pytest.raises(ValueError, match="abstained"):
        predictable_nuisances(drawn.X, drawn.scores[0], r, start=60, rng=0)


def test_a_group_is_estimated_from_its_points():
    drawn = simulate(600, rng=0)
    (a, b), (r, s) = drawn.scores, drawn.abstained
    found = counterfactual_difference(drawn.X, a, r, b, s, learner="linear", clip=0.2, rng=1)
    groups = np.array(["x", "y", "z"])[np.arange(600) % 3]
    each = found.by_group(groups)
    assert list(each) == ["x", "y", "z"]
    for name, one in each.items():
        inside = groups == name
        assert one.value == pytest.approx(found.influence[inside].mean())
        assert one.level == pytest.approx(0.95 ** (1 / 3))
        assert one.degrees <= 199
        np.testing.assert_allclose(one.influence, found.influence[inside])
    (whole,) = found.by_group(np.zeros(600)).values()
    assert whole.value == pytest.approx(found.value)
    assert whole.stderr == pytest.approx(found.stderr)
    assert whole.interval == pytest.approx(found.interval)


def test_where_nobody_abstains_a_group_is_a_t_interval():
    rng = np.random.default_rng(3)
    score, never = rng.random(40), np.zeros(40, bool)
    known = Nuisances(never, score, np.zeros(40), score)
    found = estimate_from_nuisances((known,), clip=0.1, level=0.9)
    for name, one in found.by_group(np.arange(40) % 2).items():
        inside = score[int(name) :: 2]
        expected = stats.t.interval(0.9**0.5, 19, inside.mean(), stats.sem(inside))
        assert one.degrees == 19
        assert one.interval == pytest.approx(expected)


@pytest.mark.slow
def test_intervals_of_groups_hold_all_together():
    """Five groups of 12 to 150 points, propensities known, a poor guess."""
    rng, held, trials = np.random.default_rng(5), 0, 400
    sizes, rates = [12, 20, 40, 80, 150], [0.3, 0.4, 0.5, 0.6, 0.7]
    groups, rate = np.repeat(np.arange(5), sizes), np.repeat(rates, sizes)
    n = len(groups)
    for _ in range(trials):
        pair = []
        for flip in (False, True):
            s = (rng.random(n) < (1 - rate if flip else rate)).astype(float)
            pi = rng.choice([0.1, 0.5], n)
            pair.append(Nuisances(rng.random(n) < pi, s, pi, np.full(n, 0.5)))
        try:
            each = estimate_from_nuisances(pair, clip=0.2).by_group(groups)
        except ValueError:  # a group without an answer
            held += 1
            continue
        held += all(
            one.interval[0] <= 2 * q - 1 <= one.interval[1]
            for one, q in zip(each.values(), rates, strict=True)
        )
    assert trials - held <= most(0.95, trials)


def test_groups_that_tell_nothing_have_the_whole_range_or_are_refused():
    drawn = simulate(100, rng=0)
    pair = pair_of(drawn, np.full((2, 100), 0.7))
    alone = estimate_from_nuisances(pair, clip=0.2).by_group(np.arange(100))
    hidden = np.any([p.abstained for p in pair], axis=0)
    assert hidden.any()
    for k in np.flatnonzero(hidden):
        assert alone[str(k)].interval[1] - alone[str(k)].interval[0] >= 1
    graded = [replace(p, scores=p.scores * 0.9) for p in pair]  # whose range is not known
    found = estimate_from_nuisances(graded, clip=0.2)
    with pytest.raises(ValueError, match="groups must each have two points and an answer, got '0'"):
        found.by_group(np.arange(100))
