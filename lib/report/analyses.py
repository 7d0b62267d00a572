"""Every analysis that a user's file allows, and why the others are skipped."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from scipy import special, stats

from lib import audit, counterfactual, selective, suitability
from lib.audit.one_run import best_one_run
from lib.audit.selection import chosen_threshold
from lib.counterfactual import overlap
from lib.counterfactual.diagnostics import SURE
from lib.counterfactual.learners import calibrated
from lib.report import collect, figures
from lib.report.collect import about
from lib.report.figures import plot_contamination, plot_tipping_point
from lib.report.predictions import ModelPredictions
from lib.report.suitability import Predictions, SuitabilityReport, printable, suitability_report
from lib.suitability.tipping import FMOW_ERRORS
from lib.ties import first_smallest

__all__ = ["ANALYSES", "Analysis", "Drawing", "Settings", "explain", "run_analysis"]

Array = npt.NDArray[Any]

#: The analyses and their titles.
ANALYSES = MappingProxyType(
    {
        "selective": "Selective classification",
        "suitability": "Suitability for the user's data",
        "audit": "Privacy audit",
        "counterfactual": "Counterfactual accuracy",
        "comparison": "Counterfactual comparison with a competitor",
    }
)

_NEEDS = {
    "selective": ("test_logits", "test_labels"),
    "suitability": ("holdout_logits", "holdout_labels", "test_logits", "user_logits"),
    "audit": ("member_scores", "nonmember_scores"),
    "counterfactual": ("test_logits", "test_labels", "test_abstained"),
    "comparison": (
        "test_logits",
        "test_labels",
        "test_abstained",
        "other_logits",
        "other_abstained",
    ),
}
_ADDS = {
    "selective": (),
    "suitability": ("test_labels", "user_labels"),
    "audit": ("epsilon", "delta"),
    "counterfactual": ("test_features", "test_propensities"),
    "comparison": ("test_features", "test_propensities", "other_propensities"),
}
#: What may be said of how the scores of an audit came about, and the condition of its bound.
AUDIT_DESIGNS = MappingProxyType(
    {
        "one run": "a fair coin of its own decided for every point whether it was a member",
        "independent": "which points were members was decided at random and trials are independent",
    }
)
_NO_COIN = 1e-3  # p-value of the numbers of members and others, below which coins were not fair
_FOLDS = 5
_FEWEST = 30  # answered rows, below which nothing is learned of what an answer is worth
_FEW_WRONG = 30  # below it too few normal intervals of areas hold: see lib.selective.estimate
_KNOWN_CLIP = 1e-12  # of propensities that need no clipping
_FINE = 0.01  # half-width of an interval for an accuracy that leaves little to wish for
_POWER = 0.8  # with which a next step should decide
_HOPELESS = 100  # times the rows there are: beyond it, a number of rows is no advice


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

    draw: Callable[[], Figure]
    alt: str
    caption: str


@dataclass(frozen=True, eq=False)
class Analysis:
    """What one analysis found.

    Attributes
    ----------
    name, title : str
        Of :data:`ANALYSES`.
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
        What to mind.
    next_steps : tuple of str
        What to collect to know more, with numbers; empty where nothing is open.
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
        At least 0; of folds, learners, halves and the order of equal membership scores.
    audit_design : {"one run", "independent"}
        How the membership scores came about, which has to be known before they are looked at.
        One run: all are of one training, and a fair coin of its own decided for every point
        whether it was a member (:func:`lib.audit.one_run_epsilon`).  Independent: every score is
        of a training of its own, whose member was decided at random; Clopper and Pearson's bound
        at a threshold that one half chose.  The verdict uses this design's bound and no other.

    Raises
    ------
    ValueError
        On settings that are not as above.
    """

    alpha: float = 0.05
    margin: float = 0.05
    target: float = 0.95
    delta: float = 1e-5
    learner: str = "forest"
    seed: int = 0
    audit_design: str = "one run"

    def __post_init__(self):
        limits = {
            "alpha": (0, 0.5, "(0, 0.5)"),
            "margin": (-1, 1, "(-1, 1)"),
            "target": (0, math.nextafter(1, 2), "(0, 1]"),
            "delta": (math.nextafter(0, -1), 1, "[0, 1)"),
        }
        for name, (low, high, allowed) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise ValueError(f"{name} must be a number in {allowed}, got {value!r}")
            if not low < value < high:
                raise ValueError(f"{name} must be a number in {allowed}, got {value!r}")
        if self.learner not in counterfactual.LEARNERS:
            allowed = ", ".join(counterfactual.LEARNERS)
            raise ValueError(f"learner must be one of {allowed}, got {self.learner!r}")
        if self.audit_design not in AUDIT_DESIGNS:
            allowed = ", ".join(AUDIT_DESIGNS)
            raise ValueError(f"audit_design must be one of {allowed}, got {self.audit_design!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {self.seed!r}")

    @property
    def level(self) -> float:
        """Of intervals: 1 - alpha."""
        return 1 - self.alpha


def explain(predictions: ModelPredictions) -> pd.DataFrame:
    """Say which analyses a file allows, and what the others lack.

    Parameters
    ----------
    predictions : ModelPredictions
        Of :func:`lib.report.read_predictions`.

    Returns
    -------
    pandas.DataFrame
        One row an analysis: ``analysis``, ``possible``, ``missing`` (arrays that it needs),
        ``reason`` (why it is skipped, empty if it is not) and ``would add`` (arrays that are not
        there and would tell more).
    """
    _check(predictions)
    rows = []
    for name in ANALYSES:
        missing, reason = _obstacle(name, predictions)
        more = [other for other in _ADDS[name] if not predictions.has(other)]
        rows.append((name, not reason, ", ".join(missing), reason, ", ".join(more)))
    return pd.DataFrame(rows, columns=["analysis", "possible", "missing", "reason", "would add"])


def run_analysis(name: str, predictions: ModelPredictions, settings: Settings) -> Analysis:
    """Run one analysis.

    Parameters
    ----------
    name : str
        Of :data:`ANALYSES`.
    predictions : ModelPredictions
        Of :func:`lib.report.read_predictions`.
    settings : Settings
        How.

    Returns
    -------
    Analysis

    Raises
    ------
    ValueError
        If the file does not allow it; the message is the reason of :func:`explain`.
    """
    _check(predictions)
    if name not in ANALYSES:
        raise ValueError(f"name must be one of {', '.join(ANALYSES)}, got {name!r}")
    _, reason = _obstacle(name, predictions)
    if reason:
        raise ValueError(f"{name} is not possible: {reason}")
    return _RUN[name](predictions, settings)


def _check(predictions: Any) -> None:
    if not isinstance(predictions, ModelPredictions):
        raise TypeError(f"predictions must be ModelPredictions, got {type(predictions).__name__}")


# --- what is possible -----------------------------------------------------------------------------


def _obstacle(name: str, given: ModelPredictions) -> tuple[list[str], str]:
    """Arrays that are missing, and why an analysis is not possible: empty if it is."""
    missing = [needed for needed in _NEEDS[name] if not given.has(needed)]
    known = {"counterfactual": ("test_propensities",)}.get(
        name, ("test_propensities", "other_propensities")
    )
    if (
        name in ("counterfactual", "comparison")
        and not given.has("test_features")
        and not all(given.has(n) for n in known)
    ):
        missing.append(f"test_features (or {' and '.join(known)})")
    if missing:
        return missing, f"missing: {', '.join(missing)}"
    return [], _MORE[name](given)


def _silent(logits: Array) -> Array:
    """Rows without logits."""
    return np.isnan(logits).any(axis=1)


def _not_at_random(given: ModelPredictions) -> bool:
    """Whether labels are missing, but only where the model abstained."""
    if given.test_labels is None or given.test_abstained is None:
        return False
    unknown = given.test_labels < 0
    return bool(unknown.any() and not (unknown & ~given.test_abstained).any())


def _no_selective(given: ModelPredictions) -> str:
    if count := int(_silent(given.test_logits).sum()):
        return f"test_logits are unknown in {count} rows, where the model abstained"
    if _not_at_random(given):
        return (
            "test_labels are unknown only where the model abstained: the labelled rows are no "
            "random sample, and their accuracy is not that of all rows"
        )
    if (labelled := int((given.test_labels >= 0).sum())) < 2:
        return f"test_labels must be known in at least 2 rows, got {labelled}"
    return ""


def _no_suitability(given: ModelPredictions) -> str:
    if count := int(_silent(given.test_logits).sum()):
        return f"test_logits are unknown in {count} rows, where the model abstained"
    try:
        _for_suitability(given)
    except ValueError as error:
        return str(error)
    return ""


def _no_audit(given: ModelPredictions) -> str:
    few = [n for n in _NEEDS["audit"] if len(getattr(given, n)) < 2]
    return f"{' and '.join(few)} must have at least 2 entries, one for each half" if few else ""


def _no_estimate(who: str, logits: Array, abstained: Array, labels: Array) -> str:
    answered = ~abstained
    if (count := int(answered.sum())) < _FEWEST:
        return f"{who} must be false in at least {_FEWEST} rows, got {count}: too few answers"
    if count := int((answered & (labels < 0)).sum()):
        return f"test_labels must be known wherever {who} is false, got {count} answers without one"
    return ""


def _no_counterfactual(given: ModelPredictions) -> str:
    return _no_estimate(
        "test_abstained", given.test_logits, given.test_abstained, given.test_labels
    )


def _no_comparison(given: ModelPredictions) -> str:
    return _no_counterfactual(given) or _no_estimate(
        "other_abstained", given.other_logits, given.other_abstained, given.test_labels
    )


_MORE = {
    "selective": _no_selective,
    "suitability": _no_suitability,
    "audit": _no_audit,
    "counterfactual": _no_counterfactual,
    "comparison": _no_comparison,
}


# --- the analyses ---------------------------------------------------------------------------------


def _table(rows: list[tuple], columns: list[str]) -> pd.DataFrame:
    """Items and numbers, NaN where a row is short."""
    filled = [(*row, *(math.nan,) * (len(columns) - len(row))) for row in rows]
    return pd.DataFrame(filled, columns=columns)


def _share(correct: Array, level: float) -> tuple[float, float, float]:
    """A share with Clopper and Pearson's interval."""
    found = stats.binomtest(int(correct.sum()), len(correct)).proportion_ci(level, "exact")
    return float(correct.mean()), float(found.low), float(found.high)


