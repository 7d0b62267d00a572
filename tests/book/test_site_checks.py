"""The checks of the site catch what they are for, and a small book passes them all.

The book is the throw-away one with a figure, a wide table and formulas, as it would be published:
its repository is known, and it lies below a path of its host, as project pages on GitHub do.
"""

import json
import re
import subprocess
import urllib.request
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from page_shapes import LONGEST_CELL, MAIN_LINE, TALLEST, Shape, shape, too_long
from site_checks import HEAVIEST, page_names, page_weights, search, too_heavy, visit
from site_tools import NEEDS_CHROMIUM, serve
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
chapter.table(long, "long", "A table that is longer than twelve rows")
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
    made = make_book(tmp_path_factory.mktemp("published") / "book")
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
    made.edit("lib/book/site.py", "MOVED = {", 'MOVED = {"moved": "two", "one": "two", ')
    made.build()
    return made


@pytest.fixture(scope="module")
def published(book):
    with serve(book.html, "/where/") as url:
        yield url


@pytest.fixture
def page(browser):
    opened = browser.new_page(viewport=DESKTOP)
    yield opened
    opened.close()


def test_a_good_book_is_without_fault(browser, book, published):
    found = {name: visit(browser, f"{published}/{name}") for name in page_names(book.html)}
    assert {name: seen.faults for name, seen in found.items() if seen.faults} == {}
    assert set(found) == {"index.html", "one.html", "two.html", "ledger.html", "search.html"}
    assert found["one.html"].figures == found["index.html"].formulas == 2
    assert found["one.html"].scrolling >= 1  # the wide table, on a phone
    assert found["index.html"].scrolling >= 1  # the code; the table of the prose does not
    assert set(page_weights(book.html)[0]) == set(found)
    assert too_heavy(book.html) == {}


@pytest.mark.parametrize(("width", "shown"), [(1280, "table-cell"), (360, "block")])
def test_tables_of_words_are_stacked_on_phones(page, published, width, shown):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{published}/index.html")
    cells = "all => all.map(cell => getComputedStyle(cell).display)"
    assert set(page.eval_on_selector_all("article table.table td", cells)) == {shown}
    page.goto(f"{published}/one.html")  # tables of numbers are not
    assert set(page.eval_on_selector_all("article td.number", cells)) == {"table-cell"}


def test_a_long_table_is_folded_and_can_be_searched(page, published):
    page.goto(f"{published}/one.html")
    rows = page.locator("details.companion-rows tbody tr")
    assert rows.count() == 14
    assert not rows.first.is_visible()
    page.get_by_text("A table that is longer than twelve rows (14 rows)").click()
    page.get_by_label("Search these rows").fill("odd 1")
    seen = [row.inner_text().split() for row in rows.all() if row.is_visible()]
    assert seen == [["1", "odd"], ["11", "odd"], ["13", "odd"]]
    assert page.locator("details.companion-rows a[download]").is_visible()


CLOSED, ABOVE = "details.above-input", ".companion-above"


def test_closed_code_is_shown_by_a_button_and_the_choice_is_kept(browser, page, published):
    """Of all cells at once, with what speaks of them; by the keyboard as well."""
    page.goto(f"{published}/one.html")
    code, above = page.locator(f"{CLOSED} pre"), page.locator(ABOVE)
    icon, line = page.get_by_label("Show code"), page.locator(".companion-code-line")
    assert code.count() == 5
    assert above.count() == 1
    assert not page.locator(f":is({CLOSED}, {ABOVE})").locator("visible=true").count()
    top = page.locator("#figure-line").evaluate("e => e.getBoundingClientRect().top + scrollY")
    assert icon.get_attribute("aria-pressed") == "false"
    assert icon.bounding_box()["width"] > 20
    icon.focus()
    page.keyboard.press("Enter")
    assert icon.get_attribute("aria-pressed") == "true"
    assert all(each.is_visible() for each in [*code.all(), above])
    assert not page.locator(f"{CLOSED} > summary").locator("visible=true").count()
    assert (
        page.locator("#figure-line").evaluate("e => e.getBoundingClientRect().top + scrollY") > top
    )
    page.goto(f"{published}/index.html")  # which has no closed code
    assert not icon.count() + line.count()
    page.goto(f"{published}/two.html")
    page.goto(f"{published}/one.html")
    assert all(each.is_visible() for each in code.all())
    page.emulate_media(media="print")
    assert not line.is_visible()
    page.emulate_media(media="screen")
    assert line.text_content() == "Hide the code of this page"
    line.click()
    page.reload()
    assert not any(each.is_visible() for each in [*code.all(), above])
    page.emulate_media(media="print")
    assert not page.locator(CLOSED).locator("visible=true").count()


