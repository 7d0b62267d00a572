"""HTML of the ledger: what the papers state, the verdict on each, and the claims beneath it."""

import csv
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lib.book.claims import NOT_COMPARABLE, NOT_REPRODUCED, Claim
from lib.book.pages import Page
from lib.book.render import (
    HEAD,
    MARKS,
    PAPERS,
    THIS_BUILD,
    Found,
    Settled,
    cells_html,
    chip,
    folded,
    found_html,
    heads,
    numbers_html,
    row_html,
    run_words,
    scrolling,
    whose,
)
from lib.book.statements import OURS, Settings, Statement, counted, setting_text, verdict_of
from lib.book.words import name_text, number_text, scale_text

#: The page that has the ledger.
_LEDGER = "reproduces"
_TITLES = PAPERS | {OURS: "Statements of our own"}


@dataclass(frozen=True)
class Ledger:
    """Statements, claims, the verdicts on claims by id, addresses of pages, and runs.

    `runs` are, by chapter, those that a page may show, the largest first: name to a mapping with
    ``scale`` (parameters and what stood in for them), ``verdicts`` by claim and ``tables``.
    """

    statements: Mapping[str, Statement]
    claims: Mapping[str, Claim]
    verdicts: Mapping[str, Settled]
    addresses: Mapping[str, str]
    runs: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    settings: Mapping[str, Settings] = field(default_factory=dict)
    networks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def address(self, claim: Claim) -> str:
        """Where a claim's verdict is shown."""
        return f"{self.addresses[claim.chapter]}#claim-{html.escape(claim.id)}"

    def verdict(self, statement: Statement) -> tuple[str, str]:
        """The verdict on a statement in a word, and what it follows from."""
        found = {i: self.verdicts[i].found for i in statement.claims}
        return verdict_of(statement, self.claims, found)

    def of(self, paper: str) -> list[Statement]:
        """The statements of a paper, or our own."""
        return [each for each in self.statements.values() if each.paper == paper]


def ledger_html(ledger: Ledger) -> str:
    """All statements and the verdicts on them, by paper: a grid, and the rows that it leads to."""
    if not ledger.statements:
        return "<p>The ledger is empty.</p>"
    parts = [_summary(ledger)]
    for paper, title in _TITLES.items():
        of_paper = ledger.of(paper)
        if not of_paper:
            continue
        head = title if paper == OURS else f"{paper}: {title}"
        parts.append(f"<h2 id='{paper.lower()}'>{html.escape(head)}</h2>")
        counts = _counts_text(ledger, of_paper)
        parts.append(f"<p class='claim-why'>{counts}.</p>{_grid(ledger, of_paper)}")
        rows = "".join(_statement_row(ledger, each) for each in of_paper)
        columns = heads(("Verdict", "Statement"))
        table = scrolling(f"Statements of {paper}", columns, rows, also=" companion-ledger")
        parts.append(f"<div class='companion-statements'>{table}</div>")
    return "".join(parts)


def _counts_text(ledger: Ledger, statements: Iterable[Statement]) -> str:
    counts = counted(ledger.verdict(each)[0] for each in statements)
    return ", ".join(f"{n} {word}" for word, n in counts.items() if n)


def _summary(ledger: Ledger) -> str:
    """How many statements have which verdict, and how conditions came about: that first."""
    papers = [each for each in ledger.statements.values() if each.paper != OURS]
    judged = [claim for claim in ledger.claims.values() if not claim.cannot]
    revised = sum(claim.revised for claim in judged)
    counts = counted(ledger.verdict(each)[0] for each in papers)
    items = "".join(f"<li>{chip(word)}: {n}</li>" for word, n in counts.items())
    tables = {i for each in papers if each.kind == "table" for i in each.claims}
    cells = sum(claim.revised and claim.id in tables for claim in judged)
    recorded = sum(ledger.verdicts[claim.id].run != THIS_BUILD for claim in judged)
    own = len(ledger.statements) - len(papers)
    tested = sum(bool(each.tested) for each in papers)
    judged_so = "all of them" if recorded == len(judged) else f"{recorded} of these are"
    return (
        f"<p><strong>{revised} of {len(judged)} conditions were set or changed after numbers were "
        "known.</strong> Each of their rows says so first, and why. "
        f"{cells} of these are of cells of tables.</p>"
        f"<ul class='companion-counts'>{items}</ul><p>{len(papers)} statements of the papers, "
        f"{tested} of them exact ones that a test holds against their text; "
        f"{own} of our own. Beneath them stand {len(ledger.claims)} numbers; {len(judged)} have a "
        f"condition, {judged_so} judged by a recorded run.</p>"
    )


