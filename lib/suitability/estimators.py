"""Other correctness estimators, their calibration, and what each signal is worth by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from lib.check import as_flags, as_integer, as_matrix, require_choice, same_rows
from lib.suitability.estimator import N_SPLITS, CorrectnessEstimator
from lib.suitability.noninferiority import as_sample
from lib.suitability.signals import SIGNAL_NAMES
from lib.ties import at_least, bin_index

#: Names of the estimators and what readers call them, in the order of the paper's Table 8.
ESTIMATORS = {
    "logistic": "logistic regression",
    "gradient-boosting": "gradient boosting",
    "one-layer": "one-layer network",
    "svm": "support vector machine",
    "random-forest": "random forest",
    "two-layer": "two-layer network",
    "decision-tree": "decision tree",
}

#: Ways to calibrate an estimator.
CALIBRATIONS = ("none", "platt", "temperature", "isotonic")

_METHODS = {"platt": "sigmoid", "temperature": "temperature", "isotonic": "isotonic"}
_HIDDEN = 100  # units of each hidden layer, scikit-learn's default


class _Paper(ClassifierMixin, BaseEstimator):
    """Our solution of the paper's estimator, in the form of a scikit-learn classifier."""

    def fit(self, X: Any, y: Any) -> Self:
        self.model_ = CorrectnessEstimator().fit(X, y)
        self.classes_ = np.array([False, True])
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        p = self.model_.predict(X)
        return np.column_stack([1 - p, p])


class _LogisticSVC(SVC):
    """A support vector machine whose margin is read as log-odds: no calibration at all."""

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])


def make_estimator(
    name: str, calibration: str = "platt", *, seed: int = 0, splits: int = N_SPLITS
) -> BaseEstimator:
    """Make a correctness estimator, as :class:`~lib.suitability.SuitabilityFilter` takes it.

    Signals are standardised; calibration is by cross-fitting: for each of the stratified
    ``splits``, the model is fitted to the others and its calibration to the one held out, and
    the probabilities of all are averaged. The models have scikit-learn's default settings,
    as in the authors' code, except that

    - the networks, with 100 units in each hidden layer, stop once the training loss has not
      fallen by 1e-3 for ten epochs, instead of 1e-4: going on takes many times as long and
      makes them worse on other data, not better, and
    - without calibration, the decision value of the support vector machine is read as
      log-odds. The authors' ``SVC(probability=True)`` has Platt's method built in, so that
      theirs is never without.

    Temperature scaling has a slope but no intercept: unlike the others it cannot correct
    probabilities that are too large on average.

    Parameters
    ----------
    name : str
        One of :data:`ESTIMATORS`. ``"logistic"`` with ``"platt"`` in five splits, the paper's
        choice, is :class:`~lib.suitability.CorrectnessEstimator`.
    calibration : str
        One of :data:`CALIBRATIONS`.
    seed : int
        Of the models that draw random numbers.
    splits : int
        At least 2.

    Returns
    -------
    sklearn.base.BaseEstimator
        Not fitted; has ``fit`` and ``predict_proba``.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, section 4.2 and Table 8; the authors'
    filter/suitability_filter.py.

    Examples
    --------
    >>> estimator = make_estimator("decision-tree", "isotonic", seed=0, splits=2)
    >>> estimator.fit(few[:500], correct[:500]).predict_proba(few[500:503]).shape
    (3, 2)
    """
    require_choice("name", name, ESTIMATORS)
    require_choice("calibration", calibration, CALIBRATIONS)
    as_integer("seed", seed, 0)
    as_integer("splits", splits, 2)
    if (name, calibration, splits) == ("logistic", "platt", N_SPLITS):
        return _Paper()
    if name == "logistic":
        model: Any = LogisticRegression(max_iter=1000)
    elif name == "gradient-boosting":
        model = GradientBoostingClassifier(random_state=seed)
    elif name == "svm":
        model = _LogisticSVC() if calibration == "none" else SVC()
    elif name == "random-forest":
        model = RandomForestClassifier(random_state=seed)
    elif name == "decision-tree":
        model = DecisionTreeClassifier(random_state=seed)
    else:
        layers = (_HIDDEN,) * (1 if name == "one-layer" else 2)
        model = MLPClassifier(layers, max_iter=1000, tol=1e-3, random_state=seed)
    if calibration != "none":
        model = CalibratedClassifierCV(model, method=_METHODS[calibration], cv=splits)
    return make_pipeline(StandardScaler(), model)


