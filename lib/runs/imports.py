"""Which code a result depends on: modules of ``lib``, found by following what they import.

What a package's ``__init__`` only passes on is looked for where it is written: ``from lib.audit
import Trials`` depends on the module that has ``Trials``, not on all of ``lib.audit``.  Where the
text of the code does not tell, more counts rather than less: a package that is handed around, as in
``getattr(audit, name)``, counts with all that it imports; a text that is the name of a module or of
something in one is taken for an import of it, as in ``[sys.executable, "-m", "lib.data"]``; code
that imports by names it computes needs all of ``lib``.
"""

import ast
import contextlib
import gc
import hashlib
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

import lib
from lib.runs.files import write_atomic

_NAMED = re.compile(r"\blib(?:\.\w+)+")
# Functions that import what a text says, those that run a text, and those that hand all names on.
_COMPUTED, _RUN = {"import_module", "run_module", "run_path"}, {"__import__", "exec", "eval"}
_ALL_NAMES = {"globals", "locals", "vars"}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_OWN_PLACE = {"__file__", "__package__", "__path__"}
_OF_PACKAGES = ("__all__", "__version__")  # what a package may set without having code of its own


class Import(NamedTuple):
    """A module that is imported as a whole (`name` None), or a name of it."""

    module: str
    name: str | None = None


class Needed(NamedTuple):
    """Modules that some code needs, and which module has each name that a package passed on."""

    modules: tuple[str, ...]
    names: tuple[tuple[Import, Import], ...]

    def fingerprint(self, files: bool = False) -> str:
        """SHA-256 of the code, and of other `files` that it names and that lie beside it.

        Comments, docstrings and the layout of code change nothing.
        """
        digest = hashlib.sha256(repr(self.names).encode())
        for module in self.modules:
            path = source_file(module)
            for each in (path, *(_beside(path) if files and module.startswith("lib") else ())):
                digest.update(f"{module}/{each.name}\0".encode())
                content = each.read_bytes()
                is_code = each.suffix == ".py"
                digest.update(_read(content)[1] if is_code else hashlib.sha256(content).digest())
        return digest.hexdigest()


@cache
def needed(*modules: str) -> Needed:
    """What modules need of ``lib``, directly or not; of other packages they themselves alone.

    Raises
    ------
    ValueError
        If one of `modules` is written in no file.
    """
    for module in modules:
        if source_file(module) is None:
            raise ValueError(
                "a job must be written in a file, or say by `modules` whose code counts, got one"
                f" of {module!r}"
            )
    return _follow(Import(module) for module in modules)


def needed_by(code: Iterable[str], *modules: str) -> Needed:
    """What pieces of Python code need of ``lib``, and modules by whose help they are run."""
    try:
        found = list(_imports(ast.parse("\n".join(code))))  # cells know each other's names
    except SyntaxError:  # a command of IPython: who knows what it runs
        found = _everything()
    return _follow([*found, *(Import(module) for module in modules)])


def _follow(begun: Iterable[Import]) -> Needed:
    found: set[str] = set()
    names: set[tuple[Import, Import]] = set()
    waiting, seen = list(begun), set()
    find = cache(source_file)
    while waiting:
        one = waiting.pop()
        if one in seen:  # most: modules import the same
            continue
        seen.add(one)
        if one.name is not None:
            where = _where(one, find)
            names |= {(one, each) for each in where if each.name is not None}
            waiting.extend(where)
        elif (file := find(one.module)) is not None:
            found.add(one.module)
            waiting.extend(_imports_of(file))
    _kept().keep()
    return Needed(tuple(sorted(found)), tuple(sorted(names)))


def source_file(module: str) -> Path | None:
    """Where a module is written; None if there is none of that name."""
    if module.partition(".")[0] != "lib":
        file = getattr(sys.modules.get(module), "__file__", None)
        return None if file is None else Path(file)
    root = os.path.dirname(os.path.dirname(lib.__file__))  # hundreds of times a chapter
    path = os.path.join(root, *module.split("."))
    found = filter(os.path.isfile, (os.path.join(path, "__init__.py"), f"{path}.py"))
    return next(map(Path, found), None)


def _everything() -> list[Import]:
    root = Path(lib.__file__).parents[1]
    paths = (p.relative_to(root).with_suffix("") for p in _modules())
    names = {".".join(p.parts).removesuffix(".__init__") for p in paths}
    return [Import(name) for name in sorted(names) if source_file(name)]


def _imports_of(file: Path) -> tuple[Import, ...]:
    return _read(file.read_bytes())[0]


_Found = tuple[tuple[Import, ...], bytes]


@cache
def _read(code: bytes) -> _Found:
    """What a module imports, and SHA-256 of what Python makes of it, docstrings aside."""
    kept, name = _kept(), hashlib.sha256(code).hexdigest()
    if name not in kept.found:
        imported, digest = _parsed(code)
        kept.found[name] = [imported, digest.hex()]
        kept.new = True
    imported, digest = kept.found[name]
    return tuple(itertools.starmap(Import, imported)), bytes.fromhex(digest)


