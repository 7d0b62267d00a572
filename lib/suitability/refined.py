"""A stronger filter: it also uses the labels of the test data, which the paper's leaves aside.

Definition 3.1 compares the user's accuracy with the accuracy *on the test data*, whose labels
the provider has. The paper's filter estimates that known number, with the error of an estimate;
:class:`RefinedFilter` fits one logistic regression to all labeled source data, those of the test
included (which section 4.2 of the paper advises against, as the test accuracy is estimated there),
and compares with the known accuracy.
"""

from typing import Any, Self

import numpy as np
from scipy import special

from lib.check import as_flags, as_number, same_rows
from lib.suitability.clusters import Codes, Part, as_clusters, largest_part
from lib.suitability.estimator import as_fit
from lib.suitability.filter import Array, Decision, FittedSignals, Logistic, normal_decision


class RefinedFilter:
    """Compare user data with the *known* accuracy on test data.

    Parameters
    ----------
    margin : float
        m in (-1, 1): the largest acceptable drop in accuracy.
    alpha : float
        Bounds the probability of SUITABLE for data that are not, for large samples, if rows (or the
        clusters that are given) are independent and the logistic model holds on the user's data.
        Out of distribution it does not: see the chapter.

    Attributes
    ----------
    coefficients : ndarray, shape (n_signals + 1,)
        Of the standardized signals, then the intercept.

    Notes
    -----
    One logistic regression, penalty ``0.5 |w|^2``, on all labeled source data, those of the test
    included; its intercept makes the mean estimate right there without Platt's sigmoid. The
    variance of the difference between estimated and realized user accuracy has two parts:
    mean c(1 - c) / n_user for the user's labels, and g' H^-1 g for the coefficients, where g is the
    gradient of the mean estimate and H the Hessian of the loss. :meth:`decide` takes it at the
    nearest coefficients with a drop of the margin, two standard errors away at most, if it is
    larger there: at the estimated ones it is too small just when the drop is.

    With clusters the first part is the largest that can be, with all labels of a cluster off
    together, and the second is the jackknife's that leaves out one cluster of the fit at a time, at
    least the model's, compared with Student's distribution.

    *Simulated*, at a drop of the margin and alpha = .05: .00 to .01 with accuracies of .9 to
    .995, 200 to 1,000 rows of the fit and 1 to 12 signals (300 runs a cell; at the estimated
    coefficients up to .13); .00 to .02 with clusters of 2 to 50 rows.

    Examples
    --------
    >>> filter = RefinedFilter(margin=0.05).fit(table[:600], correct[:600])
    >>> filter.decide(correct[300:600], table[600:]).suitable
    True
    """

    def __init__(self, margin: float = 0.0, alpha: float = 0.05) -> None:
        self.margin = as_number("margin", margin, -1, 1)
        self.alpha = as_number("alpha", alpha, 0, 1)

    def fit(self, signals: Any, correct: Any, clusters: Any = None) -> Self:
        """Fit to all labeled source data.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
        correct : array_like of bool, shape (n,)
            Both kinds must occur.
        clusters : array_like, shape (n,), optional
            What each row belongs to; each row by itself if left out.
        """
        same_rows(signals=signals, correct=correct, clusters=clusters)
        x, y, columns = as_fit(signals, correct)
        self._signals = FittedSignals(x, columns, as_clusters("clusters", clusters, len(x)))
        self._model = Logistic(x, y, 1.0, self._signals.clusters)
        self.coefficients = self._model.theta
        return self

    def estimate(self, signals: Any, name: str = "signals") -> tuple[float, float]:
        """Estimated accuracy and standard deviation of its error.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
            As at fit: the columns of data frames are matched by name.
        name : str
            What an error message calls the argument.

        Returns
        -------
        accuracy, error : float
            The realized accuracy is within about two such errors if the logistic model holds.
        """
        if not hasattr(self, "coefficients"):
            raise RuntimeError("the filter must be fitted before it can estimate or decide")
        design = self._model.design(self._signals.matrix(name, signals))
        # The margin of the estimate itself: no coefficients but these.
        accuracy = float(special.expit(design @ self.coefficients).mean())
        return accuracy, float(np.sqrt(self._error(design, 0.0, -np.inf, None)[0]))

    def _error(self, design: Array, test: float, margin: float, clusters: Codes | None) -> Part:
        """Variance of a known accuracy less that of the user, at a difference of the margin."""

        def moments(theta: Array) -> tuple[float, Array, list[Part]]:
            p = special.expit(design @ theta)
            spread = p * (1 - p)
            gap, g = test - float(p.mean()), -design.T @ spread / len(p)
            return gap, g, [(largest_part(spread, clusters), np.inf)]

        return self._model.largest(moments, margin)

    def decide(
        self, test_correct: Any, user_signals: Any, *, user_clusters: Any = None
    ) -> Decision:
        """Compare user data with test data.

        Parameters
        ----------
        test_correct : array_like of bool, shape (n_test,)
            Correctness on the test data.
        user_signals : DataFrame or array_like, shape (n, n_signals)
        user_clusters : array_like, shape (n,), optional
            What each row belongs to; each row by itself if left out.

        Returns
        -------
        Decision
            Whose ``estimated_test_accuracy`` is the known one and whose ``dof`` is infinite (NaN
            where all estimates are 0 or 1, so that nothing varies; finite with clusters of the
            fit). Its notes name rows that are repeated, signals that vary but did not at fit, and
            estimates of 0 and 1 alone: for either of these it is INCONCLUSIVE, with a p-value of 1.
        """
        same_rows(user_signals=user_signals, user_clusters=user_clusters)
        correct = as_flags("test_correct", test_correct)
        if not hasattr(self, "coefficients"):
            raise RuntimeError("the filter must be fitted before it can estimate or decide")
        x = self._signals.matrix("user_signals", user_signals)
        clusters = as_clusters("user_clusters", user_clusters, len(x))
        test, design = float(correct.mean()), self._model.design(x)
        user = float(special.expit(design @ self.coefficients).mean())
        error = self._error(design, test, self.margin, clusters)
        decision = normal_decision(test, user, error, self.margin, self.alpha, "refined")
        sure = (
            f"user_signals has {len(x)} rows that all have an estimate of 0 or 1, beyond any doubt"
        )
        reasons = () if error[0] else (f"{sure}: a fit to finitely many rows cannot know that",)
        return self._signals.noted(decision, {"user_signals": (x, clusters)}, reasons)
