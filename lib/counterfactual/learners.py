"""Learners of the nuisance functions: propensity to abstain, and expected score.

Linear models, random forests, and the super learner of P4: a stack of four learners.  Ours stacks
the same four without fitting them all over again for each fold:

- forests predict each point from the trees that have not seen it (out-of-bag),
- nearest neighbors by leaving the point itself out, so that neither is fitted twice,
- support vector machines share one kernel matrix, and give decision values instead of
  probabilities that take five more fits each: the logistic regression on top calibrates them,
- what is left for folds is the linear model and the solver of the kernel machine.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    TransformerMixin,
    clone,
    is_classifier,
)
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import validate_data

from lib.check import as_matrix
from lib.counterfactual.forest import ForestClassifier, ForestRegressor, Named

#: Learners of propensities and scores that are known by a name.
LEARNERS = ("linear", "forest", "super")

Array = npt.NDArray[np.float64]
_NEIGHBOURS = 5
_FOLDS = 5
_LARGEST_KERNEL = 5000  # points whose kernel matrix is kept, 200 MB


def learner_pair(learner: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Unfitted estimators of propensity and expected score.

    Parameters
    ----------
    learner : {"linear", "forest", "super"} or (propensity, outcome)
        One of P4's learners, or two scikit-learn estimators, which are cloned: a classifier with
        ``predict_proba``, and a regressor (or a classifier, for scores of two values).
    rng : numpy.random.Generator
        Gives ``random_state`` to estimators that have one and leave it open.

    Returns
    -------
    propensity, outcome : estimator

    Notes
    -----
    As in P4's experiments: ``"linear"`` is logistic and ridge regression, on standardized features,
    ``"forest"`` a random forest of 100 trees; ``"super"`` stacks logistic (ridge) regression,
    5 nearest neighbors, a support vector machine with a Gaussian kernel and a random forest, with
    logistic (linear) regression on top, all but the forest on standardized features.  Expected
    scores are regressed also where they are 0 or 1.  Whatever the unit and the zero of each
    feature, all three are the same but for rounding.  Columns of data frames are matched by name to
    those at fit; other names are refused, and so are arrays after a fit to a data frame.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> propensity, outcome = learner_pair("forest", rng)
    >>> type(propensity).__name__, type(outcome).__name__
    ('ForestClassifier', 'ForestRegressor')
    """
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise ValueError(
                f"learner must be one of {', '.join(map(repr, LEARNERS))} or a pair of estimators, "
                f"got {learner!r}"
            )
        pair = {
            "linear": lambda: (
                make_pipeline(Standard(), LogisticRegression(solver="newton-cholesky")),
                make_pipeline(Standard(), Ridge()),
            ),
            "forest": lambda: (ForestClassifier(), ForestRegressor()),
            "super": lambda: (SuperLearnerClassifier(), SuperLearnerRegressor()),
        }[learner]()
    else:
        try:
            propensity, outcome = learner
            pair = clone(propensity), clone(outcome)
        except (TypeError, ValueError):
            raise TypeError(
                "learner must be a name or a pair (propensity, outcome) of scikit-learn "
                f"estimators, got {learner!r}"
            ) from None
        if not hasattr(propensity, "predict_proba"):
            raise TypeError(
                "learner must have a propensity estimator with predict_proba, got "
                f"{type(propensity).__name__}"
            )
    for estimator in pair:
        open_seeds = {
            name: int(rng.integers(2**31))
            for name, value in sorted(estimator.get_params().items())
            if value is None and (name == "random_state" or name.endswith("__random_state"))
        }
        estimator.set_params(**open_seeds)
    return pair


def predict_mean(estimator: Any, x: Array) -> Array:
    """Expected score by an outcome estimator, a classifier's being the mean over its classes."""
    if is_classifier(estimator):
        return estimator.predict_proba(x) @ np.asarray(estimator.classes_, dtype=float)
    return np.asarray(estimator.predict(x), dtype=float)


def calibrated(propensity: Array, abstained: npt.NDArray[np.bool_], fold: npt.NDArray) -> Array:
    """Propensities by isotonic regression, where it predicts abstention better than they do.

    A logistic regression is wrong where the propensity is no such curve, as a step in a score: too
    sure of abstention at one end, which gives weights that no answer deserves.

    References
    ----------
    van der Laan, Lin, Carone and Luedtke, Stabilized inverse probability weighting via isotonic
    calibration, 2025.
    """
    ranked, r = np.round(propensity, 12), abstained.astype(float)

    def loss(p: Array) -> float:
        p = np.clip(p, 0.5 / len(p), 1 - 0.5 / len(p))
        return -float(np.log(np.where(abstained, p, 1 - p)).mean())

    out = np.empty(len(ranked))
    for number in np.unique(fold):
        inside = fold == number
        curve = IsotonicRegression(out_of_bounds="clip").fit(ranked[~inside], r[~inside])
        out[inside] = curve.predict(ranked[inside])
    if loss(out) > loss(propensity) - 1e-9:
        return propensity
    whole = IsotonicRegression().fit(ranked, r).predict(ranked)
    return np.minimum(whole, whole[~abstained].max())


