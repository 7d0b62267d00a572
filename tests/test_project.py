"""The project's own files agree with each other."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pins():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    found = [re.fullmatch(r"([\w.-]+)==([\w.+!-]+)", x) for x in lines if not x.startswith("#")]
    assert all(found), "every line of requirements.txt must be name==version"
    return {m[1].lower().replace("_", "-"): m[2] for m in found}


def test_pins_satisfy_what_the_project_declares(pins):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in project["dependencies"] + project["optional-dependencies"]["test"]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[requirement.name.lower()]), text


def test_pins_that_must_hold(pins):
    assert pins["torch"] == "2.13.0"
    assert int(pins["jupyter-book"].split(".")[0]) < 2
    assert not any(name.startswith(("nvidia", "cuda", "triton")) for name in pins)


def test_no_data_in_the_repository():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert listed
    for name in listed:
        path = ROOT / name
        assert path.suffix not in {".pkl", ".npy", ".npz", ".pt", ".gz", ".ipynb"}, name
        if path.exists():
            assert path.stat().st_size < 300_000, name


def test_chapters_define_nothing():
    """No method is implemented in a chapter: a cell calls lib and shows the result."""
    for path in (ROOT / "book").glob("*.py"):
        assert not re.search(r"^\s*(def|class|lambda) ", path.read_text(), re.M), path.name


def test_make_refuses_an_unknown_profile():
    command = ["make", "book", "PROFILE=slow"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "PROFILE=slow" in done.stderr
