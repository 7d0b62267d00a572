import contextlib
import multiprocessing
import os
import socket
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pooch
import pytest

from lib.data import store
from lib.data.errors import DataCorrupted, DataUnavailable, UndeclaredData, UnknownData
from lib.data.registry import registry
from lib.runs.files import user_cache

CONTENT = b"what the authors published"


def cached(mirror, name):
    return user_cache() / mirror.entries[name].mirror


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def server(server):
    server.content = CONTENT
    return server


@pytest.fixture
def dead_url(monkeypatch):
    """An address at which nobody listens."""
    monkeypatch.setenv("COMPANION_OFFLINE", "")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}/file"


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_mirror_comes_before_the_cache(mirror, monkeypatch):
    mirror.add("a", CONTENT)
    mirror.add("b", CONTENT, present=False)
    copies = [put(cached(mirror, name), CONTENT) for name in "ab"]
    assert [store.fetch("a"), store.fetch("b")] == [mirror.path("a"), copies[1]]
    monkeypatch.setenv("COMPANION_DATA", "")  # as if it was not set
    assert store.fetch("a") == copies[0]
    with pytest.raises(UnknownData, match="did you mean 'a'"):
        store.fetch("a-")


def test_damaged_mirror_file_is_an_error_even_with_a_good_copy_in_the_cache(mirror):
    entry = mirror.add("a", CONTENT)
    put(cached(mirror, "a"), CONTENT)
    mirror.path("a").write_bytes(b"damaged")
    for attempt in (store.fetch, store.available):
        with pytest.raises(DataCorrupted, match=entry.sha256):
            attempt("a")
    with pytest.raises(DataCorrupted):
        store.fingerprints("one")


def test_a_file_is_hashed_again_only_when_it_changed(mirror, monkeypatch):
    mirror.add("a", CONTENT)
    calls = []
    original = pooch.file_hash
    monkeypatch.setattr(pooch, "file_hash", lambda *a, **k: calls.append(a) or original(*a, **k))
    for _ in range(3):
        store.fetch("a")
    assert len(calls) == 1
    status = mirror.path("a").stat()
    mirror.path("a").write_bytes(CONTENT[::-1])  # the same size
    os.utime(mirror.path("a"), ns=(status.st_atime_ns, status.st_mtime_ns))  # as rsync does
    with pytest.raises(DataCorrupted):
        store.fetch("a")
    assert len(calls) == 2


def test_offline_without_a_copy(mirror, monkeypatch):
    mirror.add("a", CONTENT, present=False, url="http://127.0.0.1:9/never")
    with pytest.raises(DataUnavailable, match="COMPANION_OFFLINE"):
        store.fetch("a")
    assert not store.available("a")
    monkeypatch.setenv("COMPANION_OFFLINE", "0")
    mirror.add("b", CONTENT, present=False)
    with pytest.raises(DataUnavailable, match="address"):
        store.fetch("b")


def test_damaged_cache_is_an_error_without_a_network(mirror, dead_url):
    mirror.add("a", CONTENT, present=False, url=dead_url)
    put(cached(mirror, "a"), b"damaged")
    for _ in range(2):
        with pytest.raises(DataCorrupted):
            store.available("a")


def test_a_missing_network_is_asked_for_once(mirror, dead_url, monkeypatch):
    for name in "abc":
        mirror.add(name, CONTENT, present=False, url=dead_url)
    mirror.add("d", CONTENT)
    attempts = []
    original = pooch.retrieve
    monkeypatch.setattr(pooch, "retrieve", lambda *a, **k: attempts.append(a) or original(*a, **k))
    expected = dict.fromkeys("abc", "absent") | {"d": mirror.entries["d"].sha256}
    assert store.fingerprints("one") == expected
    assert not store.available("a")
    assert len(attempts) == 1
    with pytest.raises(DataUnavailable, match="ConnectionError"):
        store.fetch("a")  # who asks explicitly is served: the network may be back
    assert len(attempts) == 2


@pytest.mark.parametrize("before", [None, b"damaged"])
def test_download_fills_the_cache_once(mirror, server, before):
    mirror.add("a", CONTENT, present=False, url=server.url)
    if before:
        put(cached(mirror, "a"), before)
    assert store.available("a")
    assert store.fetch("a") == cached(mirror, "a")
    assert store.fetch("a").read_bytes() == CONTENT
    assert server.requests == 1
    assert files_below(user_cache()) == [cached(mirror, "a")]


def test_network_that_comes_back_is_noticed(mirror, server, dead_url):
    mirror.add("a", CONTENT, present=False, url=dead_url)
    mirror.add("b", CONTENT, present=False, url=server.url)
    assert not store.available("a")
    assert not store.available("b")
    assert store.fetch("b")
    assert store.available("b")


ASK = {
    "fetch": store.fetch,
    "available": store.available,
    "fingerprints": lambda name: store.fingerprints("one"),
    "state": store.state,
}


def ask_quietly(way, name):
    with contextlib.suppress(DataUnavailable):
        ASK[way](name)


@pytest.mark.parametrize("way", ASK)
@pytest.mark.parametrize("present", [True, False])
def test_what_is_asked_for_is_noted_for_the_build(mirror, monkeypatch, tmp_path, way, present):
    mirror.add("a", CONTENT, present=present)
    mirror.add("b", CONTENT, chapters=["two"])
    ask_quietly(way, "a")  # nobody wants to know
    notes = tmp_path / "notes"
    monkeypatch.setenv(store.ASKED, str(notes))
    with pytest.raises(FileNotFoundError):  # the build makes the file
        ASK[way]("a")
    notes.write_text("z\n")
    ask_quietly(way, "a")
    assert notes.read_text().split() == ["z", "a"]


def test_many_processes_note_at_once(mirror, monkeypatch, tmp_path):
    names = [f"{'long' * 20}/{number}" for number in range(40)]
    for name in names:
        mirror.add(name, CONTENT)
    notes = tmp_path / "notes"
    notes.touch()
    monkeypatch.setenv(store.ASKED, str(notes))
    with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as workers:
        assert all(workers.map(store.available, names * 10))
    assert sorted(notes.read_text().splitlines()) == sorted(names * 10)


def test_chapter_reads_only_what_is_declared_for_it(mirror, monkeypatch):
    mirror.add("a", CONTENT, chapters=["one", "two"])
    monkeypatch.setenv("COMPANION_CHAPTER", "two")
    assert store.fetch("a")
    monkeypatch.setenv("COMPANION_CHAPTER", "three")
    for attempt in (store.fetch, store.available):
        with pytest.raises(UndeclaredData, match="three"):
            attempt("a")
    mirror.add("b", b"other", chapters=["two"])
    mirror.add("c", b"third", chapters=["one"], present=False)
    assert store.fingerprints("one") == {"a": mirror.entries["a"].sha256, "c": "absent"}
    assert store.fingerprints("unheard of") == {}


def test_mirror_holds_what_the_registry_says(real_data):
    present = [
        entry for entry in map(store.entry, registry()) if store.state(entry.name) != "absent"
    ]
    assert present
    for entry in present:
        path = store.fetch(entry.name)
        with np.load(path) if entry.arrays else contextlib.nullcontext({}) as arrays:
            size = sum(a.nbytes for a in arrays.values()) or path.stat().st_size
        assert size == entry.size, entry.name
