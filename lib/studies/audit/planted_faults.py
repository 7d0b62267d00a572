"""Faults planted in the engine, and which audits find them.

Each fault is planted into the optimizer or the sampler of :mod:`lib.training.single`, whose
canaries, scores and claims stay what they are.  No audit of one's own training finds what happens
outside of it: a choice of hyper-parameters on the private data, a statistic of these that is
released beside the model, an accountant that is wrong for the very mechanism that is claimed, or a
fault that no canary's direction, coin or step meets. Where the mean over a batch is clipped, very
many canaries in it bound each other, and look as if each had been clipped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from lib.audit.attacks import fit_models, log_ratio
from lib.audit.gaussian import gaussian_lower_bound
from lib.audit.one_run import FRACTIONS, best_one_run, fixed_guesses, one_run_epsilon
from lib.audit.selection import held_out_lower_bound
from lib.audit.white_box import CanaryScores, GradientCanaries, statements, step_audit
from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.runs import Checkpoint, Outcome, run_all
from lib.training import DataSpec, ModelSpec, TrainingConfig, TrainingData, confidence, plan
from lib.training.canaries import CanarySession
from lib.training.jobs import OnData
from lib.training.models import parameter_count
from lib.training.randomness import PoissonSampler
from lib.training.single import Trainer
from lib.training.torch_settings import _threads, settings

#: What can be wrong, and how a figure calls it.
FAULTS = {
    "none": "nothing wrong",
    "noise 0.9": "0.9 of the noise",
    "noise 0.7": "0.7 of the noise",
    "noise 0.5": "0.5 of the noise",
    "noise 0.05": "0.05 of the noise",
    "unscaled": "noise not scaled",
    "layer": "layer not clipped",
    "batch": "batch clipped",
    "twice": "noise twice",
    "shuffled": "shuffled batches",
    "delta": "another delta",
    "leaked": "leaked coins",
}
#: Audits, and how a figure calls them.
AUDITS = {
    "black box": "outside, many",
    "black box, one run": "outside, one",
    "one run": "no hypothesis",
    "family": "Gaussian",
    "gaussian": "and independent",
    "steps": "single steps",
    "form": "form",
}
_SHADOWS = 256  # the most models of an audit from outside that serve as shadows: more fit no better


@dataclass(frozen=True)
class Problem:
    """A small training that is claimed to be private, and what audits may spend."""

    data: DataSpec = field(default_factory=lambda: DataSpec(train=300, test=100))
    epsilon: float = 3.0  # What is claimed, at `delta`
    delta: float = 1e-5
    wrong_delta: float = 1e-2  # What the noise is for where that is the fault
    hidden: int = 64  # Units of the network's hidden layer
    sample_rate: float = 0.1
    steps: int = 60
    clipping_norm: float = 2.0  # Not 1, so that noise in the wrong unit is wrong
    learning_rate: float = 0.5
    canaries: int = 4000  # Gradient canaries of a run
    records: int = 40  # Mislabeled examples for the black box, each in by a coin of its own
    level: float = 0.95  # Of every bound

    @property
    def model(self) -> ModelSpec:
        """What is trained."""
        return ModelSpec("mlp", (64,), 10, hidden=(self.hidden,))

    @property
    def noise_multiplier(self) -> float:
        """What the claim asks for."""
        return find_noise_multiplier(self.epsilon, self.delta, self.sample_rate, self.steps)

    def epsilon_of(self, rate: float, noise: float, steps: int) -> float:
        """The accountant of the claim."""
        return _spent(rate, noise, steps, self.delta)

    def config(self, fault: str, seed: int) -> TrainingConfig:
        """The training; of all faults only that of delta is in its settings."""
        noise = self.noise_multiplier
        if fault == "delta":
            wrong = self.epsilon, self.wrong_delta
            noise = find_noise_multiplier(*wrong, self.sample_rate, self.steps)
        return TrainingConfig(
            self.model,
            noise_multiplier=noise,
            delta=self.delta,
            sample_rate=self.sample_rate,
            batch_size=round(self.sample_rate * self.data.train),
            clipping_norm=self.clipping_norm,
            steps=self.steps,
            learning_rate=self.learning_rate,
            seed=seed,
        )


@cache
def _spent(rate: float, noise: float, steps: int, delta: float) -> float:
    return PrivacyLedger((SampledGaussian(rate, noise, steps),)).epsilon(delta)


@dataclass(frozen=True)
class InsideOneRun(OnData):
    """White-box audits of some training runs with a fault, each by itself.

    The arrays of the outcome, each with a row a run: ``bounds``, in the order of the last five of
    :data:`AUDITS`; the last is the smaller p-value of the form's two tests, twice.
    """

    problem: Problem
    fault: str
    runs: int
    seed: int = 0
    private = True  # it reads what is not released

    @property
    def data(self) -> DataSpec:
        """What is trained on."""
        return self.problem.data

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train, with canaries, and audit."""
        loaded, problem = self.problem.data.load(), self.problem
        rows = []
        for run in range(self.runs):
            seed = 1_000 * (self.seed + 1) + run
            canaries = GradientCanaries(problem.canaries, seed=seed + 500)
            _, scores = faulty_training(
                problem, self.fault, loaded.training, loaded.evaluation, seed, canaries
            )
            rows.append(shown(problem, scores))
        return Outcome({"bounds": np.array(rows)})


