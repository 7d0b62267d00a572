"""Readers of the formats that people have: each yields a table, or the report's own arrays."""

import importlib.util
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lib.data.arrays import (
    MOST_BYTES,
    MOST_LINE,
    Lines,
    csv_records,
    number_in,
    read_npy,
    read_npz,
    require_memory,
    too_large,
)
from lib.data.untrusted import short
from lib.report.membership import renamed
from lib.report.naming import counted, is_of_names, part_of, plain, role_of
from lib.report.objects import read_json, read_lines
from lib.report.packed import PACKED, inner_suffix, open_text
from lib.report.predictions import FORMAT, NAMES
from lib.report.refused import REFUSED, UNPACK, refuse_other_text
from lib.report.tables import Table, from_arrays, from_rows
from lib.report.top import with_label
from lib.report.trials import TRIAL, read_trial

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_TABS = (".tsv", ".tab")
_TEXTS = (*_TABS, ".csv", ".txt", ".dat", ".json", ".jsonl", ".ndjson")  # read packed too
_ONE_COLUMN = {name for name, _, shape, _ in FORMAT if shape.endswith(",)")}
_COMMENTS = 100  # lines before the header that may begin with #


def read_file(path: Path) -> Table | dict[str, Any]:
    """Read a file by its ending."""
    suffix = inner_suffix(path)
    packed = path.suffix.lower() in PACKED
    reader = SUFFIXES.get(suffix, UNPACK) if suffix in _TEXTS or not packed else UNPACK
    if isinstance(reader, str):
        shown = path.name if path.name.isprintable() and "'" not in path.name else "my.file"
        raise ValueError(f"{path}: {reader.format(file=shown, csv=Path(shown).stem + '.csv')}")
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{path}: {too_large('it', size, MOST_BYTES)}")
    return reader(path)


# --- text -----------------------------------------------------------------------------------------


def _read_csv(path: Path) -> Table | dict[str, Any]:
    notes: list[str] = []
    with open_text(path) as stream:
        rest = Lines(stream)
        separator = _separator(path, rest, notes)
        records = csv_records(path, rest, separator)
        line, header = next(records, (0, None))
        if header is None:
            raise ValueError(f"{path}: must have a header and rows, got an empty file")
        raw = header[:]
        header[0] = header[0].removeprefix("#").strip()
        if "part" not in header and set(TRIAL) & {" ".join(n.split()) for n in header}:
            once(path, [" ".join(name.split()) for name in header])
            return read_trial(path, header, records)
        if separator != ("\t" if inner_suffix(path) in _TABS else ","):
            notes.append(f"cells are separated by {_SEPARATORS[separator]}")
        if _headless(header):
            notes.append("there is no header: columns are called column 1, column 2, ...")
            records = _first((line, header), records)
            header = [f"column {j}" for j in range(1, len(header) + 1)]
        else:
            records = _once_each(records, raw, notes)
        header = [name or f"(column {j} without a name)" for j, name in enumerate(header, 1)]
        once(path, header)
        kept = [name for name in header if role_of(name) == "cluster"]
        return from_rows(path, header, records, notes, kept, (rest, separator))


def _separator(path: Path, lines: Lines, notes: list[str]) -> str:
    """What separates the cells of the header: a comma, unless there is none.

    Or what a spreadsheet's line ``sep=;`` says, which is taken; so are comments before the header.
    """
    comments: list[str] = []
    while (taken := lines.take(1, MOST_LINE)) and len(comments) < _COMMENTS:
        if not taken[0].startswith("#"):
            break
        comments += taken
    if not taken:
        lines.give_back(comments[-1:])  # an empty file, or one whose first line cannot be read
        return ","
    line = taken[0].strip("\r\n")
    if line.startswith("sep=") and line[4:] in _SEPARATORS:
        return line[4:]
    if len(_cells(line)) == 1:
        while (second := lines.take(1, MOST_LINE)) and not _cells(second[0]):
            pass  # blank
        if sum(map(bool, map(role_of, _cells("".join(second))))) > 1:
            notes.append(f"not read: a line above the header, {short(repr(taken.pop().strip()))}")
            line = second[0].strip("\r\n")
        taken += second
    counts = {s: line.count(s) for s in ",;\t|"}
    if comments and sum(counts.values()) and counts == {s: comments[-1].count(s) for s in counts}:
        taken.insert(0, comments.pop())  # the header itself
    lines.give_back(taken)
    if comments:
        notes.append(f"{counted(len(comments), 'line')} before the header, of comments, not read")
    if inner_suffix(path) in _TABS and (counts["\t"] or not any(counts.values())):
        return "\t"
    refuse_other_text(path, line)
    if not any(counts.values()) and len(line.split()) > 1:
        if not any(math.isnan(number_in(cell)) for cell in line.split()):
            return " "  # as numpy.savetxt writes
        raise ValueError(
            f"{path}: cells must be separated by {', '.join([*_SEPARATORS.values()][:4])}, got "
            f"{short(repr(line))}; from R: write.csv(frame, 'my.csv', row.names = FALSE)"
        )
    return "," if counts[","] else max(counts, key=counts.__getitem__)


