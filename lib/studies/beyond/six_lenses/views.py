"""The classifier as each lens sees it, and what that means in words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

from lib import selective
from lib.runs import run_all
from lib.studies.beyond.six_lenses.lens_audits import ledger_of
from lib.studies.beyond.six_lenses.lens_jobs import Classifiers
from lib.studies.beyond.six_lenses.settings import LensSettings
from lib.studies.counterfactual import scenarios
from lib.studies.counterfactual.simulation import share_interval
from lib.suitability import SuitabilityFilter, signals

Array = npt.NDArray[np.float64]
_COMPONENTS = 32  # of the evaluator's features, where there are more than 64
MODELS = ("private", "plain")
DROP = "drop on these images"
TRUTHS = ("suitable", "unsuitable", "undecided")


@dataclass(frozen=True, eq=False)
class Classified:
    """Both models' answers."""

    settings: LensSettings  # What was trained
    shifts: tuple[tuple[str, float], ...]  # Kinds and severities
    # Of :class:`lib.studies.beyond.six_lenses.lens_jobs.Classifiers`; the private model comes first
    arrays: Mapping[str, npt.NDArray]
    # What the private training spent, as it was recorded when it was trained
    privacy: Mapping[str, Any]

    def logits(self, points: str = "test", model: str = "private") -> Array:
        """Logits of a model on the test, validation or shifted points."""
        return np.asarray(self.arrays[points][MODELS.index(model)], dtype=np.float64)

    def probabilities(self, points: str = "test", model: str = "private") -> Array:
        """Softmax of the logits, in double precision."""
        return special.softmax(self.logits(points, model), axis=-1)

    def correct(self, points: str = "test", model: str = "private") -> npt.NDArray[np.bool_]:
        """Whether each answer is right; of shifted points shape (shifts, users)."""
        labels = {
            "test": self.arrays["labels"],
            "validation": self.arrays["validation_labels"],
            "shifted": self.arrays["labels"][self.arrays["users"]],
        }[points]
        return self.logits(points, model).argmax(axis=-1) == labels


def classify(settings: LensSettings, shifts: Sequence[tuple[str, float]]) -> Classified:
    """Train the private model and its competitor, or read them where they are stored."""
    shifts = tuple((str(kind), float(severity)) for kind, severity in shifts)
    configs = settings.config("private"), settings.config("plain")
    (run,) = run_all([Classifiers(configs, settings.data, shifts, settings.seed)])
    arrays = {name: np.asarray(array) for name, array in run.arrays.items()}
    return Classified(settings, shifts, arrays, run.privacy["models"][0])


@dataclass(frozen=True)
class Trained:
    """The first lens: what privacy cost in accuracy."""

    epsilon: float  # What the accountant proves for one record, added or removed
    delta: float
    noise_multiplier: float  # Of the mechanism
    sample_rate: float
    # On the test points: value, and Clopper-Pearson's interval of 95%
    accuracy: tuple[float, float, float]
    plain_accuracy: tuple[float, float, float]
    # Accuracy of the competitor minus that of the private model, with a normal interval of 95% for
    # the same points. It is about test points and these two models: other training runs of the same
    # kinds are not in it.
    lost: tuple[float, float, float]


def trained(found: Classified) -> Trained:
    """Ask the accountant and the test points."""
    settings = found.settings
    private, plain = (found.correct("test", model) for model in MODELS)
    return Trained(
        epsilon=ledger_of(settings).epsilon(settings.training.delta, settings.training.accountant),
        delta=settings.training.delta,
        noise_multiplier=float(found.privacy["noise_multiplier"]),
        sample_rate=float(found.privacy["sample_rate"]),
        accuracy=_share(private),
        plain_accuracy=_share(plain),
        lost=_paired(plain, private),
    )


@dataclass(frozen=True, eq=False)
class Abstention:
    """The second lens: whether the model knows what it does not know."""

    # Accuracy-normalized score of the softmax response on the test points; 0 is the best order
    score: selective.Estimate
    plain_score: selective.Estimate  # The competitor's
    target: float  # Accuracy asked for
    # The confidence from which on the model answers, chosen on the validation points; infinite if
    # no threshold reaches the target there
    threshold: float
    # With that threshold on the test points: share answered, and accuracy on it, each with Clopper-
    # Pearson's interval of 95%; an accuracy of 1 in [0, 1] where nothing is answered
    coverage: tuple[float, float, float]
    accuracy: tuple[float, float, float]
    curves: dict[str, selective.AccuracyCoverage]  # Of both models


def abstention(found: Classified, target: float) -> Abstention:
    """Rank by the softmax response, and choose the threshold where the test points are not read."""
    sure = {m: found.probabilities("test", m).max(axis=1) for m in MODELS}
    # The same order, without ties at 1.
    order = {m: selective.log_odds(found.probabilities("test", m)) for m in MODELS}
    right = {m: found.correct("test", m) for m in MODELS}
    known = found.probabilities("validation").max(axis=1)
    threshold = _threshold(found.correct("validation"), known, target)
    answered = sure["private"] >= threshold
    kept = right["private"][answered]
    return Abstention(
        score=selective.estimate(right["private"], order["private"]),
        plain_score=selective.estimate(right["plain"], order["plain"]),
        target=target,
        threshold=threshold,
        coverage=_share(answered),
        accuracy=_share(kept) if len(kept) else (1.0, 0.0, 1.0),
        curves={m: selective.accuracy_coverage(right[m], order[m]) for m in MODELS},
    )


