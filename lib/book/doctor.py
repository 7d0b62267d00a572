"""What this machine lacks to build and test the book: ``python3 lib/book/doctor.py``.

Runs with the standard library alone, before anything is installed; what is installed is asked of
the environment's own Python, ``.venv/bin/python`` if it is there.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Finding", "examine", "main"]

ROOT = Path(__file__).resolve().parents[2]
FREE_GIB = 5.0  # a build with its environment and cache

OK, MISSING, NOTE = "ok", "missing", "note"

_PROBE = """
import json, sys
from importlib.metadata import distributions
found = {d.metadata["Name"].lower().replace("_", "-").replace(".", "-"): d.version
         for d in distributions() if d.metadata["Name"]}
print(json.dumps({"python": list(sys.version_info[:3]), "packages": found}))
"""

_DATA = """
import json
from lib import data
here = [data.state(n) != data.ABSENT for n in data.registry()]
print(json.dumps([sum(here), len(here)]))
"""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    name : str
        What.
    state : {"ok", "missing", "note"}
        ``"note"``: the book builds without it.
    detail : str
        What was found.
    remedy : str
        What to do; empty if nothing.
    """

    name: str
    state: str
    detail: str
    remedy: str = ""


def _version(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout + done.stderr).strip().splitlines()[0]


def _ask(python: str, code: str, root: Path) -> object | None:
    environment = {**os.environ, "PYTHONPATH": str(root), "COMPANION_OFFLINE": "1"}
    try:
        done = subprocess.run(
            [python, "-c", code],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
            env=environment,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _tool(name: str, command: list[str], remedy: str) -> Finding:
    version = _version(command)
    return Finding(name, OK, version) if version else Finding(name, MISSING, "not found", remedy)


def _packages(root: Path, found: dict[str, str]) -> list[Finding]:
    """Pins against what is installed; PyTorch by itself, because its builds differ."""
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", "\n".join(lines), re.MULTILINE))
    wrong, absent = [], []
    for name, pin in pins.items():
        version = found.get(name.lower().replace("_", "-").replace(".", "-"))
        if name == "torch":
            continue
        if version is None:
            absent.append(name)
        elif version != pin:
            wrong.append(f"{name} {version} instead of {pin}")
    remedy = "make book, or: pip install -r requirements.txt"
    if absent or wrong:
        text = "; ".join(([f"missing: {', '.join(absent)}"] if absent else []) + wrong)
        packages = Finding("packages", MISSING, text, remedy)
    else:
        packages = Finding("packages", OK, f"{len(pins)} as requirements.txt pins them")
    torch, pin = found.get("torch"), pins.get("torch", "")
    if torch is None or torch.partition("+")[0] != pin:
        return [packages, Finding("torch", MISSING, f"{torch or 'not found'}, not {pin}", remedy)]
    return [packages, Finding("torch", OK, torch)]


def _writable(name: str, folder: Path, remedy: str) -> Finding:
    place = folder
    while not place.exists():
        place = place.parent
    if os.access(place, os.W_OK | os.X_OK) and place.is_dir():
        return Finding(name, OK, str(folder))
    return Finding(name, MISSING, f"{folder} cannot be written", remedy)


def examine(root: Path = ROOT) -> list[Finding]:
    """Look at everything that building and testing the book takes."""
    own = root / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    answer = _ask(python, _PROBE, root)
    findings = []
    if not isinstance(answer, dict):
        return [Finding("python", MISSING, f"{python} does not run", "rm -rf .venv; make book")]
    version = ".".join(map(str, answer["python"]))
    remedy = "install Python 3.11 and set PYTHON=/path/to/python3.11"
    right = answer["python"][:2] == [3, 11]
    findings.append(
        Finding("python", OK if right else MISSING, f"{version}, {python}", "" if right else remedy)
    )
    findings.append(_tool("make", ["make", "--version"], "install GNU make"))
    findings.append(_tool("git", ["git", "--version"], "install git"))
    findings += _packages(root, answer["packages"])
    browser = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    findings.append(
        Finding("chromium", OK, browser)
        if browser
        else Finding(
            "chromium", NOTE, "not found: needed by tests in a browser", "install chromium"
        )
    )
    findings.append(_writable("cache", root / ".cache", "make the folder of the checkout writable"))
    given = os.environ.get("COMPANION_CACHE")
    if given:
        findings.append(
            _writable("data cache", Path(given), "set COMPANION_CACHE to a folder of yours")
        )
    free = shutil.disk_usage(root).free / 2**30
    enough = free >= FREE_GIB
    remedy = "" if enough else f"free {FREE_GIB:.0f} GiB"
    findings.append(Finding("disk", OK if enough else MISSING, f"{free:.1f} GiB free", remedy))
    findings.append(_data(python, root))
    return findings


def _data(python: str, root: Path) -> Finding:
    counted = _ask(python, _DATA, root)
    if not isinstance(counted, list):
        return Finding("data", NOTE, "not known before packages are installed", "make book")
    here, all_files = counted
    remedy = "" if here == all_files else "python -m lib.data list, python -m lib.data fetch NAME"
    return Finding(
        "data", OK if here == all_files else NOTE, f"{here} of {all_files} files here", remedy
    )


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each finding; return 1 if something required is missing."""
    parser = argparse.ArgumentParser(prog="doctor", description="Name what this machine lacks.")
    parser.add_argument("--json", action="store_true", help="for other programs")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    findings = examine(options.root)
    if options.json:
        print(json.dumps([asdict(f) for f in findings], indent=1))
    else:
        for f in findings:
            print(f"{f.state:8}{f.name:12}{f.detail}" + (f"  ->  {f.remedy}" if f.remedy else ""))
        print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    return int(any(f.state == MISSING for f in findings))


if __name__ == "__main__":
    sys.exit(main())
