"""Learners that other packages are compared with, and their warnings."""

import contextlib
import warnings

from sklearn.ensemble import (
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

# Deterministic, and solved to the end: both sides agree to rounding, whatever the label's sign.
PAIR = (LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000), LinearRegression())


def stack_classifier(seed=0, trees=100):
    """As the paper's library does it, with scikit-learn's default settings."""
    return StackingClassifier(
        [
            ("linear", make_pipeline(StandardScaler(), LogisticRegression())),
            ("neighbours", make_pipeline(StandardScaler(), KNeighborsClassifier())),
            ("machine", SVC(probability=True, random_state=seed)),
            ("forest", RandomForestClassifier(trees, random_state=seed)),
        ],
        LogisticRegression(),
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
    )


def stack_regressor(seed=0, trees=100):
    return StackingRegressor(
        [
            ("linear", make_pipeline(StandardScaler(), Ridge())),
            ("neighbours", make_pipeline(StandardScaler(), KNeighborsRegressor())),
            ("machine", SVR()),
            ("forest", RandomForestRegressor(trees, random_state=seed)),
        ],
        LinearRegression(),
        cv=KFold(5, shuffle=True, random_state=seed),
    )


@contextlib.contextmanager
def quiet():
    """DoubleML announces what it will remove, and pandas what DoubleML should no longer use.

    Its sensitivity analysis, which is not asked for, remarks on large weights.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The estimated nu2 for d is not positive", UserWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield
