"""How fast the engines are beside Opacus, as ratios measured in one go: ``--device cuda`` on a GPU.

The baseline is Opacus at its best for small models: per-example gradients, clipping, noise and
update, without its data loader (a Poisson sample is drawn by one comparison and indexed directly),
in whichever of its ways to compute per-example gradients is the fastest for the model, one model
after another on one thread or all, whichever is faster, or in two processes with one thread each.
"""

import argparse
import contextlib
import multiprocessing
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from lib.training.config import TrainingConfig, TrainingData
from lib.training.many import train_many
from lib.training.models import ModelSpec, build_model
from lib.training.torch_settings import accelerated, place

#: Ways of Opacus to compute gradients per example.
MODES = ("hooks", "ew", "functorch", "ghost")
BATCH = 128
CLASSES = 10
EXAMPLES = 1200
SPECS = {
    "linear": ModelSpec("linear", inputs=(64,), classes=CLASSES),
    "mlp": ModelSpec("mlp", inputs=(64,), classes=CLASSES, hidden=(32,)),
    "small_cnn": ModelSpec("small_cnn", inputs=(3, 32, 32), classes=CLASSES),
}


def compare_all(
    work: Mapping[str, tuple[int, int]],
    *,
    rounds: int = 3,
    opacus_seconds: float = 1.0,
    device: str = "cpu",
) -> pd.DataFrame:
    """Training steps per second of one model, by three ways; medians over interleaved rounds.

    An accelerator has one process alone.
    """
    rows, modes, alone = [], {}, device != "cpu"
    pool = contextlib.nullcontext() if alone else multiprocessing.get_context("spawn").Pool(2)
    with pool:
        for model in work:
            many_steps_per_second(model, 2, 1, device)  # compiles, loads libraries
            speeds = compare_modes(model, 0.2 * opacus_seconds, device=device)
            modes[model] = max(speeds, key=speeds.__getitem__)
            if not alone:
                pool.starmap(opacus_steps_per_second, [(model, 0.05, modes[model], 1)] * 2, 1)
        for _ in range(rounds):
            for model, (n_models, steps) in work.items():
                mode = modes[model]
                many = many_steps_per_second(model, n_models, steps, device)
                if alone:
                    one = opacus_steps_per_second(model, opacus_seconds, mode, device=device)
                    rows.append((model, many, one, one))
                    continue
                one_by_one = max(
                    opacus_steps_per_second(model, opacus_seconds / 2, mode, threads)
                    for threads in (None, 1)
                )
                arguments = [(model, opacus_seconds, mode, 1)] * 2
                two = sum(pool.starmap(opacus_steps_per_second, arguments, 1))
                rows.append((model, many, one_by_one, two))
    columns = ["model", "many at once", "Opacus", "Opacus, two processes"]
    table = pd.DataFrame(rows, columns=columns).groupby("model", sort=False).median().reset_index()
    return table.assign(
        **{
            "ratio": table["many at once"] / table["Opacus"],
            "ratio to two processes": table["many at once"] / table["Opacus, two processes"],
            "Opacus' mode": list(modes.values()),
        }
    )


def many_steps_per_second(model: str, n_models: int, steps: int, device: str = "cpu") -> float:
    """Model-steps per second of many models trained together, all cores."""
    configs, data = _configs(SPECS[model], n_models, steps, device), _data(SPECS[model])
    started = time.perf_counter()
    train_many(configs, data, data.inputs[:1])
    return n_models * steps / (time.perf_counter() - started)


def compare_modes(
    model: str, seconds: float, threads: int | None = None, device: str = "cpu"
) -> dict[str, float]:
    """Steps per second of Opacus by its ways to compute per-example gradients."""
    return {mode: opacus_steps_per_second(model, seconds, mode, threads, device) for mode in MODES}


def opacus_steps_per_second(
    model: str, seconds: float, mode: str, threads: int | None = None, device: str = "cpu"
) -> float:
    """DP-SGD steps per second of Opacus, without its data loader."""
    from opacus.grad_sample.utils import wrap_model
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    where = place(device)
    generator = torch.Generator(device=where).manual_seed(0)
    data = _data(SPECS[model])
    inputs = torch.from_numpy(data.inputs.copy()).to(where)
    labels = torch.from_numpy(data.targets.copy()).to(where)
    criterion = torch.nn.CrossEntropyLoss()
    options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": BATCH}
    options["generator"] = generator
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            network = build_model(SPECS[model], 0).to(where)
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
                uniform = torch.rand(len(inputs), generator=generator, device=where)
                rows = (uniform < BATCH / len(inputs)).nonzero().squeeze(1)  # waits for the device
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


#: Precision of the passes, and whether only algorithms whose sums repeat are allowed.
CHOICES = (("float32", True), ("float32", False), ("tf32", True), ("bf16", True))


def precision_costs(device: str = "cpu", n_models: int = 2, steps: int = 4) -> pd.DataFrame:
    """Training steps per second of small CNNs by precision; the best of two rounds."""
    data, rows = _data(SPECS["small_cnn"]), []
    many_steps_per_second("small_cnn", 1, 1, device)  # compiles, loads libraries
    for precision, deterministic in CHOICES:
        given = {"precision": precision, "deterministic": deterministic}
        configs = _configs(SPECS["small_cnn"], n_models, steps, device)
        configs = [replace(config, **given) for config in configs]
        seconds = []
        for _ in range(2):
            started = time.perf_counter()
            train_many(configs, data, data.inputs[:1])
            seconds.append(time.perf_counter() - started)
        rows.append((precision, deterministic, n_models * steps / min(seconds)))
    table = pd.DataFrame(rows, columns=["precision", "deterministic", "steps a second"])
    return table.assign(ratio=table["steps a second"] / table["steps a second"][0])


def _data(spec: ModelSpec) -> TrainingData:
    rng = np.random.default_rng(0)
    inputs = rng.random((EXAMPLES, *spec.inputs), dtype=np.float32)
    return TrainingData(inputs, rng.integers(0, CLASSES, EXAMPLES), CLASSES)


def _configs(spec: ModelSpec, count: int, steps: int, device: str = "cpu") -> list[TrainingConfig]:
    base = TrainingConfig(
        spec, noise_multiplier=1.0, batch_size=BATCH, steps=steps, learning_rate=0.1, device=device,
        noise_source="device" if accelerated(device) else "host",
    )  # fmt: skip
    return [replace(base, seed=seed) for seed in range(count)]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--models", type=int, default=32, help="models trained at once")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    networks = (4, 8) if given.device == "cpu" else (max(2, given.models // 8), 40)
    work = {"linear": (given.models, 200), "mlp": (given.models, 200), "small_cnn": networks}
    print(compare_all(work, rounds=given.rounds, device=given.device).to_string(index=False))
    print(precision_costs(given.device).to_string(index=False))


if __name__ == "__main__":
    main()
