"""Name what this machine lacks to build and test the book: ``python3 lib/book/doctor.py``.

With the standard library alone, so that it also runs before anything is installed.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_FREE_GIB = 5.0  # a build with its environment and cache
_INSTALL = "make book, or: pip install -r requirements.txt"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def _installed(name: str) -> str:
    try:
        return version(name).partition("+")[0]  # builds of PyTorch differ after it
    except PackageNotFoundError:
        return "nothing"


def _findings(root: Path) -> Iterator[tuple[bool, str, str, str]]:
    """Whether each thing is in order, its name, what there is, and what to do."""
    python = ".".join(map(str, sys.version_info[:3]))
    remedy = "install Python 3.11 and set PYTHON=/path/to/python3.11"
    yield sys.version_info[:2] == (3, 11), "python", python, remedy
    for tool in ("make", "git"):
        yield bool(path := shutil.which(tool)), tool, path or "not found", f"install {tool}"
    text = (root / "requirements.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE))
    wrong = [f"{n}: {_installed(n)}, not {pin}" for n, pin in pins.items() if _installed(n) != pin]
    detail = "; ".join(wrong) or f"{len(pins)} as requirements.txt pins them"
    yield not wrong, "packages", detail, _INSTALL
    for name in (".cache", os.environ.get("COMPANION_CACHE")):
        if name:
            folder = root / name
            there = next(place for place in (folder, *folder.parents) if place.exists())
            fine = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
            yield fine, "cache", str(folder), "make the folder writable"
    free = shutil.disk_usage(root).free / 2**30
    yield free >= _FREE_GIB, "disk", f"{free:.1f} GiB free", f"free {_FREE_GIB:.0f} GiB"


def main(root: Path) -> int:
    """Print a line for each thing; return 1 if something is missing."""
    findings = list(_findings(root))
    for fine, name, detail, remedy in findings:
        print(f"{'ok' if fine else 'missing':8}{name:10}{detail}" + f"  ->  {remedy}" * (not fine))
    if not any(map(shutil.which, _BROWSERS)):
        print("note    chromium  not found: tests in a browser need it  ->  install chromium")
    return int(not all(fine for fine, *_ in findings))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))
