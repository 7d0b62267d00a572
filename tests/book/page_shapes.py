"""How long pages are to a reader who opens nothing: height, tables in the flow, lines of code.

A chapter begins with question, answer, one figure, what holds and what does not, what to do: its
*main line*, which ends at the first code cell. Its height is measured by itself. A chapter may have
a table for each figure in the flow; those of verdicts, and those that the argument does without,
which are short and set small, are not counted. Of the tables that scroll sideways all are counted,
the folded ones too.
"""

from collections.abc import Collection
from dataclasses import dataclass

from site_checks import DESKTOP, TYPESET

TALLEST = 18_000  # px
MAIN_LINE = 6_000  # px, of a chapter, from the top of the page
LONGEST_TABLE = 9  # rows in the flow
LONGEST_CELL = 8  # lines of code in the flow that are not blank

#: Looked up by a name, or by a grid and a filter: a row for each of 160 statements.
AS_TALL_AS_NEEDED = ("reference/", "reproduces.html")

#: Pages whose tables may be longer, and why.
LONGER = {
    "which_function.html": "looked up by question",
    "notation.html": "looked up by symbol",
    "maintainers.html": "a row per comparison",
    "reproduces.html": "a row per statement",
    "reference/": "a row per name, looked up by it",
}

MEASURE = r"""() => {
  const article = document.querySelector('article') || document.body;
  const shown = e => e.checkVisibility();
  const tables = [...article.querySelectorAll('table')].filter(shown);
  const rows = t => [...t.tBodies].reduce((n, body) => n + body.rows.length, 0);
  const lines = e => e.textContent.split('\n').filter(line => line.trim()).length;
  const code = [...article.querySelectorAll('div.cell_input pre')].filter(shown).map(lines);
  const figures = [...article.querySelectorAll('figure')].filter(shown).length;
  const end = article.querySelector('div.cell');
  const main = end ? Math.round(end.getBoundingClientRect().top + scrollY) : 0;
  const plain = tables.filter(t => !t.matches('.companion-ledger, .aside')).length;
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
    folded ones among them.
    """

    height: int
    main: int
    tables: int
    rows: int
    lines: int
    longest: int
    wide: int
    figures: int = 0


def shape(page, url: str) -> Shape:
    """Load a page as a reader does, and measure it."""
    page.set_viewport_size({"width": DESKTOP, "height": 900})
    page.goto(url, wait_until="load")
    page.evaluate(TYPESET)
    return Shape(*page.evaluate(MEASURE))


def too_long(shapes: dict[str, Shape], chapters: Collection[str] = ()) -> list[str]:
    """What is above a limit, in words; `chapters` are the pages that need a main line."""
    said = []
    for name, found in shapes.items():
        if found.height > TALLEST and not name.startswith(AS_TALL_AS_NEEDED):
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
