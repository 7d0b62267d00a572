"""The largest recorded run stands first on a page, and a record keeps what that takes."""

import base64
import json
import math
import re
from dataclasses import replace

import pandas as pd
import pytest
from matplotlib import pyplot as plt

from lib.book.claims import Claim, judge
from lib.book.execute import CELLS_MIME, FIGURE_MIME, TABLE_MIME, VALUE_MIME, VERDICT_MIME, Executed
from lib.book.largest import Page, larger_runs
from lib.book.records import figure_of, read_records, write_record
from lib.book.render import csv_link, figure_html, note_html, picture_html, table_html
from lib.book.sphinx_ext import _code_cell
from lib.plot import svg_bytes

HARDWARE = {"cores": 2, "processor": "a <chip>", "memory_gib": 1}


def figure(slope: float, caption: str) -> dict:
    drawing, ax = plt.subplots()
    ax.plot([0, 1], [0, slope])
    svg = svg_bytes(drawing, "one.line")
    about = {"name": "line", "alt": "A line.", "caption": caption}
    html = figure_html(svg, **about)
    return {"text/html": html, "text/plain": "[line]", FIGURE_MIME: about}


def table(name: str, frame: pd.DataFrame, caption: str, formats: dict) -> dict:
    shown = {"name": name, "csv": frame.to_csv(index=False), "caption": caption, "formats": formats}
    page = table_html(frame, caption, formats) + csv_link(frame, "x.csv")
    return {"text/html": page, "text/plain": "", TABLE_MIME: shown}


def executed(profile: str, outputs: list[dict], **parameters) -> Executed:
    return Executed(
        chapter="one",
        profile=profile,
        key="k",
        cells=[{"source": "", "tags": [], "outputs": [{"data": data} for data in outputs]}],
        parameters=parameters,
        data={},
        source="s" * 64,
        code="c" * 64,
        python="3",
        packages={},
        hardware=HARDWARE,
        seconds=200.0,
        finished="2026-01-02T03:04:05",
    )


LARGE = pd.DataFrame({"n": [1000, 2000], "word": ["", "NA"], "x": [0.25, None]})
SMALL = pd.DataFrame({"n": [10], "word": ["b"], "x": [0.5]})
FORMATS = {"n": ",", "x": ".3f"}


@pytest.fixture
def book(tmp_path):
    folder = tmp_path / "book"
    (folder / "records" / "standard").mkdir(parents=True)
    outputs = [
        figure(2.0, "On photographs"),
        table("sizes", LARGE, "Sizes on photographs", FORMATS),
    ]
    write_record(folder, executed("standard", outputs, dataset="photographs", models=["cnn"]))
    return folder


def page_of(book, *outputs, profile="quick", claims=None, records=None) -> Page:
    done = executed(profile, list(outputs), dataset="digits")
    kept = larger_runs(read_records(book, "one") if records is None else records, profile)
    return Page(done, kept, claims or {})


def pictures(page: str) -> list[str]:
    found = re.findall(r"base64,([A-Za-z0-9+/=]+)'", page)
    return [base64.b64decode(each).decode() for each in found]


def test_a_record_keeps_figures_small_and_whole(book):
    kept = read_records(book, "one")["standard"]
    found = figure_of(kept, "line")
    assert (found["alt"], found["caption"]) == ("A line.", "On photographs")
    assert found["svg"].startswith("<svg")
    assert found["svg"].endswith("</svg>")
    assert len(kept["figures"]["line"]["svg"]) < len(found["svg"]) / 2
    assert figure_of(kept, "no such") is None
    assert kept["tables"]["sizes"]["formats"] == FORMATS


def test_a_picture_is_of_the_largest_run_that_has_the_figure(book):
    other = figure(1.0, "On digits")
    other[FIGURE_MIME] = {**other[FIGURE_MIME], "name": "other"}
    page = page_of(book, figure(1.0, "On digits"), other)
    recorded = figure_of(read_records(book, "one")["standard"], "line")
    assert page.picture("line") == recorded
    assert page.picture("other")["caption"] == "On digits"
    assert page_of(book, figure(1.0, "On digits"), records={}).picture("line") != recorded
    with pytest.raises(KeyError, match="no such"):
        page.picture("no such")
    html = picture_html(recorded["svg"].encode(), 'A "line".')
    assert pictures(html) == [recorded["svg"]]
    assert "alt='A &quot;line&quot;.'" in html


