"""``python -m lib.data list | fetch NAME... | verify``.

``fetch --unverified`` is for the few files that are public but that we have never had, so that the
registry cannot say what they hash to.  It takes the copy that is here or downloads one, reads it
without running code, checks its shape, prints its SHA-256 and notes it in the cache; from then on
the file is fetched and checked like any other.  That the first copy is what the authors published
nobody has checked: compare the hash if you know it.

Exit codes: 0 all well; 1 a file is unavailable or corrupted; 2 the request makes no sense.
"""

import argparse
import fnmatch
import sys
from typing import NoReturn

from lib.data.errors import DataCorrupted, DataUnavailable, UndeclaredData
from lib.data.images import examine_arrays
from lib.data.registry import registry
from lib.data.store import ABSENT, check, entry, fetch, fetch_unverified, local_copies
from lib.data.suitability import examine_signals
from lib.data.untrusted import printable

UNKNOWN = "unknown"  # its SHA-256 is unknown: absent, wherever copies may lie


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")  # one line, without the usage


def _list() -> int:
    rows = [("name", "bytes", "where", "chapters")]
    for each in map(entry, registry()):
        copies = local_copies(each)
        where = copies[0][0] if copies else ABSENT
        size = "unknown" if each.size is None else f"{each.size:,}"
        if each.sha256 is None:
            where = UNKNOWN
        rows.append((each.name, size, where, ", ".join(each.chapters) or "-"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, size, where, chapters in rows:
        print(f"{name:<{widths[0]}}  {size:>{widths[1]}}  {where:<{widths[2]}}  {chapters}")
    return 0


def _fetch(patterns: list[str]) -> int:
    names: dict[str, None] = {}  # an ordered set
    for pattern in patterns:
        matches = fnmatch.filter(registry(), pattern) or [entry(pattern).name]
        unpinned = [name for name in matches if entry(name).sha256 is None]
        if len(unpinned) < len(matches):  # else the first of them is an error
            matches = [name for name in matches if name not in unpinned]
            for name in unpinned:
                print(f"left out: {name}, which is {UNKNOWN} (see --unverified)", file=sys.stderr)
        names.update(dict.fromkeys(matches))
    for name in names:
        print(fetch(name))
    return 0


def _verify() -> int:
    corrupted = False
    for each in map(entry, registry()):
        copies = local_copies(each)
        if each.sha256 is None:
            print(f"{UNKNOWN:<9}  {each.name}")
            continue
        if not copies:
            print(f"{ABSENT:<9}  {each.name}")
        for place, path in copies:
            try:
                check(path, each)
                print(f"ok         {each.name} ({place})")
            except DataCorrupted as error:
                corrupted = True
                print(f"corrupted  {each.name} ({place}): {error}")
    return int(corrupted)


def _fetch_unverified(names: list[str]) -> int:
    for name in names:
        arrays = name.startswith("arrays/")
        path, found = fetch_unverified(name, examine_arrays if arrays else examine_signals)
        print(f"{path}\n  {found}\n  SHA-256 (nobody compared it) {entry(name).sha256}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code."""
    parser = _Parser("python -m lib.data", description="The book's data files.")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="{list,fetch,verify}", parser_class=_Parser
    )
    commands.add_parser("list", help="name, size, whereabouts and chapters of every file")
    fetching = commands.add_parser("fetch", help="find or download files and print their paths")
    fetching.add_argument("names", nargs="+", metavar="NAME", help="a name or a glob pattern")
    commands.add_parser("verify", help="check the content of every file on this machine")
    fetching.add_argument(
        "--unverified",
        action="store_true",
        help="accept files whose SHA-256 the registry does not know, on your own trust",
    )
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            return _list()
        if options.command == "fetch":
            return (_fetch_unverified if options.unverified else _fetch)(options.names)
        return _verify()
    except (DataUnavailable, DataCorrupted, UndeclaredData, OSError) as error:
        print(f"{parser.prog}: {printable(error)}", file=sys.stderr)
        return 1
    except ValueError as error:  # a name or a hash that cannot be
        parser.error(printable(error))


if __name__ == "__main__":
    sys.exit(main())
