"""Abstaining classifiers of real images, whose true counterfactual scores are known.

The labels of all images are known, so abstention hides nothing from us: the oracle difference of
two classifiers is the mean difference of their scores on the points that the estimate comes from.
As in P4 the classifiers are output layers on the features of a network that other images trained;
digits are so small that their pixels are the features.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib import data
from lib.counterfactual.diagnostics import PositivityWarning
from lib.counterfactual.estimate import counterfactual_difference, estimate_from_nuisances
from lib.counterfactual.scores import abstain, score
from lib.runs import Checkpoint, Outcome, StoredRun, fingerprint, run_all
from lib.training import TrainingData
from lib.training.predict import features_of, trained_plainly

Array = npt.NDArray[np.float64]
_COMPONENTS = 64  # of the pixels, where a classifier of larger images sees these


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


def scenarios_of(dataset: str, pair: bool) -> tuple[Scenario, ...]:
    """P4's scenarios, or those of its negative example ("cats vs dogs"), named "pair".

    IV is ours: the second classifier has few labels.  So it has in III on digits, which need no
    network.
    """
    end, thresholds = (", pair", (0.6, 0.65)) if pair else ("", (0.8, 0.5))
    others = {"III": "few labels"}
    if dataset != "digits":
        others = {"III": "pixels"} if pair else {"III": "two layers", "IV": "few labels"}
    return (
        Scenario(f"I{end}", *["one layer"] * 2, *(Rule(threshold=value) for value in thresholds)),
        Scenario(f"II{end}", *["one layer"] * 2, Rule(), Rule("gini")),
        *(
            Scenario(f"{name}{end}", "one layer", other, Rule(), Rule())
            for name, other in others.items()
        ),
    )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Points with all that an oracle knows."""

    X: Array  # shape (n, d): what the evaluator sees
    labels: npt.NDArray[np.int64]
    probabilities: dict[str, Array] = field(repr=False)  # of each base classifier, shape (n, C)


@dataclass(frozen=True)
class Sizes:
    """How many images there are for what."""

    train: int  # From which output layers learn
    n: int  # On which they are compared, at most
    public: int = 0  # From which the network learned before
    epochs: float = 0.0  # Its passes over them


def image_evaluation(name: str, pair: bool, sizes: Sizes, seed: int) -> Evaluation:
    """Train classifiers on images, and let them predict others."""
    classes = (11, 35) if name == "cifar100" else (3, 5)
    parts, public = _draw(name, classes if pair else (), sizes, seed)
    (x_train, y_train), (x_test, y_test) = parts
    missing = np.setdiff1d(classes if pair else np.unique(y_test), y_train)
    if len(missing):
        raise ValueError(
            f"train must be large enough for every class, got {sizes.train}: none of "
            f"{', '.join(map(str, missing))} is among {len(y_train)} images"
        )
    if len(y_test) < 20:
        raise ValueError(
            f"n must be large enough for 20 images of the classes, got {sizes.n}: "
            f"{len(y_test)} images"
        )
    names = np.unique(y_train)
    y_train, y_test = (np.searchsorted(names, part).astype(np.int64) for part in (y_train, y_test))
    seen = [x_train, x_test]
    if name != "digits":
        network = _pretrained(name, _content(name), public, sizes.epochs, seed)
        seen = [features_of(network, part).astype(float) for part in seen]
    others = {scenario.base_b for scenario in scenarios_of(name, pair)}
    probabilities = {"one layer": _one_layer(seen[0], y_train, seen[1])}
    if "few labels" in others:
        few = _few(y_train)
        probabilities["few labels"] = _one_layer(seen[0][few], y_train[few], seen[1])
    if "two layers" in others:
        probabilities["two layers"] = _two_layers(seen[0], y_train, seen[1], seed)
    if "pixels" in others:
        parts = _components(*(part.reshape(len(part), -1) for part in (x_train, x_test)))
        probabilities["pixels"] = _one_layer(parts[0], y_train, parts[1])
        # Scores are missing at random given all that either of the classifiers sees.
        seen[1] = np.hstack([seen[1], parts[1]])
    return Evaluation(seen[1], y_test, probabilities)


