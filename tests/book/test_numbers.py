"""nbval: every chapter is executed, and shows the expected numbers and tables."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from notebooks import (
    EXPECTED,
    ROOT,
    data_in_use,
    expected_texts,
    is_tagged,
    printed,
    quick_parameters,
    reference_notebook,
    shown_tables,
)
from site_tools import build_site
from tolerances import differences, table_differences, tolerances

from lib.book.chapters import chapter_files
from lib.book.execute import execute_chapter

CHAPTERS = chapter_files(ROOT / "book")


def run_nbval(notebook: nbformat.NotebookNode, folder: Path) -> tuple[list[str], list[str], str]:
    """The cells that passed, those that failed, and what was printed."""
    path, report = folder / "chapter.ipynb", folder / "report.xml"
    nbformat.write(notebook, path)
    # Without our pytest settings: nbval itself warns.
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), "-q"]
    command += ["-p", "nbval_tolerances", "--nbval-lax", "--nbval-current-env"]
    command += ["--nbval-cell-timeout", "600", f"--junitxml={report}", str(path)]
    places = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": places}, capture_output=True, text=True
    )
    assert report.exists(), done.stdout + done.stderr
    cells = list(ElementTree.parse(report).iter("testcase"))
    failed = [c.get("name") for c in cells if len(c)]
    return [c.get("name") for c in cells if not len(c)], failed, done.stdout


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_site_shows_the_expected_numbers(chapter):
    """The outputs that the site was built from, with the data that are here or without."""
    build_site()
    numbers, tables = expected_texts(EXPECTED / chapter / data_in_use(chapter))
    allowed = tolerances(chapter)
    cells = execute_chapter(CHAPTERS[chapter], "quick").cells  # read from the cache
    (tagged,) = [cell for cell in cells if is_tagged(cell)]
    assert differences(numbers, printed(tagged), allowed) == []
    shown = {name: text for cell in cells for name, text in shown_tables(cell).items()}
    assert sorted(shown) == sorted(tables)
    for name, text in tables.items():
        assert table_differences(text, shown[name], allowed, name) == [], name


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nbval_finds_the_expected_numbers_and_refuses_changed_ones(chapter, tmp_path):
    """Executed anew, trainings and long tables from the store; the last two cells must fail."""
    build_site()
    notebook = reference_notebook(
        chapter,
        CHAPTERS[chapter].read_text(encoding="utf-8"),
        quick_parameters(chapter),
        execute_chapter(CHAPTERS[chapter], "quick").cells,
        *expected_texts(EXPECTED / chapter / data_in_use(chapter)),
    )
    count = sum(cell.cell_type == "code" for cell in notebook.cells)
    passed, failed, shown = run_nbval(notebook, tmp_path)
    assert failed == [f"Cell {count - 2}", f"Cell {count - 1}"], shown
    assert len(passed) == count - 2
