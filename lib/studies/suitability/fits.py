"""Simulations of what the fit of the estimator does to the level."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import optimize, special, stats

from lib.suitability.filter import SuitabilityFilter


def fit_errors(
    sizes: Sequence[tuple[int, int, int]],
    *,
    margin: float = 0.05,
    alpha: float = 0.05,
    repetitions: int = 200,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Simulate P(SUITABLE) at a drop of the margin, with calibration on both populations.

    Four normal signals, of which one is lower by a constant on user data; correctness follows one
    logistic model of them everywhere.
    """
    slopes, bias = np.array([1.0, 0.7, -0.5, 0.3]), 1.8
    # The linear predictor is normal: its mean by quadrature.
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    spread, weights = np.sqrt((slopes**2).sum()) * nodes, weights / weights.sum()

    def drop(shift: float) -> float:
        means = [weights @ special.expit(bias + s + spread) for s in (0.0, shift)]
        return float(means[0] - means[1] - margin)

    shift = np.array([optimize.brentq(drop, -20.0, 0.0), 0.0, 0.0, 0.0])
    rows = []
    for holdout, test, user in sizes:
        suitable = dict.fromkeys(("paper", "fitted"), 0)
        for _ in range(repetitions):
            x = rng.normal(size=(holdout, 4))
            correct = rng.random(holdout) < special.expit(x @ slopes + bias)
            pair = rng.normal(size=(test, 4)), rng.normal(size=(user, 4)) + shift
            for name in suitable:
                fitted = SuitabilityFilter(margin, alpha, test=name).fit(x, correct)
                suitable[name] += fitted.decide(*pair).suitable
        interval = stats.binomtest(suitable["fitted"], repetitions).proportion_ci()
        rates = {name: count / repetitions for name, count in suitable.items()}
        rows.append(
            {"holdout": holdout, "test": test, "user": user, **rates}
            | {"low": interval.low, "high": interval.high}
        )
    return pd.DataFrame(rows)
