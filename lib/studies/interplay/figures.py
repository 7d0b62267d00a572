"""Figures of the two chapters on P1."""

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from scipy import special

from lib.plot import COLOURS, MARKERS, new_figure, panels
from lib.selective.areas import normalized_score, random_order_score
from lib.selective.curves import accuracy_bound, accuracy_coverage
from lib.studies.default_problem import title
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, percent
from lib.studies.interplay import by_seed
from lib.studies.interplay.experiments import Experiments, Imbalance, selective_net_curve
from lib.studies.interplay.outlier import OutlierStudy
from lib.studies.interplay.tables import acceptance_position, mean_curve, recorded_order

_LINES = ("-", "--", "-.", ":")
_METHODS = {
    "SR": (COLOURS[0], "-"),
    "SAT": (COLOURS[5], "--"),
    "MCDO": (COLOURS[2], "-."),
    "DE": (COLOURS[4], "--"),
    "SCTD": (COLOURS[1], "-"),
    "SCTD, ties by SR": (COLOURS[1], ":"),
    "SN": (COLOURS[6], ""),
}
#: What first figures call the methods, whose short names only readers of P1 know.
_IN_WORDS = {
    "SR": "softmax response",
    "SAT": "self-adaptive",
    "MCDO": "dropout",
    "DE": "ensemble",
    "SCTD": "training dynamics",
}


def epsilon_word(epsilon: float) -> str:
    """The budget as figures write it."""
    return r"$\epsilon = \infty$" if math.isinf(epsilon) else rf"$\epsilon = {epsilon:g}$"


def plot_boundaries(study: OutlierStudy) -> Figure:
    """Draw the training points of the first seed and every model's boundary (P1, Figure 1)."""
    figure, ax = new_figure()
    ax.scatter(*_some(study.points[:-1], 300).T, s=6, color="0.75", label="majority")
    ax.scatter(*study.points[-1], s=60, color=COLOURS[1], marker="X", zorder=3, label="outlier")
    low, high = -5.0, 5.0
    y = np.array([low, high])
    for i, (epsilon, (w1, w2, b)) in enumerate(zip(study.epsilons, study.weights, strict=True)):
        if abs(w1) < 1e-9:
            continue
        ax.plot(
            -(w2 * y + b) / w1,
            y,
            _LINES[i % 4],
            color=COLOURS[(0, 2, 3, 6)[i % 4]],
            marker="",
            label=epsilon_word(epsilon),
        )
    ax.set_xlim(-5, 15)
    ax.set_ylim(low, high)
    ax.set_xlabel("$x_1$")
    ax.set_ylabel("$x_2$")
    _legend_below(ax, 0.25, 2)
    return figure


def plot_wrong_confidence(study: OutlierStudy) -> Figure:
    """Draw the distribution over seeds of the confidence in the wrong class, by budget."""
    figure, ax = new_figure()
    jitter = np.linspace(-0.28, 0.28, study.wrong_confidence.shape[1])
    for i, values in enumerate(study.wrong_confidence):
        x, y = _thinned(i + jitter, np.sort(values), 100)
        for side, marker, colour in ((y < 0.5, "o", COLOURS[0]), (y >= 0.5, "s", COLOURS[1])):
            ax.plot(x[side], y[side], marker, color=colour, markersize=2.5)
        ax.plot([i - 0.33, i + 0.33], 2 * [values.mean()], color="0.4", linewidth=1, marker="")
    ax.axhline(0.5, color="0.5", linestyle=":", marker="")
    words = {"right": COLOURS[0], "wrong": COLOURS[1], "— mean": "0.4"}
    head(ax, outlier_headline(study), words)
    budgets = ["no privacy" if math.isinf(e) else epsilon_word(e) for e in study.epsilons]
    ax.set_xticks(range(len(budgets)), budgets)
    ax.set_ylabel("confidence in wrong class")
    ax.set_ylim(-0.03, 1.03)
    return figure


