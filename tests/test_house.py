"""The rules of the house: arrows go one way, formulas are light, packages stay small."""

import runpy
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lib.book.chapters import chapter_files, code_cells, read_chapter

ROOT = Path(__file__).parents[1]
MAP = runpy.run_path(str(ROOT / ".ci" / "architecture"))
files, imports = MAP["files"], MAP["imports"]
FORMULAS = ("selective", "suitability", "audit", "counterfactual", "privacy")
TOOLS = {"check", "plot", "ties"}
BELOW = {
    **dict.fromkeys(FORMULAS, TOOLS),
    "check": set(),
    "plot": set(),
    "ties": set(),
    "runs": {"check"},
    "data": {"check", "runs"},
    "training": {"check", "ties", "runs", "data", "privacy"},
    "studies": {*TOOLS, *FORMULAS, "runs", "data", "training"},
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


def test_every_package_has_its_place():
    here = {p.stem for p in (ROOT / "lib").iterdir() if p.suffix == ".py" or p.is_dir()}
    assert here - {"__init__", "__pycache__"} == {*BELOW, "book"}


def test_the_map_shows_the_arrows_that_there_are():
    command = [sys.executable, ROOT / ".ci" / "architecture"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("package", FORMULAS)
def test_formulas_import_nothing_heavy_at_their_top(package):
    for path in files(package):
        assert not {name.split(".")[0] for name in imports(path, top=True)} & HEAVY, path


@pytest.mark.parametrize("package", FORMULAS)
def test_formulas_load_nothing_heavy(package):
    code = (
        f"import sys, lib.{package}; "
        "print(*{'torch', 'opacus', 'IPython', 'matplotlib.pyplot'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


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


BUDGETS = yaml.safe_load((ROOT / "tests" / "budgets.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", BUDGETS)
def test_packages_keep_to_their_budgets(package):
    lines = 0
    for path in (ROOT / "lib" / package).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".png":
            lines += len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= BUDGETS[package]["now"]


def test_every_package_has_a_budget():
    packages = {path.parent.name for path in (ROOT / "lib").glob("*/__init__.py")}
    assert packages == set(BUDGETS)


CHAPTERS = chapter_files(ROOT / "book")
# Lines of a chapter, of its longest code cell and of the median one; fraction of cells hidden.
LIMITS = {"lines": 700, "longest": 40, "median": 12, "hidden": 0.25}
# Chapters that exceed one, with their present number, which may only fall.
LONGER = {
    "training": {"median": 13, "hidden": 0.47},
    "your_model": {"hidden": 1.0},  # a form to fill in
}


def test_exceptions_are_of_chapters():
    assert set(LONGER) <= set(CHAPTERS)


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapters_are_read_in_a_sitting(name):
    text = CHAPTERS[name].read_text(encoding="utf-8")
    cells = code_cells(read_chapter(text))
    sizes = [len(cell["source"].splitlines()) for cell in cells]
    hidden = [cell for cell in cells if {"hide-input", "hide-cell"} & set(cell["tags"])]
    size = {
        "lines": len(text.splitlines()),
        "longest": max(sizes),
        "median": statistics.median(sizes),
        "hidden": len(hidden) / len(cells),
    }
    allowed = LIMITS | LONGER.get(name, {})
    assert {key: n for key, n in size.items() if n > allowed[key]} == {}