def acceptance_scores(logits: Array) -> dict[str, Array]:
    """The acceptance scores of a report, larger is accepted earlier.

    Parameters
    ----------
    logits : ndarray, shape (n, k)
        Finite.

    Returns
    -------
    dict of str to ndarray, shape (n,)
    """
    probabilities = special.softmax(logits.astype(float), axis=1)
    return {
        "softmax response": selective.softmax_response(probabilities),
        "entropy": selective.entropy(probabilities),
        "margin": selective.margin(probabilities),
        "energy": selective.energy(logits.astype(float)),
    }


def _selective(given: ModelPredictions, settings: Settings) -> Analysis:
    labelled = given.test_labels >= 0
    logits, labels = given.test_logits[labelled], given.test_labels[labelled]
    correct = logits.argmax(axis=1) == labels
    scores, doubts = acceptance_scores(logits), []
    if np.ptp(scores["energy"]) <= 1e-6 * max(1.0, np.abs(logits).max()):
        del scores["energy"]
        doubts.append(
            "the energy is the same in all rows, as of log probabilities, and says nothing: it is "
            "left out; give logits as the model's last layer returns them to have it"
        )
    if (logits >= 0).all() and np.allclose(logits.sum(axis=1), 1, atol=1e-3):
        doubts.append(
            "test_logits: no value is negative and each row sums to 1, so that these look like "
            "probabilities; give logits, or the probabilities' logarithms"
        )
    accuracy, low, high = _share(correct, settings.level)
    wrong = int((~correct).sum())
    random_order, worst = selective.normalized_score_extremes(len(correct) - wrong, len(correct))
    rows, curves = [], {}
    for name, score in scores.items():
        found = []
        for metric in ("aurc", "normalized_score"):
            one = selective.estimate(correct, score, metric, settings.level)
            found += [one.value, one.standard_error, one.low, one.high]
        plug_in = selective.coverage_at_accuracy(correct, score, settings.target)
        # Each score has its part of the error, so that one may choose among them.
        sure = selective.guaranteed_threshold(
            correct, score, settings.target, 1 - settings.alpha / len(scores)
        )
        threshold = math.nan if sure.threshold is None else sure.threshold
        rows.append((name, *found, plug_in, sure.coverage or 0.0, threshold))
        curves[name] = selective.accuracy_coverage(correct, score)
    areas = pd.DataFrame(
        rows,
        columns=[
            "score",
            *("AURC", "AURC stderr", "AURC low", "AURC high"),
            *("normalized", "normalized stderr", "normalized low", "normalized high"),
            *("coverage at target", "guaranteed coverage", "guaranteed above"),
        ],
    )
    summary = _table(
        [
            ("test rows", len(labelled)),
            ("labelled test rows", len(correct)),
            ("wrong predictions", wrong),
            ("accuracy", accuracy, low, high),
            ("target accuracy", settings.target),
            ("normalized score of a random order", random_order),
            ("normalized score of the worst order", worst),
        ],
        ["item", "value", "low", "high"],
    )
    if not labelled.all():
        doubts.append(
            f"only {len(correct)} of {len(labelled)} test rows have a label: these must be a "
            "random sample"
        )
    if min(wrong, len(correct) - wrong) < _FEW_WRONG:
        kind = "wrong" if wrong <= len(correct) - wrong else "right"
        doubts.append(
            f"only {min(wrong, len(correct) - wrong)} predictions are {kind}: areas are then "
            "skewed, and their normal intervals hold too seldom"
        )
    steps = []
    # Laplace's estimate, so that no mistake seen is not taken for none to come.
    guess = (len(correct) - wrong + 1) / (len(correct) + 2)
    spread = math.sqrt(guess * (1 - guess) / len(correct))
    needed = collect.rows_for_half_width(spread, len(correct), _FINE, settings.level)
    if needed > len(correct):
        steps.append(
            f"{about(needed)} labelled test rows would tell the accuracy to within "
            f"{_FINE:g} (there are {len(correct):,})"
        )
    rare = min(wrong, len(correct) - wrong)
    if 0 < rare < _FEW_WRONG:
        steps.append(
            f"{about(math.ceil(len(correct) * _FEW_WRONG / rare))} labelled test rows, at the rate "
            f"seen, for {_FEW_WRONG} {kind} ones, with which intervals of areas come near their "
            "level"
        )
    best = areas.loc[areas["coverage at target"].idxmax()]
    chosen = areas.loc[areas["guaranteed coverage"].idxmax()]
    return Analysis(
        "selective",
        ANALYSES["selective"],
        {"selective": summary, "selective_scores": areas},
        {
            "selective": "Accuracy on the labelled test rows",
            "selective_scores": "Acceptance scores: AURC, accuracy-normalized score, coverage "
            "at target (plug-in: seen on these rows, promised for no others), and the largest "
            "coverage at which the target is guaranteed, by answering above the score given",
        },
        {
            "selective": Drawing(
                lambda: figures.plot_curves(curves, settings.target),
                "Selective accuracy falls with coverage by every score, below the bound.",
                "Selective accuracy by acceptance score, the bound that the accuracy at full "
                "coverage allows, and the target (dotted).",
            )
        },
        f"The accuracy is {accuracy:.3f} ({low:.3f} to {high:.3f})"
        + _reached(accuracy, low, best, chosen, settings),
        {
            "accuracy": accuracy,
            "best_score": str(areas["score"].iloc[first_smallest(areas["AURC"])]),
            "best_normalized": float(areas["normalized"].min()),
            "best_coverage": float(best["coverage at target"]),
            "guaranteed_coverage": float(chosen["guaranteed coverage"]),
        },
        tuple(doubts),
        tuple(steps),
    )


