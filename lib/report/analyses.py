"""Every analysis that a user's file allows, and why the others are skipped."""

import math
import warnings
from collections.abc import Callable, Mapping
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
from lib.report import collect, figures
from lib.report.collect import about
from lib.report.predictions import ModelPredictions

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
        Of the nuisance functions (:func:`lib.counterfactual.learner_pair`).
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


def _coverage_offered(correct: Array, score: Array, target: float) -> float:
    """The largest coverage of a threshold at which a target is reached.

    A threshold answers all rows of equal scores or none, unlike a random order of them, which
    :func:`lib.selective.coverage_at_accuracy` takes the mean of.
    """
    curve, ordered = selective.accuracy_coverage(correct, score), np.sort(score)[::-1]
    possible = np.r_[ordered[1:] != ordered[:-1], True]
    reached = np.flatnonzero(possible & (curve.accuracy >= target - 1e-12))
    return float(curve.coverage[reached[-1]]) if len(reached) else 0.0


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
        rows.append((name, *found, _coverage_offered(correct, score, settings.target)))
        curves[name] = selective.accuracy_coverage(correct, score)
    areas = pd.DataFrame(
        rows,
        columns=[
            "score",
            *("AURC", "AURC stderr", "AURC low", "AURC high"),
            *("normalized", "normalized stderr", "normalized low", "normalized high"),
            "coverage at target",
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
    if accuracy >= settings.target:
        reach = f"which is above the target of {settings.target:g} already: no abstention is needed"
        if low < settings.target:
            reach += ", though the interval reaches below it"
    elif best["coverage at target"] > 0:
        reach = (
            f"and abstaining on the least sure {1 - best['coverage at target']:.1%} (by "
            f"{best['score']}) raises it to {settings.target:g}"
        )
    else:
        reach = f"and by no score is there a coverage at which it is {settings.target:g}"
    return Analysis(
        "selective",
        ANALYSES["selective"],
        {"selective": summary, "selective_scores": areas},
        {
            "selective": "Accuracy on the labelled test rows",
            "selective_scores": "Acceptance scores: AURC, accuracy-normalized score, coverage "
            "at target (the largest of a threshold, which answers all rows of equal scores)",
        },
        {
            "selective": Drawing(
                lambda: figures.plot_curves(curves, settings.target),
                "Selective accuracy falls with coverage by every score, below the bound.",
                "Selective accuracy by acceptance score, the bound that the accuracy at full "
                "coverage allows, and the target (dotted).",
            )
        },
        f"The accuracy is {accuracy:.3f} ({low:.3f} to {high:.3f}), {reach}. The coverage was "
        "chosen on these rows, and comes without an interval.",
        {
            "accuracy": accuracy,
            "best_score": str(areas.loc[areas["AURC"].idxmin(), "score"]),
            "best_normalized": float(areas["normalized"].min()),
            "best_coverage": float(best["coverage at target"]),
        },
        tuple(doubts),
        tuple(steps),
    )


def _for_suitability(given: ModelPredictions) -> suitability.Predictions:
    return suitability.Predictions(
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
    found = suitability.suitability_report(
        _for_suitability(given), margin=settings.margin, alpha=settings.alpha
    )
    doubts = list(found.warnings)
    if _not_at_random(given):
        doubts.append("test_labels are unknown only where the model abstained: they are not used")
    tables = {"suitability": found.summary, "suitability_moved": found.moved}
    captions = {
        "suitability": "Estimated accuracies, their difference and the test; intervals at the "
        f"level {1 - 2 * settings.alpha:g}, each end a bound at the level {settings.level:g}",
        "suitability_moved": "Signals on user and test data: Kolmogorov and Smirnov's test",
    }
    if len(found.calibration):
        tables["suitability_calibration"] = found.calibration
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
            )
        },
        found.verdict,
        {
            "estimated_drop": found.decision.estimated_test_accuracy
            - found.decision.estimated_user_accuracy,
            "suitability_p": found.decision.p_value,
        },
        tuple(doubts),
        _suitability_steps(given, found, settings),
    )


