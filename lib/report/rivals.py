"""Models that never abstain, compared row by row."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from lib.report.abstention import with_outcome
from lib.report.predictions import ModelPredictions
from lib.report.types import ANALYSES, Analysis, Settings, mean_of
from lib.suitability.equivalence import _holm

Array = npt.NDArray[Any]

_NAMED = 5  # models that the verdict names; the table has all


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
        found.append((name, float(other.mean()), *difference, better, worse))
        p_values.append(exact_p(better, worse))
    columns = ["model", "its accuracy", "difference", "low", "high"]
    columns += ["only the reported one right", "only it right"]
    table = pd.DataFrame(found, columns=columns)
    table["decided"] = _decided(table, p_values, clusters is not None, settings)
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
        ANALYSES["comparison"],
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
        (),
    )


def _decided(
    table: pd.DataFrame, p_values: list[float], clustered: bool, settings: Settings
) -> list[str]:
    """Which of two is better, at the level of the settings for all models together."""
    if clustered:
        sure = ((table["low"] > 0) | (table["high"] < 0)).to_numpy()
    else:
        sure = _holm(np.array(p_values)) <= settings.alpha
    return [
        ("the reported model is better" if d > 0 else "the other is better") if s else "not decided"
        for d, s in zip(table["difference"], sure, strict=True)
    ]
