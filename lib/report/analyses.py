"""Every analysis that a user's file allows, and why the others are skipped."""

from collections.abc import Callable

import pandas as pd

from lib.report import abstention, audit, selective, services, suitability
from lib.report.analysis import ANALYSES, Analysis, Settings, check
from lib.report.predictions import ModelPredictions

_NEEDS = {
    "selective": ("test_logits", "test_labels"),
    "suitability": suitability.NEEDS,
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
    "selective": ("test_groups",),
    "suitability": ("test_labels", "user_labels"),
    "audit": ("epsilon", "delta"),
    "counterfactual": ("test_features", "test_propensities"),
    "comparison": ("test_features", "test_propensities", "other_propensities"),
}


def needs() -> pd.DataFrame:
    """Say what each analysis needs.

    Returns
    -------
    pandas.DataFrame
        One row per analysis: ``analysis``, ``needs`` (arrays) and ``would add`` (arrays that tell
        more).  Counterfactual analyses also need features, or the propensities.

    Examples
    --------
    >>> needs()["needs"][0]
    'test_logits, test_labels'
    """
    rows = [(name, ", ".join(_NEEDS[name]), ", ".join(_ADDS[name])) for name in ANALYSES]
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
    check(predictions)
    if name not in ANALYSES:
        raise ValueError(f"name must be one of {', '.join(ANALYSES)}, got {name!r}")
    _, reason = _obstacle(name, predictions)
    if reason:
        raise ValueError(f"{name} is not possible: {reason}")
    if name == "comparison" and _by_scores(predictions):
        return services.analyse(predictions, settings)
    return _RUN[name](predictions, settings)


def _obstacle(name: str, given: ModelPredictions) -> tuple[list[str], str]:
    """Arrays that are missing, and why an analysis is not possible: empty if it is."""
    if name == "comparison" and _by_scores(given):
        return [n for n in services.NEEDS if not given.has(n)], services.obstacle(given)
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
    return [], _OBSTACLE[name](given)


def _by_scores(given: ModelPredictions) -> bool:
    """Whether a file compares two services by scores, which may be any numbers, not by logits."""
    return given.has("test_scores") and given.has("other_scores") and not given.has("other_logits")


_OBSTACLE: dict[str, Callable[[ModelPredictions], str]] = {
    "selective": selective.obstacle,
    "suitability": suitability.obstacle,
    "audit": audit.obstacle,
    "counterfactual": abstention.obstacle,
    "comparison": abstention.comparison_obstacle,
}
_RUN: dict[str, Callable[[ModelPredictions, Settings], Analysis]] = {
    "selective": selective.analyse,
    "suitability": suitability.analyse,
    "audit": audit.analyse,
    "counterfactual": abstention.analyse,
    "comparison": abstention.compare,
}
