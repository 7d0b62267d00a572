"""One way to compare: both sides in turn, and the same answer.

Times are of the processor, with one thread on both sides: what else the machine does delays both
sides but enters neither's time.  Within a round the other software comes first, then the book's
code; a ratio is always of one round.
"""

import gc
import math
import time
from collections.abc import Callable, Sequence
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
    comparison: str,
    peer_name: str,
    size: int,
    unit: str,
    ours: Callable[[], Any],
    peer: Callable[[], Any],
    agreements: Sequence[Agreement],
    rounds: int = 3,
    warm_peer: bool = True,
    warm_ours: bool = True,
    peer_scale: Callable[[], float] = lambda: 1.0,
    remark: str = "",
) -> None:
    """Measure, check that both sides agree, and hand the figures to pytest-benchmark.

    Without ``--benchmark-enable`` each side runs once or twice and only the agreement counts.
    """
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    repeats = {"ours": 1, "peer": 1}
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

    def other() -> None:
        timed("peer", peer)
        times["peer"][-1] *= peer_scale()

    if benchmark.enabled:
        if warm_ours:
            warm("ours", ours)
        if warm_peer:
            warm("peer", peer)
    elif warm_ours:
        ours()  # compiles
    benchmark.pedantic(lambda: timed("ours", ours), setup=other, rounds=rounds)

    assert agreements, "speed without agreement counts for nothing"
    for what, difference in agreements:
        distance, tolerance = difference(results["ours"], results["peer"])
        assert distance <= tolerance, f"{comparison} at {size}: {what}: {distance} > {tolerance}"
    benchmark.extra_info.update(
        comparison=comparison, peer=peer_name, size=size, unit=unit, seconds=times, remark=remark
    )
