"""``python -m lib.book build``: the site, with a line per chapter.

``python -m lib.book record [CHAPTER ...] --profile standard``: keep long runs' results, also of a
chapter's other parameter files, as ``interplay.gtsrb``.

``python -m lib.book judge``: write the verdicts of all records by the conditions as they stand.

``python -m lib.book redraw``: draw the figures of all records anew that need no run for that.

``python -m lib.book words [PAGE ...]``: how the prose reads; of a page, which sentences to correct.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.book import prose
from lib.book.chapters import (
    PROFILES,
    chapter_files,
    chapter_of,
    parameter_files,
    profile_parameters,
)
from lib.book.execute import USER_ERRORS, BuildError, execute_chapter, is_recorded
from lib.book.records import judge_records, read_records, run_name, write_record
from lib.book.unchanged import NOTED, is_unchanged, state_of_sources
from lib.book.words import duration_text
from lib.runs import check_cluster
from lib.runs.files import can_write

_PROGRESS = re.compile(r"chapter \w+ \(\w+\): ")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m lib.book", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="execute what has changed and build the site")
    build.add_argument("--profile", choices=PROFILES)
    record = commands.add_parser("record", help="execute chapters and store their results")
    record.add_argument("chapters", nargs="*", help="all that have parameters, if none is named")
    record.add_argument("--profile", choices=PROFILES, default="standard")
    judge = commands.add_parser("judge", help="write the verdicts of all records anew")
    redraw = commands.add_parser("redraw", help="draw figures of all records anew")
    words = commands.add_parser("words", help="measure the prose of all pages")
    words.add_argument("pages", nargs="*", help="show what to correct on these pages")
    for command in (build, record, judge, redraw, words):
        command.add_argument("--book", type=Path, default=Path("book"))
    options = parser.parse_args(arguments)
    if options.command == "words":
        return _words(options.book, options.pages)
    try:
        check_cluster()  # before any work
    except (ValueError, ImportError) as error:
        parser.error(str(error))
    if options.command == "build":
        return _build(options.book, options.profile)
    if options.command in ("judge", "redraw"):
        return _anew(options.book, options.command)
    if not can_write(records := options.book / "records" / options.profile):  # before hours of work
        parser.error(f"{records} cannot be written, where records are kept: use a copy of the book")
    given = parameter_files(options.book, options.profile)
    known = dict.fromkeys([*chapter_files(options.book), *given])
    for name in options.chapters:
        if name not in known:
            parser.error(f"no chapter {name!r}; there are {', '.join(known)}")
    return _record(options.book, options.chapters or given, options.profile)


def _words(book: Path, names: list[str]) -> int:
    """Print a table of all pages, or what to correct on some."""
    texts = {n: (p.read_text(encoding="utf-8"), p.suffix) for n, p in prose.pages(book).items()}
    if unknown := sorted({*names} - {*texts}):
        print(f"error: no page {unknown[0]!r}; there are {', '.join(texts)}", file=sys.stderr)
        return 2
    for name in names:
        print(*prose.to_correct(*texts[name]), sep="\n")
    if not names:
        print(prose.table({name: prose.measure(*each) for name, each in texts.items()}))
    return 0


def _from_nothing(record: Mapping[str, Any]) -> float:
    """What a recorded run takes, training runs that it found stored too if it says their time."""
    if not record:
        return 0.0
    trained = record["values"].get("trained_seconds", 0.0)
    return max(record["seconds"], trained / record["hardware"]["cores"])


def _anew(book: Path, command: str) -> int:
    """Write what has another verdict or looks other now; values and all else stay as they are."""
    if command == "judge":
        write = judge_records
    else:
        from lib.book.redraw import redraw_records as write  # with all studies: seconds
    try:
        for path in write(book):
            print(path)
    except USER_ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _record(book: Path, names: list[str], profile: str) -> int:
    """One after the other, but what this code has recorded; an error stops only its own."""
    paths = chapter_files(book)
    last = [read_records(book, chapter_of(name)).get(run_name(profile, name), {}) for name in names]
    seconds = [_from_nothing(record) for record in last]
    status = 0
    for i, name in enumerate(names):
        if len(names) > 1:
            known = duration_text(sum(seconds[i:]))
            print(
                f"{i + 1} of {len(names)}: {name}; by the last records {known} are left, and what"
                " these found stored"
            )
        path = paths[chapter_of(name)]
        try:
            given = profile_parameters(book.parent / "params", profile, name)
            if not is_recorded(path, profile, name, given):
                print(write_record(book, execute_chapter(path, profile, given), name), flush=True)
        except (BuildError, *USER_ERRORS) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            status = 1
    return status


def _build(book: Path, profile: str | None) -> int:
    """``jupyter-book build``, warnings being errors, if it would change anything.

    Of what it prints only what is news goes through, as it comes, standard error too; the rest is
    shown if the build fails.
    """
    environment = os.environ | ({"COMPANION_PROFILE": profile} if profile else {})
    site = book.absolute() / "_build" / "html" / "index.html"
    if is_unchanged(book, environment):
        print(f"nothing has changed since the site was built\n{site}")
        return 0
    program = Path(sys.executable).with_name("jupyter-book")
    held = []
    with subprocess.Popen(
        [program, "build", "-q", "-W", "-n", "--keep-going", str(book)],
        env=environment | {NOTED: state_of_sources(book)},
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout:
            if _PROGRESS.match(line):
                print(line, end="", flush=True)
            else:
                held.append(line)
    if process.returncode == 0:
        print(site)
    else:
        print(*held, sep="", end="", file=sys.stderr)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
