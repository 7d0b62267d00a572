"""Where does SCTD win? P1's ranking over the noise that training adds to the parameters."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from lib.check import require_finite, require_int
from lib.data.images import load_images
from lib.privacy import PrivacyLedger
from lib.runs import StoredRun, run_all
from lib.selective import areas, scores
from lib.selective.uncertainty import compare, compare_over_seeds
from lib.studies.default_problem import default_problem
from lib.training import CrossEntropy, DataSpec, ManyTrainings, ModelSpec, TrainingConfig
from lib.training.models import parameter_count

#: Parts of the checkpoints, the last ones, over which models are averaged.
PARTS = (0.1, 0.25, 0.5)

#: Names of SCTD's two formulas.
FORMS = {"equation": "SCTD", "algorithm": "SCTD (Algorithm 1)"}

#: Weightings k, and every how many-th checkpoint is watched: P1's k with all of them first.
VARIANTS = ((3.0, 1), (1.0, 1), (9.0, 1), (3.0, 2), (3.0, 4))


@dataclass(frozen=True)
class Regime:
    """How models are trained, but for the learning rate.

    Attributes
    ----------
    batch_size, clipping_norm, momentum
        As :class:`lib.training.TrainingConfig` has them.
    epochs : int
        Passes over the data, in expectation.
    seeds : int
        Repetitions, at most 99.
    """

    batch_size: int
    clipping_norm: float
    momentum: float
    epochs: int
    seeds: int

    def __post_init__(self):
        require_int("epochs", self.epochs, at_least=1)
        require_int("seeds", self.seeds, at_least=1, at_most=99)


@dataclass(frozen=True)
class MapSettings:
    """What the map trains: every regime at every budget and step.

    Attributes
    ----------
    data : DataSpec
        Its data.
    model : ModelSpec
        The network.
    regimes : tuple of Regime
        At most 9.
    moves : tuple of float
        How far the clipped gradient of one example moves the parameters in the end: the learning
        rate times the clipping norm, over the batch size and 1 - momentum. At most 99.
    epsilons : tuple of float
        Budgets, at most 9.
    checkpoints : int
        Intermediate models that are looked at, evenly spaced, the last one included.
    entropy : float
        Weight of the entropy regularization; P1's 0.01.
    device : str
        As PyTorch names it.
    """

    data: DataSpec
    model: ModelSpec
    regimes: tuple[Regime, ...]
    moves: tuple[float, ...]
    epsilons: tuple[float, ...] = (7.0, 3.0, 1.0)
    checkpoints: int = 40
    entropy: float = 0.01
    device: str = "cpu"

    def __post_init__(self):
        for name, most in (("regimes", 9), ("moves", 99), ("epsilons", 9)):
            if not 1 <= len(getattr(self, name)) <= most:  # seeds of more would meet
                raise ValueError(
                    f"{name} must be 1 to {most}, got {len(getattr(self, name))} of them"
                )
        for move in self.moves:
            require_finite("moves", move, above=0)
        require_int("checkpoints", self.checkpoints, at_least=2)

    def configs(self, regime: Regime, epsilon: float, seed: int) -> tuple[TrainingConfig, ...]:
        """One training for each step: the same regime, budget and repetition."""
        steps = max(1, round(regime.epochs * self.data.train / regime.batch_size))
        base = TrainingConfig(
            self.model,
            CrossEntropy(self.entropy),
            epsilon=epsilon,
            clipping_norm=regime.clipping_norm,
            batch_size=regime.batch_size,
            steps=steps,
            momentum=regime.momentum,
            checkpoint_every=math.ceil(steps / self.checkpoints),
            keep="weights",
            device=self.device,
            grad_sample_mode="taps",
        )
        place = 10 * self.regimes.index(regime) + self.epsilons.index(epsilon)
        scale = regime.batch_size * (1 - regime.momentum) / regime.clipping_norm
        return tuple(
            replace(base, learning_rate=move * scale, seed=10_000 * place + 100 * i + seed)
            for i, move in enumerate(self.moves)
        )

    def jobs(self) -> dict[tuple[Regime, float, int], ManyTrainings]:
        """All trainings, the first repetition of everything first."""
        most = max(regime.seeds for regime in self.regimes)
        return {
            (regime, epsilon, seed): ManyTrainings(
                self.configs(regime, epsilon, seed), self.data, chunk=1, averages=PARTS
            )
            for seed in range(most)
            for regime in self.regimes
            for epsilon in self.epsilons
            if seed < regime.seeds
        }


def settings_for(
    dataset: str, model: str, regimes: Sequence[Regime], hidden: int = 32, **options: Any
) -> MapSettings:
    """The map on all of a data set of the book, with a model that suits it."""
    sizes = {"train": 1200, "test": 597}
    if dataset != "digits":
        sizes = {split: len(load_images(dataset, split).labels) for split in ("train", "test")}
    data, spec = default_problem(dataset, model, validation=0, hidden=hidden, **sizes)
    return MapSettings(data, spec, tuple(regimes), **options)


@dataclass(frozen=True, eq=False)
class NoiseMap:
    """What the map shows.

    Attributes
    ----------
    models : DataFrame
        A row for each model and way to score it: ``batch``, ``clipping norm``, ``momentum``,
        ``epochs``, ``epsilon``, ``rate``, ``noise multiplier``; ``noise``, the expected norm of
        what one step's noise moves the parameters by in the end; ``seed``, ``method``, ``accuracy``
        at full coverage, ``score`` (normalized, smaller is better) and ``area`` under the
        accuracy-coverage curve. Of SCTD also ``k``, ``checkpoints`` and ``tied``, the fraction of
        points in the largest group of equal scores.
    cells : DataFrame
        A row for each setting and method but softmax response: ``difference`` of its normalized
        score from that of softmax response (negative: it abstains better), mean over the seeds,
        with the interval from ``low`` to ``high`` at 95%, over trainings and points, of points
        alone where there is one training.
    """

    models: pd.DataFrame
    cells: pd.DataFrame


def run_map(settings: MapSettings, executor: Any = None) -> NoiseMap:
    """Train what is not stored yet, and score everything."""
    jobs = settings.jobs()
    runs = dict(zip(jobs, run_all(list(jobs.values()), executor), strict=True))
    models: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []
    root = math.sqrt(parameter_count(settings.model))
    for regime in settings.regimes:
        for epsilon in settings.epsilons:
            mine = [runs[regime, epsilon, seed] for seed in range(regime.seeds)]
            for i, move in enumerate(settings.moves):
                found = [dict(_ranked(run, i)) for run in mine]
                entry = PrivacyLedger.from_dict(mine[0].privacy["models"][i]["ledger"]).entries[0]
                where = {
                    "batch": regime.batch_size,
                    "clipping norm": regime.clipping_norm,
                    "momentum": regime.momentum,
                    "epochs": regime.epochs,
                    "epsilon": epsilon,
                    "rate": jobs[regime, epsilon, 0].configs[i].learning_rate,
                    "noise multiplier": entry.noise_multiplier,
                    "noise": move * entry.noise_multiplier * root,
                }
                models += [
                    where | {"seed": seed} | _areas(method, *each)
                    for seed, one in enumerate(found)
                    for method, each in one.items()
                ]
                cells += [where | row for row in _against_response(found)]
    return NoiseMap(pd.DataFrame(models), pd.DataFrame(cells))


#: A way to score a model, and for SCTD k and the number of checkpoints.
Method = tuple[str, float | None, int | None]
Ranking = tuple[npt.NDArray[np.bool_], npt.NDArray[np.floating]]
_RESPONSE: Method = ("SR", None, None)


def _ranked(run: StoredRun, model: int) -> Iterator[tuple[Method, Ranking]]:
    """What is right and how it is ranked, for all ways to score one model."""
    arrays = run.arrays
    labels, history = arrays["labels"], arrays["checkpoints"][model]
    p = special.softmax(arrays["logits"][model], axis=-1)
    correct, response = p.argmax(-1) == labels, scores.softmax_response(p)
    yield _RESPONSE, (correct, response)
    for form, name in FORMS.items():
        for k, spacing in VARIANTS:
            watched = history[::-1][::spacing][::-1]  # the final model stays the last
            score = scores.sctd(watched, k, form)
            yield (name, k, len(watched)), (correct, score)
            broken = scores.ties_broken_by(score, response)
            yield (f"{name}, ties by SR", k, len(watched)), (correct, broken)
    for place, part in enumerate(PARTS):
        of_parameters = special.softmax(arrays["of_parameters"][model, place], axis=-1)
        for what, mean in (
            ("parameters", of_parameters),
            ("probabilities", arrays["of_probabilities"][model, place]),
        ):
            ranked = mean.argmax(-1) == labels, scores.softmax_response(mean)
            yield (f"SR, {what} of the last {part:.0%}", None, None), ranked


def _areas(method: Method, correct: npt.NDArray, score: npt.NDArray) -> dict[str, Any]:
    name, k, checkpoints = method
    tied = np.unique(score, return_counts=True)[1].max() / len(score)
    return {
        "method": name,
        "k": k,
        "checkpoints": checkpoints,
        "tied": tied if k else None,
        "accuracy": correct.mean(),
        "score": areas.normalized_score(correct, score),
        "area": areas.selective_auc(correct, score),
    }


def _against_response(found: Sequence[Mapping[Method, Ranking]]) -> Iterator[dict[str, Any]]:
    """Differences from softmax response, for P1's k and all checkpoints."""
    most = max(method[2] or 0 for method in found[0])
    for method in found[0]:
        name, k, checkpoints = method
        if method == _RESPONSE or (k, checkpoints) not in ((None, None), (3.0, most)):
            continue
        first, second = ([one[m] for one in found] for m in (method, _RESPONSE))
        if len(found) > 1:
            stacks = [
                np.stack(part) for pairs in (first, second) for part in zip(*pairs, strict=True)
            ]
            mean = compare_over_seeds(*stacks)
            value, (low, high) = mean.value, mean.interval()
        else:
            one = compare(*first[0], *second[0])
            value, low, high = one.value, one.low, one.high
        yield {
            "method": name,
            "seeds": len(found),
            "accuracy": np.mean([correct.mean() for correct, _ in first]),
            "difference": value,
            "low": low,
            "high": high,
        }
