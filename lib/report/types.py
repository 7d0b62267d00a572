"""What every analysis of a report is made of."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

from lib import counterfactual, selective
from lib.bounds import mean_interval
from lib.check import as_integer, as_number, check_delta, require_choice, require_number
from lib.report.findings import Finding
from lib.report.predictions import ModelPredictions
from lib.suitability.labels import clopper_pearson

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]

#: The analyses and their titles.
ANALYSES = {
    "quality": "Accuracy and calibration",
    "selective": "Selective classification",
    "suitability": "Suitability for the user's data",
    "audit": "Privacy audit",
    "counterfactual": "Counterfactual accuracy",
    "comparison": "Counterfactual comparison with a competitor",
}

#: What may be said of how the scores of an audit came about, and the condition of its bound.
AUDIT_DESIGNS = {
    "one run": "a fair coin of its own decided for every point whether it was a member",
    "independent": "which points were members was decided at random and trials are independent",
}
FEWEST = 30  # answered rows, below which nothing is learned of what an answer is worth
FINE = 0.01  # half-width of an interval for an accuracy that leaves little to wish for
SCORES = ("softmax response", "entropy", "margin", "energy")  # acceptance scores of a report
POWER = 0.8  # with which a next step should decide
HOPELESS = 100  # times the rows there are: beyond it, a number of rows is no advice


@dataclass(frozen=True)
class Drawing:
    """A figure that is drawn when it is wanted.

    Attributes
    ----------
    draw : callable
        Returns a new figure.
    alt : str
        What is to be seen, for those who cannot see it.
    caption : str
        What it means.
    """

    draw: "Callable[[], Figure]"
    alt: str
    caption: str


@dataclass(frozen=True, eq=False)
class Analysis:
    """What one analysis found.

    Attributes
    ----------
    name : str
        Of :data:`ANALYSES`.
    title : str
        As there, or what fits this file better.
    tables : dict of str to pandas.DataFrame
        By name.
    captions : dict of str to str
        What each table shows.
    drawings : dict of str to Drawing
        By name.
    verdict : str
        What follows, in a sentence or two.
    values : dict of str to number
        What to quote; none of them is NaN.
    warnings : tuple of str
        What to note.
    next_steps : tuple of str
        What to collect to know more, with numbers; empty where nothing is open.
    findings : tuple of lib.report.findings.Finding
        What was found, as values: one for each question that the analysis answers.
    """

    name: str
    title: str
    tables: dict[str, pd.DataFrame] = field(repr=False)
    captions: dict[str, str] = field(repr=False)
    drawings: dict[str, Drawing] = field(repr=False)
    verdict: str
    values: dict[str, float]
    warnings: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How a report is made.

    Attributes
    ----------
    alpha : float
        In (0, 0.5): intervals have the level 1 - alpha (those of the suitability report
        1 - 2 alpha), tests the level alpha.
    margin : float
        In (-1, 1): the largest acceptable drop in accuracy on the user's data.
    target : float
        In (0, 1]: accuracy to reach by abstaining.
    delta : float
        In [0, 1): of the audit, if the file says none.
    learner : {"forest", "linear", "super"}
        Of the nuisance functions (:func:`lib.counterfactual.learner_pair`).  Propensities of
        ``"linear"`` are calibrated by isotonic regression where that predicts abstention better;
        then the interval allows for few answers with large weights.
    seed : int
        At least 0; of simulations that tell what an audit could have seen.  No verdict hangs on
        it, nor on the order of rows: folds, draws and the order of equal membership scores are by
        what the rows are.
    audit_design : {"one run", "independent"}
        How the membership scores came about, which has to be known before they are looked at.
        One run: all are of one training, and a fair coin of its own decided for every point
        whether it was a member (:func:`lib.audit.one_run_epsilon`).  Independent: every score is
        of a training of its own, whose member was decided at random; the largest of Clopper and
        Pearson's bounds at all thresholds, which pays for that choice
        (:func:`lib.audit.union_lower_bound`).  The verdict uses this design's bound and no other.
    """

    alpha: float = 0.05
    margin: float = 0.05
    target: float = 0.95
    delta: float = 1e-5
    learner: str = "forest"
    seed: int = 0
    audit_design: str = "one run"

    def __post_init__(self):
        as_number("alpha", self.alpha, 0, 0.5)
        as_number("margin", self.margin, -1, 1)
        require_number("target", self.target, above=0, at_most=1)
        check_delta(self.delta)
        require_choice("learner", self.learner, counterfactual.LEARNERS)
        require_choice("audit_design", self.audit_design, tuple(AUDIT_DESIGNS))
        as_integer("seed", self.seed, 0)

    @property
    def level(self) -> float:
        """Of intervals: 1 - alpha."""
        return 1 - self.alpha

    @property
    def percent(self) -> str:
        """The level in percent, with all its digits."""
        return f"{100 * self.level:.10g}%"


