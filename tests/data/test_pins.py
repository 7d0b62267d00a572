"""Files whose SHA-256 the registry does not know, before and after somebody pins one."""

import hashlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
import yaml

from lib.book import execute
from lib.data import __main__ as cli
from lib.data import store
from lib.data.errors import DataCorrupted, DataUnavailable, UndeclaredData
from lib.data.registry import registry

CONTENT = b"what the authors published"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()
REAL = "suitability/civilcomments_ERM_0"


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
    return store._cache() / store.entry(name).mirror


def pins():
    path = store._cache() / "pins.yml"
    return yaml.safe_load(path.read_text()) if path.exists() else None


def kept():
    """Whatever lies in the cache, but for the lock."""
    return sorted(p for p in store._cache().rglob("*") if p.is_file() and p.suffix != ".lock")


# --- unpinned -----------------------------------------------------------------------------------


@pytest.mark.parametrize("copy", ["none", "mirror", "cache"])
def test_unpinned_file_is_absent_wherever_copies_lie(mirror, server, copy):
    mirror.add("a", CONTENT, known=False, present=copy == "mirror", url=server.url)
    mirror.add("b", CONTENT)
    if copy == "cache":
        cached().parent.mkdir(parents=True)
        cached().write_bytes(CONTENT)
    assert not store.available("a")
    assert not store.is_here("a")
    assert store.fingerprints("one") == {"a": "absent", "b": SHA256}
    with pytest.raises(DataUnavailable) as caught:
        store.fetch("a")
    for part in ("SHA-256", "registry", str(store._cache() / "pins.yml"), server.url,
                 "python -m lib.data pin a"):  # fmt: skip
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert server.requests == 0


def test_a_build_learns_that_an_unpinned_file_was_asked_for(mirror, monkeypatch, tmp_path):
    mirror.add("a", CONTENT, known=False)
    notes = tmp_path / "notes"
    notes.touch()
    monkeypatch.setenv(store.ASKED, str(notes))
    assert not store.available("a")
    assert notes.read_text() == "a\n"


# --- pinning ------------------------------------------------------------------------------------


def test_pin_from_the_network(mirror, server):
    mirror.add("a", CONTENT, known=False, present=False, url=server.url)
    assert store.pin("a", look) == (cached(), "looked at")
    assert pins() == {"a": {"sha256": SHA256, "size": len(CONTENT)}}
    assert kept() == sorted([cached(), store._cache() / "pins.yml"])
    assert store.fetch("a").read_bytes() == CONTENT
    assert (store.entry("a").sha256, store.entry("a").size) == (SHA256, len(CONTENT))
    assert store.fingerprints("one") == {"a": SHA256}
    assert server.requests == 1

    cached().unlink()  # now like any other: it comes back, and only as it was
    assert store.available("a")
    assert server.requests == 2
    cached().unlink()
    server.content = b"other"
    with pytest.raises(DataCorrupted, match=SHA256):
        store.fetch("a")
    assert kept() == [store._cache() / "pins.yml"]


def test_pin_from_the_mirror(mirror, server, monkeypatch):
    mirror.add("a", CONTENT, known=False, url=server.url)
    assert store.pin("a", look, SHA256) == (mirror.path("a"), "looked at")
    assert kept() == [store._cache() / "pins.yml"]
    assert store.fetch("a") == mirror.path("a")
    assert server.requests == 0
    monkeypatch.delenv("COMPANION_DATA")
    assert store.fetch("a") == cached()


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("wrong", ["hash", "content"])
def test_what_is_not_as_expected_is_not_kept(mirror, server, present, wrong):
    content = CONTENT if wrong == "hash" else b"other"
    server.content = content
    mirror.add("a", content, known=False, present=present, url=server.url)
    message = OTHER if wrong == "hash" else "content of 'a' is not what it should be: .* is strange"
    with pytest.raises(DataCorrupted, match=message):
        store.pin("a", look, OTHER)
    assert kept() == []
    assert not store.available("a")


def test_pinned_file_that_is_damaged(mirror):
    mirror.add("a", CONTENT, known=False)
    store.pin("a", look)
    mirror.path("a").write_bytes(b"other")
    for attempt in (store.fetch, store.available, store.is_here, lambda _: store.pin("a", look)):
        with pytest.raises(DataCorrupted, match=rf"{SHA256}, found {OTHER}; .* delete its lines"):
            attempt("a")


