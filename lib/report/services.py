"""Which of two services to buy after a free trial.

During its trial each service answers what it likes; the one that is paid for answers always.  So
what matters is the difference of the counterfactual scores, not that of the scores seen.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.check import as_number, require_finite
from lib.counterfactual.bounds import Units, bounded_interval
from lib.counterfactual.diagnostics import Diagnostics, PositivityWarning
from lib.counterfactual.estimate import Estimate, counterfactual_difference, estimate_from_nuisances
from lib.counterfactual.metrics import selective_score
from lib.report.abstention import KNOWN_CLIP, estimate_with_known, never_answered, recalibrated
from lib.report.collect import about
from lib.report.findings import Measured, Outcome, Rivalry
from lib.report.predictions import ModelPredictions
from lib.report.row_order import in_own_order
from lib.report.types import ANALYSES, HOPELESS, Analysis, Settings, check

NEEDS = ("test_features", "test_scores", "test_abstained", "other_scores", "other_abstained")

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_OUTCOMES = {"choose A": Outcome.AHEAD, "choose B": Outcome.BEHIND, "undecided": Outcome.UNDECIDED}
_SMALLEST = 20  # rows that a trial must have
_FEW_NEVER = 0.02  # fraction of the points below which a rule hardly matters
_FEW_ANSWERS = 30  # below, models that are fitted to them say little


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a free trial says of two services, A and B, that will have to answer always.

    The doubly robust `difference` of A's counterfactual score minus B's; `metrics`: one row per
    service with coverage, selective and counterfactual score; `diagnostics` of A and B, each with
    its own clipping; the `decision`: A if the interval of
    the difference is above `margin`, B if it is below -`margin`, and undecided whatever it is if
    one of the two seems never to answer some inputs; why (`reason`), and what to note (`warnings`).
    """

    difference: Estimate
    metrics: pd.DataFrame = field(repr=False)
    diagnostics: tuple[Diagnostics, ...] = field(repr=False)
    decision: str
    reason: str
    warnings: tuple[str, ...]
    margin: float = 0.0


def obstacle(given: ModelPredictions) -> str:
    """Why two services cannot be compared: empty if they can."""
    missing = [name for name in NEEDS if not given.has(name)]
    if missing:
        return f"missing: {', '.join(missing)}"
    if (n := len(given.test_scores)) < _SMALLEST:
        return f"a trial must have at least {_SMALLEST} rows, got {n}"
    flags = ("test_abstained", "other_abstained")
    always = [name for name in flags if getattr(given, name).all()]
    if always:
        return (
            f"{' and '.join(always)} must be false somewhere: of a service that abstains on all "
            f"{n} rows nothing is known"
        )
    return ""


def compare_services(
    predictions: ModelPredictions,
    *,
    learner: Any = "super",
    level: float = 0.95,
    margin: float = 0.0,
    rng: np.random.Generator | int,
) -> Comparison:
    """Decide between two services that will have to answer always.

    Differences of less than `margin` do not matter; `learner`, `level` and `rng` are those of
    :func:`lib.counterfactual.counterfactual_difference`, which is called once.  Propensities that
    the predictions have take the place of fitted ones; those of ``"linear"`` are calibrated as
    :class:`lib.report.Settings` says.  Where abstention looks deterministic no
    :class:`lib.counterfactual.PositivityWarning` is given; its text is among the comparison's
    warnings, and nothing is decided.  If the true difference is within the margin, one of the two
    is chosen all the same with a probability of at most 1 - `level`, for large samples and under
    the assumptions of the estimate.
    """
    given = check(predictions)
    if reason := obstacle(given):
        raise ValueError(f"a comparison of services is not possible: {reason}")
    require_finite("margin", margin, at_least=0)
    margin, level = float(margin), as_number("level", level, 0, 1)
    scores = given.test_scores, given.other_scores
    abstained = given.test_abstained, given.other_abstained
    with warnings.catch_warnings():
        # Their text is in the diagnostics too.
        warnings.simplefilter("ignore", PositivityWarning)
        difference = counterfactual_difference(
            given.test_features,
            scores[0],
            abstained[0],
            scores[1],
            abstained[1],
            learner=learner,
            level=level,
            rng=rng,
        )
    known = given.test_propensities, given.other_propensities
    pair, changed, fitted = difference.nuisances, False, difference.diagnostics
    if isinstance(learner, str) and learner == "linear":
        pair, changed = recalibrated(pair, known, rng)
    if changed or any(told is not None for told in known):
        difference = estimate_with_known(pair, known, level=level)
    blind = _blind(given.features, known, fitted, difference)
    usual = estimate_from_nuisances(pair, level=level).diagnostics
    exact = difference.diagnostics
    diagnostics = tuple(exact[i] if known[i] is not None else usual[i] for i in range(2))
    decision = "undecided" if blind else decide(*difference.interval, margin)
    metrics = pd.DataFrame(
        [
            _metrics_row(
                name, s, r, estimate_from_nuisances(one, clip=difference.clip, level=level)
            )
            for name, s, r, one in zip("AB", scores, abstained, difference.nuisances, strict=True)
        ]
    )
    return Comparison(
        difference=difference,
        metrics=metrics,
        diagnostics=diagnostics,
        decision=decision,
        reason=_reason(difference, metrics, decision, margin, blind),
        warnings=_warnings(difference, diagnostics, blind),
        margin=margin,
    )


