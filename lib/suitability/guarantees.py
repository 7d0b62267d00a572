"""What the filter's false positive rate is worth: calibration errors, and labels that correct them.

Signs. Accuracy is mean estimated correctness plus the calibration error eps of the distribution
(Lemma 4.3). The offset Delta is what labels measure, estimated minus true accuracy: Delta = -eps.

Two questions. Both ask whether the user data's *distribution* has an accuracy that is lower by at
most m, and differ in what it is compared with:

``"distribution"``
    the accuracy of the source distribution (Corollary 4.4). The test data are a random sample, and
    so are their accuracy and offset.
``"sample"``
    the accuracy of the test data at hand (Definition 3.1), which are labeled: it is a known
    number, and so is their offset. Random are the user data and their labeled sample alone.

What is valid for the first question is valid for the second too, and wider.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from lib.check import (
    as_flags,
    as_integer,
    as_number,
    require_choice,
    require_finite,
    require_number,
    same_rows,
)
from lib.suitability.labels import REFERENCES, as_right, labels_test
from lib.suitability.noninferiority import as_reals, as_sample
from lib.suitability.power import satterthwaite, smallest_size
from lib.suitability.sequential import _orders, _set_p_value

Array = npt.NDArray[np.float64]
#: Value and number of points, and between them the variance of the value (of a point, of a mean).
Moments = tuple[Any, Any, Any]
# Right answers, and as many wrong ones, that the variance of an offset counts in.
_ENDS = 8


@dataclass(frozen=True)
class Offset:
    """Estimated minus true accuracy of a labeled sample.

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
        Its standard error and, by Welch and Satterthwaite, that one's degrees of freedom; from
        those of the offsets.
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
        Of the one-sided t-test, whose level is approximate; very negative statistics speak for
        suitability.
    stderr : float
        Of the difference of the two accuracies.
    test_accuracy, user_accuracy : float
        The latter is the labeled sample's accuracy plus ``tuning`` times what the mean estimate of
        the unlabeled data is above that of the labeled.
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
        The standard error is that of the paired differences, with eight right and eight wrong
        answers of the mean estimate counted into their variance, not into the value: without,
        samples with few errors, or none, have next to no variance and prove little. Rows must be
        independent of each other.

    Notes
    -----
    By enumeration, for 20 to 2,000 independent answers, accuracies of 0.5 to 0.9995 and constant
    estimates, 95% intervals of the t distribution miss in 5.2% of all samples at most, 3.3% at one
    end (by the paired differences alone in up to 99%). With 250 right and 250 wrong answers they
    are 2% wider than by those alone.

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

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Corollary 4.4.

    Examples
    --------
    >>> round(corrected_margin(0.05, eps_source=0.01, eps_target=-0.02), 3)
    0.02
    """
    given = {"margin": margin, "eps_source": eps_source, "eps_target": eps_target}
    margin, eps_source, eps_target = as_reals(given, {})
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
    """Margin for the estimates, from labeled samples, with what is uncertain about it.

    Parameters
    ----------
    margin : float
        m in (-1, 1), the largest acceptable drop in accuracy.
    test_estimated, test_correct : array_like, shape (n_test,)
        Estimated correctness in [0, 1] and correctness of the test data, at least two.
    user_estimated, user_correct : array_like, shape (n,)
        The same of the user's small labeled sample.
    level : float
        In (0, 0.5): error probability of each end of the interval.
    reference : {"distribution", "sample"}
        What the user data are compared with, see above: the source distribution's accuracy, where
        both offsets are estimates, or that of the very test data that the filter is given, whose
        offset is then no estimate.

    Returns
    -------
    AdjustedMargin

    Notes
    -----
    *Plug-in.* A filter with the margin ``value`` does not keep its false positive rate. If its
    test data are the labeled ones, their estimates cancel: it decides by

        accuracy of the test data - (mean user estimate - Delta_u) - m,

    the difference of an accuracy and a prediction-powered one (Angelopoulos et al. 2023). But it
    divides by the standard error of the mean *estimates*. That leaves out the variance of Delta_u,
    usually the largest, and that correctness varies more than its estimates do:
    :func:`prediction_powered_test` divides by the right one.

    *Bound.* A filter with the margin ``bound`` at alpha - level keeps alpha. Let m* be the true m'.
    Whoever is found suitable with a bound below m* would be so with m*, as the p-value falls with
    the margin. So an error needs a bound above m*, of probability ``level``, or an error with m*
    at alpha - level. The sum of the two needs no independence: the labeled samples may be part of
    what the filter is given. (With ``reference="sample"`` the mean of the test estimates is a
    known number; the filter still counts its variance, and errs on the safe side.) What ``level``
    rests on, where errors are few: see :func:`calibration_offset`.

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
    sample = require_choice("reference", reference, REFERENCES) == "sample"
    value, total, dof, reach = _adjust(
        margin,
        (test.value, 0.0 if sample else test.stderr**2, test.n),
        (user.value, user.stderr**2, user.n),
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

    The user data's accuracy is estimated by that of the n labeled samples plus lambda times what
    the mean estimate of the N unlabeled ones is above that of the labeled: unbiased for a fixed
    lambda, however wrong the estimator is. Its variance is lambda^2 var(estimate) / N +
    var(correct - lambda estimate) / n; PPI++ takes the lambda in [0, 1] that makes it smallest,
    which for many labels is no larger than that of the labels alone.

    Parameters
    ----------
    test_correct : array_like of bool, shape (n_test,)
        Whether the predictions on the test data were correct, at least two.
    user_estimated : array_like, shape (N,)
        Estimated correctness of the unlabeled user data, in [0, 1], at least two.
    labelled_estimated, labelled_correct : array_like, shape (n,)
        Of the labeled user samples, at least two, which are not among the N.
    margin : float
        m in (-1, 1), the largest acceptable drop in accuracy.
    reference : {"distribution", "sample"}
        What the user data are compared with, see above: with ``"sample"`` the accuracy of the test
        data is a known number and has no variance.
    tuning : float, optional
        lambda in [0, 1], chosen beforehand; PPI++'s if left out.
    seed : int
        Of the orders in which the betting test takes the samples.

    Returns
    -------
    PredictionPowered
        Rows must be independent of each other, labeled ones drawn at random.
        The t-test, with Satterthwaite's degrees of freedom, is approximate, and it decides nothing
        in :func:`lib.report.suitability_report`. The two other pairs of p-values hold their level
        for any number of labels.

    Notes
    -----
    The t-test counts eight right and eight wrong answers into the variance of the test labels and
    of the user's, as :func:`calibration_offset`: without, few errors would prove much (up to 99.5%
    instead of 5%), and none would prove all. By enumeration, for 100 to 2,000 test labels or a
    known accuracy, 5 to 2,000 user labels, accuracies of 0.5 to 0.999 and estimates that say
    nothing, at most 5.9% err at a level of 5%. With 100 user labels and an accuracy of 0.8 its
    power at a margin of 0.1 is 65% instead of 72%.

    Betting: each labeled sample makes a difference of its own, of correct - lambda estimate, plus
    lambda times the mean of N // n unlabeled estimates, less the mean of n_test // n test labels;
    lambda is PPI++'s for the samples before. The differences lie in [-2, 2], and given those before
    each has the mean acc_user - acc_test: the bets of :class:`lib.suitability.EProcess` are against
    a mean of at most -m. Samples are sets, whose order changes nothing: they are sorted and drawn
    in four random orders, and what counts is the mean of the four capitals at the end. Simulated
    for 20 to 600 labels, accuracies of 0.5 to 0.999, margins of 0 and 0.05: at most 1% err at a
    level of 5%, and 8% at 25%.

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
    margin = as_number("margin", margin, -1, 1)
    sample = require_choice("reference", reference, REFERENCES) == "sample"
    test = as_right("test_correct", test_correct).astype(float)
    user = as_sample("user_estimated", user_estimated, 0, 1)
    estimated, correct = _labelled("labelled_", labelled_estimated, labelled_correct)
    seed = as_integer("seed", seed, 0)
    if tuning is not None:
        require_number("tuning", tuning, at_least=0, at_most=1)
    share = float(_tuning(estimated, correct, len(user)) if tuning is None else tuning)
    statistic, p_value, dof, total = _powered_test(
        test, user, (estimated, correct), np.array(share), margin, sample
    )
    nothing = np.zeros_like(estimated)
    by_labels = _powered_test(test, user, (nothing, correct), np.array(0.0), margin, sample)[3]
    alone = labels_test(test, correct, margin, reference=reference)
    against = np.full(len(correct), test.mean()) if sample else test
    differences = _in_orders(against, user, estimated, correct, tuning, seed)
    betting = [
        _set_p_value((2 + side * differences) / 4, (2 - side * margin) / 4) for side in (1, -1)
    ]
    return PredictionPowered(
        statistic=float(statistic),
        p_value=float(p_value),
        dof=float(dof),
        stderr=math.sqrt(total),
        test_accuracy=float(test.mean()),
        user_accuracy=float(correct.mean() + share * (user.mean() - estimated.mean())),
        tuning=share,
        betting_p_value=betting[0],
        betting_against=betting[1],
        labels_p_value=alone.suitable_p,
        labels_against=alone.unsuitable_p,
        labels_stderr=math.sqrt(by_labels),
    )


