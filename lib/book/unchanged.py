"""Whether the site is still what a build would make: then a build has nothing to do.

A build that went well leaves a note beside the site: of all that the site was made from, and of all
files that it made. As long as both are what they were, the site is current.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lib
from lib import data
from lib.book.execute import USER_ERRORS, Executed, entry_file, named_data, named_files
from lib.book.records import git_output, repository
from lib.book.sources import files_below, sources_of, state_of_sources, times_of
from lib.runs import code_fingerprint, fingerprint, python_version, write_atomic
from lib.runs.imports import needed
from lib.runs.provenance import required_versions

#: Environment variable that asks a build to leave a note: the state of the sources before it began.
NOTED = "COMPANION_NOTED"
_FORMAT = 1
_SHOWS = re.compile(rb"\bauto(?:data|module|summary)::")  # docstrings, and comments of constants
# Variables that change neither a number nor a page.
_ASIDE = {NOTED, "COMPANION_JOBS", "COMPANION_CHECK_FIGURES", "COMPANION_PUBLIC_DATA"}


def is_unchanged(book: Path, environment: Mapping[str, str]) -> bool:
    """Whether the site is there, whole, and what a build in this environment would make."""
    out = book / "_build" / "html"
    note = _read(out)
    try:
        return (
            note is not None
            and not is_damaged(book, out)
            and note["source"] == _source(book, environment)
            and all(_has_its_data(book, name, each) for name, each in note["chapters"].items())
        )
    except USER_ERRORS:  # the build says what is wrong
        return False


def is_damaged(book: Path, out: Path) -> bool:
    """Whether files of a noted site were changed or removed since, or others added."""
    note = _read(out)
    return note is not None and note["made"] != _state(_made(book, out, note["entries"]))


def forget(out: Path) -> None:
    """Take the note away, before the site is changed."""
    _note(out).unlink(missing_ok=True)


def state_of_writers() -> str:
    """A hash of what makes pages of their texts: code, style sheets, scripts, templates."""
    code = needed("lib.book.sphinx_ext").fingerprint(files=True)
    folder = Path(lib.__file__).parent / "book"
    files = {
        f"{part}/{name}": path
        for part in ("static", "templates", "drawings")
        for name, path in files_below(folder / part).items()
    }
    return fingerprint([code, {name: _sha256(path) for name, path in files.items()}])


def state_of_pages(pages: Mapping[str, Path]) -> dict[str, str]:
    """A hash of each page's text, and of all of ``lib`` where it shows docstrings."""
    code = code_fingerprint()
    found = {}
    for name, path in pages.items():
        text = path.read_bytes()
        found[name] = hashlib.sha256(text + code.encode() * bool(_SHOWS.search(text))).hexdigest()
    return found


def leave_note(book: Path, out: Path, executed: Mapping[str, Executed]) -> None:
    """Note what a finished site is made from, if the build was asked to and no source changed."""
    entries = {name: done.key for name, done in executed.items()}
    chapters = {
        name: {
            "parameters": done.parameters,
            "files": named_files(done.parameters, book.parent),
            "data": done.data,
        }
        for name, done in executed.items()
    }
    note = {
        "chapters": chapters,
        "entries": entries,
        "made": _state(_made(book, out, entries)),
        "source": _source(book, os.environ),
    }
    if os.environ.get(NOTED) == state_of_sources(book):
        write_atomic(_note(out), json.dumps(note | {"sha256": fingerprint(note)}))


def _note(out: Path) -> Path:
    return out.parent / ".companion-note.json"


def _read(out: Path) -> dict[str, Any] | None:
    """The note; None if there is none, or if it is damaged."""
    try:
        note = json.loads(_note(out).read_text(encoding="utf-8"))
        return note if note.pop("sha256") == fingerprint(note) else None
    except (FileNotFoundError, ValueError, KeyError, AttributeError, TypeError):
        return None


def _source(book: Path, environment: Mapping[str, str]) -> str:
    """A hash of all that a site is made from but data."""
    files = {name: _sha256(path) for name, path in sources_of(book).items()}
    at = repository(book.parent, environment)
    set_here = {n: v for n, v in environment.items() if n.startswith("COMPANION_")}
    return fingerprint(
        {
            "format": _FORMAT,
            "files": files,
            "environment": {
                n: v
                for n, v in ({"COMPANION_PROFILE": "quick"} | set_here).items()
                if n not in _ASIDE
            },
            "repository": [at, git_output(book.parent, "rev-parse", "HEAD") if at else ""],
            "python": python_version(),
            "packages": required_versions(),
        }
    )


def _made(book: Path, out: Path, entries: Mapping[str, str]) -> dict[str, Path]:
    """Files that a build leaves: the site, and the executed chapters that it shows."""
    kept = {f"cache/{n}": entry_file(book / f"{n}.py", key) for n, key in entries.items()}
    return kept | files_below(out)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _state(files: Mapping[str, Path]) -> str:
    return fingerprint({name: times_of(path) for name, path in files.items()})


def _has_its_data(book: Path, chapter: str, noted: Mapping[str, Any]) -> bool:
    """Whether the data that a chapter asked for, and files that it was given, are as they were."""
    given = noted["parameters"]
    if noted["files"] != named_files(given, book.parent):
        return False
    return noted["data"].items() <= data.fingerprints(chapter, named_data(given)).items()
