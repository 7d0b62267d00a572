"""HTML of tables, claims and the ledger."""

import base64
import html
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
    parts = re.split(r"`([^`]+)`", html.escape(text))
    parts = [f"<code>{p}</code>" if i % 2 else powers(p) for i, p in enumerate(parts)]
    inside, *items = "".join(parts).split("\n- ")
    inside += f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>" if items else ""
    return f"<div class='companion-note' role='note'>{inside}</div>"


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


def _recorded(found: Found | None, unit: str) -> str:
    """Value, interval and mark of what one run found; runs may differ."""
    if not found:
        return "–"
    return f"{_value(found, unit)}{_interval(found)} {_mark(found['verdict'])}"


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


def claim_html(claim: Claim, verdict: Found, recorded: Runs) -> str:
    """A verdict on a line, of the largest run where it was decided; the rest opens beneath it."""
    found, _ = largest_run(verdict, recorded)
    kind, _ = _MARKS[found["verdict"]]
    ours = f"ours {_value(found, claim.unit)}"
    if claim.measures:
        ours = f"{html.escape(claim.measures)}: {_value(found, claim.unit)}"
    paper = "" if claim.reported is None else f"paper {_reported(claim)} | "
    values = "not run" if found["verdict"] == NOT_RUN else paper + ours
    return (
        f"<details class='companion-claim claim-{kind}' id='claim-{html.escape(claim.id)}'>"
        f"<summary>{_mark(found['verdict'])} <span class='claim-words'>{_words(claim)}</span> "
        f"<span class='claim-values'>{values}</span></summary>"
        f"<p class='claim-head'>{_chip(found['verdict'])} {claim.paper}, "
        f"{html.escape(claim.place)}</p>{_details(claim, verdict, recorded)}</details>"
    )


def verdicts_html(
    claims: Sequence[Claim], verdicts: Mapping[str, Found], recorded: Mapping[str, Runs]
) -> str:
    """Table of several verdicts, folded where it is long; `recorded` are the runs by claim."""
    rows = "".join(_row(claim, verdicts[claim.id], recorded[claim.id]) for claim in claims)
    table = _scrolling("Verdicts", _heads(_HEAD), rows, also=" companion-ledger")
    if len(claims) <= LONGEST:
        return table
    largest = [largest_run(verdicts[claim.id], recorded[claim.id])[0] for claim in claims]
    return folded(f"{len(claims)} verdicts: {counts_text(largest)}", table, "companion-cells")


_HEAD = ("Verdict", "Claim", "Paper", "Ours")


def _row(claim: Claim, verdict: Found, recorded: Runs, address: str = "") -> str:
    """A claim in a table of verdicts; its verdict leads to an `address` where there is one."""
    found, _ = largest_run(verdict, recorded)
    chip = _chip(found["verdict"])
    chip = f"<a href='{address}'>{chip}</a>" if address else chip
    place = claim.place[:1].upper() + claim.place[1:]
    measured = f"{html.escape(claim.measures)}: " if claim.measures else ""
    return (
        f"<tr id='claim-{html.escape(claim.id)}'><td>{chip}</td><td><details class='claim-more'>"
        f"<summary>{_words(claim)} <span class='claim-why'>{html.escape(place)}"
        f"{'*' * claim.revised}</span></summary>{_details(claim, verdict, recorded)}</details></td>"
        f"<td class='number' data-name='Paper'>{_reported(claim)}</td>"
        f"<td class='value' data-name='Ours'>{measured}{_value(found, claim.unit)}"
        f"{_interval(found)}</td></tr>"
    )


def _words(claim: Claim) -> str:
    return html.escape(claim.short or claim.claim)


def _reported(claim: Claim) -> str:
    also = "" if claim.sd is None else f" ± {number_text(claim.sd)}"
    return html.escape(number_text(claim.reported, claim.unit) + also)


def _details(claim: Claim, verdict: Found, recorded: Runs) -> str:
    """What a line leaves out: the claim in full, remarks, every run, the condition and why."""
    columns = [("paper", _reported(claim))]
    columns += [(_run_name(name), _recorded(of, claim.unit)) for name, of in recorded.items()]
    columns.append((THIS_BUILD, _recorded(verdict, claim.unit)))
    facts = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in columns)
    remarks = "".join(f"<p>{text}</p>" for text in _remarks(claim, verdict, recorded))
    source = f" Reported value: {html.escape(claim.source)}." if claim.source else ""
    return (
        f"<p>{html.escape(claim.claim)}</p>{remarks}<dl>{facts}</dl><p class='claim-why'>"
        f"Condition{_REVISED * claim.revised}: {html.escape(powers(claim.criterion))}. "
        f"{html.escape(claim.why)}{source} <code>{html.escape(claim.id)}</code></p>"
    )


