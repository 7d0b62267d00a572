"""Files that chapters and pages are made from, and when these were written."""

import os
from pathlib import Path

import lib
from lib.runs import fingerprint

_MADE = {"_build", "__pycache__", ".ipynb_checkpoints"}  # folders that hold no source


def state_of_sources(book: Path) -> str:
    """A digest that changes whenever a source is written, even if what it says stays the same."""
    return fingerprint(
        {name: [times_of(path), path.stat().st_ctime_ns] for name, path in sources_of(book).items()}
    )


def sources_of(book: Path) -> dict[str, Path]:
    """Files that chapters and pages are made from, by a name each."""
    root = book.parent
    found = {path.name: path for kind in ("toml", "yml") for path in root.glob(f"*.{kind}")}
    for folder in (Path(lib.__file__).parent, book, root / "params"):
        found |= {f"{folder.name}/{name}": path for name, path in files_below(folder).items()}
    return found


def files_below(folder: Path) -> dict[str, Path]:
    """All files below a folder, by their paths in it; linked folders too, each once."""
    found, seen = {}, {os.path.realpath(folder)}
    for place, folders, names in os.walk(folder, followlinks=True):
        real = {name: os.path.realpath(Path(place, name)) for name in folders}
        folders[:] = [n for n in folders if n not in _MADE and real[n] not in seen]
        seen |= {real[name] for name in folders}
        paths = (Path(place, name) for name in names)
        found |= {p.relative_to(folder).as_posix(): p for p in paths if p.is_file()}
    return found


def times_of(path: Path) -> list[int]:
    """Size and time of a file, nothing if it is gone."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return []
    return [status.st_size, status.st_mtime_ns]
