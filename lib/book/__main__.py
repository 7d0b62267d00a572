"""``python -m lib.book build``: the site, with a line per chapter.

``python -m lib.book record [CHAPTER ...] --profile standard``: keep long runs' results.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from lib.book.chapters import PROFILES, chapter_files
from lib.book.execute import BuildError, execute_chapter, is_recorded
from lib.book.records import read_records, write_record
from lib.book.render import duration_text

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
    for command in (build, record):
        command.add_argument("--book", type=Path, default=Path("book"))
    options = parser.parse_args(arguments)
    if options.command == "build":
        return _build(options.book, options.profile)

    chapters = chapter_files(options.book)
    for name in options.chapters:
        if name not in chapters:
            parser.error(f"no chapter {name!r}; there are {', '.join(chapters)}")
    given = options.book.parent / "params" / options.profile
    named = options.chapters or [name for name in chapters if (given / f"{name}.yml").exists()]
    return _record(options.book, [chapters[name] for name in named], options.profile)


def _record(book: Path, paths: list[Path], profile: str) -> int:
    """One after the other, but what this code has recorded; an error stops only its own."""
    seconds = [read_records(book, path.stem).get(profile, {}).get("seconds", 0) for path in paths]
    status = 0
    for i, path in enumerate(paths):
        if len(paths) > 1:
            known = duration_text(sum(seconds[i:]))
            print(f"{i + 1} of {len(paths)}: {path.stem}; by the last records {known} are left")
        try:
            if not is_recorded(path, profile):
                print(write_record(book, execute_chapter(path, profile)), flush=True)
        except (BuildError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            status = 1
    return status


def _build(book: Path, profile: str | None) -> int:
    """``jupyter-book build``, warnings being errors; of what it prints, only what is news.

    Progress goes through as it comes, standard error too; the rest is shown if the build fails.
    """
    program = Path(sys.executable).with_name("jupyter-book")
    held = []
    with subprocess.Popen(
        [program, "build", "-q", "-W", "-n", "--keep-going", str(book)],
        env=os.environ | ({"COMPANION_PROFILE": profile} if profile else {}),
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
        print(book.absolute() / "_build" / "html" / "index.html")
    else:
        print(*held, sep="", end="", file=sys.stderr)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