def test_without_scripts_or_where_nothing_is_kept_each_cell_or_page_opens(browser, published):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{published}/one.html")
    cell = page.locator(f"div.cell:has({ABOVE})")
    assert not page.locator(".companion-code-line").count()
    assert not cell.locator(ABOVE).is_visible()
    cell.get_by_text("Show the code").click()
    assert cell.locator(f"{ABOVE}, {CLOSED} pre").locator("visible=true").count() == 2
    page.emulate_media(media="print")
    assert page.locator(f"{CLOSED} pre").locator("visible=true").count() == 1
    context.close()
    context, errors = browser.new_context(), []
    context.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw 0; }})")
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{published}/one.html")
    page.locator(".companion-code-line").click()
    assert page.locator(f"{CLOSED} pre").first.is_visible()
    assert not [error for error in errors if "code.js" in error]
    context.close()


def test_squares_of_the_ledger_open_what_they_lead_to(page, published):
    page.goto(f"{published}/ledger.html")
    row = page.locator("#statement-T-2")
    assert not row.is_visible()
    page.locator(".companion-grid a[href='#statement-T-2']").click()
    assert row.is_visible()
    page.locator("#claim-T-2").get_by_text("reproduced").first.click()
    page.wait_for_url("**/two.html#claim-T-2")
    page.wait_for_function("() => document.querySelector('#claim-T-2').open")  # once it has loaded


def test_a_result_stands_in_the_main_line_and_nowhere_else(browser, book, published):
    text = book.page("one")
    end, cell = text.index('id="the-cells"'), text.index("#figure-fall")
    assert text.count("id='figure-fall'") == text.count("<figcaption>It falls.") == 1
    assert text.index("id='figure-fall'") < end < cell
    assert text.index("id='figure-line'") > end
    notebook = nbformat.read(book.html / "notebooks" / "one.ipynb", as_version=4)
    prose = "".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert "## In one figure\n\n*(The figure stands below" in prose
    assert "It falls." in str(notebook.cells)
    assert 0 < shape(browser, f"{published}/one.html").main < MAIN_LINE


def test_a_page_that_has_moved_leads_on_and_hides_no_other(page, book, published):
    page.goto(f"{published}/moved.html")
    page.wait_for_url("**/two.html")
    assert "Chapter one" in book.page("one")


@pytest.mark.parametrize("missing", ["gone.html", "deep/er/gone.html"])
def test_404_page_leads_home_from_any_depth(browser, page, published, missing):
    assert page.goto(f"{published}/{missing}").status == 404
    assert page.title() == f"Page not found - {TITLE}"
    links = page.eval_on_selector_all("a", "all => all.map(a => a.href)")
    assert links == [f"{published}/", f"{published}/search.html"]
    assert all(urllib.request.urlopen(link).status == 200 for link in links)
    page.click("text=front page")
    assert page.title() == f"A book — {TITLE}"
    found = visit(browser, f"{published}/{missing}")  # it needs no other file, and can be read
    assert [Path(address).name for address in found.seen] == ["gone.html"]
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
    foot = f"Version {lib.__version__}. This page shows this build: profile quick, {day}, "
    assert foot in book.page("one")
    assert f"Version {lib.__version__}. Computed " in book.page("search")


