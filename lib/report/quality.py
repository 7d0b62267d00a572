"""How good the model is: beside a constant, class by class, and whether its confidence is true."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from lib.report import figures
from lib.report.confidence import BINS, CLOSE, FINER, averages, by_confidence, error_limits, judged
from lib.report.findings import Calibration, Finding, Goodness, Measured, Outcome
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
from lib.suitability.clusters import FEW_ROWS

Array = npt.NDArray[Any]

_CLASSES = 20  # of a confusion matrix
_BY_CLASS = "Class by class: rows, recall with its interval, precision and F1; the commonest first"
_CONFUSED = "true class by row, answer by column; counts of rows"
_CERTAIN = 0.99  # confidence from which a wrong answer is one that was certain
_MANY = 20  # answers that are rarely all right
_NAMED = 5  # groups or classes that a note names
_LOSS, _LOSS_BESIDE = "log loss (NLL, nats)", "log loss of the classes' fractions (nats)"
_BRIER = "Brier score (sum over classes)"
_BRIER_BESIDE = "Brier score of the classes' fractions"
#: The sentence that follows from each outcome.
_SAID = {
    Outcome.BETTER: "It is better than that",
    Outcome.NOT_IN_ALL_GROUPS: "It is better than that over all, but not in every group",
    Outcome.ALL_RIGHT: "All answers are right, so that the labels should be checked",
    Outcome.NOT_SHOWN_BETTER: "That the model is better than that is not shown",
    Outcome.WORSE: "It is worse than that",
    Outcome.ONE_CLASS: "All labels are of that class, so that nothing is shown against a constant",
    Outcome.ACCURACY_ONLY: "Without labels it cannot be held against a constant",
    Outcome.CLOSE: f"Its confidence is true to within {CLOSE:g} on average",
    Outcome.TOO_SURE: "It is surer than it is right",
    Outcome.TOO_MODEST: "It is right more often than it is sure",
    Outcome.TOO_SURE_IN_PLACES: "At some confidences it is surer than it is right, at others not",
    Outcome.TOO_MODEST_IN_PLACES: "At some confidences it is right more often than it is sure, "
    "though not on average",
    Outcome.NOT_SHOWN_TRUE: f"Whether its confidence is true to within {CLOSE:g} is not shown",
}


def obstacle(given: ModelPredictions) -> str:
    """Why accuracy cannot be told: empty if it can."""
    if not_at_random(given):
        return (
            "test_labels are unknown only, or more often, where the model abstained: the labeled "
            "rows are no random sample, and their accuracy is not that of all rows"
        )
    correct, _ = given.correct("test")
    return "" if len(correct) else "no test row has a label and an answer"


class _Rows:
    """The labeled and answered test rows."""

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
        """Of a class, in a table."""
        return str(self.names[j]) if j < len(self.names) else str(j)

    def called(self, j: int) -> str:
        """Of a class, in a sentence."""
        return called(self.names, j)


def called(names: Sequence[str], j: int) -> str:
    """A class in a sentence: by its name, or as the class of a number."""
    return repr(names[j]) if j < len(names) else f"class {j}"


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
    ask = "are labels and columns in the same order, and counted from the same number?"
    if given.test_logits is None:
        ask = "are labels and answers coded alike?"
    return (
        f"the model is right in {correct.mean():.3f} of the rows, always answering "
        f"{called(given.class_names, one)} would be in {most:.3f}: {ask}"
    )


def all_right(given: ModelPredictions) -> bool:
    """Whether so many answers are right, and none is wrong, that the labels are to be doubted."""
    correct, rows = given.correct("test")
    if given.test_labels is None or len(correct) < _MANY:
        return False
    return bool(correct.all() and len(np.unique(given.test_labels[rows])) > 1)


def analyse(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report."""
    rows = _Rows(given)
    accuracy, low, high = share(rows.correct, settings.level, rows.clusters)
    n = len(rows.correct)
    items: list[tuple] = [("labeled test rows", n), ("accuracy", accuracy, low, high)]
    values: dict[str, Any] = {"quality_accuracy": accuracy}
    tables: dict[str, pd.DataFrame] = {}
    captions: dict[str, str] = {"quality": "How good the model is, beside a constant"}
    verdict = f"Right in {accuracy:.3f} ({settings.percent} interval {low:.3f} to {high:.3f})"
    verdict += f" of {counted(n, 'row')}"
    good = Goodness(Outcome.ACCURACY_ONLY, n, Measured(accuracy, low, high))
    findings: list[Finding] = [good]
    drawings, doubts = {}, []
    if rows.clusters is not None:
        count = len(np.unique(rows.clusters))
        items.insert(1, ("clusters", count))
        doubts += doubts_of_clusters(count, n)
    if rows.labels is not None:
        worse = _worse_groups(rows, settings)
        findings, beside = beside_constant(good, rows, bool(worse), all_right(given), settings)
        items += beside
        values["quality_commonest"] = findings[0].constant
        verdict += f"; always answering {findings[0].commonest} would be in {beside[0][1]:.3f}"
        tables["quality_classes"] = by_class(rows, settings)
        tables["quality_confusion"] = confusion(rows)
        captions["quality_classes"] = _BY_CLASS
        kept = f" of the {_CLASSES} commonest classes" * (len(np.unique(rows.labels)) > _CLASSES)
        captions["quality_confusion"] = f"Confusion matrix{kept}: {_CONFUSED}"
        doubts += _doubts(given, rows) + worse
    verdict += f". {_SAID[findings[0].outcome]}"
    if rows.probabilities is not None:
        scored = _probabilistic(rows)
        items += scored
        doubts += _dearer(dict(scored)) if len(np.unique(rows.labels)) > 1 else []
    if rows.confidence is not None:
        bins, error = _calibration(rows, settings)
        items.append((f"expected calibration error (ECE), {BINS} bins", *error.values()))
        values |= error
        tables["quality_bins"] = bins
        captions["quality_bins"] = (
            f"Accuracy by confidence; intervals hold together at {settings.percent}"
        )
        drawings["quality_reliability"] = _reliability(bins, settings)
        drawings |= _ranking(rows)
        finer = by_confidence(rows.confidence, rows.correct, settings.alpha, rows.clusters, FINER)
        outcome = judged(bins, finer)
        findings.append(Calibration(outcome, *averages(bins), Measured(*error.values()), bins))
        verdict += f". {_SAID[findings[-1].outcome]}"
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
        findings=tuple(findings),
    )


