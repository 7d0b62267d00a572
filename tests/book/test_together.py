"""Several chapters at a time, on a throw-away book of two that are over in a moment."""

import json
import re
from dataclasses import fields
from types import SimpleNamespace

import pytest

from lib.book import execute, sphinx_ext
from lib.book.execute import BuildError, Executed, execute_book

CHAPTER = """# %%
import os
import time
from pathlib import Path

from lib.book.session import open_chapter

chapter = open_chapter("NAME", globals())
chapter.values(pid=os.getpid(), parent=os.getppid(), seven=7)
Path("began.NAME").touch()
"""
WAIT = """
deadline = time.monotonic() + 60
while not Path("began.OTHER").exists() and time.monotonic() < deadline:
    time.sleep(0.01)
chapter.values(met=int(Path("began.OTHER").exists()))
"""


@pytest.fixture
def book(tmp_path):
    """The chapters wait for each other."""
    folder = tmp_path / "book"
    folder.mkdir()
    names = ("one", "two")
    toc = "".join(f"  - file: {name}\n" for name in names)
    (folder / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n" + toc)
    (folder / "claims.yml").write_text("[]\n")
    for name, other in zip(names, reversed(names), strict=True):
        text = CHAPTER + WAIT.replace("OTHER", other)
        (folder / f"{name}.py").write_text(text.replace("NAME", name))
    return folder


@pytest.mark.slow
def test_two_chapters_are_executed_at_a_time_and_one_that_fails_takes_no_other_with_it(
    book, monkeypatch
):
    monkeypatch.setenv("COMPANION_JOBS", "2")
    text = (book / "one.py").read_text()
    (book / "one.py").write_text(text + "\n# %%\nraise RuntimeError('so it goes')\n")
    with pytest.raises(
        BuildError, match=r"^chapter one, cell 2 .* failed: RuntimeError: so it goes"
    ):
        execute_book(book, "quick")
    stored = [json.loads(p.read_text()) for p in book.parent.glob(".cache/book/*/*.json")]
    assert [entry["chapter"] for entry in stored] == ["two"]
    (book / "one.py").write_text(text)
    found = execute_book(book, "quick")
    assert list(found) == ["one", "two"]
    assert [done.cached for done in found.values()] == [False, True]
    assert found["one"].values["met"] == found["two"].values["met"] == 1
    assert len({done.values["pid"] for done in found.values()}) == 2
    assert len({done.values["parent"] for done in found.values()}) == 2  # processes
    # As one after another they would be found: same keys, same entries.
    for jobs in "21":
        monkeypatch.setenv("COMPANION_JOBS", jobs)
        again = execute_book(book, "quick")
        assert all(done.cached for done in again.values())
        assert {n: d.key for n, d in again.items()} == {n: d.key for n, d in found.items()}


@pytest.mark.parametrize("bad", ["0", "-1", "two", "1.5", "²"])
def test_the_number_of_chapters_at_a_time_is_checked(book, monkeypatch, bad):
    monkeypatch.setenv("COMPANION_JOBS", bad)
    expected = f"COMPANION_JOBS must be a whole number of at least 1, got {bad!r}"
    with pytest.raises(BuildError, match=f"^{re.escape(expected)}$"):
        execute_book(book, "quick")


@pytest.mark.parametrize("meanwhile", [False, True])
def test_what_was_just_executed_is_looked_up_again_only_if_a_source_changed(
    book, monkeypatch, meanwhile
):
    monkeypatch.setenv("COMPANION_JOBS", "2")
    asked = []

    def execute_here(path, profile=""):
        nothing = dict.fromkeys(field.name for field in fields(Executed))
        return Executed(**nothing | {"chapter": path.stem, "cells": [], "cached": bool(profile)})

    def look_up(path, profile):
        asked.append(path.stem)
        return execute_here(path, profile)

    def execute_together(paths, *_):
        if meanwhile:
            (book / "claims.yml").write_text("[] # again")
        return {path: execute_here(path) for path in paths}

    monkeypatch.setattr(execute, "execute_chapter", look_up)
    monkeypatch.setattr(execute, "_execute_together", execute_together)
    found = execute_book(book, "quick")
    assert asked == ["one", "two"] * meanwhile
    assert [done.cached for done in found.values()] == [False, False]


def test_pages_are_made_as_many_at_a_time_as_chapters_are_executed(monkeypatch):
    monkeypatch.setenv("COMPANION_JOBS", "3")
    silent = SimpleNamespace(parallel_read_safe=None)
    app = SimpleNamespace(parallel=1, extensions={"sphinx_multitoc_numbering": silent})
    sphinx_ext._begin_parallel(app)
    assert (app.parallel, silent.parallel_read_safe) == (3, True)
