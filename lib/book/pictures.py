"""Pictures of a paper's table: every printed number beside ours, for those who would rather look.

Drawn when a page is made, since a recorded run has the numbers and no such picture.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.book.claims import Claim
from lib.book.words import name_text
from lib.plot import COLOURS, MARKERS, new_figure, plain_log, side_by_side, style
from lib.studies.headed import head, head_rows, words_above

#: What claims call their rows and columns, as the pages write it.
_WORDS = {"ipw": "IPW", "dr": "doubly robust", "fpr": "false positive rate"}
_WORDS |= {"roc_auc": "ROC AUC", "pr_auc": "PR AUC"}
_NEAR = 0.05  # of a printed number
_PAPER, _OURS = {"marker": "D", "color": "0.45"}, {"marker": "o", "color": COLOURS[0]}


def draw_cells(claims: Sequence[Claim], found: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Draw the cells of a group as its claims ask for: a word of `lib.book.claims.PICTURES`.

    The place of a cell, "Table 1, SVHN, SR, epsilon = 7", says where it stands: the first part in
    which cells differ names the plot, the rest the row (and the column or the end). A plot of
    which there is no number of ours is left out; without any there is no figure.
    """
    if not claims[0].picture:
        return None
    cells = _cells(claims, found)
    kept = cells.groupby("panel", sort=False)["ours"].transform(lambda ours: ours.notna().any())
    cells = cells[kept.astype(bool)]
    if cells.empty:
        return None
    panels = list(cells.groupby("panel", sort=False))
    if claims[0].picture == "slopes":
        return _slopes(dict(panels), claims[0].axis)
    diagonal = claims[0].picture == "diagonal"
    rows = max(of["row"].nunique() for _, of in panels)
    height = 3.0 if diagonal else max(0.9 + 0.24 * rows, 2 / len(panels))
    figure, axes = new_figure(len(panels), height=height, squeeze=False, sharex=True)
    words = {"\u25c6 paper": _PAPER["color"], "\u25cf ours": COLOURS[0]}
    if diagonal:
        names = list(cells["last"].unique())
        words = {_WORDS.get(name, name): COLOURS[i] for i, name in enumerate(names)}
        draw = partial(_diagonal, names=names)
    else:
        draw = _DRAW[claims[0].picture]
    with style():
        for ax, (panel, of) in zip(axes[:, 0], panels, strict=True):
            draw(ax, of)
            # In the line of the words, but for a corner that the diagonal leaves free.
            place = {"xy": (1, 0.03 if diagonal else 1.03), "xycoords": "axes fraction"}
            ax.annotate(name_text(panel), **place, ha="right", va="bottom", fontsize=9)
        words_above(axes[0, 0], words)
        head_rows(figure, _differences(cells))  # names of rows may be long
        axes[-1, 0].set_xlabel(claims[0].axis, loc="right")  # long ones fit, too
        side_by_side(figure, axes[:, 0], 2)
    return figure


