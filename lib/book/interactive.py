"""Interactive figures that work on a static page: controls, data and a still figure, as HTML.

What moves is computed in the browser by ``static/widgets.js``, which the site loads; the tests
compare it with what :mod:`lib` computes.  Without scripts, as in a downloaded notebook, a reader
sees the still figure.
"""

import html
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from lib import audit, selective, suitability
from lib.book.render import image_html
from lib.book.session import Chapter, _display
from lib.counterfactual import PositivityWarning, counterfactual_difference, estimate_from_nuisances
from lib.plot import COLOURS, new_figure, svg_bytes
from lib.studies.counterfactual import simulation

#: Least probabilities of an answer that :func:`positivity` computes.
POSITIVITY_LEVELS = (
    0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5,
)  # fmt: skip

_MOST_TRIALS = 1000  # of a count
_QUANTILES = 300  # at most, of the scores of a kind of prediction
_POINTS = 400  # of the curves; accuracies are multiples of 1/100
_ACCURACY = 0.8  # at first

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Control:
    """What a reader can move: a range, or a choice where there are `options`.

    The script knows it by its `name`; `number` says whether a number can be typed, too.
    """

    name: str
    label: str
    low: float = 0
    high: float = 1
    step: float = 0.01
    value: float = 0
    options: tuple[str, ...] = ()
    number: bool = False

    def html(self, prefix: str) -> str:
        """The control with its label, tied to it by an id that begins with `prefix`."""
        own, name = f"{prefix}-{self.name}", html.escape(self.name)
        label = f"<label for='{own}' id='{own}-label'>{html.escape(self.label)}</label>"
        if self.options:
            options = "".join(f"<option>{html.escape(text)}</option>" for text in self.options)
            inside = f"{label}<select id='{own}' data-control='{name}'>{options}</select>"
        else:
            limits = f"min='{self.low:g}' max='{self.high:g}' step='{self.step:g}'"
            limits += f" value='{self.value:g}'"
            if self.number:
                inside = (
                    f"{label}<input type='number' inputmode='numeric' id='{own}' "
                    f"data-control='{name}' {limits}><input type='range' data-mirror='{name}' "
                    f"aria-labelledby='{own}-label' {limits}>"
                )
            else:
                inside = (
                    f"{label}<output for='{own}' aria-live='off'></output>"
                    f"<input type='range' id='{own}' data-control='{name}' {limits}>"
                )
        return f"<div class='companion-control'>{inside}</div>"


@dataclass(frozen=True, eq=False)
class Widget:
    """An interactive figure.

    `kind` says which part of the script draws it, and is the end of its address on the page;
    `numbers` maps names in the script to what readers call them; `data` is what the script needs,
    as JSON; `still` the SVG of the still figure, `alt` what that shows and `moving` what the moving
    one shows; `caption` is what both mean, `still_caption` what is to be added where nothing moves.
    """

    kind: str
    title: str
    controls: tuple[Control, ...]
    numbers: Mapping[str, str]
    data: Mapping[str, Any] = field(repr=False)
    still: bytes = field(repr=False)
    alt: str
    moving: str
    caption: str
    still_caption: str

    def html(self, page: str) -> str:
        """The figure as HTML, for a page with the book's script and style."""
        prefix = f"widget-{page}-{self.kind}"
        numbers = "".join(
            f"<div><dt>{html.escape(text)}</dt><dd><data data-shown='{html.escape(name)}' value=''>"
            "</data></dd></div>"
            for name, text in self.numbers.items()
        )
        # Within a script `<` might begin `</script>`: JSON can do without it.
        data = json.dumps(self.data, allow_nan=False, separators=(",", ":"))
        data = data.replace("<", "\\u003c")
        return (
            f"<figure class='companion-widget' data-widget='{self.kind}' id='{prefix}'>"
            f"<div class='companion-still'>{image_html(self.still, self.alt)}"
            f"<p class='companion-said'>{html.escape(self.still_caption)}</p></div>"
            "<div class='companion-live' hidden>"
            f"<div class='companion-controls' role='group' aria-label='{html.escape(self.title)}'>"
            f"{''.join(control.html(prefix) for control in self.controls)}</div>"
            f"<svg role='img' aria-label='{html.escape(self.moving)}'></svg>"
            f"<dl class='companion-numbers'>{numbers}</dl>"
            "<p class='companion-said' role='status' aria-live='polite'></p>"
            f"<script type='application/json'>{data}</script></div>"
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )


