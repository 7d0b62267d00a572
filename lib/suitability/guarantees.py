"""What the filter's false positive rate is worth: calibration errors, and labels that correct them.

Signs. Accuracy is mean estimated correctness plus the calibration error eps of the distribution
(Lemma 4.3). The offset Delta is what labels measure, estimated minus true accuracy: Delta = -eps.

Two questions. Both ask whether the user data's *distribution* has an accuracy that is lower by at
most m, and differ in what it is compared with:

``"distribution"``
    the accuracy of the source distribution (Corollary 4.4). The test data are a random sample, and
    so are their accuracy and offset.
``"sample"``
    the accuracy of the test data at hand (Definition 3.1), which are labelled: it is a known
    number, and so is their offset. Random are the user data and their labelled sample alone.

What is valid for the first question is valid for the second too, and wider.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

from lib.check import as_array, as_flags, as_generator, as_integer, as_number
from lib.suitability.labels import critical_counts, is_sample, labels_test
from lib.suitability.noninferiority import welch_non_inferiority
from lib.suitability.power import as_sample, satterthwaite, smallest_size
from lib.suitability.sequential import EProcess

__all__ = [
    "METHODS",
    "AdjustedMargin",
    "Impossibility",
    "Offset",
    "PredictionPowered",
    "adjusted_margin",
    "calibration_offset",
    "corrected_margin",
    "impossibility_example",
    "labels_needed",
    "lemma_check",
    "prediction_powered_test",
    "simulate_guarantee",
]

#: What :func:`simulate_guarantee` compares.
METHODS = ("unadjusted", "exact", "plug-in", "bound", "prediction-powered", "labels alone")
# Numbers drawn at once in a simulation.
_BLOCK = 2**21

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Offset:
    """Estimated minus true accuracy of a labelled sample.

    Attributes
    ----------
    value : float
        Delta, positive where the estimator flatters the data.
    stderr : float
        Its standard error as an estimate of the distribution's offset, -eps.
    n : int
        Size of the sample.
    """

    value: float
    stderr: float
    n: int


@dataclass(frozen=True)
class AdjustedMargin:
    """The margin with which estimates are compared in place of accuracies.

    Attributes
    ----------
    value : float
        m' = m + Delta_test - Delta_u.
    stderr, dof : float
        Its standard error and, by Welch and Satterthwaite, that one's degrees of freedom.
    interval : tuple of float
        Confidence interval for the true m' by the t distribution, each end with the error
        probability ``level``.
    level : float
        That error probability.
    offset_test, offset_user : Offset
        Of the two samples.
    """

    value: float
    stderr: float
    dof: float
    interval: tuple[float, float]
    level: float
    offset_test: Offset
    offset_user: Offset

    @property
    def bound(self) -> float:
        """Lower limit of the interval: use it as the margin, and alpha - level for alpha.

        May be below -1, where no user data can be found suitable.
        """
        return self.interval[0]


@dataclass(frozen=True)
class PredictionPowered:
    """Result of the test of accuracies with few labels and many estimates.

    Attributes
    ----------
    statistic, p_value, dof : float
        Of the one-sided t-test, which holds its level for many labels only; very negative
        statistics speak for suitability.
    stderr : float
        Of the difference of the two accuracies.
    test_accuracy, user_accuracy : float
        The latter is the labelled sample's accuracy plus ``tuning`` times what the mean estimate of
        the unlabelled data is above that of the labelled.
    tuning : float
        lambda in [0, 1], by how much the estimates count.
    betting_p_value, betting_against : float
        By betting on the same differences: p-values of H0 and of the opposite hypothesis that hold
        their level for any number of labels.
    labels_p_value, labels_against : float
        The same of the labels alone, by the exact test (:func:`lib.suitability.labels_test`), and
        of the opposite.
    labels_stderr : float
        Of the difference of the two accuracies by labels alone.
    """

    statistic: float
    p_value: float
    dof: float
    stderr: float
    test_accuracy: float
    user_accuracy: float
    tuning: float
    betting_p_value: float
    betting_against: float
    labels_p_value: float
    labels_against: float
    labels_stderr: float


@dataclass(frozen=True, eq=False)
class Impossibility:
    """Two user populations that no filter without their labels can tell apart.

    Attributes
    ----------
    source_logits : ndarray, shape (n, 3)
        Of labelled source data.
    source_correct : ndarray of bool, shape (n,)
        Whether their predictions are correct.
    user_logits : ndarray, shape (n, 3)
        Of both populations' sample.
    suitable_correct, unsuitable_correct : ndarrays of bool, shape (n,)
        Whether the predictions are correct in the one and in the other.
    """

    source_logits: Array
    source_correct: npt.NDArray[np.bool_]
    user_logits: Array
    suitable_correct: npt.NDArray[np.bool_]
    unsuitable_correct: npt.NDArray[np.bool_]


def calibration_offset(estimated: Any, correct: Any) -> Offset:
    """Measure by how much estimated correctness overstates accuracy.

    Parameters
    ----------
    estimated : array_like, shape (n,)
        Estimated correctness, in [0, 1]; n is at least 2.
    correct : array_like of bool, shape (n,)
        Whether each prediction was correct.

    Returns
    -------
    Offset
        The standard error is that of the paired differences. Where errors are few, n times the
        error rate below about 25, the differences are too skewed for it: a sample without any
        error has a tiny standard error and proves little.

    Raises
    ------
    ValueError
        On input that is not as above.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Eq. 11.

    Examples
    --------
    >>> offset = calibration_offset([0.9, 0.8, 0.7, 0.6], [True, True, True, False])
    >>> round(offset.value, 3), offset.n
    (0.0, 4)
    """
    return _offset(*_labelled("", estimated, correct))


def corrected_margin(margin: Any, eps_source: Any, eps_target: Any) -> float | Array:
    """Margin for the estimates that stands for a margin between accuracies.

    Parameters
    ----------
    margin : array_like
        m, the largest acceptable drop in accuracy.
    eps_source, eps_target : array_like
        Calibration errors, accuracy minus mean estimated correctness.

    Returns
    -------
    float or ndarray
        m' = m + eps_target - eps_source.

    Raises
    ------
    ValueError
        If one of them is not finite, or their shapes do not broadcast.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Corollary 4.4.

    Examples
    --------
    >>> round(corrected_margin(0.05, eps_source=0.01, eps_target=-0.02), 3)
    0.02
    """
    margin, eps_source, eps_target = _settings(
        margin=margin, eps_source=eps_source, eps_target=eps_target
    )
    result = margin + eps_target - eps_source
    return result if result.ndim else float(result)


def adjusted_margin(
    margin: float,
    test_estimated: Any,
    test_correct: Any,
    user_estimated: Any,
    user_correct: Any,
    *,
    level: float = 0.025,
    reference: str = "distribution",
) -> AdjustedMargin:
    """Margin for the estimates, from labelled samples, with what is uncertain about it.

    Parameters
    ----------
    margin : float
        m in (-1, 1), the largest acceptable drop in accuracy.
    test_estimated, test_correct : array_like, shape (n_test,)
        Estimated correctness in [0, 1] and correctness of the test data, at least two.
    user_estimated, user_correct : array_like, shape (n,)
        The same of the user's small labelled sample.
    level : float
        In (0, 0.5): error probability of each end of the interval.
    reference : {"distribution", "sample"}
        What the user data are compared with, see above: the source distribution's accuracy, where
        both offsets are estimates, or that of the very test data that the filter is given, whose
        offset is then no estimate.

    Returns
    -------
    AdjustedMargin

    Raises
    ------
    ValueError
        On input that is not as above.

    Notes
    -----
    *Plug-in.* A filter with the margin ``value`` does not keep its false positive rate. If its
    test data are the labelled ones, their estimates cancel: it decides by

        accuracy of the test data - (mean user estimate - Delta_u) - m,

    the difference of an accuracy and a prediction-powered one (Angelopoulos et al. 2023). But it
    divides by the standard error of the mean *estimates*. That leaves out the variance of Delta_u,
    usually the largest, and that correctness varies more than its estimates do:
    :func:`prediction_powered_test` divides by the right one.

    *Bound.* A filter with the margin ``bound`` at alpha - level keeps alpha. Let m* be the true m'.
    Whoever is found suitable with a bound below m* would be so with m*, as the p-value falls with
    the margin. So an error needs a bound above m*, of probability ``level``, or an error with m*
    at alpha - level. The sum of the two needs no independence: the labelled samples may be part of
    what the filter is given. (With ``reference="sample"`` the mean of the test estimates is a
    known number; the filter still counts its variance, and errs on the safe side.) It is for large
    samples: see :func:`calibration_offset`.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Eq. 11-12.

    Examples
    --------
    >>> found = adjusted_margin(0.05, test[:300], test[:300] > 0.7, user[:60], user[:60] > 0.7)
    >>> found.bound < found.value, found.level
    (True, 0.025)
    """
    margin, level = as_number("margin", margin, -1, 1), as_number("level", level, 0, 0.5)
    test = _offset(*_labelled("test_", test_estimated, test_correct))
    user = _offset(*_labelled("user_", user_estimated, user_correct))
    value, total, dof, reach = _adjust(
        margin,
        *(test.value, 0.0 if is_sample(reference) else test.stderr**2, test.n),
        *(user.value, user.stderr**2, user.n),
        level,
    )
    return AdjustedMargin(
        value=float(value),
        stderr=math.sqrt(total),
        dof=float(dof),
        interval=(float(value - reach), float(value + reach)),
        level=level,
        offset_test=test,
        offset_user=user,
    )


def prediction_powered_test(
    test_correct: Any,
    user_estimated: Any,
    labelled_estimated: Any,
    labelled_correct: Any,
    margin: float = 0.0,
    *,
    reference: str = "distribution",
    tuning: float | None = None,
    seed: int = 0,
) -> PredictionPowered:
    """Test H0: acc_test - acc_user > m with few labels and many estimates of the user data.

    The user data's accuracy is estimated by that of the n labelled samples plus lambda times what
    the mean estimate of the N unlabelled ones is above that of the labelled: unbiased for a fixed
    lambda, however wrong the estimator is. Its variance is lambda^2 var(estimate) / N +
    var(correct - lambda estimate) / n; PPI++ takes the lambda in [0, 1] that makes it smallest,
    which for many labels is no larger than that of the labels alone.

    Parameters
    ----------
    test_correct : array_like of bool, shape (n_test,)
        Whether the predictions on the test data were correct, at least two.
    user_estimated : array_like, shape (N,)
        Estimated correctness of the unlabelled user data, in [0, 1], at least two.
    labelled_estimated, labelled_correct : array_like, shape (n,)
        Of the labelled user samples, at least two, which are not among the N.
    margin : float
        m in (-1, 1), the largest acceptable drop in accuracy.
    reference : {"distribution", "sample"}
        What the user data are compared with, see above: with ``"sample"`` the accuracy of the test
        data is a known number and has no variance.
    tuning : float, optional
        lambda in [0, 1], chosen beforehand; PPI++'s if left out.
    seed : int
        Of the order in which the betting test takes the samples.

    Returns
    -------
    PredictionPowered
        The t-test, with Satterthwaite's degrees of freedom, is for large samples: with few labels,
        or few errors among them, it errs more often than its level, and it decides nothing in
        :func:`lib.report.suitability_report`. The two other pairs of p-values hold theirs for
        any number of labels.

    Raises
    ------
    ValueError
        On input that is not as above.

    Notes
    -----
    Betting: each labelled sample makes a difference of its own, of correct - lambda estimate, plus
    lambda times the mean of N // n unlabelled estimates, less the mean of n_test // n test labels;
    lambda is PPI++'s for the samples before. The differences lie in [-2, 2], and given those before
    each has the mean acc_user - acc_test: :class:`lib.suitability.EProcess` bets against a mean of
    at most -m.

    References
    ----------
    Angelopoulos, Bates, Fannjiang, Jordan, Zrnic, Prediction-powered inference, Science 2023.
    Angelopoulos, Duchi, Zrnic, PPI++, 2023. Waudby-Smith and Ramdas, JRSS B 2024.
    Pouget et al., Suitability Filter, ICML 2025, Eq. 12, which leaves out the labels' variance.

    Examples
    --------
    >>> found = prediction_powered_test(
    ...     test > 0.7, user[100:], user[:100], user[:100] > 0.7, margin=0.05
    ... )
    >>> found.stderr > 0, 0 <= found.p_value <= 1
    (True, True)
    """
    margin, sample = as_number("margin", margin, -1, 1), is_sample(reference)
    test = _correct("test_correct", test_correct)
    user = as_sample("user_estimated", user_estimated, 0, 1)
    estimated, correct = _labelled("labelled_", labelled_estimated, labelled_correct)
    seed = as_integer("seed", seed, 0)
    if tuning is not None and tuning not in (0, 1):
        tuning = as_number("tuning", tuning, 0, 1)
    share = float(_tuning(estimated, correct, len(user)) if tuning is None else tuning)
    test_variance = 0.0 if sample else test.var(ddof=1)
    offset = _offset(share * estimated, correct)
    user_accuracy = share * user.mean() - offset.value
    statistic, p_value, dof, total = _powered_test(
        *(test.mean(), test_variance, len(test)),
        *(share * user.mean(), share**2 * user.var(ddof=1), len(user)),
        *(offset.value, offset.stderr**2, offset.n),
        margin,
    )
    alone = labels_test(test, correct, margin, reference=reference)
    rng = np.random.default_rng(seed)
    differences = _differences(
        rng.permutation(test) if not sample else np.full(len(correct), test.mean()),
        rng.permutation(user),
        np.stack([estimated, correct])[:, rng.permutation(len(correct))],
        tuning,
    )
    betting = [EProcess((2 - side * margin) / 4) for side in (1, -1)]
    for side, process in zip((1, -1), betting, strict=True):
        process.update((2 + side * differences) / 4)
    return PredictionPowered(
        statistic=float(statistic),
        p_value=float(p_value),
        dof=float(dof),
        stderr=math.sqrt(total),
        test_accuracy=float(test.mean()),
        user_accuracy=float(user_accuracy),
        tuning=share,
        betting_p_value=betting[0].p_value,
        betting_against=betting[1].p_value,
        labels_p_value=alone.suitable_p,
        labels_against=alone.unsuitable_p,
        labels_stderr=math.sqrt(test_variance / len(test) + correct.var(ddof=1) / len(correct)),
    )


def _tuning(estimated: Array, correct: Array, n_user: int) -> Array:
    """PPI++'s lambda, Eq. 6 of Angelopoulos, Duchi and Zrnic, for the last axis, in [0, 1]."""
    n = estimated.shape[-1]
    spread = estimated - estimated.mean(axis=-1, keepdims=True)
    squares = (spread**2).sum(axis=-1)
    shared = (spread * correct).sum(axis=-1)
    best = shared / np.where(squares > 1e-12 * n, squares * (1 + n / n_user), np.inf)
    return np.clip(best, 0.0, 1.0)