@pytest.mark.parametrize("name", ["one", "two"])
def test_notebooks_for_colab_install_the_commit_first(book, name):
    """Elsewhere this does nothing: IPython reads the cell, magics and all."""
    from IPython.core.inputtransformer2 import TransformerManager

    commit = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(commit, cwd=book.root, capture_output=True, text=True, check=True)
    notebook = nbformat.read(book.html / "notebooks" / f"{name}.ipynb", as_version=4)
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


# ------------------------------------------------------------- faults, one at a time

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

CODE = f"<div class='highlight'><pre style='overflow:auto' tabindex='0'>{'x' * 999}</pre></div>"
IMAGE = '<meta property="og:image" content="card.png">'
FAULTS = [
    ("images that do not load", "data:image/svg+xml,%3Csvg", "data:image/svg+xml,nothing"),
    ("images without alternative text", 'alt="nothing"', 'alt=" "'),
    ("figures without caption", "<figcaption>A figure.</figcaption>", ""),
    ("not exactly one h1", "<h3>Piece</h3>", "<h3>Piece</h3><h1>Again</h1>"),
    ("headings that skip a level", "<h2>Part</h2><h3>", "<h3>"),
    ("empty headings", "<h3>Piece</h3>", "<h3> </h3>"),
    ("fields without label", "<label>Name <input></label>", "Name <input>"),
    ("links or buttons without name", ">a link</a>", "><i></i></a>"),
    ("ids used twice", "<h3>", "<h3 id='end'>"),
    ("links to a missing part of the page", "#end", "#start"),
    ("no language", ' lang="en"', ""),
    ("no title", "A page</title>", "</title>"),
    ("no viewport", '<meta name="viewport"', '<meta name="nothing"'),
    ("no description", '<meta name="description"', '<meta name="nothing"'),
    ("no social card", '<meta property="og:title"', '<meta property="nothing"'),
    ("no social card", '<meta name="twitter:card"', '<meta name="nothing"'),
    ("social addresses that are not absolute", "<link rel", f"{IMAGE}<link rel"),
    ("no favicon", '<link rel="icon" href="data:,">', ""),
    ("no version in the footer", "Version 1.0", "Version"),
    ("no date in the footer", "2026-01-31", "some day"),
    ("raw markup", "Text,", "Text \\(x\\),"),
    ("raw markup", "Text,", "Text {value}`a.b`,"),
    ("formulas not typeset", "Text,", "Text <span class='math'>x</span>,"),
    ("formulas with errors", "Text,", "Text <mjx-merror>x</mjx-merror>,"),
    ("code lines that are cut (1280 px)", "<p id=", f"{CODE}<p id="),
    ("scrolls sideways (360 px)", "<p id=", "<p style='width:700px' id="),
    ("tables that are cut (360 px)", "overflow-x:auto", "overflow-x:clip"),
    (
        "captions that are cut (360 px)",
        "<tr>",
        f"<caption style='text-align:left'>{'many words ' * 9}</caption><tr>",
    ),
    ("scrolls without keyboard (360 px)", ' tabindex="0"', ""),
    ("scrolling tables without role or name (360 px)", ' aria-label="t"', ""),
    ("scrolling tables without role or name (360 px)", ' role="region"', ""),
    ("axe", "<footer>", "<footer role='nothing'>"),
    ("errors", "</footer>", "</footer><script>throw new Error('broken')</script>"),
    ("other hosts asked", "</footer>", "</footer><script>fetch('https://example.org/x')</script>"),
]

CONTRASTS = [
    ("#767676", "#fff", "1rem", True),  # 4.54
    ("#777777", "#fff", "1rem", False),  # 4.48
    ("#949494", "#fff", "24px", True),  # 3.03, large
    ("#959595", "#fff", "24px", False),  # 2.99
    ("rgb(0 0 0 / 50%)", "#fff", "1rem", False),  # grey, in the end
    ("rgb(0 0 0 / 60%)", "#fff", "1rem", True),
    ("#fff", "rgb(0 0 0 / 50%)", "1rem", False),  # on grey, in the end
]


