"""Sphinx extension: the reference, by autodoc and napoleon from the docstrings.

What those do not do: comments of constants that a package takes from its modules, links of names
that are documented elsewhere, and where each name is written.
"""

import importlib
import inspect
import pydoc
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode

import lib

#: Page to the modules that it documents; their ``__all__`` is what is public.
PACKAGES = {
    "selective": ("lib.selective",),
    "suitability": ("lib.suitability",),
    "audit": ("lib.audit",),
    "counterfactual": ("lib.counterfactual",),
    "report": ("lib.report",),
    "privacy": ("lib.privacy",),
    "training": ("lib.training",),
    "data": ("lib.data",),
    "runs": ("lib.runs",),
    "book": ("lib.book.session",),
    "plot": ("lib.plot",),
}

_LONGEST = 100  # characters of a value that a page shows


def public_names(page: str) -> dict[str, Any]:
    """Full name, ``lib.audit.METHODS``, to the object: all that a page documents, in order."""
    modules = [importlib.import_module(name) for name in PACKAGES[page]]
    return {f"{m.__name__}.{name}": getattr(m, name) for m in modules for name in m.__all__}


def source_line(value: Any, repository: str, commit: str) -> str:
    """RST that says where a class or function is written; a link where a repository is known."""
    value = inspect.unwrap(value)  # what a decorator has put around it lies elsewhere
    file = Path(inspect.getsourcefile(value)).relative_to(Path(lib.__file__).parents[1]).as_posix()
    line = inspect.getsourcelines(value)[1]
    if not repository or not commit:
        return f"Source: ``{file}``, line {line}."
    address = f"https://github.com/{repository}/blob/{commit}/{file}#L{line}"
    return f"Source: `{file}, line {line} <{address}>`__"


def _comment(full: str) -> list[str]:
    """The comment above a constant, which may lie in any module of the package."""
    package, _, name = full.rpartition(".")
    for module in sorted(sys.modules):
        if f"{module}.".startswith(f"{package}."):
            comments = ModuleAnalyzer.for_module(module).find_attr_docs()
            if ("", name) in comments:
                return comments["", name]
    return []


def _complete(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Give constants their comments, and classes and functions the line of their source."""
    if what == "module":  # the page has said what it is about
        start = ".. rubric:: Examples"
        lines[:] = lines[lines.index(start) :] if start in lines else []
        own = {known for _, known in ModuleAnalyzer.for_module(name).find_attr_docs()}
        for known in value.__all__:  # autodoc finds no constant that another module has made
            if known not in own and not callable(getattr(value, known)):
                long = len(repr(getattr(value, known))) > _LONGEST
                lines += ["", f".. autodata:: {name}.{known}", *["   :no-value:"] * long, ""]
    elif what == "data":
        lines[:] = _comment(name)
    elif what == "property":  # napoleon would read a type before a colon
        lines[:] = inspect.getdoc(value).splitlines()
    elif what != "method" and (inspect.isfunction(value) or inspect.isclass(value)):
        # Both from lib.book.sphinx_ext, which need not be there: the reference works without.
        at = [getattr(app, f"companion_{known}", "") for known in ("repository", "commit")]
        lines += ["", source_line(value, *at), ""]


def _take_all(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> Any:
    """Document every name of ``__all__``, a constant without a comment too, and nothing else."""
    if what != "module":  # scikit-learn adds methods to estimators
        return getattr(value, "__module__", "lib").startswith("sklearn.") or None
    return name not in sys.modules[app.env.temp_data["autodoc:module"]].__all__


def _resolve(app: Sphinx, env: Any, node: Any, content: nodes.Element) -> nodes.Node | None:
    """Link what is public under another name; show as code what exists and is not public."""
    target = node["reftarget"]
    if node.get("refdomain") != "py":
        return None
    objects, last = env.domaindata["py"]["objects"], target.rpartition(".")[2]
    exists = pydoc.locate(target) is not None or any(
        hasattr(module, target) for name, module in sys.modules.items() if name.startswith("lib.")
    )
    found = [name for name in objects if name.endswith(f".{last}")]
    if exists and len(found) == 1:
        place = objects[found[0]]
        return make_refnode(app.builder, node["refdoc"], place.docname, place.node_id, content)
    return content if exists else None


def _configure(app: Sphinx, config: Any) -> None:
    """Sections as lists, types as text; one parameter a line where a phone is too narrow."""
    config.napoleon_google_docstring = False
    config.napoleon_use_param = config.napoleon_use_rtype = False
    config.napoleon_custom_sections = [("Attributes", "params_style")]
    config.autodoc_typehints = "none"
    config.autodoc_member_order = "bysource"
    config.autodoc_preserve_defaults = True
    config.autodoc_class_signature = "mixed"
    config.python_maximum_signature_line_length = 60


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the events."""
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.add_css_file("reference.css")  # from the folder that lib.book.sphinx_ext adds
    app.connect("config-inited", _configure)
    app.connect("autodoc-skip-member", _take_all)
    app.connect("autodoc-process-docstring", _complete, priority=600)  # after napoleon
    app.connect("missing-reference", _resolve)
    return {"version": lib.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
