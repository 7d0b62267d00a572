"""The recorded comparison with other software: from pytest-benchmark's report to the page.

``make bench`` measures (``tests/benchmarks``); ``python -m lib.book.benchmarks REPORT`` turns its
report into ``book/records/benchmarks.json``; the ``measured`` directive shows that file.  Ratios
and exponents are computed from the times where they are shown.
"""

import html
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lib.book.records import origin, record_command
from lib.book.render import figure_html, folded, table_html
from lib.book.site import minify_svg
from lib.book.words import formatted, powers
from lib.runs import code_fingerprint, package_versions, python_version

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What is compared, in the order of the page.
AREAS = ("audit", "training", "suitability", "counterfactual", "selective")

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
    "torch-uncertainty",
)
FIELDS = (
    *("finished", "seconds", "load", "machine", "python", "packages", "commit", "changed", "code"),
    "results",
)
_ROW = {"area", "comparison", "peer", "size", "unit", "seconds", "floor", "agreement", "memory"}
_ROW |= {"remark", "reason"}
_SIDES = ("ours", "peer")
_FEWEST = 3  # sizes for an exponent
_LEAST_MEMORY = 2**20  # below it the peak is a matter of pages and of the allocator's reserves
_MIB = 2**20
# Series of the figure, as many as can be told apart.
_DRAWN = (
    ("audit", "interval"),
    ("audit", "sweep of a ROC curve"),
    ("training", "perceptron"),  # codespell:ignore perceptron
    ("suitability", "one user fold, solved exactly"),
    ("counterfactual", "interval, linear learners"),
    ("counterfactual", "interval, super learner"),
    ("selective", "AURC"),
)


# ------------------------------------------------------------------ the record


def make_record(report: Mapping[str, Any], root: Path | None = None) -> dict[str, Any]:
    """Turn pytest-benchmark's report into a record.

    Of its description of the machine nothing is taken over, since it names the host.
    """
    if "companion" not in report or not report.get("benchmarks"):
        raise ValueError("the report must be one of tests/benchmarks, with at least one benchmark")
    rows = [dict(each["extra_info"]) for each in report["benchmarks"]]
    for row in rows:
        _check(row)
    seen = list(dict.fromkeys(row["comparison"] for row in rows))
    rows.sort(key=lambda r: (AREAS.index(r["area"]), seen.index(r["comparison"]), r["size"]))
    versions = package_versions()
    return origin(root) | {
        "seconds": round(float(report["companion"]["seconds"]), 1),
        "load": round(float(report["companion"]["load"]), 2),
        "python": python_version(),
        "packages": {name: versions.get(name, "absent") for name in _PACKAGES},
        "code": code_fingerprint(),
        "results": rows,
    }


def _check(row: Mapping[str, Any]) -> None:
    """Refuse a comparison that is incomplete, or of two sides that do not agree."""
    if missing := _ROW - set(row):
        raise ValueError(f"a result lacks {', '.join(sorted(missing))}")
    name = f"result {row['comparison']!r} of size {row['size']}"
    if row["area"] not in AREAS:
        raise ValueError(f"{name}: area must be of {', '.join(AREAS)}, got {row['area']!r}")
    times = row["seconds"]
    if "ours" not in times or len({len(values) for values in times.values()}) != 1:
        raise ValueError(f"{name}: seconds must have as many rounds on each side")
    if not times["ours"] or not all(0 < v < math.inf for values in times.values() for v in values):
        raise ValueError(f"{name}: seconds must be positive numbers, at least one a side")
    for each in row["agreement"]:
        if not 0 <= each["difference"] <= each["tolerance"]:
            raise ValueError(
                f"{name}: difference of {each['what']!r} must be at most"
                f" {each['tolerance']!r}, got {each['difference']!r}"
            )
    if "peer" in times and not row["agreement"]:
        raise ValueError(f"{name}: agreement must not be empty where two sides are compared")
    if "peer" not in times and not row["reason"]:
        raise ValueError(f"{name}: reason must say why there is no comparison, got ''")


