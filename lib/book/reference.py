"""Sphinx extension: the reference, by autodoc and napoleon from the docstrings.

What those do not do: a package's names by subject, each subject on a page of its own; comments of
constants that a package takes from its modules, links of names that are documented elsewhere, and
where each name is written.
"""

import importlib
import inspect
import pydoc
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

import lib

#: Page to the module that it documents, whose ``__all__`` is what is public.
PACKAGES = {
    "selective": "lib.selective",
    "suitability": "lib.suitability",
    "audit": "lib.audit",
    "counterfactual": "lib.counterfactual",
    "report": "lib.report",
    "privacy": "lib.privacy",
    "training": "lib.training",
    "data": "lib.data",
    "runs": "lib.runs",
    "book": "lib.book.session",
    "plot": "lib.plot",
}

_LONGEST = 100  # characters of a value that a page shows


def public_names(page: str) -> dict[str, Any]:
    """Full name, ``lib.audit.METHODS``, to the object: all that a page documents, in order."""
    module = importlib.import_module(PACKAGES[page])
    return {f"{PACKAGES[page]}.{name}": getattr(module, name) for name in module.__all__}


def source_line(value: Any, repository: str, commit: str) -> str:
    """RST that says where a class or function is written; a link where a repository is known."""
    value = inspect.unwrap(value)  # what a decorator has put around it lies elsewhere
    file = Path(inspect.getsourcefile(value)).relative_to(Path(lib.__file__).parents[1]).as_posix()
    line = inspect.getsourcelines(value)[1]
    if not repository or not commit:
        return f"Source: ``{file}``, line {line}."
    address = f"https://github.com/{repository}/blob/{commit}/{file}#L{line}"
    return f"Source: `{file}, line {line} <{address}>`__"


def names_of(page: str, *modules: str) -> dict[str, Any]:
    """The public names of a package that some of its modules make; all of them if none is named."""
    homes = {f"{PACKAGES[page]}.{module}" for module in modules}
    public = public_names(page)
    return {full: v for full, v in public.items() if not homes or home(full, v) in homes}


def documented_by(page: Path) -> list[str]:
    """What a page gives the directive ``names``: a package, and modules of it."""
    return re.search(r"^\.\. names:: (.+)$", page.read_text("utf-8"), re.MULTILINE)[1].split()


def home(full: str, value: Any) -> str:
    """The module that makes a public name: a class or function says so, constants are searched."""
    if callable(value):
        return inspect.unwrap(value).__module__
    package, _, name = full.rpartition(".")
    made = re.compile(rf"^{name}\b[^=\n]*= ", flags=re.MULTILINE)
    for module in sorted(sys.modules):
        if module.startswith(f"{package}.") and made.search(inspect.getsource(sys.modules[module])):
            return module
    return package


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
    elif what == "data":
        lines[:] = _comment(name)
    elif what == "property":  # napoleon would read a type before a colon
        lines[:] = inspect.getdoc(value).splitlines()
    elif what != "method" and (inspect.isfunction(value) or inspect.isclass(value)):
        # Both from lib.book.sphinx_ext, which need not be there: the reference works without.
        at = [getattr(app, f"companion_{known}", "") for known in ("repository", "commit")]
        lines += ["", source_line(value, *at), ""]


def _skip(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the methods that scikit-learn adds to estimators."""
    return getattr(value, "__module__", "lib").startswith("sklearn.") or None


def _documented(full: str, value: Any) -> list[str]:
    """RST that documents a public name."""
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        return [f".. {kind}:: {full}", "   :members:", ""]
    if callable(value):
        return [f".. autofunction:: {full}", ""]
    return [f".. autodata:: {full}", *["   :no-value:"] * (len(repr(value)) > _LONGEST), ""]


def first_sentence(full: str, value: Any) -> str:
    """What a table says of a name: its docstring's, or its comment's, first sentence."""
    text = inspect.getdoc(value) or "" if callable(value) else "\n".join(_comment(full))
    flat = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.])\s", flat, maxsplit=1)[0] or "A constant."


def _listed(full: str, value: Any) -> list[str]:
    return [f"   * - :py:obj:`~{full}`", f"     - {first_sentence(full, value)}"]


class NamesDirective(SphinxDirective):
    """``.. names:: audit counts posterior``: the names of a package that these modules make.

    Without modules it is all names of the package.
    """

    required_arguments = 1
    optional_arguments = 9

    def run(self) -> list[nodes.Node]:
        """Return what autodoc makes of them."""
        names = names_of(*self.arguments)
        return self._nodes([line for name in names.items() for line in _documented(*name)])

    def _nodes(self, lines: list[str]) -> list[nodes.Node]:
        made = nodes.Element()
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, made)
        return made.children


class NameTableDirective(NamesDirective):
    """``.. name-table:: audit_intervals``: the names on another page, a line and a link each."""

    optional_arguments = 0

    def run(self) -> list[nodes.Node]:
        """Return a table."""
        relative, path = self.env.relfn2path(f"{self.arguments[0]}.md")
        self.env.note_dependency(relative)
        names = names_of(*documented_by(Path(path)))
        rows = [line for name in names.items() for line in _listed(*name)]
        return self._nodes([".. list-table::", "   :widths: 35 65", "", *rows])


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
    app.add_directive("names", NamesDirective)
    app.add_directive("name-table", NameTableDirective)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _complete, priority=600)  # after napoleon
    app.connect("missing-reference", _resolve)
    return {"version": lib.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
