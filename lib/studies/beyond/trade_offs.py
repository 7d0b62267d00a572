"""Proven trade-off curves and those that attacks reach: private models of many pages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lib.audit.curves import AttackCurve, attack_curve
from lib.audit.planning import gaussian_mu
from lib.audit.selection import roc_counts, union_lower_bound
from lib.privacy import (
    GaussianLabels,
    LaplaceLabels,
    PrivacyLedger,
    RandomizedResponse,
    SampledGaussian,
    TradeOff,
    find_noise_multiplier,
    trade_off,
)
from lib.runs import run_all
from lib.studies.audit.sanity import SanityCheck, engine_scores
from lib.studies.audit.system import AuditSettings, run_audits
from lib.training import DataSpec, LabelTrainings, TrainingConfig

#: How often an attack on a small training sees its weights.
LOOKS = 32


@dataclass(frozen=True, eq=False)
class Channel:
    """What one mechanism proves, and what attacks on it reach."""

    name: str
    claimed: float  # epsilon
    delta: float  # of the claim
    proven: TradeOff
    counts: dict[str, npt.NDArray[np.int64]]  # of attacks at all thresholds
    level: float = 0.95  # of each attack's limits

    @cached_property
    def attacks(self) -> dict[str, AttackCurve]:
        """The attacks' curves."""
        return {name: attack_curve(counts, self.level) for name, counts in self.counts.items()}


