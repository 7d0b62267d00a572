"""P5's measured losses of ALIBI and of AGIBI on the same canaries, and what tells them apart.

P5 says that these losses are statistically indistinguishable, and names no test. What it has is an
interval for each. Here is a paired bootstrap beside that: canaries are drawn anew, the same for
both models, and for each drawing P5's procedure is repeated whole, its choice of a threshold
included. Where the two models of the authors' files were swapped at random, canary by canary, its
95% interval left out 0 in 5 to 7 percent (120 repetitions each at high accuracy on both data sets
and at medium accuracy on CIFAR-10).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.audit.canaries import AUTHORS_Z, FEW, THRESHOLDS
from lib.studies.canaries import published
from lib.studies.default_problem import title

Array = npt.NDArray[np.float64]

_SAME = 1e-24  # squares of differences of rates that are but rounding


class Guessed(NamedTuple):
    """Guesses about each canary at each threshold, and how many of them are right."""

    made: Array  # shape (n, thresholds)
    right: Array


def guesses_of(confidences: npt.ArrayLike, canary: npt.ArrayLike, true: npt.ArrayLike) -> Guessed:
    """P5's guesses: the trained label against each other wrong one, at its thresholds."""
    p, rows = np.array(confidences, dtype=float), np.arange(len(canary))
    own = p[rows, canary]
    others = p.copy()
    others[rows, canary] = others[rows, true] = -1.0  # not alternatives
    beaten = ((others < own[:, None]) & (others >= 0)).sum(axis=1)
    made, right = [], []
    for threshold in THRESHOLDS:
        sure = own >= threshold
        made.append(np.where(sure, p.shape[1] - 2, (others >= threshold).sum(axis=1)))
        right.append(np.where(sure, beaten, 0))
    return Guessed(*(np.stack(part, axis=1).astype(float) for part in (made, right)))


def lower_limits(guessed: Guessed, counts: Array) -> Array:
    """P5's reported lower limit for epsilon when canary i is there `counts`[..., i] times.

    The largest over the thresholds of the normal limit with reliability weights: what
    :func:`lib.audit.canary_epsilon` reports as ``low``, for many drawings at once.

    Parameters
    ----------
    guessed : Guessed
        Of n canaries.
    counts : ndarray, shape (drawings, n)
        How often each canary is drawn.
    """
    made, right = guessed
    rate = np.divide(right, made, out=np.zeros_like(right), where=made > 0)
    total = counts @ made
    some = np.maximum(total, 1)
    mean = counts @ right / some
    k = counts @ (made > 0)
    # Sums over the canaries of w (a - m)^2 and of w^2, with the fraction w of all guesses.
    square = np.maximum(counts @ (made * rate**2) / some - mean**2, 0)
    spread = 1 - counts @ made**2 / some**2
    known = (spread > 0) & (k > 1) & (square > _SAME)
    error = np.sqrt(np.divide(square, spread * k, out=np.zeros_like(square), where=known))
    low = np.where(known, np.maximum(mean, 1 - mean) - AUTHORS_Z * error, 0.5)
    sure = (total > 0) & ((mean == 1) | (mean == 0))  # never wrong, or mirrored
    low = np.where(sure, np.where(k > FEW, 1 - 3 / np.maximum(k, 1), 0.5), low)
    best = np.clip(np.where(total > 0, low, 0.5), 0.5, 1).max(axis=-1)
    return np.log(best / (1 - best))


def paired_losses(repetitions: int = 2000, level: float = 0.95, *, seed: int) -> pd.DataFrame:
    """ALIBI's lower limit less AGIBI's, level by level, and its bootstrap interval.

    Percentile intervals over the canaries, drawn in pairs; they hold together (Bonferroni).
    ``overlap`` says whether P5's own two intervals do.
    """
    given = published.published_inputs()
    audits = published.published_audits()
    keys = [(d, name) for d, kind, name, runs in given if (kind, runs) == ("AGIBI", "1 x 1000")]
    tail = (1 - level) / 2 / len(keys)
    rows = []
    for number, (dataset, name) in enumerate(keys):
        both = [(dataset, kind, name, "1 x 1000") for kind in ("ALIBI", "AGIBI")]
        pair = [guesses_of(*given[key]) for key in both]
        n = len(pair[0].made)
        rng = np.random.default_rng([seed, number])
        counts = rng.multinomial(n, np.full(n, 1 / n), size=repetitions).astype(float)
        drawn = np.subtract(*(lower_limits(one, counts) for one in pair))
        low, high = np.quantile(drawn, [tail, 1 - tail])
        first, second = (audits[key] for key in both)
        overlap = max(first.low, second.low) <= min(first.high, second.high)
        rows.append((dataset, name, first.low, second.low, first.low - second.low, low, high))
        rows[-1] += (overlap, not low <= 0 <= high)
    columns = ["data", "level", "ALIBI", "AGIBI", "difference", "difference low"]
    columns += ["difference high", "overlap", "apart"]
    return pd.DataFrame(rows, columns=columns)


def apart_in_words(losses: pd.DataFrame) -> str:
    """The levels at which the bootstrap tells the two apart."""
    told = [
        f"{published.LEVELS[row.level].lower()} accuracy on {title(row.data)}"
        for row in losses[losses["apart"]].itertuples()
    ]
    return " and ".join(told) or "no level"
