"""How often a report's counterfactual intervals hold the truth, where abstention is drawn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from lib.report.predictions import ModelPredictions
from lib.report.registry import Settings, run_analysis

#: What the probability of abstaining depends on; it is between 0.1 and 0.9.
DESIGNS = ("confidence", "step in confidence", "feature")


def drawn_abstention(
    learners: Sequence[str], n: int = 500, *, repetitions: int = 100, seed: int = 0
) -> pd.DataFrame:
    """Simulate reports on a calibrated model of two classes that abstains at random.

    Logits are N(1, 4), and two features without influence on the labels are given.  No labels or
    propensities of abstained rows are.

    Examples
    --------
    >>> table = drawn_abstention(["linear"], 200, repetitions=2)
    >>> table["propensity"].tolist()
    ['confidence', 'step in confidence', 'feature']
    """
    z = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000, 1.0, 2.0)
    truth, rows = special.expit(np.abs(z)).mean(), []
    for learner in learners:
        for design in DESIGNS:
            found = [_one(design, n, learner, [seed, number, n]) for number in range(repetitions)]
            ends = np.array([ends for ends in found if ends is not None]).reshape(-1, 2)
            held = int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum())
            low, high = stats.binomtest(held, max(len(ends), 1)).proportion_ci(0.95)
            points, width = len(ends) / repetitions, np.ptp(ends, axis=1).mean()
            rows.append((learner, design, points, held / len(ends), low, high, width))
    columns = ["learner", "propensity", "points", "coverage", "low", "high", "width"]
    return pd.DataFrame(rows, columns=columns)


def _one(design: str, n: int, learner: str, seed: Any) -> tuple[float, float] | None:
    """The interval of one report, None if it states bounds."""
    rng = np.random.default_rng(seed)
    z, x = rng.normal(1.0, 2.0, n), rng.normal(size=(n, 2))
    labels = (rng.random(n) > special.expit(z)).astype(int)
    propensity = {
        "confidence": 0.1 + 0.8 * np.exp(-np.abs(z)),
        "step in confidence": np.where(np.abs(z) < 1.1, 0.9, 0.1),
        "feature": 0.1 + 0.8 * special.expit(2 * x[:, 0]),
    }[design]
    abstained = rng.random(n) < propensity
    given = ModelPredictions(
        test_logits=np.column_stack([z, np.zeros(n)]),
        test_labels=np.where(abstained, -1, labels),
        test_abstained=abstained,
        test_features=x,
    )
    found = run_analysis("counterfactual", given, Settings(learner=learner)).values
    if "counterfactual" not in found:
        return None
    return found["counterfactual_low"], found["counterfactual_high"]
