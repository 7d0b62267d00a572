"""A page shows one run, the largest that is recorded or this build; a record has what it takes."""

import base64
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from lib.book.chapters import chapter_files
from lib.book.claims import NOT_REPRODUCED, Claim, judge
from lib.book.execute import (
    CELLS_MIME,
    FIGURE_MIME,
    NOTE_MIME,
    PARAMETERS_MIME,
    TABLE_MIME,
    USED_MIME,
    VALUE_MIME,
    VERDICT_MIME,
    Executed,
)
from lib.book.notebooks import quoted_figures, quoted_values
from lib.book.pages import Page, framed, larger_runs
from lib.book.records import figure_of, read_records, write_record
from lib.book.render import csv_link, figure_html, note_html, table_html
from lib.book.sphinx_ext import _code_cell
from lib.book.statements import Statement
from lib.plot import svg_pair

ROOT = Path(__file__).parents[2]
CHAPTER = """# %% tags=["parameters"]
dataset: str = "digits"  # {digits, photographs} what is learned
base: float = 1.0  # [0, 9] newer than the record
"""


def figure(slope: float, caption: str, name: str = "line") -> dict:
    drawing, ax = plt.subplots()
    ax.plot([0, 1], [0, slope])
    about = {"name": name, "alt": "A line.", "caption": caption}
    svg, wide = svg_pair(drawing, f"one.{name}")
    html = figure_html(svg, wide=wide, **about)
    return {"text/html": html, "text/plain": "[line]", FIGURE_MIME: about}


def table(frame: pd.DataFrame, caption: str, formats: dict, name: str = "sizes", **more) -> dict:
    shown = {"name": name, "csv": frame.to_csv(index=False), "caption": caption, "formats": formats}
    page = table_html(frame, caption, formats) + csv_link(frame, "x.csv")
    return {"text/html": page, "text/plain": "", TABLE_MIME: shown | more}


def note(text: str) -> dict:
    return {"text/html": note_html(text), "text/plain": text, NOTE_MIME: {"text": text}}


def cell(*outputs: dict | str, source: str = "x") -> dict:
    shown = [
        {"output_type": "stream", "name": "stdout", "text": data}
        if isinstance(data, str)
        else {"output_type": "display_data", "metadata": {}, "data": data}
        for data in outputs
    ]
    return {"source": source, "tags": [], "outputs": shown, "execution_count": 1}


def executed(profile: str, *cells: dict, **parameters) -> Executed:
    return Executed(
        **{"chapter": "one", "profile": profile, "key": "k", "cells": list(cells), "data": {}},
        **{"parameters": parameters, "source": "s" * 64, "code": "c" * 64, "python": "3"},
        **{"packages": {}, "seconds": 200.0, "finished": "2026-01-02T03:04:05"},
        hardware={"cores": 2, "processor": "a <chip>", "memory_gib": 1},
    )


LARGE = pd.DataFrame({"n": [1000, 2000], "word": ["", "NA"], "x": [0.25, None]})
SMALL = pd.DataFrame({"n": [10], "word": ["b"], "x": [0.5]})
FORMATS = {"n": ",", "x": ".3f"}


def record_of(book, *outputs: dict | str, **parameters) -> None:
    write_record(book, executed("standard", cell(*outputs), **parameters))


@pytest.fixture
def book(tmp_path):
    folder = tmp_path / "book"
    folder.mkdir()
    (folder / "one.py").write_text(CHAPTER)
    large = table(LARGE, "Sizes on photographs", FORMATS)
    outputs = figure(2.0, "On photographs"), large, note("On photographs, 3."), "printed 3\n"
    record_of(folder, *outputs, dataset="photographs", models=["cnn"])
    return folder


def test_a_record_leaves_figures_of_theory_to_the_build(book):
    moving = {k: v for k, v in figure(1.0, "In theory").items() if k != FIGURE_MIME}
    printed = cell("printed 3\n", source="y")
    done = executed("standard", cell(moving, source="x"), printed)
    assert [part["output"]["text"] for (part,) in done.shown.values()] == ["printed 3\n"]
    write_record(book, done)
    page = page_of(book, cell(moving, source="x"), cell("printed 1\n", source="y"))
    assert moving["text/html"] in json.dumps([page.parts(each) for each in page.done.cells])


def page_of(book, *cells, profile="quick", claims=None, records=None, **more) -> Page:
    done = executed(profile, *cells, dataset="digits")
    kept = larger_runs(read_records(book, "one") if records is None else records, profile)
    return Page(done, kept, claims or {}, book / "one.py", **more)


def change(book, **fields) -> None:
    path = book / "records" / "standard" / "one.json"
    record = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({k: v for k, v in record.items() if v is not None}))


