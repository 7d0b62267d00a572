"""The suitability filter: fit on labelled source data, decide about unlabelled user data."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from lib.suitability.checks import as_array, as_correct, as_matrix, as_number
from lib.suitability.estimator import CorrectnessEstimator
from lib.suitability.noninferiority import non_inferiority_test

__all__ = ["Decision", "SuitabilityFilter"]


@dataclass(frozen=True)
class Decision:
    """What the filter says about a set of user data.

    Attributes
    ----------
    suitable : bool
        True for SUITABLE; False is INCONCLUSIVE, which is not "unsuitable".
    p_value, statistic, dof : float
        Of the non-inferiority test.
    estimated_test_accuracy, estimated_user_accuracy : float
        Mean estimated correctness of the test and the user data.
    margin, alpha : float
        With which it was decided.
    """

    suitable: bool
    p_value: float
    statistic: float
    dof: float
    estimated_test_accuracy: float
    estimated_user_accuracy: float
    margin: float
    alpha: float

    def __str__(self) -> str:
        word = "SUITABLE" if self.suitable else "INCONCLUSIVE"
        return (
            f"{word}: p = {self.p_value:.3g} at alpha = {self.alpha:g}, margin = {self.margin:g}\n"
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
        Significance level in (0, 1): bounds the probability of SUITABLE for data that
        are not, provided that the estimator is calibrated on test and user data alike.
    estimator : scikit-learn classifier, optional
        Anything with ``fit`` and ``predict_proba``, which is cloned and given the raw
        signals. The default is the paper's, :class:`CorrectnessEstimator`.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Definition 3.2 and section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from lib.suitability import SuitabilityFilter, signals
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=900)
    >>> logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(900, 3))
    >>> correct = logits.argmax(axis=1) == labels
    >>> table = signals(logits)
    >>> filter = SuitabilityFilter(margin=0.05).fit(table[:300], correct[:300])
    >>> filter.decide(table[300:600], table[600:]).suitable
    True
    """

    def __init__(self, margin: float = 0.0, alpha: float = 0.05, estimator: Any = None) -> None:
        self.margin = as_number("margin", margin, -1, 1)
        self.alpha = as_number("alpha", alpha, 0, 1)
        if estimator is not None and (
            isinstance(estimator, type) or not hasattr(estimator, "predict_proba")
        ):
            raise ValueError(
                f"estimator must have predict_proba and be no class, got {estimator!r}"
            )
        self.estimator = estimator
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

        Returns
        -------
        SuitabilityFilter
            Itself.

        Raises
        ------
        ValueError
            On input that is not as above.
        """
        x = as_matrix("signals", signals)
        y = as_correct("correct", correct, len(x))
        if y.all() or not y.any():
            only = "correct" if y.all() else "wrong"
            raise ValueError(f"correct must have both kinds of prediction, got only {only} ones")
        if isinstance(signals, pd.DataFrame) and not signals.columns.is_unique:
            twice = list(signals.columns[signals.columns.duplicated()].unique())
            raise ValueError(f"signals must have distinct column names, got {twice} more than once")
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
        if self._fitted is None:
            raise RuntimeError("the filter must be fitted before it can estimate or decide")
        x = as_matrix(name, self._arrange(signals, name))
        if isinstance(self._fitted, CorrectnessEstimator):
            return self._fitted.predict(x)
        return self._fitted.predict_proba(x)[:, 1]

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

        Raises
        ------
        ValueError
            On input that is not as above.
        RuntimeError
            Before :meth:`fit`.
        """
        test = self.estimate(test_signals, "test_signals")
        user = self.estimate(user_signals, "user_signals")
        for name, sample in (("test_signals", test), ("user_signals", user)):
            if len(sample) < 2:
                raise ValueError(f"{name} must have at least 2 rows, got {len(sample)}")
        result = non_inferiority_test(test, user, self.margin)
        return Decision(
            suitable=result.p_value <= self.alpha,
            p_value=result.p_value,
            statistic=result.statistic,
            dof=result.dof,
            estimated_test_accuracy=float(test.mean()),
            estimated_user_accuracy=float(user.mean()),
            margin=self.margin,
            alpha=self.alpha,
        )

    def _arrange(self, signals: Any, name: str) -> Any:
        columns = self._columns
        if isinstance(signals, pd.DataFrame) and isinstance(columns, list):
            missing = [c for c in columns if c not in signals.columns]
            extra = [c for c in signals.columns if c not in columns]
            if missing or extra or not signals.columns.is_unique:
                raise ValueError(
                    f"{name} must have the columns of the fit, each once; missing {missing}, "
                    f"unknown {extra}, repeated "
                    f"{list(signals.columns[signals.columns.duplicated()].unique())}"
                )
            return signals[columns]
        expected = len(columns) if isinstance(columns, list) else columns
        shape = as_array(name, signals).shape
        if len(shape) == 2 and shape[1] != expected:
            raise ValueError(f"{name} must have {expected} columns, as at fit, got {shape[1]}")
        return signals
