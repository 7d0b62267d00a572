"""What is nested in one cell: lists of numbers or scores by class, as JSON or as Python prints."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from lib.data.arrays import number_in
from lib.data.untrusted import short

TOP = ("\0prediction", "\0confidence")  # ends of names of the surest answer, and of its score
SEVERAL = "\0several"  # the end of a name whose cell says how many values a list of them held
_DEEPEST = 4  # levels of JSON that become columns
_LIST_KEPT = 1024  # values of one list in JSON
_CELL = 100_000  # characters of a cell that is looked into
_LIST = re.compile(r"[\[(]([^\[\]()]*)[\])]")  # how arrays in cells of a table are printed
_WRAPPED = re.compile(
    r"(?:np\.|numpy\.|torch\.)?(?:array|tensor|DenseVector)\((\[.*?\])[^\]]*\)", re.DOTALL
)
_SCALAR = re.compile(r"(?:np|numpy)\.\w+\(([^()]*)\)")  # np.float64(0.1), as NumPy 2 prints it
_BEGINS = ("[", "(", "array(", "tensor(", "DenseVector(", "np.array(", "numpy.array(")
#: Lists of classes and of their scores, side by side.
_PARALLEL = (
    ("labels", "displayNames", "classes", "class_names"),
    ("scores", "confidences", "probabilities", "probs"),
)
_TOP_K = re.compile(r"^(?:top_?(?:k|\d+)?|predicted|pred)_")  # what may stand before both
#: What says how sure a model is of a class, in an object of both.
_SCORES = {"score", "prob", "probability", "confidence", "logit"}


def flatten(value: Any, name: str, cells: dict[str, str], depth: int = 0) -> None:
    """Add cells for what a value holds: ``outer.inner``, ``list_0``, ``scores_cat``."""
    if isinstance(value, dict) and depth < _DEEPEST:
        parallel = _parallel(value)
        if parallel:
            _scored(f"{name}.scores" if name else "scores", parallel, cells)
        for key, inner in value.items():
            if not (parallel and any(_TOP_K.sub("", key) in keys for keys in _PARALLEL)):
                flatten(inner, f"{name}.{key}" if name else str(key), cells, depth + 1)
    elif isinstance(value, list):
        plain_ones = all(isinstance(v, int | float | None) for v in value)
        if all(isinstance(v, int | float | str) for v in value):
            cells[f"{name}{SEVERAL}"] = str(len(value))
        if 1 < len(value) <= _LIST_KEPT * 20 and plain_ones:
            for j, inner in enumerate(value):
                cells[f"{name}_{j}"] = "" if inner is None else repr(float(inner))
        elif len(value) == 1 and isinstance(value[0], str | int | float | list | dict):
            flatten(value[0], name, cells, depth + 1)
        elif 1 < len(value) <= _LIST_KEPT and all(map(_score, value)):
            _scored(name, {short(str(v["label"])): v[_score(v)] for v in value}, cells)
    elif value is None:
        cells[name] = ""
    elif isinstance(value, bool):
        cells[name] = str(value)
    elif isinstance(value, int | float):
        cells[name] = repr(value) if abs(value) < 1e300 or value != value else "inf"
    elif isinstance(value, str) and (parts := _list(value)):
        cells.update({f"{name}_{j}": part for j, part in enumerate(parts)})
    elif isinstance(value, str):
        cells[name] = " ".join(value[:400].split())


def _scored(name: str, scores: dict[str, float], cells: dict[str, str]) -> None:
    """Cells for the score of each class, and for the surest."""
    for label, score in scores.items():
        cells[f"{name}_{label}"] = repr(float(score))
    best = max(scores, key=scores.__getitem__)
    cells[f"{name}{TOP[0]}"], cells[f"{name}{TOP[1]}"] = best, repr(float(scores[best]))


def _score(value: Any) -> str:
    """The key of the score, if it is a class with its score, as of pipelines; else empty."""
    if not (isinstance(value, dict) and len(value) == 2 and "label" in value):
        return ""
    (key,) = {*value} - {"label"}
    number = isinstance(value[key], int | float) and not isinstance(value[key], bool)
    return key if key in _SCORES and number and isinstance(value["label"], str | int) else ""


def _parallel(value: dict[str, Any]) -> dict[str, float]:
    """The scores by class of two lists, as pipelines for zero-shot classification write them."""
    lists = {_TOP_K.sub("", key): each for key, each in value.items() if isinstance(each, list)}
    labels, scores = (
        next((lists[key] for key in keys if key in lists), None) for keys in _PARALLEL
    )
    if not (isinstance(labels, list) and isinstance(scores, list)):
        return {}
    if not (1 < len(labels) == len(scores) <= _LIST_KEPT) or len({*map(str, labels)}) < len(labels):
        return {}
    if not all(isinstance(label, str) for label in labels):
        return {}
    if not all(isinstance(s, int | float) and not isinstance(s, bool) for s in scores):
        return {}
    return {short(label): score for label, score in zip(labels, scores, strict=True)}


# --- cells of a table of text ---------------------------------------------------------------------


def unlisted(
    header: list[str], records: Iterable[tuple[int, list[str]]]
) -> tuple[list[str], Iterable[tuple[int, list[str]]]]:
    """Spread cells such as ``[0.1, 0.9]`` or ``{'cat': 0.9}``, by the first row, over columns."""
    records = iter(records)
    first = next(records, None)
    if first is None or len(first[1]) != len(header):
        return header, [] if first is None else chain([first], records)
    found = {place: names for place, cell in enumerate(first[1]) if (names := _names(cell))}
    if not found:
        return header, chain([first], records)
    names = [
        name
        for place, given in enumerate(header)
        for name in ([given + each for each in found[place]] if place in found else [given])
    ]

    def spread() -> Iterator[tuple[int, list[str]]]:
        for line, cells in chain([first], records):
            yield (
                line,
                [
                    part
                    for place, cell in enumerate(cells)
                    for part in (_parts(cell, found[place]) if place in found else [cell])
                ],
            )

    return names, spread()


def _names(cell: str) -> list[str]:
    """What is added to a column's name for each number in a cell; empty if it is plain."""
    if cell.startswith("{") or cell.startswith("[{"):
        return [*_objects(cell)]
    return [f"_{j}" for j in range(len(_list(cell)))]


