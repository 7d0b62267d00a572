"""HTML of tables, claims and the ledger."""

import base64
import html
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lib.book.claims import (
    MISSED,
    MISSED_REDUCED,
    NOT_REPRODUCED,
    NOT_RUN,
    REDUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
)
from lib.book.columns import MANY, SHORT, breakable, columns_of, joined
from lib.book.parameters import Parameter
from lib.book.records import by_size
from lib.book.words import caption_text, number_text, powers, scale_text
from lib.data.untrusted import csv_text

Found = Mapping[str, Any]  # what one run found about a claim
Runs = Mapping[str, Found | None]  # that of recorded runs, by their names

#: Paper titles, in the order of the ledger.
PAPERS = {
    "P1": "Rabanser et al., Training Private Models That Know What They Don’t Know",
    "P2": "Pouget et al., Suitability Filter",
    "P3": "Zanella-Béguelin et al., Bayesian Estimation of Differential Privacy",
    "P4": "Choe et al., Counterfactually Comparing Abstaining Classifiers",
    "P5": "Malek Esmaeili et al., Antipodes of Label Differential Privacy",
}

_MARKS = {
    REPRODUCED: ("yes", "✓"),
    REDUCED: ("reduced", "◐"),
    NOT_REPRODUCED: ("no", "✗"),
    MISSED_REDUCED: ("no-reduced", "✗"),
    UNDECIDED: ("undecided", "?"),
    NOT_RUN: ("not-run", "–"),
}


#: A table of more rows is folded: what is open on a page is read, not searched.
LONGEST = 12


def table_html(
    frame: pd.DataFrame,
    caption: str = "",
    formats: Mapping[str, str] | None = None,
    download: str = "",
    longest: float = LONGEST,
) -> str:
    """HTML of a data frame in a box that scrolls sideways by itself, and of its download.

    One of more rows than `longest` is folded under its caption. The ends of an interval, and a
    value and its standard deviation, share a column; the download has each by itself.
    """
    caption = caption_text(caption)
    columns = joined(columns_of(frame, formats or {}))
    columns = [c for c in columns if any(c.texts)] or columns  # one that is empty says nothing
    # A column is set flush right, its heading too, where every entry is a number.
    kinds = [" class='number'" * column.number for column in columns]
    head = "".join(
        f"<th scope='col'{kind}>{html.escape(column.name)}</th>"
        for column, kind in zip(columns, kinds, strict=True)
    )
    whole = " class='whole'"
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind or whole * (len(text) <= SHORT)}>{breakable(text)}</td>"
            for text, kind in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in zip(*(column.texts for column in columns), strict=True)
    )
    many = " many" * (len(columns) > MANY)
    if len(frame) > longest:
        table = _scrolling(caption or "table", head, body, also=many) + download
        rows = f"{len(frame)} row{'s' * (len(frame) != 1)}"
        return folded(f"{caption or 'Table'} ({rows})", table, "companion-rows")
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return _scrolling(caption or "table", head, body, title, many) + download


def folded(summary: str, content: str, kind: str) -> str:
    """What a click opens. A search within the page and links to parts of it open it, too."""
    return f"<details class='{kind}'><summary>{html.escape(summary)}</summary>{content}</details>"


