"""A small book as it is published, in a browser; and the checks of the site see faults.

The book is the throw-away one with a figure, a wide table and formulas, as it would be published:
its repository is known, and it lies below a path of its host, as project pages on GitHub do.
"""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import nbformat
import pytest
from page_shapes import MAIN_LINE, TALLEST, shape, too_long
from site_checks import PHONE, page_names, page_weights, search, too_heavy, visit
from site_tools import NEEDS_CHROMIUM, build_once, serve
from throwaway import Book, make_book

import lib

pytestmark = [pytest.mark.browser, pytest.mark.slow, NEEDS_CHROMIUM]

TITLE = "When not to answer"
SHOWS = """
# %% [markdown]
# ## In one figure
#
# ```{result} fall
# ```
#
# ## The cells
#
# [The figure](#in-one-figure) stands above.

# %%
import pandas as pd

from lib.plot import new_figure

figure, ax = new_figure()
ax.plot([0.1, 0.2, 0.7], [1, 2, 3])
chapter.figure(figure, "line", "A line that rises.", "It rises, as % of 'all' & <some>.")
figure, ax = new_figure()
ax.plot([0.1, 0.2], [2, 1])
chapter.figure(figure, "fall", "A line that falls.", "It falls.")
widest = "a line of code that is as long as the formatter lets a line of code become, 100 letters"
wide = pd.DataFrame([[1.5] * 14], columns=[f"column_{i}" for i in range(14)])
long = pd.DataFrame({"number": range(14), "word": ["even", "odd"] * 7})
chapter.table(long, "long", "A table that is longer than nine rows")
chapter.table(long[:9], "short", "A table of nine rows", aside=True)
chapter.table(wide, "wide", "A table that is wider than a phone, under a caption of many words")
"""
PROSE = """
## A section

Two formulas: $x^2 \\ge 0$ and $\\sqrt{2}$. A word to search for: quokka.

| one long heading | another long heading | a third long heading | the fourth |
|---|---|---|---|
| supercalifragilistic | expialidocious_and_more | floccinaucinihilipilification | end |

```{clone}
```

```sh
make book   # a line of code so long that it cannot be shown on a phone without scrolling sideways
```
"""
DESKTOP = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Book:
    made = make_book(tmp_path_factory.mktemp("published") / "book", "one")
    for name, more in (("one.py", SHOWS), ("index.md", PROSE)):
        with (made.root / "book" / name).open("a", encoding="utf-8") as file:
            file.write(more)
    for command in (
        ["init", "-q"],
        ["remote", "add", "origin", "https://github.com/Some/where.git"],
        ["add", "book/index.md"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *command], cwd=made.root, check=True)
    made.edit("lib/book/site.py", "MOVED = {", 'MOVED = {"moved": "one", "index": "one", ')
    made.build()
    return made


@pytest.fixture(scope="module")
def published(book):
    with serve(book.html, "/where/") as url:
        yield url


@pytest.fixture(scope="module")
def one_page(browser):
    return browser.new_page()


@pytest.fixture
def tab(one_page):
    """The same for all tests: it loads the theme once."""
    one_page.set_viewport_size(DESKTOP)
    return one_page


def test_pages_below_a_path_are_without_fault(tab, book, published):
    names = page_names(book.html)
    assert names == ["index.html", "one.html", "reproduces.html", "search.html"]
    index, one = (visit(tab, f"{published}/{name}.html") for name in ("index", "one"))
    assert index.faults == one.faults == {}
    assert one.figures == index.formulas == 2
    assert min(one.scrolling, index.scrolling) >= 1  # the wide table; the code: on a phone
    assert set(page_weights(book.html)[0]) == set(names)
    assert too_heavy(book.html) == {}


def test_tables_of_words_are_stacked_on_phones_and_those_of_numbers_are_not(tab, published):
    cells = "all => all.map(cell => getComputedStyle(cell).display)"
    for name, kind, phone in (
        ("index", "table.table td", "block"),
        ("one", "td.number", "table-cell"),
    ):
        tab.goto(f"{published}/{name}.html")
        for width, shown in ((DESKTOP["width"], "table-cell"), (PHONE, phone)):
            tab.set_viewport_size({"width": width, "height": 900})
            assert set(tab.eval_on_selector_all(f"article {kind}", cells)) == {shown}


