"""Figures of the chapters on suitability that are drawn from what their runs record."""

import numpy as np
import pandas as pd

from lib.plot import COLOURS, MARKERS, new_figure, panels, side_by_side
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, head_rows, percent, words_above
from lib.studies.suitability.figures import share_headline
from lib.studies.suitability.opening import TITLES
from lib.suitability.tipping import FMOW_ERRORS

#: Beside a point, in the color of its line.
_BESIDE = {"textcoords": "offset points", "va": "center", "fontsize": 9}


def _shifted(table: pd.DataFrame) -> pd.DataFrame:
    """Rows out of distribution of the main data set, which comes first."""
    return table[(table["dataset"] == table["dataset"].iloc[0]) & (table["kind"] == "OOD")]


@draws("suitability", "share-suitable")
def draw_share_suitable(run: Run) -> Drawn:
    """Draw SUITABLE decisions by accuracy difference, with the ideal: the paper's Figure 4."""
    steps, margin = run.tables["steps"], run.parameters["margin"]
    shown = steps[(steps["low"] >= -0.15 - 1e-9) & (steps["high"] <= 0.15 + 1e-9)]
    figure, ax = new_figure()
    unsuitable, suitable = shown["high"] <= -margin + 1e-9, shown["low"] >= -margin - 1e-9
    ax.bar(
        100 * shown["low"],
        100 * shown["share"],
        width=90 * (shown["high"] - shown["low"]),
        align="edge",
        color=np.select([unsuitable, suitable], [COLOURS[1], COLOURS[0]], "0.5"),
    )
    step = -100 * margin
    ax.plot([-15, step, step, 15], [0, 0, 100, 100], color="0.4", marker="", linestyle="--")
    if len(shown):
        ax.set_xlim(100 * shown["low"].min() - 0.5, 100 * shown["high"].max() + 0.5)
    words = {"SUITABLE, wrongly": COLOURS[1], "rightly": COLOURS[0], "- - with all labels": "0.4"}
    head(ax, share_headline(steps, margin), words)
    ax.set_xlabel("user minus test accuracy (points)")
    ax.set_ylabel("SUITABLE decisions (%)")
    return Drawn(
        figure,
        "Bar chart: the fraction of SUITABLE decisions by accuracy difference, in one-percent "
        "buckets: wrong ones in orange at the left of a dashed step, right ones in blue at its "
        "right.",
        f"Out of distribution: {steps['experiments'].sum():,} experiments in buckets of one point. "
        "The dashed line is a filter that has all labels.",
    )


def margins_headline(table: pd.DataFrame) -> str:
    """What part of the unsuitable data passes with the smallest and the widest margin."""
    at = table[table["alpha"] == table["alpha"].max()].sort_values("margin")
    passed = [f"{100 * s:.1f}%" if 0 < s < 0.1 else percent(s) for s in at["fpr"]]
    narrow, wide = (f"one of {100 * at['margin'].iloc[end]:g} points" for end in (0, -1))
    narrow = narrow if at["margin"].iloc[0] else "no margin"
    return f"With {narrow} {passed[0]} of unsuitable data\npass, with {wide} {passed[-1]}"


@draws("suitability", "margins")
def draw_margins(run: Run) -> Drawn:
    """Draw wrong SUITABLE and right decisions by margin, a line a significance level."""
    table = _shifted(run.tables["margins"])
    span = np.ptp(table["margin"]) or 0.01
    figure, axes = panels(2, 2.2)
    said = "unsuitable data called\nSUITABLE (%)", "right decisions (%)"
    for ax, column, label in zip(axes, ("fpr", "accuracy"), said, strict=True):
        for k, (level, rows) in enumerate(table.groupby("alpha")):
            rows = rows.sort_values("margin")
            look = {"color": COLOURS[k], "marker": MARKERS[k], "ms": 4, "lw": 1.4}
            ax.plot(100 * rows["margin"], 100 * rows[column], **look)
            end = 100 * rows["margin"].iloc[-1], 100 * rows[column].iloc[-1]
            ax.annotate(f"level {100 * level:g}%", end, (6, 0), color=COLOURS[k], **_BESIDE)
        ax.set_ylabel(label)
        ax.margins(x=0.05, y=0.12)
        ax.set_xlim(right=100 * (table["margin"].max() + 0.35 * span))
    axes[-1].set_xlabel("margin (points)")
    headline, title = margins_headline(table), TITLES[table["dataset"].iloc[0]]
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"Wrong SUITABLE decisions and right decisions by margin and level. {headline}.",
        f"{title}, out of distribution: decisions by margin, a line a significance level; means "
        "over models.",
    )