def _suitability_steps(
    given: ModelPredictions, found: suitability.SuitabilityReport, settings: Settings
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


def _labels_step(found: suitability.SuitabilityReport, n_test: int, settings: Settings) -> str:
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
            math.sqrt(p * (1 - p)),
            0.0,  # by labels alone: no variance of estimates
            n_user=10**9,
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
    """The bound of one run as :func:`lib.audit.compare_one_run` has it; ties in a random order."""
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


def _covariates(given: ModelPredictions, known: list[Array | None]) -> Array:
    if given.test_features is not None:
        return given.test_features
    return np.column_stack(known)


def _estimate(
    x: Array,
    pairs: list[tuple[Array, Array]],
    known: list[Array | None],
    can: Array,
    settings: Settings,
) -> tuple[counterfactual.Estimate, list[str]]:
    """A score or a difference in the rows that may be answered, with doubts about positivity."""
    x, pairs = x[can], [(s[can], r[can]) for s, r in pairs]
    known = [None if p is None else p[can] for p in known]
    options = {"learner": settings.learner, "rng": settings.seed}
    with warnings.catch_warnings():  # the diagnostics hold what is warned of
        warnings.simplefilter("ignore", counterfactual.PositivityWarning)
        if all(p is None for p in known):
            options |= {"folds": _FOLDS, "level": settings.level}
            arguments = [array for pair in pairs for array in pair]
            function = (
                counterfactual.counterfactual_score
                if len(pairs) == 1
                else counterfactual.counterfactual_difference
            )
            found = function(x, *arguments, **options)
        else:
            rng = np.random.default_rng(settings.seed)
            fold = counterfactual.fold_numbers(len(x), _FOLDS, rng)
            nuisances = []
            for (s, r), propensity in zip(pairs, known, strict=True):
                one = counterfactual.fit_nuisances(x, s, r, fold, settings.learner, rng=rng)
                if propensity is not None:
                    one = replace(one, propensity=propensity)
                nuisances.append(one)
            told = all(p is not None for p in known)
            found = counterfactual.estimate_from_nuisances(
                nuisances, clip=_KNOWN_CLIP if told else None, level=settings.level
            )
    doubts = [
        text
        for diagnostics in found.diagnostics
        for text in (*diagnostics.positivity, *diagnostics.notes)
    ]
    return found, doubts


def _row(item: str, found: Any) -> tuple:
    return (item, found.value, found.stderr, *found.interval)


_COLUMNS = ["item", "value", "stderr", "low", "high"]
_INDEPENDENT = (
    "the estimate assumes that abstention and correctness are independent given the features (or "
    "propensities)"
)
_TOLD = (
    "the probabilities with which each answer was withheld (propensities), where abstention is "
    "drawn by them: with those told, nothing about it has to be fitted",
)
_WHERE = {True: "", False: ", of rows that may be answered"}
_ANSWERABLE = {True: "", False: " that may be answered"}
_ITS = {True: "its", False: "the estimate's"}
_ASSUMED = f"{_INDEPENDENT}, and that no input is always abstained on"


def _answerable(known: list[Array | None], n: int) -> Array:
    """Rows where no told propensity is 1: elsewhere an answer is impossible, and nothing known."""
    can = np.ones(n, dtype=bool)
    for propensity in known:
        if propensity is not None:
            can &= propensity < 1 - _KNOWN_CLIP
    return can


@dataclass(frozen=True, eq=False)
class _Partial:
    """What follows where some rows are never answered: an interval, without a point in it."""

    share: float  # of rows that may be answered
    low: float  # bounds, if the estimate were exact
    high: float
    outer: tuple[float, float]  # with the sampling error
    rows: list[tuple]
    doubt: str

    def __str__(self) -> str:
        return (
            f"between {self.low:.3f} and {self.high:.3f} ({self.outer[0]:.3f} to "
            f"{self.outer[1]:.3f} with the sampling error)"
        )


def _partial(found: counterfactual.Estimate, can: Array, least: float, what: str) -> _Partial:
    """Bounds for all rows from an estimate on some: elsewhere anything from `least` to 1.

    Each end has a normal interval of its own at the estimate's level; together they hold whatever
    is true at least as often (Imbens and Manski 2004).
    """
    ends, outer = [], []
    for worst, side in ((least, -1), (1.0, 1)):
        values = np.full(len(can), worst)
        values[can] = found.influence
        error = stats.norm.isf((1 - found.level) / 2) * values.std() / math.sqrt(len(can))
        ends.append(float(np.clip(values.mean(), least, 1)))
        outer.append(float(np.clip(values.mean() + side * error, least, 1)))
    share = float(can.mean())
    rows = [
        ("share of rows that may be answered", share),
        _row(f"{what} there (doubly robust)", found),
        (f"{what} in all rows: bounds", math.nan, math.nan, *ends),
        ("these bounds with the sampling error", math.nan, math.nan, *outer),
    ]
    doubt = (
        f"told propensities are 1 in {int((~can).sum())} of {len(can)} rows ({1 - share:.1%}): "
        "there is never an answer, so positivity fails and no file tells what would be right "
        "there. There is no estimate for all rows, only bounds"
    )
    return _Partial(share, *ends, tuple(outer), rows, doubt)


def _diagnostics(found: counterfactual.Estimate, names: tuple[str, ...]) -> pd.DataFrame:
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
        name: [float(getattr(one, key)) for key in items.values()]
        for name, one in zip(names, found.diagnostics, strict=True)
    }
    return pd.DataFrame({"item": list(items), **columns})