def _run_name(name: str) -> str:
    return f"recorded run ({name})"


_REVISED = " (changed after its first evaluation)"


def _remarks(claim: Claim, verdict: Found, recorded: Runs) -> list[str]:
    """What has to be said beside a verdict: its scale, what is behind a miss, other verdicts."""
    found, _ = largest_run(verdict, recorded)
    said = [f"{_reason(found)}."] if found["reason"] else []
    if found["verdict"] in MISSED and claim.if_not:
        said.append(html.escape(claim.if_not.strip()))
    others = [f"The {_run_name(n)}" for n, of in recorded.items() if _differ(found, of)]
    if _differ(found, verdict):
        others.append("This build, which is smaller,")
    return said + [f"<strong>{name} says otherwise.</strong>" for name in others]


def _reason(found: Found) -> str:
    words = html.escape(scale_text(found["reason"]))
    return words if " = " in words else words[:1].upper() + words[1:]


def _differ(one: Found, other: Found | None) -> bool:
    """Whether two runs disagree about the condition, both having decided."""
    if other is None or {one["verdict"], other["verdict"]} & {NOT_RUN, UNDECIDED}:
        return False
    return (one["verdict"] in MISSED) != (other["verdict"] in MISSED)


def largest_run(verdict: Found, recorded: Runs) -> tuple[Found, str]:
    """Verdict of the largest run that covers a claim, and which run that is.

    A record that decides nothing, since it kept no interval, gives way to a build that does.
    """
    decided = verdict["verdict"] not in (NOT_RUN, UNDECIDED)
    for name in by_size(recorded):
        found = recorded[name]
        if found is None or found["verdict"] == NOT_RUN:
            continue
        if found["verdict"] == UNDECIDED and not found.get("interval") and decided:
            continue
        return found, _run_name(name)
    return verdict, THIS_BUILD


_COLUMNS = 2  # recorded runs with a column of their own: more would not fit a page


def cells_html(
    claims: Sequence[Claim],
    verdicts: Mapping[str, Found],
    recorded: Mapping[str, Runs],
    caption: str,
) -> str:
    """Table of the claims of a group, folded: reported value, recorded runs, this build."""
    first = {c.id: largest_run(verdicts[c.id], recorded[c.id])[0] for c in claims}
    rows = "".join(_cell_row(c, verdicts[c.id], recorded[c.id], first[c.id]) for c in claims)
    runs = [f"Recorded run ({name})" for name in recorded[claims[0].id]]
    if len(runs) > _COLUMNS:
        runs = ["Recorded runs"]
    head = ["Cell", "Paper", *runs, "This build", "Verdict"]
    missed = [c for c in claims if first[c.id]["verdict"] in MISSED]
    behind = dict.fromkeys(c.if_not.strip() for c in missed if c.if_not)
    content = (
        f"<p>Condition{_REVISED * claims[0].revised}: {html.escape(claims[0].criterion)}. "
        f"{html.escape(claims[0].why)}</p>"
        f"{''.join(f'<p>Where it is not reproduced: {html.escape(t)}</p>' for t in behind)}"
        f"{_scrolling(caption, _heads(head), rows)}"
    )
    return folded(f"{caption}: {counts_text(first.values())}", content, "companion-cells")


def _cell_row(claim: Claim, verdict: Found, recorded: Runs, first: Found) -> str:
    every = {name: _recorded(found, claim.unit) for name, found in recorded.items()}
    cells = list(every.values())
    if len(recorded) > _COLUMNS:
        ran = [n for n, found in recorded.items() if found and found["verdict"] != NOT_RUN]
        cells = ["<br>".join(f"<small>{html.escape(n)}</small><br>{every[n]}" for n in ran) or "–"]
    runs = "".join(f"<td class='number'>{cell}</td>" for cell in cells)
    reason = f" {_reason(first)}" if first["reason"] else ""
    return (
        f"<tr id='claim-{html.escape(claim.id)}'><td>{html.escape(claim.place)}</td>"
        f"<td class='number'>{_reported(claim)}</td>{runs}"
        f"<td class='number'>{_recorded(verdict, claim.unit)}</td>"
        f"<td>{_chip(first['verdict'])}{reason}</td></tr>"
    )


