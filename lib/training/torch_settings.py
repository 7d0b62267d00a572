"""PyTorch's precision, threads and random numbers during a training, put back afterwards."""

import contextlib
import os
import warnings
from collections.abc import Iterator

import torch

from lib.runs.devices import accelerators, claimed_now, require_device
from lib.training.config import TrainingConfig
from lib.training.models import forward_flops

_SMALL_WORK = 5e7  # operations of a forward pass of the batch


def autocast(config: TrainingConfig, device: torch.device):
    """The precision of forward and backward passes."""
    if config.precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


@contextlib.contextmanager
def _seeded(seed: int, device: torch.device, config: TrainingConfig) -> Iterator[None]:
    """PyTorch's global generator drives dropout; set it for a step and put it back."""
    if config.model.dropout == 0:
        yield
        return
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def _threads(config: TrainingConfig) -> Iterator[None]:
    """One thread for small networks: waiting for each other costs them more than it gives."""
    before = torch.get_num_threads()
    if forward_flops(config.model) * config.batch_size < _SMALL_WORK:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def settings(config: TrainingConfig) -> Iterator[None]:
    """Process-wide switches of PyTorch, put back afterwards."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
    )
    if config.deterministic and config.device.startswith("cuda"):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # PyTorch asks for it
    try:
        torch.use_deterministic_algorithms(config.deterministic)
        torch.set_float32_matmul_precision("high" if config.precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = config.precision == "tf32"  # of convolutions
        with warnings.catch_warnings():
            # Opacus hooks the first layer, whose input needs no gradient: nothing is wrong.
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.set_float32_matmul_precision(before[1])
        torch.backends.cudnn.allow_tf32 = before[2]


def accelerated(device: str) -> bool:
    """Whether a device is none of the processor's own: engines and noise are others there."""
    return not device.startswith("cpu")


def place(device: str) -> torch.device:
    """The device of a configuration: of ``"cuda"`` the one that this thread has claimed.

    In a rehearsal (``COMPANION_REHEARSAL=1``) the CPU stands in for accelerators.
    """
    require_device(device)
    if os.environ.get("COMPANION_REHEARSAL") == "1":
        return torch.device("cpu")
    if device == "cuda":
        own = claimed_now()
        return torch.device("cuda", accelerators()[0] if own is None else own)
    return torch.device(device)