def _cells(line: str) -> list[str]:
    """Cells of a line that hold anything, whatever separates them."""
    return [cell for each in re.split(r"[,;\t|]", line) if (cell := each.strip(' "\r\n'))]


def _headless(header: list[str]) -> bool:
    """Whether a first row is of numbers, which are no names of columns."""
    numbers = [number_in(cell) for cell in header]
    if len(header) < 2 or any(math.isnan(n) for n in numbers):
        return False
    return len(set(numbers)) < len(numbers) or any(n != int(n) for n in numbers if abs(n) < 1e9)


def _once_each(
    records: Iterator[tuple[int, list[str]]], header: list[str], notes: list[str]
) -> Iterator[tuple[int, list[str]]]:
    """Rows that do not repeat the header, as joined files do, nor draw a line beneath it."""
    told = False
    for line, cells in records:
        if cells == header:
            notes += [f"rows that repeat the header, such as row {line}, are not read"] * (not told)
            told = True
        elif not (line == 2 and {*"".join(cells)} <= {*"-:"}):  # of a table in Markdown
            yield line, cells


def _first(row: tuple[int, list[str]], rows: Iterator) -> Iterator:
    yield row
    yield from rows


def once(path: Path, header: list[str]) -> None:
    """Raise a ValueError if a name is there twice."""
    for name, count in Counter(header).items():
        if count > 1 and name:
            raise ValueError(
                f"{path}: column {short(repr(name))} must be there once, got it {count} times"
            )


# --- arrays ---------------------------------------------------------------------------------------


def _read_npz(path: Path) -> Table | dict[str, Any]:
    left: dict[str, str] = {}
    arrays = read_npz(path, None, (), MOST_BYTES, None, 8, left)
    notes = [f"array {name!r} is left out: {why}" for name, why in left.items()]
    for name, why in left.items():
        if name in NAMES and not name.endswith(("groups", "clusters")):
            raise ValueError(f"{path}: array {name!r} must be real numbers, got {why}")
    return _named(str(path), arrays, notes)


def _named(source: str, arrays: dict[str, Any], notes: list[str]) -> Table | dict[str, Any]:
    """The report's own arrays, if any has such a name; else a table of all.

    Labels, groups and clusters are called so by others too: alone they do not decide.
    """
    arrays = _in_our_names(renamed(arrays, notes), notes)
    own = {name: values for name, values in arrays.items() if name in NAMES}
    for name, values in own.items():
        if name in _ONE_COLUMN and np.ndim(values) == 2 and np.shape(values)[1] == 1:
            own[name] = np.asarray(values)[:, 0]
    if any(not name.endswith(("labels", "groups", "clusters")) for name in own) or (
        own and len(own) == len(arrays)
    ):
        if others := [name for name in arrays if name not in NAMES]:
            notes.append(f"not used: {short(', '.join(map(repr, others)))}")
        return {**own, "reading": tuple(notes)}
    if not arrays:
        raise ValueError(
            f"{source}: there must be at least one array of {', '.join(NAMES)}, got none"
            + "".join(f"; {note}" for note in notes)
        )
    return _by_part(source, arrays, notes)


