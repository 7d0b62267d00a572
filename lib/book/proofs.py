"""What the tests themselves are worth: faults survived, code reached, mutants noticed.

Four records in ``book/records``, each made by a command and shown by the ``proofs`` directive:

``faults.json``
    ``make proofs``: the tests of faults and of malformed input, the long ones too, by
    ``python -m lib.book.proofs REPORT`` from pytest's report in JUnit's format.
``coverage.json``
    ``make coverage`` (``.ci/coverage``): lines and branches of ``lib`` that tests reach.
``mutants.json``
    ``make mutants`` (``.ci/mutants/run``): changes of the code that tests notice.
``portable.json``
    ``make portable`` (``.ci/portable``): the tests as other processors would run them.
"""

import html
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lib.book.records import origin, read_measured, record_command
from lib.book.render import note_html, table_html
from lib.book.words import duration_text

_FIELDS = {
    "faults": ("finished", "commit", "machine", "files", "long"),
    "coverage": ("date", "commit", "tests", "total", "packages", "not_reached"),
    "mutants": ("finished", "commit", "tool", "tests", "groups", "modules", "survivors"),
    "portable": ("finished", "commit", "machine", "versions", "tests", "settings"),
}


# ------------------------------------------------------------------ the record of faults


def make_record(reports: Sequence[Path], root: Path) -> dict[str, Any]:
    """Summarise pytest's reports of the tests of faults and malformed input."""
    cases: dict[tuple[str, str], ElementTree.Element] = {}
    for report in reports:
        try:
            tree = ElementTree.parse(report)
        except ElementTree.ParseError as error:
            raise ValueError(f"{report} is no report in JUnit's format: {error}") from None
        found = {(c.get("classname", ""), c.get("name", "")): c for c in tree.iter("testcase")}
        if not found:
            raise ValueError(f"{report} holds no test")
        cases |= found
    files: dict[str, dict[str, Any]] = {}
    properties = []
    for (where, test), case in cases.items():
        parts = where.split(".")
        name = next((p for p in reversed(parts) if p.startswith("test_")), parts[-1])
        row = files.setdefault(
            name, {"file": name, "passed": 0, "failed": 0, "skipped": 0, "seconds": 0.0}
        )
        kinds = {child.tag for child in case}
        failed, skipped = bool(kinds & {"failure", "error"}), "skipped" in kinds
        row["failed" if failed else "skipped" if skipped else "passed"] += 1
        row["seconds"] += float(case.get("time", 0))
        kept = {p.get("name"): p.get("value") for p in case.iter("property")}
        if kept:
            properties.append({"test": test, "passed": not failed and not skipped, **kept})
    for row in files.values():
        row["seconds"] = round(row["seconds"], 1)
    return {**origin(root), "files": [files[name] for name in sorted(files)], "long": properties}


# ------------------------------------------------------------------ the page


def proofs_page(book: Path, part: str) -> str:
    """HTML of one part, from the record in the book's folder."""
    name = PARTS.get(part, "")
    return proofs_html(read_measured(book, name, _FIELDS[name]) if name else None, part)


def proofs_html(record: Mapping[str, Any] | None, part: str) -> str:
    """HTML of one part of the page."""
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    if record is None:
        command = PARTS[part].replace("faults", "proofs")
        return note_html(f"No run has been recorded here: `make {command}` records one.")
    return _SHOWN[part][1](record)


def _origin(record: Mapping[str, Any]) -> str:
    """Date, commit and, where it is kept, the machine."""
    date = str(record.get("finished") or record.get("date"))[:10]
    commit = str(record["commit"])
    changed = " with changes that were not committed" * bool(record.get("changed"))
    if " " in commit:  # .ci/coverage says it in the same place
        commit, _, said = commit.partition(" ")
        changed = f" {html.escape(said)}"
    text = f"Run of {date}, commit {html.escape(commit[:12])}{changed}"
    machine = record.get("machine")
    if machine:
        text += f", on {machine['cores']} cores of {html.escape(str(machine['processor']))}"
    return text


def _faults_html(record: Mapping[str, Any]) -> str:
    frame = pd.DataFrame(record["files"])
    total = frame[["passed", "failed", "skipped", "seconds"]].sum()
    frame["seconds"] = [duration_text(s) for s in frame["seconds"]]
    return (
        f"<p>{_origin(record)}: {total['passed']:,.0f} tests passed, {total['failed']:.0f} failed, "
        f"{total['skipped']:.0f} were skipped, in {duration_text(total['seconds'])}.</p>"
        f"{table_html(frame.rename(columns={'seconds': 'took'}), 'Tests by file')}"
    )


def _long_html(record: Mapping[str, Any]) -> str:
    rows = [
        {
            "test": one["test"].removeprefix("test_").replace("_", " "),
            **{k: v for k, v in one.items() if k not in ("test", "passed")},
            "result": "the same, bit for bit" if one["passed"] else "failed",
        }
        for one in record["long"]
    ]
    if not rows:
        return note_html("The recorded run left the long tests out.")
    return table_html(pd.DataFrame(rows), "Killed at random moments, and run again")


