"""The built site in headless Chromium: every page, in both themes, at desktop and phone width."""

import functools
import gzip
import re
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from notebooks import quick_parameters
from page_shapes import MEASURE, Shape, shape, too_long
from site_checks import DESKTOP, PHONE, TYPESET, page_names, page_weights, search, too_heavy, visit
from site_tools import HTML, NEEDS_CHROMIUM, ROOT, build_site, serve

from lib import data
from lib.book.chapters import chapter_files
from lib.book.site import MOVED

pytestmark = [pytest.mark.browser, pytest.mark.slow, NEEDS_CHROMIUM]


@pytest.fixture(scope="module")
def address():
    build_site()
    with serve(HTML) as url:
        yield url


@pytest.fixture(scope="module")
def visited(browser, address):
    """Opens a page, each once."""
    context = browser.new_context()
    return functools.cache(lambda name: visit(context, f"{address}/{name}", measure=MEASURE))


def shows_data(name: str) -> bool:
    """Whether a page is another one without data: a chapter that reads some, or the ledger."""
    chapter = Path(name).stem
    given = quick_parameters(chapter) if chapter in chapter_files(ROOT / "book") else {}
    named = [v for v in given.values() if str(v) in data.IMAGE_SETS]
    return (
        chapter == "reproduces"
        or any(data.image_files(v) for v in named)
        or any(chapter in e.chapters for e in data.registry().values())
    )


@pytest.mark.parametrize(
    ("half", "of_data"),
    [
        pytest.param(half, of_data, id=f"{name}-{of_data}", marks=[pytest.mark.data] * of_data)
        for half, name in enumerate(("first", "second"))
        for of_data in (True, False)
    ],
)
def test_every_page_is_without_fault_and_none_too_long(browser, address, visited, half, of_data):
    """The halves are for two workers."""
    names = [name for name in page_names(HTML) if shows_data(name) == of_data][half::2]
    assert len(names) >= 4
    found = {name: visited(name) for name in names}
    assert {name: page.faults for name, page in found.items() if page.faults} == {}
    assert all(page.texts > 20 for page in found.values())
    shapes = {name: Shape(*page.measured) for name, page in found.items()}
    if not of_data:
        inner = page_names(HTML, "reference")
        assert len(inner) >= 8
        shapes |= {name: shape(browser, f"{address}/{name}") for name in inner[half::2]}
    files = chapter_files(ROOT / "book").values()
    chapters = {p.relative_to(ROOT / "book").with_suffix(".html").as_posix() for p in files}
    assert too_long(shapes, chapters) == []


def test_a_page_of_the_reference_is_without_fault(visited):
    """One of them: all are made alike."""
    assert visited("reference/counterfactual.html").faults == {}


@pytest.mark.data
def test_chapters_have_typeset_formulas_figures_and_tables_that_scroll(visited):
    page = visited("suitability.html")
    assert page.formulas > 3
    assert page.figures > 3
    assert page.tables > 3
    assert page.scrolling > 0
    assert "data:image/svg+xml," in (HTML / "suitability.html").read_text(encoding="utf-8")


@pytest.mark.data
def test_no_page_is_too_heavy(address):
    weights, shared = page_weights(HTML)
    assert too_heavy(HTML) == {}
    assert min(weights.values()) > 5_000
    assert shared > 1_000_000  # MathJax and the theme are there


@pytest.mark.data
@pytest.mark.parametrize("name", ["index", "audit", "canaries", "normalized_score", "suitability"])
def test_all_that_a_page_loads_is_below_a_megabyte_as_it_travels(browser, address, name):
    """Hosts compress texts; letters and pictures travel as they are."""
    page, loaded = browser.new_page(), set()
    page.on("response", lambda response: loaded.add(urlsplit(response.url).path))
    page.goto(f"{address}/{name}.html")
    page.evaluate(TYPESET)
    sizes = {}
    for path in loaded:
        file = HTML / path.removeprefix(urlsplit(address).path).lstrip("/")
        content = file.read_bytes()
        texts = file.suffix in (".html", ".css", ".js", ".svg", ".json")
        sizes[file.name] = len(gzip.compress(content, 6) if texts else content)
    assert {f"{name}.html", "pydata-sphinx-theme.css"} <= sizes.keys()
    assert not {"fontawesome.js", "searchindex.js"} & sizes.keys()
    assert sum(sizes.values()) < 1_000_000, sizes


