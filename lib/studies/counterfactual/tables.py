"""What the chapter shows, as tables and numbers."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib.counterfactual.diagnostics import PositivityWarning
from lib.counterfactual.estimate import Nuisances, counterfactual_score, influence_values
from lib.counterfactual.overlap import mean_bounds, without_overlap
from lib.counterfactual.sequences import confidence_sequence, running_moments
from lib.studies.counterfactual.classifiers import FLIP, Simulated, simulate, true_difference
from lib.studies.counterfactual.simulation import Z, two_share_z

#: What pages call estimators and learners.
ESTIMATOR_TITLES = {"plug-in": "plug-in", "ipw": "IPW", "dr": "doubly robust"}
LEARNER_TITLES = {"linear": "linear", "forest": "random forest", "super": "super learner"}
_PAPER_REPETITIONS = 1000


def oracle_nuisances(drawn: Simulated) -> tuple[Nuisances, Nuisances]:
    """Nuisance functions of experiment 1 as an oracle knows them."""
    side = drawn.X.sum(axis=1) >= 1
    return tuple(
        Nuisances(r, np.where(r, 0.0, s), pi, np.where((p > 0.5) == side, 1 - FLIP, FLIP))
        for r, s, pi, p in zip(
            drawn.abstained, drawn.scores, drawn.propensities, drawn.probabilities, strict=True
        )
    )


def claims_of_cells(
    results: pd.DataFrame, reported: Mapping[str, tuple[float, float]], prefix: str
) -> dict[str, tuple[float, float, int] | str]:
    """Values for the claims on experiment 1's miscoverage."""
    rows = results.set_index(["learner", "estimator"])
    found: dict[str, tuple[float, float, int] | str] = {}
    for claim, (value, _) in reported.items():
        learner, estimator = claim.removeprefix(prefix).split("-", 1)
        if (learner, estimator) not in rows.index:
            found[claim] = f"no repetitions with {learner} in this profile"
            continue
        row = rows.loc[(learner, estimator)]
        z = two_share_z(row["miscovered"], row["repetitions"], value, _PAPER_REPETITIONS)
        found[claim] = (z, row["miscoverage"], int(row["repetitions"]))
    return found


def coverage_table(results: pd.DataFrame) -> pd.DataFrame:
    """Miscoverage of the sample's and of the population's difference, width, bias and spread."""
    names = {"miscoverage": "misses sample", "population_miscoverage": "misses population"}
    titles = {"learner": LEARNER_TITLES, "estimator": ESTIMATOR_TITLES}
    table = results.assign(**{name: results[name].map(words) for name, words in titles.items()})
    shown = ["learner", "estimator", "repetitions", *names, "width", "bias", "spread"]
    return table[shown].rename(columns=names).reset_index(drop=True)


def pointwise_interval(influence: Any, start: int):
    """Ends of the 95% intervals for the mean of the first n influence values, n from `start`."""
    n, mean, variance = running_moments(influence)
    half = Z * np.sqrt(variance / n)
    return (mean - half)[start - 1 :], (mean + half)[start - 1 :]


def _slide_interval(influence: Any, start: int):
    """The sequence (95%) as P4's slide prints it, sigma_n^2 the variance of influence values."""
    n, mean, variance = running_moments(influence)
    grown = n * variance
    half = np.sqrt(variance) * np.sqrt((2 * grown + 1) / n**2 * np.log(np.sqrt(grown + 1) / 0.05))
    return (mean - half)[start - 1 :], (mean + half)[start - 1 :]


def sequence_study(
    repetitions: int, n: int, start: int, *, rng: np.random.Generator | int
) -> dict[str, int]:
    """How often sequences ever miss the truth while points of experiment 1 arrive."""
    rng, truth = np.random.default_rng(rng), true_difference("curved")
    missed = {"sequence": 0, "pointwise": 0, "slide": 0}
    for _ in range(repetitions):
        a, b = oracle_nuisances(simulate(n, rng=rng))
        influence = influence_values(a) - influence_values(b)
        sequence = confidence_sequence(influence, start=start)
        ends = {
            "sequence": (sequence.lower, sequence.upper),
            "pointwise": pointwise_interval(influence, start),
            "slide": _slide_interval(influence, start),
        }
        for name, (low, high) in ends.items():
            missed[name] += bool(((low > truth) | (high < truth)).any())
    return missed | {"streams": repetitions}


def rules_table(quantiles: Sequence[float], *, rng: np.random.Generator | int) -> pd.DataFrame:
    """Classifiers that abstain below a threshold of their own confidence, with the truth beside."""
    rng, rows = np.random.default_rng(rng), []
    for name in ("digits", "breast_cancer", "wine"):
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        train, test = np.array_split(rng.permutation(len(y)), 2)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        p = model.fit(x[train], y[train]).predict_proba(x[test])
        sure, s = p.max(axis=1), (p.argmax(axis=1) == y[test]).astype(float)
        for quantile in quantiles:
            r = sure <= np.quantile(sure, quantile)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PositivityWarning)
                found = counterfactual_score(x[test], s, r, learner="linear", folds=5, rng=rng)
            _, (reason,) = without_overlap(r, {"confidence": sure})
            bounds = mean_bounds(np.where(r, 0.0, s), np.where(r, 1.0, s), found.level)
            rows.append((name, r.mean(), s.mean(), *found.interval, reason, *bounds.interval))
    return pd.DataFrame(
        rows,
        columns=["data", "abstained", "truth", "low", "high", "seen", "bound low", "bound high"],
    )
