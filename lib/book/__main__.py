"""``python -m lib.book record CHAPTER --profile standard``: keep a long run's result."""

import argparse
import sys
from pathlib import Path

from lib.book.chapters import PROFILES, chapter_files
from lib.book.execute import BuildError, execute_chapter
from lib.book.records import write_record


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m lib.book", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="execute a chapter and store its results")
    record.add_argument("chapter")
    record.add_argument("--profile", choices=PROFILES, default="standard")
    record.add_argument("--book", type=Path, default=Path("book"))
    options = parser.parse_args(arguments)

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


if __name__ == "__main__":
    sys.exit(main())