def _reached(
    accuracy: float, low: float, best: pd.Series, chosen: pd.Series, settings: Settings
) -> str:
    """What abstention is sure to reach, and what the plug-in says beside it."""
    target = f"{settings.target:g}"
    if low >= settings.target:
        return f", which is above the target of {target} already: no abstention is needed."
    text = ""
    if accuracy >= settings.target:
        text = f", which is above the target of {target}, though the interval reaches below it"
    promised, seen = chosen["guaranteed coverage"], best["coverage at target"]
    if promised > 0:
        text += (
            f". Answering the surest {promised:.1%} (by {chosen['score']}, above "
            f"{chosen['guaranteed above']:.6g}) makes it at least {target} with a confidence of "
            f"{settings.level:g}"
        )
    else:
        text += (
            f". At no coverage can these rows promise {target} with a confidence of "
            f"{settings.level:g}"
        )
    if seen == 0:
        return text + f", and by no score is it {target} at any coverage on these very rows."
    return text + (
        f". (The plug-in, which promises nothing: on these very rows it is {target} for the surest "
        f"{seen:.1%}, by {best['score']}.)"
    )


def _for_suitability(given: ModelPredictions) -> Predictions:
    return Predictions(
        holdout_logits=given.holdout_logits,
        holdout_labels=given.holdout_labels,
        test_logits=given.test_logits,
        user_logits=given.user_logits,
        # Labels must be of rows drawn at random.
        test_labels=None if _not_at_random(given) else given.test_labels,
        user_labels=given.user_labels,
        source=given.source,
    )


