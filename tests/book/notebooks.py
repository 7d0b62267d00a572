"""Notebooks with reference outputs for nbval, made from chapters and expected numbers.

nbval compares nothing in a cell whose ``execution_count`` is None. A chapter's cells
tagged ``expect-<name>`` get the text of ``tests/expected/<chapter>/<data>/<name>.txt`` as
their reference output and an execution count, so that they are compared.

``python tests/book/notebooks.py`` writes the expected files anew; review the difference.
"""

import sys
from pathlib import Path

import nbformat
from papermill.parameterize import parameterize_notebook

from lib import data
from lib.book.chapters import chapter_files, profile_parameters, read_chapter
from lib.book.execute import execute_chapter

ROOT = Path(__file__).parents[2]
PREFIX = "expect-"


def expected_name(cell) -> str | None:
    tags = cell.get("tags") or cell.get("metadata", {}).get("tags", [])
    return next((tag.removeprefix(PREFIX) for tag in tags if tag.startswith(PREFIX)), None)


def data_in_use(chapter: str) -> str:
    """``real`` where everything pinned that the chapter reads is there, else ``fallback``."""
    pinned = data.registry()
    states = data.fingerprints(chapter).items()
    absent = [name for name, state in states if state == data.ABSENT and pinned[name].sha256]
    return "fallback" if absent else "real"


def reference_notebook(text: str, parameters: dict, expected: Path) -> nbformat.NotebookNode:
    """Chapter, parameters injected, with the expected texts as reference outputs.

    Fails on a tagged cell without an expectation and on an expectation without a cell.
    """
    notebook = read_chapter(text)
    for cell in notebook.cells:
        cell.metadata.setdefault("tags", [])  # papermill expects these, and its own entry
    notebook.metadata["papermill"] = {}
    notebook = parameterize_notebook(notebook, parameters)
    texts = {path.stem: path.read_text(encoding="utf-8") for path in expected.glob("*.txt")}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        name = expected_name(cell)
        if name is not None:
            output = nbformat.v4.new_output("stream", name="stdout", text=texts.pop(name))
            cell.outputs, cell.execution_count = [output], 1
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "nbval-check-output"]
    assert not texts, f"expected numbers without a cell: {sorted(texts)}"
    return notebook


def write_expected() -> None:
    for chapter, path in chapter_files(ROOT / "book").items():
        folder = ROOT / "tests" / "expected" / chapter / data_in_use(chapter)
        for cell in execute_chapter(path, "quick").cells:
            if (name := expected_name(cell)) is not None:
                folder.mkdir(parents=True, exist_ok=True)
                text = "".join(o["text"] for o in cell["outputs"] if o["output_type"] == "stream")
                (folder / f"{name}.txt").write_text(text, encoding="utf-8")
                print(folder / f"{name}.txt")


def quick_parameters(chapter: str) -> dict:
    return profile_parameters(ROOT / "params", "quick", chapter)


if __name__ == "__main__":
    sys.exit(write_expected())
