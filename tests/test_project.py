"""The project's own files agree with each other."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
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
    extras = project["optional-dependencies"]
    for text in project["dependencies"] + extras["training"] + extras["test"]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[requirement.name.lower()]), text


def test_pins_that_must_hold(pins):
    assert pins["torch"] == "2.13.0"
    assert int(pins["jupyter-book"].split(".")[0]) < 2
    assert not any(name.startswith(("nvidia", "cuda", "triton")) for name in pins)


def test_other_machines_have_the_same_python_and_pins():
    """Conda, Binder, the container and the workflows; `make` asks for this Python itself."""
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert conda == ["python=3.11", "pip", "make", {"pip": ["-r requirements.txt", "-e ."]}]
    assert (ROOT / ".binder/runtime.txt").read_text() == "python-3.11\n"
    binder = (ROOT / ".binder/requirements.txt").read_text().splitlines()
    assert binder[-1] == "-r ../requirements.txt"
    assert all(line.startswith(("#", "--extra-index-url ")) for line in binder[:-1])
    assert "\nFROM python:3.11." in (ROOT / ".devcontainer/Dockerfile").read_text()
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        found = re.findall(r"python-version: (.*)", path.read_text())
        assert set(found) == {'"3.11"'}, path.name


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


def test_make_knows_an_environment_that_was_moved_or_has_lost_its_python(tmp_path):
    """In a folder whose name is hard on a shell."""
    root, moved = tmp_path / "a b$(c)", tmp_path / "moved"
    programs = root / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        (root / name).write_bytes((ROOT / name).read_bytes())
    (programs / "python").symlink_to(sys.executable)
    (programs / "pip").write_text(f'#!/bin/sh\n"exec" "{programs}/python" "$0" "$@"\n')
    (programs.parent / ".ready").touch()

    def is_ready(folder):
        return subprocess.run(["make", "-q", ".venv/.ready"], cwd=folder).returncode == 0

    assert is_ready(root)
    root.rename(moved)
    assert not is_ready(moved)
    moved.rename(root)
    assert is_ready(root)
    (programs / "python").unlink()
    (programs / "python").symlink_to(tmp_path / "gone")
    assert not is_ready(root)