def _grid(ledger: Ledger, statements: Sequence[Statement]) -> str:
    """A square for each statement with the mark of its verdict; it leads to its row."""
    squares = []
    for each in statements:
        word, _ = ledger.verdict(each)
        kind, mark = MARKS[word]
        said = html.escape(f"{each.place}: {each.says}: {word}")
        squares.append(
            f"<li><a class='verdict-{kind}' href='#statement-{html.escape(each.id)}' "
            f"title='{said}' aria-label='{said}'>{mark}</a></li>"
        )
    return f"<ul class='companion-grid'>{''.join(squares)}</ul>"


def _statement_row(ledger: Ledger, statement: Statement) -> str:
    """A statement: verdict, words, number, where it lives; conditions open beneath, all at once."""
    word, follows = ledger.verdict(statement)
    claims = [ledger.claims[i] for i in statement.claims]
    changed = sum(claim.revised for claim in claims)
    first = ""
    if changed:
        which = f"{changed} of {len(claims)} conditions" if len(claims) > 1 else "condition"
        first = f"{which[0].upper()}{which[1:]} set or changed after numbers were known. "
    place = html.escape(statement.place)
    place += f", {statement.kind}" * (statement.kind not in place.lower())
    # That a test holds it against its text, the test's name says.
    follows = html.escape(scale_text(follows)) if claims or not statement.tested else ""
    said = [_single(ledger, claims), follows, place]
    if statement.tested:
        tests = (html.escape(test.rpartition("::")[2]) for test in statement.tested)
        said.append(f"Test: {', '.join(f'<code>{test}</code>' for test in tests)}")
    if where := ", ".join(map(_place_of(ledger), statement.where)):
        said.append(f"Here: {where}")
    rest = [_settings_html(ledger, statement), *map(_beside_of(ledger), statement.beside)]
    rest.append(_claims_html(ledger, claims))
    name = f"{len(claims)} conditions" if len(claims) > 1 else "The condition"
    more = folded(name + ", and settings" * bool(rest[0]), "".join(rest), "claim-more")
    return (
        f"<tr class='statement' id='statement-{html.escape(statement.id)}'><td>{chip(word)}</td>"
        f"<td><p>{html.escape(statement.says)}</p>"
        f"<p class='claim-why'>{first}{_sentences(said)}</p>"
        f"{more if any(rest) else ''}</td></tr>"
    )


def _sentences(parts: Iterable[str]) -> str:
    """Parts, as HTML, each as a sentence."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def _single(ledger: Ledger, claims: Sequence[Claim]) -> str:
    """The numbers of the one claim of a statement, the paper's and ours."""
    if len(claims) != 1 or ledger.verdicts[claims[0].id].found["value"] is None:
        return ""
    (claim,) = claims
    paper = number_text(claim.reported, claim.unit)
    reported = "" if claim.reported is None else f"paper {paper}, "
    ours = f"{claim.measures}: " if claim.measures else "ours "
    return html.escape(reported + ours) + numbers_html(claim, ledger.verdicts[claim.id])


def _place_of(ledger: Ledger):
    """What makes a link of a chapter's name, and code of a function's."""

    def place(name: str) -> str:
        if name in ledger.addresses:
            return f"<a href='{ledger.addresses[name]}'>{html.escape(name.replace('_', ' '))}</a>"
        return f"<code>{html.escape(name)}</code>"

    return place


