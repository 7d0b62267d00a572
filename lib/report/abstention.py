"""How good a model, or it against a competitor, would be if it had to answer always."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib import counterfactual
from lib.counterfactual import overlap
from lib.counterfactual.diagnostics import SURE
from lib.counterfactual.learners import calibrated
from lib.report import collect, figures
from lib.report.collect import about
from lib.report.findings import Finding, Forced, Measured, Outcome, Rivalry, winner, winner_text
from lib.report.predictions import ModelPredictions
from lib.report.row_order import in_own_order, own_scores, scores_of
from lib.report.types import (
    ANALYSES,
    FEWEST,
    HOPELESS,
    POWER,
    Analysis,
    Drawing,
    Settings,
    mean_of,
    share,
    silent,
    table,
)

Array = npt.NDArray[Any]

_FOLDS = 5
_SEED = 0  # of folds and forests, for rows in an order of their own: no choice, so none can mislead
KNOWN_CLIP = 1e-12  # of propensities that need no clipping


def _no_estimate(who: str, abstained: Array, labels: Array) -> str:
    answered = ~abstained
    if (count := int(answered.sum())) < FEWEST:
        return f"{who} must be false in at least {FEWEST} rows, got {count}: too few answers"
    if count := int((answered & (labels < 0)).sum()):
        return f"test_labels must be known wherever {who} is false, got {count:,} without one"
    return ""


def obstacle(given: ModelPredictions) -> str:
    """Why there is no estimate: empty if there is."""
    if not given.test_abstained.any():
        return "test_abstained is false in all rows: its accuracy is that of answering always"
    return _no_estimate("test_abstained", given.test_abstained, given.test_labels)


def comparison_obstacle(given: ModelPredictions) -> str:
    """Why there is no comparison: empty if there is."""
    names = "test_abstained", "other_abstained"
    return " ".join(_no_estimate(n, getattr(given, n), given.test_labels) for n in names).strip()


def _truth(logits: Array, labels: Array) -> Array | None:
    """Whether every prediction would be right, if all are known."""
    if (labels < 0).any() or silent(logits).any():
        return None
    return logits.argmax(axis=1) == labels


def _covariates(
    given: ModelPredictions, known: list[Array | None], scores: list[dict[str, Array] | None]
) -> Array:
    """Features (or known propensities), and the scores that abstention may depend on."""
    features = given.test_features
    columns = [np.column_stack(known) if features is None else features]
    for one in scores:
        columns += [] if one is None else [values[:, None] for values in one.values()]
    return np.hstack(columns)


@dataclass(frozen=True, eq=False)
class _Side:
    """What is known of one classifier: an estimate in some rows, the least and the most in all."""

    found: counterfactual.Estimate  # in `can`
    can: Array  # rows that may be answered
    lower: Array  # of each row: its influence value, its score, or the least and most possible
    upper: Array
    reasons: tuple[str, ...]  # for rows that may not
    notes: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether there is an estimate for all rows."""
        return bool(self.can.all())

    @property
    def propensity(self) -> Array:
        """Of each row, 1 where there is never an answer."""
        out = np.ones(len(self.can))
        out[self.can] = self.found.nuisances[0].propensity.clip(0, 1)
        return out


def never_answered(
    r: Array, told: Array | None, scores: dict[str, Array] | None, features: dict[str, Array]
) -> tuple[Array, list[str]]:
    """Rows that are never answered, and why."""
    every = (scores or {}) | features
    if told is not None:
        certain = told >= 1 - KNOWN_CLIP
        never, reasons = overlap.without_overlap(r & ~certain, every, np.where(certain, 0, told))
        if certain.any():
            reasons.insert(
                0,
                f"known propensities are 1 in {int(certain.sum())} of {len(r)} rows "
                f"({certain.mean():.1%}): there is never an answer, so that positivity fails",
            )
        return never | certain, reasons
    if scores is None and r.any():
        return r.copy(), [
            "there are no logits where it abstained, so that nothing shows whether it did so by "
            "its own confidence, where positivity would fail"
        ]
    return overlap.without_overlap(r, every)


