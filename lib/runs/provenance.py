"""Fingerprints of code and environment, and a description of the machine."""

import hashlib
import json
import os
import platform
import sys
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import lib

__all__ = [
    "MAIN_PACKAGES",
    "check_loaded",
    "code_fingerprint",
    "fingerprint",
    "hardware",
    "package_versions",
    "python_version",
]


def fingerprint(content: Any) -> str:
    """SHA-256 of a JSON-serialisable value, independent of the order of keys.

    Parameters
    ----------
    content : object
        Anything ``json.dumps`` takes; NaN and infinities are refused.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def code_fingerprint(*parts: str) -> str:
    """SHA-256 over the names and bytes of every file of ``lib``, or of the code of some parts.

    Parameters
    ----------
    *parts : str
        Sub-packages, e.g. ``"data"``, of which the Python files count: a run's data have a
        fingerprint of their own, and its description is no cause to repeat it.  Or modules by their
        full names, ``"lib.data.digits"``.  All files of ``lib`` if none is named.

    Returns
    -------
    str
        64 hexadecimal digits. Bytecode is left out.

    Raises
    ------
    ValueError
        If ``lib`` has no such sub-package or module.
    """
    root = Path(lib.__file__).parent
    files = [path for part in parts for path in _files(root, part)]
    digest = hashlib.sha256()
    for path in sorted(set(files) if parts else root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(root: Path, part: str) -> list[Path]:
    """The Python files of a sub-package, or that of a module."""
    if part.partition(".")[0] == "lib":
        path = root.parent.joinpath(*part.split("."))
        found = [f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()]
    else:
        package = part.isidentifier() and (root / part / "__init__.py").is_file()
        found = list((root / part).rglob("*.py")) if package else []
    if not found:
        raise ValueError(f"parts must name sub-packages of lib, got {part!r}")
    return found


def _parts() -> dict[str, str]:
    root = Path(lib.__file__).parent
    names = sorted(path.parent.name for path in root.glob("*/__init__.py"))
    return {name: code_fingerprint(name) for name in names}


_LOADED = _parts()  # 2 ms


def check_loaded(*parts: str) -> None:
    """Make sure that files of ``lib`` are still those that this process has loaded.

    A notebook or a worker of a cluster lives long.  If files change meanwhile, it goes on with the
    old code, and what it makes would be stored under the fingerprint of the new.

    Parameters
    ----------
    *parts : str
        Sub-packages, or modules, of which the sub-package counts; all if none is named.

    Raises
    ------
    RuntimeError
        Naming the parts that have changed since ``lib.runs`` was imported.
    """
    now = _parts()
    names = {part.split(".")[1] if part.startswith("lib.") else part for part in parts} - {"lib"}
    changed = [n for n in sorted(names or _LOADED) if now.get(n) != _LOADED.get(n)]
    if changed:
        raise RuntimeError(
            f"files of {', '.join(f'lib.{name}' for name in changed)} have changed since this"
            " process loaded them: restart it (the kernel, or the cluster's workers)"
        )


def python_version() -> str:
    """Name and version of the running interpreter.

    Returns
    -------
    str
        For example ``"CPython 3.11.7"``.
    """
    return f"{platform.python_implementation()} {platform.python_version()}"


#: The packages that numbers in this book depend on, shown on pages and in records.
MAIN_PACKAGES = (
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "torch",
    "opacus",
    "papermill",
    "jupyter-book",
)

# pip and its relatives install packages but take no part in a computation.
_INSTALLERS = {"pip", "setuptools", "wheel"}


@cache
def package_versions() -> dict[str, str]:
    """Versions of all installed distributions but the installers and this project.

    Returns
    -------
    dict
        Normalised name to version, sorted by name.
    """
    found = {
        d.metadata["Name"].lower().replace("_", "-"): d.version
        for d in distributions()
        if d.metadata["Name"]
    }
    skip = _INSTALLERS | {"abstention-privacy-companion"}
    return {name: found[name] for name in sorted(found) if name not in skip}


def hardware() -> dict[str, str | int]:
    """Processor, cores, memory and accelerator of this machine.

    Returns
    -------
    dict
        ``processor``, ``cores`` (usable by this process), ``memory_gib``,
        ``system`` and, where PyTorch is loaded and sees one, ``accelerator``.
    """
    facts: dict[str, str | int] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
    }
    with_memory = "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {})
    if with_memory:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        facts["memory_gib"] = round(total / 2**30)
    torch = sys.modules.get("torch")  # never imported just to describe the machine
    if torch is not None and torch.cuda.is_available():
        facts["accelerator"] = torch.cuda.get_device_name()
    return facts


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
