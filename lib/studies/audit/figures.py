"""Figures of the chapter on P3."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from lib.audit.counts import AttackCounts
from lib.audit.intervals import METHODS, epsilon_interval
from lib.audit.posterior import epsilon_posterior
from lib.audit.regions import privacy_region
from lib.plot import COLOURS, MARKERS, new_figure, panels, plain_log, side_by_side
from lib.studies.drawn import Drawn, Run, draws
from lib.studies.headed import head, head_rows, percent

_NAMES = {"bayesian": "Bayesian", "jeffreys": "Jeffreys", "clopper-pearson": "Clopper-Pearson"}
_COLOUR = {"bayesian": COLOURS[1], "jeffreys": COLOURS[2], "clopper-pearson": COLOURS[0]}
_DASHES = {"bayesian": "-", "jeffreys": "-.", "clopper-pearson": "--"}
_CHOICES = {
    "fixed": "fixed in\nadvance",
    "best": "best of all",
    "union": "best, with\nunion bound",
    "held-out": "best on\nother trials",
}
_MISSED, _ACCUSED = "members missed (FNR)", "non-members accused (FPR)"
_MARK = {"bayesian": "–", "jeffreys": "-·", "clopper-pearson": "--"}
_LINE = {m: {"color": _COLOUR[m], "linestyle": _DASHES[m], "marker": ""} for m in METHODS}


def plot_posterior(
    counts: AttackCounts, delta: float, level: float, proven: float | None = None
) -> Figure:
    """Draw the density of epsilon and the intervals of all methods below it: P3, Figure 1."""
    posterior = epsilon_posterior(counts, delta)
    intervals = {m: epsilon_interval(counts, delta, level, m) for m in METHODS}
    finite = [e for ends in intervals.values() for e in ends if math.isfinite(e)]
    right = 1.15 * max([*finite, float(posterior.isf(0.005)), proven or 0.0])
    ratios = {"height_ratios": [3, 1.3]}
    figure, (ax, below) = new_figure(rows=2, height=2.0, sharex=True, gridspec_kw=ratios)
    eps = np.linspace(1e-4, right, 400)
    ax.plot(eps, posterior.pdf(eps), **_LINE["bayesian"])
    low, high = intervals["bayesian"]
    inside = np.linspace(max(low, 1e-4), min(high, right), 200)
    ax.fill_between(inside, posterior.pdf(inside), color=_COLOUR["bayesian"], alpha=0.2)
    ax.set_ylabel("density")
    ax.set_ylim(bottom=0)
    if proven is not None:
        for each in (ax, below):
            each.axvline(proven, color="black", linestyle=":", marker="")
        place = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "top"}
        place |= {"xytext": (-3, 0), "textcoords": "offset points"}
        ax.annotate("proven", (proven, 0.97), fontsize=10, **place)
    for place, method in enumerate(METHODS):
        low, high = intervals[method]
        bar = {"color": _COLOUR[method], "marker": "|" if math.isfinite(high) else ""}
        below.plot([low, min(high, right)], 2 * [place], markersize=9, **bar)
        if math.isinf(high):
            below.plot(right, place, color=_COLOUR[method], marker=">", clip_on=False)
    below.set_yticks(range(len(METHODS)), _NAMES.values(), fontsize=9)
    below.set_ylim(len(METHODS) - 0.4, -0.6)
    below.set_xlim(0, right)
    below.set_xlabel(r"privacy loss $\epsilon$")
    head_rows(figure, posterior_headline(intervals))
    return figure


def posterior_headline(intervals: dict[str, tuple[float, float]]) -> str:
    """Which intervals are bounded from above, in words."""
    ends = {_NAMES[m]: high for m, (_, high) in intervals.items() if math.isfinite(high)}
    if len(ends) == 1:
        ((name, high),) = ends.items()
        return f"Only the {name} interval has an end, {high:.1f};\nthe others allow any epsilon"
    return f"{len(ends)} of {len(intervals)} intervals have an end"


def plot_privacy_regions(epsilons: Sequence[float], delta: float) -> Figure:
    """Draw privacy regions, one inside the other: P3, Figure 2."""
    figure, ax = new_figure(height=3.6)
    fnr = np.linspace(0, 1, 501)
    for i, epsilon in enumerate(sorted(epsilons, reverse=True)):
        region = privacy_region(epsilon, delta)
        low, high = region.lower(fnr), region.upper(fnr)
        ax.fill_between(fnr, low, high, color=COLOURS[i], alpha=0.18, linewidth=0)
        ax.plot(fnr, low, color=COLOURS[i], marker="")
        ax.plot(fnr, high, color=COLOURS[i], marker="")
    _unit_square(ax)
    words = {rf"$\epsilon = {e:g}$": COLOURS[i] for i, e in enumerate(sorted(epsilons)[::-1])}
    head(ax, "The larger epsilon, the fewer errors\nan attack may make", words)
    return figure


def plot_convergence(tables: Sequence[AttackCounts], delta: float, level: float) -> Figure:
    """Draw joint posteriors of more and more trials with the interval's regions: P3, Figure 7."""
    figure, axes = new_figure(rows=2, columns=2, height=2.2, sharex=True, sharey=True)
    side_by_side(figure, axes.ravel(), 4)
    fnr = np.linspace(0, 1, 501)
    intervals = [epsilon_interval(counts, delta, level) for counts in tables]
    for ax, counts, (low, high) in zip(axes.ravel(), tables, intervals, strict=True):
        inner, outer = privacy_region(low, delta), privacy_region(high, delta)
        for band in ((outer.lower(fnr), inner.lower(fnr)), (inner.upper(fnr), outer.upper(fnr))):
            ax.fill_between(fnr, *band, color=_COLOUR["bayesian"], alpha=0.25, linewidth=0)
        _posterior_contours(ax, counts)
        _unit_square(ax, "", "")
        n = counts.positives + counts.negatives
        ax.set_title(f"{n:,} trials:\n{low:.2g} to {high:.2g}", fontsize=9)
    figure.supxlabel(_MISSED, fontsize=11)
    figure.supylabel("accused (FPR)", fontsize=11)
    wide = [high - low for low, high in intervals]
    head_rows(figure, f"With more trials the interval for epsilon shrinks\n{_from_to(wide)} wide")
    return figure