def analyse(given: ModelPredictions, settings: Settings) -> Analysis:
    """The analysis of a report: the two services of a file with scores, any difference matters."""
    found = compare_services(
        in_own_order(given), learner=settings.learner, level=settings.level, rng=0
    )
    low, high = found.difference.interval
    return Analysis(
        "comparison",
        ANALYSES["comparison"],
        {
            "comparison": comparison_table(found),
            "comparison_diagnostics": diagnostics_table(found).reset_index(),
        },
        {
            "comparison": "The scores of the answers, and the scores had both answered always",
            "comparison_diagnostics": "Overlap and nuisance functions of both",
        },
        {},
        f"Decision: {found.decision}. {found.reason}",
        {"difference": found.difference.value, "difference_low": low, "difference_high": high},
        found.warnings,
        findings=(
            Rivalry(
                _OUTCOMES[found.decision],
                Measured(found.difference.value, low, high),
                of_scores=True,
            ),
        ),
    )


def decide(low: float, high: float, margin: float = 0.0) -> str:
    """By an interval for A minus B: "choose A", "choose B" or "undecided"."""
    return "choose A" if low > margin else "choose B" if high < -margin else "undecided"


def comparison_table(comparison: Comparison) -> pd.DataFrame:
    """The scores seen and the scores to be expected: of A, of B, and A minus B.

    The interval of the difference of selective scores allows for A and B having answered the same
    points.
    """
    difference = comparison.difference
    table = comparison.metrics
    gap = float(table["selective"].iloc[0] - table["selective"].iloc[1])
    a, b = (
        np.where(p.abstained, 0.0, p.scores - p.scores[~p.abstained].mean()) / (~p.abstained).mean()
        for p in difference.nuisances
    )
    values = gap + a - b
    if difference.score_range is not None:
        (low, high), means = difference.score_range, table["selective"]
        ends = [
            [(end - m) / (~p.abstained).mean() for end in (low, high)]
            for m, p in zip(means, difference.nuisances, strict=False)
        ]
        limits = gap + ends[0][0] - ends[1][1], gap + ends[0][1] - ends[1][0]
        found = bounded_interval(values, limits, difference.level)
        found = max(found[0], low - high), min(found[1], high - low)
    else:
        units = Units.of(values, None)
        half = units.stderr * units.quantile(difference.level) or math.nan
        found = gap - half, gap + half
    last = {
        "service": "A − B",
        "coverage": float(table["coverage"].iloc[0] - table["coverage"].iloc[1]),
        "selective": gap,
        "selective_low": found[0],
        "selective_high": found[1],
        "counterfactual": difference.value,
        "counterfactual_low": difference.interval[0],
        "counterfactual_high": difference.interval[1],
    }
    table = pd.concat([table, pd.DataFrame([last])], ignore_index=True)
    names = {"selective": "selective score", "counterfactual": "counterfactual score"}
    return table.rename(columns=lambda name: names.get(name, name.replace("_", " ")))


def diagnostics_table(comparison: Comparison) -> pd.DataFrame:
    """How far the comparison can be trusted: one row per quantity, columns A and B."""
    quantities = {
        "coverage": "coverage",
        "overlap": "overlap",
        "effective sample size": "effective_sample_size",
        "largest weight": "largest_weight",
        "fraction clipped": "clipped",
        "abstention explained": "explained",
        "calibration slope": "calibration_slope",
        "calibration intercept": "calibration_intercept",
        "calibration error": "calibration_error",
        "outcome R2": "outcome_r2",
        "outcome bias": "outcome_bias",
    }
    return pd.DataFrame(
        {
            letter: [getattr(diagnostics, name) for name in quantities.values()]
            for letter, diagnostics in zip("AB", comparison.diagnostics, strict=True)
        },
        index=pd.Index(quantities, name="quantity"),
        dtype=float,
    )


# --- words ----------------------------------------------------------------------------------------


def _metrics_row(name: str, scores: Array, abstained: Flags, estimate: Estimate) -> dict[str, Any]:
    selective = selective_score(scores, abstained, level=estimate.level)
    return {
        "service": name,
        "coverage": float((~abstained).mean()),
        "selective": selective.value,
        "selective_low": selective.interval[0],
        "selective_high": selective.interval[1],
        "counterfactual": estimate.value,
        "counterfactual_low": estimate.interval[0],
        "counterfactual_high": estimate.interval[1],
    }


