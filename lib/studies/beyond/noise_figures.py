"""Figures of the map of where SCTD wins."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from lib.plot import COLOURS, MARKERS, panels, plain_log
from lib.studies.beyond.noise_map import ahead, column_names
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head

#: Where the axis of differences is linear: these are differences that still matter.
LINEAR = 0.01

#: How regimes are drawn, the first ones.
_LINES = {"-": "solid", "--": "dashed", ":": "dotted", "-.": "dash-dotted"}


def _regimes(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    names = ["batch", "clipping norm", "momentum", "epochs"]
    return [
        (f"batch {b:g}, clipping norm {c:g}, momentum {m:g}, {e:g} epochs", rows)
        for (b, c, m, e), rows in table.groupby(names, sort=False)
    ]


def line_words(table: pd.DataFrame) -> list[tuple[str, str]]:
    """How the regimes are drawn, and what they are."""
    names = [name for name, _ in _regimes(table)]
    return list(zip(_LINES.values(), names, strict=False))


def plot_differences(
    table: pd.DataFrame, methods: Sequence[str], titles: Sequence[str], said: str
) -> Figure:
    """Draw the methods' difference from SR over the noise of all steps, one plot per method."""
    figure, axes = panels(len(methods), 2.1, sharey=True)
    epsilons = list(dict.fromkeys(table["epsilon"]))
    for ax, method, title in zip(axes, methods, titles, strict=True):
        for line, (_, of_regime) in zip(_LINES, _regimes(table), strict=False):
            for epsilon, rows in of_regime.groupby("epsilon", sort=False):
                i = epsilons.index(epsilon)
                low, high = rows[f"{method} low"], rows[f"{method} high"]
                ax.errorbar(
                    rows["all noise"],
                    rows[method],
                    yerr=[rows[method] - low, high - rows[method]],
                    color=COLOURS[i],
                    marker=MARKERS[i],
                    linestyle=line,
                    linewidth=1,
                    elinewidth=0.8,
                    markersize=4,
                )
        ax.axhline(0, color="0.4", linestyle=":", marker="")
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=LINEAR)
        ax.annotate(title, (0.03, 0.05), xycoords="axes fraction", fontsize=9)
        ax.set_ylabel("score minus SR's")
    plain_log(axes[-1].xaxis, (1, 3))
    ax.set_xlabel("noise of all training steps")
    head(axes[0], said, _budget_words(epsilons))
    return figure


def _budget_words(epsilons: Sequence[float]) -> dict[str, str]:
    return {
        rf"{mark} $\epsilon = {epsilon:g}$": color
        for epsilon, color, mark in zip(epsilons, COLOURS, "●■▲◆", strict=False)
    }


def noise_headline(table: pd.DataFrame) -> str:
    """How much noise there is at least where SCTD is ahead, and at most where SR is, in words."""
    winner = ahead(table)
    own, other = (table.loc[winner == who, "all noise"] for who in ("SCTD", "SR"))
    if own.empty or other.empty:
        return f"SCTD is nowhere {'ahead' if own.empty else 'behind'}"
    said = f"Where SCTD is ahead, noise is at least {own.min():.2g},"
    return f"{said}\nwhere SR is, at most {other.max():.2g}"


@draws("sctd_map", "differences")
def draw_differences(run: Run) -> Drawn:
    """Draw SCTD's difference from SR over the noise, with both ways to break ties."""
    table, parameters = recorded_map(run), run.parameters
    names = {"SCTD": "ties: expected over random orders", "SCTD, ties by SR": "ties broken by SR"}
    lines = "; ".join(f"{line}: {name}" for line, name in line_words(table))
    return Drawn(
        plot_differences(table, list(names), list(names.values()), noise_headline(table)),
        "Two plots of lines that fall from above zero to below as noise grows; each line is a "
        "regime and a budget.",
        f"SCTD's score minus SR's over the noise of all steps on {_source(parameters)}; the axis "
        f"is linear up to {LINEAR:g}; {lines}.",
    )


def average_headline(table: pd.DataFrame) -> str:
    """In how many settings the score of mean probabilities beats SR's, and SCTD's, in words."""
    found = {}
    for method in ("mean probabilities", "SCTD, ties by SR"):
        found[method] = int((table[f"{method} high"] < 0).sum())
    mean, dynamics = found.values()
    return (
        f"Mean probabilities beat SR in {mean} settings,\n"
        f"SCTD, ties broken by SR, in {dynamics} of {len(table)}"
    )


@draws("sctd_map", "averages")
def draw_averages(run: Run) -> Drawn:
    """Draw what SCTD and two averages of models change of SR's score, over the noise."""
    table = recorded_map(run)
    names = ["SCTD, ties by SR", "mean probabilities", "mean parameters"]
    figure = plot_differences(table, names, names, average_headline(table))
    lines = "; ".join(f"{line}: {name}" for line, name in line_words(table))
    return Drawn(
        figure,
        "Three plots over noise: the difference from SR of SCTD and of two kinds of averages.",
        "What SCTD, and SR of averages over the last quarter of the models, change of SR's score "
        f"on {_source(run.parameters)}; bars are 95% intervals; the axis is linear up to "
        f"{LINEAR:g}; {lines}.",
    )


