"""A report on a file of predictions: ``python -m lib.report my.npz --out report.html``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

from lib.data.untrusted import printable
from lib.report import Settings, example_predictions, explain, read_predictions, run_report
from lib.report.exports import require_exportable


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if the file allows no analysis, 2 if it or an option is not allowed."""
    default = Settings()
    parser = argparse.ArgumentParser(
        "python -m lib.report", description="Every analysis that a file of predictions allows."
    )
    parser.add_argument("file", help="NPZ or CSV, see lib.report.predictions")
    parser.add_argument(
        "--out", help="folder for tables (CSV) and figures (SVG), or one file that ends in .html"
    )
    parser.add_argument("--check", action="store_true", help="only say what is possible")
    parser.add_argument(
        "--example", action="store_true", help="write an example to the file, and stop"
    )
    for name in ("alpha", "margin", "target", "delta"):
        parser.add_argument(f"--{name}", type=float, default=getattr(default, name))
    parser.add_argument("--learner", default=default.learner)
    parser.add_argument(
        "--audit-design",
        default=default.audit_design,
        help="how membership scores came about: 'one run' (a fair coin decided for every point) or "
        "'independent' (a training each)",
    )
    parser.add_argument("--seed", type=int, default=default.seed)
    given = vars(parser.parse_args(arguments))
    path, out = given.pop("file"), given.pop("out")
    check, example = given.pop("check"), given.pop("example")
    try:
        if example:
            kind = Path(path).suffix.lower().removeprefix(".")
            print(printable(example_predictions(path, kind, seed=given["seed"])))
            return 0
        if out is not None:  # before any work
            require_exportable(Path(out))
        predictions = read_predictions(path)
        if check:
            table = explain(predictions)
            for row in table.itertuples():
                print(f"{row.analysis}: {'possible' if row.possible else row.reason}")
            return 0 if table["possible"].any() else 1
        matplotlib.use("svg")  # no screen is needed
        report = run_report(predictions, progress=sys.stderr.isatty(), **given)
        print(report)
        if out is not None:
            print()
            for written in report.export(out):
                print(printable(written))
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {printable(error)}", file=sys.stderr)
        return 2
    return 0 if report.analyses else 1


if __name__ == "__main__":
    sys.exit(main())