def _coverage_html(record: Mapping[str, Any]) -> str:
    names = {
        "statements": "lines",
        "percent_lines": "reached",
        "branches": "branches",
        "percent_branches": "taken",
    }
    rows = [*record["packages"].items(), ("all", record["total"])]
    frame = pd.DataFrame(
        [{"package": name, **{new: row[old] for old, new in names.items()}} for name, row in rows]
    )
    formats = {"reached": ".1f", "taken": ".1f", "lines": ",d", "branches": ",d"}
    return f"<p>{_origin(record)}. Tests: {html.escape(record['tests'])}.</p>" + table_html(
        frame, "Lines that tests reach and branches that they take, in per cent", formats
    )


def _uncovered_html(record: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<li><code>{html.escape(path)}</code>: {html.escape(', '.join(places))}</li>"
        for path, places in record["not_reached"].items()
    )
    return (
        "<details class='companion-parameters'><summary>What no test reaches: "
        f"{len(record['not_reached'])} files</summary><ul>{rows}</ul></details>"
    )


def _mutants_html(record: Mapping[str, Any]) -> str:
    rows = []
    for name, row in [*record["modules"].items(), *record["groups"].items()]:
        now = f"{row['share']:.1%}" if "share" in row else "–"
        drawn = f"{row['when_drawn']:.1%}" if "when_drawn" in row else now
        if "interval" in row:
            low, high = row["interval"]
            drawn += f" ({low:.1%} to {high:.1%})"
        rows.append(
            {
                "of": name if name.startswith("lib.") else f"these modules of lib.{name}",
                "mutants": row["mutants"],
                "run": row["run"],
                "survived": row.get("survived", 0) + row.get("no_tests", 0),
                "timed out": row.get("timeout", 0),
                "noticed when drawn": drawn,
                "noticed now": now,
            }
        )
    tests = record["tests"]
    left = f"{len(tests['slow']):,} tests left out as too slow"
    if tests["failing"]:
        left += f", {len(tests['failing']):,} as they do not pass on instrumented code"
    sample = any(row["run"] < row["mutants"] for row in record["modules"].values())
    drawn = (
        " Not all were run: those that were are a random sample. The mutation score when they were "
        "drawn, with Clopper and Pearson's interval at 95%, is an estimate for all; the one now "
        "includes tests that were written after their survivors had been seen."
        if sample
        else " All were run."
    )
    if not sample and any(row["noticed when drawn"] != row["noticed now"] for row in rows):
        drawn += (
            " The mutation score now includes tests that were written for survivors, with which "
            "some of these were run again."
        )
    table = pd.DataFrame(rows)
    if not sample:
        table = table.drop(columns="run")  # the same as the one before
    return (
        f"<p>{_origin(record)}, with {html.escape(record['tool'])}: {tests['used']:,} tests used, "
        f"{left}.{drawn}</p>"
        + table_html(table, "Mutants, and the mutation score: the fraction that some test notices")
    )


def _survivors_html(record: Mapping[str, Any]) -> str:
    found = record["survivors"]
    if not found:
        return "<p>None survived.</p>"
    parts = []
    for module in dict.fromkeys(one["module"] for one in found):
        rows = pd.DataFrame(
            [
                {
                    "function": one["function"],
                    "code": one["old"],
                    "mutant": one["new"],
                    "why it survives": one["reason"] or "a gap in the tests",
                }
                for one in found
                if one["module"] == module
            ]
        )
        parts.append(
            f"<details class='companion-parameters'><summary>{html.escape(module)}: {len(rows)}"
            f"</summary>{table_html(rows, longest=len(rows))}</details>"
        )
    gaps = sum(not one["reason"] for one in found)
    return (
        f"<p>{len(found):,} survivors; for {gaps:,} of them no reason is known but a gap in the "
        f"tests.</p>{''.join(parts)}"
    )


def _portable_html(record: Mapping[str, Any]) -> str:
    rows = []
    for one in record["settings"]:
        row = {"setting": one["setting"], "what": one["what"]}
        if not one["ran"]:
            rows.append(row | {"result": f"not run: needs {one['why']}"})
            continue
        apart = one.get("differences")
        rows.append(
            row
            | {
                "passed": one["passed"],
                "failed": one["failed"],
                "skipped": one["skipped"],
                "took": duration_text(one["seconds"]),
                "results moved by": f"{max(apart.values()):.0e}" if apart else "–",
                "result": "all pass" if one["green"] else ", ".join(one["failures"]) or "failed",
            }
        )
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return (
        f"<p>{_origin(record)}; {html.escape(versions)}.</p>"
        + table_html(pd.DataFrame(rows, dtype=object).fillna("–"), "Tests by setting")
        + "<p>Moved by: the largest relative difference of a few results (sums, products of "
        "matrices, a p-value, a bound) from the native ones.</p>"
    )


_SHOWN = {
    "faults": ("faults", _faults_html),
    "long": ("faults", _long_html),
    "coverage": ("coverage", _coverage_html),
    "uncovered": ("coverage", _uncovered_html),
    "mutants": ("mutants", _mutants_html),
    "survivors": ("mutants", _survivors_html),
    "portable": ("portable", _portable_html),
}
#: Parts of the page: the record that each shows.
PARTS = {part: record for part, (record, _) in _SHOWN.items()}

if __name__ == "__main__":
    sys.exit(record_command("faults", make_record, None))