def _scrolling(label: str, head: str, body: str, title: str = "", also: str = "") -> str:
    """A table, given as HTML of its cells, in a box that scrolls sideways by itself."""
    return (
        "<div class='companion-scroll' role='region' tabindex='0' "
        f"aria-label='{html.escape(label)}'><table class='companion-table{also}'>"
        f"{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _heads(names: Iterable[str]) -> str:
    return "".join(f"<th scope='col'>{name}</th>" for name in names)


def note_html(text: str) -> str:
    """Return a note in a box of its own, with a list of what stands on lines that begin with "- ".

    What stands between backticks is set as code.
    """
    inside, *items = code_spans(text).split("\n- ")
    inside += f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>" if items else ""
    return f"<div class='companion-note' role='note'>{inside}</div>"


def code_spans(text: str) -> str:
    """HTML of a text in which what stands between backticks is code."""
    parts = re.split(r"`([^`]+)`", html.escape(text))
    return "".join(f"<code>{p}</code>" if i % 2 else powers(p) for i, p in enumerate(parts))


def figure_html(svg: bytes, name: str, alt: str, caption: str, aside: str = "") -> str:
    """A figure with alternative text; folded under the words `aside` if there are any."""
    page = (
        f"<figure class='companion-figure' id='figure-{html.escape(name)}'>{image_html(svg, alt)}"
        f"<figcaption>{html.escape(caption_text(caption))}</figcaption></figure>"
    )
    return folded(aside, page, "companion-rows") if aside else page


def picture_html(svg: bytes, alt: str) -> str:
    """A figure, small, for a page that leads to it."""
    return f"<p class='companion-picture'>{image_html(svg, alt)}</p>"


def image_html(svg: bytes, alt: str) -> str:
    """An SVG within a page."""
    source = base64.b64encode(svg).decode()
    return f"<img src='data:image/svg+xml;base64,{source}' alt='{html.escape(alt)}'>"


def parameters_html(declared: Sequence[Parameter], given: Mapping[str, Any], command: str) -> str:
    """The parameters of a run, folded, and the command that reproduces it."""
    rows = parameter_rows(declared, given)
    command = re.sub(r"^(papermill \S+ \S+) (-f \S+)$", r"\1 \\\n    \2", command)
    table = (
        table_html(rows, longest=math.inf)
        if len(rows)
        else "<p>This chapter has no parameters.</p>"
    )
    return folded(
        "Parameters in effect and how to reproduce this page",
        f"{table}<p>From the root of the repository:</p><pre>{html.escape(command)}</pre>",
        "companion-parameters",
    )


def parameter_rows(declared: Sequence[Parameter], given: Mapping[str, Any]) -> pd.DataFrame:
    """Name, value, allowed values and meaning of the parameters that a run had."""
    rows = [
        (p.name, json.dumps(given[p.name]), f"{p.kind} {p.allowed}", p.meaning.replace("`", ""))
        for p in declared
        if p.name in given
    ]
    return pd.DataFrame(rows, columns=["parameter", "value", "allowed", "meaning"])


def above_html(name: str) -> str:
    """What stands where a figure is made that the page has shown before."""
    return (
        f"<p class='companion-source'>The figure of this cell stands "
        f"<a href='#figure-{html.escape(name)}'>in the main line</a>.</p>"
    )


def csv_link(frame: pd.DataFrame, file_name: str) -> str:
    """Return a link that downloads the table as CSV, with no server involved."""
    content = base64.b64encode(csv_text(frame).encode()).decode()
    name = html.escape(file_name)
    return (
        f"<p class='companion-download'><a download='{name}' "
        f"href='data:text/csv;base64,{content}'>Download this table as CSV</a></p>"
    )


def _value(found: Found, unit: str) -> str:
    shown = found.get("shown")
    return html.escape(number_text(found["value"] if shown is None else shown, unit))


def _mark(verdict: str) -> str:
    kind, mark = _MARKS[verdict]
    said = f"role='img' aria-label='{verdict}' title='{verdict}'"
    return f"<span class='mark-{kind}' {said}>{mark}</span>"


def _interval(found: Found) -> str:
    """Return the interval that decided, where there is one; an open end is infinite."""
    if not found.get("interval"):
        return ""
    low, high = found["interval"]
    low, high = (
        "−∞" if low is None else number_text(low),
        "∞" if high is None else number_text(high),
    )
    return f" <span class='claim-interval'>[{low}, {high}]</span>"


def _chip(verdict: str) -> str:
    kind, mark = _MARKS[verdict]
    return f"<span class='verdict verdict-{kind}'>{mark} {verdict}</span>"


@dataclass(frozen=True)
class Settled:
    """The verdict on a claim, the run that it is of, and the recorded runs that say otherwise."""

    found: Found
    run: str
    otherwise: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        return self.found["verdict"]


THIS_BUILD = "this build"


def settled(verdict: Found, recorded: Runs) -> Settled:
    """The verdict of the largest recorded run that covers a claim, else of this build.

    A record that decides nothing, since it kept no interval, gives way to a build that does. Where
    neither covers the claim, the largest recorded run says why.
    """
    decided = verdict["verdict"] not in (NOT_RUN, UNDECIDED)
    known = {name: recorded[name] for name in by_size(recorded) if recorded[name]}
    for name, found in known.items():
        if found["verdict"] == NOT_RUN:
            continue
        if found["verdict"] == UNDECIDED and not found.get("interval") and decided:
            continue
        others = (run_words(other) for other, of in known.items() if _differ(found, of))
        return Settled(found, run_words(name), tuple(others))
    if known and verdict["verdict"] == NOT_RUN:
        name, found = next(iter(known.items()))
        return Settled(found, run_words(name))
    return Settled(verdict, THIS_BUILD)


def _elsewhere(of: Settled, here: str) -> str:
    """The run that a verdict is of, if a page of the run `here` shows it; nothing without one."""
    return f" <small>{html.escape(of.run)}</small>" if here not in ("", of.run) else ""


def claim_html(claim: Claim, of: Settled, here: str = "") -> str:
    """A verdict on a line, on a page of the run `here`; the rest opens beneath it."""
    found = of.found
    kind, _ = _MARKS[of.verdict]
    ours = f"ours {_value(found, claim.unit)}"
    if claim.measures:
        ours = f"{html.escape(claim.measures)}: {_value(found, claim.unit)}"
    paper = "" if claim.reported is None else f"paper {_reported(claim)} | "
    values = "not run" if of.verdict == NOT_RUN else paper + ours + _elsewhere(of, here)
    return (
        f"<details class='companion-claim claim-{kind}' id='claim-{html.escape(claim.id)}'>"
        f"<summary>{_mark(of.verdict)} <span class='claim-words'>{_words(claim)}</span> "
        f"<span class='claim-values'>{values}</span></summary>"
        f"<p class='claim-head'>{_chip(of.verdict)} {claim.paper}, "
        f"{html.escape(claim.place)}</p>{_details(claim, of)}</details>"
    )


def verdict_text(claim: Claim, found: Found) -> str:
    """A verdict on a line of plain text, as a kernel shows it."""
    ours = found["value"] if found.get("shown") is None else found["shown"]
    value = found["reason"] if ours is None else f"ours {number_text(ours, claim.unit)}"
    if claim.reported is not None:
        value = f"paper {number_text(claim.reported, claim.unit)}, {value}"
    _, mark = _MARKS[found["verdict"]]
    return f"{mark} {claim.id}: {found['verdict']}: {claim.short or claim.claim} ({value})"


def verdicts_html(claims: Sequence[Claim], verdicts: Mapping[str, Settled], here: str = "") -> str:
    """Table of several verdicts on a page of the run `here`, folded where it is long."""
    rows = "".join(_row(claim, verdicts[claim.id], here=here) for claim in claims)
    table = _scrolling("Verdicts", _heads(_HEAD), rows, also=" companion-ledger")
    if len(claims) <= LONGEST:
        return table
    counts = counts_text(verdicts[claim.id] for claim in claims)
    return folded(f"{len(claims)} verdicts: {counts}", table, "companion-cells")


_HEAD = ("Verdict", "Claim", "Paper", "Ours")


def _row(claim: Claim, of: Settled, address: str = "", here: str = "") -> str:
    """A claim in a table of verdicts; its verdict leads to an `address` where there is one."""
    chip = _chip(of.verdict)
    chip = f"<a href='{address}'>{chip}</a>" if address else chip
    place = claim.place[:1].upper() + claim.place[1:]
    measured = f"{html.escape(claim.measures)}: " if claim.measures else ""
    return (
        f"<tr id='claim-{html.escape(claim.id)}'><td>{chip}</td><td><details class='claim-more'>"
        f"<summary>{_words(claim)} <span class='claim-why'>{html.escape(place)}"
        f"{'*' * claim.revised}</span></summary>{_details(claim, of)}</details></td>"
        f"<td class='number' data-name='Paper'>{_reported(claim)}</td>"
        f"<td class='value' data-name='Ours'>{measured}{_value(of.found, claim.unit)}"
        f"{_interval(of.found)}{_elsewhere(of, here)}</td></tr>"
    )


def _words(claim: Claim) -> str:
    return html.escape(claim.short or claim.claim)


def _reported(claim: Claim) -> str:
    also = "" if claim.sd is None else f" ± {number_text(claim.sd)}"
    return html.escape(number_text(claim.reported, claim.unit) + also)


def _details(claim: Claim, of: Settled) -> str:
    """What a line leaves out: the claim in full, remarks, the run, the condition and why."""
    ours = f"{_value(of.found, claim.unit)}{_interval(of.found)}"
    columns = [("paper", _reported(claim)), (of.run, ours)]
    facts = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in columns)
    remarks = "".join(f"<p>{text}</p>" for text in _remarks(claim, of))
    source = f" Reported value: {html.escape(claim.source)}." if claim.source else ""
    return (
        f"<p>{html.escape(claim.claim)}</p>{remarks}<dl>{facts}</dl><p class='claim-why'>"
        f"Condition{_REVISED * claim.revised}: {html.escape(powers(claim.criterion))}. "
        f"{html.escape(claim.why)}{source} <code>{html.escape(claim.id)}</code></p>"
    )


