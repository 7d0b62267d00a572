"""Rivals of the suitability filter: accuracy estimators without labels, turned into its decision.

Each estimates a model's accuracy on unlabeled data from its confidence, the signal
``conf_max``, or from ``conf_entropy``.  They see what the filter sees: fold i with labels to
fit, and the signals of the test fold j and of the user data.  They say SUITABLE if the accuracy
of the user data is at least that of the test fold minus the margin; the latter is either
estimated as well, as the filter does, or known, since the test fold has labels.

- **AC**: the mean confidence.
- **DoC**: accuracy on fold i minus the drop in mean confidence.  Guillory et al. regress
  accuracies on such differences over many labeled data sets that are shifted; a partition of
  in-distribution data has none, so that this is the difference itself ("DoC-feat" in Garg et
  al.).  On test and user data it differs from AC by the same constant: with an estimated
  reference the two decide alike, which is also what DoC with the labels of the test fold does.
- **ATC**: the fraction of scores at or above a threshold, below which fold i has as many scores as
  it has errors; where scores tie, nearest to as many, and the larger of two (the authors' code
  takes the largest score that counts as an error, one sample lower).  Garg et al. also rescale
  the logits by a temperature first, which cannot be done from signals.
- **CBPE**: the mean calibrated confidence, as nannyml 0.13 computes it for one chunk.  Isotonic
  regression of correctness on confidence on all of fold i, with no part held out, is used unless
  nannyml's check finds that the expected calibration error would not fall.  nannyml calibrates
  the probability of each class against the rest and rescales them to sum to one, for which the
  signals do not suffice: this is the calibration of the predicted class alone.  nannyml's own
  rule, an alert if the estimate is below mean - 3 standard deviations of the realized accuracy of
  about ten chunks of reference data, knows neither the margin nor the test fold.  The chunks are
  those of fold i, what remains is one more; the user data are one chunk.  Its check runs on ten
  stratified splits of 90% and 10% and is skipped, with nothing calibrated, where confidence tells
  correct from wrong predictions with a ROC AUC above 0.999 or it cannot run.  Equal values stand
  in the order of their rows; nannyml sorts them unstably, so that its check decides otherwise in
  some 4% of folds.

Garg et al., Leveraging Unlabeled Data to Predict Out-of-Distribution Performance, ICLR 2022, Eq.
1-2. Guillory et al., Predicting with Confidence on Unseen Distributions, ICCV 2021, section 3.
nannyml, modules ``calibration``, ``chunk``, ``thresholds``, ``performance_estimation``.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import isotonic_regression
from sklearn.model_selection import StratifiedShuffleSplit

from lib.studies.suitability.experiment import (
    Splits,
    Task,
    counts,
    decision_metrics,
    is_suitable,
    over_tasks,
)
from lib.suitability.noninferiority import welch_non_inferiority
from lib.suitability.signals import SIGNAL_NAMES

#: Methods and what readers call them; the filter comes from :func:`filter_as_peer`.
PEERS = {
    "filter": "suitability filter",
    "ac": "AC",
    "doc": "DoC",
    "atc_confidence": "ATC, max confidence",
    "atc_entropy": "ATC, negative entropy",
    "cbpe": "CBPE",
}
#: Rules that turn estimates into SUITABLE, and what readers call them.
RULES = {
    "test": "Welch test",
    "estimated": "plain, test accuracy estimated",
    "known": "plain, test accuracy known",
    "alert": "no alert",
}

_N_CHUNKS = 10  # nannyml's DefaultChunker
_N_SDS = 3  # nannyml's StandardDeviationThreshold
# nannyml's needs_calibration.
_N_CHECKS, _CHECK_SHARE, _CHECK_SEED, _N_BINS, _PERFECT_AUC = 10, 0.1, 42, 10, 0.999
# Columns that the filter's results have as well, apart from the truth.
_ACCURACIES = (
    "estimated_test_accuracy",
    "estimated_user_accuracy",
    "test_accuracy",
    "user_accuracy",
)
_SHARED = ("sf_fold", "test_fold", "p_value", *_ACCURACIES)
# Decimals of a score that count: 0.7 >= 0.8 - 0.1 but for rounding.
_DECIMALS = 12

Array = npt.NDArray[np.float64]
Knots = tuple[Array, Array]


def evaluate_peers_pairs(
    source_signals: Any,
    source_correct: Any,
    partition: Sequence[npt.NDArray[np.int64]],
    user_signals: Any,
    user_correct: Any,
    margin: float = 0.0,
) -> pd.DataFrame:
    """Let all methods decide about one user fold: fitted to fold i, tested on fold j, i != j."""
    confidence, entropy = (SIGNAL_NAMES.index(name) for name in ("conf_max", "conf_entropy"))
    source, user, rows = source_signals, user_signals, np.stack(partition)
    # Of the folds, indexed [fold, row], and of the user data.
    right, folds = source_correct[rows], source[rows, confidence]
    accuracy = right.mean(axis=1)
    calibrators = [calibrator(*fold) for fold in zip(folds, right, strict=True)]
    shift = accuracy - folds.mean(axis=1)
    # From here on without the labels: sorted, which makes looking up several times faster.
    folds, users = np.sort(folds, axis=1), np.sort(user[:, confidence])
    certainty, user_certainty = np.sort(-source[rows, entropy], axis=1), np.sort(-user[:, entropy])
    errors = (~right).sum(axis=1)
    average = _mean_and_variance([folds] * len(rows), [users] * len(rows))
    # Indexed [method, i, j] for the folds and [method, i] for the user data.
    means, variances, user_means, user_variances = (
        np.stack(parts)
        for parts in zip(
            average,
            (average[0] + shift[:, None], average[1], average[2] + shift, average[3]),
            _thresholded(folds, errors, users),
            _thresholded(certainty, errors, user_certainty),
            _mean_and_variance(
                (calibrate(c, folds) for c in calibrators),
                (calibrate(c, users) for c in calibrators),
            ),
            strict=True,
        )
    )
    lowest = np.array([alert_threshold(fold) for fold in right])

    k, names = len(rows), [name for name in PEERS if name != "filter"]
    sf, test = np.nonzero(~np.eye(k, dtype=bool))
    estimated_test, estimated_user = means[:, sf, test], user_means[:, sf]
    _, p_value, _ = welch_non_inferiority(
        estimated_test,
        variances[:, sf, test],
        rows.shape[1],
        estimated_user,
        user_variances[:, sf],
        len(user),
        margin,
    )
    test_accuracy = np.broadcast_to(accuracy[test], p_value.shape)
    threshold = np.full(p_value.shape, np.nan)
    threshold[-1] = lowest[sf]
    alert = np.where(np.isnan(threshold), np.nan, (estimated_user < threshold).astype(float))
    result = pd.DataFrame(
        {
            "peer": np.repeat(names, len(sf)),
            "sf_fold": np.tile(sf, len(names)),
            "test_fold": np.tile(test, len(names)),
            "p_value": p_value.ravel(),
            "estimated_test_accuracy": estimated_test.ravel(),
            "estimated_user_accuracy": estimated_user.ravel(),
            "test_accuracy": test_accuracy.ravel(),
            "user_accuracy": user_correct.mean(),
        }
    )
    result = _with_scores(result, margin)
    truth = is_suitable(result["test_accuracy"], result["user_accuracy"], margin)
    return result.assign(alert_threshold=threshold.ravel(), alert=alert.ravel(), truth=truth)


def evaluate_peers(splits: Splits, tasks: Sequence[Task], margin: float = 0.0) -> pd.DataFrame:
    """Let all methods decide about several user folds."""
    return over_tasks(evaluate_peers_pairs, splits, tasks, margin)


def filter_as_peer(results: pd.DataFrame, margin: float = 0.0) -> pd.DataFrame:
    """Write the filter's results in the form of another method's, to be compared with them."""
    labels = list(results)[: list(results).index("sf_fold")]
    table = _with_scores(results[[*labels, *_SHARED]], margin)
    table.insert(len(labels), "peer", "filter")
    return table.assign(alert_threshold=np.nan, alert=np.nan, truth=results["truth"])


def peer_table(results: pd.DataFrame, by: Sequence[str] = (), alpha: float = 0.05) -> pd.DataFrame:
    """Compare the decisions of methods, under each of :data:`RULES`, with the truth."""
    rows = []
    for key, group in results.groupby([*by, "peer"], sort=False, dropna=False):
        for rule in RULES:
            if rule == "test":
                metrics = decision_metrics(group["p_value"], group["truth"], alpha)
            else:
                if rule == "alert":
                    score = group["estimated_user_accuracy"] - group["alert_threshold"]
                else:
                    score = group[f"score_{rule}"]
                if score.isna().all():
                    continue
                # A p-value that is 0.5 at score 0 and falls with it; scores are in (-5, 5).
                p_value = 0.5 - score.round(_DECIMALS) / 10
                metrics = decision_metrics(p_value, group["truth"], 0.5)
            who = dict(zip((*by, "peer"), key, strict=True)) | {"rule": rule}
            rows.append(who | metrics | counts(group))
    return pd.DataFrame(rows)


def _with_scores(results: pd.DataFrame, margin: float) -> pd.DataFrame:
    """Add the scores: by how much the estimated user accuracy exceeds what is asked for."""
    user = results["estimated_user_accuracy"]
    return results.assign(
        score_estimated=user - results["estimated_test_accuracy"] + margin,
        score_known=user - results["test_accuracy"] + margin,
    )


def _mean_and_variance(folds: Any, users: Any) -> tuple[Array, Array, Array, Array]:
    """Moments of contributions, one array per fitted fold: of all folds, and of users."""
    on_folds = [(a.mean(axis=1), a.var(axis=1, ddof=1)) for a in folds]
    on_users = [(a.mean(), a.var(ddof=1)) for a in users]
    mean, variance = (np.array(part) for part in zip(*on_folds, strict=True))
    user_mean, user_variance = (np.array(part) for part in zip(*on_users, strict=True))
    return mean, variance, user_mean, user_variance


def _thresholded(
    scores: Array, errors: npt.NDArray[np.int64], user_scores: Array
) -> tuple[Array, Array, Array, Array]:
    """Moments as of :func:`_mean_and_variance`, of ATC's indicators of sorted scores."""
    thresholds = np.array([_atc_threshold(*fold) for fold in zip(scores, errors, strict=True)])
    below = np.stack([np.searchsorted(fold, thresholds) for fold in scores], axis=1)
    user_below = np.searchsorted(user_scores, thresholds)
    moments = []
    for count, n in ((below, scores.shape[1]), (user_below, len(user_scores))):
        mean = (n - count) / n
        moments += [mean, mean * (count / n) * (n / (n - 1))]
    return tuple(moments)


