"""Recorded runs: results too long for a build, kept in the repository as text.

``book/records/<profile>/<chapter>.json`` holds the values, tables and verdicts of one
execution with everything that produced it: parameters, fingerprints of code and
data, versions, hardware, date and duration. Pages show them beside the present build.
``part_of`` names the chapter whose one run this page was a part of, before it had a page.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.runs import hardware, write_atomic

if TYPE_CHECKING:
    from lib.book.execute import Executed

__all__ = [
    "git_output",
    "origin",
    "read_measured",
    "read_records",
    "record_command",
    "write_measured",
    "write_record",
]

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
    "source",
}
_OPTIONAL = {"part_of", "source"}


def read_records(book: Path, chapter: str) -> dict[str, dict[str, Any]]:
    """Recorded runs of a chapter."""
    found = {}
    for path in sorted((book / "records").glob(f"*/{chapter}.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"recorded run {path} is no JSON: {error}") from None
        needed = _FIELDS - _OPTIONAL
        if not isinstance(record, dict) or set(record) - _OPTIONAL != needed:
            raise ValueError(f"recorded run {path} must hold exactly {', '.join(sorted(needed))}")
        if (record["profile"], record["chapter"]) != (path.parent.name, chapter):
            raise ValueError(
                f"recorded run {path} is of chapter {record['chapter']} under the profile "
                f"{record['profile']}"
            )
        found[path.parent.name] = record
    return found


def write_record(book: Path, executed: "Executed") -> Path:
    """Store an execution as the recorded run of its chapter and profile."""
    record = {name: getattr(executed, name) for name in sorted(_FIELDS)}
    path = book / "records" / executed.profile / f"{executed.chapter}.json"
    return write_atomic(path, json.dumps(record, indent=1, sort_keys=True) + "\n")


def read_measured(book: Path, name: str, needed: Collection[str]) -> dict[str, Any] | None:
    """What a command measured: ``records/<name>.json``, None if there is none."""
    path = book / "records" / f"{name}.json"
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"record {path} is no JSON: {error}") from None
    missing = [field for field in needed if field not in record]
    if missing:
        raise ValueError(f"record {path} lacks {', '.join(missing)}")
    return record


def write_measured(book: Path, name: str, record: Mapping[str, Any]) -> Path:
    """Store what a command measured, whole or not at all."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return write_atomic(book / "records" / f"{name}.json", text)


def origin(root: Path | None) -> dict[str, Any]:
    """When, by which commit and on which machine something was measured."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_output(root, "rev-parse", "HEAD"),
        "changed": bool(git_output(root, "status", "--porcelain")),
        "machine": hardware(),
    }


def record_command(
    name: str,
    make: Callable[[Sequence[Path], Path], Mapping[str, Any]],
    arguments: Sequence[str] | None,
) -> int:
    """Run a command line that turns reports of pytest into a record; return its exit status."""
    parser = argparse.ArgumentParser(description=f"Write the record {name} of the book.")
    parser.add_argument("report", type=Path, nargs="+", help="what pytest wrote, oldest first")
    parser.add_argument("--book", type=Path, default=Path("book"))
    options = parser.parse_args(arguments)
    try:
        record = make(options.report, options.book.parent)
        path = write_measured(options.book, name, record)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


def git_output(root: Path | None, *command: str) -> str:
    """Return what git prints in a folder; nothing where it fails or there is no checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *command], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
