"""Equivalence: is mean estimated correctness the same up to a margin, for data or for groups."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

from lib.check import as_names, as_number, same_rows
from lib.suitability.noninferiority import (
    as_sample,
    as_samples,
    as_varied,
    melded,
    welch_non_inferiority,
    zeros_and_ones,
)


@dataclass(frozen=True)
class Equivalence:
    """Result of two one-sided tests (TOST).

    Attributes
    ----------
    p_value : float
        The larger of the two p-values.
    p_lower, p_upper : float
        Of the test of H0: mu_test - mu_user <= -m, and of that of H0: mu_test - mu_user >= m.
    statistic_lower, statistic_upper : float
        Welch's t of the two; large and small values, respectively, speak for equivalence.
    dof : float
        Welch and Satterthwaite's degrees of freedom, of both.
    difference : float
        Mean of the test sample minus mean of the user sample.
    interval : tuple of float
        Confidence interval for mu_test - mu_user at the level 1 - 2 alpha: it is within [-m, m]
        exactly where ``p_value <= alpha``.
    """

    p_value: float
    p_lower: float
    p_upper: float
    statistic_lower: float
    statistic_upper: float
    dof: float
    difference: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class GroupEquivalence:
    """Result of the comparison of all groups with each other.

    Attributes
    ----------
    equivalent : bool
        Whether all groups are found equivalent: ``p_value <= alpha``.
    p_value : float
        Of the intersection-union test, the largest of the pairs' p-values.
    table : pandas.DataFrame
        A row per pair: ``group_a``, ``group_b``, ``n_a``, ``n_b``, ``mean_a``, ``mean_b``,
        ``difference`` (a minus b), ``p_value`` (TOST), ``p_holm`` (adjusted by Holm's method)
        and ``equivalent`` (``p_holm <= alpha``).
    margin, alpha : float
        With which it was decided.
    """

    equivalent: bool
    p_value: float
    table: pd.DataFrame
    margin: float
    alpha: float


def equivalence_test(test: Any, user: Any, margin: float, alpha: float = 0.05) -> Equivalence:
    """Test H0: ``|mu_test - mu_user| > m`` against H1: ``|mu_test - mu_user| <= m``.

    Two one-sided tests at level alpha: :func:`lib.suitability.non_inferiority_test`, Welch's or
    that of few values that vary, and the same with the roles exchanged. Equivalence is concluded
    when both reject, which needs no correction, as both null hypotheses have to be false.

    Parameters
    ----------
    test, user : array_like, shape (n,)
        Estimated correctness of each sample: at least two finite numbers each, not all equal (all
        zeros and ones may be), of rows that are independent of each other.
    margin : float
        m in (0, 1), the largest acceptable difference of the means.
    alpha : float
        In (0, 0.5), for the interval.

    Returns
    -------
    Equivalence

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, appendix A.3.1, Eq. 42-43. Schuirmann 1987.

    Examples
    --------
    >>> equivalence_test(test, user, margin=0.05).p_value < 0.01
    True
    """
    a, b = as_samples(test, user)
    margin, alpha = as_number("margin", margin, 0, 1), as_number("alpha", alpha, 0, 0.5)
    moments = [(sample.mean(), sample.var(ddof=1), len(sample)) for sample in (a, b)]
    lower, upper, dof = _two_tests(*moments, margin)
    difference = float(a.mean() - b.mean())
    p_lower, p_upper = float(lower[1]), float(upper[1])
    below, above = melded(b, a), melded(a, b)
    if below is not None and above is not None:
        p_lower, p_upper = below(margin), above(margin)
        interval = -_melded_limit(below, alpha), _melded_limit(above, alpha)
    else:
        total = moments[0][1] / len(a) + moments[1][1] / len(b)
        reach = float(special.stdtrit(dof, 1 - alpha) * np.sqrt(total))
        interval = difference - reach, difference + reach
    return Equivalence(
        p_value=max(p_lower, p_upper),
        p_lower=p_lower,
        p_upper=p_upper,
        statistic_lower=float(lower[0]),
        statistic_upper=float(upper[0]),
        dof=float(dof),
        difference=difference,
        interval=interval,
    )


def _melded_limit(of_margin: Callable[[float], float], alpha: float) -> float:
    """Upper limit for mu_test - mu_user: the margin at which the p-value is alpha."""

    def spare(margin: float) -> float:
        return of_margin(margin) - alpha

    return 1.0 if spare(1) > 0 else float(optimize.brentq(spare, -1, 1, xtol=1e-12))


def equivalence_between_groups(
    estimates: Any, groups: Any, margin: float, alpha: float = 0.05
) -> GroupEquivalence:
    """Test whether mean estimated correctness is the same in all groups, up to a margin.

    For the fairness of a classifier whose labels are not known. Two decisions are given. That *all*
    groups are equivalent is the intersection-union test: every pair's TOST rejects at level alpha.
    Its error is at most alpha without any correction, because to err is to reject the true null
    hypothesis of some pair; with many groups it is far below, and the power falls. *Which* pairs
    are equivalent is many decisions, for which Holm's adjustment bounds the probability that any of
    them is wrong by alpha.

    Parameters
    ----------
    estimates : array_like, shape (n,)
        Estimated correctness of each sample: finite numbers, of rows that are independent of each
        other.
    groups : array_like, shape (n,)
        The group of each sample, words or integers, none missing; at least two groups of at least
        two samples, not all equal unless all estimates are zeros and ones. They are listed in
        order.
    margin : float
        m in (0, 1), the largest acceptable difference between two means.
    alpha : float
        Significance level in (0, 1).

    Returns
    -------
    GroupEquivalence

    Notes
    -----
    What is compared is estimates. They speak for accuracies only as far as the estimator is
    calibrated in each group: the difference of the accuracies is that of the means plus
    eps_a - eps_b, the difference of the calibration errors. Labels measure those:
    :func:`calibration_offset`.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, section 6 and appendix A.3.1. Berger,
    Multiparameter Hypothesis Testing and Acceptance Sampling, 1982. Holm 1979.

    Examples
    --------
    >>> groups = np.repeat(["a", "b"], [500, 400])
    >>> found = equivalence_between_groups(np.r_[test, user], groups, margin=0.05)
    >>> found.equivalent, len(found.table)
    (True, 1)
    """
    same_rows(estimates=estimates, groups=groups)
    values = as_sample("estimates", estimates)
    counted = zeros_and_ones(values)
    values = values if counted else as_varied("estimates", values)
    margin, alpha = as_number("margin", margin, 0, 1), as_number("alpha", alpha, 0, 1)
    found, codes = np.unique(as_names("groups", groups, len(values)), return_inverse=True)
    names = found.tolist()
    n = np.bincount(codes)
    if len(n) < 2:
        raise ValueError(f"groups must have at least 2 different ones, got only {names[0]!r}")
    if n.min() < 2:
        raise ValueError(
            f"groups must have at least 2 samples each, got {n.min()} of {names[n.argmin()]!r}"
        )
    samples = [
        (as_sample if counted else as_varied)(f"estimates of group {name!r}", values[codes == code])
        for code, name in enumerate(names)
    ]
    mean = np.array([sample.mean() for sample in samples])
    variance = np.array([sample.var(ddof=1) for sample in samples])
    a, b = np.triu_indices(len(n), 1)
    lower, upper, _ = _two_tests(*((mean[i], variance[i], n[i]) for i in (a, b)), margin)
    p_value = np.maximum(lower[1], upper[1])
    for row, (i, j) in enumerate(zip(a, b, strict=True)):
        both = melded(samples[i], samples[j]), melded(samples[j], samples[i])
        if None not in both:
            p_value[row] = max(of_margin(margin) for of_margin in both)
    p_holm = _holm(p_value)
    table = pd.DataFrame(
        {
            "group_a": found[a],
            "group_b": found[b],
            "n_a": n[a],
            "n_b": n[b],
            "mean_a": mean[a],
            "mean_b": mean[b],
            "difference": mean[a] - mean[b],
            "p_value": p_value,
            "p_holm": p_holm,
            "equivalent": p_holm <= alpha,
        }
    )
    largest = float(p_value.max())
    return GroupEquivalence(largest <= alpha, largest, table, margin, alpha)


def _two_tests(
    a: tuple[Any, Any, Any], b: tuple[Any, Any, Any], margin: float
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Statistic and p-value of both tests, and their degrees of freedom, from moments."""
    statistic, p_upper, dof = welch_non_inferiority(*a, *b, margin)
    exchanged, p_lower, _ = welch_non_inferiority(*b, *a, margin)
    return (-exchanged, p_lower), (statistic, p_upper), dof


def _holm(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values for their number, step by step from the smallest."""
    order = np.argsort(p_values)
    steps = p_values[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