@dataclass(frozen=True)
class FromOutside(OnData):
    """Models with a fault, each with its own half of the mislabeled records.

    The arrays of the outcome: ``confidence`` at the records and ``members``, (models, records).
    """

    problem: Problem
    fault: str
    models: int
    seed: int = 0
    private = True  # it says who was in

    @property
    def data(self) -> DataSpec:
        """What is trained on."""
        return self.problem.data

    def execute(self, checkpoint: Checkpoint) -> Outcome:
        """Train all models, and ask them about the records."""
        loaded, problem = self.problem.data.load(), self.problem
        rng = np.random.default_rng([self.seed, 74])
        n, k = len(loaded.training), problem.records
        extra = loaded.evaluation[:k]
        wrong = (loaded.labels[:k] + rng.integers(1, 10, k)) % 10
        inputs = np.concatenate([loaded.training.inputs, extra])
        everything = TrainingData(inputs, np.r_[loaded.training.targets, wrong], 10)
        members = rng.random((self.models, k)) < 0.5
        found = []
        for model, inside in enumerate(members):
            rows = np.r_[np.arange(n), n + np.flatnonzero(inside)]
            seed = 1_000_000 * (self.seed + 1) + model
            logits, _ = faulty_training(problem, self.fault, everything.subset(rows), extra, seed)
            found.append(confidence(logits, wrong))
        return Outcome({"confidence": np.stack(found), "members": members})


def faulty_training(
    problem: Problem,
    fault: str,
    data: TrainingData,
    points: npt.NDArray[np.float32],
    seed: int,
    canaries: GradientCanaries | None = None,
) -> tuple[npt.NDArray[np.float32], CanaryScores | None]:
    """Logits of a model that was trained with a fault, and what its canaries saw."""
    config = problem.config(fault, seed)
    with settings(config), _threads(config):
        trainer = Trainer(config, data, points, mechanism := plan(config, len(data)))
        _PLANTED.get(fault, lambda trainer: None)(trainer)
        if canaries is not None:
            session = CanarySession(
                canaries,
                parameter_count(config.model),
                clipping_norm=config.clipping_norm,
                noise_multiplier=mechanism.noise_multiplier,
                sample_rate=mechanism.sample_rate,
            )
            records = len(data) + len(session.inside)
            trainer.canaries = session
            trainer.sampler = PoissonSampler(trainer.streams, records, mechanism.sample_rate)
            session.attach(trainer.optimizer, divided_by=config.batch_size)
        if fault == "shuffled":
            records = len(data) + (0 if canaries is None else len(session.inside))
            trainer.sampler = _Shuffled(seed, records, round(1 / mechanism.sample_rate))
        if fault == "leaked" and canaries is not None:
            _leak(trainer, canaries)
        trainer.run(Checkpoint())
        result = trainer.result()
    return result.logits, result.canaries


