"""Notebooks that papermill writes and the site hands out; they pass nbval as it is."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
from nbval.plugin import coalesce_streams, get_sanitize_patterns
from notebooks import quick_parameters
from site_tools import HTML, ROOT, build_site

from lib.book.chapters import chapter_files

CHAPTERS = chapter_files(ROOT / "book")
BIN = Path(sys.executable).parent
NBVAL = ROOT / "lib" / "book" / "nbval.cfg"


OWN = ("COMPANION_BOOK", "COMPANION_CHAPTER", "COMPANION_PROFILE")


def run(folder: Path, program: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    command, given = [str(BIN / program), *arguments], {"cwd": folder, "env": environment}
    done = subprocess.run(command, **given, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def outputs(path: Path) -> list:
    """Code and what nbval compares."""
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    return [
        (
            c.source,
            [(o.output_type, o.get("data"), o.get("text")) for o in coalesce_streams(c.outputs)],
        )
        for c in cells
        if "colab" not in c.metadata.get("tags", [])
    ]


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The specified file")  # as the handler asks papermill to
def test_the_site_hands_out_what_papermill_writes(tmp_path, monkeypatch):
    """From another folder than the book's; with all parameters, as the site has them.

    A file of `params/quick` has those that differ. The chapter trains.
    """
    build_site()
    for variable in OWN:
        monkeypatch.setenv(variable, "put back")  # reading a chapter sets one
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    name = "gap"
    given = quick_parameters(name)
    papermill.execute_notebook(str(CHAPTERS[name]), f"{name}.ipynb", given, progress_bar=False)
    assert outputs(tmp_path / f"{name}.ipynb") == outputs(HTML / "notebooks" / f"{name}.ipynb")
    assert (HTML / "notebooks" / "nbval.cfg").read_bytes() == NBVAL.read_bytes()


@pytest.mark.data
@pytest.mark.slow
def test_nbval_itself_passes_what_the_site_hands_out(tmp_path):
    """By the command of the README; every cell is compared, a moving figure's, too: the last."""
    build_site()
    notebook = nbformat.read(HTML / "notebooks" / "audit.ipynb", as_version=4)
    shown = [json.dumps(cell.get("outputs", [])) for cell in notebook.cells]
    moving = next(place for place, text in enumerate(shown) if "application/json" in text)
    notebook.cells = notebook.cells[: moving + 1]
    nbformat.write(notebook, tmp_path / "audit.ipynb")
    said = run(tmp_path, "pytest", "--nbval", "-q", "--color=no", "audit.ipynb")
    count = len(outputs(tmp_path / "audit.ipynb"))
    assert count > 10
    assert re.search(rf"^{count} passed", said, re.M), said


@pytest.mark.long  # and not of `data`, whose tests run twice
@pytest.mark.parametrize("options", [["--nbval"], ["--nbval-lax"]], ids=str)
def test_nbval_itself_passes_all_that_the_site_hands_out(options, tmp_path):
    build_site()
    options = [*options, "--nbval-sanitize-with", "nbval.cfg"]
    run(HTML / "notebooks", "pytest", *options, "-q", "-p", "no:cacheprovider")


def sanitized(text: str) -> str:
    for pattern, replacement in get_sanitize_patterns(NBVAL.read_text(encoding="utf-8")):
        text = re.sub(pattern, replacement, text)
    return text


SVG = "<img src='data:image/svg+xml;base64,{}'/>"
CSV = "<a href='data:text/csv;base64,{}'/>"
MOVING = "<script type='application/json'>{}</script>{}"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0.12341", "0.12349", True),
        ("1.234567e-05 x", "1.234512e-05 x", True),
        ("1.234567e-05", "1.234567e-04", False),
        ("0.1234", "0.1235", False),
        ("12345 of 9", "12346 of 9", False),
        ("a -0.000000", "a  0.000000", True),
        ("\u22120.00 b", "0.00 b", True),
        ("-0.01", "0.01", False),
        ("10-0.0", "10 0.0", False),
        (SVG.format("aaa="), SVG.format("b+/b"), True),
        (CSV.format("aaa="), CSV.format("bb=="), True),
        (SVG.format("a"), CSV.format("a"), False),
        (MOVING.format([1], 2), MOVING.format([3], 2), True),
        (MOVING.format([1], 2), MOVING.format([1], 3), False),
    ],
)
def test_what_rounding_moves_is_sanitized_and_no_more(one, other, same):
    assert (sanitized(one) == sanitized(other)) == same