def outlier_headline(study: OutlierStudy) -> str:
    """How many models are wrong about the outlier, with privacy and without, in words."""
    wrong, private = (study.wrong_confidence >= 0.5).mean(1), np.isfinite(study.epsilons)
    said = []
    for which, kind in ((private, "with privacy"), (~private, "without")):
        if which.any():
            ends = dict.fromkeys(map(percent, (wrong[which].min(), wrong[which].max())))
            said.append(f"{' to '.join(ends)} {kind}")
    return "Models wrong about the outlier:\n" + ", ".join(said)


def of_each_data(run: Run) -> dict[str, Run]:
    """A run, and the largest recorded one on each other data set with its budgets, by data set."""
    found: dict[str, Run] = {}
    for each in (run, *run.recorded):
        if each.parameters["epsilons"] == run.parameters["epsilons"]:  # plots share their axis
            name = re.split(r" \(|, ", title(each.parameters["dataset"]))[0]
            found.setdefault(name, each._replace(reported=run.reported))
    return found


def printed_coverages(run: Run, budgets: Sequence[float]) -> npt.NDArray:
    """P1's Table 1, shape (methods, budgets); no row if it lacks the run's data, or a budget."""
    table = {name: cell for name, cell in run.reported.items() if name.startswith("P1-T1-")}
    methods = dict.fromkeys(name.split("-")[3] for name in table)
    dataset = run.parameters["dataset"]
    found = [[by_seed.printed(table, dataset, method, e) for e in budgets] for method in methods]
    return np.array([row for row in found if None not in row])


def left_headline(coverage: pd.DataFrame, name: str) -> str:
    """How many answers are left at the smallest budget, on average over methods, in words."""
    strictest = coverage["epsilon"].min()
    left = coverage.loc[coverage["epsilon"] == strictest, "coverage"].mean()
    said = f"At {epsilon_word(strictest)} the accuracy without privacy leaves"
    return f"{said}\n{percent(left)} of answers on {name}"


@draws("interplay", "left")
def draw_left(run: Run) -> Drawn:
    """Draw the coverage for non-private accuracy by budget, a plot per data set (P1, Table 1)."""
    runs = of_each_data(run)
    tables = [_coverages(each) for each in runs.values()]
    budgets = sorted(run.parameters["epsilons"], reverse=True)
    figure, axes = panels(len(runs), 1.9, sharey=True)
    for ax, (name, each), table in zip(axes, runs.items(), tables, strict=True):
        theirs = printed_coverages(each, budgets)
        if len(theirs):  # without privacy all are left
            ends = [np.append(1, end) for end in (theirs.min(0), theirs.max(0))]
            ax.fill_between(range(len(budgets) + 1), *ends, color="0.87", lw=0)
        for method, rows in table.groupby("method", sort=False):
            left = np.append(1, rows.set_index("epsilon")["coverage"].loc[budgets])
            ax.plot(left, lw=1.2, ms=4, **_look(method))
        mean = table.loc[table["epsilon"] == budgets[-1], "coverage"].mean()
        _end_number(ax, len(budgets), mean)
        ax.annotate(name, (0.03, 0.05), xycoords="axes fraction")
        ax.set_xlim(-0.2, len(budgets) + 0.75)
        ax.set_xticks(range(len(budgets) + 1), map(_budget_word, (math.inf, *budgets)))
        ax.set_ylabel("answers left")
    axes[0].set_ylim(0, 1.03)
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, 0))
    axes[-1].set_xlabel(r"budget $\epsilon$ ($\infty$: no privacy)")
    words = _method_words(tables) | {"P1's ResNet-18": "0.5"}
    head(axes[0], left_headline(tables[0], next(iter(runs))), words, lines=2)
    return Drawn(
        figure,
        "One plot per data set: answers left, from all without privacy to the smallest budget, a "
        "line a method; a gray band for P1's methods.",
        "The largest coverage at which a private model is as accurate as its twin without privacy "
        "is on all points: means over training runs; the number is the mean of the methods. Gray: "
        "from the least to the most of P1's Table 1.",
    )


def _end_number(ax: Axes, x: float, share: float, color: str = "black") -> None:
    """Write a share to the right of where a line ends."""
    beside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
    ax.annotate(percent(share), (x, share), weight="bold", color=color, **beside)


def _look(method: str) -> dict[str, str]:
    return {"color": _METHODS[method][0], "marker": MARKERS[list(_METHODS).index(method)]}


