"""What analyses found, as values: the words, signs and pictures of a page follow from these.

An analysis decides once.  Its sentence and its card are made from the same finding, so that neither
is read off the other, and they cannot disagree.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import ClassVar, NamedTuple

import pandas as pd


@unique
class Outcome(Enum):
    """An answer: its light, and the word that says it, with places for numbers.

    Lights are "yes", "care", "no", "told" for a number that is neither good nor bad, and "open"
    where nothing is known.
    """

    # Is the model any good?
    BETTER = "yes", "BETTER THAN A CONSTANT"
    NOT_IN_ALL_GROUPS = "care", "BETTER, BUT NOT IN ALL GROUPS"
    ALL_RIGHT = "care", "ALL RIGHT: CHECK THE LABELS"
    NOT_SHOWN_BETTER = "care", "NOT SHOWN TO BEAT A CONSTANT"
    WORSE = "no", "WORSE THAN A CONSTANT"
    ONE_CLASS = "open", "LABELS OF ONE CLASS"
    ACCURACY_ONLY = "open", "ACCURACY ONLY"
    # Can I trust its confidence?
    CLOSE = "yes", "TRUE TO WITHIN {close}"
    TOO_SURE = "no", "SURER THAN IT IS RIGHT"
    TOO_MODEST = "care", "TOO MODEST"
    TOO_SURE_IN_PLACES = "no", "TOO SURE IN PLACES"
    TOO_MODEST_IN_PLACES = "care", "TOO MODEST IN PLACES"
    NOT_SHOWN_TRUE = "care", "NOT SHOWN"
    # When should it answer?
    ALWAYS = "yes", "ALWAYS"
    ALWAYS_IF = "care", "ALWAYS, IF THE LABELS ARE TRUE"
    WHERE_SURE = "care", "WHERE IT IS SURE"
    NO_PROMISE = "no", "NO PROMISE OF {target}"
    UNCHECKED = "no", "NOTHING IS PROMISED"
    # May I use it on that other data?
    SUITABLE = "yes", "SUITABLE"
    SUITABLE_IF = "care", "SUITABLE, IF THE ESTIMATES HOLD"
    UNCONFIRMED = "care", "UNCONFIRMED"
    INCONCLUSIVE = "care", "INCONCLUSIVE"
    UNSUITABLE = "no", "UNSUITABLE"
    # Does it give away its training data?
    NO_BOUND = "open", "NO BOUND HOLDS"
    REFUTED = "no", "CLAIM REFUTED"
    NOT_REFUTED = "care", "CLAIM NOT REFUTED"
    SOME_SHOWN = "care", "SOME IS SHOWN"
    NOTHING_SHOWN = "care", "NOTHING IS SHOWN"
    # How good if it always had to answer?
    ESTIMATED = "told", "ABOUT {share}"
    LABELLED = "told", "{share} BY THE LABELS"
    MISSED = "care", "{share} BY THE LABELS"
    BOUNDED = "care", "BOUNDS ONLY"
    # Is it better than the other model?
    AHEAD = "yes", "BETTER"
    BEHIND = "no", "WORSE"
    UNDECIDED = "care", "NOT DECIDED"

    @property
    def light(self) -> str:
        """Good, bad or neither."""
        return self.value[0]

    @property
    def word(self) -> str:
        """How it is said."""
        return self.value[1]


class Measured(NamedTuple):
    """A number with its interval; without a point there are bounds only."""

    value: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """What was found on one question."""

    question: ClassVar[str]
    outcome: Outcome


@dataclass(frozen=True)
class Goodness(Finding):
    """Accuracy beside that of the commonest class, which is None where labels are not told."""

    question = "good"
    rows: int
    accuracy: Measured
    commonest: str = ""
    constant: float | None = None


@dataclass(frozen=True)
class Calibration(Finding):
    """Mean confidence and accuracy, the calibration error, and the bins behind it."""

    question = "trust"
    confidence: float
    accuracy: float
    error: Measured
    bins: pd.DataFrame = field(repr=False)


@dataclass(frozen=True)
class Abstention(Finding):
    """The fraction of rows that may be answered, above which threshold of which score."""

    question = "when"
    accuracy: Measured
    share: float
    score: str
    threshold: float


@dataclass(frozen=True)
class Transfer(Finding):
    """Accuracy on test and on user data, by labels or as estimated without them."""

    question = "there"
    test: Measured
    user: Measured
    by_labels: bool


@dataclass(frozen=True)
class Leak(Finding):
    """The lower bound on epsilon that holds in the declared design, and the claim."""

    question = "private"
    lower: float
    claim: float | None

    @property
    def shown(self) -> str:
        """The bound, rounded down: with so many decimals that it says what was decided."""
        for digits in range(2, 13):
            least = math.floor(self.lower * 10**digits + 1e-6) / 10**digits
            refutes = self.outcome is not Outcome.REFUTED or least > (self.claim or 0.0)
            if refutes and (least > 0 or self.lower <= 0):
                break
        return f"{least:.{digits}f}"


@dataclass(frozen=True)
class Forced(Finding):
    """Answered fraction, accuracy of the answers, that of answering always, and what labels say."""

    question = "always"
    answered: float
    right: float
    everywhere: Measured
    truth: float | None


@dataclass(frozen=True)
class Rivalry(Finding):
    """The difference to another model: of accuracies, or of scores of any unit."""

    question = "better"
    difference: Measured
    other: str = "the other model"
    more: int = 0  # models beyond the first
    of_scores: bool = False
    by_labels: bool = False


_WINNER = {
    Outcome.AHEAD: "the model would be better",
    Outcome.BEHIND: "the competitor would be better",
    Outcome.UNDECIDED: "which of the two would be better is not decided",
}


def winner(interval: Sequence[float]) -> Outcome:
    """Which of the two is better, up to rounding, or that it is not decided."""
    low, high = interval
    if low > 1e-12:
        return Outcome.AHEAD
    return Outcome.BEHIND if high < -1e-12 else Outcome.UNDECIDED


def winner_text(interval: Sequence[float]) -> str:
    """The same in words."""
    return _WINNER[winner(interval)]