def _suitability(given: ModelPredictions, settings: Settings) -> Analysis:
    found = suitability_report(
        _for_suitability(given), margin=settings.margin, alpha=settings.alpha
    )
    doubts = list(found.warnings)
    if _not_at_random(given):
        doubts.append("test_labels are unknown only where the model abstained: they are not used")
    tables = {
        "suitability": printable(found.summary),
        "suitability_moved": printable(found.moved),
    }
    captions = {
        "suitability": "Estimated accuracies, their difference and the test; intervals at the "
        f"level {1 - 2 * settings.alpha:g}, each end a bound at the level {settings.level:g}",
        "suitability_moved": "Signals on user and test data: Kolmogorov and Smirnov's test",
    }
    if len(found.calibration):
        tables["suitability_calibration"] = printable(found.calibration)
        captions["suitability_calibration"] = (
            "Estimated and true accuracy on labelled rows; intervals at the level "
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
                "How far the mean of each signal has moved, user minus test data; coloured: moved "
                "by Holm's correction for all signals.",
            ),
            "suitability_tipping": Drawing(
                lambda: plot_tipping_point(found.tipping),
                "A histogram of the errors of the estimator on FMoW, and a line at the tipping "
                "point of this decision.",
                "By how much the paper's estimator overstated the accuracy on user data, beyond "
                f"what it did on test data, in {len(FMOW_ERRORS)} folds and models of "
                "FMoW out of distribution; the line: the overstatement of "
                f"{found.tipping:+.3f} at which this decision turns.",
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
    )


def _suitability_steps(
    given: ModelPredictions, found: SuitabilityReport, settings: Settings
) -> tuple[str, ...]:
    """What would decide, or confirm, whether the model is suitable."""
    if found.unsuitable_by_labels:
        return ()
    steps, n = [], len(given.user_logits)
    if not found.decision.suitable and found.required is not None and found.required > n:
        steps.append(
            f"{about(found.required)} user rows (there are {n:,}) would give a model whose "
            f"estimated accuracy is the same there a probability of {_POWER:g} to be found suitable"
        )
    usable = given.test_labels is not None and not _not_at_random(given)
    n_test = int((given.test_labels >= 0).sum()) if usable else 0
    n_user = 0 if given.user_labels is None else int((given.user_labels >= 0).sum())
    if n_test < 2:
        steps.append(
            "labels of test rows drawn at random: without them those of user rows can be compared "
            "with nothing"
        )
    if n_user < 2:
        steps.append(_labels_step(found, n_test or len(given.test_logits), settings))
    elif n_test >= 2 and not found.suitable_by_labels:
        steps.append(
            "more labelled user rows, drawn at random: those there are show neither that the "
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
            power=_POWER,
        )
    except ValueError:
        return (
            "labels of user rows, drawn at random, show whether the estimates hold there; but with "
            f"{n_test:,} test rows no number of them finds an equally accurate model suitable with "
            f"a probability of {_POWER:g}: more test rows are needed too, or a larger margin"
        )
    return (
        f"labels of {about(labels)} user rows, drawn at random, can decide without trusting the "
        "estimates: with so many, a model that is equally accurate there is found suitable with a "
        f"probability of {_POWER:g}"
    )


def halves(members: Array, seed: int) -> Array:
    """Divide trials at random into those that choose a threshold and the others.

    Parameters
    ----------
    members : ndarray of bool, shape (n,)
        Of which kind each trial is; both kinds are halved.
    seed : int
        Of the division: the one that :func:`lib.audit.held_out_lower_bound` makes with it.

    Returns
    -------
    ndarray of bool, shape (n,)
        Which trials choose.
    """
    rng, choosing = np.random.default_rng(seed), np.zeros(len(members), dtype=bool)
    for kind in (True, False):
        rows = rng.permutation(np.flatnonzero(members == kind))
        choosing[rows[: round(0.5 * len(rows))]] = True
    return choosing


