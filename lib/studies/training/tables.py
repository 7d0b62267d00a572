"""What the page "How the models are trained" shows."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from lib.privacy.accounting import ACCOUNTANTS, PrivacyLedger, SampledGaussian, budget_table
from lib.privacy.accounting import find_noise_multiplier as find
from lib.ties import first_largest
from lib.training.config import TrainingConfig
from lib.training.jobs import DataSpec, LoadedData
from lib.training.many import train_many
from lib.training.models import ModelSpec, forward_flops, parameter_count
from lib.training.single import TrainingDiverged, train

#: NVIDIA's data sheets: dense matrix throughput in 1e12 operations a second (without sparsity), in
#: TF32 or, where the chip has none, FP32; and bandwidth of the memory in 1e9 bytes a second.
GPUS = {
    "V100 SXM2 (FP32)": (15.7, 900),
    "L4 (TF32)": (60, 300),
    "A100 SXM 80 GB (TF32)": (156, 2039),
    "H100 SXM (TF32)": (495, 3350),
    "H200 SXM (TF32)": (495, 4800),
}
#: Training sets of P1's section 4 and their sizes.
P1_PANEL = {"FashionMNIST": 60_000, "CIFAR-10": 50_000, "SVHN": 73_257, "GTSRB": 39_209}


def tune(
    config: TrainingConfig,
    spec: DataSpec,
    epsilons: Sequence[float],
    rates: Sequence[float],
    repetitions: int,
) -> pd.DataFrame:
    """Mean validation accuracy by budget and learning rate, and the choice of every budget."""
    data, rows = spec.load(), []
    rates = sorted(set(rates))
    for number, epsilon in enumerate(epsilons):
        accuracies = []
        for place, rate in enumerate(rates):
            first = 10_000 * (number + 1) + place * repetitions
            each = replace(config, epsilon=epsilon, learning_rate=rate, checkpoint_every=None)
            configs = [replace(each, seed=first + k) for k in range(repetitions)]
            try:
                results = train_many(configs, data.training, data.validation)
                found = [result.accuracy(data.validation_labels) for result in results]
            except TrainingDiverged:
                found = [0.0]
            accuracies.append(float(np.mean(found)))
        row = {"epsilon": epsilon}
        row |= {f"{rate:g}": a for rate, a in zip(rates, accuracies, strict=True)}
        rows.append(row | {"chosen": rates[first_largest(accuracies)]})
    return pd.DataFrame(rows)


def spending(n: int, batch_size: int, steps: int, noise_multiplier: float) -> pd.DataFrame:
    """Epsilon spent after some of the steps of a training, by accountant."""
    at = np.unique(np.linspace(1, steps, 8).round().astype(int))
    ledgers = [
        PrivacyLedger((SampledGaussian(batch_size / n, noise_multiplier, int(k)),)) for k in at
    ]
    spent = {name: [each.epsilon(1 / n, name) for each in ledgers] for name in ACCOUNTANTS}
    return pd.DataFrame({"steps": at} | spent)


def agreement(
    config: TrainingConfig, data: LoadedData, rates: dict[float, float], n_seeds: int
) -> pd.DataFrame:
    """Train by Opacus one by one, by the batched engine with the same seeds, and with others."""
    rows = []
    for number, (epsilon, rate) in enumerate(rates.items()):
        base = replace(config, epsilon=epsilon, learning_rate=rate)
        first = 2 * n_seeds * number  # no two models of this study share noise, but twins
        same = [replace(base, seed=first + k) for k in range(n_seeds)]
        other = [replace(base, seed=first + n_seeds + k) for k in range(n_seeds)]
        one_by_one = [train(each, data.training, data.evaluation) for each in same]
        batched = train_many([*same, *other], data.training, data.evaluation)
        a = np.array([result.accuracy(data.labels) for result in one_by_one])
        b = np.array([result.accuracy(data.labels) for result in batched])
        twins = zip(one_by_one, batched[:n_seeds], strict=True)
        gaps = [np.abs(x.parameters - y.parameters).max() for x, y in twins]
        c = b[n_seeds:]
        error = math.sqrt((a.var(ddof=1) + c.var(ddof=1)) / n_seeds)
        rows.append(
            {
                "epsilon": epsilon,
                "noise_multiplier": one_by_one[0].plan.noise_multiplier,
                "opacus": a.mean(),
                "opacus_sd": a.std(ddof=1),
                "same_seeds": b[:n_seeds].mean(),
                "other_seeds": c.mean(),
                "other_seeds_sd": c.std(ddof=1),
                "largest_difference": float(max(gaps)),
                "z": (a.mean() - c.mean()) / error if error else 0.0,
            }
        )
    return pd.DataFrame(rows)


def chance_of_largest(table: pd.DataFrame, n_seeds: int) -> float:
    """Probability that the largest ``|z|`` of :func:`agreement` is by chance as large as it is.

    Each z follows Student's distribution with 2 (n_seeds - 1) degrees of freedom, about, and the
    rows are independent.
    """
    largest = float(table["z"].abs().max())
    return float(1 - (1 - 2 * stats.t.sf(largest, 2 * (n_seeds - 1))) ** len(table))


def accounting_table(
    epsilons: Sequence[float], settings: dict[str, tuple[int, int, int]]
) -> pd.DataFrame:
    """Noise found by RDP, and what both accountants say about it."""
    rows = []
    for name, (n, batch, steps) in settings.items():
        for epsilon in epsilons:
            arguments = (epsilon, 1 / n, batch / n, steps)
            sigma = find(*arguments)
            ledger = PrivacyLedger((SampledGaussian(batch / n, sigma, steps),))
            row = {"setting": name, "epsilon": epsilon, "noise_multiplier": sigma}
            row |= {which: ledger.epsilon(1 / n, which) for which in ACCOUNTANTS}
            row["saved"] = 1 - find(*arguments, accountant="pld") / sigma
            rows.append(row)
    return pd.DataFrame(rows)


def budget_rules(
    epsilons: Sequence[float], n: int, batch_size: int, steps: int, members: int
) -> pd.DataFrame:
    """:func:`lib.privacy.budget_table` as a table, delta = 1 / n."""
    rows = budget_table(epsilons, 1 / n, batch_size / n, steps, members)
    return pd.DataFrame(rows)


def p1_panel() -> pd.DataFrame:
    """P1's experiments: a row per data set, with privacy and without; gradients of one example.

    14 training runs of 200 epochs for each of five seeds, at three private budgets and one without:
    one for SR and SCTD, one each for SAT, MCDO and deep gamblers (which P1 names in section 3.2 and
    does not report), five each for the deep ensemble and SelectiveNet.
    """
    rows = [
        (size * 200, private, 14 * 5 * budgets)
        for size in P1_PANEL.values()
        for private, budgets in ((False, 1), (True, 3))
    ]
    return pd.DataFrame(rows, columns=["sample_steps", "private", "count"])


def seconds_per_example(
    gpu: tuple[float, float], forward_flops: float, parameters: int, *, private: bool
) -> float:
    """Time for one example in one step: an order of magnitude, not calibrated on a GPU.

    A roofline model: floating-point operations at 30% of the processor's peak and, for DP-SGD, four
    passes over the stored per-example gradient at 60% of the memory bandwidth.
    """
    tera_flops, bandwidth = gpu
    seconds = 3 * forward_flops / (tera_flops * 1e12 * 0.3)
    if private:
        seconds += 4.0 * 4 * parameters / (bandwidth * 1e9 * 0.6)
    return seconds


def makespan(durations: Sequence[float], workers: int) -> float:
    """Wall time of independent training runs, the longest started first."""
    ends = [0.0] * workers
    for duration in sorted(durations, reverse=True):
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def panel_table(workers: Sequence[int]) -> pd.DataFrame:
    """P1's experiments on paper: GPU-hours, and days by number of workers."""
    spec = ModelSpec("resnet18", inputs=(3, 32, 32), classes=10)
    flops, parameters = forward_flops(spec), parameter_count(spec)
    rows = []
    for name, gpu in GPUS.items():
        seconds = [seconds_per_example(gpu, flops, parameters, private=p) for p in (0, 1)]
        durations = [
            each.sample_steps * seconds[each.private] / 3600
            for each in p1_panel().itertuples()
            for _ in range(each.count)
        ]
        row = {"processor": name, "samples/s, private": 1 / seconds[1], "GPU-hours": sum(durations)}
        row |= {f"days, {w}": makespan(durations, w) / 24 for w in workers}
        rows.append(row)
    return pd.DataFrame(rows)
