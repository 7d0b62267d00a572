"""A build that would change nothing says so at once; whatever a site is made from counts."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import pytest
from throwaway import Book, make_book

# Nothing here imports lib: forks have the throw-away book's own copy.
pytestmark = pytest.mark.slow
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
SAID = "nothing has changed since the site was built\n"


def by_command(book: Book, **extra: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "lib.book", "build"],
        cwd=book.root,
        env=book.environment(COMPANION_JOBS="2", **extra),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Book:
    """A book with a parameter that may name a file, and a build that left a note."""
    book = make_book(tmp_path_factory.mktemp("noted") / "book")
    book.edit("book/one.py", "names: list", 'own: str = "own.csv"  # {own.csv} a file\nnames: list')
    subprocess.run(["git", "init", "-q"], cwd=book.root, check=True)
    by_command(book)
    return book


# ---------------------------------------------------------------------- in a fork: see `_verdicts`


@contextmanager
def edited(file: str, change: Callable[[bytes], bytes] = lambda old: old + b"\n") -> Iterator[None]:
    """A file with other content, or a new one; afterwards as it was."""
    path = Path(file)
    old = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(change(old or b""))
    yield
    path.unlink() if old is None else path.write_bytes(old)


@contextmanager
def without(file: str) -> Iterator[None]:
    old = Path(file).read_bytes()
    Path(file).unlink()
    yield
    Path(file).write_bytes(old)


@contextmanager
def in_git(*command: str) -> Iterator[None]:
    """A remote, or that and a commit."""
    for each in (["remote", "add", "origin", "git@github.com:some/where"], command):
        subprocess.run([*GIT, *each], check=True, stdout=subprocess.DEVNULL)
    yield
    subprocess.run(["git", "remote", "remove", "origin"], check=True)


def given(**variables: str) -> mock._patch_dict:
    return mock.patch.dict(os.environ, variables)


def installed(name: str, value: object) -> mock._patch:
    return mock.patch(f"lib.book.unchanged.{name}", return_value=value)


NUMBERS = "mirror/nobody/nothing/0/numbers.txt"
INPUTS = {
    "a cell": lambda: edited("book/one.py", lambda old: old.replace(b"2 * base", b"3 * base")),
    "prose": lambda: edited("book/two.py", lambda old: old.replace(b"quotes", b"cites ")),
    "a page": lambda: edited("book/index.md"),
    "a new page": lambda: edited("book/new.md"),
    "a module": lambda: edited("lib/check.py"),
    "a new module": lambda: edited("lib/zz.py"),
    "a module that is gone": lambda: without("lib/plot.py"),
    "a style sheet": lambda: edited("lib/book/static/companion.css"),
    "a template": lambda: edited("lib/book/templates/logo.html"),
    "the registry": lambda: edited("lib/data/registry.yml"),
    "a parameter": lambda: edited("params/quick/one.yml", lambda _: b"base: 3.0\n"),
    "a new parameter file": lambda: edited("params/quick/two.yml"),
    "a claim": lambda: edited("book/claims.yml", lambda old: old.replace(b"4.0", b"5.0")),
    "a record": lambda: edited("book/records/standard/one.json"),
    "literature": lambda: edited("book/references.bib"),
    "the configuration": lambda: edited("book/_config.yml"),
    "the contents": lambda: edited("book/_toc.yml"),
    "a file that a parameter names": lambda: edited("own.csv"),
    "data that are gone": lambda: without(NUMBERS),
    "data that are damaged": lambda: edited(NUMBERS),
    "the profile": lambda: given(COMPANION_PROFILE="standard"),
    "the repository": lambda: given(COMPANION_REPOSITORY="some/where"),
    "a repository that is none": lambda: given(COMPANION_REPOSITORY="some where"),
    "the address": lambda: given(COMPANION_SITE="https://some.where"),
    "any variable of ours": lambda: given(COMPANION_NEW="1"),
    "a package": lambda: installed("required_versions", {"numpy": "0"}),
    "Python": lambda: installed("python_version", "CPython 3.0.0"),
    "a remote": lambda: in_git("status"),
    "the note": lambda: edited("book/_build/.companion-note.json", lambda old: old[:-9]),
    "the note's truth": lambda: edited(
        "book/_build/.companion-note.json", lambda old: old.replace(b'"base": 2.0', b'"base": 3.0')
    ),
}
NO_INPUTS = {
    "nothing": suppress,
    "a file that is no source": lambda: edited("notes.txt"),
    "compiled code": lambda: edited("lib/__pycache__/zz.pyc"),
    "the number of jobs": lambda: given(COMPANION_JOBS="1"),
}


def _verdicts(command: list[str]) -> None:
    """Whether the site is current while something is changed, and once it is as it was."""
    from lib.book.unchanged import _source, is_unchanged

    book, found = Path("book"), {}
    for name, change in (INPUTS | NO_INPUTS).items():
        with change():
            during = is_unchanged(book, os.environ)
        found[name] = [during, is_unchanged(book, os.environ)]
    with in_git("commit", "-q", "--allow-empty", "-m", "one"):
        found["commits"] = [_source(book, os.environ)]
        subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "two"], check=True)
        found["commits"].append(_source(book, os.environ))
    Path(command[0]).write_text(json.dumps(found))


@pytest.fixture(scope="module")
def verdicts(built, tmp_path_factory) -> dict[str, list[bool]]:
    file = tmp_path_factory.mktemp("verdicts") / "found.json"
    built._fork(_verdicts, [str(file)], fails=False)
    return json.loads(file.read_text())


def test_whatever_a_site_is_made_from_counts_and_nothing_else(verdicts):
    """By its content: once it is as it was, so is the site. Notebooks for Colab name the commit."""
    assert len(set(verdicts.pop("commits"))) == 2
    assert {name for name, found in verdicts.items() if found == [False, True]} == set(INPUTS)
    assert {name for name, found in verdicts.items() if found == [True, True]} == set(NO_INPUTS)


def test_a_build_that_would_change_nothing_says_so(built):
    before = built.site_state()
    assert by_command(built) == f"{SAID}{built.html / 'index.html'}\n"
    assert built.site_state() == before


def test_a_site_that_was_touched_is_made_good(built):
    """Also where Sphinx by itself would see no reason to write anything."""
    _touch(built.html / "two.html")
    assert "chapter two (quick): from the cache" in by_command(built)
    assert built.page("two").endswith(">")
    before = built.site_state()  # MyST-NB's style sheet has a checksum only from here on
    files = ("_static/companion.css", "_static/mathjax/tex-mml-chtml.js", "notebooks/one.ipynb")
    for file in files[:2]:
        _touch(built.html / file)
    (built.html / files[2]).unlink()
    next(built.root.glob(".cache/book/two/*.json")).unlink()
    assert "chapter two (quick): executed" in by_command(built)
    after = built.site_state()
    assert after.keys() == before.keys()
    assert [after[file] for file in files] == [before[file] for file in files]
    assert by_command(built).startswith(SAID)


def _touch(path: Path) -> None:
    """Change the last byte of a file."""
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def test_a_note_is_left_only_by_what_make_book_does(built):
    """Not with other options, nor if a source was written meanwhile, even with what it held."""
    note = built.html.parent / ".companion-note.json"
    built.build()
    assert not note.exists()
    write = 'from pathlib import Path\nPath("book/index.md").write_text(Path("book/index.md")'
    built.edit("book/two.py", "chapter.values", f"{write}.read_text())\nchapter.values")
    assert "chapter two (quick): executed" in by_command(built)
    assert not note.exists()
    assert SAID not in by_command(built)
    assert by_command(built).startswith(SAID)