def _method_words(tables: Iterable[pd.DataFrame]) -> dict[str, str]:
    """The methods of all tables, to their colors."""
    methods = set().union(*(table["method"] for table in tables))
    named = {_IN_WORDS.get(method, method): method for method in _METHODS if method in methods}
    return {word: _METHODS[method][0] for word, method in named.items()}


def _coverages(run: Run) -> pd.DataFrame:
    """The summary's rows of the main model that have a coverage for non-private accuracy."""
    table, model = run.tables["summary"], run.parameters["models"][0]
    return table[table["model"] == model].dropna(subset=["coverage"])


def plot_panel(trained: Experiments) -> Figure:
    """Draw selective accuracy against coverage for P1's methods, one plot per budget (Figure 2)."""
    epsilons, coverages = trained.settings.epsilons, trained.settings.coverages
    figure, axes = panels(len(epsilons), 2.6)
    curve = functools.partial(selective_net_curve, coverages=coverages)
    for ax, epsilon in zip(axes, epsilons, strict=True):
        lowest = 1.0
        for method, (colour, line) in _METHODS.items():
            if method == "SN" and epsilon in trained.selective:
                accuracy = trained.selective[epsilon].by_seed(curve).mean(axis=0)
                ax.plot(coverages, accuracy, "D", color=colour, label="SN")
            elif (method, epsilon) in trained.predictions:
                coverage, accuracy = mean_curve(trained, method, epsilon)
                accuracy = accuracy[coverage >= 0.02]  # the first few points are noise
                shown = _thinned(coverage[coverage >= 0.02], accuracy)
                ax.plot(*shown, line, color=colour, marker="", label=method)
            else:
                continue
            lowest = min(lowest, accuracy.min())
        ax.set_title(epsilon_word(epsilon))
        ax.set_ylabel("selective accuracy")
        ax.set_ylim(max(0, lowest - 0.02), 1.005)
    ax.set_xlabel("coverage")
    _legend_below(ax, 0.28)
    return figure


def order_headline(tables: Iterable[pd.DataFrame]) -> str:
    """At how many steps to a smaller budget a score rises, over a random order's, in words."""
    descending = (table.sort_values("epsilon", ascending=False) for table in tables)
    lines = [rows["relative"] for table in descending for _, rows in table.groupby("method")]
    steps = np.concatenate([np.diff(line) for line in lines])
    return (
        "Over a random order's, too, the score\n"
        f"rises at {np.count_nonzero(steps > 0)} of {len(steps)} steps to a smaller budget"
    )


@draws("normalized_score", "order")
def draw_order(run: Run) -> Drawn:
    """Draw relative scores by budget, a plot per data set; 1 is a random order."""
    runs = of_each_data(run)
    tables = [recorded_order(each) for each in runs.values()]
    budgets = [math.inf, *sorted(run.parameters["epsilons"], reverse=True)]
    figure, axes = panels(len(runs), 1.9, sharey=True)
    for ax, name, table in zip(axes, runs, tables, strict=True):
        for i, (method, rows) in enumerate(table.groupby("method", sort=False)):
            at = np.arange(len(budgets)) + 0.05 * (i - 2)
            rows = rows.set_index("epsilon").loc[budgets]
            ax.plot(at, rows["relative"], lw=1.2, ms=4, **_look(method))
            ends = (rows[end].clip(0, 1) for end in ("low", "high"))
            ax.vlines(at, *ends, color=_METHODS[method][0], lw=0.8, alpha=0.5)
            if method == "SR":
                _end_number(ax, len(at) - 0.9, rows["relative"].iloc[-1], _METHODS[method][0])
        ax.annotate(name, (0.03, 0.86), xycoords="axes fraction")
        ax.set_xlim(-0.25, len(budgets) - 0.2)
        ax.set_xticks(range(len(budgets)), map(_budget_word, budgets))
        ax.set_ylabel("order lost")
    better, open_marks = more_validated(run), ""
    if better is not None:
        found = recorded_order(better).query("method == 'SR'").set_index("epsilon").loc[budgets]
        look = _look("SR") | {"markerfacecolor": "none", "linestyle": "", "ms": 7}
        axes[0].plot(np.arange(len(budgets)) - 0.1, found["relative"], **look)
        open_marks = (
            "Open marks: the softmax response at rates that "
            f"{better.parameters['validation']:,} validation points chose. "
        )
    axes[0].set_ylim(0, 1.03)
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, 0))
    axes[-1].set_xlabel(r"budget $\epsilon$ ($\infty$: no privacy)")
    head(axes[0], order_headline(tables), _method_words(tables), lines=2)
    seeds = {name: each.parameters["n_seeds"] for name, each in runs.items()}
    of_each = ", ".join(f"{n} on {name}" for name, n in seeds.items())
    tried = by_seed.tried({name: each.parameters for name, each in runs.items()})
    return Drawn(
        figure,
        "One plot per data set: the score as a part of a random order's, by budget, a line a "
        "method; lines rise to the right where privacy costs order.",
        "Score as a part of a random order's at the same accuracy: 0% is a perfect order, 100% one "
        "that knows nothing. Bars are 95% intervals over training runs, at the mean accuracy "
        f"(runs: {of_each}). {why_wide(seeds)}{open_marks}{tried}",
    )


