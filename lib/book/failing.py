"""How a build fails: before any work where it has no place to write, and with the reason last."""

import sys
from pathlib import Path
from types import TracebackType

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError, SphinxError

from lib.runs.files import can_write


def require_output(app: Sphinx) -> None:
    """Refuse a folder for the site that cannot be written, before Sphinx makes it."""
    out = Path(app.outdir)
    for folder in (out.parent, out, Path(app.doctreedir)):
        if not can_write(folder):
            raise ExtensionError(
                f"{folder} cannot be written: `jupyter-book build {app.srcdir} --path-output"
                " FOLDER` puts the site into another folder"
            )


def say_once() -> None:
    """Have ``jupyter-book`` end with the reason that Sphinx has printed.

    It raises an error of its own after that, whose traceback of fifty lines would bury the reason.
    """
    usual = sys.excepthook

    def hook(kind: type, error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error.__cause__, SphinxError):
            usual(kind, error, trace)

    sys.excepthook = hook