class _Kept:
    """What was read of code by this process and those before it, by the hash of each file.

    It lies in a file beside the bytecode, and holds for this module's rules, this version of Python
    and the names of modules that are there now.
    """

    def __init__(self) -> None:
        own = Path(lib.__file__)
        self.file = Path(cache_from_source(str(own.with_name("imports.py")))).with_suffix(".json")
        self.state, self.found, self.new = _state(), {}, False
        self._look()

    def _look(self) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError, AttributeError, TypeError):
            kept = json.loads(self.file.read_bytes())
            if kept.pop("sha256") == _digest(kept) and kept["state"] == self.state:
                self.found = kept["found"] | self.found

    def keep(self) -> None:
        """Write down what is new, where bytecode is written."""
        if not self.new or sys.dont_write_bytecode or self.state != _state():
            return
        self.new = False
        self._look()  # another process may have written meanwhile
        kept = {"state": self.state, "found": self.found if len(self.found) < _MOST else {}}
        with contextlib.suppress(OSError):
            write_atomic(self.file, json.dumps(kept | {"sha256": _digest(kept)}))


_MOST = 2000  # of which lib has a sixth: others are of former times
_kept = cache(_Kept)


def _digest(kept: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()


def _state() -> str:
    """A hash of all beside a module's own text that decides what is read of it."""
    places = sorted(str(p.relative_to(Path(lib.__file__).parent)) for p in _modules())
    rules = Path(__file__).read_bytes()
    return hashlib.sha256(rules + "\n".join([sys.version, *places]).encode()).hexdigest()


def _modules() -> Iterator[Path]:
    return Path(lib.__file__).parent.rglob("*.py")


def _parsed(code: bytes) -> _Found:
    with _uncollected():
        tree = ast.parse(code)
        found = tuple(_imports(tree))
        for node in ast.walk(tree):
            documented = isinstance(node, _DOCUMENTED)
            if documented and ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
        return found, hashlib.sha256(ast.dump(tree).encode()).digest()


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection: trees have no cycles, and looking for some takes most time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _imports(tree: ast.Module) -> Iterator[Import]:
    """What Python code imports of ``lib``, wherever in it; not what it does for its types alone."""
    nodes = list(_executed(tree))
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    if words & (_COMPUTED | _RUN) or attributes & _COMPUTED:
        yield from _everything()
    packages: dict[str, set[str]] = {}
    parts = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"line {node.lineno}: imports must name modules in full")
            for alias in node.names if node.module.partition(".")[0] == "lib" else ():
                whole = f"{node.module}.{alias.name}"
                if _is_package(whole) and not words & _ALL_NAMES:
                    packages.setdefault(alias.asname or alias.name, set()).add(whole)
                else:
                    yield Import(node.module, alias.name)
        elif isinstance(node, ast.Import):
            yield from (Import(a.name) for a in node.names if a.name.startswith("lib."))
            if any(a.name == "lib" and a.asname for a in node.names):
                yield from _everything()
        elif isinstance(node, ast.Attribute) and "lib" in words:  # after ``import lib``
            yield from _named_in(ast.unparse(node) if id(node) not in parts else "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _named_in(node.value)
    yield from _used(nodes, packages)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All parts of a tree but docstrings and the bodies of ``if TYPE_CHECKING:``."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        parts = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts = [part for part in parts if part not in node.body]
        waiting += reversed(parts)


def _named_in(text: str) -> Iterator[Import]:
    """The module that a text names, ``lib.audit.counts`` as well as ``lib.audit.counts.Counts``."""
    name = text if _NAMED.fullmatch(text) else "lib"
    while name != "lib" and source_file(name) is None:
        name = name.rpartition(".")[0]
    if name != "lib":
        yield Import(name)
        yield Import(f"{name}.__main__")


def _used(nodes: Iterable[ast.AST], packages: Mapping[str, set[str]]) -> Iterator[Import]:
    """Of packages that code has by a name: what it asks of them; all, if it hands them around."""
    asked = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in packages:
            yield from (Import(p, asked.get(id(node))) for p in sorted(packages[node.id]))


def _is_package(module: str) -> bool:
    file = source_file(module)
    return file is not None and file.name == "__init__.py"


def _where(one: Import, find: Callable[[str], Path | None]) -> list[Import]:
    """What code has a name of a module: the module, or where a package has the name from."""
    module, name = one
    file = find(module)
    if file is not None and file.name != "__init__.py":
        return [Import(module)]
    inside = [Import(f"{module}.{name}")] if find(f"{module}.{name}") else []
    passed_on, own = ({}, True) if file is None else _passed_on(file)
    if own or not (name in passed_on or inside):
        return [Import(module), *inside]
    return [passed_on[name], *inside] if name in passed_on else inside


@cache
def _passed_on(file: Path) -> tuple[dict[str, Import], bool]:
    """Names that a package has from elsewhere, and whether it has code of its own."""
    passed_on, own = {}, False
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            passed_on |= {a.asname or a.name: Import(node.module, a.name) for a in node.names}
        elif isinstance(node, ast.Assign):
            own |= any(ast.unparse(target) not in _OF_PACKAGES for target in node.targets)
        else:
            own |= not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    return passed_on, own


@cache
def _beside(file: Path) -> list[Path]:
    """Files beside code, or in a folder beside it, that it names and whose place it asks for."""
    code = file.read_text(encoding="utf-8")
    if not any(word in code for word in _OWN_PLACE):  # most
        return []
    nodes = list(ast.walk(ast.parse(code)))
    if not any(isinstance(node, ast.Name) and node.id in _OWN_PLACE for node in nodes):
        return []
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    named = [path for path in sorted(file.parent.iterdir()) if path.name in texts]
    inside = [each for path in named for each in ([path] if path.is_file() else path.rglob("*"))]
    return sorted(p for p in inside if p.is_file() and "__pycache__" not in p.parts)
