"""Is my model suitable for the user's data? The filter's decision, and how sure it is."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from lib import suitability
from lib.check import as_number
from lib.report import figures
from lib.report import suitability_numbers as numbers
from lib.report.collect import about
from lib.report.findings import Measured, Outcome, Transfer
from lib.report.naming import counted
from lib.report.predictions import ModelPredictions
from lib.report.types import (
    ANALYSES,
    POWER,
    Analysis,
    Drawing,
    Settings,
    check,
    not_at_random,
    silent,
)
from lib.suitability.estimator import N_SPLITS
from lib.suitability.filter import Decision, SuitabilityFilter, p_text
from lib.suitability.guarantees import PredictionPowered
from lib.suitability.signals import signals
from lib.suitability.tipping import FMOW_ERRORS, tipping_point

NEEDS = ("holdout_logits", "holdout_labels", "test_logits", "user_logits")


@dataclass(frozen=True, eq=False)
class SuitabilityReport:
    """What can be said of a classifier on user data.

    Attributes
    ----------
    decision : Decision
        Of the suitability filter, by the test that counts the error of the fit.
    tipping : float
        By how much the estimator would have to overstate the accuracy on user data, beyond what it
        does on test data, for the decision to turn (:func:`lib.suitability.tipping_point`).
    power : float
        Probability that this test decides SUITABLE if the mean estimates of user and test data
        are equal and their standard deviations those seen.
    required : int or None
        User rows that raise this to ``lib.report.types.POWER``; None if no number does.
    adjusted : Decision or None
        With a margin that allows for the estimator's errors: the lower limit of the interval for
        Eq. 12's m', tested at alpha / 2, which keeps alpha
        (:func:`lib.suitability.adjusted_margin`). None unless test and user data have
        two labels each.
    powered : PredictionPowered or None
        The tests of accuracies from all user estimates and the user labels, for many labels and by
        betting. They decide nothing here. None without `adjusted`, or if fewer than two user rows
        are unlabeled.
    suitable_by_labels : bool or None
        What the labels alone show, by the exact test (:func:`lib.suitability.labels_test`); None
        without `adjusted`.
    unsuitable_by_labels : bool or None
        Whether the same test the other way round rejects at level alpha: then the labels show that
        the drop is larger than the margin.  None without `adjusted`.
    summary : pandas.DataFrame
        Columns ``item``, ``value``, ``low``, ``high``: sizes, accuracies, the drop and the test.
        The last two are the ends of intervals, NaN where there is none.
    moved : pandas.DataFrame
        One row per signal, from the largest standardized difference: ``signal``, ``test_mean``,
        ``user_mean``, ``difference`` (user minus test, in pooled standard deviations), ``ks``
        (Kolmogorov and Smirnov's statistic), ``p_value``, ``p_holm`` (Holm's correction for all
        signals) and ``moved``, whether that is at most alpha.
    calibration : pandas.DataFrame
        Columns ``item``, ``value``, ``stderr``, ``low``, ``high``: estimated against true
        accuracy on labeled rows, and what follows for the margin; empty without labels.
    warnings : tuple of str
        What to note.
    level : float
        Of all intervals, 1 - 2 alpha: each end is a bound that fails with probability alpha. The
        drop's upper limit is at most the margin if and only if the decision is SUITABLE. Only that
        of the adjusted margin is of level 1 - alpha.
    source : str
        Of the predictions.
    """

    decision: Decision
    tipping: float
    power: float
    required: int | None
    adjusted: Decision | None
    powered: PredictionPowered | None
    suitable_by_labels: bool | None
    unsuitable_by_labels: bool | None
    summary: pd.DataFrame = field(repr=False)
    moved: pd.DataFrame = field(repr=False)
    calibration: pd.DataFrame = field(repr=False)
    warnings: tuple[str, ...]
    level: float
    source: str = ""

    @property
    def outcome(self) -> Outcome:
        """The decision: by labels of both data where they are there, else by the estimates."""
        if self.suitable_by_labels is None:
            return self._estimated
        if self.unsuitable_by_labels:
            return Outcome.UNSUITABLE
        return Outcome.SUITABLE if self.suitable_by_labels else Outcome.INCONCLUSIVE

    @property
    def _estimated(self) -> Outcome:
        """What the estimates alone decide."""
        if not self.decision.suitable:
            return Outcome.INCONCLUSIVE
        return Outcome.UNCONFIRMED if self.moved["moved"].any() else Outcome.SUITABLE_IF

    @property
    def finding(self) -> Transfer:
        """The outcome with the accuracies that it rests on."""
        by_labels = self.suitable_by_labels is not None
        item = "accuracy on labeled {} rows" if by_labels else "estimated {} accuracy"
        rows = self.summary.set_index("item")[["value", "low", "high"]]
        ends = [Measured(*map(float, rows.loc[item.format(part)])) for part in numbers.COMPARED]
        return Transfer(self.outcome, *ends, by_labels)

    @property
    def verdict(self) -> str:
        """The decision in plain words: by labels of both data where they are there."""
        if self.suitable_by_labels is None:
            return self._by_estimates + self._doubt
        worse, not_so = _words(self.decision.margin)
        level = f"at level {self.decision.alpha:g}"
        if self.outcome is Outcome.UNSUITABLE:
            found = f"UNSUITABLE by the labeled user rows: they show, {level}, that on user data "
            found += f"the model is {not_so} test data"
        elif self.outcome is Outcome.SUITABLE:
            found = f"SUITABLE by the labeled user rows: they show, {level}, that on user data "
            found += f"the model is {worse} test data"
        else:
            found = f"INCONCLUSIVE by the labeled user rows: they do not show, {level}, that on "
            found += f"user data the model is {worse} test data, nor that it is {not_so} test data"
        return (
            f"{found}{self._accuracies}. From the estimates alone it would be {self._by_estimates}"
        )

    @property
    def _accuracies(self) -> str:
        """Accuracies on labeled rows."""
        rows = self.summary.set_index("item")["value"]
        told = [
            f"{rows[f'accuracy on labeled {part} rows']:.3f} on "
            f"{counted(int(rows[f'labeled {part} rows']), f'{part} row')}"
            for part in ("user", "test")
        ]
        return f" (accuracy {told[0]}, {told[1]})"

    @property
    def _by_estimates(self) -> str:
        """What the estimates say, which take no labels of user rows."""
        found = self.decision
        worse, _ = _words(found.margin)
        numbers = (
            f"estimated accuracy {found.estimated_user_accuracy:.3f} on user data and "
            f"{found.estimated_test_accuracy:.3f} on test data, {p_text(found.p_value)} at "
            f"alpha = {found.alpha:g}"
        )
        if self._estimated is Outcome.INCONCLUSIVE:
            return (
                f"INCONCLUSIVE: it is not shown that on user data the model is {worse} test "
                f"data ({numbers})."
            )
        sure = "SUITABLE, if the estimates hold there"
        if self._estimated is Outcome.UNCONFIRMED:
            sure = "UNCONFIRMED: by the estimates alone SUITABLE"
        return f"{sure}: on user data the model is {worse} test data ({numbers})."

    @property
    def _doubt(self) -> str:
        """What stands against the estimates where no labels do."""
        text = "" if self.decision.suitable else " Nor is it shown that the model is unsuitable."
        return text + self._shift + self._tips

    @property
    def _shift(self) -> str:
        """Which signals have moved."""
        moved = self.moved.loc[self.moved["moved"], "signal"].tolist()
        if not moved:
            return ""
        return (
            f" The user data look different (moved, of {len(self.moved)} signals: "
            f"{', '.join(moved)}), and whether the estimates hold there only labels can tell."
        )

    @property
    def _tips(self) -> str:
        """How wrong the estimates may be."""
        if not self.decision.suitable:
            return ""
        worse = sum(error > self.tipping for error in FMOW_ERRORS)
        return (
            " It holds unless the estimator overstates the accuracy on user data by more than "
            f"{self.tipping:.3f} beyond what it does on test data; on shifted satellite images "
            f"(FMoW) it did so in {worse} of {len(FMOW_ERRORS)} folds and models."
        )

    def __str__(self) -> str:
        return self.verdict


def suitability_report(
    predictions: ModelPredictions, *, margin: float, alpha: float = 0.05
) -> SuitabilityReport:
    """Decide whether a classifier may be used on user data, and say how sure that is.

    Parameters
    ----------
    predictions : ModelPredictions
        With logits of holdout, test and user data and the holdout's labels; labels of the others
        must be of rows drawn at random.
    margin : float
        m in (-1, 1): the largest acceptable drop in accuracy.
    alpha : float
        Significance level in (0, 0.5).

    Returns
    -------
    SuitabilityReport

    Notes
    -----
    Intervals of true accuracies are Clopper and Pearson's, those of mean estimates Student's, which
    take the fitted estimator as given; that of the drop counts the error of the fit.

    Choose beforehand whether the decision or the labels count: whoever takes the more favorable of
    two tests errs more often than either.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, sections 4.1 to 4.4.
    """
    given = check(predictions)
    missing = [name for name in NEEDS if not given.has(name)]
    if reason := f"missing: {', '.join(missing)}" if missing else obstacle(given):
        raise ValueError(f"suitability is not possible: {reason}")
    if not_at_random(given):
        given = replace(given, test_labels=None)
    margin, alpha = as_number("margin", margin, -1, 1), as_number("alpha", alpha, 0, 0.5)
    tables = {part: signals(getattr(given, f"{part}_logits")) for part in numbers.PARTS}
    suitability_filter = SuitabilityFilter(margin, alpha)
    suitability_filter.fit(tables["holdout"], given.correct("holdout")[0])
    decision = suitability_filter.decide(tables["test"], tables["user"])
    estimated = {part: suitability_filter.estimate(tables[part]) for part in numbers.COMPARED}

    spread = [float(estimated[part].std(ddof=1)) for part in numbers.COMPARED]
    sizes = [len(estimated[part]) for part in numbers.COMPARED]
    chance, required, unreachable, largest = numbers.power(decision, spread, sizes, POWER)
    calibration, adjusted, powered, by_labels, against, doubts = numbers.calibration(
        given, estimated, decision
    )
    outside = {part: numbers.outside(tables["holdout"], tables[part]) for part in numbers.COMPARED}
    paper = SuitabilityFilter(margin, alpha, test="paper")
    paper.fit(tables["holdout"], given.correct("holdout")[0])
    by_paper = paper.decide(tables["test"], tables["user"]).p_value
    summary = numbers.summary(given, estimated, decision, by_paper)
    summary += [
        ("power if equally accurate", chance),
        (f"drop that is found suitable with a power of {POWER:g}", largest),
        (f"user rows for a power of {POWER:g}", math.inf if required is None else required),
        *(
            (f"fraction of {p} rows beyond the holdout's range", outside[p])
            for p in numbers.COMPARED
        ),
    ]
    return SuitabilityReport(
        decision=decision,
        tipping=tipping_point(decision),
        power=chance,
        required=required,
        adjusted=adjusted,
        powered=powered,
        suitable_by_labels=by_labels,
        unsuitable_by_labels=against,
        summary=numbers.as_table(summary, ["item", "value", "low", "high"]),
        moved=numbers.moved(tables["test"], tables["user"], alpha),
        calibration=numbers.as_table(calibration, ["item", "value", "stderr", "low", "high"]),
        warnings=(
            *numbers.few_rows(given),
            *numbers.repeated(given),
            *decision.notes,
            *numbers.beyond(outside),
            *doubts,
            *numbers.weak(decision, chance, required, unreachable, by_labels, against),
        ),
        level=numbers.level(alpha),
        source=given.source,
    )


def obstacle(given: ModelPredictions) -> str:
    """Why there is no decision: empty if there is."""
    for part in numbers.PARTS:
        name = f"{part}_logits"
        logits = getattr(given, name)
        if count := int(silent(logits).sum()):
            return f"{name} are unknown in {counted(count, 'row')}, where the model abstained"
        if len(logits) < 2:
            return f"{name} must have at least 2 rows, got {len(logits)}"
    correct, _ = given.correct("holdout")
    right, wrong = int(correct.sum()), int((~correct).sum())
    if min(right, wrong) < N_SPLITS:
        return (
            f"holdout_labels must make at least {N_SPLITS} predictions right and {N_SPLITS} wrong, "
            f"or there is nothing to learn from, got {right} right and {wrong} wrong"
        )
    return ""


def analyse(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report."""
    found = suitability_report(given, margin=settings.margin, alpha=settings.alpha)
    doubts = list(found.warnings)
    if not_at_random(given):
        doubts.append(
            "test_labels are unknown only, or more often, where the model abstained: none is used"
        )
    tables = {"suitability": printable(found.summary), "suitability_moved": printable(found.moved)}
    captions = {
        "suitability": "Estimated accuracies, their difference and the test; intervals at the "
        f"level {1 - 2 * settings.alpha:g}, each end a bound at the level {settings.level:g}",
        "suitability_moved": "Signals on user and test data: Kolmogorov and Smirnov's test",
    }
    if len(found.calibration):
        tables["suitability_calibration"] = printable(found.calibration)
        captions["suitability_calibration"] = (
            "Estimated and true accuracy on labeled rows; intervals at the level "
            f"{1 - 2 * settings.alpha:g}"
        )
    return Analysis(
        "suitability",
        ANALYSES["suitability"],
        tables,
        captions,
        {
            "suitability_moved": Drawing(
                lambda: figures.plot_moved(found.moved),
                "A bar for each signal: how far its mean on user data is from that on test data.",
                "How far the mean of each signal has moved, user minus test data; colored: moved "
                "by Holm's correction for all signals.",
            ),
            "suitability_tipping": Drawing(
                lambda: figures.plot_tipping_point(found.tipping),
                "A histogram of the errors of the estimator on FMoW, and a line at the tipping "
                "point of this decision.",
                "By how much the paper's estimator overstated the accuracy on user data, beyond "
                f"what it did on test data, in {len(FMOW_ERRORS)} folds and models of "
                "FMoW out of distribution; the line: the overstatement of "
                f"{found.tipping:+.3f} at which the decision by the estimates turns.",
            ),
        },
        found.verdict,
        {
            "estimated_drop": found.decision.estimated_test_accuracy
            - found.decision.estimated_user_accuracy,
            "suitability_tipping_point": found.tipping,
        },
        tuple(doubts),
        _suitability_steps(given, found, settings),
        (found.finding,),
    )