@pytest.mark.data
def test_no_page_shows_where_an_object_lies_in_memory(address):
    """What a cell's last expression prints if nobody looked; another number in each build."""
    address_of = re.compile(r" at 0x[0-9a-f]{6}")
    texts = {name: (HTML / name).read_text(encoding="utf-8") for name in page_names(HTML)}
    assert not [name for name, text in texts.items() if address_of.search(text)]


@pytest.mark.parametrize("old", MOVED)
def test_old_addresses_lead_to_pages_that_stay(browser, address, old):
    page = browser.new_page()
    page.goto(f"{address}/{old}.html")
    page.wait_for_url(f"{address}/{MOVED[old]}.html")
    assert page.locator("article h1").count() == 1
    page.close()


@pytest.mark.parametrize(
    ("term", "page"), [("Clopper-Pearson", "audit"), ("abstains", "counterfactual")]
)
def test_search_finds_pages(browser, address, term, page):
    """Also on a disk, where a page may not read the others."""
    for site in (address, HTML.as_uri()):
        found = search(browser, site, term)
        names = [link.partition("#")[0].removeprefix(f"{site}/") for _, link in found]
        assert f"{page}.html" in names
        assert all((HTML / name).is_file() for name in names)


@pytest.mark.data
@pytest.mark.parametrize(
    ("page", "links"),
    [("reproduces", r"<a [^>]*href='([^']*#(?:claim|statement)-[^']+)'"),
     ("papers", r"class='claim-mark mark-[\w-]+' href='([^']+)'")],
)  # fmt: skip
def test_links_to_claims_lead_to_verdicts(address, page, links):
    found = re.findall(links, (HTML / f"{page}.html").read_text(encoding="utf-8"))
    assert len(found) > 30
    for link in found:
        name, _, anchor = link.partition("#")
        text = (HTML / (name or f"{page}.html")).read_text(encoding="utf-8")
        assert f"id='{anchor}'" in text, link


@pytest.mark.data
def test_the_ledger_can_be_filtered(browser, address):
    rows = "tr.statement"
    shown = (
        f"() => [...document.querySelectorAll('{rows}')].filter(r => r.checkVisibility())"
        ".map(r => [r.textContent, (r.querySelector('.verdict') || {}).textContent])"
    )
    page = browser.new_page()
    page.goto(f"{address}/reproduces.html")
    total = page.locator(rows).count()
    said = page.locator(".companion-filter output")
    assert said.text_content() == f"{total} statements"
    at_first = page.evaluate(shown)
    page.get_by_label("Verdict").select_option("no")
    missed = page.evaluate(shown)
    assert 0 < len(missed) < total
    assert said.text_content() == f"{len(missed)} of {total} statements"
    assert all("not reproduced" in verdict for _, verdict in missed)
    page.get_by_label("Words in the statement").fill("rectangle zyzzyva")
    assert page.evaluate(shown) == []
    page.get_by_label("Words in the statement").fill("rectangle")
    few = page.evaluate(shown)
    assert 0 < len(few) < len(missed)
    assert all("rectangle" in text.lower() for text, _ in few)
    page.get_by_label("Verdict").select_option("")
    page.get_by_label("Words in the statement").fill("")
    assert page.evaluate(shown) == at_first
    page.close()


def test_notebook_download_and_csv(address):
    with urllib.request.urlopen(f"{address}/notebooks/suitability.ipynb") as response:
        notebook = nbformat.reads(response.read().decode(), as_version=4)
    assert any(cell.get("outputs") for cell in notebook.cells)
    assert not any("{value}`" in c.source for c in notebook.cells if c.cell_type == "markdown")
    assert "data:text/csv;base64," in (HTML / "suitability.html").read_text(encoding="utf-8")