def _atc_threshold(ranked: Array, errors: int) -> float:
    """Score below which as many of the sorted scores are as there are errors, or nearest."""
    if errors == len(ranked):
        return np.inf
    low, high = np.searchsorted(ranked, ranked[errors], "left"), errors + 1
    if low < errors:  # a tie: all of it counts as right, or all of it as wrong
        high = np.searchsorted(ranked, ranked[errors], "right")
        if high - errors <= errors - low:
            return ranked[high] if high < len(ranked) else np.inf
    return ranked[low]


def calibrate(knots: Knots | None, confidence: Array) -> Array:
    """Calibrated confidence: linear between the knots, constant beyond.

    Parameters
    ----------
    knots : tuple of array or None
        As :func:`calibrator` has them.
    confidence : array, shape (n,)
        What is to be calibrated.

    Returns
    -------
    array, shape (n,)
        Chances to be right.
    """
    return confidence if knots is None else np.interp(confidence, *knots)


def calibrator(confidence: Array, right: npt.NDArray[np.bool_]) -> Knots | None:
    """Knots of nannyml's calibration of a fold, or None where it leaves confidence as it is.

    Parameters
    ----------
    confidence : array, shape (n,)
        Of the predictions of the fold.
    right : array of bool, shape (n,)
        Which of them are right.

    Returns
    -------
    tuple of array or None
        Confidences in increasing order, and the chances to be right at them.
    """
    n, n_right = len(right), int(right.sum())
    if n <= _N_CHECKS or min(n_right, n - n_right) < 2:
        return None
    values, group = np.unique(confidence, return_inverse=True)
    weight = np.bincount(group).astype(float)
    total = np.bincount(group, weights=right)
    # Mann-Whitney: wrong predictions below each group of right ones, ties counting half.
    wrong = weight - total
    if total @ (wrong.cumsum() - wrong / 2) > _PERFECT_AUC * n_right * (n - n_right):
        return None
    # The splits are drawn for wrong predictions before right ones.
    held_out = np.argsort(right, kind="stable")[_check_splits(n - n_right, n_right)]
    calibrated = np.empty(held_out.shape)
    for rows, values_out in zip(held_out, calibrated, strict=True):
        out = group[rows]
        left = weight - np.bincount(out, minlength=len(values))
        left_total = total - np.bincount(out, weights=right[rows], minlength=len(values))
        values_out[:] = np.interp(confidence[rows], *_isotonic(values, left, left_total))
    before, after = (
        _calibration_error(estimate.ravel(), right[held_out].ravel())
        for estimate in (confidence[held_out], calibrated)
    )
    return _isotonic(values, weight, total) if before > after else None


