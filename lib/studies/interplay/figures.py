"""Figures of the two chapters on P1."""

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
from lib.studies.interplay.tables import recorded_order

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
    "SN": "SelectiveNet",
}


def epsilon_word(epsilon: float) -> str:
    """The budget as figures write it."""
    return r"$\epsilon = \infty$" if math.isinf(epsilon) else rf"$\epsilon = {epsilon:g}$"


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
    axes[-1].set_xlabel(_BUDGET)
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


def looks_of(methods: Iterable[str]) -> dict[str, tuple[str, dict[str, str]]]:
    """What figures of P1's pages call each of its methods, and its color and marker."""
    return {method: (_IN_WORDS.get(method, method), _look(method)) for method in methods}


def steps_headline(paper: npt.NDArray, ours: npt.NDArray, axis: str) -> str:
    """At how many steps to a smaller budget a number falls, or rises, as P1's do mostly, in words.

    `axis` names the number, in its first word; but a score is a score.
    """
    sign = 1 if (paper > 0).mean() > 0.5 else -1
    printed, found = (int((sign * each > 0).sum()) for each in (paper, ours))
    name = "score" if axis.endswith("score") else axis.split()[0]
    return (
        f"With a smaller budget the {name} {'rises' if sign > 0 else 'falls'} at\n"
        f"{printed} of {len(paper)} steps printed, {found} of {len(ours)} of ours"
    )


def _method_words(tables: Iterable[pd.DataFrame]) -> dict[str, str]:
    """The methods of all tables, to their colors."""
    methods = set().union(*(table["method"] for table in tables))
    named = {_IN_WORDS.get(method, method): method for method in _METHODS if method in methods}
    return {word: _METHODS[method][0] for word, method in named.items()}


def _main_rows(run: Run) -> pd.DataFrame:
    """The summary's rows of the main model."""
    table = run.tables["summary"]
    return table[table["model"] == run.parameters["models"][0]]


def _coverages(run: Run) -> pd.DataFrame:
    """The rows of the main model that have a coverage for non-private accuracy."""
    return _main_rows(run).dropna(subset=["coverage"])


def ensemble_headline(table: pd.DataFrame, name: str) -> str:
    """How many points of accuracy an ensemble loses to the smallest budget, and one model."""
    strictest = table["epsilon"].min()
    at = table.pivot(index="method", columns="epsilon", values="accuracy")
    lost = 100 * (at[math.inf] - at[strictest])
    said, one = f"On {name} {epsilon_word(strictest)} costs", f"{lost['SR']:.0f}"
    if "DE" in lost:
        return f"{said} an ensemble\n{lost['DE']:.0f} points of accuracy, one model {one}"
    return f"{said} one model\n{one} points of accuracy"


@draws("interplay", "accuracy")
def draw_accuracy(run: Run) -> Drawn:
    """Draw accuracy at full coverage by budget, a line a way of training, a plot per data set."""
    runs = of_each_data(run)
    tables = [_main_rows(each).query("method != 'SCTD'") for each in runs.values()]
    budgets = [math.inf, *sorted(run.parameters["epsilons"], reverse=True)]
    figure, axes = panels(len(runs), 1.9)
    for ax, name, table in zip(axes, runs, tables, strict=True):
        for method, rows in table.groupby("method", sort=False):
            values = rows.set_index("epsilon")["accuracy"].loc[budgets].to_numpy()
            ax.plot(values, lw=1.2, ms=4, ls="-", **_look(method))
            if method == "DE":
                _end_number(ax, len(budgets) - 1, values[-1], _METHODS[method][0])
        ax.annotate(name, (0.97, 0.88), xycoords="axes fraction", ha="right")
        _budget_axis(ax, budgets)
        ax.yaxis.set_major_formatter(PercentFormatter(1, 0))
        ax.set_ylabel("accuracy")
    axes[-1].set_xlabel(_BUDGET)
    words = _method_words(tables)
    words = {"one model": words.pop(_IN_WORDS["SR"])} | words
    head(axes[0], ensemble_headline(tables[0], next(iter(runs))), words, lines=2)
    return Drawn(
        figure,
        "One plot per data set: accuracy at full coverage, falling from no privacy to the smallest "
        "budget, a line a way of training.",
        "Accuracy where all points are answered, means over training runs; of SelectiveNet the "
        "model that is made for all. Numbers are the ensemble's. The axes differ.",
    )


