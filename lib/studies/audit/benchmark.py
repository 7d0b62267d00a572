"""Speed and accuracy against the authors' package."""

import importlib.util
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Comparison:
    """One interval by both programs."""

    counts: AttackCounts  # What the attack got right and wrong
    delta: float  # Of the interval
    ours: tuple[float, float]  # Ends; NaN where the other program failed
    theirs: tuple[float, float]
    our_seconds: float  # Time of one interval
    their_seconds: float
    failed: str  # The other program's error, empty if there was none

    @property
    def ratio(self) -> float:
        """How many times as long the other program takes."""
        return self.their_seconds / self.our_seconds


def peer_installed() -> bool:
    """Whether PyPI's privacy-estimates is at hand."""
    return importlib.util.find_spec("privacy_estimates") is not None


def compare_with_peer(
    tables: Sequence[tuple[AttackCounts, float]] = TABLES, level: float = 0.9, repeat: int = 20
) -> list[Comparison]:
    """Compute two-sided Bayesian intervals by this package and by privacy-estimates.

    The other program stops at a tolerance of 1e-2 in epsilon and 5e-3 in probability; ours is exact
    to about 1e-10 in probability.
    """
    from privacy_estimates import AttackResults, compute_eps_lo_hi

    epsilon_interval(AttackCounts(1, 1, 1, 1), 1e-5, level)  # nothing is timed the first time
    found = []
    for counts, delta in tables:
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            ours = epsilon_interval(counts, delta, level)
            times.append(time.perf_counter() - start)
        results = AttackResults(FN=counts.fn, FP=counts.fp, TN=counts.tn, TP=counts.tp)
        theirs, failed = (math.nan, math.nan), ""
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its quadrature
                low, high = compute_eps_lo_hi(results, delta, 1 - level, "joint-beta")
            theirs = float(low), float(high)
        except Exception as error:  # whatever the other program raises is its result
            failed = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        found.append(
            Comparison(counts, delta, ours, theirs, float(np.median(times)), seconds, failed)
        )
    return found


def comparison_table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Comparisons as a table."""
    return pd.DataFrame(
        [
            {
                "TP, FP, TN, FN": f"{c.counts.tp}, {c.counts.fp}, {c.counts.tn}, {c.counts.fn}",
                "delta": c.delta,
                "low": c.ours[0],
                "high": c.ours[1],
                "low (peer)": c.theirs[0],
                "high (peer)": c.theirs[1],
                "milliseconds": 1e3 * c.our_seconds,
                "seconds (peer)": c.their_seconds,
                "ratio": c.ratio,
            }
            for c in comparisons
        ]
    )


def sweep_seconds(trials: int = 1024, delta: float = 1e-5, seed: int = 0) -> float:
    """Time of the best Bayesian lower bound over all thresholds of one ROC curve."""
    rng = np.random.default_rng(seed)
    members = np.arange(trials) % 2 == 0
    table = roc_counts(rng.standard_normal(trials) + members, members)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        best_lower_bound(table, delta)
        times.append(time.perf_counter() - start)
    return min(times)
