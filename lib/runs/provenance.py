"""Fingerprints of code and environment, and a description of the machine."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
from functools import cache
from importlib.metadata import PackageMetadata, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

import lib
from lib.runs.imports import source_file


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

    Examples
    --------
    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
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
        full names, ``"lib.data.digits"``, and others that are loaded.  All files of ``lib`` if none
        is named.

    Returns
    -------
    str
        64 hexadecimal digits. Bytecode is left out.

    Raises
    ------
    ValueError
        If ``lib`` has no such sub-package or module.

    Examples
    --------
    >>> len(code_fingerprint("data"))
    64
    """
    root = Path(lib.__file__).parent
    files = [path for part in parts for path in _files(root, part)]
    digest = hashlib.sha256()
    for path in sorted(set(files) if parts else root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            inside = path.is_relative_to(root)  # or a module of someone else's
            name = path.relative_to(root).as_posix() if inside else path.name
            digest.update(name.encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(root: Path, part: str) -> list[Path]:
    """The Python files of a sub-package, or that of a module."""
    if part.isidentifier() and (root / part / "__init__.py").is_file():
        return list((root / part).rglob("*.py"))
    if (file := source_file(part)) is None:
        raise ValueError(f"parts must name sub-packages of lib, got {part!r}")
    return [file]


def _parts() -> list[str]:
    """Sub-packages of ``lib``, and its modules by their full names."""
    root = Path(lib.__file__).parent
    names = sorted(path.parent.name for path in root.glob("*/__init__.py"))
    return [*names, *sorted(f"lib.{path.stem}" for path in root.glob("[a-z]*.py"))]


_LOADED = {part.removeprefix("lib."): code_fingerprint(part) for part in _parts()}  # 2 ms


def check_loaded(*parts: str) -> None:
    """Refuse to go on if files of `parts` (sub-packages; all if none) are not those loaded.

    A notebook or a worker of a cluster lives long.  If files change meanwhile, it goes on with the
    old code, and what it makes would be stored under the fingerprint of the new.
    """
    now = {part.removeprefix("lib."): part for part in _parts()}
    names = {part.split(".")[1] if part.startswith("lib.") else part for part in parts}
    names = sorted(names & (_LOADED.keys() | now.keys()) or _LOADED)
    found = {name: code_fingerprint(now[name]) for name in names if name in now}
    changed = [name for name in names if found.get(name) != _LOADED.get(name)]
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

_PROJECT = "abstention-privacy-companion"
_EXTRAS = ("", "cluster", "text", "training")  # that the book itself may use
_UNASKED = ("bottleneck", "numexpr")  # pandas computes with these wherever they are installed

# Installers take no part in a computation.
_SKIPPED = {"pip", "setuptools", "wheel", _PROJECT}


@cache
def package_versions() -> dict[str, str]:
    """Versions of all installed distributions but the installers and this project.

    Returns
    -------
    dict
        Normalized name to version, sorted by name.
    """
    found = _installed()
    return {name: found[name]["Version"] for name in sorted(found) if name not in _SKIPPED}


@cache
def required_versions() -> dict[str, str]:
    """Versions of what this project requires, directly or not, and of what may compute unasked.

    What else is installed changes no number and no page.  All counts where the project itself is
    not installed, and so says nothing of what it requires.
    """
    installed, versions = _installed(), package_versions()
    if _PROJECT not in installed:
        return versions
    found: set[str] = set()
    waiting = [_PROJECT, *_UNASKED]
    while waiting:
        name = waiting.pop()
        if name in found or name not in installed:
            continue
        found.add(name)
        for requirement in map(Requirement, installed[name].get_all("Requires-Dist", ())):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in _EXTRAS):
                waiting.append(_normal(requirement.name))
    return {name: version for name, version in versions.items() if name in found}


@cache
def _installed() -> dict[str, PackageMetadata]:
    """What all distributions say of themselves, by their normalized names."""
    found = (each.metadata for each in distributions())  # each time asked, it is parsed
    return {_normal(each["Name"]): each for each in found if each["Name"]}


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")


def hardware() -> dict[str, str | int]:
    """Processor, cores, memory and accelerator of this machine.

    Returns
    -------
    dict
        ``processor``, ``cores`` (usable by this process), ``memory_gib``,
        ``system`` and, where NVIDIA's driver is installed, ``accelerator``: names and driver.
    """
    facts: dict[str, str | int] = {
        "processor": _processor(),
        "cores": usable_cores(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        facts["memory_gib"] = round(total / 2**30)
    if found := _accelerators():
        facts["accelerator"] = found
    return facts


@cache
def _accelerators() -> str:
    """What NVIDIA's driver says; PyTorch is not imported just to describe the machine."""
    if shutil.which("nvidia-smi") is None:
        return ""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True)
    names = [line.strip().replace(", ", ", driver ") for line in done.stdout.splitlines()]
    return "; ".join(names) if done.returncode == 0 else ""


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_cores() -> int:
    """The cores that the process that began this one gave to it; else all that it may use."""
    given = os.environ.get("COMPANION_THREADS", "")
    return int(given) if given.isdecimal() and int(given) else usable_cores()


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
