"""What commands have measured, as parts of pages: each part shows a record of ``book/records``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lib.book import benchmarks, proofs, slices
from lib.book.records import read_measured
from lib.book.render import note_html


class _Record(NamedTuple):
    """How a record is made, what it must hold, and HTML of it by part of a page."""

    target: str  # of make
    fields: Sequence[str]
    parts: Mapping[str, Callable[[Mapping[str, Any]], str]]


_RECORDS = {
    "benchmarks": _Record("bench", benchmarks.FIELDS, benchmarks.PARTS),
    "faults": _Record(
        "proofs",
        ("finished", "commit", "machine", "files", "long"),
        {"faults": proofs.faults_html, "long": proofs.long_html},
    ),
    "coverage": _Record(
        "coverage",
        ("date", "commit", "tests", "total", "packages", "not_reached"),
        {"coverage": proofs.coverage_html, "uncovered": proofs.uncovered_html},
    ),
    "mutants": _Record(
        "mutants",
        ("finished", "commit", "tool", "tests", "groups", "modules", "survivors"),
        {"mutants": proofs.mutants_html, "survivors": proofs.survivors_html},
    ),
    "portable": _Record(
        "portable",
        ("finished", "commit", "machine", "versions", "tests", "settings"),
        {"portable": proofs.portable_html},
    ),
    "rehearsal": _Record(
        "rehearse PROFILE=gpu", slices.FIELDS, {"rehearsal": slices.rehearsal_html}
    ),
}
#: The record that each part shows.
PARTS = {part: name for name, record in _RECORDS.items() for part in record.parts}


def measured_html(book: Path, part: str) -> str:
    """HTML of a part, or which command would record what it shows."""
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    record = _RECORDS[PARTS[part]]
    found = read_measured(book, PARTS[part], record.fields)
    if found is None:
        return note_html(f"No run has been recorded here: `make {record.target}` records one.")
    return record.parts[part](found)
