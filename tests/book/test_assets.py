"""The typeface of the site: cut down, under another name, with its license."""

from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

import lib
from lib.book import assets

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


def test_twice_the_same_files(folder, tmp_path):
    assets.write_typeface(assets._package("fontpkg_source_sans_3"), tmp_path)
    same = {p.name: (tmp_path / p.name).read_bytes() == p.read_bytes() for p in folder.iterdir()}
    assert len(same) == 3
    assert all(same.values()), same


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match="no-such-font is not installed: pip install -r"):
        assets._package("no-such-font")