def shuffles_table(table: pd.DataFrame, first: int) -> pd.DataFrame:
    """``fpr`` and ``accuracy`` out of distribution by data and shuffle, means over models.

    Column ``first`` says which shuffle is the page's.
    """
    shifted = table[table["kind"] == "OOD"]
    means = shifted.groupby(["dataset", "partition"], sort=False)[["fpr", "accuracy"]].mean()
    return means.reset_index().assign(first=lambda t: t["partition"] == first)


def shuffles_headline(table: pd.DataFrame) -> str:
    """In how many of the main data's other shuffles more unsuitable data pass, in words."""
    main = table[table["dataset"] == table["dataset"].iloc[0]]
    others, ours = main[~main["first"]]["fpr"], main[main["first"]]["fpr"].iloc[0]
    if not len(others):
        return "One shuffle does not say\nhow far others would be from it"
    more = int((others > ours).sum())
    said = f"In {more} of {len(others)} other shuffles more of the"
    return f"{said}\nunsuitable data pass than in ours"


@draws("suitability", "shuffles")
def draw_shuffles(run: Run) -> Drawn:
    """Draw wrong SUITABLE and right decisions of each shuffle, a row a data set."""
    table = shuffles_table(run.tables["partitions"], run.parameters["partition_seeds"][0])
    names = list(dict.fromkeys(table["dataset"]))[::-1]
    figure, axes = new_figure(2, 1, height=max(1.6, 1.0 + 0.3 * len(names)))
    side_by_side(figure, axes, 2)
    said = "unsuitable data called SUITABLE (%)", "right decisions (%)"
    for ax, column, label in zip(axes, ("fpr", "accuracy"), said, strict=True):
        for row, name in enumerate(names):
            one = table[table["dataset"] == name]
            others, ours = one[~one["first"]][column], one[one["first"]][column]
            ax.plot(100 * others, np.full(len(others), row), "|", color="0.45", ms=11, mew=1)
            ax.plot(100 * ours, [row], MARKERS[0], color=COLOURS[1], ms=6)
        ax.set_yticks(range(len(names)), [TITLES[name].removesuffix("-WILDS") for name in names])
        ax.set(xlabel=label, ylim=(-0.6, len(names) - 0.4))
        ax.grid(visible=False, axis="y")
    headline = shuffles_headline(table)
    head_rows(figure, headline)
    words_above(axes[0], {"our first shuffle": COLOURS[1], "| others": "0.45"})
    return Drawn(
        figure,
        f"Wrong SUITABLE decisions and right decisions of each shuffle. {headline}.",
        "Out of distribution, a mark a shuffle of the source data: means over models.",
    )


def missed_in_words(slope: float) -> str:
    """How much of each point of a drop in accuracy an estimate misses."""
    slope = round(slope, 2)
    if slope <= 0:
        return "Where accuracy drops further,\nthe estimate is no further off"
    missed = f"{slope:.2f} points" if slope < 1 else "all of it"
    return f"Of each point by which accuracy drops,\nthe estimate misses {missed}"


@draws("suitability_guarantee", "error-drop")
def draw_error_against_drop(run: Run) -> Drawn:
    """Draw the error on user data against the drop in accuracy, a point a user fold: Figure 7."""
    table, slope = 100 * run.tables["drops"][["drop", "error"]], run.values["delta_slope"]
    start = 100 * run.values["delta_user_mean"] - slope * table["drop"].mean()
    figure, ax = new_figure()
    ax.plot(table["drop"], table["error"], linestyle="", marker="o", markersize=5, alpha=0.6)
    ends = np.array([min(table["drop"].min(), 0.0), max(table["drop"].max(), 0.0)])
    beside = {"textcoords": "offset points", "ha": "right", "fontsize": 9}
    for a, b, word, color, up in (
        (1, 0, "drop not seen at all", "0.4", (-14, -3)),
        (0, 0, "drop seen in full", "0.4", (0, -11)),
        (slope, start, "trend", COLOURS[1], (0, -18)),
    ):
        ax.plot(ends, b + a * ends, color=color, linewidth=1.2, marker="")
        ax.annotate(word, (ends[1], b + a * ends[1]), up, color=color, **beside)
    head(ax, missed_in_words(slope))
    ax.set_xlabel("drop in accuracy (points)")
    ax.set_ylabel("estimated minus true\naccuracy (points)")
    return Drawn(
        figure,
        "Scatter plot: the estimate's error rises with the drop in accuracy, along a trend between "
        "two lines, drop seen in full and not at all.",
        "Out of distribution: each point is a user fold under one model.",
    )


