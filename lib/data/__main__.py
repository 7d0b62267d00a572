"""``python -m lib.data list | fetch NAME... | verify | pin NAME``.

``pin`` is for the few files that are public but that we have never had, so that the registry cannot
say what they hash to.  It downloads one, or takes the mirror's copy, reads it without running code,
checks its shape, prints its SHA-256 and keeps it in ``pins.yml`` in the cache; from then on the
file is fetched and checked like any other.  This is trust on first use: that the first copy is what
the authors published nobody has checked, unless ``--sha256`` names the hash to expect.

Exit codes: 0 all well; 1 a file is unavailable or corrupted; 2 the request makes no sense.
"""

import argparse
import fnmatch
import sys
from typing import NoReturn

from lib.data.errors import DataCorrupted, DataUnavailable, UndeclaredData
from lib.data.registry import registry
from lib.data.store import ABSENT, check, entry, fetch, local_copies, pin
from lib.data.suitability import examine_signals

UNPINNED = "unpinned"  # its SHA-256 is unknown: absent, wherever copies may lie


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
            where = UNPINNED
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
                print(f"left out: {name}, which is {UNPINNED} (see pin --help)", file=sys.stderr)
        names.update(dict.fromkeys(matches))
    for name in names:
        print(fetch(name))
    return 0


def _verify() -> int:
    corrupted = False
    for each in map(entry, registry()):
        copies = local_copies(each)
        if each.sha256 is None:
            print(f"{UNPINNED:<9}  {each.name}")
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


def _pin(name: str, sha256: str | None) -> int:
    path, found = pin(name, examine_signals, sha256)
    pinned = entry(name)
    print(f"pinned  {name}: {found}")
    print(f"sha256  {pinned.sha256}{'' if sha256 else ' (on first use: not compared)'}")
    print(f"size    {pinned.size:,} bytes")
    print(f"file    {path}")
    return 0


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
        dest="command", required=True, metavar="{list,fetch,verify,pin}", parser_class=_Parser
    )
    commands.add_parser("list", help="name, size, whereabouts and chapters of every file")
    fetching = commands.add_parser("fetch", help="find or download files and print their paths")
    fetching.add_argument("names", nargs="+", metavar="NAME", help="a name or a glob pattern")
    commands.add_parser("verify", help="check the content of every file on this machine")
    pinning = commands.add_parser(
        "pin",
        help="accept a file whose SHA-256 the registry does not know",
        description="Accept a public file whose SHA-256 the registry does not know: download it"
        " (or take the mirror's copy), check its shape and keep its SHA-256 in the cache. Trust"
        " on first use: that this first copy is the authors' nobody has checked, unless you give"
        " --sha256.",
    )
    pinning.add_argument("name", metavar="NAME")
    pinning.add_argument("--sha256", metavar="HASH", help="what you expect; else nothing is kept")
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            return _list()
        if options.command == "fetch":
            return _fetch(options.names)
        if options.command == "pin":
            return _pin(options.name, options.sha256)
        return _verify()
    except (DataUnavailable, DataCorrupted, UndeclaredData, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except ValueError as error:  # a name or a hash that cannot be
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
