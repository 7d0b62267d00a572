"""What keeps a user of the estimates honest: overlap, weights, calibration, fit."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]
_BINS = 20
#: Where the propensity is at least SURE, a classifier that answers less than _SELDOM of the points
#: seems never to answer; it matters if that is at least _PART of all points, and fewer than _ENOUGH
#: points do not tell.
SURE, _SELDOM, _PART, _ENOUGH = 0.95, 0.02, 0.02, 20
#: Fraction of the variance of abstention explained from which on it looks deterministic.
_ALL_EXPLAINED = 0.9


class PositivityWarning(UserWarning):
    """Abstention looks deterministic: nothing is known where a classifier never answers."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Of one classifier's nuisance functions; all from predictions out of fold.

    Attributes
    ----------
    n, answered : int
        Points, and those answered.
    coverage : float
        Fraction answered.
    propensity_edges, propensity_answered, propensity_abstained : ndarray
        Histogram of the propensity to abstain in 20 bins of [0, 1]: edges, and counts among
        answered and abstained points.
    overlap : float
        Smallest probability of an answer, before clipping.
    effective_sample_size : float
        Of the answered points with their weights 1 / (1 - pi): (sum w)^2 / sum w^2.
    largest_weight : float
        After clipping.
    clipped : float
        Fraction of all points whose propensity is above 1 - epsilon.
    explained : float
        Fraction of the variance of abstention that the propensity explains: 1 for a deterministic
        rule that is learned, 0 for the fraction of abstentions as a constant.
    calibration_slope, calibration_intercept : float
        Of a logistic regression of abstention on the propensity's log odds: 1 and 0 if calibrated.
        NaN if abstention or propensity does not vary.
    calibration_error : float
        Mean absolute gap between propensity and fraction of abstentions, over tenths of the points.
    outcome_r2 : float
        Fraction of the variance of the scores that the outcome model explains where there are
        answers; NaN if they do not vary.
    outcome_bias : float
        Mean of score minus prediction where there are answers.
    positivity : tuple of str
        Reasons to think that some inputs are never answered, and what that means.  They rest on the
        fitted propensity: none is no evidence of positivity, as a rule that was not learned shows
        nothing.
    notes : tuple of str
        Other things to know.
    """

    n: int
    answered: int
    coverage: float
    propensity_edges: Array = field(repr=False)
    propensity_answered: npt.NDArray[np.int64] = field(repr=False)
    propensity_abstained: npt.NDArray[np.int64] = field(repr=False)
    overlap: float
    effective_sample_size: float
    largest_weight: float
    clipped: float
    explained: float
    calibration_slope: float
    calibration_intercept: float
    calibration_error: float
    outcome_r2: float
    outcome_bias: float
    positivity: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def diagnose(
    abstained: npt.NDArray[np.bool_], scores: Array, propensity: Array, outcome: Array, clip: float
) -> Diagnostics:
    """Compute the diagnostics of one classifier."""
    n, answered = len(abstained), int((~abstained).sum())
    edges = np.linspace(0, 1, _BINS + 1)
    histogram = [
        np.histogram(np.clip(propensity[rows], 0, 1), bins=edges)[0]
        for rows in (~abstained, abstained)
    ]
    pi = np.clip(propensity, 0.0, 1.0 - clip)
    weight = 1.0 / (1.0 - pi[~abstained])
    share = abstained.mean()
    variance = share * (1 - share)
    explained = 1 - np.mean((abstained - propensity) ** 2) / variance if variance > 0 else 0.0
    clipped = float((propensity > 1 - clip).mean())
    slope, intercept = _calibration(abstained, propensity)
    seen = scores[~abstained]
    residual = seen - outcome[~abstained]
    spread = seen.var()
    positivity = []
    meaning = (
        "what it would have done there cannot be known, only extrapolated, and the interval does "
        "not say how wrong that may be"
    )
    sure = propensity >= SURE
    if sure.sum() >= max(_ENOUGH, _PART * n) and (~abstained[sure]).mean() < _SELDOM:
        positivity.append(
            f"on {sure.mean():.1%} of the points the classifier seems never to answer (it did on "
            f"{int((~abstained[sure]).sum())} of {int(sure.sum())}), so positivity fails: {meaning}"
        )
    elif explained > _ALL_EXPLAINED:
        positivity.append(
            f"abstention is almost a function of the inputs, which explain {explained:.0%} of its "
            f"variance, so positivity is weak at best: where it never answers, {meaning}"
        )
    notes = []
    if not abstained.any():
        notes.append("it never abstained: the estimate is the mean score with its plain interval")
    if clipped > _PART:
        notes.append(
            f"{clipped:.1%} of the propensities are clipped at {1 - clip:.3g}: look at the "
            "estimate's sensitivity to that level"
        )
    return Diagnostics(
        n=n,
        answered=answered,
        coverage=answered / n,
        propensity_edges=edges,
        propensity_answered=histogram[0],
        propensity_abstained=histogram[1],
        overlap=float(1 - propensity.max()),
        effective_sample_size=float(weight.sum() ** 2 / (weight**2).sum()),
        largest_weight=float(weight.max()),
        clipped=clipped,
        explained=float(explained),
        calibration_slope=slope,
        calibration_intercept=intercept,
        calibration_error=_calibration_error(abstained, propensity),
        outcome_r2=float(1 - (residual**2).mean() / spread) if spread > 0 else float("nan"),
        outcome_bias=float(residual.mean()),
        positivity=tuple(positivity),
        notes=tuple(notes),
    )


def _calibration(abstained: npt.NDArray[np.bool_], propensity: Array) -> tuple[float, float]:
    """Slope and intercept of abstention on the log odds of the propensity, by Newton's method."""
    odds = special.logit(np.clip(propensity, 1e-6, 1 - 1e-6))
    if abstained.all() or not abstained.any() or np.ptp(odds) < 1e-9:
        return float("nan"), float("nan")
    # Around their mean: slope and intercept of log odds far from 0 would hide each other.
    middle = float(odds.mean())
    design = np.column_stack([odds - middle, np.ones(len(odds))])

    def loss(theta: Array) -> float:
        """Minus the log likelihood."""
        z = design @ theta
        return float(np.logaddexp(0, z).sum() - z[abstained].sum())

    theta = np.array([1.0, middle])
    last = loss(theta)
    for _ in range(100):
        mean = special.expit(design @ theta)
        hessian = (design * (mean * (1 - mean))[:, None]).T @ design
        step = np.linalg.lstsq(hessian, design.T @ (abstained - mean), rcond=None)[0]
        # As a whole: with each part cut by itself, the likelihood would not grow that way.
        step *= min(1.0, 8.0 / max(np.abs(design @ step).max(), 1e-300))
        # Halved until the likelihood grows: from steep odds a whole step leads back and forth.
        while (value := loss(theta + step)) > last + 1e-12 * abs(last) and np.abs(
            step
        ).max() > 1e-10:
            step = step / 2
        theta, last = theta + step, value
        # Separated data have no finite optimum: stop where the slope is beyond any use.
        if np.abs(step).max() < 1e-10 or abs(theta[0]) > 100:
            break
    return float(theta[0]), float(theta[1] - middle * theta[0])


def _calibration_error(abstained: npt.NDArray[np.bool_], propensity: Array) -> float:
    order = np.argsort(propensity, kind="stable")
    parts = np.array_split(order, min(10, len(order)))
    gaps = [abs(abstained[part].mean() - propensity[part].mean()) for part in parts]
    return float(np.average(gaps, weights=[len(part) for part in parts]))
