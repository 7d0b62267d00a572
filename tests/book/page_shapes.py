"""How long pages are to a reader who opens nothing: height, tables in the flow, lines of code.

A chapter begins with question, answer, one figure, what holds and what does not, what to do: its
*main line*, which ends at the first code cell. Its height is measured by itself. A chapter may have
a table for each figure in the flow, those of verdicts not counted. Of the tables that scroll
sideways all are counted, the folded ones too; of bytes, those of `page_weights`.

`python tests/book/page_shapes.py FOLDER [TABLE.csv]` measures the pages of a site at a width of
1,280 px, prints a table, and fails where a page is above its limit.
"""

import sys
from collections.abc import Collection
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from site_checks import DESKTOP, TYPESET, page_names, page_weights

TALLEST = 18_000  # px
MAIN_LINE = 6_000  # px, of a chapter, from the top of the page
LONGEST_TABLE = 12  # rows in the flow
LONGEST_CELL = 9  # lines of code in the flow: eight, and a blank one

#: Pages whose tables may be longer, and why; those of the reference are as tall as they need to be.
LONGER = {
    "which_function.html": "looked up by question",
    "maintainers.html": "a row per comparison",
    "reference/": "a row per name, looked up by it",
}

MEASURE = r"""() => {
  const article = document.querySelector('article') || document.body;
  const shown = e => e.checkVisibility();
  const tables = [...article.querySelectorAll('table')].filter(shown);
  const rows = t => [...t.tBodies].reduce((n, body) => n + body.rows.length, 0);
  const lines = e => e.textContent.replace(/\n+$/, '').split('\n').length;
  const code = [...article.querySelectorAll('div.cell_input pre')].filter(shown).map(lines);
  const figures = [...article.querySelectorAll('figure')].filter(shown).length;
  const end = article.querySelector('div.cell');
  const main = end ? Math.round(end.getBoundingClientRect().top + scrollY) : 0;
  const plain = tables.filter(t => !t.classList.contains('companion-ledger')).length;
  const found = [document.documentElement.scrollHeight, main, plain,
    Math.max(0, ...tables.map(rows)), code.reduce((a, b) => a + b, 0), Math.max(0, ...code)];
  const closed = [...article.querySelectorAll('details:not([open])')];
  for (const folded of closed) folded.open = true;
  const scrolls = e => /auto|scroll/.test(getComputedStyle(e).overflowX)
    && e.scrollWidth > e.clientWidth + 1;
  const wide = [...article.querySelectorAll('table')].filter(shown).filter(t => {
    for (let box = t; box && box !== article; box = box.parentElement)
      if (scrolls(box)) return true;
    return false;
  });
  for (const folded of closed) folded.open = false;
  return [...found, wide.length, figures];
}"""


@dataclass(frozen=True)
class Shape:
    """Of a page: its height in px and its main line's (0: none), tables and code in the flow.

    `rows` and `longest` are of the longest table and cell, `wide` the tables that scroll sideways,
    folded ones among them, and `weight` the bytes that only this page needs.
    """

    height: int
    main: int
    tables: int
    rows: int
    lines: int
    longest: int
    wide: int
    figures: int = 0
    weight: int = 0


def shape(browser, url: str) -> Shape:
    """Open a page as a reader does, and measure it."""
    page = browser.new_page(viewport={"width": DESKTOP, "height": 900})
    page.goto(url, wait_until="load")
    page.evaluate(TYPESET)
    found = Shape(*page.evaluate(MEASURE))
    page.close()
    return found


def too_long(shapes: dict[str, Shape], chapters: Collection[str] = ()) -> list[str]:
    """What is above a limit, in words; `chapters` are the pages that need a main line."""
    said = []
    for name, found in shapes.items():
        if found.height > TALLEST and not name.startswith("reference/"):
            said.append(f"{name} is {found.height:,} px tall; at most {TALLEST:,} are allowed")
        if found.main > MAIN_LINE:
            said.append(f"{name} has a main line of {found.main:,} px; {MAIN_LINE:,} are allowed")
        if name in chapters and not found.main:
            said.append(f"{name} does not say where its main line ends")
        if name in chapters and found.tables > max(1, found.figures):
            said.append(f"{name} has {found.tables} tables beside {found.figures} figures")
        if found.wide:
            said.append(f"{name} has {found.wide} tables that scroll sideways")
        if found.rows > LONGEST_TABLE and not name.startswith(tuple(LONGER)):
            said.append(f"{name} has a table of {found.rows} rows in the flow")
        if found.longest > LONGEST_CELL:
            said.append(f"{name} shows a cell of {found.longest} lines")
    return said


def all_shapes(browser, address: str, folder: Path) -> dict[str, Shape]:
    """The shapes of all pages of a site that is served at an address."""
    names = [*page_names(folder), *page_names(folder, "reference")]
    weights, _ = page_weights(folder)
    shapes = {name: shape(browser, f"{address}/{name}") for name in names}
    return {n: replace(s, weight=weights.get(n, 0)) for n, s in shapes.items()}


def main(folder: Path, table: Path | None = None) -> int:
    """Print the table, and what is above a limit."""
    from playwright.sync_api import sync_playwright
    from site_tools import CHROMIUM, LAUNCH, serve

    with sync_playwright() as playwright, serve(folder) as address:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=LAUNCH)
        shapes = all_shapes(browser, address, folder)
        browser.close()
    head = ["page", *(field.name for field in fields(Shape))]
    rows = [[name, *astuple(found)] for name, found in shapes.items()]
    for row in [head, *rows]:
        print(f"{row[0]:<36}" + "".join(f"{entry:>9}" for entry in row[1:]))
    if table is not None:
        table.write_text("".join(",".join(map(str, row)) + "\n" for row in [head, *rows]))
    said = too_long(shapes)
    print(*said, sep="\n")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
