"""What the chapter on P3 shows besides intervals: growing counts, a footnote, sweeps, the peer."""

import itertools
import math

import pytest

from lib.audit import AttackCounts, epsilon_interval
from lib.audit.counts import rate_interval
from lib.studies.audit import benchmark
from lib.studies.audit import tables as studies

COUNTS = AttackCounts(65, 25, 75, 35)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_counts_that_grow(rate):
    trials = [10, 100, 10_000]
    found = studies.growing_counts(rate, trials, seed=0)
    assert (found[0].fn, found[0].fp) == (1, 1)
    for n, counts in zip(trials, found, strict=True):
        assert counts.positives == counts.negatives == n // 2
    for before, after in itertools.pairwise(found):
        assert after.fn >= before.fn
        assert after.tp >= before.tp
    more = 5000 - 5
    # Five standard deviations of a binomial number of errors.
    for errors in (found[-1].fn - 1, found[-1].fp - 1):
        assert abs(errors - rate * more) <= 5 * math.sqrt(more * rate * (1 - rate))
    assert studies.growing_counts(rate, trials, seed=0) == found


def test_upper_ends_and_the_footnote():
    fnr, fpr = studies.rate_ends(COUNTS, 0.9, "jeffreys")
    assert fnr == rate_interval(35, 100, 0.025, "jeffreys")[1]
    assert fpr == rate_interval(25, 100, 0.025, "jeffreys")[1]
    end = rate_interval(35, 100, 0.025, "clopper-pearson")[1]
    assert studies.footnote_term(COUNTS, 0.05, 0.9) == pytest.approx(math.log(0.95 / end))


def test_sweeps_of_attacks_that_know_nothing():
    found = studies.null_sweeps(100, 40, 1e-5, seed=0)
    assert found.shape == (40,)
    assert (found >= 0).all()
    # One look would be above 0 in 5 of 100 attacks; the best of a hundred looks is in most.
    assert (found > 0).mean() > 0.5


def test_the_peers_failure_is_its_result(monkeypatch):
    privacy_estimates = pytest.importorskip("privacy_estimates")

    def broken(*_):
        raise RuntimeError("no convergence")

    assert benchmark.peer_installed()
    monkeypatch.setattr(privacy_estimates, "compute_eps_lo_hi", broken)
    (found,) = benchmark.compare_with_peer([(COUNTS, 0.05)], repeat=2).to_dict("records")
    assert math.isnan(found["low (peer)"])
    assert math.isnan(found["high (peer)"])
    assert (found["low"], found["high"]) == epsilon_interval(COUNTS, 0.05, 0.9)
    assert found["TP, FP, TN, FN"] == "65, 25, 75, 35"
    assert found["ratio"] == pytest.approx(1e3 * found["seconds (peer)"] / found["milliseconds"])


def test_a_sweep_is_timed():
    start = benchmark.time.perf_counter()
    found = benchmark.sweep_seconds(trials=20)
    assert 0 < found <= (benchmark.time.perf_counter() - start) / 3