def _differences(test: Array, user: Array, labelled: Array, tuning: float | None) -> Array:
    """Of user and test accuracy, one for each labelled sample, in [-2, 2]."""
    estimated, correct = labelled
    n = min(len(correct), len(test))
    estimated, correct = estimated[:n], correct[:n]
    group = len(user) // n
    if tuning is None:
        # By the samples before; moments from running sums.
        before = np.arange(n)
        sums = [
            np.concatenate([[0.0], values.cumsum()[:-1]])
            for values in (estimated, correct, estimated**2, estimated * correct)
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = sums[2] - sums[0] ** 2 / before
            best = (sums[3] - sums[0] * sums[1] / before) / (squares * (1 + 1 / max(group, 1)))
        share = np.clip(np.where((before > 1) & (squares > 1e-9), best, 0.0), 0.0, 1.0)
    else:
        share = np.full(n, float(tuning))
    if group == 0:
        share, unlabelled = np.zeros(n), np.zeros(n)
    else:
        unlabelled = user[: group * n].reshape(n, group).mean(axis=1)
    reference = test[: len(test) // n * n].reshape(n, -1).mean(axis=1)
    return correct + share * (unlabelled - estimated) - reference


def labels_needed(sd_difference: float, half_width: float, level: float = 0.025) -> int:
    """Count the labelled user samples that measure the offset to within a half-width.

    Parameters
    ----------
    sd_difference : float
        Standard deviation of estimated minus actual correctness on user data, at least 0: the
        square root of the mean Brier score where the offset is zero.
    half_width : float
        Wanted of the confidence interval for Delta_u, in (0, 1).
    level : float
        Error probability of each end of the interval, in (0, 0.5).

    Returns
    -------
    int
        The smallest n >= 2 with t_{n-1, 1-level} sd / sqrt(n) <= half_width.

    Raises
    ------
    ValueError
        On input that is not as above.

    Examples
    --------
    >>> labels_needed(sd_difference=0.3, half_width=0.05)
    141
    """
    sd = _deviation("sd_difference", sd_difference)
    half_width, level = as_number("half_width", half_width, 0, 1), as_number("level", level, 0, 0.5)
    n = smallest_size(lambda n: -special.stdtrit(n - 1, 1 - level) * sd / np.sqrt(n), -half_width)
    if n is None:
        raise ValueError(
            f"half_width must be possible with 1e15 labels, got {half_width:g} for a standard "
            f"deviation of {sd:g}"
        )
    return n


def simulate_guarantee(
    eps_source: Any,
    eps_target: Any,
    *,
    margin: float = 0.05,
    accuracy_drop: float | None = None,
    test_accuracy: float = 0.8,
    n_test: int = 500,
    n_user: int = 500,
    n_labelled: int = 100,
    concentration: float = 10.0,
    alpha: float = 0.05,
    reference: str = "distribution",
    repetitions: int = 2000,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Simulate the rate of SUITABLE end to end, with a known miscalibration.

    Estimates C follow a Beta distribution scaled to where both C and C + eps are probabilities;
    a prediction is correct with probability C + eps (Definition 4.1). Their means are such that the
    accuracies are as given. Compared are

    ==================  =========================================================================
    unadjusted          the filter with the margin m
    exact               with the margin of :func:`corrected_margin`; for ``reference="sample"``
                        with m + Delta_test + eps_target, Delta_test being known
    plug-in             with ``value`` of :func:`adjusted_margin` from the test data's labels and
                        ``n_labelled`` user labels
    bound               with its ``bound`` at level alpha / 2, tested at alpha / 2
    prediction-powered  :func:`prediction_powered_test`'s t-test with those labels
    labels alone        :func:`labels_test` of the test data and those labels, which is exact
    ==================  =========================================================================

    Parameters
    ----------
    eps_source, eps_target : array_like
        Calibration errors, accuracy minus mean estimate; a setting for each pair, broadcast.
    margin : float
        m in (-1, 1).
    accuracy_drop : float, optional
        True drop in accuracy, by default the margin, the boundary of the null hypothesis. From the
        margin on, rates are false positive rates; below, they are power.
    test_accuracy : float
        Of the source distribution, in (0, 1).
    n_test, n_user, n_labelled : int
        Sizes, at least 2, of independent samples.
    concentration : float
        Sum of the Beta distribution's two parameters, positive: the larger, the more alike are the
        estimates.
    alpha : float
        Significance level in (0, 1).
    reference : {"distribution", "sample"}
        From what ``accuracy_drop`` counts, see above: from ``test_accuracy``, or in each repetition
        from the accuracy that its test data happen to have.
    repetitions : int
        At least 1.
    rng : numpy.random.Generator

    Returns
    -------
    pandas.DataFrame
        A row per setting and method: ``eps_source``, ``eps_target``, ``accuracy_drop``,
        ``method``, ``suitable`` (count), ``repetitions``, ``rate`` and its Clopper-Pearson interval
        ``low``, ``high`` at 95%.

    Raises
    ------
    ValueError
        On input that is not as above, or if no estimates fit an accuracy and its eps.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, section 4.4.

    Examples
    --------
    >>> found = simulate_guarantee(
    ...     0.0, 0.0, accuracy_drop=0.0, repetitions=50, rng=np.random.default_rng(0)
    ... )
    >>> found["method"].tolist()[:2], bool((found["rate"] <= 1).all())
    (['unadjusted', 'exact'], True)
    """
    pairs = np.broadcast_arrays(*_settings(eps_source=eps_source, eps_target=eps_target))
    margin = as_number("margin", margin, -1, 1)
    drop = margin if accuracy_drop is None else as_number("accuracy_drop", accuracy_drop, -1, 1)
    accuracy = as_number("test_accuracy", test_accuracy, 0, 1)
    alpha = as_number("alpha", alpha, 0, 1)
    as_number("concentration", concentration, 0, np.inf)
    for name, value in (("n_test", n_test), ("n_user", n_user), ("n_labelled", n_labelled)):
        as_integer(name, value, 2)
    as_integer("repetitions", repetitions)
    rng = as_generator(rng, "rng")
    sample = is_sample(reference)
    block = max(1, _BLOCK // max(n_test, n_user, n_labelled))
    rows = []
    for source, target in zip(*(pair.ravel() for pair in pairs), strict=True):
        suitable = np.zeros(len(METHODS), int)
        for start in range(0, repetitions, block):
            size = min(block, repetitions - start)
            test = _draw(accuracy, source, concentration, (size, n_test), rng)
            level = test[1].mean(axis=1, keepdims=True) if sample else accuracy
            user = _estimates(level - drop, target, concentration, (size, n_user), rng)
            labelled = _draw(level - drop, target, concentration, (size, n_labelled), rng)
            p_values = _all_methods(test, user, labelled, source, target, margin, alpha, sample)
            alone = _labels_alone(test[1], labelled[1], margin, alpha, sample)
            suitable += [*((p <= alpha).sum() for p in p_values), alone.sum()]
        for method, count in zip(METHODS, suitable.tolist(), strict=True):
            low, high = stats.binomtest(count, repetitions).proportion_ci(0.95, "exact")
            rows.append(
                {
                    "eps_source": float(source),
                    "eps_target": float(target),
                    "accuracy_drop": drop,
                    "method": method,
                    "suitable": count,
                    "repetitions": repetitions,
                    "rate": count / repetitions,
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(rows)


def lemma_check(
    eps: Any,
    *,
    accuracy: float = 0.8,
    concentration: float = 10.0,
    n: int = 100_000,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Simulate E[correct] = E[estimate] + eps.

    The identity needs no constant eps: with an error eps(C) that depends on the estimate it holds
    for its mean.

    Parameters
    ----------
    eps : array_like
        Calibration errors.
    accuracy, concentration, rng
        As in :func:`simulate_guarantee`.
    n : int
        Samples per calibration error, at least 2.

    Returns
    -------
    pandas.DataFrame
        A row per ``eps``: ``mean_estimate``, ``accuracy`` (both of the sample), ``difference``
        (accuracy minus estimate) and its ``stderr``.

    Raises
    ------
    ValueError
        On input that is not as above.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Lemma 4.3.

    Examples
    --------
    >>> found = lemma_check([0.0, 0.1], n=20_000, rng=np.random.default_rng(0))
    >>> found["difference"].round(1).tolist()
    [0.0, 0.1]
    """
    (values,) = _settings(eps=eps)
    accuracy = as_number("accuracy", accuracy, 0, 1)
    as_number("concentration", concentration, 0, np.inf)
    as_integer("n", n, 2)
    rng = as_generator(rng, "rng")
    rows = []
    for value in values.ravel():
        estimated, correct = _draw(accuracy, value, concentration, (n,), rng)
        offset = _offset(estimated, correct)
        rows.append(
            {
                "eps": float(value),
                "mean_estimate": estimated.mean(),
                "accuracy": correct.mean(),
                "difference": -offset.value,
                "stderr": offset.stderr,
            }
        )
    return pd.DataFrame(rows)


def impossibility_example(n: int, rng: np.random.Generator) -> Impossibility:
    """Make two user populations with the same signals, one suitable and one not.

    Labels of the source and of the suitable population follow the softmax of the logits, so that
    an estimator can be calibrated on both; the user's logits are larger, and the accuracy with
    them. Those of the unsuitable population are uniform on the three classes whatever the logits.
    As the logits have one distribution, so has all that a filter computes without labels of the
    user: it finds both populations suitable with one and the same probability. If that is at most
    alpha for the unsuitable population, it has no more power than that for the suitable one.

    Parameters
    ----------
    n : int
        Samples of source and user data each, at least 2.
    rng : numpy.random.Generator

    Returns
    -------
    Impossibility

    Raises
    ------
    ValueError
        On input that is not as above.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Remark 4.5.

    Examples
    --------
    >>> found = impossibility_example(500, np.random.default_rng(0))
    >>> bool(found.suitable_correct.mean() > found.unsuitable_correct.mean() + 0.3)
    True
    """
    as_integer("n", n, 2)
    rng = as_generator(rng, "rng")

    def correct(logits: Array) -> npt.NDArray[np.bool_]:
        # Gumbel's trick: the largest of logits and noise is a draw from the softmax.
        return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1) == logits.argmax(axis=1)

    source, user = 1.5 * rng.normal(size=(n, 3)), 2.5 * rng.normal(size=(n, 3))
    return Impossibility(
        source_logits=source,
        source_correct=correct(source),
        user_logits=user,
        suitable_correct=correct(user),
        unsuitable_correct=rng.integers(3, size=n) == user.argmax(axis=1),
    )


def _adjust(
    margin: Any,
    offset_test: Any,
    square_test: Any,
    n_test: Any,
    offset_user: Any,
    square_user: Any,
    n_user: Any,
    level: float,
) -> tuple[Array, Array, Array, Array]:
    """Eq. 12 from offsets and their squared standard errors.

    Returns m', its variance, the degrees of freedom and the half-width of the interval.
    """
    value = np.asarray(margin + offset_test - offset_user)
    total, dof = _combine([square_test, square_user], [n_test - 1, n_user - 1])
    reach = np.where(total == 0, 0.0, special.stdtrit(dof, 1 - level) * np.sqrt(total))
    return value, total, dof, reach


def _powered_test(
    accuracy: Any,
    variance: Any,
    n_test: Any,
    mean_user: Any,
    variance_user: Any,
    n_user: Any,
    offset: Any,
    square_offset: Any,
    n_labelled: Any,
    margin: float,
) -> tuple[Array, Array, Array, Array]:
    """Statistic, p-value, degrees of freedom and variance of the prediction-powered test."""
    total, dof = _combine(
        [variance / n_test, variance_user / n_user, square_offset],
        [n_test - 1, n_user - 1, n_labelled - 1],
    )
    excess = accuracy - (mean_user - offset) - margin
    excess = np.where((total == 0) & (np.abs(excess) <= 1e-12), 0.0, excess)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where((total == 0) & (excess == 0), 0.0, excess / np.sqrt(total))
    certain = 0.5 * (1 + np.sign(excess))
    return statistic, np.where(total == 0, certain, special.stdtr(dof, statistic)), dof, total


def _combine(variances: list[Any], dofs: list[Any]) -> tuple[Array, Array]:
    """Sum variances of means of numbers in [-1, 1], without those that are but rounding."""
    return satterthwaite([np.where(np.asarray(v) <= 1e-24, 0.0, v) for v in variances], dofs)


def _all_methods(
    test: tuple[Array, Array],
    user: Array,
    labelled: tuple[Array, Array],
    eps_source: float,
    eps_target: float,
    margin: float,
    alpha: float,
    sample: bool,
) -> list[Array]:
    """P-values of :data:`METHODS` but the last, one per row of the samples; the bound's doubled."""

    def moments(values: Array) -> tuple[Array, Array, int]:
        return values.mean(axis=1), values.var(axis=1, ddof=1), values.shape[1]

    def offset(estimated: Array, correct: Array) -> tuple[Array, Array, int]:
        mean, variance, n = moments(estimated - correct)
        return mean, variance / n, n

    of_test, of_user = moments(test[0]), moments(user)
    delta_test, square_test, n_test = offset(*test)
    accuracy, variance, _ = moments(test[1])
    if sample:
        square_test = np.zeros_like(square_test)
        variance = np.zeros_like(variance)
        exact = margin + delta_test + eps_target
    else:
        exact = corrected_margin(margin, eps_source, eps_target)
    delta_user = offset(*labelled)
    value, _, _, reach = _adjust(margin, delta_test, square_test, n_test, *delta_user, alpha / 2)
    filters = [
        welch_non_inferiority(*of_test, *of_user, m)[1]
        for m in (margin, exact, value, value - reach)
    ]
    filters[-1] = 2 * filters[-1]
    share = _tuning(*labelled, user.shape[1])
    tuned = offset(share[:, None] * labelled[0], labelled[1])
    scaled = share * of_user[0], share**2 * of_user[1], of_user[2]
    powered = _powered_test(accuracy, variance, n_test, *scaled, *tuned, margin)[1]
    return [*filters, powered]


def _labels_alone(
    test: Array, labelled: Array, margin: float, alpha: float, sample: bool
) -> npt.NDArray[np.bool_]:
    """Whether the exact test of the labels shows SUITABLE, for each row of the samples."""
    right = [values.sum(axis=1).astype(int) for values in (test, labelled)]
    n_test, n = test.shape[1], labelled.shape[1]
    if sample:
        least = np.clip(right[0] / n_test - margin, 0.0, 1.0)
        return stats.binom.sf(right[1] - 1, n, least) <= alpha
    return right[1] >= critical_counts(right[0], n_test, n, margin, alpha)


def _estimates(
    accuracy: Any, eps: float, concentration: float, shape: tuple[int, ...], rng: Any
) -> Array:
    """Draw scaled Beta estimates whose mean plus eps is the accuracy, all in [0, 1] with eps."""
    low, high = max(0.0, -eps), min(1.0, 1.0 - eps)
    mean = np.asarray(accuracy - eps)
    if not ((mean > low) & (mean < high)).all():
        raise ValueError(
            "eps must leave room for estimates strictly between 0 and 1 before and after it is "
            f"added, got {eps:g} for an accuracy of {np.asarray(accuracy).min():.4g}"
        )
    share = (mean - low) / (high - low)
    return low + (high - low) * rng.beta(concentration * share, concentration * (1 - share), shape)


def _draw(
    accuracy: Any, eps: float, concentration: float, shape: tuple[int, ...], rng: Any
) -> tuple[Array, Array]:
    """Draw estimates and, as 0 and 1, correctness."""
    estimated = _estimates(accuracy, eps, concentration, shape, rng)
    return estimated, (rng.random(shape) < estimated + eps).astype(float)


def _offset(estimated: Array, correct: Array) -> Offset:
    difference = estimated - correct
    n = len(difference)
    return Offset(float(difference.mean()), float(difference.std(ddof=1)) / math.sqrt(n), n)


def _labelled(prefix: str, estimated: Any, correct: Any) -> tuple[Array, Array]:
    estimates = as_sample(f"{prefix}estimated", estimated, 0, 1)
    return estimates, as_flags(f"{prefix}correct", correct, len(estimates)).astype(float)


def _correct(name: str, correct: Any) -> Array:
    shape = as_array(name, correct).shape
    if len(shape) != 1 or shape[0] < 2:
        raise ValueError(f"{name} must have shape (n,), n at least 2, got {shape}")
    return as_flags(name, correct, shape[0]).astype(float)


def _settings(**given: Any) -> list[Array]:
    """Check arrays of finite numbers that broadcast."""
    arrays = []
    for name, value in given.items():
        array = as_array(name, value)
        if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite real numbers, got {value!r}")
        arrays.append(array.astype(float))
    try:
        np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(
            f"{', '.join(given)} must have shapes that broadcast, got {shapes}"
        ) from None
    return arrays


def _deviation(name: str, value: Any) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else as_number(name, value, 0, np.inf)