def _parts(cell: str, names: list[str]) -> list[str]:
    """The cells of those names."""
    if names[0] != "_0" or cell.startswith("{") or cell.startswith("[{"):
        found = _objects(cell)
        return [found.get(name, "") for name in names]
    return _list(cell) or [""] * len(names)


def _objects(cell: str) -> dict[str, str]:
    """What an object in a cell holds; quotes may be those of Python."""
    cell = _SCALAR.sub(r"\1", cell[:_CELL])
    for text in (cell, cell.replace("'", '"')):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        found: dict[str, str] = {}
        flatten(value, "", found)
        kept = {name: each for name, each in found.items() if not name.endswith((*TOP, SEVERAL))}
        return {name if name.startswith("_") else f"_{name}": each for name, each in kept.items()}
    return {}


def _list(cell: str) -> list[str]:
    """The numbers in a cell of at least two; empty where it holds none."""
    if not cell.startswith(_BEGINS) or len(cell) > _CELL:
        return []
    if wrapped := _WRAPPED.fullmatch(cell):
        cell = wrapped[1]
    cell = _SCALAR.sub(r"\1", cell)
    if cell.startswith("[[") and cell.endswith("]]"):  # one row of a matrix
        cell = cell[1:-1]
    found = _LIST.fullmatch(cell)
    parts = re.split(r"[,;\s]+", found[1].strip(" ,\n")) if found else []
    if len(parts) < 2 or number_in(parts[0]) != number_in(parts[0]):
        return []
    return parts
