"""Several answers or rows a prediction: the surest of some, and the classes of long tables."""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from lib.report import outputs
from lib.report.naming import plain, role_of
from lib.report.tables import Builder, Column, Table, from_arrays

_TOP = r"(?:.*_)?top_?(?:k|\d+)?_"
_IDS = re.compile(
    rf"(?:{_TOP}(?:ids?|idx|index|indices|labels?|class|classes|preds?|predictions?)(?:_\d+)?)"
    r"|top_?\d+"
)
_SCORES = re.compile(
    rf"{_TOP}(?:probs?|probabilities|scores?|confidences?|values?|logits?)(?:_\d+)?"
)
#: The same without such a word: then answers must differ, and scores go down.
_PLAIN = (
    re.compile(r"(?:pred|prediction|class|label)_?\d+"),
    re.compile(r"(?:prob|probability|score|conf|confidence)_?\d+"),
)
ANSWER, SURE = "prediction", "confidence"


def surest(table: Table) -> Table:
    """The table with the surest of several answers a row in their place, whatever their order."""
    names = {name: plain(name) for name in table.columns}
    ids = [name for name in names if _IDS.fullmatch(names[name])]
    scores = [name for name in names if _SCORES.fullmatch(names[name])]
    if not ids and not scores:
        ids, scores = ([n for n in names if one.fullmatch(names[n])] for one in _PLAIN)
        if not _go_down(table, ids, scores):
            return table
    if len(ids) < 2 or len(ids) != len(scores) or {ANSWER, SURE} & {*names}:
        return table
    columns = [table.columns[name] for name in scores]
    values = np.column_stack([column.numbers for column in columns])
    if not all(column.numeric for column in columns) or np.isnan(values).all(axis=1).any():
        return table
    best = np.nanargmax(values, axis=1)
    answers = Builder(ANSWER, table.rows)
    for row, place in enumerate(best):
        answers.add_cell(table.columns[ids[place]].cell(row))
    found = {n: column for n, column in table.columns.items() if n not in (*ids, *scores)}
    found[ANSWER] = answers.column()
    found[SURE] = Column(SURE, np.take_along_axis(values, best[:, None], axis=1)[:, 0])
    said = f"{len(ids)} answers a row, '{ids[0]}', ..., '{ids[-1]}': the surest is taken"
    return replace(table, columns=found, notes=(*table.notes, said))


def _go_down(table: Table, ids: list[str], scores: list[str]) -> bool:
    """Whether the answers of each row differ, and their scores fall from the first on."""
    columns = [table.columns[name] for name in scores]
    if not 1 < len(ids) == len(scores) or not all(column.numeric for column in columns):
        return False
    if (np.diff([column.numbers for column in columns], axis=0) > 0).any():
        return False
    answers = [table.columns[name] for name in ids]
    return all(len({one.cell(row) for one in answers}) == len(ids) for row in range(table.rows))


def wide(table: Table) -> Table:
    """The table with one row a prediction, where it has one for each class of each."""
    for key in (name for name in table.columns if role_of(name).startswith("cluster")):
        places, names = table.columns[key].values()
        k = table.rows // max(1, len(names))
        if (places < 0).any() or not len(names) < table.rows == k * len(names):
            continue
        for name, column in table.columns.items():
            codes, classes = column.values()
            if name == key or len(classes) != k or (codes < 0).any():
                continue
            if (column.numbers % 1 > 0).any():  # no names of classes
                continue
            pairs = places * k + codes
            order = np.argsort(pairs, kind="stable")
            whole = (np.diff(pairs[order]) == 1).all()
            if whole and (found := _by_class(table, order, name, classes)) is not None:
                return found
    return table


def _by_class(table: Table, order: np.ndarray, name: str, classes: tuple[str, ...]) -> Table | None:
    """With a column for each class, if the numbers of one column sum to 1 over the classes."""
    k, first, columns, notes = len(classes), order[:: len(classes)], {}, []
    left: list[str] = []
    for other, column in table.columns.items():
        if other == name:
            continue
        places, words = column.values()
        cells, values = places[order].reshape(-1, k), column.numbers[order].reshape(-1, k)
        if not column.numeric and all(map(outputs.is_flag, words)) and (cells >= 0).all():
            values = outputs.flags(cells, words).astype(float)
        kind = "" if np.isnan(values).any() else outputs.kind_of(values)
        if kind in ("probabilities", "percent") and not notes:
            notes.append(f"{other!r} is of the class in {name!r}: {k} rows are one prediction")
            names = [f"{other}_{word}" for word in classes]
            columns |= {n: Column(n, one.copy()) for n, one in zip(names, values.T, strict=True)}
        elif kind == "one hot":  # 1 at the label, or at the answer
            builder = Builder(other)
            builder.add([classes[j] for j in values.argmax(axis=1)])
            columns[other] = builder.column()
        elif (cells == cells[:, :1]).all():
            codes = None if column.codes is None else column.codes[first]
            columns[other] = replace(column, numbers=column.numbers[first], codes=codes)
        else:
            left.append(other)
    if left and notes:
        notes.append(f"not used, since it differs by class: {', '.join(map(repr, left))}")
    lines = None if table.lines is None else table.lines[first]
    found = Table(table.source, columns, len(first), lines, (*table.notes, *notes))
    return found if notes else None


def with_label(values: np.ndarray) -> tuple[dict[str, Any], list[str]] | None:
    """Arrays and a note, if the last or the first column alone is of whole numbers, as of classes.

    Of two columns the other is the probability of the second class, or what else tells it.
    """
    whole, k = (values == np.floor(values)).all(axis=0), values.shape[1] - 1
    for place, name in ((k, "last"), (0, "first")):
        label, rest = values[:, place], np.delete(values, place, axis=1)
        if whole[place] and not whole.all() and label.min() >= 0 and 0 < label.max() < max(k, 2):
            said = f"the {name} of {k + 1} columns holds whole numbers below {max(k, 2)}: it is "
            what = rest if k > 1 else rest[:, 0]
            return {"logit" if k > 1 else "score": what, "label": label}, [f"{said}the label"]
    return None


def named(table: Table) -> Table:
    """A table without a header, with names if a column alone is of whole numbers."""
    columns = [*table.columns.values()]
    if [*table.columns] != [f"column {j}" for j in range(1, len(columns) + 1)]:
        return table
    if not all(column.numeric and not column.empty.any() for column in columns):
        return table
    if (found := with_label(np.column_stack([column.numbers for column in columns]))) is None:
        return table
    return from_arrays(table.source, found[0], [*table.notes, *found[1]], table.lines)
