"""Notebooks that people open: prose that every viewer shows, with the numbers of their own run.

A chapter's prose quotes values, words, works and equations by roles that only the book's builder
knows.  A notebook that is handed out has what they stand for in their place; the chapter's own text
stays in the cell's metadata, so that a notebook that is executed again says its new numbers.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from lib.book.chapters import read_chapter
from lib.book.drawings import drawing_text
from lib.book.exercises import as_details
from lib.book.words import formatted

VALUE_MIME = "application/vnd.companion.value+json"
VALUE = re.compile(r"\{value\}`([^`]+)`")
#: Metadata of a notebook (its page and values), of a cell (the chapter's text, and what was shown
#: for it) and of an output (what it is to a page, by a key of its own for each kind).
MINE = "companion"
#: In the place of a figure that the site shows before the cell that makes it.
_BELOW = "*(The figure stands below, where it is made.)*"
#: In the place of a number that the run did not come to.
NONE = "—"

_DIRECTIVE = re.compile(r"^```\{benchmarks\} [\w.-]+\n```\n*", flags=re.MULTILINE)
_FIGURE = re.compile(r"^```\{(?:result|picture)\} [\w.-]+\n```$", flags=re.MULTILINE)
_DRAWING = re.compile(r"^```\{drawing\} ([\w-]+)\n```$", flags=re.MULTILINE)
_RESULT = re.compile(r"^```\{result\} ([\w-]+)\n```\n+", flags=re.MULTILINE)
_LABEL = re.compile(r"^\([\w-]+\)=\n", flags=re.MULTILINE)
_MARGIN = re.compile(r"^(`{3}|:{3})\{margin\}\n(.*?)\n\1$", flags=re.MULTILINE | re.DOTALL)
_LIST_TABLE = re.compile(
    r"^```\{list-table\} ?([^\n]*)\n(?::[^\n]*\n)*\n?(.*?)^```$", re.MULTILINE | re.DOTALL
)
_NUMBERED = re.compile(r"\$\$\n(.*?)\n\$\$ \((eq-[\w-]+)\)", flags=re.DOTALL)
_LABELED = re.compile(r"\$\$ \((eq-[\w-]+)\)")
_ROLE = re.compile(r"(?<!`)\{([a-z:]+)\}`([^`<]+?)(?:\s*<([^`>]*)>)?`")
_LINK = re.compile(r"(?<!\!)\[([^\]]+)\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Surroundings:
    """What a notebook's prose refers to beyond itself.

    `page` is the chapter's page, such as ``beyond/gap``; `site` the address of the book's site, or
    nothing; `works` are citations as the text says them, with an address or nothing, by key;
    `equations` the page and number of each.
    """

    page: str = ""
    site: str = ""
    works: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    equations: Mapping[str, tuple[str, int]] = field(default_factory=dict)


def surroundings(book: Path, page: str, site: str) -> Surroundings:
    """Read the works and equations of a book; nothing of what is not there."""
    return Surroundings(page, site, _works(book / "references.bib"), _equations(book))


def texts(book: Path) -> list[Path]:
    """Pages of a book as they are written, in its own folder and those below."""
    found = (path for kind in ("md", "py") for path in sorted(book.rglob(f"*.{kind}")))
    made = {"_build", ".ipynb_checkpoints"}
    return [path for path in found if not made & {*path.relative_to(book).parts}]


@functools.cache
def _works(path: Path) -> dict[str, tuple[str, str]]:
    from pybtex.database import parse_file

    from lib.book.bibliography import AuthorsAndYear

    if not path.exists():
        return {}
    entries = parse_file(str(path)).entries
    labels = AuthorsAndYear().format_labels(entries.values())
    return {
        key: (label, _address(entry.fields))
        for (key, entry), label in zip(entries.items(), labels, strict=True)
    }


def _address(fields: Mapping[str, str]) -> str:
    if doi := fields.get("doi"):
        return f"https://doi.org/{doi}"
    if (eprint := fields.get("eprint")) and fields.get("archiveprefix", "arXiv") == "arXiv":
        return f"https://arxiv.org/abs/{eprint}"
    return fields.get("url", "")


@functools.cache
def _equations(book: Path) -> dict[str, tuple[str, int]]:
    """As the site numbers them: on each page from 1."""
    found = {}
    for path in texts(book):
        page = path.relative_to(book).with_suffix("").as_posix()
        text = path.read_text(encoding="utf-8")
        for number, label in enumerate(_LABELED.findall(text), start=1):
            found[label] = page, number
    return found


# ---------------------------------------------------------------------- prose


def plain(text: str, around: Surroundings, headings: Iterable[str] = ()) -> str:
    """Prose without what only the book's builder understands; its values are another's matter.

    `headings` are those of the notebook, which links within it lead to.
    """
    text = as_details(_LABEL.sub("", _DIRECTIVE.sub("", _FIGURE.sub(_BELOW, text))))
    text = _DRAWING.sub(lambda found: f"*{drawing_text(found[1])}*", text)
    text = _MARGIN.sub(lambda found: re.sub("^", "> ", found[2], flags=re.MULTILINE), text)
    text = _LIST_TABLE.sub(
        lambda found: f"*{found[1]}*\n\n" * bool(found[1]) + _pipes(found[2]), text
    )
    text = _NUMBERED.sub(lambda found: _tagged(found, around), text)
    text = _ROLE.sub(lambda found: _words(found, around), text)
    slugs = {_slug(heading): heading.replace(" ", "-") for heading in headings}
    return _LINK.sub(lambda found: _led(found, around, slugs), text)


def _tagged(found: re.Match, around: Surroundings) -> str:
    _, number = around.equations.get(found[2], ("", 0))
    return f"$$\n{found[1]}" + rf" \tag{{{number}}}" * bool(number) + "\n$$"


def _words(found: re.Match, around: Surroundings) -> str:
    """What a role stands for; an unknown one is left as it is."""
    role, text, target = found.groups()
    match role:
        case "term" | "doc" | "ref":
            page = (target or text).lstrip("/") if role == "doc" else ""
            return f"[{text}]({around.site}{page}.html)" if page and around.site else text
        case "py:obj":
            return f"`{text.rpartition('.')[2] if text.startswith('~') else text}`"
        case "claim":
            return f"[verdict]({around.site}reproduces.html)" if around.site else "verdict"
        case "cite" | "cite:t":
            return _cited(text.split(","), role == "cite:t", around)
        case "eq":
            page, number = around.equations.get(text, ("", 0))
            if page in ("", around.page) or not around.site:
                return f"({number})" if number else text
            return f"[({number})]({around.site}{page}.html#equation-{text})"
    return found[0]


def _cited(keys: Iterable[str], in_text: bool, around: Surroundings) -> str:
    said = []
    for key in (key.strip() for key in keys):
        label, address = around.works.get(key, (key, ""))
        if in_text:
            label = re.sub(r", (\d{4}\w?)$", r" (\1)", label)
        said.append(f"[{label}]({address})" if address else label)
    return "; ".join(said) if in_text else f"({'; '.join(said)})"


def _led(found: re.Match, around: Surroundings, slugs: Mapping[str, str]) -> str:
    """A link to a page of the book leads to the site, if its address is known; else its words."""
    text, to = found.groups()
    if re.match(r"[a-z]+:", to):
        return found[0]
    path, _, part = to.partition("#")
    if not path:
        return f"[{text}](#{slugs[part]})" if part in slugs else text
    if not around.site or not path.endswith((".py", ".md", ".ipynb")):
        return text
    folder = (Path("/") / around.page).parent
    page = Path(re.sub(r"/[^/]+/\.\.(?=/)", "", (folder / path).as_posix()))
    address = page.with_suffix(".html").as_posix().lstrip("/")
    return f"[{text}]({around.site}{address}{'#' * bool(part)}{part})"


def _slug(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def _pipes(rows: str) -> str:
    """A list-table as a table of pipes, its first row being the head."""
    found = []
    for row in re.split(r"^\* - ", rows, flags=re.MULTILINE)[1:]:
        cells = re.split(r"^  - ", row, flags=re.MULTILINE)
        found.append([" ".join(cell.split()).replace("|", r"\|") for cell in cells])
    head, *others = found
    lines = [head, ["---"] * len(head), *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# ---------------------------------------------------------------------- whole notebooks


def whole(
    notebook: nbformat.NotebookNode, resolve: Callable[[str], str], around: Surroundings
) -> nbformat.NotebookNode:
    """Make a notebook readable by itself, and keep the chapter's own text in it.

    `resolve` gives the text of a quoted value, ``chapter.name:format``.  Outputs that show nothing,
    of which viewers warn, are left out; the values among them are kept with the notebook.
    """
    prose = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    written = [_written(cell) for cell in prose]
    headings = [h for text in written for h in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    for cell, text in zip(prose, written, strict=True):
        shown = VALUE.sub(lambda found: resolve(found[1]), plain(text, around, headings))
        cell.source = shown
        cell.metadata.pop(MINE, None)
        if shown != text:
            cell.metadata[MINE] = {"text": text, "shown": shown}
    notebook.metadata[MINE] = {"page": around.page, "values": _sent_values(notebook)}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("data") != {}]
    return notebook


def executed_notebook(text: str, cells: Iterable[Mapping[str, Any]]) -> nbformat.NotebookNode:
    """A chapter with its executed code cells, that which papermill injected among them."""
    notebook, pending, merged = read_chapter(text), list(cells), []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            merged.append(cell)
            continue
        merged.append(_executed(pending.pop(0), cell["id"]))
        if pending and "injected-parameters" in pending[0]["tags"]:
            merged.append(_executed(pending.pop(0), "injected-parameters"))
    notebook.cells = merged
    return notebook


def _executed(cell: Mapping[str, Any], cell_id: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_code_cell(
        cell["source"],
        id=cell_id,
        outputs=[nbformat.from_dict(output) for output in cell["outputs"]],
        execution_count=cell["execution_count"],
        metadata={"tags": cell["tags"]},
    )


def _written(cell: Mapping[str, Any]) -> str:
    """The chapter's own text of a cell, unless somebody has changed what was shown for it."""
    kept = cell["metadata"].get(MINE, {})
    return kept["text"] if kept.get("shown") == cell["source"] else cell["source"]