def table(rows: list[tuple], columns: list[str]) -> pd.DataFrame:
    """Items and numbers, NaN where a row is short."""
    filled = [(*row, *(math.nan,) * (len(columns) - len(row))) for row in rows]
    return pd.DataFrame(filled, columns=columns)


def share(
    correct: Array, level: float, clusters: Array | None = None
) -> tuple[float, float, float]:
    """A fraction with Clopper and Pearson's interval (SciPy's seeks it, and takes milliseconds).

    With clusters the interval is that of :func:`mean_of`.
    """
    if clusters is not None:
        return mean_of(np.asarray(correct, dtype=float), (0.0, 1.0), level, clusters)
    ends = clopper_pearson(int(correct.sum()), len(correct), (1 - level) / 2)
    return float(correct.mean()), *ends


def mean_of(
    values: Array, ends: tuple[float, float], level: float, clusters: Array | None = None
) -> tuple[float, float, float]:
    """A mean of values between two ends, with :func:`lib.bounds.mean_interval`.

    With clusters, these are what is independent: their sums count.  Two values, or clusters, are
    the fewest; else the interval is as wide as the ends.
    """
    mean, n = float(values.mean()), len(values)
    place, sizes = np.arange(n), np.ones(n)
    if clusters is not None:
        _, place, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    count = len(sizes)
    if count < 2:
        return mean, *ends
    sums = np.bincount(place, weights=values - mean) * (count / n)
    reach = float(sizes.max()) * count / n
    found = mean_interval(mean, sums, (ends[0] - mean) * reach, (ends[1] - mean) * reach, level)
    return mean, max(found.low, ends[0]), min(found.high, ends[1])


def acceptance_scores(logits: Array) -> dict[str, Array]:
    """The acceptance scores of a report, larger is accepted earlier; logits are finite."""
    # Sorted once: the order of the classes changes none of the four, and each sorts by itself.
    logits = np.sort(logits, axis=1).astype(float)
    probabilities = special.softmax(logits, axis=1)
    by_probabilities = (selective.softmax_response, selective.entropy, selective.margin)
    found = (*(score(probabilities) for score in by_probabilities), selective.energy(logits))
    return dict(zip(SCORES, found, strict=True))


def silent(logits: Array) -> Array:
    """Rows without logits."""
    return np.isnan(logits).any(axis=1)


def not_at_random(given: ModelPredictions) -> bool:
    """Whether labels are missing where the model abstained only, or clearly more often there.

    Clearly is a difference of the missing fractions of at least 0.05 with a p-value of Fisher's
    exact test below 0.001.
    """
    if given.test_labels is None or given.test_abstained is None:
        return False
    unknown, abstained = given.test_labels < 0, given.test_abstained
    counts = [[(u & a).sum() for a in (abstained, ~abstained)] for u in (unknown, ~unknown)]
    if not counts[0][1] or not abstained.any():
        return bool(unknown.any() and abstained.any())
    apart = unknown[abstained].mean() - unknown[~abstained].mean() >= 0.05
    return bool(apart and stats.fisher_exact(counts, "greater").pvalue < 1e-3)


def check(predictions: Any) -> ModelPredictions:
    """A validated object, or a TypeError."""
    if not isinstance(predictions, ModelPredictions):
        raise TypeError(f"predictions must be ModelPredictions, got {type(predictions).__name__}")
    return predictions
