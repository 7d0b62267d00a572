"""The gap, taken apart: brute force, closed forms, simulations whose truth is known; any loss."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from lib import selective
from lib.selective import gap_decomposition, risk_areas


def area(values, score):
    """Mean over coverages of the mean of the accepted values, over all orders of tied points."""
    n, orders = len(values), []
    for order in itertools.permutations(range(n)):
        if all(score[a] >= score[b] for a, b in itertools.pairwise(order)):
            sums = itertools.accumulate(Fraction(values[i]) for i in order)
            orders.append(sum(s / k for k, s in enumerate(sums, 1)) / n)
    return sum(orders) / len(orders)


def bound(values):
    n, total = len(values), sum(map(Fraction, values))
    return sum(min(Fraction(1), total / k) for k in range(1, n + 1)) / n


small = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 1), min_size=n, max_size=n),
        *(st.lists(st.integers(0, 3), min_size=n, max_size=n),) * 2,
        st.lists(st.integers(0, 8).map(lambda i: i / 8), min_size=n, max_size=n),
    )
)


@settings(deadline=None)
@given(small)
def test_every_term_is_what_its_definition_says(case):
    y, s, r, q = case
    found = gap_decomposition(y, np.float64(s), q, r)
    assert found["noise"] == pytest.approx(float(bound(q) - area(q, q)), abs=1e-12)
    assert found["ranking"] == pytest.approx(float(area(q, q) - area(q, r)), abs=1e-12)
    assert found["calibration"] == pytest.approx(float(area(q, r) - area(q, s)), abs=1e-12)
    rest = bound(y) - bound(q) - area(y, s) + area(q, s)
    assert found["finite_sample"] == pytest.approx(float(rest), abs=1e-12)
    assert found["total"] == pytest.approx(float(bound(y) - area(y, s)), abs=1e-12)


def test_standard_error_of_the_finite_sample_by_hand():
    """Sums of 1 / i from each rank on, less those from the sum of q on: 1, 0 and -1/2."""
    q = np.array([0.9, 0.6, 0.3])
    found = gap_decomposition([1, 1, 0], q, q)["finite_sample_error"]
    assert found == pytest.approx(math.sqrt(0.9 * 0.1 + 0.3 * 0.7 / 4) / 3, rel=1e-12)


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_no_monotone_recalibration_wins_more_than_isotonic_regression(n, seed):
    rng = np.random.default_rng(seed)
    q, s, y = rng.random(n), rng.integers(0, 12, n).astype(float), rng.random(n) < 0.7
    isotonic = IsotonicRegression().fit_transform(s, q)
    best = gap_decomposition(y, s, q, isotonic)["calibration"]
    assert best >= -1e-12
    for parts in (2, 3, 6):
        steps = np.sort(rng.integers(0, parts, 12)).astype(float)  # never decreases
        assert gap_decomposition(y, s, q, steps[s.astype(int)])["calibration"] <= best + 1e-12


@pytest.mark.parametrize(("flip", "classes"), [(0.2, 10), (0.4, 3), (0.05, 2)])
def test_flips_shrink_the_ranking_by_a_known_factor_and_add_known_noise(flip, classes):
    rng = np.random.default_rng(0)
    clean, s = rng.random(500) < 0.8, rng.normal(size=500)
    s[clean] += 1.5
    other = flip / (classes - 1)
    q, factor = np.where(clean, 1 - flip, other), 1 - flip - other
    right = clean == (rng.random(500) >= flip)  # for two classes; which labels does not matter
    before, after = gap_decomposition(clean, s), gap_decomposition(right, s, q)
    assert after["ranking"] == pytest.approx(factor * before["ranking"], rel=1e-12)
    k, hits = np.arange(1, 501), clean.sum()
    noise = np.minimum(1, q.sum() / k) - other - factor * np.minimum(1, hits / k)
    assert after["noise"] == pytest.approx(noise.mean(), rel=1e-12)


def repeated(score, draws=60, n=2000, seed=0):
    """Terms for q uniform on [1/2, 1] and a score made of q and noise of its own."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(draws):
        q = rng.uniform(0.5, 1, n)
        rows.append(gap_decomposition(rng.random(n) < q, score(q, rng), q))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


