"""Arrays that are computed once: memory-mapped, checked, made anew where they are damaged."""

import os
import subprocess

import numpy as np
import pytest

from lib.data import cache
from lib.runs.files import user_cache

ARRAYS = {
    "a": np.arange(12.0).reshape(3, 4),
    "b": np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)),
    "names": np.array(["no", "yes", "perhaps"]),
}


@pytest.fixture(autouse=True)
def computed(monkeypatch):
    """Calls of :func:`kept` that computed."""
    monkeypatch.setattr(cache, "_checked", {})
    return []


def kept(computed, identity="x"):
    def compute():
        computed.append(identity)
        return ARRAYS

    found = cache.kept_arrays("made", identity, compute)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
    return found


def folders():
    folder = user_cache() / "made"
    return sorted(folder.iterdir()) if folder.exists() else []


def test_arrays_are_computed_once_mapped_and_read_only(computed):
    kept(computed)
    again = kept(computed)
    assert all(isinstance(array, np.memmap) for array in again.values())
    with pytest.raises(ValueError, match="read-only"):
        again["a"][0] = 1
    (folder,) = folders()
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True)
    assert (done.returncode, done.stdout.count(b": OK")) == (0, 3)
    kept(computed, ["another", {"identity": 1}])
    assert computed == ["x", ["another", {"identity": 1}]]


def test_where_nothing_can_be_kept_they_are_computed_each_time(computed, monkeypatch):
    monkeypatch.setattr(cache, "can_write", lambda folder: False)
    with pytest.raises(ValueError, match="read-only"):
        kept(computed)["a"][0] = 1
    kept(computed)
    assert (computed, folders()) == (["x", "x"], [])
    assert ARRAYS["a"].flags.writeable


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a number": lambda folder: flip(folder / "a.npy", -1),
    "a checksum": lambda folder: flip(folder / "SHA256SUMS", 0),
    "cut short": lambda folder: os.truncate(folder / "a.npy", 130),
    "no array": lambda folder: (folder / "a.npy").unlink(),
    "no checksums": lambda folder: (folder / "SHA256SUMS").unlink(),
    "not text": lambda folder: (folder / "SHA256SUMS").write_bytes(b"\xff\xfe"),
    "an array too many": lambda folder: (folder / "c.npy").write_bytes(b""),
    "empty": lambda folder: (
        [path.unlink() for path in folder.iterdir()] + [(folder / "SHA256SUMS").touch()]
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_copy_is_made_anew_with_a_warning(computed, monkeypatch, damage):
    kept(computed)
    (folder,) = folders()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    DAMAGE[damage](folder)
    monkeypatch.setattr(cache, "_checked", {})  # as a new process
    with pytest.warns(UserWarning, match="made anew") as got:
        kept(computed)
    assert len(got) == 1
    assert folders() == [folder]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    kept(computed)  # without a warning


def test_damage_by_a_running_process_is_noticed_too(computed):
    kept(computed)
    flip(folders()[0] / "a.npy", -1)
    os.utime(folders()[0] / "a.npy", ns=(0, 0))
    with pytest.warns(UserWarning, match="made anew"):
        kept(computed)


def test_who_fails_or_dies_leaves_nothing(computed, monkeypatch):
    def dies(*arguments):
        raise KeyboardInterrupt

    with pytest.raises(ZeroDivisionError):
        cache.kept_arrays("made", "x", lambda: {"a": 1 / 0})
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            kept(computed)
    assert folders() == []
    kept(computed)


def test_a_faster_writer_wins(computed, monkeypatch):
    """Two processes compute at once: the slower finds the folder there when it comes to rename."""
    replace, others = os.replace, []

    def slow(source, target):
        if not others:
            others.append(True)
            kept(computed)
        replace(source, target)

    monkeypatch.setattr(os, "replace", slow)
    kept(computed)
    assert len(computed) == 2
    assert [path.name for path in folders()[0].iterdir() if path.is_dir()] == []
    assert len(folders()) == 1
