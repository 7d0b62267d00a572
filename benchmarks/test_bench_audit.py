"""Intervals for epsilon, and the sweep of a ROC curve, against `privacy-estimates`."""

import math
import warnings

import numpy as np
import pytest
from comparing import compare, sizes
from privacy_estimates import AttackResults, compute_eps_lo, compute_eps_lo_hi
from privacy_estimates.joint_density import Beta
from scipy import special

from lib.audit import (
    AttackCounts,
    best_lower_bound,
    epsilon_interval,
    epsilon_lower_bounds,
    epsilon_posterior,
    roc_counts,
)

DELTA, LEVEL = 0.05, 0.9
PEER = "privacy-estimates"
# The peer stops its root search at 1e-2 in epsilon, its quadrature at 5e-3 in probability.
ROOT, MASS = 1e-2, 5e-3
WITHIN = "ends of the interval, within the other's own tolerances (1e-2, and 5e-3 in probability)"


def results_of(c):
    return AttackResults(FN=c.fn, FP=c.fp, TN=c.tn, TP=c.tp)


def farthest(counts, ours, theirs):
    """The end that is farthest from the peer's, in units of what the peer leaves open there."""
    posterior = epsilon_posterior(counts, DELTA)
    pairs = []
    for a, b in zip(ours, theirs, strict=True):
        density = float(posterior.pdf(a)) if a > 0 else math.inf
        pairs.append((abs(a - b), ROOT + MASS / density))
    return max(pairs, key=lambda pair: pair[0] / pair[1])


def quietly(call):
    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its quadrature
            return call()

    return run


def counts_of(n):
    fn, fp = round(0.35 * n), round(0.25 * n)
    return AttackCounts(tp=n - fn, fp=fp, tn=n - fp, fn=fn)


def test_ends_of_an_interval_cut_off_what_the_peer_finds_beyond():
    """Its probability of a smaller epsilon, of which it searches the root for each end."""
    counts = counts_of(4)
    found = [
        quietly(lambda end=end: Beta(results_of(counts)).probability_private(end, DELTA, MASS))()
        for end in epsilon_interval(counts, DELTA, LEVEL)
    ]
    np.testing.assert_allclose(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], rtol=0, atol=MASS)


@pytest.mark.bench
@pytest.mark.parametrize("n", [4, 12, 36])
def test_interval(benchmark, n):
    counts = counts_of(n)
    compare(
        benchmark,
        comparison="interval",
        peer_name=PEER,
        size=n,
        unit="trials of each kind",
        ours=lambda: epsilon_interval(counts, DELTA, LEVEL),
        peer=quietly(lambda: compute_eps_lo_hi(results_of(counts), DELTA, 1 - LEVEL, "joint-beta")),
        agreements=[(WITHIN, lambda ours, theirs: farthest(counts, ours, theirs))],
        warm_peer=False,
    )


@pytest.mark.bench
def test_interval_where_the_peer_gives_up():
    """At 100,000 trials of each kind its quadrature misses the posterior's narrow peak."""
    n = 100_000
    counts = AttackCounts(tp=65_000, fp=25_000, tn=75_000, fn=35_000)
    ends = epsilon_interval(counts, DELTA, LEVEL)
    # An independent check: the larger logarithm of P3's Eq. 1 as a normal variable (delta method).
    x, y = counts.fnr, counts.fpr
    point = math.log((1 - DELTA - x) / y)
    spread = math.sqrt((1 - y) / y / n + x * (1 - x) / n / (1 - DELTA - x) ** 2)
    normal = point + spread * special.ndtri([0.05, 0.95])
    # Jeffreys' prior and the curvature shift an end by a few 1 / n.
    np.testing.assert_allclose(ends, normal, atol=20 / n)
    with pytest.raises(ValueError, match="f\\(a\\) and f\\(b\\)"):
        quietly(lambda: compute_eps_lo_hi(results_of(counts), DELTA, 1 - LEVEL, "joint-beta"))()


def roc(trials):
    rng = np.random.default_rng(0)
    members = np.arange(trials) % 2 == 0
    return roc_counts(rng.standard_normal(trials) + members, members)


def bound_of_peer(row):
    tp, fp, tn, fn = map(int, row)
    results = AttackResults(FN=fn, FP=fp, TN=tn, TP=tp)
    return float(compute_eps_lo(results, DELTA, 1 - LEVEL, "joint-beta"))


def sweep(benchmark, trials, **options):
    table = roc(trials)
    compare(
        benchmark,
        comparison="sweep of a ROC curve",
        peer_name=PEER,
        size=trials,
        unit="trials",
        ours=lambda: best_lower_bound(table, DELTA, LEVEL),
        warm_peer=False,
        **options,
    )


@pytest.mark.parametrize("trials", [pytest.param(4, marks=pytest.mark.bench)])
def test_sweep(benchmark, trials):
    """Every threshold by both; the best bound must be the same."""
    table = roc(trials)

    def agree(ours, theirs):
        counts = AttackCounts(*map(int, table[ours[0]]))
        return farthest(counts, [ours[1]], [theirs])

    sweep(
        benchmark,
        trials,
        peer=quietly(lambda: max(bound_of_peer(row) for row in table)),
        agreements=[("largest lower bound, within the other's own tolerances", agree)],
        rounds=1,  # a minute for the peer
    )


@pytest.mark.parametrize("trials", sizes(8, 1024))
def test_sweep_by_one_threshold_a_round(benchmark, trials):
    """The whole sweep would take the peer hours: it does one threshold, drawn at random."""
    table = roc(trials)
    rng = np.random.default_rng(1)
    drawn = []

    def one():
        drawn.append(table[int(rng.integers(len(table)))])
        return bound_of_peer(drawn[-1])

    def agree(ours, theirs):
        counts = AttackCounts(*map(int, drawn[-1]))
        bound = epsilon_lower_bounds([drawn[-1]], DELTA, LEVEL)
        assert bound[0] <= ours[1] + 1e-9
        return farthest(counts, bound, [theirs])

    sweep(
        benchmark,
        trials,
        peer=quietly(one),
        agreements=[("lower bound at that threshold, within the other's own tolerances", agree)],
        peer_scale=lambda: float(len(table)),
        remark=f"the other's time is that of one threshold a round, drawn at random, times"
        f" {len(table):,}",
    )
