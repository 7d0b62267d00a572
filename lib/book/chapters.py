"""Chapters as files: where they are, what they hold."""

import ast
import copy
import functools
import io
import json
import math
import shlex
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import yaml
from sphinx_external_toc.parsing import parse_toc_yaml

from lib.book.exercises import LESSON
from lib.book.parameters import Parameter, ParameterError, parse_parameters, validate_parameters
from lib.data.untrusted import read_yaml

PROFILES = ("quick", "standard", "gpu")


def read_chapter(text: str) -> nbformat.NotebookNode:
    """Turn a percent-format chapter into a notebook with stable cell ids."""
    return copy.deepcopy(_parsed(text))  # whoever changes it has a notebook of their own


@functools.lru_cache(maxsize=64)  # a build reads each chapter several times, at 0.1 s
def _parsed(text: str) -> nbformat.NotebookNode:
    notebook = jupytext.reads(text, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # jupytext draws them anew at each reading
        if cell.cell_type == "markdown" and (title := cell.metadata.get("title")):
            raise ValueError(f"text after [markdown] in the same line is shown nowhere: {title!r}")
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    notebook.metadata.setdefault("language_info", {"name": "python"})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def chapter_files(book: Path) -> dict[str, Path]:
    """Name and file of every chapter that ``_toc.yml`` lists, in its order.

    A chapter is named after its file, in whatever folder of the book that lies.
    """
    places = [name.removesuffix(".py") for name in parse_toc_yaml(book / "_toc.yml")]
    found = [path for place in places if (path := book / f"{place}.py").exists()]
    files = {path.stem: path for path in found}
    if len(files) < len(found):
        twice = next(path for path in found if files[path.stem] != path)
        raise ValueError(f"two chapters are named {twice.stem}: {twice}, {files[twice.stem]}")
    return files


def book_of(path: Path) -> Path:
    """The folder of the book that a chapter's file belongs to."""
    return next((p for p in path.parents if (p / "_toc.yml").exists()), path.parent)


def code_cells(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """Source and tags of the code cells: all of a chapter that can change a number."""
    return [
        {"source": cell.source, "tags": sorted(cell.metadata.get("tags", []))}
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def computed_by(cell: Mapping[str, Any]) -> Any:
    """What decides about the outputs of a code cell: its code without comments and blank lines.

    Comments of the cell that declares parameters say what is allowed; who knows what those in a
    command of IPython say: there the text itself decides.  Of tags those that only show or hide
    parts of a page decide nothing.
    """
    aside = ("hide-", "remove-", LESSON)
    tags = [tag for tag in cell["tags"] if not tag.startswith(aside)]
    source, parts = cell["source"], None
    try:
        ast.parse(source)
    except SyntaxError:
        return [tags, source]
    if "parameters" not in tags:
        aside = (tokenize.COMMENT, tokenize.NL)
        tokens = tokenize.generate_tokens(io.StringIO(source + "\n").readline)
        parts = [[token.type, token.string] for token in tokens if token.type not in aside]
    return [tags, parts or source]


def declared_parameters(notebook: nbformat.NotebookNode) -> tuple[Parameter, ...]:
    """Return what the cell tagged ``parameters`` declares; nothing where there is none."""
    cells = [c for c in code_cells(notebook) if "parameters" in c["tags"]]
    if len(cells) > 1:
        raise ParameterError(f"{len(cells)} cells are tagged parameters; one is allowed")
    return parse_parameters(cells[0]["source"]) if cells else ()


def parameter_files(book: Path, profile: str) -> list[str]:
    """Names of a profile's parameter files, in the order of the chapters."""
    files = [path.stem for path in (book.parent / "params" / profile).glob("*.yml")]
    order = list(chapter_files(book))
    return sorted(files, key=lambda file: (order.index(chapter_of(file)), file))


def chapter_of(file: str) -> str:
    """The chapter that a parameter file is for."""
    return file.partition(".")[0]


def profile_parameters(params: Path, profile: str, chapter: str) -> dict[str, Any]:
    """Content of ``params/<profile>/<chapter>.yml``; empty where the file is absent."""
    if profile not in PROFILES:
        raise ParameterError(
            f"profile = {profile!r} is not allowed: it must be one of {', '.join(PROFILES)}"
        )
    path = params / profile / f"{chapter}.yml"
    if not path.exists():
        return {}
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        json.dumps(content)  # dates and the like have no place in a parameter file
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{path} is no plain YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ParameterError(f"{path} must map names to values, not {type(content).__name__}")
    return content


def reproducing(
    chapter: str, params: Path, declared: Sequence[Parameter], given: Mapping[str, Any]
) -> str:
    """The papermill command that executes a chapter with the parameters of a run.

    It names a file of `params` if one gives them; a parameter that is newer than the run is left
    as the file has it, and one that the chapter no longer has is left out.
    """
    book = params.parent / "book"
    listed = chapter_files(book) if (book / "_toc.yml").exists() else {}
    place = listed.get(chapter, book / f"{chapter}.py").relative_to(book.parent).as_posix()
    start = f"papermill {place} out.ipynb"
    known = {each.name for each in declared}
    given = {name: value for name, value in given.items() if name in known}
    if not given:
        return start
    for profile in PROFILES:
        if (params / profile / f"{chapter}.yml").exists():
            found = validate_parameters(declared, profile_parameters(params, profile, chapter))
            if {name: found.get(name) for name in given} == dict(given):
                return f"{start} -f params/{profile}/{chapter}.yml"
    # As YAML, which reads 1e-05 as text; quoted, since values are whatever was given.
    style = {"default_flow_style": True, "sort_keys": False, "width": math.inf}
    return f"{start} -y {shlex.quote(yaml.safe_dump(dict(given), **style).strip())}"
