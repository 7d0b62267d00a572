"""Figures of the chapters on suitability."""

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from lib.plot import COLOURS, MARKERS, new_figure, side_by_side
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head_rows, percent
from lib.studies.suitability.opening import TITLES
from lib.studies.suitability.peers import PEERS


def share_headline(steps: pd.DataFrame, margin: float = 0.0) -> str:
    """How much of the data that are just unsuitable passes, and of those far worse, in words."""
    worse = steps[steps["high"] <= -margin + 1e-9].sort_values("low")
    if not len(worse):
        return "No data here are worse\nthan the margin allows"
    just, larger = worse.iloc[-1], worse.iloc[:-1]
    far = larger[larger["high"] <= -0.03 + 1e-9]
    said = f"Drops of {abs(100 * just['high']):.3g} to {-100 * just['low']:.3g} points: "
    said += f"{percent(just['share'])} pass as SUITABLE"
    if not len(far):
        return said
    share = far["suitable"].sum() / far["experiments"].sum()
    return f"{said}.\nBeyond {-100 * far['high'].max():.3g} points: {percent(share)}"


#: What readers call the methods that are compared, and which labels of test data they use.
_METHODS = {
    "paper": "the paper's filter",
    "paper, more labels": "filter, more to fit",
    "known reference": "filter, accuracy known",
    "all labels": "filter with test labels",
} | {**PEERS, "ac": "average confidence"}
_TEST_LABELS = ("known reference", "all labels")


def methods_table(run: Run) -> pd.DataFrame:
    """``accuracy``, ``roc_auc`` and whose it is, a row a method, those that rank best last.

    Means over models of the main data set out of distribution, all decided by the same test, from
    the tables ``peers`` and ``stronger`` of the page; but the median over shuffles, where there is
    one. Column ``of``: others, paper or labels.
    """
    peers, filters = run.tables["peers"], run.tables["stronger"]
    main, columns = peers["dataset"].iloc[0], ["accuracy", "roc_auc"]
    peers, filters = (t[(t["dataset"] == main) & (t["kind"] == "OOD")] for t in (peers, filters))
    others = peers[peers["rule"] == "test"].set_index("peer")[columns]
    others = others.drop(index=["filter", "doc"]).assign(of="others")  # DoC decides as AC does
    ours = filters.groupby("filter", sort=False)[columns].mean().assign(of="paper")
    ours.loc["all labels", "roc_auc"] = run.values["shuffles_median"]
    ours.loc[ours.index.isin(_TEST_LABELS), "of"] = "labels"
    both = pd.concat([others, ours]).rename(index=_METHODS)
    return both.sort_values("roc_auc", kind="stable", na_position="first")


def methods_headline(table: pd.DataFrame) -> str:
    """Which method without the test data's labels is best, and what these labels improve."""
    labels, who, gains = table["of"] == "labels", [], []
    for column in ("roc_auc", "accuracy"):
        scores = table[column].fillna(0).round(4)  # as far as the figure shows them
        best = scores[~labels].max()
        names = table.index[~labels & (scores == best)]
        who.append(names[0] if len(names) == 1 else "several")
        gains.append(bool(scores[labels].max() > best))
    ranks, decides = (
        f"{name} {verb}{'s' * (name != 'several')}"
        for name, verb in zip(who, ("rank", "decide"), strict=True)
    )
    words = {(True, True): "both", (True, False): "only the ranking"}
    words |= {(False, True): "only the decisions", (False, False): "neither"}
    return f"Best without test labels: {ranks},\n{decides}; labels improve {words[tuple(gains)]}"


@draws("suitability_peers", "methods")
def draw_methods(run: Run) -> Drawn:
    """Draw right decisions and ROC AUC of each method, a row a method, the best ranking on top."""
    table, values, level = methods_table(run), run.values, run.parameters["alpha"]
    figure, axes = new_figure(2, 1, height=0.75 + 0.21 * len(table))
    side_by_side(figure, axes, 2)
    colors = {"others": "0.4", "paper": COLOURS[0], "labels": COLOURS[1]}
    said = f"right decisions at the {100 * level:g}% level", "ranking of the cases (ROC AUC)"
    top = table.index.get_loc(_METHODS["all labels"])
    ends = values["shuffles_lowest"], values["shuffles_highest"]
    for ax, column, label, form in zip(axes, table, said, (".1%", ".3f"), strict=False):
        paper, wide = table.loc[_METHODS["paper"], column], np.ptp(table[column])
        ax.axvline(paper, color=COLOURS[0], lw=0.8, zorder=0)
        for row, (value, of) in enumerate(zip(table[column], table["of"], strict=True)):
            ax.plot(value, row, MARKERS[0], color=colors[of])
            left = 0 < paper - value < 0.36 * wide  # where the line would cross the number
            beside = {"xytext": (-7, 0), "ha": "right"} if left else {"xytext": (7, 0)}
            beside |= {"textcoords": "offset points", "va": "center_baseline", "fontsize": 9}
            at = ends[1] if (column, row) == ("roc_auc", top) else value
            ax.annotate(format(value, form), (at, row), color=colors[of], **beside)
        ax.set(xlabel=label, ylim=(-0.6, len(table) - 0.4))
        ax.set_yticks(range(len(table)), table.index)
        ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        ax.margins(x=0.25)
    axes[0].xaxis.set_major_formatter(lambda x, _: f"{100 * x:.4g}%")
    axes[1].hlines(top, *ends, colors["labels"], lw=1)
    headline, main = methods_headline(table), run.tables["peers"]["dataset"].iloc[0]
    head_rows(figure, headline)
    models, many = run.tables["stronger"]["seed"].nunique(), values["n_shuffles"]
    over = f", with all of them the ROC AUC is the median, with the range over {many} shuffles"
    return Drawn(
        figure,
        f"Right decisions and ROC AUC, a row a method. {headline}.",
        f"{TITLES[main]}, out of distribution: means over {models} "
        f"model{'s' * (models > 1)}, all by the same test. Gray: other estimators (DoC decides as "
        "average confidence does). Blue: the paper's filter. Orange: filters that use the test "
        f"data's labels{over * (many > 1)}.",
    )
