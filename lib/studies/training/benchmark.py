"""How fast the engines are, as ratios measured in one go.

The baseline is Opacus at its best for small models: per-example gradients, clipping, noise and
update, without its data loader (a Poisson sample is drawn by one comparison and indexed directly),
in whichever of its ways to compute per-example gradients is the fastest for the model, one model
after another on one thread or all, whichever is faster, or in two processes with one thread each.
"""

import json
import multiprocessing
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from lib.training.config import TrainingConfig, TrainingData
from lib.training.many import train_many
from lib.training.models import ModelSpec, build_model

#: Ways of Opacus to compute gradients per example.
MODES = ("hooks", "ew", "functorch", "ghost")
CLASSES = 10
EXAMPLES = 1200
SPECS = {
    "linear": ModelSpec("linear", inputs=(64,), classes=CLASSES),
    "mlp": ModelSpec("mlp", inputs=(64,), classes=CLASSES, hidden=(32,)),
    "small_cnn": ModelSpec("small_cnn", inputs=(3, 32, 32), classes=CLASSES),
}


@dataclass(frozen=True)
class Speed:
    """Training steps per second of one model, by three ways of training many."""

    model: str  # A name in `SPECS`
    many: float  # :func:`lib.training.train_many`, all cores, in model-steps per second
    one_by_one: float  # Opacus, one model after another
    two_processes: float  # Opacus in two processes with one thread each, both together
    mode: str = "hooks"  # Opacus' way to compute per-example gradients, the fastest for this model

    @property
    def ratio(self) -> float:
        """Over Opacus, one after another."""
        return self.many / self.one_by_one

    @property
    def ratio_processes(self) -> float:
        """Over two Opacus processes."""
        return self.many / self.two_processes


def compare_all(
    work: Mapping[str, tuple[int, int]],
    *,
    batch_size: int = 128,
    rounds: int = 3,
    opacus_seconds: float = 1.0,
) -> list[Speed]:
    """Measure architectures; medians over interleaved rounds."""
    found: dict[str, list[tuple[float, float, float]]] = {model: [] for model in work}
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        best = {}
        for model in work:
            train_many(_configs(SPECS[model], 2, 1, batch_size), *_inputs(model))  # compiles
            modes = compare_modes(model, seconds=0.2 * opacus_seconds)
            best[model] = max(modes, key=modes.__getitem__)
            pool.starmap(_one_thread, [(model, batch_size, 0.05, best[model])] * 2, chunksize=1)
        for _ in range(rounds):
            for model, (n_models, steps) in work.items():
                many = many_steps_per_second(model, n_models, steps, batch_size)
                one_by_one = max(
                    opacus_steps_per_second(
                        model, batch_size, opacus_seconds / 2, mode=best[model], threads=threads
                    )
                    for threads in (None, 1)
                )
                arguments = [(model, batch_size, opacus_seconds, best[model])] * 2
                two = sum(pool.starmap(_one_thread, arguments, chunksize=1))
                found[model].append((many, one_by_one, two))
    return [
        Speed(
            model, *(statistics.median(column) for column in zip(*rows, strict=True)), best[model]
        )
        for model, rows in found.items()
    ]


def many_steps_per_second(model: str, n_models: int, steps: int, batch_size: int = 128) -> float:
    """Model-steps per second of many models trained together, all cores."""
    configs, inputs = _configs(SPECS[model], n_models, steps, batch_size), _inputs(model)
    started = time.perf_counter()
    train_many(configs, *inputs)
    return n_models * steps / (time.perf_counter() - started)


def compare_modes(model: str, seconds: float, threads: int | None = None) -> dict[str, float]:
    """Steps per second of Opacus by its ways to compute per-example gradients."""
    return {
        mode: opacus_steps_per_second(model, 128, seconds, mode=mode, threads=threads)
        for mode in MODES
    }


def opacus_steps_per_second(
    model: str,
    batch_size: int = 128,
    seconds: float = 2.0,
    *,
    mode: str = "hooks",
    threads: int | None = None,
) -> float:
    """DP-SGD steps per second of Opacus, without its data loader."""
    from opacus.grad_sample.utils import wrap_model
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    spec = SPECS[model]
    data = _data(spec)
    inputs = torch.from_numpy(data.inputs.copy())
    labels = torch.from_numpy(data.targets.copy())
    rate = batch_size / len(inputs)
    criterion = torch.nn.CrossEntropyLoss()
    options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": batch_size}
    options["generator"] = generator
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            network = build_model(spec, 0)
            arguments = {"max_grad_norm": 1.0} if mode == "ghost" else {}
            wrapped = wrap_model(network, grad_sample_mode=mode, **arguments)
            sgd = torch.optim.SGD(wrapped.parameters(), lr=0.1)
            if mode == "ghost":
                optimizer = DPOptimizerFastGradientClipping(sgd, **options)
                criterion = DPLossFastGradientClipping(
                    wrapped, optimizer, torch.nn.CrossEntropyLoss(reduction="mean")
                )
            else:
                optimizer = DPOptimizer(sgd, **options)

            def step() -> None:
                rows = (torch.rand(len(inputs), generator=generator) < rate).nonzero().squeeze(1)
                optimizer.zero_grad()
                criterion(wrapped(inputs[rows]), labels[rows]).backward()
                optimizer.step()

            for _ in range(3):
                step()
            count, started = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - started) < seconds:
                step()
                count += 1
            return count / elapsed
    finally:
        torch.set_num_threads(before)


def peak_memory(model: str = "mlp", n_models: int = 512, steps: int = 20) -> dict[str, float]:
    """Peak memory of a fresh process that trains many models (Linux only)."""
    code = (
        "import json; from lib.studies.training import benchmark as b;"
        f" print(json.dumps(b._memory({model!r}, {n_models}, {steps})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _memory(model: str, n_models: int, steps: int) -> dict[str, float]:
    data = _data(SPECS[model])
    configs = _configs(SPECS[model], n_models, steps, 128)
    train_many(configs[:2], data, data.inputs[:1])
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far becomes what is in use now
    before = _status("VmRSS")
    results = train_many(configs, data, data.inputs[:1])
    assert len(results) == n_models
    return {"before": before, "peak": _status("VmHWM")}


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {name}")


def _data(spec: ModelSpec) -> TrainingData:
    rng = np.random.default_rng(0)
    inputs = rng.random((EXAMPLES, *spec.inputs), dtype=np.float32)
    return TrainingData(inputs, rng.integers(0, CLASSES, EXAMPLES), CLASSES)


def _inputs(model: str) -> tuple[TrainingData, np.ndarray]:
    data = _data(SPECS[model])
    return data, data.inputs[:1]


def _configs(spec: ModelSpec, count: int, steps: int, batch_size: int) -> list[TrainingConfig]:
    return [
        TrainingConfig(
            spec,
            noise_multiplier=1.0,
            batch_size=batch_size,
            steps=steps,
            learning_rate=0.1,
            seed=seed,
        )
        for seed in range(count)
    ]


def _one_thread(model: str, batch_size: int, seconds: float, mode: str) -> float:
    return opacus_steps_per_second(model, batch_size, seconds, mode=mode, threads=1)