def test_a_long_table_is_folded_and_can_be_searched(tab, published):
    tab.goto(f"{published}/one.html")
    rows = tab.locator("details.companion-rows tbody tr")
    assert rows.count() == 14  # nine stand open
    assert tab.locator("caption", has_text="A table of nine rows").is_visible()
    assert not rows.first.is_visible()
    tab.get_by_text("A table that is longer than nine rows (14 rows)").click()
    tab.get_by_label("Search these rows").fill("odd 1")
    seen = [row.inner_text().split() for row in rows.all() if row.is_visible()]
    assert seen == [["1", "odd"], ["11", "odd"], ["13", "odd"]]
    assert tab.locator("details.companion-rows a[download]").is_visible()


CLOSED, ABOVE = ".companion-code", ".companion-above"


def test_code_is_shown_in_place_by_a_button_at_the_foot(tab, published):
    """Of all cells at once, and what speaks of them; by the keyboard as well; on this page only."""
    tab.goto(f"{published}/one.html")
    code, above = tab.locator(f"{CLOSED} pre"), tab.locator(ABOVE)
    button = tab.locator(".companion-foot button")
    seen = tab.locator(f":is({CLOSED}, {ABOVE})").locator("visible=true")
    assert (code.count(), above.count(), seen.count()) == (5, 1, 0)
    assert tab.locator(f"article details:has({CLOSED})").count() == 0
    reached = [tab.keyboard.press("Tab") or tab.evaluate(FOCUSED) for _ in range(60)]
    assert "" in reached  # outside of code there is something to reach
    assert "code" not in reached
    button.focus()
    place = button.bounding_box()["y"]
    assert button.get_attribute("aria-expanded") == "false"
    tab.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert all(each.is_visible() for each in [*code.all(), above])
    assert abs(button.bounding_box()["y"] - place) < 2  # though the page has grown above it
    tab.get_by_role("status").get_by_text("5 cells stand above").wait_for()
    tab.get_by_role("link", name="the first").click()
    assert code.first.bounding_box()["y"] < 900
    button.click()
    assert seen.count() == 0
    button.click()
    tab.emulate_media(media="print")
    assert not button.is_visible()
    tab.emulate_media(media="screen")
    tab.reload()
    assert seen.count() == 0
    tab.emulate_media(media="print")
    assert seen.count() == 0
    tab.emulate_media(media="null")


FOCUSED = "() => document.activeElement.closest('.companion-code') ? 'code' : ''"


def test_without_scripts_the_links_at_the_foot_have_the_code(browser, book, published):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{published}/one.html")
    assert (
        not page.locator(f".companion-foot button, {CLOSED}, {ABOVE}")
        .locator("visible=true")
        .count()
    )
    for name, kind in (("Source (.py)", "double = 2 * base"), ("Executed notebook", "double is")):
        link = page.locator(".companion-foot").get_by_role("link", name=name)
        address = link.evaluate("e => e.href").removeprefix(f"{published}/")
        assert kind in (book.html / address).read_text(encoding="utf-8")
    context.close()


def test_squares_of_the_ledger_open_what_they_lead_to(tab, published):
    tab.goto(f"{published}/reproduces.html")
    row = tab.locator("#claim-T-1")
    assert tab.locator("#statement-P1-T").is_visible()
    assert not row.is_visible()
    tab.locator(".companion-grid a[href='#statement-P1-T']").click()
    assert row.is_visible()
    row.get_by_text("reproduced").first.click()
    tab.wait_for_url("**/one.html#claim-T-1")
    assert tab.locator("#claim-T-1 a").get_attribute("href") == "reproduces.html#claim-T-1"
    tab.goto(f"{published}/reproduces.html#claim-T-1")
    assert row.is_visible()


def test_a_result_stands_in_the_main_line_and_nowhere_else(tab, book, published):
    text = book.page("one")
    end, cell = text.index('id="the-cells"'), text.index("#figure-fall")
    assert text.count("id='figure-fall'") == text.count("<figcaption>It falls.") == 1
    assert text.index("id='figure-fall'") < end < cell
    assert text.index("id='figure-line'") > end
    notebook = nbformat.read(book.html / "notebooks" / "one.ipynb", as_version=4)
    prose = "".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert "## In one figure\n\n*(The figure stands below" in prose
    assert "It falls." in str(notebook.cells)
    assert 0 < shape(tab, f"{published}/one.html").main < MAIN_LINE