def shown(page: Page, of: dict) -> str:
    """The text and HTML of a cell on a page."""
    outputs = _code_cell(of, "cell-1", page).outputs
    return "".join(o["text"] if "text" in o else o["data"]["text/html"] for o in outputs)


SIZES = table(SMALL, "Sizes on digits", {})
OWN = cell(figure(-3.0, "On digits"), SIZES, note("On digits, 4."), "printed 4\n")


# ------------------------------------------------------------------ which run


def test_runs_that_are_larger_than_the_build_are_sorted_by_size():
    kept = {name: name[-1] for name in ("standard.b", "standard", "gpu.a", "standard.a")}
    found = larger_runs(kept, "quick")
    assert list(found) == ["gpu.a", "standard", "standard.a", "standard.b"]
    assert larger_runs(kept, "standard") == {"gpu.a": "a"}
    assert larger_runs(kept, "gpu") == larger_runs({}, "quick") == {}


@pytest.mark.parametrize(
    ("options", "build"),
    [
        ({}, False),
        ({"build": True}, True),
        ({"profile": "standard"}, True),
        ({"records": {}}, True),
        ({"values_quoted": ["newer"]}, True),
        ({"figures_quoted": ["newer"]}, True),
        ({"figures_quoted": ["line"]}, False),
    ],
)
def test_all_that_a_page_shows_is_of_one_run(book, options, build):
    change(book, values={"n": 1000})
    values = cell({VALUE_MIME: {"name": "n", "value": 7}}, source="v")
    page = page_of(book, OWN, values, **options)
    said = shown(page, OWN)
    ours = [
        word in said for word in ("On digits<", "Sizes on digits", "On digits, 4.", "printed 4")
    ]
    theirs = [word in said for word in ("photographs", "printed 3")]
    assert (set(ours), set(theirs)) == ({build}, {not build})
    assert page.values == ({"n": 7} if build else {"n": 1000})
    assert page.picture("line")["caption"] == ("On digits" if build else "On photographs")
    assert ("shows this build: profile" in page.source) == build


def test_a_figure_of_theory_is_shown_with_a_run_that_has_none(book):
    of = cell({k: v for k, v in figure(1.0, "In theory").items() if k != FIGURE_MIME}, source="new")
    page = page_of(book, OWN, of)
    assert "photographs" in shown(page, OWN)
    assert "In theory" in shown(page, of)


def test_the_foot_says_how_to_see_ones_own_run_or_why_there_is_no_other(book):
    """Which run it is `test_one_run_a_page.py` asks the real site."""
    assert page_of(book, OWN).source.endswith("`COMPANION_SHOW=build make book`.")
    assert page_of(book, OWN, build=True).source.endswith("Recorded runs: `make book`.")
    assert "older than the text" in page_of(book, OWN, values_quoted=["newer"]).source
    change(book, shown=None)
    assert "Printed lines, moving figures and those of theory are this" in page_of(book, OWN).source


@pytest.mark.parametrize("chapter", chapter_files(ROOT / "book"))
def test_the_largest_record_of_a_chapter_has_what_the_book_quotes(chapter):
    book = ROOT / "book"
    for run in list(read_records(book, chapter).values())[:1]:
        assert set(run["values"]) >= quoted_values(book).get(chapter, set())
        assert set(run["figures"]) >= quoted_figures(book).get(chapter, set())


# ------------------------------------------------------------------ records


def test_a_record_keeps_figures_small_and_whole(book):
    kept = read_records(book, "one")["standard"]
    found = figure_of(kept, "line")
    assert (found["alt"], found["caption"]) == ("A line.", "On photographs")
    for layout in ("svg", "wide"):
        assert re.fullmatch("<svg.*</svg>", found[layout], re.S)
        assert len(kept["figures"]["line"][layout]) < len(found[layout]) / 2
    assert found["svg"] != found["wide"]
    assert figure_of(kept, "no such") is None
    assert page_of(book, OWN).picture("line") == found
    with pytest.raises(KeyError, match="no such"):
        page_of(book, OWN).picture("no such")
    (parts,) = kept["shown"].values()
    assert [part["kind"] for part in parts] == ["figure", "table", "note", "other"]
    assert len(json.dumps(parts)) < 500  # nothing twice


def test_infinite_values_are_recorded_as_words_and_read_as_numbers(book):
    values = [{VALUE_MIME: {"name": n, "value": v}} for n, v in (("a", "inf"), ("b", 0.5))]
    path = write_record(book, executed("standard", cell(*values)), "one.more")
    assert json.loads(path.read_text(), parse_constant=pytest.fail)["values"]["a"] == "inf"
    assert read_records(book, "one")["standard.more"]["values"] == {"a": math.inf, "b": 0.5}


def test_a_run_on_other_data_takes_no_place_in_the_records(book):
    before = read_records(book, "one")
    with pytest.raises(ValueError, match=r"one is not recorded: it ran on 'digits', since 'photo"):
        record_of(book, {USED_MIME: {"dataset": "digits"}}, dataset="photographs")
    assert read_records(book, "one") == before