def test_a_word_shows_its_card_to_mouse_and_keyboard(browser, address):
    page = browser.new_page()
    page.goto(f"{address}/audit.html")
    for kind, said in (("glossary", "accuracy"), ("bibliography", "2023")):
        link = page.locator(f"a.companion-card[href*='{kind}.html#']").first
        link.hover()
        content = link.evaluate("e => getComputedStyle(e, '::after').content")
        assert content == f'"{link.get_attribute("aria-description")}"'.replace("\\", ""), said
        page.mouse.move(0, 0)
        assert link.evaluate("e => getComputedStyle(e, '::after').content") == "none"
        page.keyboard.press("Tab")
        link.focus()
        assert link.evaluate("e => getComputedStyle(e, '::after').content") == content
        page.keyboard.press("Escape")
        assert link.evaluate("e => getComputedStyle(e, '::after').content") == "none"
        page.mouse.move(0, 0)
        link.evaluate("e => e.blur()")
        link.hover()
        assert link.evaluate("e => getComputedStyle(e, '::after').content") == content
    page.close()


@pytest.mark.parametrize("name", ["audit", "beyond/gap"])
def test_the_typeface_comes_with_the_site(browser, address, name):
    """Also on a disk, and from a folder below."""
    for site in (address, HTML.as_uri()):
        page = browser.new_page()
        page.goto(f"{site}/{name}.html")
        loaded = page.evaluate(
            "() => document.fonts.ready.then(all => [...all]"
            ".filter(f => f.family.includes('Companion') && f.status === 'loaded').length)"
        )
        used = page.evaluate("() => getComputedStyle(document.querySelector('h1')).fontFamily")
        page.close()
        assert loaded == 2, site  # upright and italic
        assert used.startswith('"Companion Sans"')


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", ["suitability", "audit", "counterfactual"])
def test_a_diagram_is_shown_once_and_its_words_can_be_read(browser, address, name, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(f"{address}/{name}.html")
    shown = [e for e in page.query_selector_all(".companion-drawing svg") if e.is_visible()]
    (drawing,) = shown
    box = drawing.bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= width
    sizes = drawing.evaluate(
        """e => [...e.querySelectorAll('text')].map(t =>
             parseFloat(getComputedStyle(t).fontSize) * e.getScreenCTM().a)"""
    )
    assert len(sizes) >= 7
    assert min(sizes) >= 11
    page.close()


def test_a_chapter_prints_as_a_clean_document(browser, address):
    """A4 in portrait: solutions and tables are open, code and navigation gone, nothing is cut."""
    page = browser.new_page(viewport={"width": 703, "height": 1000})  # A4 less Chromium's margins
    page.goto(f"{address}/audit.html")
    page.evaluate(TYPESET)
    page.emulate_media(media="print")
    visible = "e => e.checkVisibility() && e.getBoundingClientRect().height > 0"
    for gone in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".prev-next-area", ".copybtn"):
        assert not any(e.evaluate(visible) for e in page.query_selector_all(gone)), gone
    clicked = "summary, .companion-search, .companion-download, .companion-filter"
    code = page.query_selector_all(".companion-code, .companion-foot button")
    assert len(code) > 3
    assert not any(e.evaluate(visible) for e in code)
    opened = ":is(.sd-dropdown, .companion-rows)"
    folded = page.query_selector_all(f".bd-article > section details{opened} > :not({clicked})")
    assert len(folded) > 3
    assert sum(not e.evaluate("e => e.checkVisibility()") for e in folded) == 0
    assert len(page.query_selector_all(".companion-claim")) > 3
    assert page.locator(".companion-foot").get_by_text("This page shows").is_visible()
    assert not page.locator(".companion-parameters").is_visible()
    figures = page.query_selector_all(".bd-article > section .companion-figure:has(img)")
    shares = [
        f.evaluate("f => f.querySelector('img').clientWidth / f.clientWidth")
        for f in figures
        if f.is_visible()
    ]
    assert len(shares) > 1
    assert min(shares) > 0.95
    wide = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article :is(p, pre, table, figure, li)')]
        .filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.outerHTML.slice(0, 120))"""
    )
    assert wide == []
    printed = page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 8 <= pages <= 60
    page.close()