def _in_our_names(arrays: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Arrays beside ours whose names are ours but for the word of the part, such as val_logits."""
    if not any(name in NAMES and name.endswith("logits") for name in arrays):
        return arrays
    found = {}
    for name, values in arrays.items():
        first, _, rest = plain(name).partition("_")
        ours = f"{part_of(first)}_{rest}"
        if name in NAMES or ours not in NAMES or ours in arrays or ours in found:
            found[name] = values
        else:
            found[ours] = values
            notes.append(f"{name!r} is {ours}")
    return found


def _by_part(source: str, arrays: dict[str, Any], notes: list[str]) -> Table:
    """A table of arrays whose names begin, or end, with the name of a part."""
    parts: dict[str, dict[str, Any]] = {}
    words_of = {name: plain(name).split("_") for name in arrays}
    begins = {each[0] for each in words_of.values() if len(each) > 1}
    pair = {"source", "target"} <= begins  # else a target is a label
    inner = {part_of(w[1]) for w in words_of.values() if len(w) > 2 and w[0] == "y"} - {None}
    for name, values in arrays.items():
        values = np.asarray(values)
        if values.ndim == 0 or (values.ndim > 2 and 1 not in values.shape):
            more = ": of several passes, take the mean" if values.ndim == 3 else ""
            notes.append(f"array {name!r} is left out: its shape is {values.shape}{more}")
            continue
        words = words_of[name]
        part, rest = "", name
        if len(inner) > 1 and len(words) > 1 and words[0] == "y" and part_of(words[1]):
            part, rest = part_of(words[1]), "_".join(["y", *words[2:]])  # y_val, y_val_proba
        elif len(words) > 1 and part_of(words[0], pair):
            part, rest = part_of(words[0], pair), "_".join(words[1:])
        elif len(words) > 1 and part_of(words[-1]) and words[0] not in ("x", "y"):
            part, rest = part_of(words[-1]), "_".join(words[:-1])
        parts.setdefault(part, {})[rest] = np.squeeze(values) if values.ndim > 1 else values
    tables = {part: _same_rows(source, each, notes) for part, each in parts.items()}
    if set(tables) == {""}:
        return from_arrays(source, tables[""], notes)
    if "" in tables:
        notes.append(f"not used: {short(', '.join(map(repr, tables.pop(''))))}")
    names = [n for n in next(iter(tables.values())) if all(n in each for each in tables.values())]
    sizes = {part: len(next(iter(each.values()))) for part, each in tables.items()}
    joined: dict[str, Any] = {"part": np.repeat([*sizes], [*sizes.values()])}
    every = dict.fromkeys(n for each in tables.values() for n in each)
    for name in every:
        shape = next(each[name].shape[1:] for each in tables.values() if name in each)
        blocks = [
            each[name] if name in each else np.full((sizes[part], *shape), np.nan)
            for part, each in tables.items()
        ]
        if name not in names and any(block.dtype.kind == "U" for block in blocks):
            blocks = [np.where(b == "nan", "", b.astype(str)) for b in blocks]
        joined[name] = np.concatenate(blocks)
    return from_arrays(source, joined, notes)


def _same_rows(source: str, arrays: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Those arrays that have as many rows as most."""
    arrays = {n: a if a.ndim else a[None] for n, a in arrays.items()}
    most = Counter(len(a) for a in arrays.values()).most_common(1)[0][0]
    for name, one in arrays.items():  # of k classes and n rows, where others have n rows
        across = one.ndim == 2 and any(
            other.ndim == 1 and len(other) == one.shape[1] != len(one) for other in arrays.values()
        )
        if across and sum(a.ndim == 1 and len(a) == len(one) for a in arrays.values()) == 0:
            raise ValueError(
                f"{source}: {name!r} must have a row for each prediction, got shape {one.shape} "
                f"beside {one.shape[1]:,} rows of others: save {name}.T"
            )
    arrays = _with_class_names(arrays, most, notes)
    for name in [n for n, a in arrays.items() if len(a) != most]:
        size = len(arrays.pop(name))
        notes.append(f"array {name!r} is left out: it has {size:,} rows, not {most:,}")
    return arrays


def _with_class_names(arrays: dict[str, Any], rows: int, notes: list[str]) -> dict[str, Any]:
    """Matrices as columns by the names of classes, where another array holds these."""
    found = dict(arrays)
    for name, names in arrays.items():
        words = [str(word) for word in names] if names.ndim == 1 and is_of_names(name) else []
        wide = [n for n, a in arrays.items() if a.ndim == 2 and a.shape == (rows, len(words))]
        if len(words) == rows or len({*words}) < len(words) or not wide:
            continue
        del found[name]
        notes.append(f"{name!r} names the columns of {', '.join(map(repr, wide))}")
        for n in wide:
            values = found.pop(n)
            found |= {f"{n}_{word}": values[:, j] for j, word in enumerate(words)}
    return found


def _read_npy(path: Path) -> Table:
    values = read_npy(path)
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(
            f"{path}: an array alone must be (rows, classes), got shape {values.shape}; several go "
            "into one file: numpy.savez('my.npz', probabilities=p, labels=y)"
        )
    if found := with_label(values):
        return from_arrays(str(path), *found)
    if (
        values.shape[1] == 2
        and (values == np.floor(values)).all()
        and (values.sum(axis=1) != 1).any()
    ):
        raise ValueError(
            f"{path}: must say which column is the label, got two of whole numbers: "
            "numpy.savez('my.npz', label=a[:, 0], prediction=a[:, 1])"
        )
    return from_arrays(
        str(path),
        {"logit": values},
        [
            "an array alone has no labels; both go into one file: "
            "numpy.savez('my.npz', probabilities=p, labels=y)"
        ],
    )


# --- pyarrow --------------------------------------------------------------------------------------


def _read_arrow(path: Path) -> Table:
    """Parquet or Feather, if pyarrow is here."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(
            f"{path}: to read {path.suffix} files, install pyarrow (pip install pyarrow), or save "
            "CSV instead: frame.to_csv('my.csv', index=False)"
        )
    import pyarrow

    try:
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet

            with parquet.ParquetFile(path) as file:
                about = file.metadata
                size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
                least = 8 * about.num_rows * about.num_columns
                require_memory(path, max(size, least))
                table = file.read()
        else:
            from pyarrow import feather

            require_memory(path, path.stat().st_size)
            table = feather.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: must be {path.suffix[1:]}, got {short(error)}") from None
    require_memory(path, table.nbytes)
    while any(pyarrow.types.is_struct(one.type) for one in table.schema):
        table = table.flatten()  # probs of cat and dog are probs.cat and probs.dog
    arrays, names, columns = {}, table.column_names, table.columns[::-1]
    del table
    for name in names:  # one goes as the other comes
        arrays[name] = _of_arrow(columns.pop())
    notes = [
        f"column {short(repr(name))} is left out: its cells are neither numbers nor words, nor "
        "lists of numbers of one length"
        for name, values in arrays.items()
        if values is None
    ]
    return from_arrays(str(path), {n: a for n, a in arrays.items() if a is not None}, notes)


def _of_arrow(column: Any) -> Any:
    """Numbers, words or lists of numbers as an array; None of anything else."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        rows = column.to_pylist()
        widths = {len(row) for row in rows if row is not None}
        if len(widths) != 1 or not all(isinstance(v, int | float) for v in rows[0] or [None]):
            return None
        return np.array([row or [math.nan] * min(widths) for row in rows], dtype=float)
    types = pyarrow.types
    if types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return column.cast(pyarrow.float64()).to_numpy()
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=object)
    return None


