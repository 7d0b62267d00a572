"""Areas under curves against sums over all thresholds or pairs: O(n^2), from the definition."""

import numpy as np
import pytest

from lib.selective import augrc, aurc, e_aurc, normalized_score, selective_auc


def risks(correct, score):
    """Expected number of wrong points among the first k accepted, for k = 1, ..., n.

    A point is among them with the probability that its place, uniform among those that share its
    score, is at most k.
    """
    before = (score[None, :] > score[:, None]).sum(axis=1)
    tied = (score[None, :] == score[:, None]).sum(axis=1)
    k = np.arange(1, len(score) + 1)
    chance = np.clip((k[:, None] - before) / tied, 0, 1)
    return chance @ ~correct


def by_thresholds(correct, score):
    """Coverage and risk where everything from a threshold on is accepted: all scores differ."""
    found = []
    for threshold in sorted(score, reverse=True):
        accepted = [c for c, s in zip(correct, score, strict=True) if s >= threshold]
        found.append(accepted.count(False) / len(accepted))
    return found


@pytest.mark.parametrize("decimals", [None, 1, 0])
@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 50, 200])
def test_areas_equal_pairwise_sums(n, accuracy, decimals):
    """With and without ties; means of at most 200 numbers in [0, 1]."""
    rng = np.random.default_rng(n)
    correct = rng.random(n) < accuracy
    score = rng.normal(size=n) + correct
    score = score if decimals is None else np.round(score, decimals)
    wrong, k = risks(correct, score), np.arange(1, n + 1)
    area, best = (wrong / k).mean(), np.maximum(0, 1 - correct.sum() / k).mean()
    assert aurc(correct, score) == pytest.approx(area, abs=1e-13)
    assert e_aurc(correct, score) == pytest.approx(area - best, abs=1e-13)
    assert normalized_score(correct, score) == pytest.approx(area - best, abs=1e-13)
    # Trapezoids from (0, 0) on.
    generalized = np.trapezoid(np.r_[0, wrong] / n, np.r_[0, k] / n)
    assert augrc(correct, score) == pytest.approx(generalized, abs=1e-13)
    if len(set(score)) == n:
        plain = np.mean(by_thresholds(correct.tolist(), score.tolist()))
        assert 1 - selective_auc(correct, score) == pytest.approx(plain, abs=1e-13)