def _warnings(
    difference: Estimate, diagnostics: Sequence[Diagnostics], blind: Mapping[str, list[str]]
) -> tuple[str, ...]:
    found = []
    for name, one in zip("AB", diagnostics, strict=True):
        found += [f"{name}: {text}" for text in (*blind.get(name, []), *one.notes)]
        if one.answered < _FEW_ANSWERS:
            found.append(
                f"{name}: it answered only {one.answered} of {one.n} points, few to fit models to"
                + (", or to learn from how scores vary" if difference.reach is None else "")
            )
    if math.isnan(difference.interval[0]):
        found.append(
            "A − B: there is no interval: the scores of a service that are seen are all equal, and "
            "not 0 or 1, so that nothing says how far others may be from them"
        )
    return tuple(found)


def _blind(
    columns: Mapping[str, Array],
    known: Sequence[Array | None],
    fitted: Sequence[Diagnostics],  # before anything was calibrated, which may hide it
    difference: Estimate,
) -> dict[str, list[str]]:
    """Why some inputs seem never to be answered, for each service of which that is so."""
    found = {}
    for name, one, told, before in zip("AB", difference.nuisances, known, fitted, strict=True):
        never, reasons = never_answered(one.abstained, told, {}, columns)
        # A few abstentions may be separated by chance, and do not matter; told ones are no chance.
        certain = told is not None and (told >= 1 - KNOWN_CLIP).any()
        reasons = reasons if certain or never.mean() > _FEW_NEVER else []
        if told is None:
            reasons = [*before.positivity, *reasons]
        if reasons:
            found[name] = reasons
    return found


def _reason(
    difference: Estimate,
    metrics: pd.DataFrame,
    decision: str,
    margin: float,
    blind: Mapping[str, list[str]],
) -> str:
    value, (low, high) = difference.value, difference.interval
    digits = _digits(difference, margin)

    def text(number: float) -> str:
        return f"{number:.{digits}f}".replace("-", "−")

    share = f"{100 * difference.level:.10g}%"
    if value == 0:
        compared = "as much as B"
    else:
        compared = f"{text(abs(value))} {'more' if value > 0 else 'less'} than B"
    ends = f"{share} interval of A minus B: {text(low)} to {text(high)}"
    sentences = [
        f"If both had to answer always, A would score an estimated {compared} "
        f"({'no interval' if math.isnan(low) else ends})."
    ]
    bar = f"the margin of {margin:g}" if margin else "0"
    if blind:
        sentences.append(
            f"But {' and '.join(blind)} seem{'' if len(blind) == 2 else 's'} never, or hardly "
            "ever, to answer some inputs, where all this is extrapolated: the trial decides "
            "nothing, and the warnings say why."
        )
    elif math.isnan(low):
        sentences.append("Without an interval the trial does not tell which to choose.")
    elif decision == "choose A":
        sentences.append(f"The whole interval is above {bar}: choose A.")
    elif decision == "choose B":
        minus = "minus " if margin else ""
        sentences.append(f"The whole interval is below {minus}{bar}: choose B.")
    elif margin and -margin <= low and high <= margin:
        sentences.append(
            f"The whole interval is within {bar} on either side: the two differ by too little to "
            "matter, so let something else decide, such as the price."
        )
    else:
        reach = f"differences of less than {bar}" if margin else bar
        sentences.append(f"The interval holds {reach}: the trial does not tell which to choose.")
        short, n = max(abs(value) - margin, 0.0), len(difference.influence)
        near = value - low if value > 0 else high - value  # falls as 1 / sqrt(n), or faster
        if short > 0 and (near / short) ** 2 <= HOPELESS:
            needed = about(math.ceil(n * (near / short) ** 2 - 1e-9))
            sentences.append(
                f"If the difference is what it seems, it takes {needed} points for an even "
                "chance to tell."
            )
    seen, coverage = metrics["selective"].tolist(), metrics["coverage"].tolist()
    gap = seen[0] - seen[1]
    opposite = decision != "undecided" and gap * value < 0
    sentences.append(
        f"Where they answered, A scored {text(seen[0])} (on {coverage[0]:.0%} of the points) and "
        f"B {text(seen[1])} (on {coverage[1]:.0%})"
        + (", which misleads: it points the other way." if opposite else ".")
    )
    return " ".join(sentences)


def _digits(difference: Estimate, margin: float) -> int:
    """Decimals: two digits of the standard error, and more if an end looks like what it is not."""
    error = difference.stderr
    digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 3
    digits = min(digits, 15)
    while digits < 15 and any(
        end != bar and round(end, digits) == round(bar, digits)
        for end in difference.interval
        for bar in (margin, -margin)
    ):
        digits += 1
    return digits
