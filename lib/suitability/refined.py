"""A stronger filter: it also uses the labels of the test data, which the paper's leaves aside.

Definition 3.1 compares the user's accuracy with the accuracy *on the test data*, whose labels
the provider has. The paper's filter estimates that known number, with the error of an estimate;
:class:`RefinedFilter` fits one logistic regression to all labelled source data, those of the test
included (which section 4.2 of the paper advises against, as the test accuracy is estimated there),
and compares with the known accuracy.
"""

from typing import Any, Self

import numpy as np

from lib.check import as_flags, as_matrix, as_number
from lib.suitability.estimator import as_fit
from lib.suitability.filter import Decision, _Logistic, normal_decision


class RefinedFilter:
    """Compare user data with the *known* accuracy on test data.

    Parameters
    ----------
    margin : float
        m in (-1, 1): the largest acceptable drop in accuracy.
    alpha : float
        Bounds the probability of SUITABLE for data that are not, for large samples and if the
        logistic model holds on the user's data. Out of distribution it does not: see the chapter.

    Attributes
    ----------
    coefficients : ndarray, shape (n_signals + 1,)
        Of the standardised signals, then the intercept.

    Notes
    -----
    One logistic regression, penalty ``0.5 |w|^2``, on all labelled source data, those of the test
    included; its intercept makes the mean estimate right there without Platt's sigmoid. The
    variance of the difference between estimated and realised user accuracy has two parts:
    mean c(1 - c) / n_user for the user's labels, and g' H^-1 g for the coefficients, where g is the
    gradient of the mean estimate and H the Hessian of the loss.

    Examples
    --------
    >>> filter = RefinedFilter(margin=0.05).fit(table[:600], correct[:600])
    >>> filter.decide(correct[300:600], table[600:]).suitable
    True
    """

    def __init__(self, margin: float = 0.0, alpha: float = 0.05) -> None:
        self.margin = as_number("margin", margin, -1, 1)
        self.alpha = as_number("alpha", alpha, 0, 1)

    def fit(self, signals: Any, correct: Any) -> Self:
        """Fit to all labelled source data.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
        correct : array_like of bool, shape (n,)
            Both kinds must occur.
        """
        x, y = as_fit(signals, correct)
        self._model = _Logistic(x, y, penalty=1.0)
        self.coefficients = self._model.theta
        return self

    def estimate(self, signals: Any, name: str = "signals") -> tuple[float, float]:
        """Estimated accuracy and standard deviation of its error.

        Parameters
        ----------
        signals : DataFrame or array_like, shape (n, n_signals)
            As at fit.
        name : str
            What an error message calls the argument.

        Returns
        -------
        accuracy, error : float
            The realised accuracy is within about two such errors if the logistic model holds.
        """
        if not hasattr(self, "coefficients"):
            raise RuntimeError("the filter must be fitted before it can estimate or decide")
        x = as_matrix(name, signals)
        if x.shape[1] != (columns := len(self.coefficients) - 1):
            raise ValueError(f"{name} must have {columns} columns, as at fit, got {x.shape[1]}")
        design = self._model.design(x)
        p = 1 / (1 + np.exp(-np.clip(design @ self.coefficients, -700, 700)))
        spread = p * (1 - p)
        gradient = design.T @ spread / len(p)
        variance = spread.mean() / len(p) + gradient @ np.linalg.solve(
            self._model.hessian, gradient
        )
        return float(p.mean()), float(np.sqrt(variance))

    def decide(self, test_correct: Any, user_signals: Any) -> Decision:
        """Compare user data with test data.

        Parameters
        ----------
        test_correct : array_like of bool, shape (n_test,)
            Correctness on the test data.
        user_signals : DataFrame or array_like, shape (n, n_signals)

        Returns
        -------
        Decision
            Whose ``estimated_test_accuracy`` is the known one and whose ``dof`` is infinite (NaN
            where all estimates are 1, so that nothing varies).
        """
        correct = as_flags("test_correct", test_correct)
        user, error = self.estimate(user_signals, "user_signals")
        test = float(correct.mean())
        return normal_decision(test, user, error, self.margin, self.alpha, "refined")
