"""A Dask worker killed in the middle of P1's panel: the panel is complete, and the same."""

import contextlib
import math
import os
import signal
import threading
import time

import numpy as np
import pytest
from fault_tools import assert_same_runs, read_all

from lib.runs import RunStore, executor_for

pytestmark = pytest.mark.long


@pytest.fixture
def settings():
    pytest.importorskip("distributed", reason="the optional extra 'cluster' is not installed")
    from lib.studies.interplay.panel import PanelSettings
    from lib.training import DataSpec, ModelSpec, TrainingConfig

    return PanelSettings(
        DataSpec(train=300, validation=100, test=200),
        TrainingConfig(
            ModelSpec("mlp", (64,), 10, hidden=(8,)), steps=40, batch_size=64, checkpoint_every=8
        ),
        epsilons=(math.inf, 3.0),
        n_seeds=2,
        rates=(0.01, 1.0),
        families=("plain", "SAT", "DE"),
        members=2,
    )


def test_a_panel_survives_a_killed_dask_worker(settings, tmp_path, monkeypatch):
    from lib.studies.interplay.panel import run_panel

    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "alone"))
    alone = run_panel(settings)
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "cluster"))
    store, stop, killed = RunStore(tmp_path / "cluster"), threading.Event(), []
    with executor_for("local-cluster:2") as client:
        client.wait_for_workers(2, timeout=120)
        pids = sorted(client.run(os.getpid).values())

        def kill_one() -> None:
            """Once the first run is finished: others are in the middle then."""
            while not stop.is_set():
                if store.keys():
                    os.kill(pids[0], signal.SIGKILL)
                    killed.append(len(store.keys()))
                    return
                time.sleep(0.02)

        killer = threading.Thread(target=kill_one)
        killer.start()
        try:
            panel = run_panel(settings, client)
        finally:
            stop.set()
            killer.join()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[0], 0)
            raise AssertionError("the worker was not killed")
    total = len(store.keys())
    assert killed
    assert 1 <= killed[0] < total, (killed, total)
    assert panel.predictions.keys() == alone.predictions.keys()
    for place, each in alone.predictions.items():
        found = panel.predictions[place]
        assert np.array_equal(found.correct, each.correct)
        assert np.array_equal(found.score, each.score)
    for name in ("rates", "privacy"):
        assert getattr(panel, name).equals(getattr(alone, name))
    assert_same_runs(read_all(store), read_all(RunStore(tmp_path / "alone")))