def look(browser, folder: Path, text: str):
    (folder / "index.html").write_text(text, encoding="utf-8")
    with serve(folder) as url:
        return visit(browser, f"{url}/index.html", settle=0)  # no script of the theme is there


def measured(browser, folder: Path, added: str) -> Shape:
    """The shape of a good page with something more."""
    (folder / "index.html").write_text(GOOD.replace("<p id=", f"{added}<p id="))
    with serve(folder) as url:
        return shape(browser, f"{url}/index.html")


def test_a_good_page_has_no_fault(browser, tmp_path):
    found = look(browser, tmp_path, GOOD)
    assert found.faults == {}
    assert (found.figures, found.tables, found.scrolling) == (1, 1, 1)
    assert found.texts > 10


def pages_with_faults() -> list[tuple[set[str], str]]:
    """Every fault on one of a few pages, none of which has two of a kind: a visit takes seconds."""
    made: list[tuple[set[str], str]] = []
    for kind, old, new in FAULTS:
        assert old in GOOD
        place = 0
        while place < len(made):
            kinds, text = made[place]
            narrow = kind.endswith("px)") and any(other.endswith("px)") for other in kinds)
            if old in text and kind not in kinds and not narrow:  # what is cut does not scroll
                break
            place += 1
        kinds, text = made[place] if place < len(made) else (set(), GOOD)
        made[place : place + 1] = [(kinds | {kind}, text.replace(old, new, 1))]
    return made


@pytest.mark.parametrize(("kinds", "text"), pages_with_faults())
def test_each_fault_is_seen_and_no_other(browser, tmp_path, kinds, text):
    # A fetch that is refused, and an icon or a picture that is not there, are errors too.
    # Axe sees some of them as well.
    found = set(look(browser, tmp_path, text).faults)
    assert found - {"errors", "axe"} == kinds - {"errors", "axe"}
    assert found >= kinds


def test_contrast_is_that_of_the_text_on_what_lies_below_it(browser, tmp_path):
    samples = "<details><summary>More</summary><p style='color:#ccc'>pale</p></details>"
    for number, (ink, ground, size, _) in enumerate(CONTRASTS):
        style = f"color:{ink};background:{ground};font-size:{size}"
        samples += f"<p style='{style}'>sample {number}</p>"
    few = {f"sample {number}" for number, (*_, enough) in enumerate(CONTRASTS) if not enough}
    faults = look(browser, tmp_path, GOOD.replace("<p id=", f"{samples}<p id=")).faults
    assert set(faults) == {"low contrast (light)", "low contrast (dark)"}
    for said in faults.values():
        assert {re.search(r"> (.*)", text)[1] for text in said} == few | {"pale"}


def test_themes_are_told_apart_and_figures_need_a_light_ground(browser, tmp_path):
    dark = "html[data-theme=dark] p { background: #333 }"
    dark += "html[data-theme=dark] figure { background: #111; color: #eee }"
    text = GOOD.replace("</head>", f"<style>{dark}</style></head>")
    faults = look(browser, tmp_path, text).faults
    assert set(faults) == {"low contrast (dark)", "figures on a dark ground (dark)"}


@pytest.mark.parametrize(
    ("turned", "well"),
    [("invert(0.91) hue-rotate(180deg)", True), ("invert(0.5)", False), ("brightness(0.8)", False)],
)
def test_in_the_dark_a_figure_is_turned_whole_or_not_at_all(browser, tmp_path, turned, well):
    dark = f"html[data-theme=dark] figure img {{ background: white; filter: {turned} }}"
    text = GOOD.replace("</head>", f"<style>{dark}</style></head>")
    faults = look(browser, tmp_path, text).faults
    assert set(faults) == (set() if well else {"figures on a dark ground (dark)"})