def _from_to(numbers: Sequence[float]) -> str:
    return f"from {numbers[0]:.2g} to {numbers[-1]:.2g}"


def plot_widths(table: pd.DataFrame, half_width: float, truth: float) -> Figure:
    """Draw the ends of the intervals against the number of trials: P3, Figure 4."""
    figure, ax = new_figure(height=3.4)
    trials = table["trials"]
    ax.axhspan(truth - half_width, truth + half_width, color="0.92")
    for method, rows in table.groupby("method", sort=False):
        ends = rows[["low", "high"]].to_numpy()
        ax.plot(rows["trials"], ends, **_LINE[method])
    ax.set_xlim(trials.min(), trials.max())
    ax.set_ylim(0, 4 * truth)
    ax.set_xlabel("trials")
    ax.set_ylabel(r"ends of the interval for $\epsilon$")
    words = {f"{_MARK[m]} {_NAMES[m]}": _COLOUR[m] for m in METHODS}
    head(ax, widths_headline(table), words)
    return figure


def widths_headline(table: pd.DataFrame) -> str:
    """At how many numbers of trials the Bayesian interval is the narrowest, in words."""
    width = table.assign(width=table["high"] - table["low"])
    widths = width.pivot(index="trials", columns="method", values="width")
    others = widths.drop(columns="bayesian").min(axis=1)
    narrowest = int((widths["bayesian"] < others - 1e-9).sum())
    where = "at every number of trials"
    if narrowest < len(widths):
        where = f"at {narrowest} of {len(widths)} numbers of trials"
    return f"The Bayesian interval is the narrowest\n{where}"