class Standard(Named, TransformerMixin, BaseEstimator):
    """Mean 0 and variance 1 of each feature, whatever its unit and its zero.

    Counted from the least value, in units of a power of two, no variance is lost to rounding, and
    no square is too large or too small for a number.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from points of shape (n, d)."""
        x = as_matrix("X", self._pairs(X, y)[0])
        self.least_ = x.min(axis=0)
        self.power_ = np.frexp((x - self.least_).max(axis=0))[1]
        self.scaler_ = StandardScaler().fit(self._counted(x))
        return self

    def _counted(self, x: Array) -> Array:
        return np.ldexp(x - self.least_, -self.power_)

    def transform(self, X: Any) -> Array:
        """Points of shape (m, d) in the units of those that were learned from."""
        return self.scaler_.transform(self._counted(as_matrix("X", self._points(X))))


class _Stack(Named, BaseEstimator):
    """What both super learners share: level-one data, one column per learner."""

    def __init__(self, n_estimators: int = 100, *, random_state: Any = None):
        self.n_estimators = n_estimators
        self.random_state = random_state

    def _begin(self, x: Array, y: Array) -> None:
        """Learn what does not depend on the task; `y` holds numbers."""
        self._scaler = Standard().fit(x)
        self._scaled, self._targets = self._scaler.transform(x), y
        # As scikit-learn's gamma="scale".
        spread = self._scaled.var()
        self._gamma = 1.0 / (x.shape[1] * spread) if spread > 0 else 1.0
        self._k = min(_NEIGHBOURS, len(x) - 1)
        self._neighbours = NearestNeighbors(n_neighbors=self._k).fit(self._scaled)
        small = len(x) <= _LARGEST_KERNEL
        self._kernel = rbf_kernel(self._scaled, gamma=self._gamma) if small else None

    def _learn(self, y: npt.NDArray, splits: Any, linear: Any, machine: Any) -> Array:
        """Fit linear model and machine; level-one data, each point by what has not seen it."""
        level = np.empty((len(y), 4))
        for rows, asked in splits:
            self._linear = linear().fit(self._scaled[rows], y[rows])
            level[asked, 0] = self._linear_values(self._scaled[asked])
            level[asked, 2] = self._machine(machine(), rows, asked, y[rows])
        # The mean target of each point's neighbors, itself not being one.
        level[:, 1] = self._targets[self._neighbours.kneighbors(return_distance=False)].mean(axis=1)
        level[:, 3] = self._forest._out_of_bag()
        self._linear = linear().fit(self._scaled, y)
        self._svm = self._fit_machine(machine(), np.arange(len(y)), y)
        self._kernel = None if self._kernel is None else True  # no longer needed
        return level

    def _fit_machine(self, machine: Any, rows: npt.NDArray, target: Any) -> Any:
        """Fit a support vector machine to some rows."""
        # Without probabilities nothing is drawn, yet a seed is: not from NumPy's global state.
        machine.random_state = 0
        if self._kernel is None:
            machine.set_params(kernel="rbf", gamma=self._gamma)
            return machine.fit(self._scaled[rows], target)
        return machine.set_params(kernel="precomputed").fit(
            self._kernel[np.ix_(rows, rows)], target
        )

    def _machine(self, machine: Any, rows: npt.NDArray, asked: npt.NDArray, target: Any) -> Array:
        """The values for other rows of a machine that is fitted to some."""
        machine = self._fit_machine(machine, rows, target)
        if self._kernel is None:
            return getattr(machine, "decision_function", machine.predict)(self._scaled[asked])
        # The kernel expansion by hand: scikit-learn would want the whole rows of the matrix.
        values = self._kernel[np.ix_(asked, rows[machine.support_])] @ machine.dual_coef_[0]
        return values + machine.intercept_[0]

    def _machine_values(self, x: Array) -> Array:
        if self._kernel is None:
            return getattr(self._svm, "decision_function", self._svm.predict)(x)
        support = self._scaled[self._svm.support_]
        if len(support) == 0:  # all targets are within the machine's tolerance of a constant
            return np.full(len(x), self._svm.intercept_[0])
        kernel = rbf_kernel(x, support, gamma=self._gamma)
        return kernel @ self._svm.dual_coef_[0] + self._svm.intercept_[0]

    def _level_one(self, x: Any) -> Array:
        x = validate_data(self, self._points(x), reset=False, dtype=np.float64)
        scaled = self._scaler.transform(x)
        near = self._neighbours.kneighbors(scaled, return_distance=False)
        return np.column_stack(
            [
                self._linear_values(scaled),
                self._targets[near].mean(axis=1),
                self._machine_values(scaled),
                self._forest._mean(x),
            ]
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_meta")


class SuperLearnerClassifier(ClassifierMixin, _Stack):
    """Stack of logistic regression, nearest neighbors, a kernel machine and a forest: two classes.

    Parameters
    ----------
    n_estimators : int
        Trees of the forest.
    random_state : int, optional
        Of forest, and of the five folds (fewer if a class has fewer points) that the level-one data
        of logistic regression and kernel machine come from.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
        The classes.

    References
    ----------
    van der Laan, Polley and Hubbard, Super Learner, 2007.  P4, experiment 1.

    Examples
    --------
    >>> stack = SuperLearnerClassifier(n_estimators=10, random_state=0)
    >>> stack.fit(X[:200], r[:200]).predict_proba(X[:3]).shape
    (3, 2)
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit all to points of shape (n, d) and two classes with at least two points each."""
        X, y = validate_data(self, *self._pairs(X, y), dtype=np.float64)
        self.classes_, label = np.unique(y, return_inverse=True)
        counts = np.bincount(label)
        if len(counts) != 2 or counts.min() < 2:
            raise ValueError(
                "y must have two classes with at least two points each, got "
                f"{dict(zip(self.classes_.tolist(), counts.tolist(), strict=True))}"
            )
        rng = np.random.default_rng(self.random_state)
        seed = int(rng.integers(2**31))
        self._begin(X, label.astype(float))
        self._forest = ForestClassifier(self.n_estimators, random_state=rng).fit(X, label)
        folds = min(_FOLDS, int(counts.min()))
        splits = StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, label)
        level = self._learn(label, splits, _logistic, SVC)
        self._meta = _logistic().fit(level, label)
        return self

    def _linear_values(self, scaled: Array) -> Array:
        return self._linear.predict_proba(scaled)[:, 1]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, shape (m, 2)."""
        level = self._level_one(X)
        return self._meta.predict_proba(level)

    def predict(self, X: Any) -> npt.NDArray:
        """The more probable class, shape (m,)."""
        level = self._level_one(X)
        return self.classes_[self._meta.predict(level)]


class SuperLearnerRegressor(RegressorMixin, _Stack):
    """Stack of ridge regression, nearest neighbors, a kernel machine and a forest.

    Parameters
    ----------
    n_estimators : int
        Trees of the forest.
    random_state : int, optional
        Of forest, and of the five folds (fewer if there are fewer points) that the level-one data
        of ridge regression and kernel machine come from.

    References
    ----------
    van der Laan, Polley and Hubbard, Super Learner, 2007.  P4, experiment 1.

    Examples
    --------
    >>> stack = SuperLearnerRegressor(n_estimators=10, random_state=0)
    >>> stack.fit(X[~r][:200], a[~r][:200]).predict(X[:3]).shape
    (3,)
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit all to at least two points of shape (n, d) and targets of shape (n,)."""
        X, y = validate_data(
            self, *self._pairs(X, y), dtype=np.float64, y_numeric=True, ensure_min_samples=2
        )
        y = y.astype(float)
        rng = np.random.default_rng(self.random_state)
        seed = int(rng.integers(2**31))
        self._begin(X, y)
        self._forest = ForestRegressor(self.n_estimators, random_state=rng).fit(X, y)
        # Not by leaving one out: where nothing is to be learned, that is the mean of the other
        # targets, which mirrors the point's own, and the regression on top would learn it.
        splits = KFold(min(_FOLDS, len(X)), shuffle=True, random_state=seed).split(X)
        level = self._learn(y, splits, Ridge, SVR)
        self._meta = LinearRegression().fit(level, y)
        return self

    def _linear_values(self, scaled: Array) -> Array:
        return self._linear.predict(scaled)

    def predict(self, X: Any) -> Array:
        """Predictions, shape (m,)."""
        level = self._level_one(X)
        return self._meta.predict(level)


def _logistic() -> LogisticRegression:
    return LogisticRegression(solver="newton-cholesky")