def _side(
    x: Array,
    given: ModelPredictions,
    s: Array,
    r: Array,
    told: Array | None,
    scores: dict[str, Array] | None,
    settings: Settings,
) -> _Side:
    """Estimate where there is overlap, and say where there is none.

    Positivity is looked at twice: by scores before anything is fitted, and by the propensity that
    was fitted to what is left.  If that fails a second time, all abstentions are without overlap.
    """
    never, reasons = never_answered(r, told, scores, given.features)
    for last in (False, True):
        if (~r & ~never).sum() < FEWEST:  # too few to learn from: answers count, and that is all
            never = r.copy()
        found = _estimate(x, s, r, told, ~never, settings)
        (diagnostics,) = found.diagnostics
        if told is not None or not diagnostics.positivity:
            break
        reasons.extend(diagnostics.positivity)
        sure = np.zeros(len(r), dtype=bool)
        sure[~never] = found.nuisances[0].propensity >= SURE
        never = r.copy() if last or not sure.any() else never | sure
    else:
        found = _estimate(x, s, r, told, ~never, settings)
    if told is None and settings.learner == "linear":
        (one,), changed = recalibrated(found.nuisances, (None,), _SEED)
        if changed:
            found = counterfactual.estimate_from_nuisances(one, level=settings.level)
    # overlap: the influence value; none, answered: its score; none, abstained: 0 to 1, a bound is
    # all that can be said (Manski)
    lower, upper = np.where(r, 0.0, s), np.where(r, 1.0, s)
    lower[~never] = upper[~never] = found.influence
    return _Side(found, ~never, lower, upper, tuple(reasons), found.diagnostics[0].notes)


def recalibrated(
    nuisances: Sequence[counterfactual.Nuisances], known: Sequence[Array | None], seed: Any
) -> tuple[list[counterfactual.Nuisances], bool]:
    """Fitted propensities that are right where a logistic regression's form is not; if any is."""
    found, changed = [], False
    for one, told in zip(nuisances, known, strict=True):
        if told is None and one.abstained.any():
            fold = counterfactual.fold_numbers(len(one.scores), _FOLDS, seed)
            better = calibrated(one.propensity, one.abstained, fold)
            changed |= better is not one.propensity
            one = replace(one, propensity=better)
        found.append(one)
    return found, changed


def estimate_with_known(
    nuisances: Sequence[counterfactual.Nuisances], known: Sequence[Array | None], **options: Any
) -> counterfactual.Estimate:
    """The estimate with the propensities that are told, of which none is clipped."""
    clip, pair = None, list(nuisances)
    if any(told is not None for told in known):
        clip, most = KNOWN_CLIP, 1 - counterfactual.default_clip(len(pair[0].scores))
        pair = [
            replace(one, propensity=np.minimum(one.propensity, most) if told is None else told)
            for one, told in zip(pair, known, strict=True)
        ]
    return counterfactual.estimate_from_nuisances(pair, clip=clip, **options)


def _estimate(
    x: Array, s: Array, r: Array, told: Array | None, can: Array, settings: Settings
) -> counterfactual.Estimate:
    """The doubly robust estimate of a score in some rows."""
    x, s, r = x[can], s[can], r[can]
    rng = np.random.default_rng(_SEED)
    fold = counterfactual.fold_numbers(len(x), _FOLDS, rng)
    if r.any():
        one = counterfactual.fit_nuisances(x, s, r, fold, settings.learner, rng=rng)
    else:
        one = counterfactual.Nuisances(r, s, np.zeros(len(r)), s)
    return estimate_with_known([one], [None if told is None else told[can]], level=settings.level)


def _row(item: str, found: Any) -> tuple:
    return (item, found.value, found.stderr, *found.interval)


def _bounds_rows(what: str, bounds: overlap.Bounds) -> list[tuple]:
    return [
        (f"{what} in all rows: bounds", math.nan, math.nan, bounds.low, bounds.high),
        ("these bounds with the sampling error", math.nan, math.nan, *bounds.interval),
    ]


