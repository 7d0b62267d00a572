"""What P1's whole panel would cost, on paper.

A roofline model: the time for one example in one step is its floating-point operations over a share
of the processor's peak, plus - for DP-SGD - the traffic of its stored per-example gradient over a
fraction of the memory bandwidth.  It was not calibrated on a GPU; take it as an order of magnitude.
"""

import heapq
from collections.abc import Sequence

import pandas as pd

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


def p1_panel() -> pd.DataFrame:
    """P1's panel: four data sets, three private budgets and one without; a row a kind of training.

    14 trainings of 200 epochs for each of five seeds; `sample_steps` are gradients of one example.
    """
    rows = [
        (size * 200, private, 14 * 5 * budgets)
        for size in P1_PANEL.values()
        for private, budgets in ((False, 1), (True, 3))
    ]
    return pd.DataFrame(rows, columns=["sample_steps", "private", "count"])


def seconds_per_example(
    gpu: tuple[float, float],
    forward_flops: float,
    parameters: int,
    *,
    private: bool,
    compute_share: float = 0.3,
    bandwidth_share: float = 0.6,
    passes: float = 4.0,
) -> float:
    """Time for one example in one step."""
    tera_flops, bandwidth = gpu
    seconds = 3 * forward_flops / (tera_flops * 1e12 * compute_share)
    if private:
        seconds += passes * 4 * parameters / (bandwidth * 1e9 * bandwidth_share)
    return seconds


def makespan(durations: Sequence[float], workers: int) -> float:
    """Wall time of independent trainings, the longest started first."""
    ends = [0.0] * workers
    for duration in sorted(durations, reverse=True):
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)
