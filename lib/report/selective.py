"""What may be gained by abstaining: scores, areas, and a guaranteed threshold."""

import math
from typing import Any

import numpy as np
import pandas as pd

from lib import selective
from lib.report import collect, figures
from lib.report.collect import about
from lib.report.findings import Abstention, Measured, Outcome
from lib.report.naming import counted, threshold_text
from lib.report.predictions import ModelPredictions
from lib.report.quality import all_right, no_better_than_constant
from lib.report.types import (
    ANALYSES,
    FINE,
    Analysis,
    Drawing,
    Settings,
    acceptance_scores,
    not_at_random,
    share,
    silent,
    table,
)
from lib.ties import first_smallest

_BY_GROUP = (
    "Accuracy by group, with intervals that hold all together; and, as seen on these rows, how "
    "often the model answers above the guaranteed threshold, and how accurate it is there"
)
_BY_SCORE = (
    "Acceptance scores: AURC, accuracy-normalized score, coverage at target (plug-in: seen on "
    "these rows, promised for no others), and the largest coverage at which the target is "
    "guaranteed, by answering above the score given"
)
_DRAWS = 25  # of one row a cluster
_FEW_WRONG = 30  # below it too few normal intervals of areas hold: see lib.selective.estimate


def obstacle(given: ModelPredictions) -> str:
    """Why there are no curves: empty if there are."""
    if given.test_logits is None:
        if given.test_confidence is None:
            return (
                "the file has answers and no confidence: to learn when not to answer, add logits, "
                "probabilities or a confidence"
            )
        if len(given.correct("test")[0]) < 2:
            return "at least 2 test rows must have a label and an answer"
        return ""
    if count := int(silent(given.test_logits).sum()):
        return f"test_logits are unknown in {counted(count, 'row')}, where the model abstained"
    if not_at_random(given):
        return (
            "test_labels are unknown only, or more often, where the model abstained: the labeled "
            "rows are no random sample, and their accuracy is not that of all rows"
        )
    if (labeled := int((given.test_labels >= 0).sum())) < 2:
        return f"test_labels must be known in at least 2 rows, got {labeled}"
    return ""


