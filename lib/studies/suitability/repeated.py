"""Simulations of looking more than once."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.studies.suitability.alarms import MEAN, draw_estimates
from lib.suitability.noninferiority import welch_non_inferiority
from lib.suitability.sequential import (
    _START,
    SequentialDesign,
    _log_capital,
    _upper_bounds,
    information_fractions,
)

#: What :func:`sequential_errors` compares.
PROCEDURES = (
    "one look",
    "uncorrected",
    "Bonferroni",
    "Pocock",
    "O'Brien-Fleming",
    "e-process, known mean",
    "e-process, test mean",
    "e-process, bound",
    "e-process, pairs",
)


def _first(hits: npt.NDArray[np.bool_], unit: int) -> tuple[npt.NDArray[np.bool_], Any]:
    """Whether any column is true, and the observations used until the first (else all)."""
    found = hits.any(axis=1)
    return found, unit * np.where(found, hits.argmax(axis=1) + 1, hits.shape[1])


def sequential_errors(
    drops: Sequence[float],
    *,
    looks: int = 5,
    batch_size: int = 200,
    n_test: int = 1000,
    margin: float = 0.05,
    mean_test: float = MEAN,
    repetitions: int = 2000,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Simulate how often each procedure says SUITABLE at level 0.05, and from how many user data.

    A test sample is drawn once per repetition; user data arrive in batches, and after each Welch's
    test compares all of them so far with the test sample.  Estimates are Beta-distributed.
    E-processes look after every user observation, with the threshold from the mean of the test
    population, as if known; from that of the test sample (whose error against the *population*
    nothing controls); from its upper bound at level alpha / 2, with alpha / 2 for the rest; and by
    pairs, which end when the test sample does.
    """
    size, alpha = batch_size, 0.05
    fractions = information_fractions(n_test, size, looks)
    levels = {
        # No p-value is below 0.
        "one look": np.append(np.full(looks - 1, -1.0), alpha),
        "uncorrected": np.full(looks, alpha),
        "Bonferroni": np.full(looks, alpha / looks),
        "Pocock": SequentialDesign(looks, alpha, "pocock", 1, fractions).levels,
        "O'Brien-Fleming": SequentialDesign(looks, alpha, "obrien-fleming", 1, fractions).levels,
    }
    counts = size * np.arange(1, looks + 1)
    pairs = min(n_test, looks * size)
    chunk = max(1, 1_000_000 // (looks * size + n_test))  # some ten arrays of 8 MB at a time
    rows = []
    for drop in drops:
        found: dict[str, list[Any]] = {name: [] for name in PROCEDURES}
        for first in range(0, repetitions, chunk):
            n = min(chunk, repetitions - first)
            test = draw_estimates(rng, mean_test, (n, n_test))
            user = draw_estimates(rng, mean_test - drop, (n, looks * size))
            mean = user.reshape(n, looks, size).sum(axis=2).cumsum(axis=1) / counts
            square = (user**2).reshape(n, looks, size).sum(axis=2).cumsum(axis=1) / counts
            variance = np.maximum(square - mean**2, 0) * counts / (counts - 1)
            test_mean = test.mean(axis=1, keepdims=True)
            test_variance = test.var(axis=1, ddof=1, keepdims=True)
            _, p, _ = welch_non_inferiority(
                test_mean, test_variance, n_test, mean, variance, counts, margin
            )
            for name, level in levels.items():
                found[name].append(_first(p <= level, size))
            bound = _upper_bounds(test, alpha / 2)[:, None]
            for name, x, threshold, rest in (
                ("known mean", user, mean_test - margin, alpha),
                ("test mean", user, test_mean - margin, alpha),
                ("bound", user, bound - margin, alpha / 2),
                ("pairs", (user[:, :pairs] - test[:, :pairs] + 1) / 2, (1 - margin) / 2, alpha),
            ):
                # A test sample may lie so low that its threshold is not positive.
                capital, _ = _log_capital(x, np.maximum(threshold, 1e-9), _START)
                found[f"e-process, {name}"].append(_first(capital >= -math.log(rest), 1))
        for name in PROCEDURES:
            rejected, used = (np.concatenate(part) for part in zip(*found[name], strict=True))
            interval = stats.binomtest(int(rejected.sum()), repetitions).proportion_ci()
            rows.append(
                {
                    "drop": drop,
                    "procedure": name,
                    "rate": rejected.mean(),
                    "low": interval.low,
                    "high": interval.high,
                    "mean_n": used.mean(),
                    "se_n": used.std(ddof=1) / math.sqrt(repetitions),
                }
            )
    return pd.DataFrame(rows)