def _counterfactual(given: ModelPredictions, settings: Settings) -> Analysis:
    r, level = given.test_abstained, settings.level
    s = _scores_of(given.test_logits, given.test_labels, r)
    known = [given.test_propensities]
    can = _answerable(known, len(r))
    found, doubts = _estimate(_covariates(given, known), [(s, r)], known, can, settings)
    rows = [
        _row("coverage", counterfactual.coverage(r, level=level)),
        _row("accuracy of the answers", counterfactual.selective_score(s, r, level=level)),
    ]
    answered = float(1 - r.mean()), float(np.nanmean(s[~r]))
    verdict = f"The model answers {answered[0]:.1%} of the test rows, {answered[1]:.3f} of them"
    values = {"answered": answered[0], "answers_right": answered[1]}
    if can.all():
        weighted = counterfactual.estimate_from_nuisances(
            found.nuisances, estimator="ipw", clip=found.clip, level=level
        )
        rows += [
            _row("counterfactual accuracy (doubly robust)", found),
            _row("counterfactual accuracy (weighting alone)", weighted),
        ]
        low, high = found.interval
        verdict += (
            f" right; if it had to answer always, {found.value:.3f} ({low:.3f} to {high:.3f}) "
            "would be."
        )
        values |= {"counterfactual": found.value}
        doubts.append(_ASSUMED)
    else:
        part = _partial(found, can, 0.0, "counterfactual accuracy")
        rows += part.rows
        low, high = part.outer
        verdict += (
            f" right. In {1 - part.share:.1%} it is certain to abstain, and nothing is known. If "
            f"it had to answer always, {found.value:.3f} ({found.interval[0]:.3f} to "
            f"{found.interval[1]:.3f}) of the others would be right, and of all {part}."
        )
        values |= {
            "answerable": part.share,
            "counterfactual_answerable": found.value,
            "counterfactual_least": part.low,
            "counterfactual_most": part.high,
        }
        doubts = [part.doubt, *doubts, _INDEPENDENT]
    values |= {"counterfactual_low": low, "counterfactual_high": high}
    truth = _truth(given.test_logits, given.test_labels)
    if truth is not None:
        value, *ends = _share(truth, level)
        rows.append(("truth: accuracy of all predictions", value, math.nan, *ends))
        verdict += (
            f" The labels of the abstained rows, which were not used, put it at {value:.3f} on "
            "these rows."
        )
        values["truth"] = value
    propensity = np.ones(len(r))
    propensity[can] = found.nuisances[0].propensity.clip(0, 1)
    steps = _TOLD * (known[0] is None)
    needed = collect.rows_for_half_width(found.stderr, int(can.sum()), _FINE, level)
    if needed > can.sum():
        steps += (
            f"{about(needed)} rows{_ANSWERABLE[can.all()]} would bring {_ITS[can.all()]} interval "
            f"to within {_FINE:g} (there are {int(can.sum()):,})",
        )
    if not can.all():
        steps += (
            f"answers in some of the {int((~can).sum()):,} rows where the model is certain to "
            "abstain: without them the bounds for all rows stay at least "
            f"{part.high - part.low:.2f} apart",
        )
    return Analysis(
        "counterfactual",
        ANALYSES["counterfactual"],
        {
            "counterfactual": _table(rows, _COLUMNS),
            "counterfactual_diagnostics": _diagnostics(found, ("value",)),
        },
        {
            "counterfactual": "How good the model would be if it had to answer always",
            "counterfactual_diagnostics": f"Overlap and nuisance functions{_WHERE[can.all()]}",
        },
        {
            "counterfactual_propensities": Drawing(
                lambda: figures.plot_propensities(propensity[~r], propensity[r]),
                "Two histograms of the probability of abstaining, which should overlap.",
                "Probability of abstaining, of rows that were answered and abstained on: where "
                "there are no answers, nothing is known.",
            )
        },
        verdict,
        values,
        tuple(doubts),
        steps,
    )


