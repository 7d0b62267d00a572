"""`make doctor`: with the standard library alone, and what it says of something missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path):
    """A folder whose pins are wrong: one version, and one package that there is not."""
    pins = (ROOT / "requirements.txt").read_text().replace("numpy==", "numpy==9")
    (tmp_path / "requirements.txt").write_text(pins + "no-such-package==1.0\n")
    return tmp_path


def run(root, *options, **environment):
    command = [sys.executable, *options, str(ROOT / "lib" / "book" / "doctor.py"), str(root)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ) | environment
    )
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    return done.returncode, lines


def test_it_runs_without_any_installed_package(checkout):
    status, lines = run(checkout, "-I", "-S")
    assert status == 1
    assert set(lines) - {"chromium"} == {"python", "make", "git", "packages", "cache", "disk"}
    assert lines["packages"].startswith("missing")


def test_wrong_and_missing_pins_are_named_with_the_remedy(checkout):
    status, lines = run(checkout)
    assert status == 1
    for text in ("numpy: ", ", not 9", "no-such-package: nothing, not 1.0", "requirements.txt"):
        assert text in lines["packages"]


def test_all_is_well_in_an_environment_as_pinned(tmp_path):
    (tmp_path / "requirements.txt").write_text(f"pytest=={pytest.__version__}\n")
    _, lines = run(tmp_path)
    assert lines["packages"] == "ok      packages  1 as requirements.txt pins them"


def test_a_missing_program_and_a_closed_cache_are_named(checkout):
    status, lines = run(checkout, PATH=str(checkout), COMPANION_CACHE="requirements.txt")
    assert status == 1
    assert lines["make"].startswith("missing make")
    assert "->" in lines["make"]
    assert lines["chromium"].startswith("note")
    assert lines["cache"].startswith("missing")
