"""Metrics of selective classification against NumPy, and torch-uncertainty where it imports."""

import importlib

import numpy as np
import pytest
from comparing import compare, sizes

from lib.selective import augrc, aurc, normalized_score

SORT = "NumPy's sort of the same scores, of 8 bytes each, and one reading of the sorted array"
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
        area="selective",
        comparison=name,
        peer_name="plain NumPy",
        size=n,
        unit="points",
        ours=lambda: ours(correct, score),
        peer=lambda: theirs(correct, score),
        floor=lambda: np.sort(score).sum(),
        floor_is=SORT,
        agreements=[
            (
                "value" if "all" not in name else "all three values",
                lambda a, b: (float(np.abs(np.subtract(a, b)).max()), TOLERANCE),
            )
        ],
        warm_peer=n < 10**6,
        peer_memory=name not in ("AUGRC", "normalized score"),
    )


@pytest.mark.parametrize("n", sizes(1000, 10_000_000))
def test_torch_uncertainty(benchmark, n):
    """It needs torchvision, which need not import beside PyTorch's build for CPUs."""
    correct, score = sample(n)
    peer, reason = None, ""
    try:
        import torch

        metrics = importlib.import_module("torch_uncertainty.metrics.classification")
    except Exception as error:  # whatever keeps it from importing is the reason
        reason = f"does not import here: {type(error).__name__}: {error}"
    else:
        # Two classes: the predicted one has the larger probability, (1 + score) / 2.
        first = torch.from_numpy((1 + score) / 2)
        probabilities = torch.stack([first, 1 - first], dim=1)
        targets = torch.from_numpy((~correct).astype(np.int64))

        def peer():
            metric = metrics.AURC()
            metric.update(probabilities, targets)
            return float(metric.compute())

    compare(
        benchmark,
        area="selective",
        comparison="AURC by another library",
        peer_name="torch-uncertainty",
        size=n,
        unit="points",
        ours=lambda: aurc(correct, score),
        peer=peer,
        floor=lambda: np.sort(score).sum(),
        floor_is=SORT,
        # It integrates by trapezia from 1/n on and sums in single precision or so: both areas
        # differ by at most the first and last risk over n, but for rounding.
        agreements=[("value", lambda a, b: (abs(a - b), 2 / n + 1e-5))] if peer else [],
        reason=reason,
    )
