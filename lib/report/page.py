"""A report on the page of a chapter."""

from typing import Any

from pandas.api.types import is_float_dtype

from lib.report.analysis import ANALYSES
from lib.report.report import Report

_FORMAT = ".4g"


def show(chapter: Any, report: Report, name: str) -> None:
    """Show what an analysis found on a chapter's page, or why it was skipped.

    Parameters
    ----------
    chapter : lib.book.session.Chapter
        The running chapter.
    report : Report
        Of :func:`lib.report.run_report`.
    name : str
        Of :data:`lib.report.ANALYSES`.

    Raises
    ------
    ValueError
        On an unknown name.
    """
    if name not in ANALYSES:
        raise ValueError(f"name must be one of {', '.join(ANALYSES)}, got {name!r}")
    if name in report.skipped:
        chapter.note(f"{ANALYSES[name]}: skipped. {report.skipped[name]}")
        return
    found = report.analyses[name]
    chapter.note(found.verdict)
    for place, (key, table) in enumerate(found.tables.items()):
        formats = dict.fromkeys((c for c in table if is_float_dtype(table[c])), _FORMAT)
        chapter.table(table, key, found.captions[key], formats, aside=place > 0)
    for key, drawing in found.drawings.items():
        chapter.figure(drawing.draw(), key, alt=drawing.alt, caption=drawing.caption)
    for text in found.warnings:
        chapter.note(f"Note: {text}.")