#: What readers call the ways to adjust a margin by labels, in the simulation's order.
_ADJUSTED = {
    "unadjusted": "no adjustment",
    "exact": "the true error",
    "plug-in": "labels, as if exact",
    "bound": "labels, their bound",
    "prediction-powered": "prediction-powered",
    "labels alone": "labels alone",
}


def flattered(table: pd.DataFrame) -> pd.DataFrame:
    """``rate``, ``low``, ``high`` and ``power`` by method where estimates flatter the user most."""
    worst = table[table["eps_target"] == table["eps_target"].min()].set_index("method")
    return worst.loc[list(_ADJUSTED)]


def adjusted_headline(table: pd.DataFrame, level: float) -> str:
    """How often labels err if taken as exact, and how many tests that count their error keep it."""
    rows = table.drop(index=["unadjusted", "exact", "plug-in"])
    kept, wrong = int((rows["low"] <= level).sum()), percent(table.loc["plug-in", "rate"])
    said = f"Labels taken as exact err in {wrong}; {kept} of {len(rows)}"
    return f"{said} tests\nthat count their error keep the {percent(level)} level"


@draws("suitability_guarantee", "adjusted")
def draw_adjusted(run: Run) -> Drawn:
    """Draw wrong SUITABLE decisions and power of each adjustment, where estimates flatter."""
    table, level = flattered(run.tables["guarantee"]), 0.05  # that of the simulation
    figure, axes = new_figure(2, 1, height=0.8 + 0.23 * len(table))
    side_by_side(figure, axes, 2)
    said = "called SUITABLE wrongly (%)", "called SUITABLE rightly (%)"
    places = range(len(table))[::-1]
    for ax, column, label in zip(axes, ("rate", "power"), said, strict=True):
        color = COLOURS[1] if column == "rate" else COLOURS[0]
        for place, row in zip(places, table.itertuples(), strict=True):
            value = 100 * getattr(row, column)
            ax.plot(value, place, MARKERS[0], color=color)
            if column == "rate":
                ax.hlines(place, 100 * row.low, 100 * row.high, color, lw=1)
            far = value > 80
            beside = {"xytext": (-7, 0), "ha": "right"} if far else {"xytext": (7, 0)}
            clear = max(value, 100 * level) if column == "rate" else value  # of the dashed line
            ax.annotate(f"{value:.3g}", (clear, place), color=color, **beside, **_BESIDE)
        ax.set_yticks(places, _ADJUSTED.values())
        ax.set(xlabel=label, xlim=(-3, 103), ylim=(-0.6, len(table) - 0.4))
        ax.grid(visible=False, axis="y")
    axes[0].axvline(100 * level, color="0.4", ls="--", lw=1, zorder=0)
    headline = adjusted_headline(table, level)
    head_rows(figure, headline)
    words_above(axes[0], {"- - level": "0.4"})
    bias = -100 * run.tables["guarantee"]["eps_target"].min()
    return Drawn(
        figure,
        f"Wrong and right SUITABLE decisions, a row a way to adjust the margin. {headline}.",
        f"A simulation whose estimates overstate the user's accuracy by {bias:g} points, by what "
        "the margin is adjusted for: SUITABLE where it is wrong, and where it is right.",
    )


def cheats_headline(table: pd.DataFrame) -> str:
    """What passes with honest parties, and with how many cheats nearly all does."""
    wrong = table.set_index("cheat")["SUITABLE, if it is not"]
    cheats = wrong.drop("honest")
    most = int((cheats > 0.9).sum())
    said = f"Of unsuitable data {percent(wrong['honest'])} pass if all are honest;"
    return f"{said}\nby {most} of {len(cheats)} cheats more than 90% do"


@draws("suitability_guarantee", "cheats")
def draw_cheats(run: Run) -> Drawn:
    """Draw SUITABLE decisions on unsuitable data with their intervals, a row a cheat."""
    table, margin = run.tables["cheats"], run.parameters["cheat_margin"]
    figure, ax = new_figure(height=0.9 + 0.25 * len(table))
    places = np.arange(len(table))[::-1]
    for place, row in zip(places, table.itertuples(index=False), strict=True):
        wrong, low, high, right = (100 * each for each in row[1:])
        color = "0.3" if row.cheat == "honest" else COLOURS[1]
        ax.hlines(place, low, high, color, lw=1.2)
        ax.plot(wrong, place, MARKERS[0], color=color, zorder=3)
        ax.plot(right, place, MARKERS[3], color=COLOURS[0], fillstyle="none", ms=5, zorder=4)
    ax.set_yticks(places, table["cheat"])
    ax.set(xlabel="called SUITABLE (%)", xlim=(-2, 102), ylim=(-0.6, len(table) - 0.4))
    ax.grid(visible=False, axis="y")
    words_above(ax, {"unsuitable data": COLOURS[1], "suitable data": COLOURS[0]})
    headline = cheats_headline(table)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"SUITABLE decisions, a row a cheat, the honest first. {headline}.",
        f"Out of distribution, margin {margin:g}: how often data are called SUITABLE, with 95% "
        "intervals for those that are not. The provider's cheats come first, then the user's.",
    )


