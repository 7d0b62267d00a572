"""JSON: objects one a row, lists or objects one a column, and what programs nest in them."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lib.data.arrays import MOST_LINE, most_memory, number_in, require_memory
from lib.data.untrusted import short
from lib.report.naming import is_of_names, part_of, role_of
from lib.report.nested import SEVERAL, TOP, flatten
from lib.report.packed import open_text
from lib.report.tables import MOST_COLUMNS, Builder, Table

_LENGTHS = 2  # of lists under one name, beyond which they are no numbers of classes
_PARSED = 12  # bytes of memory that a byte of JSON may take once it is parsed


def read_lines(path: Path) -> Table:
    """Read one object a line."""
    most = min(MOST_LINE, most_memory()[0] // 64)

    def records() -> Iterator[tuple[int, Any]]:
        with open_text(path) as stream:
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


def read_json(path: Path) -> Table:
    """Read rows or columns as :func:`_rows` knows them; several objects are taken as lines."""
    require_memory(path, _PARSED * path.stat().st_size // 4)
    most = most_memory()[0] // _PARSED
    try:
        with open_text(path) as stream:
            text = stream.read(most + 1)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: must be text in UTF-8, got byte {error.object[error.start]:#04x}"
        ) from None
    require_memory(path, _PARSED * len(text) // 4)  # of a packed file only now is it known
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(f"{path}: must be JSON, got values nested too deep") from None
    except ValueError as error:
        if "Extra data" in str(error):
            return read_lines(path)
        raise ValueError(f"{path}: must be JSON, got {short(error)}") from None
    rows = _rows(found)
    if not rows:
        raise ValueError(
            f"{path}: must hold a list of objects, one a row, or an object of lists, one a column; "
            "from pandas: frame.to_json('my.json', orient='records')"
        )
    return _from_objects(path, enumerate(rows, 1))


def _rows(found: Any, depth: int = 0) -> list[Any]:
    """One object a row; empty if nothing is known to be rows.

    They may be a list, or what pandas calls columns, split or index; or one list or object of
    objects, beside what is said of the whole.
    """
    if isinstance(found, list):
        return found
    if not isinstance(found, dict):
        return []
    if len(found) > 1 and all(map(part_of, found)) and depth == 0:
        parts = {part: _rows(rows, 1) for part, rows in found.items()}
        if all(rows and all(isinstance(row, dict) for row in rows) for rows in parts.values()):
            return [{"part": part, **row} for part, rows in parts.items() for row in rows]
    names, data = found.get("columns"), found.get("data")
    if (
        isinstance(names, list)
        and isinstance(data, list)
        and all(isinstance(row, list) and len(row) == len(names) for row in data)
    ):
        return [dict(zip(map(str, names), row, strict=True)) for row in data]
    lists = {k: v for k, v in found.items() if isinstance(v, list) and len(v) > 1}
    inner = [v for v in lists.values() if isinstance(v[0], dict)]
    if len(inner) == 1:
        return inner[0]
    for name, each in [*found.items()]:  # such as outputs.label and outputs.probability
        inside = isinstance(each, dict) and [*each.values()]
        if lists and inside and all(isinstance(v, list) and len(v) > 1 for v in inside):
            found = {**found, **{f"{name}.{key}": v for key, v in each.items()}}
            lists = {k: v for k, v in found.items() if isinstance(v, list) and len(v) > 1}
    if lists:
        wide = {k: v for k, v in found.items() if isinstance(v, list)}
        size, often = Counter(map(len, wide.values())).most_common(1)[0]
        if often < min(2, len(wide)):
            return []
        long = {k: _with_names(v, found) for k, v in wide.items() if len(v) == size}
        rows = zip(*long.values(), strict=True)
        return [dict(zip(long, row, strict=True)) for row in rows]
    objects = {k: v for k, v in found.items() if isinstance(v, dict) and len(v) > 1}
    if len(objects) == len(found) > 1:
        return _columns(objects) or [*objects.values()]
    nested = [rows for v in objects.values() if depth == 0 and (rows := _rows(v, 1))]
    return nested[0] if len(nested) == 1 else []


def _with_names(rows: list[Any], found: dict[str, Any]) -> list[Any]:
    """Lists of numbers by the names of classes, if another list holds these."""
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    for name, names in found.items():
        if is_of_names(name) and isinstance(names, list) and len({*map(str, names)}) == width > 1:
            return [
                dict(zip(map(str, names), row, strict=True))
                if isinstance(row, list) and len(row) == width == len(names)
                else row
                for row in rows
            ]
    return rows


def _columns(objects: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of columns by number of the row, as pandas writes them; empty if these are rows."""
    first, *others = objects.values()
    if any(isinstance(v, dict | list) for v in first.values()) or any(map(role_of, first)):
        return []
    if not any(map(role_of, objects)) and len(first) <= len(objects):
        return []
    if any(each.keys() != first.keys() for each in others):
        return []
    return [{name: column[row] for name, column in objects.items()} for row in first]


