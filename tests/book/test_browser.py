"""The built site in headless Chromium: every page, in both themes, at desktop and phone width."""

import functools
import gzip
import re
import urllib.request
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import nbformat
import pytest
from notebooks import quick_parameters
from page_shapes import MEASURE, Shape, too_long
from site_checks import (
    DESKTOP,
    MEGABYTE,
    TYPESET,
    page_names,
    page_weights,
    search,
    too_heavy,
    visit_all,
)
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
def tabs(browser):
    """For all that do not change what a browser keeps: they load the theme once; both are drawn."""
    return browser.new_page(), browser.new_page()


@pytest.fixture
def page(tabs):
    tab = tabs[0]
    tab.set_viewport_size({"width": DESKTOP, "height": 800})
    yield tab
    tab.emulate_media(media="null")


#: A page of each kind, with all the parts of which pages are made: axe looks at these.
KINDS = ("index", "audit", "suitability", "your_model", "papers", "reproduces", "maintainers")
KINDS += ("which_function", "search", "reference/counterfactual")


def all_pages() -> set[str]:
    return {*page_names(HTML), *page_names(HTML, "reference")}


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


@functools.cache
def travelling(file: Path) -> int:
    """Bytes of a file on its way: hosts compress texts; letters and pictures travel as they are."""
    content = file.read_bytes()
    texts = file.suffix in (".html", ".css", ".js", ".svg", ".json")
    return len(gzip.compress(content, 6) if texts else content)


def below(address: str, loaded: list[str]) -> dict[str, int]:
    """The site's files among addresses, and how large they are on their way."""
    paths = {urlsplit(each).path.lstrip("/") for each in loaded if each.startswith(f"{address}/")}
    return {Path(path).name: travelling(HTML / path) for path in paths}


@pytest.mark.parametrize(
    ("half", "of_data"),
    [
        pytest.param(half, of_data, id=f"{name}-{of_data}", marks=[pytest.mark.data] * of_data)
        for half, name in enumerate(("first", "second"))
        for of_data in (True, False)
    ],
)
def test_every_page_is_without_fault_and_none_too_long(tabs, address, half, of_data):
    """The halves are for two workers. All that a page loads is below a megabyte as it travels."""
    inner = [] if of_data else page_names(HTML, "reference")
    assert of_data or len(inner) >= 8
    names = [name for name in page_names(HTML) if shows_data(name) == of_data] + inner
    names = names[half::2]
    assert len(names) >= 4
    axe = [f"{address}/{name}.html" for name in KINDS]
    visits = visit_all(tabs, [f"{address}/{name}" for name in names], axe, MEASURE)
    found = dict(zip(names, visits, strict=True))
    assert {name: page.faults for name, page in found.items() if page.faults} == {}
    assert all(page.texts > 20 for page in found.values())
    shapes = {name: Shape(*page.measured) for name, page in found.items()}
    files = chapter_files(ROOT / "book").values()
    chapters = {p.relative_to(ROOT / "book").with_suffix(".html").as_posix() for p in files}
    assert too_long(shapes, chapters) == []
    travels = {name: below(address, page.loaded) for name, page in found.items()}
    for name, files in travels.items():
        assert {Path(name).name, "pydata-sphinx-theme.css", "text.woff"} <= files.keys()
        assert "fontawesome.js" not in files
        assert "searchindex.js" not in files or name == "search.html"
    assert {n: s for n, files in travels.items() if (s := sum(files.values())) >= MEGABYTE} == {}
    for name in {"suitability.html", "audit.html", "counterfactual.html"} & found.keys():
        one = found[name]  # what there is was seen
        assert min(one.formulas, one.figures, one.tables) > 3
        assert (one.scrolling > 0, one.drawings) == (True, 1)


def test_axe_looks_at_pages_that_are_there():
    assert {f"{name}.html" for name in KINDS} <= all_pages()


@pytest.mark.data
def test_no_page_is_too_heavy(address):
    weights, shared = page_weights(HTML)
    assert too_heavy(HTML) == {}
    assert min(weights.values()) > 5_000
    assert shared > 1_000_000  # MathJax and the theme are there


@pytest.mark.data
def test_no_page_shows_where_an_object_lies_in_memory(address):
    """What a cell's last expression prints if nobody looked; another number in each build."""
    address_of = re.compile(r" at 0x[0-9a-f]{6}")
    texts = {name: (HTML / name).read_text(encoding="utf-8") for name in page_names(HTML)}
    assert not [name for name, text in texts.items() if address_of.search(text)]