def _words(table: pd.DataFrame) -> list[str]:
    """Signals without their code's underscores."""
    return [name.replace("_", " ") for name in table["signal"]]


def signals_headline(table: pd.DataFrame) -> str:
    """Which signal has the largest coefficient, and where it stands by what it tells alone."""
    by_weight = table["coefficient"].abs().idxmax()
    place = int(table["f"].rank(ascending=False)[by_weight])
    alone = f"is number {place} of {len(table)}" if place > 1 else "tells the most"
    return f"{_words(table)[by_weight]} has the largest coefficient;\nby itself it {alone}"


@draws("suitability_peers", "signals")
def draw_signals(run: Run) -> Drawn:
    """Draw what each signal tells by itself, and its coefficient beside all others."""
    table = run.tables["table7"].sort_values("f", ignore_index=True)
    figure, axes = new_figure(2, 1, height=0.75 + 0.21 * len(table))
    side_by_side(figure, axes, 2)
    colors = np.where(table["coefficient"] > 0, COLOURS[0], COLOURS[1])
    for ax, widths in zip(axes, (table["f"] / 1000, table["coefficient"]), strict=True):
        ax.barh(range(len(table)), widths, 0.6, color=colors if ax is axes[1] else "0.55")
        ax.set_yticks(range(len(table)), _words(table))
        ax.set_ylim(-0.6, len(table) - 0.4)
        ax.grid(visible=False, axis="y")
    axes[0].set_xlabel("alone: right and wrong differ (F / 1,000)", loc="right")
    axes[1].set_xlabel("with all others: coefficient")
    axes[1].axvline(0, color="0.4", lw=0.8)
    headline = signals_headline(table)
    head_rows(figure, headline)
    return Drawn(
        figure,
        f"Two bars a signal: its F-value, and its coefficient. {headline}.",
        "How far right and wrong predictions differ in each signal by itself, and what weight the "
        "correctness estimator gives it beside the others, standardized: orange is negative.",
    )


def tipping_headline(point: float) -> str:
    """How often SUITABLE would be shown, were the estimator as wrong as on FMoW, in words."""
    shown = sum(error <= point for error in FMOW_ERRORS)
    said = "If its estimates are as wrong as on FMoW,"
    return f"{said}\nSUITABLE is shown in {shown} of {len(FMOW_ERRORS)} cases"


def tipping_figure(table: pd.DataFrame) -> Drawn:
    """Draw the tipping point that a report's summary has, beside the errors on FMoW."""
    (said,) = table[table["item"].str.startswith("tipping point")]["value"]
    point = float(said)  # beside small p-values, which are words, numbers are words, too
    errors, headline = np.array(FMOW_ERRORS), tipping_headline(point)
    figure, ax = new_figure(height=2.8)
    shown, colors = errors <= point, [COLOURS[0], COLOURS[1]]
    edges = np.arange(-6, 20)
    ax.hist([100 * errors[shown], 100 * errors[~shown]], edges, stacked=True, color=colors)
    ax.axvline(100 * point, color="black", linewidth=1.2)
    words = {"SUITABLE": colors[0], "not SUITABLE": colors[1], "| tipping point": "black"}
    head(ax, headline, words)
    ax.set_xlabel("user's accuracy overstated by (points)")
    ax.set_ylabel("folds and models")
    return Drawn(
        figure,
        f"Histogram of the estimator's errors on FMoW, and the tipping point. {headline}.",
        "By how much the paper's estimator overstated the accuracy on user data, beyond what it "
        f"did on test data, in {len(FMOW_ERRORS)} folds and models of FMoW out of distribution. "
        f"The line: up to an overstatement of {100 * point:+.1f} points SUITABLE is shown here.",
    )


@draws("suitability_peers", "tipping")
def draw_tipping(run: Run) -> Drawn:
    """Draw the tipping point of the page's example."""
    return tipping_figure(run.tables["report"])
