"""The recorded comparison with other software: from pytest-benchmark's report to one table.

``make bench`` measures (``benchmarks/``); ``python -m lib.book.benchmarks REPORT`` turns its report
into ``book/records/benchmarks.json``; the ``benchmarks`` directive shows that file. Ratios are
computed from the times where they are shown.
"""

import argparse
import html
import json
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.book.records import git_output, read_record
from lib.book.render import note_html, table_html
from lib.runs import hardware, package_versions, python_version, write_atomic

#: Packages whose versions a record names.
_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "torch",
    "opacus",
    "dp-accounting",
    "privacy-estimates",
    "doubleml",
)
_FIELDS = ("finished", "seconds", "load", "machine", "python", "packages", "commit", "results")
_ROW = {"comparison", "peer", "size", "unit", "seconds", "remark"}


def make_record(report: Mapping[str, Any], root: Path | None = None) -> dict[str, Any]:
    """Turn pytest-benchmark's report into a record.

    Of its description of the machine nothing is taken over, since it names the host.
    """
    if "companion" not in report or not report.get("benchmarks"):
        raise ValueError("the report must be one of benchmarks/, with at least one benchmark")
    rows = [each["extra_info"] for each in report["benchmarks"] if each["extra_info"]]
    for row in rows:
        _check(row)
    seen = list(dict.fromkeys(row["comparison"] for row in rows))
    rows.sort(key=lambda r: (seen.index(r["comparison"]), r["size"]))
    versions = package_versions()
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": git_output(root, "rev-parse", "HEAD"),
        "changed": bool(git_output(root, "status", "--porcelain")),
        "machine": hardware(),
        "seconds": round(float(report["companion"]["seconds"]), 1),
        "load": round(float(report["companion"]["load"]), 2),
        "python": python_version(),
        "packages": {name: versions.get(name, "absent") for name in _PACKAGES},
        "results": rows,
    }


def _check(row: Mapping[str, Any]) -> None:
    """Refuse a comparison that is incomplete."""
    if missing := _ROW - set(row):
        raise ValueError(f"a result lacks {', '.join(sorted(missing))}")
    times = row["seconds"]
    name = f"result {row['comparison']!r} of size {row['size']}"
    if set(times) != {"ours", "peer"} or len(times["ours"]) != len(times["peer"]):
        raise ValueError(f"{name}: seconds must have as many rounds on each of two sides")
    if not times["ours"] or not all(0 < v < math.inf for side in times.values() for v in side):
        raise ValueError(f"{name}: seconds must be positive numbers, at least one a side")


def ratio(row: Mapping[str, Any]) -> tuple[float, float, float]:
    """How many times as fast the book's code is: quartiles over the rounds, each of one round."""
    ratios = np.divide(row["seconds"]["peer"], row["seconds"]["ours"])
    low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return float(low), float(median), float(high)


def benchmarks_html(book: Path, beside: str = "") -> str:
    """HTML of the record: its origin, and a row for the largest size of each comparison.

    `beside` names the other software, of which a list has the ratios alone; nothing stands for all.
    """
    path = _file(book)
    if not path.exists():
        return note_html("No run has been recorded here: `make bench` records one.")
    record = read_record(path)
    if missing := [field for field in _FIELDS if field not in record]:
        raise ValueError(f"record {path} lacks {', '.join(missing)}")
    for row in record["results"]:
        _check(row)
    rows = [row for row in record["results"] if beside in ("", row["peer"])]
    if not rows:
        raise ValueError(f"no comparison with {beside!r} is recorded")
    largest = {row["comparison"]: row for row in rows}  # sizes ascend
    if beside:
        said = (
            f"<li>{html.escape(name)}, {row['size']:,} {row['unit']}: "
            f"{_ratio_text(row)} times as fast</li>"
            for name, row in largest.items()
        )
        return f"<ul>{''.join(said)}</ul>"
    table = pd.DataFrame(
        {
            "what": f"{row['comparison']}, {row['size']:,} {row['unit']}",
            "beside": row["peer"],
            "times as fast": _ratio_text(row),
        }
        for row in largest.values()
    )
    caption = "How many times as fast as other software: median and quartiles over the rounds"
    remarks = "".join(
        f"<li>{html.escape(name)}: {html.escape(row['remark'])}.</li>"
        for name, row in largest.items()
        if row["remark"]
    )
    return (
        f"{_origin_html(record)}{table_html(table, caption, longest=math.inf)}"
        + f"<ul>{remarks}</ul>" * bool(remarks)
    )


def _origin_html(record: Mapping[str, Any]) -> str:
    machine = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in record["packages"].items())
    return (
        f"<p>Run of {record['finished'][:10]}, commit {html.escape(record['commit'][:12])}, on "
        f"{machine['cores']} cores of {html.escape(str(machine['processor']))}, in "
        f"{record['seconds'] / 60:.0f} minutes. When it began, {record['load']:.1f} other "
        "processes wanted a core on average over the minute before. "
        f"{record['python']}; {html.escape(versions)}.</p>"
    )


def _ratio_text(row: Mapping[str, Any]) -> str:
    low, middle, high = (_digits(value) for value in ratio(row))
    return middle if low == high else f"{middle} ({low} to {high})"


def _digits(value: float) -> str:
    """A ratio with about two digits."""
    if value >= 1000:
        return f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"
    return f"{value:.0f}" if value >= 99.5 else f"{value:#.2g}".rstrip(".")


def _file(book: Path) -> Path:
    return book / "records" / "benchmarks.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Turn a report of pytest-benchmark into the record; return the exit status."""
    parser = argparse.ArgumentParser(description="Write the record of the benchmarks.")
    parser.add_argument("report", type=Path, help="what pytest-benchmark wrote")
    parser.add_argument("--book", type=Path, default=Path("book"))
    options = parser.parse_args(arguments)
    try:
        report = json.loads(options.report.read_text(encoding="utf-8"))
        record = make_record(report, options.book.parent)
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        print(write_atomic(_file(options.book), text))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
