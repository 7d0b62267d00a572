"""P4's experiment 1 with the settings of the authors' public code, for IPW and linear models.

They differ from :mod:`lib.studies.counterfactual.simulation` in details: a coin puts each point in
one of two halves, which need not be equal, and the learner is scikit-learn's as it comes.
"""

import numpy as np
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib.studies.counterfactual.classifiers import simulate


def ipw_misses(repetitions: int, points: int, *, epsilon: float = 0.2, seed: int) -> float:
    """Fraction of cross-fitted 95% intervals of IPW that miss the sample's difference.

    Parameters
    ----------
    repetitions, points : int
        How many data sets are drawn, and of how many points each.
    epsilon : float
        Least probability of an answer; also the level at which propensities are clipped.
    seed : int
        Of all draws.

    References
    ----------
    P4, experiment 1. The authors' code is github.com/yjchoe/ComparingAbstainingClassifiers: its
    classes ``DRConfInt`` and ``make_linear_classifier``.
    """
    learner = make_pipeline(StandardScaler(), LogisticRegression())
    missed = 0
    for stream in np.random.SeedSequence(seed).spawn(repetitions):
        rng = np.random.default_rng(stream)
        drawn, half = simulate(points, epsilon=epsilon, rng=rng), rng.integers(2, size=points)
        values = np.zeros(points)
        for abstained, scores, sign in zip(drawn.abstained, drawn.scores, (1, -1), strict=True):
            for inside in (half == 0, half == 1):
                learner.fit(drawn.X[~inside], abstained[~inside])
                answers = 1 - learner.predict_proba(drawn.X[inside])[:, 1]
                seen = np.where(abstained[inside], 0.0, scores[inside])
                values[inside] += sign * seen / np.maximum(answers, epsilon)
        reach = stats.norm.isf(0.025) * values.std(ddof=1) / np.sqrt(points)
        missed += abs(values.mean() - drawn.oracle_difference) > reach
    return missed / repetitions
