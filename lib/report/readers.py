"""Readers of the formats that people have: each yields a table, or the report's own arrays."""

import codecs
import importlib.util
import json
import math
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
    most_memory,
    number_in,
    read_npy,
    read_npz,
    require_memory,
    too_large,
)
from lib.data.untrusted import short
from lib.report.naming import part_of, plain, role_of
from lib.report.predictions import NAMES
from lib.report.tables import MOST_COLUMNS, Builder, Table, from_arrays, from_rows
from lib.report.trials import TRIAL, read_trial

_DEEPEST = 4  # levels of JSON that become columns
_PARSED = 12  # bytes of memory that a byte of JSON may take once it is parsed
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_LIST_KEPT = 1024  # values of one list in JSON


def read_file(path: Path) -> Table | dict[str, Any]:
    """Read a file by its ending."""
    reader = SUFFIXES[path.suffix.lower()]
    if isinstance(reader, str):
        shown = path.name if path.name.isprintable() and "'" not in path.name else "my.file"
        raise ValueError(f"{path}: {reader.format(file=shown, csv=Path(shown).stem + '.csv')}")
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{path}: {too_large('it', size, MOST_BYTES)}")
    return reader(path)


# --- text -----------------------------------------------------------------------------------------


def _read_csv(path: Path) -> Table | dict[str, Any]:
    with path.open(encoding=_encoding(path), newline="") as stream:
        separator, skipped = _separator(path, stream)
        stream.seek(0)
        for _ in range(skipped):
            stream.readline()
        rest = Lines(stream)
        records = ((n + skipped, row) for n, row in csv_records(path, rest, separator))
        line, header = next(records, (0, None))
        if header is None:
            raise ValueError(f"{path}: must have a header and rows, got an empty file")
        if "part" not in header and set(TRIAL) & {" ".join(n.split()) for n in header}:
            once(path, [" ".join(name.split()) for name in header])
            return read_trial(path, header, records)
        notes = []
        if separator != ("\t" if path.suffix.lower() in (".tsv", ".tab") else ","):
            notes.append(f"cells are separated by {_SEPARATORS[separator]}")
        if _headless(header):
            notes.append("there is no header: columns are called column 1, column 2, ...")
            records = _first((line, header), records)
            header = [f"column {j}" for j in range(1, len(header) + 1)]
        header = [name or f"(column {j} without a name)" for j, name in enumerate(header, 1)]
        once(path, header)
        kept = [name for name in header if role_of(name) == "cluster"]
        return from_rows(path, header, records, notes, kept, (rest, separator))


def _encoding(path: Path) -> str:
    """UTF-8, or what the mark says that spreadsheets write first."""
    with path.open("rb") as stream:
        marked = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return "utf-16" if marked else "utf-8-sig"


def _separator(path: Path, stream: Any) -> tuple[str, int]:
    """What separates the cells of the first line, and how many lines are before it.

    A comma, unless there is none; or what a spreadsheet's line ``sep=;`` says.
    """
    if path.suffix.lower() in (".tsv", ".tab"):
        return "\t", 0
    try:
        line = stream.readline(MOST_LINE).strip("\r\n")
    except UnicodeDecodeError:
        return ",", 0  # the reader of rows says where
    if line.startswith("sep=") and line[4:] in _SEPARATORS:
        return line[4:], 1
    counts = {s: line.count(s) for s in _SEPARATORS}
    if not any(counts.values()) and len(line.split()) > 1:
        raise ValueError(
            f"{path}: cells must be separated by {', '.join(_SEPARATORS.values())}, got "
            f"{short(repr(line))}; from R: write.csv(frame, 'my.csv', row.names = FALSE)"
        )
    return ("," if counts[","] else max(counts, key=counts.__getitem__)), 0


def _headless(header: list[str]) -> bool:
    """Whether a first row is of numbers, which are no names of columns."""
    numbers = [number_in(cell) for cell in header]
    if len(header) < 2 or any(math.isnan(n) for n in numbers):
        return False
    return len(set(numbers)) < len(numbers) or any(n != int(n) for n in numbers if abs(n) < 1e9)


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


# --- JSON -----------------------------------------------------------------------------------------


def _read_lines(path: Path) -> Table:
    """One object a line."""
    most = min(MOST_LINE, most_memory()[0] // 64)

    def records() -> Iterator[tuple[int, Any]]:
        with path.open(encoding="utf-8-sig") as stream:
            number = 0
            try:
                while line := stream.readline(most + 1):
                    number += 1
                    if len(line) > most:
                        raise ValueError(f"{path}: row {number} has more than {most:,} characters")
                    if line.strip():
                        yield number, _parsed(path, line, number)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}: must be text in UTF-8, got byte {error.object[error.start]:#04x} "
                    f"after row {number}"
                ) from None

    return _from_objects(path, records())


