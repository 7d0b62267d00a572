"""Rates of error of tests of labels alone, by enumeration."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from lib.suitability.labels import _TIE, _score, rejection_rate
from lib.suitability.noninferiority import welch_non_inferiority


def label_errors(
    labels: Sequence[int],
    margins: Sequence[float],
    *,
    n_test: int = 100,
    accuracies: Sequence[float] = (0.5, 0.7, 0.9, 0.95, 0.99),
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Compare tests of labels alone by their exact rates of error at a drop of the margin."""
    rows = []
    for n in labels:
        x, y = np.meshgrid(np.arange(n_test + 1), np.arange(n + 1), indexing="ij")
        moments = [
            m for v, k in ((x, n_test), (y, n)) for m in (v / k, v * (k - v) / (k * (k - 1)), k)
        ]
        for margin in margins:
            rejected = {
                "welch": welch_non_inferiority(*moments, margin)[1] <= alpha,
                "score": _score(x, n_test, y, n, margin) <= stats.norm.ppf(alpha) + _TIE,
            }
            rates: dict[str, list[float]] = {"exact": [], "exact, against": []}
            for p in accuracies:
                q = p - margin
                if not 0 <= q <= 1:
                    continue
                pair = p, n_test, q, n
                rates["exact"].append(rejection_rate(*pair, margin, alpha))
                against = rejection_rate(*pair[2:], *pair[:2], -margin, alpha)
                rates["exact, against"].append(against)
                weight = stats.binom.pmf(x, n_test, p) * stats.binom.pmf(y, n, q)
                for name, where in rejected.items():
                    rates.setdefault(name, []).append(float(weight[where].sum()))
            worst = {name: max(found, default=math.nan) for name, found in rates.items()}
            rows.append({"labels": n, "margin": margin, **worst})
    return pd.DataFrame(rows)
