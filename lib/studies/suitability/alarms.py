"""Simulations of monitors: delays of alarms, errors of decisions as batches arrive."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from lib.suitability.monitor import Floats, Monitor, _bh_threshold, _detector_path
from lib.suitability.noninferiority import welch_non_inferiority
from lib.suitability.sequential import draw_estimates


def simulate_alarms(
    drops: Sequence[float] = (0.0, 0.02, 0.05, 0.1, 0.6),
    *,
    margin: float = 0.0,
    run_length: float = 10_000.0,
    n_test: int = 5000,
    before: int = 1000,
    longest: int = 20_000,
    mean_test: float = 0.8,
    concentration: float = 4.0,
    labels: bool = False,
    reference_level: float = 0.05,
    repetitions: int = 100,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Measure how soon :class:`Monitor` raises an alarm, and how often a false one.

    Estimates are Beta-distributed, or labels right with these means.  After ``before``
    observations like the test data's the mean falls by a drop.
    """

    def draw(mean: float, n: int) -> Any:
        if labels:
            return (rng.random(n) < mean).astype(float)
        return draw_estimates(rng, mean, concentration, (n,))

    rows = []
    for drop in drops:
        early, delays = 0, []
        for _ in range(repetitions):
            options = {"margin": margin, "run_length": run_length}
            watch = Monitor(draw(mean_test, n_test), **options, reference_level=reference_level)
            detector = watch._detectors["estimates"]
            if detector.update(draw(mean_test, before)) >= watch.run_length:
                early += 1
                continue
            taken, step = 0, 256
            while taken < longest:
                x = draw(mean_test - drop, min(step, longest - taken))
                log = detector._log
                if detector.update(x) >= watch.run_length:
                    path = _detector_path(x, detector._threshold, detector._bets, log)
                    values = special.logsumexp(path, axis=0) - math.log(len(path))
                    taken += int(np.argmax(values >= math.log(watch.run_length))) + 1
                    break
                taken, step = taken + len(x), 2 * step
            delays.append(taken)
        found = np.array(delays or [longest])
        rows.append(
            {
                "drop": drop,
                "early": early / repetitions,
                "detected": float((found < longest).mean()),
                "delay": float(np.median(found)),
                "latest": int(found.max()),
            }
        )
    return pd.DataFrame(rows)


def simulate_monitoring(
    windows: Sequence[int | None] = (1, 5, 20, None),
    *,
    batches: int = 50,
    batch_size: int = 200,
    n_test: int = 1000,
    share_unsuitable: float = 0.5,
    drop_suitable: float = 0.0,
    drop_unsuitable: float | None = None,
    shared_reference: bool = True,
    margin: float = 0.05,
    alpha: float = 0.05,
    mean_test: float = 0.8,
    concentration: float = 4.0,
    repetitions: int = 1000,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Measure the errors of Benjamini and Hochberg's procedure on a stream of batches.

    Each batch is unsuitable with probability ``share_unsuitable``, independently; estimates are
    Beta-distributed.  Two sets of decisions are scored: those that :class:`AcceptanceMonitor` makes
    about each newest batch in turn, and those of the last run alone about the batches in its
    window.

    Found at alpha = 0.05 with the defaults (1000 streams of 50 batches; standard errors at most
    0.03), all unsuitable batches at the margin.  Decisions in turn are not controlled where most
    batches are unsuitable: with all of them unsuitable the false discovery rate is 0.42, 0.27
    and 0.24 with windows of 5, 20 and all batches (0.79 without correction), with 90 % of them
    0.14, 0.10 and 0.09; with half of them it is 0.03, and 0.05 to 0.06 where suitable ones are
    hard to tell (``drop_suitable=0.03``).  Each batch is judged once, in a set of at most
    ``window``, and those sets add up their errors; a longer window corrects part of it, at the
    price of power.  It is no online procedure such as LORD or SAFFRON.  That p-values share a test
    sample does not matter much: with a fresh one for each batch the same numbers are 0.46, 0.27
    and 0.21, and 0.16, 0.11 and 0.10.  The last run alone keeps (share unsuitable) alpha,
    but for Welch's test being inexact far out in the tails of skewed estimates: with all batches
    unsuitable it has 0.06 to 0.10, but 0.05 to 0.06 with ``concentration=60`` and 0.04 to 0.05
    with batches of 1000.
    """
    bad = margin if drop_unsuitable is None else drop_unsuitable
    unsuitable = rng.random((repetitions, batches)) < share_unsuitable
    references = 1 if shared_reference else batches
    p = np.empty((repetitions, batches))
    for i in range(repetitions):
        test = draw_estimates(rng, mean_test, concentration, (references, n_test))
        mean = mean_test - np.where(unsuitable[i], bad, drop_suitable)[:, None]
        user = draw_estimates(rng, mean, concentration, (batches, batch_size))
        _, p[i], _ = welch_non_inferiority(
            test.mean(axis=1),
            test.var(axis=1, ddof=1),
            n_test,
            user.mean(axis=1),
            user.var(axis=1, ddof=1),
            batch_size,
            margin,
        )

    def mean_and_se(values: Floats) -> tuple[float, float]:
        return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))

    rows = []
    n_bad = unsuitable.sum(axis=1)
    for window in windows:
        called = np.empty(p.shape, dtype=bool)
        for time in range(batches):
            start = 0 if window is None else max(0, time + 1 - window)
            called[:, time] = p[:, time] <= _bh_threshold(p[:, start:time], alpha)
        wrong = called & unsuitable
        last, last_bad = p[:, start:], unsuitable[:, start:]
        adjusted = stats.false_discovery_control(last, axis=1) <= alpha
        fdr, fdr_se = mean_and_se(wrong.sum(axis=1) / np.maximum(called.sum(axis=1), 1))
        fdr_last, last_se = mean_and_se(
            (adjusted & last_bad).sum(axis=1) / np.maximum(adjusted.sum(axis=1), 1)
        )
        fpr = wrong.sum() / n_bad.sum() if n_bad.any() else math.nan
        # Of a ratio of means over streams.
        residual = (wrong.sum(axis=1) - fpr * n_bad) / max(n_bad.mean(), 1e-300)
        rows.append(
            {
                "window": window,
                "fdr": fdr,
                "fdr_se": fdr_se,
                "fdr_last": fdr_last,
                "fdr_last_se": last_se,
                "fpr": fpr,
                "fpr_se": mean_and_se(residual)[1],
                "tpr": called[~unsuitable].mean() if not unsuitable.all() else math.nan,
            }
        )
    result = pd.DataFrame(rows)
    result["window"] = pd.array(result["window"].to_list(), dtype="Int64")
    return result
