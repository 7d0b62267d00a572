"""The numbers of the report on suitability, and what is to be noted about them."""

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.report.naming import counted
from lib.report.predictions import ModelPredictions
from lib.report.types import POWER, share, table
from lib.suitability.equivalence import _holm
from lib.suitability.filter import Decision, welch_decision
from lib.suitability.guarantees import (
    PredictionPowered,
    adjusted_margin,
    calibration_offset,
    prediction_powered_test,
)
from lib.suitability.labels import labels_test
from lib.suitability.power import rejection_probability, smallest_size
from lib.suitability.signals import SIGNAL_NAMES
from lib.suitability.tipping import tipping_point
from lib.ties import dense_ranks

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

PARTS = ("holdout", "test", "user")
COMPARED = PARTS[1:]
# Vittinghoff and McCulloch 2007: with fewer rows of the rarer kind a regressor than this the
# errors of a logistic regression grow.
_PER_SIGNAL = 5
_OUTSIDE = 0.05  # fraction of user rows beyond the holdout's range that is worth a warning
_BY_CHANCE = 1e-3  # probability of so many repeated rows where none is a copy
_DOUBTFUL = 2.58  # standard errors: 1% by chance
FEW_ERRORS = 25  # see calibration_offset: at a level of 5% a t-test then errs in a tenth at most


# --- tables ---------------------------------------------------------------------------------------


def as_table(rows: list[tuple], columns: list[str]) -> pd.DataFrame:
    """Items and numbers."""
    return table(rows, columns).astype(dict.fromkeys(columns[1:], float))


def level(alpha: float) -> float:
    """Of intervals, each end of which fails with probability alpha."""
    return 1 - 2 * alpha


def summary(
    given: ModelPredictions, estimated: dict[str, Array], decision: Decision, paper: float
) -> list[tuple]:
    """Sizes, accuracies, the drop and the test."""
    alpha, rows, accuracies = decision.alpha, [], []
    for part in PARTS:
        correct, labeled = given.correct(part)
        rows.append((f"{part} rows", len(labeled)))
        if part != "holdout":
            rows.append((f"labeled {part} rows", len(correct)))
        if len(correct):
            accuracies.append((f"accuracy on labeled {part} rows", *share(correct, level(alpha))))
    rows += accuracies
    for part in COMPARED:
        mean, n = float(estimated[part].mean()), len(estimated[part])
        half = float(stats.t.isf(alpha, n - 1)) * _stderr(estimated[part])
        rows.append((f"estimated {part} accuracy", mean, mean - half, mean + half))
    drop = decision.estimated_test_accuracy - decision.estimated_user_accuracy
    half = float(stats.norm.isf(alpha)) * decision.stderr
    rows += [
        ("estimated drop (test minus user)", drop, drop - half, drop + half),
        ("margin", decision.margin),
        ("p-value", decision.p_value),
        ("p-value of the paper's test (leaves out the error of the fit)", paper),
        (
            "tipping point (overstatement that turns the decision; below 0: understatement)",
            tipping_point(decision),
        ),
    ]
    return rows


def power(
    decision: Decision, spread: list[float], sizes: list[int], power: float
) -> tuple[float, int | None, str, float]:
    """Power for equally accurate user data, rows for the power asked for, and why none are.

    Last the detection limit: the drop of the mean estimate, below 0 if it has to rise, at which
    the power is the one asked for with the rows there are.
    """
    sampled = [sd**2 / n for sd, n in zip(spread, sizes, strict=True)]
    # Of the fit, as it is for these user data.
    fit = max(decision.stderr**2 - sum(sampled), 0.0)

    def reached(n: Any, drop: float = 0.0) -> Array:
        return rejection_probability(
            decision.margin - drop,
            [sampled[0], spread[1] ** 2 / n, fit],
            [sizes[0] - 1, n - 1, math.inf],
            decision.alpha,
        )

    required = smallest_size(reached, power) if decision.margin > 0 else None
    most = float(reached(np.array(1e15)))
    why = (
        f"with {sizes[0]} test rows and this holdout at most {most:.4g} can be had, however many "
        "user rows there are: more labeled source data are needed"
    )
    size = np.array(float(sizes[1]))
    low, high = decision.margin - 2, decision.margin  # no drop is larger or smaller than 1
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if reached(size, middle) >= power else (low, middle)
    return float(reached(size)), required, why, low if low > -1 else math.nan


