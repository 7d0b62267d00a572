"""Figures of the chapter on P5."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter

from lib.plot import COLOURS, MARKERS, new_figure, panels, plain_log, side_by_side
from lib.studies.canaries.published import LEVELS, different
from lib.studies.default_problem import title as data_title
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, head_rows, percent, words_above

_DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
_STYLE = {
    "ALIBI": (COLOURS[0], MARKERS[0]),
    "ALIBI, projected": (COLOURS[5], MARKERS[5]),
    "AGIBI": (COLOURS[1], MARKERS[1]),
    "PATE": (COLOURS[2], MARKERS[2]),
    "RR": (COLOURS[3], MARKERS[3]),
    "RR, two stages": (COLOURS[4], MARKERS[4]),
    "none": (COLOURS[6], MARKERS[6]),
}
_LARGEST = 6.0  # where infinite ends are drawn to


def careful_headline(table: pd.DataFrame) -> str:
    """In how many audits the larger of the valid bounds is below P5's, in words.

    Two of CIFAR-10's files are the same: they are one audit.
    """
    table = different(table)
    valid = table[["one label", "top label"]].max(axis=1)  # a claim with a delta has no second
    below = int((valid < table["paper"]).sum())
    return f"The better valid bound is below P5's\nin {below} of {len(table)} different audits"


@draws("canaries", "careful")
def draw_careful(run: Run) -> Drawn:
    """Draw the lower limits of :func:`lib.studies.canaries.published.careful_table`."""
    shown = {
        "paper": ("| P5", COLOURS[6], "|"),
        "corrected": ("thresholds paid for", COLOURS[0], MARKERS[0]),
        "one label": ("one label", COLOURS[1], MARKERS[1]),
        "top label": ("top label", COLOURS[2], MARKERS[2]),
    }
    table = run.tables["careful"]
    names = list(dict.fromkeys(table["data"]))
    figure, axes = panels(len(names), 3.4)
    for ax, name in zip(axes, names, strict=True):
        rows = table[table["data"] == name].iloc[::-1].reset_index(drop=True)
        for column, (_, colour, marker) in shown.items():
            points = {"color": colour, "marker": marker, "markersize": 13 if marker == "|" else 5}
            ax.plot(rows[column], rows.index, linestyle="", fillstyle="none", **points)
        ax.set_yticks(range(len(rows)), _names(rows), fontsize=9)
        ax.annotate(_DATA.get(name, name), (0.98, 0.03), xycoords="axes fraction", ha="right")
    axes[-1].set_xlabel(r"lower limit of $\epsilon$ (97.5%)")
    head_rows(figure, careful_headline(table))
    words_above(axes[0], {word: colour for word, colour, _ in shown.values()}, -70)
    return Drawn(
        figure,
        "Three or four lower bounds per training, a plot per data set.",
        "Lower limits of 95% intervals for epsilon from the same confidences: P5's, with the "
        "thresholds paid for, and the two valid bounds (thresholds paid for, too).",
    )


def coverage_headline(table: pd.DataFrame, classes: int) -> str:
    """How often P5's lower limit is above the truth at the smallest epsilon, in words."""
    row = table[table["interval"] == "paper"].set_index("epsilon")["exceeds"].sort_index()
    said = f"At $\\epsilon$ = {row.index[0]:g} and {classes} classes, P5's lower bound"
    return f"{said}\nis above the truth in {percent(row.iloc[0])} of the audits"


