"""A report as one HTML file that can be handed on: no other file, no script, no network."""

import base64
import math
import re
from collections.abc import Mapping
from html import escape
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.plot import svg_bytes
from lib.report.types import ANALYSES, Analysis, Drawing, Settings
from lib.report.verdicts import ALWAYS, QUESTIONS, SIGNS, Verdict, verdicts

_WRITTEN = re.compile(r"(?:< |> )?-?\d[\d,.]*(?:e[+-]?\d+)?|nan|-?inf")  # a number in a text
_ROWS = 200  # of a table; the folder of an export has all
_OPEN = 12  # rows of a table that is not folded
_WIDE = 8  # columns of a table that has a line for itself
_BROAD = 72  # letters, with 2 more a column for its margins, that half a line has room for
_WIDTH = 5.4  # inches of a figure: its words are readable on a phone and no giants on a screen
#: What would answer a question that always stands on the page.
_MISSING = {
    "good": "To learn it, add labels and what the model answered.",
    "trust": "To learn it, add probabilities, logits or a confidence between 0 and 1.",
    "when": "To learn it, add probabilities, logits or a confidence.",
    "there": "To learn it, add rows from where it would be used (part = user) and labeled rows "
    "that the estimate learns from (part = holdout).",
}
#: What an array is to whoever has to add it.
_ARRAYS = {
    "holdout_logits": "labeled rows of a held-out set (part = holdout)",
    "holdout_labels": "their labels",
    "test_logits": "probabilities or logits of the test rows",
    "test_labels": "labels of the test rows",
    "user_logits": "rows from where the model would be used (part = user)",
    "member_scores": "scores of a membership attack on points trained on (part = member)",
    "nonmember_scores": "and on points that were not (part = nonmember)",
    "test_abstained": "a column 'abstained' that says where the model gave no answer",
    "test_features": "what abstaining depends on (feature_0, ...), or its probability (propensity)",
    "other_logits": "the other model's probabilities or logits (other_logit_0, ...)",
    "other_abstained": "where it gave no answer ('other_abstained')",
}


