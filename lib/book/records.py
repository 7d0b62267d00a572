"""Recorded runs: results too long for a build, kept in the repository as text.

``book/records/<profile>/<chapter>.json`` holds the values, tables, figures and verdicts of one
execution, what its cells showed beside them, and everything that produced it: parameters,
fingerprints of code and data, versions, hardware, date and duration. A page shows the largest run.
A chapter's other parameter files, ``params/<profile>/<chapter>.<variant>.yml``, have records beside
it, ``<chapter>.<variant>.json``; the run is then named ``<profile>.<variant>``.
Figures are SVG, compressed.
"""

import base64
import json
import math
import re
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.book.claims import judged_anew, read_claims
from lib.book.notebooks import given_value
from lib.book.site import light_svg
from lib.runs import write_atomic
from lib.studies.drawn import Run, read_tables

if TYPE_CHECKING:
    from lib.book.execute import Executed

_FIELDS = {
    "chapter",
    "profile",
    "parameters",
    "values",
    "tables",
    "verdicts",
    "code",
    "data",
    "python",
    "packages",
    "hardware",
    "finished",
    "seconds",
    "source",
    "figures",
    "commit",
    "used",
    "shown",
}
_OPTIONAL = {"used", "shown"}  # older records have none
_DRAWN = {"svg", "wide"}  # of a figure; older ones have one layout

#: Profiles whose runs may be recorded, the larger first.
LARGEST_FIRST = ("gpu", "standard")


def run_name(profile: str, name: str) -> str:
    """How the run of a parameter file, ``<chapter>`` or ``<chapter>.<variant>``, is called."""
    _, dot, variant = name.partition(".")
    return f"{profile}{dot}{variant}"


def by_size(names: Iterable[str]) -> list[str]:
    """Names of runs, the largest profile first and its main run before others."""
    return sorted(names, key=lambda name: (LARGEST_FIRST.index(name.partition(".")[0]), name))


def read_records(book: Path, chapter: str) -> dict[str, dict[str, Any]]:
    """Recorded runs of a chapter by name, the largest first."""
    found = {}
    folders = [book / "records" / profile for profile in LARGEST_FIRST]
    paths = [path for folder in folders for path in sorted(folder.glob(f"{chapter}.*"))]
    for path in (path for path in paths if path.suffix == ".json"):
        record = read_record(path)
        needed = _FIELDS - _OPTIONAL
        if not isinstance(record, dict) or set(record) - _OPTIONAL != needed:
            raise ValueError(f"recorded run {path} must hold exactly {', '.join(sorted(needed))}")
        if (record["profile"], record["chapter"]) != (path.parent.name, chapter):
            raise ValueError(
                f"recorded run {path} is of chapter {record['chapter']} under the profile "
                f"{record['profile']}"
            )
        record["values"] = {name: given_value(each) for name, each in record["values"].items()}
        found[run_name(path.parent.name, path.stem)] = record
    return {name: found[name] for name in by_size(found)}


def figure_of(record: Mapping[str, Any], name: str) -> dict[str, str] | None:
    """A recorded figure: ``svg``, ``alt``, ``caption``, maybe ``wide`` and ``redrawn``, or None."""
    kept = record["figures"].get(name)
    if kept is None:
        return None
    svgs = kept.keys() & _DRAWN
    return kept | {n: zlib.decompress(base64.b85decode(kept[n])).decode() for n in svgs}


def context(book: Path, chapter: str) -> dict[str, Any]:
    """What a figure may be drawn from beside its own run: fields of ``Run``, by name."""
    claims = read_claims(book / "claims.yml").values()
    known = [c for c in claims if c.chapter == chapter and c.reported is not None]
    return {
        "reported": {claim.id: (claim.reported, claim.sd or 0.0) for claim in known},
        "recorded": tuple(map(run_of, read_records(book, chapter).values())),
    }


def run_of(record: Mapping[str, Any]) -> Run:
    """What a record has for figures to be drawn from."""
    tables = {n: table.get("whole", table["csv"]) for n, table in record["tables"].items()}
    values = {n: given_value(value) for n, value in record["values"].items()}
    return Run(read_tables(tables), values, record["parameters"] | record.get("used", {}))


def write_record(book: Path, executed: "Executed", name: str = "") -> Path:
    """Store an execution as the recorded run of its chapter and profile.

    `name` is that of its parameter file, if that is not the chapter's.

    Raises
    ------
    ValueError
        If it ran on other data than it was to: the record of those would be lost.
    """
    asked, used = (given.get("dataset") for given in (executed.parameters, executed.used))
    if None not in (used, asked) and used != asked:
        raise ValueError(
            f"{name or executed.chapter} is not recorded: it ran on {used!r}, since {asked!r} is"
            " not here; set COMPANION_DATA to where that is, or connect to the network"
        )
    record = {name: getattr(executed, name) for name in _FIELDS - {"figures", "commit"}}
    record["commit"] = git_output(book.parent, "rev-parse", "HEAD")
    infinite = (math.inf, -math.inf)  # which JSON has no numbers for
    record["values"] = {k: str(v) if v in infinite else v for k, v in executed.values.items()}
    record["figures"] = {
        name: packed_figure(kept | {n: light_svg(kept[n]) for n in kept.keys() & _DRAWN})
        for name, kept in executed.figures.items()
    }
    path = book / "records" / executed.profile / f"{name or executed.chapter}.json"
    return write_anew(path, record)


def record_files(book: Path) -> list[Path]:
    """Files of all recorded runs."""
    folders = [book / "records" / profile for profile in LARGEST_FIRST]
    return sorted(path for folder in folders for path in folder.glob("*.json"))


def judge_records(book: Path) -> list[Path]:
    """Write the verdicts of all recorded runs by the conditions as they stand; what has changed.

    Numbers and all else that a run found stay as they are.
    """
    claims = read_claims(book / "claims.yml")
    written = []
    for path in record_files(book):
        record = read_record(path)
        anew = judged_anew(claims, record)
        if anew != record:
            written.append(write_anew(path, anew))
    return written


def write_anew(path: Path, record: Mapping[str, Any]) -> Path:
    """Write a record in place of what its file held."""
    return write_atomic(path, json.dumps(record, indent=1, sort_keys=True) + "\n")


def packed_figure(figure: Mapping[str, str]) -> dict[str, str]:
    """A figure as a record keeps it, the inverse of :func:`figure_of`."""
    svgs = figure.keys() & _DRAWN
    packed = {n: base64.b85encode(zlib.compress(figure[n].encode(), 9)).decode() for n in svgs}
    return {**figure} | packed


def read_record(path: Path) -> Any:
    """What a file of `records` holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"record {path} is no JSON: {error}") from None


def git_output(root: Path | None, *command: str) -> str:
    """Return what git prints in a folder; nothing where it fails or there is no checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *command], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def repository(root: Path, environment: Mapping[str, str]) -> str:
    """``owner/name`` on GitHub, as told or as this checkout came from; empty if from elsewhere."""
    if told := environment.get("COMPANION_REPOSITORY", ""):
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", told):
            raise ValueError(f"COMPANION_REPOSITORY = {told!r} must be owner/name")
        return told
    address = git_output(root, "remote", "get-url", "origin")
    _, found, path = address.removesuffix(".git").partition("github.com")
    return path.lstrip("/:") if found else ""
