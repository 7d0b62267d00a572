"""Files whose SHA-256 the registry does not know, before and after somebody accepts one."""

import hashlib

import pytest

from lib.data import __main__ as cli
from lib.data import store
from lib.data.errors import DataCorrupted, DataUnavailable, UndeclaredData
from lib.runs.files import user_cache

CONTENT = b"what the authors published"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


@pytest.fixture
def server(server):
    server.content = CONTENT
    return server


def look(name, path):
    """An examination that only makes sure that the content has come."""
    if path.read_bytes() != CONTENT:
        raise ValueError(f"{path.name} is strange")
    return "looked at"


def cached(name="a"):
    return user_cache() / store.entry(name).mirror


def kept():
    """Whatever lies in the cache."""
    return sorted(p for p in user_cache().rglob("*") if p.is_file())


def note(name="a"):
    return user_cache() / f"{store.entry(name).mirror}.sha256"


@pytest.mark.parametrize("copy", ["none", "mirror", "cache"])
def test_unknown_file_is_absent_wherever_copies_lie(mirror, server, copy):
    mirror.add("a", CONTENT, known=False, present=copy == "mirror", url=server.url)
    mirror.add("b", CONTENT)
    if copy == "cache":
        cached().parent.mkdir(parents=True)
        cached().write_bytes(CONTENT)
    assert not store.available("a")
    assert store.state("a") == store.ABSENT
    assert store.fingerprints("one") == {"a": "absent", "b": SHA256}
    with pytest.raises(DataUnavailable, match="fetch --unverified a"):
        store.fetch("a")
    assert server.requests == 0


def test_from_the_network(mirror, server):
    mirror.add("a", CONTENT, known=False, present=False, url=server.url)
    assert store.fetch_unverified("a", look) == (cached(), "looked at")
    assert kept() == [cached(), note()]
    assert note().read_text() == f"{SHA256}\n"
    assert store.fetch("a").read_bytes() == CONTENT
    assert store.fingerprints("one") == {"a": SHA256}
    cached().unlink()  # now like any other: it comes back, and only as it was
    assert store.available("a")
    assert server.requests == 2
    cached().unlink()
    server.content = b"other"
    for attempt in (store.fetch, lambda name: store.fetch_unverified(name, look)):
        with pytest.raises(DataCorrupted, match=SHA256):
            attempt("a")
    assert kept() == [note()]


def test_from_the_mirror(mirror):
    mirror.add("a", CONTENT, known=False)
    assert store.fetch_unverified("a", look) == (mirror.path("a"), "looked at")
    assert kept() == [note()]
    assert store.fetch("a") == mirror.path("a")
    mirror.path("a").write_bytes(b"other")
    for attempt in (store.fetch, store.available, store.state):
        with pytest.raises(DataCorrupted, match=f"{SHA256}.*{OTHER}"):
            attempt("a")


@pytest.mark.parametrize("present", [True, False])
def test_what_is_not_as_expected_is_not_kept(mirror, server, present):
    server.content = b"other"
    mirror.add("a", b"other", known=False, present=present, url=server.url)
    with pytest.raises(DataCorrupted, match="strange"):
        store.fetch_unverified("a", look)
    assert kept() == []


def test_the_registry_wins(mirror):
    mirror.add("a", CONTENT)
    with pytest.raises(ValueError, match="known"):
        store.fetch_unverified("a", look)
    note().parent.mkdir(parents=True)
    note().write_text(OTHER)
    assert store.fingerprints("one") == {"a": SHA256}
    mirror.add("b", CONTENT, known=False)
    note_of_b = note("b")
    for damage in ("", "1", SHA256.upper(), "sha256:" + SHA256, "é"):
        note_of_b.write_text(damage)
        with pytest.raises(DataCorrupted, match=r"b\.sha256 is damaged"):
            store.available("b")
    assert store.available("a")


def test_a_chapter_cannot_accept(mirror, monkeypatch):
    mirror.add("a", CONTENT, known=False)
    monkeypatch.setenv("COMPANION_CHAPTER", "one")
    with pytest.raises(UndeclaredData, match="accepts"):
        store.fetch_unverified("a", look)


def test_the_command(mirror, monkeypatch, capsys):
    monkeypatch.setattr(cli, "registry", lambda: mirror.entries)
    monkeypatch.setattr(cli, "examine_signals", look)

    def command(*arguments):
        return cli.main(list(arguments)), *capsys.readouterr()

    mirror.add("group/a", CONTENT, known=False)
    mirror.add("group/b", CONTENT)
    assert command("list")[1].split("\n")[1].split()[1:3] == ["unknown", "unknown"]
    assert command("verify")[1].startswith("unknown    group/a\n")
    code, out, error = command("fetch", "group/*")
    assert (code, out) == (0, f"{mirror.path('group/b')}\n")
    assert "group/a" in error
    code, out, _ = command("fetch", "--unverified", "group/a")
    assert code == 0
    assert out.splitlines()[:2] == [str(mirror.path("group/a")), "  looked at"]
    assert SHA256 in out
    assert command("verify")[1].startswith("ok         group/a (mirror)\n")
    assert command("fetch", "group/*")[2] == ""
    mirror.path("group/a").write_bytes(b"other")
    assert command("verify")[0] == 1
