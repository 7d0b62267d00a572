"""Bits flipped, files cut short and emptied, in every kind of cached file: never a wrong number."""

import json
import os
import warnings
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from fault_light import Steps
from fault_tools import changed, damages, untimed

from lib.runs import RunStore

SEED = 20_261_124
JOB = Steps(0, size=300, pause=0.0)


def content_of(run) -> tuple:
    arrays = {name: array.tobytes() for name, array in run.arrays.items()}
    return arrays, untimed(run.metrics), run.privacy, run.config, run.provenance, run.seconds


@pytest.mark.parametrize("name", ["run.json", "arrays.npz"])
def test_run_results(tmp_path, name):
    runs = RunStore(tmp_path)
    run = runs.run(JOB)
    expected, path = content_of(run), run.path / name
    rng = np.random.default_rng(SEED)
    refused = unharmed = 0
    with changed(path) as content, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for damaged in damages(content, rng, flips=150, cuts=20):
            path.write_bytes(damaged)
            before = len(caught)
            found = runs.get(JOB)
            if found is None:
                refused += 1
                assert len(caught) == before + 1  # said once
                (aside,) = (runs.folder / "set-aside").iterdir()
                os.replace(aside, run.path)
            else:  # in what JSON reads as the same: 1e-05 and 1E-05
                unharmed += 1
                assert content_of(found) == expected
    assert all("is damaged" in str(each.message) for each in caught)
    assert refused > 160
    assert not unharmed or name == "run.json"
    assert content_of(runs.get(JOB)) == expected


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(5, "Input/output error"), PermissionError()]
)
def test_a_passing_trouble_is_not_taken_for_damage(tmp_path, monkeypatch, error):
    runs = RunStore(tmp_path)
    run = runs.run(JOB)
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(Path, "read_bytes", Mock(side_effect=error))
        with pytest.raises(type(error)):
            runs.get_key(run.key)
    assert run.path.exists()


def test_executed_chapters(chapters, tmp_path):
    chapters.work("finished")
    (path,) = (tmp_path / ".cache/book/one").glob("*.json")
    content = path.read_bytes()
    rng = np.random.default_rng(SEED)
    refused = 0
    for damaged in damages(content, rng, flips=15, cuts=4):
        path.write_bytes(damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            chapters.work("finished")  # compares what it gets
        said = [str(each.message) for each in caught]
        assert all("damaged cache entry set aside" in each for each in said)
        refused += len(said)
        kept, new = json.loads(content), json.loads(path.read_bytes())
        for entry in (kept, new):
            for name in ("sha256", "seconds", "finished"):
                entry.pop(name)
        assert new == kept
    assert refused >= 19
