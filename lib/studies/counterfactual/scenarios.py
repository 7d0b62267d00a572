"""Abstaining classifiers of real images, whose true counterfactual scores are known.

The labels of all images are known, so abstention hides nothing from us: the oracle difference of
two classifiers is the mean difference of their scores on the points that the estimate comes from.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib import data
from lib.counterfactual.diagnostics import PositivityWarning
from lib.counterfactual.estimate import counterfactual_difference, estimate_from_nuisances
from lib.counterfactual.scores import abstain, score
from lib.data.features import fit_patches, patch_features
from lib.runs import Checkpoint, Outcome, StoredRun, fingerprint, run_all

Array = npt.NDArray[np.float64]
_COMPONENTS = 64  # of the evaluator's and the classifiers' features, for larger images
_FILTERS = 128


@dataclass(frozen=True)
class Rule:
    """How a classifier abstains."""

    measure: str = "softmax-response"  # Of confidence; or "gini"
    # It abstains below; None: with probability 1 - confidence, clipped to [epsilon, 1 - epsilon]
    threshold: float | None = None

    def __str__(self) -> str:
        name = {"softmax-response": "SR", "gini": "Gini"}[self.measure]
        return f"{name}, stochastic" if self.threshold is None else f"{name} < {self.threshold:g}"


@dataclass(frozen=True)
class Scenario:
    """Two abstaining classifiers: keys of :attr:`Evaluation.probabilities`, and their rules."""

    name: str  # As in P4
    base_a: str
    base_b: str
    rule_a: Rule
    rule_b: Rule


#: P4's scenarios, and those of its negative example ("cats vs dogs"), named "pair".
SCENARIOS = (
    Scenario("I", "linear", "linear", Rule(threshold=0.8), Rule(threshold=0.5)),
    Scenario("II", "linear", "linear", Rule(), Rule("gini")),
    Scenario("III", "linear", "few labels", Rule(), Rule()),
    Scenario("I, pair", "pair", "pair", Rule(threshold=0.6), Rule(threshold=0.65)),
    Scenario("II, pair", "pair", "pair", Rule(), Rule("gini")),
    Scenario("III, pair", "pair", "pair, few labels", Rule(), Rule()),
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Points with all that an oracle knows."""

    X: Array  # shape (n, d): what the evaluator sees
    labels: npt.NDArray[np.int64]
    probabilities: dict[str, Array] = field(repr=False)  # of each base classifier, shape (n, C)


def _digits(train: int, n: int, rng: np.random.Generator):
    """Features and labels to learn from and to predict."""
    digits = data.load_digits()
    order = rng.permutation(len(digits.labels))
    x, labels = digits.images.reshape(len(order), -1), digits.labels
    rows, asked = order[:train], order[train : train + n]
    return x[rows], labels[rows], x[asked], labels[asked]


def _images(name: str, only: Sequence[int], train: int, n: int, seed: int, rng):
    """The same of larger images, of some classes only where these are given."""
    parts = {split: data.load_images(name, split) for split in ("train", "test")}
    chosen = {split: rng.permutation(len(part.labels)) for split, part in parts.items()}
    if only:
        chosen = {
            split: rows[np.isin(parts[split].labels[rows], only)] for split, rows in chosen.items()
        }
    rows, asked = chosen["train"][:train], chosen["test"][:n]
    train_images, test_images = (
        np.moveaxis(parts[split].images[r], -1, 1).astype(np.float32) / 255
        for split, r in (("train", rows), ("test", asked))
    )
    filters = fit_patches(train_images, n_filters=_FILTERS, seed=seed)
    maps = [
        patch_features(images, filters).reshape(len(images), -1).astype(float)
        for images in (train_images, test_images)
    ]
    reduce = make_pipeline(StandardScaler(), PCA(_COMPONENTS, svd_solver="full", whiten=True))
    reduce.fit(maps[0])
    labels = parts["train"].labels[rows], parts["test"].labels[asked]
    return reduce.transform(maps[0]), labels[0], reduce.transform(maps[1]), labels[1]


