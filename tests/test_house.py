"""The rules of the house: arrows go one way, formulas are light, packages stay small."""

import ast
import re
import runpy
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lib.book.chapters import chapter_files, code_cells, read_chapter
from lib.book.exercises import LESSON, by_itself

ROOT = Path(__file__).parents[1]
LIB = ROOT / "lib"
MAP = runpy.run_path(str(ROOT / ".ci" / "architecture"))
files, imports, parsed = MAP["files"], MAP["imports"], MAP["parsed"]
FORMULAS = ("selective", "suitability", "audit", "counterfactual", "privacy")
TOOLS = {"bounds", "check", "plot", "ties"}
BELOW = {
    **dict.fromkeys(FORMULAS, TOOLS),
    "bounds": set(),
    "check": set(),
    "extras": set(),
    "plot": set(),
    "ties": set(),
    "runs": {"check"},
    "data": {"check", "runs"},
    "training": {"check", "extras", "ties", "runs", "data", "privacy", "audit"},
    "studies": {*TOOLS, *FORMULAS, "extras", "runs", "data", "training"},
    "report": {*TOOLS, *FORMULAS, "runs", "data", "training"},
    "canaries": {"audit"},  # the name that an issue asked for
}
HEAVY = {"torch", "opacus", "IPython", "matplotlib", "seaborn"}


@pytest.mark.parametrize("package", BELOW)
def test_arrows_go_one_way(package):
    assert files(package)
    for path in files(package):
        seen = {name.split(".")[1] for name in imports(path) if name.startswith("lib.")}
        assert seen - {package, "__version__"} <= BELOW[package], path


def test_experiments_of_the_papers_need_none_beyond_them():
    beyond = {*(ROOT / "lib/studies/beyond").rglob("*.py")}
    assert len(beyond) >= 8
    for path in {*files("studies")} - beyond:
        assert not any(name.startswith("lib.studies.beyond") for name in imports(path)), path


def test_every_package_has_its_place():
    here = {p.stem for p in (ROOT / "lib").iterdir() if p.suffix == ".py" or p.is_dir()}
    assert here - {"__init__", "__pycache__"} == {*BELOW, "book"}