def _one_run(scores: Array, members: Array, delta: float, settings: Settings) -> float:
    """The bound of one run as ``compare_one_run`` has it; ties in a random order."""
    order = np.random.default_rng(settings.seed).permutation(len(scores))
    return best_one_run(scores[order], members[order], delta, settings.level)


def _audit_verdict(
    lower: float, p_coins: float, claim: tuple[float, float] | None, delta: float, use: Settings
) -> str:
    """What the bound of the declared design says, its condition, and what that makes of a claim."""
    condition = AUDIT_DESIGNS[use.audit_design]
    if use.audit_design == "one run" and p_coins < _NO_COIN:
        return (
            f"No bound holds in the design 'one run': that needs that {condition}, and fair coins "
            f"hardly give such numbers of members and non-members (p = {p_coins:.1g}). Nothing "
            "follows for or against a claim."
        )
    verdict = (
        f"At delta = {delta:g} the attack shows epsilon of at least {lower:.2f}, by the bound of "
        f"the design '{use.audit_design}', which holds if {condition}"
    )
    if claim is None:
        return f"{verdict}. No finite epsilon is claimed to compare it with."
    if lower > claim[0]:
        return (
            f"{verdict}. That is more than the claimed {claim[0]:g}: on this condition the claim "
            f"is refuted at the level {use.alpha:g}."
        )
    return (
        f"{verdict}. That does not contradict the claimed {claim[0]:g}, and is no proof of it: "
        "another attack may show more."
    )


def _audit(given: ModelPredictions, settings: Settings) -> Analysis:
    level, exact = settings.level, "clopper-pearson"
    delta = settings.delta if given.delta is None else given.delta
    scores = np.concatenate([given.member_scores, given.nonmember_scores])
    members = np.arange(len(scores)) < len(given.member_scores)
    p_coins = float(stats.binomtest(int(members.sum()), len(members)).pvalue)
    choosing = halves(members, settings.seed)
    threshold = chosen_threshold(scores[choosing], members[choosing], delta, level)
    row = audit.counts_at(scores[~choosing], members[~choosing], threshold)
    held = audit.AttackCounts(*map(int, row))
    every = audit.roc_counts(scores, members)
    one_run = _one_run(scores, members, delta, settings)
    conditions = {name: f"if {text}" for name, text in AUDIT_DESIGNS.items()}
    coins = "no" if p_coins < _NO_COIN else conditions["one run"]
    rows = [("none: the surest points are guessed, corrected", "one run", coins, one_run)]
    for method in (exact, "jeffreys", "bayesian"):
        bound = float(audit.epsilon_lower_bounds([row], delta, level, method)[0])
        ends = audit.epsilon_interval(held, delta, level, method)
        holds = conditions["independent"] if method == exact else "not always"
        rows.append(("chosen on the other half", method, holds, bound, *ends))
    _, union = audit.union_lower_bound(every, delta, level, exact)
    rows.append(("best of all, corrected for the choice", exact, conditions["independent"], union))
    biased = []
    for method in (exact, "jeffreys", "bayesian"):
        _, naive = audit.best_lower_bound(every, delta, level, method)
        biased.append(naive)
        rows.append(("best of all (biased)", method, "no", naive))
    bounds = _table(rows, ["threshold", "method", "holds", "lower bound", "low", "high"])
    # The design was declared: no bound is chosen by what it says.
    if settings.audit_design == "independent":
        lower = rows[1][3]
    else:
        lower = 0.0 if coins == "no" else one_run
    auc = stats.mannwhitneyu(given.member_scores, given.nonmember_scores).statistic / (
        len(given.member_scores) * len(given.nonmember_scores)
    )
    summary = _table(
        [
            ("members", int(members.sum())),
            ("non-members", int((~members).sum())),
            ("p-value of these numbers by fair coins", p_coins),
            ("delta", delta),
            ("claimed epsilon", math.nan if given.epsilon is None else given.epsilon),
            ("ROC AUC of the attack", float(auc)),
            ("chosen threshold", threshold),
            ("true positive rate on the other half", 1 - held.fnr),
            ("false positive rate on the other half", held.fpr),
        ],
        ["item", "value"],
    )
    values = {
        "audit_lower": lower,
        "audit_held_out": rows[1][3],
        "audit_union": union,
        "audit_one_run": one_run,
        "audit_biased": max(biased),
    }
    claim = None
    if given.epsilon is not None and math.isfinite(given.epsilon):
        claim = (given.epsilon, delta)
        values["audit_claimed"] = given.epsilon
    doubts = [
        "members and non-members must be drawn alike, by coins or a random split, which no file "
        "can show. Points that were trained on and points from elsewhere, as a training set and a "
        "hold-out set that were not divided at random, differ without anything having been learnt",
        f"the design '{settings.audit_design}' was declared and decides which bound is used; the "
        "other rows hold under the conditions beside them, and a larger one must not be taken "
        "afterwards",
    ]
    if given.delta is None:
        doubts.insert(0, f"the file states no delta: {delta:g} is used")
    return Analysis(
        "audit",
        ANALYSES["audit"],
        {"audit": summary, "audit_bounds": bounds},
        {
            "audit": "The membership attack",
            "audit_bounds": "Lower bounds on epsilon, by how the threshold was chosen, and the "
            "condition on which each keeps its level ('holds'). 'low' and 'high' are the ends of a "
            "two-sided interval of what this attack shows at this threshold: 'high' is no upper "
            "bound on the model's epsilon, of which another attack may show more",
        },
        {
            "audit_roc": Drawing(
                lambda: figures.plot_roc(every, (held.fpr, 1 - held.fnr), claim),
                "ROC curve of the attack beside the diagonal of chance, and the chosen threshold.",
                "The attack at all thresholds (all trials), the threshold that one half chose as "
                "the other half sees it, and, if there is a claim, the most that it allows.",
            )
        },
        _audit_verdict(lower, p_coins, claim, delta, settings),
        values,
        tuple(doubts),
        _audit_steps(lower, members, coins == "no", claim, delta, settings),
    )