@draws("audit", "coverage")
def draw_coverage(run: Run) -> Drawn:
    """Draw the actual coverage of the methods against the true epsilon, by number of trials."""
    table, level = run.tables["coverage"], run.parameters["level"]
    counts = sorted(table["trials"].unique())
    figure, axes = panels(len(counts), 2.3, sharey=True)
    for ax, n in zip(axes, counts, strict=True):
        rows = table[table["trials"] == n].sort_values("epsilon")
        ax.axhline(level, color="0.4", linestyle=":", marker="")
        for place, method in enumerate(METHODS):
            points = {"color": _COLOUR[method], "marker": "os^"[place], "linestyle": ""}
            at = rows["epsilon"] + 0.03 * (place - 1)
            ax.plot(at, rows[method], **points)
        ax.annotate(f"{n:,} trials", (0.99, 0.04), xycoords="axes fraction", ha="right")
        ax.set_ylim(-0.03, 1.03)
        ax.set_ylabel("coverage")
    axes[-1].set_xlabel(r"true $\epsilon$ of the attack")
    words = {f"{'●■▲'[i]} {_NAMES[m]}": _COLOUR[m] for i, m in enumerate(METHODS)}
    head(axes[0], coverage_headline(table, level), words | {"··· level": "0.4"})
    return Drawn(
        figure,
        "Bayesian points at or below the dotted level, 0 at epsilon 0; the others mostly above it.",
        "Actual coverage of one-sided lower bounds; dotted: the level.",
    )


def coverage_headline(table: pd.DataFrame, level: float) -> str:
    """In how many designs the bounds cover the truth over a point too rarely, in words."""
    bayesian, exact = ((table[m] < level - 0.01).sum() for m in ("bayesian", "clopper-pearson"))
    return (
        f"Bayesian bounds cover over a point too rarely in\n{bayesian} of {len(table)} designs, "
        f"Clopper-Pearson's in {exact or 'none'}"
    )


@draws("audit", "selection")
def draw_selection(run: Run) -> Drawn:
    """Draw how often each way of choosing a threshold gives a bound above the truth."""
    table, level = run.tables["selection"], run.parameters["level"]
    choices = list(dict.fromkeys(table["choice"]))
    truths = table.drop_duplicates("mu").set_index("mu")["epsilon"]
    figure, axes = panels(2, 2.3, sharey=True)
    for ax, method in zip(axes, ("bayesian", "clopper-pearson"), strict=True):
        rows = table[table["method"] == method]
        for i, mu in enumerate(truths.index):
            found = 100 * rows[rows["mu"] == mu].set_index("choice")["exceeds"].loc[choices]
            y = np.arange(len(choices)) + 0.17 * (i - (len(truths) - 1) / 2)
            look = {"color": COLOURS[i % 4], "marker": MARKERS[i % 4]}
            ax.plot(found, y, linestyle="", markersize=5, **look)
        ax.axvline(100 * (1 - level), color="0.4", linestyle=":", marker="")
        inside = {"xycoords": "axes fraction", "ha": "right", "fontsize": 10}
        ax.annotate(f"{_NAMES[method]} bound", (0.99, 0.04), **inside)
        ax.grid(visible=False, axis="y")
        ax.grid(visible=True, axis="x", color="0.9", linewidth=0.8)
        ax.set_xlim(-3, 103)
        ax.set_ylim(len(choices) - 0.5, -0.5)
        ax.set_yticks(range(len(choices)), [_CHOICES[choice] for choice in choices], fontsize=9)
    axes[-1].set_xlabel("audits with a bound above the truth (%)")
    words = {rf"$\epsilon = {t:.2g}$": COLOURS[i % 4] for i, t in enumerate(truths)}
    head(axes[0], selection_headline(table, level), words | {"··· allowed": "0.4"})
    trials, audits = (run.parameters[f"selection_{name}"] for name in ("trials", "repetitions"))
    return Drawn(
        figure,
        "Two plots of dots, Bayesian and Clopper-Pearson: for four ways to choose a threshold and "
        "each true epsilon, the percentage of audits whose bound is above the truth, beside a "
        "dotted line at the error that is allowed.",
        f"Lower bounds at {level:.0%} for a mechanism of known epsilon (delta = 0.01, "
        f"{trials} trials, {audits:,} audits).",
    )