def _draw(name: str, only: Sequence[int], sizes: Sizes, seed: int):
    """Inputs and labels to learn from and to predict, and the rows that train the network."""
    rng = np.random.default_rng(seed)
    if name == "digits":
        digits = data.load_digits()
        order = rng.permutation(len(digits.labels))
        x = digits.images.reshape(len(order), -1)
        chosen = {"train": order[: sizes.train], "test": order[sizes.train :][: sizes.n]}
        chosen = {split: _of_classes(digits.labels, rows, only) for split, rows in chosen.items()}
        return [(x[rows], digits.labels[rows]) for rows in chosen.values()], ()
    parts = {split: data.load_images(name, split) for split in ("train", "test")}
    order = {split: rng.permutation(len(part.labels)) for split, part in parts.items()}
    public, order["train"] = np.split(order["train"], [sizes.public])
    found = []
    for split, count in (("train", sizes.train), ("test", sizes.n)):
        labels = np.asarray(parts[split].labels)
        rows = _of_classes(labels, order[split], only)[:count]
        found.append((parts[split].as_float(rows), labels[rows]))
    return found, tuple(public.tolist())


def _of_classes(labels: np.ndarray, rows: np.ndarray, only: Sequence[int]) -> np.ndarray:
    return rows[np.isin(labels[rows], only)] if only else rows


def _few(labels: np.ndarray) -> npt.NDArray[np.intp]:
    """A twentieth of the rows, at least 20, drawn class by class: each must be there."""
    count = max(20, len(labels) // 20)
    return np.concatenate(
        [
            np.flatnonzero(labels == c)[: max(2, round(count * np.mean(labels == c)))]
            for c in np.unique(labels)
        ]
    )


@lru_cache(maxsize=1)
def _pretrained(name: str, content: str, public: tuple[int, ...], epochs: float, seed: int) -> Any:
    """The small CNN, trained without privacy on images that are used for nothing else."""
    images = data.load_images(name, "train")
    x, labels = images.as_float(public), np.asarray(images.labels)[list(public)]
    training = TrainingData(x, labels, len(images.names))
    return trained_plainly(training, x[:1], epochs=epochs, seed=seed)


def _one_layer(x: Array, labels: np.ndarray, points: Array) -> Array:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000, tol=1e-8))
    return model.fit(x, labels).predict_proba(points)


def _components(x: Array, points: Array) -> tuple[Array, Array]:
    """Principal components of training images, and those of others."""
    solver = PCA(min(_COMPONENTS, len(x) - 1), svd_solver="arpack", whiten=True, random_state=0)
    reduce = make_pipeline(StandardScaler(), solver).fit(x.astype(float))
    return reduce.transform(x.astype(float)), reduce.transform(points.astype(float))


def _two_layers(x: Array, labels: np.ndarray, points: Array, seed: int) -> Array:
    """The same with a layer of 64 units before, in 20 passes."""
    scale = StandardScaler().fit(x)
    x, points = (scale.transform(part).astype(np.float32) for part in (x, points))
    training = TrainingData(x, labels, labels.max() + 1)
    made = trained_plainly(training, points, epochs=20, seed=seed, model="mlp")
    return special.softmax(made.logits.astype(float), axis=1)


def _content(name: str) -> str:
    """Checksums of the image files."""
    if name == "digits":
        return name
    return fingerprint([data.registry()[file].sha256 for file in data.image_files(name)])


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

    dataset: str
    pair: bool
    learner: str  # "linear", "forest" or "super"
    sizes: Sizes
    draws: int
    seed: int

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Those of P4's main table, or of its negative example."""
        return scenarios_of(self.dataset, self.pair)

    def data_fingerprint(self) -> str:
        """Checksums of the image files."""
        return _content(self.dataset)

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train the classifiers once, then compare them `draws` times in each scenario."""
        evaluation = _evaluation(
            self.data_fingerprint(), self.dataset, self.pair, self.sizes, self.seed
        )
        wanted = max(rule.threshold or 0 for s in self.scenarios for rule in (s.rule_a, s.rule_b))
        surest = evaluation.probabilities["one layer"].max()
        if surest < wanted:
            raise ValueError(
                f"epochs must be enough for a confidence of {wanted:g}, got {self.sizes.epochs:g}: "
                f"the largest is {surest:.2f}"
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
    datasets: Mapping[str, Sizes], draws: Mapping[str, int], seed: int
) -> list[tuple[ScenarioRuns, StoredRun]]:
    """Run all scenarios."""
    jobs = [
        ScenarioRuns(name, pair, learner, sizes, count, seed)
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