def beside_constant(
    good: Goodness, rows: _Rows, worse: bool, suspicious: bool, settings: Settings
) -> tuple[list[Finding], list[tuple]]:
    """The finding beside the commonest class, and the rows of a table that tell of it.

    Parameters
    ----------
    good : Goodness
        What is found without it.
    rows : object
        With `labels`, `correct`, `clusters` and `called`, which names a class.
    worse, suspicious : bool
        Whether some class is worse than by chance, and whether all answers are right.
    settings : Settings
        Whose level the decision has.

    Returns
    -------
    tuple of list
        Findings, and rows.
    """
    one, most = commonest(rows.labels)
    gap = _against_constant(rows, one, settings.level)
    # The rows chose the class, so that it looks commoner than it is: what is shown to be worse pays
    # for a choice among all classes. To be better is harder against it than against any other.
    among = 1 - settings.alpha / len(np.unique(rows.labels))
    below = _against_constant(rows, one, among)[2] < 0
    name = rows.called(one)
    outcome = Outcome.ONE_CLASS if most == 1 else _against(gap[1], below, worse, suspicious)
    found: list[Finding] = [replace(good, outcome=outcome, commonest=name, constant=most)]
    return found, [(f"always the commonest, {name}", most), ("accuracy minus that", *gap)]


def _against(low: float, below: bool, worse: bool, suspicious: bool) -> Outcome:
    """What the difference to a constant shows, and what stands against it."""
    if below:
        return Outcome.WORSE
    if low <= 0:
        return Outcome.NOT_SHOWN_BETTER
    if suspicious:
        return Outcome.ALL_RIGHT
    return Outcome.NOT_IN_ALL_GROUPS if worse else Outcome.BETTER


def doubts_of_clusters(count: int, n: int) -> list[str]:
    """What is doubtful about intervals of so many clusters.

    Parameters
    ----------
    count, n : int
        Clusters and rows.

    Returns
    -------
    list of str
        Notes.
    """
    doubts = [f"intervals count {counted(count, 'cluster')}, not {counted(n, 'row')}"]
    if count < FEW_ROWS:
        doubts.append(
            f"{counted(count, 'cluster')} are few: if large ones differ from small ones, those "
            "that happen to be missing may be what matters"
        )
    return doubts


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
        name = rows.name(int(j))
        found.append((name, int(counts[j]), int(answered.sum()), *recall, precision, f1))
    columns = ["class", "rows", "answers", "recall", "low", "high", "precision", "F1"]
    return pd.DataFrame(found, columns=columns)