# --- Python ---------------------------------------------------------------------------------------


def from_python(data: Any) -> Table | dict[str, Any]:
    """A table of a data frame of pandas or polars, or of arrays by name."""
    source = "data in Python"
    if isinstance(data, Mapping):
        arrays = {str(name): _of_any(name, values) for name, values in data.items()}
        return _named(source, arrays, []) if arrays else _by_part(source, arrays, [])
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        names = [str(name) for name in data.columns]
        once(Path(source), names)
        arrays = {str(name): _of_series(data[name]) for name in data.columns}
        if not arrays or not len(next(iter(arrays.values()))):
            raise ValueError(f"{source}: must have rows and columns, got none")
        return from_arrays(source, arrays)
    raise TypeError(
        "data must be a path, a data frame or a mapping of names to arrays, got "
        f"{type(data).__name__}"
    )


def _of_any(name: Any, values: Any) -> Any:
    """An array of a list, an array or a tensor, which may have gradients or be on a GPU."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(values.dtype) else values
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"data[{short(repr(name))}] must be an array, with as many cells in each row, got "
            f"{short(error)}"
        ) from None


def _of_series(column: Any) -> Any:
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype == object and len(values) and isinstance(values[0], list | tuple | np.ndarray):
        return np.array([np.asarray(v, dtype=float) for v in values])
    if values.dtype.kind == "M":
        return values.astype(str)
    return values


#: Endings, and what reads them, or why nothing does.
SUFFIXES: dict[str, Callable[[Path], Any] | str] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".tab": _read_csv,
    ".txt": _read_csv,
    ".jsonl": read_lines,
    ".ndjson": read_lines,
    ".json": read_json,
    ".parquet": _read_arrow,
    ".feather": _read_arrow,
    ".arrow": _read_arrow,
    ".dat": _read_csv,
    **REFUSED,
}
