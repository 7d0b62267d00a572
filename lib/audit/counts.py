"""What an attack got right and wrong, and intervals for its error rates."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from lib.check import as_integer


@dataclass(frozen=True)
class AttackCounts:
    """Outcomes of independent trials of an attack (P3, Experiment 2).

    A positive trial has the challenge point in the training data; a positive guess says so.

    Attributes
    ----------
    tp, fp, tn, fn : int
        True positives, false positives, true negatives and false negatives, at least 0 each, with
        at least one positive and one negative trial.
    """

    tp: int
    fp: int
    tn: int
    fn: int

    def __post_init__(self):
        for name in ("tp", "fp", "tn", "fn"):
            object.__setattr__(self, name, as_integer(name, getattr(self, name), 0))
        if self.positives == 0:
            raise ValueError("tp + fn must be at least 1: there are no positive trials")
        if self.negatives == 0:
            raise ValueError("fp + tn must be at least 1: there are no negative trials")

    @property
    def positives(self) -> int:
        """Trials with the challenge point in the training data."""
        return self.tp + self.fn

    @property
    def negatives(self) -> int:
        """Trials without it."""
        return self.fp + self.tn

    @property
    def fnr(self) -> float:
        """Observed false negative rate."""
        return self.fn / self.positives

    @property
    def fpr(self) -> float:
        """Observed false positive rate."""
        return self.fp / self.negatives


def rate_interval(errors: int, trials: int, tail: float, method: str) -> tuple[float, float]:
    """Confidence interval of a binomial proportion (P3, sections 2.6 and 3.1)."""
    low, high = rate_intervals(np.array(errors), np.array(trials - errors), tail, method)
    return float(low), float(high)


def rate_intervals(errors, others, tail: float, method: str):
    """The same for arrays of numbers of errors and of other trials."""
    shift = 0.5 if method == "jeffreys" else 0.0
    a, b = errors.astype(float), others.astype(float)
    one = 0.5 if method == "jeffreys" else 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        low = special.betaincinv(np.maximum(a + shift, 1e-300), b + one, tail)
        high = special.betainccinv(a + one, np.maximum(b + shift, 1e-300), tail)
    return np.where(a == 0, 0.0, low), np.where(b == 0, 1.0, high)
