"""What P1's whole panel would cost, on paper.

A roofline model: the time for one example in one step is its floating-point operations over a share
of the processor's peak, plus - for DP-SGD - the traffic of its stored per-example gradient over a
share of the memory bandwidth.  It was not calibrated on a GPU; take it as an order of magnitude.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerator:
    """A processor by its data sheet."""

    name: str  # As sold
    # Dense matrix throughput in 1e12 operations a second, in TF32 or, where the chip has none, FP32
    tera_flops: float
    bandwidth: float  # Of the memory, in 1e9 bytes a second


# NVIDIA's data sheets; throughput without sparsity.
GPUS = (
    Accelerator("V100 SXM2 (FP32)", 15.7, 900),
    Accelerator("L4 (TF32)", 60, 300),
    Accelerator("A100 SXM 80 GB (TF32)", 156, 2039),
    Accelerator("H100 SXM (TF32)", 495, 3350),
    Accelerator("H200 SXM (TF32)", 495, 4800),
)


@dataclass(frozen=True)
class PanelTraining:
    """A kind of training in P1's panel."""

    dataset: str  # Name of the data set
    examples: int  # Size of its training set
    epochs: int  # Passes over it
    private: bool  # Whether per-example gradients are needed
    count: int  # How many trainings of this kind there are

    @property
    def sample_steps(self) -> int:
        """Gradients of one example, over all trainings of this kind."""
        return self.examples * self.epochs * self.count


#: Training sets of P1's section 4 and their sizes.
P1_PANEL = {"FashionMNIST": 60_000, "CIFAR-10": 50_000, "SVHN": 73_257, "GTSRB": 39_209}


def p1_panel(
    *, trainings: int = 14, private_budgets: int = 3, seeds: int = 5, epochs: int = 200
) -> list[PanelTraining]:
    """P1's panel: four data sets, three private budgets and one without privacy."""
    panel = []
    for dataset, size in P1_PANEL.items():
        panel.append(PanelTraining(dataset, size, epochs, False, trainings * seeds))
        if private_budgets:
            count = trainings * seeds * private_budgets
            panel.append(PanelTraining(dataset, size, epochs, True, count))
    return panel


def sample_steps(panel: Sequence[PanelTraining]) -> int:
    """Gradients of one example in a whole panel."""
    return sum(each.sample_steps for each in panel)


def seconds_per_example(
    gpu: Accelerator,
    forward_flops: float,
    parameters: int,
    *,
    private: bool,
    compute_share: float = 0.3,
    bandwidth_share: float = 0.6,
    passes: float = 4.0,
) -> float:
    """Time for one example in one step."""
    seconds = 3 * forward_flops / (gpu.tera_flops * 1e12 * compute_share)
    if private:
        seconds += passes * 4 * parameters / (gpu.bandwidth * 1e9 * bandwidth_share)
    return seconds


def makespan(durations: Sequence[float], workers: int) -> float:
    """Wall time of independent trainings, the longest started first."""
    ends = [0.0] * workers
    for duration in sorted(durations, reverse=True):
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)