def test_the_map_shows_the_arrows_that_there_are(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["architecture"])
    assert (MAP["main"](), capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize("package", FORMULAS)
def test_formulas_import_nothing_heavy_at_their_top(package):
    for path in files(package):
        assert not {name.split(".")[0] for name in imports(path, top=True)} & HEAVY, path


def test_modules_form_no_cycle():
    """Imports at the top of modules, followed from each module."""
    below = {}
    for path in sorted((ROOT / "lib").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if not path.name.startswith("__"):
            below[name] = {n for n in imports(path, top=True) if n.startswith("lib.")}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name in done:
            return
        for other in sorted(below.get(name, ())):
            visit(other, (*above, name))
        done.add(name)

    for name in below:
        visit(name, ())


def only_types(node):
    """Whether a statement imports what annotations name, and does nothing when it is run."""
    return isinstance(node, ast.If) and (
        ast.unparse(node.test) == "TYPE_CHECKING"
        and not node.orelse
        and all(isinstance(each, ast.Import | ast.ImportFrom) for each in node.body)
    )


def only_raises(node: ast.AST) -> bool:
    """Whether a module says of itself that it cannot be imported here."""
    return isinstance(node, ast.If) and not node.orelse and isinstance(node.body[0], ast.Raise)


def test_importing_a_module_changes_no_other():
    for path in LIB.rglob("*.py"):
        if "book" in path.parts or "examples" in path.parts or path.name == "__main__.py":
            continue
        for node in parsed(path).body:
            odd = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
            fine = only_types(node) or only_raises(node)
            odd |= isinstance(node, (ast.For, ast.While, ast.If)) and not fine
            # Only where nothing can be written; it changes where others write, not what they do.
            if odd and path == LIB / "__init__.py":
                odd = ast.unparse(node) != "_lend_folders()"
            assert not odd, f"{path}, line {node.lineno}: {ast.unparse(node)[:60]}"


MOST = {"exports": 40, "modules": 600, "functions": 60, "parameters": 8}
EXCEPTIONS = yaml.safe_load((ROOT / "tests" / "limits.yml").read_text(encoding="utf-8"))


def exports(tree: ast.Module, text: str) -> Iterator[tuple[str, int]]:
    """The length of a package's ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield "", len(ast.literal_eval(node.value))


def functions(tree: ast.Module, text: str) -> Iterator[tuple[str, int]]:
    """Lines of code of functions: no docstring, comment or blank line."""
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = node.body[ast.get_docstring(node) is not None :]
            body = lines[first[0].lineno - 1 : node.end_lineno] if first else []
            head = lines[node.lineno - 1 : node.body[0].lineno - 1]
            code = [line for line in head + body if line.strip() and line.strip()[0] != "#"]
            yield f"::{node.name}", len(code)


def parameters(tree: ast.Module, text: str) -> Iterator[tuple[str, int]]:
    """Numbers of parameters of functions, without ``self``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = node.args
            names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            names += [a.arg for a in (given.vararg, given.kwarg) if a]
            yield f"::{node.name}", len([name for name in names if name not in ("self", "cls")])


def modules(tree: ast.Module, text: str) -> Iterator[tuple[str, int]]:
    """Lines of a module."""
    yield "", len(text.splitlines())


def test_nothing_exceeds_a_limit_but_what_is_named():
    """An exception names what there was, as its own limit, and why."""
    too_many, seen = [], {kind: set() for kind in MOST}
    for path in sorted((ROOT / "lib").rglob("*.py")):
        text, inside = path.read_text(encoding="utf-8"), path.relative_to(ROOT / "lib")
        tree = parsed(path)
        for measure in (exports, modules, functions, parameters):
            kind = measure.__name__
            if kind == "exports" and (inside.name, len(inside.parts)) != ("__init__.py", 2):
                continue
            for name, number in measure(tree, text):
                place = f"{inside.as_posix()}{name}"
                seen[kind].add(place)
                if number > EXCEPTIONS[kind].get(place, {"now": MOST[kind]})["now"]:
                    too_many.append(f"{kind}: {place}: {number}")
    assert too_many == []
    assert all(seen.values())
    for kind, named in EXCEPTIONS.items():
        assert {*named} <= seen[kind], "an exception for what is gone"
        for exception in named.values():
            assert exception["now"] > MOST[kind]
            assert exception["why"]


CHAPTERS = chapter_files(ROOT / "book")
# Lines of a chapter without its exercises, and of these, of its longest code cell, of the median
# one, and of the longest lesson.
LIMITS = {"lines": 680, "exercises": 90, "longest": 40, "median": 12, "lesson": 8}
# Chapters that exceed one, with their present number, which may only fall.
LONGER = {
    "training": {"median": 13},
    "suitability_guarantee": {"lines": 754},  # two pages that became one
}


def test_exceptions_are_of_chapters():
    assert set(LONGER) <= set(CHAPTERS)


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapters_are_read_in_a_sitting(name):
    text = CHAPTERS[name].read_text(encoding="utf-8")
    exercises = re.search(r"^# ## Exercises\n.*?(?=^# ## )", text, re.MULTILINE | re.DOTALL)[0]
    cells = [c for c in code_cells(read_chapter(text)) if not by_itself(c["tags"])]
    sizes = [len(cell["source"].splitlines()) for cell in cells]
    lessons = [len(c["source"].splitlines()) for c in cells if LESSON in c["tags"]]
    size = {
        "lines": len(text.splitlines()) - len(exercises.splitlines()),
        "exercises": len(exercises.splitlines()),
        "longest": max(sizes),
        "median": statistics.median(sizes),
        "lesson": max(lessons, default=0),
    }
    allowed = LIMITS | LONGER.get(name, {})
    assert {key: n for key, n in size.items() if n > allowed[key]} == {}


# What a lesson may call; P4's code is the authors', of which a study has the copy.
TAUGHT = ("audit", "counterfactual", "privacy", "selective", "suitability", "training")
TAUGHT = tuple(f"lib.{name}." for name in (*TAUGHT, "studies.counterfactual.public_code"))


def lessons() -> Iterator[tuple[str, str, list[str]]]:
    """Chapters with their lessons, and the names that they have from what may be called."""
    for chapter, path in CHAPTERS.items():
        cells = code_cells(read_chapter(path.read_text(encoding="utf-8")))
        imports = [n for c in cells for n in ast.walk(ast.parse(c["source"]))]
        imports = [n for n in imports if isinstance(n, ast.ImportFrom)]
        names = [(f"{n.module}.{a.name}.", a.asname or a.name) for n in imports for a in n.names]
        taught = [name for source, name in names if source.startswith(TAUGHT)]
        yield from ((chapter, c["source"], taught) for c in cells if LESSON in c["tags"])


@pytest.mark.parametrize(("chapter", "source", "taught"), list(lessons()))
def test_a_lesson_calls_what_a_reader_would(chapter, source, taught):
    """Code that only serves the page is closed."""
    calls = [n.func for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    assert {ast.unparse(call).split(".")[0] for call in calls} & {*taught}, (chapter, source)
