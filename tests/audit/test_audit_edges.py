"""Boundaries of what is allowed, messages in full, and values derived another way.

Most were added where mutation testing (`.ci/mutants`) showed that a change would go unnoticed.
"""

import itertools
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from lib.audit import (
    AttackCounts,
    best_lower_bound,
    epsilon_interval,
    epsilon_lower_bounds,
    epsilon_point,
    epsilon_posterior,
    privacy_region,
)
from lib.audit import posterior as module
from lib.audit.counts import rate_interval
from lib.audit.intervals import METHODS, rate_intervals
from lib.audit.posterior import EpsilonPosterior, most_below
from lib.audit.regions import as_rates
from lib.check import as_generator, check_delta, check_level

COUNTS = AttackCounts(tp=65, fp=25, tn=75, fn=35)
INF, NAN = math.inf, math.nan
TINY = Fraction(1, 10**400)  # 0 as a float, and 1 less it is 1
CHOICES = "'bayesian', 'jeffreys', 'clopper-pearson'"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AttackCounts(-1, 1, 1, 1), "tp must be an integer of at least 0, got -1"),
        (lambda: AttackCounts(1, 1.0, 1, 1), "fp must be an integer of at least 0, got 1.0"),
        (lambda: AttackCounts(1, 1, "1", 1), "tn must be an integer of at least 0, got '1'"),
        (lambda: AttackCounts(1, 1, 1, True), "fn must be an integer of at least 0, got True"),
        (
            lambda: AttackCounts(0, 1, 1, 0),
            "tp + fn must be at least 1: there are no positive trials",
        ),
        (
            lambda: AttackCounts(1, 0, 0, 1),
            "fp + tn must be at least 1: there are no negative trials",
        ),
        (lambda: privacy_region(-0.1, 0), "epsilon must be a number of at least 0, got -0.1"),
        (lambda: privacy_region(NAN, 0), "epsilon must be a number of at least 0, got nan"),
        (lambda: privacy_region(True, 0), "epsilon must be a number of at least 0, got True"),
        (lambda: privacy_region("1", 0), "epsilon must be a number of at least 0, got '1'"),
        (lambda: privacy_region(1, 1), "delta must be in [0, 1), got 1"),
        (lambda: as_rates("fpr", ["a"]), "fpr must be numbers in [0, 1], got <U1"),
        (lambda: as_rates("fpr", [0.5, 1.5, -2]), "fpr must be in [0, 1], got 1.5"),
        (lambda: as_rates("fpr", [[0.5], [NAN]]), "fpr must be in [0, 1], got nan"),
        (lambda: privacy_region(1, 0).lower(2), "fnr must be in [0, 1], got 2.0"),
        (lambda: as_rates("x", [0.0, 1.0, 2.0]), "x must be in [0, 1], got 2.0"),
        (lambda: as_rates("x", [[0], [0, 1]]), "x must be rectangular, got rows of unequal length"),
        (lambda: privacy_region(1, 0).upper(2), "fnr must be in [0, 1], got 2.0"),
        (lambda: privacy_region(1, 0).contains(2, 0.5), "fpr must be in [0, 1], got 2.0"),
        (lambda: privacy_region(1, 0).contains(0.5, 2), "fnr must be in [0, 1], got 2.0"),
        (lambda: epsilon_point(0.1, "a", 0), "fnr must be numbers in [0, 1], got <U1"),
        (lambda: epsilon_point(-0.1, 0.1, 0), "fpr must be in [0, 1], got -0.1"),
        (lambda: epsilon_point(0.1, 1.1, 0), "fnr must be in [0, 1], got 1.1"),
        (lambda: epsilon_point(0.1, 0.1, 1), "delta must be in [0, 1), got 1"),
        (
            lambda: epsilon_interval(COUNTS, 0, method="Bayesian"),
            f"method must be one of {CHOICES}, got 'Bayesian'",
        ),
        (
            lambda: epsilon_interval(COUNTS, 0, side="upper"),
            "side must be one of 'two-sided', 'lower', got 'upper'",
        ),
        *[
            (
                lambda f=f, counts=counts: f(counts, 0),
                message,
            )
            for f in (epsilon_lower_bounds, best_lower_bound)
            for counts, message in (
                (
                    [1, 2, 3, 4],
                    "counts must be of shape (m, 4) with m of at least 1, got shape (4,)",
                ),
                (
                    np.ones((2, 3), int),
                    "counts must be of shape (m, 4) with m of at least 1, got shape (2, 3)",
                ),
                (
                    np.ones((0, 4), int),
                    "counts must be of shape (m, 4) with m of at least 1, got shape (0, 4)",
                ),
                ([[1], [1, 2]], "counts must be rectangular, got rows of unequal length"),
                ([[1.0, 2, 3, 4]], "counts must be integers, got float64"),
                ([[1, 2, 3, 4], [1, -2, -3, 4]], "counts must be at least 0, got -3"),
                *[
                    (
                        [[1, 2, 3, 4], row],
                        "counts must have positive and negative trials in every row",
                    )
                    for row in ([0, 1, 1, 0], [1, 0, 0, 1])
                ],
            )
        ],
        *[
            (
                lambda f=f, change=change: f([[1, 2, 3, 4]], **({"delta": 0} | change)),
                message,
            )
            for f in (epsilon_lower_bounds, best_lower_bound)
            for change, message in (
                ({"delta": 1}, "delta must be in [0, 1), got 1"),
                ({"level": 1}, "level must be in (0, 1), got 1"),
                ({"method": "wald"}, f"method must be one of {CHOICES}, got 'wald'"),
            )
        ],
        (lambda: epsilon_posterior(COUNTS, 1), "delta must be in [0, 1), got 1"),
        (lambda: epsilon_posterior(COUNTS, 0).cdf([0, NAN]), "eps must not be NaN"),
        (lambda: epsilon_posterior(COUNTS, 0).ppf(-0.1), "q must be in [0, 1], got -0.1"),
        (lambda: epsilon_posterior(COUNTS, 0).ppf([0, 1.1]), "q must be in [0, 1], got [0, 1.1]"),
        (lambda: epsilon_posterior(COUNTS, 0).isf(-0.1), "q must be in [0, 1], got -0.1"),
        (lambda: epsilon_posterior(COUNTS, 0).isf(1.1), "q must be in [0, 1], got 1.1"),
    ],
)
def test_messages_in_full(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize("function", [epsilon_interval, epsilon_posterior])
def test_counts_must_be_counts(function):
    with pytest.raises(TypeError, match=r"^counts must be AttackCounts, got list$"):
        function([1, 1, 1, 1], 0.0)


def test_the_ends_of_what_is_allowed_are_allowed():
    counts = AttackCounts(np.int64(1), np.uint8(0), 1, 0)
    assert all(type(getattr(counts, name)) is int for name in ("tp", "fp", "tn", "fn"))
    assert (counts.positives, counts.negatives, counts.fnr, counts.fpr) == (1, 1, 0.0, 0.0)
    counts = AttackCounts(1, 2, 3, 4)
    assert (counts.positives, counts.negatives) == (5, 5)
    assert (counts.fnr, counts.fpr) == (0.8, 0.4)
    assert AttackCounts(0, 1, 0, 1).fnr == 1.0
    assert check_delta(0) == 0.0
    assert type(check_delta(0)) is float
    assert check_delta(np.nextafter(1, 0)) < 1
    assert type(check_level(Fraction(1, 2))) is float
    assert check_level(np.nextafter(1, 0)) < 1
    assert check_level(5e-324) > 0
    assert as_generator(0).random() == np.random.default_rng(0).random()
    assert as_generator(np.int64(3)).random() == np.random.default_rng(3).random()
    assert as_generator((1, 0)).random() == np.random.default_rng((1, 0)).random()
    assert as_generator([1, 2]).random() == np.random.default_rng([1, 2]).random()
    given = np.random.default_rng(0)
    assert as_generator(given) is given
    assert as_rates("fpr", [[False, True]]).tolist() == [[0.0, 1.0]]
    assert as_rates("fpr", np.float32(0.5)).dtype == np.float64
    assert privacy_region(0, 0.0).contains(0.5, 0.5)


# ------------------------------------------------------------------ regions


def test_the_region_by_its_three_lines():
    """P3, Theorem 2.2: FPR + e^eps FNR and FNR + e^eps FPR are at least 1 - delta, and mirrored."""
    region = privacy_region(math.log(3), 0.1)
    # 0.9 - 3 x up to the crossing at 0.225, then (0.9 - x) / 3, and 0 from 0.9 on.
    x = np.array([0.0, 0.1, 0.225, 0.3, 0.6, 0.9, 0.95, 1.0])
    expected = np.array([0.9, 0.6, 0.225, 0.2, 0.1, 0.0, 0.0, 0.0])
    assert region.lower(x) == pytest.approx(expected, abs=1e-15)
    assert region.upper(x) == pytest.approx(1 - region.lower(1 - x), abs=1e-15)
    assert region.upper(0.7) == pytest.approx(1 - 0.2)
    grid = np.linspace(0, 1, 41)
    fpr, fnr = np.meshgrid(grid, grid)
    # The rounding of thirds must not decide.
    edge = 1e-9
    lines = [fpr + 3 * fnr, fnr + 3 * fpr, 1 - fpr + 3 * (1 - fnr), 1 - fnr + 3 * (1 - fpr)]
    away = np.all([np.abs(line - 0.9) > edge for line in lines], axis=0)
    inside = np.all([line >= 0.9 for line in lines], axis=0)
    assert (region.contains(fpr, fnr) == inside)[away].all()
    assert inside[away].any()
    assert not inside[away].all()


def test_the_boundary_belongs_to_the_region():
    region = privacy_region(0.0, 0.25)
    assert region.contains(0.5, 0.25)
    assert region.contains(0.75, 0.5)
    assert not region.contains(np.nextafter(0.5, 0), 0.25)
    assert not region.contains(np.nextafter(0.75, 1), 0.5)
    assert privacy_region(1, 0.5).delta == 0.5
    assert type(privacy_region(1, 0.5).epsilon) is float


def test_regions_of_a_huge_epsilon():
    for eps in (710.0, 1e6):  # e^710 overflows
        region = privacy_region(eps, 0.25)
        assert region.lower([0.0, 1e-300, 0.5, 1.0]).tolist() == pytest.approx(
            [0.75, 0.0, 0.0, 0.0], abs=1e-300
        )
    assert privacy_region(INF, 0.25).lower([0.0, 0.5]).tolist() == [0.0, 0.0]
    assert privacy_region(INF, 0.25).upper([0.0, 0.5]).tolist() == [1.0, 1.0]


def test_epsilon_of_points_by_hand():
    for fpr, fnr, delta, expected in (
        (0.2, 0.1, 0.0, math.log(8)),
        (0.1, 0.2, 0.0, math.log(8)),
        (0.8, 0.9, 0.0, math.log(8)),  # worse than chance
        (0.9, 0.8, 0.0, math.log(8)),
        (0.2, 0.1, 0.5, math.log(3)),  # 0.3 / 0.1, more than 0.4 / 0.2
        (0.5, 0.5, 0.0, 0.0),
        (0.3, 0.7, 0.0, 0.0),
        (0.5, 0.25, 0.25, 0.0),
        (0.0, 0.5, 0.25, INF),
        (0.5, 0.0, 0.25, INF),
        (1.0, 0.5, 0.25, INF),
        (0.0, 0.75, 0.25, 0.0),  # the numerator is 0: nothing is shown
        (0.75, 0.0, 0.25, 0.0),
        (0.0, 0.8, 0.25, 0.0),
        (0.0, 0.0, 0.0, INF),
        (1.0, 1.0, 0.0, INF),
        (0.0, 1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0, 0.0),
    ):
        assert epsilon_point(fpr, fnr, delta) == pytest.approx(expected, abs=1e-12)
    assert epsilon_point([[0.2], [0.1]], [0.1, 0.2, 0.3], 0.0).shape == (2, 3)
    assert epsilon_point([0.2], 0.1, 0.0).dtype == np.float64


# ------------------------------------------------------------------ rates, intervals


@pytest.mark.parametrize("tail", [0.005, 0.05, 0.4])
@pytest.mark.parametrize(("errors", "trials"), [(0, 1), (1, 1), (0, 9), (9, 9), (1, 9), (5, 9)])
def test_rates_by_their_definitions(errors, trials, tail):
    low, high = rate_interval(errors, trials, tail, "clopper-pearson")
    if errors:
        assert stats.binom.sf(errors - 1, trials, low) == pytest.approx(tail)
    else:
        assert low == 0.0
    if errors < trials:
        assert stats.binom.cdf(errors, trials, high) == pytest.approx(tail)
    else:
        assert high == 1.0
    low, high = rate_interval(errors, trials, tail, "jeffreys")
    beta = stats.beta(errors + 0.5, trials - errors + 0.5)
    assert low == (pytest.approx(beta.ppf(tail)) if errors else 0.0)
    assert high == (pytest.approx(beta.isf(tail)) if errors < trials else 1.0)
    for method in ("clopper-pearson", "jeffreys"):
        lows, highs = rate_intervals(np.array([errors]), np.array([trials - errors]), tail, method)
        assert (lows[0], highs[0]) == pytest.approx(rate_interval(errors, trials, tail, method))


def corners(counts, delta, tail, method):
    """Least and largest epsilon over the rectangle of both rates, from its four corners."""
    fnr = rate_interval(counts.fn, counts.positives, tail, method)
    fpr = rate_interval(counts.fp, counts.negatives, tail, method)
    values = [float(epsilon_point(y, x, delta)) for x in fnr for y in fpr]
    # The rectangle meets the region of 0 where it reaches into 1 - delta <= sum <= 1 + delta.
    meets = fnr[0] + fpr[0] <= 1 + delta and fnr[1] + fpr[1] >= 1 - delta
    return 0.0 if meets else min(values), max(values)


@pytest.mark.parametrize("method", ["jeffreys", "clopper-pearson"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_rectangles_share_the_error_probability(method, level):
    """Two rates, two ends: a quarter each; for a lower bound two, half each."""
    rng = np.random.default_rng(0)
    tables = [AttackCounts(*map(int, rng.integers(0, 40, 4) + 1)) for _ in range(15)]
    tables += [AttackCounts(40, 1, 39, 2), AttackCounts(2, 39, 1, 40), AttackCounts(9, 0, 9, 0)]
    for counts in tables:
        for delta in (0.0, 0.1):
            found = epsilon_interval(counts, delta, level, method)
            assert found == pytest.approx(corners(counts, delta, (1 - level) / 4, method))
            low, high = epsilon_interval(counts, delta, level, method, "lower")
            assert high == INF
            assert low == pytest.approx(corners(counts, delta, (1 - level) / 2, method)[0])
    assert epsilon_interval(COUNTS, 0.01, method=method) == epsilon_interval(
        COUNTS, 0.01, 0.9, method, "two-sided"
    )


@pytest.mark.parametrize("method", METHODS)
def test_lower_bounds_of_tables_are_those_of_intervals(method):
    rng = np.random.default_rng(1)
    rows = [[40, 1, 39, 2], [2, 39, 1, 40], [9, 0, 9, 0], [0, 9, 0, 9], [1, 0, 1, 0], [5, 5, 5, 5]]
    rows += (rng.integers(0, 40, (8, 4)) + 1).tolist()
    for delta in (0.0, 0.1):
        expected = [
            epsilon_interval(AttackCounts(*row), delta, 0.8, method, "lower")[0] for row in rows
        ]
        found = epsilon_lower_bounds(rows, delta, 0.8, method)
        assert found == pytest.approx(expected, abs=1e-12)
        index, bound = best_lower_bound(rows, delta, 0.8, method)
        first = next(i for i, e in enumerate(expected) if e >= max(expected) * (1 - 1e-9))
        assert (index, bound) == (first, pytest.approx(max(expected)))
        assert type(bound) is float
    assert epsilon_lower_bounds(rows, 0.1).tolist() == (
        epsilon_lower_bounds(rows, 0.1, 0.9, "bayesian").tolist()
    )
    assert best_lower_bound(rows, 0.1) == best_lower_bound(rows, 0.1, 0.9, "bayesian")
    assert best_lower_bound(np.array(rows, np.uint8), 0.1, 0.8, method) == (
        best_lower_bound(rows, 0.1, 0.8, method)
    )


@pytest.mark.parametrize("method", METHODS)
def test_of_equal_bounds_the_first_is_the_best(method):
    chance, good = [5, 5, 5, 5], [30, 2, 28, 4]
    assert best_lower_bound([chance, [6, 6, 6, 6], chance], 0.1, 0.9, method) == (0, 0.0)
    index, bound = best_lower_bound([chance, good, chance, good], 0.0, 0.9, method)
    assert (index, bound > 1) == (1, True)
    # In a sweep the best is wherever it is put.
    rng = np.random.default_rng(2)
    rows = (rng.integers(0, 30, (30, 4)) + 10).tolist()
    for place in (0, 11, 29):
        table = [*rows[:place], [60, 1, 60, 2], *rows[place:]]
        assert best_lower_bound(table, 1e-3, 0.9, method)[0] == place


@pytest.mark.parametrize("method", METHODS)
def test_of_bounds_equal_but_for_rounding_the_first_is_the_best(method):
    """Rows that stand twice, with the rates exchanged, or with every guess the other way round."""
    rng = np.random.default_rng(5)
    for _ in range(8):
        n, m = int(rng.integers(3, 60)), 5
        fn, fp = rng.integers(0, n + 1, (2, m))
        rows = np.column_stack([n - fn, fp, n - fp, fn])
        table = np.concatenate([rows, rows[:, [2, 3, 0, 1]], rows[:, [3, 2, 1, 0]], rows])
        table = table[rng.permutation(len(table))]
        bounds = epsilon_lower_bounds(table, 1e-3, 0.9, method)
        index, bound = best_lower_bound(table, 1e-3, 0.9, method)
        assert index == np.flatnonzero(bounds >= bounds.max() * (1 - 1e-9))[0]
        assert bound == pytest.approx(bounds.max(), rel=1e-9)


def test_a_best_bound_that_rectangles_do_not_lead_to():
    """Jeffreys' rectangles rank these rows otherwise than the posterior does."""
    rng = np.random.default_rng(3)
    differ = 0
    for _ in range(12):
        n = int(rng.integers(5, 60))
        fn, fp = rng.integers(0, n, 25), rng.integers(0, n, 25)
        rows = np.column_stack([n - fn, fp, n - fp, fn])
        bounds = epsilon_lower_bounds(rows, 1e-2, 0.9)
        guess = epsilon_lower_bounds(rows, 1e-2, 0.9, "jeffreys")
        differ += int(np.argmax(bounds)) != int(np.argmax(guess))
        index, best = best_lower_bound(rows, 1e-2, 0.9)
        assert best == pytest.approx(bounds.max(), abs=1e-11)
        assert bounds[index] == pytest.approx(bounds.max(), abs=1e-11)
    assert differ


# ------------------------------------------------------------------ the posterior


def spread(seed, n):
    """Tables of all sizes, zero counts often, with a delta each."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        positives, negatives = (int(10 ** rng.uniform(0, 4)) for _ in range(2))
        fn = int(rng.choice([0, positives, rng.integers(0, positives + 1)], p=[0.25, 0.1, 0.65]))
        fp = int(rng.choice([0, negatives, rng.integers(0, negatives + 1)], p=[0.25, 0.1, 0.65]))
        counts = AttackCounts(positives - fn, fp, negatives - fp, fn)
        yield counts, (0.0, 1e-5, 0.05, 0.5)[k % 4]


def evaluations(monkeypatch):
    """Count how often the mass outside a region is computed."""
    seen, whole = [], EpsilonPosterior._outside

    def counted(self, eps):
        seen.append(eps)
        return whole(self, eps)

    monkeypatch.setattr(EpsilonPosterior, "_outside", counted)
    return seen


def test_quantiles_take_few_evaluations(monkeypatch):
    """What makes an interval take milliseconds: each evaluation is an integral."""
    seen = evaluations(monkeypatch)
    needed = []
    for counts, delta in spread(11, 120):
        posterior = epsilon_posterior(counts, delta)
        for q in (0.05, 0.5, 0.95):
            seen.clear()
            posterior.ppf(q)
            needed.append(len(seen))
    needed = np.array(needed)
    assert needed.mean() < 3.3
    assert np.quantile(needed, 0.95) <= 6
    assert needed.max() <= 40


def test_quantiles_at_any_probability_invert_the_mass():
    for counts, delta in spread(12, 30):
        posterior = epsilon_posterior(counts, delta)
        zero = float(posterior.mass_at_zero)
        for q in (1e-9, 0.01, 0.3, 0.7, 0.99, 1 - 1e-12):
            eps = float(posterior.ppf(q))
            assert eps >= 0
            if eps == 0:
                assert zero >= q - 1e-12
                continue
            assert zero <= q + 1e-12
            assert float(posterior.sf(eps)) == pytest.approx(1 - q, rel=1e-6, abs=1e-11)
            if 0.001 < q < 0.999:  # beyond, 1 - q has lost digits
                assert float(posterior.isf(1 - q)) == pytest.approx(eps, rel=1e-6, abs=1e-9)
        for tail in (1e-8, 1e-20, 1e-100):
            eps = float(posterior.isf(tail))
            if 0 < eps < 600:
                assert float(posterior.sf(eps)) == pytest.approx(tail, rel=1e-5)


def test_quantiles_at_the_ends_and_of_arrays():
    posterior = epsilon_posterior(COUNTS, 0.05)
    assert posterior.isf(0.0) == posterior.ppf(1.0) == posterior.ppf(1) == INF
    assert posterior.isf(1.0) == posterior.ppf(0.0) == posterior.isf(1) == 0.0
    tails = [0.1, 0.2, 0.5]
    assert posterior.isf(tails).tolist() == [float(posterior.isf(q)) for q in tails]
    assert posterior.ppf(tails).tolist() == [float(posterior.ppf(q)) for q in tails]
    assert np.ndim(posterior.isf(0.5)) == np.ndim(posterior.ppf(0.5)) == 0
    assert posterior.isf(0.5) == pytest.approx(float(posterior.ppf(0.5)))


def test_the_density_far_out_is_the_slope_of_the_mass():
    """Relative precision where the mass is below a millionth, by a central difference of log sf."""
    for counts, delta in ((COUNTS, 0.05), (AttackCounts(30, 31, 29, 30), 0.0)):
        posterior = epsilon_posterior(counts, delta)
        for tail in (1e-7, 1e-9, 1e-14):
            eps, h = float(posterior.isf(tail)), 1e-4
            slope = math.log(posterior.sf(eps - h) / posterior.sf(eps + h)) / (2 * h)
            # The difference errs by h^2 times the third derivative, about 1e-8 times 100.
            assert float(posterior.pdf(eps)) / tail == pytest.approx(slope, rel=1e-4)


def test_the_mean_is_the_integral_of_the_survival_function():
    for counts, delta in (
        (COUNTS, 0.05),
        (AttackCounts(10, 0, 12, 1), 1e-5),
        (AttackCounts(2, 8, 1, 9), 0.0),
        (AttackCounts(487, 512, 1, 0), 1e-5),
        (AttackCounts(5, 5, 5, 5), 0.4),
    ):
        posterior = epsilon_posterior(counts, delta)
        pieces = [0.0, *(float(posterior.isf(10.0**-k)) for k in (0.1, 0.5, 1, 2, 4, 6, 9)), 90.0]
        expected = sum(
            integrate.quad(posterior.sf, a, b, epsabs=1e-12, epsrel=1e-9, limit=200)[0]
            for a, b in itertools.pairwise(pieces)
            if b > a
        )
        assert posterior.mean() == pytest.approx(expected, rel=1e-4)


def test_below_zero_and_at_infinity():
    posterior = epsilon_posterior(COUNTS, 0.05)
    eps = np.array([-1.0, -1e-300, 0.0, INF])
    zero = float(posterior.mass_at_zero)
    assert posterior.cdf(eps).tolist() == [0.0, 0.0, zero, 1.0]
    assert posterior.sf(eps).tolist() == [1.0, 1.0, pytest.approx(1 - zero), 0.0]
    assert posterior.pdf(eps)[[0, 1, 3]].tolist() == [0.0, 0.0, 0.0]
    assert posterior.pdf(0.0) > 0
    assert 0 < zero < 1
    assert posterior.counts is COUNTS
    assert posterior.delta == 0.05
    # Rates that are surely no better than chance: all the mass is at 0, and no less than 0.
    none = epsilon_posterior(AttackCounts(500, 500, 500, 500), 0.9)
    assert none.cdf(0.0) == none.mass_at_zero == 1.0
    assert none.mean() == pytest.approx(0.0, abs=1e-12)
    assert none.ppf(0.999) == none.isf(1e-9) == 0.0


def test_a_cheap_bound_is_a_bound():
    """Above the mass, at any split, and close to it at many."""
    rng = np.random.default_rng(4)
    fine = np.linspace(-10, 10, 4001)
    for _ in range(30):
        ax, bx, ay, by = rng.integers(0, 40, 4) + 0.5
        delta, eps = float(rng.choice([0.0, 1e-3, 0.2])), float(rng.choice([0.0, 0.3, 2.0]))
        corner = module._Corner(ax, bx, ay, by, delta)
        mass = corner.mass(eps)[0]
        coarse = float(most_below(ax, bx, ay, by, 1 - delta, eps, np.linspace(-3, 3, 7)))
        close = float(most_below(ax, bx, ay, by, 1 - delta, eps, fine))
        assert mass <= close * (1 + 1e-9) + 1e-15
        assert close <= coarse * (1 + 1e-9) + 1e-15
        assert close == pytest.approx(mass, rel=0.03, abs=2e-3)
    many = most_below(
        np.array([0.5, 3.5]), np.array([9.5, 2.5]), np.array([1.5, 4.5]), 8.5, 0.9, 0.5, fine
    )
    assert many.shape == (2,)
    one = most_below(3.5, 2.5, 4.5, 8.5, 0.9, 0.5, fine)
    assert many[1] == pytest.approx(float(one))


def test_the_cheap_bound_step_by_step():
    """Between two values of x, y is below the bound at the first; before them, below 1 - delta."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        ax, bx, ay, by = rng.integers(0, 20, 4) + 0.5
        delta, eps = float(rng.choice([0.0, 0.01, 0.3])), float(rng.choice([0.0, 0.4, 3.0]))
        steps = np.sort(rng.normal(0, 2, int(rng.integers(2, 6))))
        x_law, y_law = stats.beta(ax, bx), stats.beta(ay, by)
        x = np.clip(x_law.mean() + x_law.std() * steps, 0.0, 1 - delta)
        bound = privacy_region(eps, delta).lower
        expected = x_law.cdf(x[0]) * y_law.cdf(1 - delta)
        for left, right in zip(x, [*x[1:], 1 - delta], strict=True):
            expected += (x_law.cdf(right) - x_law.cdf(left)) * y_law.cdf(float(bound(left)))
        found = most_below(ax, bx, ay, by, 1 - delta, eps, steps)
        assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-14)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_the_mass_of_a_corner_where_it_is_tiny():
    """Relative precision far out, which quantiles at 1e-20 rest on."""
    for counts, delta, eps in (
        (AttackCounts(65, 25, 75, 35), 0.05, 4.0),
        (AttackCounts(30, 30, 30, 30), 0.0, 3.0),
        (AttackCounts(9, 4, 7, 6), 1e-3, 9.0),
    ):
        ax, bx, ay, by = (n + 0.5 for n in (counts.fn, counts.tp, counts.fp, counts.tn))
        total = 0.0
        for x, y in (((ax, bx), (ay, by)), ((bx, ax), (by, ay))):
            end = 1 - delta
            cross = end / (1 + math.exp(eps))

            def inside(t, x=x, y=y, end=end, eps=eps):
                # In log x, which spreads the corner out.
                z = math.exp(t)
                bound = max((end - z) * math.exp(-eps), end - math.exp(eps) * z, 0.0)
                log = x[0] * t + special.xlog1py(x[1] - 1, -z) - special.betaln(*x)
                return math.exp(log) * special.betainc(*y, bound)

            ends = [-60.0, *(math.log(cross * f) for f in (1e-6, 1e-3, 0.03, 0.3, 0.7, 1.0))]
            ends += [math.log(cross + (end - cross) * f) for f in (0.03, 0.1, 0.3, 0.6, 1.0)]
            total += sum(
                integrate.quad(inside, a, b, epsabs=0, epsrel=1e-10, limit=400)[0]
                for a, b in itertools.pairwise(ends)
            )
        assert float(epsilon_posterior(counts, delta).sf(eps)) == pytest.approx(total, rel=1e-7)


def mass_near_the_origin(a, n, c, m, delta, eps):
    """The mass of two error rates (a of n, c of m) below the region, by mpmath."""
    with mpmath.workdps(30):
        ax, bx, ay, by = (mpmath.mpf(2 * v + 1) / 2 for v in (a, n - a, c, m - c))
        end, grow = 1 - mpmath.mpf(delta), mpmath.exp(eps)
        cross = end / (1 + grow)
        scale = mpmath.beta(ax, bx)

        def part(x):
            y = max((end - x) / grow, end - grow * x)
            below = mpmath.betainc(ay, by, 0, min(max(y, 0), 1), regularized=True)
            return x ** (ax - 1) * (1 - x) ** (bx - 1) / scale * below

        shares = ("1e-6", "1e-4", "0.01", "0.1", "0.3", "0.5", "0.7", "0.9", "1")
        ends = [0, *(cross / k for k in (16, 4, 2, 1))]
        ends += [cross + (end - cross) * mpmath.mpf(share) for share in shares]
        return float(mpmath.quad(part, ends))


@pytest.mark.parametrize(
    ("a", "n", "c", "m", "delta", "eps"),
    [(4, 50, 2, 50, 1e-5, 20.0), (379, 2000, 8, 10, 0.1, 5.0)],
)
def test_a_mass_so_small_that_no_part_may_be_left_out(a, n, c, m, delta, eps):
    """Masses of 1e-18 lie where both rates are all but surely beyond the region."""
    corner = module._Corner(a + 0.5, n - a + 0.5, c + 0.5, m - c + 0.5, delta)
    found, density = corner.mass(eps)
    exact = mass_near_the_origin(a, n, c, m, delta, eps)
    assert exact < 1e-18
    assert found == pytest.approx(exact, rel=1e-10)
    h = 1e-4  # the error of the difference is of its square
    sides = [mass_near_the_origin(a, n, c, m, delta, eps + d) for d in (-h, h)]
    assert density == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-6)


def test_the_other_corner_counts_where_it_is_small():
    """An attack that may be worse than guessing, with a probability of less than 1e-4."""
    counts = AttackCounts(tp=63, fp=37, tn=63, fn=37)
    near = mass_near_the_origin(37, 100, 37, 100, 0.01, 0.05)
    far = mass_near_the_origin(63, 100, 63, 100, 0.01, 0.05)
    assert 1e-8 < far < 1e-4
    found = EpsilonPosterior(counts, 0.01).sf(0.05)
    assert float(found) == pytest.approx(near + far, rel=1e-11)


@pytest.mark.parametrize("eps", [1e-9, 1e-6, 1e-3, 0.03, 0.3, 0.9, 1.1])
@pytest.mark.parametrize("counts", [COUNTS, AttackCounts(5, 4, 6, 5), AttackCounts(0, 3, 2, 4)])
def test_quantiles_next_to_zero(counts, eps):
    """There may be none, and the search must not take one of a small epsilon for 0."""
    posterior = epsilon_posterior(counts, 0.01)
    tail = float(posterior.sf(eps))
    # A tail is known to about 1e-15, which moves the quantile by that over the density.
    slope = (tail - float(posterior.sf(eps + 1e-4))) / 1e-4
    assert posterior.isf(tail) == pytest.approx(eps, rel=1e-9, abs=1e-13 / slope)


def test_the_best_bound_may_be_the_second_where_rectangles_tell_nothing():
    rows = [[3, 5, 5, 7], [4, 7, 3, 6]]
    assert epsilon_lower_bounds(rows, 0.0, 0.9, "jeffreys").tolist() == [0.0, 0.0]
    bounds = epsilon_lower_bounds(rows, 0.0, 0.9, "bayesian")
    assert 0.1 < bounds[0] < bounds[1]
    assert best_lower_bound(rows, 0.0, 0.9) == (1, pytest.approx(bounds[1], rel=1e-12))
