"""Pages of the real site show one run each, and this build agrees with the records."""

import html
import re
from functools import cache

import pytest
from site_tools import HTML, ROOT, build_site

from lib.book.beside import EXPLAINED, beside, beyond
from lib.book.chapters import chapter_files
from lib.book.claims import judged_anew, read_claims
from lib.book.execute import execute_chapter
from lib.book.notebooks import VALUE, quoted_figures, quoted_values
from lib.book.pages import Page, larger_runs
from lib.book.records import read_records
from lib.book.words import formatted

pytestmark = [pytest.mark.data, pytest.mark.slow]

BOOK = ROOT / "book"
CHAPTERS = chapter_files(BOOK)
RUN = r"This page shows (?:this build|the recorded run \(([\w.]+)\)): profile (\w+)"


@cache
def page_of(chapter: str) -> Page:
    """The page as a build makes it."""
    build_site()
    claims = read_claims(BOOK / "claims.yml")
    done = execute_chapter(CHAPTERS[chapter], "quick")  # read from the cache
    found = larger_runs(read_records(BOOK, chapter), "quick")
    records = {name: judged_anew(claims, run) for name, run in found.items()}
    return Page(done, records, claims, CHAPTERS[chapter], *(q.get(chapter, ()) for q in quoted()))


@cache
def quoted() -> tuple[dict, dict]:
    return quoted_values(BOOK), quoted_figures(BOOK)


@cache
def text_of(chapter: str) -> str:
    build_site()
    page = CHAPTERS[chapter].relative_to(BOOK).with_suffix(".html")
    return (HTML / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_foot_names_one_run_the_largest(chapter):
    records = read_records(BOOK, chapter)
    (foot,) = re.findall("<div class='companion-foot'.*?</article>", text_of(chapter), re.DOTALL)
    ((run, profile),) = re.findall(RUN, foot)
    assert run == next(iter(records), "")
    assert profile == (run.partition(".")[0] or "quick")
    assert re.search(r"\b20\d\d-\d\d-\d\d, [\d.]+ (s|min|h) on \d+ cores of ", foot)
    assert ("commit" in foot and "COMPANION_SHOW=build make book" in foot) == bool(records)


#: Tables of records whose questions a page asks no longer, or another page does: the next record
#: has none of them.
GONE = {
    "counterfactual_limits": {"metrics", "services", "services_diagnostics"},
    "interplay": {"outlier", "outlier_rates"},
}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_all_that_the_record_has_is_on_the_page_with_or_without_data(chapter):
    page, text = page_of(chapter), text_of(chapter)
    assert ">This build<" not in text
    assert "Verdict(id=" not in re.sub(r"<[^>]+>", "", text)  # what a cell happens to end with
    for run in list(read_records(BOOK, chapter).values())[:1]:
        gone = GONE.get(chapter, set())
        unescaped = html.unescape(text)
        for name, kept in run["figures"].items():
            if name not in gone:
                assert html.escape(kept["alt"], quote=False) in unescaped, name
        tables = re.findall(rf"download=['\"]{chapter}_([\w-]+)_standard\.csv", text)
        assert gone <= {*run["tables"], *run["figures"]}, "a new record: take it off the list"
        assert sorted(tables) == sorted({*run["tables"]} - gone)
        assert page.name == "recorded run (standard)"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_numbers_in_prose_are_those_of_the_run(chapter):
    """The text of the page's own numbers, in their order."""
    quoted = VALUE.findall(CHAPTERS[chapter].read_text(encoding="utf-8"))
    shown = re.findall(r'<span class="companion-value">(.*?)</span>', text_of(chapter))
    assert len(shown) == len(quoted)
    for text, said in zip(quoted, shown, strict=True):
        where, _, spec = text.partition(":")
        source, _, name = where.rpartition(".")
        of, _, run = source.partition("@")
        records = read_records(BOOK, of)
        values = records[run or "standard"]["values"] if records else page_of(of).values
        assert html.unescape(said) == formatted(values[name], spec), text


def test_this_build_agrees_with_the_records():
    table = beside({chapter: page_of(chapter) for chapter in CHAPTERS})
    assert len(table) > 40
    assert set(beyond(table)["value"]) <= set(EXPLAINED)
    page = (HTML / "maintainers.html").read_text(encoding="utf-8")
    assert f"{len(table)} values; beyond their tolerance: {len(beyond(table))}" in page
    assert page.count("not explained") == 0
    assert all(f">{name}<" in page.replace("<wbr>", "") for name in table["value"])