def _from_objects(path: Path, records: Iterator[tuple[int, Any]]) -> Table:
    """A table of objects: what is nested becomes ``outer.inner`` and ``list_0``, ``list_1``."""
    builders: dict[str, Builder] = {}
    lines: list[int] = []
    sizes: dict[str, set[str]] = {}  # of lists in one cell
    several: dict[str, str] = {}
    for line, record in _one_each(records):
        if not isinstance(record, dict):
            raise ValueError(
                f'{path}: row {line} must be an object such as {{"label": 1}}, got '
                f"{type(record).__name__}"
            )
        cells: dict[str, str] = {}
        try:
            flatten(_of_harness(record), "", cells)
        except ValueError as error:
            raise ValueError(f"{path}: row {line}: {error}") from None
        _several(cells, sizes, line, several)
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
    notes = _without(builders, path, several)
    _drop(builders, [name for name, found in sizes.items() if len(found) > _LENGTHS])
    left = [name for name in sizes if name not in builders and f"{name}_0" not in builders]
    notes += [f"not read, since it holds lists: {short(', '.join(map(repr, left)))}"] * bool(left)
    columns = {b.name: b.column() for b in _surest(builders, notes)}
    return Table(str(path), columns, len(lines), np.array(lines), tuple(notes))


def _several(cells: dict[str, str], sizes: dict[str, set], line: int, found: dict) -> None:
    """Take sizes of lists out of cells; `found` are labels and answers of which rows have more.

    An answer of many numbers, such as logits, has the same number in all rows.
    """
    for key in [key for key in cells if key.endswith(SEVERAL)]:
        name, size = key.removesuffix(SEVERAL), cells.pop(key)
        before = sizes.setdefault(name, {size})
        role = role_of(name.rpartition(".")[2])
        if size not in before and role in ("label", "label?", "prediction"):
            told = f"row {line}: {name!r} holds {size} values, in rows before it {min(before)}"
            found.setdefault(name, told)
        before.add(size)


def _without(builders: dict[str, Builder], path: Path, several: dict[str, str]) -> list[str]:
    """Leave out labels and answers of several values, and say so, if a column has who is right."""
    if several and not any(role_of(name) == "correct" for name in builders):
        raise ValueError(
            f"{path}: {next(iter(several.values()))}: several labels, or right answers, at once are"
            " not read; a column 'correct' of 1 or 0 would do"
        )
    _drop(builders, several)
    return [*several.values()]


def _drop(builders: dict[str, Builder], names: Iterable[str]) -> None:
    """Leave out columns of lists."""
    for begin in names:
        columns = re.compile(rf"{re.escape(begin)}(_\d+)?")
        for name in [name for name in builders if columns.fullmatch(name)]:
            del builders[name]


def _one_each(records: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """One prediction a row, where a row is a batch: a matrix beside lists of as many values."""
    for line, record in records:
        lists = [v for v in record.values() if isinstance(v, list)] if _is_object(record) else []
        matrices = [v for v in lists if len(v) > 1 and all(isinstance(r, list) for r in v)]
        matrices = [v for v in matrices if len({*map(len, v)}) == 1 < len(v[0])]
        size = len(matrices[0]) if matrices else 0
        plain = [v for v in lists if not any(isinstance(one, list | dict) for one in v)]
        if not (size and plain and all(len(v) == size for v in lists)):
            yield line, record
            continue
        for j in range(size):
            yield line, {k: v[j] if isinstance(v, list) else v for k, v in record.items()}


def _is_object(record: Any) -> bool:
    return isinstance(record, dict) and "filtered_resps" not in record


def _surest(builders: dict[str, Builder], notes: list[str]) -> list[Builder]:
    """Scores by class, or, where rows have those of some classes alone, the surest answer."""
    tops = {n.removesuffix(TOP[0]) for n in builders if n.endswith(TOP[0])}
    kept = dict(builders)
    for begin in tops:
        pair = [kept.pop(begin + end) for end in TOP]
        of_classes = [n for n in kept if n.startswith(f"{begin}_")]
        if any(np.isnan(kept[n].numbers).any() for n in of_classes):
            for name in of_classes:
                del kept[name]
            for builder, end in zip(pair, TOP, strict=True):
                builder.name = f"{begin}_{end[1:]}"
                kept[builder.name] = builder
            notes.append(f"{begin!r} has the scores of some classes alone: the surest is taken")
    return [*kept.values()]


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
        if kept.get("acc", 0) not in (0, 1):
            raise ValueError(
                f"acc must be 0 or 1, got {kept['acc']:.6g}: several choices of a sample may be "
                "right, which is not read; a file with target and one right choice would do"
            )
        if isinstance(kept.get("target"), int | str):
            for name in ("acc", "acc_norm", "exact_match"):
                kept.pop(name, None)
    return kept
