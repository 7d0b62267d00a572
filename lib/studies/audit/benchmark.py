"""Speed and accuracy against the authors' package."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lib.audit.counts import AttackCounts
from lib.audit.intervals import best_lower_bound, epsilon_interval
from lib.audit.selection import roc_counts

#: Counts (TP, FP, TN, FN) and delta: P3's example, a strong attack, a weak one, and P3's Figure 1.
TABLES: tuple[tuple[AttackCounts, float], ...] = (
    (AttackCounts(65, 25, 75, 35), 0.05),
    (AttackCounts(450, 10, 490, 50), 1e-5),
    (AttackCounts(300, 200, 300, 200), 1e-5),
    (AttackCounts(487, 512, 1, 0), 1e-5),
)


def compare_with_peer(tables: Sequence[tuple[AttackCounts, float]]) -> pd.DataFrame:
    """Bayesian 90% intervals by this package and by privacy-estimates; NaN where it fails."""
    from privacy_estimates import AttackResults, compute_eps_lo_hi

    epsilon_interval(AttackCounts(1, 1, 1, 1), 1e-5)  # nothing is timed the first time
    rows = []
    for c, delta in tables:
        times, ours = _timed(lambda c=c, delta=delta: epsilon_interval(c, delta), 20)
        results = AttackResults(FN=c.fn, FP=c.fp, TN=c.tn, TP=c.tp)

        def peer(results: Any = results, delta: float = delta) -> tuple[float, float]:
            try:
                return compute_eps_lo_hi(results, delta, 1 - 0.9, "joint-beta")
            except Exception:  # whatever the other program raises, it has no interval
                return math.nan, math.nan

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its quadrature
            (seconds,), theirs = _timed(peer, 1)
        rows.append(
            {
                "TP, FP, TN, FN": f"{c.tp}, {c.fp}, {c.tn}, {c.fn}",
                "delta": delta,
                "low": ours[0],
                "high": ours[1],
                "low (peer)": float(theirs[0]),
                "high (peer)": float(theirs[1]),
                "milliseconds": 1e3 * np.median(times),
                "seconds (peer)": seconds,
                "ratio": seconds / np.median(times),
            }
        )
    return pd.DataFrame(rows)


def sweep_seconds(trials: int) -> float:
    """Time of the best Bayesian lower bound over all thresholds of one ROC curve."""
    rng = np.random.default_rng(0)
    members = np.arange(trials) % 2 == 0
    table = roc_counts(rng.standard_normal(trials) + members, members)
    return min(_timed(lambda: best_lower_bound(table, 1e-5), 3)[0])


def _timed(call: Callable[[], Any], repeat: int) -> tuple[list[float], Any]:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return times, result
