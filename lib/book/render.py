"""HTML of tables, claims and the ledger."""

import base64
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lib.book.claims import (
    CANNOT,
    DECIDED,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    REDUCED,
    REPRODUCED,
    UNDECIDED,
    WORDS,
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

MARKS = {
    REPRODUCED: ("yes", "✓"),
    REDUCED: ("reduced", "◐"),
    NOT_REPRODUCED: ("no", "✗"),
    UNDECIDED: ("undecided", "?"),
    NOT_COMPARABLE: ("not-comparable", "≠"),
    CANNOT: ("cannot", "–"),
}


#: A table of more rows is folded: what is open on a page is read, not searched.
LONGEST = 9


def table_html(
    frame: pd.DataFrame,
    caption: str = "",
    formats: Mapping[str, str] | None = None,
    download: str = "",
    longest: float = LONGEST,
    aside: bool = False,
) -> str:
    """HTML of a data frame in a box that scrolls sideways by itself, and of its download.

    One of more rows than `longest` is folded under its caption; one that the argument does without
    (`aside`) is set smaller. The ends of an interval, and a value and its standard deviation, share
    a column; the download has each by itself.
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
    many = " many" * (len(columns) > MANY) + " aside" * aside
    if len(frame) > longest:
        table = scrolling(caption or "table", head, body, also=many) + download
        rows = f"{len(frame)} row{'s' * (len(frame) != 1)}"
        return folded(f"{caption or 'Table'} ({rows})", table, "companion-rows")
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return scrolling(caption or "table", head, body, title, many) + download


def folded(summary: str, content: str, kind: str) -> str:
    """What a click opens. A search within the page and links to parts of it open it, too."""
    return f"<details class='{kind}'><summary>{html.escape(summary)}</summary>{content}</details>"


def scrolling(label: str, head: str, body: str, title: str = "", also: str = "") -> str:
    """A table, given as HTML of its cells, in a box that scrolls sideways by itself."""
    return (
        "<div class='companion-scroll' role='region' tabindex='0' "
        f"aria-label='{html.escape(label)}'><table class='companion-table{also}'>"
        f"{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def heads(names: Iterable[str]) -> str:
    """Cells of a table's head, of names that are HTML."""
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


def figure_html(svg: bytes, name: str, alt: str, caption: str, wide: bytes = b"") -> str:
    """A figure with alternative text; `wide` is the same as it is laid out where there is room."""
    return (
        f"<figure class='companion-figure' id='figure-{html.escape(name)}'>"
        f"{image_html(svg, alt, wide)}"
        f"<figcaption>{html.escape(caption_text(caption))}</figcaption></figure>"
    )


def picture_html(svg: bytes, alt: str) -> str:
    """A figure, small, for a page that leads to it."""
    return f"<p class='companion-picture'>{image_html(svg, alt)}</p>"


#: Where a figure is shown as it is laid out for a page: from this width of the window, on paper.
WIDE = "(min-width: 60rem), print"


def image_html(svg: bytes, alt: str, wide: bytes = b"") -> str:
    """An SVG within a page, and another one where the window is wide."""
    image = f"<img src='{_address(svg)}' alt='{html.escape(alt)}'>"
    if not wide:
        return image
    return f"<picture><source media='{WIDE}' srcset='{_address(wide)}'>{image}</picture>"


def _address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def parameters_html(declared: Sequence[Parameter], given: Mapping[str, Any], command: str) -> str:
    """The command that reproduces a run, and its parameters."""
    rows = parameter_rows(declared, given)
    command = re.sub(r"^(papermill \S+ \S+) (-f \S+)$", r"\1 \\\n    \2", command)
    return (
        "<div class='companion-parameters'><p><strong>To reproduce this page</strong>, from the "
        f"root of the repository:</p><pre>{html.escape(command)}</pre>"
        f"{table_html(rows, 'Parameters in effect', aside=True) if len(rows) else ''}</div>"
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
    """What stands beside the code of a figure that the page has shown before."""
    return (
        f"<p class='companion-source companion-above' hidden>The figure of this cell stands "
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


def mark_html(verdict: str) -> str:
    """Mark of a verdict, with its words for who does not see it."""
    kind, mark = MARKS[verdict]
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


def found_html(found: Found, unit: str) -> str:
    """What one run found, its interval and how many runs that rests on; a dash without a number."""
    if found.get("value") is None:
        return "–"
    of = "" if found.get("n") is None else f" (n = {found['n']:,})"
    return f"{_value(found, unit)}{_interval(found)}{of}"


def chip(verdict: str) -> str:
    """Mark and words of a verdict, colored."""
    kind, mark = MARKS[verdict]
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


def settled(verdict: Found, recorded: Runs, order: Iterable[str] = ()) -> Settled:
    """The verdict of the first recorded run that has a number for a claim, else of this build.

    The first of an `order`, or else the largest. A run that decides nothing, since it kept no
    interval or is a single training, gives way to one that does. Where none has a number, the first
    recorded run says why.
    """
    known = {name: recorded[name] for name in order or by_size(recorded) if recorded[name]}
    every = {run_words(name): found for name, found in known.items()} | {THIS_BUILD: verdict}
    run = min(every, key=lambda name: _lacking(every[name]))  # the first of the best
    others = (n for n, of in every.items() if n != THIS_BUILD and _differ(every[run], of))
    return Settled(every[run], run, tuple(others) if run != THIS_BUILD else ())


def _lacking(found: Found) -> int:
    """What a run lacks to settle a claim: nothing, an interval, its number, or all."""
    if found["value"] is None:
        return 3 if found["verdict"] == CANNOT else 2
    bare = not found.get("interval")
    alone = found.get("n") is not None and found["n"] < 2
    return int(bare and (alone or found["verdict"] == UNDECIDED))


def _elsewhere(of: Settled, here: str) -> str:
    """The run that a verdict is of, if a page of the run `here` shows it; nothing without one."""
    return f" <small>{html.escape(of.run)}</small>" if here not in ("", of.run) else ""


def claim_html(claim: Claim, of: Settled, here: str = "", ledger: str = "") -> str:
    """A verdict on a line, on a page of the run `here`; it leads to its row in the `ledger`."""
    found = of.found
    ours = f"ours {_value(found, claim.unit)}"
    if claim.measures:
        ours = f"{html.escape(claim.measures)}: {_value(found, claim.unit)}"
    paper = "" if claim.reported is None else f"paper {_reported(claim)} | "
    values = f"{_SAID.get(of.verdict, '')}{paper}{ours}{_elsewhere(of, here)}"
    if found["value"] is None:
        values = f"{paper}{_reason(found)}"
    values += "".join(f"; the {name} says otherwise" for name in of.otherwise)
    address = f"{ledger}#claim-{html.escape(claim.id)}"
    return _line(of.verdict, words(claim), values, address, [claim.id])


#: What a line says in words, beside its mark and before its numbers.
_SAID = {word: f"{word}: " for word in WORDS[2:]} | {REDUCED: "reduced scale: "}


def group_html(says: str, word: str, of: Mapping[str, Settled], address: str) -> str:
    """The verdicts on a statement's claims on a line: the verdict in a word, and how many hold."""
    return _line(word, html.escape(says), held_text(of.values()), address, of)


def _line(word: str, said: str, values: str, address: str, ids: Iterable[str]) -> str:
    """A line about claims: others may lead to it by the id of each."""
    first, *others = (f" id='claim-{html.escape(i)}'" for i in ids)
    places = "".join(f"<span{place}></span>" for place in others)
    return (
        f"<li class='companion-claim claim-{MARKS[word][0]}'{first}>{mark_html(word)} "
        f"<a href='{address}'>{said}</a> <span class='claim-values'>{places}{values}</span></li>"
    )


def lines_html(lines: Iterable[str]) -> str:
    """Lines of :func:`claim_html` and :func:`group_html` as a list."""
    return f"<ul class='companion-claims'>{''.join(lines)}</ul>"


def verdict_text(claim: Claim, found: Found) -> str:
    """A verdict on a line of plain text, as a kernel shows it."""
    ours = found["value"] if found.get("shown") is None else found["shown"]
    numbers = {"paper": claim.reported, "ours": ours}
    said = [f"{who} {number_text(n, claim.unit)}" for who, n in numbers.items() if n is not None]
    # Beside a number that decides nothing there has to be why.
    if ours is None or found["verdict"] not in DECIDED:
        said.append(found["reason"])
    values = ", ".join(filter(None, said))
    _, mark = MARKS[found["verdict"]]
    return f"{mark} {claim.id}: {found['verdict']}: {claim.short or claim.claim} ({values})"


HEAD = ("Verdict", "Claim", "Paper", "Ours")


def row_html(claim: Claim, of: Settled, address: str) -> str:
    """A claim in the ledger: its verdict, which leads to an `address`, and all that is known."""
    measured = f"{html.escape(claim.measures)}: " if claim.measures else ""
    revised = f"<p><strong>{_REVISED}.</strong></p>" * claim.revised
    in_full = f"<p>{html.escape(claim.claim)}</p>" if claim.short else ""
    remarks = "".join(f"<p>{text}</p>" for text in _remarks(claim, of))
    source = f" Reported value: {html.escape(claim.source)}." if claim.source else ""
    place = claim.place[:1].upper() + claim.place[1:]
    return (
        f"<tr id='claim-{html.escape(claim.id)}'><td><a href='{address}'>{chip(of.verdict)}</a>"
        f"</td><td>{revised}<p>{words(claim)} <span class='claim-why'>{html.escape(place)}</span>"
        f"</p>{in_full}{remarks}<p class='claim-why'>"
        f"Condition: {html.escape(powers(claim.criterion))}. {html.escape(claim.why)}{source} "
        f"Ours: {html.escape(of.run)}. <code>{html.escape(claim.id)}</code></p></td>"
        f"<td class='number' data-name='Paper'>{_reported(claim)}</td>"
        f"<td class='value' data-name='Ours'>{measured}{numbers_html(claim, of)}</td></tr>"
    )


def numbers_html(claim: Claim, of: Settled) -> str:
    """Our value, and the interval that decided."""
    return f"{_value(of.found, claim.unit)}{_interval(of.found)}"


def words(claim: Claim) -> str:
    """A claim on a line."""
    return html.escape(claim.short or claim.claim)


def _reported(claim: Claim) -> str:
    also = "" if claim.sd is None else f" ± {number_text(claim.sd)}"
    return html.escape(number_text(claim.reported, claim.unit) + also)


def run_words(name: str) -> str:
    """What a page calls a recorded run."""
    return f"recorded run ({name})"


#: What is said first of a condition that is not of before the first look.
_REVISED = "Condition set or changed after numbers were known"


def whose(claim: Claim) -> str:
    """The paper that claims it, or this book on that paper."""
    return f"this book, on {claim.paper}" if claim.ours else claim.paper


def _remarks(claim: Claim, of: Settled) -> list[str]:
    """What has to be said beside a verdict: its scale, what is behind a miss, other verdicts."""
    said = [f"{_reason(of.found)}."] if of.found["reason"] else []
    if of.verdict in (NOT_REPRODUCED, NOT_COMPARABLE) and claim.if_not:
        said.append(html.escape(claim.if_not.strip()))
    return said + [f"<strong>The {name} says otherwise.</strong>" for name in of.otherwise]


def _reason(found: Found) -> str:
    words = html.escape(scale_text(found["reason"]))
    return words if " = " in words else words[:1].upper() + words[1:]


def _differ(one: Found, other: Found | None) -> bool:
    """Whether two runs disagree about the condition, both having decided."""
    if other is None or not {one["verdict"], other["verdict"]} <= {*DECIDED}:
        return False
    return (one["verdict"] == NOT_REPRODUCED) != (other["verdict"] == NOT_REPRODUCED)


def cells_html(claims: Sequence[Claim], verdicts: Mapping[str, Settled], caption: str) -> str:
    """Table of the claims of a group, of the run of most of them where a row names no other."""
    of = [verdicts[claim.id] for claim in claims]
    runs = Counter(each.run for each in of)
    here = runs.most_common(1)[0][0]
    rows = "".join(_cell_row(c, each, here) for c, each in zip(claims, of, strict=True))
    other = " Ours are of the " + html.escape(here) + " where no other run is named."
    missed = [c for c in claims if verdicts[c.id].verdict == NOT_REPRODUCED]
    behind = dict.fromkeys(c.if_not.strip() for c in missed if c.if_not)
    title = f"<caption>{html.escape(caption)}: {counts_text(of)}</caption>"
    return (
        f"{f'<p><strong>{_REVISED}.</strong></p>' * claims[0].revised}"
        f"<p class='claim-why'>Condition: {html.escape(claims[0].criterion)}. "
        f"{html.escape(claims[0].why)}{other * (set(runs) > {here})}</p>"
        f"{''.join(f'<p>Where it is not reproduced: {html.escape(t)}</p>' for t in behind)}"
        f"{scrolling(caption, heads(('Cell', 'Paper', 'Ours', 'Verdict')), rows, title)}"
    )


def _cell_row(claim: Claim, of: Settled, here: str) -> str:
    reason = f" {_reason(of.found)}" if of.found["reason"] else ""
    return (
        f"<tr id='claim-{html.escape(claim.id)}'><td>{html.escape(claim.place)}</td>"
        f"<td class='number'>{_reported(claim)}</td><td class='number'>"
        f"{_value(of.found, claim.unit)}{_interval(of.found)}{_elsewhere(of, here)}</td>"
        f"<td>{chip(of.verdict)}{reason}</td></tr>"
    )


def counts_text(verdicts: Iterable[Settled]) -> str:
    """How many verdicts there are of each kind, in words."""
    count = Counter(of.verdict for of in verdicts)
    return ", ".join(f"{count[word]} {word}" for word in WORDS if count[word])


def held_text(verdicts: Iterable[Settled]) -> str:
    """How many of some verdicts hold, and what the others are; of those not judged only that."""
    count = Counter(of.verdict for of in verdicts)
    held, total = count[REPRODUCED] + count[REDUCED], count.total()
    others = [w for w in WORDS if count[w] and w not in (REPRODUCED, REDUCED)]
    said = [f"{count[word]} {word}" for word in others]
    if {*others} <= {NOT_COMPARABLE, CANNOT} and not held:
        return ", ".join(said)
    scale = " at reduced scale" * (held > 0 and held == count[REDUCED])
    return ", ".join([f"{held} of {total} hold{scale}", *said])


def of_claim(records: Mapping[str, Found], claim_id: str) -> dict[str, Found | None]:
    """What each recorded run of a chapter says of a claim, by profile."""
    return {
        profile: next((v for v in run["verdicts"] if v["id"] == claim_id), None)
        for profile, run in records.items()
    }