def reversal_headline(table: pd.DataFrame) -> str:
    """With how much of a class privacy turns its order around, and how far, in words."""
    private = table[np.isfinite(table["epsilon"])]
    least = private.groupby("p0")["right first"].min().sort_index(ascending=False)
    turned = least[least < 0.5]
    if turned.empty:
        return f"Right points stay before wrong ones:\nin {percent(least.min())} of pairs at least"
    p0, share = turned.index[0], turned.iloc[0]
    return (
        f"With {percent(p0)} of a class left, privacy reverses\n"
        f"its order: right comes first in {percent(share)} of pairs"
    )


@draws("interplay", "rare")
def draw_rare(run: Run) -> Drawn:
    """Draw the rare class by budget, a line a part that is left of it: accuracy, and order."""
    table = run.tables["imbalance"]
    budgets = sorted(table["epsilon"].unique(), reverse=True)
    said = {"rare accuracy": "accuracy in class", "right first": "right comes first"}
    figure, axes = panels(len(said), 2.0, sharey=True)
    parts = list(table.groupby("p0", sort=False))
    for ax, (column, word) in zip(axes, said.items(), strict=True):
        for i, (_, rows) in enumerate(parts):
            values = rows.set_index("epsilon")[column].loc[budgets]
            ax.plot(values.to_numpy(), MARKERS[i], ls="-", lw=1.2, ms=4, color=COLOURS[i])
        ax.set_ylabel(word)
        _budget_axis(ax, budgets)
    axes[1].axhline(0.5, color="0.5", linestyle=":", marker="")
    axes[1].annotate("at random", (len(budgets) - 0.3, 0.5), (0, -3), ha="right", va="top",
                     fontsize=9, color="0.4", textcoords="offset points")  # fmt: skip
    axes[0].set_ylim(-0.03, 1.03)
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, 0))
    axes[-1].set_xlabel(_BUDGET)
    words = {percent(p0): COLOURS[i] for i, (p0, _) in enumerate(parts)}
    head(axes[0], reversal_headline(table), {"left of the class:": "0.4"} | words)
    return Drawn(
        figure,
        "Two plots over the budget, a line a part of class 0 that is left: how many of the class "
        "are right, and how often a right one of them is accepted before a wrong one.",
        "Class 0 when only a part of its training examples is left (P1's appendix B.2): accuracy "
        "in the class, and in how many pairs of a right and a wrong point of it the right one is "
        "accepted first. Where all are wrong there are no pairs.",
    )


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
    axes[-1].set_xlabel(_BUDGET)
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


_BUDGET = r"budget $\epsilon$ ($\infty$: no privacy)"


def _budget_axis(ax: Axes, budgets: Sequence[float]) -> None:
    """A step a budget, with room for a number at the end."""
    ax.set_xlim(-0.25, len(budgets) - 0.25)
    ax.set_xticks(range(len(budgets)), map(_budget_word, budgets))


def plot_bound_reached(curves: Mapping[float, npt.NDArray]) -> Figure:
    """Draw perfect orders and the bound, which coincide (P1, Figure 6)."""
    figure, ax = new_figure(height=2.6)
    farthest = 0.0
    for i, (a, accuracy) in enumerate(curves.items()):
        coverage = np.arange(1, len(accuracy) + 1) / len(accuracy)
        bound, shared = accuracy_bound(a, coverage), {"color": COLOURS[i % 7], "marker": ""}
        farthest = max(farthest, float(np.abs(bound - accuracy).max()))
        ax.plot(*_thinned(coverage, bound), linewidth=5, alpha=0.3, **shared)
        ax.plot(*_thinned(coverage, accuracy), "--", lw=1.2, **shared)
        _beside(ax, (1, accuracy[-1]), f"{a:g}", COLOURS[i % 7])
    ax.set_xlabel("coverage")
    ax.set_ylabel("selective accuracy")
    words = {"pale: the bound": "0.5", "dashed: a perfect order": "0.3"}
    head(ax, reached_headline(farthest), words)
    return figure


