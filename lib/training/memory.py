"""How many examples, or models, fit a device's memory: known before anything fails."""

import os
from functools import cache

import torch
from torch import nn

from lib.training.config import TrainingConfig
from lib.training.models import ModelSpec, build_model, parameter_count

#: Environment variable: bytes that trainings may take for granted, whatever the device has.
MEMORY = "COMPANION_MEMORY"
_PART = 0.6  # of what is free: the rest is for libraries and for what was not counted


def free_bytes(device: torch.device) -> float:
    """Free memory of an accelerator; of a CPU, no limit.

    Raises
    ------
    ValueError
        If ``COMPANION_MEMORY`` is no positive number.
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
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else float("inf")


def bytes_per_example(config: TrainingConfig) -> int:
    """What one example of a batch takes: its gradient, once more while it is clipped, and outputs.

    Outputs of all layers count three times: forward, backward, and what a layer keeps besides.
    """
    numbers = 3 * outputs_per_example(config.model)
    if config.private:
        numbers += 2 * parameter_count(config.model)
    return 4 * config.copies * numbers


def examples_at_once(config: TrainingConfig, device: torch.device) -> float:
    """How many examples of a batch fit the memory that is free; at least 1.

    Raises
    ------
    ValueError
        If not even one does.
    """
    free, each = free_bytes(device), bytes_per_example(config)
    if (found := _PART * free / each) < 1:
        raise ValueError(
            f"device must have {each / _PART / 1e6:,.1f} MB of free memory for one example of"
            f" {config.model.name!r}, got {free / 1e6:,.1f} MB on {str(device)!r}"
        )
    return found


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
