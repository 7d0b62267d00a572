"""A throw-away book of up to two chapters, built end to end with a copy of ``lib``."""

import ctypes
import functools
import gc
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[2]

# What every build imports, but nothing that imports lib, of which a throw-away book has a copy.
IMPORTED = [
    *("fontTools.subset", "ipykernel.kernelapp", "jupyter_book.cli.main", "jupytext"),
    *("matplotlib.pyplot", "myst_nb.sphinx_ext", "nbclient", "numpy", "pandas", "PIL.Image"),
    *("pooch", "requests", "scipy.optimize", "scipy.special", "scipy.stats", "seaborn"),
    *("sphinx.application", "sphinx.builders.html", "sphinx_book_theme", "sphinx_copybutton"),
    *("sphinx_design", "sphinx_external_toc", "sphinx_jupyterbook_latex", "sphinx_togglebutton"),
    *("sphinxcontrib.bibtex", "tenacity", "threadpoolctl", "tqdm", "yaml"),
]

ONE = """# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3}
# ---
# %% [markdown]
# # Chapter one
# Prose says {value}`one.double:.1f`.

# %% tags=["parameters"]
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

# The other claim is of no statement of a paper: one of our own.
STATEMENTS = """- {id: P1-T, paper: P1, kind: table, place: Table 1, says: Doubling is so.,
   where: [one], claims: [T-1]}
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

    def command(self, *arguments: str) -> list[str]:
        program = str(Path(sys.executable).parent / "jupyter-book")
        return [program, "build", *(arguments or ("book",))]

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, fails: bool = False, **extra: str) -> str:
        """Build by the command itself."""
        process = self.start(*arguments, **extra)
        output = process.communicate(timeout=900)[0]
        assert (process.returncode != 0) == fails, output
        return output

    def build(self, *arguments: str, fails: bool = False, **extra: str) -> str:
        """Do what the command does in a fork of a process that has imported what it imports.

        Two thirds of the processor time of a build that executes nothing are imports. What is
        measured (by coverage) is the command: coverage settles which `lib` it looks at when a
        process begins.
        """
        if "COVERAGE_PROCESS_CONFIG" in os.environ:
            return self.run(*arguments, fails=fails, **extra)
        return self._fork(_build, self.command(*arguments), fails, **extra)

    def make(self) -> str:
        """What ``python -m lib.book build`` prints, to standard error too; its build is a fork."""
        if "COVERAGE_PROCESS_CONFIG" in os.environ:
            command, both = [sys.executable, "-m", "lib.book", "build"], subprocess.STDOUT
            given = {"cwd": self.root, "env": self.environment(), "text": True}
            return subprocess.run(command, check=True, stdout=-1, stderr=both, **given).stdout
        return self._fork(_make, [], False)

    def noted(self, **extra: str) -> str:
        """Build as ``python -m lib.book build`` does, which has a build leave a note."""
        return self._fork(_noted, self.command("-W", "book"), False, **extra)

    def build_from_elsewhere(self) -> str:
        """Build from another folder, by another spelling, without a home and for oneself alone."""
        spelled = f"{self.root.name}/../{self.root.name}/book"
        return self._fork(_elsewhere, self.command(spelled), False)

    def run_as_others(self, *command: str, fails: bool = False, **extra: str) -> str:
        """A command, of `COMMANDS`, of somebody who may write only where the modes of files say."""
        return self._fork(_as_others, [*command], fails, **extra)

    def inside(self, what: Callable[[], Any], **extra: str) -> Any:
        """What a function of a test's module, which imports lib itself, gives in a fork."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "given.json")
            self._fork(functools.partial(_give, what), [str(file)], False, **extra)
            return json.loads(file.read_text())

    def stale(self) -> list[str]:
        """The chapters that a build would execute; none is executed."""
        return self.inside(stale)

    def kill_when(self, file: Path) -> None:
        """Kill a build as soon as a file is there."""
        with tempfile.NamedTemporaryFile() as said:
            process = self._begin(_build, self.command(), said.name)
            while not file.exists():
                assert process.is_alive(), Path(said.name).read_text(encoding="utf-8")
                time.sleep(0.01)
            process.kill()
            process.join(60)

    def _begin(self, what: Callable, command: list[str], said: str, **extra: str) -> BaseProcess:
        context = _forks()
        server = forkserver._forkserver._forkserver_address
        arguments = (what, command, self.root, self.environment(**extra), said, server)
        process = context.Process(target=_become, args=arguments)
        process.start()
        return process

    def _fork(self, what: Callable, command: list[str], fails: bool, **extra: str) -> str:
        with tempfile.NamedTemporaryFile() as said:
            process = self._begin(what, command, said.name, **extra)
            process.join(900)
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
    forkserver.ensure_running()
    return context


def _fork_kernels(server: str) -> None:
    """Have kernels, too, be forks of the process that has imported what they import but lib."""
    forkserver._forkserver._forkserver_address = server
    forkserver._forkserver.ensure_running = forkserver.ensure_running = lambda: None
    from lib.book import kernels

    kernels.ChapterKernelManager = kernels.ForkedKernelManager


def _become(
    what: Callable,
    command: list[str],
    root: Path,
    environment: dict[str, str],
    said: str,
    server: str,
) -> None:
    """Be a process that is started with this command, folder and environment."""
    assert "lib" not in sys.modules
    gc.freeze()  # what was imported is looked through no more
    gc.set_threshold(100_000)
    with open(said, "wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(root)
    sys.path.insert(0, str(root))
    _fork_kernels(server)
    what(command)


def _build(command: list[str]) -> None:
    sys.argv = command
    from jupyter_book.cli.main import main

    sys.exit(main())


class _Forked:
    """A build that is a fork, to ``lib.book``, which starts it as another program."""

    def __init__(self, command: list, *, env: dict[str, str], **_):
        end, own = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(end)
            os.dup2(own, 1)
            os.environ.clear()
            os.environ.update(env)
            code = 1
            try:
                _build([*map(str, command)])
            except SystemExit as ended:
                code = ended.code or 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.close(own)
        self.stdout = os.fdopen(end, encoding="utf-8")

    def __enter__(self) -> "_Forked":
        return self

    def __exit__(self, *_) -> None:
        self.stdout.close()
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _make(command: list[str]) -> None:
    from lib.book import __main__

    __main__.subprocess = SimpleNamespace(Popen=_Forked, PIPE=subprocess.PIPE)
    sys.exit(__main__.main(["build"]))


def _give(what: Callable[[], Any], command: list[str]) -> None:
    Path(command[0]).write_text(json.dumps(what()))


def _elsewhere(command: list[str]) -> None:
    os.chdir("..")
    os.umask(0o077)
    del os.environ["HOME"]
    _build(command)


#: Commands, and where their functions are.
COMMANDS = {"jupyter-book": "jupyter_book.cli.main:main", "papermill": "papermill.cli:papermill"}


def _as_others(command: list[str]) -> None:
    """Without the right that root has over all files, end as a command does."""
    system, number = ctypes.CDLL(None), ctypes.c_uint32
    if os.getuid() == 0:
        header, rights = (number * 2)(0x20080522), (number * 6)()  # the kernel's third version
        system.capget(header, rights)
        for kind in (0, 1):  # in force, and permitted, which is what access(2) looks at
            rights[kind] &= ~(1 << 1)  # dac_override
        assert system.capset(header, rights) == 0
    module, _, name = COMMANDS[command[0]].partition(":")
    sys.argv = command
    try:
        sys.exit(getattr(importlib.import_module(module), name)())
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def _noted(command: list[str]) -> None:
    from lib.book.unchanged import NOTED, state_of_sources

    os.environ[NOTED] = state_of_sources(Path("book"))
    _build(command)


def stale() -> list[str]:
    """Chapters that a build here would execute, or what it cannot do."""
    from lib.book import chapters, execute

    paths = chapters.chapter_files(Path("book").absolute()).items()
    profile = os.environ["COMPANION_PROFILE"]
    try:
        return [name for name, path in paths if not execute._is_stored(path, profile)]
    except execute.USER_ERRORS as error:
        return [type(error).__name__]


@contextmanager
def edited(file: str, change: Callable[[bytes], bytes] = lambda old: old + b"\n") -> Iterator[None]:
    """A file with other content, or a new one; afterwards as it was."""
    path = Path(file)
    old = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(change(old or b""))
    yield
    path.unlink() if old is None else path.write_bytes(old)


@contextmanager
def without(file: str) -> Iterator[None]:
    """A file that is gone; afterwards it is there again."""
    old = Path(file).read_bytes()
    Path(file).unlink()
    yield
    Path(file).write_bytes(old)


def executed(output: str) -> int:
    """How many chapters a build executed, as it says itself."""
    return int(re.search(r"chapters: (\d+) executed", output)[1])


def make_book(root: Path, *names: str) -> Book:
    """Write the throw-away book under ``root`` with chapters of these names."""
    from lib.book.assets import KEPT  # not in processes that are forked
    from lib.runs.imports import needed

    book = root / "book"
    book.mkdir(parents=True)
    # With its bytecode, which the copies' sizes and times fit, and what was read of its code; what
    # numba compiled is by its path.
    needed("lib.book.sphinx_ext").fingerprint()
    shutil.copytree(
        ROOT / "lib", root / "lib", ignore=shutil.ignore_patterns("*.nb?", "*.tmp", ".imports*")
    )
    if (letters := ROOT / "book" / "_build" / KEPT).exists():
        shutil.copytree(letters, book / "_build" / KEPT)
    numbers = Book(root).numbers
    numbers.parent.mkdir(parents=True)
    numbers.write_bytes(NUMBERS)
    add_data(root, NUMBERS)
    shutil.copy(ROOT / "_config.yml", book)
    (book / "references.bib").write_text("")
    toc = "format: jb-book\nroot: index\nparts:\n  - caption: Read\n    chapters:\n" + "".join(
        f"      - file: {name}\n" for name in (*names, "reproduces")
    )
    (book / "_toc.yml").write_text(toc)
    (book / "index.md").write_text(INDEX if names else "# A book\n")
    for name in names:
        (book / f"{name}.py").write_text({"one": ONE, "two": TWO}[name])
    (book / "reproduces.md").write_text("# Ledger\n\n```{ledger}\n```\n")
    claims = (f"- {each}" for each in CLAIMS.split("- ")[1:])
    own = "".join(each for each in claims if any(f"chapter: {name}," in each for name in names))
    (book / "claims.yml").write_text(own)
    (book / "statements.yml").write_text(STATEMENTS if "one" in names else "")
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