def show(chapter: Chapter, widget: Widget) -> None:
    """Show an interactive figure as the output of a chapter's cell."""
    _display(
        {
            "text/html": widget.html(chapter.name),
            "text/plain": f"[interactive figure {widget.kind}: {widget.alt}]",
        }
    )


# ---------------------------------------------------------------------- accuracy and coverage


def order_scores(
    right: npt.ArrayLike, wrong: npt.ArrayLike, n_correct: int, n: int
) -> tuple[npt.NDArray[np.bool_], Array]:
    """Points of a given accuracy whose scores have given distributions: right ones first.

    `right` and `wrong` are at least two quantiles each, at (k + 1/2) / m, of the scores of right
    and of wrong predictions (of m predictions: their sorted scores), linear between them and
    constant beyond. Returned are the scores at (i + 1/2) / `n_correct` and at (i + 1/2) /
    (`n` - `n_correct`).

    Examples
    --------
    >>> correct, score = order_scores([1, 1], [0, 0], 2, 3)
    >>> correct.tolist(), score.tolist()
    ([True, True, False], [1.0, 1.0, 0.0])
    """
    parts = []
    for table, count in ((right, n_correct), (wrong, n - n_correct)):
        table = np.asarray(table, dtype=float)
        # The same operations in the same order as the script's: ties are ties in both.
        # (i + 1/2) m / count - 1/2, and exactly i where count is m.
        place = ((2 * np.arange(count) + 1) * len(table) / count - 1) / 2
        place = np.clip(place, 0, len(table) - 1)
        k = np.minimum(np.floor(place).astype(int), len(table) - 2)
        parts.append(table[k] + (table[k + 1] - table[k]) * (place - k))
    return np.arange(n) < n_correct, np.concatenate(parts)


def bound_and_score(models: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]) -> Widget:
    """The bound, the curve and the normalized score as accuracy moves and the order stays (P1).

    Right and wrong predictions keep the distributions of their scores; only their proportion
    changes. `models` maps a name to whether each prediction is right and its acceptance score; they
    are shown before simulated orders and the extremes.
    """
    orders = [_order(label, *given) for label, given in models.items()]
    for label, shift in (("simulated: fair scores", 1.0), ("simulated: good scores", 2.5)):
        normal = special.ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        tables = (shift + normal).round(5).tolist(), normal.round(5).tolist()
        orders.append({"label": label, "right": tables[0], "wrong": tables[1]})
    for label, right, wrong in (("perfect", 1, 0), ("random", 0, 0), ("worst", 0, 1)):
        orders.append({"label": label, "right": [right] * 2, "wrong": [wrong] * 2})
    figure, ax = new_figure(height=3.4)
    count = round(_ACCURACY * _POINTS)
    coverage = np.arange(1, _POINTS + 1) / _POINTS
    bound = selective.accuracy_bound(_ACCURACY, coverage)
    ax.plot(coverage, bound, color="black", linestyle="--", marker="", label="bound")
    scores = {}
    for i, order in enumerate(orders):
        points = order_scores(order["right"], order["wrong"], count, _POINTS)
        curve = selective.accuracy_coverage(*points)
        scores[order["label"]] = selective.normalized_score(*points)
        if order["label"] != "perfect":  # lies on the bound
            ax.plot(
                curve.coverage[::2], curve.accuracy[::2], color=COLOURS[i % 7], marker="",
                linestyle=("-", "-.", ":", (0, (5, 1)))[i % 4], label=order["label"],
            )  # fmt: skip
    ax.set_xlabel("coverage")
    ax.set_ylabel("selective accuracy")
    ax.set_ylim(0, 1.02)
    ax.legend(loc="lower right", fontsize=8)
    listed = ", ".join(f"{label} {score:.4f}" for label, score in scores.items())
    return Widget(
        kind="bound-and-score",
        title="Accuracy and order",
        controls=(
            Control("accuracy", "Accuracy at full coverage", 0.05, 0.99, 0.01, _ACCURACY),
            Control("order", "Order of acceptance", options=tuple(o["label"] for o in orders)),
        ),
        numbers={
            "score": "normalized score",
            "random": "score of a random order",
            "bound_area": "area under the bound",
            "curve_area": "area under the curve",
        },
        data={"n": _POINTS, "orders": orders},
        still=svg_bytes(figure, "bound-and-score"),
        alt=(
            f"Selective accuracy against coverage at accuracy {_ACCURACY:.2f}: the bound, "
            f"dashed, and below it the curves of {len(orders) - 1} orders."
        ),
        moving="The bound, dashed, the curve of the chosen order, and the area between them.",
        caption=(
            "The same confidence, another accuracy: right and wrong answers keep the distributions "
            f"of their scores and only their proportion changes ({_POINTS} points; the area under "
            "the bound is that for infinitely many). The normalized score is the shaded area."
        ),
        still_caption=f"Normalized scores at accuracy {_ACCURACY:.2f}: {listed}.",
    )


