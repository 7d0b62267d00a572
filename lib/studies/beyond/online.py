"""alibi-detect's detectors for streams: statistics of sliding windows, thresholds by simulation.

After each value the last ones, as many as each window holds, are compared with the test data, and
the largest statistic counts:

- *FETDriftOnline*: one less Fisher's p-value against "not less often right", slightly smoothed.
- *CVMDriftOnline*: the distance of Cramer and von Mises, standardized.

Of simulated streams without a change, the fraction ``1 / ert`` of those without an alarm so far
raises one at each time: ``ert`` is the expected run time. From twice the longest window on the
thresholds stay as they are. The package draws test data anew for each simulated stream of
CVMDriftOnline and compares all values with each other; the ranks that this gives have the law of
Polya's urn, and are drawn from it here.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit
from scipy import stats

Values = npt.NDArray[np.float32]
_SMOOTHING = 0.99  # alibi-detect's `lam`
_CHUNK = 2000  # streams that are simulated at once


@dataclass(frozen=True)
class FisherOnline:
    """FETDriftOnline against "right as often as ``right`` of ``n`` test data", on labels."""

    n: int
    right: int
    windows: tuple[int, ...]

    @cached_property
    def tables(self) -> npt.NDArray[np.float64]:
        """One less the p-value, by window and number of right ones in it."""
        tables = np.zeros((len(self.windows), max(self.windows) + 1))
        for table, w in zip(tables, self.windows, strict=True):
            k = np.arange(w + 1)
            table[: w + 1] = 1 - stats.hypergeom.cdf(k, self.n + w, self.right + k, w)
        return tables

    def statistics(self, x: Any) -> Values:
        """Statistic after each value of each stream (a row); -inf until a window is full."""
        return _fisher_statistics(np.asarray(x, bool), self.tables, np.array(self.windows))

    def simulate(self, shape: tuple[int, int], rng: np.random.Generator) -> Any:
        """Streams that are as often right as the test data."""
        return rng.random(shape, np.float32) < self.right / self.n


@dataclass(frozen=True)
class CramerOnline:
    """CVMDriftOnline: values are ranks, how many of ``n`` test data are not larger."""

    n: int
    windows: tuple[int, ...]

    def statistics(self, x: Any) -> Values:
        """Statistic after each value of each stream (a row); -inf until a window is full."""
        return _cramer_statistics(np.asarray(x, np.int64), self.n, np.array(self.windows))

    def simulate(self, shape: tuple[int, int], rng: np.random.Generator) -> Any:
        """Ranks of streams in test data of the same distribution."""
        return _urn((rng.random(shape) * (self.n + 1 + np.arange(shape[1]))).astype(int), self.n)


def thresholds(
    detector: FisherOnline | CramerOnline, ert: float, streams: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Thresholds over time, and how often a statistic that equals its threshold is no alarm."""
    length, first = 2 * max(detector.windows) - 1, min(detector.windows) - 1
    found = np.empty((length, streams), np.float32)
    for start in range(0, streams, _CHUNK):
        part = detector.simulate((min(_CHUNK, streams - start), length), rng)
        found[:, start : start + _CHUNK] = detector.statistics(part).T
    return limits(found, first, 1 / ert, rng, ties=isinstance(detector, FisherOnline))


def limits(
    found: Values, first: int, rate: float, rng: np.random.Generator, *, ties: bool
) -> pd.DataFrame:
    """Thresholds that the fraction ``rate`` of the streams (columns) without an alarm exceeds."""
    table, alive = np.full((len(found), 2), (np.inf, 1.0)), np.arange(found.shape[1])
    for t in range(first, len(found)):
        now = found[t, alive]
        if ties:
            k = int((len(now) + 1) * (1 - rate)) - 1
            limit = np.partition(now, k)[k]
            below, equal = now < limit, now == limit
            passed = (1 - rate - below.mean()) / equal.mean()
            kept = below | equal & (rng.random(len(now)) < passed)
        else:
            limit, passed = np.quantile(now, 1 - rate), 1.0
            kept = now <= limit
        table[t], alive = (limit, passed), alive[kept]
    return pd.DataFrame(table, columns=["limit", "passed"])


def alarms(
    detector: FisherOnline | CramerOnline, table: pd.DataFrame, x: Any, rng: np.random.Generator
) -> list[int]:
    """After which values of a stream an alarm is raised; the detector then starts anew."""
    limit, passed = (table[name].to_numpy() for name in ("limit", "passed"))
    start, raised = 0, []
    while start < len(x):
        (now,) = detector.statistics(np.asarray(x)[None, start:])
        at = np.minimum(np.arange(len(now)), len(limit) - 1)
        equal = (now == limit[at]) & (rng.random(len(now)) > passed[at])
        hits = np.flatnonzero((now > limit[at]) | equal)
        if not len(hits):
            break
        raised.append(start + int(hits[0]))
        start = raised[-1] + 1
    return raised


@njit(cache=True)
def _fisher_statistics(x: Any, tables: Any, windows: Any) -> Any:
    found = np.full(x.shape, -np.inf, np.float32)
    for i in range(len(x)):
        for k, w in enumerate(windows):
            total, value = 0, 0.0
            for t in range(x.shape[1]):
                total += x[i, t]
                if t >= w:
                    total -= x[i, t - w]
                    value = (1 - _SMOOTHING) * value + _SMOOTHING * tables[k, total]
                elif t == w - 1:
                    value = tables[k, total]
                if t >= w - 1:
                    found[i, t] = max(found[i, t], value)
    return found


@njit(cache=True)
def _urn(x: Any, n: Any) -> Any:
    """Balls beyond the n + 1 gaps between the test data lie in that of an earlier one."""
    for i in range(len(x)):
        for t in range(x.shape[1]):
            if x[i, t] > n:
                x[i, t] = x[i, x[i, t] - n - 1]
    return x


@njit(cache=True)
def _cramer_statistics(x: Any, n: Any, windows: Any) -> Any:
    """By the sums of the ranks, their squares and the larger of each pair: integers, so exact."""
    found = np.full(x.shape, -np.inf, np.float32)
    for i in range(len(x)):
        row = x[i]
        for w in windows:
            pairs, total, squares = 0, 0, 0
            mean = 1 / 6 + 1 / (6 * (n + w))
            variance = (n + w + 1) * (4.0 * n * w * (n + w) - 3.0 * (n * n + w * w) - 2.0 * n * w)
            scale = np.sqrt(variance / (180.0 * (n + w) * (n + w) * n * w))
            for t in range(len(row)):
                new, old = row[t], row[t - w] if t >= w else -1
                change = new
                # The compiler makes this a vector loop for indices that cannot be negative only.
                for j in range(np.uint64(max(0, t - w + 1)), np.uint64(t)):
                    change += 2 * (max(new, row[j]) - (max(old, row[j]) if old >= 0 else 0))
                pairs += change - max(old, 0)
                total += new - max(old, 0)
                squares += new * new - max(old, 0) ** 2
                if t >= w - 1:
                    test = (n + 1) * (2 * n + 1) / (6.0 * n) - 1 - pairs / (w * w)
                    test += (squares + total) / (n * w)
                    user = squares / (n * n) - (pairs + total) / (n * w)
                    user += (w + 1) * (2 * w + 1) / (6.0 * w)
                    value = ((test + user) * (n * w / ((n + w) * (n + w))) - mean) / scale
                    found[i, t] = max(found[i, t], value)
    return found
