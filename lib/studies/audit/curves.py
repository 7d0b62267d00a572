"""Proven trade-off curves and those that attacks reach: examples, a hard case, labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from lib.audit.curves import AttackCurve, attack_curve
from lib.audit.planning import gaussian_mu
from lib.audit.selection import gaussian_fnr, roc_counts, union_lower_bound
from lib.plot import COLOURS, new_figure
from lib.privacy import PrivacyLedger, RandomizedResponse, SampledGaussian, TradeOff, trade_off
from lib.runs import run_all
from lib.studies.audit.sanity import SanityCheck, engine_scores
from lib.studies.audit.system import run_audits, settings_from
from lib.studies.default_problem import default_problem, test_points
from lib.training import LabelTrainings, TrainingConfig


@dataclass(frozen=True, eq=False)
class Channel:
    """What one mechanism proves, and what attacks on it reach."""

    name: str
    claimed: float  # epsilon
    delta: float  # of the claim
    proven: TradeOff
    attacks: dict[str, AttackCurve]


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


def examples(
    parameters: Mapping[str, Any], dataset: str, level: float, executor: Any = None
) -> list[Channel]:
    """The private trainings of a chapter's parameters under P3's attacks."""
    channels = []
    for result in run_audits(settings_from(parameters, dataset)[1:], executor):
        config = result.settings.config(targets=True)
        ledger = _ledger(config.sample_rate, result.noise_multiplier, config.steps)
        attacks = {name: attack_curve(result.roc(name), level) for name in result.scores}
        name = f"{parameters['model']}, epsilon {config.epsilon:g}"
        channels.append(Channel(name, result.proven, config.delta, trade_off(ledger), attacks))
    return channels


def hard_case(check: SanityCheck, models: int, level: float, seed: int) -> Channel:
    """The problem in which nothing but noise hides the challenge point."""
    scores, members = engine_scores(check, models, seed)
    ledger = _ledger(check.sample_rate, check.noise_multiplier, check.steps)
    attacks = {"weight": attack_curve(roc_counts(scores, members), level)}
    return Channel("hard case", check.proven, check.delta, trade_off(ledger), attacks)


def _ledger(sample_rate: float, noise_multiplier: float, steps: int) -> PrivacyLedger:
    return PrivacyLedger((SampledGaussian(sample_rate, noise_multiplier, steps),))


def label_job(parameters: Mapping[str, Any], dataset: str) -> LabelTrainings:
    """Trainings on labels by randomised response, a record with a coin in each."""
    sizes = {"train": parameters["label_points"], "validation": 0, "test": test_points(dataset)}
    shape = {name: parameters[name] for name in ("hidden", "activation", "seed")}
    data, model = default_problem(dataset, "mlp", **sizes, **shape)
    config = TrainingConfig(
        model,
        steps=parameters["label_steps"],
        batch_size=parameters["label_batch"],
        learning_rate=parameters["label_rate"],
        seed=1_000_000 * parameters["seed"] + 700_000,
        device=parameters["device"],
    )
    first = 1_000_000 * parameters["seed"]
    records = [PairedLabel(model.classes, first + i) for i in range(parameters["label_models"])]
    mechanism = RandomizedResponse(parameters["label_epsilon"])
    seed = parameters["seed"]
    return LabelTrainings(config, data, mechanism, tuple(records), "labels", seed=seed)


def labels(job: LabelTrainings, level: float, executor: Any = None) -> Channel:
    """The label channel: which of its two labels the record had."""
    (run,) = run_all([job], executor)
    truth = np.asarray(job.data.load().training.targets)
    drawn = [each.drawn(truth) for each in job.changes]
    (off, on), members = np.array([pair for _, pair, _ in drawn]).T, [coin for *_, coin in drawn]
    logits, models = run.arrays["logits"][:, 0].astype(float), np.arange(len(drawn))
    counts = roc_counts(logits[models, on] - logits[models, off], members)
    epsilon, classes = job.mechanism.pure_epsilon, job.config.model.classes
    proven = trade_off(lambda delta: job.mechanism.epsilon(delta, n_classes=classes))
    return Channel("labels", epsilon, 0.0, proven, {"logits": attack_curve(counts, level)})


def curve_table(channels: Sequence[Channel], spared: float, fpr: float) -> pd.DataFrame:
    """What is proven and reached: a row per channel and attack."""
    rows = []
    for channel in channels:
        proven = channel.proven
        same = gaussian_mu(channel.claimed, channel.delta) if channel.delta else math.nan
        for name, attack in channel.attacks.items():
            row = {"training": channel.name, "epsilon": channel.claimed, "mu": proven.mu(spared)}
            row |= {"mu of epsilon": same, "attack": name}
            row["TPR, proven"] = 1 - float(proven.fnr(fpr))
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
    level: float = 0.95,
    seed: int = 0,
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


def plot_curves(channels: Sequence[Channel], spared: float) -> Figure:
    """Draw proven curves, the Gaussians beneath, and attacks with their limits: a panel each."""
    figure, axes = new_figure(rows=len(channels), height=2.5, sharex=True, squeeze=False)
    fpr = np.linspace(0, 1, 501)
    for ax, channel in zip(axes.ravel(), channels, strict=True):
        proven = channel.proven.fnr(fpr)
        ax.fill_between(fpr, proven, color="0.92", linewidth=0)
        ax.plot(fpr, proven, color="black", marker="", label="proven")
        mu = channel.proven.mu(spared)
        line = {"color": COLOURS[3], "linestyle": "--", "marker": "", "linewidth": 1.2}
        ax.plot(fpr, gaussian_fnr(fpr, mu), label=rf"Gaussian, $\mu = {mu:.2f}$", **line)
        for i, (name, attack) in enumerate(channel.attacks.items()):
            line = {"color": COLOURS[i], "marker": "", "linestyle": ("-", "-.", ":")[i % 3]}
            ax.plot(attack.fpr[0], attack.fnr[0], label=f"attack: {name}", **line)
        ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="FNR", title=channel.name)
        ax.legend(fontsize=8, loc="upper right")
    axes[-1, 0].set_xlabel("FPR")
    return figure