def analyse(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report."""
    correct, labeled = given.correct("test")
    scores, orders, doubts = _scores(given, labeled)
    clusters = None if given.test_clusters is None else given.test_clusters[labeled]
    accuracy, low, high = share(correct, settings.level, clusters)
    wrong = int((~correct).sum())
    constant = no_better_than_constant(given)
    areas, curves = _areas(correct, scores, orders, clusters, settings)
    if constant:
        areas[["guaranteed coverage", "guaranteed above"]] = 0.0, math.nan
        doubts.append(f"nothing is promised: {constant}")
    summary, told = _summary(given, (accuracy, low, high), curves, settings)
    doubts += _few(len(labeled), len(correct), wrong)
    best = areas.loc[areas["coverage at target"].idxmax()]
    chosen = areas.loc[areas["guaranteed coverage"].idxmax()]
    promised = float(chosen["guaranteed coverage"])
    finding = Abstention(
        _outcome(constant, low, promised, all_right(given), settings),
        Measured(accuracy, low, high),
        promised,
        str(chosen["score"]),
        float(chosen["guaranteed above"]),
    )
    by_group = {}
    if given.has("test_groups"):
        answers = scores[chosen["score"]] > chosen["guaranteed above"]  # none, if that is NaN
        found = groups(correct, given.test_groups[labeled], answers, settings.alpha, clusters)
        by_group["selective_groups"] = found
        doubts += less_accurate(found, low)
    return Analysis(
        "selective",
        ANALYSES["selective"],
        {"selective": summary, "selective_scores": areas} | by_group,
        {
            **dict.fromkeys(by_group, _BY_GROUP),
            "selective": "Accuracy on the labeled test rows",
            "selective_scores": _BY_SCORE,
        },
        {
            "selective": Drawing(
                lambda: figures.plot_curves(curves, settings.target),
                "Selective accuracy falls with coverage by every score, below the bound.",
                "Selective accuracy by acceptance score, the bound that the accuracy at full "
                "coverage allows, and the target (dotted).",
            )
        },
        f"The accuracy is {accuracy:.3f} ({settings.percent} interval {low:.3f} to {high:.3f})"
        + f"{_reached(finding, best, settings)}{told}",
        {
            "accuracy": accuracy,
            "best_score": str(areas["score"].iloc[first_smallest(areas["AURC"])]),
            "best_normalized": float(areas["normalized"].min()),
            "best_coverage": float(best["coverage at target"]),
            "guaranteed_coverage": float(chosen["guaranteed coverage"]),
        },
        tuple(doubts),
        _steps(len(correct), wrong, settings),
        (finding,),
    )


def _own_answers(
    given: ModelPredictions, labeled: Any, correct: Any, curves: dict[str, Any]
) -> tuple[list[tuple], str]:
    """What the model's own abstentions reach, beside as many of the surest answers."""
    if given.test_abstained is None:
        return [], ""
    answered = ~given.test_abstained[labeled]
    if not 0 < (n := int(answered.sum())) < len(answered):
        return [], ""
    score, curve = next(iter(curves.items()))
    share, right = answered.mean(), correct[answered].mean()
    surest = curve.accuracy[n - 1]
    rows = [
        ("coverage of its own answers", share),
        ("accuracy of its own answers", right),
        (f"accuracy of as many by {score}", surest),
    ]
    return rows, (
        f" By the file it answers {share:.1%} of these rows, and {right:.3f} of them right; of as "
        f"many that are surest by {score}, {surest:.3f} are."
    )


def _few(rows: int, labeled: int, wrong: int) -> list[str]:
    """What to note of few labels, or few predictions of a kind."""
    found = []
    if labeled < rows:
        found.append(
            f"labels are known of {labeled:,} of {counted(rows, 'test row')} only: these must be "
            "a random sample"
        )
    if (fewest := min(wrong, labeled - wrong)) < _FEW_WRONG:
        kind = "wrong" if wrong == fewest else "right"
        one = f"{('no', 'one')[fewest > 0]} prediction is"
        few = f"only {fewest} predictions are" if fewest > 1 else one
        found.append(
            f"{few} {kind}: areas are then skewed, and their normal intervals hold too seldom"
        )
    return found


def _outcome(
    constant: str, low: float, promised: float, suspicious: bool, settings: Settings
) -> Outcome:
    """When the model may answer."""
    if constant:
        return Outcome.UNCHECKED
    if low >= settings.target:
        return Outcome.ALWAYS_IF if suspicious else Outcome.ALWAYS
    return Outcome.WHERE_SURE if promised > 0 else Outcome.NO_PROMISE


def _scores(
    given: ModelPredictions, labeled: Any
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Acceptance scores of labeled rows, what ranks as each does, and what to note."""
    if given.test_logits is None:
        own = {"confidence": given.test_confidence[labeled]}
        return own, own, []
    logits, doubts = given.test_logits[labeled], []
    scores = acceptance_scores(logits)
    if np.ptp(scores["energy"]) <= 1e-6 * max(1.0, np.abs(logits).max()):
        del scores["energy"]
        doubts.append(
            "the energy is the same in all rows, as of log probabilities, and says nothing: it is "
            "left out; give logits as the model's last layer returns them to have it"
        )
    return scores, _orders(scores, logits), doubts


def _summary(
    given: ModelPredictions,
    accuracy: tuple[float, float, float],
    curves: dict[str, selective.AccuracyCoverage],
    settings: Settings,
) -> tuple[pd.DataFrame, str]:
    """Numbers of rows, accuracy with its interval, and the ends of the normalized score.

    And a sentence on the model's own abstentions, empty if there are none.
    """
    correct, labeled = given.correct("test")
    own, told = _own_answers(given, labeled, correct, curves)
    n, right = len(correct), int(correct.sum())
    random_order, worst = selective.normalized_score_extremes(right, n)
    return table(
        [
            ("test rows", len(labeled)),
            ("labeled test rows", n),
            ("wrong predictions", n - right),
            ("accuracy", *accuracy),
            ("target accuracy", settings.target),
            ("normalized score of a random order", random_order),
            ("normalized score of the worst order", worst),
            *own,
        ],
        ["item", "value", "low", "high"],
    ), told


def groups(
    correct: Any, group: Any, answers: Any, alpha: float, clusters: Any = None
) -> pd.DataFrame:
    """Accuracy by group, the least accurate first, with Clopper and Pearson's intervals.

    With clusters intervals are those of :func:`lib.report.types.mean_of`.  With k groups each has
    the level 1 - alpha / k (Bonferroni): all together have 1 - alpha.
    """
    names, places = np.unique(group, return_inverse=True)
    rows = []
    for place, name in enumerate(names):
        of_group = places == place
        right, answered = correct[of_group], answers[of_group]
        selective_accuracy = right[answered].mean() if answered.any() else math.nan
        inside = None if clusters is None else clusters[of_group]
        found = share(right, 1 - alpha / len(names), inside)
        rows.append((name, len(right), *found, answered.mean(), selective_accuracy))
    columns = ["group", "rows", "accuracy", "low", "high", "coverage", "selective accuracy"]
    return pd.DataFrame(rows, columns=columns).sort_values(
        "accuracy", kind="stable", ignore_index=True
    )


def less_accurate(by_group: pd.DataFrame, low: float) -> list[str]:
    """A note on groups less accurate than all rows, whose lower limit is `low`.

    Both limits err with alpha / 2, the groups' all together: the note with alpha at most.

    Parameters
    ----------
    by_group : pandas.DataFrame
        As :func:`groups` has it.
    low : float
        Of the accuracy over all rows.

    Returns
    -------
    list of str
        One note, or none.
    """
    names = ", ".join(by_group.loc[by_group["high"] < low, "group"])
    return [
        f"the model is less accurate than over all rows in {names} (intervals that hold together);"
        " what is promised above is promised for all groups together, not for each"
    ] * bool(names)


def _orders(scores: dict[str, Any], logits: Any) -> dict[str, Any]:
    """What ranks as each score does, without ties where probabilities round to 0 or 1."""
    rounded = {"softmax response", "margin", "entropy"}
    return {
        name: selective.log_odds(logits=logits, of=name) if name in rounded else score
        for name, score in scores.items()
    }


def _areas(
    correct: Any, scores: dict[str, Any], orders: dict[str, Any], clusters: Any, settings: Settings
) -> tuple[pd.DataFrame, dict[str, selective.AccuracyCoverage]]:
    """Areas and coverages by acceptance score, and the curves.

    The threshold is one of the score as it is given, which is what will be held against it.
    """
    rows, curves = [], {}
    for name, order in orders.items():
        found = []
        for metric in ("aurc", "normalized_score"):
            one = selective.estimate(correct, order, metric, settings.level, clusters=clusters)
            found += [one.value, one.standard_error, one.low, one.high]
        plug_in = selective.coverage_at_accuracy(correct, order, settings.target)
        # Each score has its part of the error, so that one may choose among them.
        sure = selective.guaranteed_threshold(
            correct,
            scores[name],
            settings.target,
            1 - settings.alpha / len(scores),
            clusters=clusters,
            rng=0,  # many draws, so that none of them decides, nor does this number
            draws=_DRAWS,
        )
        threshold = math.nan if sure.threshold is None else sure.threshold
        rows.append((name, *found, plug_in, sure.coverage or 0.0, threshold))
        curves[name] = selective.accuracy_coverage(correct, order)
    measured = [
        f"{area}{end}"
        for area in ("AURC", "normalized")
        for end in ("", " stderr", " low", " high")
    ]
    promised = ["coverage at target", "guaranteed coverage", "guaranteed above"]
    return pd.DataFrame(rows, columns=["score", *measured, *promised]), curves


def _steps(n: int, wrong: int, settings: Settings) -> tuple[str, ...]:
    """How many labeled rows a promise needs, or would tell the accuracy or let intervals hold."""
    steps = []
    if n < (fewest := collect.fewest_rows(settings.target, settings.alpha)) < math.inf:
        steps.append(
            f"{about(fewest)} labeled test rows at least, for a threshold that promises "
            f"{settings.target:g}: so many if every answer is right (there are {n:,})"
        )
    # Laplace's estimate, so that no mistake seen is not taken for none to come.
    guess = (n - wrong + 1) / (n + 2)
    spread = math.sqrt(guess * (1 - guess) / n)
    needed = collect.rows_for_half_width(spread, n, FINE, settings.level)
    if needed > n:
        steps.append(
            f"{about(needed)} labeled test rows would tell the accuracy to within "
            f"{FINE:g} (there are {n:,})"
        )
    rare, kind = min(wrong, n - wrong), "wrong" if wrong <= n - wrong else "right"
    if 0 < rare < _FEW_WRONG:
        steps.append(
            f"{about(math.ceil(n * _FEW_WRONG / rare))} labeled test rows, at the rate "
            f"seen, for {_FEW_WRONG} {kind} ones, with which intervals of areas come near their "
            "level"
        )
    return tuple(steps)


def _reached(found: Abstention, best: pd.Series, settings: Settings) -> str:
    """What abstention is sure to reach, and what the plug-in says beside it."""
    target = f"{settings.target:g}"
    if found.outcome is Outcome.UNCHECKED:
        return ". Nothing is promised: it is no better than that of a constant."
    if found.outcome is Outcome.ALWAYS or found.outcome is Outcome.ALWAYS_IF:
        doubt = ", if the labels are true" * (found.outcome is Outcome.ALWAYS_IF)
        return f": all above the target of {target}{doubt}, so that no abstention is needed."
    text = ""
    if found.accuracy.value >= settings.target:
        text = f", which reaches the target of {target}, though the interval begins below it"
    seen = best["coverage at target"]
    if found.outcome is Outcome.WHERE_SURE:
        text += (
            f". Answering the surest {found.share:.1%} (by {found.score}, above about "
            f"{threshold_text(found.threshold)}) makes it at least {target} with a "
            f"confidence of {settings.level:g}, on data like the test rows"
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
