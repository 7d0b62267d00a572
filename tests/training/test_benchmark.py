"""The engine is as fast as promised, and small; measured against Opacus at its best."""

import pytest

from lib.studies.training import benchmark


@pytest.mark.slow
@pytest.mark.speed
def test_speed_over_opacus():
    """The targets: 25 times (linear), 20 times (MLP), no slower (CNN).

    Few models are a little slower each than the page's many.  Opacus has the fastest of its ways,
    with one thread or all.  Another process on the machine slows two busy threads more than one, so
    a measurement that misses is repeated, twice at most.
    """
    work = {"linear": (25.0, 64, 400), "mlp": (20.0, 64, 400), "small_cnn": (1.0, 4, 8)}
    seen = {model: [] for model in work}
    for model, (target, n_models, steps) in work.items():
        benchmark.many_steps_per_second(model, 2, 1)  # compiles
        while not seen[model] or (seen[model][-1] < target and len(seen[model]) < 3):
            peer = max(
                speed
                for threads in (1, None)
                for speed in benchmark.compare_modes(model, 0.2, threads).values()
            )
            seen[model].append(benchmark.many_steps_per_second(model, n_models, steps) / peer)
    assert all(seen[model][-1] >= target for model, (target, *_) in work.items()), seen


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_models():
    results = 512 * (2410 + 64) * 4 / 2**20  # parameters of all models are part of the result
    assert benchmark.peak_memory("mlp", 512, 5) < 4 * results + 20
    assert benchmark.peak_memory("mlp", 2, 5) < 20
