"""The largest recorded run stands first on a page; what this build found is folded beneath it.

Chapters know nothing of recorded runs: they show what they compute, also to whoever runs one with
parameters of their own. Only a page of the site sets the one before the other.
"""

import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lib.book.chapters import PROFILES
from lib.book.claims import Claim
from lib.book.execute import CELLS_MIME, FIGURE_MIME, TABLE_MIME, VERDICT_MIME, Executed
from lib.book.pictures import draw_cells
from lib.book.records import by_size, figure_of
from lib.book.render import (
    LONGEST,
    THIS_BUILD,
    cells_html,
    claim_html,
    counts_text,
    csv_link,
    figure_html,
    folded,
    largest_run,
    note_html,
    of_claim,
    table_html,
    verdicts_html,
)
from lib.book.site import light_svg, svg_of
from lib.book.words import duration_text, name_text
from lib.plot import svg_bytes

#: Parameters that say what was trained on what.
_WHAT = ("dataset", "images", "models", "model")


def larger_runs(records: Mapping[str, Any], profile: str) -> dict[str, Any]:
    """The recorded runs that are larger than a build of a profile, the largest first."""
    built = PROFILES.index(profile)
    names = [name for name in by_size(records) if PROFILES.index(name.partition(".")[0]) > built]
    return {name: records[name] for name in names}