def _tuning(estimated: Array, correct: Array, n_user: int) -> Array:
    """PPI++'s lambda, Eq. 6 of Angelopoulos, Duchi and Zrnic, for the last axis, in [0, 1]."""
    n = estimated.shape[-1]
    spread = estimated - estimated.mean(axis=-1, keepdims=True)
    squares = (spread**2).sum(axis=-1)
    shared = (spread * correct).sum(axis=-1)
    best = shared / np.where(squares > 1e-12 * n, squares * (1 + n / n_user), np.inf)
    return np.clip(best, 0.0, 1.0)


def _in_orders(
    test: Array, user: Array, estimated: Array, correct: Array, tuning: float | None, seed: int
) -> Array:
    """The differences in several random orders of all samples, whatever order these came in."""
    rng = np.random.default_rng(seed)
    pairs = np.stack([estimated, correct])[:, np.lexsort([correct, estimated])]
    orders = [_orders(values.shape[-1], rng) for values in (test, user, pairs)]
    test, user = np.sort(test), np.sort(user)
    return np.stack(
        [
            _differences(test[t], user[u], pairs[:, p], tuning)
            for t, u, p in zip(*orders, strict=True)
        ]
    )


def _differences(test: Array, user: Array, labelled: Array, tuning: float | None) -> Array:
    """Of user and test accuracy, one for each labeled sample, in [-2, 2]."""
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
    """Count the labeled user samples that measure the offset to within a half-width.

    Parameters
    ----------
    sd_difference : float
        Standard deviation of estimated minus actual correctness on user data, above 0 (a sample
        in which nothing varies does not tell how many labels would do): the square root of the
        mean Brier score where the offset is zero.
    half_width : float
        Wanted of the confidence interval for Delta_u, in (0, 1).
    level : float
        Error probability of each end of the interval, in (0, 0.5).

    Returns
    -------
    int
        The smallest n >= 2 with t_{n-1, 1-level} sd / sqrt(n) <= half_width, of independent rows.

    Examples
    --------
    >>> labels_needed(sd_difference=0.3, half_width=0.05)
    141
    """
    require_finite("sd_difference", sd_difference, above=0)
    sd = float(sd_difference)
    half_width, level = as_number("half_width", half_width, 0, 1), as_number("level", level, 0, 0.5)
    n = smallest_size(lambda n: -special.stdtrit(n - 1, 1 - level) * sd / np.sqrt(n), -half_width)
    if n is None:
        raise ValueError(
            f"half_width must be possible with 1e15 labels, got {half_width:g} for a standard "
            f"deviation of {sd:g}"
        )
    return n