def _claims_html(ledger: Ledger, claims: Sequence[Claim]) -> str:
    """The claims of a statement: a table of single ones, and one for each table's cells."""
    single = [claim for claim in claims if claim.group is None]
    rows = "".join(row_html(c, ledger.verdicts[c.id], ledger.address(c)) for c in single)
    parts = [scrolling("Claims", heads(HEAD), rows, also=" companion-ledger")] if single else []
    for group in dict.fromkeys(claim.group for claim in claims if claim.group):
        of_group = [claim for claim in claims if claim.group == group]
        parts.append(cells_html(of_group, ledger.verdicts, group))
    return "".join(parts)


def _runs_of(ledger: Ledger, statement: Statement) -> dict[str, Mapping[str, Any]]:
    """The runs that have a verdict on a claim of the statement, by their names."""
    chapters = dict.fromkeys(ledger.claims[i].chapter for i in statement.claims)
    found: dict[str, Mapping[str, Any]] = {}
    for chapter in chapters:
        for name, run in ledger.runs.get(chapter, {}).items():
            of = {i: run["verdicts"].get(i) for i in statement.claims}
            of = {i: one for i, one in of.items() if one and _is_shown(one)}
            if of:
                known = found.get(name, {"scale": {}, "verdicts": {}})
                found[name] = {
                    "scale": known["scale"] | run["scale"],
                    "verdicts": known["verdicts"] | of,
                }
    return found


def _is_shown(found: Found) -> bool:
    return found["value"] is not None or found["verdict"] == NOT_COMPARABLE


def _settings_html(ledger: Ledger, statement: Statement) -> str:
    """Settings of a training, the paper's and ours, run by run, and the verdict of each run."""
    settings = ledger.settings.get(statement.settings)
    if settings is None:
        return ""
    runs = _runs_of(ledger, statement)
    rows = []
    for name, papers in settings.paper.items():
        ours = [setting_text(settings, ledger.networks, name, r["scale"]) for r in runs.values()]
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in [papers, *ours])
        rows.append(f"<tr><td>{html.escape(name)}</td>{cells}</tr>")
    verdicts = [verdict_of(statement, ledger.claims, r["verdicts"])[0] for r in runs.values()]
    cells = "".join(f"<td>{chip(word)}</td>" for word in verdicts)
    rows.append(f"<tr><td>verdict of this run</td><td></td>{cells}</tr>")
    rows += [
        _numbers_row(ledger.claims[i], runs.values()) for i in statement.claims if len(runs) > 1
    ]
    ours = [f"ours ({name.removeprefix('recorded run (').removesuffix(')')})" for name in runs]
    paper = f"on {statement.settings.partition('-')[0]}" if statement.paper == OURS else "paper"
    titles = heads(["Setting", paper, *map(html.escape, ours)])
    table = scrolling("Settings", titles, "".join(rows))
    return f"{table}<p class='claim-why'>{html.escape(settings.source)}</p>"


def _numbers_row(claim: Claim, runs: Iterable[Mapping[str, Any]]) -> str:
    """What each run found for a claim, also those that do not decide; no row for cells."""
    if claim.group is not None:
        return ""
    paper = "–" if claim.reported is None else number_text(claim.reported, claim.unit)
    numbers = [found_html(run["verdicts"].get(claim.id, {}), claim.unit) for run in runs]
    cells = "".join(f"<td>{text}</td>" for text in [html.escape(paper), *numbers])
    name = claim.measures or claim.short or claim.claim
    return f"<tr><td>{html.escape(name)}</td>{cells}</tr>"


def _beside_of(ledger: Ledger):
    """What shows numbers of ours that nobody judges, from the tables of a chapter's runs."""

    def beside(named: Mapping[str, Any]) -> str:
        said = []
        for run, content in ledger.runs.get(named["chapter"], {}).items():
            kept = content["tables"].get(named["table"])
            if kept is None:
                continue
            numbers = [
                f"{' '.join(_plain(row[c]) for c in named['rows'])}: {_plain(row[named['column']])}"
                for row in csv.DictReader(io.StringIO(kept["csv"]))
                if row[named["column"]] and named.get("only") in (None, row[named["rows"][0]])
            ]
            words = name_text(str(content["scale"].get("dataset", "")))
            head = f"Ours, {named['column']}, {run}" + f" ({words})" * bool(words)
            said.append(f"<p>{html.escape(head)}: {html.escape('; '.join(numbers))}.</p>")
        return "".join(said)

    return beside