def test_shape_is_that_of_what_is_shown_without_opening_anything(browser, tmp_path):
    rows = "".join(f"<tr><td>{i}</td></tr>" for i in range(14))
    code = "<div class='cell_input'><pre>a\nb\nc\n</pre></div>"
    block = f"<table><tbody>{rows}</tbody></table>{code}<p style='height:{TALLEST}px'></p>"
    found = measured(browser, tmp_path, block)
    assert found.height > TALLEST
    assert (found.tables, found.rows, found.lines, found.longest) == (2, 14, 3, 3)
    assert len(too_long({"index.html": found})) == 2
    wide = "<table style='width:2000px'><tr><td>a</td></tr></table>"
    block += f"<div style='overflow-x:auto'>{wide}</div>"
    found = measured(browser, tmp_path, f"<details>{block}</details>")
    assert found.height < 1000
    assert (found.tables, found.rows, found.lines, found.main) == (1, 1, 0, 0)
    assert too_long({"a.html": found}) == ["a.html has 1 tables that scroll sideways"]


def test_what_is_too_long(browser, tmp_path):
    assert too_long({"which_function.html": Shape(9, 0, 1, 99, 0, LONGEST_CELL, 0)}) == []
    assert too_long({"a.html": Shape(9, 0, 0, 0, 99, LONGEST_CELL + 1, 0)}) != []
    assert too_long({"reference/a.html": Shape(TALLEST + 1, 0, 0, 0, 0, 0, 0)}) == []
    for tables, figures, said in ((1, 0, 0), (2, 0, 1), (2, 1, 1), (3, 3, 0), (4, 3, 1)):
        found = {"a.html": Shape(9, 5, tables, 1, 0, 0, 0, figures)}
        assert len(too_long(found, {"a.html"})) == said
        assert too_long(found) == []
    space = f"<p style='height:{MAIN_LINE - 500}px'></p>"
    end = "<div class='cell'>1 + 1</div>"
    for text, said in ((space, "ends"), (space + end, ""), (space * 2 + end, "main line")):
        found = replace(measured(browser, tmp_path, text), height=0, wide=0)
        assert said in "".join(too_long({"a.html": found}, {"a.html"})) or not said
        assert (found.main > 0, found.main > MAIN_LINE) == (said != "ends", said == "main line")


def test_weight_is_that_of_the_page_and_of_what_it_alone_uses(tmp_path):
    (tmp_path / "_static").mkdir()
    for name, size in (("_static/theme.js", 7000), ("own.png", 2000), ("both.png", 4000)):
        (tmp_path / name).write_bytes(b"1" * size)
    first = "<img src='own.png'><img src='both.png?v=1'><script src='_static/theme.js'></script>"
    second = "<img src='both.png'><img src='https://example.org/own.png'>"
    for name, text in (("first", first), ("second", second), ("404", "")):
        (tmp_path / f"{name}.html").write_text(text)
    weights, shared = page_weights(tmp_path)
    assert weights == {"first.html": len(first) + 2000, "second.html": len(second)}
    assert shared == 7000
    assert too_heavy(tmp_path) == {}
    (tmp_path / "own.png").write_bytes(b"1" * int(HEAVIEST))
    assert list(too_heavy(tmp_path)) == ["first.html"]


def test_search_works_below_a_path_and_one_that_is_broken_is_noticed(browser, book, published):
    from playwright.sync_api import TimeoutError as NoAnswer

    ((text, link),) = search(browser, published, "quokka")
    assert (text, link.split("#")[0].split("?")[0]) == ("A book", f"{published}/index.html")
    assert search(browser, published, "zyzzyvaquux") == []
    index = book.html / "searchindex.js"
    text = index.read_text(encoding="utf-8")
    index.write_text(re.sub(r"^Search\.setIndex", "Search.nothing", text), encoding="utf-8")
    try:
        with pytest.raises(NoAnswer):
            search(browser, published, "quokka", seconds=3)
    finally:
        index.write_text(text, encoding="utf-8")