def test_a_pin_does_not_change_by_itself(mirror, server):
    mirror.add("a", CONTENT, known=False, present=False, url=server.url)
    store.pin("a", look)
    server.content = b"other"
    assert store.pin("a", look) == store.pin("a", look, SHA256) == (cached(), "looked at")
    with pytest.raises(DataCorrupted, match=f"is pinned as {SHA256}, not {OTHER}: to accept"):
        store.pin("a", look, OTHER)
    assert server.requests == 1
    assert pins()["a"]["sha256"] == SHA256


def test_the_registry_wins(mirror):
    mirror.add("a", CONTENT)
    with pytest.raises(ValueError, match="SHA-256 of 'a' is in the registry"):
        store.pin("a", look)
    store._cache().mkdir()
    (store._cache() / "pins.yml").write_text(f"a: {{sha256: {OTHER}, size: 5}}\n")
    assert store.fetch("a") == mirror.path("a")
    assert store.fingerprints("one") == {"a": SHA256}


@pytest.mark.parametrize("sha256", ["", "0" * 63, "A" * 64, "sha256:" + "0" * 64])
def test_a_hash_that_is_none(mirror, sha256):
    mirror.add("a", CONTENT, known=False)
    with pytest.raises(ValueError, match=f"sha256 must be 64 .* got '{sha256}'"):
        store.pin("a", look, sha256)
    assert pins() is None


def test_without_network_or_address(mirror, monkeypatch):
    mirror.add("a", CONTENT, known=False, present=False, url="http://127.0.0.1:9/never")
    mirror.add("b", CONTENT, known=False, present=False)
    with pytest.raises(DataUnavailable, match="COMPANION_OFFLINE forbids"):
        store.pin("a", look)
    monkeypatch.setenv("COMPANION_OFFLINE", "0")
    with pytest.raises(DataUnavailable, match="has no public address"):
        store.pin("b", look)
    assert kept() == []


def test_a_chapter_cannot_pin(mirror, monkeypatch):
    mirror.add("a", CONTENT, known=False)
    monkeypatch.setenv("COMPANION_CHAPTER", "one")
    with pytest.raises(UndeclaredData, match="'one' pins 'a': only a person can"):
        store.pin("a", look)


def test_a_pin_that_cannot_be_written_is_none(mirror, server, monkeypatch):
    def full(path, text):
        raise OSError("no space left")

    mirror.add("a", CONTENT, known=False, present=False, url=server.url)
    with monkeypatch.context() as patch:
        patch.setattr(store, "write_atomic", full)
        with pytest.raises(OSError, match="no space left"):
            store.pin("a", look)
    assert not store.available("a")
    store.pin("a", look)
    assert store.available("a")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "a: [",
        "a: 1",
        "a: {sha256: 1, size: 1}",
        f"a: {{sha256: {SHA256}}}",
        f"a: {{sha256: {SHA256}, size: 0}}",
        f"a: {{sha256: {SHA256.upper()}, size: 1}}",
        f"a: {{sha256: {SHA256}, size: 1, url: x}}",
        "a: !!python/object/apply:os.getpid []",
        "",
    ],
)
def test_damaged_pins_are_an_error_for_what_needs_them(mirror, text):
    mirror.add("a", CONTENT, known=False)
    mirror.add("b", CONTENT)
    store._cache().mkdir()
    (store._cache() / "pins.yml").write_text(text)
    with pytest.raises(DataCorrupted, match=r"pins\.yml is damaged"):
        store.available("a")
    assert store.available("b")


def pin_by_name(name):
    return store.pin(name, look)


def test_many_pins_at_once(mirror):
    names = [f"n{number}" for number in range(12)]
    for name in names:
        mirror.add(name, CONTENT, known=False)
    with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as workers:
        list(workers.map(pin_by_name, names))
    assert sorted(pins()) == sorted(names)


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def command(mirror, monkeypatch, capsys):
    """Runs one; returns exit code, output and errors."""
    monkeypatch.setattr(cli, "registry", lambda: mirror.entries)
    monkeypatch.setattr(cli, "examine_signals", look)

    def run(*arguments):
        try:
            code = cli.main(list(arguments))
        except SystemExit as stop:
            code = stop.code
        return (code, *capsys.readouterr())

    return run


