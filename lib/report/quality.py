"""How good the model is: beside a constant, class by class, and whether its confidence is true."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from lib.report import figures
from lib.report.confidence import BINS, CLOSE, by_confidence, error_limits, judged
from lib.report.naming import counted
from lib.report.outputs import auc
from lib.report.predictions import ModelPredictions
from lib.report.types import (
    ANALYSES,
    Analysis,
    Drawing,
    Settings,
    mean_of,
    not_at_random,
    share,
    table,
)
from lib.suitability import calibration_errors

Array = npt.NDArray[Any]

_CLASSES = 20  # of a confusion matrix
_BY_CLASS = "Class by class: rows, recall with its interval, precision and F1; the commonest first"
_CERTAIN = 0.99  # confidence from which a wrong answer is one that was certain
_MANY = 20  # answers that are rarely all right
_NAMED = 5  # groups or classes that a note names
#: What a verdict says of the confidence, by what :func:`lib.report.confidence.judged` finds.
_TRUE = {
    "close": f"Its confidence is true to within {CLOSE:g} on average",
    "too sure": "It is surer than it is right",
    "too modest": "It is right more often than it is sure",
    "open": f"Whether its confidence is true to within {CLOSE:g} is not shown",
}


def obstacle(given: ModelPredictions) -> str:
    """Why accuracy cannot be told: empty if it can."""
    if not_at_random(given):
        return (
            "test_labels are unknown only, or more often, where the model abstained: the labelled "
            "rows are no random sample, and their accuracy is not that of all rows"
        )
    correct, _ = given.correct("test")
    return "" if len(correct) else "no test row has a label and an answer"


class _Rows:
    """The labelled and answered test rows."""

    def __init__(self, given: ModelPredictions):
        self.correct, self.rows = given.correct("test")
        self.clusters = None if given.test_clusters is None else given.test_clusters[self.rows]
        self.groups = None if given.test_groups is None else given.test_groups[self.rows]
        self.labels = self.predicted = self.probabilities = self.confidence = None
        if given.test_labels is not None:
            self.labels = given.test_labels[self.rows]
            self.predicted = given.answers("test")[self.rows]
        if given.test_logits is not None and self.labels is not None:
            logits = given.test_logits[self.rows].astype(float)
            self.probabilities = special.softmax(logits, axis=1)
            self.logarithms = special.log_softmax(logits, axis=1)
            self.confidence = self.probabilities.max(axis=1)
        elif given.test_confidence is not None:
            told = given.test_confidence[self.rows]
            # Any number may say how sure a model is; of those in [0, 1] it can be asked how true.
            if len(told) and told.min() >= 0 and told.max() <= 1:
                self.confidence = told
        self.names = given.class_names

    def name(self, j: int) -> str:
        """Of a class."""
        return repr(self.names[j]) if j < len(self.names) else str(j)


def commonest(labels: Array) -> tuple[int, float]:
    """The commonest class and its fraction."""
    counts = np.bincount(labels)
    return int(counts.argmax()), float(counts.max() / len(labels))


def no_better_than_constant(given: ModelPredictions) -> str:
    """What to say if the model is right no more often than the commonest class; else empty."""
    correct, rows = given.correct("test")
    if given.test_labels is None or not len(correct):
        return ""
    one, most = commonest(given.test_labels[rows])
    if correct.mean() > most or most == 1:
        return ""
    name = repr(given.class_names[one]) if one < len(given.class_names) else f"class {one}"
    return (
        f"the model is right in {correct.mean():.3f} of the rows, always answering {name} would be "
        f"in {most:.3f}: are labels and columns in the same order, and counted from the same "
        "number?"
    )


def analyse(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report."""
    rows = _Rows(given)
    accuracy, low, high = share(rows.correct, settings.level, rows.clusters)
    n = len(rows.correct)
    items: list[tuple] = [("labelled test rows", n), ("accuracy", accuracy, low, high)]
    values: dict[str, Any] = {"quality_accuracy": accuracy}
    tables: dict[str, pd.DataFrame] = {}
    captions: dict[str, str] = {"quality": "How good the model is, beside a constant"}
    verdict = f"Right in {accuracy:.3f} ({low:.3f} to {high:.3f}) of {counted(n, 'row')}"
    drawings, doubts = {}, []
    if rows.clusters is not None:
        count = len(np.unique(rows.clusters))
        items.insert(1, ("clusters", count))
        doubts.append(f"intervals count {counted(count, 'cluster')}, not {counted(n, 'row')}")
    if rows.labels is not None:
        one, most = commonest(rows.labels)
        gap = _against_constant(rows, one, settings.level)
        items += [
            (f"always the commonest class, {rows.name(one)}", most),
            ("accuracy minus that", *gap),
        ]
        values["quality_commonest"] = most
        verdict += f"; always answering {rows.name(one)} would be in {most:.3f}"
        if gap[1] <= 0:
            verdict += ". That the model is better than that is not shown"
        tables |= {
            "quality_classes": by_class(rows, settings),
            "quality_confusion": confusion(rows),
        }
        captions["quality_classes"] = _BY_CLASS
        captions["quality_confusion"] = (
            f"Confusion matrix of the {min(_CLASSES, len(np.unique(rows.labels)))} commonest "
            "classes: true class by row, answer by column"
        )
        doubts += _doubts(given, rows, settings)
    if rows.probabilities is not None:
        items += _probabilistic(rows)
    if rows.confidence is not None:
        bins, error = _calibration(rows, settings)
        items.append((f"expected calibration error (ECE), {BINS} bins", *error.values()))
        values |= error
        tables["quality_bins"] = bins
        captions["quality_bins"] = (
            f"Accuracy by confidence; intervals hold together at {settings.level:.0%}"
        )
        drawings["quality_reliability"] = _reliability(bins, settings)
        drawings |= _ranking(rows)
        verdict += f". {_TRUE[judged(bins)]}"
        doubts += _certain_and_wrong(rows, settings)
    return Analysis(
        "quality",
        ANALYSES["quality"],
        {"quality": table(items, ["item", "value", "low", "high"]), **tables},
        captions,
        drawings,
        f"{verdict}.",
        values,
        tuple(doubts),
    )


