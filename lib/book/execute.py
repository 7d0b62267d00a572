"""Execution of chapters: papermill, and a cache keyed by content.

A chapter is executed again when anything that can change a number has changed: its code, its
parameters and the files that they name, the code of ``lib`` that it imports, directly or not, or
that executes it, the data it asked for, the claims it settles, Python or a package that this
project requires.  Prose, comments, docstrings of ``lib``, recorded runs and what the site looks
like are no part of the key.  Cells that are found have the comments and tags of the chapter as it
is now.

Which data a chapter asks for, of those it declares, is known only once it has been executed:
they depend on its parameters. So an entry of the cache lies under two hashes,
``<inputs without data>.<states of the data asked for>.json``, and notes these states. It holds
as long as each of them is what it was; data that come or go unasked for count for nothing.
The kernel and its worker processes note what they ask for: see :mod:`lib.data.store`.
"""

import concurrent.futures
import hashlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from filelock import FileLock

import lib
from lib import data
from lib.book.chapters import (
    book_of,
    chapter_files,
    code_cells,
    computed_by,
    declared_parameters,
    profile_parameters,
    read_chapter,
)
from lib.book.claims import audit_verdicts, read_claims
from lib.book.notebooks import VALUE_MIME, bundle_of, given_value
from lib.book.parameters import ParameterError, validate_parameters
from lib.book.records import read_records, run_name
from lib.book.site import svgs_of
from lib.book.sources import state_of_sources
from lib.data.images import array_file
from lib.data.store import has_own
from lib.runs import (
    MAIN_PACKAGES,
    check_cluster,
    fingerprint,
    hardware,
    package_versions,
    python_version,
    write_atomic,
)
from lib.runs.executors import LocalProcesses
from lib.runs.files import kept_folder, require_writable
from lib.runs.imports import needed_by
from lib.runs.provenance import required_versions

TABLE_MIME = "application/vnd.companion.table+json"
FIGURE_MIME = "application/vnd.companion.figure+json"
CELLS_MIME = "application/vnd.companion.cells+json"
VERDICT_MIME = "application/vnd.companion.verdict+json"
USED_MIME = "application/vnd.companion.used+json"
NOTE_MIME = "application/vnd.companion.note+json"
PARAMETERS_MIME = "application/vnd.companion.parameters+json"
#: What an output is to a page, by a key of its data, and what of these says how it is shown.
PARTS = {
    FIGURE_MIME: ("figure", "name"),
    TABLE_MIME: ("table", "name", "aside", "texts"),
    VERDICT_MIME: ("verdict", "id"),
    CELLS_MIME: ("cells", "ids", "caption"),
    NOTE_MIME: ("note", "text"),
    PARAMETERS_MIME: ("parameters",),
}
OWN_MIMES = (*PARTS, VALUE_MIME, USED_MIME)
_FORMAT = 8  # of the cached files
#: Of parameters, claims, records, data: each says itself what is wrong.
USER_ERRORS = (ValueError, data.DataUnavailable, NotADirectoryError)


class BuildError(RuntimeError):
    """The book cannot be built; the message says which chapter, cell and error."""