@dataclass(frozen=True)
class Page:
    """A page: what this build executed, its chapter's larger recorded runs, and all claims.

    `records` by name, the largest first; `quoted` are the values that prose of the book quotes.
    """

    done: Executed
    records: Mapping[str, Mapping[str, Any]]
    claims: Mapping[str, Claim]
    quoted: Collection[str] = ()

    @property
    def run(self) -> Mapping[str, Any] | None:
        """The run that the page shows first, None if that is this build."""
        return next(iter(self.records.values()), None)

    @property
    def complete(self) -> bool:
        """Whether the first run has all values that are quoted: no sentence mixes two runs."""
        return self.run is not None and set(self.quoted) <= set(self.run["values"])

    @property
    def values(self) -> Mapping[str, Any]:
        """What prose quotes: values of the first run, or of this build if that lacks some."""
        return self.run["values"] if self.complete else self.done.values

    def picture(self, name: str) -> dict[str, str]:
        """A figure of the page with its ``svg`` and ``alt``, of the first run that has it."""
        kept = (figure_of(run, name) for run in self.records.values())
        return next(filter(None, kept), None) or self.done.figures[name]

    def figure(self, name: str) -> str:
        """HTML of a figure as :meth:`outputs` has it."""
        return self.outputs(self.done.outputs_of_figures[name])

    def outputs(self, data: Mapping[str, Any]) -> str:
        """HTML of one output, whatever stands first in it."""
        own = data["text/html"]
        if CELLS_MIME in data:
            return self._cells(**data[CELLS_MIME])
        if VERDICT_MIME in data:
            verdict = data[VERDICT_MIME]
            runs = of_claim(self.records, verdict["id"])
            return claim_html(self.claims[verdict["id"]], verdict, runs)
        if self.run is None:
            return own
        if "class='companion-parameters'" in own:
            return own + self._source()
        if own.startswith("<div class='companion-note'"):
            return _HERE + own
        if FIGURE_MIME not in data and TABLE_MIME not in data:
            return own
        versions = {}
        for name in self.records:
            shown = self._version(name, data)
            if shown and shown not in versions:
                versions[shown] = f"the recorded run ({name})"
        if not versions:
            return _HERE + own
        versions.setdefault(own, THIS_BUILD)
        (first, _), *others = versions.items()
        return first + _others(dict(others))

    def verdicts(self, found: Sequence[Mapping[str, Any]]) -> str:
        """HTML of several verdicts of a cell, as one table."""
        runs = {each["id"]: of_claim(self.records, each["id"]) for each in found}
        claims = [self.claims[each["id"]] for each in found]
        return verdicts_html(claims, {each["id"]: each for each in found}, runs)

    def _version(self, name: str, data: Mapping[str, Any]) -> str:
        """A figure or table of a recorded run; the build's own where they are the same."""
        run, own = self.records[name], data["text/html"]
        if FIGURE_MIME in data:
            about = data[FIGURE_MIME]
            kept = figure_of(run, about["name"])
            if kept is None:
                return ""
            if light_svg(kept["svg"]) == light_svg(svg_of(own)):
                return own
            words = kept["alt"], kept["caption"], about.get("aside", "")
            return figure_html(kept["svg"].encode(), about["name"], *words)
        table = data[TABLE_MIME]
        kept = run["tables"].get(table["name"])
        if kept is None:
            return ""
        return own if kept["csv"] == table["csv"] else self._table(kept, table, name)

    def _cells(self, ids: list[str], caption: str) -> str:
        claims = [self.claims[i] for i in ids]
        verdicts = {verdict["id"]: verdict for verdict in self.done.verdicts}
        recorded = {i: of_claim(self.records, i) for i in ids}
        table = cells_html(claims, verdicts, recorded, caption)
        largest = {i: largest_run(verdicts[i], recorded[i]) for i in ids}
        found = {i: run for i, (run, _) in largest.items()}
        # Recorded runs are not mixed with the build: what they lack has no number of ours.
        of_records = {i for i, (_, source) in largest.items() if source != THIS_BUILD} or set(ids)
        none = dict.fromkeys(("value", "shown", "interval"))
        drawn = {i: found[i] if i in of_records else found[i] | none for i in ids}
        figure = draw_cells(claims, drawn)
        if figure is None:
            return table
        name = claims[0].group.replace(", ", "-").replace(" ", "-")
        alt = f"The {len(ids)} cells of {claims[0].group}: {counts_text(found.values())}."
        said = f"{caption}: the printed numbers beside those of the largest run that has each."
        if any(claim.reach for claim in claims):
            said += " Bars are 95% intervals over trainings; the paper's follow from its ± (sd)."
        return figure_html(svg_bytes(figure, name), name, alt, said) + table

    def _table(self, kept: Mapping[str, Any], table: Mapping[str, Any], run: str) -> str:
        texts = dict.fromkeys(table.get("texts", ()), str)  # such as years
        source, options = io.StringIO(kept["csv"]), {"keep_default_na": False, "na_values": [""]}
        frame = pd.read_csv(source, dtype=texts, **options)
        words = frame.select_dtypes(include=["object", "str"]).columns
        frame[words] = frame[words].fillna("")
        caption, formats = kept["caption"], kept["formats"]
        whole, shown = frame, pd.read_csv(io.StringIO(table["csv"]), nrows=0).columns
        if set(shown) < set(frame):  # the record is older and has columns that the page now omits,
            # or it is larger: a column by a number is of a parameter
            kept_columns = [c for c in frame if c in shown or c.replace(".", "", 1).isdigit()]
            page = {c: f for c, f in table["formats"].items() if c in frame}
            frame, formats = frame[kept_columns], (formats or {}) | page
        if "whole" in kept:
            whole = pd.read_csv(io.StringIO(kept["whole"]), dtype=str, **options)
        elif "whole" in table and not set(shown) < set(whole):  # an older record kept no more
            caption = caption.partition("; the download has")[0]
        name = f"{self.done.chapter}_{table['name']}_{run}.csv"
        longest = 0 if table.get("aside") else LONGEST
        return table_html(frame, caption, formats, csv_link(whole, name), longest)

    def _source(self) -> str:
        run, (first, *others) = self.run, self.records
        what = ", ".join(map(name_text, _what(run["parameters"])))
        machine = run["hardware"]
        version = "by this version of the code"
        if run["code"] != self.done.code:
            commit = run["commit"][:7]
            version = f"by commit {commit}" if commit else "by an earlier version of the code"
        also = "".join(f", and what the run `{name}`" for name in others)
        text = "Numbers, tables and figures" if self.complete else "Tables and figures"
        older = (
            "" if self.complete else " The record is older than the text, which quotes this build."
        )
        return note_html(
            f"{text} of this page come from its largest recorded run "
            f"(`{first}`{': ' if what else ''}{what}), made on {run['finished'][:10]} "
            f"{version} on {machine['cores']} cores of {machine['processor']} in "
            f"{duration_text(run['seconds'])}, stored trainings not counted. What this "
            f"build{also} found is folded beneath each, or marked where no recorded run has it."
            f"{older}"
        )


def _what(parameters: Mapping[str, Any]) -> list[str]:
    found = [parameters[name] for name in _WHAT if name in parameters]
    return [word for each in found for word in ([each] if isinstance(each, str) else each)]


_HERE = "<p class='companion-source'>This build</p>"


def _others(versions: Mapping[str, str]) -> str:
    """HTML of other versions by whose they are, in one fold."""
    if not versions:
        return ""
    pages = [re.sub(r" id='figure-[^']*'", "", page, count=1) for page in versions]
    if len(pages) > 1:
        said = [words[0].upper() + words[1:] for words in versions.values()]
        pages = [
            f"<p class='companion-source'>{w}</p>{p}" for w, p in zip(said, pages, strict=True)
        ]
    whose = " and ".join(versions.values())
    return folded(f"The same from {whose}", "".join(pages), "companion-build")
