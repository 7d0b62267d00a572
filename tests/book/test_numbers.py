"""nbval: every chapter shows the expected numbers and tables, as the build executed it, or anew."""

import functools
import itertools
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
import yaml
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
from lib.book.exercises import by_itself

CHAPTERS = chapter_files(ROOT / "book")


def run_nbval(folder: Path, anew: bool) -> tuple[dict[str, list[bool]], str]:
    """By notebook of a folder, whether each code cell passed; and what was printed.

    All in one process: that of pytest, nbval and ``lib`` takes seconds to start.
    """
    report = folder / "report.xml"
    # Without our pytest settings: nbval itself warns.
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), "-q"]
    command += ["-p", "nbval_tolerances", "--nbval-lax", "--nbval-current-env"]
    command += ["--nbval-cell-timeout", "600", f"--junitxml={report}", "-o", "junit_family=xunit1"]
    places = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, *sorted(map(str, folder.glob("*.ipynb")))],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": places, "ANEW": "1" * anew},
        capture_output=True,
        text=True,
    )
    assert report.exists(), done.stdout + done.stderr
    cells: dict[str, list[bool]] = {}
    for cell in ElementTree.parse(report).iter("testcase"):
        passed = cells.setdefault(Path(cell.get("file")).stem, [])
        assert cell.get("name") == f"Cell {len(passed)}"
        passed.append(len(cell) == 0)
    return cells, done.stdout


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_site_shows_the_expected_numbers(chapter):
    """The outputs that the site was built from, with the data that are here or without."""
    numbers, tables = expected_texts(EXPECTED / chapter / data_in_use(chapter))
    allowed = tolerances(chapter)
    cells = build_executed(chapter)
    (tagged,) = [cell for cell in cells if is_tagged(cell)]
    assert differences(numbers, printed(tagged), allowed) == []
    shown = {name: text for cell in cells for name, text in shown_tables(cell).items()}
    assert sorted(shown) == sorted(tables)
    for name, text in tables.items():
        assert table_differences(text, shown[name], allowed, name) == [], name
    own = [printed(cell) for cell in cells if by_itself(cell["tags"])]
    assert own == expected_exercises()[chapter]


@functools.cache
def expected_exercises() -> dict[str, list[str]]:
    """What the cells of exercises print, by chapter."""
    return yaml.load((EXPECTED / "exercises.yml").read_text(encoding="utf-8"), yaml.CSafeLoader)


@functools.cache
def build_executed(chapter: str) -> list:
    """The cells of a chapter, which the site was built from: read from the cache."""
    build_site()
    return execute_chapter(CHAPTERS[chapter], "quick").cells


@pytest.fixture(scope="module")
def by_nbval(request, tmp_path_factory):
    """The chapters asked for, by nbval: their cells, how many there are, and what was said.

    What was computed elsewhere is shown again by one kernel, as if all were one notebook.
    """
    asked = [item for item in request.session.items if "by_nbval" in item.fixturenames]
    found = {}
    for anew in {item.callspec.params["anew"] for item in asked}:
        folder, notebooks = tmp_path_factory.mktemp("chapters"), {}
        for given in (item.callspec.params for item in asked):
            if given["anew"] == anew:
                chapter = given["chapter"]
                expected = expected_texts(EXPECTED / chapter / data_in_use(chapter))
                executed, parameters = build_executed(chapter), quick_parameters(chapter)
                made = reference_notebook(chapter, parameters, executed, expected, anew)
                # What has no output expects none; executed anew, others need what it does.
                code = (cell for cell in made.cells if cell.cell_type == "code")
                made.cells = [cell for cell in code if anew or cell.outputs]
                notebooks[chapter] = made
        counts = {name: len(each.cells) for name, each in notebooks.items()}
        if not anew:
            whole = nbformat.v4.new_notebook(metadata=notebooks[chapter].metadata)
            whole.cells = [cell for each in notebooks.values() for cell in each.cells]
            for number, cell in enumerate(whole.cells):
                cell.id = f"cell-{number}"
        for name, each in (notebooks if anew else {"all": whole}).items():
            nbformat.write(each, folder / f"{name}.ipynb")
        cells, said = run_nbval(folder, anew)
        if not anew:
            shown = iter(cells["all"])
            cells = {name: list(itertools.islice(shown, count)) for name, count in counts.items()}
            assert not list(shown)
        found |= {(name, anew): (cells.get(name), counts[name], said) for name in counts}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("anew", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nbval_finds_the_expected_numbers_and_refuses_changed_ones(chapter, anew, by_nbval):
    """Of the build's outputs or, in minutes, of an execution of its own; the last two cells fail.

    Anew, trainings and long tables come from the store. `test_handed_out.py` has nbval itself
    execute a chapter in any run.
    """
    cells, count, said = by_nbval[chapter, anew]
    assert cells == [True] * (count - 2) + [False] * 2, said