def _audit_steps(
    lower: float,
    members: Array,
    no_coins: bool,
    claim: tuple[float, float] | None,
    delta: float,
    use: Settings,
) -> tuple[str, ...]:
    """What so many trials could show at most, and how many it takes to refute a claim."""
    if use.audit_design == "one run" and no_coins:
        return ("membership decided anew, by a fair coin of its own for every point",)
    if claim is not None and lower > claim[0]:
        return ()
    n, shown = len(members), int(members.sum())
    ceiling = collect.attack_ceiling(shown, n - shown, delta, use.level, use.audit_design)
    rule = ", which guesses the surest points," * (use.audit_design == "one run")
    most = f"by this bound{rule} an attack that is never wrong shows {ceiling:.2f} in {n:,} trials"
    if claim is None or ceiling > claim[0]:
        if lower > ceiling - 1e-6:
            return (f"{most}, and this one does: more trials can show more",)
        return (
            f"{most}: a stronger attack can show more with the trials there are, such as one that "
            "knows what models with and without a point say of it",
        )
    enough = collect.trials_to_refute(claim[0], delta, use.level, use.audit_design)
    if enough is None:
        return (
            f"{most}, and in no number of trials up to {collect.MOST_TRIALS:,} could it refute the "
            f"claimed {claim[0]:g} at delta = {delta:g}",
        )
    return (
        f"{most}, so that none could refute the claimed {claim[0]:g}: that takes {about(enough)} "
        "trials at least, and more by an attack that errs",
    )


def _scores_of(logits: Array, labels: Array, abstained: Array) -> Array:
    """Whether answers are right, 0 or 1; NaN where there was none: that is not read."""
    out = np.full(len(labels), math.nan)
    answered = ~abstained
    out[answered] = logits[answered].argmax(axis=1) == labels[answered]
    return out


def _truth(logits: Array, labels: Array) -> Array | None:
    """Whether every prediction would be right, if all are known."""
    if (labels < 0).any() or _silent(logits).any():
        return None
    return logits.argmax(axis=1) == labels


def _covariates(
    given: ModelPredictions, known: list[Array | None], scores: list[dict[str, Array] | None]
) -> Array:
    """Features (or told propensities), and the scores that abstention may depend on."""
    features = given.test_features
    columns = [np.column_stack(known) if features is None else features]
    for one in scores:
        columns += [] if one is None else [values[:, None] for values in one.values()]
    return np.hstack(columns)


def _own_scores(logits: Array) -> dict[str, Array] | None:
    """Acceptance scores that vary; None where abstained rows have no logits."""
    if _silent(logits).any():
        return None
    scores = acceptance_scores(logits)
    return {
        f"its {name}": values
        for name, values in scores.items()
        if np.ptp(values) > 1e-9 * max(1.0, float(np.abs(values).max()))
    }


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


