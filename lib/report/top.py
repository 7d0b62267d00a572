"""The surest answers alone: ids and scores of the first five of a thousand classes."""

import re
from dataclasses import replace

import numpy as np

from lib.report.naming import plain
from lib.report.tables import Builder, Column, Table

_TOP = r"(?:.*_)?top_?(?:k|\d+)?_"
_IDS = re.compile(
    rf"{_TOP}(?:ids?|idx|index|indices|labels?|class|classes|preds?|predictions?)(?:_\d+)?"
)
_SCORES = re.compile(
    rf"{_TOP}(?:probs?|probabilities|scores?|confidences?|values?|logits?)(?:_\d+)?"
)
ANSWER, SURE = "prediction", "confidence"


def surest(table: Table) -> Table:
    """The table with the surest of several answers a row in their place, whatever their order."""
    names = {name: plain(name) for name in table.columns}
    ids = [name for name in names if _IDS.fullmatch(names[name])]
    scores = [name for name in names if _SCORES.fullmatch(names[name])]
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