def more_validated(run: Run) -> Run | None:
    """The recorded run of the same network, data and budgets in which more points chose rates."""
    same = ("dataset", "models", "epsilons")
    return next(
        (
            each
            for each in run.recorded
            if all(each.parameters[name] == run.parameters[name] for name in same)
            and each.parameters.get("validation", 0) > run.parameters.get("validation", 0)
        ),
        None,
    )


def why_wide(seeds: Mapping[str, int]) -> str:
    """Why intervals are wide on the data set with fewer training runs than all others."""
    name, fewest = min(seeds.items(), key=lambda pair: pair[1])
    if fewest < 2 or list(seeds.values()).count(fewest) > 1 or len(seeds) < 2:
        return ""
    reach = special.stdtrit(fewest - 1, 0.975)
    return (
        f"Those on {name} are wide because there are {fewest} runs only: such an interval reaches "
        f"{reach:.1f} standard errors to either side. "
    )


def _budget_word(epsilon: float) -> str:
    return r"$\infty$" if math.isinf(epsilon) else f"{epsilon:g}"


def plot_to_bound(trained: Experiments) -> Figure:
    """Draw SCTD's curves with their bounds, and shade the area between (P1, Figure 3)."""
    figure, ax = new_figure(height=3.2)
    for i, epsilon in enumerate(trained.settings.epsilons):
        coverage, accuracy = mean_curve(trained, "SCTD", epsilon)
        found = trained.predictions["SCTD", epsilon].correct.mean(1)
        bound = np.mean([accuracy_bound(a, coverage) for a in found], axis=0)
        c, low = _thinned(coverage, accuracy)
        _, high = _thinned(coverage, bound)
        ax.plot(c, low, color=COLOURS[i], marker="", label=epsilon_word(epsilon))
        ax.plot(c, high, color=COLOURS[i], marker="", linestyle="--", linewidth=1)
        ax.fill_between(c, low, high, color=COLOURS[i], alpha=0.15)
    ax.set_xlabel("coverage")
    ax.set_ylabel("selective accuracy")
    ax.legend(loc="lower left")
    return figure


def plot_imbalance(study: Imbalance) -> Figure:
    """Draw accuracy against coverage for all points and for the rare class (Figures 4 and 5)."""
    figure, axes = panels(len(study.keep), 2.4)
    rare = study.labels == 0
    for ax, p0 in zip(axes, study.keep, strict=True):
        for i, epsilon in enumerate(study.epsilons):
            for rows, line in ((np.full(len(rare), True), "--"), (rare, "-")):
                accuracy = study.predictions[p0, epsilon].by_seed(
                    lambda c, s, rows=rows: accuracy_coverage(c[rows], s[rows]).accuracy
                )
                coverage = np.arange(1, rows.sum() + 1) / rows.sum()
                label = epsilon_word(epsilon) if line == "-" else None
                curve = _thinned(coverage, accuracy.mean(axis=0))
                ax.plot(*curve, line, color=COLOURS[i], marker="", label=label)
        ax.set_title(f"$p_0 = {p0:g}$")
        ax.set_ylabel("accuracy")
        ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("coverage (of all points, or of the class)")
    _legend_below(ax, 0.35, 4)
    return figure


