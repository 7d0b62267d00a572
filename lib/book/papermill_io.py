"""Lets papermill read percent-format chapters: ``papermill book/x.py out.ipynb``.

Registered in ``pyproject.toml`` for paths that begin with ``book/``, ``./`` or ``/``;
whatever is no ``.py`` file is handled as papermill itself would.

papermill writes parameters into a cell, names as they stand and values of other types than JSON's
without quoting them: a name such as ``x = f() #`` would be executed before anything could look at
it.  So here, where every papermill of this environment comes by, names and values are checked
before a cell is made of them, and YAML is read as strictly as the book's own.
"""

import keyword
import warnings
from collections.abc import Mapping
from typing import Any

#: What IPython and a chapter's first cell need to find as it is; names with ``_`` are IPython's.
_TAKEN = ("In", "Out", "exit", "quit", "get_ipython", "globals")
_MOST_VALUES = 100_000
_DEEPEST = 50


class _ChapterHandler:
    """papermill's handler of local files, with one more format to read.

    papermill loads this module while it is itself being imported, so that nothing of
    papermill can be imported before a method is called.
    """

    def read(self, path: str) -> str:
        """Return the notebook's JSON, converting a ``.py`` chapter on the way."""
        from papermill.iorw import LocalHandler

        text = LocalHandler().read(path)
        if not path.endswith(".py"):
            return text
        self._write_what_has_no_scheme()
        import nbformat

        from lib.book.chapters import read_chapter

        return nbformat.writes(read_chapter(text))

    def _write_what_has_no_scheme(self) -> None:
        """Be the handler of ``out.ipynb``, too: papermill gives such a path to the last "local"."""
        from papermill.iorw import papermill_io

        if ("local", self) not in papermill_io._handlers:
            papermill_io._handlers.append(("local", self))

    def write(self, buf: str, path: str) -> None:
        """Write a notebook's JSON, with the numbers it holds in its prose."""
        from papermill.iorw import LocalHandler

        if path.endswith(".ipynb"):
            from lib.book.site import with_own_values

            buf = with_own_values(buf)
        LocalHandler().write(buf, path)

    def __getattr__(self, name: str) -> Any:
        """All else, such as listing a folder, is done by papermill's handler."""
        from papermill.iorw import LocalHandler

        return getattr(LocalHandler(), name)


# papermill warns about every extension but its own before it asks a handler.
warnings.filterwarnings("ignore", r"The specified file \(.*\.py\) does not end in one of")

# papermill registers the object that the entry point names: an instance.
ChapterHandler = _ChapterHandler()


def check_cell(parameters: Mapping[str, Any]) -> None:
    """Refuse names and values of which papermill would make anything but assignments of them."""
    from lib.book.parameters import ParameterError
    from lib.data.untrusted import short

    for name in parameters:
        is_name = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
        if not is_name or name.startswith("_") or name in _TAKEN:
            why = " (the notebook needs it)" if is_name else ""
            raise ParameterError(
                f"parameter names must be identifiers such as margin, got {short(repr(name))}{why}"
            )
    for name, value in parameters.items():
        # Iteratively: an alias may stand for much, and lists may be deep.
        left, count = [(value, 0)], 0
        while left:
            one, depth = left.pop()
            count += 1
            if count > _MOST_VALUES or depth > _DEEPEST:
                raise ParameterError(
                    f"parameter {name} must hold at most {_MOST_VALUES:,} values, nested at most "
                    f"{_DEEPEST} deep, got more"
                )
            if isinstance(one, dict) and all(isinstance(key, str) for key in one):
                left += [(item, depth + 1) for item in one.values()]
            elif isinstance(one, list):
                left += [(item, depth + 1) for item in one]
            elif one is not None and not isinstance(one, bool | int | float | str):
                raise ParameterError(
                    f"parameter {name} must be made of numbers, text, true, false, lists and "
                    f"mappings of text, got {type(one).__name__}"
                )


def _guard_papermill() -> None:
    """Have papermill check what it makes a cell of, and read YAML strictly."""
    from papermill import iorw, translators

    class Translator(translators.PythonTranslator):
        @classmethod
        def codify(cls, parameters: Mapping[str, Any], comment: str = "Parameters") -> str:
            check_cell(parameters)
            return super().codify(parameters, comment)

    translators.papermill_translators.register("python", Translator)
    plain = iorw.NoDatesSafeLoader

    def loader(stream: Any) -> Any:
        from lib.data.untrusted import strict

        return strict(plain)(stream)

    iorw.NoDatesSafeLoader = loader


_guard_papermill()