def _cells(claims: Sequence[Claim], found: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A row per cell: plot, row and last part of its place, values of the paper and of ours."""
    parts = [claim.place.split(", ") for claim in claims]
    common = next(i for i, of in enumerate(zip(*parts, strict=False)) if len(set(of)) > 1)
    last = claims[0].picture != "dots"
    rows = []
    for claim, part in zip(claims, parts, strict=True):
        verdict = found[claim.id]
        shown, value = verdict.get("shown"), verdict["value"]
        inner = part[common + 1 : len(part) - last]
        low, high = (verdict.get("interval") if shown in (None, value) else None) or (None, None)
        rows.append(
            {
                "panel": part[common],
                "row": ", ".join(inner),
                "last": part[-1],
                "paper": claim.reported,
                "reach": claim.reach,
                "ours": value if shown is None else shown,
                "low": low,
                "high": high,
            }
        )
    numbers = ["paper", "ours", "low", "high"]
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))


def _differences(cells: pd.DataFrame) -> str:
    """How many of the numbers come out, and the largest difference, in words."""
    off = (cells["ours"] - cells["paper"]).abs().dropna()
    near = f"{(off <= _NEAR).sum()} of {len(off)} numbers come out within {_NEAR:g}"
    most = "under 0.005" if off.max() < 0.005 else f"{off.max():.2f}"
    return f"{near};\nthe largest difference is {most}"


def _dots(ax: Axes, cells: pd.DataFrame) -> None:
    at = np.arange(len(cells))
    ends = cells["paper"] - cells["reach"], cells["paper"] + cells["reach"]
    ax.hlines(at, *ends, color=_PAPER["color"], linewidth=4, alpha=0.4)
    ax.hlines(at, cells["low"], cells["high"], color=COLOURS[0], linewidth=1.2)
    ax.plot(cells["paper"], at, linestyle="", label="paper", markerfacecolor="none", **_PAPER)
    ax.plot(cells["ours"], at, linestyle="", label="ours", **_OURS)
    _rows(ax, cells["row"])


def _slopes(panels: Mapping[str, pd.DataFrame], axis: str) -> Figure:
    """A line a row over the last parts, "epsilon = 7": the paper's beside ours, on one scale."""
    from lib.studies.interplay.figures import looks_of, steps_headline  # those of the same page

    height = 1.9 + 0.7 / len(panels)  # two lines of words have no place among the plots
    figure, axes = new_figure(len(panels), 2, height=height, squeeze=False, sharex=True)
    looks = looks_of(dict.fromkeys(row for cells in panels.values() for row in cells["row"]))
    steps = {whose: _steps(panels.values(), whose) for whose in ("paper", "ours")}
    falls = (steps["paper"] < 0).mean() > 0.5
    words = {word: look["color"] for word, look in looks.values()}
    with style():
        head(axes[0, 0], steps_headline(steps["paper"], steps["ours"], axis), words, lines=2)
        for text in axes[0, 0].texts:
            text.set_in_layout(False)  # words reach over the plot beside it
        for (panel, cells), pair in zip(panels.items(), axes, strict=True):
            for whose, ax in zip(("paper", "ours"), pair, strict=True):
                _slope(ax, cells, whose, looks)
                place = {"xy": (0.03 if falls else 0.97, 0.04), "xycoords": "axes fraction"}
                side = "left" if falls else "right"
                ax.annotate(f"{name_text(panel)}, {whose}", **place, ha=side, fontsize=9)
            values = cells[["paper", "ours"]].to_numpy()
            if 0 < 10 * np.nanmin(values) < np.nanmax(values) < 0.5:  # not one of large fractions
                for ax in pair:
                    ax.set_yscale("log")
                    plain_log(ax.yaxis, (1, 3))
            _one_scale(pair)
        figure.supylabel(axis, fontsize="medium")
        free = any("inf" in last for cells in panels.values() for last in cells["last"])
        said = r"budget $\epsilon$" + r" ($\infty$: no privacy)" * free
        figure.supxlabel(said, fontsize="medium")
    side_by_side(figure, axes.T.ravel(), max(2, len(panels)))
    return figure


def _steps(panels: Iterable[pd.DataFrame], whose: str) -> npt.NDArray:
    """Changes of all rows from each of the last parts to the next, where there are numbers."""
    steps = np.concatenate(
        [np.diff(of[whose]) for cells in panels for _, of in cells.groupby("row", sort=False)]
    )
    return steps[np.isfinite(steps)]


def _slope(ax: Axes, cells: pd.DataFrame, whose: str, looks: Mapping[str, Any]) -> None:
    """One plot of the slopes; intervals are thin and end where the values may."""
    budgets = list(dict.fromkeys(cells["last"]))
    for i, (row, of) in enumerate(cells.groupby("row", sort=False)):
        of = of.set_index("last").loc[budgets]
        at = np.arange(len(budgets)) + 0.05 * i
        reach = of["reach"]
        ends = (of["low"], of["high"])
        if whose == "paper":
            ends = (of["paper"] - reach).where(reach > 0), (of["paper"] + reach).where(reach > 0)
        ends = [each.clip(0, 1) for each in ends]  # of areas and coverages
        look = looks[row][1]
        ax.vlines(at, *ends, color=look["color"], linewidth=0.8, alpha=0.6)
        ax.plot(at, of[whose], label=row, lw=1.2, ms=4, ls="-", **look)
    names = [name.removeprefix("epsilon = ").replace("inf", r"$\infty$") for name in budgets]
    ax.set_xticks(np.arange(len(budgets)), names)


def _one_scale(pair: Sequence[Axes]) -> None:
    """Both of a pair with the limits that hold the values of both, intervals left out."""
    lines = [line.get_ydata() for ax in pair for line in ax.lines]
    values = np.concatenate(lines).astype(float)
    low, high = np.nanmin(values), np.nanmax(values)
    if pair[0].get_yscale() == "log":
        limits = (low / 1.3, high * 1.3)
    else:
        limits = (low - 0.05 * (high - low), high + 0.05 * (high - low))
    for ax in pair:
        ax.set_ylim(limits)


def _intervals(ax: Axes, cells: pd.DataFrame) -> None:
    ends = cells.pivot(index="row", columns="last", values=["paper", "ours"])
    ends = ends.loc[cells["row"].unique()]
    at = np.arange(len(ends))
    for name, looks, shift in (("paper", _PAPER, -0.15), ("ours", _OURS, 0.15)):
        low, high = (ends[name, f"{end} end"] for end in ("low", "high"))
        ax.hlines(at + shift, low, high, color=looks["color"], linewidth=2.5)
        ax.plot(low, at + shift, linestyle="", label=name, markersize=4, **looks)
        ax.plot(high, at + shift, linestyle="", markersize=4, **looks)
    _rows(ax, list(ends.index))


def _rows(ax: Axes, names: Sequence[str]) -> None:
    words = (("epsilon =", r"$\epsilon$ ="), ("= inf", r"= $\infty$"))
    for word, sign in words:
        names = [name.replace(word, sign) for name in names]
    ax.set_yticks(np.arange(len(names)), labels=[_WORDS.get(name, name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)


def _diagonal(ax: Axes, cells: pd.DataFrame, names: Sequence[str]) -> None:
    """Each number of ours above the printed one, from 0 to 1: what comes out is on the diagonal."""
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, marker="")
    for i, name in enumerate(names):
        of = cells[cells["last"] == name]
        looks = {"color": COLOURS[i], "marker": MARKERS[i], "fillstyle": "none", "linestyle": ""}
        ax.plot(of["paper"], of["ours"], markersize=5, label=name, **looks)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel="ours")


_DRAW: dict[str, Callable[[Axes, pd.DataFrame], None]] = {"dots": _dots, "intervals": _intervals}
