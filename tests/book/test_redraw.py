"""Figures that are drawn from what a run records: records hold them as this code draws them."""

import functools
import json
import re
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from lib.book.chapters import chapter_files
from lib.book.records import context, figure_of, read_records, run_of
from lib.book.redraw import figures, redraw_records, redrawn
from lib.plot import CHECK_FIGURES

BOOK = Path(__file__).parents[2] / "book"
DRAWS = figures()
LAYOUTS = ("svg", "wide")
EACH = pytest.mark.parametrize(("chapter", "name"), DRAWS)


def letters(svg):
    """What is written in a figure, letter by letter; where is another machine's to round."""
    return re.findall(r'href="#\w+-([0-9a-f]+)"', svg)


def undrawn(figure, *_):
    plt.close(figure)
    return b"<svg></svg>", b"<svg></svg>"


@functools.lru_cache(maxsize=1)  # figures of a chapter follow each other
def runs(chapter):
    """Records of a chapter, and what its figures are drawn from."""
    records, around = list(read_records(BOOK, chapter).values()), context(BOOK, chapter)
    return [(record, run_of(record)._replace(**around)) for record in records]


@EACH
def test_records_have_the_figures_that_this_code_draws(chapter, name, monkeypatch):
    """Of runs that the page does not show, only what is said of a figure: they are drawn alike."""
    monkeypatch.setenv(CHECK_FIGURES, "1")
    salt, draw = f"{chapter}.{name}", DRAWS[chapter, name]
    (first, run), *others = runs(chapter)
    anew, kept = redrawn(run, salt, draw), figure_of(first, name)
    assert [letters(anew[layout]) for layout in LAYOUTS] == [letters(kept[of]) for of in LAYOUTS]
    assert all(letters(anew[layout]) for layout in LAYOUTS)
    monkeypatch.setattr("lib.book.redraw.svg_pair", undrawn)
    told = [(anew, first), *((redrawn(run, salt, draw), record) for record, run in others)]
    for anew, record in told:
        if anew is not None:
            kept = figure_of(record, name)
            assert (anew["alt"], anew["caption"]) == (kept["alt"], kept["caption"])


@EACH
def test_chapters_draw_what_is_drawn_anew(root, chapter, name):
    source = chapter_files(root / "book")[chapter].read_text(encoding="utf-8")
    called = re.findall(r"chapter\.drawn\(\s*(?:\w+\.)*(\w+)[,)]", source)
    assert Counter(called)[DRAWS[chapter, name].__name__] == 1


def test_only_what_a_run_recorded_is_drawn_anew(root, tmp_path, monkeypatch):
    kept = json.loads((root / "book/records/standard/choosing.json").read_text())
    folder = tmp_path / "records" / "standard"
    folder.mkdir(parents=True)
    ways = kept["tables"]["ways"]["csv"]
    for file, table in (("choosing", ways.replace("12.099", "13.099")), ("choosing.b", "way\na\n")):
        kept["tables"]["ways"] |= {"csv": table}
        (folder / f"{file}.json").write_text(json.dumps(kept))
    before = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert redraw_records(tmp_path) == [folder / "choosing.json"]
    after = {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
    assert after["choosing.b.json"] == before["choosing.b.json"]
    drawn = after["choosing.json"].pop("figures"), before["choosing.json"].pop("figures")
    assert after == before
    assert {name for name, figure in drawn[0].items() if figure != drawn[1][name]} == {"accuracy"}
    assert redraw_records(tmp_path) == []
    seen = []

    def look(run):
        seen.append(run)
        raise KeyError

    monkeypatch.setattr("lib.book.redraw.figures", lambda: {("choosing", "accuracy"): look})
    assert redraw_records(tmp_path) == []
    assert [(len(run.recorded), bool(run.values), "ways" in run.tables) for run in seen] == [
        (2, True, True)
    ] * 2
