"""Metrics of selective classification against their definitions in plain NumPy."""

import numpy as np
import pytest
from comparing import compare, sizes

from lib.selective import augrc, aurc, normalized_score

# Sums of n numbers of at most 1, pairwise: log2(n) roundings; cumulative counts are exact.
TOLERANCE = 1e-12


def sample(n):
    rng = np.random.default_rng(0)
    score = rng.random(n)
    return rng.random(n) < score, score


def accuracies(correct, score):
    """The definition: accept in order, divide.  Scores are distinct here."""
    order = np.argsort(-score, kind="stable")
    return np.cumsum(correct[order]) / np.arange(1, len(score) + 1)


def plain_aurc(correct, score):
    return 1 - accuracies(correct, score).mean()


def plain_augrc(correct, score):
    n = len(score)
    wrong = (1 - accuracies(correct, score)) * np.arange(1, n + 1) / n
    return float(np.trapezoid(np.append(0.0, wrong), dx=1 / n))


def plain_normalized(correct, score):
    n = len(score)
    bound = np.minimum(1.0, correct.mean() / (np.arange(1, n + 1) / n))
    return float((bound - accuracies(correct, score)).mean())


def plain_all(correct, score):
    """All three from one order, as one would write it for all three."""
    n = len(score)
    coverage = np.arange(1, n + 1) / n
    accuracy = accuracies(correct, score)
    wrong = (1 - accuracy) * coverage
    bound = np.minimum(1.0, correct.mean() / coverage)
    return (
        1 - accuracy.mean(),
        float(np.trapezoid(np.append(0.0, wrong), dx=1 / n)),
        float((bound - accuracy).mean()),
    )


PAIRS = {
    "AURC": (aurc, plain_aurc),
    "AUGRC": (augrc, plain_augrc),
    "normalized score": (normalized_score, plain_normalized),
    "all three, one order for NumPy": (
        lambda correct, score: tuple(f(correct, score) for f in (aurc, augrc, normalized_score)),
        plain_all,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("n", sizes(1000, 100_000, 1_000_000, 10_000_000))
def test_metric(benchmark, name, n):
    correct, score = sample(n)
    assert n > 10**6 or len(np.unique(score)) == n
    ours, theirs = PAIRS[name]
    compare(
        benchmark,
        comparison=name,
        peer_name="plain NumPy",
        size=n,
        unit="points",
        ours=lambda: ours(correct, score),
        peer=lambda: theirs(correct, score),
        agreements=[
            (
                "value" if "all" not in name else "all three values",
                lambda a, b: (float(np.abs(np.subtract(a, b)).max()), TOLERANCE),
            )
        ],
        warm_peer=n < 10**6,
    )
