"""Audits whose answer is known: DP-SGD with a mistake must be caught, without one must not.

A hard case for DP-SGD: a challenge point with a feature that no other point has, and a clipping
norm so small that its gradient is always clipped to the full norm.  What it does to the weights of
that feature, nothing but noise hides.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special, stats

from lib.audit.counts import AttackCounts
from lib.audit.intervals import epsilon_interval
from lib.audit.selection import chosen_threshold, counts_at
from lib.privacy import PrivacyLedger, SampledGaussian, find_noise_multiplier
from lib.training import ModelSpec, TrainingConfig, TrainingData, initial_parameters, train_many

#: What can be wrong with a training by DP-SGD, in words.
FAULTS = {
    "none": "nothing",
    "no noise": "the noise is left out",
    "sampling": "every example takes part in every step",
    "clipping": "the averaged gradient is clipped, not each example's",
    "small noise": "the noise is divided by the batch size once too often",
}

_FEATURES = 5  # the last one is the challenge's own
_MAGNITUDE = 4.0


@dataclass(frozen=True)
class SanityCheck:
    """A small training problem with a known guarantee."""

    epsilon: float = 1.0  # What the noise is meant for
    delta: float = 1e-5
    points: int = 100  # Ordinary points
    sample_rate: float = 0.1  # Of every point in every step
    steps: int = 60  # Updates
    # Of every example's gradient.  Initial weights are at most 0.45, so that the challenge's
    # gradient has at least 1.3 times the default.
    clipping_norm: float = 0.05
    noise: float = 0.0  # Multiplier, in the place of the least one that keeps the budget
    reach: float = 0.01  # How far one example's gradients may move the weights

    @property
    def noise_multiplier(self) -> float:
        """Least noise that keeps the budget, by the PLD accountant, or the one that is given."""
        return self.noise or find_noise_multiplier(
            self.epsilon, self.delta, self.sample_rate, self.steps, accountant="pld"
        )

    @property
    def proven(self) -> float:
        """Epsilon that the accountant proves for that noise."""
        mechanism = SampledGaussian(self.sample_rate, self.noise_multiplier, self.steps)
        return PrivacyLedger((mechanism,)).epsilon(self.delta, "pld")

    @property
    def batch_size(self) -> int:
        """Expected size of a sample."""
        return max(1, round(self.points * self.sample_rate))

    @property
    def learning_rate(self) -> float:
        """So small that the challenge's gradient stays clipped to the full norm throughout."""
        return self.reach * self.batch_size / (_MAGNITUDE * self.steps * self.clipping_norm)

    def data(self, seed: int) -> TrainingData:
        """The ordinary points, and the challenge as the last one."""
        rng = np.random.default_rng(seed)
        x = np.zeros((self.points + 1, _FEATURES), np.float32)
        x[:-1, :-1] = 0.1 * rng.standard_normal((self.points, _FEATURES - 1))
        x[-1, -1] = _MAGNITUDE
        y = (x[:, 0] > 0).astype(np.int64)
        y[-1] = 1
        return TrainingData(x, y, 2)


