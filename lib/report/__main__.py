"""A report on a file of predictions: ``python -m lib.report my.npz --out report.html``."""

import argparse
import re
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lib.report.naming import MAPPED


def _program() -> tuple[str, ...]:
    """How this was called."""
    own = Path(sys.argv[0]).stem
    return (own,) if own == "companion-report" else ("python", "-m", "lib.report")


def _parser() -> argparse.ArgumentParser:
    """Of the command."""
    parser = argparse.ArgumentParser(
        " ".join(_program()),
        description="Every analysis that a file of predictions allows.",
        argument_default=argparse.SUPPRESS,  # what is not given is as lib.report.Settings has it
    )
    parser.add_argument(
        "file",
        nargs="?",
        default=None,
        help="CSV, TSV, JSON lines, NPZ, NPY, Parquet or Feather; see lib.report.read_predictions",
    )
    parser.add_argument(
        "--out",
        default=None,
        help="folder for tables (CSV) and figures (SVG), or one file that ends in .html",
    )
    parser.add_argument(
        "--check", action="store_true", default=False, help="only say what is possible"
    )
    parser.add_argument(
        "--example",
        action="store_true",
        default=False,
        help="write an example to the file, and stop; without a file, report on example.npz",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="ROLE=COLUMN,...",
        help="what is what, where names do not tell, such as label=class,probabilities=P(*): "
        f"{', '.join(MAPPED)}",
    )
    for name, meaning in {
        "alpha": "level of tests, and 1 - alpha of intervals (default: 0.05)",
        "margin": "largest acceptable drop in accuracy on the user's data (default: 0.05)",
        "target": "accuracy to reach by abstaining (default: 0.95)",
        "delta": "of the privacy audit, if the file says none (default: 1e-05)",
    }.items():
        parser.add_argument(f"--{name}", type=float, help=meaning)
    parser.add_argument(
        "--learner",
        help="what fits propensities and scores: linear, forest or super (default: forest)",
    )
    parser.add_argument(
        "--audit-design",
        help="how membership scores came about: 'one run' (a fair coin decided for every point) or "
        "'independent' (a training each) (default: one run)",
    )
    parser.add_argument(
        "--seed", type=int, help="of simulations, which decide no verdict (default: 0)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if the file allows no analysis, 2 if it or an option is not allowed."""
    said = list(sys.argv[1:] if arguments is None else arguments)
    given = vars(_parser().parse_args(said))
    # Here, and not above: they take longer than --help may.
    from lib.data.untrusted import printable
    from lib.report import example_predictions, explain, read_predictions, run_report
    from lib.report.exports import require_exportable
    from lib.report.tables import ReadingError

    path, out, pairs = given.pop("file"), given.pop("out"), given.pop("map")
    check, example = given.pop("check"), given.pop("example")
    try:
        if path is None and not example:
            raise ValueError("a file must be given, or --example")
        if example and path is None:
            path = str(example_predictions("example.npz", seed=given.get("seed", 0)))
            print(f"An example is written to {path}. What follows is of:")
            print(f"{' '.join(_program())} {path}{f' --out {printable(out)}' if out else ''}\n")
        elif example:
            kind = Path(path).suffix.lower().removeprefix(".")
            print(printable(example_predictions(path, kind, seed=given.get("seed", 0))))
            return 0
        if out is not None:  # before any work
            require_exportable(Path(out))
        with told_if_slow(f"reading {printable(path)}"):
            predictions = read_predictions(path, as_mapping(pairs))
        if check:
            for text in predictions.reading:
                print(f"read: {text}")
            table = explain(predictions)
            for row in table.itertuples():
                print(f"{row.analysis}: {'possible' if row.possible else row.reason}")
            return 0 if table["possible"].any() else 1
        report = run_report(predictions, progress=sys.stderr.isatty(), **given)
        command = shlex.join([*_program(), *said])
        report = replace(report, facts=report.facts | {"Command": printable(command)})
        print(report)
        if out is not None:
            import matplotlib  # here: a report in words needs none

            matplotlib.use("svg")  # no screen is needed
            print()
            with told_if_slow("drawing and writing"):
                files = report.export(out)
            print("\n".join(map(printable, files)))
    except ReadingError as error:
        print(f"error: {printable(path)}: {error.lines[0]}", file=sys.stderr)
        for line in error.lines[1:]:
            print(f"  {line}", file=sys.stderr)
        return 2
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {printable(error)}", file=sys.stderr)
        return 2
    return 0 if report.analyses else 1


@contextmanager
def told_if_slow(what: str, after: float = 2.0) -> Iterator[None]:
    """On a terminal, say what takes longer than so many seconds."""
    say = threading.Timer(after, print, (f"{what} ...",), {"file": sys.stderr, "flush": True})
    say.daemon = True
    if sys.stderr.isatty():
        say.start()
    try:
        yield
    finally:
        say.cancel()


def as_mapping(pairs: Sequence[str]) -> dict[str, str] | None:
    """What ``--map`` says: ``role=column`` pairs, separated by commas unless a column has some."""
    found: dict[str, str] = {}
    for text in pairs:
        begins = [m.start() for m in re.finditer(rf"(?:^|(?<=,))(?:{'|'.join(MAPPED)})=", text)]
        if not begins or begins[0] != 0:
            raise ValueError(
                f"--map must be ROLE=COLUMN, with a role of {', '.join(MAPPED)}, got {text!r}"
            )
        for start, end in zip(begins, [*begins[1:], len(text) + 1], strict=True):
            role, _, column = text[start : end - 1].partition("=")
            if role in found:
                raise ValueError(f"--map must name a role once, got {role!r} twice")
            found[role] = column
    return found or None


def run() -> None:
    """The command ``companion-report``."""
    sys.exit(main())


if __name__ == "__main__":
    run()
