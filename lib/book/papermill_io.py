"""Lets papermill read percent-format chapters: ``papermill book/x.py out.ipynb``.

Registered in ``pyproject.toml``, by which papermill finds it, and here for all local files;
whatever is no chapter or notebook of one is handled as papermill itself would.

papermill writes parameters into a cell, names as they stand and values of other types than JSON's
without quoting them: a name such as ``x = f() #`` would be executed before anything could look at
it.  So here, where every papermill of this environment comes by, names and values are checked
before a cell is made of them, and YAML is read as strictly as the book's own.
"""

import binascii
import functools
import keyword
import os
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

#: What IPython and a chapter's first cell need to find as it is; names with ``_`` are IPython's.
_TAKEN = ("In", "Out", "exit", "quit", "get_ipython", "globals")
_MOST_VALUES = 100_000
_DEEPEST = 50


class _ChapterHandler:
    """papermill's handler of local files: reads chapters, and hands out notebooks that are whole.

    papermill loads this module while it is itself being imported, so that nothing of
    papermill can be imported before a method is called.
    """

    def read(self, path: str) -> str:
        """Return the JSON of a chapter, or of a notebook with the chapter's own text."""
        if path.endswith(".py"):
            return self._read_chapter(path)
        text = self._local.read(path)
        if not path.endswith(".ipynb"):
            return text
        import nbformat

        from lib.book.notebooks import MINE, as_written

        notebook = nbformat.reads(text, as_version=4)
        return nbformat.writes(as_written(notebook)) if MINE in notebook.metadata else text

    def _read_chapter(self, path: str) -> str:
        import nbformat

        from lib.book.chapters import book_of, read_chapter
        from lib.book.notebooks import MINE

        notebook, whole = read_chapter(self._local.read(path)), Path(os.path.abspath(path))
        book = book_of(whole)
        if (book / "_toc.yml").exists():
            _use_book(book)
            page = whole.relative_to(book).with_suffix("").as_posix()
            notebook.metadata[MINE] = {"page": page}
        return nbformat.writes(notebook)

    def write(self, buf: str, path: str) -> None:
        """Write a notebook's JSON, readable by itself; never over a chapter."""
        from lib.book.execute import BuildError

        if path.endswith(".py"):
            raise BuildError(f"output = {path!r} must end in .ipynb: it gets a notebook")
        try:
            self._local.write(_whole(buf) if path.endswith(".ipynb") else buf, path)
        except FileNotFoundError:  # of the folder: papermill says so
            raise
        except OSError as error:
            raise BuildError(
                f"output = {path!r} cannot be written ({error.strerror}): it must name a file in a"
                " folder that can be, or be - for standard output"
            ) from None

    @functools.cached_property
    def _local(self) -> Any:
        """One for all calls: papermill tells it its folder."""
        from papermill.iorw import LocalHandler

        return LocalHandler()

    def __getattr__(self, name: str) -> Any:
        """All else, such as listing a folder, is done by papermill's handler."""
        return getattr(self._local, name)


class _StreamHandler:
    """papermill's handler of ``-``, standard input and output."""

    def write(self, buf: str, path: str) -> None:
        """Write a notebook's JSON, readable by itself."""
        self._stream.write(_whole(buf), path)

    @functools.cached_property
    def _stream(self) -> Any:
        from papermill.iorw import StreamHandler

        return StreamHandler()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _whole(text: str) -> str:
    """A notebook's JSON, readable by itself if it is one of a chapter."""
    from lib.book.notebooks import MINE, with_own_values
    from lib.book.records import repository
    from lib.book.session import book_folder
    from lib.book.site import site_address

    page = re.search(rf'"{MINE}": {{\s*"page": "([\w/]+)"', text)
    if page is None:
        return text
    book = book_folder(page[1].rpartition("/")[2])
    given = os.environ.get("COMPANION_SITE", "")
    return with_own_values(text, book, site_address(given, repository(book.parent, os.environ)))


def _use_book(book: Path) -> None:
    """Have the kernel find claims, records and parameter files beside the chapter.

    Two copies of ``lib``, one here and one in the kernel, would go unnoticed until they differ.
    """
    from lib.book.execute import require_one_lib

    require_one_lib(book)
    os.environ["COMPANION_BOOK"] = str(book)


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
    # Of several handlers of paths without a scheme papermill takes the first that was registered.
    ours = {"local": ChapterHandler, "-": _StreamHandler()}
    registered = iorw.papermill_io._handlers
    registered[:] = [(scheme, ours.get(scheme, handler)) for scheme, handler in registered]
    plain = iorw.NoDatesSafeLoader

    def loader(stream: Any) -> Any:
        from lib.data.untrusted import strict

        class Mapped(strict(plain)):
            def get_single_data(self) -> Any:
                found = super().get_single_data()
                if not isinstance(found, dict | None):
                    _refuse(f"parameters must be like `margin: 0.01`, got {type(found).__name__}")
                return found

        return Mapped(stream)

    iorw.NoDatesSafeLoader = loader


def _refuse(why: str) -> None:
    from lib.book.parameters import ParameterError

    raise ParameterError(why)


# ---------------------------------------------------------------------- what went wrong


def _on_the_command_line() -> bool:
    """Whether this process is papermill's command, or ``python -m papermill``."""
    command = Path(sys.argv[0] if sys.argv else "")
    return "papermill" in (command.stem, command.name == "__main__.py" and command.parent.name)


def _tell(kind: type, error: BaseException, trace: TracebackType | None) -> None:
    """Say in the first line what went wrong; after it come frames of the cell that failed, if any.

    papermill's own frames would bury it, and tell its users nothing.
    """
    import yaml
    from nbformat.reader import NotJSONError
    from papermill.exceptions import PapermillExecutionError, strip_color

    from lib.book.execute import BuildError
    from lib.book.parameters import ParameterError

    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line, column = error.problem_mark.line + 1, error.problem_mark.column + 1
        error = ParameterError(f"no YAML at line {line}, column {column}: {error.problem}")
    if isinstance(error, binascii.Error):
        error = ParameterError(f"what follows -b must be YAML in base64: {error}")
    if isinstance(error, PapermillExecutionError):
        said = f"{error.ename}: {error.evalue}"
        frames = strip_color("\n".join(error.traceback)).strip()
        print(f"error in cell [{error.exec_count}]: {said}", file=sys.stderr)
        if frames != said.strip():
            print(frames, file=sys.stderr)
        return
    print(f"error: {type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
    if not isinstance(error, (BuildError, NotJSONError, OSError, ParameterError, yaml.YAMLError)):
        _usual(kind, error, trace)


def _hook(kind: type, error: BaseException, trace: TracebackType | None) -> None:
    ours = _on_the_command_line() and isinstance(error, Exception)
    (_tell if ours else _usual)(kind, error, trace)


_usual = sys.excepthook
sys.excepthook = _hook
_guard_papermill()