def test_a_figure_that_a_page_folds_is_folded_of_a_recorded_run_too(book):
    own = figure(1.0, "On digits")
    assert page_of(book, own).outputs(own).startswith("<figure")
    own[FIGURE_MIME] = {**own[FIGURE_MIME], "aside": "In full"}
    shown = page_of(book, own).outputs(own)
    assert shown.startswith("<details class='companion-rows'><summary>In full</summary><figure")
    assert shown.index("On photographs") < shown.index("The same from this build")


def test_what_is_text_on_the_page_is_text_in_a_recorded_table(tmp_path):
    """Years have no thousands."""
    years, other = pd.DataFrame({"year": ["2013", "2014"], "n": [1000, 2000]}), {"n": ","}
    (tmp_path / "records" / "standard").mkdir(parents=True)
    write_record(tmp_path, executed("standard", [table("years", years, "Years", other)]))
    own = table("years", years[:1], "Years", other)
    for texts, word in (([], "2,013"), (["year"], "2013")):
        own[TABLE_MIME]["texts"] = texts
        first, _ = page_of(tmp_path, own).outputs(own).split("<details class='companion-build'>")
        assert re.findall(r"<td[^>]*>([\d,]+)</td>", first)[:2] == [word, "1,000"]


def test_infinite_values_are_recorded_as_words_and_read_as_numbers(book):
    values = [{VALUE_MIME: {"name": n, "value": v}} for n, v in (("a", "inf"), ("b", 0.5))]
    path = write_record(book, executed("standard", values), "one.more")
    assert json.loads(path.read_text(), parse_constant=pytest.fail)["values"]["a"] == "inf"
    assert read_records(book, "one")["standard.more"]["values"] == {"a": math.inf, "b": 0.5}


def test_runs_that_are_larger_than_the_build_stand_first_by_size():
    kept = {name: name[-1] for name in ("standard.b", "standard", "gpu.a", "standard.a")}
    found = larger_runs(kept, "quick")
    assert list(found) == ["gpu.a", "standard", "standard.a", "standard.b"]
    assert larger_runs(kept, "standard") == {"gpu.a": "a"}
    assert larger_runs(kept, "gpu") == larger_runs({}, "quick") == {}


def test_runs_of_other_parameter_files_stand_between(book):
    own = table("sizes", SMALL, "Sizes on digits", {"n": ","})
    found = [table("sizes", LARGE * 2, "On signs", {}), figure(2.0, "A line on signs")]
    signs = executed("standard", found, dataset="signs")
    write_record(book, signs, "one.signs")
    kept = read_records(book, "one")
    assert list(kept) == ["standard", "standard.signs"]
    page = page_of(book, own)
    first, fold = page.outputs(own).split("<details class='companion-build'>")
    assert "Sizes on photographs" in first
    assert "The same from the recorded run (standard.signs) and this build</summary>" in fold
    second, third = fold.split("<p class='companion-source'>This build</p>")
    assert "<p class='companion-source'>The recorded run (standard.signs)</p>" in second
    assert "On signs" in second
    assert "Sizes on digits" in third
    first, fold = page.outputs(figure(-3.0, "A line on digits")).split("<details")
    assert fold.index("A line on signs") < fold.index("A line on digits")
    begin = {"text/html": "<details class='companion-parameters'></details>", "text/plain": ""}
    begins = page.outputs(begin)
    assert "this build, and what the run <code>standard.signs</code> found" in begins


def test_the_recorded_figure_stands_first_and_has_the_address(book):
    own = figure(-3.0, "On digits")
    shown = page_of(book, own).outputs(own)
    first, folded = shown.split("<details class='companion-build'>")
    assert "On photographs" in first
    assert "On digits" in folded
    assert shown.count("id='figure-line'") == first.count("id='figure-line'") == 1
    recorded, here = pictures(shown)
    assert recorded == figure_of(read_records(book, "one")["standard"], "line")["svg"]
    assert here == pictures(own["text/html"])[0]


