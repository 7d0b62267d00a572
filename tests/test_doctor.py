"""`make doctor`: with the standard library alone, and what it says of something missing."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "lib" / "book" / "doctor.py"
NAMES = ["python", "make", "git", "packages", "torch", "chromium", "cache", "disk", "data"]


def run(*arguments, python=(sys.executable,), **environment):
    import os

    kept = {k: v for k, v in os.environ.items() if k != "COMPANION_CACHE"}
    return subprocess.run(
        [*python, str(SCRIPT), *arguments], capture_output=True, text=True, env=kept | environment
    )


def test_it_runs_without_any_installed_package(tmp_path):
    done = run("--json", "--root", str(copy(tmp_path)), python=(sys.executable, "-I", "-S"))
    found = json.loads(done.stdout)
    assert [f["name"] for f in found] == NAMES
    assert {f["state"] for f in found} <= {"ok", "missing", "note"}


def copy(tmp_path):
    """A checkout without environment: the Python that runs the doctor is asked."""
    root = tmp_path / "checkout"
    root.mkdir()
    shutil.copy(ROOT / "requirements.txt", root)
    return root


def test_a_wrong_and_a_missing_pin_are_named_with_the_remedy(tmp_path):
    root = copy(tmp_path)
    pins = (root / "requirements.txt").read_text()
    pins = pins.replace("numpy==", "numpy==9") + "no-such-package==1.0\n"
    (root / "requirements.txt").write_text(pins)
    done = run("--json", "--root", str(root))
    found = {f["name"]: f for f in json.loads(done.stdout)}
    assert done.returncode == 1
    assert found["packages"]["state"] == "missing"
    assert "no-such-package" in found["packages"]["detail"]
    assert "numpy" in found["packages"]["detail"]
    assert "requirements.txt" in found["packages"]["remedy"]


def test_a_missing_program_is_named(tmp_path):
    done = run("--root", str(copy(tmp_path)), PATH=str(tmp_path))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert any(x.startswith("missing make") and "->" in x for x in lines)
    assert any(x.startswith("note    chromium") for x in lines)


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("--json", "--root", str(copy(tmp_path)), COMPANION_CACHE=str(tmp_path / "file"))
    found = {f["name"]: f for f in json.loads(done.stdout)}
    assert found["data cache"]["state"] == "missing"