def _source(parameters: Mapping[str, Any]) -> str:
    return f"{parameters['dataset']} ({parameters['model']})"


#: Who is ahead, and how a setting is then drawn.
_AHEAD = {"SCTD": (COLOURS[1], "s"), "SR": (COLOURS[0], "o"), "undecided": ("0.55", "D")}


def recorded_map(run: Run) -> pd.DataFrame:
    """The recorded table of all settings, with the names that its columns have in the code."""
    return run.tables["map"].rename(columns={said: name for name, said in column_names().items()})


def map_headline(table: pd.DataFrame) -> str:
    """In how many settings SCTD is ahead, and how accurate the best of these and of all are."""
    winner = ahead(table)
    own, all_own = table.loc[winner == "SCTD", "accuracy"], table["accuracy"]
    said = f"SCTD is ahead in {len(own)} of {len(table)} settings"
    best = f"\n(best accuracy {own.max():.2f}; of all, {all_own.max():.2f})" if len(own) else ""
    return said + best


@draws("sctd_map", "ahead")
def draw_ahead(run: Run) -> Drawn:
    """Draw SCTD's difference from SR, and the accuracy, over the noise: a point a setting."""
    table = recorded_map(run)
    winner = ahead(table)
    figure, (left, right) = panels(2, 2.1)
    for who, (color, marker) in _AHEAD.items():
        rows = table[winner == who]
        at, look = rows["all noise"], {"color": color, "marker": marker, "ls": "", "ms": 5}
        left.plot(at, rows["SCTD"], **look)
        left.vlines(at, rows["SCTD low"], rows["SCTD high"], color=color, lw=0.8)
        right.plot(at, rows["accuracy"], **look)
    left.axhline(0, color="0.4", linestyle=":", marker="")
    left.annotate("SCTD better", (0.03, 0.04), xycoords="axes fraction", fontsize=9)
    for ax in (left, right):
        ax.set_xscale("log")
        plain_log(ax.xaxis)
    left.set_ylabel("SCTD's score minus SR's")
    right.set_ylabel("accuracy")
    right.set_xlabel("noise of all training steps")
    colors = {who: color for who, (color, _) in _AHEAD.items() if (winner == who).any()}
    words = {who if who == "undecided" else f"{who} ahead": c for who, c in colors.items()}
    head(left, map_headline(table), words)
    return Drawn(
        figure,
        "Two plots over the noise of all training steps, a point a setting: SCTD's score minus "
        "SR's, with intervals, and the accuracy.",
        "SCTD (the model's changes of mind) against SR (softmax response) on the same models of "
        f"{_source(run.parameters)}: a point is a setting. Bars are 95% intervals.",
    )


def pairs_headline(table: pd.DataFrame) -> str:
    """In how many settings SCTD's mean score is the larger one, in words."""
    worse = int((table["SCTD"] > 0).sum())
    return f"SCTD's mean score is worse (arrow up)\nin {worse} of {len(table)} settings"


@draws("sctd_map", "pairs")
def draw_pairs(run: Run) -> Drawn:
    """Draw each setting's accuracy and score: an arrow from SR to SCTD, one plot per regime."""
    table = recorded_map(run)
    regimes = _regimes(table)
    figure, axes = panels(len(regimes), 2.7, sharey=True)
    epsilons = list(dict.fromkeys(table["epsilon"]))
    for ax, (title, of_regime) in zip(axes, regimes, strict=True):
        for epsilon, rows in of_regime.groupby("epsilon", sort=False):
            i = epsilons.index(epsilon)
            ax.plot(rows["accuracy"], rows["SR"], MARKERS[i], color=COLOURS[i])
            arrow = {"arrowstyle": "->", "color": COLOURS[i], "shrinkA": 0}
            for _, row in rows.iterrows():
                ends = [(row["accuracy"], row["SR"] + change) for change in (row["SCTD"], 0)]
                ax.annotate("", *ends, arrowprops=arrow)
        ax.set_yscale("log")
        plain_log(ax.yaxis)
        shape = title.replace(", momentum", ",\nmomentum")
        ax.annotate(shape, (0.03, 0.04), xycoords="axes fraction", fontsize=9)
        ax.set_ylabel("normalized score")
        ends = pd.concat([of_regime["SR"], of_regime["SR"] + of_regime["SCTD"]])
        ax.set_ylim(
            min(ax.get_ylim()[0], 0.5 * ends.min()), max(ax.get_ylim()[1], 1.25 * ends.max())
        )
    ax.set_xlabel("accuracy at full coverage")
    head(axes[0], pairs_headline(table), _budget_words(epsilons))
    return Drawn(
        figure,
        "One plot per regime: normalized score against accuracy, with an arrow from SR to SCTD at "
        "each setting; those that point down are at large learning rates.",
        f"Accuracy and score on {_source(run.parameters)}: arrows from SR to SCTD, ties averaged.",
    )