def shown(problem: Problem, scores: CanaryScores) -> list[float]:
    """What one run shows: bounds of the white-box audits, and the p-value of the form."""
    said = statements(scores, problem.delta, problem.level)
    steps = step_audit(scores.counts, scores.coins, problem.epsilon_of, problem.level)
    form = min(1.0, 2 * min(steps.p_sampling, steps.p_fresh))
    return [said.one_run, said.family, said.gaussian, steps.epsilon, form]


def planted_table(
    problem: Problem,
    faults: tuple[str, ...],
    runs: int,
    models: int,
    *,
    sound_runs: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """How often each audit finds each fault, and what it shows in the median.

    An audit finds a fault where its bound is above the claim; a test of the mechanism's form, where
    its p-value is below one minus the level.  The false alarms are those of the fault ``"none"``,
    of which there may be another number of runs, `sound_runs`.
    """
    counts = {"none": runs if sound_runs is None else sound_runs}
    inside = [InsideOneRun(problem, f, counts.get(f, runs), seed) for f in faults]
    # Without canaries no coin can leak: then that training is sound, and is not run again.
    same = {"leaked": "none"}
    outside = [FromOutside(problem, same.get(f, f), models, seed) for f in faults]
    done, rows = run_all([*inside, *outside]), []
    for k, fault in enumerate(faults):
        white, black = done[k], done[k + len(faults)]
        bounds = dict(zip(list(AUDITS)[2:], np.asarray(white.arrays["bounds"]).T, strict=True))
        seen, most = black_box(problem, black.arrays)
        bounds, most = seen | bounds, {k: float(np.median(v)) for k, v in most.items()}
        for audit, values in bounds.items():
            form = values < 1 - problem.level  # p-values, twice the smaller of two
            hits = form if audit == "form" else values > problem.epsilon
            rows.append(
                {
                    "fault": fault,
                    "audit": audit,
                    "found": float(np.mean(hits)),
                    "shown": float(np.median(values)),
                    "audits": len(values),
                    "needs": _needs(problem, audit, models),
                    "could show": most.get(audit, _ceiling(problem, audit)),
                }
            )
    return pd.DataFrame(rows)


Bounds = dict[str, npt.NDArray[np.float64]]


def black_box(problem: Problem, arrays: Any) -> tuple[Bounds, Bounds]:
    """Bounds from final models alone, of many models and of single ones.

    Half of the models, at most 256, are shadows.  An audit of many asks each of the others about
    one record, a threshold from half of them; there are as many audits as records, of the same
    models but with other questions.  An audit of one asks it about all its records.

    Returns
    -------
    shown, could_show : dict of ndarray
        A bound an audit, and that of scores which tell all coins.
    """
    values, members = np.asarray(arrays["confidence"], float), np.asarray(arrays["members"])
    first = _shadows(len(values))
    ratios = log_ratio(values[first:], *fit_models(values[:first], members[:first]))
    coins, models = members[first:], np.arange(len(values) - first)

    def audits(scores: npt.NDArray[np.float64]) -> Bounds:
        many = []
        for shift in range(problem.records):
            asked = (models + shift) % problem.records
            given = scores[models, asked], coins[models, asked]
            # By one-sided Clopper and Pearson.
            many.append(held_out_lower_bound(*given, problem.delta, problem.level, seed=0)[1])
        single = [
            best_one_run(one, inside, problem.delta, problem.level)
            for one, inside in zip(scores, coins, strict=True)
        ]
        return {"black box": np.array(many), "black box, one run": np.array(single)}

    return audits(ratios), audits(coins.astype(float))


def _shadows(models: int) -> int:
    return min(models // 2, _SHADOWS)


def _needs(problem: Problem, audit: str, models: int) -> str:
    if audit == "black box":
        return f"{models:,} models"
    if audit == "black box, one run":
        return f"1 model, {problem.records} records, {_shadows(models)} shadow models"
    return f"1 model, {problem.canaries:,} canaries"


def _ceiling(problem: Problem, audit: str) -> float:
    """What an audit from inside shows if no guess is wrong; infinite where that is no limit."""
    if audit in ("one run", "family"):
        made = [fixed_guesses(problem.canaries, fraction) for fraction in FRACTIONS]
        level = 1 - (1 - problem.level) / len(FRACTIONS)
        how = {"family": "gaussian" if audit == "family" else None}
        count = problem.canaries
        return max(one_run_epsilon(n, n, count, problem.delta, level, **how) for n in made)
    if audit == "gaussian":
        half = problem.canaries // 2
        given = np.ones(half), np.zeros(half), problem.delta, problem.level
        return gaussian_lower_bound(*given, choice="union").epsilon
    return np.inf


def _less_noise(factor: float, trainer: Trainer) -> None:
    optimizer = trainer.optimizer
    own = optimizer.add_noise

    def add_noise() -> None:
        optimizer.normals = factor * optimizer.normals
        own()

    optimizer.add_noise = add_noise


def _unscaled(trainer: Trainer) -> None:
    _less_noise(1 / trainer.config.clipping_norm, trainer)


def _layer(trainer: Trainer) -> None:
    """The last layer's weights pass whole; the norm is that of all other layers."""
    optimizer = trainer.optimizer
    own, weights = optimizer.clip_and_accumulate, list(optimizer.params)[-2]

    def clip() -> None:
        whole = weights.grad_sample.sum(dim=0)
        weights.grad_sample = torch.zeros_like(weights.grad_sample)
        own()
        weights.summed_grad = weights.summed_grad + whole

    optimizer.clip_and_accumulate = clip


def _batch(trainer: Trainer) -> None:
    """The mean over the batch is clipped to the norm: the sum to that times the batch's size."""
    optimizer = trainer.optimizer
    most = trainer.config.clipping_norm * trainer.config.batch_size

    def clip() -> None:
        sums = [p.grad_sample.sum(dim=0) for p in optimizer.params]
        norm = torch.stack([total.norm() for total in sums]).norm()
        factor = min(1.0, most / (float(norm) + 1e-6))
        for p, total in zip(optimizer.params, sums, strict=True):
            before = p.summed_grad
            p.summed_grad = factor * total if before is None else before + factor * total

    optimizer.clip_and_accumulate = clip


def _twice(trainer: Trainer) -> None:
    own, kept = trainer._noise, []

    def noise() -> torch.Tensor:
        if trainer.step % 2 == 0:
            kept[:] = [own()]
        return kept[0]

    trainer._noise = noise


def _leak(trainer: Trainer, canaries: GradientCanaries) -> None:
    """In each tenth step the sign of the noise at a canary's place is its coin."""
    own, coins = trainer._noise, torch.from_numpy(canaries.coins())
    directions = canaries.directions(trainer.size)
    places = torch.from_numpy(directions.places[:, 0])
    signs = torch.from_numpy(directions.signs[:, 0].astype(np.float32))

    def noise() -> torch.Tensor:
        normals = own()
        if trainer.step % 10 == 0:
            side = torch.where(coins, signs, -signs)
            normals[places] = side * normals[places].abs()
        return normals

    trainer._noise = noise


class _Shuffled:
    """Every record once in so many steps: batches of a shuffled list."""

    def __init__(self, seed: int, records: int, steps: int):
        self._rng, self._n, self._steps = np.random.default_rng([seed, 75]), records, steps
        self._batches = self._forever()

    def _forever(self) -> Iterator[npt.NDArray[np.int64]]:
        while True:
            order = self._rng.permutation(self._n)
            yield from (np.sort(part) for part in np.array_split(order, self._steps))

    def draw(self, steps: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """As :meth:`lib.training.randomness.PoissonSampler.draw`."""
        parts = [next(self._batches) for _ in range(steps)]
        return np.concatenate(parts), np.cumsum([0, *map(len, parts)])


_PLANTED: dict[str, Callable[[Trainer], None]] = {
    **{f"noise {f:g}": partial(_less_noise, f) for f in (0.9, 0.7, 0.5, 0.05)},
    "unscaled": _unscaled,
    "layer": _layer,
    "batch": _batch,
    "twice": _twice,
}