@dataclass(frozen=True)
class PairedLabel:
    """A record that gets one of two wrong labels by a coin, all drawn by the seed."""

    classes: int
    seed: int

    def drawn(self, labels: npt.NDArray[np.int64]) -> tuple[int, tuple[int, int], bool]:
        """The record, the labels of either side of the coin, and the coin."""
        rng = np.random.default_rng(self.seed)
        row = int(rng.integers(len(labels)))
        wrong = rng.permutation(np.delete(np.arange(self.classes), labels[row]))
        return row, (int(wrong[0]), int(wrong[1])), bool(rng.integers(2))

    def apply(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The labels with the record's new one."""
        row, pair, coin = self.drawn(labels)
        changed = labels.copy()
        changed[row] = pair[coin]
        return changed

    def watched(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The record."""
        return np.array([self.drawn(labels)[0]])


def examples(audits: Sequence[AuditSettings], level: float) -> list[Channel]:
    """Private training runs under P3's attacks."""
    channels = []
    for result in run_audits(audits):
        config = result.settings.config(targets=True)
        ledger = _ledger(config.sample_rate, result.noise_multiplier, config.steps)
        counts = {name: result.roc(name) for name in result.scores}
        name = f"examples, epsilon {config.epsilon:g}"
        proven = trade_off(ledger)
        channels.append(Channel(name, result.proven, config.delta, proven, counts, level))
    return channels


def hard_case(check: SanityCheck, models: int, level: float, seed: int, looks: int = 1) -> Channel:
    """The problem in which nothing but noise hides the challenge point."""
    scores, members = engine_scores(check, models, seed, looks=looks)
    proven = trade_off(_ledger(check.sample_rate, check.noise_multiplier, check.steps))
    counts = {"weight": roc_counts(scores, members)}
    return Channel("hard case", check.proven, check.delta, proven, counts, level)


def _ledger(sample_rate: float, noise_multiplier: float, steps: int) -> PrivacyLedger:
    return PrivacyLedger((SampledGaussian(sample_rate, noise_multiplier, steps),))


def label_job(
    config: TrainingConfig,
    data: DataSpec,
    mechanism: Any,
    models: int,
    *,
    seed: int = 0,
    number: int = 0,
) -> LabelTrainings:
    """Training runs on noisy labels, a record with a coin in each.

    Those with other numbers, up to 2, share no noise.
    """
    first = 1_000_000 * seed + 100_000 * number
    config = replace(config, seed=first + 700_000)
    records = tuple(PairedLabel(config.model.classes, first + i) for i in range(models))
    reading = "labels" if isinstance(mechanism, RandomizedResponse) else "posterior"
    seed += 1_000_001 * number
    return LabelTrainings(config, data, mechanism, records, reading, seed=seed)


def labels(job: LabelTrainings, level: float, name: str = "labels", delta: float = 0) -> Channel:
    """The label channel: which of its two labels the record had; `delta` is the claim's."""
    (run,) = run_all([job])
    truth = np.asarray(job.data.load().training.targets)
    drawn = [each.drawn(truth) for each in job.changes]
    (off, on), members = np.array([pair for _, pair, _ in drawn]).T, [coin for *_, coin in drawn]
    logits, models = run.arrays["logits"][:, 0].astype(float), np.arange(len(drawn))
    counts = roc_counts(logits[models, on] - logits[models, off], members)
    options = {}
    if isinstance(job.mechanism, RandomizedResponse):
        options["n_classes"] = job.config.model.classes
    proven = trade_off(lambda d: job.mechanism.epsilon(d, **options))
    return Channel(name, job.mechanism.epsilon(delta), delta, proven, {"logits": counts}, level)


@dataclass(frozen=True)
class PrivateTraining:
    """What another page of the book trains: all that decides what is proven of it."""

    name: str
    points: int
    batch_size: int
    steps: int  # of all models that share the budget
    epsilon: float
    delta: float  # 0: one over the points

    def attacked(self, models: int, level: float, seed: int, looks: int = LOOKS) -> Channel:
        """Its mechanism where nothing but noise hides a record, trained by the book's engine."""
        rate, delta = self.batch_size / self.points, self.delta or 1 / self.points
        noise = find_noise_multiplier(self.epsilon, delta, rate, self.steps)
        check = SanityCheck(
            delta=delta,
            points=20,
            sample_rate=rate,
            steps=self.steps,
            noise=noise,
            clipping_norm=0.005,  # far below gradients, so that weights may move beyond rounding
            reach=0.3,
        )
        channel = hard_case(check, models, level, seed, looks)
        return replace(channel, name=f"{self.name}, epsilon {self.epsilon:g}", claimed=self.epsilon)


def votes(checked: float, answered: float, asked: float, answers: float, delta: float) -> Channel:
    """PATE, before anything is asked: noise on the check of the votes, and on those answered.

    One label moves one vote: the largest number by at most 1, the votes by at most sqrt(2).
    """
    ledger = _ledger(1.0, checked, round(asked))
    ledger = ledger.compose(_ledger(1.0, answered / math.sqrt(2), round(answers)))
    return Channel("PATE", ledger.epsilon(delta, "pld"), delta, trade_off(ledger), {})


def noisy_labels(
    config: TrainingConfig,
    data: DataSpec,
    epsilons: tuple[float, float],
    models: int,
    *,
    delta: float,
    level: float,
    seed: int,
) -> list[Channel]:
    """ALIBI and AGIBI, each with its budget, in small training runs."""
    alibi, agibi = epsilons
    both = (
        ("ALIBI", LaplaceLabels.for_epsilon(alibi), 0.0),
        ("AGIBI", GaussianLabels.for_epsilon(agibi, delta), delta),
    )
    return [
        labels(label_job(config, data, noise, models, seed=seed, number=k), level, name, spared)
        for k, (name, noise, spared) in enumerate(both, 1)
    ]


def together(channels: Sequence[Channel], level: float) -> list[Channel]:
    """The same with limits that hold for all attacks together (Bonferroni)."""
    attacks = sum(len(channel.counts) for channel in channels)
    return [replace(each, level=1 - (1 - level) / max(1, attacks)) for each in channels]


def refuted(channels: Sequence[Channel]) -> dict[str, int]:
    """How many mechanisms and attacks there are, and attacks that refute what is proven."""
    margins = [a.margin(each.proven.fnr) for each in channels for a in each.attacks.values()]
    counts = {"attacks": len(margins), "refuted": sum(margin > 0 for margin in margins)}
    return {"mechanisms": len(channels)} | counts


def curve_table(channels: Sequence[Channel], spared: float, fpr: float) -> pd.DataFrame:
    """What is proven and reached: a row per channel and attack."""
    rows = []
    for channel in channels:
        proven = channel.proven
        same = gaussian_mu(channel.claimed, channel.delta) if channel.delta else math.nan
        row = {"training": channel.name, "epsilon": channel.claimed, "mu": proven.mu(spared)}
        row |= {"mu of epsilon": same, "attack": "none", "TPR, proven": 1 - float(proven.fnr(fpr))}
        rows += [] if channel.attacks else [row]
        for name, attack in channel.attacks.items():
            row = row | {"attack": name}
            row |= dict(zip(("TPR", "TPR, low", "TPR, high"), attack.tpr(fpr), strict=True))
            row["accuracy, proven"] = (1 + proven.deltas[0]) / 2
            names = ("accuracy", "accuracy, low", "accuracy, high")
            row |= dict(zip(names, attack.accuracy(), strict=True))
            rows.append(row | {"margin": attack.margin(proven.fnr)})
    return pd.DataFrame(rows)


def power_study(
    epsilon: float,
    delta: float,
    factors: Sequence[float],
    models: int,
    repetitions: int,
    *,
    level: float,
    seed: int,
) -> pd.DataFrame:
    """How often a Gaussian mechanism's false claim is refuted: by its curve, by its epsilon."""
    noise = 1 / gaussian_mu(epsilon, delta)
    claim, members, rows = trade_off(_ledger(1.0, noise, 1)), np.arange(models) % 2 == 0, []
    for place, factor in enumerate(factors):
        rng, mu = np.random.default_rng([seed, place]), gaussian_mu(factor * epsilon, delta)
        found = []
        for _ in range(repetitions):
            counts = roc_counts(rng.normal(size=models) + mu * members, members)
            one = union_lower_bound(counts, delta, level)[1] > epsilon
            found.append((one, attack_curve(counts, level).margin(claim.fnr) > 0))
        rows.append((factor, *np.mean(found, axis=0)))
    return pd.DataFrame(rows, columns=["true over claimed", "by epsilon", "by the curve"])