def _against_constant(
    rows: _Rows, one: int, level: float, inside: Any = slice(None)
) -> tuple[float, float, float]:
    """Accuracy minus that of always one class, with an interval, by pairs of rows."""
    difference = rows.correct[inside].astype(float) - (rows.labels[inside] == one)
    clusters = None if rows.clusters is None else rows.clusters[inside]
    return mean_of(difference, (-1.0, 1.0), level, clusters)


def by_class(rows: _Rows, settings: Settings) -> pd.DataFrame:
    """Rows, recall and precision of each class, the commonest first."""
    found = []
    counts = np.bincount(rows.labels)
    order = [j for j in np.argsort(-counts, kind="stable") if counts[j]]
    for j in order[:1000]:
        of_class = rows.labels == j
        clusters = None if rows.clusters is None else rows.clusters[of_class]
        recall = share(rows.correct[of_class], settings.level, clusters)
        answered = rows.predicted == j
        precision = float(rows.correct[answered].mean()) if answered.any() else math.nan
        right = int((of_class & answered).sum())
        f1 = 2 * right / int(counts[j] + answered.sum())
        name = rows.name(int(j)).strip("'")
        found.append((name, int(counts[j]), int(answered.sum()), *recall, precision, f1))
    columns = ["class", "rows", "answers", "recall", "low", "high", "precision", "F1"]
    return pd.DataFrame(found, columns=columns)


def confusion(rows: _Rows) -> pd.DataFrame:
    """Counts by true class and answer, of the commonest classes; others are one column."""
    counts = np.bincount(rows.labels)
    kept = [int(j) for j in np.argsort(-counts, kind="stable")[:_CLASSES] if counts[j]]
    names = [rows.name(j).strip("'") for j in kept]
    found = {"true class": names}
    for j, name in zip(kept, names, strict=True):
        answered = rows.predicted == j
        found[f"says {name}"] = [int((answered & (rows.labels == i)).sum()) for i in kept]
    other = ~np.isin(rows.predicted, kept)
    if other.any():
        found["says another"] = [int((other & (rows.labels == i)).sum()) for i in kept]
    return pd.DataFrame(found)


