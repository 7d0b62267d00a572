"""A throw-away book of two chapters, built end to end with a copy of ``lib``."""

import functools
import hashlib
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What every build imports, but nothing that imports lib, of which a throw-away book has a copy.
IMPORTED = [
    *("jupyter_book.cli.main", "jupytext", "matplotlib.pyplot", "myst_nb.sphinx_ext"),
    *("nbclient", "numpy", "pandas", "pooch", "sphinx.application", "sphinx.builders.html"),
    *("sphinx_book_theme", "sphinx_copybutton", "sphinx_design", "sphinx_external_toc"),
    *("sphinx_jupyterbook_latex", "sphinx_togglebutton", "sphinxcontrib.bibtex", "yaml"),
]

ONE = """# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3}
# ---
# %% [markdown]
# # Chapter one
# Prose says {value}`one.double:.1f`.

# %% tags=["parameters", "hide-input"]
base: float = 2.0  # [0, 100] what is doubled
names: list[str] = ["a"]  # {a, b} labels

# %%
from lib import data
from lib.book.session import open_chapter

chapter = open_chapter("one", globals())

# %%
double = 2 * base
chapter.values(double=double, has_data=int(data.available("throwaway/numbers")))
print("double is", double)

# %%
_ = chapter.check("T-1", double)
"""

TWO = """# %% [markdown]
# # Chapter two
# It quotes {value}`one.double:.2f` of the other chapter.

# %%
from lib.book.session import open_chapter

chapter = open_chapter("two", globals())
chapter.values(seven=7)
_ = chapter.check("T-2", 7)
"""

CLAIMS = """- {id: T-1, paper: P1, chapter: one, place: Table 1, claim: It is four., kind: exact,
   reported: 4.0, tolerance: 0.001, why: arithmetic., full_scale: {base: 2.0}}
- {id: T-2, paper: P2, chapter: two, place: Table 2, claim: At least five., kind: exact,
   at_least: 5, why: arithmetic.}
"""

INDEX = """# A book

Chapter one found {value}`one.double:.3f` and {value}`one.has_data:d` file of data.
"""
REGISTRY = """
  - prefix: throwaway/
    url: https://raw.githubusercontent.com/nobody/nothing/0/
    licence: none
    citation: none
    chapters: [one, two]
    files:
      - name: numbers
        path: numbers.txt
        title: Numbers of the throw-away book
        sha256: {sha256}
        size: {size}
"""
NUMBERS = b"1 2 3\n"


@dataclass
class Book:
    """The book, how to edit it, and how to build it."""

    root: Path

    @property
    def numbers(self) -> Path:
        """The data file that is declared for both chapters; chapter one asks for it."""
        return self.root / "mirror" / "nobody" / "nothing" / "0" / "numbers.txt"

    @property
    def html(self) -> Path:
        return self.root / "book" / "_build" / "html"

    def environment(self, **extra: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("COMPANION_")}
        return kept | {
            "PYTHONPATH": str(self.root),
            "COMPANION_DATA": str(self.root / "mirror"),
            "COMPANION_CACHE": str(self.root / "pooch"),
            "COMPANION_OFFLINE": "1",
            "COMPANION_PROFILE": "quick",
            **extra,
        }

    def command(self) -> list[str]:
        return [str(Path(sys.executable).parent / "jupyter-book"), "build", "book"]

    def start(self, **extra: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(),
            cwd=self.root,
            env=self.environment(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, fails: bool = False, **extra: str) -> str:
        """Build by the command itself."""
        process = self.start(**extra)
        output = process.communicate(timeout=300)[0]
        assert (process.returncode != 0) == fails, output
        return output

    def build(self, fails: bool = False, **extra: str) -> str:
        """Do what the command does in a fork of a process that has imported what it imports.

        Two thirds of the processor time of a build that executes nothing are imports. What is
        measured (`make coverage`) is the command: coverage settles which `lib` it looks at when a
        process begins.
        """
        if "COVERAGE_PROCESS_CONFIG" in os.environ:
            return self.run(fails, **extra)
        with tempfile.NamedTemporaryFile() as said:
            arguments = (self.command(), self.root, self.environment(**extra), said.name)
            process = _forks().Process(target=_build, args=arguments)
            process.start()
            process.join(300)
            output = Path(said.name).read_text(encoding="utf-8")
        if process.exitcode is None:
            process.kill()
        assert process.exitcode is not None, output
        assert (process.exitcode != 0) == fails, output
        return output

    def page(self, name: str) -> str:
        return (self.html / f"{name}.html").read_text(encoding="utf-8")

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.root / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def site_state(self) -> dict[str, str]:
        return {
            str(p.relative_to(self.html)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(self.html.rglob("*"))
            if p.is_file()
        }


@functools.cache
def _forks() -> BaseContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context


def _build(command: list[str], root: Path, environment: dict[str, str], said: str) -> None:
    """What a process does that is started with this command, folder and environment."""
    assert "lib" not in sys.modules
    with open(said, "wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(root)
    sys.path.insert(0, str(root))
    sys.argv = command
    from jupyter_book.cli.main import main

    sys.exit(main())


def executed(output: str) -> int:
    """How many chapters a build executed, as it says itself."""
    return int(re.search(r"chapters: (\d+) executed", output)[1])


def make_book(root: Path) -> Book:
    """Write the throw-away book under ``root``."""
    book = root / "book"
    book.mkdir(parents=True)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "lib", root / "lib", ignore=ignore)
    numbers = Book(root).numbers
    numbers.parent.mkdir(parents=True)
    numbers.write_bytes(NUMBERS)
    add_data(root, NUMBERS)
    shutil.copy(ROOT / "_config.yml", book)
    (book / "references.bib").write_text("")
    toc = "format: jb-book\nroot: index\nchapters:\n" + "".join(
        f"  - file: {name}\n" for name in ("one", "two", "ledger")
    )
    (book / "_toc.yml").write_text(toc)
    (book / "index.md").write_text(INDEX)
    (book / "one.py").write_text(ONE)
    (book / "two.py").write_text(TWO)
    (book / "ledger.md").write_text("# Ledger\n\n```{ledger}\n```\n\n```{build-status}\n```\n")
    (book / "claims.yml").write_text(CLAIMS)
    for profile, base in (("quick", 2.0), ("standard", 20.0)):
        folder = root / "params" / profile
        folder.mkdir(parents=True)
        (folder / "one.yml").write_text(f"base: {base}\n")
    return Book(root)


def add_data(root: Path, content: bytes) -> None:
    """Register a small file in the copy of the registry."""
    path = root / "lib" / "data" / "registry.yml"
    entry = REGISTRY.format(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    path.write_text(path.read_text(encoding="utf-8") + entry, encoding="utf-8")