@dataclass(frozen=True)
class Executed:
    """An executed chapter, under a profile and with its content key.

    The key is ``<hash of the inputs without data>.<hash of data>``. `cells` are the executed code
    cells, the injected parameters included; `data` the fingerprints of the data that were asked
    for, ``"absent"`` for what could not be had; `source` and `code` those of the chapter's code
    cells and of what they need of ``lib``; `finished` is ISO 8601, UTC.
    """

    chapter: str
    profile: str
    key: str
    cells: list[dict[str, Any]]
    parameters: dict[str, Any]
    data: dict[str, str]
    source: str
    code: str
    python: str
    packages: dict[str, str]
    hardware: dict[str, str | int]
    seconds: float
    finished: str
    cached: bool = False  # found in the cache rather than executed now

    def _outputs(self, mime: str) -> Iterator[dict[str, Any]]:
        for cell in self.cells:
            for output in cell["outputs"]:
                if mime in (bundle := bundle_of(output)):
                    yield bundle

    def _payloads(self, mime: str) -> Iterator[dict[str, Any]]:
        return (output[mime] for output in self._outputs(mime))

    @property
    def values(self) -> dict[str, Any]:
        """Named values for the prose, last one given wins."""
        return {item["name"]: given_value(item["value"]) for item in self._payloads(VALUE_MIME)}

    @property
    def used(self) -> dict[str, Any]:
        """What stood in for parameters, by their names."""
        return {name: value for one in self._payloads(USED_MIME) for name, value in one.items()}

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """Verdicts on claims, in the order of the page."""
        return list(self._payloads(VERDICT_MIME))

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The tables shown, by name: ``csv``, ``caption`` and ``formats``.

        ``whole`` is what the download holds, where that is more.
        """
        names = ("csv", "caption", "formats", "whole")
        return {
            item["name"]: {name: item[name] for name in names if name in item}
            for item in self._payloads(TABLE_MIME)
        }

    @property
    def figures(self) -> dict[str, dict[str, str]]:
        """The figures shown, by name: ``svg``, maybe ``wide``, ``alt`` and ``caption``."""
        found = {}
        for output in self._outputs(FIGURE_MIME):
            about, svgs = output[FIGURE_MIME], svgs_of(output["text/html"])
            found[about["name"]] = svgs | {"alt": about["alt"], "caption": about["caption"]}
        return found

    @property
    def shown(self) -> dict[str, list[dict[str, Any]]]:
        """What each code cell shows, by the fingerprint of its source: see :func:`shown_by`.

        Of what has a kind only how it is shown: the content is in `figures`, `tables`, `verdicts`.
        A figure of theory is the same in all runs, and may be half a megabyte: a page takes its
        build's, of the cell as a whole.
        """
        found = {fingerprint(cell["source"]): shown_by(cell) for cell in self.cells}
        for part in (part for parts in found.values() for part in parts):
            if part["kind"] != "other":
                del part["output"]
        return {of: parts for of, parts in found.items() if not any(map(_is_theory, parts))}


def _is_theory(part: Mapping[str, Any]) -> bool:
    """Whether a part is a figure that no record keeps: see `theory` of ``Chapter.figure``."""
    html = "" if part["kind"] != "other" else bundle_of(part["output"]).get("text/html", "")
    return html.startswith("<figure class='companion-figure'")


def shown_by(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What an executed cell shows, in order, each with its ``kind`` and the ``output`` itself.

    The kinds are those of `PARTS`, and ``other``: printed lines, moving figures, figures of theory.
    """
    found = []
    for output in cell["outputs"]:
        data = bundle_of(output)
        mime = next((mime for mime in PARTS if mime in data), "")
        if mime and "text/plain" in data:  # the verdicts on cells of a table only stand beside it
            kind, *keys = PARTS[mime]
            about = {key: data[mime][key] for key in keys if key in data[mime]}
            found.append({"kind": kind, "output": output} | about)
        elif "data" not in output or not data.keys() <= set(OWN_MIMES):
            found.append({"kind": "other", "output": output})
    return found


def execute_book(book: Path, profile: str) -> dict[str, Executed]:
    """Execute all chapters of a book, or take them from the cache, and audit the ledger."""
    require_one_lib(book)
    jobs = jobs_at_a_time()
    _check_cluster()
    try:
        claims = read_claims(book / "claims.yml")
        paths = chapter_files(book)
        before = state_of_sources(book)
        missing = [path for path in paths.values() if jobs > 1 and not _is_stored(path, profile)]
        now = _execute_together(missing, profile, jobs) if len(missing) > 1 else {}
        # Looking all up again would take as long as pages do.
        same = state_of_sources(book) == before
        executed = {}
        for name, path in paths.items():
            new = now.get(path)
            executed[name] = done = new if new and same else execute_chapter(path, profile)
            if new is not None:
                executed[name] = replace(done, cached=False)
            else:
                _tell(done)
        audit_verdicts(claims, {name: done.verdicts for name, done in executed.items()})
    except USER_ERRORS as error:
        raise BuildError(str(error)) from error
    return executed


def jobs_at_a_time() -> int:
    """The number of chapters that are executed, or of pages that are made, at a time."""
    text = os.environ.get("COMPANION_JOBS") or "1"
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BuildError(f"COMPANION_JOBS must be a whole number of at least 1, got {text!r}")
    return int(text)


