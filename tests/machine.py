"""How slow this machine is, for tests of speed."""

import time

_REFERENCE = 0.03  # seconds of the loop below on the cores that the limits are meant for


def slowness() -> float:
    """Time of a fixed loop over its time on a current core, at least 1.

    Limits on durations are multiplied by it: shared and older machines are up to three times as
    slow, and a test of speed must not fail for that.
    """
    times = []
    for _ in range(5):
        started = time.perf_counter()
        sum(i * i for i in range(1_000_000))
        times.append(time.perf_counter() - started)
    return max(1.0, min(times) / _REFERENCE)
