"""Builders beside html, one after the other in one checkout; builds from and to other places."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Error, sync_playwright
from site_tools import CHROMIUM, NEEDS_CHROMIUM
from sphinx.errors import ExtensionError
from throwaway import Book, make_book

from lib.book import sphinx_ext
from lib.book.__main__ import main
from lib.book.execute import BuildError, execute_chapter

HREF = re.compile(r"""(?:href|src)=["']([^"'#][^"']*)["']""")


def dead_links(folder: Path) -> list[tuple[str, str]]:
    """Links of pages to files that are not there."""
    found = []
    for page in folder.rglob("*.html"):
        for link in HREF.findall(page.read_text(encoding="utf-8")):
            parts = urlsplit(link)
            root = folder if parts.path.startswith("/") else page.parent
            target = root / unquote(parts.path).lstrip("/")
            known = parts.scheme or parts.netloc or not parts.path or "_static" in page.parts
            if not known and not (target / "index.html").exists() and not target.is_file():
                found.append((page.name, link))
    return found


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Book:
    """Below a name that URLs find hard; its chapter is executed by the first build."""
    made = make_book(tmp_path_factory.mktemp("builders") / "Bücher und mehr", "one")
    made.edit("book/index.md", "# A book\n", "# [A book](https://example.org/away)\n")  # offline
    return made


@pytest.mark.slow
def test_each_builder_leaves_pages_as_another_would_have_addressed_them(book, tmp_path):
    """The one of a single page: see below."""
    for builder in ("dirhtml", "linkcheck", "html"):
        said = book.build("book", "-W", "--builder", builder)
        if builder != "linkcheck":
            assert dead_links(book.root / "book" / "_build" / builder) == []
    assert "chapters: 0 executed, 1 unchanged" in said
    # The same site, nothing is read anew.
    said = book.build_from_elsewhere()
    assert "chapters: 0 executed, 1 unchanged" in said
    assert "0 added, 0 changed, 0 removed" in said
    # And where it was moved to, no chapter is executed anew.
    book.root.rename(tmp_path / "moved")
    assert Book(tmp_path / "moved").stale() == []
    (tmp_path / "moved").rename(book.root)


def test_a_builder_or_a_folder_that_will_not_do_is_named(book, tmp_path):
    """Before anything is executed."""
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "_toc.yml").touch()
    for builder, folder, said in (
        ("latex", book.root / "book", "the builder latex cannot show"),
        ("html", tmp_path, f"build {tmp_path / 'book'}"),
    ):
        app = SimpleNamespace(srcdir=folder, builder=SimpleNamespace(name=builder))
        with pytest.raises(ExtensionError, match=re.escape(said)):
            sphinx_ext._execute(app)


@pytest.mark.slow
@pytest.mark.browser
@NEEDS_CHROMIUM
def test_a_pdf_is_printed_of_a_single_page_by_a_browser(book, tmp_path):
    """And the site, in whose folder that builder leaves its page, is as it was."""
    browsers = str(tmp_path / "browsers")
    with (
        mock.patch.dict(os.environ, PLAYWRIGHT_BROWSERS_PATH=browsers),
        sync_playwright() as playwright,
        pytest.raises(Error, match="Executable doesn't exist") as caught,
    ):
        playwright.chromium.launch()
    program = Path(re.search(r"Executable doesn't exist at (.*)", str(caught.value))[1])
    program.parent.mkdir(parents=True)
    program.symlink_to(CHROMIUM)
    said = book.build("book", "--builder", "pdfhtml", PLAYWRIGHT_BROWSERS_PATH=browsers)
    assert (book.root / "book/_build/pdf/book.pdf").read_bytes().startswith(b"%PDF"), said
    assert dead_links(book.html) in ([], SEARCH)
    assert "chapters: 0 executed" in book.build()
    assert dead_links(book.html) == []


#: Of the single page, whose theme has a search and no page for it.
SEARCH = [("index.html", "search.html"), ("index.html", "searchindex.js")]


