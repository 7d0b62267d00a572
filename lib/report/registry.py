"""Every analysis that a user's file allows, and why the others are skipped."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from lib.report import abstention, audit, quality, rivals, selective, services, suitability
from lib.report.predictions import ModelPredictions
from lib.report.types import ANALYSES, Analysis, Settings, check


class _Entry(NamedTuple):
    """One analysis: arrays that it needs, those that would add, what stands against it, itself."""

    needs: tuple[str, ...]
    adds: tuple[str, ...]
    obstacle: Callable[[ModelPredictions], str]
    run: Callable[[ModelPredictions, Settings], Analysis]


_LABELLED = ("test_logits", "test_labels")
_TABLE = {
    "quality": _Entry(
        _LABELLED, ("test_groups", "test_clusters"), quality.obstacle, quality.analyse
    ),
    "selective": _Entry(
        _LABELLED, ("test_groups", "test_clusters"), selective.obstacle, selective.analyse
    ),
    "suitability": _Entry(
        suitability.NEEDS, ("test_labels", "user_labels"), suitability.obstacle, suitability.analyse
    ),
    "audit": _Entry(
        ("member_scores", "nonmember_scores"), ("epsilon", "delta"), audit.obstacle, audit.analyse
    ),
    "counterfactual": _Entry(
        ("test_logits", "test_labels", "test_abstained"),
        ("test_features", "test_propensities"),
        abstention.obstacle,
        abstention.analyse,
    ),
    "comparison": _Entry(
        ("test_logits", "test_labels", "test_abstained", "other_logits", "other_abstained"),
        ("test_features", "test_propensities", "other_propensities"),
        abstention.comparison_obstacle,
        abstention.compare,
    ),
}
_BY_SCORES = _Entry(services.NEEDS, (), services.obstacle, services.analyse)
_PAIRED = _Entry((), (), rivals.obstacle, rivals.analyse)
#: Analyses whose intervals count clusters; the audit's are of membership scores, which have none.
_CLUSTERED = (quality.analyse, selective.analyse, rivals.analyse, audit.analyse)
#: What takes the place of logits and labels.
_ANSWERS = (("test_predicted", "test_labels"), ("test_correct",))


def needs() -> pd.DataFrame:
    """Say what each analysis needs.

    Returns
    -------
    pandas.DataFrame
        One row per analysis: ``analysis``, ``needs`` (arrays) and ``would add`` (arrays that tell
        more).  Counterfactual analyses also need features, or the propensities; a comparison by
        scores, without logits or labels, needs features.

    Examples
    --------
    >>> needs()["needs"][0]
    'test_logits, test_labels'
    """
    rows = [(name, ", ".join(one.needs), ", ".join(one.adds)) for name, one in _TABLE.items()]
    return pd.DataFrame(rows, columns=["analysis", "needs", "would add"])


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
    check(predictions)
    rows = []
    for name in ANALYSES:
        missing, reason = _obstacle(name, predictions)
        more = [other for other in _TABLE[name].adds if not predictions.has(other)]
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
    check(predictions)
    if name not in ANALYSES:
        raise ValueError(f"name must be one of {', '.join(ANALYSES)}, got {name!r}")
    _, reason = _obstacle(name, predictions)
    if reason:
        raise ValueError(f"{name} is not possible: {reason}")
    entry = _entry(name, predictions)
    found = entry.run(predictions, settings)
    if name == "comparison" and entry is not _BY_SCORES and _scored(predictions):
        unused = "test_scores and other_scores are not used: logits and labels are compared"
        found = replace(found, warnings=(*found.warnings, unused))
    return found


def _obstacle(name: str, given: ModelPredictions) -> tuple[list[str], str]:
    """Arrays that are missing, and why an analysis is not possible: empty if it is."""
    entry = _entry(name, given)
    missing = [needed for needed in entry.needs if not given.has(needed)]
    known = [more for more in entry.adds if more.endswith("_propensities")]
    if known and not given.has("test_features") and not all(map(given.has, known)):
        missing.append(f"test_features (or {' and '.join(known)})")
    if missing:
        return missing, f"missing: {', '.join(missing)}"
    if given.has("test_clusters") and entry.run not in _CLUSTERED:
        return [], "rows belong together in clusters, and its level rests on independent rows"
    return [], entry.obstacle(given)


def _entry(name: str, given: ModelPredictions) -> _Entry:
    """What does an analysis; a comparison is by scores, which may be any numbers, or by logits.

    Models that never abstain are compared row by row.  Without logits, answers or correctness do.
    """
    entry = _TABLE[name]
    if name in ("quality", "selective") and not given.has("test_logits"):
        for needs in _ANSWERS:
            if all(map(given.has, needs)):
                return entry._replace(needs=needs)
    if name == "comparison" and rivals.never_abstain(given):
        return _PAIRED
    if name != "comparison" or not _scored(given):
        return entry
    return entry if all(map(given.has, entry.needs)) else _BY_SCORES


def _scored(given: ModelPredictions) -> bool:
    return given.has("test_scores") and given.has("other_scores")
