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
from lib.report import figures
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
_FOLDS = 5
_FEWEST = 30  # answered rows, below which nothing is learned of what an answer is worth
_FEW_WRONG = 30  # below it too few normal intervals of areas hold: see lib.selective.estimate
_KNOWN_CLIP = 1e-12  # of propensities that need no clipping


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
    """

    name: str
    title: str
    tables: dict[str, pd.DataFrame] = field(repr=False)
    captions: dict[str, str] = field(repr=False)
    drawings: dict[str, Drawing] = field(repr=False)
    verdict: str
    values: dict[str, float]
    warnings: tuple[str, ...] = ()


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
        At least 0; of folds, learners and halves.

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
    accuracy, low, high = _share(correct, settings.level)
    wrong = int((~correct).sum())
    random_order, worst = selective.normalized_score_extremes(len(correct) - wrong, len(correct))
    rows, curves = [], {}
    for name, score in scores.items():
        found = []
        for metric in ("aurc", "normalized_score"):
            one = selective.estimate(correct, score, metric, settings.level)
            found += [one.value, one.standard_error, one.low, one.high]
        rows.append((name, *found, selective.coverage_at_accuracy(correct, score, settings.target)))
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
    best = areas.loc[areas["coverage at target"].idxmax()]
    if accuracy >= settings.target:
        reach = f"which is above the target of {settings.target:g} already: no abstention is needed"
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
            "at target",
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
        "suitability": "Estimated accuracies, their difference and the test",
        "suitability_moved": "Signals on user and test data: Kolmogorov and Smirnov's test",
    }
    if len(found.calibration):
        tables["suitability_calibration"] = found.calibration
        captions["suitability_calibration"] = "Estimated and true accuracy on labelled rows"
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


def _audit(given: ModelPredictions, settings: Settings) -> Analysis:
    level, exact = settings.level, "clopper-pearson"
    delta = settings.delta if given.delta is None else given.delta
    scores = np.concatenate([given.member_scores, given.nonmember_scores])
    members = np.arange(len(scores)) < len(given.member_scores)
    choosing = halves(members, settings.seed)
    table = audit.roc_counts(scores[choosing], members[choosing])
    index, _ = audit.best_lower_bound(table, delta, level, exact)
    threshold = float(audit.roc_thresholds(scores[choosing])[index])
    row = audit.counts_at(scores[~choosing], members[~choosing], threshold)
    held = audit.AttackCounts(*map(int, row))
    every = audit.roc_counts(scores, members)
    rows = []
    for method in (exact, "jeffreys", "bayesian"):
        bound = float(audit.epsilon_lower_bounds([row], delta, level, method)[0])
        ends = audit.epsilon_interval(held, delta, level, method)
        holds = "yes" if method == exact else "not always"
        rows.append(("chosen on the other half", method, holds, bound, *ends))
    lower = rows[0][3]
    _, union = audit.union_lower_bound(every, delta, level, exact)
    rows.append(("best of all, corrected for the choice", exact, "yes", union))
    guesses = 2 * (len(scores) // 4)
    correct, _ = audit.one_run_guesses(scores, members, guesses)
    one_run = audit.one_run_epsilon(correct, guesses, len(scores), delta, level)
    rows.append(("none: half of the points are guessed", "one run", "fair coins", one_run))
    for method in (exact, "jeffreys", "bayesian"):
        _, naive = audit.best_lower_bound(every, delta, level, method)
        rows.append(("best of all (biased)", method, "no", naive))
    bounds = _table(rows, ["threshold", "method", "holds", "lower bound", "low", "high"])
    auc = stats.mannwhitneyu(given.member_scores, given.nonmember_scores).statistic / (
        len(given.member_scores) * len(given.nonmember_scores)
    )
    summary = _table(
        [
            ("members", int(members.sum())),
            ("non-members", int((~members).sum())),
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
        "audit_union": union,
        "audit_one_run": one_run,
        "audit_biased": max(row[3] for row in rows if row[2] == "no"),
    }
    claim = None
    if given.epsilon is not None and math.isfinite(given.epsilon):
        claim = (given.epsilon, delta)
        values["audit_claimed"] = given.epsilon
    verdict = f"At delta = {delta:g} the attack shows epsilon of at least {lower:.2f}"
    if claim is None:
        verdict += "; no finite epsilon is claimed to compare it with."
    elif lower > claim[0]:
        verdict += (
            f", more than the claimed {claim[0]:g}: if the trials are independent, the claim is "
            f"refuted at the level {settings.alpha:g}."
        )
    else:
        verdict += (
            f", which does not contradict the claimed {claim[0]:g}. That is no proof of the claim:"
            " another attack may show more."
        )
    doubts = [
        "these bounds take the trials as independent. Scores that all come from one trained model "
        "are not; then the row 'one run' holds, if every point was put into the training data by a "
        "fair coin of its own"
    ]
    if given.delta is None:
        doubts.insert(0, f"the file states no delta: {delta:g} is used")
    return Analysis(
        "audit",
        ANALYSES["audit"],
        {"audit": summary, "audit_bounds": bounds},
        {
            "audit": "The membership attack",
            "audit_bounds": "Lower bounds on epsilon and two-sided intervals, by how the threshold "
            "was chosen; 'holds': whether the bound keeps its level",
        },
        {
            "audit_roc": Drawing(
                lambda: figures.plot_roc(every, (held.fpr, 1 - held.fnr), claim),
                "ROC curve of the attack beside the diagonal of chance, and the chosen threshold.",
                "The attack at all thresholds (all trials), the threshold that one half chose as "
                "the other half sees it, and, if there is a claim, the most that it allows.",
            )
        },
        verdict,
        values,
        tuple(doubts),
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
    x: Array, pairs: list[tuple[Array, Array]], known: list[Array | None], settings: Settings
) -> tuple[counterfactual.Estimate, list[str]]:
    """A score or a difference, with its doubts about positivity."""
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
_ASSUMED = (
    "the estimate assumes that abstention and correctness are independent given the features (or "
    "propensities), and that no input is always abstained on"
)


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
    found, doubts = _estimate(_covariates(given, known), [(s, r)], known, settings)
    weighted = counterfactual.estimate_from_nuisances(
        found.nuisances, estimator="ipw", clip=found.clip, level=level
    )
    rows = [
        _row("coverage", counterfactual.coverage(r, level=level)),
        _row("accuracy of the answers", counterfactual.selective_score(s, r, level=level)),
        _row("counterfactual accuracy (doubly robust)", found),
        _row("counterfactual accuracy (weighting alone)", weighted),
    ]
    truth = _truth(given.test_logits, given.test_labels)
    told, values = "", {}
    if truth is not None:
        value, low, high = _share(truth, level)
        rows.append(("truth: accuracy of all predictions", value, math.nan, low, high))
        told = (
            f" The labels of the abstained rows, which were not used, put it at {value:.3f} on "
            "these rows."
        )
        values["truth"] = value
    low, high = found.interval
    nuisances = found.nuisances[0]
    return Analysis(
        "counterfactual",
        ANALYSES["counterfactual"],
        {
            "counterfactual": _table(rows, _COLUMNS),
            "counterfactual_diagnostics": _diagnostics(found, ("value",)),
        },
        {
            "counterfactual": "How good the model would be if it had to answer always",
            "counterfactual_diagnostics": "Overlap and nuisance functions",
        },
        {
            "counterfactual_propensities": Drawing(
                lambda: figures.plot_propensities(
                    nuisances.propensity[~r].clip(0, 1), nuisances.propensity[r].clip(0, 1)
                ),
                "Two histograms of the probability of abstaining, which should overlap.",
                "Probability of abstaining, of rows that were answered and abstained on: where "
                "there are no answers, nothing is known.",
            )
        },
        f"The model answers {1 - r.mean():.1%} of the test rows, {np.nanmean(s[~r]):.3f} of them "
        f"right; if it had to answer always, {found.value:.3f} ({low:.3f} to {high:.3f}) would "
        f"be.{told}",
        values
        | {
            "answered": float(1 - r.mean()),
            "answers_right": float(np.nanmean(s[~r])),
            "counterfactual": found.value,
            "counterfactual_low": low,
            "counterfactual_high": high,
        },
        (*doubts, _ASSUMED),
    )


def _comparison(given: ModelPredictions, settings: Settings) -> Analysis:
    level, labels = settings.level, given.test_labels
    flags = given.test_abstained, given.other_abstained
    logits = given.test_logits, given.other_logits
    pairs = [(_scores_of(z, labels, r), r) for z, r in zip(logits, flags, strict=True)]
    known = [given.test_propensities, given.other_propensities]
    found, doubts = _estimate(_covariates(given, known), pairs, known, settings)
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
        _row("counterfactual difference (doubly robust)", found),
    ]
    truths = [_truth(z, labels) for z in logits]
    if all(t is not None for t in truths):
        difference = truths[0].astype(float) - truths[1]
        rows.append(("truth: difference of all predictions", float(difference.mean())))
    low, high = found.interval
    if low > 0 or high < 0:
        better = "the model" if low > 0 else "the competitor"
        outcome = f"{better} would be better"
    else:
        outcome = "which of the two would be better is not decided"
    return Analysis(
        "comparison",
        ANALYSES["comparison"],
        {
            "comparison": _table(rows, _COLUMNS),
            "comparison_diagnostics": _diagnostics(found, ("model", "competitor")),
        },
        {
            "comparison": "The model against the competitor, if both had to answer always",
            "comparison_diagnostics": "Overlap and nuisance functions of both",
        },
        {},
        f"If both had to answer always, the model's accuracy minus the competitor's would be "
        f"{found.value:+.3f} ({low:+.3f} to {high:+.3f}): {outcome}.",
        {"difference": found.value, "difference_low": low, "difference_high": high},
        (*doubts, _ASSUMED),
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