def _plain(text: str) -> str:
    """A number of a table with few digits, or a name."""
    try:
        return number_text(float(text))
    except ValueError:
        return name_text(text)


def claim_mark_html(ledger: Ledger, claim: Claim) -> str:
    """Mark of a claim within a sentence; it leads to its row in the ledger."""
    of = ledger.verdicts[claim.id]
    kind, mark = MARKS[of.verdict]
    said = html.escape(f"{whose(claim)}, {claim.place}: {of.verdict} ({of.run}). {claim.claim}")
    address = f"{ledger.addresses[_LEDGER]}#claim-{html.escape(claim.id)}"
    return (
        f"<a class='claim-mark mark-{kind}' href='{address}' "
        f"title='{said}' aria-label='{said}'>{mark}</a>"
    )


def tally_html(ledger: Ledger, paper: str) -> str:
    """How many statements of a paper stand in the largest run there is, and which do not."""
    if paper not in PAPERS:
        raise ValueError(f"paper must be one of {', '.join(PAPERS)}, got {paper!r}")
    of_paper = [(each, ledger.verdict(each)[0]) for each in ledger.of(paper)]
    counts = counted(word for _, word in of_paper)
    chips = " ".join(f"<li>{chip(word)}: {n}</li>" for word, n in counts.items() if n)
    missed = [each for each, word in of_paper if word == NOT_REPRODUCED]
    page = ledger.addresses[_LEDGER]
    rows = "".join(
        f"<li><a href='{page}#statement-{html.escape(each.id)}'>{html.escape(each.place)}</a>: "
        f"{html.escape(each.says)} {_missed_text(ledger, each)}</li>"
        for each in missed
    )
    verb = "is" if len(missed) == 1 else "are"
    listed = f"<p>The {len(missed)} that {verb} not reproduced:</p><ul>{rows}</ul>"
    return (
        f"<div class='companion-tally'><ul class='companion-counts'>{chips}</ul>"
        f"<p>Of {len(of_paper)} statements. "
        f"<a href='{page}#{paper.lower()}'>All of them in the ledger</a></p>"
        f"{listed if missed else ''}</div>"
    )


def _missed_text(ledger: Ledger, statement: Statement) -> str:
    """What was found instead, and at which scale, of the claims that are not reproduced."""
    found = [
        (ledger.claims[i], ledger.verdicts[i].found)
        for i in statement.claims
        if ledger.verdicts[i].verdict == NOT_REPRODUCED
    ]
    if len(found) > 3:
        return f"{len(found)} of {len(statement.claims)} numbers are others."
    return " ".join(_missed_claim(claim, of) for claim, of in found)


def _missed_claim(claim: Claim, found: Found) -> str:
    value = found["value"] if found.get("shown") is None else found["shown"]
    said = f"Found: {number_text(value, claim.unit)}; {claim.criterion}"
    if found["reason"]:
        said += f"; {scale_text(found['reason'])}"
    return html.escape(f"{said}.")


def runs_of_page(page: Page) -> dict[str, Mapping[str, Any]]:
    """The runs that a chapter's page may show, as :class:`Ledger` has them: recorded, or this."""
    done = page.done
    own = {"parameters": done.parameters, "used": done.used, "verdicts": done.verdicts}
    every = {THIS_BUILD: own | {"tables": done.tables}}
    if page.run is not None:
        every = {run_words(name): run for name, run in page.records.items()}
    return {
        name: {
            "scale": run["parameters"] | run.get("used", {}),
            "verdicts": {found["id"]: found for found in run["verdicts"]},
            "tables": run["tables"],
        }
        for name, run in every.items()
    }
