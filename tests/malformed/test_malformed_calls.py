"""Malformed input to the public functions: one table, a row per call, each with its error.

A row passes if the call raises the documented kind of exception, raised by ``lib`` itself, whose
message names the argument, says what is allowed and what it got; and if nothing was printed or
written.
"""

import dataclasses
import inspect
import re
import traceback
from collections import Counter
from pathlib import Path

import malformed_formulas
import malformed_rows
import malformed_shared
import malformed_together
import pytest
from public_names import PACKAGES, public_names
from sklearn.base import BaseEstimator

import lib

TABLES = malformed_rows, malformed_formulas, malformed_shared, malformed_together
ROWS = [row for table in TABLES for row in table.ROWS]
#: What the kinds of a whole object hold that this argument takes: -1 is an unknown label, a score
#: may be infinite, and so may epsilon.
ALLOWED = re.compile(
    r"\w+\.\w*Predictions-(test|user)_labels: negative"
    r"|report\.ModelPredictions-(\w+_scores: infinite|epsilon: (0\.0|inf)|delta: 0\.0)"
)
ROWS = [row for row in ROWS if not ALLOWED.fullmatch(row.id)]
#: The first bad values of an argument, and NaN, in CI; all of them with `MARK=long`.
FIRST = 2


def functions():
    """Rows of each function: the first ones of its arguments, and the others."""
    seen, parts = Counter(), {}
    for row in ROWS:
        seen[row.name, row.argument] += 1
        later = seen[row.name, row.argument] > FIRST and "nan" not in row.label.lower()
        later &= not row.always
        parts.setdefault((row.name, later), []).append(row)
    for (name, later), rows in parts.items():
        marks = [pytest.mark.long] if later else []
        yield pytest.param(rows, id=f"{name}, others" if later else name, marks=marks)


ROOT = Path(lib.__file__).parents[1]

#: Public functions and classes without a row, and why; but for results, which check nothing of
#: their fields, exceptions and interfaces, what follows scikit-learn, and what takes no argument.
OBJECTS = "takes objects of the package, whose own constructors have rows"
ELSEWHERE = "has its own table of malformed input, among the tests of its package"
OTHER_NAME = "its error speaks of a part of the argument, or calls it by another name"
FILES = "its rows are in test_malformed_files.py"
REASONS = {
    OBJECTS: """
        suitability.tipping_point report.explain report.show
        training.initial_parameters training.module_of data.Fold
        data.SignalTable data.fingerprints data.fold_summary data.published_for
        runs.progress runs.run_key book.Chapter plot.new_figure""",
    ELSEWHERE: """
        runs.Checkpoint runs.RunStore runs.fingerprint
        runs.generator_state runs.stored_table runs.write_atomic""",
    FILES: """
        report.read_predictions report.report report.find_file data.read_numpy_pickle
        book.open_chapter""",
    OTHER_NAME: "training.plan runs.canonical",
}
WITHOUT = {name for names in REASONS.values() for name in names.split()}


def takes_no_input(value):
    if inspect.isfunction(value):
        return not inspect.signature(value).parameters
    result = dataclasses.is_dataclass(value) and "__post_init__" not in vars(value)
    interface = getattr(value, "_is_protocol", False)
    return result or interface or issubclass(value, BaseException | BaseEstimator)


def listing(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    (tmp_path / "canary").write_text("as it was")
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMPANION_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COMPANION_OFFLINE", "1")
    before = listing(tmp_path)
    yield tmp_path
    assert listing(tmp_path) == before
    assert (tmp_path / "canary").read_text() == "as it was"


def fault(row):
    """What is wrong with the error that a call raises."""
    try:
        row.call()
    except Exception as error:
        caught = error
    else:
        return "no error"
    message, kind = str(caught), type(caught).__name__
    raised = traceback.extract_tb(caught.__traceback__)[-1].filename
    got = row.array and re.search(r"\bgot \S", message)
    allowed = r"\b(must|needs?|not|cannot|no|only|at least)\b"
    right = {
        f"a {kind}": type(caught) is row.error,
        f"raised in {raised}": Path(raised).is_relative_to(ROOT / "lib"),
        f"names none of {row.says}": any(
            re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in row.says
        ),
        "not what is allowed": re.search(allowed, message),
        f"shows none of {row.shows}": got or not row.shows or any(t in message for t in row.shows),
        "several lines": "\n" not in message.strip(),
    }
    wrong = [what for what, holds in right.items() if not holds]
    return f"{', '.join(wrong)}: {message}" if wrong else ""


@pytest.mark.parametrize("rows", list(functions()))
def test_malformed(rows, guarded, capfd):
    assert [f"{row.id}: {wrong}" for row in rows if (wrong := fault(row))] == []
    assert capfd.readouterr().out == ""


def test_every_public_function_has_a_row_or_a_reason():
    assert len({row.id for row in ROWS}) >= 0.97 * len(ROWS)
    with_rows = {".".join(row.name.split(".")[:2]) for row in ROWS}
    public = {
        f"{page}.{full.split('.')[-1]}": value
        for page in PACKAGES
        for full, value in public_names(page).items()
        if inspect.isclass(value) or inspect.isfunction(value)
    }
    needed = {
        name
        for name, value in public.items()
        if not name.split(".")[1].startswith("plot_") and not takes_no_input(value)
    }
    assert needed - with_rows - WITHOUT == set()
    assert with_rows | WITHOUT <= set(public)
    assert not with_rows & WITHOUT, "a reason too many"
