"""Figures of the page "How the models are trained"."""

import pandas as pd

from lib.plot import COLOURS, new_figure
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, percent


@draws("training", "spending")
def draw_spending(run: Run) -> Drawn:
    """Draw epsilon over the steps of a training, by both accountants."""
    table = run.tables["spending"]
    figure, ax = new_figure(height=2.6)
    steps, middle = table["steps"], len(table) // 2
    ax.fill_between(steps, table["pld"], table["rdp"], color=COLOURS[0], alpha=0.12, linewidth=0)
    lower = "rdp" if table["rdp"].iloc[middle] < table["pld"].iloc[middle] else "pld"
    for name, word, colour in (
        ("rdp", "RDP, P1's accountant", COLOURS[0]),
        ("pld", "PLD, nearly exact", COLOURS[1]),
    ):
        ax.plot(steps, table[name], color=colour, marker="")
        side = ((6, -3), "left", "top") if name == lower else ((-6, 3), "right", "bottom")
        beside = dict(zip(("xytext", "ha", "va"), side, strict=True))
        at = steps.iloc[middle], table[name].iloc[middle]
        ax.annotate(word, at, textcoords="offset points", color=colour, fontsize=9, **beside)
    head(ax, spending_headline(table))
    ax.set_xlabel("steps of training")
    ax.set_ylabel("epsilon spent, at most")
    ax.set_ylim(bottom=0)
    return Drawn(
        figure,
        "Two lines rise with the steps of training: the bounds on epsilon by RDP and by PLD, and "
        "a shaded band between them.",
        "One training on the handwritten digits. The band is what RDP overstates.",
    )


def spending_headline(table: pd.DataFrame) -> str:
    """How much more RDP counts than PLD at the end of the training, in words."""
    steps, rdp, pld = table.iloc[-1][["steps", "rdp", "pld"]]
    said = f"After {steps:,.0f} steps RDP counts an epsilon of {rdp:.2f},\n"
    if abs(rdp / pld - 1) < 0.005:
        return f"{said}and so does PLD"
    if rdp < pld:
        return f"{said}less than PLD's {pld:.2f}"
    return f"{said}{percent(rdp / pld - 1)} more than PLD's {pld:.2f}"
