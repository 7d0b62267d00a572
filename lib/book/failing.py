"""How a build fails: before any work where it lacks what it needs, and with the reason last."""

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import NoReturn

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


def require_browser(app: Sphinx) -> None:
    """Refuse ``--builder pdfhtml`` where no browser could print the pages, before any work.

    Of that builder nothing arrives here but ``singlehtml`` in another builder's folder.
    """
    if (app.builder.name, Path(app.outdir).name) != ("singlehtml", "html"):
        return
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        _refuse_printing("playwright is not installed")
    try:
        with sync_playwright() as playwright:
            playwright.chromium.launch().close()
    except Error as error:
        _refuse_printing(error.message.partition(": ")[2].splitlines()[0])


def _refuse_printing(why: str) -> NoReturn:
    raise ExtensionError(
        f"the builder pdfhtml prints with a browser of playwright ({why}): `pip install playwright`"
        " and `playwright install chromium` bring one"
    ) from None


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