def derived(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with the ratios of its times, of each round."""
    for row in record["results"]:
        _check(row)
    return dict(record) | {"results": [row | _ratios(row) for row in record["results"]]}


def _ratios(row: Mapping[str, Any]) -> dict[str, Any]:
    """Ratios of a result: median and quartiles over the rounds, each of one round."""
    times = {side: np.asarray(values, float) for side, values in row["seconds"].items()}
    return {
        "ratio": _spread(times["peer"] / times["ours"]) if "peer" in times else None,
        "over_floor": _spread(times["ours"] / times["floor"]) if "floor" in times else None,
    }


def _spread(values: np.ndarray) -> dict[str, float]:
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return {"low": float(low), "median": float(median), "high": float(high)}


def _groups(record: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Results by area and comparison; a record has them from the smallest size."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in record["results"]:
        found.setdefault((row["area"], row["comparison"]), []).append(row)
    return found


def _medians(rows: Sequence[Mapping[str, Any]], side: str) -> dict[int, float]:
    """Time by size."""
    return {r["size"]: float(np.median(r["seconds"][side])) for r in rows if side in r["seconds"]}


def exponents(record: Mapping[str, Any]) -> dict[tuple[str, str, str, str], float]:
    """Exponents in the size, by area, comparison, ``time`` or ``memory``, and side.

    By least squares on logarithms, of three sizes at least.
    """
    found = {}
    for key, rows in _groups(record).items():
        for side in _SIDES:
            peaks = {r["size"]: r["memory"].get(side, 0) for r in rows}
            peaks = {size: peak for size, peak in peaks.items() if peak >= _LEAST_MEMORY}
            for what, values in (("time", _medians(rows, side)), ("memory", peaks)):
                if len(values) >= _FEWEST:
                    logs = np.log([list(values), list(values.values())])
                    found[(*key, what, side)] = float(np.polyfit(*logs, 1)[0])
    return found


# ------------------------------------------------------------------ the page


def _machine_html(record: Mapping[str, Any]) -> str:
    machine = record["machine"]
    memory = f", {machine['memory_gib']} GiB of memory" if "memory_gib" in machine else ""
    same = "this" if record["code"] == code_fingerprint() else "an earlier"
    commit = ""
    if record["commit"]:
        begun = " with changes that were not committed" if record["changed"] else ""
        commit = f" Commit {html.escape(record['commit'][:12])}{begun}."
    versions = pd.DataFrame(
        [("Python", record["python"]), *record["packages"].items()], columns=["package", "version"]
    )
    return (
        f"<p>The tables are of the run of {record['finished'][:10]}, by {same} version of the"
        f" code.{commit} It took {record['seconds'] / 60:.0f} minutes on {machine['cores']} cores"
        f" of {html.escape(str(machine['processor']))}{memory},"
        f" {html.escape(str(machine['system']))}. When it began, {record['load']:.1f} other"
        " processes wanted a core on average over the minute before.</p>"
        + folded("Versions", table_html(versions, longest=len(versions)), "companion-parameters")
    )


def _times_text(value: float) -> str:
    """A ratio with about two digits."""
    if value >= 1000:
        return f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"
    return f"{value:.0f}" if value >= 99.5 else f"{value:#.2g}".rstrip(".")


def _ratio_text(spread: Mapping[str, float] | None) -> str:
    if spread is None:
        return "–"
    middle, low, high = (_times_text(spread[k]) for k in ("median", "low", "high"))
    return middle if low == high else f"{middle} ({low} to {high})"


def _items(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in texts) + "</ul>"


def _sized(row: Mapping[str, Any]) -> str:
    return f"{row['size']:,} {row['unit']}"


def _named(row: Mapping[str, Any]) -> str:
    """What was compared, and its size: one column, for the sake of phones."""
    return f"{row['comparison']}, {_sized(row)}"


def _area_html(area: str, record: Mapping[str, Any]) -> str:
    rows = [r for r in derived(record)["results"] if r["area"] == area]
    if not rows:
        return "<p>Not part of the recorded run.</p>"
    page = ""
    for peer in dict.fromkeys(r["peer"] for r in rows):
        frame = pd.DataFrame(
            [
                {"what": _named(r), "times as fast": _ratio_text(r["ratio"])}
                for r in rows
                if r["peer"] == peer
            ]
        )
        page += table_html(frame, f"Beside {peer}: how many times as fast the book's code is")
    remarks = _remarks(rows)
    if remarks:
        page += _items(f"{text}." for text in remarks)
    checks = [(r["comparison"], each) for r in rows for each in r["agreement"]]
    if checks:
        worst: dict[tuple[str, str], Mapping[str, Any]] = {}
        for comparison, each in checks:
            key = comparison, each["what"]
            if key not in worst or _share(each) > _share(worst[key]):
                worst[key] = each
        frame = pd.DataFrame(
            [
                {
                    "the same": powers(f"{comparison}: {what}"),
                    "difference": formatted(each["difference"], ".1e"),
                    "allowed": formatted(each["tolerance"], ".1e"),
                }
                for (comparison, what), each in worst.items()
            ]
        )
        page += folded(
            f"Both sides compute the same: {len(checks)} checks",
            table_html(frame, "The size that comes nearest to what is allowed"),
            "companion-parameters",
        )
    return page


def _remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is said of comparisons, with the sizes where it is not the same of all of them."""
    said: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        if row["remark"]:
            said.setdefault(row["comparison"], {}).setdefault(row["remark"], []).append(row)
    found = []
    for comparison, texts in said.items():
        for text, each in texts.items():
            sizes = " and ".join(f"{r['size']:,}" for r in each)
            of = f", {sizes} {each[0]['unit']}" * (len(texts) > 1)
            found.append(f"{comparison}{of}: {text}")
    return found + [f"{_named(r)}: {_in_words(r['reason'])}" for r in rows if r["reason"]]


def _in_words(reason: str) -> str:
    """A reason without the names of Python's exceptions."""
    absent = "not installed on the machine of this run"
    reason = re.sub(r"^does not import here: ModuleNotFoundError: .*", absent, reason)
    return re.sub(r"^the peer fails: \w+: (.*)", "the peer stops with the error “\\1”", reason)


def _share(agreement: Mapping[str, Any]) -> float:
    """Part of a tolerance that is used up."""
    return agreement["difference"] / agreement["tolerance"] if agreement["tolerance"] else 0.0


def _growth_html(record: Mapping[str, Any]) -> str:
    known, times, peaks = exponents(record), [], []
    for key, group in _groups(record).items():
        ours, peer, *memory = (
            formatted(known[(*key, what, side)], ".2f") if (*key, what, side) in known else "–"
            for what in ("time", "memory")
            for side in _SIDES
        )
        if (*key, "time", "ours") in known:
            span = f"{key[1]}, {group[0]['size']:,} to {_sized(group[-1])}"
            times.append({"what": span, "book": ours, "peer": peer})
        measured = [r for r in group if r["memory"]]
        if measured:
            mib = [_mib_text(measured[-1], side) for side in _SIDES]
            columns = ("MiB", "MiB, peer", "exponent", "exponent, peer")
            numbers = dict(zip(columns, mib + memory, strict=True))
            peaks.append({"what": _named(measured[-1])} | numbers)
    page = table_html(pd.DataFrame(times), "Exponents of time in the size") if times else ""
    if peaks:
        page += table_html(
            pd.DataFrame(peaks), "Peak of memory at the largest size, and exponents in the size"
        )
    return page + _figure_html(record) if times else page or "<p>Nothing has three sizes.</p>"


def _mib_text(row: Mapping[str, Any], side: str) -> str:
    if side not in row["memory"]:
        return "–"
    mib = row["memory"][side] / _MIB
    return f"{mib:,.0f}" if mib >= 10 else f"{mib:.1f}"


def plot_growth(record: Mapping[str, Any]) -> "Figure":
    """Draw time against size, both relative to the smallest size, of both sides."""
    # Here, because most builds draw nothing, and importing these takes seconds.
    from lib.plot import COLOURS, MARKERS, new_figure, style

    groups = _groups(record)
    with style():
        figure, axes = new_figure(2, 1, height=3.4, sharex=True, sharey=True)
        ends = [1.0, 10.0]
        for ax, side in zip(axes, _SIDES, strict=True):
            for place, key in enumerate(_DRAWN):
                points = sorted(_medians(groups.get(key, ()), side).items())
                if len(points) < 2:
                    continue
                size, seconds = np.array(points).T
                ends.append(size[-1] / size[0])
                label = key[1] if side == "ours" or not axes[0].lines else None
                style_of = {"color": COLOURS[place], "marker": MARKERS[place], "label": label}
                ax.plot(size / size[0], seconds / seconds[0], **style_of)
            ax.set(xscale="log", yscale="log", ylabel="relative time")
        for ax, title in zip(axes, ("This book's code", "The other software"), strict=True):
            line = {"color": "0.5", "ls": ":", "marker": "", "zorder": 0}
            label = "proportional" if ax is axes[-1] else None
            ax.plot([1, max(ends)], [1, max(ends)], label=label, **line)
            ax.set_title(title, loc="left")
        axes[1].set_xlabel("relative size")
        figure.legend(loc="outside lower center", ncols=1)
    return figure


def _figure_html(record: Mapping[str, Any]) -> str:
    known, said = exponents(record), []
    for key in _DRAWN:
        parts = [
            f"{name} {known[(*key, 'time', side)]:.2f}"
            for side, name in (("ours", "here"), ("peer", "there"))
            if (*key, "time", side) in known
        ]
        if parts:
            said.append(f"{key[1]}: {', '.join(parts)}")
    alt = (
        "Two panels with logarithmic axes, this book's code above and the other software below:"
        f" time against size. Slopes: {'; '.join(said)}."
    )
    caption = (
        "Time against size, both over those at the smallest size, so that a slope is an exponent;"
        " dotted: in proportion. A curve that stays below it has costs that do not depend on the"
        " size."
    )
    from lib.plot import svg_bytes

    svg = svg_bytes(plot_growth(record), "benchmarks.growth")
    return minify_svg(figure_html(svg, "growth", alt, caption))


def _floors_html(record: Mapping[str, Any]) -> str:
    rows = [r for r in derived(record)["results"] if r["over_floor"] is not None]
    if not rows:
        return "<p>No floor was measured.</p>"
    largest = [group[-1] for group in _groups({"results": rows}).values()]
    frame = pd.DataFrame(
        [{"what": _named(r), "times the floor": _ratio_text(r["over_floor"])} for r in largest]
    )
    texts: dict[str, list[str]] = {}
    for row in largest:
        texts.setdefault(row["floor"], []).append(row["comparison"])
    items = _items(f"{'; '.join(names)}: {text}." for text, names in texts.items())
    caption = "Time of this book's code over the floor, at the largest size"
    return f"{table_html(frame, caption)}<p>The floors:</p>{items}"


def _slower_html(record: Mapping[str, Any]) -> str:
    compared = [r for r in derived(record)["results"] if r["ratio"] is not None]
    groups = {
        "Slower than the other software:": [r for r in compared if r["ratio"]["high"] < 1],
        "Neither side is clearly faster; the quartiles of the ratio lie on both sides of 1:": [
            r for r in compared if r["ratio"]["low"] <= 1 <= r["ratio"]["high"]
        ],
    }
    page = "".join(
        f"<p>{title}</p>"
        + _items(
            f"{_named(r)}: {_ratio_text(r['ratio'])} times as fast as {r['peer']}." for r in rows
        )
        for title, rows in groups.items()
        if rows
    )
    heavier = [
        r
        for r in record["results"]
        if r["memory"].get("peer", 0) >= _LEAST_MEMORY
        and r["memory"].get("ours", 0) > r["memory"]["peer"]
    ]
    if heavier:
        page += "<p>Faster or not, it takes more memory:</p>" + _items(
            f"{_named(r)}: {_times_text(r['memory']['ours'] / r['memory']['peer'])} times the peak"
            f" of {r['peer']}."
            for r in heavier
        )
    if not any(groups.values()):
        page = f"<p>In none of the {len(compared)} comparisons of this run.</p>" + page
    return page


#: Parts of the page.
PARTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "machine": _machine_html,
    **{area: partial(_area_html, area) for area in AREAS},
    "growth": _growth_html,
    "floors": _floors_html,
    "slower": _slower_html,
}


def _from_reports(reports: Sequence[Path], root: Path) -> dict[str, Any]:
    return make_record(json.loads(reports[-1].read_text(encoding="utf-8")), root)


if __name__ == "__main__":
    sys.exit(record_command("benchmarks", _from_reports, None))