def confusion(rows: _Rows) -> pd.DataFrame:
    """Counts by true class and answer, of the commonest classes; others are one column."""
    counts = np.bincount(rows.labels)
    kept = [int(j) for j in np.argsort(-counts, kind="stable")[:_CLASSES] if counts[j]]
    names = [rows.name(j) for j in kept]
    found = {"true class": names}
    for j, name in zip(kept, names, strict=True):
        answered = rows.predicted == j
        found[f"says {name}"] = [int((answered & (rows.labels == i)).sum()) for i in kept]
    other = ~np.isin(rows.predicted, kept)
    if other.any():
        found["says another"] = [int((other & (rows.labels == i)).sum()) for i in kept]
    return pd.DataFrame(found)


def _doubts(given: ModelPredictions, rows: _Rows) -> list[str]:
    """Where the model is no better than a constant, or says one thing only."""
    found = [text] if (text := no_better_than_constant(given)) else []
    if all_right(given):
        found.append(
            f"all {len(rows.correct):,} answers are right: are the labels what is true, and not "
            "what the model said?"
        )
    said, labels = np.unique(rows.predicted), np.unique(rows.labels)
    if len(labels) == 1 and len(rows.labels) >= _MANY:
        found.append(
            f"all labels are the same, {rows.called(int(labels[0]))}: of others nothing is known"
        )
    if len(said) == 1 and len(labels) > 1:
        found.append(f"all predictions are the same, {rows.called(int(said[0]))}")
    elif never := [int(j) for j in labels if j not in said]:
        names = ", ".join(rows.called(j) for j in never[:_NAMED]) + ", ..." * (len(never) > _NAMED)
        found.append(f"the model never answers {len(never)} of {len(labels)} classes: {names}")
    return found


def _worse_groups(rows: _Rows, settings: Settings) -> list[str]:
    """A note of groups in which the model is right less often than their commonest class."""
    if rows.groups is None:
        return []
    worse = []
    names = np.unique(rows.groups)
    # A class is the commonest of a small group by chance: for all groups and classes together.
    level = 1 - settings.alpha / (len(names) * len(np.unique(rows.labels)))
    for name in names:
        of_group = rows.groups == name
        one, most = commonest(rows.labels[of_group])
        right = rows.correct[of_group].mean()
        if right < most and _against_constant(rows, one, level, of_group)[2] < 0:
            size = counted(of_group.sum(), "row")
            worse.append(f"{name} ({right:.3f} against {most:.3f}, {size})")
    shown = ", ".join(worse[:_NAMED]) + ", ..." * (len(worse) > _NAMED)
    return [
        f"in {len(worse)} of {counted(len(names), 'group')} the model is right less often than the "
        f"group's commonest class: {shown}"
    ] * bool(worse)


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
        (_LOSS, float(-rows.logarithms[own].mean())),
        (_LOSS_BESIDE, entropy),
        (_BRIER, brier),
        (_BRIER_BESIDE, gini),
    ]
    second = rows.labels == 1
    if k == 2 and second.any() and not second.all():
        score = rows.logarithms[:, 1] - rows.logarithms[:, 0]
        found.append((f"area under the ROC curve, {rows.called(1)}", auc(score, second)))
    return found


def _dearer(scored: dict[str, float]) -> list[str]:
    """A note where the same fractions for every row would have cost less, on these rows."""
    pairs = ((_LOSS, _LOSS_BESIDE), (_BRIER, _BRIER_BESIDE))
    worse = [
        f"{name.partition(' (')[0]} {scored[name]:.3f} against {scored[beside]:.3f}"
        for name, beside in pairs
        if scored[name] > scored[beside]
    ]
    return [
        f"on these rows the probabilities are worse than the classes' fractions, given for every "
        f"row: {', '.join(worse)} (less is better)"
    ] * bool(worse)


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
        f"{settings.percent}; below the diagonal the model is surer than it is right. Sizes show "
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
            f"The class {rows.name(1)!r} at all thresholds of its probability: ROC curve, and "
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