def as_written(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Put the chapter's own text back, before the notebook is executed again."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _written(cell)
    notebook.metadata.get(MINE, {}).pop("values", None)
    return notebook


def own_values(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """The values that an executed notebook holds, by name."""
    return {name: given_value(value) for name, value in _sent_values(notebook).items()}


def _sent_values(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """The values of the outputs, or those kept with the notebook, as JSON has them."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    shown = (bundle_of(output).get(VALUE_MIME) for cell in cells for output in cell.outputs)
    kept = notebook.metadata.get(MINE, {}).get("values", {})
    return {**kept, **{one["name"]: one["value"] for one in shown if one}}


def bundle_of(output: Mapping[str, Any]) -> dict[str, Any]:
    """What an output shows and, from its metadata, what it is to a page, by kind."""
    return {**output.get("data", {}), **output.get("metadata", {}).get(MINE, {})}


def given_value(value: Any) -> Any:
    """A value as the chapter gave it: in the messages of a kernel infinities and NaN are words."""
    return float(value) if value in ("inf", "-inf", "nan") else value


def with_own_values(text: str, book: Path, site: str) -> str:
    """A notebook of a chapter, as JSON, made whole with the numbers that it holds.

    Of other chapters it has what the book's records hold, and else a dash.
    """
    notebook = nbformat.reads(text, as_version=4)
    page = notebook.metadata.get(MINE, {}).get("page")
    if page is None:
        return text
    chapter, own = page.rpartition("/")[2], own_values(notebook)

    def resolve(quoted: str) -> str:
        where, _, spec = quoted.partition(":")
        source, _, name = where.rpartition(".")
        of, at, run = source.partition("@")
        values = own if source == chapter else _recorded(book, of, run if at else "")
        return formatted(values[name], spec) if name in values else NONE

    whole(notebook, resolve, surroundings(book, page, site))
    _name_the_error(notebook)
    return nbformat.writes(notebook)


def _name_the_error(notebook: nbformat.NotebookNode) -> None:
    """Add to papermill's mark at the top what went wrong in the cell that it leads to."""
    first = notebook.cells[0] if notebook.cells else {}
    if "papermill-error-cell-tag" not in first.get("metadata", {}).get("tags", []):
        return
    outputs = (out for c in notebook.cells if c.cell_type == "code" for out in c.outputs)
    error = next((out for out in outputs if out.output_type == "error"), None)
    if error is not None and (said := f"{error.ename}: {error.evalue}") not in first.source:
        first.source += f"\n\n```\n{said}\n```"


def _recorded(book: Path, chapter: str, run: str) -> Mapping[str, Any]:
    """Values of a recorded run, of the largest if none is named."""
    from lib.book.records import by_size, read_records

    records = read_records(book, chapter)
    name = run or next(iter(by_size(records)), "")
    return records.get(name, {}).get("values", {})


def shown_first(notebook: nbformat.NotebookNode) -> set[str]:
    """Names of the figures that a chapter's prose shows before the cells that make them."""
    prose = (c.source for c in notebook.cells if c.cell_type == "markdown")
    return {name for text in prose for name in _RESULT.findall(f"{text}\n\n")}


# ---------------------------------------------------------------------- what a book quotes


def quoted_values(book: Path) -> dict[str, set[str]]:
    """Names of the values that the book's prose quotes, by chapter."""
    found: dict[str, set[str]] = {}
    for path in texts(book):
        for quoted in VALUE.findall(path.read_text(encoding="utf-8")):
            chapter, _, name = quoted.partition(":")[0].rpartition(".")
            found.setdefault(chapter, set()).add(name)
    return found


_QUOTED = re.compile(r"^(?:# )?```\{(result|picture)\} ([\w.-]+)$", flags=re.MULTILINE)


def quoted_figures(book: Path) -> dict[str, set[str]]:
    """Names of the figures that the book shows beside the cells that make them, by chapter."""
    found: dict[str, set[str]] = {}
    for path in texts(book):
        for kind, quoted in _QUOTED.findall(path.read_text(encoding="utf-8")):
            chapter, _, name = quoted.rpartition(".")
            found.setdefault(path.stem if kind == "result" else chapter, set()).add(name)
    return found
