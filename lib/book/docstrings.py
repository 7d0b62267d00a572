"""Sphinx extension: what autodoc does not do by itself for the reference.

Comments of constants that a package takes from its modules; scikit-learn's methods left out; links
to the source at the commit of the build, where a repository is known.
"""

import importlib
import inspect
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer

import lib


def _comment(full: str) -> list[str]:
    """The comment above a constant, which may lie in any module of its package."""
    package, _, name = full.rpartition(".")
    for module in sorted(m for m in sys.modules if f"{m}.".startswith(f"{package}.")):
        found = ModuleAnalyzer.for_module(module).find_attr_docs()
        if ("", name) in found:
            return found["", name]
    raise PycodeError(f"no comment #: above the constant {full}")


def _complete(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    if what == "module":  # the page has said what its first line says
        del lines[:2]
    elif what == "data":
        lines[:] = _comment(name)
    elif what == "property":  # napoleon has read a type before a colon
        lines[:] = inspect.getdoc(value).splitlines()


def _skip(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    return getattr(value, "__module__", "lib").startswith("sklearn.") or None


def source_address(base: str, module: str, name: str) -> str | None:
    """Where a class or function is written, below an address; None for anything else."""
    value = inspect.unwrap(attrgetter(name)(importlib.import_module(module)))
    if not base or not (inspect.isclass(value) or inspect.isfunction(value)):
        return None
    file = Path(inspect.getsourcefile(value)).relative_to(Path(lib.__file__).parents[1]).as_posix()
    return f"{base}/{file}#L{inspect.getsourcelines(value)[1]}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the events; autodoc, autosummary and napoleon are set up by ``_config.yml``."""
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.linkcode")

    def address(domain: str, info: dict[str, str]) -> str | None:
        commit = getattr(app, "companion_commit", "")  # of lib.book.sphinx_ext
        base = f"https://github.com/{app.companion_repository}/blob/{commit}" if commit else ""
        return source_address(base, info["module"], info["fullname"])

    app.config.linkcode_resolve = address
    app.connect("autodoc-process-docstring", _complete, priority=600)  # after napoleon
    app.connect("autodoc-skip-member", _skip)
    return {"version": lib.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