def _counts(verdicts: Iterable[Found]) -> dict[str, int]:
    """How many verdicts there are of each kind, also of those that are none."""
    count = Counter(found["verdict"] for found in verdicts)
    return {verdict: count[verdict] for verdict in _MARKS}


def counts_text(verdicts: Iterable[Found]) -> str:
    """How many verdicts there are of each kind, in words."""
    return ", ".join(f"{n} {verdict}" for verdict, n in _counts(verdicts).items() if n)


@dataclass(frozen=True)
class Ledger:
    """All claims, this build's verdicts by id, recorded runs by chapter, addresses of pages."""

    claims: Mapping[str, Claim]
    verdicts: Mapping[str, Found]
    records: Mapping[str, Mapping[str, Found]]
    addresses: Mapping[str, str]

    def runs(self, claim: Claim) -> Runs:
        """What each recorded run says of a claim."""
        return of_claim(self.records.get(claim.chapter, {}), claim.id)

    def largest(self, claim: Claim) -> tuple[Found, str]:
        """What the largest run says of a claim, and which run that is."""
        return largest_run(self.verdicts[claim.id], self.runs(claim))

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
        rows = "".join(
            _row(c, ledger.verdicts[c.id], ledger.runs(c), ledger.address(c)) for c in single
        )
        if single:
            counts = counts_text(ledger.largest(c)[0] for c in single)
            table = _scrolling(f"Claims of {paper}", _heads(_HEAD), rows, also=" companion-ledger")
            parts.append(folded(f"Claims one by one: {counts}", table, "companion-cells"))
        for group in dict.fromkeys(c.group for c in of_paper if c.group):
            of_group = [c for c in of_paper if c.group == group]
            runs = {c.id: ledger.runs(c) for c in of_group}
            parts.append(cells_html(of_group, ledger.verdicts, runs, group))
    return "".join(parts)


def _grid(ledger: Ledger, claims: Iterable[Claim]) -> str:
    """A square for each claim with the mark of its verdict; it leads to the claim's row."""
    squares = []
    for claim in claims:
        verdict = ledger.largest(claim)[0]["verdict"]
        kind, mark = _MARKS[verdict]
        said = f"{html.escape(claim.place)}: {_words(claim)}: {verdict}"
        squares.append(
            f"<li><a class='verdict-{kind}' href='#claim-{html.escape(claim.id)}' "
            f"title='{said}' aria-label='{said}'>{mark}</a></li>"
        )
    return f"<ul class='companion-grid'>{''.join(squares)}</ul>"


def claim_mark_html(ledger: Ledger, claim: Claim) -> str:
    """Mark of a claim within a sentence; it leads to the place that decided it."""
    found, source = ledger.largest(claim)
    kind, mark = _MARKS[found["verdict"]]
    said = f"{claim.paper}, {claim.place}: {found['verdict']} ({source}). {claim.claim}"
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
    largest = [ledger.largest(claim) for claim in claims]
    recorded = sum(source != THIS_BUILD for _, source in largest)
    counts = _counts(found for found, _ in largest)
    chips = " ".join(f"<li>{_chip(verdict)}: {n}</li>" for verdict, n in counts.items() if n)
    missed = [
        (claim, found)
        for claim, (found, _) in zip(claims, largest, strict=True)
        if found["verdict"] in MISSED
    ]
    rows = "".join(_missed_row(claim, found, ledger.address(claim)) for claim, found in missed)
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
THIS_BUILD = "this build"


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
    largest = {claim.id: ledger.largest(claim) for claim in claims.values()}
    recorded = sum(source != THIS_BUILD for _, source in largest.values())
    differ = sum(_differ(found, ledger.verdicts[i]) for i, (found, _) in largest.items())
    counts = _counts(found for found, _ in largest.values())
    items = "".join(f"<li>{_chip(v)}: {n}</li>" for v, n in counts.items())
    revised = sum(c.revised for c in claims.values())
    return (
        f"<ul class='companion-counts'>{items}</ul><p>{len(claims)} conditions, each by the "
        f"largest run that covers it: {recorded} by a recorded one. In {differ} this build, which "
        f"is smaller, comes to another verdict. {revised} were changed after they had first been "
        "evaluated; an asterisk marks them.</p>"
    )
