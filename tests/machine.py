"""How slow this machine is, for tests of speed."""

import time

import numpy as np
from scipy import special

# Seconds of the reference on the machine on which the limits were set.  It was not timed there: the
# tests of speed themselves take three times as long on a machine that needs 0.038 s for it.
_REFERENCE = 0.038 / 3


def slowness() -> float:
    """Time of a fixed piece of numerical work over its time on a fast core, at least 1.

    Limits on durations are multiplied by it, so that a test of speed fails for the code and not for
    a shared or older machine.
    """
    x = np.random.default_rng(0).random(100_000)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        special.betainc(3.5, 70.5, x)
        times.append(time.perf_counter() - started)
    return max(1.0, min(times) / _REFERENCE)
