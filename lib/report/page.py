"""A report on the page of a chapter."""

from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_object_dtype

from lib.report.figures import plot_verdicts
from lib.report.reports import Report
from lib.report.types import ANALYSES
from lib.report.verdicts import verdicts


def _format(column: pd.Series) -> str:
    """Three decimals, or three digits where some of the numbers are counts or tiny."""
    sizes = np.abs(column[np.isfinite(column) & (column != 0)])
    mixed = bool(((sizes < 1e-3) | (sizes > 1) & (sizes % 1 == 0)).any())
    return ".3g" if mixed else ".3f"


def show(chapter: Any, report: Report, name: str, figures: bool = True) -> set[str]:
    """Show what an analysis found on a chapter's page, or why it was skipped; or all verdicts.

    Parameters
    ----------
    chapter : lib.book.session.Chapter
        The running chapter.
    report : Report
        Of :func:`lib.report.run_report`.
    name : str
        Of :data:`lib.report.ANALYSES`; or ``"verdicts"``, for a picture of what a report says
        first.
    figures : bool
        Whether to show the analysis's figures, too; else the chapter draws from its tables.

    Returns
    -------
    set of str
        The tables that are shown.
    """
    if name == "verdicts":
        answers = verdicts(report.analyses, report.settings)
        chapter.figure(
            plot_verdicts(answers),
            "verdicts",
            alt="; ".join(f"{one.question} {one.word}" for one in answers),
            caption="What the page of this report says first.",
        )
        return set()
    if name not in ANALYSES:
        raise ValueError(f"name must be one of {', '.join(ANALYSES)}, verdicts, got {name!r}")
    if name in report.skipped:
        chapter.note(f"{ANALYSES[name]}: skipped. {report.skipped[name]}")
        return set()
    found = report.analyses[name]
    chapter.note(found.verdict)
    for place, (key, table) in enumerate(found.tables.items()):
        formats = {
            c: _format(pd.to_numeric(table[c], errors="coerce"))
            for c in table
            if is_float_dtype(table[c]) or is_object_dtype(table[c])
        }
        chapter.table(table, key, found.captions[key], formats, aside=place > 0)
    for key, drawing in found.drawings.items() if figures else ():
        chapter.figure(drawing.draw(), key, alt=drawing.alt, caption=drawing.caption)
    notes = [f"{text[:1].upper()}{text[1:]}." for text in found.warnings]
    if len(notes) > 1:
        chapter.note("\n- ".join(["Notes", *notes]))
    elif notes:
        chapter.note(f"Note: {found.warnings[0]}.")
    return set(found.tables)