def single_page(
    analyses: Mapping[str, Analysis],
    overview: pd.DataFrame,
    settings: Settings,
    facts: Mapping[str, str],
    reading: tuple[str, ...] = (),
) -> str:
    """A report as HTML with its figures inside; whatever came from the user's file is escaped."""
    title = f"Report on {Path(facts['File']).name}"
    parts = [
        f"<header><h1>{escape(title)}</h1>",
        _facts(facts, reading),
        "</header>\n<main>",
        _cards(verdicts(analyses, settings), analyses),
        *(_section(analyses[name]) for name in ANALYSES if name in analyses),
        _skipped(overview),
        "<h2>Settings</h2><details><summary>Levels, margin, target and seed</summary>"
        + _table(pd.DataFrame(vars(settings).items(), columns=["name", "value"]))
        + "</details>",
        "</main>",
    ]
    body = "\n".join(part for part in parts if part)
    style = (Path(__file__).parent / "single_page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{style}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _facts(facts: Mapping[str, str], reading: tuple[str, ...]) -> str:
    """What the page is about, and what was taken for what."""
    pairs = ""
    for name, text in facts.items():
        shown = escape(text)
        if name == "Command":  # broken between its words, and not at a hyphen
            shown = " ".join(f"<span>{word}</span>" for word in shown.split(" "))
        kind = name.lower().replace(" ", "-")
        pairs += f'<div class="{escape(kind)}"><dt>{escape(name)}</dt><dd>{shown}</dd></div>'
    if not reading:
        return f'<div class="about"><dl>{pairs}</dl></div>'
    lines = "".join(f"<li>{escape(_sentence(text))}</li>" for text in reading)
    read = f'<div class="read"><p>What was taken for what</p><ul>{lines}</ul></div>'
    return f'<div class="about both"><dl>{pairs}</dl>{read}</div>'


def _cards(found: list[Verdict], analyses: Mapping[str, Analysis]) -> str:
    """The first screen: each question with its answer."""
    answers = {one.name: one for one in found}
    cards = []
    for name, (question, source) in QUESTIONS.items():
        one = answers.get(name)
        if one is None and name not in ALWAYS:
            continue
        if one is None:
            one = Verdict(name, "open", "NOT KNOWN", _MISSING[name])
        more, place = "", "skipped"
        if source in analyses:
            place, count = source, len(analyses[source].warnings)
            notes = f" and {count} note{'s' * (count != 1)}" if count and name != "trust" else ""
            more = f'<p class="more"><a href="#{place}">Details{notes}</a></p>'
        cards.append(
            f'<section class="card {one.light}"><h3>{escape(question)}</h3>'
            f'<p class="word"><span aria-hidden="true">{SIGNS[one.light]}</span> '
            f"{escape(one.word)}</p>{one.picture}<p>{escape(one.text)}</p>{more}</section>"
        )
    return f'<h2 class="quiet">In short</h2><div class="cards">{"".join(cards)}</div>'


def _section(found: Analysis) -> str:
    """Verdict first, then figures beside what to note and the first table; others below."""
    figures = "".join(_figure(name, drawing) for name, drawing in found.drawings.items())
    beside = ""
    for title, texts in (("To note", found.warnings), ("What to collect next", found.next_steps)):
        if texts:
            lines = "".join(f"<li>{escape(_sentence(text))}</li>" for text in texts)
            beside += f"<h3>{title}</h3><ul>{lines}</ul>"
    tables = [
        _folded(name, found.captions[name], table, place == 0)
        for place, (name, table) in enumerate(found.tables.items())
    ]
    return (
        f'<section><h2 id="{found.name}">{escape(found.title)}</h2>'
        f'<p class="verdict">{escape(found.verdict)}</p>'
        f'<div class="details">{figures}<div>{beside}{"".join(tables[:1])}</div></div>'
        f'<div class="tables">{"".join(tables[1:])}</div></section>'
    )


def _folded(name: str, caption: str, table: pd.DataFrame, first: bool) -> str:
    """A table under its caption; the first one, and what every reader looks for, is unfolded."""
    wanted = first or name in (
        *("quality_classes", "quality_confusion", "selective_groups", "comparison"),
    )
    small = max(len(table), len(table.columns)) <= _OPEN
    shaded = name.endswith("_confusion")
    wide = ' class="wide"' * (len(table.columns) > _WIDE or _letters(table, shaded) > _BROAD)
    return (
        f"<details{wide}{' open' * (wanted and small)}><summary>{escape(caption)}</summary>"
        f"{_table(table, shaded)}</details>"
    )


def _head(name: Any, shaded: bool) -> str:
    """A column's name in words; that of a class stays as it is."""
    return str(name) if shaded else str(name).replace("_", " ")


def _letters(table: pd.DataFrame, shaded: bool) -> int:
    """How wide a table is, whose heads are broken between words, and its cells hardly."""
    widths = []
    for name in table:
        head = max(map(len, _head(name, shaded).split(" ")))
        cells = [len(_cell(value)) for value in table[name].head(_ROWS)]
        widths.append(2 + max(head, *cells, 0))
    return sum(widths)


def _sentence(text: str) -> str:
    """A note as a sentence."""
    return text[:1].upper() + text[1:] + "." * (not text.endswith((".", "?", "!")))


def _skipped(overview: pd.DataFrame) -> str:
    """One folded table: what was not answered, and what would answer it."""
    rows = overview[~overview["possible"]]
    if rows.empty:
        return ""
    asked = {source: question for question, source in reversed(QUESTIONS.values())}
    lines = []
    for row in rows.itertuples():
        text = _sentence(row.reason)
        if row.missing:
            names = [name.split(" ")[0] for name in row.missing.split(", ")]  # without "(or ...)"
            text = "; ".join(_ARRAYS.get(name, name) for name in names)
            text = f"Add {text}."
        lines.append((asked[row.analysis], text, ANALYSES[row.analysis]))
    one = len(lines) == 1
    said = f"{len(lines)} {'analysis was' if one else 'analyses were'} skipped"
    told = _table(pd.DataFrame(lines, columns=["To learn", "Do this", "Analysis"]))
    return (
        f'<h2 id="skipped">What this file does not tell</h2><details><summary>{said}: what would '
        f"allow {'it' if one else 'them'}</summary>{told}</details>"
    )


def _figure(name: str, drawing: Drawing) -> str:
    figure = drawing.draw()
    figure.set_size_inches(_WIDTH, figure.get_size_inches()[1])
    svg = base64.b64encode(svg_bytes(figure, f"report.{name}", drawing.alt)).decode()
    return (
        f'<figure><img src="data:image/svg+xml;base64,{svg}" alt="{escape(drawing.alt)}">'
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
    )


def _table(table: pd.DataFrame, shaded: bool = False) -> str:
    """A table as it is; `shaded` are counts by row, the darker the larger a part of its row."""
    head = ""
    for place, name in enumerate(table):
        kind = ' class="number"' * _of_numbers(table[name], place > 0)
        head += f"<th{kind}>{escape(_head(name, shaded))}</th>"
    lines = []
    for row in table.head(_ROWS).itertuples(index=False):
        total = sum(row[1:]) if shaded else 0
        cells = []
        for place, value in enumerate(row):
            kind = ' class="number"' * _is_number(value, place > 0)
            if shaded and place and value:
                part = round(45 * value / total)
                kind += f' style="--part: {part}%"'
            cells.append(f"<td{kind}>{escape(_cell(value))}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    more = f"<p>The first {_ROWS} of {len(table):,} rows.</p>" if len(table) > _ROWS else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="table" tabindex="0"><table>{body}</table></div>{more}'


def _is_number(value: Any, written: bool) -> bool:
    """Whether a cell is a number, which p-values are also where they are `written` out."""
    if isinstance(value, str):
        return written and _WRITTEN.fullmatch(value) is not None
    return isinstance(value, Number) and not isinstance(value, bool | np.bool_)


def _of_numbers(column: pd.Series, written: bool) -> bool:
    return len(column) > 0 and all(_is_number(value, written) for value in column)


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "" if math.isnan(value) else _number(float(value))
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _number(value: float) -> str:
    if math.isfinite(value) and value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"