def _order(label: str, correct: Any, score: Any) -> dict[str, Any]:
    """Quantiles of the scores, as ranks in [0, 1]: finite, and equal where scores are equal."""
    curve = selective.accuracy_coverage(correct, score)  # checks its input
    if curve.full_accuracy in (0, 1):
        raise ValueError(f"models[{label!r}] must have both right and wrong predictions")
    correct, score = np.asarray(correct) == 1, np.asarray(score)
    _, rank, size = np.unique(score, return_inverse=True, return_counts=True)
    middle = (np.cumsum(size) - (size + 1) / 2) / max(1, len(score) - 1)
    parts = []
    for rows in (correct, ~correct):
        ranks = np.sort(middle[rank][rows])
        if len(ranks) > _QUANTILES:
            ranks = np.quantile(ranks, (np.arange(_QUANTILES) + 0.5) / _QUANTILES, method="hazen")
        parts.append(ranks.round(6).tolist() if len(ranks) > 1 else [float(ranks[0])] * 2)
    return {"label": label, "right": parts[0], "wrong": parts[1]}


# ---------------------------------------------------------------------- the posterior of epsilon


def epsilon_posterior(
    counts: audit.AttackCounts, delta: float = 1e-5, level: float = 0.95
) -> Widget:
    """The posterior of epsilon and its interval as an attack's four counts move (P3)."""
    low, high = audit.epsilon_interval(counts, delta, level)
    names = {
        "tp": "True positives: “in”, and it was",
        "fp": "False positives: “in”, but it was not",
        "tn": "True negatives: “out”, and it was",
        "fn": "False negatives: “out”, but it was in",
    }
    posterior = audit.epsilon_posterior(counts, delta)
    right = max(0.5, 1.15 * float(posterior.isf((1 - level) / 20)))
    figure, ax = new_figure()
    eps = np.linspace(1e-4, right, 200)
    ax.plot(eps, posterior.pdf(eps), color=COLOURS[1], marker="")
    inside = np.linspace(max(low, 1e-4), max(high, 1e-4), 100)
    ax.fill_between(inside, posterior.pdf(inside), color=COLOURS[1], alpha=0.2)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("epsilon")
    ax.set_ylabel("posterior density")
    listed = ", ".join(f"{name.upper()} {getattr(counts, name)}" for name in names)
    return Widget(
        kind="epsilon-posterior",
        title="Counts of an attack",
        controls=tuple(
            Control(name, label, 0, _MOST_TRIALS, 1, getattr(counts, name), number=True)
            for name, label in names.items()
        ),
        numbers={
            "low": f"{100 * level:g}% interval, low",
            "high": "high",
            "median": "median",
            "zero": "probability of epsilon = 0",
        },
        data={"delta": delta, "level": level, "most": _MOST_TRIALS},
        still=svg_bytes(figure, "epsilon-posterior"),
        alt=f"Density of epsilon for {listed}, shaded from {low:.2f} to {high:.2f}.",
        moving="Posterior density of epsilon with its interval shaded and drawn below.",
        caption=(
            f"What an attack's counts say about epsilon at delta = {delta:g}: posterior density "
            f"(Jeffreys priors) and equal-tailed {100 * level:g}% interval."
        ),
        still_caption=f"{listed}: from {low:.3f} to {high:.3f}.",
    )


