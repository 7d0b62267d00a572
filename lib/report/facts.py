"""What the head of a report says: of which file, of how many rows, made when and how."""

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

from lib import __version__
from lib.report.naming import counted
from lib.report.predictions import ModelPredictions

_PARTS = ("test", "holdout", "user")


def facts_of(given: ModelPredictions) -> dict[str, str]:
    """File and hash, rows and classes, date and version.

    The date is that of ``SOURCE_DATE_EPOCH`` (seconds, UTC) where that is set, so that a page can
    be made again to the byte.
    """
    found = {"File": given.source or "predictions"}
    path = Path(given.source)
    if given.source and path.is_file():
        with path.open("rb") as file:
            found["SHA-256"] = hashlib.file_digest(file, "sha256").hexdigest()
    found["Rows"] = ", ".join(_rows(given))
    if classes := _classes(given):
        found["Classes"] = classes
    found["Made"] = f"{_day():%Y-%m-%d}, by version {__version__}"
    return {name: text for name, text in found.items() if text}


def _rows(given: ModelPredictions) -> list[str]:
    """How many rows each part has."""
    told = []
    for part in _PARTS:
        arrays = [v for n, v in given.given.items() if n.startswith(f"{part}_")]
        if arrays:
            told.append(counted(len(arrays[0]), f"{part} row"))
    for name in ("member", "nonmember"):
        if given.has(f"{name}_scores"):
            told.append(counted(len(getattr(given, f"{name}_scores")), name))
    return told


def _classes(given: ModelPredictions) -> str:
    """How many classes, and their names where these are few."""
    widths = [v.shape[1] for n, v in given.given.items() if n.endswith("_logits")]
    labels = [v for n, v in given.given.items() if n.endswith(("_labels", "_predicted"))]
    count = max([len(given.class_names), *widths, *(int(v.max()) + 1 for v in labels)], default=0)
    if not count:
        return ""
    names = given.class_names
    if not names:
        return f"{count:,}"
    shown = ", ".join(names[:6]) + ", ..." * (len(names) > 6)
    return f"{count:,} ({shown})"


def _day() -> datetime:
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(given), UTC) if given.isdigit() else datetime.now(UTC)