def _check_cluster() -> None:
    """Before any work: else each chapter would say it, from a kernel."""
    try:
        check_cluster()
    except (ValueError, ImportError) as error:
        raise BuildError(str(error)) from None


def _execute_together(paths: Sequence[Path], profile: str, jobs: int) -> dict[Path, Executed]:
    """Fill the cache, several chapters at a time, each in a process of its own.

    After the first failure no chapter is begun; those under way are finished. Returned are those
    that were executed, and not found.
    """
    many = len(paths) > 2 * jobs  # kernels for which it pays to have one process import
    if many:
        from lib.book.kernels import begin_tracker

        begin_tracker()
    futures: dict[concurrent.futures.Future, Path] = {}
    running: set[concurrent.futures.Future] = set()
    waiting, failed = list(paths), False
    with LocalProcesses(len(paths), jobs) as local:
        while running or (waiting and not failed):
            while waiting and len(running) < jobs and not failed:
                path = waiting.pop(0)
                running.add(future := local.submit(_fill, path, profile, many))
                futures[future] = path
            ended, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            failed |= any(future.exception() is not None for future in ended)
    done = {path: future.result() for future, path in futures.items()}
    return {path: each for path, each in done.items() if each is not None}


def _fill(path: Path, profile: str, many: bool) -> Executed | None:
    """Have a chapter in the cache; what it was executed to, if it was not there."""
    try:
        done = execute_chapter(path, profile, forks=many)
    except USER_ERRORS as error:  # some of these do not survive the journey
        raise BuildError(str(error)) from None
    if done.cached:
        return None
    _tell(done)
    return done


def _tell(done: Executed) -> None:
    """The line that a build prints per chapter."""
    how = "from the cache" if done.cached else f"executed in {done.seconds:.0f} s"
    print(f"chapter {done.chapter} ({done.profile}): {how}", flush=True)


def require_one_lib(book: Path) -> None:
    """Refuse a book that has a ``lib`` of its own beside it while another one is imported here.

    The kernel would import the one, this process has the other: their hashes and numbers differ.
    """
    own, here = book.absolute().parent / "lib", Path(lib.__file__).parent
    if (own / "book" / "execute.py").exists() and own.resolve() != here.resolve():
        raise BuildError(
            f"{book} belongs to {own}, but this environment has {here}: run"
            f" `pip install --no-deps -e .` in {own.parent}, or set PYTHONPATH={own.parent}"
        )


