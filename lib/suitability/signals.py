"""Suitability signals: twelve numbers a sample, computed from its logits."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from lib.data import SIGNAL_NAMES
from lib.suitability.checks import as_matrix

__all__ = ["SIGNAL_NAMES", "signals"]

_EPSILON = 1e-10  # epsilon_0 of the paper's formulas: keeps logarithms and ratios finite
_LARGEST = 1e150  # beyond, the variance of the logits overflows


def signals(logits: Any) -> pd.DataFrame:
    """Compute the twelve suitability signals.

    With logits z of k classes, p = softmax(z), and both sorted from the largest:

    ==================  ==========================================================
    conf_max            p_1
    conf_std            sample standard deviation of p
    conf_entropy        -sum p log(p + 1e-10)
    logit_mean          mean of z
    logit_max           z_1
    logit_std           sample standard deviation of z
    logit_diff_top2     z_1 - z_2
    loss                -log p_1, the cross-entropy of the predicted class
    margin_loss         -log(p_1 + 1e-10) + log(p_2 + 1e-10), never positive
    conf_ratio          p_1 / (p_2 + 1e-10)
    top_k_conf_sum      sum of the largest floor(k / 10) of p, at least one of them
    energy              -log sum exp(z)
    ==================  ==========================================================

    Parameters
    ----------
    logits : array_like, shape (n, k)
        Real, at most 1e150 in size, k >= 2. Computed in double precision whatever the input.

    Returns
    -------
    pandas.DataFrame
        n rows and the columns :data:`SIGNAL_NAMES`; the index of a data frame is kept.

    Notes
    -----
    A linear head with an L2 penalty has logits that sum to zero: their computed mean is rounding
    error, which a standardisation would blow up to a signal like any other.  A mean within 100
    machine epsilons (of the input's precision) times the largest logit is therefore given as 0.

    Raises
    ------
    ValueError
        If the shape or a value is not as above.

    References
    ----------
    Pouget et al., Suitability Filter, ICML 2025, section 5.2 and appendix A.2.1.

    Examples
    --------
    >>> signals([[2.0, 0.0, 0.0]]).loc[0, "logit_diff_top2"]
    np.float64(2.0)
    """
    z = as_matrix("logits", logits)
    given = np.asarray(logits).dtype
    rounding = 100 * np.finfo(given if given.kind == "f" else float).eps
    k = z.shape[1]
    if k < 2:
        raise ValueError(f"logits must have at least 2 columns, one per class, got {k}")
    if (largest_z := np.abs(z).max()) > _LARGEST:
        raise ValueError(f"logits must be at most {_LARGEST:g} in size, got {largest_z:g}")
    normaliser = logsumexp(z, axis=1, keepdims=True)
    log_p = z - normaliser
    p = np.exp(log_p)
    top = max(k // 10, 1)
    largest = -np.partition(-p, range(min(max(top, 2), k)), axis=1)[:, : max(top, 2)]
    z_top = -np.partition(-z, (0, 1), axis=1)[:, :2]
    p1, p2 = largest[:, 0], largest[:, 1]
    mean = z.mean(axis=1)
    columns = {
        "conf_max": p1,
        "conf_std": p.std(axis=1, ddof=1),
        "conf_entropy": -(p * np.log(p + _EPSILON)).sum(axis=1),
        "logit_mean": np.where(np.abs(mean) <= rounding * np.abs(z).max(axis=1), 0.0, mean),
        "logit_max": z_top[:, 0],
        "logit_std": z.std(axis=1, ddof=1),
        "logit_diff_top2": z_top[:, 0] - z_top[:, 1],
        "loss": -log_p.max(axis=1),
        "margin_loss": np.log(p2 + _EPSILON) - np.log(p1 + _EPSILON),
        "conf_ratio": p1 / (p2 + _EPSILON),
        "top_k_conf_sum": largest[:, :top].sum(axis=1),
        "energy": -normaliser[:, 0],
    }
    index = logits.index if isinstance(logits, pd.DataFrame) else None
    return pd.DataFrame(columns, index=index)[list(SIGNAL_NAMES)]
