"""Areas under curves against sums over all thresholds or pairs: O(n^2), from the definition."""

import numpy as np
from agreements import agreement, check

from lib.selective import augrc, aurc, e_aurc, normalized_score, selective_auc


def cases():
    """Correctness and scores, with and without ties, of all sizes and accuracies."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 50, 200):
        for accuracy in (0.0, 0.3, 0.9, 1.0):
            for decimals in (None, 1, 0):
                correct = rng.random(n) < accuracy
                score = rng.normal(size=n) + correct
                yield correct, score if decimals is None else np.round(score, decimals)


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


@check
def areas():
    """AURC, AUGRC and what follows from them."""
    found = {name: ([], []) for name in ("AURC", "AUGRC", "E-AURC", "normalized score")}
    plain = ([], [])
    for correct, score in cases():
        n, k = len(correct), np.arange(1, len(correct) + 1)
        wrong = risks(correct, score)
        right = int(correct.sum())
        area, best = (wrong / k).mean(), np.maximum(0, 1 - right / k).mean()
        # Trapezoids from (0, 0) on.
        generalized = np.trapezoid(np.r_[0, wrong] / n, np.r_[0, k] / n)
        for name, ours, theirs in (
            ("AURC", aurc(correct, score), area),
            ("AUGRC", augrc(correct, score), generalized),
            ("E-AURC", e_aurc(correct, score), area - best),
            ("normalized score", normalized_score(correct, score), area - best),
        ):
            found[name][0].append(ours)
            found[name][1].append(theirs)
        if len(set(score)) == n:
            plain[0].append(1 - selective_auc(correct, score))
            plain[1].append(np.mean(by_thresholds(correct.tolist(), score.tolist())))
    # Means of at most 200 numbers in [0, 1].
    for name, (ours, theirs) in found.items():
        yield agreement(name, "pairwise sums, with ties", ours, theirs, 1e-13)
    yield agreement("AURC", "a sum over all thresholds", *plain, 1e-13)