def _shown(values: Sequence[float], holds: Callable[..., bool], sign: str = "") -> list[str]:
    """Numbers with three decimals, or as many as it takes for `holds` to be true as printed."""
    for digits in range(3, 13):
        texts = [f"{value:{sign}.{digits}f}" for value in values]
        if holds(*map(float, texts)):
            break
    return texts


def with_outcome(values: Sequence[float]) -> list[str]:
    """A difference whose last two numbers, the ends of an interval, say what it decides."""
    outcome = winner(values[-2:])
    return _shown(values, lambda *shown: winner(shown[-2:]) is outcome, "+")


def _between(bounds: overlap.Bounds, difference: bool = False) -> str:
    ends = (bounds.low, bounds.high, *bounds.interval)
    low, high, *outer = with_outcome(ends) if difference else [f"{value:.3f}" for value in ends]
    return f"between {low} and {high} ({outer[0]} to {outer[1]} with the sampling error)"


_COLUMNS = ["item", "value", "stderr", "low", "high"]
_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_INDEPENDENT = (
    "the estimate assumes that abstention and correctness are independent given the features (or "
    "propensities) and the model's own scores"
)
_TOLD = (
    "the probabilities with which each answer was withheld (propensities), where abstention is "
    "drawn by them: with those known, nothing about it has to be fitted",
)
_WHERE = {True: "", False: ", of rows that may be answered"}


def _diagnostics(sides: Sequence[_Side], names: tuple[str, ...]) -> pd.DataFrame:
    items = {
        "least probability of an answer": "overlap",
        "effective sample size of the answers": "effective_sample_size",
        "largest weight": "largest_weight",
        "fraction of propensities clipped": "clipped",
        "variance of abstention explained": "explained",
        "calibration slope of the propensity": "calibration_slope",
        "calibration error of the propensity": "calibration_error",
        "R2 of the outcome model": "outcome_r2",
    }
    columns = {
        name: [float(getattr(side.found.diagnostics[0], key)) for key in items.values()]
        for name, side in zip(names, sides, strict=True)
    }
    return pd.DataFrame({"item": list(items), **columns})


@dataclass(eq=False)
class _Page:
    """What an analysis of abstention has found so far."""

    name: str
    rows: list[tuple]
    values: dict[str, float]
    verdict: str
    interval: tuple[float, float]
    doubts: list[str]
    steps: tuple[str, ...]
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    drawings: dict[str, Drawing] = field(default_factory=dict)

    def contaminate(self, found: counterfactual.Estimate, value: float, what: str) -> None:
        """Say how much abstention would have to depend on what is not seen to turn the verdict."""
        table = counterfactual.contamination_bounds(found, _SHARES)
        share = counterfactual.breakdown_share(found, value)
        if share == 0:
            text = f"the interval does not exclude {what} even if it depends on nothing else"
        elif math.isnan(share):
            text = f"the estimate has no interval, so that nothing is known of {what}"
        elif share == math.inf:
            text = f"{what} is excluded whatever it depends on"
        else:
            text = f"from {share:.1%} of the rows on, {what} can no longer be excluded"
        name = f"{self.name}_contamination"
        self.tables[name] = table
        self.captions[name] = (
            "Bounds by the fraction of rows in which abstention depends on more than is seen"
        )
        self.drawings[name] = Drawing(
            lambda: figures.plot_contamination(table, label="estimate", level=found.level),
            "Bounds on the estimate that widen as the fraction of contaminated rows grows.",
            "Bounds by the fraction of rows in which abstention depends on more than features and "
            f"scores: {text}.",
        )
        self.verdict += f" If abstention depends on more than features and scores: {text}."

    def decide_by_labels(self, truth: Measured, what: str, outcome: str = "") -> bool:
        """Begin with the truth, which is known; returns whether the interval misses it."""
        (low, high), sign = self.interval, "+" if outcome else ""
        told = with_outcome(truth) if outcome else [f"{value:.3f}" for value in truth]
        begin = f"By the labels, which are known of all rows, {what} is {told[0]} ({told[1]} to "
        begin += f"{told[2]}){outcome}. "
        missed = not low - 1e-9 <= truth.value <= high + 1e-9
        if missed:
            ends = (truth.value, low, high)
            value, first, last = _shown(ends, lambda t, a, b: not a <= t <= b, sign)
            begin += (
                f"The interval below misses: {value} lies outside {first} to {last}. Chance does "
                "that to few intervals; else what it assumes does not hold. The labels decide. "
            )
        rest = self.verdict[:1].lower() + self.verdict[1:]
        self.verdict = f"{begin}Without those of abstained rows: {rest}"
        return missed

    def analysis(self, caption: str, finding: Finding) -> Analysis:
        """Put together what was found."""
        ends = dict(zip(("low", "high"), self.interval, strict=True))
        kind = "difference" if self.name == "comparison" else "counterfactual"
        return Analysis(
            self.name,
            ANALYSES[self.name],
            {self.name: table(self.rows, _COLUMNS)} | self.tables,
            {self.name: caption} | self.captions,
            self.drawings,
            self.verdict,
            self.values | {f"{kind}_{end}": value for end, value in ends.items()},
            tuple(self.doubts),
            self.steps,
            (finding,),
        )


