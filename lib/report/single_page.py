"""A report as one HTML file that can be handed on: no other file, no script, no network."""

import base64
import math
from html import escape

import pandas as pd

from lib.plot import svg_bytes
from lib.report.types import ANALYSES, Analysis, Drawing, Settings

_ROWS = 200  # of a table; the folder of an export has all
_STYLE = """
:root {color-scheme: light dark}
body {font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem}
h1 {font-size: 1.6rem} h2 {font-size: 1.25rem; margin-top: 2.5rem}
table {border-collapse: collapse; display: block; overflow-x: auto; font-size: .85rem}
th, td {padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #8886}
.verdict {border-left: .3rem solid #0072b2; padding: .5rem .9rem; background: #0072b214}
.skipped {border-color: #8888; background: #8881}
img {max-width: 100%; background: white; border-radius: .3rem}
figure {margin: 1.2rem 0} figcaption, summary {font-size: .9rem}
@media print {details::details-content {content-visibility: visible}}
"""


def single_page(
    analyses: dict[str, Analysis],
    skipped: dict[str, str],
    steps: pd.DataFrame,
    settings: Settings,
    source: str,
    reading: tuple[str, ...] = (),
) -> str:
    """A report as HTML with its figures inside; whatever came from the user's file is escaped."""
    title = f"Report on {source or 'predictions'}"
    links = [
        f'<tr><td><a href="#{name}">{escape(text)}</a></td>'
        f"<td>{'done' if name in analyses else 'skipped: ' + escape(skipped[name])}</td></tr>"
        for name, text in ANALYSES.items()
    ]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in reading)}</ul>" if reading else "",
        f"<table><tr><th>analysis</th><th></th></tr>{''.join(links)}</table>",
        *(_section(analyses[name]) for name in ANALYSES if name in analyses),
        *(
            f'<h2 id="{name}">{escape(ANALYSES[name])}</h2>'
            f'<p class="verdict skipped">Skipped. {escape(reason)}</p>'
            for name, reason in skipped.items()
        ),
        "<h2>What to collect next</h2>" + _table(steps) if len(steps) else "",
        "<h2>Settings</h2>"
        + _table(pd.DataFrame(vars(settings).items(), columns=["name", "value"])),
    ]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _section(found: Analysis) -> str:
    """Verdict and notes first, then figures; tables are folded."""
    notes = "".join(f"<li>{escape(text)}</li>" for text in found.warnings)
    tables = [
        f"<details><summary>{escape(found.captions[name])}</summary>{_table(table)}</details>"
        for name, table in found.tables.items()
    ]
    return (
        f'<h2 id="{found.name}">{escape(found.title)}</h2>'
        f'<p class="verdict">{escape(found.verdict)}</p>'
        + (f"<ul>{notes}</ul>" if notes else "")
        + "".join(_figure(name, drawing) for name, drawing in found.drawings.items())
        + "".join(tables)
    )


def _figure(name: str, drawing: Drawing) -> str:
    svg = base64.b64encode(svg_bytes(drawing.draw(), f"report.{name}", drawing.alt)).decode()
    return (
        f'<figure><img src="data:image/svg+xml;base64,{svg}" alt="{escape(drawing.alt)}">'
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
    )


def _table(table: pd.DataFrame) -> str:
    shown = table.head(_ROWS).to_html(index=False, border=0, na_rep="", float_format=_number)
    more = f"<p>The first {_ROWS} of {len(table):,} rows.</p>" if len(table) > _ROWS else ""
    return shown + more


def _number(value: float) -> str:
    if math.isfinite(value) and value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"