def _suitability_steps(
    given: ModelPredictions, found: SuitabilityReport, settings: Settings
) -> tuple[str, ...]:
    """What would decide, or confirm, whether the model is suitable."""
    if found.unsuitable_by_labels or found.suitable_by_labels:
        return ()
    steps, n = [], len(given.user_logits)
    if not found.decision.suitable and found.required is not None and found.required > n:
        steps.append(
            f"{about(found.required)} user rows (there are {n:,}) would give a model whose "
            f"estimated accuracy is the same there a probability of {POWER:g} to be found suitable"
        )
    usable = given.test_labels is not None and not not_at_random(given)
    n_test = int((given.test_labels >= 0).sum()) if usable else 0
    n_user = 0 if given.user_labels is None else int((given.user_labels >= 0).sum())
    if n_test < 2:
        steps.append(
            "labels of test rows drawn at random: without them those of user rows can be compared "
            "with nothing"
        )
    if n_user < 2:
        steps.append(_labels_step(found, n_test or len(given.test_logits), settings))
    elif n_test >= 2:
        steps.append(
            "more labeled user rows, drawn at random: those there are show neither that the "
            "model is suitable nor that it is not"
        )
    return tuple(steps)


def _labels_step(found: SuitabilityReport, n_test: int, settings: Settings) -> str:
    """How many labels of user rows could decide, or why no number of them can."""
    if settings.margin <= 0:
        return (
            "labels of user rows, drawn at random, show whether the estimates hold there; but with "
            f"a margin of {settings.margin:g} no number of labels finds an equally accurate model "
            "suitable more often than by chance: choose a positive margin before they are collected"
        )
    p = float(np.clip(found.decision.estimated_user_accuracy, 0.01, 0.99))
    try:
        labels = suitability.labels_for_power(
            test_accuracy=p,
            n_test=n_test,
            margin=settings.margin,
            alpha=settings.alpha,
            power=POWER,
        )
    except ValueError:
        return (
            "labels of user rows, drawn at random, show whether the estimates hold there; but with "
            f"{n_test:,} test rows no number of them finds an equally accurate model suitable with "
            f"a probability of {POWER:g}: more test rows are needed too, or a larger margin"
        )
    return (
        f"labels of {about(labels)} user rows, drawn at random, can decide without trusting the "
        "estimates: with so many, a model that is equally accurate there is found suitable with a "
        f"probability of {POWER:g}"
    )


def printable(table: pd.DataFrame) -> pd.DataFrame:
    """A report's table for people: no p-value below 0.001 is a number."""
    shown = table.copy()
    for column in {"p_value", "p_holm"} & set(shown):
        shown[column] = [p_text(p).removeprefix("p ").removeprefix("= ") for p in shown[column]]
    if "item" in shown and shown["item"].str.contains("p-value").any():
        shown["value"] = [
            p_text(value).removeprefix("p ").removeprefix("= ")
            if "p-value" in item
            else f"{value:.4g}"
            for item, value in zip(shown["item"], shown["value"], strict=True)
        ]
    return shown


def _words(margin: float) -> tuple[str, str]:
    """How much less accurate is suitable, and how much is not."""
    if margin > 0:
        return (
            f"at most {margin:g} less accurate than on",
            f"more than {margin:g} less accurate than on",
        )
    if margin < 0:
        more = f"{-margin:g} more accurate than on"
        return f"at least {more}", f"less than {more}"
    return "at least as accurate as on", "less accurate than on"
