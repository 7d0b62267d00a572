"""Sphinx extension: the reference, made from docstrings and from examples that tests run.

The ``reference`` directive lists every public name of a package or module with its signature, its
docstring and an example.  Types stand as text, as docstrings have them: links to other projects
would need the network.  Examples that are not in a docstring lie in ``examples/<package>.txt``:
below ``== setup`` the lines that run before each example, below ``== name, another name`` a
sentence after ``#``, and the example as a doctest.
"""

import doctest
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import lib

__all__ = ["PACKAGES", "Example", "public_names", "read_examples", "setup", "source_line"]

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

EXAMPLES = Path(__file__).parent / "examples"

_ROLE = re.compile(r":(func|class|meth|mod|data|attr|exc|obj):`([^`]+)`")
_LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
_OTHERS = ("Notes", "References", "Examples", "See Also", "Warnings")
_LONGEST_DEFAULT = 40


@dataclass(frozen=True)
class Example:
    """An example of one or several names.

    Attributes
    ----------
    names : tuple of str
        What it is an example of; empty for the lines that come before all others.
    text : str
        Sentences, before the code.
    code : str
        Lines as in a Python session, with their output.
    """

    names: tuple[str, ...]
    text: str
    code: str


def read_examples(page: str) -> tuple[Example, list[Example]]:
    """Read the examples of a page.

    Parameters
    ----------
    page : str
        A key of :data:`PACKAGES`.

    Returns
    -------
    setup : Example
        Lines that come before each of the others.
    examples : list of Example
        In the order of the file.

    Raises
    ------
    ValueError
        If the file does not begin with the lines for all.
    """
    path = EXAMPLES / f"{page}.txt"
    parts = re.split(r"^== (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if parts[0].strip() or len(parts) < 3 or parts[1] != "setup":
        raise ValueError(f"{path} must begin with the line '== setup'")
    found = []
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = body.strip("\n").splitlines()
        text = [line[2:] for line in lines if line.startswith("# ")]
        code = [line for line in lines if not line.startswith("# ")]
        names = () if head == "setup" else tuple(name.strip() for name in head.split(","))
        found.append(Example(names, " ".join(text), "\n".join(code).strip("\n")))
    return found[0], found[1:]


def public_names(page: str) -> dict[str, Any]:
    """Everything public that a page documents.

    Parameters
    ----------
    page : str
        A key of :data:`PACKAGES`.

    Returns
    -------
    dict
        Full name, ``lib.audit.METHODS``, to the object; classes and functions and constants in
        the order of ``__all__``.
    """
    modules = [importlib.import_module(name) for name in PACKAGES[page]]
    return {f"{m.__name__}.{name}": getattr(m, name) for m in modules for name in m.__all__}


# ------------------------------------------------------------------ from docstrings to RST


def _documented() -> dict[int, str]:
    """Identity of each documented class and function to its full name."""
    return {
        id(value): name
        for page in PACKAGES
        for name, value in public_names(page).items()
        if inspect.isclass(value) or inspect.isfunction(value)
    }


def _find(target: str, owner: Any, module: ModuleType) -> tuple[Any, str, Any] | None:
    """What a role's target names: its object, attribute's name if it is one, and that one's class.

    As Python would find it: in the class, in the module, then as a full name.
    """
    starts: list[tuple[Any, str]] = [(module, target)]
    if inspect.isclass(owner):
        starts.insert(0, (owner, target))
    parts = target.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            starts.append((importlib.import_module(".".join(parts[:cut])), ".".join(parts[cut:])))
            break
        except ImportError:
            continue
    for start, path in starts:
        value, holder, last = start, None, ""
        try:
            for part in filter(None, path.split(".")):
                holder, last = value, part
                value = inspect.getattr_static(value, part)
        except AttributeError:
            fields = getattr(holder, "__dataclass_fields__", {})
            if last in fields or re.search(rf"^{last}\b", inspect.getdoc(holder) or "", re.M):
                return None, last, holder
            continue
        return value, last, holder
    return None


def _with_links(text: str, owner: Any, module: ModuleType) -> str:
    """Make roles link to what the reference documents, and plain code of what else there is."""
    documented = _documented()

    def link(match: re.Match[str]) -> str:
        role, shown = match[1], match[2]
        target = shown.lstrip("~")
        if shown.startswith("~"):
            shown = target.rpartition(".")[2]
        found = _find(target, owner, module)
        if found is None:
            raise ExtensionError(f"{module.__name__}: {match[0]} names nothing")
        value, last, holder = found
        if id(value) in documented:
            return f":py:obj:`{shown} <{documented[id(value)]}>`"
        if id(holder) in documented and (inspect.isfunction(value) or isinstance(value, property)):
            return f":py:obj:`{shown} <{documented[id(holder)]}.{last}>`"
        if role == "data":
            for page in PACKAGES:
                for name, constant in public_names(page).items():
                    if constant is value and name.endswith(f".{last}"):
                        return f":py:obj:`{shown} <{name}>`"
        return f"``{shown}``"

    return _ROLE.sub(link, text)


def _escaped(text: str) -> str:
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def _sections(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """Parts of a numpydoc docstring: ``""`` for what comes first, then each section."""
    title, lines, pending = "", [], docstring.splitlines()
    while pending:
        line = pending.pop(0)
        if line in _LISTS + _OTHERS and pending and set(pending[0]) == {"-"}:
            pending.pop(0)
            yield title, lines
            title, lines = line, []
        else:
            lines.append(line)
    yield title, lines


def _items(lines: list[str]) -> Iterator[str]:
    """A section that lists names with types, as lines of a definition list."""
    for line in lines:
        if not line or line[0].isspace():
            yield line
            continue
        names, colon, kind = line.partition(" : ")
        strong = f"**{_escaped(names)}**"
        yield f"{strong} : {_kind(kind)}" if colon else strong


def _clean(lines: list[str]) -> list[str]:
    """Prose that reads well as text and that RST would stumble over.

    Bars are no substitutions; a blank line parts a paragraph from what is indented below it, and
    what is indented from what follows.
    """
    out: list[str] = []
    session, run = False, 0  # in a Python session; lines of the paragraph so far
    for line in lines:
        session = line.lstrip().startswith(">>>") or (session and bool(line.strip()))
        if session or not line.strip():
            out.append(line)
            run = 0
            continue
        line = line.replace("` ``", "```")
        pieces = re.split(r"(``.*?``)", line)
        line = "".join(x if x.startswith("``") else x.replace("|", r"\|") for x in pieces)
        last = out[-1] if out else ""
        if last.strip():
            here, before = len(line) - len(line.lstrip()), len(last) - len(last.lstrip())
            if here < before or (here > before and run > 1):
                out.append("")
                run = 0
            elif here > before:
                run = 0
        out.append(line)
        run += 1
    return out


def _kind(kind: str) -> str:
    """A type as it is written, without typographic quotation marks."""
    return kind if "`" in kind else f"``{kind}``"


def _body(docstring: str, owner: Any, module: ModuleType) -> list[str]:
    """The lines of RST that show a docstring."""
    out: list[str] = []
    for title, lines in _sections(_with_links(docstring, owner, module)):
        if title:
            out += ["", f".. rubric:: {'Example' if title == 'Examples' else title}", ""]
        out += _clean(list(_items(lines)) if title in _LISTS else lines)
    return [*out, ""]


def _signature(value: Any) -> str:
    """Names and defaults; types stand below, as the docstring has them."""
    try:
        given = inspect.signature(value)
    except ValueError:
        return ""
    shown = []
    for parameter in given.parameters.values():
        default = parameter.default
        if default is not parameter.empty:
            text = repr(default)
            simple = len(text) <= _LONGEST_DEFAULT and "<" not in text and " object" not in text
            default = default if simple else ...
        shown.append(parameter.replace(annotation=parameter.empty, default=default))
    text = str(inspect.Signature([p for p in shown if p.name not in ("self", "cls")]))
    return text.replace("=Ellipsis", "=...")


def _constant(name: str, value: Any, module: ModuleType) -> list[str]:
    """A constant: the comment above it, and its value where that is short."""
    lines = []
    for other in sorted(sys.modules):
        if other == module.__name__ or other.startswith(f"{module.__name__}."):
            comments = ModuleAnalyzer.for_module(other).find_attr_docs()
            if ("", name) in comments:
                lines = _with_links(
                    "\n".join(comments["", name]), None, sys.modules[other]
                ).splitlines()
    text = repr(value)
    return [*lines, "", *([f"``{text}``", ""] if len(text) <= 3 * _LONGEST_DEFAULT else [])]


def _indented(lines: list[str]) -> list[str]:
    return [f"   {line}" if line else line for line in lines]


def source_line(value: Any, repository: str, commit: str) -> list[str]:
    """RST that says where a class or function is written.

    Parameters
    ----------
    value : class or function
        Of ``lib``.
    repository, commit : str
        ``owner/name`` on GitHub and the commit to link to; no link where one is empty.
    """
    value = inspect.unwrap(value)  # what a decorator has put around it lies elsewhere
    file = Path(inspect.getsourcefile(value)).relative_to(Path(lib.__file__).parents[1]).as_posix()
    line = inspect.getsourcelines(value)[1]
    if not repository or not commit:
        return [f"Source: ``{file}``, line {line}.", ""]
    address = f"https://github.com/{repository}/blob/{commit}/{file}#L{line}"
    return [f"Source: `{file}, line {line} <{address}>`__", ""]


def _entry(
    full: str, value: Any, example: Example | None, repository: str = "", commit: str = ""
) -> list[str]:
    """RST of one public name."""
    package, _, name = full.rpartition(".")
    home = sys.modules[package]
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        head, body = f".. py:data:: {name}", _constant(name, value, home)
    else:
        home = sys.modules[value.__module__]
        owner = value if inspect.isclass(value) else None
        exception = inspect.isclass(value) and issubclass(value, BaseException)
        kind = "exception" if exception else "class" if owner else "function"
        protocol = getattr(value, "_is_protocol", False)
        head = f".. py:{kind}:: {name}{'' if exception or protocol else _signature(value)}"
        body = _body(inspect.getdoc(value) or "", owner, home)
    if example is not None:
        body += ["", ".. rubric:: Example", "", example.text, "", *example.code.splitlines(), ""]
    if inspect.isclass(value) or inspect.isfunction(value):
        body += ["", *source_line(value, repository, commit)]
    if inspect.isclass(value):
        for member, what in vars(value).items():
            if member.startswith("_"):
                continue
            function = what.fget if isinstance(what, property) else getattr(what, "__func__", what)
            if not inspect.isfunction(function) or not inspect.getdoc(function):
                continue
            if isinstance(what, property):
                line = f".. py:property:: {member}"
            else:
                line = f".. py:method:: {member}{_signature(function)}"
            option = ["   :classmethod:"] if isinstance(what, classmethod) else []
            inner = _body(inspect.getdoc(function), value, sys.modules[function.__module__])
            body += ["", line, *option, "", *_indented(inner), ""]
    return [head, "", *_indented(body), ""]


class ReferenceDirective(SphinxDirective):
    """``reference``: all public names of a page of :data:`PACKAGES`; in RST only."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the descriptions."""
        page = self.arguments[0]
        if page not in PACKAGES:
            raise self.error(f"no package {page!r}; there are {', '.join(PACKAGES)}")
        start, examples = read_examples(page)
        by_name = {name: example for example in examples for name in example.names}
        self._note_dependencies(page)
        lines: list[str] = []
        # Both from lib.book.sphinx_ext, which need not be there: the reference works without.
        at = [getattr(self.env.app, f"companion_{name}", "") for name in ("repository", "commit")]
        if start.code:
            lines += ["Most examples on this page begin with these lines:", ""]
            lines += [*start.code.splitlines(), ""]
        for package in PACKAGES[page]:
            module = importlib.import_module(package)
            lines += [f".. py:module:: {package}", ""]
            for name in module.__all__:
                short = f"{package}.{name}".removeprefix(f"lib.{page}.")
                lines += _entry(f"{package}.{name}", getattr(module, name), by_name.get(short), *at)
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(StringList(lines, source=f"reference of {page}"), 0, holder)
        return holder.children

    def _note_dependencies(self, page: str) -> None:
        folder = Path(lib.__file__).parent
        for path in [
            Path(__file__),
            EXAMPLES / f"{page}.txt",
            *sorted((folder / page).glob("*.py")),
        ]:
            self.env.note_dependency(str(path))


def has_example(value: Any) -> bool:
    """Whether an object's own docstring has an example.

    Parameters
    ----------
    value : object
        A class, a function, or a constant, which has none.
    """
    documented = inspect.isclass(value) or inspect.isfunction(value)
    return documented and bool(doctest.DocTestParser().get_examples(inspect.getdoc(value) or ""))


def _wrap_signatures(app: Sphinx, config: Any) -> None:
    """One parameter a line where a signature is longer than a phone is wide."""
    if config.python_maximum_signature_line_length is None:
        config.python_maximum_signature_line_length = 60


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("reference", ReferenceDirective)
    app.add_css_file("reference.css")  # from the folder that lib.book.sphinx_ext adds
    app.connect("config-inited", _wrap_signatures)
    return {"version": lib.__version__, "parallel_read_safe": True, "parallel_write_safe": True}
