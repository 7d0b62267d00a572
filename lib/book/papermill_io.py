"""Lets papermill read percent-format chapters: ``papermill book/x.py out.ipynb``.

Registered in ``pyproject.toml`` for paths that begin with ``book/``, ``./`` or ``/``;
whatever is no ``.py`` file is handled as papermill itself would.
"""

import warnings

from papermill.iorw import LocalHandler

__all__ = ["ChapterHandler"]


class _ChapterHandler(LocalHandler):
    """papermill's handler of local files, with one more format to read."""

    def read(self, path: str) -> str:
        """Return the notebook's JSON, converting a ``.py`` chapter on the way."""
        text = super().read(path)
        if not path.endswith(".py"):
            return text
        import nbformat

        from lib.book.chapters import read_chapter

        return nbformat.writes(read_chapter(text))


# papermill warns about every extension but its own before it asks a handler.
warnings.filterwarnings("ignore", r"The specified file \(.*\.py\) does not end in one of")

# papermill registers the object that the entry point names: an instance.
ChapterHandler = _ChapterHandler()