def selection_headline(table: pd.DataFrame, level: float) -> str:
    """How often the largest Bayesian bound fails, and how often it is allowed to, in words."""
    rows = table[(table["choice"] == "best") & (table["method"] == "bayesian")]
    fails, allowed = rows["exceeds"].max(), 1 - level
    said = f"The best of many Bayesian bounds fails\nin up to {percent(fails)} of audits"
    return f"{said}; allowed: {percent(allowed)}"


@draws("audit_trainings", "bounds")
def draw_bounds(run: Run) -> Drawn:
    """Draw what each attack shows, a plot a budget: swept, and by thresholds that are paid for."""
    table, words = run.tables["bounds"], {}
    finite = table["proven"][np.isfinite(table["proven"])]
    reach = 1.06 * max([*finite, *table[list(_CORRECTED)].max()])
    budgets = list(table.groupby("epsilon", sort=False))
    figure, axes = panels(len(budgets), 1.6)
    for ax, (epsilon, rows) in zip(axes, budgets, strict=True):
        places = np.arange(len(rows))
        for i, (column, word) in enumerate(_CORRECTED.items()):
            color = COLOURS[(1, 0, 2)[i]]
            points = {"color": color, "marker": "DoX"[i], "linestyle": "", "markersize": 5}
            ax.plot(rows[column], places + 0.2 * (i - 1), **points)
            words[f"{'◆●✖'[i]} {word}"] = color
        proven = rows["proven"].iloc[0]
        if math.isfinite(proven):
            ax.axvline(proven, color="0.4", linestyle=":", marker="")
            side = "right" if proven > reach / 2 else "left"
            ax.annotate(" proven ", (proven, 1), ha=side, va="center", color="0.4", fontsize=9)
        inside = {"xycoords": "axes fraction", "ha": "right", "va": "bottom", "fontsize": 10}
        ax.annotate(_word(epsilon), (0.99 if math.isinf(proven) else 0.9, 0.04), **inside)
        ax.set_yticks(places, rows["attack"].str.replace(" ", "\n"), fontsize=9)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.grid(visible=False, axis="y")
        ax.grid(visible=True, axis="x", color="0.9", linewidth=0.8)
        ax.set_xlim(-0.02 * reach, reach)
    axes[-1].set_xlabel(r"lower bound on $\epsilon$")
    head(axes[0], bounds_headline(table), words)
    level = 1 - (1 - run.parameters["level"]) / 2
    return Drawn(
        figure,
        "For each attack three lower bounds: without privacy larger ones, with privacy all far "
        "below what is proven, and the corrected ones below the swept.",
        f"Lower bounds ({level:.0%}) of each attack on the target models: at the threshold with "
        "the largest Bayesian bound, at one chosen on shadow models, and with all thresholds paid "
        "for (both Clopper-Pearson's).",
    )


_CORRECTED = {"best, Bayesian": "best (Bayesian)", "held-out": "held-out", "union": "union"}


def bounds_headline(table: pd.DataFrame) -> str:
    """What is shown at the largest budget, swept and corrected, and what is proven, in words."""
    private = table[np.isfinite(table["epsilon"])]
    rows = private[private["epsilon"] == private["epsilon"].max()]
    swept, corrected = rows["best, Bayesian"].max(), rows[["held-out", "union"]].max(axis=None)
    return (
        f"Where {rows['proven'].iloc[0]:.2g} is proven, attacks show {swept:.2g}\n"
        f"swept over thresholds, corrected {corrected:.2g}"
    )


