"""Estimators and machinery behind the companion book.

Formulas: ``lib.selective``, ``lib.suitability``, ``lib.audit``, ``lib.counterfactual`` and
``lib.privacy``. Experiments: ``lib.training`` and ``lib.studies``, one folder per chapter, on
``lib.data`` (where data come from) and ``lib.runs`` (what a run leaves behind). Pages:
``lib.report`` (on a reader's own model) and ``lib.book`` (how a chapter becomes a page).
``ARCHITECTURE.md`` draws which imports which.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

__version__ = "0.1.0"


def _can_write(folder: str) -> bool:
    path = Path(os.path.expanduser(folder)).absolute()
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    return os.access(there, os.W_OK | os.X_OK)


def _lend_folders() -> None:
    """Lend numba and matplotlib a folder while this process lives, if they have none to write to.

    So in containers whose user has no home: there numba compiles nothing that it could keep, not
    even once, and matplotlib warns in the middle of a page. Processes begun by this one share it.
    """
    has_cache = _can_write(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    has_config = _can_write(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    here = Path(__file__).parent
    beside_code = [here, *here.glob("*/__pycache__")]  # where numba keeps it by default
    lacking = [] if has_cache and has_config else ["MPLCONFIGDIR"]
    if not has_cache and not all(os.access(each, os.W_OK) for each in beside_code):
        lacking.append("NUMBA_CACHE_DIR")
    lacking = [name for name in lacking if name not in os.environ]
    if lacking:
        lent = tempfile.mkdtemp(prefix="companion-")  # nobody else may write there
        atexit.register(shutil.rmtree, lent, ignore_errors=True)
        os.environ |= dict.fromkeys(lacking, lent)


_lend_folders()