def execute_chapter(
    path: Path, profile: str, given: Mapping[str, Any] | None = None, *, forks: bool = False
) -> Executed:
    """Execute one chapter with a profile's parameters, unless the cache has the result.

    `given`, the content of another parameter file, takes the place of the profile's own. With
    `forks` its kernel is a fork of a process that has imported what most chapters import, and stays
    for others (:class:`lib.book.kernels.ForkedKernelManager`).
    """
    chapter, book = path.stem, book_of(path)
    before = state_of_sources(book)
    notebook, parameters, inputs = _inputs(path, profile, given)
    base, store = _base(inputs), _store(path)
    try:
        require_writable(store, "COMPANION_CACHE")
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(str(error)) from None
    with FileLock(store / "lock"):  # a second build waits here, then finds the result
        states = data.fingerprints(chapter, named_data(parameters))
        stored = _find_entry(store, base, states)
        if stored is not None:
            return Executed(**_as_now(stored, inputs["cells"]), cached=True)
        print(f"executing chapter {chapter} ({profile})", flush=True)
        started = time.perf_counter()
        kernel = "ForkedKernelManager" if forks else "ChapterKernelManager"
        cells, asked = _run(notebook, chapter, profile, parameters, book, states, kernel)
        if state_of_sources(book) != before and _needed(inputs["cells"]) != inputs["lib"]:
            raise BuildError(
                f"files of lib changed while chapter {chapter} was executed: run again"
            )
        read_data = _unchanged(chapter, asked, states)
        key = f"{base}.{fingerprint(read_data)}"
        entry = {
            "chapter": chapter,
            "profile": profile,
            "key": key,
            "cells": cells,
            "parameters": parameters,
            "data": read_data,
            "source": fingerprint(inputs["cells"]),
            "code": inputs["lib"],
            "python": inputs["python"],
            "packages": {name: package_versions().get(name, "absent") for name in MAIN_PACKAGES},
            "hardware": hardware(),
            "seconds": round(time.perf_counter() - started, 2),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        kept = json.dumps({"sha256": fingerprint(entry)} | entry)
        write_atomic(entry_file(path, key), kept)
    return Executed(**entry)


def is_recorded(
    path: Path, profile: str, name: str, given: Mapping[str, Any] | None = None
) -> bool:
    """Whether a record was made by this chapter and this ``lib`` with these parameters."""
    record = read_records(book_of(path), path.stem).get(run_name(profile, name), {})
    _, parameters, inputs = _inputs(path, profile, given)
    now = {"parameters": parameters, "source": fingerprint(inputs["cells"]), "code": inputs["lib"]}
    return now.items() <= record.items()


def _inputs(
    path: Path, profile: str, given: Mapping[str, Any] | None
) -> tuple[nbformat.NotebookNode, dict[str, Any], dict[str, Any]]:
    """The chapter, the parameters in effect, and all that decides about its numbers but data."""
    chapter, book = path.stem, book_of(path)
    root = book.parent
    notebook = read_chapter(path.read_text(encoding="utf-8"))
    try:
        if given is None:
            given = profile_parameters(root / "params", profile, chapter)
        parameters = validate_parameters(declared_parameters(notebook), given)
    except ParameterError as error:
        raise BuildError(f"chapter {chapter}: {error}") from error
    claims = read_claims(book / "claims.yml")
    inputs = {
        "format": _FORMAT,
        "profile": profile,
        "cells": code_cells(notebook),
        "parameters": parameters,
        "files": named_files(parameters, root),
        "lib": _needed(code_cells(notebook)),
        "claims": [repr(c) for c in claims.values() if c.chapter == chapter],
        "python": python_version(),
        "packages": required_versions(),
    }
    return notebook, parameters, inputs


# How a chapter is run, be it by its own imports or by papermill's entry points.
_RUN_BY = ("lib.book.execute", "lib.book.kernels", "lib.book.papermill_io")


def _needed(cells: Sequence[Mapping[str, Any]]) -> str:
    """A hash of the code of ``lib`` that code cells need, and of files that it reads."""
    return needed_by([cell["source"] for cell in cells], *_RUN_BY).fingerprint(files=True)


def _store(path: Path) -> Path:
    return kept_folder(book_of(path).parent, "book") / path.stem


def entry_file(path: Path, key: str) -> Path:
    """Where the cache has an executed chapter."""
    return _store(path) / f"{key}.json"


def _is_stored(path: Path, profile: str) -> bool:
    """Whether the cache has the chapter; of an empty one that is known without a look at `lib`."""
    if not any(_store(path).glob("*.json")):
        return False
    _, parameters, inputs = _inputs(path, profile, None)
    states = data.fingerprints(path.stem, named_data(parameters))
    return _find_entry(_store(path), _base(inputs), states) is not None


def _base(inputs: Mapping[str, Any]) -> str:
    """A hash of all that decides about a chapter's numbers but data."""
    return fingerprint({**inputs, "cells": [computed_by(cell) for cell in inputs["cells"]]})


def _as_now(entry: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A cached execution with the text and tags of the chapter's code cells as they are now."""
    now = iter(cells)  # of which that with papermill's parameters is none
    merged = [c if "injected-parameters" in c["tags"] else c | next(now) for c in entry["cells"]]
    return {**entry, "cells": merged, "source": fingerprint(cells)}


def _find_entry(store: Path, base: str, states: Mapping[str, str]) -> dict[str, Any] | None:
    """A cached execution whose data are in the states in which it found them, or None."""
    for path in sorted(store.glob(f"{base}.*.json")):
        entry = read_entry(path)
        if entry is None or entry["key"] != path.stem:  # nor one under another's name
            continue
        if entry["data"].items() <= states.items():
            return entry
    return None


def _unchanged(chapter: str, asked: set[str], states: Mapping[str, str]) -> dict[str, str]:
    """The states of the data asked for, which must have been the same all the time."""
    undeclared = sorted(asked - set(states))
    if undeclared:
        raise BuildError(
            f"chapter {chapter} asked for {', '.join(undeclared)}, which is not declared for it:"
            " see lib/data/registry.yml"
        )
    changed = [name for name in sorted(asked) if data.state(name) != states[name]]
    if changed:
        raise BuildError(
            f"{', '.join(changed)} came or went while chapter {chapter} was executed: run again"
        )
    return {name: state for name, state in states.items() if name in asked}


def named_files(parameters: Mapping[str, Any], root: Path) -> dict[str, str]:
    """Hashes of the files that parameters name, relative to `root`: a reader's own data."""
    named = {name: root / value for name, value in parameters.items() if isinstance(value, str)}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in named.items()
        if path.is_file()
    }


def named_data(parameters: Mapping[str, Any]) -> list[str]:
    """The data files of the sets of images and texts that parameters name.

    Not in the registry: declared data are asked for in every build, and these may be large.
    """
    given = {v for v in parameters.values() if isinstance(v, str)}
    sets = {v for v in given if v in data.IMAGE_SETS or has_own(v)}
    files = {file for name in sets for file in (*data.image_files(name), array_file(name))}
    return sorted(files.union(*(data.text.TEXT_FILES.get(v, {}).values() for v in given)) - {None})


def read_entry(path: Path) -> dict[str, Any] | None:
    """A cached execution, or None; a damaged file is set aside, with a warning."""
    if not path.exists():
        return None
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        if entry.pop("sha256") == fingerprint(entry):
            return entry
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    aside = path.with_suffix(".damaged")
    os.replace(path, aside)
    warnings.warn(f"damaged cache entry set aside as {aside}", stacklevel=4)
    return None


def _run(
    notebook: nbformat.NotebookNode,
    chapter: str,
    profile: str,
    parameters: dict[str, Any],
    book: Path,
    states: Mapping[str, str],
    kernel: str,
) -> tuple[list[dict[str, Any]], set[str]]:
    """Execute in a fresh kernel; return the code cells and the data files it asked for."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    environment = {
        "COMPANION_BOOK": str(book),
        "COMPANION_CHAPTER": chapter,
        "COMPANION_PROFILE": profile,
        data.ALSO: " ".join(named_data(parameters)),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    if data.ABSENT in states.values():
        environment["COMPANION_OFFLINE"] = "1"  # asked once already: the kernel need not
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, f"{chapter}.ipynb"), Path(scratch, "executed.ipynb")
        nbformat.write(notebook, source)
        asked = Path(scratch, "asked")
        asked.touch()
        environment[data.ASKED] = str(asked)
        try:
            with mock.patch.dict(os.environ, environment):
                done = papermill.execute_notebook(
                    str(source),
                    str(target),
                    parameters=parameters,
                    kernel_name="python3",
                    cwd=str(book.parent),
                    progress_bar=None,
                    # The kernel listens on this machine only, and warns at each start all the same.
                    extra_arguments=["--IPKernelApp.log_level=40"],
                    kernel_manager_class=f"lib.book.kernels.{kernel}",
                    shutdown_kernel="immediate",
                    request_save_on_cell_execute=False,
                    coalesce_streams=True,  # what several prints say is one text, however it came
                )
        except PapermillExecutionError as error:
            first = next((line for line in error.source.splitlines() if line.strip()), "")
            raise BuildError(
                f"chapter {chapter}, cell {error.exec_count} (`{first}`) failed: "
                f"{error.ename}: {error.evalue}\n{error}"
            ) from None
        names = set(asked.read_text(encoding="utf-8").splitlines())
    cells = [
        {
            "source": cell.source,
            "outputs": json.loads(json.dumps(_shown(cell, chapter, profile))),
            "execution_count": cell.execution_count,
            "tags": sorted(cell.metadata.get("tags", [])),
        }
        for cell in done.cells
        if cell.cell_type == "code"
    ]
    return cells, names


def _shown(cell: nbformat.NotebookNode, chapter: str, profile: str) -> list:
    """Outputs of a cell but standard error, which stops a quick execution: it would be a page's."""
    shown = []
    for output in cell.outputs:
        if output.get("name") != "stderr":
            shown.append(output)
            continue
        said = f"chapter {chapter}, cell {cell.execution_count} wrote to standard error: "
        if profile == "quick":
            raise BuildError(said + output.text.strip())
        print(said + output.text.strip(), file=sys.stderr)  # costs no run of hours
    return shown
