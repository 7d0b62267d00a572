"""What the tests themselves are worth: faults survived, code reached, mutants noticed.

Four records in ``book/records``, each made by a command and shown by the ``measured`` directive:

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

from lib.book.records import origin, record_command
from lib.book.render import folded, note_html, table_html
from lib.book.words import duration_text

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
    rows, properties = [], []
    for (where, test), case in cases.items():
        parts = where.split(".")
        name = next((p for p in reversed(parts) if p.startswith("test_")), parts[-1])
        kinds = {child.tag for child in case}
        failed = bool(kinds & {"failure", "error"})
        skipped = "skipped" in kinds and not failed
        passed, seconds = not failed and not skipped, float(case.get("time", 0))
        rows.append((name, passed, failed, skipped, seconds))
        kept = {p.get("name"): p.get("value") for p in case.iter("property")}
        if kept:
            properties.append({"test": test, "passed": passed, **kept})
    columns = ["file", "passed", "failed", "skipped", "seconds"]
    files = pd.DataFrame(rows, columns=columns).groupby("file", as_index=False).sum().round(1)
    return {**origin(root), "files": files.to_dict("records"), "long": properties}


# ------------------------------------------------------------------ the page


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


def faults_html(record: Mapping[str, Any]) -> str:
    """Tests of faults and of malformed input, by file."""
    frame = pd.DataFrame(record["files"])
    total = frame[["passed", "failed", "skipped", "seconds"]].sum()
    frame["seconds"] = [duration_text(s) for s in frame["seconds"]]
    return (
        f"<p>{_origin(record)}: {total['passed']:,.0f} tests passed, {total['failed']:.0f} failed, "
        f"{total['skipped']:.0f} were skipped, in {duration_text(total['seconds'])}.</p>"
        f"{table_html(frame.rename(columns={'seconds': 'took'}), 'Tests by file')}"
    )


def long_html(record: Mapping[str, Any]) -> str:
    """Tests that kill at random moments, for minutes."""
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


def coverage_html(record: Mapping[str, Any]) -> str:
    """Lines and branches that tests reach, by package."""
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


def uncovered_html(record: Mapping[str, Any]) -> str:
    """What no test reaches."""
    rows = "".join(
        f"<li><code>{html.escape(path)}</code>: {html.escape(', '.join(places))}</li>"
        for path, places in record["not_reached"].items()
    )
    summary = f"What no test reaches: {len(record['not_reached'])} files"
    return folded(summary, f"<ul>{rows}</ul>", "companion-parameters")


def mutants_html(record: Mapping[str, Any]) -> str:
    """Changes of the code, and how many of them some test notices."""
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


def survivors_html(record: Mapping[str, Any]) -> str:
    """Changes that no test notices, and why."""
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
        table = table_html(rows, longest=len(rows))
        parts.append(folded(f"{module}: {len(rows)}", table, "companion-parameters"))
    gaps = sum(not one["reason"] for one in found)
    return (
        f"<p>{len(found):,} survivors; for {gaps:,} of them no reason is known but a gap in the "
        f"tests.</p>{''.join(parts)}"
    )


def portable_html(record: Mapping[str, Any]) -> str:
    """The tests as other processors would run them."""
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


if __name__ == "__main__":
    sys.exit(record_command("faults", make_record, None))
