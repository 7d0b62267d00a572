"""The typeface of the site: cut down, under another name, with its license."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from fontTools.ttLib import TTFont
from sphinx.errors import ExtensionError

import lib
from lib.book import assets, sphinx_ext

STYLES = (Path(lib.__file__).parent / "book/static/companion.css").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fonts")
    assets.write_typeface(assets._package("fontpkg_source_sans_3"), folder)
    return folder


@pytest.mark.parametrize("name", assets.STYLES)
def test_a_style_is_small_and_has_letters_and_weights_that_pages_need(folder, name):
    assert (folder / name).stat().st_size < 60_000
    assert f'url("fonts/{name}")' in STYLES
    with TTFont(folder / name) as font:
        known = {*font.getBestCmap()}
        (axis,) = font["fvar"].axes
    assert {*map(ord, "Ag é ε Δ – “ ” … ≥ − 0")} <= known
    assert axis.minValue <= 400 < 700 <= axis.maxValue


@pytest.mark.parametrize("name", assets.STYLES)
def test_what_was_changed_does_not_have_the_reserved_name(folder, name):
    with TTFont(folder / name) as font:
        names = font["name"]
    assert {str(names.getName(i, 3, 1, 0x409)) for i in (1, 4)} == {assets.FAMILY}
    assert not any("Source" in str(each) for each in names.names if each.nameID not in (0, 13, 14))
    assert f'font-family: "{assets.FAMILY}"' in STYLES


def test_the_license_lies_beside_it(folder):
    said = (folder / "LICENSE.txt").read_text(encoding="utf-8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in said
    assert "Reserved Font Name 'Source'" in said


def test_twice_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "_LETTERS", [b"letrs"])  # takes a fourth of the time
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        assets.write_typeface(assets._package("fontpkg_source_sans_3"), folder)
    same = {p.name: (two / p.name).read_bytes() == p.read_bytes() for p in one.iterdir()}
    assert len(same) == 3
    assert all(same.values()), same


def test_it_is_cut_down_once_for_all_builders_unless_it_was_damaged(tmp_path, monkeypatch):
    cut = []

    def write(package, folder):
        cut.append(folder.name)
        folder.mkdir(exist_ok=True)
        for name in (*assets.STYLES, "LICENSE.txt"):
            (folder / name).write_text(name)

    monkeypatch.setattr(assets, "write_typeface", write)
    monkeypatch.setattr(assets, "_copy_mathjax", lambda *_: None)
    fonts = "_static/fonts/text.woff"
    for builder, damaged, times in (
        ("html", "html/nothing", 1),
        ("dirhtml", "dirhtml/nothing", 1),
        ("html", f"html/{fonts}", 1),
        ("html", f"{assets.KEPT}/text.woff", 2),
    ):
        (tmp_path / damaged).parent.mkdir(exist_ok=True)
        (tmp_path / damaged).write_text("damaged")
        assets.copy_assets(tmp_path / builder / "_static")
        assert (tmp_path / builder / fonts).read_text() == "text.woff"
        assert cut == [assets.KEPT] * times


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(ExtensionError, match="no-such-font is not installed: pip install -r"):
        assets._package("no-such-font")


@pytest.mark.parametrize("name", ["sphinx-mathjax-offline", "fontpkg_source_sans_3"])
def test_a_package_that_is_missing_stops_a_build_before_a_chapter_is_executed(
    name, monkeypatch, tmp_path
):
    def execute(*_):
        raise AssertionError("executed first")

    find = assets.find_spec
    monkeypatch.setattr(assets, "find_spec", lambda n: None if n == name else find(n))
    monkeypatch.setattr(sphinx_ext, "execute_book", execute)
    app = SimpleNamespace(srcdir=tmp_path, outdir=tmp_path / "html")
    app.builder = SimpleNamespace(name="html", format="html")
    app.config = SimpleNamespace(companion_profile="quick")
    with pytest.raises(ExtensionError, match=f"^{name} is not installed: pip install -r"):
        sphinx_ext._execute(app)


def test_pages_go_without_scripts_that_nothing_calls():
    """Of icons, which the style sheet has, and of search, but where it is shown."""
    tag = '<script {}src="../{}"></script>'
    icons = tag.format("defer ", "_static/scripts/fontawesome.js?digest=5")
    search = [
        tag.format("", name)
        for name in ("_static/searchtools.js", "_static/language_data.js", "searchindex.js")
    ]
    kept = "<head>\n  " + tag.format("defer ", "_static/scripts/bootstrap.js") + "\n"
    page = kept + "\n    ".join([icons, *search]) + "\n</head>"
    assert assets.without_unused(page).split() == (kept + "</head>").split()
    found = page + '<div id="search-results"></div>'
    assert all(each in assets.without_unused(found) for each in search)
    assert icons not in assets.without_unused(found)