def suitability(found: Classified, margin: float, alpha: float = 0.05) -> pd.DataFrame:
    """Ask the suitability filter about every population, with the truth beside.

    Fitted to the validation points; half of the test points are the reference, the others shifted.
    """
    the_filter = SuitabilityFilter(margin=margin, alpha=alpha)
    the_filter.fit(signals(found.logits("validation")), found.correct("validation"))
    reference = signals(found.logits("test")[found.arrays["reference"]])
    as_they_are = found.correct("test")[found.arrays["users"]]
    rows = []
    for (kind, severity), logits, right in zip(
        found.shifts, found.logits("shifted"), found.correct("shifted"), strict=True
    ):
        decision = the_filter.decide(reference, signals(logits))
        drop, low, high = _paired(as_they_are, right)
        rows.append(
            {
                "shift": kind if severity else "none",
                "severity": severity,
                "p-value": decision.p_value,
                "decision": "SUITABLE" if decision.suitable else "INCONCLUSIVE",
                "estimated drop": decision.estimated_test_accuracy
                - decision.estimated_user_accuracy,
                DROP: drop,
                "low": low,
                "high": high,
                "accuracy": float(right.mean()),
                "truth": TRUTHS[0] if high <= margin else TRUTHS[1] if low > margin else TRUTHS[2],
            }
        )
    return pd.DataFrame(rows)


def compare_answers(found: Classified, draws: int, *, epsilon: float = 0.2) -> pd.DataFrame:
    """Compare both models when each abstains at random, the unsure more often."""
    settings = found.settings
    x = settings.data.load().evaluation.astype(np.float64)
    x = x.reshape(len(x), -1)
    if x.shape[1] > 64:
        x = _components(x)
    labels = np.asarray(found.arrays["labels"])
    probabilities = {m: found.probabilities("test", m) for m in MODELS}
    evaluation = scenarios.Evaluation(x, labels, probabilities)
    rules = scenarios.Rule(), scenarios.Rule()
    scenario = scenarios.Scenario("private against plain", *MODELS, *rules)
    rows = []
    for k in range(draws):
        rng = np.random.default_rng([settings.seed, 74, k])
        given = {"learner": "linear", "rule": "zero-one", "epsilon": epsilon, "rng": rng}
        rows.append(scenarios.run_scenario(evaluation, scenario, **given))
    return pd.DataFrame(rows)


def decisions(
    training: Trained,
    abstaining: Abstention,
    populations: pd.DataFrame,
    record: Mapping[str, float],
    labels: Mapping[str, float],
    difference: Mapping[str, float],
) -> dict[str, str]:
    """What each lens answers, in words that follow from the numbers."""
    if training.lost[1] > 0:
        first = "Less accurate than the competitor"
    elif training.lost[2] < 0:
        first = "More accurate than the competitor"
    else:
        first = "No difference to the competitor can be shown"
    return {
        "training": first,
        "abstention": _reached(abstaining),
        "suitability": _accepted(populations),
        "audit": _against(record),
        "labels": _against(labels),
        "counterfactual": _sign(difference["low"], difference["high"]),
    }


def _reached(found: Abstention) -> str:
    value, low, high = found.accuracy
    if not found.coverage[0]:
        return "No answers"
    if low >= found.target:
        return "Yes, with this threshold"
    if value >= found.target:
        return "Not contradicted: above the target, but the interval reaches below"
    return "Below the target, within its error" if high >= found.target else "Below the target"


def _accepted(populations: pd.DataFrame) -> str:
    said = populations["decision"] == "SUITABLE"
    which = [populations["truth"] == each for each in TRUTHS]
    counts = [(int((said & rows).sum()), int(rows.sum())) for rows in which]
    (good, suitable), (bad, unsuitable), (unclear, undecided) = counts
    words = (
        f"Accepted {good} of the {suitable} clearly suitable populations and {bad or 'none'} of the"
        f" {unsuitable} clearly unsuitable ones; {undecided} undecided"
    )
    return f"{words}, {unclear} of them accepted" if unclear else words


def _against(found: Mapping[str, float]) -> str:
    """By a bound, a proof, and the largest bound that could have come out."""
    if found["lower"] > found["proven"]:
        return "The attack contradicts the proof"
    shown = "finds something" if found["lower"] > 0 else "shows nothing"
    if found["ceiling"] <= found["proven"]:
        return f"The attack {shown}, and could not have contradicted the proof with so few canaries"
    if found["lower"] > 0:
        return "The attack finds something, and less than is proven"
    return "The attack shows nothing, though it could have contradicted the proof"


def _sign(low: float, high: float) -> str:
    if high < 0:
        return "The competitor would be the better one"
    if low > 0:
        return "The private model would be the better one"
    return "Which one is better cannot be told from this"


def _threshold(correct: npt.ArrayLike, score: Array, target: float) -> float:
    """The least score from which on, ties included, accuracy reaches the target; or infinity."""
    answered = round(selective.coverage_at_accuracy(correct, score, target) * len(score))
    return float(np.sort(score)[-answered]) if answered else math.inf


def _share(values: npt.ArrayLike) -> tuple[float, float, float]:
    """Mean of booleans, and Clopper-Pearson's interval of 95%."""
    values = np.asarray(values, dtype=bool)
    return float(values.mean()), *share_interval(values.sum(), len(values))


def _paired(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[float, float, float]:
    """Mean difference of booleans on the same points, and its normal interval of 95%."""
    gap = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    half = float(stats.norm.isf(0.025)) * float(gap.std(ddof=1)) / math.sqrt(len(gap))
    value = float(gap.mean())
    return value, value - half, value + half


def _components(x: Array) -> Array:
    """Principal components of the evaluation points: the evaluator sees no training data."""
    from sklearn.decomposition import PCA

    return PCA(_COMPONENTS, svd_solver="full", whiten=True).fit_transform(x)
