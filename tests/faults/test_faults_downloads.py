"""Downloads that break off, come wrong, or are killed; two at once."""

import hashlib
import os
import signal
import threading
import time

import pytest
from fault_tools import Forker
from web_server import serving

from lib.data import store
from lib.data.errors import DataCorrupted, DataUnavailable
from lib.data.registry import Entry

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server():
    """A web server on this machine that answers in the way that ``.how`` says."""

    def answer(handler):
        http.requests += 1
        content = {"empty": b"", "wrong": CONTENT[::-1], "page": b"<html>Sign in</html>"}
        content = content.get(http.how, CONTENT)
        handler.send_response(200)
        if http.how not in ("no length", "endless"):
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if http.how == "endless":
            for _ in range(1000):  # 200 MB, if nobody hangs up
                handler.wfile.write(bytes(200_000))
                http.sent += 200_000
        elif http.how in ("cut", "no length", "reset"):
            handler.wfile.write(content[: len(content) // 3])
            if http.how == "reset":
                handler.connection.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER: reset
            handler.close_connection = True
        elif http.how == "held":
            handler.wfile.write(content[: int(http.share * len(content))])
            http.held.set()
            assert http.go.wait(60)
        else:
            for start in range(0, len(content), 1 << 14):
                handler.wfile.write(content[start : start + (1 << 14)])
                time.sleep(0.03 if http.how == "slow" else 0)

    with serving(answer) as http:
        http.how, http.requests, http.sent = "well", 0, 0
        http.share, http.held, http.go = 0.5, threading.Event(), threading.Event()
        yield http


@pytest.fixture
def cache(server, monkeypatch, tmp_path):
    monkeypatch.delenv("COMPANION_DATA", raising=False)
    monkeypatch.setenv("COMPANION_OFFLINE", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_hashes", {})
    monkeypatch.setattr(store, "_no_network", None)
    entry = Entry("a", server.url, "o/a", SHA256, len(CONTENT), "l", "c", ("one",))
    monkeypatch.setattr(store, "registry", lambda: {"a": entry})
    return tmp_path / "cache"


def kept(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("cut", DataUnavailable),  # shorter than it said
        ("reset", DataUnavailable),
        ("no length", DataCorrupted),  # shorter, which only the checksum tells
        ("empty", DataCorrupted),
        ("wrong", DataCorrupted),
        ("page", DataCorrupted),  # of a network that wants to be signed in to
    ],
)
def test_a_download_that_goes_wrong(server, cache, how, error):
    server.how = how
    with pytest.raises(error, match=server.url) as caught:
        store.fetch("a")
    assert "\n" not in str(caught.value)
    assert kept(cache) == []
    server.how = "well"
    assert store.fetch("a").read_bytes() == CONTENT
    assert len(kept(cache)) == 1


@pytest.mark.parametrize("size", [4_000, len(CONTENT), None])
def test_a_download_stops_at_the_registered_size(server, cache, monkeypatch, size):
    server.how = "endless"
    monkeypatch.setattr(store, "MOST_BYTES", 1_000_000)
    entry = Entry("a", server.url, "o/a", size and SHA256, size, "l", "c", ("one",))
    with monkeypatch.context() as patch:
        patch.setattr(store, "registry", lambda: {"a": entry})
        with pytest.raises(DataCorrupted, match=f"{size or 1_000_000:,} bytes"):
            store.fetch("a") if size else store.fetch_unverified("a", lambda *_: "fine")
    assert kept(cache) == []
    assert server.sent < 20_000_000  # what was under way when the client hung up
    server.how = "well"
    assert store.fetch("a").read_bytes() == CONTENT


def fetching(forker: Forker, url: str, cache, target) -> int:
    variables = {"COMPANION_CACHE": str(cache), "COMPANION_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
    return forker.begin("fetch", "a", url, SHA256, target, **variables)


@pytest.mark.slow
def test_a_killed_download_is_never_read(fetcher, server, tmp_path):
    cache, target = tmp_path / "cache", tmp_path / "read"
    server.how = "held"
    for server.share in (0.1, 0.5, 0.9):
        pid = fetching(fetcher, server.url, cache, target)
        assert server.held.wait(60), "no download began"
        server.held.clear()
        time.sleep(0.05)  # it may write what it has
        assert not fetcher.ended()
        os.kill(pid, signal.SIGKILL)
        assert fetcher.end() == -signal.SIGKILL
        assert not (cache / "owner" / "a").exists()
    server.go.set()
    server.how = "well"
    fetching(fetcher, server.url, cache, target)
    assert fetcher.end() == 0, fetcher.printed()
    assert target.read_bytes() == CONTENT
    assert (cache / "owner" / "a").read_bytes() == CONTENT


@pytest.mark.slow
def test_two_processes_download_the_same(fetcher, other_fetcher, server, tmp_path):
    cache, targets = tmp_path / "cache", [tmp_path / "one", tmp_path / "two"]
    server.how = "slow"
    fetching(fetcher, server.url, cache, targets[0])
    fetching(other_fetcher, server.url, cache, targets[1])
    ends = fetcher.end(), other_fetcher.end()
    assert ends == (0, 0), fetcher.printed() + other_fetcher.printed()
    assert [target.read_bytes() for target in targets] == [CONTENT] * 2
    assert [path.name for path in kept(cache)] == ["a"]
