"""Figures of the page on P1's outlier, and the tables that they are drawn from."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.plot import COLOURS, new_figure
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, percent
from lib.studies.interplay.outlier import OutlierStudy

#: Models of each budget that a figure shows, from the least to the most confident.
SHOWN = 100
#: The most of the majority's points that lie within so many standard deviations of its middle.
_RADII = {0.5: math.sqrt(2 * math.log(2)), 0.99: math.sqrt(2 * math.log(100))}


def confidences(study: OutlierStudy) -> pd.DataFrame:
    """Sorted confidences in the wrong class by budget: of all models, evenly spaced ones."""
    rows = []
    for epsilon, values in zip(study.epsilons, np.sort(study.wrong_confidence), strict=True):
        kept = np.unique(np.linspace(0, len(values) - 1, SHOWN).round().astype(int))
        places = kept / max(len(values) - 1, 1)
        rows += [(epsilon, *each) for each in zip(places, values[kept], strict=True)]
    return pd.DataFrame(rows, columns=["epsilon", "place", "confidence"])


def quantiles(sorted_models: pd.DataFrame) -> pd.DataFrame:
    """Quantiles of the confidences by budget, a column each."""
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    found = sorted_models.groupby("epsilon", sort=False)["confidence"].quantile(levels)
    return found.unstack().rename(columns="{:.0%}".format).rename_axis(columns=None).reset_index()


def boundaries(study: OutlierStudy) -> pd.DataFrame:
    """The first repetition: each model's boundary, w1 x1 + w2 x2 + b = 0, and the outlier."""
    rows = zip(study.epsilons, study.weights, strict=True)
    outlier = study.points[-1].tolist()
    columns = ["epsilon", "w1", "w2", "b", "outlier x1", "outlier x2"]
    return pd.DataFrame([(e, *w.tolist(), *outlier) for e, w in rows], columns=columns)


def _budget_words(epsilons: Sequence[float]) -> list[str]:
    return ["no privacy" if math.isinf(e) else rf"$\epsilon = {e:g}$" for e in epsilons]


@draws("outlier", "boundaries")
def draw_boundaries(run: Run) -> Drawn:
    """Draw where the majority lies, the outlier, and every model's boundary (P1, Figure 1)."""
    table = run.tables["boundaries"]
    figure, ax = new_figure(height=2.6)
    turn = np.linspace(0, 2 * math.pi, 100)
    for radius in _RADII.values():
        ax.fill(radius * np.cos(turn), radius * np.sin(turn), color="0.5", alpha=0.25, lw=0)
    said = {"ha": "center", "va": "center", "fontsize": 9}
    ax.annotate("majority", (0, 0), **said)
    outlier = table.loc[0, ["outlier x1", "outlier x2"]].to_numpy(dtype=float)
    ax.plot(*outlier, "X", ms=8, color=COLOURS[1])
    beside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
    ax.annotate("outlier", outlier, color=COLOURS[1], **beside)
    low, high = -5.0, 5.0
    y = np.array([low, high])
    for row, line, color in zip(table.itertuples(), _LINES, _COLORS, strict=False):
        if abs(row.w1) > 1e-9:
            ax.plot(-(row.w2 * y + row.b) / row.w1, y, line, color=color, marker="", lw=1.4)
    ax.set_xlim(-5, 15)
    ax.set_ylim(low, high)
    ax.set_xlabel("first feature")
    ax.set_ylabel("second feature")
    words = dict(zip(_budget_words(table["epsilon"]), _COLORS, strict=False))
    head(ax, boundaries_headline(table), words)
    return Drawn(
        figure,
        "A cloud around the origin, an outlier to the right, and a boundary for each budget.",
        "As P1's Figure 1, first repetition. Gray: where half of the majority lies, and 99% of it. "
        "A model is right about the outlier where that lies on the other side of its boundary.",
    )


_LINES = ("-", "--", "-.", ":")
_COLORS = (COLOURS[0], COLOURS[2], COLOURS[3], COLOURS[6])


def boundaries_headline(table: pd.DataFrame) -> str:
    """How many private models of a repetition are wrong about the outlier, and the other one."""
    given = table["w1"] * table["outlier x1"] + table["w2"] * table["outlier x2"] + table["b"]
    private = np.isfinite(table["epsilon"])
    wrong = int((given[private] <= 0).sum())
    said = f"About the outlier {wrong} of {private.sum()} private models\nare wrong"
    if private.all():
        return said
    alone = "is, too" if (given[~private] <= 0).any() else "is not"
    return f"{said}; the one without privacy {alone}"


@draws("outlier", "wrong_confidence")
def draw_wrong_confidence(run: Run) -> Drawn:
    """Draw the distribution over seeds of the confidence in the wrong class, by budget."""
    means, shown = run.tables["outlier"].set_index("epsilon"), run.tables["confidences"]
    figure, ax = new_figure(height=2.6)
    for i, (epsilon, rows) in enumerate(shown.groupby("epsilon", sort=False)):
        x, y = i + 0.56 * (rows["place"] - 0.5), rows["confidence"]
        for side, marker, colour in ((y < 0.5, "o", COLOURS[0]), (y >= 0.5, "s", COLOURS[1])):
            ax.plot(x[side], y[side], marker, color=colour, markersize=2.5)
        mean = means.loc[epsilon, "wrong confidence"]
        ax.plot([i - 0.33, i + 0.33], 2 * [mean], color="0.4", linewidth=1, marker="")
    ax.axhline(0.5, color="0.5", linestyle=":", marker="")
    words = {"right": COLOURS[0], "wrong": COLOURS[1], "— mean": "0.4"}
    head(ax, outlier_headline(run.tables["outlier"]), words)
    ax.set_xticks(range(len(means)), _budget_words(means.index))
    ax.set_ylabel("confidence in wrong class")
    ax.set_ylim(-0.03, 1.03)
    return Drawn(
        figure,
        "Sorted dots for each budget, one a model: confidence in the wrong class from 0 to 1. Blue "
        "dots below a half are right, orange ones above it are wrong; bars are means.",
        f"Of {run.parameters['repetitions']:,} models at each budget {SHOWN} at most, sorted by "
        "their confidence in the wrong class. Above the dotted line a model chooses it.",
    )


def outlier_headline(table: pd.DataFrame) -> str:
    """How many models are wrong about the outlier, with privacy and without, in words."""
    wrong, private = table["outlier misclassified"], np.isfinite(table["epsilon"])
    said = []
    for which, kind in ((private, "with privacy"), (~private, "without")):
        if which.any():
            ends = dict.fromkeys(map(percent, (wrong[which].min(), wrong[which].max())))
            said.append(f"{' to '.join(ends)} {kind}")
    return "Models wrong about the outlier:\n" + ", ".join(said)
