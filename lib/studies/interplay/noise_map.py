"""Where does SCTD win? P1's ranking over the noise that training adds to the parameters."""

import math
from collections.abc import Iterator, Sequence
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
from lib.studies.default_problem import default_problem
from lib.training import CrossEntropy, DataSpec, ManyTrainings, ModelSpec, TrainingConfig
from lib.training.models import parameter_count

#: Parts of the checkpoints, the last ones, over which models are averaged.
PARTS = (0.1, 0.25, 0.5)

_FORMS = {"equation": "SCTD", "algorithm": "SCTD (Algorithm 1)"}


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


def run_map(settings: MapSettings, executor: Any = None) -> pd.DataFrame:
    """Train what is not stored yet, and score everything.

    Returns
    -------
    DataFrame
        A row for each model and way to score it: ``batch``, ``clipping norm``, ``momentum``,
        ``epochs``, ``steps``, ``epsilon``, ``rate``, ``seed``; ``move`` as set, and ``noise``,
        the expected norm of what one step's noise moves the parameters by in the end; ``method``,
        ``accuracy`` at full coverage, ``score`` (normalized, smaller is better), and ``area``
        under the accuracy-coverage curve.  Of SCTD also ``k``, ``checkpoints`` and ``tied``, the
        fraction of points in the largest group of equal scores.
    """
    jobs = settings.jobs()
    runs = run_all(list(jobs.values()), executor)
    rows: list[dict[str, Any]] = []
    for ((regime, epsilon, seed), job), run in zip(jobs.items(), runs, strict=True):
        for i, move in enumerate(settings.moves):
            config = job.configs[i]
            entry = PrivacyLedger.from_dict(run.privacy["models"][i]["ledger"]).entries[0]
            where = {
                "batch": regime.batch_size,
                "clipping norm": regime.clipping_norm,
                "momentum": regime.momentum,
                "epochs": regime.epochs,
                "steps": config.steps,
                "epsilon": epsilon,
                "rate": config.learning_rate,
                "seed": seed,
                "move": move,
                "noise": move * entry.noise_multiplier * math.sqrt(parameter_count(settings.model)),
            }
            rows += [where | found for found in _scored(run, i)]
    return pd.DataFrame(rows)


def _scored(run: StoredRun, model: int) -> Iterator[dict[str, Any]]:
    """All ways to score one model."""
    arrays = run.arrays
    labels, history = arrays["labels"], arrays["checkpoints"][model]
    p = special.softmax(arrays["logits"][model], axis=-1)
    yield _row("SR", p, labels)
    response = scores.softmax_response(p)
    for form, name in _FORMS.items():
        for k in (1.0, 3.0, 9.0):
            for spacing in (1, 2, 4):
                watched = history[::-1][::spacing][::-1]  # the final model stays the last
                extra = {"k": k, "checkpoints": len(watched)}
                score = scores.sctd(watched, k, form)
                extra["tied"] = np.unique(score, return_counts=True)[1].max() / len(score)
                yield _row(name, p, labels, score) | extra
                broken = scores.ties_broken_by(score, response)
                yield _row(f"{name}, ties by SR", p, labels, broken) | extra
    for place, part in enumerate(PARTS):
        logits = arrays["of_parameters"][model, place]
        yield _row(f"SR, parameters of the last {part:.0%}", special.softmax(logits, -1), labels)
        mean = arrays["of_probabilities"][model, place]
        yield _row(f"SR, probabilities of the last {part:.0%}", mean, labels)


def _row(
    method: str, p: npt.NDArray, labels: npt.NDArray, score: npt.NDArray | None = None
) -> dict[str, Any]:
    correct = p.argmax(-1) == labels
    score = scores.softmax_response(p) if score is None else score
    return {
        "method": method,
        "accuracy": correct.mean(),
        "score": areas.normalized_score(correct, score),
        "area": areas.selective_auc(correct, score),
    }