def image_evaluation(name: str, pair: bool, train: int, n: int, seed: int) -> Evaluation:
    """Train classifiers on images, and let them predict others."""
    rng = np.random.default_rng(seed)
    classes = (11, 35) if name == "cifar100" else (3, 5)
    if name == "digits":
        made = _digits(train, n, rng)
    else:
        made = _images(name, classes if pair else (), train, n, seed, rng)
    x_train, y_train, x_test, y_test = made
    if pair:
        keep, kept = np.isin(y_train, classes), np.isin(y_test, classes)
        x_train, y_train, x_test, y_test = x_train[keep], y_train[keep], x_test[kept], y_test[kept]
    missing = np.setdiff1d(classes if pair else np.unique(y_test), y_train)
    if len(missing):
        raise ValueError(
            f"train must be large enough for every class, got {train}: none of "
            f"{', '.join(map(str, missing))} is among {len(y_train)} images"
        )
    if len(y_test) < 20:
        raise ValueError(
            f"n must be large enough for 20 images of the classes, got {n}: {len(y_test)} images"
        )
    y_train, y_test = (
        np.searchsorted(np.unique(y_train), part).astype(np.int64) for part in (y_train, y_test)
    )
    few = max(20, len(y_train) // 20)
    names = ("pair", "pair, few labels") if pair else ("linear", "few labels")
    probabilities = {}
    for base, count in zip(names, (len(y_train), few), strict=True):
        # The few are drawn class by class: each must be there.
        subset = np.concatenate(
            [
                np.flatnonzero(y_train == c)[: max(2, round(count * np.mean(y_train == c)))]
                for c in np.unique(y_train)
            ]
        )
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000, tol=1e-8))
        model.fit(x_train[subset], y_train[subset])
        probabilities[base] = model.predict_proba(x_test)
    return Evaluation(x_test, y_test, probabilities)


@lru_cache(maxsize=1)
def _evaluation(content: str, *settings: Any) -> Evaluation:
    """The evaluation of one job is that of the next, with another learner."""
    return image_evaluation(*settings)