def _stderr(values: Array) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def moved(test: pd.DataFrame, user: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """How each signal's distribution differs, the largest difference of means first."""
    rows = []
    for name in SIGNAL_NAMES:
        a, b = test[name].to_numpy(), user[name].to_numpy()
        gap = b.mean() - a.mean()
        pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
        # Of equal numbers only rounding is left.
        rounding = 1e-12 * max(np.abs(a).max(), np.abs(b).max())
        gap, pooled = (0.0 if abs(value) <= rounding else float(value) for value in (gap, pooled))
        difference = gap / pooled if pooled else math.copysign(math.inf, gap) if gap else 0.0
        with warnings.catch_warnings():
            # The exact p-value of many rows may be out of reach: scipy then takes the limit's.
            warnings.simplefilter("ignore", RuntimeWarning)
            # Values that are equal but for rounding are equal: else one ranking has many answers.
            ranks = dense_ranks(np.concatenate([a, b]))
            ks = stats.ks_2samp(ranks[: len(a)], ranks[len(a) :])
        distance = (ks.statistic, ks.pvalue) if gap or pooled else (0.0, 1.0)
        rows.append((name, a.mean(), b.mean(), difference, *distance))
    table = pd.DataFrame(
        rows, columns=["signal", "test_mean", "user_mean", "difference", "ks", "p_value"]
    )
    table["p_holm"] = _holm(table["p_value"].to_numpy())
    table["moved"] = table["p_holm"] <= alpha
    order = np.argsort(-table["difference"].abs().to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def outside(holdout: pd.DataFrame, table: pd.DataFrame) -> float:
    """Fraction of rows with a signal that is beyond its range in the holdout."""
    beyond = (table < holdout.min()) | (table > holdout.max())
    return float(beyond.any(axis=1).mean())


def calibration(
    given: ModelPredictions, estimated: dict[str, Array], decision: Decision
) -> tuple[
    list[tuple], Decision | None, PredictionPowered | None, bool | None, bool | None, list[str]
]:
    """Rows of the table, decisions that allow for the estimator's errors, and doubts."""
    alpha, margin = decision.alpha, decision.margin
    rows, doubts, known = [], [], []
    for part in COMPARED:
        known += _offset(part, *given.correct(part), estimated[part], alpha, rows, doubts)
    if len(known) < 2:
        return rows, None, None, None, None, doubts

    found = adjusted_margin(margin, *known[0], *known[1], level=alpha / 2)
    of_parts = [estimated[part] for part in COMPARED]
    plug_in = welch_decision(*of_parts, found.value, alpha)
    adjusted = welch_decision(*of_parts, found.bound, alpha - found.level)
    rows += [
        ("adjusted margin", found.value, found.stderr, *found.interval),
        ("p-value with the adjusted margin (does not keep alpha)", plug_in.p_value),
        ("twice the p-value with its lower limit", min(1.0, 2 * adjusted.p_value)),
    ]
    correct = [correct for _, correct in known]
    alone, powered = labels_test(*correct, margin), None
    rows += [
        ("p-value of the labels alone (exact)", alone.suitable_p),
        ("p-value of the labels alone that it is not suitable", alone.unsuitable_p),
    ]
    unlabeled = estimated["user"][~given.correct("user")[1]]
    if len(unlabeled) >= 2:
        powered = prediction_powered_test(correct[0], unlabeled, *known[1], margin)
        drop = powered.test_accuracy - powered.user_accuracy
        half = float(stats.t.isf(alpha, powered.dof)) * powered.stderr if powered.stderr else 0.0
        rows += [
            ("prediction-powered user accuracy", powered.user_accuracy),
            ("prediction-powered drop", drop, powered.stderr, drop - half, drop + half),
            (f"p-value of the prediction-powered drop ({FEW_ERRORS}+ errors)", powered.p_value),
            ("p-value of the same by betting (any number of labels)", powered.betting_p_value),
        ]
    suitable, unsuitable = alone.suitable_p <= alpha, alone.unsuitable_p <= alpha
    doubts += _disagreement(suitable, unsuitable, decision)
    return rows, adjusted, powered, suitable, unsuitable, doubts


def _offset(
    part: str,
    correct: Flags,
    labeled: Flags,
    estimated: Array,
    alpha: float,
    rows: list[tuple],
    doubts: list[str],
) -> list[tuple[Array, Flags]]:
    """How far the estimates of a part are off; returns those of labeled rows, and the truth."""
    if len(correct) < 2:
        why = (
            "whether the estimator is calibrated on test data cannot be checked"
            if part == "test"
            else "that the estimator is as well calibrated on user data as on test data is an "
            "assumption, which nothing here can check"
        )
        doubts.append(f"without labels of the {part} data, at least 2, {why}")
        return []
    of_labeled = estimated[labeled]
    offset = calibration_offset(of_labeled, correct)
    half = float(stats.t.isf(alpha, offset.n - 1)) * offset.stderr
    accuracy, low, high = share(correct, level(alpha))
    rows += [
        (f"estimated accuracy on labeled {part} rows", float(of_labeled.mean())),
        (f"accuracy on labeled {part} rows", accuracy, math.nan, low, high),
        (
            f"Delta_{part} (estimated minus true)",
            offset.value,
            offset.stderr,
            offset.value - half,
            offset.value + half,
        ),
    ]
    if abs(offset.value) > _DOUBTFUL * offset.stderr:
        doubts.append(
            f"the estimator is miscalibrated on {part} data: it puts the accuracy at "
            f"{of_labeled.mean():.3f}, the labels at {accuracy:.3f}"
        )
    fewest = min(int(correct.sum()), int((~correct).sum()))
    if fewest < FEW_ERRORS:
        doubts.append(
            f"of the labeled {part} rows only {fewest} {'is' if fewest == 1 else 'are'} "
            f"{'right' if accuracy < 0.5 else 'wrong'}, too few for standard errors of what "
            "they tell"
        )
    return [(of_labeled, correct)]


def _disagreement(suitable: bool, unsuitable: bool, decision: Decision) -> list[str]:
    """What to note if the labels say something else than the estimates."""
    if unsuitable:
        return [
            "the labels refute that the model is suitable"
            + (", though the estimates do not" if decision.suitable else "")
        ]
    if suitable != decision.suitable:
        return [
            "the labels "
            + (
                "show that the model is suitable, though the estimates do not"
                if suitable
                else "do not confirm that the model is suitable: it depends on estimates whose "
                "error on user data may be too large"
            )
        ]
    return []


# --- warnings -------------------------------------------------------------------------------------


def few_rows(given: ModelPredictions) -> Iterator[str]:
    """A warning of a holdout of too few rows; the filter itself notes the others."""
    correct, _ = given.correct("holdout")
    rarer = min(int(correct.sum()), int((~correct).sum()))
    if rarer < _PER_SIGNAL * len(SIGNAL_NAMES):
        yield (
            f"the holdout is small: of its {counted(len(correct), 'prediction')} only {rarer} "
            f"{'is' if rarer == 1 else 'are'} {'wrong' if correct.mean() > 0.5 else 'right'}, and "
            f"the estimator has {len(SIGNAL_NAMES)} signals to weigh"
        )


def repeated(given: ModelPredictions) -> Iterator[str]:
    """A warning of test rows that are in the holdout.

    Where logits have few values, or few digits, rows are alike without being the same: then as
    many test rows are like a holdout row as holdout rows are like another, and pairs of a test and
    a holdout row are alike as often as pairs within them.  Only more of both are worth a warning:
    it takes about ten copies of rows that are all different.
    """
    # Hashes, as the rows themselves may be many and long.
    holdout, test = (
        [hash(row.astype(float).tobytes()) for row in logits]
        for logits in (given.holdout_logits, given.test_logits)
    )
    seen, own = Counter(holdout), Counter(test)
    repeated = sum(row in seen for row in test)
    n, m = len(holdout), len(test)
    across = sum(count * seen[row] for row, count in own.items())
    within = sum(count * (count - 1) // 2 for each in (seen, own) for count in each.values())
    # Of pairs that are alike by chance, this many are of a row of each: where few are alike, their
    # number is all that tells how likely that is.
    fair = n * m / (n * m + n * (n - 1) / 2 + m * (m - 1) / 2)
    by_pairs = stats.binom.sf(across - 1, across + within, fair)
    alike = sum(count for count in seen.values() if count > 1)
    # The tail of the smaller fraction with one success and one failure more, as Laplace has it.
    expected = (alike + 1) / (n + 2) if alike else 0.0
    by_rows = stats.binom.sf(repeated - 1, m, expected)
    if repeated and max(by_rows, by_pairs) < _BY_CHANCE:
        yield (
            f"{repeated} of {m} test rows have the logits of a holdout "
            "row: the two must be different data"
        )


def beyond(outside: dict[str, float]) -> Iterator[str]:
    """A warning of user rows that are like none of the holdout."""
    if outside["user"] > _OUTSIDE:
        yield (
            f"{outside['user']:.0%} of the user rows have a signal beyond its range in the holdout "
            f"(of the test rows {outside['test']:.0%}): there the estimates are extrapolated"
        )


def weak(
    decision: Decision,
    chance: float,
    required: int | None,
    unreachable: str,
    by_labels: bool | None,
    against: bool | None,
) -> Iterator[str]:
    """What stands against a decision, or against its lack."""
    if required is None and decision.margin <= 0:
        yield (
            f"with a margin of {decision.margin:g} equally accurate data are not found suitable "
            "more often than by chance, however many rows there are: only a positive margin "
            "allows for a power to plan for"
        )
    elif required is None:
        yield f"no number of user rows is enough for a power of {POWER:g}: {unreachable}"
    if decision.suitable:
        return
    if by_labels:  # what the estimates cannot decide is decided
        return
    if not against:
        yield "INCONCLUSIVE is not unsuitable: it is not shown either that the drop is too large"
    if required is not None and chance < POWER:
        yield (
            f"equally accurate user data would be found suitable with a probability of only "
            f"{chance:.2f}; it takes {required:,} user rows for {POWER:g}"
        )