def test_pin_prints_what_it_keeps(mirror, command):
    mirror.add("group/a", CONTENT, known=False)
    code, out, _ = command("pin", "group/a")
    assert code == 0
    assert out.splitlines() == [
        "pinned  group/a: looked at",
        f"sha256  {SHA256} (on first use: not compared)",
        f"size    {len(CONTENT)} bytes",
        f"file    {mirror.path('group/a')}",
    ]
    code, out, _ = command("pin", "group/a", "--sha256", SHA256)
    assert code == 0
    assert f"sha256  {SHA256}\n" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["pin"], 2, "NAME"),
        (["pin", "c"], 2, "'c'"),
        (["pin", "b"], 2, "'b' is in the registry"),
        (["pin", "a", "--sha256", "1"], 2, "64 lower-case"),
        (["pin", "a", "--sha256", OTHER], 1, OTHER),
        (["pin", "gone"], 1, "COMPANION_OFFLINE"),
        (["fetch", "a"], 1, "python -m lib.data pin a"),
        (["fetch", "gon*"], 1, "python -m lib.data pin gone"),
    ],
)
def test_refusals_are_one_line(mirror, command, arguments, code, message):
    mirror.add("a", CONTENT, known=False)
    mirror.add("b", CONTENT)
    mirror.add("gone", CONTENT, known=False, present=False, url="http://127.0.0.1:9/never")
    found, out, error = command(*arguments)
    assert (found, out, error.count("\n")) == (code, "", 1)
    assert message in error


def test_other_commands_before_and_after(mirror, command):
    mirror.add("group/a", CONTENT, known=False)
    mirror.add("group/b", CONTENT)

    def rows(*arguments):
        code, out, _ = command(*arguments)
        assert code == 0
        return [line.split() for line in out.splitlines()]

    def listed():
        return rows("list")[1][1:3]

    assert listed() == ["unknown", "unpinned"]
    assert rows("verify")[0] == ["unpinned", "group/a"]
    code, out, error = command("fetch", "group/*")
    assert (code, out) == (0, f"{mirror.path('group/b')}\n")
    assert error == "left out: group/a, which is unpinned (see pin --help)\n"

    command("pin", "group/a")
    assert listed() == [str(len(CONTENT)), "mirror"]
    assert rows("verify")[0] == ["ok", "group/a", "(mirror)"]
    assert command("fetch", "group/*")[2] == ""
    mirror.path("group/a").write_bytes(b"other")
    assert command("verify")[0] == 1


# --- the build's key ----------------------------------------------------------------------------

CHAPTER = f"""# %%
from lib import data
print(data.available("{REAL}"))
"""


@pytest.fixture
def chapter(monkeypatch, tmp_path):
    """A chapter that asks for a file of the true registry, of which a mirror has a copy."""
    path = tmp_path / "root" / "book" / "suitability.py"
    path.parent.mkdir(parents=True)
    path.write_text(CHAPTER)
    (path.parent / "claims.yml").write_text("[]\n")
    copy = tmp_path / "copies" / registry()[REAL].mirror
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT)
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "copies"))
    # Somebody may be working on lib.
    monkeypatch.setattr(execute, "code_fingerprint", lambda: "lib")
    return path


@pytest.mark.slow
def test_a_pin_enters_the_key_by_its_hash(chapter):
    def executed():
        return execute.execute_chapter(chapter, "quick")

    def printed(done):
        return done.cells[-1]["outputs"][0]["text"].strip()

    before = executed()
    assert (before.cached, before.data, printed(before)) == (False, {REAL: "absent"}, "False")
    store.pin(REAL, look)
    after = executed()
    assert (after.cached, after.data, printed(after)) == (False, {REAL: SHA256}, "True")
    assert after.key != before.key
    assert executed().cached
    (store._cache() / "pins.yml").unlink()
    again = executed()
    assert (again.cached, again.key) == (True, before.key)


@pytest.mark.usefixtures("chapter")
def test_a_pin_that_changes_during_execution_is_not_trusted():
    states = store.fingerprints("suitability")
    assert states[REAL] == "absent"
    assert execute._unchanged("suitability", {REAL}, states) == {REAL: "absent"}
    store.pin(REAL, look)
    with pytest.raises(execute.BuildError, match=f"{REAL} came or went"):
        execute._unchanged("suitability", {REAL}, states)
    states = store.fingerprints("suitability")
    assert execute._unchanged("suitability", {REAL}, states) == {REAL: SHA256}
    with pytest.raises(execute.BuildError, match=f"{REAL} came or went"):
        execute._unchanged("suitability", {REAL}, states | {REAL: OTHER})
