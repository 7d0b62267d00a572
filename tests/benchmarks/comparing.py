"""One way to compare: both sides in turn, the same answer, a floor, and the peak of memory.

Times are of the processor, with one thread on both sides: what else the machine does delays both
sides but enters neither's time.  Within a round the other software comes first, then the floor,
then the book's code; a ratio is always of one round.
"""

import ctypes
import gc
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

#: Shorter calls are repeated within a round until they fill about this many seconds.
_LEAST = 0.05

#: Which result belongs to which agreement: a function of both sides' results that gives their
#: difference and the largest one allowed.
Agreement = tuple[str, Callable[[Any, Any], tuple[float, float]]]


def sizes(tiny: Any, *real: Any) -> list:
    """Parameters: a tiny one for `make test`, those of `make bench`."""
    return [
        pytest.param(tiny, id=f"tiny-{tiny}"),
        *(pytest.param(each, id=str(each), marks=pytest.mark.bench) for each in real),
    ]


def compare(
    benchmark: Any,
    *,
    area: str,
    comparison: str,
    peer_name: str,
    size: int,
    unit: str,
    ours: Callable[[], Any],
    peer: Callable[[], Any] | None,
    floor: Callable[[], Any],
    floor_is: str,
    agreements: Sequence[Agreement] = (),
    rounds: int = 3,
    warm_peer: bool = True,
    warm_ours: bool = True,
    ours_memory: bool = True,
    peer_scale: Callable[[], float] = lambda: 1.0,
    remark: str = "",
    reason: str = "",
    peer_memory: bool = True,
) -> None:
    """Measure, check that both sides agree, and hand the figures to pytest-benchmark.

    Without ``--benchmark-enable`` each side runs once or twice and only the agreement counts.
    """
    times: dict[str, list[float]] = {"ours": [], "peer": [], "floor": []}
    repeats = {"ours": 1, "peer": 1, "floor": 1}
    results: dict[str, Any] = {}

    def timed(side: str, call: Callable[[], Any]) -> None:
        if benchmark.enabled:  # in a process of thousands of tests it takes a fifth of a second
            gc.collect()
        started = time.process_time()
        for _ in range(repeats[side]):
            results[side] = call()
        times[side].append((time.process_time() - started) / repeats[side])

    def warm(side: str, call: Callable[[], Any]) -> None:
        call()
        started = time.process_time()
        call()
        spent = max(1e-6, time.process_time() - started)
        repeats[side] = min(2000, max(1, math.ceil(_LEAST / spent)))

    def others() -> None:
        if peer is not None:
            timed("peer", peer)
            times["peer"][-1] *= peer_scale()
        timed("floor", floor)

    if benchmark.enabled:
        if warm_ours:
            warm("ours", ours)
        warm("floor", floor)
        if peer is not None and warm_peer:
            warm("peer", peer)
    elif warm_ours:
        ours()  # compiles
    benchmark.pedantic(lambda: timed("ours", ours), setup=others, rounds=rounds)

    found = []
    for what, difference in agreements:
        distance, tolerance = difference(results["ours"], results["peer"])
        assert distance <= tolerance, f"{comparison} at {size}: {what}: {distance} > {tolerance}"
        found.append({"what": what, "difference": float(distance), "tolerance": float(tolerance)})
    assert peer is None or found, "speed without agreement counts for nothing"
    memory = {}
    if benchmark.enabled and sys.platform == "linux":
        if ours_memory:
            memory["ours"] = peak_memory(ours)
        if peer is not None and peer_memory:
            memory["peer"] = peak_memory(peer)
    benchmark.extra_info.update(
        area=area,
        comparison=comparison,
        peer=peer_name,
        size=size,
        unit=unit,
        seconds={side: values for side, values in times.items() if values},
        floor=floor_is,
        agreement=found,
        memory=memory,
        remark=remark,
        reason=reason,
    )


def peak_memory(call: Callable[[], Any]) -> int:
    """Most bytes resident while a call runs above those before it, in a forked process (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # or the call would first fill what was freed before
    sys.stdout.flush()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reads)
            Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is in use now
            before = _status("VmRSS")
            call()
            os.write(writes, str(max(0, _status("VmHWM") - before)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        answer = stream.read()
    _, code = os.waitpid(child, 0)
    if code or not answer:
        raise RuntimeError(f"the process that measures memory ended with status {code}")
    return int(answer)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")
