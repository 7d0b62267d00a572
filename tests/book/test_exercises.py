"""Exercises have solutions that run; papermill commands in the prose name what there is."""

import ast
import contextlib
import io
import re
import shlex
from pathlib import Path

import click
import nbformat
import pytest
import yaml
from notebooks import ROOT
from papermill.cli import _resolve_type
from papermill.cli import papermill as cli

from lib.book.chapters import chapter_files, declared_parameters, read_chapter
from lib.book.exercises import SOLUTION, TRY_IT
from lib.book.parameters import ParameterError, validate_parameters

CHAPTERS = chapter_files(ROOT / "book")
PAGES = [*CHAPTERS.values(), *sorted((ROOT / "book").glob("*.md")), ROOT / "README.md"]
WITH_PARAMETERS = [name for name in CHAPTERS if name != "your_model"]
HEAD = r"^## Exercises\n"
ENDS = re.compile(r"^## (?:Summary|Further pages)\n", re.MULTILINE)  # a chapter ends with one
SOLUTION_TEXT = r"^   :::\{dropdown\} Solution\n(.*?)\n   :::$"
EXPECTED_CELLS = ROOT / "tests" / "expected" / "exercises.yml"
COMMAND = "papermill book/audit_trainings.py out.ipynb -f params/quick/audit_trainings.yml"


def prose(path: Path) -> str:
    """The markdown of a page or of a chapter's cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    cells = read_chapter(text).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def commands(text: str) -> list[str]:
    """Every command that begins with ``papermill``, in a code block or in a line of prose."""
    found = []
    for block in re.findall(r"^ *```[^\n]*\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE):
        lines = re.sub(r"\\\n", " ", block).splitlines()
        found += [line.strip() for line in lines if line.strip().startswith("papermill ")]
    outside = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    spans = re.findall(r"(?<!`)`(papermill [^`]*\.py[^`]*)`(?!`)", outside)
    return found + [" ".join(span.split()) for span in spans]


def given_parameters(command: str, root: Path = ROOT) -> dict:
    """The chapter's parameters after what papermill would hand to it, checked."""
    name, *arguments = shlex.split(command, comments=True)
    assert name == "papermill", command
    options = cli.make_context(name, arguments).params
    chapter = Path(options["notebook_path"])
    files = chapter_files(root / "book")
    assert chapter.stem in files, f"{chapter} is no chapter"
    assert chapter == files[chapter.stem].relative_to(root), f"{chapter} is not in book"
    if not options["help_notebook"]:
        assert str(options["output_path"]).endswith(".ipynb"), f"no output in {command}"
    given: dict = {}
    for file in options["parameters_file"]:  # papermill's own order of precedence
        assert Path(file).name.split(".")[0] == chapter.stem, f"{file} is not for {chapter}"
        given |= yaml.safe_load((root / file).read_text(encoding="utf-8")) or {}
    for text in options["parameters_yaml"]:
        given |= yaml.safe_load(text)
    given |= {key: _resolve_type(value) for key, value in options["parameters"]}
    declared = declared_parameters(read_chapter(files[chapter.stem].read_text(encoding="utf-8")))
    return validate_parameters(declared, given)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_is_valid(path):
    for command in commands(prose(path)):
        given_parameters(command)


def exercises(name: str) -> list[nbformat.NotebookNode]:
    """The cells of a chapter's exercises, less what stands before and after these."""
    cells = read_chapter(CHAPTERS[name].read_text(encoding="utf-8")).cells
    heads = [n for n, cell in enumerate(cells) if re.search(HEAD, cell.source, re.MULTILINE)]
    (first,) = heads
    last = next(n for n, cell in enumerate(cells) if n >= first and ENDS.search(cell.source))
    found = cells[first : last + 1]
    found[0].source = re.split(HEAD, found[0].source, maxsplit=1, flags=re.MULTILINE)[1]
    found[-1].source = ENDS.split(found[-1].source)[0]
    return found


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_three_exercises_with_solutions_one_of_them_computed(name):
    cells = exercises(name)
    said = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    asked = re.split(r"^(\d+)\. ", said, flags=re.MULTILINE)[1:]
    assert [*map(int, asked[::2])] == [*range(1, 1 + len(asked) // 2)]
    assert len(asked) >= 6
    for question in asked[1::2]:
        (solution,) = re.findall(SOLUTION_TEXT, question, flags=re.MULTILINE | re.DOTALL)
        assert 2 <= len(re.findall(r"[.?!](?:\s|$)", solution)) <= 5, solution
    for cell, before in zip(cells[1:], cells, strict=False):
        if cell.cell_type == "code":
            (tag,) = cell.metadata["tags"]
            if tag == SOLUTION:  # of the exercise before it
                assert before.source.rstrip().endswith(":::")
            else:
                assert tag == TRY_IT
                assert "*Try it.*" in before.source
    tags = [cell.metadata["tags"][0] for cell in cells if cell.cell_type == "code"]
    assert tags.count(SOLUTION) >= 1
    assert tags.count(TRY_IT) == 1


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_exercises_change_parameters(name):
    section = "\n\n".join(c.source for c in exercises(name) if c.cell_type == "markdown")
    place = CHAPTERS[name].relative_to(ROOT).as_posix()
    base = given_parameters(f"papermill {place} o.ipynb -f params/quick/{name}.yml")
    found = commands(section)
    assert found
    for command in found:
        assert command.split()[1] == place
        assert given_parameters(command) != base, f"{command} changes nothing"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_cell_of_an_exercise_runs_by_itself_and_prints_what_it_did(name):
    """In a namespace of its own, with nothing but lib and libraries; run this file to write it."""
    ran = [cell for cell in exercises(name) if cell.cell_type == "code"]
    expected = yaml.safe_load(EXPECTED_CELLS.read_text(encoding="utf-8"))[name]
    for cell, text in zip(ran, expected, strict=True):
        lines = [line for line in cell.source.splitlines() if line]
        assert len(lines) <= 8, "at most eight lines, blank ones not counted"
        assert max(map(len, lines)) <= 100
        assert imported(cell.source) <= {"lib", "numpy", "scipy"}
        assert printed_by(cell.source) == text


def imported(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    names = [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert not any(name.startswith(("lib.studies", "lib.book")) for name in names)
    return {name.split(".")[0] for name in names}


def printed_by(source: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "cell", "exec"), {"__name__": "cell"})
    return out.getvalue()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{COMMAND} -p trials 200", "trials"),
        (f"{COMMAND} -p level 2", "level = 2"),
        (f"{COMMAND} -p epsilons '[1.0]'", "epsilons"),  # -p knows no lists
        (COMMAND.replace("quick/audit_trainings", "quick/training"), "is not for"),
        (COMMAND.replace("quick/", "slow/"), "No such file"),
        (COMMAND.replace("book/audit", "book/audits"), "is no chapter"),
    ],
)
def test_wrong_command_fails(command, message):
    errors = (AssertionError, ParameterError, OSError, click.ClickException)
    with pytest.raises(errors) as caught:
        given_parameters(command)
    assert message in getattr(caught.value, "message", str(caught.value))


if __name__ == "__main__":  # review the difference
    cells = {
        name: [c.source for c in exercises(name) if c.cell_type == "code"] for name in CHAPTERS
    }
    found = {name: [printed_by(source) for source in of] for name, of in cells.items()}

    class Dumper(yaml.SafeDumper):
        """Texts of several lines as they were printed."""

    Dumper.add_representer(
        str, lambda d, text: d.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    )
    EXPECTED_CELLS.write_text(yaml.dump(found, Dumper=Dumper, sort_keys=False), encoding="utf-8")