@pytest.fixture(scope="module")
def kept_from_writing(tmp_path_factory):
    """A book of one chapter that may only be read, by somebody without a home and a language.

    And how to run a command there, whose process may be a fork.
    """
    home = tmp_path_factory.mktemp("home")
    book = make_book(tmp_path_factory.mktemp("kept") / "book", "one")
    paths = [home, book.root, *book.root.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    bare = {"HOME": str(home), "LANG": "C", "LC_ALL": "C"}
    with mock.patch.dict(os.environ):
        os.environ.pop("NUMBA_CACHE_DIR", None)  # which workers of pytest have
        yield book, functools.partial(book.run_as_others, **bare)
    for path in paths:
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.slow
def test_a_checkout_that_may_not_be_written_is_built_into_another_folder(
    kept_from_writing, tmp_path
):
    (_, run), out = kept_from_writing, tmp_path / "out"
    command = ("jupyter-book", "build", "book", "--path-output", str(out))
    said = run(*command, COMPANION_CACHE=str(tmp_path / "kept"))
    assert "chapters: 1 executed" in said, said
    assert (out / "_build" / "html" / "one.html").exists()
    assert len(list(tmp_path.glob("kept/**/one/*.json"))) == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    """Before anything is executed; it is asked for where a checkout may not be written."""
    (tmp_path / "book").mkdir()
    chapter = tmp_path / "book" / "one.py"
    chapter.write_text("# %%\nraise RuntimeError\n")
    (tmp_path / "book" / "claims.yml").write_text("")
    (tmp_path / ".cache").touch()
    monkeypatch.setenv("COMPANION_CACHE", str(tmp_path / ".cache" / "kept"))
    with pytest.raises(BuildError, match="COMPANION_CACHE may name a folder that can be written"):
        execute_chapter(chapter, "quick")


@pytest.mark.slow
def test_where_nothing_can_be_written_a_line_says_what_would_do(
    kept_from_writing, monkeypatch, capsys
):
    """Without --path-output, of a record, of a notebook; before anything is executed."""
    book, run = kept_from_writing
    said = run("jupyter-book", "build", "book", fails=True)
    reason = f"{book.root}/book/_build cannot be written: `jupyter-book build {book.root}/book"
    assert f"{reason} --path-output FOLDER` puts" in said
    assert "Traceback" not in said
    said = run("papermill", "book/one.py", "out.ipynb", fails=True)
    assert "error: BuildError: output = 'out.ipynb' cannot be written (Permission denied): " in said
    assert "Traceback" not in said
    said = run("papermill", "book/one.py", "-")
    assert "double is 4.0" in said
    monkeypatch.setattr("lib.book.__main__.can_write", lambda folder: False)
    with pytest.raises(SystemExit, match="2"):
        main(["record", "one", "--book", str(book.root / "book")])
    said = capsys.readouterr().err
    assert said.endswith("cannot be written, where records are kept: use a copy of the book\n")


#: Without the rights that root has over all files.
AS_OTHERS = (
    ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")
    if hasattr(os, "getuid") and os.getuid() == 0
    else ()
)
#: What would not be compiled, what would warn, and whether the folders that were lent are gone.
LENT = """
import os, lib.selective, matplotlib
print(matplotlib.get_configdir() == matplotlib.get_cachedir() == os.environ["NUMBA_CACHE_DIR"])
print(os.environ["NUMBA_CACHE_DIR"])
"""


def test_somebody_without_a_home_is_lent_folders_for_what_is_compiled(kept_from_writing):
    (book, run), command = kept_from_writing, [*AS_OTHERS, sys.executable, "-c", LENT]
    given = {"cwd": book.root, "env": book.environment(**run.keywords), "stderr": subprocess.STDOUT}
    said = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **given).stdout
    assert re.fullmatch(r"True\n.*\n", said), said  # and no warning
    assert not Path(said.splitlines()[1]).exists()
