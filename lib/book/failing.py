"""How a build fails: before any work where it lacks what it needs, and with the reason last."""

import os
import sys
from pathlib import Path
from types import TracebackType

from sphinx.application import Sphinx
from sphinx.config import Config
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


def leave_other_hosts(config: Config) -> None:
    """Have ``linkcheck`` ask no other host if ``COMPANION_OFFLINE`` is set: it looks at files."""
    if os.environ.get("COMPANION_OFFLINE", "") not in ("", "0"):
        config.linkcheck_ignore = [*config.linkcheck_ignore, "https?://"]


def say_once() -> None:
    """Have ``jupyter-book`` end with the reason that Sphinx has printed.

    It raises an error of its own after that, whose traceback of fifty lines would bury the reason.
    """
    usual = sys.excepthook

    def hook(kind: type, error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error.__cause__, SphinxError):
            usual(kind, error, trace)

    sys.excepthook = hook
