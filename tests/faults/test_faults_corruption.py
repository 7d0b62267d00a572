"""Bits flipped, files cut short and emptied, in every kind of cached file: never a wrong number."""

import hashlib
import json
import os
import warnings
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from fault_light import Steps
from fault_tools import changed, damages, untimed

from lib.data import store
from lib.data.errors import DataCorrupted
from lib.data.registry import Entry
from lib.runs import RunStore

SEED = 20_261_124
JOB = Steps(0, size=300, pause=0.0)


def content_of(run) -> tuple:
    arrays = {name: array.tobytes() for name, array in run.arrays.items()}
    return arrays, untimed(run.metrics), run.privacy, run.config, run.provenance, run.seconds


# ------------------------------------------------------------------------------- run results


@pytest.mark.parametrize("name", ["run.json", "arrays.npz"])
def test_run_results(tmp_path, name):
    """Whatever happens to a stored run, it is read as it was, or not at all."""
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


# ---------------------------------------------------------------------------- executed chapters


def test_executed_chapters(chapters, tmp_path):
    """A damaged entry is set aside with a warning, and the chapter is executed again."""
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


def test_an_entry_under_another_name_is_not_believed(chapters, tmp_path):
    chapters.work("finished")
    (path,) = (tmp_path / ".cache/book/one").glob("*.json")
    content = path.read_bytes()
    chapters.work("other")
    (other,) = (p for p in (tmp_path / ".cache/book/one").glob("*.json") if p != path)
    other.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chapters.work("other")


# ----------------------------------------------------------------------------- downloaded data

CONTENT = bytes(range(256)) * 8


@pytest.fixture
def cached(monkeypatch, tmp_path):
    """A downloaded file in the cache, offline."""
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setenv("COMPANION_OFFLINE", "1")
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_hashes", {})
    digest = hashlib.sha256(CONTENT).hexdigest()
    entry = Entry("a", "http://127.0.0.1:9/a", "o/a", digest, len(CONTENT), "l", "c", ("one",))
    monkeypatch.setattr(store, "registry", lambda: {"a": entry})
    path = tmp_path / "cache" / "o" / "a"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    return path


def test_downloaded_data(cached):
    """Without a network to replace it, a damaged file is an error that names it."""
    assert store.fetch("a") == cached
    for damaged in damages(CONTENT, np.random.default_rng(SEED), flips=50, cuts=10):
        store._hashes.clear()  # as in a new process
        cached.write_bytes(damaged)
        for ask in (store.fetch, store.available, store.state):
            with pytest.raises(DataCorrupted, match=f"{cached} is not 'a': expected SHA-256"):
                ask("a")
    cached.write_bytes(CONTENT)
    store._hashes.clear()
    assert store.fetch("a") == cached


def test_a_file_changed_behind_its_modification_time_is_noticed(cached):
    assert store.fetch("a") == cached
    status = cached.stat()
    cached.write_bytes(CONTENT[::-1])
    os.utime(cached, ns=(status.st_atime_ns, status.st_mtime_ns))  # as rsync and cp -p do
    with pytest.raises(DataCorrupted):
        store.fetch("a")


# ------------------------------------------------------------------------------------ features


@pytest.mark.slow
@pytest.mark.parametrize("name", ["features.npy", "SHA256SUMS"])
def test_cached_features(monkeypatch, tmp_path, name):
    """Damaged features, or a damaged checksum of them, are computed anew, with a warning."""
    from lib.data.features import cached_features

    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path))
    expected = np.arange(500, dtype=np.float32)

    def get():
        return cached_features("made", "0", {}, lambda: expected)

    get()
    (path,) = (tmp_path / "features").glob(f"*/{name}")
    content = path.read_bytes()
    for damaged in damages(content, np.random.default_rng(SEED), flips=30, cuts=5):
        path.write_bytes(damaged)
        with pytest.warns(UserWarning, match="arrays kept in .* are damaged"):
            assert np.array_equal(get(), expected)
        assert path.read_bytes() == content
    assert sorted(each.name for each in path.parent.iterdir()) == ["SHA256SUMS", "features.npy"]
