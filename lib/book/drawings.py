"""Drawings made for the book by hand: SVG that a page holds itself, in the colors of its theme.

They lie in ``drawings/``. One that has a second file, ``NAME-narrow.svg``, is a diagram with a
caption: its column decides which of the two is shown. What it says is in its title and description.
"""

import html
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "drawings"


def drawing_html(name: str) -> str:
    """HTML of a drawing; the classes of its lines are those of ``companion.css``."""
    wide = _read(name)
    if not (FOLDER / f"{name}-narrow.svg").is_file():
        return f"<div class='companion-drawing'>{_shown(wide, 'small')}</div>"
    narrow = _read(f"{name}-narrow")
    return (
        f"<figure class='companion-figure companion-drawing' id='figure-{name}'>"
        f"{_shown(wide, 'wide')}{_shown(narrow, 'narrow')}"
        f"<figcaption>{_said('title', wide)}.</figcaption></figure>"
    )


def drawing_text(name: str) -> str:
    """What a drawing says, for who does not see it: its title and its description."""
    svg = _read(name)
    return html.unescape(f"{_said('title', svg)}: {_said('desc', svg)}")


def _read(name: str) -> str:
    path = FOLDER / f"{name}.svg"
    if not re.fullmatch(r"[\w-]+", name) or not path.is_file():
        known = ", ".join(sorted(each.stem for each in FOLDER.glob("*.svg")))
        raise ValueError(f"no drawing {name!r}; known are {known}")
    return path.read_text(encoding="utf-8")


def _shown(svg: str, kind: str) -> str:
    """The SVG on one line, with a class: a blank line would end it for who reads it as prose."""
    return " ".join(svg.split()).replace("<svg ", f"<svg class='{kind}' ", 1)


def _said(tag: str, svg: str) -> str:
    return re.search(rf"<{tag} [^>]*>(.*?)</{tag}>", svg, re.DOTALL)[1]