@draws("canaries", "coverage")
def draw_coverage(run: Run) -> Drawn:
    """Draw how often lower limits exceed the truth, one plot per number of classes."""
    shown = {
        "paper": ("P5", COLOURS[6], "X"),
        "all three": ("corrected", COLOURS[0], MARKERS[0]),
        "bayesian": ("Bayesian", COLOURS[3], MARKERS[3]),
        "one label, lower": ("one label", COLOURS[1], MARKERS[1]),
        "top label, lower": ("top label", COLOURS[2], MARKERS[2]),
    }
    tables = {classes: run.tables[f"coverage_{classes}"] for classes in (100, 10)}
    figure, axes = panels(len(tables), 2.2, sharey=True)
    inside = {"xycoords": "axes fraction", "ha": "right"}
    for ax, (classes, table) in zip(axes, tables.items(), strict=True):
        for least, most, gray in ((0, 0.025, "0.8"), (0.025, 0.05, "0.9")):
            ax.axhspan(least, most, color=gray, lw=0)
        for name, (_, colour, marker) in shown.items():
            rows = table[table["interval"] == name].sort_values("epsilon")
            ax.plot(rows["epsilon"], rows["exceeds"], color=colour, marker=marker, ms=4, lw=1.4)
            if name == "paper":
                first = tuple(rows[["epsilon", "exceeds"]].iloc[0])
                beside = {"xytext": (4, 4), "textcoords": "offset points", "weight": "bold"}
                ax.annotate(percent(first[1]), first, **beside)
        ax.annotate(f"{classes} classes", (0.98, 0.88), **inside)
        ax.set_ylabel("bounds too high")
        ax.set_xscale("log")
    ticks = sorted(tables[100]["epsilon"].unique())
    axes[-1].set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes[-1].minorticks_off()
    axes[-1].set_xlabel(r"true $\epsilon$")
    axes[0].set_ylim(0, 1.2 * max(0.1, *(table["exceeds"].max() for table in tables.values())))
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, 0))
    axes[0].annotate(
        "gray: allowed", (0.98, 0.74), xycoords="axes fraction", ha="right", color="0.5"
    )
    words = {word: colour for word, colour, _ in shown.values()}
    head(axes[0], coverage_headline(tables[100], 100), words)
    repetitions = int(tables[100]["repetitions"].iloc[0])
    return Drawn(
        figure,
        "Two plots, of 100 and of 10 classes: how often each lower bound is above the true "
        "epsilon, by this epsilon; two gray bands are what is allowed.",
        f"Of {repetitions:,} audits of randomized response, 1,000 canaries each, the part whose "
        "lower bound is above the truth. Dark gray is what 95% intervals may have (P5, corrected, "
        "Bayesian: 2.5%); with light gray, what one-sided 95% bounds may (the labels: 5%).",
    )


