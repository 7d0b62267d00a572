"""Columns of a table as a page shows them: texts, intervals in one, long words that break."""

import html
import math
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lib.book.words import data_name, formatted

_SHORT_FOR = re.compile(r"\b(?:[ft][pn]r|roc|pr|auc|aurc|augrc|e-aurc|ece|mce|rmsce)\b")
MANY = 5  # columns: a table of more is set smaller
SHORT = 15  # characters: an entry that breaks no line, such as a name with a hyphen


@dataclass(frozen=True)
class Column:
    """A heading, the texts below it, and whether all of them are numbers."""

    name: str
    texts: list[str]
    number: bool


_NONE = Column("", [], False)


def columns_of(frame: pd.DataFrame, formats: Mapping[str, str]) -> list[Column]:
    """The columns of a data frame, formatted."""
    formats = {str(name): spec for name, spec in formats.items()}
    return [
        Column(
            _SHORT_FOR.sub(lambda found: found[0].upper(), _heading(name)),
            [_text(value, formats.get(str(name))) for value in frame.iloc[:, i]],
            bool(len(frame)) and all(_is_number(v) for v in frame.iloc[:, i]),
        )
        for i, name in enumerate(frame.columns)
    ]


def joined(columns: list[Column]) -> list[Column]:
    """The columns, each low and high end in one, beside their value if it stands before them."""
    found: list[Column] = []
    for column in columns:
        last = found[-1] if found else _NONE
        if not (last.number and column.number):
            found.append(column)
        elif column.name == re.sub(r"\blow\b", "high", last.name) != last.name:
            found = _with_ends(found[:-1], last, column)
        elif column.name == f"{last.name} sd":
            pairs = zip(last.texts, column.texts, strict=True)
            texts = [value if sd == "–" else f"{value} ± {sd}" for value, sd in pairs]
            found[-1] = Column(f"{last.name} (± sd)", texts, True)
        else:
            found.append(column)
    return found


def _with_ends(before: list[Column], low: Column, high: Column) -> list[Column]:
    """The columns `before` and one for the interval, with the value that it is of."""
    stem = re.sub(r",? ?\blow\b", "", low.name).strip()
    ends = list(zip(low.texts, high.texts, strict=True))
    value, error = before[-1] if before else _NONE, 0
    if stem and value.name == f"{stem} stderr" and [c.name for c in before[-2:-1]] == [stem]:
        value, error = before[-2], 1  # the interval says what it says; the download has both
    if not (stem and value.number and value.name.startswith(stem)) or "[" in value.name:
        texts = [f"{a}\u00a0to\u00a0{b}" if a != "–" else "–" for a, b in ends]
        return [*before, Column(re.sub(r"\blow\b", "interval", low.name), texts, True)]
    brackets = [f" [{a},\u00a0{b}]" if a != "–" else "" for a, b in ends]
    texts = [f"{text}{bracket}" for text, bracket in zip(value.texts, brackets, strict=True)]
    return [*before[: -1 - error], Column(f"{value.name} [interval]", texts, True)]


#: Words of columns, which stored runs and records keep, and what readers see.
_SAID = {"trainings": "training runs", "peer": "method", "sandwich": "sandwich variance estimator"}


def _heading(name: object) -> str:
    words = re.sub(r"= inf$", "= ∞", str(name).replace("_", " "))
    return re.sub(rf"\b(?:{'|'.join(_SAID)})\b", lambda found: _SAID[found[0]], words)


def breakable(text: str) -> str:
    """Text of a cell, escaped; a long one may break within a word that is made of several."""
    said = html.escape(text)
    return said if len(text) <= SHORT else re.sub(r"([+_/.,(=])(?=[a-zA-Z])", r"\1<wbr>", said)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) and not isinstance(value, bool)


def _text(value: Any, spec: str | None) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if not _is_number(value):
        # A spread belongs to its sign: "0.72" may stand over "(± 0.02)", "0.02)" not alone.
        return data_name(str(value)).replace("(± ", "(±\u00a0")
    if value != value:
        return "–"
    spec = spec or ("," if isinstance(value, numbers.Integral) else ".4g")
    digits = {".3f": 2, ".4f": 2, ".3g": 3, ".4g": 4}.get(spec, math.inf)
    if math.isfinite(value) and 10**digits <= abs(value) < 1e9:
        spec = ",.0f"  # six digits and more are not read, nor is a power of ten for a count
    return formatted(value, spec)