def test_a_page_that_has_moved_leads_on_and_hides_no_other(tab, book, published):
    tab.goto(f"{published}/moved.html")
    tab.wait_for_url("**/one.html")
    assert "A word to search for" in book.page("index")


def test_a_site_that_was_not_built_is_not_built_again_in_the_session(tmp_path):
    outputs, said = ["no good\nat all", ""], ["", "", ""]
    for i, run in enumerate(("one", "one", "two")):
        said[i] = build_once(run, tmp_path, lambda: outputs.pop(0))
    assert said[0] == "no good\nat all"
    assert "failed-one" in said[1]
    assert "\n" not in said[1]
    assert (said[2], outputs) == ("", [])
    assert build_once("two", tmp_path, outputs.pop) == ""


def test_404_page_leads_home_from_any_depth(tab, published):
    for missing in ("gone.html", "deep/er/gone.html"):
        assert tab.goto(f"{published}/{missing}").status == 404
        assert tab.title() == f"Page not found - {TITLE}"
        links = tab.eval_on_selector_all("a", "all => all.map(a => a.href)")
        assert links == [f"{published}/", f"{published}/search.html"]
    assert all(urllib.request.urlopen(link).status == 200 for link in links)
    tab.click("text=front page")
    tab.wait_for_load_state()  # nothing that it asks for is taken for the next page's
    assert tab.title() == f"A book — {TITLE}"
    found = visit(tab, f"{published}/{missing}")  # it needs no other file, and can be read
    names = {Path(address).name for address in found.seen}
    assert names - {"favicon.svg"} == {"gone.html"}  # the icon is of the page before
    assert all(kind == "errors" or kind.startswith("no ") for kind in found.faults)


def test_pages_have_social_cards_with_absolute_addresses(book):
    text, home = book.page("one"), "https://some.github.io/where"
    for name, content in (
        ("image", f"{home}/_static/card.png"),
        ("url", f"{home}/one.html"),
        ("title", "Chapter one"),
        ("site_name", TITLE),
    ):
        assert f'<meta property="og:{name}" content="{content}"' in text
    assert f'<link rel="canonical" href="{home}/one.html"' in text
    assert (book.html / "_static" / "card.png").is_file()
    text = book.page("index")
    assert re.search(r'The repository is <a [^>]*href="https://github.com/Some/where">', text)
    assert "git clone https://github.com/Some/where\ncd where" in re.sub(r"<[^>]+>", "", text)


def test_footer_has_the_version_and_the_day_of_the_execution(book):
    (entry,) = (book.root / ".cache" / "book" / "one").glob("*.json")
    day = json.loads(entry.read_text())["finished"][:10]
    assert f"Version {lib.__version__}. Computed {day} (UTC)." in book.page("one")
    assert f"This page shows this build: profile quick, {day}, " in book.page("one")
    assert f"Version {lib.__version__}. Computed " in book.page("search")


def test_notebooks_for_colab_install_the_commit_first(book):
    """Elsewhere this does nothing: IPython reads the cell, magics and all."""
    from IPython.core.inputtransformer2 import TransformerManager

    commit = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(commit, cwd=book.root, capture_output=True, text=True, check=True)
    notebook = nbformat.read(book.html / "notebooks" / "one.ipynb", as_version=4)
    nbformat.validate(notebook)
    first = notebook.cells[0].source
    assert "git clone --quiet https://github.com/Some/where where" in first
    assert f"git checkout --quiet {done.stdout.strip()}" in first
    texts = "".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert "{value}" not in texts
    assert "4.0" in texts
    code = TransformerManager().transform_cell(first)
    assert code.count("get_ipython()") == 5
    exec(compile(code, "cell", "exec"), {})  # a call of get_ipython would be a NameError


