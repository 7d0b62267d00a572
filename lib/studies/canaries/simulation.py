"""Canary audits of a mechanism whose epsilon is known: how often intervals are right."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.audit.canaries import THRESHOLDS, canary_epsilon, single_label_guesses, top_label_guesses

#: Ways to read P5's interval that :func:`randomized_response_study` compares: keywords of
#: :func:`lib.audit.canary_epsilon`.
READINGS = {
    "paper": {},
    "corrected": {"corrected": True},
    "no mirror": {"mirror": False},
    "sandwich": {"standard_error": "sandwich"},
    "no mirror, sandwich": {"mirror": False, "standard_error": "sandwich"},
    "all three": {"mirror": False, "standard_error": "sandwich", "corrected": True},
}

#: All intervals that it compares.
INTERVALS = (*READINGS, "one label", "one label, lower", "top label, lower", "bayesian")


def randomized_response_confidences(
    canary_labels: npt.ArrayLike, n_classes: int, epsilon: float, *, seed: int | np.random.Generator
) -> npt.NDArray[np.float64]:
    """Confidences of a model that has memorized labels which randomized response let out.

    Each label is kept with probability e^epsilon / (e^epsilon + C - 1) and otherwise replaced by
    one of the others: epsilon-DP, and the attack on its output is exactly as good as that allows.
    """
    labels = np.asarray(canary_labels)
    rng = np.random.default_rng(seed)
    n = len(labels)
    keep = 1 / (1 + (n_classes - 1) * math.exp(-epsilon))
    shift = np.where(rng.random(n) < keep, 0, rng.integers(1, n_classes, n))
    sure = rng.uniform(0.4, 1.0, n)
    p = np.repeat(((1 - sure) / (n_classes - 1))[:, None], n_classes, axis=1)
    p[np.arange(n), (labels + shift) % n_classes] = sure
    return p


def randomized_response_study(
    epsilons: Sequence[float],
    n_classes: int,
    canaries: int,
    repetitions: int,
    *,
    level: float = 0.95,
    seed: int,
) -> pd.DataFrame:
    """Audit randomized response again and again."""
    rng = np.random.default_rng(seed)
    first = min(THRESHOLDS)
    rows = []
    for epsilon in epsilons:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in INTERVALS}
        for _ in range(repetitions):
            true = rng.integers(0, n_classes, canaries)
            wrong = (true + rng.integers(1, n_classes, canaries)) % n_classes
            p = randomized_response_confidences(wrong, n_classes, epsilon, seed=rng)
            for name, options in READINGS.items():
                audit = canary_epsilon(p, wrong, true, level=level, **options)
                found[name].append((audit.low, audit.high))
            one = single_label_guesses(p, wrong, true, first, seed=rng)
            top = top_label_guesses(p, wrong, true, first)
            found["one label"].append(one.interval(level))
            found["one label, lower"].append((one.lower_bound(level), math.inf))
            found["top label, lower"].append((top.lower_bound(level), math.inf))
            found["bayesian"].append(one.bayesian_interval(level))
        for name, ends in found.items():
            low, high = np.array(ends).T
            rows.append(
                {
                    "epsilon": epsilon,
                    "interval": name,
                    "covers": float(np.mean((low <= epsilon) & (epsilon <= high))),
                    "exceeds": float(np.mean(low > epsilon)),
                    "low": float(np.median(low)),
                    "high": float(np.median(high)),
                    "repetitions": repetitions,
                }
            )
    return pd.DataFrame(rows)