def analyse(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report: counterfactual accuracy, or bounds on it."""
    given = in_own_order(given)
    r, level = given.test_abstained, settings.level
    s = scores_of(given.test_logits, given.test_labels, r)
    told, scores = given.test_propensities, own_scores(given.test_logits)
    x = _covariates(given, [told], [scores])
    side = _side(x, given, s, r, told, scores, settings)
    answers = counterfactual.selective_score(s, r, level=level)
    lead = f"The model answers {1 - r.mean():.1%} of the test rows, {answers.value:.3f} of them"
    page = (_point if side.whole else _only_bounds)(side, lead, settings)
    page.rows[:0] = [
        _row("coverage", counterfactual.coverage(r, level=level)),
        _row("accuracy of the answers", answers),
    ]
    page.values = {"answered": float(1 - r.mean()), "answers_right": answers.value} | page.values
    page.tables["counterfactual_diagnostics"] = _diagnostics([side], ("value",))
    page.captions["counterfactual_diagnostics"] = (
        f"Overlap and nuisance functions{_WHERE[side.whole]}"
    )
    propensity = side.propensity
    page.drawings["counterfactual_propensities"] = Drawing(
        lambda: figures.plot_propensities(propensity[~r], propensity[r]),
        "Two histograms of the probability of abstaining, which should overlap.",
        "Probability of abstaining, of rows that were answered and abstained on: where "
        "there are no answers, nothing is known.",
    )
    if side.whole:
        page.steps = _TOLD * (told is None) + page.steps
        page.contaminate(side.found, answers.value, "the accuracy of the answers")
    truth, value = _truth(given.test_logits, given.test_labels), None
    outcome = Outcome.ESTIMATED if side.whole else Outcome.BOUNDED
    if truth is not None:
        value, *ends = share(truth, level)
        page.rows.insert(0, ("truth: accuracy of all predictions", value, math.nan, *ends))
        page.values["truth"] = value
        missed = page.decide_by_labels(Measured(value, *ends), "the accuracy of all predictions")
        outcome = Outcome.MISSED if missed else Outcome.LABELLED
    estimate = Measured(side.found.value if side.whole else None, *page.interval)
    finding = Forced(outcome, float(1 - r.mean()), answers.value, estimate, value)
    return page.analysis("How good the model would be if it had to answer always", finding)


def _point(side: _Side, lead: str, settings: Settings) -> _Page:
    """Where there is overlap in all rows: an estimate."""
    found = side.found
    weighted = counterfactual.estimate_from_nuisances(
        found.nuisances, estimator="ipw", clip=found.clip, level=settings.level
    )
    low, high = found.interval
    n = len(found.influence)
    return _Page(
        "counterfactual",
        [
            _row("counterfactual accuracy (doubly robust)", found),
            _row("counterfactual accuracy (weighting alone)", weighted),
        ],
        {"counterfactual": found.value},
        f"{lead} right; if it had to answer always, {found.value:.3f} ({low:.3f} to {high:.3f}) "
        "would be.",
        found.interval,
        [*side.notes, f"{_INDEPENDENT}, and that no input is always abstained on"],
        collect.steps_to_fine(found.stderr, found.interval, n, settings.level),
    )


def _only_bounds(side: _Side, lead: str, settings: Settings) -> _Page:
    """Where some rows are never answered: an interval, without a point in it."""
    found, share, never = side.found, float(side.can.mean()), int((~side.can).sum())
    bounds = overlap.mean_bounds(side.lower, side.upper, settings.level)
    return _Page(
        "counterfactual",
        [
            ("fraction of rows that may be answered", share),
            _row("counterfactual accuracy there (doubly robust)", found),
            *_bounds_rows("counterfactual accuracy", bounds),
        ],
        {
            "answerable": share,
            "counterfactual_answerable": found.value,
            "counterfactual_least": bounds.low,
            "counterfactual_most": bounds.high,
        },
        f"{lead} right. In {1 - share:.1%} of the rows it is certain to abstain, and nothing is "
        f"known, by all that is seen: {side.reasons[0]}. If it had to answer always, of all rows "
        f"{_between(bounds)} would be right, and no file says where between.",
        bounds.interval,
        _doubts([side]),
        (
            f"answers in some of the {never:,} rows where the model is certain to abstain, such as "
            "a tenth of them drawn at random, with what it was drawn by as propensities: without "
            f"them the bounds for all rows stay at least {bounds.high - bounds.low:.2f} apart",
        ),
    )


def _doubts(sides: Sequence[_Side]) -> list[str]:
    """What to know of bounds: why there is no estimate, and what the estimate in them assumes."""
    doubts = [
        f"{reason}. There is no estimate for all rows, only bounds"
        for side in sides
        for reason in side.reasons
    ]
    doubts += [text for side in sides for text in side.notes]
    fitted = any(side.found.nuisances[0].abstained.any() for side in sides)
    return list(dict.fromkeys(doubts)) + [_INDEPENDENT] * fitted


def compare(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report: the difference to a competitor, or bounds on it."""
    given = in_own_order(given)
    level, labels = settings.level, given.test_labels
    flags = given.test_abstained, given.other_abstained
    logits = given.test_logits, given.other_logits
    pairs = [(scores_of(z, labels, r), r) for z, r in zip(logits, flags, strict=True)]
    known = [given.test_propensities, given.other_propensities]
    scores = [own_scores(z) for z in logits]
    x = _covariates(given, known, scores)
    sides = [
        _side(x, given, s, r, told, own, settings)
        for (s, r), told, own in zip(pairs, known, scores, strict=True)
    ]
    whole = all(side.whole for side in sides)
    page = (_difference if whole else _difference_bounds)(sides, known, level)
    names = "model", "competitor"
    answers = [counterfactual.selective_score(s, r, level=level) for s, r in pairs]
    page.rows[:0] = [
        *(_row(f"accuracy of the {n}'s answers", a) for n, a in zip(names, answers, strict=True)),
        ("difference of these", answers[0].value - answers[1].value),
        *(
            _row(f"coverage of the {name}", counterfactual.coverage(r, level=level))
            for name, r in zip(names, flags, strict=True)
        ),
    ]
    page.tables["comparison_diagnostics"] = _diagnostics(sides, names)
    page.captions["comparison_diagnostics"] = (
        f"Overlap and nuisance functions of both{_WHERE[whole]}"
    )
    truths = [_truth(z, labels) for z in logits]
    difference = Measured(page.values.get("difference"), *page.interval)
    by_labels = all(t is not None for t in truths)
    if by_labels:
        apart = truths[0].astype(float) - truths[1]
        difference = Measured(*mean_of(apart, (-1.0, 1.0), level))
        value, *ends = difference
        page.rows.insert(0, ("truth: difference of all predictions", value, math.nan, *ends))
        what = "the model's accuracy minus the competitor's"
        page.decide_by_labels(difference, what, f": {winner_text(ends)}")
    finding = Rivalry(winner(difference[1:]), difference, by_labels=by_labels)
    caption = "The model against the competitor, if both had to answer always"
    return page.analysis(caption, finding)


def _difference(sides: list[_Side], known: list[Array | None], level: float) -> _Page:
    """Where there is overlap in all rows of both: an estimate."""
    found = estimate_with_known([side.found.nuisances[0] for side in sides], known, level=level)
    value, low, high = with_outcome((found.value, *found.interval))
    decided = winner(found.interval) is not Outcome.UNDECIDED
    notes = list(dict.fromkeys(text for side in sides for text in side.notes))
    page = _Page(
        "comparison",
        [_row("counterfactual difference (doubly robust)", found)],
        {"difference": found.value},
        "If both had to answer always, the model's accuracy minus the competitor's would be "
        f"{value} ({low} to {high}): {winner_text(found.interval)}.",
        found.interval,
        [*notes, f"{_INDEPENDENT}, and that no input is always abstained on"],
        ()
        if decided
        else _TOLD * any(told is None for told in known)
        + comparison_steps(found, len(sides[0].can), level),
    )
    page.contaminate(found, 0.0, "a difference of zero")
    return page


def _difference_bounds(sides: list[_Side], known: list[Array | None], level: float) -> _Page:
    """Where one of the two is never answered with: sharp bounds, each side's own."""
    bounds = overlap.mean_bounds(
        sides[0].lower - sides[1].upper, sides[0].upper - sides[1].lower, level, (-1.0, 1.0)
    )
    share = float((sides[0].can & sides[1].can).mean())
    never = int((~(sides[0].can & sides[1].can)).sum())
    rows: list[tuple] = [("fraction of rows that both may answer", share)]
    for name, side in zip(("model", "competitor"), sides, strict=True):
        alone = overlap.mean_bounds(side.lower, side.upper, level)
        rows += _bounds_rows(f"counterfactual accuracy of the {name}", alone)
    rows += _bounds_rows("counterfactual difference", bounds)
    if winner((bounds.low, bounds.high)) is Outcome.UNDECIDED:
        steps = (
            f"answers in some of the {never:,} rows where one of the two is certain to abstain: "
            "without them no number of rows decides, for the bounds are "
            f"{bounds.low:+.2f} and {bounds.high:+.2f}",
        )
    else:
        steps = (
            f"more rows, or answers in some of the {never:,} where one of the two is certain to "
            "abstain",
        ) * (winner(bounds.interval) is Outcome.UNDECIDED)
    return _Page(
        "comparison",
        rows,
        {"difference_least": bounds.low, "difference_most": bounds.high},
        "If both had to answer always, the model's accuracy minus the competitor's would be "
        f"{_between(bounds, True)}: {winner_text(bounds.interval)}. One of the two is certain to "
        f"abstain in {1 - share:.1%} of the rows, by all that is seen, and nothing is known of "
        "what it would say there.",
        bounds.interval,
        _doubts(sides),
        steps,
    )


def comparison_steps(found: counterfactual.Estimate, n: int, level: float) -> tuple[str, ...]:
    """What would decide which of the two is better.

    Parameters
    ----------
    found : Estimate
        Of the difference.
    n : int
        Rows that it is from.
    level : float
        Of the interval.

    Returns
    -------
    tuple of str
        One step, or none if there are rows enough.
    """
    needed = collect.rows_for_power(found.stderr, n, found.value, level, POWER)
    if needed is None and found.value != 0:  # nothing varies
        far = abs(found.value - found.interval[found.value < 0])
        needed = collect.rows_by_bound(far / 2, n, abs(found.value) / 2) + 1
        return (
            f"{about(needed)} rows at least (there are {n:,}) would decide, if again all rows show "
            "the same difference",
        )
    if needed is None or needed > HOPELESS * n:
        return (
            f"far more rows than {HOPELESS * n:,}, if the difference is as small as it is "
            "estimated: the two are about equally good",
        )
    if needed <= n:
        return ()
    return (
        f"{about(needed)} rows (there are {n:,}) would decide with a probability of {POWER:g}, if "
        "the difference is as estimated, which few rows tell badly",
    )