@draws("audit_trainings", "one_run")
def draw_one_run(run: Run) -> Drawn:
    """Draw the lower bounds of both ways of auditing against the number of models."""
    table = run.tables["one_run"]
    found = table.groupby("epsilon")
    figure, axes = panels(len(found), 2.3)
    ways = {"many runs": COLOURS[0], "one run each": COLOURS[1]}
    for ax, (epsilon, rows) in zip(axes, found, strict=True):
        for i, (way, colour) in enumerate(ways.items()):
            shown = rows.dropna(subset=[way])
            line = {"color": colour, "linestyle": ("--", "-")[i], "marker": "so"[i]}
            ax.plot(shown["models"], shown[way], **line)
        ax.set_xscale("log")
        ax.set_ylim(-0.05, 1.25 * max(ax.get_ylim()[1], 0.1))  # room for the word
        inside = {"xycoords": "axes fraction", "va": "top"}
        ax.annotate(_word(epsilon), (0.02, 0.97), **inside)
        ax.set_ylabel("lower bound")
    axes[-1].set_xlabel("audited models")
    words = {"– – one point a model": ways["many runs"], "— one run each": ways["one run each"]}
    head(axes[0], one_run_headline(table), words)
    return Drawn(
        figure,
        "Lower bounds against the number of models: the one-run audit's and that of many runs.",
        "Lower bounds (95%, all choices paid for) with one challenge point a model, and with every "
        "point of every model as a canary.",
    )


def one_run_headline(table: pd.DataFrame) -> str:
    """What both ways of auditing show of the fewest models at the largest epsilon, in words."""
    first = table.sort_values(["epsilon", "models"], ascending=[False, True]).iloc[0]
    models = f"{first['models']:.0f} model{'s' if first['models'] > 1 else ''}"
    shown = first[["one run each", "many runs"]]
    one, many = (f"{x:.2g}" if x > 0 else "nothing" for x in shown)
    where = f"{models}, {_word(first['epsilon'])}"
    return f"{where}: the one-run audit\nshows {one}, one point a model {many}"


@draws("audit_trainings", "detection")
def draw_detection(run: Run) -> Drawn:
    """Draw the smallest detected understatement against the number of models, a line an audit."""
    from lib.studies.audit import detection  # which loads PyTorch

    table = run.tables["detection"]
    figure, axes = panels(2, 2.6)
    audits = {audit: COLOURS[i] for i, audit in enumerate(dict.fromkeys(table["audit"]))}
    for ax, column in zip(axes, _SEEN, strict=True):
        for i, (audit, colour) in enumerate(audits.items()):
            shown = table[(table["audit"] == audit) & np.isfinite(table[column])]
            line = {"linestyle": ("-", "--", "-.", ":")[i], "marker": "os^D"[i]}
            ax.plot(shown["models"], shown[column], color=colour, **line)
        if np.isfinite(table[column]).any():  # there is no logarithmic axis of nothing
            ax.set(xscale="log", yscale="log")
            models = sorted(table["models"].unique())
            ax.set_xticks(models, [f"{n:,}" for n in models])
            ax.minorticks_off()
            plain_log(ax.yaxis)
        inside = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
        ax.annotate(column, (0.98, 0.97), **inside)
        ax.set_ylabel(r"true over claimed $\epsilon$")
    axes[-1].set_xlabel("models (one run: canaries)")
    head(axes[0], detection_headline(table), audits)
    return Drawn(
        figure,
        "Falling curves, one per audit: even thousands of models see large factors only.",
        f"Smallest understatement of epsilon that a {detection.LEVEL:.0%} lower bound "
        f"finds in {detection.POWER:.0%} of the audits; where a line is missing, none is "
        "found. The Gaussian bound rests on a hypothesis.",
    )


_SEEN = ("white box", "final model")


def detection_headline(table: pd.DataFrame) -> str:
    """The factors that the first audit detects with the most models, in words."""
    first = table[table["audit"] == table["audit"].iloc[0]].sort_values("models").iloc[-1]
    white, final = (f"{first[x]:.1f}" if np.isfinite(first[x]) else "none" for x in _SEEN)
    return (
        f"With {first['models']:,} models a {first['audit']} bound sees\n"
        f"a factor of {white} (white box), {final} (final model)"
    )