def run_words(name: str) -> str:
    """What a page calls a recorded run."""
    return f"recorded run ({name})"


_REVISED = " (changed after its first evaluation)"


def _remarks(claim: Claim, of: Settled) -> list[str]:
    """What has to be said beside a verdict: its scale, what is behind a miss, other verdicts."""
    said = [f"{_reason(of.found)}."] if of.found["reason"] else []
    if of.verdict in MISSED and claim.if_not:
        said.append(html.escape(claim.if_not.strip()))
    return said + [f"<strong>The {name} says otherwise.</strong>" for name in of.otherwise]


def _reason(found: Found) -> str:
    words = html.escape(scale_text(found["reason"]))
    return words if " = " in words else words[:1].upper() + words[1:]


def _differ(one: Found, other: Found | None) -> bool:
    """Whether two runs disagree about the condition, both having decided."""
    if other is None or {one["verdict"], other["verdict"]} & {NOT_RUN, UNDECIDED}:
        return False
    return (one["verdict"] in MISSED) != (other["verdict"] in MISSED)


def cells_html(
    claims: Sequence[Claim], verdicts: Mapping[str, Settled], caption: str, here: str = ""
) -> str:
    """Table of the claims of a group, folded; `here` is the run of most of them, if not given."""
    of = [verdicts[claim.id] for claim in claims]
    runs = Counter(each.run for each in of)
    here = here or runs.most_common(1)[0][0]
    rows = "".join(_cell_row(c, each, here) for c, each in zip(claims, of, strict=True))
    other = " Ours are of the " + html.escape(here) + " where no other run is named."
    missed = [c for c in claims if verdicts[c.id].verdict in MISSED]
    behind = dict.fromkeys(c.if_not.strip() for c in missed if c.if_not)
    content = (
        f"<p>Condition{_REVISED * claims[0].revised}: {html.escape(claims[0].criterion)}. "
        f"{html.escape(claims[0].why)}{other * (set(runs) > {here})}</p>"
        f"{''.join(f'<p>Where it is not reproduced: {html.escape(t)}</p>' for t in behind)}"
        f"{_scrolling(caption, _heads(('Cell', 'Paper', 'Ours', 'Verdict')), rows)}"
    )
    return folded(f"{caption}: {counts_text(of)}", content, "companion-cells")


