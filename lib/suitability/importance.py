"""Which signals tell right predictions from wrong ones: ANOVA and SHAP values."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from scipy.special import betaln

from lib.check import as_matrix, matched
from lib.suitability.estimator import as_fit, fit_logistic, standardiser
from lib.suitability.estimators import as_table

Array = npt.NDArray[np.float64]

# Below, p-values are computed from a series: double precision ends at 1e-308.
_TINY = 1e-250


def anova_table(signals: Any, correct: Any) -> pd.DataFrame:
    """Test for each signal whether right and wrong predictions have the same mean.

    With two groups the one-way analysis of variance is the square of the t-test that assumes
    equal variances. It looks at one signal at a time; the coefficient is that of a regression
    on all of them, and among signals that are nearly functions of one another its sign says
    little.

    Parameters
    ----------
    signals : DataFrame or array_like, shape (n, n_signals)
        See :func:`~lib.suitability.estimators.as_table` for their names; n >= 3.
    correct : array_like of bool, shape (n,)
        Both kinds occur.

    Returns
    -------
    pandas.DataFrame
        One row per signal, by falling F: ``signal``, ``f``, ``p_value``, ``log10_p`` (exact
        where ``p_value`` is too small for a float and therefore 0), ``coefficient`` (in
        log-odds per standard deviation, of the logistic regression with penalty 0.5 abs(w)^2
        on all standardized signals) and ``sign`` (of that: -1, 0 or 1). A constant signal has
        no F: it is NaN, and last.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, Table 7.

    Examples
    --------
    >>> anova_table(few, correct)[["signal", "sign"]].values.tolist()
    [['conf_max', 1], ['conf_entropy', 1]]
    """
    x, y = as_table("signals", signals), as_fit(signals, correct)[1]
    n = len(x)
    if n < 3:
        raise ValueError(f"signals must have at least 3 rows, got {n}")
    z, _, _, coefficient, _ = _regression("signals", x, y)
    right, wrong = z[y], z[~y]
    between = len(right) * len(wrong) / n * (right.mean(axis=0) - wrong.mean(axis=0)) ** 2
    within = len(right) * right.var(axis=0) + len(wrong) * wrong.var(axis=0)
    constant = ~z.any(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(constant, np.nan, between / within * (n - 2))
    p = stats.f.sf(f, 1, n - 2)
    table = pd.DataFrame(
        {
            "signal": x.columns,
            "f": f,
            "p_value": p,
            "log10_p": _log10_p(f, p, n - 2),
            "coefficient": coefficient,
            "sign": np.sign(coefficient).astype(int),
        }
    )
    return table.sort_values("f", ascending=False, kind="stable", ignore_index=True)


def shap_values(fit_signals: Any, fit_correct: Any, signals: Any) -> tuple[pd.DataFrame, float]:
    """Attribute the log-odds of correctness to the signals, by SHAP values.

    The model is the logistic regression with penalty 0.5 abs(w)^2 on standardized signals,
    without calibration. The values are ``shap.LinearExplainer``'s against all the fitted data,
    taking the signals one by one (interventional): coefficient times (value - mean).
    Correlated signals with opposite coefficients therefore have large values that cancel.

    Parameters
    ----------
    fit_signals : DataFrame or array_like, shape (n, n_signals)
        To which the model is fitted and against which it is explained. See
        :func:`~lib.suitability.estimators.as_table` for their names.
    fit_correct : array_like of bool, shape (n,)
        Both kinds occur.
    signals : DataFrame or array_like, shape (m, n_signals)
        The samples to be explained; the columns of data frames are matched by name.

    Returns
    -------
    values : pandas.DataFrame, shape (m, n_signals)
        In log-odds, with the columns of ``fit_signals``. A row sums to the sample's log-odds
        minus ``base``.
    base : float
        Mean log-odds over the fitted data.

    References
    ----------
    Lundberg and Lee, A Unified Approach to Interpreting Model Predictions, 2017. Pouget et al.,
    Suitability Filter, ICML 2025, Figure 8.

    Examples
    --------
    >>> values, base = shap_values(few[:500], correct[:500], few[500:600])
    >>> values.shape, base > 0
    ((100, 2), True)
    """
    x = as_table("fit_signals", fit_signals)
    _, y, columns = as_fit(fit_signals, fit_correct, "fit_signals")
    explained = as_matrix("signals", matched("signals", signals, columns))
    z, mean, scale, coefficient, intercept = _regression("fit_signals", x, y)
    with warnings.catch_warnings():
        # The import takes seconds, and calls what matplotlib is about to deprecate.
        warnings.simplefilter("ignore")
        import shap
    # The default is a sample of 100 rows.
    background = shap.maskers.Independent(z, max_samples=len(z))
    explainer = shap.LinearExplainer((coefficient, intercept), background)
    values = explainer.shap_values((explained - mean) / scale)
    return pd.DataFrame(values, columns=x.columns), float(explainer.expected_value)


def _regression(
    name: str, table: pd.DataFrame, correct: npt.NDArray[np.bool_]
) -> tuple[Array, Array, Array, Array, float]:
    """Standardized signals, their means and scales; coefficients and intercept."""
    x = table.to_numpy()
    mean, scale, constant = standardiser(x, name)
    # The rounding error that is left of a constant column is no signal.
    z = np.where(constant, 0.0, (x - mean) / scale)
    theta, _ = fit_logistic(np.column_stack([z, np.ones(len(z))]), correct)
    return z, mean, scale, theta[:-1], float(theta[-1])


def _log10_p(f: Array, p: Array, dof: int) -> Array:
    """Log of the upper tail of F(1, dof), from a series where ``p`` is tiny.

    With a = dof/2 the tail is the incomplete beta function
    I_x(a, 1/2) = x^a (1 - x)^(-1/2) 2F1(1, 1/2; a + 1; -dof/f) / (a B(a, 1/2)), x = dof/(dof + f).
    Where it is tiny, f is in the hundreds at least, and twenty terms reach machine precision.
    """
    tiny = p < _TINY
    large, a = f[tiny], dof / 2
    term = total = np.ones(len(large))
    for k in range(20):
        term = term * -(k + 0.5) / (a + 1 + k) * dof / large
        total = total + term
    log_x, log_rest = -np.log1p(large / dof), -np.log1p(dof / large)
    result = np.empty(len(f))
    with np.errstate(invalid="ignore"):
        result[tiny] = a * log_x - log_rest / 2 + np.log(total) - np.log(a) - betaln(a, 0.5)
    result[~tiny] = np.log(p[~tiny])
    return result / np.log(10)