def run_scenario(
    evaluation: Evaluation,
    scenario: Scenario,
    learner: Any,
    *,
    rule: str = "brier",
    epsilon: float = 0.2,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Draw the abstentions of two classifiers and compare them, with the truth beside."""
    scores, abstained, propensities = [], [], []
    bounds = (epsilon, 1 - epsilon)
    rules = (scenario.rule_a, scenario.rule_b)
    for base, how in zip((scenario.base_a, scenario.base_b), rules, strict=True):
        probabilities = evaluation.probabilities[base]
        scores.append(score(rule, probabilities, evaluation.labels))
        drawn = abstain(probabilities, how.measure, threshold=how.threshold, bounds=bounds, rng=rng)
        abstained.append(drawn[0])
        propensities.append(drawn[1])
    pair = [part for one in zip(scores, abstained, strict=True) for part in one]
    options = {"learner": learner, "clip": epsilon, "rng": rng}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = counterfactual_difference(evaluation.X, *pair, **options)
    for other in caught:
        if not issubclass(other.category, PositivityWarning):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    seen = [s[~r].mean() for s, r in zip(scores, abstained, strict=True)]
    oracle = float(scores[0].mean() - scores[1].mean())
    low, high = found.interval
    known = dict.fromkeys(("value", "low", "high", "covers"), np.nan)
    if all(how.threshold is None for how in rules):
        exact = estimate_from_nuisances(
            [replace(n, propensity=p) for n, p in zip(found.nuisances, propensities, strict=True)],
            clip=epsilon,
        )
        known = {"value": exact.value, "low": exact.interval[0], "high": exact.interval[1]}
        known["covers"] = known["low"] <= oracle <= known["high"]
    return {
        "selective": float(seen[0] - seen[1]),
        "coverage_a": float((~abstained[0]).mean()),
        "coverage_b": float((~abstained[1]).mean()),
        "oracle": oracle,
        "value": found.value,
        "stderr": found.stderr,
        "low": low,
        "high": high,
        "rejects": not low <= 0 <= high,
        "covers": low <= oracle <= high,
        "warned": any(issubclass(w.category, PositivityWarning) for w in caught),
        **{f"known_{key}": value for key, value in known.items()},
    }


@dataclass(frozen=True)
class ScenarioRuns:
    """Scenarios on real images, drawn several times: abstentions, folds and learners anew.

    A job of :mod:`lib.runs`.
    """

    dataset: str  # As for :func:`image_evaluation`; `pair` chooses among :data:`SCENARIOS`, too
    pair: bool
    learner: str  # "linear", "forest" or "super"
    train: int
    n: int
    draws: int
    seed: int

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Those of P4's main table, or of its negative example."""
        return tuple(one for one in SCENARIOS if one.base_a.startswith("pair") == self.pair)

    def data_fingerprint(self) -> str:
        """Checksums of the image files."""
        if self.dataset == "digits":
            return "digits"
        files = data.image_files(self.dataset)
        return fingerprint([data.registry()[name].sha256 for name in files])

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train the classifiers once, then compare them `draws` times in each scenario."""
        evaluation = _evaluation(
            self.data_fingerprint(), self.dataset, self.pair, self.train, self.n, self.seed
        )
        found = [
            [
                run_scenario(
                    evaluation, scenario, self.learner, rng=np.random.default_rng([self.seed, k])
                )
                for k in range(self.draws)
            ]
            for scenario in self.scenarios
        ]
        arrays = {
            key: np.array([[one[key] for one in group] for group in found], dtype=float)
            for key in found[0][0]
        }
        accuracy = {
            base: float((p.argmax(axis=1) == evaluation.labels).mean())
            for base, p in evaluation.probabilities.items()
        }
        return Outcome(arrays, {"points": len(evaluation.labels), "accuracy": accuracy})


def scenario_runs(
    datasets: Mapping[str, tuple[int, int]], draws: Mapping[str, int], seed: int
) -> list[tuple[ScenarioRuns, StoredRun]]:
    """Run all scenarios."""
    jobs = [
        ScenarioRuns(name, pair, learner, *sizes, count, seed)
        for name, sizes in datasets.items()
        for pair in (False, True)
        for learner, count in draws.items()
        if count
    ]
    return list(zip(jobs, run_all(jobs), strict=True))


def scenario_table(runs: Sequence[tuple[ScenarioRuns, StoredRun]]) -> pd.DataFrame:
    """The first draw of each scenario, as P4's table shows one."""
    numbers = {
        "coverage A": "coverage_a",
        "coverage B": "coverage_b",
        "selective difference": "selective",
        "true difference": "oracle",
        "low": "low",
        "high": "high",
    }
    flags = {"rejects 0": "rejects", "covers truth": "covers", "warned": "warned"}
    return pd.DataFrame(
        _labels(job, run, scenario)
        | {title: run.arrays[key][k, 0] for title, key in numbers.items()}
        | {title: "yes" if run.arrays[key][k, 0] else "no" for title, key in flags.items()}
        for job, run in runs
        for k, scenario in enumerate(job.scenarios)
    )


def draws_table(runs: Sequence[tuple[ScenarioRuns, StoredRun]]) -> pd.DataFrame:
    """All draws of each scenario: how often the interval misses the truth."""
    rows = []
    for job, run in runs:
        arrays = run.arrays
        for k, scenario in enumerate(job.scenarios):
            known = arrays["known_covers"][k]
            rows.append(
                _labels(job, run, scenario)
                | {
                    "draws": job.draws,
                    "missed": int((arrays["covers"][k] == 0).sum()),
                    "missed, known": np.nan if np.isnan(known).any() else float((known == 0).sum()),
                    "rejected": int(arrays["rejects"][k].sum()),
                    "warned": int(arrays["warned"][k].sum()),
                    "mean error": float((arrays["value"][k] - arrays["oracle"][k]).mean()),
                    "mean width": float((arrays["high"][k] - arrays["low"][k]).mean()),
                }
            )
    return pd.DataFrame(rows)


def _labels(job: ScenarioRuns, run: StoredRun, scenario: Scenario) -> dict[str, Any]:
    return {
        "data": job.dataset,
        "scenario": scenario.name,
        "A": f"{scenario.base_a}: {scenario.rule_a}",
        "B": f"{scenario.base_b}: {scenario.rule_b}",
        "learner": job.learner,
        "points": run.metrics["points"],
    }