def _doubts(given: ModelPredictions, rows: _Rows, settings: Settings) -> list[str]:
    """Where the model is no better than a constant, or says one thing only."""
    found = [text] if (text := no_better_than_constant(given)) else []
    if rows.correct.all() and len(rows.correct) >= _MANY and len(np.unique(rows.labels)) > 1:
        found.append(
            f"all {len(rows.correct):,} answers are right: are the labels what is true, and not "
            "what the model said?"
        )
    said, labels = np.unique(rows.predicted), np.unique(rows.labels)
    if len(labels) == 1 and len(rows.labels) >= _MANY:
        found.append(
            f"all labels are one class, {rows.name(int(labels[0]))}: of others nothing is known"
        )
    if len(said) == 1 and len(labels) > 1:
        found.append(f"all predictions are one class, {rows.name(int(said[0]))}")
    elif never := [int(j) for j in labels if j not in said]:
        names = ", ".join(rows.name(j) for j in never[:_NAMED]) + ", ..." * (len(never) > _NAMED)
        found.append(f"the model never answers {len(never)} of {len(labels)} classes: {names}")
    if rows.groups is None:
        return found
    worse = []
    names = np.unique(rows.groups)
    # A class is the commonest of a small group by chance: for all groups and classes together.
    level = 1 - settings.alpha / (len(names) * len(labels))
    for name in names:
        of_group = rows.groups == name
        one, most = commonest(rows.labels[of_group])
        right = rows.correct[of_group].mean()
        if right < most and _against_constant(rows, one, level, of_group)[2] < 0:
            size = counted(of_group.sum(), "row")
            worse.append(f"{name} ({right:.3f} against {most:.3f}, {size})")
    if worse:
        shown = ", ".join(worse[:_NAMED]) + ", ..." * (len(worse) > _NAMED)
        found.append(
            f"in {len(worse)} of {len(names)} groups the model is right less often than the "
            f"group's commonest class: {shown}"
        )
    return found


def _probabilistic(rows: _Rows) -> list[tuple]:
    """Scores of the probabilities, beside those of the classes' fractions for every row."""
    n, k = rows.probabilities.shape
    own = np.arange(n), rows.labels
    fractions = np.bincount(rows.labels, minlength=k) / n
    entropy = float(special.entr(fractions).sum())
    gini = float(1 - (fractions**2).sum())
    truth = np.zeros((n, k))
    truth[own] = 1
    brier = float(((rows.probabilities - truth) ** 2).sum(axis=1).mean())
    found: list[tuple] = [
        ("log loss (NLL)", float(-rows.logarithms[own].mean())),
        ("log loss of the classes' fractions", entropy),
        ("Brier score (sum over classes)", brier),
        ("Brier score of the classes' fractions", gini),
    ]
    second = rows.labels == 1
    if k == 2 and second.any() and not second.all():
        score = rows.logarithms[:, 1] - rows.logarithms[:, 0]
        found.append((f"area under the ROC curve, {rows.name(1)}", auc(score, second)))
    return found


def _calibration(rows: _Rows, settings: Settings) -> tuple[pd.DataFrame, dict[str, float]]:
    """The bins of a reliability diagram, and the calibration error with its limits."""
    bins = by_confidence(rows.confidence, rows.correct, settings.alpha, rows.clusters)
    low, high = error_limits(bins)
    ece = calibration_errors(rows.confidence, rows.correct, BINS).ece
    return bins, {"ece": ece, "ece_low": low, "ece_high": high}


def _reliability(bins: pd.DataFrame, settings: Settings) -> Drawing:
    """Accuracy against confidence."""
    return Drawing(
        lambda: figures.plot_reliability(bins),
        "Accuracy by confidence in bins, with intervals; on the diagonal confidence is true.",
        f"Accuracy by confidence, in at most {BINS} bins, with intervals that hold together at "
        f"{settings.level:.0%}; below the diagonal the model is surer than it is right. Sizes show "
        "numbers of rows.",
    )


def _ranking(rows: _Rows) -> dict[str, Drawing]:
    """How well the second of two classes is told from the first, at all thresholds."""
    if rows.probabilities is None or rows.probabilities.shape[1] != 2:
        return {}
    second, score = rows.labels == 1, rows.logarithms[:, 1] - rows.logarithms[:, 0]
    if second.all() or not second.any():
        return {}
    return {
        "quality_ranking": Drawing(
            lambda: figures.plot_ranking(second, score),
            "An ROC curve beside the diagonal of chance, and a curve of precision by recall.",
            f"The class {rows.name(1)} at all thresholds of its probability: ROC curve, and "
            "precision by recall. Dotted: an order by chance.",
        )
    }


def _certain_and_wrong(rows: _Rows, settings: Settings) -> list[str]:
    sure = rows.confidence > _CERTAIN
    wrong = int((~rows.correct[sure]).sum())
    if not wrong:
        return []
    clusters = None if rows.clusters is None else rows.clusters[sure]
    _, low, _ = share(~rows.correct[sure], settings.level, clusters)
    if low <= 1 - _CERTAIN:
        return []
    return [
        f"certain and wrong: of {counted(int(sure.sum()), 'answer')} with a confidence above "
        f"{_CERTAIN:g}, {wrong:,} {'is' if wrong == 1 else 'are'} wrong"
    ]