def _isotonic(values: Array, weight: Array, total: Array) -> Knots:
    """Knots of the isotonic regression on distinct values with so many samples and right ones."""
    seen = weight > 0
    values, weight, total = values[seen], weight[seen], total[seen]
    fit = isotonic_regression(total / weight, weights=weight).x
    # The ends of constant stretches suffice.
    keep = np.ones(len(fit), dtype=bool)
    keep[1:-1] = (fit[1:-1] != fit[:-2]) | (fit[1:-1] != fit[2:])
    return values[keep], fit[keep]


@lru_cache(maxsize=1024)
def _check_splits(n_wrong: int, n_right: int) -> npt.NDArray[np.int64]:
    """Held-out rows of the splits of nannyml's check, wrong predictions coming first."""
    right = np.repeat([False, True], [n_wrong, n_right])
    splitter = StratifiedShuffleSplit(_N_CHECKS, test_size=_CHECK_SHARE, random_state=_CHECK_SEED)
    rows = np.stack([held_out for _, held_out in splitter.split(right, right)])
    rows.flags.writeable = False  # it is shared
    return rows


def _calibration_error(estimate: Array, right: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error, bins of equal size; the length is a multiple of their number."""
    order = np.argsort(estimate, kind="stable").reshape(_N_BINS, -1)
    gap = estimate[order].mean(axis=1) - right[order].mean(axis=1)
    return float(np.abs(gap).mean())


def alert_threshold(right: npt.NDArray[np.bool_]) -> float:
    """Value of estimated accuracy below which nannyml alerts.

    Parameters
    ----------
    right : array of bool, shape (n,)
        Which predictions on the reference data are right, in the order of the rows.

    Returns
    -------
    float
        The mean of the chunks' accuracies, less some of their standard deviations.
    """
    size = max(len(right) // _N_CHUNKS, 1)
    starts = np.arange(0, len(right), size)
    counts = np.diff(np.append(starts, len(right)))
    chunks = np.add.reduceat(right.astype(float), starts) / counts
    return float(chunks.mean() - _N_SDS * chunks.std())
