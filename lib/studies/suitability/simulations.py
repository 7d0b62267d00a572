"""Simulations of the guarantee: what it needs, what labels add, what nobody can promise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.suitability.guarantees import (
    Array,
    _adjust,
    _offset,
    _powered_test,
    _tuning,
    corrected_margin,
)
from lib.suitability.labels import critical_counts
from lib.suitability.noninferiority import welch_non_inferiority

#: What :func:`simulate_guarantee` compares: the filter with the margin m, the corollary's, the
#: adjusted one's value and its bound at level alpha / 2, and the two tests with labels.
METHODS = ("unadjusted", "exact", "plug-in", "bound", "prediction-powered", "labels alone")

# Numbers drawn at once in a simulation.
_BLOCK = 2**21


@dataclass(frozen=True, eq=False)
class Impossibility:
    """Two user populations that no filter without their labels can tell apart."""

    source_logits: Array
    source_correct: npt.NDArray[np.bool_]
    user_logits: Array  # of both populations' sample
    suitable_correct: npt.NDArray[np.bool_]  # in the one
    unsuitable_correct: npt.NDArray[np.bool_]  # and in the other


def simulate_guarantee(
    eps_source: Any,
    eps_target: Any,
    *,
    margin: float = 0.05,
    accuracy_drop: float | None = None,
    test_accuracy: float = 0.8,
    n_test: int = 500,
    n_user: int = 500,
    n_labelled: int = 100,
    repetitions: int = 2000,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Simulate the rate of SUITABLE of :data:`METHODS` end to end, with a known miscalibration.

    Estimates C follow a Beta distribution scaled to where both C and C + eps are probabilities;
    a prediction is correct with probability C + eps (Definition 4.1). Their means are such that the
    accuracies are as given.
    """
    pairs = np.broadcast_arrays(eps_source, eps_target)
    drop, alpha = margin if accuracy_drop is None else accuracy_drop, 0.05
    block = max(1, _BLOCK // max(n_test, n_user, n_labelled))
    rows = []
    for source, target in zip(*(pair.ravel() for pair in pairs), strict=True):
        suitable = np.zeros(len(METHODS), int)
        for start in range(0, repetitions, block):
            size = min(block, repetitions - start)
            test = _draw(test_accuracy, source, (size, n_test), rng)
            user = _estimates(test_accuracy - drop, target, (size, n_user), rng)
            labelled = _draw(test_accuracy - drop, target, (size, n_labelled), rng)
            p_values = _all_methods(test, user, labelled, source, target, margin, alpha)
            alone = _labels_alone(test[1], labelled[1], margin, alpha)
            suitable += [*((p <= alpha).sum() for p in p_values), alone.sum()]
        for method, count in zip(METHODS, suitable.tolist(), strict=True):
            low, high = stats.binomtest(count, repetitions).proportion_ci(0.95, "exact")
            rows.append(
                {
                    "eps_source": float(source),
                    "eps_target": float(target),
                    "accuracy_drop": drop,
                    "method": method,
                    "suitable": count,
                    "repetitions": repetitions,
                    "rate": count / repetitions,
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(rows)


def lemma_check(
    eps: Sequence[float], *, accuracy: float = 0.8, rng: np.random.Generator
) -> pd.DataFrame:
    """Simulate Lemma 4.3, E[correct] = E[estimate] + eps."""
    rows = []
    for value in eps:
        estimated, correct = _draw(accuracy, value, (100_000,), rng)
        offset = _offset(estimated, correct)
        rows.append(
            {
                "eps": float(value),
                "mean_estimate": estimated.mean(),
                "accuracy": correct.mean(),
                "difference": -offset.value,
                "stderr": offset.stderr,
            }
        )
    return pd.DataFrame(rows)


def impossibility_example(n: int, rng: np.random.Generator) -> Impossibility:
    """Make two user populations with the same signals, one suitable and one not: Remark 4.5.

    Labels of the source and of the suitable population follow the softmax of the logits, those of
    the unsuitable one are uniform whatever the logits. As the logits have one distribution, so has
    all that a filter computes without labels of the user.
    """

    def correct(logits: Array) -> npt.NDArray[np.bool_]:
        # Gumbel's trick: the largest of logits and noise is a draw from the softmax.
        return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1) == logits.argmax(axis=1)

    source, user = 1.5 * rng.normal(size=(n, 3)), 2.5 * rng.normal(size=(n, 3))
    return Impossibility(
        source_logits=source,
        source_correct=correct(source),
        user_logits=user,
        suitable_correct=correct(user),
        unsuitable_correct=rng.integers(3, size=n) == user.argmax(axis=1),
    )


def _all_methods(
    test: tuple[Array, Array],
    user: Array,
    labelled: tuple[Array, Array],
    eps_source: float,
    eps_target: float,
    margin: float,
    alpha: float,
) -> list[Array]:
    """P-values of :data:`METHODS` but the last, one per row of the samples; the bound's doubled."""

    def moments(values: Array) -> tuple[Array, Array, int]:
        return values.mean(axis=1), values.var(axis=1, ddof=1), values.shape[1]

    def offset(estimated: Array, correct: Array) -> tuple[Array, Array, int]:
        mean, variance, n = moments(estimated - correct)
        return mean, variance / n, n

    of_test, of_user = moments(test[0]), moments(user)
    exact = corrected_margin(margin, eps_source, eps_target)
    value, _, _, reach = _adjust(margin, offset(*test), offset(*labelled), alpha / 2)
    filters = [
        welch_non_inferiority(*of_test, *of_user, m)[1]
        for m in (margin, exact, value, value - reach)
    ]
    filters[-1] = 2 * filters[-1]
    share = _tuning(*labelled, user.shape[1])
    tuned = offset(share[:, None] * labelled[0], labelled[1])
    scaled = share * of_user[0], share**2 * of_user[1], of_user[2]
    powered = _powered_test(moments(test[1]), scaled, tuned, margin)[1]
    return [*filters, powered]


def _labels_alone(
    test: Array, labelled: Array, margin: float, alpha: float
) -> npt.NDArray[np.bool_]:
    """Whether the exact test of the labels shows SUITABLE, for each row of the samples."""
    right = [values.sum(axis=1).astype(int) for values in (test, labelled)]
    n_test, n = test.shape[1], labelled.shape[1]
    return right[1] >= critical_counts(right[0], n_test, n, margin, alpha)


def _estimates(
    accuracy: float, eps: float, shape: tuple[int, ...], rng: Any, concentration: float = 10.0
) -> Array:
    """Draw scaled Beta estimates whose mean plus eps is the accuracy, all in [0, 1] with eps."""
    low, high = max(0.0, -eps), min(1.0, 1.0 - eps)
    share = (accuracy - eps - low) / (high - low)
    return low + (high - low) * rng.beta(concentration * share, concentration * (1 - share), shape)


def _draw(
    accuracy: float, eps: float, shape: tuple[int, ...], rng: Any, concentration: float = 10.0
) -> tuple[Array, Array]:
    """Draw estimates and, as 0 and 1, correctness."""
    estimated = _estimates(accuracy, eps, shape, rng, concentration)
    return estimated, (rng.random(shape) < estimated + eps).astype(float)
