"""Small pictures beside verdicts: SVG in the ink of the page, for light, dark and paper."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import pandas as pd

_WIDTH, _LEFT, _RIGHT = 260, 8, 252  # units of a picture, about pixels
_ROW = 27


class Strip(NamedTuple):
    """A value with its interval, on a line of its own; without an interval the ends are equal."""

    label: str
    value: float | None
    low: float
    high: float


def intervals(
    strips: Sequence[Strip],
    alt: str,
    ends: tuple[float, float],
    mark: float | None = None,
    form: str = ".0%",
) -> str:
    """Intervals below each other on one scale, with a line at `mark`."""
    bottom = _ROW * len(strips) + 6
    parts = [
        _line(_LEFT, bottom, _RIGHT, bottom, "axis"),
        _text(_LEFT, bottom + 13, format(ends[0], form), "small"),
        _text(_RIGHT, bottom + 13, format(ends[1], form), "small end"),
    ]
    if mark is not None:
        x = _at(mark, ends)
        parts.append(_line(x, 14, x, bottom, "mark"))
        if ends[0] < mark < ends[1]:
            parts.append(_text(x, bottom + 13, f"{mark:g}", "small middle"))
    for place, one in enumerate(strips):
        y = _ROW * place + 21
        parts.append(_text(_LEFT, y - 9, one.label, "label"))
        if one.high > one.low:
            parts.append(_line(_at(one.low, ends), y, _at(one.high, ends), y, "reach"))
        if one.value is not None:
            parts.append(f'<circle class="dot" cx="{_at(one.value, ends):.1f}" cy="{y}" r="4"/>')
    return _picture(parts, bottom + 17, alt)


def reliability(bins: pd.DataFrame, alt: str) -> str:
    """Accuracy by confidence, with intervals, and the diagonal; both from 0 to 1."""
    left, top, bottom = 26, 6, 76

    def across(value: float) -> float:
        return left + value * (_RIGHT - left)

    def up(value: float) -> float:
        return bottom - value * (bottom - top)

    parts = [
        _line(left, bottom, _RIGHT, bottom, "axis"),
        _line(left, top, left, bottom, "axis"),
        _line(across(0), up(0), across(1), up(1), "mark"),
        _text(left - 4, up(1) + 6, "1", "small end"),
        _text(left - 4, up(0), "0", "small end"),
        _text(across(0.5), bottom + 13, "confidence", "small middle"),
        _text(_RIGHT, bottom + 13, "1", "small end"),
        _text(left + 5, top + 8, "accuracy", "small"),
    ]
    for one in bins.itertuples():
        x = across(one.confidence)
        parts.append(_line(x, up(one.low), x, up(one.high), "reach thin"))
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{up(one.accuracy):.1f}" r="3.2"/>')
    return _picture(parts, bottom + 17, alt)


def part(share: float, told: str, rest: str, alt: str) -> str:
    """A bar of which a part is filled."""
    end = _LEFT + share * (_RIGHT - _LEFT)
    full = f'x="{_LEFT}" y="10" width="{_RIGHT - _LEFT}" height="22" rx="3"'
    parts = [
        f'<rect class="rest" {full}/>',
        f'<rect class="full" {full.replace(str(_RIGHT - _LEFT), f"{end - _LEFT:.1f}", 1)}/>',
        _text(_LEFT, 46, told, "label"),
        _text(_RIGHT, 46, rest, "label end"),
    ]
    return _picture(parts, 52, alt)


def _at(value: float, ends: tuple[float, float]) -> float:
    share = (value - ends[0]) / (ends[1] - ends[0])
    return _LEFT + min(max(share, 0.0), 1.0) * (_RIGHT - _LEFT)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _picture(parts: list[str], height: int, alt: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(alt)}">'
        + "".join(parts)
        + "</svg>"
    )