def confidence_table(
    cases: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> pd.DataFrame:
    """Fraction of canaries above each percent: in their own label, and in another wrong one.

    Parameters
    ----------
    cases : mapping of str to (p, canary, true)
        Confidences (n, C) of a training run at its canaries, their labels and the true ones.
    """
    at, tables = np.linspace(0, 1, 101), []
    for case, (p, canary, true) in cases.items():
        rows, classes = np.arange(len(p)), p.shape[1]
        other = (canary + 1) % classes
        other = np.where(other == true, (other + 1) % classes, other)
        above = {
            column: 1 - np.searchsorted(np.sort(p[rows, label]), at, side="right") / len(p)
            for column, label in (("canary", canary), ("other", other))
        }
        tables.append(pd.DataFrame({"case": case, "confidence": at, **above}))
    return pd.concat(tables, ignore_index=True)


def confidences_headline(table: pd.DataFrame) -> str:
    """In how many canaries a training run prefers the label it was given to all others, in words.

    A confidence above one half is larger than all others together.
    """
    sure = table[np.isclose(table["confidence"], 0.5)].set_index("case")["canary"]
    first, last = sure.index[0], sure.index[1]
    return (
        f"{first}: {percent(sure[first])} of the canaries'\nlabels are believed;"
        f" {last}: {percent(sure[last])}"
    )


@draws("canaries", "confidences")
def draw_confidences(run: Run) -> Drawn:
    """Draw :func:`confidence_table`, a plot a training run of the authors."""
    table = run.tables["confidences"]
    cases = list(dict.fromkeys(table["case"]))
    figure, axes = panels(len(cases), 2.2)
    shown = {"canary": ("the canary's label", COLOURS[1], "-")}
    shown["other"] = ("another wrong label", COLOURS[0], "--")
    for ax, case in zip(axes, cases, strict=True):
        rows = table[table["case"] == case]
        for column, (_, colour, line) in shown.items():
            ax.step(rows["confidence"], rows[column], linestyle=line, color=colour, marker="")
        ax.set(ylabel="canaries above it", xlim=(0, 1), ylim=(0, 1.02))
        ax.annotate(case, (0.98, 0.88), xycoords="axes fraction", ha="right")
    axes[-1].set_xlabel("confidence")
    head(axes[0], confidences_headline(table), {word: colour for word, colour, _ in shown.values()})
    return Drawn(
        figure,
        "ALIBI at high accuracy is sure of canary labels in hundreds of cases, others hardly.",
        "Fraction of canaries above each confidence of the authors' models on CIFAR-10, in the "
        "canary's label and in another wrong one.",
    )


@draws("canaries", "accuracy")
def draw_accuracy(run: Run) -> Drawn:
    """Draw accuracy against epsilon: claimed (markers) and measured (bars), by mechanism."""
    table, words = run.tables["trained"], {}
    figure, (top, bottom) = new_figure(rows=2, height=2.7, sharey=True)
    side_by_side(figure, (top, bottom), 2)
    for name, rows in table.groupby("mechanism", sort=False):
        colour, marker = _STYLE[name]
        # What PATE has spent depends on private votes: no claim that it could make beforehand.
        spent = {"linestyle": "--", "fillstyle": "none"} if name == "PATE" else {}
        words[{"PATE": "PATE, by its votes", "none": "no privacy"}.get(name, name)] = colour
        if np.isfinite(rows["claimed"]).all():
            top.plot(rows["claimed"], rows["accuracy"], color=colour, marker=marker, **spent)
        for row in rows.itertuples():
            ends, at = [row.low, min(row.high, _LARGEST)], [row.accuracy] * 2
            points = {"color": colour, "marker": marker, "markevery": [0], "fillstyle": "none"}
            bottom.plot(ends, at, **points)
    top.set_xscale("log")
    plain_log(top.xaxis)
    top.set_xlabel(r"claimed $\epsilon$ (PATE: spent)")
    bottom.set_xlabel(r"measured $\epsilon$: 95% intervals")
    bottom.set_xlim(-0.1, _LARGEST)
    for ax in (top, bottom):
        ax.set_ylabel("test accuracy")
    head(top, accuracy_headline(table), words, lines=2)
    return Drawn(
        figure,
        "Accuracy against epsilon, a curve each, and bars for what the canaries show.",
        f"Our models ({data_title(run.parameters['dataset'])}): test accuracy against the epsilon "
        "that is claimed, and P5's intervals from the canaries (bars that reach the edge are "
        "unbounded). PATE's epsilon, dashed, is what its votes spent: no promise.",
    )


def accuracy_headline(table: pd.DataFrame) -> str:
    """What ALIBI and randomized response keep at the smallest epsilon that both claim, in words."""
    kept = table.pivot_table(index="claimed", columns="mechanism", values="accuracy").dropna(
        subset=["ALIBI", "RR"]
    )
    epsilon = kept.index.min()
    alibi, response = kept.loc[epsilon, ["ALIBI", "RR"]]
    return (
        f"At a claim of {epsilon:g} ALIBI is right in {percent(alibi)},\n"
        f"randomized response (RR) in {percent(response)}"
    )


def _names(rows: pd.DataFrame) -> list[str]:
    """What to call the published training runs on an axis."""
    return [
        f"{row.mechanism} {LEVELS[row.level].lower()}"
        + (", 10 x 100" if row.runs == "10 x 100" else "")
        for row in rows.itertuples(index=False)
    ]
