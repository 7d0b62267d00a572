"""The suitability filter: fit on labelled source data, decide about unlabelled user data."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special
from sklearn.base import clone

from lib.check import as_array, as_matrix, as_number, require_choice
from lib.suitability.estimator import (
    CorrectnessEstimator,
    as_fit,
    fit_logistic,
    logistic_hessian,
    standardiser,
)
from lib.suitability.estimators import as_table
from lib.suitability.noninferiority import as_sample, welch_non_inferiority

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: Tests of :class:`SuitabilityFilter`.
TESTS = ("fitted", "paper")
_PENALTY = 0.01  # small: what a penalty shrinks is a bias towards SUITABLE
_ROUNDING = 1e-24  # variance of means of numbers in [0, 1] that is but rounding
_FAR = 2.0  # errors of the fit within which the difference may be the margin
_LEAST = 1e-3  # p-values below are not told apart


def p_text(p: float) -> str:
    """Write a p-value for people, as "p = 0.034": nothing below 0.001 is told apart."""
    return f"p < {_LEAST:g}" if p < _LEAST else f"p = {p:.2g}"


@dataclass(frozen=True)
class Decision:
    """What the filter says about a set of user data.

    Attributes
    ----------
    suitable : bool
        True for SUITABLE; False is INCONCLUSIVE, which is not "unsuitable".
    p_value, statistic, dof : float
        Of the non-inferiority test.  Its statistic is (test mean - user mean - margin) over the
        standard error (P2, Eq. 13 of appendix A.1.1): far below 0 speaks for SUITABLE.
    estimated_test_accuracy, estimated_user_accuracy : float
        Mean estimated correctness of the test and the user data.
    margin, alpha : float
        With which it was decided.
    stderr : float
        Of the difference of the two means, with what its test counts.
    test : {"fitted", "paper", "refined"}
        Which test: of :class:`SuitabilityFilter`, or :class:`lib.suitability.RefinedFilter`'s.
    """

    suitable: bool
    p_value: float
    statistic: float
    dof: float
    estimated_test_accuracy: float
    estimated_user_accuracy: float
    margin: float
    alpha: float
    stderr: float
    test: str = "paper"

    def __str__(self) -> str:
        word = "SUITABLE" if self.suitable else "INCONCLUSIVE"
        return (
            f"{word}: {p_text(self.p_value)} at alpha = {self.alpha:g}, margin = {self.margin:g}\n"
            f"estimated accuracy on test data: {self.estimated_test_accuracy:.3f}\n"
            f"estimated accuracy on user data: {self.estimated_user_accuracy:.3f}"
        )


class SuitabilityFilter:
    """Decide from signals alone whether a classifier is as accurate on user data as on test data.

    Parameters
    ----------
    margin : float
        m in (-1, 1): the largest acceptable drop in accuracy.
    alpha : float
        In (0, 1): bounds, for large samples, the probability of SUITABLE for data that are not,
        if one logistic model of the signals is right on hold-out, test and user data (fitted test),
        or what was fitted is calibrated on test and user data (the paper's).
    estimator : scikit-learn classifier, optional
        Anything with ``fit`` and ``predict_proba``, which is cloned and given the raw
        signals; for the paper's test, whose default is :class:`CorrectnessEstimator`.
    test : {"fitted", "paper"}, optional
        By default ``"fitted"`` without an `estimator`, else ``"paper"``: the paper's Welch test,
        which takes the fitted estimator for the truth. Even if the logistic model is right it errs
        more often than alpha, with many user rows most. ``"fitted"`` counts the error of the fit.

    Notes
    -----
    *The fitted test.* One logistic regression on the standardised signals, with next to no
    penalty, for shrunken slopes understate drops. The variance of the difference d of the two mean
    estimates is var(estimates) / n of each sample plus g' H^-1 g, with g the gradient of d and H
    the Hessian of the loss. As in a score test, it is taken at the nearest coefficients with d = m,
    two standard errors of d away at most, if that is larger: at the estimated ones it is too small
    just when d is.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Definition 3.2 and section 4.

    Examples
    --------
    >>> filter = SuitabilityFilter(margin=0.05).fit(table[:300], correct[:300])
    >>> filter.decide(table[300:600], table[600:]).suitable
    True
    """

    def __init__(
        self,
        margin: float = 0.0,
        alpha: float = 0.05,
        estimator: Any = None,
        test: str | None = None,
    ) -> None:
        self.margin = as_number("margin", margin, -1, 1)
        self.alpha = as_number("alpha", alpha, 0, 1)
        if estimator is not None and (
            isinstance(estimator, type) or not hasattr(estimator, "predict_proba")
        ):
            raise ValueError(
                f"estimator must have predict_proba and be no class, got {estimator!r}"
            )
        self.estimator = estimator
        default = "fitted" if estimator is None else "paper"
        self.test = default if test is None else require_choice("test", test, TESTS)
        if self.test == "fitted" and estimator is not None:
            raise ValueError("test must be 'paper' with an estimator of one's own, got 'fitted'")
        self._fitted: Any = None
        self._columns: list[str] | int = 0

    def fit(self, signals: Any, correct: Any) -> Self:
        """Fit the correctness estimator on D_sf, labelled source data held out for this.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
            Signals of the predictions.
        correct : array_like of bool, shape (n,)
            Whether each was correct; both kinds must occur, five times each for the
            default estimator.
        """
        if isinstance(signals, pd.DataFrame):
            signals = as_table("signals", signals)
        x, y = as_fit(signals, correct)
        if self.test == "fitted":
            self._fitted = _Logistic(x, y)
        else:
            model = CorrectnessEstimator() if self.estimator is None else clone(self.estimator)
            self._fitted = model.fit(x, y)
        self._columns = list(signals.columns) if isinstance(signals, pd.DataFrame) else x.shape[1]
        return self

    def estimate(self, signals: Any, name: str = "signals") -> np.ndarray:
        """Estimate the probability that each prediction is correct.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
            A data frame's columns are matched by name to those at fit.
        name : str
            What an error message calls the argument.

        Returns
        -------
        ndarray, shape (n,)
        """
        return self._predict(self._arranged(signals, name))

    def decide(self, test_signals: Any, user_signals: Any) -> Decision:
        """Compare user data with test data.

        Parameters
        ----------
        test_signals, user_signals : DataFrame or array_like, shape (n, n_signals)
            At least two rows each. The test data are from the source distribution and
            disjoint from those of :meth:`fit`.

        Returns
        -------
        Decision
            SUITABLE if and only if the p-value is at most ``alpha``.
        """
        given = {"test_signals": test_signals, "user_signals": user_signals}
        tables = [self._arranged(signals, name) for name, signals in given.items()]
        for name, table in zip(given, tables, strict=True):
            if len(table) < 2:
                raise ValueError(f"{name} must have at least 2 rows, got {len(table)}")
        test, user = map(self._predict, tables)
        if self.test == "paper":
            return welch_decision(test, user, self.margin, self.alpha)
        error = self._fitted.error(*map(self._fitted.design, tables), self.margin)
        means = float(test.mean()), float(user.mean())
        return normal_decision(*means, error, self.margin, self.alpha, "fitted")

    def _predict(self, x: Array) -> Array:
        if isinstance(self._fitted, CorrectnessEstimator | _Logistic):
            return self._fitted.predict(x)
        return self._fitted.predict_proba(x)[:, 1]

    def _arranged(self, signals: Any, name: str) -> Array:
        """The columns of the fit, in their order."""
        if self._fitted is None:
            raise RuntimeError("the filter must be fitted before it can estimate or decide")
        columns = self._columns
        if isinstance(signals, pd.DataFrame) and isinstance(columns, list):
            return as_table(name, signals, columns).to_numpy()
        expected = len(columns) if isinstance(columns, list) else columns
        shape = as_array(name, signals).shape
        if len(shape) == 2 and shape[1] != expected:
            raise ValueError(f"{name} must have {expected} columns, as at fit, got {shape[1]}")
        return as_matrix(name, signals)


def welch_decision(test: Array, user: Array, margin: float, alpha: float) -> Decision:
    """By the paper's test of estimates, with any margin, also one that no filter takes."""
    samples = as_sample("test", test), as_sample("user", user)
    a, b = ((s.mean(), s.var(ddof=1), len(s)) for s in samples)
    statistic, p_value, dof = map(float, welch_non_inferiority(*a, *b, margin))
    # Variances that are but rounding are none: the test has no degrees of freedom there.
    error = 0.0 if np.isnan(dof) else float(np.sqrt(a[1] / a[2] + b[1] / b[2]))
    means = float(a[0]), float(b[0])
    return Decision(
        p_value <= alpha, p_value, statistic, dof, *means, margin=margin, alpha=alpha, stderr=error
    )


def normal_decision(
    test: float, user: float, error: float, margin: float, alpha: float, name: str
) -> Decision:
    """By two accuracies and the normal error of their difference.

    Without any variance, by the sign of what is left but for rounding.
    """
    excess = test - user - margin
    if error > 0:
        statistic, p_value, dof = excess / error, float(special.ndtr(excess / error)), np.inf
    else:
        sign = 0.0 if abs(excess) <= 1e-12 else float(np.sign(excess))
        statistic, p_value, dof = sign * np.inf if sign else 0.0, 0.5 * (1 + sign), np.nan
    return Decision(
        suitable=p_value <= alpha,
        p_value=p_value,
        statistic=statistic,
        dof=dof,
        estimated_test_accuracy=test,
        estimated_user_accuracy=user,
        margin=margin,
        alpha=alpha,
        stderr=error,
        test=name,
    )


class _Logistic:
    """A logistic regression that knows the error of what it estimates."""

    def __init__(self, x: Array, y: Flags, penalty: float = _PENALTY):
        self._center, self._scale, _ = standardiser(x)
        self._x = self.design(x)
        self.theta, self.hessian = fit_logistic(self._x, y, penalty)

    def design(self, x: Array) -> Array:
        """Standardised signals and, last, a column of ones."""
        return np.column_stack([(x - self._center) / self._scale, np.ones(len(x))])

    def predict(self, x: Array) -> Array:
        """Estimated correctness."""
        return special.expit(self.design(x) @ self.theta)

    def error(self, test: Array, user: Array, margin: float) -> float:
        """Standard error of the difference of the mean estimates, at a difference of the margin."""

        def moments(theta: Array) -> tuple[float, Array, Array, float]:
            """Difference, its gradient g, H^-1 g, and variance with all that it counts."""
            p = [special.expit(design @ theta) for design in (test, user)]
            g = test.T @ (p[0] * (1 - p[0])) / len(test) - user.T @ (p[1] * (1 - p[1])) / len(user)
            direction = np.linalg.solve(logistic_hessian(self._x, theta, _PENALTY), g)
            variance = sum(q.var(ddof=1) / len(q) for q in p) + g @ direction
            return float(p[0].mean() - p[1].mean()), g, direction, float(variance)

        gap, g, direction, variance = moments(self.theta)
        largest, reach = variance, float(g @ direction)
        # Towards coefficients with a difference of the margin, but no farther than is likely.
        if gap < margin and reach > _ROUNDING:
            step = min((margin - gap) / reach, _FAR / np.sqrt(reach))
            largest = max(largest, moments(self.theta + direction * step)[3])
        return 0.0 if largest <= _ROUNDING else float(np.sqrt(largest))
