"""Other correctness estimators, their calibration, and what each signal is worth by itself."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from lib.check import (
    as_flags,
    as_integer,
    as_matrix,
    columns_of,
    matched,
    require_choice,
    same_rows,
)
from lib.suitability.estimator import (
    N_SPLITS,
    CorrectnessEstimator,
    as_fit,
    own_order,
    standardiser,
)
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

    def __init__(self, seed: int | None) -> None:
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        self.model_ = CorrectnessEstimator(seed=self.seed).fit(X, y)
        self.classes_ = np.array([False, True])
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        p = self.model_.predict(X)
        return np.column_stack([1 - p, p])


class _Matched(ClassifierMixin, BaseEstimator):
    """An estimator whose answer hangs neither on the order of rows nor on that of named columns."""

    def __init__(self, model: BaseEstimator, seed: int | None) -> None:
        self.model, self.seed = model, seed

    def fit(self, X: Any, y: Any) -> Self:
        x, correct, columns = as_fit(X, y)
        if isinstance(columns, list):
            columns = sorted(columns, key=lambda name: (type(name).__name__, str(name)))
            x = as_matrix("signals", matched("signals", X, columns))
        if self.seed is not None:
            center, scale, _ = standardiser(x)
            order = own_order((x - center) / scale, correct, self.seed)
            x, correct = x[order], correct[order]
        self.columns_, self.classes_ = columns, np.array([False, True])
        self.model_ = clone(self.model).fit(x, correct)
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        check_is_fitted(self)
        return self.model_.predict_proba(as_matrix("signals", matched("signals", X, self.columns_)))


class _LogisticSVC(SVC):
    """A support vector machine whose margin is read as log-odds: no calibration at all."""

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])


def make_estimator(
    name: str, calibration: str = "platt", *, seed: int | None = 0, splits: int = N_SPLITS
) -> BaseEstimator:
    """Make a correctness estimator, as :class:`~lib.suitability.SuitabilityFilter` takes it.

    Signals are standardized; calibration is by cross-fitting: for each of the stratified
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
    seed : int or None
        Of the models that draw random numbers, and of the order in which the sorted rows are split:
        that in which they are given changes nothing.  None: 0 for the models, and the rows are
        split in the order given, as by the authors.
    splits : int
        At least 2.

    Returns
    -------
    sklearn.base.BaseEstimator
        Not fitted; has ``fit`` and ``predict_proba``. The columns of data frames are matched by
        name to those at fit, in whatever order; other names are refused, and so are arrays after a
        fit to a data frame, and the reverse.

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
    as_integer("splits", splits, 2)
    drawn = 0 if seed is None else as_integer("seed", seed, 0)
    if (name, calibration, splits) == ("logistic", "platt", N_SPLITS):
        return _Matched(_Paper(seed), None)
    if name == "logistic":
        model: Any = LogisticRegression(max_iter=1000)
    elif name == "gradient-boosting":
        from sklearn.ensemble import GradientBoostingClassifier  # here: each takes time to load

        model = GradientBoostingClassifier(random_state=drawn)
    elif name == "svm":
        model = _LogisticSVC() if calibration == "none" else SVC()
    elif name == "random-forest":
        from sklearn.ensemble import RandomForestClassifier

        model = RandomForestClassifier(random_state=drawn)
    elif name == "decision-tree":
        from sklearn.tree import DecisionTreeClassifier

        model = DecisionTreeClassifier(random_state=drawn)
    else:
        from sklearn.neural_network import MLPClassifier

        layers = (_HIDDEN,) * (1 if name == "one-layer" else 2)
        model = MLPClassifier(layers, max_iter=1000, tol=1e-3, random_state=drawn)
    if calibration != "none":
        from sklearn.calibration import CalibratedClassifierCV

        model = CalibratedClassifierCV(model, method=_METHODS[calibration], cv=splits)
    elif seed is not None:
        seed = 0  # without splits one order is as good as another
    return _Matched(make_pipeline(StandardScaler(), model), seed)


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


def as_table(name: str, signals: Any) -> pd.DataFrame:
    """Signals as a data frame of floats.

    A data frame has distinct column names; the columns of anything else are
    :data:`~lib.suitability.SIGNAL_NAMES`.
    """
    array, columns = as_matrix(name, signals), columns_of(name, signals)
    if isinstance(columns, int):
        if columns != len(SIGNAL_NAMES):
            raise ValueError(
                f"{name} must have {len(SIGNAL_NAMES)} columns, or be a data frame with names of "
                f"its own, got {columns}"
            )
        columns = list(SIGNAL_NAMES)
    return pd.DataFrame(array, columns=columns)
