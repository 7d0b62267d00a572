"""Recorded figures drawn anew from what their run recorded: looks need not wait for hours.

The record says which commit drew a figure that its run did not.
"""

import importlib
import pkgutil
from functools import cache, partial
from pathlib import Path

import lib.studies
from lib.book.records import (
    context,
    figure_of,
    git_output,
    packed_figure,
    read_record,
    record_files,
    run_of,
    write_anew,
)
from lib.book.site import light_svg
from lib.plot import svg_pair
from lib.studies.drawn import FIGURES, Draw, Run


def redraw_records(book: Path) -> list[Path]:
    """Draw what :func:`lib.studies.drawn.draws` marks in all records; the files that changed.

    Numbers and all else that a run found stay as they are. So does a figure whose tables or values
    the run did not record.
    """
    commit, draws, written = git_output(book.parent, "rev-parse", "HEAD"), figures(), []
    around = cache(partial(context, book))
    for path in record_files(book):
        record, changed = read_record(path), {}
        run = run_of(record)._replace(**around(record["chapter"]))
        for name in (name for chapter, name in draws if chapter == record["chapter"]):
            known = figure_of(record, name) or {}
            anew = redrawn(run, f"{record['chapter']}.{name}", draws[record["chapter"], name])
            if anew and anew != {part: known.get(part) for part in anew}:
                changed[name] = packed_figure(anew | {"redrawn": commit})
        if changed:
            record["figures"] |= changed
            written.append(write_anew(path, record))
    return written


def redrawn(run: Run, salt: str, draw: Draw) -> dict[str, str] | None:
    """A figure from what a run recorded, and what is around it; None if what it needs is not there.

    `salt` is the figure's name behind that of its chapter.
    """
    try:
        drawn = draw(run)
    except KeyError:  # a table, a column or a value
        return None
    narrow, wide = svg_pair(drawn.figure, salt)
    svgs = {"svg": light_svg(narrow.decode()), "wide": light_svg(wide.decode())}
    return {"alt": drawn.alt, "caption": drawn.caption} | svgs


def figures() -> dict[tuple[str, str], Draw]:
    """What draws a figure, by chapter and the figure's name, of all studies."""
    for module in pkgutil.walk_packages(lib.studies.__path__, "lib.studies."):
        importlib.import_module(module.name)
    return dict(FIGURES)
