"""Figures that are drawn from what a run records, so that its record can be drawn anew.

Training takes hours, a new layout seconds: what such a figure shows stands in the tables and values
of its run, in other records of the chapter or in the paper, and nowhere else. ``python -m lib.book
redraw`` draws those of all records.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run(NamedTuple):
    """What a figure may be drawn from: a run's tables, values and parameters, by name.

    A table is the one of its CSV file, with all digits. What was used in place of a parameter, such
    as other data, stands for it. `reported` has what a paper prints, value and standard deviation
    by claim, and `recorded` the recorded runs of the chapter, the largest first.
    """

    tables: Mapping[str, pd.DataFrame]
    values: Mapping[str, Any]
    parameters: Mapping[str, Any]
    reported: Mapping[str, tuple[float, float]] = {}
    recorded: Sequence["Run"] = ()


class Drawn(NamedTuple):
    """A figure, alternative text for those who cannot see it, and its caption."""

    figure: "Figure"
    alt: str
    caption: str


Draw = Callable[[Run], Drawn]

#: What draws a figure, by chapter and the figure's name, of the studies that are imported.
FIGURES: dict[tuple[str, str], Draw] = {}


def draws(chapter: str, name: str) -> Callable[[Draw], Draw]:
    """Say which figure of which chapter a function draws."""

    def note(draw: Draw) -> Draw:
        FIGURES[chapter, name] = draw
        return draw

    return note


def figure_name(draw: Draw) -> str:
    """The name on its page of the figure that a function draws."""
    return next(name for (_, name), known in FIGURES.items() if known is draw)


def read_tables(texts: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """Tables from their CSV."""
    return {name: pd.read_csv(io.StringIO(text)) for name, text in texts.items()}
