"""What a page loads that comes from packages: formulas and letters, so that no other host is asked.

And what it does not: the theme's icons come with its style sheet, and again as a script of 1.5 MB;
its search loads its index on each page, though only the search page reads it.

The typeface is Source Sans 3, cut down to what the book is written with. Its license (OFL) reserves
the name for what is unchanged, so that this has another, and is laid beside it.
"""

import hashlib
import logging
import re
from importlib.util import find_spec
from pathlib import Path

import fontTools
from fontTools import subset
from sphinx.errors import ExtensionError
from sphinx.util.fileutil import copy_asset

_LETTERS = (
    *(range(0x20, 0x7F), range(0xA0, 0x180), range(0x391, 0x3CA)),  # Latin and Greek
    *(range(0x2010, 0x2040), range(0x2190, 0x2194)),  # punctuation; arrows
    *([point] for point in (0x20AC, 0x2122, 0x2212, 0x221E, 0x2248, 0x2260, 0x2264, 0x2265)),
)
#: What it is called in ``companion.css``, and its files there.
FAMILY = "Companion Sans"
STYLES = {"text.woff": "SourceSans3[wght].ttf", "italic.woff": "SourceSans3-Italic[wght].ttf"}
_MADE = (*STYLES, "LICENSE.txt")
#: The folder beside the sites where the typeface is kept as it was cut down.
KEPT = ".companion-letters"

#: Scripts of the theme that a page does without: of icons, which it has as letters, and of search.
_TWICE = re.compile(r'\n? *<script[^>]*src="[^"]*_static/scripts/fontawesome\.js[^>]*></script>')
_SEARCH = re.compile(
    r'\n? *<script src="[^"]*(?:_static/(?:searchtools|language_data)|searchindex)\.js"></script>'
)


def without_unused(page: str) -> str:
    """A page's HTML without the scripts that nothing on it calls."""
    page = _TWICE.sub("", page)
    return page if 'id="search-results"' in page else _SEARCH.sub("", page)


def lighten_pages(folder: Path) -> None:
    """Take from the pages of a site, which the theme has written, what they load in vain."""
    for path in folder.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        if (lighter := without_unused(page)) != page:
            path.write_text(lighter, encoding="utf-8")


def copy_assets(static: Path) -> None:
    """Write what pages load of MathJax and of the typeface into a site's folder ``_static``.

    Cutting the typeface down takes longer than all else in a build that changes little: it is kept
    beside the sites of all builders, with a note of what it was made from, and what it held.
    """
    mathjax, typeface = asset_packages()
    _copy_mathjax(mathjax / "static" / "mathjax", static / "mathjax")
    kept = static.parents[1] / KEPT
    note = kept / "note"
    if not note.exists() or note.read_text(encoding="utf-8") != _state(typeface, kept):
        write_typeface(typeface, kept)
        note.write_text(_state(typeface, kept), encoding="utf-8")
    (static / "fonts").mkdir(parents=True, exist_ok=True)
    for name in _MADE:
        held, file = (kept / name).read_bytes(), static / "fonts" / name
        if not file.exists() or file.read_bytes() != held:
            file.write_bytes(held)


def _state(package: Path, folder: Path) -> str:
    """A hash of the typeface, of what cuts it down, and of the files that are made of it."""
    made = [folder / name for name in _MADE]
    files = [Path(__file__), package / "LICENSE", *(package / "files" / n for n in STYLES.values())]
    held = [f.read_bytes() if f.exists() else b"" for f in (*files, *made)]
    digests = [hashlib.sha256(each).hexdigest() for each in held]
    return hashlib.sha256(f"{fontTools.version} {digests}".encode()).hexdigest()


def asset_packages() -> tuple[Path, Path]:
    """Where the packages of MathJax and of the typeface lie; an error names one that is not there.

    A build asks before it executes chapters, and writes from them when pages are done.
    """
    return _package("sphinx-mathjax-offline"), _package("fontpkg_source_sans_3")


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None:
        raise ExtensionError(f"{name} is not installed: pip install -r requirements.txt")
    return Path(found.origin).parent


def _copy_mathjax(source: Path, target: Path) -> None:
    """The part of MathJax that pages use."""
    fonts = Path("output", "chtml", "fonts", "woff-v2")
    copy_asset(source / fonts, target / fonts)  # not their modes: they may be read-only
    copy_asset(source / "tex-mml-chtml.js", target)


def write_typeface(package: Path, folder: Path) -> None:
    """Write the upright and the italic letters, of all weights, and their license."""
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # else each table is a line
    options = subset.Options(flavor="woff", hinting=False, name_IDs=[0, 1, 2, 4, 6, 13, 14])
    options.layout_features += ["tnum"]
    for name, given in STYLES.items():
        letters = subset.Subsetter(options)
        letters.populate(unicodes=[point for block in _LETTERS for point in block])
        with subset.load_font(package / "files" / given, options) as font:
            letters.subset(font)
            for record in font["name"].names:
                if record.nameID in (1, 4, 6):
                    record.string = FAMILY.replace(" ", "" if record.nameID == 6 else " ")
            subset.save_font(font, folder / name, options)
    license_text = (package / "LICENSE").read_text(encoding="utf-8")
    (folder / "LICENSE.txt").write_text(license_text, encoding="utf-8")
