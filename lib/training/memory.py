"""How many examples, or models, fit a device's memory: known before anything fails."""

import os
from functools import cache

import torch
from torch import nn

from lib.runs.devices import places
from lib.training.config import TrainingConfig
from lib.training.models import ModelSpec, build_model, parameter_count

#: Environment variable: bytes that count as the memory of any device.
MEMORY = "COMPANION_MEMORY"
_PARAMETERS = 1e9  # bytes
_PART = 0.5  # of a device's memory: the rest is for data, models and what was not counted


def memory_of(device: torch.device) -> float:
    """Memory of an accelerator in bytes, a job's part where it is shared; of a CPU, no limit.

    Not what is free of it: pieces of batches, and with them the draws of dropout and augmentation,
    shall be the same after a kill.
    """
    given = os.environ.get(MEMORY)
    if given is not None:
        try:
            number = float(given)
        except ValueError:
            number = 0.0
        if not number > 0:
            raise ValueError(f"{MEMORY} must be a positive number of bytes, got {given!r}")
        return number
    if device.type != "cuda":
        return float("inf")
    jobs = max(1, places().count(device.index or 0))
    return float(torch.cuda.get_device_properties(device).total_memory) / jobs


def bytes_per_example(config: TrainingConfig) -> int:
    """What one example of a batch takes: its gradient, once more while it is clipped, and outputs.

    Outputs of all layers count three times: forward, backward, and what a layer keeps besides.
    """
    numbers = 3 * outputs_per_example(config.model)
    if config.private:
        numbers += 2 * parameter_count(config.model)
    return 4 * config.copies * numbers


def examples_at_once(config: TrainingConfig, device: torch.device) -> float:
    """How many examples of a batch fit the device's memory: at least 1, or it is an error."""
    memory, each = memory_of(device), bytes_per_example(config)
    if (found := _PART * memory / each) < 1:
        raise ValueError(
            f"device must have {each / _PART / 1e6:,.1f} MB of memory for one example of"
            f" {config.model.name!r}, got {memory / 1e6:,.1f} MB on {str(device)!r}"
        )
    return found


def models_at_once(model: ModelSpec, most: int) -> int:
    """How many models a job trains between two saves, at most `most` and at least 1.

    Until then their parameters stay in memory and, saved, on the disk: a gigabyte of them.
    """
    return max(1, min(most, int(_PARAMETERS // (4 * parameter_count(model)))))


@cache
def outputs_per_example(spec: ModelSpec) -> int:
    """Numbers that the layers of a network put out for one example."""
    network = build_model(spec, 0).eval()
    found = [0]

    def count(module: nn.Module, arguments: object, output: object) -> None:
        if isinstance(output, torch.Tensor):
            found[0] += output[0].numel()

    for module in network.modules():
        if not [*module.children()]:
            module.register_forward_hook(count)
    kind = torch.int64 if spec.name == "roberta" else torch.float32
    with torch.no_grad():
        network(torch.zeros(1, *spec.inputs, dtype=kind))
    return found[0]