def test_old_addresses_lead_to_pages_that_stay(page, address):
    for old, new in MOVED.items():
        text = (HTML / f"{old}.html").read_text(encoding="utf-8")
        (leads,) = re.findall(r'<meta http-equiv="refresh" content="0; url=([^"]+)" />', text)
        assert urljoin(f"{address}/{old}.html", leads) == f"{address}/{new}.html"
    assert {f"{new}.html" for new in MOVED.values()} <= all_pages()
    for old in ("gap", "reference/data_papers"):
        page.goto(f"{address}/{old}.html")
        page.wait_for_url(f"{address}/{MOVED[old]}.html")


@pytest.mark.parametrize(
    ("term", "name", "on_disk"),
    [("Clopper-Pearson", "audit", False), ("abstains", "counterfactual", True)],
)
def test_search_finds_pages(page, address, term, name, on_disk):
    """Also on a disk, where a page may not read the others."""
    site = HTML.as_uri() if on_disk else address
    found = search(page, site, term)
    names = [link.partition("#")[0].removeprefix(f"{site}/") for _, link in found]
    assert f"{name}.html" in names
    assert all((HTML / each).is_file() for each in names)


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
def test_the_ledger_can_be_filtered(page, address):
    rows = "tr.statement"
    shown = (
        f"() => [...document.querySelectorAll('{rows}')].filter(r => r.checkVisibility())"
        ".map(r => [r.textContent, (r.querySelector('.verdict') || {}).textContent])"
    )
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


def test_notebook_download_and_csv(address):
    with urllib.request.urlopen(f"{address}/notebooks/suitability.ipynb") as response:
        notebook = nbformat.reads(response.read().decode(), as_version=4)
    assert any(cell.get("outputs") for cell in notebook.cells)
    assert not any("{value}`" in c.source for c in notebook.cells if c.cell_type == "markdown")
    text = (HTML / "suitability.html").read_text(encoding="utf-8")
    assert "data:text/csv;base64," in text
    assert "data:image/svg+xml," in text


def test_a_word_shows_its_card_to_mouse_and_keyboard(page, address):
    page.goto(f"{address}/training.html")
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


def test_the_typeface_comes_with_the_site(page):
    """Also on a disk, and in a folder below. That a host has it is seen where all pages are."""
    page.goto(f"{HTML.as_uri()}/beyond/gap.html")
    loaded = page.evaluate(
        "() => document.fonts.ready.then(all => [...all]"
        ".filter(f => f.family.includes('Companion') && f.status === 'loaded').length)"
    )
    assert loaded == 2  # upright and italic
    used = page.evaluate("() => getComputedStyle(document.querySelector('h1')).fontFamily")
    assert used.startswith('"Companion Sans"')


def test_a_chapter_prints_as_a_clean_document(page, address):
    """A4 in portrait: solutions and tables are open, code and navigation gone, nothing is cut."""
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 less Chromium's margins
    page.goto(f"{address}/suitability_guarantee.html")
    page.evaluate(TYPESET)
    page.emulate_media(media="print")
    visible = "all => all.map(e => e.checkVisibility() && e.getBoundingClientRect().height > 0)"
    for gone in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".prev-next-area", ".copybtn"):
        assert not any(page.eval_on_selector_all(gone, visible)), gone
    clicked = "summary, .companion-search, .companion-download, .companion-filter"
    code = page.eval_on_selector_all(".companion-code, .companion-foot button", visible)
    assert len(code) > 3
    assert not any(code)
    opened = ":is(.sd-dropdown, .companion-rows)"
    folded = page.eval_on_selector_all(
        f".bd-article > section details{opened} > :not({clicked})",
        "all => all.map(e => e.checkVisibility())",
    )
    assert len(folded) > 3
    assert all(folded)
    assert page.locator(".companion-claim").count() > 3
    assert page.locator(".companion-foot").get_by_text("This page shows").is_visible()
    assert not page.locator(".companion-parameters").is_visible()
    figures = ".bd-article > section .companion-figure:has(img)"
    turned = "f => getComputedStyle(f.querySelector('img')).filter"
    for media, kept in (("screen", False), ("print", True)):  # paper is white
        page.emulate_media(media=media)
        page.evaluate("() => { document.documentElement.dataset.theme = 'dark' }")
        assert (page.eval_on_selector(figures, turned) == "none") == kept
    shares = page.eval_on_selector_all(
        figures,
        """all => all.filter(f => f.checkVisibility() && f.clientHeight > 0)
        .map(f => f.querySelector('img').clientWidth / f.clientWidth)""",
    )
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
