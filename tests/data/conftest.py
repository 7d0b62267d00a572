"""A store without memory, mirror, cache or network, and a way to register files in it."""

import hashlib
import os
from pathlib import Path

import pytest
from web_server import send, serving

from lib.data import store
from lib.data.registry import Entry

MIRROR = os.environ.get("COMPANION_DATA")  # as the session was started


@pytest.fixture(autouse=True)
def clean_store(monkeypatch, tmp_path):
    for name in ("COMPANION_DATA", "COMPANION_CHAPTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COMPANION_OFFLINE", "1")
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_hashes", {})
    monkeypatch.setattr(store, "_no_network", None)


@pytest.fixture
def real_data(monkeypatch):
    """The authors' files, from the mirror the session was started with."""
    if not MIRROR:
        pytest.skip("COMPANION_DATA is not set: the authors' signals are not on this machine")
    monkeypatch.setenv("COMPANION_DATA", MIRROR)


class Mirror:
    """A mirror directory, and the only registry the store knows."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.entries: dict[str, Entry] = {}

    def add(self, name, content, *, present=True, url=None, chapters=("one",), known=True) -> Entry:
        """Register a file with this content, if known; put it into the mirror if present."""
        entry = Entry(
            name=name,
            url=url,
            mirror=f"owner/repo/commit/{name}",
            sha256=hashlib.sha256(content).hexdigest() if known else None,
            size=len(content) if known else None,
            licence="none",
            citation="none",
            chapters=tuple(chapters),
        )
        self.entries[name] = entry
        if present:
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return entry

    def path(self, name) -> Path:
        return self.folder / self.entries[name].mirror


@pytest.fixture
def mirror(monkeypatch, tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    made = Mirror(folder)
    monkeypatch.setenv("COMPANION_DATA", str(folder))
    monkeypatch.setattr(store, "registry", lambda: made.entries)
    return made


@pytest.fixture
def server(monkeypatch):
    """A web server on this machine that answers with ``.content`` and counts requests."""

    def answer(handler):
        http.requests += 1
        send(handler, http.content, http.status)

    monkeypatch.setenv("COMPANION_OFFLINE", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(answer) as http:
        http.content, http.status, http.requests = b"", 200, 0
        yield http
