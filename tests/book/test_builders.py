"""Builders beside html, one after the other in one checkout; builds from and to other places."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from site_tools import CHROMIUM, NEEDS_CHROMIUM
from throwaway import Book, make_book

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


@pytest.mark.slow
def test_each_builder_is_right_or_says_in_one_line_why_not(tmp_path):
    """Each leaves pages as another would have addressed them; a name that URLs find hard."""
    book = make_book(tmp_path / "Bücher und mehr")
    book.edit("book/index.md", "# A book\n", "# [A book](https://example.org/away)\n")  # offline
    for builder in ("dirhtml", "singlehtml", "linkcheck", "html"):
        said = book.build("book", "-W", "--builder", builder)
        assert dead_links(book.root / "book" / "_build" / builder) in ([], SEARCH)
    assert "chapters: 0 executed, 2 unchanged" in said
    # From elsewhere, by another spelling, on a bare machine: the same site, nothing is read anew.
    bare = book.environment(LANG="C", LC_ALL="C")
    del bare["HOME"]
    spelled = f"{book.root.name}/../{book.root.name}/book"
    given = {"cwd": tmp_path, "env": bare, "umask": 0o077, "text": True, "stdout": subprocess.PIPE}
    said = subprocess.run(book.command(spelled), stderr=subprocess.STDOUT, **given).stdout
    assert "chapters: 0 executed, 2 unchanged" in said
    assert "0 added, 0 changed, 0 removed" in said
    said = book.build("book", "--builder", "latex", fails=True)
    assert "the builder latex cannot show" in said
    (book.root / "_config.yml").write_text((book.root / "book" / "_config.yml").read_text())
    toc = (book.root / "book" / "_toc.yml").read_text().replace("file: ", "file: book/")
    (book.root / "_toc.yml").write_text(toc.replace("root: ", "root: book/"))
    assert "build " + str(book.root / "book") in book.build(".", fails=True)
    moved = Book(book.root.rename(tmp_path / "moved"))  # and nowhere is there a .git
    assert "chapters: 0 executed, 2 unchanged" in moved.build()
    assert dead_links(moved.html) == []


@pytest.mark.slow
@pytest.mark.browser
@NEEDS_CHROMIUM
def test_a_pdf_is_printed_by_a_browser(tmp_path):
    """And the site, in whose folder that builder leaves its page, is as it was."""
    book, browsers = make_book(tmp_path / "book"), str(tmp_path / "browsers")
    code = "from playwright.sync_api import sync_playwright as s\nwith s() as p: "
    tried = subprocess.run(
        [sys.executable, "-c", code + "p.chromium.launch()"],
        env=book.environment(PLAYWRIGHT_BROWSERS_PATH=browsers),
        capture_output=True,
        text=True,
    )
    program = Path(re.search(r"Executable doesn't exist at (.*)", tried.stderr)[1])
    program.parent.mkdir(parents=True)
    program.symlink_to(CHROMIUM)
    said = book.build("book", "--builder", "pdfhtml", PLAYWRIGHT_BROWSERS_PATH=browsers)
    assert (book.root / "book/_build/pdf/book.pdf").read_bytes().startswith(b"%PDF"), said
    assert "chapters: 0 executed" in book.build()
    assert dead_links(book.html) == []


#: Of the single page, whose theme has a search and no page for it.
SEARCH = [("index.html", "search.html"), ("index.html", "searchindex.js")]
#: Without the rights that root has over all files.
AS_OTHERS = (
    ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")
    if hasattr(os, "getuid") and os.getuid() == 0
    else ()
)


@pytest.fixture
def kept_from_writing(tmp_path):
    """A book that may only be read, by somebody without a home; how to run a command there."""
    book, home = make_book(tmp_path / "book"), tmp_path / "home"
    home.mkdir()
    paths = [home, book.root, *book.root.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)

    def run(*command: str, status: int = 0, **extra: str) -> str:
        bare = book.environment(HOME=str(home), **extra)
        bare.pop("NUMBA_CACHE_DIR", None)  # which workers of pytest have
        given = {"cwd": book.root, "env": bare, "text": True, "capture_output": True}
        program = Path(sys.executable).with_name(command[0])
        done = subprocess.run([*AS_OTHERS, str(program), *command[1:]], **given)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    yield book, run
    for path in paths:
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.slow
def test_a_checkout_that_may_not_be_written_is_built_into_another_folder(
    kept_from_writing, tmp_path
):
    (book, run), out = kept_from_writing, tmp_path / "out"
    command = ("jupyter-book", "build", "book", "--path-output", str(out))
    for executed in (2, 0):
        said = run(*command, COMPANION_CACHE=str(tmp_path / "kept"))
        assert f"chapters: {executed} executed" in said, said
    assert (out / "_build" / "html" / "two.html").exists()
    said = run(*command, status=1, COMPANION_CACHE=str(book.root / "kept"))
    assert "COMPANION_CACHE may name a folder that can be written" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_where_nothing_can_be_written_a_line_says_what_would_do(kept_from_writing, tmp_path):
    """Without --path-output, of a record, of a notebook; before anything is executed."""
    book, run = kept_from_writing
    for command in (("jupyter-book", "build", "book"), ("python", "-m", "lib.book", "build")):
        said = run(*command, status=1)
        reason = f"{book.root}/book/_build cannot be written: `jupyter-book build {book.root}/book"
        assert f"{reason} --path-output FOLDER` puts" in said
        assert "Traceback" not in said
    said = run("python", "-m", "lib.book", "record", "one", status=2)
    assert said.endswith("cannot be written, where records are kept: use a copy of the book\n")
    assert "executing" not in said
    said = run("papermill", "book/one.py", "out.ipynb", status=1)
    assert "error: BuildError: output = 'out.ipynb' cannot be written (Permission denied): " in said
    assert "Traceback" not in said
    said = run("papermill", "book/one.py", "-")
    assert "double is 4.0" in said


#: What would not be compiled, what would warn, and whether the folders that were lent are gone.
LENT = """
import os, lib.selective, matplotlib
print(matplotlib.get_configdir() == matplotlib.get_cachedir() == os.environ["NUMBA_CACHE_DIR"])
print(os.environ["NUMBA_CACHE_DIR"])
"""


def test_somebody_without_a_home_is_lent_folders_for_what_is_compiled(kept_from_writing):
    _, run = kept_from_writing
    said = run("python", "-c", LENT)
    assert re.fullmatch(r"True\n.*\n", said), said  # and no warning
    assert not Path(said.splitlines()[1]).exists()
