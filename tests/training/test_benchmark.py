"""The engine is as fast as promised, and small; measured against Opacus at its best."""

import json
import subprocess
import sys

import pytest

from lib.studies.training import benchmark


@pytest.mark.slow
@pytest.mark.speed
def test_speed_over_opacus():
    """The targets: 25 times (linear), 20 times (perceptron), no slower (CNN).

    Another process on the machine slows two busy threads more than one, so a measurement that
    misses is repeated, twice at most.
    """
    targets = {"linear": 25.0, "mlp": 20.0, "small_cnn": 1.0}
    work = {"linear": (512, 400), "mlp": (512, 400), "small_cnn": (4, 8)}
    seen = []
    for _ in range(3):
        speeds = benchmark.compare_all(work, rounds=1)
        seen.append({speed.model: speed.ratio for speed in speeds})
        work = {name: work[name] for name in work if seen[-1][name] < targets[name]}
        if not work:
            return
    pytest.fail(f"ratios to Opacus, one model after another: {seen}; targets: {targets}")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_models():
    code = (
        "import json; from lib.studies.training import benchmark as b;"
        " print(json.dumps([b._memory('mlp', n, 5) for n in (2, 512)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    few, many = json.loads(done.stdout)
    results = 512 * (2410 + 64) * 4 / 2**20  # parameters of all models are part of the result
    assert many["peak"] - many["before"] < 4 * results + 20
    assert few["peak"] - few["before"] < 20