# ------------------------------------------------------------- faults on a page are seen

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="A page on which nothing is wrong.">
<meta property="og:title" content="A page"><meta property="og:type" content="article">
<meta property="og:description" content="A page"><meta name="twitter:card" content="summary">
<link rel="icon" href="data:,"></head><body style="margin:0;background:#fff;color:#222">
<main><article><h1>Top</h1><h2>Part</h2><h3>Piece</h3><h2>Part</h2>
<p>Text, <a href="#end">a link</a>.</p>
<figure><img src="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'
 width='9' height='9'/%3E" alt="nothing"><figcaption>A figure.</figcaption></figure>
<label>Name <input></label><div style="overflow-x:auto" role="region" tabindex="0" aria-label="t">
<table style="width:900px"><tr><td>wide</td></tr></table></div>
<p id="end">End</p></article></main><footer>Version 1.0 of 2026-01-31</footer></body></html>"""
FAULTS = {
    "images without alternative text": ('alt="nothing"', 'alt=" "'),
    "figures without caption": ("<figcaption>A figure.</figcaption>", ""),
    "headings that skip a level": ("<h2>Part</h2><h3>", "<h3>"),
    "fields without label": ("<label>Name <input></label>", "Name <input>"),
    "links or buttons without name": (">a link</a>", "><i></i></a>"),
    "links to a missing part of the page": ("#end", "#start"),
    "letters that do not load": (
        "</head>",
        "<style>@font-face { font-family: x; src: url(/x) } h1 { font-family: x }</style></head>",
    ),
    "links known by color alone": (
        "</footer>",
        "<p>It is <a href='/' style='text-decoration:none'>there</a>.</p></footer>",
    ),
    "drawings not shown once (360 px)": (
        "<p id=",
        "<div class='companion-drawing'><svg></svg><svg></svg></div><p id=",
    ),
    "drawings that are cut (360 px)": (
        "<p id=",
        "<div class='companion-drawing'><svg width='500'></svg></div><p id=",
    ),
    "drawings with small words (360 px)": (
        "<p id=",
        "<div class='companion-drawing'><svg><text font-size='9'>9 px</text></svg></div><p id=",
    ),
    "no language": (' lang="en"', ""),
    "no title": ("A page</title>", "</title>"),
    "raw markup": ("Text,", "Text {value}`a.b`,"),
    "formulas not typeset": ("Text ", "Text <span class='math'>x</span> "),
    "scrolls sideways (360 px)": ("<p id=", "<p style='width:700px' id="),
    "tables that are cut (360 px)": ("overflow-x:auto", "overflow-x:clip"),
    "low contrast (light)": ("</main>", "<p style='color:#777;background:#fff'>4.48</p></main>"),
    "figures on a dark ground (dark)": (
        "</head>",
        "<style>html[data-theme=dark] figure { background: #111; color: #eee }</style></head>",
    ),
    "errors": ("</footer>", "</footer><script>throw new Error('broken')</script>"),
    "other hosts asked": ("</footer>", "</footer><script>fetch('https://a.b/x')</script>"),
}


def test_a_page_without_fault_has_none_and_one_with_many_has_them_all(tab, tmp_path):
    bad = GOOD
    for old, new in FAULTS.values():
        assert old in bad
        bad = bad.replace(old, new, 1)
    tall = GOOD.replace(
        "<p id=", f"<div class='cell'></div><p style='height:{TALLEST}px'></p><p id="
    )
    for name, text in (("good", GOOD), ("bad", bad), ("tall", tall)):
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    with serve(tmp_path) as url:  # no script of the theme is there to wait for
        good, found = (visit(tab, f"{url}/{n}.html", patience=0) for n in ("good", "bad"))
        shapes = {f"{n}.html": shape(tab, f"{url}/{n}.html") for n in ("good", "tall")}
    assert good.faults == {}
    assert (good.figures, good.tables, good.scrolling) == (1, 1, 1)
    assert {*FAULTS, "axe"} <= {*found.faults}
    said = too_long(shapes, ["good.html"])
    assert [each.split()[:3] for each in said] == [
        ["good.html", "does", "not"],  # say where its main line ends
        ["tall.html", "is", f"{shapes['tall.html'].height:,}"],
    ]


def test_search_works_below_a_path(tab, published):
    ((text, link),) = search(tab, published, "quokka")
    assert (text, link.split("#")[0].split("?")[0]) == ("A book", f"{published}/index.html")
    assert search(tab, published, "zyzzyvaquux") == []