def _parsed(path: Path, text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: row {line} must be JSON, got {short(error)}") from None


def _read_json(path: Path) -> Table:
    """A list of objects, or an object of lists; several objects are taken as lines."""
    require_memory(path, _PARSED * path.stat().st_size // 4)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: must be text in UTF-8, got byte {error.object[error.start]:#04x}"
        ) from None
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(f"{path}: must be JSON, got values nested too deep") from None
    except ValueError as error:
        if "Extra data" in str(error):
            return _read_lines(path)
        raise ValueError(f"{path}: must be JSON, got {short(error)}") from None
    if isinstance(found, dict):
        lists = [v for v in found.values() if isinstance(v, list) and len(v) > 1]
        inner = [v for v in lists if isinstance(v[0], dict)]
        if len(inner) == 1:
            found = inner[0]
        elif lists:
            wide = {k: v for k, v in found.items() if isinstance(v, list)}
            sizes = {len(v) for v in wide.values()}
            if len(sizes) == 1:
                rows = zip(*wide.values(), strict=True)
                found = [dict(zip(wide, row, strict=True)) for row in rows]
    if not isinstance(found, list) or not found:
        raise ValueError(
            f"{path}: must hold a list of objects, one a row, or an object of lists, one a column; "
            "from pandas: frame.to_json('my.json', orient='records')"
        )
    return _from_objects(path, enumerate(found, 1))


def _from_objects(path: Path, records: Iterator[tuple[int, Any]]) -> Table:
    """A table of objects: what is nested becomes ``outer.inner`` and ``list_0``, ``list_1``."""
    builders: dict[str, Builder] = {}
    lines: list[int] = []
    for line, record in records:
        if not isinstance(record, dict):
            raise ValueError(
                f'{path}: row {line} must be an object such as {{"label": 1}}, got '
                f"{type(record).__name__}"
            )
        cells: dict[str, str] = {}
        _flatten(_of_harness(record), "", cells, 0)
        for name, cell in cells.items():
            if name not in builders:
                if len(builders) >= MOST_COLUMNS:
                    raise ValueError(f"{path}: must have at most {MOST_COLUMNS:,} columns")
                most = 1 << 31 if role_of(name) == "cluster" else 10_000
                builders[name] = Builder(name, most)
                builders[name].skip(len(lines))
            builders[name].add_cell(cell)
        lines.append(line)
        for builder in builders.values():
            builder.skip(len(lines))
        if len(lines) % 1000 == 0:
            held = 8 * len(lines) * len(builders) + sum(b.held for b in builders.values())
            require_memory(path, held)
    if not lines:
        raise ValueError(f"{path}: must have rows, got an empty file")
    columns = {name: builder.column() for name, builder in builders.items()}
    return Table(str(path), columns, len(lines), np.array(lines))


def _flatten(value: Any, name: str, cells: dict[str, str], depth: int) -> None:
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            _flatten(inner, f"{name}.{key}" if name else str(key), cells, depth + 1)
    elif isinstance(value, list):
        plain_ones = all(isinstance(v, int | float | None) for v in value)
        if 1 < len(value) <= _LIST_KEPT * 20 and plain_ones:
            for j, inner in enumerate(value):
                cells[f"{name}_{j}"] = "" if inner is None else repr(float(inner))
        elif len(value) == 1 and isinstance(value[0], str | int | float):
            _flatten(value[0], name, cells, depth)
        elif 1 < len(value) <= _LIST_KEPT and all(map(_scored, value)):
            for one in value:
                cells[f"{name}_{short(one['label'])}"] = repr(float(one["score"]))
    elif value is None:
        cells[name] = ""
    elif isinstance(value, bool):
        cells[name] = str(value)
    elif isinstance(value, int | float):
        cells[name] = repr(value) if abs(value) < 1e300 or value != value else "inf"
    elif isinstance(value, str):
        cells[name] = " ".join(value[:400].split())


def _scored(value: Any) -> bool:
    """Whether it is a class with its score, of which pipelines of transformers write a list."""
    if not (isinstance(value, dict) and {*value} == {"label", "score"}):
        return False
    return isinstance(value["label"], str) and isinstance(value["score"], float)


def _of_harness(record: dict[str, Any]) -> dict[str, Any]:
    """A sample of lm-evaluation-harness: the log likelihoods of the choices, and the target."""
    responses = record.get("filtered_resps")
    if not isinstance(responses, list):
        return record
    rest = ("doc", "arguments", "resps", "filtered_resps", "doc_hash", "prompt_hash", "target_hash")
    kept = {key: value for key, value in record.items() if key not in rest}
    pairs = [r[0] for r in responses if isinstance(r, list) and len(r) == 2]
    values = [number_in(str(one)) for one in pairs]
    if len(values) == len(responses) > 1 and not any(math.isnan(v) for v in values):
        kept |= {f"loglikelihood_{j}": value for j, value in enumerate(values)}
        doc, target = record.get("doc"), kept.get("target")
        choices = doc.get("choices") if isinstance(doc, dict) else None
        choices = choices.get("text") if isinstance(choices, dict) else choices
        if isinstance(choices, list) and target in choices:
            kept["target"] = choices.index(target)
        elif isinstance(target, str) and len(target.strip()) == 1 and target.strip().isalpha():
            kept["target"] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ".find(target.strip().upper())
        if isinstance(kept.get("target"), int | str):
            for name in ("acc", "acc_norm", "exact_match"):
                kept.pop(name, None)
    return kept


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
    own = {name: values for name, values in arrays.items() if name in NAMES}
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


def _by_part(source: str, arrays: dict[str, Any], notes: list[str]) -> Table:
    """A table of arrays whose names begin, or end, with the name of a part."""
    parts: dict[str, dict[str, Any]] = {}
    words_of = {name: plain(name).split("_") for name in arrays}
    inner = {part_of(w[1]) for w in words_of.values() if len(w) > 2 and w[0] == "y"} - {None}
    for name, values in arrays.items():
        values = np.asarray(values)
        if values.ndim == 0 or (values.ndim > 2 and 1 not in values.shape):
            notes.append(f"array {name!r} is left out: its shape is {values.shape}")
            continue
        words = words_of[name]
        part, rest = "", name
        if len(inner) > 1 and len(words) > 1 and words[0] == "y" and part_of(words[1]):
            part, rest = part_of(words[1]), "_".join(["y", *words[2:]])  # y_val, y_val_proba
        elif len(words) > 1 and part_of(words[0]):
            part, rest = part_of(words[0]), "_".join(words[1:])
        elif len(words) > 1 and part_of(words[-1]) and words[0] not in ("y",):
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
    for name in [n for n, a in arrays.items() if len(a) != most]:
        size = len(arrays.pop(name))
        notes.append(f"array {name!r} is left out: it has {size:,} rows, not {most:,}")
    return arrays


def _read_npy(path: Path) -> Table:
    values = read_npy(path)
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(
            f"{path}: an array alone must be (rows, classes), got shape {values.shape}; several go "
            "into one file: numpy.savez('my.npz', probabilities=p, labels=y)"
        )
    return from_arrays(str(path), {"logit": values}, ["one array without labels"])


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
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        require_memory(path, table.nbytes)
        arrays[name] = _of_arrow(column)
    return from_arrays(str(path), {n: a for n, a in arrays.items() if a is not None})


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
    if types.is_floating(kind) or types.is_integer(kind):
        return column.cast(pyarrow.float64()).to_numpy()
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        return np.array(column.to_pylist(), dtype=object)
    return None


# --- Python ---------------------------------------------------------------------------------------


def from_python(data: Any) -> Table | dict[str, Any]:
    """A table of a data frame of pandas or polars, or of arrays by name."""
    source = "data in Python"
    if isinstance(data, Mapping):
        arrays = {str(name): np.asarray(values) for name, values in data.items()}
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


def _of_series(column: Any) -> Any:
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype == object and len(values) and isinstance(values[0], list | tuple | np.ndarray):
        return np.array([np.asarray(v, dtype=float) for v in values])
    if values.dtype.kind == "M":
        return values.astype(str)
    return values


_PANDAS = (
    "a program could hide in it, so that it is not read; if you trust it, convert it: python -c "
    "\"import pandas; pandas.read_pickle('{file}').to_csv('{csv}', index=False)\""
)
_TENSORS = (
    "a program could hide in it, so that it is not read; save arrays instead: "
    "numpy.savez('my.npz', logits=logits.numpy(), labels=labels.numpy())"
)
_EXCEL = (
    "save the sheet as CSV: python -c \"import pandas; pandas.read_excel('{file}').to_csv('{csv}', "
    'index=False)"'
)
_PACKED = "unpack it first"
#: Endings, and what reads them, or why nothing does.
SUFFIXES: dict[str, Callable[[Path], Any] | str] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".tab": _read_csv,
    ".txt": _read_csv,
    ".jsonl": _read_lines,
    ".ndjson": _read_lines,
    ".json": _read_json,
    ".parquet": _read_arrow,
    ".feather": _read_arrow,
    **dict.fromkeys([".pkl", ".pickle", ".joblib"], _PANDAS),
    **dict.fromkeys([".pt", ".pth", ".ckpt"], _TENSORS),
    **dict.fromkeys([".xlsx", ".xls"], _EXCEL),
    **dict.fromkeys([".gz", ".zip", ".bz2", ".xz", ".zst"], _PACKED),
}
