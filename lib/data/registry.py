"""The registry: which data files exist, where they are published, what they hash to."""

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

import yaml

from lib.data.errors import RegistryError

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
        the SHA-256 of their names and SHA-256 (:func:`sum_of_arrays`).
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
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RegistryError(f"the registry is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or set(document) != {"groups"}:
        raise RegistryError("the registry must be a mapping with the one key 'groups'")
    entries: dict[str, Entry] = {}
    for number, group in enumerate(_list(document["groups"], "groups")):
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
    _keys(group, GROUP_KEYS | {source}, place)
    prefix, base, licence, citation = (
        _text(group[key], f"{place}.{key}") for key in ("prefix", source, "licence", "citation")
    )
    if source == "url" and not ADDRESS.match(base):
        raise RegistryError(f"{place}.url: {base!r} does not start with https://<host>/")
    chapters = tuple(
        _text(chapter, f"{place}.chapters")
        for chapter in _list(group["chapters"], f"{place}.chapters")
    )
    for number, file in enumerate(_list(group["files"], f"{place}.files")):
        where = f"{place}.files[{number}]"
        unknown = isinstance(file, dict) and file.get("sha256") == UNKNOWN
        plain = isinstance(file, dict) and "arrays" in file
        keys = FILE_KEYS - {"sha256"} | {"arrays"} if plain else FILE_KEYS
        _keys(file, keys - {"size"} if unknown else keys, where)
        location = base + _text(file["path"], f"{where}.path")
        mirror = re.sub("^https?://", "", location.removeprefix(HOST))
        if mirror.startswith("/") or ".." in PurePosixPath(mirror).parts:
            raise RegistryError(f"{where}.path: {mirror!r} leaves the mirror")
        sums = file["arrays"] if plain else {}
        if plain and not (isinstance(sums, dict) and sums and all(map(is_sha256, sums.values()))):
            raise RegistryError(f"{where}.arrays: {sums!r} is no mapping of names to SHA-256")
        sha256 = sum_of_arrays(sums) if plain else _text(file["sha256"], f"{where}.sha256")
        size = file.get("size")
        if unknown:
            if source == "url" and not base.startswith("https://"):
                raise RegistryError(
                    f"{where}.sha256: {base!r} must start with https:// where it is {UNKNOWN!r}"
                )
            sha256 = None
        elif not is_sha256(sha256):
            raise RegistryError(
                f"{where}.sha256: {sha256!r} is not 64 lower-case hexadecimal digits"
            )
        elif type(size) is not int or size < 1:
            raise RegistryError(f"{where}.size: {size!r} is not a positive number of bytes")
        yield Entry(
            name=prefix + _text(file["name"], f"{where}.name"),
            url=location if source == "url" else None,
            mirror=mirror,
            sha256=sha256,
            size=size,
            licence=licence,
            citation=citation,
            chapters=chapters,
            arrays=tuple(sums),
        )


def _keys(value: Any, expected: set[str], place: str) -> None:
    if not isinstance(value, dict):
        raise RegistryError(f"{place}: {value!r} is not a mapping")
    if unknown := set(value) - expected:
        names = ", ".join(sorted(map(repr, unknown)))
        raise RegistryError(f"{place}: unknown {names}; allowed are {', '.join(sorted(expected))}")
    if missing := expected - set(value):
        raise RegistryError(f"{place}: {', '.join(sorted(missing))} missing")


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise RegistryError(f"{place}: {value!r} is not a list")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise RegistryError(f"{place}: {value!r} is not a non-empty string")
    return value
