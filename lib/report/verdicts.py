"""What a report says first: each question that people have, answered in a word, a line, a picture.

Nothing is decided here: each word repeats what an analysis has decided, with its level.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd

from lib.report import confidence, sketches
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
    """An answer.

    `light` is "yes", "care", "no", "told" for a number that is neither good nor bad, or "open"
    where nothing is known; `word` says it in words.
    """

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
    found = []
    for name, (_, source) in QUESTIONS.items():
        one = analyses.get(source)
        answer = None if one is None else _ANSWERS[name](one, settings)
        if answer is not None:
            found.append(answer._replace(name=name))
    return found


def _percent(value: float) -> str:
    """In percent; 100% and 0% are said of nothing less."""
    text = f"{value:.1%}"
    if text == "100.0%":
        return "100%" if value == 1 else "99.9%"
    if text == "0.0%":
        return "0%" if value == 0 else "under 0.1%"
    return text


def _rows(one: Analysis, name: str) -> pd.DataFrame:
    return one.tables[name].set_index("item")


def _good(one: Analysis, settings: Settings) -> Verdict:
    rows = _rows(one, "quality")
    accuracy = rows.loc["accuracy"]
    strips = [Strip("the model's accuracy", *accuracy[["value", "low", "high"]])]
    n = int(rows.loc["labelled test rows", "value"])
    text = f"Right in {_percent(accuracy['value'])} of {n:,} row{'s' * (n != 1)}"
    text += f" ({settings.level:.0%} interval {_percent(accuracy['low'])} to "
    text += f"{_percent(accuracy['high'])})."
    if "accuracy minus that" not in rows.index:
        text += " Without labels nothing says how often a constant would be."
        picture = sketches.intervals(strips, "The accuracy with its interval.", (0, 1))
        return Verdict("", "open", "ACCURACY ONLY", text, picture)
    gap = rows.loc["accuracy minus that"]
    item = next(item for item in rows.index if item.startswith("always the commonest class, "))
    named = item.removeprefix("always the commonest class, ")
    constant = float(rows.loc[item, "value"])
    strips.append(Strip(f"always answering {_short(named)}", constant, constant, constant))
    text += f" Always answering {_short(named)} is in {_percent(constant)}."
    alt = "The accuracy with its interval, above that of a constant answer."
    picture = sketches.intervals(strips, alt, (0, 1))
    light, word = "care", "NOT SHOWN TO BEAT A CONSTANT"
    if gap["low"] > 0:
        light, word = "yes", "BETTER THAN A CONSTANT"
    elif gap["high"] < 0:
        light, word = "no", "WORSE THAN A CONSTANT"
    if light == "yes" and any("groups the model" in text for text in one.warnings):
        light, word = "care", "BETTER, BUT NOT IN ALL GROUPS"
    if light == "yes" and any("answers are right:" in text for text in one.warnings):
        light, word = "care", "ALL RIGHT: CHECK THE LABELS"
    return Verdict("", light, word, text, picture)


def _trust(one: Analysis, settings: Settings) -> Verdict | None:
    bins = one.tables.get("quality_bins")
    if bins is None:
        return None
    light, word = {
        "close": ("yes", f"TRUE TO WITHIN {confidence.CLOSE * 100:g} POINTS"),
        "too sure": ("no", "SURER THAN IT IS RIGHT"),
        "too modest": ("care", "TOO MODEST"),
        "open": ("care", "NOT SHOWN"),
    }[confidence.judged(bins)]
    found = [one.values[name] for name in ("ece", "ece_low", "ece_high")]
    error, low, high = (f"{100 * value:.1f}" for value in found)
    sure = f"{bins['confidence'] @ bins['rows'] / bins['rows'].sum():.1%}"
    right = f"{bins['accuracy'] @ bins['rows'] / bins['rows'].sum():.1%}"
    text = f"On average {sure} sure and {right} right; bin by bin confidence is {error} points off"
    text += f" ({settings.level:.0%} interval {low} to {high})."
    alt = "Accuracy by confidence, with intervals, beside the diagonal."
    return Verdict("", light, word, text, sketches.reliability(bins, alt))


def _when(one: Analysis, settings: Settings) -> Verdict:
    target = f"{100 * settings.target:g}%"
    accuracy = _rows(one, "selective").loc["accuracy"]
    if accuracy["low"] >= settings.target:
        alt = "A bar that is filled: it may answer always."
        picture = sketches.part(1, "answers always", "", alt)
        text = f"It is right in {target} also without abstaining."
        return Verdict("", "yes", "ALWAYS", text, picture)
    table = one.tables["selective_scores"]
    chosen = table.loc[table["guaranteed coverage"].idxmax()]
    share = float(chosen["guaranteed coverage"])
    if share <= 0:
        text = f"At no confidence can these rows promise {target} right answers."
        picture = sketches.part(0, "", "no part is promised", "An empty bar: no part is promised.")
        return Verdict("", "no", f"NO PROMISE OF {target}", text, picture)
    seen = f"{share:.1%}"
    text = (
        f"If it answers the surest {seen}, above a {chosen['score']} of "
        f"{chosen['guaranteed above']:.3g}, at least {target} of its answers are right, with a "
        f"confidence of {settings.level:.0%}, on data like these."
    )
    picture = sketches.part(
        share, f"answers {seen}", f"abstains {1 - share:.1%}", f"A bar that is filled to {seen}."
    )
    return Verdict("", "care", "WHERE IT IS SURE", text, picture)


def _there(one: Analysis, settings: Settings) -> Verdict:
    first = one.verdict.split()[0].strip(":,.")
    by_labels = "by the labelled user rows" in one.verdict.split(":")[0]
    rows = _rows(one, "suitability")
    label, kind = "accuracy on labelled {} rows", "accuracy"
    if not by_labels:
        label, kind = "estimated {} accuracy", "estimated accuracy"
    strips = []
    for part, where in (("test", "on test rows"), ("user", "on that data")):
        value, low, high = rows.loc[label.format(part), ["value", "low", "high"]].astype(float)
        strips.append(Strip(f"{kind} {where}", value, low, high))
    least = min(one_strip.low for one_strip in strips)
    ends = (math.floor(10 * max(0.0, least - 0.02)) / 10, 1.0)
    margin = f"{100 * settings.margin:g} points"
    test, user = strips[0].value, strips[1].value
    text = f"{_percent(user)} there and {_percent(test)} on test rows"
    text += ", by labels." if by_labels else ", as estimated without labels."
    light, word, more = {
        "SUITABLE": ("yes", "SUITABLE", f"A drop of more than {margin} is excluded."),
        "UNSUITABLE": ("no", "UNSUITABLE", f"A drop of more than {margin} is shown."),
        "UNCONFIRMED": ("care", "UNCONFIRMED", "The data look different: label some first."),
    }.get(first, ("care", "INCONCLUSIVE", f"A drop of more than {margin} is not excluded."))
    if first == "SUITABLE" and not by_labels:
        light, word = "care", "SUITABLE, IF THE ESTIMATES HOLD"
    picture = sketches.intervals(strips, f"{kind} on test and on user data.".capitalize(), ends)
    return Verdict("", light, word, f"{text} {more}", picture)


def _private(one: Analysis, settings: Settings) -> Verdict:
    lower, claim = one.values["audit_lower"], one.values.get("audit_claimed")
    strips = [Strip("epsilon is at least", lower, 0.0, lower)]
    most = max(lower, claim or 0.0, 1.0)
    if claim is not None:
        strips.append(Strip("epsilon is claimed to be at most", claim, claim, claim))
    picture = sketches.intervals(
        strips, "The bound that the attack shows, and the claim.", (0.0, 1.1 * most), form=".2g"
    )
    text = f"The attack shows epsilon of at least {lower:.2f}, in the design "
    text += f"'{settings.audit_design}'."
    if one.verdict.startswith("No bound holds"):
        return Verdict("", "open", "NO BOUND HOLDS", one.verdict.split(":")[0] + ".")
    if claim is not None and lower > claim:
        return Verdict("", "no", "CLAIM REFUTED", f"{text} That is more than {claim:g}.", picture)
    if claim is not None:
        more = f"That does not contradict the claimed {claim:g}, and does not prove it."
        return Verdict("", "care", "CLAIM NOT REFUTED", f"{text} {more}", picture)
    if lower > 0:
        return Verdict("", "care", "SOME IS SHOWN", text, picture)
    return Verdict("", "care", "NOTHING IS SHOWN", f"{text} Another attack may show more.", picture)


def _always(one: Analysis, settings: Settings) -> Verdict:
    values = one.values
    low, high = values["counterfactual_low"], values["counterfactual_high"]
    point = values.get("counterfactual")
    truth = values.get("truth")
    answered, right = values["answered"], values["answers_right"]
    strips = [
        Strip("of its answers are right", right, right, right),
        Strip("of all would be right", point, low, high),
    ]
    least = min(right, low, 1.0 if truth is None else truth)
    ends = (math.floor(10 * max(0.0, least - 0.02)) / 10, 1.0)
    picture = sketches.intervals(strips, "Accuracy of the answers, and if it answered all.", ends)
    text = f"It answers {_percent(answered)}, {_percent(right)} of these right. If it had to "
    text += f"answer all: {_percent(low)} to {_percent(high)} right."
    if truth is not None:
        text += f" By the labels: {_percent(truth)}."
    if truth is not None and not low - 1e-9 <= truth <= high + 1e-9:
        return Verdict("", "care", "THE ESTIMATE MISSES", text, picture)
    word = "BOUNDS ONLY" if point is None else f"ABOUT {_percent(point)}"
    return Verdict("", "care" if point is None else "told", word, text, picture)


def _better(one: Analysis, settings: Settings) -> Verdict:
    values, table = one.values, one.tables["comparison"]
    low, high = values["difference_low"], values["difference_high"]
    value = values.get("difference")
    decided = (low > 0 or high < 0) and not one.verdict.startswith("Decision: undecided")
    name, others, what, unit = "the other model", "", "Accuracy", 100
    if "decided" in table:  # models that never abstain, one a row
        decided = table["decided"].iloc[0] != "not decided"
        name, more = _short(str(table["model"].iloc[0])), len(table) - 1
        others = f" {more} more model{'s' * (more > 1)} below." if more else ""
    elif "service" in table:  # scores, which may be of any kind
        what, unit = "Score", 1
    reach = max(abs(low), abs(high), 0.01) * 1.15
    strips = [Strip(f"minus that of {name}", value, low, high)]
    picture = sketches.intervals(
        strips, "The difference with its interval, beside zero.", (-reach, reach), 0.0, "+.2g"
    )
    form = "+.1f" if unit == 100 else "+.3g"
    points, ends = " points" * (unit == 100), f"{unit * low:{form}} to {unit * high:{form}}"
    text = f"{what} minus that of {name}: "
    text += f"{ends}{points}" if value is None else f"{unit * value:{form}}{points} ({ends})"
    text = f"{text}.{others}"
    if one.verdict.startswith("The interval below misses"):
        return Verdict("", "care", "THE ESTIMATE MISSES", text, picture)
    if not decided:
        return Verdict("", "care", "NOT DECIDED", text, picture)
    better = low > 0 if value is None else value > 0
    return Verdict("", *(("yes", "BETTER") if better else ("no", "WORSE")), text, picture)


def _short(text: str) -> str:
    """A name that fits a line."""
    return text if len(text) <= 24 else f"{text[:22]}…"


_ANSWERS: dict[str, Callable[[Analysis, Settings], Verdict | None]] = {
    "good": _good,
    "trust": _trust,
    "when": _when,
    "there": _there,
    "private": _private,
    "always": _always,
    "better": _better,
}