def test_the_recorded_table_stands_first_with_its_own_caption_and_formats(book):
    own = table("sizes", SMALL, "Sizes on digits", {"n": ",", "x": ".1f"})
    first, folded = page_of(book, own).outputs(own).split("<details class='companion-build'>")
    assert "Sizes on photographs" in first
    for entry in (">1,000<", ">2,000<", ">0.250<", ">–<", ">NA<", "></td>"):
        assert entry in first
    assert "one_sizes_standard.csv" in first
    assert ">0.5<" in folded


def test_a_figure_that_no_record_has_is_that_of_this_build(book):
    path = book / "records" / "standard" / "one.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"figures": {}}))
    drawing = figure(1.0, "On digits")
    shown = page_of(book, drawing).outputs(drawing)
    assert shown == f"<p class='companion-source'>This build</p>{drawing['text/html']}"


def test_a_larger_record_keeps_its_columns_of_parameters_and_loses_what_the_page_omits(book):
    path = book / "records" / "standard" / "one.json"
    record = json.loads(path.read_text())
    wide = pd.DataFrame({"shift": [0.5], "200": [0.1], "3200": [0.9], "gone": [0.7]})
    record["tables"]["sizes"] |= {"csv": wide.to_csv(index=False), "formats": {"3200": ".3f"}}
    path.write_text(json.dumps(record))
    own = table("sizes", wide[["shift", "200"]], "Sizes", {"200": ".3f"})
    first, _ = page_of(book, own).outputs(own).split("<details class='companion-build'>")
    for entry in (">200<", ">3200<", ">0.100<", ">0.900<"):
        assert entry in first
    assert ">gone<" not in first


def test_the_download_of_a_recorded_digest_holds_the_whole(book):
    path = book / "records" / "standard" / "one.json"
    record = json.loads(path.read_text())
    own = table("sizes", SMALL, "Sizes; the download has more", FORMATS)
    own[TABLE_MIME]["whole"] = SMALL.assign(more=1).to_csv(index=False)
    kept = record["tables"]["sizes"] | {"caption": "Large; the download has more"}
    whole = LARGE.assign(more=["a", "NA"]).to_csv(index=False)
    for entry, download, caption in (
        (kept | {"whole": whole}, whole, "Large; the download has more"),
        (kept, LARGE.to_csv(index=False), "Large</"),  # of an older record: it has not
    ):
        record["tables"]["sizes"] = entry
        path.write_text(json.dumps(record))
        first, _ = page_of(book, own).outputs(own).split("<details class='companion-build'>")
        content = first.split("data:text/csv;base64,")[1].split("'")[0]
        assert base64.b64decode(content).decode() == download
        assert caption in first


def test_what_both_runs_show_alike_stands_once(book):
    drawing = figure(2.0, "On photographs")
    sizes = table("sizes", LARGE, "Sizes", FORMATS)
    for own in (drawing, sizes):
        assert page_of(book, own).outputs(own) == own["text/html"]


def test_a_build_as_large_as_the_record_and_one_without_stand_alone(book):
    own = table("sizes", SMALL, "Sizes", {})
    assert page_of(book, own, profile="standard").outputs(own) == own["text/html"]
    assert page_of(book, own, records={}).outputs(own) == own["text/html"]
    note = {"text/html": note_html("careful"), "text/plain": "careful"}
    assert page_of(book, note).outputs(note).startswith("<p class='companion-source'>This build<")
    assert page_of(book, note, records={}).outputs(note) == note["text/html"]


def test_the_page_says_where_its_numbers_come_from(book, monkeypatch):
    begin = {"text/html": "<details class='companion-parameters'></details>", "text/plain": ""}
    kept = read_records(book, "one")["standard"]
    for changes, words in (
        (
            {"commit": "0123456789"},
            "by commit 0123456 on 2 cores of a &lt;chip&gt; in 3 min, stored",
        ),
        ({"commit": ""}, "by an earlier version of the code on 2 cores"),
    ):
        said = page_of(
            book, begin, records={"standard": kept | {"code": "d" * 64} | changes}
        ).outputs(begin)
        assert "(<code>standard</code>: photographs, a CNN), made on 2026-01-02" in said
        assert words in said
    assert page_of(book, begin).outputs(begin).count("Numbers, tables and figures") == 1
    older = replace(page_of(book, begin), quoted={"n"}).outputs(begin)
    assert "Numbers" not in older
    assert "The record is older than the text, which quotes this build." in older
    assert "by this version of the code" in page_of(book, begin).outputs(begin)


