"""Builders beside html, one after the other in one checkout."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from throwaway import make_book

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
    """The first leaves pages as another would have addressed them; a name that URLs find hard."""
    book = make_book(tmp_path / "Bücher und mehr")

    def build(builder, folder="book"):
        command = [*book.command()[:2], folder, "--builder", builder]
        options = {"cwd": book.root, "env": book.environment(), "capture_output": True}
        return subprocess.run(command, **options, text=True)

    for builder in ("dirhtml", "html", "singlehtml"):
        done = build(builder)
        assert done.returncode == 0, done.stderr
        assert dead_links(book.root / "book" / "_build" / builder) in ([], SEARCH)
    assert "2 unchanged" in done.stdout + done.stderr
    refused = build("latex")
    assert "the builder latex cannot show" in refused.stderr
    (book.root / "_config.yml").write_text((book.root / "book" / "_config.yml").read_text())
    toc = (book.root / "book" / "_toc.yml").read_text().replace("file: ", "file: book/")
    (book.root / "_toc.yml").write_text(toc.replace("root: ", "root: book/"))
    assert "build " + str(book.root / "book") in build("html", ".").stderr


#: Of the single page, whose theme has a search and no page for it.
SEARCH = [("index.html", "search.html"), ("index.html", "searchindex.js")]