def plot_positions(study: Imbalance) -> Figure:
    """Draw where up to sixty points of the rare class are accepted, right and wrong ones."""
    epsilons = study.epsilons
    figure, axes = panels(len(study.keep), 1.5)
    rare = _some(np.flatnonzero(study.labels == 0), 60)
    for ax, p0 in zip(axes, study.keep, strict=True):
        for i, epsilon in enumerate(epsilons):
            found = study.predictions[p0, epsilon]
            position = acceptance_position(found.score[0])[rare]
            correct = found.correct[0][rare]
            for rows, colour, shift, word in (
                (correct, COLOURS[0], 0.18, "right"),
                (~correct, COLOURS[4], -0.18, "wrong"),
            ):
                label = word if i == 0 else None
                heights = np.full(rows.sum(), -i + shift)
                ax.plot(position[rows], heights, "|", color=colour, markersize=5, label=label)
        ax.set_yticks([-i for i in range(len(epsilons))], [epsilon_word(e) for e in epsilons])
        ax.set_ylim(-len(epsilons) + 0.5, 0.5)
        ax.set_title(f"$p_0 = {p0:g}$")
        ax.grid(visible=False)
    ax.set_xlabel("coverage at which the point is accepted")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.5), ncols=2)
    return figure


def plot_bound_reached(curves: Mapping[float, npt.NDArray]) -> Figure:
    """Draw perfect orders and the bound, which coincide (P1, Figure 6)."""
    figure, ax = new_figure()
    for i, (a, accuracy) in enumerate(curves.items()):
        coverage = np.arange(1, len(accuracy) + 1) / len(accuracy)
        shared = {"color": COLOURS[i % 7], "marker": ""}
        ax.plot(coverage, accuracy_bound(a, coverage), linewidth=4, alpha=0.3, **shared)
        ax.plot(*_thinned(coverage, accuracy), "--", label=f"{a:g}", **shared)
    ax.set_xlabel("coverage")
    ax.set_ylabel("selective accuracy")
    ax.legend(title="full accuracy", loc="lower left")
    return figure


#: By how much the normal scores of right answers are higher, in the drawing of the moving bound.
ORDERS = {"good": 2.5, "fair": 1.0}


def plot_moving_bound(accuracies: Sequence[float]) -> Figure:
    """Draw one order of acceptance at several accuracies: bound, curves, and scores between.

    Wrong points have normal scores, right ones the same moved by one of `ORDERS`; only the
    proportion of right points changes.
    """
    figure, axes = panels(len(accuracies), 2.0, sharey=True)
    n = 400
    coverage = np.arange(1, n + 1) / n
    for ax, accuracy in zip(axes, accuracies, strict=True):
        right = round(accuracy * n)
        bound = accuracy_bound(accuracy, coverage)
        ax.plot(coverage, bound, "--", color="black", marker="", label="bound", linewidth=1.2)
        for i, (word, shift) in enumerate(ORDERS.items()):
            scores = [special.ndtri((np.arange(m) + 0.5) / m) for m in (right, n - right)]
            points = np.arange(n) < right, np.concatenate([shift + scores[0], scores[1]])
            curve = accuracy_coverage(*points)
            label = f"{word}: {normalized_score(*points):.3f}"
            ax.plot(*_thinned(curve.coverage, curve.accuracy), _LINES[2 * i], color=COLOURS[i],
                    marker="", label=label)  # fmt: skip
            ax.fill_between(coverage, curve.accuracy, bound, color=COLOURS[i], alpha=0.15, lw=0)
        label = f"random: {random_order_score(accuracy):.3f}"
        ax.axhline(accuracy, color="0.4", linestyle=":", marker="", label=label)
        ax.set_ylabel("selective accuracy")
        ax.set_title(f"accuracy {accuracy:g}", loc="left")
        ax.legend(loc="lower left", ncols=2, fontsize=9)
    axes[0].set_ylim(0.3, 1.03)
    axes[-1].set_xlabel("coverage")
    return figure


