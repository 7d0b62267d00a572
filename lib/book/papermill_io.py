"""Lets papermill read percent-format chapters: ``papermill book/x.py out.ipynb``.

Registered in ``pyproject.toml`` for paths that begin with ``book/``, ``./`` or ``/``;
whatever is no ``.py`` file is handled as papermill itself would.
"""

import warnings
from typing import Any


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