def _never(
    r: Array, told: Array | None, scores: dict[str, Array] | None, features: Array | None
) -> tuple[Array, list[str]]:
    """Rows that are never answered, and why."""
    columns = {} if features is None else dict(enumerate(features.T))
    every = (scores or {}) | {f"test_features[:, {j}]": values for j, values in columns.items()}
    if told is not None:
        certain = told >= 1 - _KNOWN_CLIP
        never, reasons = overlap.without_overlap(r & ~certain, every, np.where(certain, 0, told))
        if certain.any():
            reasons.insert(
                0,
                f"told propensities are 1 in {int(certain.sum())} of {len(r)} rows "
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
    never, reasons = _never(r, told, scores, given.test_features)
    for last in (False, True):
        if (~r & ~never).sum() < _FEWEST:  # too few to learn from: answers count, and that is all
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
        (diagnostics,) = found.diagnostics
    if told is None and settings.learner == "linear":
        found = _calibrated(found, settings)
        (diagnostics,) = found.diagnostics
    lower, upper = np.where(r, 0.0, s), np.where(r, 1.0, s)
    lower[~never] = upper[~never] = found.influence
    return _Side(found, ~never, lower, upper, tuple(reasons), diagnostics.notes)


def _calibrated(found: counterfactual.Estimate, settings: Settings) -> counterfactual.Estimate:
    """The estimate with propensities that are right where a logistic regression's form is not."""
    one = found.nuisances[0]
    if not one.abstained.any():
        return found
    fold = counterfactual.fold_numbers(len(one.scores), _FOLDS, settings.seed)
    better = calibrated(one.propensity, one.abstained, fold)
    if better is one.propensity:
        return found
    return counterfactual.estimate_from_nuisances(
        replace(one, propensity=better), level=settings.level, student=True
    )


def _estimate(
    x: Array, s: Array, r: Array, told: Array | None, can: Array, settings: Settings
) -> counterfactual.Estimate:
    """The doubly robust estimate of a score in some rows."""
    x, s, r = x[can], s[can], r[can]
    rng = np.random.default_rng(settings.seed)
    fold = counterfactual.fold_numbers(len(x), _FOLDS, rng)
    if r.any():
        one = counterfactual.fit_nuisances(x, s, r, fold, settings.learner, rng=rng)
    else:
        one = counterfactual.Nuisances(r, s, np.zeros(len(r)), s)
    if told is not None:
        one = replace(one, propensity=told[can])
    return counterfactual.estimate_from_nuisances(
        one, clip=None if told is None else _KNOWN_CLIP, level=settings.level
    )


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


def _with_outcome(values: Sequence[float]) -> list[str]:
    """A difference whose last two numbers, the ends of an interval, say what it decides."""
    outcome = _outcome(values[-2:])
    return _shown(values, lambda *shown: _outcome(shown[-2:]) == outcome, "+")


def _between(bounds: overlap.Bounds, difference: bool = False) -> str:
    ends = (bounds.low, bounds.high, *bounds.interval)
    low, high, *outer = _with_outcome(ends) if difference else [f"{value:.3f}" for value in ends]
    return f"between {low} and {high} ({outer[0]} to {outer[1]} with the sampling error)"


def _contamination(
    found: counterfactual.Estimate, value: float, what: str
) -> tuple[pd.DataFrame, Drawing, str]:
    """Bounds if abstention depends on more than is seen, and the share of rows that turns it."""
    table = counterfactual.contamination_bounds(found, _SHARES)
    share = counterfactual.breakdown_share(found, value)
    if share == 0:
        text = f"the interval does not exclude {what} even if it depends on nothing else"
    elif share == math.inf:
        text = f"{what} is excluded whatever it depends on"
    else:
        text = f"from {share:.1%} of the rows on, {what} can no longer be excluded"
    drawing = Drawing(
        lambda: plot_contamination(table, label="estimate"),
        "Bounds on the estimate that widen as the fraction of contaminated rows grows.",
        "Bounds by the fraction of rows in which abstention depends on more than features and "
        f"scores: {text}.",
    )
    return table, drawing, text


_COLUMNS = ["item", "value", "stderr", "low", "high"]
_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_INDEPENDENT = (
    "the estimate assumes that abstention and correctness are independent given the features (or "
    "propensities) and the model's own scores"
)
_TOLD = (
    "the probabilities with which each answer was withheld (propensities), where abstention is "
    "drawn by them: with those told, nothing about it has to be fitted",
)
_WHERE = {True: "", False: ", of rows that may be answered"}


def _diagnostics(sides: Sequence[_Side], names: tuple[str, ...]) -> pd.DataFrame:
    items = {
        "least probability of an answer": "overlap",
        "effective sample size of the answers": "effective_sample_size",
        "largest weight": "largest_weight",
        "share of propensities clipped": "clipped",
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
        name = f"{self.name}_contamination"
        self.tables[name], self.drawings[name], text = _contamination(found, value, what)
        self.captions[name] = (
            "Bounds by the fraction of rows in which abstention depends on more than is seen"
        )
        self.verdict += f" If abstention depends on more than features and scores: {text}."

    def decide_by_labels(self, truth: float, what: str, sign: str = "") -> None:
        """Begin with the truth, if it is known and not in the interval."""
        low, high = self.interval
        if not low - 1e-9 <= truth <= high + 1e-9:
            told, first, last = _shown((truth, low, high), lambda t, a, b: not a <= t <= b, sign)
            self.verdict = (
                f"The interval below is wrong: by the labels of the abstained rows {what} is "
                f"{told} on these rows, which is not from {first} to {last}. What it assumes does "
                "not hold; the labels decide. "
            ) + self.verdict

    def analysis(self, caption: str) -> Analysis:
        """Put together what was found."""
        ends = dict(zip(("low", "high"), self.interval, strict=True))
        kind = "difference" if self.name == "comparison" else "counterfactual"
        return Analysis(
            self.name,
            ANALYSES[self.name],
            {self.name: _table(self.rows, _COLUMNS)} | self.tables,
            {self.name: caption} | self.captions,
            self.drawings,
            self.verdict,
            self.values | {f"{kind}_{end}": value for end, value in ends.items()},
            tuple(self.doubts),
            self.steps,
        )


def _counterfactual(given: ModelPredictions, settings: Settings) -> Analysis:
    r, level = given.test_abstained, settings.level
    s = _scores_of(given.test_logits, given.test_labels, r)
    told, scores = given.test_propensities, _own_scores(given.test_logits)
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
    truth = _truth(given.test_logits, given.test_labels)
    if truth is not None:
        value, *ends = _share(truth, level)
        page.rows.append(("truth: accuracy of all predictions", value, math.nan, *ends))
        page.values["truth"] = value
        page.verdict += (
            f" The labels of the abstained rows, which were not used, put it at {value:.3f} on "
            "these rows."
        )
        page.decide_by_labels(value, "the accuracy of all predictions")
    return page.analysis("How good the model would be if it had to answer always")


def _point(side: _Side, lead: str, settings: Settings) -> _Page:
    """Where there is overlap in all rows: an estimate."""
    found = side.found
    weighted = counterfactual.estimate_from_nuisances(
        found.nuisances,
        estimator="ipw",
        clip=found.clip,
        level=settings.level,
        student=found.degrees < math.inf,
    )
    low, high = found.interval
    n = len(found.influence)
    needed = collect.rows_for_half_width(found.stderr, n, _FINE, settings.level)
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
        (f"{about(needed)} rows would bring its interval to within {_FINE:g} (there are {n:,})",)
        * (needed > n),
    )


def _only_bounds(side: _Side, lead: str, settings: Settings) -> _Page:
    """Where some rows are never answered: an interval, without a point in it."""
    found, share, never = side.found, float(side.can.mean()), int((~side.can).sum())
    bounds = overlap.mean_bounds(side.lower, side.upper, settings.level)
    return _Page(
        "counterfactual",
        [
            ("share of rows that may be answered", share),
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


def _comparison(given: ModelPredictions, settings: Settings) -> Analysis:
    level, labels = settings.level, given.test_labels
    flags = given.test_abstained, given.other_abstained
    logits = given.test_logits, given.other_logits
    pairs = [(_scores_of(z, labels, r), r) for z, r in zip(logits, flags, strict=True)]
    known = [given.test_propensities, given.other_propensities]
    scores = [_own_scores(z) for z in logits]
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
    if all(t is not None for t in truths):
        truth = float((truths[0].astype(float) - truths[1]).mean())
        page.rows.append(("truth: difference of all predictions", truth))
        page.decide_by_labels(truth, "the difference of all predictions", "+")
    return page.analysis("The model against the competitor, if both had to answer always")


_UNDECIDED = "which of the two would be better is not decided"


def _outcome(interval: Sequence[float]) -> str:
    """Which of the two is better, up to rounding, or that it is not decided."""
    low, high = interval
    if low <= 1e-12 and high >= -1e-12:
        return _UNDECIDED
    return f"{'the model' if low > 0 else 'the competitor'} would be better"


def _difference(sides: list[_Side], known: list[Array | None], level: float) -> _Page:
    """Where there is overlap in all rows of both: an estimate."""
    told = all(p is not None for p in known)
    found = counterfactual.estimate_from_nuisances(
        [side.found.nuisances[0] for side in sides],
        clip=_KNOWN_CLIP if told else None,
        level=level,
        student=any(side.found.degrees < math.inf for side in sides),
    )
    value, low, high = _with_outcome((found.value, *found.interval))
    decided = _outcome(found.interval) != _UNDECIDED
    notes = list(dict.fromkeys(text for side in sides for text in side.notes))
    page = _Page(
        "comparison",
        [_row("counterfactual difference (doubly robust)", found)],
        {"difference": found.value},
        "If both had to answer always, the model's accuracy minus the competitor's would be "
        f"{value} ({low} to {high}): {_outcome(found.interval)}.",
        found.interval,
        [*notes, f"{_INDEPENDENT}, and that no input is always abstained on"],
        () if decided else _TOLD * (not told) + _comparison_steps(found, len(sides[0].can), level),
    )
    page.contaminate(found, 0.0, "no difference")
    return page


def _difference_bounds(sides: list[_Side], known: list[Array | None], level: float) -> _Page:
    """Where one of the two is never answered with: sharp bounds, each side's own."""
    bounds = overlap.mean_bounds(
        sides[0].lower - sides[1].upper, sides[0].upper - sides[1].lower, level, (-1.0, 1.0)
    )
    share = float((sides[0].can & sides[1].can).mean())
    never = int((~(sides[0].can & sides[1].can)).sum())
    rows: list[tuple] = [("share of rows that both may answer", share)]
    for name, side in zip(("model", "competitor"), sides, strict=True):
        alone = overlap.mean_bounds(side.lower, side.upper, level)
        rows += _bounds_rows(f"counterfactual accuracy of the {name}", alone)
    rows += _bounds_rows("counterfactual difference", bounds)
    if _outcome((bounds.low, bounds.high)) == _UNDECIDED:
        steps = (
            f"answers in some of the {never:,} rows where one of the two is certain to abstain: "
            "without them no number of rows decides, for the bounds are "
            f"{bounds.low:+.2f} and {bounds.high:+.2f}",
        )
    else:
        steps = (
            f"more rows, or answers in some of the {never:,} where one of the two is certain to "
            "abstain",
        ) * (_outcome(bounds.interval) == _UNDECIDED)
    return _Page(
        "comparison",
        rows,
        {"difference_least": bounds.low, "difference_most": bounds.high},
        "If both had to answer always, the model's accuracy minus the competitor's would be "
        f"{_between(bounds, True)}: {_outcome(bounds.interval)}. One of the two is certain to "
        f"abstain in {1 - share:.1%} of the rows, by all that is seen, and nothing is known of "
        "what it would say there.",
        bounds.interval,
        _doubts(sides),
        steps,
    )


def _comparison_steps(found: counterfactual.Estimate, n: int, level: float) -> tuple[str, ...]:
    """What would decide which of the two is better."""
    needed = collect.rows_for_power(found.stderr, n, found.value, level, _POWER)
    if needed is None or needed > _HOPELESS * n:
        return (
            f"far more rows than {_HOPELESS * n:,}, if the difference is as small as it is "
            "estimated: the two are about equally good",
        )
    if needed <= n:
        return ()
    return (
        f"{about(needed)} rows (there are {n:,}) would decide with a probability of {_POWER:g}, if "
        "the difference is as estimated, which few rows tell badly",
    )


_RUN: Mapping[str, Callable[[ModelPredictions, Settings], Analysis]] = MappingProxyType(
    {
        "selective": _selective,
        "suitability": _suitability,
        "audit": _audit,
        "counterfactual": _counterfactual,
        "comparison": _comparison,
    }
)