def _comparison(given: ModelPredictions, settings: Settings) -> Analysis:
    level, labels = settings.level, given.test_labels
    flags = given.test_abstained, given.other_abstained
    logits = given.test_logits, given.other_logits
    pairs = [(_scores_of(z, labels, r), r) for z, r in zip(logits, flags, strict=True)]
    known = [given.test_propensities, given.other_propensities]
    can = _answerable(known, len(labels))
    found, doubts = _estimate(_covariates(given, known), pairs, known, can, settings)
    answers = [counterfactual.selective_score(s, r, level=level) for s, r in pairs]
    rows = [
        *(
            _row(f"accuracy of the {who} answers", one)
            for who, one in zip(("model's", "competitor's"), answers, strict=True)
        ),
        ("difference of these", answers[0].value - answers[1].value),
        *(
            _row(f"coverage of the {who}", counterfactual.coverage(r, level=level))
            for who, r in zip(("model", "competitor"), flags, strict=True)
        ),
    ]
    verdict = "If both had to answer always, the model's accuracy minus the competitor's would be "
    if can.all():
        rows.append(_row("counterfactual difference (doubly robust)", found))
        low, high = found.interval
        verdict += f"{found.value:+.3f} ({low:+.3f} to {high:+.3f})"
        values = {"difference": found.value}
        doubts.append(_ASSUMED)
    else:
        part = _partial(found, can, -1.0, "counterfactual difference")
        rows += part.rows
        low, high = part.outer
        verdict += (
            f"{found.value:+.3f} where neither is certain to abstain, {part.share:.1%} of the rows "
            f"({found.interval[0]:+.3f} to {found.interval[1]:+.3f}), and in all {part}"
        )
        values = {
            "difference_answerable": found.value,
            "difference_least": part.low,
            "difference_most": part.high,
        }
        doubts = [part.doubt, *doubts, _INDEPENDENT]
    values |= {"difference_low": low, "difference_high": high}
    truths = [_truth(z, labels) for z in logits]
    if all(t is not None for t in truths):
        difference = truths[0].astype(float) - truths[1]
        rows.append(("truth: difference of all predictions", float(difference.mean())))
    if low > 0 or high < 0:
        better = "the model" if low > 0 else "the competitor"
        outcome = f"{better} would be better"
        steps = ()
    else:
        outcome = "which of the two would be better is not decided"
        steps = _TOLD * any(p is None for p in known)
        steps += _comparison_steps(found, can, None if can.all() else part, level)
    return Analysis(
        "comparison",
        ANALYSES["comparison"],
        {
            "comparison": _table(rows, _COLUMNS),
            "comparison_diagnostics": _diagnostics(found, ("model", "competitor")),
        },
        {
            "comparison": "The model against the competitor, if both had to answer always",
            "comparison_diagnostics": f"Overlap and nuisance functions of both{_WHERE[can.all()]}",
        },
        {},
        f"{verdict}: {outcome}.",
        values,
        tuple(doubts),
        steps,
    )


def _comparison_steps(
    found: counterfactual.Estimate, can: Array, part: _Partial | None, level: float
) -> tuple[str, ...]:
    """What would decide which of the two is better."""
    if part is not None and part.low <= 0 <= part.high:
        return (
            f"answers in some of the {int((~can).sum()):,} rows where one of the two is certain to "
            "abstain: without them no number of rows decides, for the bounds are "
            f"{part.low:+.2f} and {part.high:+.2f}",
        )
    n = int(can.sum())
    # Where there are bounds only, the one nearer to zero has to be told from it.
    value = found.value if part is None else min(part.low, part.high, key=abs)
    needed = collect.rows_for_power(found.stderr, n, value, level, _POWER)
    if needed is None or needed > _HOPELESS * n:
        return (
            f"far more rows than {_HOPELESS * n:,}, if the difference is as small as it is "
            "estimated: the two are about equally good",
        )
    if needed <= n:
        return ()
    return (
        f"{about(needed)} rows{_ANSWERABLE[part is None]} (there are {n:,}) would decide with a "
        f"probability of {_POWER:g}, if the difference is as estimated, which few rows tell badly",
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