# By hand: A(q; q) is the mean over c of 1 - c/4, 7/8; a = 3/4; B(a) = a - a ln a.
NOISE = 0.75 - 0.75 * math.log(0.75) - 7 / 8
CASES = {
    "the best order": (lambda q, rng: q**3, 0.0),
    "no order": (lambda q, rng: rng.random(len(q)), 1 / 8),
    # Folded at 3/4, the accepted have a mean of 3/4 at every coverage.
    "folded": (lambda q, rng: -np.abs(q - 0.75), 1 / 8),
    # Upside down: the accepted have a mean of 1/2 + c/4, of area 5/8.
    "upside down": (lambda q, rng: -q, 1 / 4),
    # 7/8 up to c = 1/2, then (7/16 + 5/8 (c - 1/2)) / c, of area 3/4 + ln(2) / 8 together.
    "two groups": (lambda q, rng: np.float64(q > 0.75), (1 - math.log(2)) / 8),
}


@pytest.mark.parametrize("case", CASES)
def test_terms_are_recovered_where_the_truth_is_known(case):
    score, ranking = CASES[case]
    found = repeated(score)
    # Sums over i / n in place of integrals are wrong by less than 1 / n.
    for name, truth in (("noise", NOISE), ("ranking", ranking), ("finite_sample", 0.0)):
        allowed = 4.5 * stats.sem(found[name]) + 1 / 2000
        assert abs(found[name].mean() - truth) < allowed, name
        assert allowed < 0.01  # the others are 0.04 to 0.25: it could have failed
    if case == "the best order":
        assert (found["ranking"] == 0).all()
    # Standard deviation of a term against the one that is stated: chi-square with 60 degrees.
    z = found["finite_sample"] / found["finite_sample_error"]
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], 60)
    assert low < (z**2).sum() < high


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_the_published_sum_is_a_bound_and_no_partition(n, seed):
    """At each coverage: Bayes noise, approximation and ranking error, as published."""
    rng = np.random.default_rng(seed)
    best = rng.uniform(0.5, 1, n)  # of the likeliest label
    q = np.where(rng.random(n) < 0.8, best, (1 - best) * rng.random(n))
    s, k = rng.normal(size=n), np.arange(1, n + 1)
    accepted, top = np.argsort(-s), np.sort(q)[::-1]
    mean = {name: v[accepted].cumsum() / k for name, v in (("q", q), ("best", best))}
    ranking = top.cumsum() / k - mean["q"]
    published = (1 - mean["best"]) + (mean["best"] - mean["q"]) + ranking
    gap = np.minimum(1, q.sum() / k) - mean["q"]
    assert (published >= gap - 1e-12).all()
    assert published - gap == pytest.approx(1 - np.minimum(1, q.sum() / k) + ranking)
    found = gap_decomposition(rng.random(n) < q, s, q)
    assert found["noise"] + found["ranking"] == pytest.approx(gap.mean())
    assert risk_areas(1 - q, s)["aurc"] + found["ranking"] == pytest.approx(published.mean())


@settings(deadline=None)
@given(small)
def test_areas_of_any_loss_by_brute_force(case):
    _, s, _, loss = case
    found, n = risk_areas(loss, s), len(loss)
    excess = area(loss, s) - area(loss, [-x for x in loss])
    room = sum(map(Fraction, loss)) / n - area(loss, [-x for x in loss])
    assert found["aurc"] == pytest.approx(float(area(loss, s)), abs=1e-12)
    assert found["e_aurc"] == pytest.approx(float(excess), abs=1e-12)
    assert found["naurc"] == pytest.approx(float(excess / room) if room else 0.0, abs=1e-9)


