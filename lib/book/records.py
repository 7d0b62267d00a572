"""Recorded runs: results too long for a build, kept in the repository as text.

``book/records/<profile>/<chapter>.json`` holds the values, tables and verdicts of one
execution with everything that produced it: parameters, fingerprints of code and
data, versions, hardware, date and duration. Pages show them beside the present build.
``part_of`` names the chapter whose one run this page was a part of, before it had a page.
"""

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.runs import write_atomic

if TYPE_CHECKING:
    from lib.book.execute import Executed

__all__ = ["git_output", "read_records", "write_record"]

_FIELDS = {
    "chapter",
    "profile",
    "parameters",
    "values",
    "tables",
    "verdicts",
    "code",
    "data",
    "python",
    "packages",
    "hardware",
    "finished",
    "seconds",
}


def read_records(book: Path, chapter: str) -> dict[str, dict[str, Any]]:
    """Recorded runs of a chapter.

    Parameters
    ----------
    book : pathlib.Path
        The folder that holds ``records``.
    chapter : str
        The chapter's name.

    Returns
    -------
    dict
        Profile to record.

    Raises
    ------
    ValueError
        When a file is damaged, incomplete or stands under another profile's name.
    """
    found = {}
    for path in sorted((book / "records").glob(f"*/{chapter}.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"recorded run {path} is no JSON: {error}") from None
        if not isinstance(record, dict) or set(record) - {"part_of"} != _FIELDS:
            raise ValueError(f"recorded run {path} must hold exactly {', '.join(sorted(_FIELDS))}")
        if (record["profile"], record["chapter"]) != (path.parent.name, chapter):
            raise ValueError(
                f"recorded run {path} is of chapter {record['chapter']} under the profile "
                f"{record['profile']}"
            )
        found[path.parent.name] = record
    return found


def write_record(book: Path, executed: "Executed") -> Path:
    """Store an execution as the recorded run of its chapter and profile.

    Parameters
    ----------
    book : pathlib.Path
        The folder that holds ``records``.
    executed : Executed
        The execution; from the cache it still knows the machine that computed it.

    Returns
    -------
    pathlib.Path
        The file written.
    """
    record = {name: getattr(executed, name) for name in sorted(_FIELDS)}
    path = book / "records" / executed.profile / f"{executed.chapter}.json"
    return write_atomic(path, json.dumps(record, indent=1, sort_keys=True) + "\n")


def git_output(root: Path | None, *command: str) -> str:
    """Return what git prints in a folder; nothing where it fails or there is no checkout.

    Parameters
    ----------
    root : pathlib.Path or None
        The folder.
    *command : str
        ``"rev-parse", "HEAD"`` and the like.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *command], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