def reached_headline(farthest: float) -> str:
    """Whether perfect orders reach the bound, from their largest distance to it, in words."""
    if farthest < 1e-6:
        return "A perfect order reaches the bound"
    return f"A perfect order stays up to {farthest:.2g} below the bound"


def _beside(ax: Axes, at: tuple[float, float], word: str, color: str, shift: float = 6) -> None:
    """Write a word to the right of a point."""
    beside = {"xytext": (shift, 0), "textcoords": "offset points", "va": "center", "fontsize": 9}
    ax.annotate(word, at, color=color, annotation_clip=False, **beside)


#: By how much the normal scores of right answers are higher, in the drawing of the moving bound.
ORDERS = {"good": 2.5, "fair": 1.0}


def plot_moving_bound(accuracies: Sequence[float]) -> Figure:
    """Draw one order of acceptance at several accuracies: bound, curves, and scores between.

    Wrong points have normal scores, right ones the same moved by one of `ORDERS`; only the
    proportion of right points changes.
    """
    figure, axes = panels(len(accuracies), 1.9, sharey=True)
    n = 400
    coverage = np.arange(1, n + 1) / n
    scored: dict[str, list[float]] = {}
    for ax, accuracy in zip(axes, accuracies, strict=True):
        right = round(accuracy * n)
        bound = accuracy_bound(accuracy, coverage)
        ax.plot(*_thinned(coverage, bound), "--", color="black", marker="", linewidth=1.2)
        for i, (word, shift) in enumerate(ORDERS.items()):
            scores = [special.ndtri((np.arange(m) + 0.5) / m) for m in (right, n - right)]
            points = np.arange(n) < right, np.concatenate([shift + scores[0], scores[1]])
            curve = accuracy_coverage(*points)
            shown = _thinned(curve.coverage, curve.accuracy)
            ax.plot(*shown, _LINES[2 * i], color=COLOURS[i], marker="", lw=1.4)
            ax.fill_between(coverage, curve.accuracy, bound, color=COLOURS[i], alpha=0.15, lw=0)
            scored.setdefault(f"{word} order", []).append(normalized_score(*points))
        ax.axhline(accuracy, color="0.4", linestyle=":", marker="")
        scored.setdefault("random order", []).append(float(random_order_score(accuracy)))
        for i, (each, color) in enumerate(zip(scored.values(), _MOVING, strict=True)):
            place = {"xy": (0.04 + 0.22 * i, 0.05), "xycoords": "axes fraction", "fontsize": 9}
            ax.annotate(f"{each[-1]:.3f}", **place, color=color)
        said = {"xycoords": "axes fraction", "fontsize": 9, "ha": "right"}
        ax.annotate(f"accuracy {accuracy:g}", (0.97, 0.18), **said)
        ax.set_ylabel("selective accuracy")
    axes[0].set_ylim(0.2, 1.03)
    axes[-1].set_xlabel("coverage")
    words = {"bound": "black"} | dict(zip(scored, _MOVING, strict=True))
    head(axes[0], moving_headline(accuracies, scored["good order"]), words)
    return figure


_MOVING = (COLOURS[0], COLOURS[1], "0.4")


def moving_headline(accuracies: Sequence[float], scored: Sequence[float]) -> str:
    """What one order scores at the least and the most accuracy, in words."""
    ends = (f"{accuracies[i]:g}" for i in (0, -1))
    said = f"One good order at an accuracy of {' and of '.join(ends)}:"
    return f"{said}\na score of {scored[0]:.3f} and of {scored[-1]:.3f}"


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
    ax.set_xlabel(_BUDGET)
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


def _thinned(x: npt.NDArray, y: npt.NDArray, most: int = 400) -> tuple[npt.NDArray, npt.NDArray]:
    """At most so many points of a curve, for a small file: more than a screen resolves."""
    if len(x) <= most:
        return x, y
    keep = np.unique(np.round(np.linspace(0, len(x) - 1, most)).astype(int))
    return x[keep], y[keep]
