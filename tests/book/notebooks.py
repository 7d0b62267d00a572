"""Notebooks with reference outputs for nbval, made from chapters and expected numbers.

nbval compares nothing in a cell whose ``execution_count`` is None. Two kinds of cells get a
reference output and an execution count, so that they are compared: that tagged ``expect-numbers``
the text of ``tests/expected/<chapter>/<data>/numbers.txt``, those that show tables their CSV in the
folder ``tables`` beside it. Expected numbers have nine digits, pages fewer: ``tolerances.py``.

``python tests/book/notebooks.py [chapter ...]`` writes the expected files anew; review the
difference.
"""

import csv
import io
import sys
from pathlib import Path

import nbformat
from papermill.parameterize import parameterize_notebook
from tolerances import changed, tolerances

from lib import data
from lib.book.chapters import chapter_files, declared_parameters, profile_parameters, read_chapter
from lib.book.execute import TABLE_MIME, Executed, execute_chapter
from lib.book.notebooks import bundle_of
from lib.book.parameters import validate_parameters

ROOT = Path(__file__).parents[2]
EXPECTED = ROOT / "tests" / "expected"
TAG = "expect-numbers"


def is_tagged(cell) -> bool:
    return TAG in (cell.get("tags") or cell.get("metadata", {}).get("tags", []))


def data_in_use(chapter: str) -> str:
    """``real`` where everything pinned that the chapter reads is there, else ``fallback``."""
    pinned = data.registry()
    states = data.fingerprints(chapter).items()
    absent = [name for name, state in states if state == data.ABSENT and pinned[name].sha256]
    named = [v for v in quick_parameters(chapter).values() if str(v) in data.IMAGE_SETS]
    here = all(data.available(file) for name in named for file in data.image_files(name))
    return "real" if here and not absent else "fallback"


def quick_parameters(chapter: str) -> dict:
    declared = declared_parameters(
        read_chapter(chapter_files(ROOT / "book")[chapter].read_text("utf-8"))
    )
    return validate_parameters(declared, profile_parameters(ROOT / "params", "quick", chapter))


def printed(cell) -> str:
    return "".join(o["text"] for o in cell["outputs"] if o["output_type"] == "stream")


def shown_tables(cell) -> dict[str, str]:
    """The tables of a cell, as CSV."""
    found = [shown[TABLE_MIME] for shown in map(bundle_of, cell["outputs"]) if TABLE_MIME in shown]
    return {t["name"]: t["csv"] for t in found}


def expected_texts(folder: Path) -> tuple[str, dict[str, str]]:
    """The numbers, and the tables by name."""
    tables = {p.stem: p.read_text(encoding="utf-8") for p in (folder / "tables").glob("*.csv")}
    return (folder / "numbers.txt").read_text(encoding="utf-8"), tables


def shown_again(text: str, tables: dict[str, str]) -> str:
    """Code that shows what nbval compares of an executed cell, and computes nothing."""
    shown = [{TABLE_MIME: {"name": name, "csv": table}} for name, table in tables.items()]
    lines = [f"print({text!r}, end='')"] if text else []
    lines += ["from IPython.display import display"] if shown else []
    return "\n".join(lines + [f"display({each!r}, raw=True)" for each in shown])


def reference_notebook(
    chapter: str,
    parameters: dict,
    executed: list,
    expected: tuple[str, dict[str, str]],
    anew: bool = False,
) -> nbformat.NotebookNode:
    """Chapter, parameters injected, with the expected texts as reference outputs.

    `executed` has the cells of an execution, the injected parameters included. What they showed is
    shown again, unless they are to be executed `anew`. At the end stand two cells with a changed
    expected number, which nbval must refuse.
    """
    text = chapter_files(ROOT / "book")[chapter].read_text(encoding="utf-8")
    numbers, tables = expected
    notebook = read_chapter(text)
    for cell in notebook.cells:
        cell.metadata.setdefault("tags", [])  # papermill expects these, and its own entry
    notebook.metadata["papermill"] = {}
    notebook = parameterize_notebook(notebook, parameters)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell, done in zip(cells, executed, strict=True):
        names = list(shown_tables(done))
        texts = {"numbers": numbers} if is_tagged(cell) else {}
        expect(cell, texts | {name: tables[name] for name in names})
        cell.source = cell.source if anew else shown_again(printed(done), shown_tables(done))
    allowed = tolerances(chapter)
    (last,) = [cell for cell in cells if is_tagged(cell)]
    shown = {name: text for done in executed for name, text in shown_tables(done).items()}
    # The shortest: nbval shows what differs line by line, which takes seconds of a long one.
    short = sorted(shown, key=lambda name: len(tables[name]))
    name = next(name for name in short if changed(tables[name], allowed, name))
    sources = last.source, shown_again("", {name: shown[name]})
    wrong = list(map(nbformat.v4.new_code_cell, sources))
    expect(wrong[0], {"numbers": changed(numbers, allowed)})
    expect(wrong[1], {name: changed(tables[name], allowed, name)})
    notebook.cells += wrong
    for cell in notebook.cells:
        cell.metadata["chapter"] = chapter
    return notebook


def expect(cell, texts: dict[str, str]) -> None:
    """Have nbval compare a cell, if there is something to compare."""
    outputs = [
        nbformat.v4.new_output("stream", name="stdout", text=text)
        if name == "numbers"
        else nbformat.v4.new_output("display_data", {TABLE_MIME: {"name": name, "csv": text}})
        for name, text in texts.items()
    ]
    if outputs:
        cell.outputs, cell.execution_count = outputs, 1
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "nbval-check-output"]


def nine_digits(line: list[str]) -> list[str]:
    """A row of a table, numbers with at most nine digits."""
    return [f"{float(f):#.9g}" if len(f) > 11 and _is_float(f) else f for f in line]


def _is_float(text: str) -> bool:
    try:
        return "." in text and float(text) is not None
    except ValueError:
        return False


def write_expected(executed: Executed) -> None:
    folder = EXPECTED / executed.chapter / data_in_use(executed.chapter)
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for path in (folder / "tables").glob("*.csv"):
        path.unlink()
    for cell in executed.cells:
        for name, content in shown_tables(cell).items():
            rows = [nine_digits(row) for row in csv.reader(io.StringIO(content))]
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerows(rows)
            (folder / "tables" / f"{name}.csv").write_text(out.getvalue(), encoding="utf-8")
        if is_tagged(cell):
            lines = []
            for line in printed(cell).splitlines():
                name, _, _ = line.partition(" = ")
                exact = executed.values.get(name)
                lines.append(f"{name} = {exact:#.9g}" if isinstance(exact, float) else line)
            (folder / "numbers.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(folder)


if __name__ == "__main__":
    for name, path in chapter_files(ROOT / "book").items():
        if name in sys.argv[1:] or not sys.argv[1:]:
            write_expected(execute_chapter(path, "quick"))
