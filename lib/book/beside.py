"""Beside the records: every claim that this build and one settle at the same size.

A difference beyond its tolerance says that a record is of other code than this, or that something
is wrong. Sizes are the same if all parameters are that the claim names in ``full_scale``.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from lib.book.claims import Claim
from lib.book.pages import Page
from lib.book.render import csv_link, note_html, table_html

#: How far exact values may lie apart, as a fraction of them and at least: rounding on another
#: processor, and of sums that cancel.
_ROUNDING, _FLOOR = 1e-6, 1e-12

#: Claims whose values may lie farther apart, and why.
EXPLAINED = {
    "P2-F4-no-error-beyond-3": "a count over all shuffles of the run: one in the build, twenty "
    "in the record"
}


def beside(pages: Mapping[str, Page]) -> pd.DataFrame:
    """The claims that this build and a recorded run settle at the same size.

    Returns
    -------
    pandas.DataFrame
        Columns ``chapter``, ``value`` (the claim), ``this build``, ``record``, ``difference`` and
        ``tolerance``: for an exact value rounding, for a random one half the widths of the
        intervals of both.
    """
    rows = [row for page in pages.values() for row in _rows(page)]
    columns = ["chapter", "value", "this build", "record", "difference", "tolerance"]
    return pd.DataFrame(rows, columns=columns)


def beyond(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose difference is larger than the tolerance."""
    return table[table["difference"] > table["tolerance"]]


def beside_html(pages: Mapping[str, Page]) -> str:
    """HTML of :func:`beside`, and of what lies beyond its tolerance."""
    table = beside(pages)
    far = list(beyond(table)["value"])
    said = f"{len(table)} values; beyond their tolerance: {len(far)}"
    said += "".join(f"\n- `{name}`: {EXPLAINED.get(name, 'not explained')}" for name in far)
    formats = dict.fromkeys(table.columns[2:], ".3g")
    download = csv_link(table, "this_build_beside_the_records.csv")
    caption = "Values of this build and of the record"
    return note_html(f"{said}.") + table_html(table, caption, formats, download)


def _rows(page: Page) -> Iterator[tuple]:
    ours = page.done.parameters | page.done.used
    for verdict in page.done.verdicts:
        claim = page.claims[verdict["id"]]
        for run in page.records.values():
            kept = next((v for v in run["verdicts"] if v["id"] == claim.id), None)
            theirs = run["parameters"] | run.get("used", {})
            same = all(ours.get(name) == theirs.get(name) for name in claim.full_scale)
            if kept is None or not same or None in (verdict["value"], kept["value"]):
                continue
            tolerance = _tolerance(claim, verdict, kept)
            if math.isfinite(tolerance):
                values = verdict["value"], kept["value"]
                yield (page.done.chapter, claim.id, *values, abs(values[0] - values[1]), tolerance)
                break


def _tolerance(claim: Claim, *found: Mapping[str, Any]) -> float:
    if claim.kind == "exact":
        return max(_FLOOR, _ROUNDING * max(abs(each["value"]) for each in found))
    return sum(_half(each) for each in found)


def _half(found: Mapping[str, Any]) -> float:
    """How far the interval of a value reaches; infinite with an open end, or for a single run."""
    ends = found.get("interval") or [None]
    if None in ends or found["n"] < 2:
        return math.inf
    return max(abs(end - found["value"]) for end in ends)