def _word(epsilon: float) -> str:
    return "without privacy" if math.isinf(epsilon) else rf"$\epsilon = {epsilon:g}$"


def _posterior_contours(ax, counts: AttackCounts) -> None:
    grid = np.linspace(0.0005, 0.9995, 400)
    x = stats.beta.pdf(grid, counts.fn + 0.5, counts.tp + 0.5)
    y = stats.beta.pdf(grid, counts.fp + 0.5, counts.tn + 0.5)
    density = np.outer(y, x)
    most = density.max()
    levels = most * np.array([0.05, 0.2, 0.4, 0.6, 0.8])
    ax.contour(grid, grid, density, levels, cmap="Greys", vmin=-0.6 * most, linewidths=1)


def _unit_square(ax, xlabel: str = _MISSED, ylabel: str = _ACCUSED) -> None:
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=xlabel, ylabel=ylabel)
    ax.grid(visible=False)


def planted_headline(found: pd.DataFrame, often: float) -> str:
    """How many faults are found from inside and from outside, of a fault's rates by audit."""
    outside = [name for name in found if name.startswith("outside")]
    inside = (found.drop(columns=outside).max(axis=1) >= often).sum()
    out = (found[outside].max(axis=1) >= often).sum()
    words = {0: "none", len(found): "all"}
    return (
        f"From inside one run audits find {inside} of {len(found)} faults;\n"
        f"from outside they find {words.get(out, out)}"
    )


@draws("planted_faults", "planted")
def draw_planted(run: Run) -> Drawn:
    """A square for each fault and audit: how often it was found, in percent."""
    table, given, sound = run.tables["planted"], run.parameters, "nothing wrong"
    rows, audits = (list(dict.fromkeys(table[name])) for name in ("fault", "audit"))
    found = table.pivot(index="fault", columns="audit", values="found").loc[rows, audits]
    outside = sum(name.startswith("outside") for name in audits)
    figure, ax = new_figure(height=1.3 + 0.24 * len(rows))
    ax.imshow(found, cmap="Blues", vmin=0, vmax=1.2, aspect="auto")
    for (i, j), value in np.ndenumerate(found.to_numpy()):
        color = "white" if value > 0.6 else "black"
        ax.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=8, color=color)
    ax.axvline(outside - 0.5, color="white", lw=5)
    most = table.groupby("audit")["could show"].max()
    names = [name.removeprefix("outside, ").replace("form", "form of mechanism") for name in audits]
    weak = ["*" * bool(most[name] <= given["epsilon"]) for name in audits]
    ax.set_xticks(
        range(len(audits)),
        [name + star for name, star in zip(names, weak, strict=True)],
        rotation=35,
        ha="right",
        rotation_mode="anchor",
        fontsize=8,
    )
    for words, place in (("outside", 0), ("inside one run", outside)):
        ax.annotate(words, (place - 0.4, -0.6), fontsize=9, va="bottom", annotation_clip=False)
    # Of these the training is sound: what is found is a false alarm, or the audit's own fault.
    words = [f"{row} (sound)" if row in (sound, "leaked coins") else row for row in rows]
    ax.set_yticks(range(len(rows)), words, fontsize=8)
    ax.grid(visible=False)
    ax.tick_params(length=0)
    faults = found.drop(index=[sound, "leaked coins"], errors="ignore")
    head_rows(figure, planted_headline(faults, run.values["often"]))
    return Drawn(
        figure,
        "Percentages: single steps of one run find most faults, audits from outside few.",
        f"How often (in %) an audit finds a fault: {given['runs']} runs each from inside "
        f"({given['sound_runs']} without a fault), {given['canaries']:,} canaries a run; "
        f"{given['outside_models']:,} models from outside, or one. Each audit may raise a false "
        f"alarm in {1 - given['level']:.0%}. With a star: it cannot show more than "
        f"{given['epsilon']:g}, whatever is wrong. With leaked coins the training is sound.",
    )