def test_a_claim_that_is_newer_than_what_a_record_kept_stands_on_the_page(book):
    claims = {i: claim(i) for i in "AB"}
    record_of(book, verdict(claims["A"], 0.5), note("Kept."))
    old = cell(verdict(claims["A"], 0.4), note("Own."))
    assert "Kept." in shown(page_of(book, old, claims=claims), old)
    new = cell(*(verdict(each, 0.4) for each in claims.values()), note("Own."))
    said = shown(page_of(book, new, claims=claims), new)
    assert said.count("id='claim-") == 2
    assert "note" not in said


@pytest.mark.parametrize(("changed", "of"), [({"shown": None}, OWN), ({}, OWN | {"source": "y"})])
def test_a_record_that_kept_no_notes_shows_none(book, changed, of):
    """And one of an older version of a cell; printed lines, which belong to the code, stay."""
    change(book, **changed)
    said = shown(page_of(book, of), of)
    assert all(word in said for word in ("On photographs", "Sizes on photographs", "printed 4"))
    assert "companion-note" not in said


def test_what_a_build_without_data_lacks_stands_where_the_cell_names_it(book):
    """Also under a name with a variable part; and nowhere else."""
    change(book, shown=None)
    sources = ('if real:\n    figure(f, "line")', 'f"siz{end}"', 'f"{x}"; "lines"; 12')
    empty = [cell(source=source) for source in sources]
    first, second, third = (shown(page_of(book, *empty), each) for each in empty)
    assert (first.count("<figure"), first.count("<table")) == (1, 0)
    assert (second.count("<figure"), second.count("<table"), third) == (0, 1, "")
    assert shown(page_of(book, *empty, build=True), empty[0]) == ""
    other = cell(figure(1.0, "On digits", "other"), table(SMALL, "Other", {}, "other"))
    assert shown(page_of(book, other), other) == ""  # what the record lacks is not on the page


# ------------------------------------------------------------------ parts


def test_a_recorded_table_has_its_own_caption_formats_and_download(book):
    said = shown(page_of(book, OWN), OWN)
    for entry in (">1,000<", ">2,000<", ">0.250<", ">–<", ">NA<", "></td>", "one_sizes_standard"):
        assert entry in said
    assert said.count("id='figure-line'") == 1


@pytest.mark.parametrize(("texts", "word"), [([], "2,013"), (["year"], "2013")])
def test_years_have_no_thousands_and_the_download_of_a_digest_is_whole(book, texts, word):
    years = pd.DataFrame({"year": ["2013", "2014"] * 5, "n": [1000, 2000] * 5})
    whole = LARGE.assign(more=["a", "NA"]).to_csv(index=False)
    of = table(years, "Years", {"n": ","}, texts=texts, whole=whole, aside=True)
    record_of(book, of)
    said = shown(page_of(book, cell(of)), cell(of))
    assert said.startswith("<details class='companion-rows'")
    assert " aside'><thead>" in said
    assert re.findall(r"<td[^>]*>([\d,]+)</td>", said)[:2] == [word, "1,000"]
    content = said.split("data:text/csv;base64,")[1].split("'")[0]
    assert base64.b64decode(content).decode() == whole


def test_parameters_of_the_run_that_is_shown_stand_at_the_foot(book):
    of = cell({"text/html": "<p>own</p>", "text/plain": "", PARAMETERS_MIME: {}}, source="open")
    own, page = page_of(book, of, records={}), page_of(book, of)
    assert shown(own, of) == shown(page, of) == ""
    assert own.foot({}).endswith("<p>own</p></div>")
    foot = page.foot({"Source": "_sources/one.py"})
    assert "newer than the record" not in foot
    assert "papermill book/one.py out.ipynb -y &#x27;{dataset: photographs" in foot
    assert "<a href='_sources/one.py'>Source</a>" in foot
    assert "This page shows the recorded run (standard): profile" in foot
    assert "<details" not in foot  # of few parameters
    folder = book.parent / "params" / "standard"
    folder.mkdir(parents=True)
    (folder / "one.yml").write_text("dataset: photographs\nbase: 2.0\n")
    change(book, parameters={"dataset": "photographs"})
    assert "-f params/standard/one.yml" in page_of(book, of).foot({})


@pytest.mark.parametrize("prose", ["# One", "# One\n\nA text."])
def test_data_that_stand_in_for_others_are_named_under_the_title(book, prose):
    def top(used: str, **more) -> str:
        of = cell({"text/plain": "", USED_MIME: {"dataset": used}})
        page = page_of(book, of, **more)
        first = framed([nbformat.v4.new_markdown_cell(prose)], page)[0].source
        assert first.startswith("# One")
        assert first.endswith(prose[5:])
        return first

    assert "digits could not be had: this page shows GTSRB instead" in top("gtsrb", records={})
    assert top("digits", records={}) == prose
    assert top("gtsrb") == prose  # the record had its data
    change(book, used={"dataset": "digits"})
    assert "photographs could not be had: this page shows digits instead" in top("digits")