@dataclass(frozen=True)
class CalibrationErrors:
    """How good estimated probabilities of correctness are.

    Attributes
    ----------
    accuracy : float
        Fraction of samples for which "at least one half" says whether they are correct.
    ece, mce, rmsce : float
        Expected, maximum and root mean square calibration error.
    """

    accuracy: float
    ece: float
    mce: float
    rmsce: float


def calibration_errors(
    probabilities: Any, correct: Any, bins: int = 15, by: str = "rows"
) -> CalibrationErrors:
    """Compare estimated probabilities with outcomes, in bins of equal width.

    Bin b of B holds the probabilities in ((b - 1)/B, b/B], the first one 0 as well; one that is on
    an edge up to rounding is on it (:func:`lib.ties.bin_index`). With n_b
    samples in it, of which the fraction acc_b is correct, and conf_b the mean of their
    probabilities,

    - ECE = sum_b n_b/n abs(acc_b - conf_b),
    - MCE = max_b abs(acc_b - conf_b), over the bins that are not empty,
    - RMSCE = sqrt(sum_b n_b/n (acc_b - conf_b)^2).

    With ``by="bins"`` every bin that is not empty has the same weight in ECE and RMSCE instead of
    n_b/n. That is how the authors' notebook computes the paper's tables, with 10 bins; the usual
    errors are those by rows.

    All three are biased upwards: acc_b scatters about its mean, so that even a perfectly
    calibrated estimator has errors of about sqrt(B/n), and the MCE is often that of a bin with
    few samples. They are never less than abs(mean estimate - accuracy), the error that counts
    for the filter (Corollary 4.4), which may vanish where they do not.

    Parameters
    ----------
    probabilities : array_like, shape (n,)
        In [0, 1], n >= 1.
    correct : array_like of bool, shape (n,)
        Outcomes.
    bins : int
        B, at least 1.
    by : {"rows", "bins"}
        What a bin counts for: its number of rows, or 1.

    Returns
    -------
    CalibrationErrors

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Tables 6 and 8. Naeini, Cooper and Hauskrecht,
    Obtaining Well Calibrated Probabilities Using Bayesian Binning, 2015. Kumar, Liang and Ma,
    Verified Uncertainty Calibration, 2019, on the bias.

    Examples
    --------
    >>> calibration_errors([0.75, 0.75], [1, 0]).ece
    0.25
    """
    same_rows(probabilities=probabilities, correct=correct)
    p = as_sample("probabilities", probabilities, 0, 1, 1)
    y = as_flags("correct", correct, len(p))
    as_integer("bins", bins)
    require_choice("by", by, ("rows", "bins"))
    where = bin_index(p, bins)
    count = np.bincount(where, minlength=bins)
    # Sums of acc_b - conf_b, without a division by the count of an empty bin.
    gap = np.abs(np.bincount(where, weights=y - p, minlength=bins))
    gap, share = gap[count > 0] / count[count > 0], count[count > 0] / len(p)
    if by == "bins":
        share = np.full(len(gap), 1 / len(gap))
    return CalibrationErrors(
        accuracy=float((at_least(p, 0.5) == y).mean()),
        ece=float((share * gap).sum()),
        mce=float(gap.max()),
        rmsce=float(np.sqrt((share * gap**2).sum())),
    )


def as_table(name: str, signals: Any, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Signals as a data frame of floats with the named columns, in their order.

    A data frame has distinct column names; the columns of anything else are called by ``columns``,
    which are :data:`~lib.suitability.SIGNAL_NAMES` if omitted.
    """
    array = as_matrix(name, signals)
    if isinstance(signals, pd.DataFrame):
        table = pd.DataFrame(array, columns=signals.columns)
        if not table.columns.is_unique:
            twice = list(table.columns[table.columns.duplicated()].unique())
            raise ValueError(f"{name} must have distinct column names, got {twice} more than once")
        if columns is None:
            return table
        if set(table.columns) != set(columns):
            raise ValueError(
                f"{name} must have the columns {', '.join(map(str, columns))}, got "
                f"{', '.join(map(str, table.columns))}"
            )
        return table[list(columns)]
    columns = SIGNAL_NAMES if columns is None else columns
    if array.shape[1] != len(columns):
        raise ValueError(
            f"{name} must have {len(columns)} columns, or be a data frame with names of its own, "
            f"got {array.shape[1]}"
        )
    return pd.DataFrame(array, columns=list(columns))
