"""What `.ci/coverage` keeps of a measurement, and when it fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script(program):
    return program("coverage")


def file(executed, missing, branches=()):
    summary = {
        "num_statements": len(executed) + len(missing),
        "missing_lines": len(missing),
        "num_branches": 4,
        "missing_branches": len(branches),
        "num_partial_branches": len(branches),
    }
    return {
        "executed_lines": executed,
        "missing_lines": missing,
        "missing_branches": [list(branch) for branch in branches],
        "summary": summary,
    }


def test_stretches_join_over_lines_that_are_no_statements(script):
    found = file([1, 2, 10], [4, 5, 7, 11, 20], [(2, -1), (2, 4), (10, 1), (11, 20)])
    # 8 and 9 are comments, 10 was run; branches into lines that did not run go without saying.
    assert script.stretches(found) == ["4-7", "11-20", "2->exit", "10->1"]
    assert script.stretches(file([1, 2], [])) == []


def test_percents_are_rounded_down(script):
    assert script.share(94_999, 100_000) == 94.99
    assert script.share(19, 20) == 95
    assert script.share(0, 0) == 100


def test_packages_are_added_up(script):
    report = {
        "meta": {"version": "7"},
        "files": {
            "lib/__init__.py": file([1], []),
            "lib/audit/a.py": file([1, 2, 3], [4], [(1, 4)]),
            "lib/audit/sub/b.py": file([1], []),
        },
    }
    record = script.make_record(report, "abc", "some")
    assert list(record["packages"]) == ["lib", "lib.audit"]
    audit = record["packages"]["lib.audit"]
    assert (audit["statements"], audit["missed"]) == (5, 1)
    assert (audit["branches"], audit["missed_branches"], audit["partial"]) == (8, 1, 1)
    assert audit["percent_lines"] == 80
    assert audit["percent_branches"] == 87.5
    assert audit["percent"] == 84.61  # 11 of 13
    assert record["total"]["statements"] == 6
    assert record["not_reached"] == {"lib/audit/a.py": ["4"]}
    assert (record["commit"], record["tests"]) == ("abc", "some")
    with pytest.raises(ValueError, match="nothing of lib was measured"):
        script.make_record(report | {"files": {}}, "abc", "some")


CODE = """def sign(x):
    found = 0
    if x > 0:
        found = 1
    if x < 0:
        found = -1
    return found


if __name__ == "__main__":
    print(sign(0))
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose lib has one function, measured in two processes, one in a copy of it."""
    root = tmp_path / "checkout"
    for folder in (root, tmp_path / "copy"):
        (folder / "lib" / "a").mkdir(parents=True)
        (folder / "lib" / "__init__.py").write_text("")
        (folder / "lib" / "a" / "__init__.py").write_text(CODE)
    (root / "book" / "records").mkdir(parents=True)
    (root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())

    def measure(where, *values):
        calls = "; ".join(f"sign({value})" for value in values)
        (where / "run.py").write_text(f"from lib.a import sign; {calls}\n")
        config = f"--rcfile={root / 'pyproject.toml'}"
        command = [sys.executable, "-m", "coverage", "run", config, "run.py"]
        environment = {"COVERAGE_FILE": str(root / "data"), "PATH": "/usr/bin:/bin"}
        subprocess.run(command, cwd=where, env=environment, check=True)

    return root, tmp_path / "copy", measure


def test_processes_and_copies_count_together(script, checkout, capsys):
    root, copy, measure = checkout
    arguments = ["--data", str(root / "data"), "--root", str(root), "--tests", "two calls"]
    measure(root, 1)
    assert script.main(arguments) == 1
    out = capsys.readouterr()
    # Not reached: line 6, and two of four branches; the last two lines are left out by design.
    error = "error: the tests reach 85.71 % of lines and 50.00 % of branches of lib, less than 95 %"
    assert out.err.strip() == error
    path = root / "book" / "records" / "coverage.json"
    record = json.loads(path.read_text())
    assert record["tests"] == "two calls"
    assert record["commit"] == "unknown"
    assert record["packages"]["lib.a"]["statements"] == 7
    assert record["not_reached"] == {"lib/a/__init__.py": ["6", "3->5"]}
    assert "lib.a" in out.out

    measure(copy, -1)  # added to what was found before
    assert script.main(arguments) == 0
    assert json.loads(path.read_text())["not_reached"] == {}


def test_nothing_measured_writes_nothing(script, checkout, capsys):
    root, *_ = checkout
    assert script.main(["--data", str(root / "data"), "--root", str(root)]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert not (root / "book" / "records" / "coverage.json").exists()
