"""A user's predictions: from a file or from Python, in the report's format or in any other."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lib
from lib.data.arrays import as_path
from lib.data.untrusted import printable, printable_errors
from lib.report.canonical import is_canonical, read_canonical
from lib.report.mapping import read_table
from lib.report.membership import as_format
from lib.report.predictions import NAMES, ModelPredictions
from lib.report.readers import SUFFIXES, from_python, read_file
from lib.report.tables import ReadingError, Table


def find_file(path: Any) -> Path:
    """Find a user's file, wherever the kernel happens to run.

    Parameters
    ----------
    path : path-like
        Absolute; or relative to the working directory or, failing that, to the repository's root.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    FileNotFoundError
        If it is in neither place; the message names both.
    """
    path = as_path("predictions", path)
    places = [path] if path.is_absolute() else [Path.cwd() / path, _root() / path]
    for place in places:
        if place.exists():
            return place
    tried = " and no ".join(str(place) for place in dict.fromkeys(places))
    raise FileNotFoundError(
        printable(f"predictions must be a file, got {path}: there is no {tried}")
    )


def read_predictions(data: Any, mapped: Mapping[str, str] | None = None) -> ModelPredictions:
    """Read what a model said: from a file, a data frame or arrays by name.

    Parameters
    ----------
    data : path-like, pandas or polars DataFrame, or mapping of str to array
        A file ends in ``.csv``, ``.tsv``, ``.txt``, ``.dat``, ``.jsonl``, ``.ndjson``, ``.json``,
        ``.npz``, ``.npy``, ``.parquet``, ``.feather`` or ``.arrow`` (the last three need pyarrow)
        and has at most 2 GB,
        uncompressed.  Text may be packed: ``.csv.gz``, or ``.zip`` with one file.  Nothing is
        unpickled.  Text is in UTF-8 or UTF-16; rows without any cell are skipped.
        Reading takes at most 4 times the memory of the arrays, and no more than
        ``COMPANION_FILE_MEMORY`` allows (bytes; by default 4 GB or half of what is free): what a
        file declares is held against that before it is read.
    mapped : mapping of str to str, optional
        What is what, where names do not tell: by role, such as ``label``, ``probabilities``,
        ``logits``, ``probability``, ``prediction``, ``confidence``, ``part``, ``group`` or
        ``cluster``, a column's name, or a pattern of several, such as ``"P(*)"``.  ``first`` is the
        number of the first class, ``positive`` the word for the second of two.

    Returns
    -------
    ModelPredictions
        Its source is the path; its `reading` says what was taken for what.  In names, characters
        that would not be seen or would steer a terminal are written as escapes.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError, TypeError
        On a file that cannot be read, or in two ways of which none is sure.  The message names the
        file, the array or column, and the row where that applies: of an array from 0, of a text
        file its line, from 1.
    """
    with printable_errors():
        if isinstance(data, str | Path) or hasattr(data, "__fspath__"):
            path = _existing(as_path("data", data))
            return _predictions(read_file(path), printable(path), mapped)
        return _predictions(from_python(data), "data in Python", mapped)


def _predictions(
    found: Table | dict[str, Any], source: str, mapped: Mapping[str, str] | None
) -> ModelPredictions:
    """Arrays of the format as they are; a table, which nobody else holds, as it can be read."""
    if isinstance(found, Table):
        found = found if mapped else as_format(found)
        if mapped or not is_canonical(found.columns):
            reading = read_table(found, mapped)
            found = {**reading.arrays, "reading": reading.says}
        else:
            arrays, says = read_canonical(found)
            found = {**arrays, "reading": says}
    elif mapped:
        raise ValueError(
            f"{source}: --map has nothing to say where arrays have the report's own names, "
            f"{', '.join(name for name in found if name in NAMES)}"
        )
    try:
        return ModelPredictions(**found, source=source)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _existing(path: Path) -> Path:
    """The path of a file that is there and has a known ending."""
    if path.suffix.lower() not in SUFFIXES:
        known = ", ".join(sorted(s for s, reader in SUFFIXES.items() if callable(reader)))
        raise ValueError(f"path must end in one of {known}, got {path}")
    if not path.exists():
        raise FileNotFoundError(f"path must be a file, got {path}, which does not exist")
    if not path.is_file():
        raise ValueError(f"path must be a file, got {path}, which is not one")
    return path


def _root() -> Path:
    return Path(lib.__file__).parents[1]


__all__ = ["ReadingError", "find_file", "read_predictions"]
