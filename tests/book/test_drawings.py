"""The book's own drawings: what they say, and that any theme and a phone can show them."""

import re
from xml.etree import ElementTree

import pytest

import lib.book.drawings as drawings
from lib.book.notebooks import Surroundings, plain

FILES = sorted(drawings.FOLDER.glob("*.svg"))
DIAGRAMS = [p.stem.removesuffix("-narrow") for p in FILES if p.stem.endswith("-narrow")]
SVG = "{http://www.w3.org/2000/svg}"
STYLES = (drawings.FOLDER.parent / "static" / "companion.css").read_text(encoding="utf-8")
SIZE = float(re.search(r"\.companion-drawing text \{[^}]*?(\d+)px", STYLES)[1])
PHONE = 328  # px, the width of the text on a phone of 360


def tree(path):
    return ElementTree.fromstring(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_drawing_names_and_describes_itself_and_takes_its_colors_from_the_page(path):
    root = tree(path)
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("role") == "img"
    assert root.get("aria-labelledby").split() == [title.get("id"), desc.get("id")]
    assert title.get("id") == f"{path.stem}-title"  # several stand on one page
    assert len(title.text) > 10
    assert len(desc.text) > 30
    for part in root.iter():
        assert not {"fill", "stroke", "style", "href", "font-size"} & set(part.attrib)
        for name in part.get("class", "").split():
            assert f".{name}" in STYLES, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_word_is_too_small_where_it_is_shown_smallest(path):
    """A diagram is laid out a second time for a phone; the other is for 40 rem and more."""
    root = tree(path)
    assert "@container (min-width: 40rem)" in STYLES
    width = float(root.get("viewBox").split()[2])
    shown = 640 if path.stem in DIAGRAMS else min(PHONE, width)
    if next(root.iter(f"{SVG}text"), None) is not None:
        assert path.stem.removesuffix("-narrow") in DIAGRAMS
        assert SIZE * shown / width >= 11


def test_a_diagram_is_a_figure_with_both_layouts_and_a_small_one_is_none():
    page = drawings.drawing_html("p3-game")
    assert page.count("<svg ") == 2
    assert "\n" not in page
    assert re.search(r"<figcaption>The game of an audit\.</figcaption></figure>$", page)
    assert drawings.drawing_html("canary").startswith("<div class='companion-drawing'><svg ")


@pytest.mark.parametrize("name", ["none", "../static/favicon", ""])
def test_an_unknown_drawing_is_refused(name):
    with pytest.raises(ValueError, match=r"no drawing .* known are abstention, audit"):
        drawings.drawing_html(name)


def test_a_notebook_has_the_words_of_a_drawing():
    said = plain("Before.\n\n```{drawing} p4-graph\n```\n\nAfter.", Surroundings())
    before, words, after = said.split("\n\n")
    assert (before, after) == ("Before.", "After.")
    assert words == f"*{drawings.drawing_text('p4-graph')}*"
    assert "missing at random" in words
