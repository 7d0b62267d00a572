"""``python -m lib.book build``: the site, with a line per chapter.

``python -m lib.book record CHAPTER --profile standard``: keep a long run's result.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from lib.book.chapters import PROFILES, chapter_files
from lib.book.execute import BuildError, execute_chapter
from lib.book.records import write_record

_PROGRESS = re.compile(r"chapter \w+ \(\w+\): ")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m lib.book", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="execute what has changed and build the site")
    build.add_argument("--profile", choices=PROFILES)
    record = commands.add_parser("record", help="execute a chapter and store its results")
    record.add_argument("chapter")
    record.add_argument("--profile", choices=PROFILES, default="standard")
    for command in (build, record):
        command.add_argument("--book", type=Path, default=Path("book"))
    options = parser.parse_args(arguments)
    if options.command == "build":
        return _build(options.book, options.profile)

    chapters = chapter_files(options.book)
    if options.chapter not in chapters:
        parser.error(f"no chapter {options.chapter!r}; there are {', '.join(chapters)}")
    try:
        path = write_record(
            options.book, execute_chapter(chapters[options.chapter], options.profile)
        )
    except (BuildError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


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