@settings(deadline=None)
@given(st.integers(2, 50), st.integers(0, 2**32 - 1))
def test_zero_one_losses_give_the_areas_that_there_were(n, seed):
    rng = np.random.default_rng(seed)
    y, s = rng.random(n) < 0.7, rng.integers(0, 9, n)
    found = risk_areas(~y, s)
    assert found["aurc"] == pytest.approx(selective.aurc(y, s), abs=1e-12)
    assert found["augrc"] == pytest.approx(selective.augrc(y, s), abs=1e-12)
    assert found["e_aurc"] == pytest.approx(selective.normalized_score(y, s), abs=1e-12)
    assume(0 < y.sum() < n)
    random, _ = selective.normalized_score_extremes(int(y.sum()), n)
    assert found["naurc"] == pytest.approx(found["e_aurc"] / random, abs=1e-12)
    assert risk_areas(5.0 * ~y, s)["naurc"] == pytest.approx(found["naurc"], abs=1e-12)


def test_naurc_of_the_authors_program_has_one_more_point():
    """Their curve starts at (0, 0), by trapezoids: half a step of the mean loss less area."""
    rng = np.random.default_rng(0)
    n = 300
    loss, s = rng.gamma(2.0, size=n), rng.normal(size=n)
    loss += np.maximum(0, -s)

    def theirs(order):
        risks = np.r_[0, loss[order].cumsum() / np.arange(1, n + 1)]
        return np.trapezoid(risks, np.arange(n + 1) / n)

    best = theirs(np.argsort(loss))
    published = (theirs(np.argsort(-s)) - best) / (loss.mean() - best)
    found, half = risk_areas(loss, s), loss.mean() / (2 * n)
    room = found["e_aurc"] / found["naurc"]
    assert found["e_aurc"] == pytest.approx(theirs(np.argsort(-s)) - best, rel=1e-10)
    assert published == pytest.approx(found["e_aurc"] / (room + half), rel=1e-10)
    assert abs(published - found["naurc"]) < 1 / n


@pytest.mark.parametrize("tied", [False, True])
def test_balanced_augrc_is_that_of_fd_shifts(tied):
    """Losses weighted by n / (classes count), thresholds at the scores, trapezoids between."""
    rng = np.random.default_rng(1)
    labels = rng.choice(["a", "b", "c"], 200, p=[0.7, 0.2, 0.1])
    wrong, s = rng.random(200) < np.where(labels == "c", 0.6, 0.2), rng.normal(size=200)
    s = np.round(s) if tied else s
    weights = np.array([200 / (3 * (labels == label).sum()) for label in labels])
    edges = [(0.0, 0.0)]
    for t in np.unique(s)[::-1]:
        edges.append(((s >= t).mean(), (wrong * weights)[s >= t].sum() / 200))
    coverage, risk = np.array(edges).T
    found = risk_areas(wrong, s, labels)
    assert found["augrc"] == pytest.approx(np.trapezoid(risk, coverage), rel=1e-12)
    by_class = [wrong[labels == label].mean() for label in "abc"]
    assert risk_areas(wrong, np.zeros(200), labels)["aurc"] == pytest.approx(np.mean(by_class))
    assert found["aurc"] > risk_areas(wrong, s)["aurc"]


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_bound_on_all_coverages_holds_and_is_no_formality(level):
    n, draws, rng = 400, 3000, np.random.default_rng(0)
    reach = math.sqrt(math.log(2 / (1 - level)) / (2 * n))
    errors = (rng.random((draws, n)) < 0.5) - 0.5
    beyond = np.abs(errors.cumsum(axis=1) / n).max(axis=1) > reach
    assert beyond.sum() <= stats.binom.ppf(1 - 1e-4, draws, 1 - level)
    assert beyond.sum() > 0.1 * draws * (1 - level)
