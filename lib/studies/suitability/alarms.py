"""Simulations of monitors: delays of alarms, errors of decisions as batches arrive."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from lib.suitability.active import ActiveMonitor, active_accuracy, labelling_probabilities
from lib.suitability.monitor import Floats, Monitor, _detector_path
from lib.suitability.noninferiority import welch_non_inferiority

#: Mean estimate of the test data in simulations.
MEAN = 0.8


def draw_estimates(
    rng: np.random.Generator, mean: Any, size: tuple[int, ...], concentration: float = 4.0
) -> Floats:
    """Draw correctness estimates: Beta(mean concentration, (1 - mean) concentration)."""
    return rng.beta(np.multiply(mean, concentration), np.subtract(1, mean) * concentration, size)


def simulate_alarms(
    drops: Sequence[float] = (0.0, 0.02, 0.05, 0.1, 0.6),
    *,
    margin: float = 0.0,
    run_length: float = 10_000.0,
    n_test: int = 5000,
    longest: int = 20_000,
    labels: bool = False,
    repetitions: int = 100,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Measure how soon :class:`Monitor` raises an alarm, and how often a false one.

    Estimates are Beta-distributed, or labels right with these means.  After 1000 observations like
    the test data's the mean falls by a drop.
    """

    def draw(mean: float, n: int) -> Any:
        if labels:
            return (rng.random(n) < mean).astype(float)
        return draw_estimates(rng, mean, (n,))

    rows = []
    for drop in drops:
        early, delays = 0, []
        for _ in range(repetitions):
            watch = Monitor(draw(MEAN, n_test), margin=margin, run_length=run_length)
            detector = watch._detectors["estimates"]
            if detector.update(draw(MEAN, 1000)) >= run_length:
                early += 1
                continue
            taken, step = 0, 256
            while taken < longest:
                x = draw(MEAN - drop, min(step, longest - taken))
                log = detector._log
                if detector.update(x) >= run_length:
                    path = _detector_path(x, detector._threshold, detector._bets, log)
                    values = special.logsumexp(path, axis=0) - math.log(len(path))
                    taken += int(np.argmax(values >= math.log(run_length))) + 1
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


def bh_threshold(others: Floats, alpha: float) -> Floats:
    """Largest p-value that Benjamini and Hochberg reject beside ``others``, shape (..., m - 1).

    alpha R / m with R the rejections if the p-value in question were 0, which has rank 1.

    Parameters
    ----------
    others : array, shape (..., m - 1)
        P-values.
    alpha : float
        Level.

    Returns
    -------
    array
        Of the shape of `others`, but for its last axis.
    """
    ordered = np.sort(others, axis=-1)
    ranks = np.arange(2, others.shape[-1] + 2)
    m = others.shape[-1] + 1
    rejections = np.where(ordered <= ranks * alpha / m, ranks, 1).max(axis=-1, initial=1)
    return alpha * rejections / m


