"""A page shows one run: the largest that is recorded, or this build.

Chapters know nothing of recorded runs: they show what they compute, also to whoever runs one with
parameters of their own. Only a page of the site puts what a recorded run has in its place.
"""

import ast
import html
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd

from lib.book.chapters import PROFILES, book_of, declared_parameters, read_chapter, reproducing
from lib.book.claims import DATA, LEARNER, NETWORK, TRAINING, Claim, differing
from lib.book.execute import Executed, shown_by
from lib.book.exercises import by_itself
from lib.book.records import by_size, figure_of
from lib.book.render import (
    THIS_BUILD,
    Settled,
    claim_html,
    code_spans,
    counts_text,
    csv_link,
    figure_html,
    group_html,
    lines_html,
    note_html,
    of_claim,
    parameters_html,
    run_words,
    settled,
    table_html,
)
from lib.book.statements import OURS, Statement, verdict_of
from lib.book.words import duration_text, name_text
from lib.runs import fingerprint

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

    `path` is the chapter's file; `records` are by name, the largest first; `values` and `figures`
    are the names of those that the book quotes: a run without one of them, older than the text, is
    not shown; `build` asks for this build though there is a larger run. `statements` are by the id
    of each of their claims; `ledger` says the address of their page, as seen from this one.
    """

    done: Executed
    records: Mapping[str, Mapping[str, Any]]
    claims: Mapping[str, Claim]
    path: Path = Path()
    values_quoted: Collection[str] = ()
    figures_quoted: Collection[str] = ()
    build: bool = False
    statements: Mapping[str, Statement] = field(default_factory=dict)
    ledger: Callable[[], str] = str

    @cached_property
    def run(self) -> Mapping[str, Any] | None:
        """The recorded run that the page shows, None if that is this build."""
        first = next(iter(self.records.values()), None)
        return None if self.build or self.outdated else first

    @cached_property
    def outdated(self) -> bool:
        """Whether the largest recorded run lacks what the book quotes."""
        first = next(iter(self.records.values()), None)
        if first is None:
            return False
        lacking = {*self.values_quoted} - {*first["values"]}
        return bool(lacking or {*self.figures_quoted} - {*first["figures"]})

    @property
    def values(self) -> Mapping[str, Any]:
        """Values of the run that the page shows."""
        return self.done.values if self.run is None else self.run["values"]

    def picture(self, name: str) -> dict[str, str]:
        """A figure of the page with its ``svg``, maybe ``wide``, ``alt`` and ``caption``."""
        found = self.done.figures.get(name) if self.run is None else figure_of(self.run, name)
        if found is None:
            raise KeyError(name)
        return found

    @cached_property
    def verdicts(self) -> dict[str, Settled]:
        """The verdict on each claim, and which run it is of: see :func:`lib.book.render.settled`.

        Where network, data, training or learner matter, the run whose are the most like the
        paper's comes first; else the largest.
        """
        runs = {} if self.run is None else self.records
        found = {}
        for verdict in self.done.verdicts:
            full = self.claims[verdict["id"]].full_scale
            alike = (*NETWORK, *DATA, *TRAINING, *LEARNER)
            full = {name: full[name] for name in alike if name in full}
            scales = {
                name: run.get("parameters", {}) | run.get("used", {}) for name, run in runs.items()
            }
            order = sorted(by_size(runs), key=lambda name: len(differing(full, scales[name])))
            found[verdict["id"]] = settled(verdict, of_claim(runs, verdict["id"]), order)
        return found

    # ------------------------------------------------------------------ parts of the page

    def parts(self, cell: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What a cell shows, in the run that the page shows: see :func:`lib.book.execute.shown_by`.

        An older record, or one of another version of the cell, did not keep that: then it is what
        this build shows there, less its notes, and what the cell names and the record alone has.
        """
        own = shown_by(cell)
        if self.run is None:
            return own
        kept = self._kept.get(fingerprint(cell["source"]))
        if kept is not None:
            return kept
        named = self._unplaced.get(cell["source"], [])
        return [part for part in own if part["kind"] != "note"] + named

    @cached_property
    def _kept(self) -> Mapping[str, list[dict[str, Any]]]:
        """What the record kept of cells, if with it each claim stands on the page once."""
        shown = {} if self.run is None else self.run.get("shown", {})
        parts = (
            part
            for cell in self.done.cells
            for part in shown.get(fingerprint(cell["source"]), shown_by(cell))
        )
        ids = [i for part in parts for i in part.get("ids", [part.get("id")]) if i]
        return shown if sorted(ids) == sorted(v["id"] for v in self.done.verdicts) else {}

    @cached_property
    def _unplaced(self) -> dict[str, list[dict[str, Any]]]:
        """Figures and tables that the record alone has, by the first cell that names them."""
        placed = {p["name"] for c in self.done.cells for p in shown_by(c) if "name" in p}
        found: dict[str, list[dict[str, Any]]] = {}
        wanted = [(f, n) for f in ("figure", "table") for n in self.run[f"{f}s"] if n not in placed]
        names = [(c["source"], list(_names(c["source"]))) for c in self.done.cells if wanted]
        for kind, name in wanted:
            places = (s for s, patterns in names if any(p.fullmatch(name) for p in patterns))
            if source := next(places, None):
                part = {"kind": kind, "name": name} | ({"aside": True} if kind == "table" else {})
                found.setdefault(source, []).append(part)
        return found

    def html(self, part: Mapping[str, Any]) -> str:
        """HTML of a part; nothing for a figure or table that the run lacks."""
        match part["kind"]:
            case "verdict":
                return self.lines([part["id"]])
            case "cells":
                return self._cells(part["ids"], part["caption"])
        if self.run is None:
            return part["output"]["data"]["text/html"]
        match part["kind"]:
            case "figure":
                return self.figure(part["name"])
            case "table":
                return self._table(part)
            case "note":
                return note_html(part["text"])
        return self._parameters()

    def lines(self, ids: Sequence[str], caption: str = "") -> str:
        """HTML of verdicts, a line for each statement; `caption` says what all of them are of."""
        groups: dict[str, list[str]] = {}
        for i in ids:
            groups.setdefault(self._statement(i).id, []).append(i)
        return lines_html(
            self._line(group, caption * (len(groups) == 1)) for group in groups.values()
        )

    def _line(self, ids: Sequence[str], caption: str) -> str:
        """The verdict on the one claim, or on several of a statement."""
        of = {i: self.verdicts[i] for i in ids}
        if len(ids) == 1:
            return claim_html(self.claims[ids[0]], of[ids[0]], self.name, self.ledger())
        one = replace(self._statement(ids[0]), claims=tuple(ids))
        word, _ = verdict_of(one, self.claims, {i: each.found for i, each in of.items()})
        address = f"{self.ledger()}#statement-{html.escape(one.id)}"
        return group_html(caption or one.says, word, of, address)

    def _statement(self, i: str) -> Statement:
        claim = self.claims[i]
        own = Statement(i, OURS, claim.place, "finding", claim.claim, claims=(i,))
        return self.statements.get(i, own)

    def figure(self, name: str) -> str:
        """HTML of a figure; nothing if the run lacks it."""
        try:
            found = self.picture(name)
        except KeyError:
            return ""
        svg, wide = (found.get(each, "").encode() for each in ("svg", "wide"))
        return figure_html(svg, name, found["alt"], found["caption"], wide)

    def _cells(self, ids: list[str], caption: str) -> str:
        claims = [self.claims[i] for i in ids]
        of = {i: self.verdicts[i] for i in ids}
        # Recorded runs are not mixed with the build: what they lack has no number of ours.
        ours = {i for i in ids if self.run is None or of[i].run != THIS_BUILD}
        none = dict.fromkeys(("value", "shown", "interval"))
        drawn = {i: of[i].found if i in ours else of[i].found | none for i in ids}
        if not claims[0].picture:
            return self.lines(ids, caption)
        from lib.book.pictures import draw_cells  # here, as importing these takes a second
        from lib.plot import svg_pair

        figure = draw_cells(claims, drawn)
        if figure is None:
            return self.lines(ids, caption)
        name = claims[0].group.replace(", ", "-").replace(" ", "-")
        alt = f"The {len(ids)} cells of {claims[0].group}: {counts_text(of.values())}."
        said = f"{caption}: the printed numbers beside those of the largest run that has each."
        if any(claim.reach for claim in claims):
            said += " Bars are 95% intervals over training runs; the paper's are from its ± (sd)."
        svg, wide = svg_pair(figure, name)
        return figure_html(svg, name, alt, said, wide) + self.lines(ids, claims[0].group)

    def _table(self, part: Mapping[str, Any]) -> str:
        kept = self.run["tables"].get(part["name"])
        if kept is None:
            return ""
        texts = dict.fromkeys(part.get("texts", ()), str)  # such as years
        source, options = io.StringIO(kept["csv"]), {"keep_default_na": False, "na_values": [""]}
        frame = pd.read_csv(source, dtype=texts, **options)
        words = frame.select_dtypes(include=["object", "str"]).columns
        frame[words] = frame[words].fillna("")
        whole = frame
        if "whole" in kept:
            whole = pd.read_csv(io.StringIO(kept["whole"]), dtype=str, **options)
        run = next(iter(self.records))
        download = csv_link(whole, f"{self.done.chapter}_{part['name']}_{run}.csv")
        aside = bool(part.get("aside"))
        return table_html(frame, kept["caption"], kept["formats"], download, aside=aside)

    def _parameters(self) -> str:
        declared = declared_parameters(read_chapter(self.path.read_text(encoding="utf-8")))
        params, given = book_of(self.path).parent / "params", self.run["parameters"]
        command = reproducing(self.done.chapter, params, declared, given)
        return parameters_html(declared, given, command)

    # ------------------------------------------------------------------ top and foot

    @property
    def stands_in(self) -> str:
        """HTML of a line that says which data took the place of those asked for; or nothing."""
        run = vars(self.done) | {"used": self.done.used} if self.run is None else self.run
        used, asked = (run.get(each, {}).get("dataset") for each in ("used", "parameters"))
        if used in (None, asked):
            return ""
        here, missing = (html.escape(name_text(name)) for name in (used, str(asked)))
        said = f"{missing} could not be had: this page shows {here} instead."
        return f"<p class='companion-source'>{said}</p>"

    def foot(self, downloads: Mapping[str, str]) -> str:
        """HTML of what a page ends with: its run, its code with `downloads`, its parameters.

        Code that is no lesson is shown in its place for who asks for it (``code.js``).
        """
        links = " · ".join(
            f"<a href='{to}'{' download' * to.endswith('.ipynb')}>{name}</a>"
            for name, to in downloads.items()
        )
        parts = (part for cell in self.done.cells for part in shown_by(cell))
        parameters = (self.html(part) for part in parts if part["kind"] == "parameters")
        return (
            "<div class='companion-foot' role='region' aria-label='Run, code and parameters'>"
            f"<p><strong>Run.</strong> {code_spans(self.source)}</p>"
            "<p><strong>Code of this page.</strong> <button type='button' aria-expanded='false' "
            f"hidden>Show all code in place</button> {links} <span role='status'></span></p>"
            f"{''.join(parameters)}</div>"
        )

    # ------------------------------------------------------------------ which run

    @property
    def name(self) -> str:
        """What the page calls its run."""
        return THIS_BUILD if self.run is None else run_words(next(iter(self.records)))

    @property
    def finished(self) -> str:
        """When the run ended, ISO 8601."""
        return self.done.finished if self.run is None else self.run["finished"]

    @property
    def source(self) -> str:
        """The line at the foot: which run the page shows, and how to see another."""
        run = vars(self.done) | {"used": self.done.used} if self.run is None else self.run
        machine = run["hardware"]
        what = ", ".join(map(name_text, _what(run["parameters"] | run.get("used", {}))))
        facts = [
            f"profile {run['profile']}" + f" ({what})" * bool(what),
            f"commit {run['commit'][:7]}" if run.get("commit") else "",
            run["finished"][:10],
            f"{duration_text(run['seconds'])} on {machine['cores']} cores of "
            f"{machine['processor']}, stored training runs not counted",
        ]
        said = f"This page shows {'' if self.run is None else 'the '}{self.name}: "
        said += f"{', '.join(filter(None, facts))}. "
        if self.outdated:
            said += "The recorded run is older than the text. "
        if self.run is None:
            return said + ("Recorded runs: `make book`." if self.build else "")
        anew = {f.get("redrawn", "")[:7] for f in self.run["figures"].values()} - {""}
        if anew:
            said += f"Commit {', '.join(sorted(anew))} drew figures anew from its tables. "
        if self.mixed:
            said += "Printed lines, moving figures and those of theory are this build's. "
        return said + "Your own: `COMPANION_SHOW=build make book`."

    @cached_property
    def mixed(self) -> bool:
        """Whether a page of a record has printed lines of this build, since it kept none."""
        cells = [cell for cell in self.done.cells if fingerprint(cell["source"]) not in self._kept]
        parts = (
            part
            for cell in cells
            for part in shown_by(cell)
            if "remove-cell" not in cell["tags"] and not by_itself(cell["tags"])
        )
        return self.run is not None and any(part["kind"] == "other" for part in parts)


def framed(cells: list[nbformat.NotebookNode], page: Page) -> list[nbformat.NotebookNode]:
    """A page's cells: under its title what stands in for data."""
    if cells and cells[0].cell_type == "markdown" and page.stands_in:
        title, _, rest = cells[0].source.partition("\n")
        cells[0].source = f"{title}\n\n{page.stands_in}\n\n{rest}"
    return cells


def _names(source: str) -> Iterator[re.Pattern]:
    """Patterns of the names in the code of a cell: its texts, also those with a variable part."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:  # a magic command
        return
    for node in nodes:
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        constant = [part for part in parts if isinstance(part, ast.Constant)]
        if sum(len(part.value) for part in constant if isinstance(part.value, str)) >= 3:
            yield re.compile(
                "".join(
                    re.escape(part.value) if isinstance(part, ast.Constant) else r"\w+"
                    for part in parts
                )
            )


def _what(parameters: Mapping[str, Any]) -> list[str]:
    found = [parameters[name] for name in _WHAT if name in parameters]
    return [word for each in found for word in ([each] if isinstance(each, str) else each)]