def _cell_row(claim: Claim, of: Settled, here: str) -> str:
    reason = f" {_reason(of.found)}" if of.found["reason"] else ""
    return (
        f"<tr id='claim-{html.escape(claim.id)}'><td>{html.escape(claim.place)}</td>"
        f"<td class='number'>{_reported(claim)}</td><td class='number'>"
        f"{_value(of.found, claim.unit)}{_interval(of.found)}{_elsewhere(of, here)}</td>"
        f"<td>{_chip(of.verdict)}{reason}</td></tr>"
    )


def _counts(verdicts: Iterable[Settled]) -> dict[str, int]:
    """How many verdicts there are of each kind, also of those that are none."""
    count = Counter(of.verdict for of in verdicts)
    return {verdict: count[verdict] for verdict in _MARKS}


def counts_text(verdicts: Iterable[Settled]) -> str:
    """How many verdicts there are of each kind, in words."""
    return ", ".join(f"{n} {verdict}" for verdict, n in _counts(verdicts).items() if n)


@dataclass(frozen=True)
class Ledger:
    """All claims, the verdicts on them by id, addresses of pages."""

    claims: Mapping[str, Claim]
    verdicts: Mapping[str, Settled]
    addresses: Mapping[str, str]

    def address(self, claim: Claim) -> str:
        """Where a claim's verdict is shown."""
        return f"{self.addresses[claim.chapter]}#claim-{html.escape(claim.id)}"


def ledger_html(ledger: Ledger) -> str:
    """All claims and their verdicts, by paper: a grid, and tables that it leads to."""
    claims = ledger.claims
    if not claims:
        return "<p>The ledger is empty.</p>"
    parts = [_summary(ledger)]
    for paper, title in PAPERS.items():
        of_paper = [c for c in claims.values() if c.paper == paper]
        if not of_paper:
            continue
        parts.append(f"<h2 id='{paper.lower()}'>{paper}: {html.escape(title)}</h2>")
        parts.append(_grid(ledger, of_paper))
        single = [c for c in of_paper if c.group is None]
        rows = "".join(_row(c, ledger.verdicts[c.id], ledger.address(c)) for c in single)
        if single:
            counts = counts_text(ledger.verdicts[c.id] for c in single)
            table = _scrolling(f"Claims of {paper}", _heads(_HEAD), rows, also=" companion-ledger")
            parts.append(folded(f"Claims one by one: {counts}", table, "companion-cells"))
        for group in dict.fromkeys(c.group for c in of_paper if c.group):
            of_group = [c for c in of_paper if c.group == group]
            parts.append(cells_html(of_group, ledger.verdicts, group))
    return "".join(parts)