def simulate_monitoring(
    windows: Sequence[int | None],
    *,
    share_unsuitable: float,
    repetitions: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Measure the errors of Benjamini and Hochberg's procedure on a stream of 50 batches.

    As in the paper's appendix A.3.2 each batch has its own Welch test and is judged with those in a
    window before it. Each is unsuitable with probability ``share_unsuitable``, independently, and
    then at the margin; estimates are Beta-distributed. Two sets of decisions are scored at level
    0.05: those about each newest batch in turn, and those of the last run alone about its window.
    """
    margin, alpha, batches, batch_size, n_test = 0.05, 0.05, 50, 200, 1000
    unsuitable = rng.random((repetitions, batches)) < share_unsuitable
    p = np.empty((repetitions, batches))
    for i in range(repetitions):
        test = draw_estimates(rng, MEAN, (1, n_test))
        mean = MEAN - np.where(unsuitable[i], margin, 0.0)[:, None]
        user = draw_estimates(rng, mean, (batches, batch_size))
        _, p[i], _ = welch_non_inferiority(
            test.mean(axis=1),
            test.var(axis=1, ddof=1),
            n_test,
            user.mean(axis=1),
            user.var(axis=1, ddof=1),
            batch_size,
            margin,
        )

    rows = []
    n_bad = unsuitable.sum(axis=1)
    for window in windows:
        called = np.empty(p.shape, dtype=bool)
        for time in range(batches):
            start = 0 if window is None else max(0, time + 1 - window)
            called[:, time] = p[:, time] <= bh_threshold(p[:, start:time], alpha)
        wrong = called & unsuitable
        last = stats.false_discovery_control(p[:, start:], axis=1) <= alpha
        false, false_last = (
            (decided & bad).sum(axis=1) / np.maximum(decided.sum(axis=1), 1)
            for decided, bad in ((called, unsuitable), (last, unsuitable[:, start:]))
        )
        fpr = wrong.sum() / n_bad.sum() if n_bad.any() else math.nan
        # Of a ratio of means over streams.
        residual = (wrong.sum(axis=1) - fpr * n_bad) / max(n_bad.mean(), 1e-300)
        rows.append(
            {
                "window": window,
                "fdr": false.mean(),
                "fdr_se": stats.sem(false),
                "fdr_last": false_last.mean(),
                "fdr_last_se": stats.sem(false_last),
                "fpr": fpr,
                "fpr_se": stats.sem(residual),
                "tpr": called[~unsuitable].mean() if not unsuitable.all() else math.nan,
            }
        )
    result = pd.DataFrame(rows)
    result["window"] = pd.array(result["window"].to_list(), dtype="Int64")
    return result


#: Populations on which :func:`active_errors` tries the levels: accuracy, and how estimates are.
POPULATIONS = {
    "right, 60%": (0.6, "right"),
    "right, 97%": (0.97, "right"),
    "one value, 99%": (0.99, "one value"),
    "wrong, 80%": (0.8, "wrong"),
}


def active_errors(
    rows: int = 300, rate: float = 0.1, *, repetitions: int = 200, rng: np.random.Generator
) -> pd.DataFrame:
    """Errors at level 0.05 with few labels of chosen rows, at exactly the least accuracy.

    How often the interval of :func:`active_accuracy` misses, and the normal one for comparison; how
    often :class:`ActiveMonitor` raises an alarm in its run length / 20 rows, where that is at most
    0.05 by Doob's inequality; and how often it then says SUITABLE or UNSUITABLE.
    """
    table = []
    for name, (accuracy, kind) in POPULATIONS.items():
        errors = np.zeros(5)
        for _ in range(repetitions):
            reference, f = draw_estimates(rng, accuracy, (2, rows))
            if kind == "one value":
                f[:] = reference[:] = accuracy
            right = rng.random(rows) < (f if kind == "right" else accuracy)
            f = 1 - f if kind == "wrong" else f
            p = labelling_probabilities(f, rate, reference)
            chosen = rng.random(rows) < p
            batch = f, chosen, right[chosen], p
            least = {"least_probability": rate / 2}
            _, (low, high) = active_accuracy(*batch, **least)
            x = f + np.where(chosen, (right - f) / p, 0.0)
            z = abs(x.mean() - accuracy) / max(stats.sem(x), 1e-12)
            watching, deciding = (
                ActiveMonitor(accuracy, run_length=20 * rows, **least) for _ in range(2)
            )
            deciding._begin_to_decide()
            after = deciding.update(*batch)
            said = [after.suitable_p <= 0.05, after.unsuitable_p <= 0.05]
            alarm = watching.update(*batch).alarm
            errors += [not low <= accuracy <= high, z > stats.norm.ppf(0.975), alarm, *said]
        table.append([name, *(errors / repetitions)])
    names = ["estimates", "interval", "normal interval", "alarm", "SUITABLE", "UNSUITABLE"]
    return pd.DataFrame(table, columns=names)
