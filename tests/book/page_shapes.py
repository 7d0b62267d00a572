"""How long pages are to a reader who opens nothing: height, tables in the flow, lines of code.

`python tests/book/page_shapes.py FOLDER [TABLE.csv]` measures the pages of a site at a width of
1,280 px, prints a table, and fails where a page is above its limit.
"""

import sys
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from site_checks import DESKTOP, TYPESET, page_names

TALLEST = 18_000  # px
LONGEST_TABLE = 12  # rows in the flow
LONGEST_CELL = 10  # lines of code in the flow

#: Pages that may be taller: up to what height, and why.
TALLER = {"reference/*": (50_000, "looked up by name, not read from top to bottom")}
#: Pages whose tables may be longer, and why.
LONGER = {"which_function.html": "looked up by question", "status.html": "one row per chapter"}

MEASURE = r"""() => {
  const article = document.querySelector('article') || document.body;
  const shown = e => e.checkVisibility();
  const tables = [...article.querySelectorAll('table')].filter(shown);
  const rows = t => [...t.tBodies].reduce((n, body) => n + body.rows.length, 0);
  const lines = e => e.textContent.replace(/\n+$/, '').split('\n').length;
  const code = [...article.querySelectorAll('div.cell_input pre')].filter(shown).map(lines);
  return [document.documentElement.scrollHeight, tables.length, Math.max(0, ...tables.map(rows)),
    code.reduce((a, b) => a + b, 0), Math.max(0, ...code)];
}"""


@dataclass(frozen=True)
class Shape:
    """Of a page: its height in px, tables in the flow and the rows of the longest, code lines."""

    height: int
    tables: int
    rows: int
    lines: int
    longest: int


def shape(browser, url: str) -> Shape:
    """Open a page as a reader does, and measure it."""
    page = browser.new_page(viewport={"width": DESKTOP, "height": 900})
    page.goto(url, wait_until="load")
    page.evaluate(TYPESET)
    found = Shape(*page.evaluate(MEASURE))
    page.close()
    return found


def _limits(name: str) -> tuple[int, str]:
    folder = f"{name.rpartition('/')[0]}/*"
    return TALLER.get(name) or TALLER.get(folder) or (TALLEST, "")


def too_long(shapes: dict[str, Shape]) -> list[str]:
    """What is above a limit, in words."""
    said = []
    for name, found in shapes.items():
        tallest, _ = _limits(name)
        if found.height > tallest:
            said.append(f"{name} is {found.height:,} px tall; at most {tallest:,} are allowed")
        if found.rows > LONGEST_TABLE and name not in LONGER:
            said.append(f"{name} has a table of {found.rows} rows in the flow")
        if found.longest > LONGEST_CELL:
            said.append(f"{name} shows a cell of {found.longest} lines")
    return said


def all_shapes(browser, address: str, folder: Path) -> dict[str, Shape]:
    """The shapes of all pages of a site that is served at an address."""
    inner = sorted(p.relative_to(folder).as_posix() for p in folder.glob("reference/*.html"))
    return {name: shape(browser, f"{address}/{name}") for name in [*page_names(folder), *inner]}


def main(folder: Path, table: Path | None = None) -> int:
    """Print the table, and what is above a limit."""
    from playwright.sync_api import sync_playwright
    from site_tools import CHROMIUM, LAUNCH, serve

    with sync_playwright() as playwright, serve(folder) as address:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=LAUNCH)
        shapes = all_shapes(browser, address, folder)
        browser.close()
    head = ["page", *(field.name for field in fields(Shape)), "limit", "reason"]
    rows = [[name, *astuple(found), *_limits(name)] for name, found in shapes.items()]
    for row in [head, *rows]:
        print(f"{row[0]:<32}" + "".join(f"{entry:>9}" for entry in row[1:7]), row[7])
    if table is not None:
        table.write_text("".join(",".join(map(str, row[:7])) + "\n" for row in [head, *rows]))
    said = too_long(shapes)
    print(*said, sep="\n")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