def _grid(ledger: Ledger, claims: Iterable[Claim]) -> str:
    """A square for each claim with the mark of its verdict; it leads to the claim's row."""
    squares = []
    for claim in claims:
        verdict = ledger.verdicts[claim.id].verdict
        kind, mark = _MARKS[verdict]
        said = f"{html.escape(claim.place)}: {_words(claim)}: {verdict}"
        squares.append(
            f"<li><a class='verdict-{kind}' href='#claim-{html.escape(claim.id)}' "
            f"title='{said}' aria-label='{said}'>{mark}</a></li>"
        )
    return f"<ul class='companion-grid'>{''.join(squares)}</ul>"


def claim_mark_html(ledger: Ledger, claim: Claim) -> str:
    """Mark of a claim within a sentence; it leads to the place that decided it."""
    of = ledger.verdicts[claim.id]
    kind, mark = _MARKS[of.verdict]
    said = f"{claim.paper}, {claim.place}: {of.verdict} ({of.run}). {claim.claim}"
    said = html.escape(said)
    return (
        f"<a class='claim-mark mark-{kind}' href='{ledger.address(claim)}' "
        f"title='{said}' aria-label='{said}'>{mark}</a>"
    )


def tally_html(ledger: Ledger, paper: str) -> str:
    """How many claims of a paper stand in the largest run there is, and which do not."""
    if paper not in PAPERS:
        raise ValueError(f"paper must be one of {', '.join(PAPERS)}, got {paper!r}")
    claims = [c for c in ledger.claims.values() if c.paper == paper]
    verdicts = [ledger.verdicts[claim.id] for claim in claims]
    recorded = sum(of.run != THIS_BUILD for of in verdicts)
    counts = _counts(verdicts)
    chips = " ".join(f"<li>{_chip(verdict)}: {n}</li>" for verdict, n in counts.items() if n)
    missed = [claim for claim in claims if ledger.verdicts[claim.id].verdict in MISSED]
    rows = "".join(_missed_row(c, ledger.verdicts[c.id].found, ledger.address(c)) for c in missed)
    verb = "is" if len(missed) == 1 else "are"
    listed = (
        f"<details class='companion-cells'><summary>The {len(missed)} that {verb} not reproduced, "
        f"{counts[MISSED_REDUCED]} at reduced scale</summary><ul>{rows}</ul></details>"
    )
    return (
        f"<div class='companion-tally'><ul class='companion-counts'>{chips}</ul>"
        f"<p>Of {len(claims)} conditions, {recorded} by a recorded run. "
        f"<a href='{ledger.addresses[_LEDGER]}#{paper.lower()}'>All of them in the ledger</a></p>"
        f"{listed if missed else ''}</div>"
    )


#: The page that has the ledger.
_LEDGER = "reproduces"


def _missed_row(claim: Claim, found: Found, address: str) -> str:
    value = f"{_value(found, claim.unit)}; {html.escape(powers(claim.criterion))}"
    if found["reason"]:
        value += f"; {html.escape(scale_text(found['reason']))}"
    place = claim.place[:1].upper() + claim.place[1:]
    return (
        f"<li><a href='{address}'>{html.escape(place)}</a>: "
        f"{html.escape(claim.claim)} Found: {value}.</li>"
    )


def of_claim(records: Mapping[str, Found], claim_id: str) -> dict[str, Found | None]:
    """What each recorded run of a chapter says of a claim, by profile."""
    return {
        profile: next((v for v in run["verdicts"] if v["id"] == claim_id), None)
        for profile, run in records.items()
    }


def _summary(ledger: Ledger) -> str:
    claims = ledger.claims
    recorded = sum(ledger.verdicts[i].run != THIS_BUILD for i in claims)
    counts = _counts(ledger.verdicts[i] for i in claims)
    items = "".join(f"<li>{_chip(v)}: {n}</li>" for v, n in counts.items())
    revised = sum(c.revised for c in claims.values())
    return (
        f"<ul class='companion-counts'>{items}</ul><p>{len(claims)} conditions, each by the "
        f"largest run that covers it: {recorded} by a recorded one. {revised} were changed after "
        "they had first been evaluated; an asterisk marks them.</p>"
    )
