"""``python -m lib.data list | fetch NAME... | verify``.

Exit codes: 0 all well; 1 a file is unavailable or corrupted; 2 the request makes no sense.
"""

import argparse
import fnmatch
import sys
from typing import NoReturn

from lib.data.errors import DataCorrupted, DataUnavailable, UndeclaredData, UnknownData
from lib.data.registry import registry
from lib.data.store import check, entry, fetch, local_copies


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")  # one line, without the usage


def _list() -> int:
    rows = [("name", "bytes", "where", "chapters")]
    for each in registry().values():
        copies = local_copies(each)
        where = copies[0][0] if copies else "absent"
        rows.append((each.name, f"{each.size:,}", where, ", ".join(each.chapters) or "-"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, size, where, chapters in rows:
        print(f"{name:<{widths[0]}}  {size:>{widths[1]}}  {where:<{widths[2]}}  {chapters}")
    return 0


def _fetch(patterns: list[str]) -> int:
    names: dict[str, None] = {}  # an ordered set
    for pattern in patterns:
        matches = fnmatch.filter(registry(), pattern)
        names.update(dict.fromkeys(matches or [entry(pattern).name]))
    for name in names:
        print(fetch(name))
    return 0


def _verify() -> int:
    corrupted = False
    for each in registry().values():
        copies = local_copies(each)
        if not copies:
            print(f"absent     {each.name}")
        for place, path in copies:
            try:
                check(path, each)
                print(f"ok         {each.name} ({place})")
            except DataCorrupted as error:
                corrupted = True
                print(f"corrupted  {each.name} ({place}): {error}")
    return int(corrupted)


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : list of str, optional
        The command line's arguments; the process's own by default.

    Returns
    -------
    int
        The exit code.
    """
    parser = _Parser("python -m lib.data", description="The book's data files.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="{list,fetch,verify}", parser_class=_Parser
    )
    commands.add_parser("list", help="name, size, whereabouts and chapters of every file")
    fetching = commands.add_parser("fetch", help="find or download files and print their paths")
    fetching.add_argument("names", nargs="+", metavar="NAME", help="a name or a glob pattern")
    commands.add_parser("verify", help="check the content of every file on this machine")
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            return _list()
        if options.command == "fetch":
            return _fetch(options.names)
        return _verify()
    except UnknownData as error:
        parser.error(str(error))
    except (DataUnavailable, DataCorrupted, UndeclaredData, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