@draws("normalized_score", "early_stopping")
def draw_early_stopping(run: Run) -> Drawn:
    """Draw the privacy that accuracy-aligned models have spent, beside what they were made for."""
    table = run.tables["early_stopping"]
    figure, ax = new_figure()
    x = np.arange(len(table))
    ax.bar(x - 0.2, table["epsilon"], width=0.38, color="0.75")
    ax.bar(x + 0.2, table["spent"], width=0.38, color=COLOURS[0])
    for at, spent in zip(x + 0.2, table["spent"], strict=True):
        ax.annotate(f"{spent:.2f}", (at, spent), (0, 3), ha="center", textcoords="offset points")
    _epsilon_ticks(ax, table["epsilon"])
    ax.set_ylabel(r"$\epsilon$")
    head(ax, stopping_headline(table), {"meant for": "0.55", "spent when stopped": COLOURS[0]})
    return Drawn(
        figure,
        "Pairs of bars per budget: the epsilon aimed at, and the one spent when aligned.",
        "Budgets, and what models have spent when they first are as accurate as the most private "
        "one in the end.",
    )


def stopping_headline(table: pd.DataFrame) -> str:
    """What the model of the largest budget has spent when it is stopped, in words."""
    aimed, spent = table.loc[table["epsilon"].idxmax(), ["epsilon", "spent"]]
    said = "Stopped when it is as accurate as the most\nprivate, a model for $\\epsilon$ = "
    return f"{said}{aimed:g} has spent {spent:.2f}"


def needed_headline(table: pd.DataFrame, at_hand: int) -> str:
    """How many comparisons with the softmax response need more points than there are, in words."""
    short = int((table["points"] > at_hand).sum())
    said = f"{short} of {len(table)} comparisons with softmax response"
    return f"{said}\nneed more than the {at_hand:,} points at hand"


@draws("normalized_score", "needed")
def draw_needed(run: Run) -> Drawn:
    """Draw how many evaluation points tell each method from SR, by budget."""
    table, at_hand = run.tables["needed"], run.values["at_hand"]
    budgets = sorted(table["epsilon"].unique(), reverse=True)
    figure, ax = new_figure(height=3.2)
    for method, rows in table.groupby("method", sort=False):
        points = rows.set_index("epsilon")["points"].loc[budgets].replace(np.inf, np.nan)
        ax.plot(points.to_numpy(), lw=1.2, **_look(method))
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, at_hand / 2), max(high, 2 * at_hand))
    ax.axhspan(at_hand, ax.get_ylim()[1], color="0.93", lw=0)
    ax.set_xticks(range(len(budgets)), map(_budget_word, budgets))
    ax.set_xlabel(r"budget $\epsilon$ ($\infty$: no privacy)")
    ax.set_ylabel("evaluation points needed")
    words = _method_words([table]) | {"gray: more than at hand": "0.5"}
    head(ax, needed_headline(table, at_hand), words, lines=2)
    return Drawn(
        figure,
        "Lines on a logarithmic axis: evaluation points needed to tell each method from SR.",
        "Evaluation points needed to tell a method from the softmax response with 80% power at the "
        "5% level, at the mean difference found; gray: more than the points at hand.",
    )


def _epsilon_ticks(ax: Axes, epsilons: Sequence[float]) -> None:
    ax.set_xticks(range(len(epsilons)), [epsilon_word(e) for e in epsilons])


def _legend_below(ax: Axes, gap: float, columns: int = 3) -> None:
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -gap), ncols=columns, fontsize=9)


def _some(rows: npt.NDArray, most: int) -> npt.NDArray:
    """At most so many rows, evenly spaced."""
    return rows[:: -(-len(rows) // most) or 1]


def _thinned(x: npt.NDArray, y: npt.NDArray, most: int = 400) -> tuple[npt.NDArray, npt.NDArray]:
    """At most so many points of a curve, for a small file: more than a screen resolves."""
    if len(x) <= most:
        return x, y
    keep = np.unique(np.round(np.linspace(0, len(x) - 1, most)).astype(int))
    return x[keep], y[keep]