def test_verdicts_of_the_recorded_run_stand_in_the_boxes(book):
    claim = Claim(
        id="A", paper="P2", chapter="one", place="Table 1", claim="So.", kind="exact",
        why="known.", at_least=1.0, group="G",
    )  # fmt: skip
    here = {"id": "A", "verdict": "reproduced", "value": 2.0, "reason": "", "interval": None}
    there = here | {"verdict": "not reproduced", "value": 0.5}
    records = {"standard": {"verdicts": [there], "tables": {}, "figures": {}}}
    box = {"text/html": "own", "text/plain": "", VERDICT_MIME: here}
    cells = {"text/html": "own", "text/plain": "", CELLS_MIME: {"ids": ["A"], "caption": "Cells"}}
    page = page_of(book, box, claims={"A": claim}, records=records)
    for shown in (box, cells):
        said = page.outputs(shown)
        assert "verdict-no'>✗ not reproduced" in said
        assert "title='reproduced'>✓" in said
    assert "Cells: 1 not reproduced" in page.outputs(cells)


def test_more_than_three_verdicts_of_a_cell_are_one_table(book):
    claims = {
        i: Claim(i, "P1", "one", "Table 1", f"Claim {i}.", "exact", "arithmetic.", at_least=0)
        for i in "ABCD"
    }
    shown = [
        {"text/html": f"<i>{i}</i>", VERDICT_MIME: judge(claim, 1, {}).as_dict()}
        for i, claim in claims.items()
    ]
    for count in (3, 4):
        page = page_of(book, *shown[:count], claims=claims)
        display = {"output_type": "display_data", "metadata": {}}
        outputs = [display | {"data": data} for data in shown[:count]]
        outputs.insert(1, {"output_type": "stream", "name": "stdout", "text": "x"})
        executed = {"source": "x", "tags": [], "outputs": outputs, "execution_count": 1}
        cell = _code_cell(executed, "cell-1", page)
        pages = [o["data"]["text/html"] for o in cell.outputs if "data" in o]
        assert sum(o.output_type == "stream" for o in cell.outputs) == 1
        assert "".join(pages).count("id='claim-") == count
        assert len(pages) == (3 if count == 3 else 1)
        assert ("<table" in pages[0]) == (count == 4)


def test_a_group_of_cells_is_drawn_from_the_largest_run(book, monkeypatch):
    claims = {
        i: Claim(
            *(i, "P1", "one", f"Table 1, {i}, x", "It is.", "exact", "arithmetic."),
            reported=0.5,
            tolerance=0.25,
            group="P1, Table 1",
            picture="dots",
        )
        for i in "AB"
    }
    here = {i: judge(claim, 0.5, {}).as_dict() for i, claim in claims.items()}
    cells = {"text/html": "", CELLS_MIME: {"ids": list(claims), "caption": "Table 1"}}
    verdicts = [{VERDICT_MIME: each} for each in here.values()]
    larger = {"verdicts": [judge(claims["A"], 9.0, {}).as_dict()], "values": {}}
    page = page_of(book, cells, *verdicts, claims=claims, records={"standard": larger})
    shown = page.outputs(cells)
    assert shown.count("<figure") == 1
    assert "The 2 cells of P1, Table 1: 1 reproduced, 1 not reproduced." in shown
    assert shown.index("<figure") < shown.index("companion-cells")
    plain = {i: replace(claim, picture="") for i, claim in claims.items()}
    assert "<figure" not in page_of(book, cells, *verdicts, claims=plain).outputs(cells)
    drawn = []  # what only this build has stands in no picture of a recorded run
    monkeypatch.setattr("lib.book.largest.draw_cells", lambda _, found: drawn.append(found))
    page.outputs(cells)
    assert [run["value"] for run in drawn[0].values()] == [9.0, None]
    page_of(book, cells, *verdicts, claims=claims).outputs(cells)
    assert [run["value"] for run in drawn[1].values()] == [0.5, 0.5]


def test_a_table_aside_is_folded_in_a_record_too(book):
    for aside in (False, True):
        own = table("sizes", SMALL, "Sizes on digits", {})
        own[TABLE_MIME]["aside"] = aside
        shown = page_of(book, own).outputs(own)
        assert "Sizes on photographs" in shown
        assert shown.startswith("<details class='companion-rows'") == aside
