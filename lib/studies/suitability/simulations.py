"""Simulations: what the guarantee needs, what labels add, what fits and many looks do to levels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, special, stats

from lib.studies.suitability.alarms import MEAN, draw_estimates
from lib.suitability.estimators import make_estimator
from lib.suitability.filter import SuitabilityFilter
from lib.suitability.guarantees import (
    Array,
    _adjust,
    _powered_test,
    _tuning,
    corrected_margin,
    offset_moments,
)
from lib.suitability.labels import _TIE, _score, critical_counts, rejection_rate
from lib.suitability.noninferiority import welch_non_inferiority
from lib.suitability.sequential import (
    _START,
    SequentialDesign,
    _log_capital,
    _set_bounds,
    information_fractions,
)

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
    n_test: int = 500,
    n_user: int = 500,
    n_labelled: int = 100,
    repetitions: int = 2000,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Simulate the rate of SUITABLE of :data:`METHODS` end to end, with a known miscalibration.

    Estimates C follow a Beta distribution scaled to where both C and C + eps are probabilities;
    a prediction is correct with probability C + eps (Definition 4.1). Their means are such that the
    accuracy on test data is 0.8.
    """
    pairs = np.broadcast_arrays(eps_source, eps_target)
    drop, alpha = margin if accuracy_drop is None else accuracy_drop, 0.05
    block = max(1, _BLOCK // max(n_test, n_user, n_labelled))
    rows = []
    for source, target in zip(*(pair.ravel() for pair in pairs), strict=True):
        suitable = np.zeros(len(METHODS), int)
        for start in range(0, repetitions, block):
            size = min(block, repetitions - start)
            test = _draw(MEAN, source, (size, n_test), rng)
            user = _estimates(MEAN - drop, target, (size, n_user), rng)
            labelled = _draw(MEAN - drop, target, (size, n_labelled), rng)
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

    of_test, of_user = moments(test[0]), moments(user)
    exact = corrected_margin(margin, eps_source, eps_target)
    offsets = offset_moments(*test), offset_moments(*labelled)
    value, _, _, reach = _adjust(margin, *offsets, alpha / 2)
    filters = [
        welch_non_inferiority(*of_test, *of_user, m)[1]
        for m in (margin, exact, value, value - reach)
    ]
    filters[-1] = 2 * filters[-1]
    share = _tuning(*labelled, user.shape[1])
    powered = _powered_test(test[1], user, labelled, share, margin)[1]
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


def label_errors(labels: Sequence[int], margins: Sequence[float], n_test: int) -> pd.DataFrame:
    """Compare tests of labels alone by their exact rates of error at a drop of the margin."""
    rows, alpha = [], 0.05
    for n in labels:
        x, y = np.meshgrid(np.arange(n_test + 1), np.arange(n + 1), indexing="ij")
        moments = [
            m for v, k in ((x, n_test), (y, n)) for m in (v / k, v * (k - v) / (k * (k - 1)), k)
        ]
        for margin in margins:
            rejected = {
                "welch": welch_non_inferiority(*moments, margin)[1] <= alpha,
                "score": _score(x, n_test, y, n, margin) <= stats.norm.ppf(alpha) + _TIE,
            }
            rates: dict[str, list[float]] = {"exact": [], "exact, against": []}
            for p in (0.5, 0.7, 0.9, 0.95, 0.99):
                q = p - margin
                if not 0 <= q <= 1:
                    continue
                pair = p, n_test, q, n
                rates["exact"].append(rejection_rate(*pair, margin, alpha))
                against = rejection_rate(*pair[2:], *pair[:2], -margin, alpha)
                rates["exact, against"].append(against)
                weight = stats.binom.pmf(x, n_test, p) * stats.binom.pmf(y, n, q)
                for name, where in rejected.items():
                    rates.setdefault(name, []).append(float(weight[where].sum()))
            worst = {name: max(found, default=math.nan) for name, found in rates.items()}
            rows.append({"labels": n, "margin": margin, **worst})
    return pd.DataFrame(rows)


def fit_errors(
    sizes: Sequence[tuple[int, int, int]], *, repetitions: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Simulate P(SUITABLE) at a drop of the margin, with calibration on both populations.

    Four normal signals, of which one is lower by a constant on user data; correctness follows one
    logistic model of them everywhere.
    """
    slopes, bias = np.array([1.0, 0.7, -0.5, 0.3]), 1.8
    margin, alpha = 0.05, 0.05
    # The linear predictor is normal: its mean by quadrature.
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    spread, weights = np.sqrt((slopes**2).sum()) * nodes, weights / weights.sum()

    def drop(shift: float) -> float:
        means = [weights @ special.expit(bias + s + spread) for s in (0.0, shift)]
        return float(means[0] - means[1] - margin)

    shift = np.array([optimize.brentq(drop, -20.0, 0.0), 0.0, 0.0, 0.0])
    # The paper's splits the rows in their order.
    tests: dict[str, Any] = {"paper": make_estimator("logistic", seed=None), "fitted": None}
    rows = []
    for holdout, test, user in sizes:
        suitable = dict.fromkeys(tests, 0)
        for _ in range(repetitions):
            x = rng.normal(size=(holdout, 4))
            correct = rng.random(holdout) < special.expit(x @ slopes + bias)
            pair = rng.normal(size=(test, 4)), rng.normal(size=(user, 4)) + shift
            for name in suitable:
                fitted = SuitabilityFilter(margin, alpha, tests[name]).fit(x, correct)
                suitable[name] += fitted.decide(*pair).suitable
        interval = stats.binomtest(suitable["fitted"], repetitions).proportion_ci()
        rates = {name: count / repetitions for name, count in suitable.items()}
        rows.append(
            {"holdout": holdout, "test": test, "user": user, **rates}
            | {"low": interval.low, "high": interval.high}
        )
    return pd.DataFrame(rows)


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
            # As test_upper_bound() with its seed of 0.
            bound = _set_bounds(np.sort(test), alpha / 2, np.random.default_rng(0))[:, None]
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