def engine_scores(
    check: SanityCheck, models: int, seed: int, engine: str = "kernel", looks: int = 1
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Train the book's own models with and without the challenge, and score them.

    Scores are what the final weights moved; of several looks at the training, log odds.
    """
    data = check.data(seed)
    members = np.random.default_rng([seed, 1]).integers(0, 2, models).astype(bool)
    config = TrainingConfig(
        ModelSpec("linear", (_FEATURES,), 2),
        noise_multiplier=check.noise_multiplier,
        sample_rate=check.sample_rate,
        batch_size=check.batch_size,
        clipping_norm=check.clipping_norm,
        steps=check.steps,
        learning_rate=check.learning_rate,
        checkpoint_every=math.ceil(check.steps / looks),
        keep="weights",
    )
    configs = [replace(config, seed=1_000_000 * (seed + 1) + i) for i in range(models)]
    everyone = np.arange(check.points + 1)
    sets = [data.subset(everyone if bit else everyone[:-1]) for bit in members]
    found = train_many(configs, sets, data.inputs, engine=engine)
    seen = np.stack([[initial_parameters(r.config), *r.checkpoints] for r in found])
    # A linear layer's weights come first, class by class.
    weights = np.diff(seen, axis=1)[:, :, : 2 * _FEATURES].reshape(models, -1, 2, _FEATURES)
    moved = (weights[:, :, 1, -1] - weights[:, :, 0, -1]).astype(np.float64)
    if looks == 1:
        return moved[:, 0], members
    return _log_odds(check, moved, np.diff([0, *config.checkpoint_steps])), members


def _log_odds(
    check: SanityCheck, moved: npt.NDArray[np.float64], steps: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Of membership, by what the weights moved in so many steps each: how often it was sampled."""
    unit = check.learning_rate * check.clipping_norm * math.sqrt(2) / check.batch_size
    share, total = _MAGNITUDE / math.hypot(_MAGNITUDE, 1), np.zeros(len(moved))
    for size in np.unique(steps):
        x, variance = moved[:, steps == size, None] / unit, size * check.noise_multiplier**2
        times = np.arange(stats.binom.isf(1e-9, size, check.sample_rate) + 1)
        odds = (share * times * x - (share * times) ** 2 / 2) / variance
        odds += stats.binom.logpmf(times, size, check.sample_rate)
        total += special.logsumexp(odds, axis=-1).sum(axis=1)
    return total


def sgd_scores(
    check: SanityCheck, models: int, seed: int, fault: str = "none"
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """As :func:`engine_scores`, by a plain implementation of DP-SGD that may have a fault."""
    data = check.data(seed)
    x, y = data.inputs.astype(np.float64), data.targets.astype(np.float64)
    rng = np.random.default_rng([seed, 2, list(FAULTS).index(fault)])
    members = rng.integers(0, 2, models).astype(bool)
    length = np.sqrt(2 * (np.square(x).sum(1) + 1))  # of a gradient over both classes and biases
    rate = 1.0 if fault == "sampling" else check.sample_rate
    sigma = 0.0 if fault == "no noise" else check.noise_multiplier * check.clipping_norm
    if fault == "small noise":
        sigma /= check.batch_size
    # Weights and bias of class 1 minus those of class 0: gradients of the two are opposite.
    start = rng.uniform(-1, 1, (models, 2, _FEATURES + 1)) / math.sqrt(_FEATURES)  # as PyTorch's
    begin = start[:, 1] - start[:, 0]
    weights = begin.copy()
    ones = np.c_[x, np.ones(len(x))]
    for _ in range(check.steps):
        taken = rng.random((models, len(x))) < rate
        taken[:, -1] &= members
        error = special.expit(weights @ ones.T) - y
        if fault == "clipping":
            mean = (taken * error) @ ones / check.batch_size
            norm = np.sqrt(2) * np.linalg.norm(mean, axis=1, keepdims=True)
            factor = np.minimum(1, check.clipping_norm / np.maximum(norm, 1e-300))
            total = check.batch_size * mean * factor
        else:
            norm = np.abs(error) * length
            factor = np.minimum(1, check.clipping_norm / np.maximum(norm, 1e-300))
            total = (taken * factor * error) @ ones
        noise = sigma * rng.standard_normal((models, 2, _FEATURES + 1))
        step = 2 * total + noise[:, 1] - noise[:, 0]
        weights -= check.learning_rate * step / check.batch_size
    return (weights - begin)[:, _FEATURES - 1], members


def sanity_table(
    check: SanityCheck, models: int, seed: int, engines: Sequence[str]
) -> pd.DataFrame:
    """Audit correct and faulty training runs of one problem at 99.9%."""
    rows = []
    proven = check.proven
    cases = [(f"lib.training, {e}", "none", engine_scores(check, models, seed, e)) for e in engines]
    cases += [("plain DP-SGD", f, sgd_scores(check, models, seed, f)) for f in FAULTS]
    for name, fault, (scores, members) in cases:
        counts = _held_out(scores, members, check.delta)
        low = epsilon_interval(counts, check.delta, 0.999, "clopper-pearson", "lower")[0]
        found = {"lower bound": low, "proven": proven, "caught": low > proven}
        rows.append({"training": name, "wrong": FAULTS[fault]} | asdict(counts) | found)
    return pd.DataFrame(rows)


def _held_out(scores, members, delta: float) -> AttackCounts:
    third = len(scores) // 3
    threshold = chosen_threshold(
        scores[:third], members[:third], delta, 0.95, trials=len(scores) - third
    )
    return AttackCounts(*counts_at(scores[third:], members[third:], threshold).tolist())
