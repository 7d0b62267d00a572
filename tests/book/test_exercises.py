"""The papermill commands in the prose name files, parameters and values that exist."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from notebooks import ROOT
from papermill.cli import _resolve_type
from papermill.cli import papermill as cli

from lib.book.chapters import chapter_files, declared_parameters, read_chapter
from lib.book.parameters import ParameterError, validate_parameters

CHAPTERS = chapter_files(ROOT / "book")
PAGES = [*CHAPTERS.values(), *sorted((ROOT / "book").glob("*.md")), ROOT / "README.md"]
WITH_EXERCISES = [name for name in CHAPTERS if name != "your_model"]
ENDS = ("Summary", "Further pages")  # a chapter ends with one of these
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
    """What papermill would hand to the chapter, checked against what the chapter declares."""
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
    validate_parameters(declared, given)
    return given


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_is_valid(path):
    for command in commands(prose(path)):
        given_parameters(command)


@pytest.mark.parametrize("name", WITH_EXERCISES)
def test_exercises_change_parameters(name):
    text = prose(CHAPTERS[name])
    section = text.split("\n## Exercises\n")[1].split("\n## ")[0]
    ends = [text.index(f"\n## {end}\n") for end in ENDS if f"\n## {end}\n" in text]
    assert text.index("\n## Exercises\n") < min(ends)
    count = len(re.findall(r"^\d+\. ", section, flags=re.MULTILINE))
    assert count >= 3
    place = CHAPTERS[name].relative_to(ROOT).as_posix()
    base = given_parameters(f"papermill {place} o.ipynb -f params/quick/{name}.yml")
    found = commands(section)
    assert len(found) >= 3
    for command in found:
        assert command.split()[1] == place
        assert given_parameters(command) != base, f"{command} changes nothing"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{COMMAND} -p trials 200", "trials"),
        (f"{COMMAND} -p level 2", "level = 2"),
        (f"{COMMAND} -p epsilons '[1.0]'", "epsilons"),  # -p knows no lists
        (f"{COMMAND} -y '{{epsilon: [1.0]}}'", "epsilon"),
        (COMMAND.replace("quick/audit_trainings", "quick/training"), "is not for"),
        (COMMAND.replace("quick/", "slow/"), "No such file"),
        (COMMAND.replace("book/audit", "book/audits"), "is no chapter"),
        (COMMAND.replace("book/audit", "audit"), "is not in book"),
        (COMMAND.replace("out.ipynb", "out.html"), "no output"),
        (f"{COMMAND} --parameter-file x", "No such option"),
        (f"{COMMAND} -p level", "requires 2 arguments"),
    ],
)
def test_wrong_command_fails(command, message):
    errors = (AssertionError, ParameterError, OSError, click.ClickException)
    with pytest.raises(errors) as caught:
        given_parameters(command)
    assert message in getattr(caught.value, "message", str(caught.value))