# ---------------------------------------------------------------------- suitability


def suitability_decision(
    folds: Mapping[str, Sequence[Any]], margin: float = 0.0, alpha: float = 0.05
) -> Widget:
    """The suitability filter's decision as margin and significance level move (P2).

    `folds` maps the name of a user fold to ``(test, user, true_drop)``: the estimated correctness
    of each sample, and the true accuracy on test data minus that on user data. The margin is in
    [0, 0.1], alpha in [0.001, 0.2].
    """
    margin, alpha = round(margin, 3), round(alpha, 3)
    margins = np.linspace(-0.1, 0.2, 151)
    figure, ax = new_figure(height=3.2)
    data, said = [], []
    for i, (label, (test, user, true_drop)) in enumerate(folds.items()):
        moments = []
        for sample in (test, user):
            values = np.asarray(sample, dtype=float)
            moments.append([float(values.mean()), float(values.var(ddof=1)), len(values)])
        data.append(
            {"label": label, "test": moments[0], "user": moments[1], "true_drop": float(true_drop)}
        )
        p = suitability.welch_non_inferiority(*moments[0], *moments[1], margins)[1]
        found = float(suitability.welch_non_inferiority(*moments[0], *moments[1], margin)[1])
        said.append(f"{label}: {'SUITABLE' if found <= alpha else 'INCONCLUSIVE'}")
        ax.plot(
            margins, p, color=COLOURS[i % 7], marker="", label=label,
            linestyle=("-", "--", "-.", ":")[i % 4],
        )  # fmt: skip
    ax.axhline(alpha, color="black", linestyle=":", linewidth=1.2, marker="")
    ax.axvline(margin, color="black", linestyle=":", linewidth=1.2, marker="")
    ax.set_xlabel("margin")
    ax.set_ylabel("p-value")
    ax.legend(fontsize=9)
    # The axis stays while controls move, but for folds far away from the rest.
    drops = [d["test"][0] - d["user"][0] for d in data]
    span = [min(-0.02, *drops), max(0.1, *drops)]
    return Widget(
        kind="suitability-decision",
        title="User data, margin and significance level",
        controls=(
            Control("fold", "User data", options=tuple(folds)),
            Control("margin", "Margin m: acceptable drop", 0, 0.1, 0.001, margin),
            Control("alpha", "Significance level alpha", 0.001, 0.2, 0.001, alpha),
        ),
        numbers={
            "decision": "decision",
            "p_value": "p-value",
            "required": "smallest suitable margin",
            "drop": "estimated drop",
        },
        data={"folds": data, "span": span},
        still=svg_bytes(figure, "suitability-decision"),
        alt=(
            f"p-value of the non-inferiority test against the margin, falling, for {len(folds)} "
            "sets of user data; dotted lines mark alpha and the margin."
        ),
        moving=(
            "A scale of the drop in accuracy: the estimated drop with its upper confidence limit, "
            "and the margin. Suitable if the whole bar is left of the margin."
        ),
        caption=(
            "The filter's decision. SUITABLE if the upper confidence limit of the drop, at level "
            "1 - alpha, is at most the margin: the p-value is then at most alpha."
        ),
        still_caption=f"At margin {margin:g} and alpha {alpha:g}: {'; '.join(said)}.",
    )


