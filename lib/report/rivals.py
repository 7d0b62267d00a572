"""Models that never abstain, compared row by row."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.report.abstention import with_outcome
from lib.report.findings import Measured, Outcome, Rivalry, winner
from lib.report.predictions import ModelPredictions
from lib.report.types import Analysis, Settings, mean_of
from lib.suitability.equivalence import _holm
from lib.suitability.labels import clopper_pearson

Array = npt.NDArray[Any]

_NAMED = 5  # models that the verdict names; the table has all
_DECIDED = {
    Outcome.AHEAD: "the reported model is better",
    Outcome.BEHIND: "the other is better",
    Outcome.UNDECIDED: "not decided",
}


def never_abstain(given: ModelPredictions) -> bool:
    """Whether there are answers of another model, and neither ever abstained."""
    if not given.rivals and not given.has("other_logits"):
        return False
    for who in ("test", "other"):
        abstained = getattr(given, f"{who}_abstained")
        if abstained is not None and abstained.any():
            return False
    logits = given.other_logits
    return logits is None or not np.isnan(logits).any()


def obstacle(given: ModelPredictions) -> str:
    """Why models cannot be compared: empty if they can."""
    if given.test_labels is None:
        return "missing: test_labels"
    if len(given.correct("test")[0]) < 2:
        return "at least 2 test rows must have a label and an answer"
    return ""


def _answers(given: ModelPredictions) -> dict[str, Array]:
    found = dict(given.rivals)
    if given.has("other_logits"):
        found["the competitor"] = given.other_logits.argmax(axis=1)
    return found


def exact_p(better: int, worse: int) -> float:
    """McNemar's exact two-sided p-value: of rows that one model alone gets right, half are fair."""
    if better + worse == 0:
        return 1.0
    return float(stats.binomtest(better, better + worse, 0.5).pvalue)


def analyse(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report: accuracies, and differences by pairs of rows."""
    correct, rows = given.correct("test")
    labels = given.test_labels[rows]
    clusters = None if given.test_clusters is None else given.test_clusters[rows]
    found, p_values = [], []
    others = _answers(given)
    for name, answers in others.items():
        other = answers[rows] == labels
        better, worse = int((correct & ~other).sum()), int((~correct & other).sum())
        level = 1 - settings.alpha / (len(others) if clusters is not None else 1)
        difference = mean_of(correct.astype(float) - other, (-1.0, 1.0), level, clusters)
        if clusters is None:
            difference = with_exact(difference, better, worse, len(correct), settings.alpha)
        found.append((name, float(other.mean()), *difference, better, worse))
        p_values.append(exact_p(better, worse))
    columns = ["model", "its accuracy", "difference", "low", "high"]
    columns += ["only the reported one right", "only it right"]
    table = pd.DataFrame(found, columns=columns)
    outcomes = _outcomes(table, p_values, clusters is not None, settings)
    table["decided"] = [_DECIDED[outcome] for outcome in outcomes]
    if clusters is None:
        table["p-value (exact, Holm)"] = _holm(np.array(p_values))
    texts = []
    for row in table.head(_NAMED).to_dict("records"):
        value, low, high = with_outcome([row[name] for name in ("difference", "low", "high")])
        texts.append(f"{row['model']}: {value} ({low} to {high}), {row['decided']}")
    first = table.iloc[0]
    caption = "The reported model's accuracy minus each other's, on the same rows"
    if clusters is None and len(others) > 1:
        caption += "; each interval is at the level by itself, the decision for all models together"
    how = (
        "by intervals that count clusters and hold together"
        if clusters is not None
        else "by McNemar's exact test, with Holm's correction for all models"
    )
    return Analysis(
        "comparison",
        "Comparison with other models",
        {"comparison": table},
        {"comparison": caption},
        {},
        "The models never abstain, so that they are compared row by row. The reported one's "
        f"accuracy, {correct.mean():.3f}, minus that of " + "; ".join(texts) + f" ({how}).",
        {
            "difference": float(first["difference"]),
            "difference_low": float(first["low"]),
            "difference_high": float(first["high"]),
        },
        findings=(
            Rivalry(
                outcomes[0],
                Measured(*(float(first[name]) for name in ("difference", "low", "high"))),
                str(first["model"]),
                len(table) - 1,
            ),
        ),
    )


def with_exact(
    found: tuple[float, float, float], better: int, worse: int, rows: int, alpha: float
) -> tuple[float, float, float]:
    """Widen an interval so that it holds zero where McNemar's exact test does not reject it.

    Parameters
    ----------
    found : tuple of float
        A difference and its interval.
    better, worse : int
        Rows in which only the first, or only the second, is right.
    rows : int
        All rows.
    alpha : float
        Level of the test.

    Returns
    -------
    tuple of float
        The difference and the interval, no narrower.
    """
    value, low, high = found
    if (apart := better + worse) == 0:
        return found
    least, most = clopper_pearson(better, apart, alpha / 2)
    scale = apart / rows
    return value, min(low, (2 * least - 1) * scale), max(high, (2 * most - 1) * scale)


def _outcomes(
    table: pd.DataFrame, p_values: list[float], clustered: bool, settings: Settings
) -> list[Outcome]:
    """Which of two is better, at the level of the settings for all models together.

    Rows that are independent must pass both: the test, and the interval that stands beside it.
    """
    found = [winner(ends) for ends in table[["low", "high"]].to_numpy()]
    if clustered:
        return found
    sure = _holm(np.array(p_values)) <= settings.alpha
    return [one if s else Outcome.UNDECIDED for one, s in zip(found, sure, strict=True)]