def _adjust(
    margin: Any, test: Moments, user: Moments, level: float
) -> tuple[Array, Array, Array, Array]:
    """Of Eq. 12, from offsets: value, variance, degrees of freedom, half-width of the interval."""
    value = np.asarray(margin + test[0] - user[0])
    total, dof = _combine([test[1], user[1]], [test[2] - 1, user[2] - 1])
    reach = np.where(total == 0, 0.0, special.stdtrit(dof, 1 - level) * np.sqrt(total))
    return value, total, dof, reach


def _powered_test(
    test: Array,
    user: Array,
    labelled: tuple[Array, Array],
    share: Array,
    margin: float,
    sample: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Statistic, p-value, degrees of freedom and variance of the test, along the last axis."""
    of_test = offset_moments(np.zeros_like(test), test)
    offset = offset_moments(share[..., None] * labelled[0], labelled[1])
    size = user.shape[-1]
    variances = [
        np.zeros_like(of_test[1]) if sample else of_test[1],
        share**2 * user.var(axis=-1, ddof=1) / size,
        offset[1],
    ]
    total, dof = _combine(variances, [of_test[2] - 1, size - 1, offset[2] - 1])
    excess = offset[0] - of_test[0] - share * user.mean(axis=-1) - margin
    statistic = excess / np.sqrt(total)
    return statistic, special.stdtr(dof, statistic), dof, total


def _combine(variances: list[Any], dofs: list[Any]) -> tuple[Array, Array]:
    """Sum variances of means of numbers in [-1, 1], without those that are but rounding."""
    return satterthwaite([np.where(np.asarray(v) <= 1e-24, 0.0, v) for v in variances], dofs)


def _offset(estimated: Array, correct: Array) -> Offset:
    value, variance, n = offset_moments(estimated, correct)
    return Offset(float(value), math.sqrt(variance), n)


def offset_moments(estimated: Array, correct: Array) -> Moments:
    """Estimated minus true accuracy along the last axis, its variance and the number of answers.

    As Agresti and Coull count answers in for an accuracy, The American Statistician 1998; here in
    the variance alone.
    """
    difference, n = estimated - correct, estimated.shape[-1]
    value, middle = difference.mean(axis=-1), estimated.mean(axis=-1)
    ends = (middle - value) ** 2 + (middle - 1 - value) ** 2
    squares = difference.var(axis=-1) * n + _ENDS * ends
    return value, squares / (n * (n - 1)), n


def _labelled(prefix: str, estimated: Any, correct: Any) -> tuple[Array, Array]:
    same_rows(**{f"{prefix}estimated": estimated, f"{prefix}correct": correct})
    estimates = as_sample(f"{prefix}estimated", estimated, 0, 1)
    return estimates, as_flags(f"{prefix}correct", correct, len(estimates)).astype(float)
