"""What a report says first: each question that people have, answered in a word, a line, a picture.

Nothing is decided here: a card is made of what an analysis found, with its level.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lib.report import sketches
from lib.report.confidence import CLOSE
from lib.report.findings import (
    Abstention,
    Calibration,
    Finding,
    Forced,
    Goodness,
    Leak,
    Measured,
    Outcome,
    Rivalry,
    Transfer,
)
from lib.report.naming import threshold_text
from lib.report.sketches import Strip
from lib.report.types import Analysis, Settings

#: Questions in their order, and the analysis that answers each.
QUESTIONS = {
    "good": ("Is the model any good?", "quality"),
    "trust": ("Can I trust its confidence?", "quality"),
    "when": ("When should it answer?", "selective"),
    "there": ("May I use it on that other data?", "suitability"),
    "private": ("Does it give away its training data?", "audit"),
    "always": ("How good if it always had to answer?", "counterfactual"),
    "better": ("Is it better than the other model?", "comparison"),
}
#: Those that stand on the page also where they cannot be answered; others are in the folded table.
ALWAYS = ("good", "trust", "when", "there")

#: A sign and an ink for each light: the color alone says nothing.
SIGNS = {"yes": "✓", "care": "!", "no": "✗", "open": "?", "told": "≈"}
INKS = {"yes": "#00694e", "care": "#7a5200", "no": "#a8320a", "open": "#57606a", "told": "#005a8f"}


class Verdict(NamedTuple):
    """An answer: its light and its word are those of an outcome."""

    name: str
    light: str
    word: str
    text: str
    picture: str = ""

    @property
    def question(self) -> str:
        """What is answered."""
        return QUESTIONS[self.name][0]

    @property
    def analysis(self) -> str:
        """What has the details."""
        return QUESTIONS[self.name][1]


def verdicts(analyses: Mapping[str, Analysis], settings: Settings) -> list[Verdict]:
    """The answers that a report has, in the order of :data:`QUESTIONS`."""
    found = {one.question: one for each in analyses.values() for one in each.findings}
    return [verdict(found[name], settings) for name in QUESTIONS if name in found]


def verdict(found: Finding, settings: Settings) -> Verdict:
    """The card of one finding."""
    text, picture = _CARDS[type(found)](found, settings)
    numbers = {"close": _points(CLOSE), "target": f"{100 * settings.target:g}%"}
    if isinstance(found, Forced):
        share = found.everywhere.value if found.truth is None else found.truth
        numbers["share"] = "" if share is None else _percent(share)
    outcome = found.outcome
    word = outcome.word.format(**numbers).upper()
    return Verdict(found.question, outcome.light, word, text, picture)


def _percent(value: float) -> str:
    """In percent; 100% and 0% are said of nothing less."""
    text = f"{value:.1%}"
    if text == "100.0%":
        return "100%" if value == 1 else "99.9%"
    if text == "0.0%":
        return "0%" if value == 0 else "under 0.1%"
    return text


def _points(value: float) -> str:
    """Percentage points."""
    return f"{100 * value:.10g} point{'s' * (round(100 * value, 8) != 1)}"


def _interval(found: Measured, settings: Settings) -> str:
    """In parentheses."""
    return f"({settings.percent} interval {_percent(found.low)} to {_percent(found.high)})"


def _from(strips: Sequence[Strip]) -> tuple[float, float]:
    """The ends of an axis of accuracies that begins below the least."""
    least = min(one.low for one in strips)
    return math.floor(10 * max(0.0, least - 0.02)) / 10, 1.0


def _good(found: Goodness, settings: Settings) -> tuple[str, str]:
    strips = [Strip("the model's accuracy", *found.accuracy)]
    text = f"Right in {_percent(found.accuracy.value)} of {found.rows:,} row"
    text += f"{'s' * (found.rows != 1)} {_interval(found.accuracy, settings)}."
    if found.constant is None:
        text += " Without labels nothing says how often a constant would be."
        return text, sketches.intervals(strips, "The accuracy with its interval.", (0, 1))
    name, constant = _short(found.commonest), found.constant
    strips.append(Strip(f"always answering {name}", constant, constant, constant))
    text += f" Always answering {name} would be in {_percent(constant)}."
    alt = "The accuracy with its interval, above that of a constant answer."
    return text, sketches.intervals(strips, alt, (0, 1))


def _trust(found: Calibration, settings: Settings) -> tuple[str, str]:
    error, low, high = (f"{100 * value:.1f}" for value in found.error)
    text = f"On average {_percent(found.confidence)} sure and {_percent(found.accuracy)} right; "
    text += f"bin by bin confidence is {error} points off ({settings.percent} interval {low} to "
    text += f"{high})."
    alt = "Accuracy by confidence, with intervals, beside the diagonal."
    return text, sketches.reliability(found.bins, alt)


def _when(found: Abstention, settings: Settings) -> tuple[str, str]:
    target = f"{100 * settings.target:g}%"
    if found.outcome in (Outcome.ALWAYS, Outcome.ALWAYS_IF):
        alt = "A bar that is filled: it may answer always."
        text = f"At least {target} of its answers are right also without abstaining: "
        text += f"{_percent(found.accuracy.value)} {_interval(found.accuracy, settings)}."
        return text, sketches.part(1, "answers always", "", alt)
    if found.outcome is not Outcome.WHERE_SURE:
        text = f"At no confidence can these rows promise {target} right answers."
        if found.outcome is Outcome.UNCHECKED:
            text = "It is right no more often than a constant answer: first see whether labels and "
            text += "answers are read as they are meant."
        alt = "An empty bar: no part is promised."
        return text, sketches.part(0, "", "no part is promised", alt)
    seen = _percent(found.share)
    text = (
        f"If it answers the surest {seen}, above a {found.score} of about "
        f"{threshold_text(found.threshold)}, at least {target} of its answers are right, with a "
        f"confidence of {settings.percent}, on data like these."
    )
    rest = f"abstains {_percent(1 - found.share)}"
    return text, sketches.part(found.share, f"answers {seen}", rest, f"A bar filled to {seen}.")


_EXCLUDED = {
    Outcome.SUITABLE: " is excluded.",
    Outcome.SUITABLE_IF: " is excluded.",
    Outcome.INCONCLUSIVE: " is not excluded.",
    Outcome.UNSUITABLE: " is shown.",
}


def _there(found: Transfer, settings: Settings) -> tuple[str, str]:
    kind = "accuracy" if found.by_labels else "estimated accuracy"
    places = {"on test rows": found.test, "on that data": found.user}
    strips = [Strip(f"{kind} {where}", *one) for where, one in places.items()]
    text = f"{_percent(found.user.value)} there and {_percent(found.test.value)} on test rows"
    text += ", by labels. " if found.by_labels else ", as estimated without labels. "
    if found.outcome is Outcome.UNCONFIRMED:
        text += "The data look different: label some first."
    else:
        text += _drop(settings.margin) + _EXCLUDED[found.outcome]
    alt = f"{kind} on test and on user data.".capitalize()
    return text, sketches.intervals(strips, alt, _from(strips))


def _drop(margin: float) -> str:
    """What would be too much."""
    if margin > 0:
        return f"A drop of more than {_points(margin)}"
    return f"A gain of less than {_points(-margin)}" if margin < 0 else "A drop"


def _private(found: Leak, settings: Settings) -> tuple[str, str]:
    if found.outcome is Outcome.NO_BOUND:
        return (
            f"In the design '{settings.audit_design}' fair coins choose the members, and hardly "
            "give such numbers of members and others: nothing follows.",
            "",
        )
    strips = [Strip("epsilon is at least", found.lower, 0.0, found.lower)]
    most = max(found.lower, found.claim or 0.0, 1.0)
    if found.claim is not None:
        strips.append(Strip("epsilon is claimed to be at most", *(found.claim,) * 3))
    alt = "The bound that the attack shows" + ", and the claim" * (found.claim is not None) + "."
    picture = sketches.intervals(strips, alt, (0.0, 1.1 * most), form=".2g")
    text = f"The attack shows epsilon of at least {found.shown}, in the design "
    text += f"'{settings.audit_design}'."
    more = {
        Outcome.REFUTED: f" That is more than the claimed {found.claim or 0:g}.",
        Outcome.NOT_REFUTED: f" That does not contradict the claimed {found.claim or 0:g}, and "
        "does not prove it.",
        Outcome.NOTHING_SHOWN: " Another attack may show more.",
    }
    return text + more.get(found.outcome, ""), picture


def _always(found: Forced, settings: Settings) -> tuple[str, str]:
    low, high = found.everywhere.low, found.everywhere.high
    strips = [
        Strip("of its answers are right", *(found.right,) * 3),
        Strip("of all would be right, as estimated", *found.everywhere),
    ]
    text = f"It answers {_percent(found.answered)} of the rows, {_percent(found.right)} of these "
    text += "right. "
    if found.truth is not None:
        strips.insert(1, Strip("of all are right, by the labels", *(found.truth,) * 3))
        text += f"By the labels {_percent(found.truth)} of all would be right. The estimate "
        text += "without those of abstained rows "
        text += "misses that: " if found.outcome is Outcome.MISSED else "agrees: "
    else:
        text += "If it had to answer all: "
    text += f"{_percent(low)} to {_percent(high)}."
    alt = "Accuracy of the answers, and if it answered all."
    return text, sketches.intervals(strips, alt, _from(strips))


def _better(found: Rivalry, settings: Settings) -> tuple[str, str]:
    value, low, high = found.difference
    name = _short(found.other)
    what, unit, form, points = "Accuracy", 100, "+.1f", " points"
    if found.of_scores:
        what, unit, form, points = "Score", 1, "+.3g", ""
    told = "" if value is None else f"{unit * value:{form}}{points}"
    text, picture = f"{what} minus that of {name}: ", ""
    if math.isfinite(low) and math.isfinite(high):
        ends = f"{unit * low:{form}} to {unit * high:{form}}"
        text += f"{told} ({settings.percent} interval {ends})" if told else f"{ends}{points}"
        shown = Measured(*(None if one is None else unit * one for one in found.difference))
        reach = max(abs(shown.low), abs(shown.high), 0.01 * unit) * 1.15
        alt = "The difference with its interval, beside zero."
        strips = [Strip(f"minus that of {name}" + ", in points" * (unit == 100), *shown)]
        picture = sketches.intervals(strips, alt, (-reach, reach), 0.0, "+.2g")
    else:
        text += f"{told}, without an interval"
    text += ", by the labels." if found.by_labels else "."
    if found.more:
        text += f" {found.more} more model{'s' * (found.more > 1)} below; decisions allow for all."
    return text, picture


def _short(text: str) -> str:
    """A name that fits a line."""
    return text if len(text) <= 24 else f"{text[:22]}…"


_CARDS: dict[type[Finding], Callable[[Any, Settings], tuple[str, str]]] = {
    Goodness: _good,
    Calibration: _trust,
    Abstention: _when,
    Transfer: _there,
    Leak: _private,
    Forced: _always,
    Rivalry: _better,
}