# ---------------------------------------------------------------------- positivity


def positivity(n: int = 2000, learner: str = "forest", *, seed: int) -> Widget:
    """Overlap and the doubly robust interval as positivity moves (P4, experiment 1).

    Propensities are clipped at the same levels; inputs, labels and coins are the same at each.
    About 0.3 s a level with forests and 2000 points.
    """
    levels = POSITIVITY_LEVELS
    data = [_at_level(n, learner, level, seed) for level in levels]
    truth = simulation.true_difference()
    figure, ax = new_figure(height=3.2)
    for name, title, colour, marker, shift in (
        ("dr", "doubly robust", COLOURS[0], "o", -0.15),
        ("ipw", "IPW", COLOURS[1], "s", 0.15),
    ):
        value, low, high = np.array([d[name] for d in data]).T
        ax.errorbar(
            np.arange(len(levels)) + shift, value, [value - low, high - value], color=colour,
            marker=marker, markersize=4, linestyle="", linewidth=1.4, label=title,
        )  # fmt: skip
    ax.axhline(truth, color="black", linestyle="--", linewidth=1.2, marker="", label="truth")
    places = range(0, len(levels), -(-len(levels) // 6))
    ax.set_xticks(list(places), [f"{levels[i]:g}" for i in places])
    ax.set_xlabel("least probability of an answer")
    ax.set_ylabel("score of A minus that of B")
    ax.legend(fontsize=9)
    start = len(levels) // 2
    first, last = data[0], data[-1]
    return Widget(
        kind="positivity",
        title="Positivity",
        controls=(
            Control("epsilon", "Least probability of an answer", 0, len(levels) - 1, 1, start),
        ),
        numbers={
            "dr": "doubly robust estimate",
            "dr_low": "95% interval, low",
            "dr_high": "high",
            "ipw_low": "IPW's interval, low",
            "ipw_high": "high",
            "ess": "A's effective sample size",
            "clipped": "A's propensities clipped",
        },
        data={"levels": data, "truth": truth},
        still=svg_bytes(figure, "positivity"),
        alt=(
            f"Doubly robust and IPW intervals at {len(levels)} levels of positivity from "
            f"{levels[0]:g} to {levels[-1]:g}, and the truth as a dashed line."
        ),
        moving=(
            "Above, a histogram of A's estimated propensity to abstain, answered and abstained "
            "points stacked; below, the doubly robust and the IPW interval, and the truth."
        ),
        caption=(
            f"One simulated data set of {n:,} points ({learner} learners, seed {seed}), in which "
            "both classifiers abstain ever more surely near their boundaries, to the left. "
            "Propensities are clipped at one minus the level."
        ),
        still_caption=(
            f"Width of the doubly robust interval: {_width(first):.3f} at {levels[0]:g}, "
            f"{_width(last):.3f} at {levels[-1]:g}."
        ),
    )


def _at_level(n: int, learner: str, level: float, seed: int) -> dict[str, Any]:
    drawn = simulation.simulate(n, epsilon=level, rng=seed)
    (a, b), (r, s) = drawn.scores, drawn.abstained
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dr = counterfactual_difference(drawn.X, a, r, b, s, learner=learner, clip=level, rng=seed)
    for each in caught:  # the reader gets to see this one, others go where they belong
        if not issubclass(each.category, PositivityWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    ipw = estimate_from_nuisances(dr.nuisances, estimator="ipw", clip=level)
    facts = dr.diagnostics[0]
    return {
        "epsilon": level,
        "answered": facts.propensity_answered.tolist(),
        "abstained": facts.propensity_abstained.tolist(),
        "ess": facts.effective_sample_size,
        "clipped": facts.clipped,
        "warning": any(each.positivity for each in dr.diagnostics),
        "dr": [dr.value, *dr.interval],
        "ipw": [ipw.value, *ipw.interval],
    }


def _width(level: Mapping[str, Any]) -> float:
    return level["dr"][2] - level["dr"][1]
