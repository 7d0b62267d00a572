"""Clopper-Pearson's and Jeffreys' intervals against statsmodels, roots, and sums of 40 digits."""

import warnings

import mpmath
import numpy as np
import pytest
from scipy import optimize, special
from statsmodels.stats.proportion import proportion_confint

from lib.audit import AttackCounts, Guesses, epsilon_lower_bounds, epsilon_of_rate, epsilon_point
from lib.audit.counts import rate_interval
from lib.studies.counterfactual.simulation import share_interval

# Trials and successes; tails.
SHARES = sorted(
    {
        (k, n)
        for n in (1, 2, 3, 10, 137, 10_000)
        for k in (0, 1, 2, n // 3, n // 2, n - 2, n - 1, n)
        if 0 <= k <= n
    }
)
TAILS = (0.25, 0.05, 0.025, 0.005, 1e-6)


def by_statsmodels(k, n, tail, method):
    """But for P3's ends without any success or failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of Beta(0, n + 1)
        low, high = proportion_confint(k, n, 2 * tail, method=method)
    return (low if k else 0.0, high if k < n else 1.0)


def clopper_pearson(k, n, tail):
    """Rates at which k successes or more, or k or fewer, have the probability of the tail."""
    # In the variable log(p / (1 - p)), of which both probabilities are monotone.
    ends = [0.0, 1.0]
    if k:
        ends[0] = _root(lambda p: special.bdtrc(k - 1, n, p) - tail)
    if k < n:
        ends[1] = _root(lambda p: tail - special.bdtr(k, n, p))
    return ends


def jeffreys(k, n, tail):
    """Quantiles of Beta(k + 1/2, n - k + 1/2) by bisection, but 0 and 1 at the ends."""
    a, b = k + 0.5, n - k + 0.5
    low = _root(lambda p: special.betainc(a, b, p) - tail) if k else 0.0
    high = _root(lambda p: tail - special.betainc(b, a, 1 - p)) if k < n else 1.0
    return [low, high]


def _root(function):
    found = optimize.brentq(
        lambda z: function(special.expit(z)), -60, 36, xtol=1e-13, rtol=1e-14, maxiter=500
    )
    return float(special.expit(found))


@pytest.mark.parametrize(("k", "n"), SHARES)
def test_shares_equal_statsmodels_and_the_roots_of_the_tails(k, n):
    for tail in TAILS:
        for method, name, roots in (
            ("clopper-pearson", "beta", clopper_pearson),
            ("jeffreys", "jeffreys", jeffreys),
        ):
            found = rate_interval(k, n, tail, method)
            assert found == pytest.approx(by_statsmodels(k, n, tail, name), abs=1e-11)
            assert found == pytest.approx(roots(k, n, tail), abs=1e-10)


@pytest.mark.parametrize(
    ("k", "n", "tail"), [(0, 1, 0.025), (1, 1, 0.05), (3, 20, 0.025), (99, 100, 1e-6)]
)
def test_tails_at_high_precision(k, n, tail):
    low, high = rate_interval(k, n, tail, "clopper-pearson")
    # Without success there is no lower end, without failure no upper one.
    assert (low > 0, high < 1) == (k > 0, k < n)
    with mpmath.workdps(40):
        for p, terms in ((low, range(k, n + 1)), (high, range(k + 1))):
            if 0 < p < 1:
                p = mpmath.mpf(p)
                total = sum(mpmath.binomial(n, j) * p**j * (1 - p) ** (n - j) for j in terms)
                # An end that is rounded by 1.1e-16 moves its tail by at most n times that.
                assert float(total) == pytest.approx(tail, abs=1.2e-14)


@pytest.mark.parametrize(("k", "n"), [share for share in SHARES if share[1] <= 200])
def test_the_same_interval_wherever_else_it_is_computed(k, n):
    ends = by_statsmodels(k, n, 0.025, "beta")
    lower = by_statsmodels(k, n, 0.05, "beta")[0]
    assert tuple(share_interval(k, n)) == pytest.approx(ends, abs=1e-11)
    game = Guesses(np.ones(n, bool), np.arange(n) < k, 2)
    odds = [epsilon_of_rate(min(1.0, end)) for end in ends]
    assert list(game.interval(0.95)) == pytest.approx(odds, abs=1e-9)
    assert game.lower_bound(0.95) == pytest.approx(epsilon_of_rate(lower), abs=1e-9)


@pytest.mark.parametrize(
    ("method", "name"), [("clopper-pearson", "beta"), ("jeffreys", "jeffreys")]
)
def test_lower_bounds_on_epsilon_over_a_grid_of_both_rates(method, name):
    rng = np.random.default_rng(3)
    rows = [(90, 0, 100, 10), (10, 0, 12, 0), (0, 7, 0, 9), (65, 25, 75, 35), (2, 30, 1, 40)]
    rows += rng.integers(1, 60, (15, 4)).tolist()
    for row, found in zip(rows, epsilon_lower_bounds(rows, 1e-3, 0.9, method), strict=True):
        counts = AttackCounts(*row)
        fnr, fpr = (
            np.linspace(*by_statsmodels(k, n, 0.05, name), 201)
            for k, n in ((counts.fn, counts.positives), (counts.fp, counts.negatives))
        )
        grid = epsilon_point(fpr[:, None], fnr[None, :], 1e-3)
        # A rectangle that meets the region of epsilon = 0 need not have a node in it.
        meets = fnr[0] + fpr[0] <= 1.001 and fnr[-1] + fpr[-1] >= 0.999
        assert found == pytest.approx(0.0 if meets else grid.min(), abs=1e-9)