# ------------------------------------------------------------------ verdicts


def claim(i: str, **changes) -> Claim:
    return Claim(
        **{"id": i, "paper": "P1", "chapter": "one", "place": f"Table 1, {i}, x", "claim": "So."}
        | {"kind": "exact", "why": "known.", "reported": 0.5, "tolerance": 0.25}
        | changes
    )


def verdict(of: Claim, value: float) -> dict:
    return {"text/plain": of.id, VERDICT_MIME: judge(of, value, {}).as_dict()}


def record(**values: float) -> dict:
    verdicts = [judge(claim(i), value, {}).as_dict() for i, value in values.items()]
    return {"verdicts": verdicts, "values": {}, "figures": {}, "tables": {}}


def test_verdicts_are_of_the_largest_run_that_covers_the_claim_and_say_if_not_of_the_page(book):
    claims = {i: claim(i) for i in "ABC"}
    of = [cell(verdict(claims[i], 0.4)) for i in claims]
    records = {"standard": record(A=0.75), "standard.signs": record(A=9.0, B=9.0)}
    page = page_of(book, *of, claims=claims, records=records)
    first, second, third = (shown(page, each) for each in of)
    assert "paper 0.5 | ours 0.75; the recorded run (standard.signs) says otherwise<" in first
    assert "ours 9 <small>recorded run (standard.signs)</small>" in second
    assert "ours 0.4 <small>this build</small>" in third
    page = page_of(book, *of, claims=claims, records=records, build=True)
    assert all("ours 0.4</span>" in shown(page, each) for each in of)


def test_a_group_of_cells_is_drawn_from_recorded_runs_or_this_build_alone(book, monkeypatch):
    claims = {i: claim(i, group="P1, Table 1", picture="dots") for i in "AB"}
    cells = {"text/plain": "", CELLS_MIME: {"ids": list(claims), "caption": "Table 1"}}
    beside = [{VERDICT_MIME: judge(each, 0.5, {}).as_dict()} for each in claims.values()]
    of, records = cell(cells, *beside), {"standard": record(A=9.0)}
    table = Statement("S", "P1", "Table 1", "table", "All is so.", claims=tuple(claims))
    stated = {"statements": dict.fromkeys(claims, table), "ledger": lambda: "all.html"}
    page = page_of(book, of, claims=claims, records=records, **stated)
    said = shown(page, of)
    assert (said.count("<figure"), said.count("id='claim-")) == (1, 2)
    assert said.count("<li") == 1
    assert "href='all.html#statement-S'>P1, Table 1</a>" in said
    assert "1 of 2 hold, 1 not reproduced</span>" in said
    assert "<table" not in said
    assert page.verdicts["A"].verdict == NOT_REPRODUCED
    plain = {i: replace(each, picture="") for i, each in claims.items()}
    assert "<figure" not in shown(page_of(book, of, claims=plain, records=records), of)
    drawn = []  # what only this build has stands in no picture of a recorded run
    monkeypatch.setattr("lib.book.pictures.draw_cells", lambda _, found: drawn.append(found))
    shown(page, of)
    shown(page_of(book, of, claims=claims, records={}), of)
    assert [[run["value"] for run in each.values()] for each in drawn] == [[9.0, None], [0.5, 0.5]]


def test_verdicts_of_a_cell_are_a_line_for_each_statement(book):
    """It leads to the row, and says how many hold, or what the paper prints and what we find."""
    claims = {i: claim(i) for i in "ABCD"} | {"E": claim("E", tolerance=None, cannot="no data.")}
    of = cell(*(verdict(each, 9.0 if i == "C" else 0.4) for i, each in claims.items()))
    several = Statement("S", "P1", "section 1", "finding", "All is so.", claims=tuple("ABC"))
    page = page_of(
        book,
        of,
        claims=claims,
        records={},
        statements=dict.fromkeys("ABC", several),
        ledger=lambda: "../all.html",
    )
    said = shown(page, of)
    first, second, third = said.split("<li ")[1:]
    assert [f"id='claim-{i}'" in first for i in "ABCD"] == [True, True, True, False]
    assert "claim-no" in first
    assert "<a href='../all.html#statement-S'>All is so.</a>" in first
    assert "2 of 3 hold, 1 not reproduced<" in first
    assert "<a href='../all.html#claim-D'>So.</a>" in second
    assert "paper 0.5 | ours 0.4</span>" in second
    assert "cannot be checked: paper 0.5 | ours 0.4</span>" in third
    assert "<details" not in said
