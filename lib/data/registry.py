"""The registry: which data files exist, where they are published, what they hash to."""

import functools
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from lib.data.errors import RegistryError
from lib.data.untrusted import read_yaml

HOST = "https://raw.githubusercontent.com/"
# Plain http will do, as no file is used before its SHA-256 has been compared; not so where there
# is none to compare with.
ADDRESS = re.compile(r"https?://[a-z0-9][a-z0-9.-]*/")
GROUP_KEYS = {"prefix", "licence", "citation", "chapters", "files"}  # and one of url, mirror
FILE_KEYS = {"name", "path", "sha256", "size"}  # or arrays for sha256
UNKNOWN = "unknown"  # for sha256: a file that is public but that we have never had


@dataclass(frozen=True)
class Entry:
    """One data file.

    Attributes
    ----------
    name : str
        What :func:`lib.data.fetch` calls it.
    url : str or None
        Its public address; None if it can be had from a mirror only.
    mirror : str
        Its path inside a mirror or the cache: its address without the scheme, and for GitHub
        without the host.
    sha256 : str or None
        SHA-256 of its content, 64 lower-case hexadecimal digits; None if the registry does not
        know it and it was not accepted on this machine (``fetch --unverified``).  Of plain arrays
        the SHA-256 of their names and SHA-256 (``sum_of_arrays``).
    size : int or None
        Its length in bytes; None if its SHA-256 is.
    licence, citation : str
        Under which terms it is published, and what to cite.
    chapters : tuple of str
        The chapters that may read it.
    arrays : tuple of str
        Names of the arrays of an NPZ file whose arrays, not whose bytes, are pinned; else empty.
    """

    name: str
    url: str | None
    mirror: str
    sha256: str | None
    size: int | None
    licence: str
    citation: str
    chapters: tuple[str, ...]
    arrays: tuple[str, ...] = ()


@functools.cache
def registry() -> dict[str, Entry]:
    """Every registered data file by name, in the order of ``registry.yml``."""
    return parse_registry(resources.files(__package__).joinpath("registry.yml").read_text("utf-8"))


def parse_registry(text: str) -> dict[str, Entry]:
    """Read and check a registry."""
    try:
        document = read_yaml(text)
    except ValueError as error:
        raise RegistryError(f"the registry is not YAML of plain values: {error}") from error
    _check(document, {"groups"}, "the registry")
    entries: dict[str, Entry] = {}
    for number, group in enumerate(document["groups"]):
        for entry in _group(group, f"groups[{number}]"):
            if entry.name in entries:
                raise RegistryError(f"{entry.name!r} is registered twice")
            entries[entry.name] = entry
    return entries


def is_sha256(value: Any) -> bool:
    """Whether a value is the text of a SHA-256: 64 lower-case hexadecimal digits."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def sum_of_arrays(sums: Mapping[str, str]) -> str:
    """SHA-256 of a table of names and SHA-256, as ``sha256sum`` would print it, sorted by name."""
    lines = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    return hashlib.sha256(lines.encode()).hexdigest()


def _group(group: Any, place: str) -> Iterator[Entry]:
    source = "mirror" if isinstance(group, dict) and "mirror" in group else "url"
    _check(group, GROUP_KEYS | {source}, place)
    base = group[source]
    if source == "url" and not ADDRESS.match(base):
        raise RegistryError(f"{place}.url: {base!r} does not start with https://<host>/")
    for number, file in enumerate(group["files"]):
        where = f"{place}.files[{number}]"
        unknown = isinstance(file, dict) and file.get("sha256") == UNKNOWN
        plain = isinstance(file, dict) and "arrays" in file
        keys = FILE_KEYS - {"sha256"} | {"arrays"} if plain else FILE_KEYS
        _check(file, keys - {"size"} if unknown else keys, where)
        location = base + file["path"]
        mirror = re.sub("^https?://", "", location.removeprefix(HOST))
        if mirror.startswith("/") or ".." in PurePosixPath(mirror).parts:
            raise RegistryError(f"{where}.path: {mirror!r} leaves the mirror")
        if unknown and source == "url" and not base.startswith("https://"):
            raise RegistryError(
                f"{where}.sha256: {base!r} must start with https:// where it is {UNKNOWN!r}"
            )
        sha256 = sum_of_arrays(file["arrays"]) if plain else file["sha256"]
        yield Entry(
            name=group["prefix"] + file["name"],
            url=location if source == "url" else None,
            mirror=mirror,
            sha256=None if unknown else sha256,
            size=file.get("size"),
            licence=group["licence"],
            citation=group["citation"],
            chapters=tuple(group["chapters"]),
            arrays=tuple(file.get("arrays", ())),
        )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


# What a value must be, by its key; all others are texts.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "chapters": (lambda v: isinstance(v, list) and all(map(_is_text, v)), "a list of names"),
    "groups": (lambda v: isinstance(v, list), "a list"),
    "files": (lambda v: isinstance(v, list), "a list"),
    "sha256": (lambda v: v == UNKNOWN or is_sha256(v), "64 lower-case hexadecimal digits"),
    "size": (lambda v: type(v) is int and v > 0, "a positive number of bytes"),
    "arrays": (
        lambda v: isinstance(v, dict) and v != {} and all(map(is_sha256, v.values())),
        "a mapping of names to SHA-256",
    ),
}


def _check(value: Any, keys: set[str], place: str) -> None:
    """Refuse what is no mapping with these keys alone and values of their kinds."""
    if not isinstance(value, dict):
        raise RegistryError(f"{place}: {value!r} is not a mapping")
    if unknown := set(value) - keys:
        names = ", ".join(sorted(map(repr, unknown)))
        raise RegistryError(f"{place}: unknown {names}; allowed are {', '.join(sorted(keys))}")
    if missing := keys - set(value):
        raise RegistryError(f"{place}: {', '.join(sorted(missing))} missing")
    for key, item in value.items():
        fits, kind = _RULES.get(key, (_is_text, "a non-empty string"))
        if not fits(item):
            raise RegistryError(f"{place}.{key}: {item!r} is not {kind}")
